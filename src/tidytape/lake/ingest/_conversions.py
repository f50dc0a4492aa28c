"""How the amounts of a file become coins, decided before anything is written.

For each table and market, the first of these sources that says what amounts count decides: the caller, the registry,
the file's own list of contracts, the file's messages, the symbol, and the exchange's documentation, see
`tidytape.lake._amount_units`. If no source says it, the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from tidytape.errors import QueryError, counted
from tidytape.frames._grid import exact
from tidytape.lake._amount_units import CountedUnit, documented
from tidytape.lake._tables import MARKETS, OPEN_INTEREST, RECORDED_CANDLES, TABLES, Table
from tidytape.lake.ingest._contracts import COUNTED, QUOTE, Contract, ContractKind
from tidytape.lake.ingest._layout import Parsed
from tidytape.lake.ingest._market import Market, MarketKey

_WITH_COINS = (OPEN_INTEREST, RECORDED_CANDLES)
"""Tables whose rows of coin-margined futures also have the amount in coin."""


@dataclass(frozen=True, slots=True)
class Conversions:
    """How the amounts of a file become coins.

    Attributes
    ----------
    contracts : dict of str to dict of (str, str) to Contract
        The contracts that convert amounts, by table and market; amounts of other markets are in coin.
    registry : polars.DataFrame, one row per market
        Key, ``contract``, ``contract_size`` and ``amount_units`` to be registered before the events.
    """

    contracts: dict[str, dict[MarketKey, Contract]]
    registry: pl.DataFrame


HoldsEvents = Callable[[MarketKey, Collection[Table]], bool]
"""A function that returns whether the lake has rows of a market in one of some tables."""


_TOLD = "/told"
"""Follows a unit in the registry that the kind of a file told, which decides for no other file."""


def units_of(text: str | None) -> dict[str, str]:
    """Return the units by table that the registry's column ``amount_units`` holds.

    Examples
    --------
    >>> units_of("candles=quote/told,trades=coin")
    {'candles': 'quote/told', 'trades': 'coin'}
    """
    pairs = (part.partition("=") for part in (text or "").split(","))
    return {table: unit for table, _, unit in pairs if unit.removesuffix(_TOLD) in set(CountedUnit)}


def conversions(
    parsed: Parsed, market: Market, registered: pl.DataFrame, holds_events: HoldsEvents
) -> Conversions:
    """Return how the amounts of a file become coins.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    market : Market
        What the caller says; it holds for every market of the file.
    registered : polars.DataFrame
        The registry.
    holds_events : callable
        See `HoldsEvents`.

    Raises
    ------
    QueryError
        If the amounts of a market count contracts, the quote or an unknown unit, and neither caller nor registry says
        how to convert them; or if the lake converted earlier amounts of the market differently.
    """
    sources = _Sources(market, _Registered.of(registered), parsed)
    amounts = [sources.amounts(table, key) for table, key in _counted(parsed)]
    unclear_amounts = [amount for amount in amounts if sources.is_unclear(amount)]
    if unclear_amounts:
        raise _unclear_error(unclear_amounts, parsed)
    contracts, units = sources.contracts(amounts), sources.units(amounts)
    for key in sorted({*units, *contracts}):
        contract = contracts.get(key, sources.registered.contracts.get(key))
        _require_as_stored(key, contract, units.get(key, {}), sources=sources, holds_events=holds_events)
    return Conversions(
        _by_table(amounts),
        _registry_rows(
            {
                key: contract
                for key, contract in contracts.items()
                if sources.registered.contracts.get(key) != contract
            },
            sources.new_units(amounts),
        ),
    )


def _counted(parsed: Parsed) -> Iterator[tuple[Table, MarketKey]]:
    """Yield the tables and markets of a file whose amounts need a unit."""
    for table in COUNTED:
        if table.name not in parsed.coins:
            for exchange, symbol in parsed.batch(table).markets:
                yield table, (exchange, symbol)


@dataclass(frozen=True, slots=True)
class _Amounts:
    """What the amounts of one market count in one table.

    Attributes
    ----------
    table : Table
        The table.
    key : (str, str)
        The market.
    unit : CountedUnit or None
        What the amounts count; None if no source says it.
    contract : Contract or None
        What one contract of the market is; None if no source says it.
    """

    table: Table
    key: MarketKey
    unit: CountedUnit | None
    contract: Contract | None

    @property
    def conversion(self) -> Contract | None:
        """The contract that converts the amounts to coin; None if they are in coin."""
        if self.unit is CountedUnit.CONTRACTS:
            return self.contract
        return QUOTE if self.unit is CountedUnit.QUOTE else None


def _by_table(amounts: Iterable[_Amounts]) -> dict[str, dict[MarketKey, Contract]]:
    """Return the contract that converts amounts to coin, by table and market."""
    contracts: dict[str, dict[MarketKey, Contract]] = {}
    for amount in amounts:
        if amount.conversion is not None:
            contracts.setdefault(amount.table.name, {})[amount.key] = amount.conversion
    return contracts


@dataclass(frozen=True, slots=True)
class _Registered:
    """What the registry says about contracts and units, by market."""

    contracts: Mapping[MarketKey, Contract]
    units: Mapping[MarketKey, Mapping[str, str]]

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

    def unit_of_table(self, table: Table, key: MarketKey) -> CountedUnit | None:
        """Return the unit that a caller stated for a table of a market."""
        unit = self.units.get(key, {}).get(table.name, _TOLD)
        return None if unit.endswith(_TOLD) else CountedUnit(unit)

    def told_unit(self, table: Table, key: MarketKey) -> CountedUnit | None:
        """Return the unit of a table of a market that the kind of its first file told."""
        unit = self.units.get(key, {}).get(table.name, "")
        return CountedUnit(unit.removesuffix(_TOLD)) if unit.endswith(_TOLD) else None

    def unit(self, table: Table, key: MarketKey) -> CountedUnit | None:
        """Return the unit of a table of a market; a registered contract stands for contracts."""
        return self.unit_of_table(table, key) or (CountedUnit.CONTRACTS if key in self.contracts else None)


@dataclass(frozen=True, slots=True)
class _Sources:
    """Who says what the amounts of a file count: the caller, the registry, and the file itself."""

    market: Market
    registered: _Registered
    parsed: Parsed

    def amounts(self, table: Table, key: MarketKey) -> _Amounts:
        """Return what the amounts of a market count in a table; QueryError if the file contradicts a source."""
        contract = self._contract(key)
        return _Amounts(table, key, self._unit(table, key), contract)

    def _contract(self, key: MarketKey) -> Contract | None:
        """Return what one contract of a market is; QueryError if the file contradicts caller or registry."""
        contract = self.market.stated_contract or self.registered.contracts.get(key)
        contract_in_file = self.parsed.contracts.get(key)
        if contract_in_file is not None and contract not in {None, contract_in_file}:
            raise QueryError(
                "contract",
                got=_text(contract),
                expected=f"what the list of instruments says of {' '.join(key)}: {_text(contract_in_file)}",
            )
        if key in self.parsed.inverse:
            _require_inverse(key, self.market.stated_unit, contract)
        return contract or contract_in_file

    def _unit(self, table: Table, key: MarketKey) -> CountedUnit | None:
        unit = self.market.stated_unit or self.registered.unit_of_table(table, key)
        if unit is None and self.parsed.is_described:
            # A contract converts other tables of the market: OKX's candles of a swap are in coin, its trades are not.
            unit = self.parsed.amount_unit(table.name, *key)
        unit = unit or self.registered.unit(table, key)
        if unit is not None:
            return unit
        if table is RECORDED_CANDLES and key in self.parsed.inverse:
            return CountedUnit.COIN  # the file has columns of coins beside those of contracts
        if key in self.parsed.contracts or key in self.parsed.inverse:
            return CountedUnit.CONTRACTS
        return self.parsed.amount_unit(table.name, *key)

    def is_unclear(self, amount: _Amounts) -> bool:
        """Return whether the caller must state the unit, or what one contract is; the quote is never assumed."""
        if amount.unit is CountedUnit.QUOTE:
            known_unit = self.market.stated_unit or self.registered.unit(amount.table, amount.key)
            return known_unit is not CountedUnit.QUOTE and not self.parsed.is_described
        return amount.unit is None or (amount.unit is CountedUnit.CONTRACTS and amount.contract is None)

    def contracts(self, amounts: Iterable[_Amounts]) -> dict[MarketKey, Contract]:
        """Return the contract of each market with amounts in contracts, or of every market if the caller states it."""
        contract = self.market.stated_contract
        contracts = {} if contract is None else dict.fromkeys(self.parsed.market_keys, contract)
        for amount in amounts:
            if amount.unit is CountedUnit.CONTRACTS and amount.contract is not None:
                contracts[amount.key] = amount.contract
        return contracts

    def units(self, amounts: Iterable[_Amounts]) -> dict[MarketKey, dict[str, CountedUnit]]:
        """Return the units of the amounts by market and table."""
        units: dict[MarketKey, dict[str, CountedUnit]] = {}
        for amount in amounts:
            if amount.unit is not None:
                units.setdefault(amount.key, {})[amount.table.name] = amount.unit
        return units

    def new_units(self, amounts: Iterable[_Amounts]) -> dict[MarketKey, dict[str, str]]:
        """Return the units by market and table to be registered, with the registered units of the same markets."""
        units: dict[MarketKey, dict[str, str]] = {}
        for amount in amounts:
            if (unit := self._new_unit(amount)) is not None:
                units_of_market = units.setdefault(
                    amount.key, dict(self.registered.units.get(amount.key, {}))
                )
                units_of_market[amount.table.name] = unit
        return units

    def _new_unit(self, amount: _Amounts) -> str | None:
        """Return what must be registered: the unit if the caller states it, or one that the kind of the file tells.

        The lake takes rows without a registered unit for coins or contracts, so the unit of a kind is registered where
        the exchange documents another one; it decides for no other file.
        """
        registered_unit = self.registered.unit_of_table(amount.table, amount.key)
        if amount.unit is None:
            return None
        if self.market.amount_unit is not None or registered_unit not in {None, amount.unit}:
            return str(amount.unit)
        told_unit = self.registered.told_unit(amount.table, amount.key)
        exchange_unit = documented(*amount.key, amount.table.name, otherwise=amount.unit)
        is_known = registered_unit or told_unit or {amount.unit, exchange_unit} == {CountedUnit.COIN}
        return f"{amount.unit}{_TOLD}" if self.parsed.is_described and not is_known else None

    def is_told(self, table: Table, unit: CountedUnit) -> bool:
        """Return whether the kind of the file tells the unit of its rows; files before it may count another unit."""
        has_rows = any(batch.table is table for batch in self.parsed.batches)
        is_stated = self.market.stated_unit is not None
        return has_rows and self.parsed.is_described and not is_stated and unit is not CountedUnit.CONTRACTS

    def stored(self, table: Table, key: MarketKey) -> tuple[CountedUnit, Contract | None]:
        """Return the unit and the contract by which the lake converted its amounts of a market."""
        unit = self.registered.told_unit(table, key) or self.registered.unit(table, key) or CountedUnit.COIN
        return unit, self.registered.contracts.get(key)

    def has_coins(self, key: MarketKey) -> bool:
        """Return whether earlier amounts of a market were the files' own coins: no contract is registered."""
        return key in self.parsed.inverse and key not in self.registered.contracts


def _require_inverse(key: MarketKey, unit: CountedUnit | None, contract: Contract | None) -> None:
    """Raise QueryError if a known unit or contract is not that of a future with margin in coin."""
    name = " ".join(key)
    if unit not in {None, CountedUnit.CONTRACTS}:
        raise QueryError(
            "amount_unit", got=str(unit), expected=f"contracts: {name} is a future with margin in coin"
        )
    if contract is not None and contract.kind is not ContractKind.INVERSE:
        raise QueryError(
            "contract", got=contract.kind.value, expected=f"INVERSE: {name} is a future with margin in coin"
        )


def _require_as_stored(
    key: MarketKey,
    contract: Contract | None,
    units: Mapping[str, CountedUnit],
    *,
    sources: _Sources,
    holds_events: HoldsEvents,
) -> None:
    """Raise QueryError if the lake converted earlier amounts of a market differently from the new amounts.

    A registered contract holds for every table of the market whose unit is not registered.
    """
    for table in COUNTED:
        stored_unit, stored_contract = sources.stored(table, key)
        told_unit = sources.registered.told_unit(table, key)
        unit = units.get(table.name) or sources.registered.unit_of_table(table, key) or told_unit
        unit = unit or (CountedUnit.CONTRACTS if contract else stored_unit)
        is_contract = unit is CountedUnit.CONTRACTS
        is_same = unit is stored_unit and (not is_contract or stored_contract == contract)
        is_in_coin = is_contract and table in _WITH_COINS and sources.has_coins(key)
        if is_same or is_in_coin or sources.is_told(table, unit) or not holds_events(key, [table]):
            continue
        stored_text = f"amounts in {stored_unit}"
        if stored_unit is CountedUnit.CONTRACTS and stored_contract:
            stored_text = _text(stored_contract)
        is_of_contract = is_contract and not sources.registered.unit_of_table(table, key)
        raise QueryError(
            "contract" if is_of_contract else "amount_unit",
            got=_text(contract) if is_of_contract else str(unit),
            expected=f"what {' '.join(key)} was stored with: {stored_text} ({table.name})",
        )


def _text(contract: Contract | None) -> str:
    return "" if contract is None else f"{contract.kind} of {contract.size:f}"


_SHOWN = 3
"""Most further markets that a message names."""


def _unclear_error(unclear_amounts: list[_Amounts], parsed: Parsed) -> QueryError:
    """Return the error that names the first markets whose unit the caller must state, and how to state it."""
    amount = unclear_amounts[0]
    subject = f"the amounts of {' '.join(amount.key)}"
    other_markets = _others({other.key for other in unclear_amounts} - {amount.key})
    where = f" ({amount.table.name}){other_markets}"
    if amount.key in parsed.inverse:
        return QueryError(
            "contract",
            got=None,
            expected=f"INVERSE, and the ``contract_size``, for {subject} are numbers of contracts{where}; e.g. "
            "``Market(contract='inverse', contract_size=100)``, in USD, as the exchange's specification says",
        )
    if amount.unit is CountedUnit.CONTRACTS:
        return QueryError(
            "contract",
            got=None,
            expected=f"what one contract is, and its ``contract_size``, for {subject} are numbers of contracts{where}; "
            'e.g. ``Market(contract="linear", contract_size=0.01)``, or ``amount_unit="coin"`` if they were converted',
        )
    if amount.unit is CountedUnit.QUOTE:
        return QueryError(
            "amount_unit",
            got=None,
            expected=f"quote (``amount_unit='quote'``), for {subject} count the quote{where}; or coin if they were "
            "converted",
        )
    return QueryError(
        "amount_unit",
        got=None,
        expected=f"coin, quote or contracts: nothing says which of them {subject} count{where}",
    )


def _others(keys: Collection[MarketKey]) -> str:
    """Return words for the other markets for which the same holds, with the names of the first of them."""
    if not keys:
        return ""
    names = ", ".join(" ".join(key) for key in sorted(keys)[:_SHOWN])
    more = f" and {counted(len(keys) - _SHOWN, 'other market')}" if len(keys) > _SHOWN else ""
    return f"; the same holds for {names}{more}"


def _registry_rows(
    contracts: Mapping[MarketKey, Contract], units: Mapping[MarketKey, Mapping[str, str]]
) -> pl.DataFrame:
    rows = [
        {
            "exchange": exchange,
            "raw_symbol": symbol,
            "contract": contract.kind.value if contract else None,
            "contract_size": float(contract.size) if contract else None,
            "amount_units": _units_text(units[exchange, symbol]) if (exchange, symbol) in units else None,
        }
        for exchange, symbol in sorted({*contracts, *units})
        for contract in [contracts.get((exchange, symbol))]
    ]
    return MARKETS.conform(pl.DataFrame(rows, schema_overrides=MARKETS.polars())) if rows else MARKETS.empty()


def _units_text(units: Mapping[str, str]) -> str:
    return ",".join(f"{name}={units[name]}" for name in TABLES if name in units)
