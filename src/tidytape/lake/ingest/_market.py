"""What the caller says about the market of files."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tidytape.catalogue import Category
from tidytape.errors import QueryError
from tidytape.frames._grid import Grid, exact
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._symbols import storable
from tidytape.lake.ingest._contracts import Contract, ContractKind
from tidytape.query import _values as values
from tidytape.sessions import Session
from tidytape.times import MILLISECOND

Number = Decimal | float | str

MarketKey = tuple[str, str]
"""Exchange and raw symbol."""


def option(text: str, *, default: Any = None, flag: str | None = None, hashed: bool = True) -> Any:
    """Return a field of a dataclass that is an option of the command line.

    Parameters
    ----------
    text : str
        The help of the option.
    default : object
        The default.
    flag : str, optional
        The flag on the command line, if that differs from the name of the field.
    hashed : bool
        Whether it counts in the hash of an object; dicts have none.
    """
    return field(default=default, metadata={"help": text, "flag": flag}, hash=None if hashed else False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What the caller says about the market of files; the files and the registry must say the rest.

    Parameters
    ----------
    exchange : str, optional
        Exchange identifier, e.g. ``"BINANCE"``. Files of ``tardis`` and ``tardis-node`` name their exchange, and files
        of ``cryptofeed`` and ``deribit-chain`` are of one exchange; other files need this.
    raw_symbol : str, optional
        The only market to take from the files. Files that do not name their market need this.
    normalized_symbol, coin : str, optional
        Names of the market across exchanges, e.g. ``"BTC-USDT"`` and ``"BTC"``. By default they are read from the raw
        symbol, if the market is not registered yet.
    quote : str, optional
        Currency of all prices, e.g. ``"USD"``: then every symbol is the name of a coin, as the ticker of a share is.
    category : str, optional
        Market class, by name or alias. By default, if the market is not registered yet: PERPETUAL if it has funding,
        SPOT if it is traded; null if files of the layout may hold markets of every class.
    tick_size : Decimal, int, float or str, optional
        Smallest price step. [quote per coin]
    block_size : Decimal, int, float or str, optional
        Height of a price level of profiles. By default, if the market is not registered yet,
        `tidytape.aggregate.recommended_block_size` of the price of the first trade in its first file. [quote per coin]
    contract : {"INVERSE", "LINEAR", "VANILLA"}, optional
        Kind of the contracts, if amounts in the files are numbers of contracts; they are converted to coins. The
        registry keeps kind and size as the default for later files.
    contract_size : Decimal, int, float or str, optional
        Size of one contract; 1 for VANILLA. [quote per contract if INVERSE, else coin per contract]
    factor : Decimal, int, float or str, optional
        Coins in one unit that the exchange trades: 1,000 for ``1000PEPEUSDT``. Amounts are multiplied by it and prices
        divided, so that the lake has amounts in coins, and prices of one coin. It holds for every market of the files.
        By default that of the registry; for a new market, what the symbol says, and else 1. A market whose events are
        in the lake keeps its factor. ``contract_size``, ``tick_size`` and ``block_size`` do not contain it:
        the size of a contract counts units, and the other two are in quote per coin.
    amount_unit : {"coin", "quote", "contracts"}, optional
        What amounts in the files count, including volumes of candles. It holds for all tables and markets of the files,
        and the registry keeps it. By default the file, the symbol or the exchange shows the unit, and files that count
        contracts, the quote or an unknown unit are refused.
        ``"contracts"`` needs ``contract`` and ``contract_size``. Amounts in the quote are divided by their price;
        candles have no such price, so their volume becomes ``quote_volume``, and their volume in coin is null.
    funding_interval : int, str or timedelta, optional
        Time between settlements, e.g. ``"8h"``, for funding reports that do not state it; the service does not use
        reports without one. An interval that a file states takes precedence. It also fills reports that are in the
        lake without an interval, if their file is ingested again. [ms]
    session : Session or str, optional
        When the markets of the files trade, or a text that `tidytape.Session.parsed` reads, such as ``"XNYS"``; the
        attribute is the text. The registry keeps it, and the service sends it. Candles of days may then start at the
        open of a session, or at midnight of its date in its zone: the lake has them on that date, from 00:00 UTC. They
        are refused if the session closes after the end of that date in UTC. A file that is in the lake already is read
        again, so that its market gets the session.

    Raises
    ------
    QueryError
        If a value cannot be right.

    Examples
    --------
    >>> Market(exchange="BITMEX", contract="inverse", contract_size=1).contract
    'INVERSE'
    """

    exchange: str | None = option("Exchange of the files, if they do not name it.")
    raw_symbol: str | None = option("The only market to take; or the market of files that name none.")
    normalized_symbol: str | None = option(
        "Symbol as coin-quote, e.g. BTC-USD; by default read from the raw symbol."
    )
    coin: str | None = option("Base asset; by default read from the raw symbol.")
    quote: str | None = option(
        "Currency of the prices, if every symbol is a coin or a ticker, e.g. USD for shares."
    )
    category: str | None = option("SPOT (if left out), PERPETUAL, FUTURE, OPTION or COMBO.")
    tick_size: Number | None = option("Smallest price step; by default the smallest in the files.")
    block_size: Number | None = option("Height of a profile level; by default chosen from the price.")
    contract: str | None = option(
        "Kind of contract, if amounts are in contracts: INVERSE, LINEAR or VANILLA."
    )
    contract_size: Number | None = option(
        "Size of one contract: in the quote if INVERSE, otherwise in coins."
    )
    factor: Number | None = option(
        "Coins in one unit that the exchange trades, e.g. 1000 for 1000PEPEUSDT; by default read from the symbol."
    )
    amount_unit: str | None = option(
        "Unit of amounts and of candles' volumes: coin, quote or contracts; needed if the files do not show it."
    )
    funding_interval: int | str | timedelta | None = option(
        "Funding interval of rates that have none, e.g. 8h; without one, such rates are not served."
    )
    session: Session | str | None = option(
        "When the market trades, e.g. '09:30-16:00 America/New_York Mon-Fri', or a name such as XNYS."
    )

    def __post_init__(self) -> None:
        if self.exchange is not None:
            self._set("exchange", storable(self.exchange, parameter="exchange", code="INVALID_EXCHANGE"))
        if self.raw_symbol is not None:
            self._set("raw_symbol", storable(self.raw_symbol, parameter="raw_symbol"))
        for name in ("normalized_symbol", "coin", "quote"):
            value = getattr(self, name)
            if value is not None:
                self._set(name, values.text(value, parameter=name))
        if self.normalized_symbol and self.quote:
            raise QueryError(
                "quote", got=self.quote, expected="nothing beside ``normalized_symbol``, which names it"
            )
        if self.normalized_symbol and not all(map(str.strip, self.normalized_symbol.split("-"))):
            raise QueryError("normalized_symbol", got=self.normalized_symbol, expected="e.g. BTC-USDT")
        for name in ("tick_size", "block_size"):
            value = getattr(self, name)
            if value is not None:
                _require_on_grid(value, name)
        if self.category is not None:
            self._set("category", values.choice(self.category, Category, "category").value)
        if self.factor is not None:
            self._set("factor", _size(self.factor, "factor"))
        self._check_contract()
        self._check_unit()
        self.funding_nanoseconds  # noqa: B018  # raises if it is not a duration
        if self.session is not None:
            stated = self.session if isinstance(self.session, Session) else Session.parsed(self.session)
            self._set("session", str(stated))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_contract(self) -> None:
        if self.contract is None:
            if self.contract_size is not None:
                raise QueryError(
                    "contract_size",
                    got=self.contract_size,
                    expected="``contract`` beside it: what kind it is",
                )
            return
        kind = values.choice(self.contract, ContractKind, "contract")
        self._set("contract", kind.value)
        if self.contract_size is None and kind != ContractKind.VANILLA:
            raise QueryError("contract_size", got=None, expected=f"the size of one {kind} contract")
        self._set(
            "contract_size", _size(1 if self.contract_size is None else self.contract_size, "contract_size")
        )

    def _check_unit(self) -> None:
        if self.amount_unit is None:
            return
        unit = values.choice(self.amount_unit, CountedUnit, "amount_unit")
        if unit is CountedUnit.CONTRACTS and self.contract is None:
            raise QueryError("contract", got=None, expected="what one contract is, and its ``contract_size``")
        if unit is not CountedUnit.CONTRACTS and self.contract is not None:
            raise QueryError(
                "amount_unit", got=self.amount_unit, expected="contracts, or nothing, beside ``contract``"
            )
        self._set("amount_unit", unit)

    @property
    def stated_contract(self) -> Contract | None:
        """The contract that the caller states; None if the caller states none."""
        if self.contract is None or self.contract_size is None:
            return None
        return Contract(ContractKind(self.contract), exact(self.contract_size))

    @property
    def stated_unit(self) -> CountedUnit | None:
        """The unit that the caller states; a stated contract means contracts."""
        if self.amount_unit is not None:
            return CountedUnit(self.amount_unit)
        return None if self.contract is None else CountedUnit.CONTRACTS

    @property
    def funding_nanoseconds(self) -> int | None:
        """The funding interval. [ns]"""
        if self.funding_interval is None:
            return None
        return values.milliseconds(self.funding_interval, parameter="funding_interval") * MILLISECOND

    @property
    def stated_session(self) -> Session | None:
        """The session that the caller states; None if the caller states none."""
        return None if self.session is None else Session.parsed(str(self.session))

    @property
    def replaced(self) -> list[str]:
        """Columns of the registry whose values the caller replaces."""
        name_columns = (
            ["normalized_symbol", "coin", "quote_coin"]
            if self.normalized_symbol or self.coin or self.quote
            else []
        )
        return name_columns + [
            name
            for name in ("category", "tick_size", "block_size", "session")
            if getattr(self, name) is not None
        ]


def _size(value: Number, name: str) -> Decimal:
    """Return the size of a unit; QueryError if floats cannot hold it exactly enough."""
    size = exact(value, name)
    if not -15 <= size.adjusted() <= 15 or len(size.as_tuple().digits) > 15:
        raise QueryError(name, got=value, expected="a number from 1e-15 to 1e15 of at most 15 digits")
    return size


def _require_on_grid(value: Number, name: str) -> None:
    """Raise QueryError unless the number can be the height of a price level."""
    number = exact(value, name)
    # Check the exponent first, because the grid writes all digits out.
    if not -23 <= number.adjusted() <= 15:
        raise QueryError(name, got=value, expected="a number from 1e-22 to 1e15")
    try:
        Grid.of(number)
    except QueryError as error:
        raise QueryError(name, got=value, expected=error.expected) from error


def require_market(market: object) -> None:
    """Raise QueryError if the argument is not a `Market`, e.g. a symbol."""
    if not isinstance(market, Market):
        raise QueryError(
            "market", got=market, expected='a Market, e.g. ``Market(exchange="X", raw_symbol="BTC-USD")``'
        )
