"""What an ingest decides of the markets of a file before anything is written: how amounts convert, names, block sizes.

What amounts count is decided per table and market, by these sources in this order: the caller, the registry, the
file's own list of contracts, and what the file's messages, the symbol or the exchange's documentation say, see
`amount_units`. Where no source says it, the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from tidytape.catalogue import BookSide, Category
from tidytape.errors import QueryError, counted
from tidytape.frames._grid import Grid, exact, recommended_block_size
from tidytape.lake._amount_units import AmountUnit
from tidytape.lake._symbols import Symbol, guessed, told_class
from tidytape.lake._tables import (
    BOOK,
    CME_OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    OPTION_QUOTES,
    RECORDED_CANDLES,
    TABLES,
    TRADES,
    Table,
)
from tidytape.lake.ingest._contracts import COUNTED, QUOTE, Contract, ContractKind
from tidytape.lake.ingest._layout import Parsed
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import Note

MarketName = tuple[str, str]
"""Exchange and symbol."""

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

    contracts: dict[str, dict[MarketName, Contract]]
    registry: pl.DataFrame


HoldsEvents = Callable[[MarketName, Collection[Table]], bool]
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
    units: dict[MarketName, dict[str, AmountUnit]] = {}
    new_contracts = (
        {} if said.stated_contract is None else dict.fromkeys(_markets(parsed), said.stated_contract)
    )
    new_units: dict[MarketName, dict[str, AmountUnit]] = {}
    unsaid: list[tuple[Table, MarketName, AmountUnit | None]] = []
    for table, market in _counted(parsed):
        contract = _contract(market, said, known, parsed)
        unit = _unit(table, market, said, known, parsed)
        is_guess = unit is AmountUnit.QUOTE and (said.stated_unit or known.unit(table, market)) is not unit
        if unit is None or is_guess or (unit is AmountUnit.CONTRACTS and contract is None):
            unsaid.append((table, market, unit))
            continue
        units.setdefault(market, dict(known.units.get(market, {})))[table.name] = unit
        one = contract if unit is AmountUnit.CONTRACTS else QUOTE if unit is AmountUnit.QUOTE else None
        if one is not None:
            found.contracts.setdefault(table.name, {})[market] = one
        if unit is AmountUnit.CONTRACTS and one is not None:
            new_contracts[market] = one
        if said.amount_unit is not None or known.units.get(market, {}).get(table.name, unit) is not unit:
            new_units[market] = units[market]
    if unsaid:
        raise _unsaid(unsaid, parsed)
    for market in sorted({*units, *new_contracts}):
        contract = new_contracts.get(market, known.contracts.get(market))
        _require_as_stored(
            market,
            contract,
            units.get(market, {}),
            known=known,
            has_coins=market in parsed.inverse and market not in known.contracts,
            holds_events=holds_events,
        )
    new_contracts = {
        market: contract
        for market, contract in new_contracts.items()
        if known.contracts.get(market) != contract
    }
    return replace(found, registry=_registry_rows(new_contracts, new_units))


def _markets(parsed: Parsed) -> set[MarketName]:
    """Return the markets of a file, of whatever table."""
    return {
        (name[0], name[1])
        for batch in parsed.batches
        if batch.table.partitions == TRADES.partitions
        for name in batch.markets
    }


def _counted(parsed: Parsed) -> Iterator[tuple[Table, MarketName]]:
    """Yield the tables and markets of a file whose amounts need a unit."""
    for table in COUNTED:
        if table.name not in parsed.coins:
            for exchange, symbol in parsed.batch(table).markets:
                yield table, (exchange, symbol)


@dataclass(frozen=True, slots=True)
class _Registered:
    """What the registry says of contracts and units, by market."""

    contracts: Mapping[MarketName, Contract]
    units: Mapping[MarketName, Mapping[str, AmountUnit]]

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

    def unit(self, table: Table, market: MarketName) -> AmountUnit | None:
        said = self.units.get(market, {}).get(table.name)
        return said or (AmountUnit.CONTRACTS if market in self.contracts else None)


def _contract(market: MarketName, said: Market, known: _Registered, parsed: Parsed) -> Contract | None:
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
    table: Table, market: MarketName, said: Market, known: _Registered, parsed: Parsed
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


def _require_as_stored(
    market: MarketName,
    contract: Contract | None,
    units: Mapping[str, AmountUnit],
    *,
    known: _Registered,
    has_coins: bool,
    holds_events: HoldsEvents,
) -> None:
    """Raise QueryError if the lake has amounts of a market that were converted otherwise than new ones would be.

    A contract that is registered holds for every table of the market whose unit nobody said.
    """
    stored = known.contracts.get(market)
    for table in COUNTED:
        before = known.unit(table, market) or AmountUnit.COIN
        after = units.get(table.name) or (AmountUnit.CONTRACTS if contract else before)
        is_contract = after is AmountUnit.CONTRACTS
        is_same = before is after and (not is_contract or stored == contract)
        if (
            is_same
            or (is_contract and has_coins and table in _WITH_COINS)
            or not holds_events(market, [table])
        ):
            continue
        was = _text(stored) if before is AmountUnit.CONTRACTS and stored else f"amounts in {before}"
        said_unit = known.units.get(market, {}).get(table.name)
        name, got = (
            ("contract", _text(contract)) if is_contract and not said_unit else ("amount_unit", str(after))
        )
        raise QueryError(
            name, got=got, expected=f"what {' '.join(market)} was stored with: {was} ({table.name})"
        )


def _text(contract: Contract | None) -> str:
    return "" if contract is None else f"{contract.kind} of {contract.size:f}"


_SHOWN = 3
"""Markets that one message names."""


def _unsaid(unsaid: list[tuple[Table, MarketName, AmountUnit | None]], parsed: Parsed) -> QueryError:
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
            expected=f"INVERSE, and the ``contract_size``, for {what} are numbers of contracts{more}; e.g. "
            "``Market(contract='inverse', contract_size=100)``, in USD, as the exchange's specification says",
        )
    if unit is AmountUnit.CONTRACTS:
        return QueryError(
            "contract",
            got=None,
            expected=f"what one contract is, and its ``contract_size``, for {what} are numbers of contracts{more}; "
            'e.g. ``Market(contract="linear", contract_size=0.01)``, or ``amount_unit="coin"`` if they were converted',
        )
    if unit is AmountUnit.QUOTE:
        return QueryError(
            "amount_unit",
            got=None,
            expected=f"quote (``amount_unit='quote'``), for {what} count the quote{more}; "
            "or coin if they were converted",
        )
    return QueryError(
        "amount_unit",
        got=None,
        expected=f"coin, quote or contracts: nothing says which of them {what} count{more}",
    )


def _registry_rows(
    contracts: Mapping[MarketName, Contract], units: Mapping[MarketName, Mapping[str, AmountUnit]]
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
        for exchange in sorted({name[0] for name in batch.markets})
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


def registry_rows(
    parsed: Parsed, said: Market, registered: pl.DataFrame, *, earlier: Collection[MarketName] = ()
) -> tuple[pl.DataFrame, set[MarketName]]:
    """Return what to register of the markets in a file, and which of them were guessed.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    said : Market
        What the caller says; a name holds for the files' only market.
    registered : polars.DataFrame
        The registry.
    earlier : collection of (str, str)
        Markets of the files before, of which the caller said the same.

    Returns
    -------
    polars.DataFrame, one row per market, sorted
        The table MARKETS.
    set of (str, str)
        Their (exchange, raw_symbol), of those whose coin and quote come from the raw symbol.

    Raises
    ------
    QueryError
        If the symbol of a file's only market cannot be guessed and is neither given nor registered, or one name is
        given to several. Of several markets, those that cannot be guessed get no names.
    """
    _require_class(parsed, said, registered)
    is_piece = parsed.piece is not None  # later ones may hold other markets, and the first event
    seen = _seen(parsed)
    every = sorted({*seen, *earlier})
    if len(every) > 1 and seen and (said.normalized_symbol or said.coin):
        raise QueryError(
            "normalized_symbol" if said.normalized_symbol else "coin",
            got=said.normalized_symbol or said.coin,
            expected="files of one market; these hold " + ", ".join(symbol for _, symbol in every),
        )
    named = registered.filter(pl.col("coin").is_not_null()).select("exchange", "raw_symbol")
    known: set[MarketName] = set(named.iter_rows())
    guesses: set[MarketName] = set()
    rows = []
    dated = registered.filter(pl.col("available_since").is_not_null()).select("exchange", "raw_symbol")
    since_known: set[MarketName] = set(dated.iter_rows())
    for market, facts in seen.items():
        names: dict[str, str | None] = {}
        if said.normalized_symbol or said.coin or market not in known:
            names = _names(market[1], said, needed=facts.traded and len(seen) == 1 and not is_piece)
        if names and said.normalized_symbol is None:
            guesses.add(market)
        unknown_time = facts.since is None and market not in since_known and not is_piece
        rows.append(
            {
                "exchange": market[0],
                "raw_symbol": market[1],
                **names,
                "category": _class_of(market, said, facts, parsed),
                "tick_size": None if said.tick_size is None else float(exact(said.tick_size)),
                "block_size": _block_size(said, facts.price),
                # Another clock says nothing about what the exchange's clock has said.
                "available_since": facts.received if unknown_time else facts.since,
            }
        )
    return MARKETS.conform(
        pl.DataFrame(rows, schema_overrides=MARKETS.polars())
    ) if rows else MARKETS.empty(), guesses


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a file shows of a market.

    Attributes
    ----------
    since : int or None
        Its first event by the exchange's clock. [ns]
    received : int
        Its first event by any clock. [ns]
    price : float or None
        That of its first trade, else the middle of its first snapshot, else the open of its first candle.
        [quote per coin]
    traded : bool
        It has trades, a book or candles.
    funded : bool
        It has funding rates.
    """

    since: int | None
    received: int
    price: float | None
    traded: bool
    funded: bool


def _class_of(market: MarketName, said: Market, facts: _Seen, parsed: Parsed) -> str | None:
    """The class said; else what the symbol tells, PERPETUAL of what is funded, and SPOT of what is traded.

    Not SPOT if the file may hold markets of every class, or can only be of futures. Open interest alone may be of a
    perpetual or of a future.
    """
    if said.category:
        return said.category
    told = told_class(market[1])
    if told is not None or facts.funded:
        return told or Category.PERPETUAL.value
    return Category.SPOT.value if facts.traded and not (parsed.any_class or parsed.futures) else None


def _require_class(parsed: Parsed, said: Market, registered: pl.DataFrame) -> None:
    """Raise QueryError if a file of futures would be mixed with a spot market of the same name."""
    if not parsed.futures:
        return
    spot = registered.filter(pl.col("category") == Category.SPOT.value).select("exchange", "raw_symbol")
    mixed = sorted(set(spot.iter_rows()) & set(_seen(parsed)))
    if mixed or (said.category and said.category == Category.SPOT.value):
        what = " ".join(mixed[0]) if mixed else "these markets"
        raise QueryError(
            "exchange",
            got=mixed[0][0] if mixed else None,
            expected=f"another name of the exchange: the file is of futures, and {what} is a spot market",
        )


_TIME = pl.col("timestamp")
_FIRST_SNAPSHOT = pl.col("is_snapshot") & (pl.col("last_id") == pl.col("last_id").filter("is_snapshot").min())
_BID, _ASK = (
    pl.col("price").filter(_FIRST_SNAPSHOT & (pl.col("side") == side.value))
    for side in (BookSide.BID, BookSide.ASK)
)
_SINCE = {
    # A snapshot without a time of the exchange has the recorder's, whose clock is another.
    BOOK.name: _TIME.filter(~pl.col("is_snapshot") | _TIME.ne_missing(pl.col("received"))).min()
}
_PRICES = {
    TRADES.name: pl.col("price").sort_by("timestamp", "sequence").first(),
    BOOK.name: (_BID.max() + _ASK.min()) / 2,
    RECORDED_CANDLES.name: pl.col("open").sort_by("timestamp").first(),
}
"""First price of the tables that say that a market is traded: where there are trades, theirs counts."""

_TABLES = (TRADES, BOOK, RECORDED_CANDLES, FUNDING, OPEN_INTEREST, LIQUIDATIONS, CME_OPEN_INTEREST)
"""Tables whose markets are registered: of options no market is made."""


def _seen(parsed: Parsed) -> dict[MarketName, _Seen]:
    found = [
        part.frame()
        .group_by("exchange", "raw_symbol")
        .agg(
            since=_SINCE.get(table.name, _TIME.min()),
            timestamp=_TIME.min(),
            price=_PRICES.get(table.name, pl.lit(None, pl.Float64)),
        )
        .with_columns(
            rank=pl.lit(rank), traded=pl.lit(table.name in _PRICES), funded=pl.lit(table is FUNDING)
        )
        for rank, table in enumerate(_TABLES)
        for part in parsed.batch(table)
    ]
    if not found:
        return {}
    price = pl.col("price").sort_by("rank", "timestamp").drop_nulls().first()
    summary = (
        pl.concat(found)
        .group_by("exchange", "raw_symbol")
        .agg(pl.col("since", "timestamp").min(), price, pl.col("traded", "funded").any())
        .sort("exchange", "raw_symbol")
    )
    return {(exchange, symbol): _Seen(*facts) for exchange, symbol, *facts in summary.iter_rows()}


def _names(raw_symbol: str, said: Market, *, needed: bool) -> dict[str, str | None]:
    if said.normalized_symbol is not None:
        coin, _, quote = said.normalized_symbol.partition("-")
        return {
            "normalized_symbol": said.normalized_symbol,
            "coin": said.coin or coin,
            "quote_coin": quote or None,
        }
    symbol = guessed(raw_symbol)
    if symbol is None and not needed:
        return {}
    if symbol is None:
        raise QueryError(
            "normalized_symbol",
            got=raw_symbol,
            expected="a symbol that coin and quote can be read from; for this one give "
            "``normalized_symbol``, e.g. BTC-USDT, and ``coin``",
        )
    if said.coin is not None:
        symbol = Symbol(said.coin, symbol.quote_coin)
    return {"normalized_symbol": symbol.normalized, "coin": symbol.coin, "quote_coin": symbol.quote_coin}


def _block_size(said: Market, price: float | None) -> float | None:
    if said.block_size is not None:
        return float(exact(said.block_size))
    if price is None or price <= 0:
        return None
    size = float(recommended_block_size(price, tick_size=said.tick_size))
    try:
        Grid.of(size)
    except QueryError:  # a price beyond what profiles can be made of: none, unless one is given
        return None
    return size
