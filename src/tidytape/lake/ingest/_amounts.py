"""Which amounts of a file are converted, and by what: decided per table and market before anything is written.

Sources in this order: the caller, the registry, the file's own list of contracts, and what the file's messages, the
symbol or the exchange's documentation say, see `amount_units`. Where no source says it, the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from tidytape.errors import QueryError, counted
from tidytape.frames.grid import exact
from tidytape.lake.amount_units import AmountUnit
from tidytape.lake.ingest._registration import Instrument
from tidytape.lake.ingest.contracts import COUNTED, QUOTE, Contract, ContractKind
from tidytape.lake.ingest.layout import Parsed
from tidytape.lake.ingest.market import Market
from tidytape.lake.ingest.report import Note
from tidytape.lake.table import Table
from tidytape.lake.tables import MARKETS, OPEN_INTEREST, OPTION_QUOTES, RECORDED_CANDLES, TABLES, TRADES

_WITH_COINS = (OPEN_INTEREST, RECORDED_CANDLES)
"""Tables whose rows of coin-margined futures come with their coins."""


@dataclass(frozen=True, slots=True)
class Conversions:
    """How the amounts of a file become coins.

    Attributes
    ----------
    contracts : dict of str to dict of (str, str) to Contract
        By table and market; amounts of other markets are in coin.
    registry : polars.DataFrame, one row per market
        Key, ``contract``, ``contract_size`` and ``amount_units`` to be registered before the events.
    """

    contracts: dict[str, dict[Instrument, Contract]]
    registry: pl.DataFrame


HoldsEvents = Callable[[Instrument, Collection[Table]], bool]
"""Whether the lake has rows of a market in one of some tables."""


def units_of(text: str | None) -> dict[str, AmountUnit]:
    """Return the units by table that the registry's column ``amount_units`` holds.

    Examples
    --------
    >>> units_of("candles=quote,trades=coin")
    {'candles': <AmountUnit.QUOTE: 'quote'>, 'trades': <AmountUnit.COIN: 'coin'>}
    """
    pairs = (part.partition("=") for part in (text or "").split(","))
    return {table: AmountUnit(unit) for table, _, unit in pairs if unit in set(AmountUnit)}


def conversions(
    parsed: Parsed, said: Market, registered: pl.DataFrame, holds_events: HoldsEvents
) -> Conversions:
    """Return how the amounts of a file become coins.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    said : Market
        What the caller says; it holds for every market of the file.
    registered : polars.DataFrame
        The registry.
    holds_events : callable
        See `HoldsEvents`.

    Raises
    ------
    QueryError
        If the amounts of a market count contracts or the quote, or an unknown unit, and neither caller nor registry
        says what to do; or if the lake has amounts that were stored by another unit than the one that is said now.
    """
    known = _Registered.of(registered)
    found = Conversions({}, MARKETS.empty())
    new_contracts = (
        {} if said.stated_contract is None else dict.fromkeys(_markets(parsed), said.stated_contract)
    )
    new_units: dict[Instrument, dict[str, AmountUnit]] = {}
    unsaid: list[tuple[Table, Instrument, AmountUnit | None]] = []
    for table, market in _counted(parsed):
        contract = _contract(market, said, known, parsed)
        unit = _unit(table, market, said, known, parsed)
        is_guess = unit is AmountUnit.QUOTE and (said.stated_unit or known.unit(table, market)) is not unit
        if unit is None or is_guess or (unit is AmountUnit.CONTRACTS and contract is None):
            unsaid.append((table, market, unit))
            continue
        _require_same_as_stored(table, market, unit, known, holds_events)
        one = contract if unit is AmountUnit.CONTRACTS else QUOTE if unit is AmountUnit.QUOTE else None
        if one is not None:
            found.contracts.setdefault(table.name, {})[market] = one
        if unit is AmountUnit.CONTRACTS and one is not None:
            new_contracts[market] = one
        if said.amount_unit is not None or known.units.get(market, {}).get(table.name, unit) is not unit:
            new_units.setdefault(market, dict(known.units.get(market, {})))[table.name] = unit
    if unsaid:
        raise _unsaid(unsaid, parsed)
    new_contracts = {
        market: contract
        for market, contract in new_contracts.items()
        if known.contracts.get(market) != contract
    }
    for market, contract in new_contracts.items():
        _require_first(market, contract, known, parsed, holds_events)
    return replace(found, registry=_registry_rows(new_contracts, new_units))


def _markets(parsed: Parsed) -> set[Instrument]:
    """Return the markets of a file, of whatever table."""
    return {
        (name[0], name[1])
        for batch in parsed.batches
        if batch.table.partitions == TRADES.partitions
        for name in batch.instruments
    }


def _counted(parsed: Parsed) -> Iterator[tuple[Table, Instrument]]:
    """Yield the tables and markets of a file whose amounts need a unit."""
    for table in COUNTED:
        if table.name not in parsed.coins:
            for exchange, symbol in parsed.batch(table).instruments:
                yield table, (exchange, symbol)


@dataclass(frozen=True, slots=True)
class _Registered:
    """What the registry says of contracts and units, by market."""

    contracts: Mapping[Instrument, Contract]
    units: Mapping[Instrument, Mapping[str, AmountUnit]]

    @classmethod
    def of(cls, registered: pl.DataFrame) -> _Registered:
        rows = registered.select("exchange", "raw_symbol", "contract", "contract_size", "amount_units").rows()
        return cls(
            {
                (exchange, symbol): Contract(ContractKind(kind), exact(size))
                for exchange, symbol, kind, size, _ in rows
                if kind is not None and size is not None
            },
            {(exchange, symbol): units_of(units) for exchange, symbol, _, _, units in rows if units},
        )

    def unit(self, table: Table, market: Instrument) -> AmountUnit | None:
        said = self.units.get(market, {}).get(table.name)
        return said or (AmountUnit.CONTRACTS if market in self.contracts else None)


def _contract(market: Instrument, said: Market, known: _Registered, parsed: Parsed) -> Contract | None:
    """Return what one contract of a market is; QueryError if the file contradicts caller or registry."""
    contract = said.stated_contract or known.contracts.get(market)
    listed = parsed.contracts.get(market)
    if listed is not None and contract not in {None, listed}:
        raise QueryError(
            "contract",
            got=_text(contract),
            expected=f"what the list of instruments says of {' '.join(market)}: {_text(listed)}",
        )
    if market in parsed.inverse:
        if said.stated_unit not in {None, AmountUnit.CONTRACTS}:
            raise QueryError(
                "amount_unit",
                got=str(said.stated_unit),
                expected=f"contracts: {' '.join(market)} is a future with margin in coin",
            )
        if contract is not None and contract.kind is not ContractKind.INVERSE:
            raise QueryError(
                "contract",
                got=contract.kind.value,
                expected=f"INVERSE: {' '.join(market)} is a future with margin in coin",
            )
    return contract or listed


def _unit(
    table: Table, market: Instrument, said: Market, known: _Registered, parsed: Parsed
) -> AmountUnit | None:
    """Return what the amounts of a market count in a table, None if nothing says it."""
    unit = said.stated_unit or known.unit(table, market)
    if unit is not None:
        return unit
    if table is RECORDED_CANDLES and market in parsed.inverse:
        return AmountUnit.COIN  # the candles have their coins beside
    if market in parsed.contracts or market in parsed.inverse:
        return AmountUnit.CONTRACTS
    return parsed.amount_unit(table.name, *market)


def _require_same_as_stored(
    table: Table, market: Instrument, unit: AmountUnit, known: _Registered, holds_events: HoldsEvents
) -> None:
    """Raise QueryError if a table has amounts of a market that were in another unit when they went in."""
    if unit is AmountUnit.CONTRACTS and known.unit(table, market) in {None, unit}:
        return  # the contract is compared by `_require_first`
    stored = known.unit(table, market) or AmountUnit.COIN
    if stored is not unit and holds_events(market, [table]):
        before = _stored_text(stored, known.contracts.get(market))
        raise _contradicted(market, "amount_unit", str(unit), f"{before} ({table.name})")


def _require_first(
    market: Instrument, contract: Contract, known: _Registered, parsed: Parsed, holds_events: HoldsEvents
) -> None:
    """Raise QueryError if the lake has amounts of a market that were stored without this contract."""
    certain = market in parsed.inverse and market not in known.contracts
    tables = [
        table
        for table in COUNTED
        if table.name not in known.units.get(market, {}) and not (certain and table in _WITH_COINS)
    ]
    if holds_events(market, tables):
        before = _text(known.contracts[market]) if market in known.contracts else "amounts in coin"
        raise _contradicted(market, "contract", _text(contract), before)


def _contradicted(market: Instrument, name: str, got: str, stored: str) -> QueryError:
    return QueryError(name, got=got, expected=f"what {' '.join(market)} was stored with: {stored}")


def _stored_text(unit: AmountUnit, contract: Contract | None) -> str:
    return _text(contract) if unit is AmountUnit.CONTRACTS and contract else f"amounts in {unit}"


def _text(contract: Contract | None) -> str:
    return "" if contract is None else f"{contract.kind} of {contract.size:f}"


_SHOWN = 3
"""Markets that one message names."""


def _unsaid(unsaid: list[tuple[Table, Instrument, AmountUnit | None]], parsed: Parsed) -> QueryError:
    """Return the error that names the first markets whose unit has to be said, and how to say it."""
    table, market, unit = unsaid[0]
    markets = sorted({one for _, one, _ in unsaid})
    others = [one for one in markets if one != market]
    more = ""
    if others:
        shown = ", ".join(" ".join(one) for one in others[:_SHOWN])
        left = f" and {counted(len(others) - _SHOWN, 'other market')}" if len(others) > _SHOWN else ""
        more = f"; the same holds for {shown}{left}"
    what = f"the amounts of {' '.join(market)}"
    more = f" ({table.name}){more}"
    if market in parsed.inverse:
        return QueryError(
            "contract",
            got=None,
            expected=f"INVERSE, and the contract_size, for {what} are numbers of contracts{more}; e.g. --contract "
            "inverse --contract-size 100, in USD, as the exchange's specification says",
        )
    if unit is AmountUnit.CONTRACTS:
        return QueryError(
            "contract",
            got=None,
            expected=f"what one contract is, and its contract_size, for {what} are numbers of contracts{more}; e.g. "
            "--contract linear --contract-size 0.01, or amount_unit (--amount-unit coin) if they were converted",
        )
    if unit is AmountUnit.QUOTE:
        return QueryError(
            "amount_unit",
            got=None,
            expected=f"quote (--amount-unit quote), for {what} count the quote{more}; or coin if they were converted",
        )
    return QueryError(
        "amount_unit",
        got=None,
        expected=f"coin, quote or contracts (--amount-unit): nothing says which of them {what} count{more}",
    )


def _registry_rows(
    contracts: Mapping[Instrument, Contract], units: Mapping[Instrument, Mapping[str, AmountUnit]]
) -> pl.DataFrame:
    rows = [
        {
            "exchange": market[0],
            "raw_symbol": market[1],
            "contract": contracts[market].kind.value if market in contracts else None,
            "contract_size": float(contracts[market].size) if market in contracts else None,
            "amount_units": _units_text(units[market]) if market in units else None,
        }
        for market in sorted({*contracts, *units})
    ]
    return MARKETS.conform(pl.DataFrame(rows, schema_overrides=MARKETS.polars())) if rows else MARKETS.empty()


def _units_text(units: Mapping[str, AmountUnit]) -> str:
    return ",".join(f"{name}={units[name]}" for name in TABLES if name in units)


_LEFT_OUT = (
    "whose open interest counts contracts or an unknown unit and is left out; amount_unit (--amount-unit coin), or "
    "contract and contract_size, say what it counts"
)


def known_option_interest(parsed: Parsed, said: Market) -> None:
    """Convert the open interest of option quotes to coin; where its unit is unknown, make it null and note how many.

    Options are no markets of the registry, and a chain is worth having without its open interest.
    """
    batch = parsed.batch(OPTION_QUOTES)
    contract = said.stated_contract
    if contract is not None and contract.kind is not ContractKind.INVERSE:
        batch.change(partial(_times, size=float(contract.size)))
        return
    if said.stated_unit is AmountUnit.COIN:
        return
    unknown = [
        exchange
        for exchange in sorted({name[0] for name in batch.instruments})
        if said.stated_unit is not None
        or parsed.amount_unit(OPTION_QUOTES.name, exchange, "") is not AmountUnit.COIN
    ]
    if not unknown:
        return
    left_out = pl.col("exchange").is_in(unknown) & pl.col("open_interest").is_not_null()
    for exchange in unknown:
        count = sum(part.frame().filter(left_out & (pl.col("exchange") == exchange)).height for part in batch)
        if count:
            parsed.notes.append(Note("option quote", _LEFT_OUT, count, exchange))
    batch.change(partial(_without, exchanges=unknown))


def _times(quotes: pl.DataFrame, *, size: float) -> pl.DataFrame:
    return quotes.with_columns(pl.col("open_interest") * size)


def _without(quotes: pl.DataFrame, *, exchanges: list[str]) -> pl.DataFrame:
    known = ~pl.col("exchange").is_in(exchanges)
    return quotes.with_columns(open_interest=pl.when(known).then("open_interest"))
