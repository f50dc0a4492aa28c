"""Files of your own, with a map of their columns to those of any table of the lake.

The map gives for each of our columns the file's name of it: ``{"price": "px", "amount": "qty", …}``. A column of the
file with one of our names needs no entry. Our columns are those of the table, see `tidytape.lake.TABLES`, without
``sequence``, which is the line; trades have those of the list below. Numbers must be in the units of the table. These
columns have special rules:

========================= =========================================================================================
``exchange``              not needed if the caller names it; for trades the caller must. The caller's name replaces the
                          column, which must then have only one exchange
``raw_symbol``            not needed if the caller names it; if both do, only the rows of the caller's market are taken
``coin``                  not needed if the caller names it
``interval``              of candles: a number of ns, or a word such as 1m; not needed if the caller gives it
``side``                  of trades, the side of the aggressor: buy, b, sell or s; of liquidations, the side of the
                          position: buy, b or long for a liquidated long, sell, s or short for a liquidated short
``buyer_is_maker``        of trades, instead of ``side``: true or false, t or f, 1 or 0; true: the aggressor sold
``order_side``            of liquidations, instead of ``side``: the side of the order that closed the position; sell or
                          s for a liquidated long
``id``                    of trades and liquidations, not needed: it is then made from the content
``quote_amount``          of liquidations, not needed: it is then price times amount
``price``                 of open interest: the mark price, for amounts in contracts
========================= =========================================================================================

A map may also join columns (``Date+Time``), name a column by its place (``#3`` is the third), and say that a file has
no such column (an empty name): ``id`` for ids that are not unique in all files, ``side`` for trades whose sides nobody
knows, ``volume`` for a column that is no volume. Options without a name get one of coin, expiry, strike and type.

All times of a column are written in the same way: in the ``time_unit`` of the caller, or as the first time shows.

An id that is made from the content has timestamp, price, amount, side and a number that tells identical events apart.
So the same events, exported again, get the same ids. Trades of one timestamp are ordered by id if every id of the file
is an integer of 64 bits, otherwise by line; in a file that starts with its newest trade, by line from the end.
`tidytape.lake._dedupe` says how lines of several files are ordered.

A trade without a side is a bad line, unless the caller says that its side is unknown: then its side is null. A candle
whose prices or volume are empty or a word such as NaN is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from tidytape.errors import QueryError, did_you_mean
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._tables import (
    FUNDING,
    MARKETS,
    OPTION_QUOTES,
    PREDICTION_MARKETS,
    RECORDED_CANDLES,
    TABLES,
    TRADES,
    Table,
)
from tidytape.lake.ingest._columns import EVENTS, column_of, is_time, known_columns
from tidytape.lake.ingest._contracts import COUNTED
from tidytape.lake.ingest._fields import length
from tidytape.lake.ingest._layout import Layout, nothing_to_choose
from tidytape.lake.ingest._market import Market, option
from tidytape.lake.ingest._time import Zone, written_as

BY_ROWS = "by rows"
"""The interval of candles whose length most of their steps show, and of funding whose steps are all alike."""
_CHOICES = {
    "stamped": ("start", "end"),
    "volatility_unit": ("percent", "decimal"),
    "rate_unit": ("fraction", "percent"),
}
_REGISTERED_BY = {
    MARKETS.name: "markets are registered with the events of theirs",
    PREDICTION_MARKETS.name: "prediction markets go in with: tidytape ingest polymarket-gamma",
}


def _is_map(mapping: object, kind: type) -> bool:
    """Return whether an argument is None or a dict from texts to objects of a kind."""
    return mapping is None or (
        isinstance(mapping, Mapping)
        and all(isinstance(name, str) and isinstance(other, kind) for name, other in mapping.items())
    )


@dataclass(frozen=True, kw_only=True)
class Mapped(Layout):
    """Rows of any table, with a map of their columns.

    Parameters
    ----------
    columns : mapping of str to str, optional
        The file's name of each of our columns, e.g. ``{"price": "px"}``.
    table : str
        The table that the rows go into: the name of one of `tidytape.lake.TABLES`.
    words : mapping of str to mapping of str to str, optional
        By our column, words of the file in lower or upper case and what is read instead of each:
        ``{"side": {"A": "sell", "B": "buy", "N": "none"}}``. Instead of ``none`` nothing is read: the side is unknown.
    time_unit : {"iso", "date", "epoch", "s", "ms", "us", "ns"} or mapping of str to one of them, optional
        How times are written, in all columns or by our name of each, e.g. ``{"timestamp": "iso", "expiry": "date"}``.
        By default the unit is recognised by the first value that is a date and time, or a number that lies between the
        years 2000 and 2100 in one of the units; the report names the unit. Dates without a time of day need ``date``;
        numbers whose unit changes from row to row need ``epoch``.
    time_format : str, optional
        Instead of ``time_unit``, for times written in another way: their format in the directives of ``strftime``, e.g.
        ``"%d-%m-%Y %H:%M:%S"``. tidytape never guesses which number is the day.
    time_zone : str, optional
        Zone of written times without an offset; UTC if left out. ``"America/New_York"``, ``"UTC-5"``, or
        ``"America/New_York+7h"`` for a clock seven hours ahead of New York. A time that this clock shows twice or
        never is a bad line.
    interval : str, optional
        Length of all candles, e.g. ``"1h"``, if candles have no column ``interval``.
    stamped : {"start", "end"}
        Whether the time of a candle is that of its start or of its end; an end may be up to a second early (00:59:59).
    volatility_unit : {"percent", "decimal"}, optional
        Unit of ``implied_volatility``; needed if most values are below 5.
    rate_unit : {"fraction", "percent"}, optional
        Unit of the ``rate`` of funding; needed if most values are 0.5 % or more as fractions.
    divisors : mapping of str to float, optional
        By our column, what its numbers are divided by, e.g. ``{"price": 1e9}`` for prices in billionths.
    rewrites : mapping of str to (str, str), optional
        By our column, a pattern and what replaces it in each text, where $1 is the pattern's first group.
    where : mapping of str to str, optional
        By column of the file, the pattern of the values of rows that are read; other rows are counted.
    counted : {"coin", "quote", "contracts"}, optional
        What amounts of files of this kind count, whatever the symbol and the exchange are called.
    documented_by : str, optional
        The exchange whose documentation says what amounts count, whatever the exchange is called.

    Raises
    ------
    QueryError
        If there is no such table, unit, format or interval, or if the table does not use one of them.
    """

    amounts: ClassVar[Mapping[str, str]] = MappingProxyType(
        dict.fromkeys(
            (*(table.name for table in COUNTED), OPTION_QUOTES.name),
            "the map (coins), unless the symbol or the exchange is known to count something else",
        )
    )

    table: str = option(
        "Table to fill: trades, candles, book, open_interest, funding, ….", default=TRADES.name
    )
    columns: Mapping[str, str] | None = option(
        "Columns of the table and of the file: id=tid,price=px,amount=qty,side=side,timestamp=time. Columns of the "
        "same name need no entry. Trades have timestamp, price, amount, side (or buyer_is_maker), id and raw_symbol.",
        flag="--map",
        hashed=False,
    )
    words: Mapping[str, Mapping[str, str]] | None = option(
        "Meanings of words, if they are not ours: side=A:sell,side=B:buy,side=N:none; --map takes them too.",
        hashed=False,
    )
    time_unit: str | Mapping[str, str] | None = option(
        "Unit of times, if they do not show it: iso, date, epoch, s, ms, us or ns; or one per column, "
        "timestamp=iso,expiry=date.",
        hashed=False,
    )
    time_format: str | None = option("Format of other times, e.g. '%d-%m-%Y %H:%M:%S'.")
    time_zone: str | None = option(
        "Zone of times without an offset, if not UTC: America/New_York, UTC-5, America/New_York+7h."
    )
    interval: str | None = option("Length of candles, if the file has no column interval, e.g. 1h.")
    stamped: str | None = option("Time of candles: start (if left out) or end.")
    volatility_unit: str | None = option("Unit of implied volatilities: percent or decimal.")
    rate_unit: str | None = option("Unit of funding rates: fraction or percent.")
    divisors: Mapping[str, float] = field(default_factory=dict, hash=False)
    rewrites: Mapping[str, tuple[str, str]] = field(default_factory=dict, hash=False)
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    counted: CountedUnit | None = None
    documented_by: str | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if self.table not in EVENTS:
            hint = _REGISTERED_BY.get(self.table) or did_you_mean(self.table, EVENTS)
            raise QueryError("table", got=self.table, expected="one of " + ", ".join(EVENTS), hint=hint)
        has_length = self.table == RECORDED_CANDLES.name or self.interval == BY_ROWS
        if self.interval is not None and not has_length:
            raise nothing_to_choose("interval", self.interval, self.files)
        self.candle_length  # noqa: B018  # raises if it is not an interval
        self.zone  # noqa: B018  # raises if there is no such zone
        for parameter, choices in _CHOICES.items():
            if getattr(self, parameter) not in {None, *choices}:
                raise QueryError(parameter, got=getattr(self, parameter), expected=" or ".join(choices))
        for column in self.words or {}:
            if column not in known_columns(self.of):
                raise QueryError("words", got=column, expected=f"one of {', '.join(known_columns(self.of))}")
        is_unit: object = self.time_unit is None or isinstance(self.time_unit, str | Mapping)
        if not is_unit:
            raise QueryError(
                "time_unit", got=self.time_unit, expected='a text such as "ms", or a dict of columns'
            )
        if isinstance(self.times, Mapping):
            names = self.time_columns
            for name in self.times:
                if name not in names:
                    raise QueryError(
                        "time_unit",
                        got=name,
                        expected=f"one of the columns of times of {self.table}: {', '.join(names)}",
                        hint=did_you_mean(name, names),
                    )

    def _check_types(self) -> None:
        """Raise QueryError if an option is of another type: a caller without types may pass anything."""
        zone: object = self.time_zone
        for parameter, is_right, expected in (
            ("columns", _is_map(self.columns, str), 'a dict of our columns, e.g. {"price": "px"}'),
            ("words", _is_map(self.words, Mapping), 'a dict of dicts, e.g. {"side": {"A": "sell"}}'),
            ("time_zone", zone is None or isinstance(zone, str), "a text, e.g. America/New_York"),
        ):
            if not is_right:
                raise QueryError(parameter, got=getattr(self, parameter), expected=expected)
        for meanings in (self.words or {}).values():
            if not _is_map(meanings, str):
                raise QueryError("words", got=meanings, expected='a dict of texts, e.g. {"A": "sell"}')

    @property
    def of(self) -> Table:
        """The table that the rows go into."""
        return TABLES[self.table]

    @property
    def times(self) -> str | Mapping[str, str] | None:
        """How times are written: a unit, a format, a unit per column, or None."""
        return written_as(self.time_unit, self.time_format)

    @property
    def time_columns(self) -> list[str]:
        """Our columns that hold times."""
        return [name for name in known_columns(self.of) if is_time(column_of(self.of, name))]

    @property
    def zone(self) -> Zone:
        """The zone of written times without an offset."""
        return Zone() if self.time_zone is None else Zone.of(self.time_zone)

    def time_of(self, column: str) -> str | None:
        """Return how the times of one of our columns are written, if the caller says it."""
        times = self.times
        return times if isinstance(times, str | None) else times.get(column)

    @property
    def candle_length(self) -> int | None:
        """Length of the candles; None if the rows show it. [ns]"""
        return None if self.interval in {None, BY_ROWS} else length(self.interval)

    @property
    def files(self) -> str:
        """What an error calls files of this layout."""
        return f"{self.name} files of {self.table}"

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read; those of trades stay as in older versions of tidytape."""
        times = self.times
        is_of_trades = self.table == TRADES.name
        return {
            "table": None if is_of_trades else self.table,
            "coin": None if is_of_trades else market.coin,
            "columns": dict(self.columns or {}),
            "time_unit": dict(times) if isinstance(times, Mapping) else times,
            "interval": self.candle_length,
            "words": {column: dict(meanings) for column, meanings in (self.words or {}).items()},
            "time_zone": self.time_zone,
            "stamped": self.stamped,
            "volatility_unit": self.volatility_unit,
            "rate_unit": self.rate_unit,
            "divisors": dict(self.divisors),
        }

    def require_used(self, market: Market) -> None:
        """Raise QueryError if the caller says something about the market that these files do not use."""
        if market.funding_interval is not None and self.table != FUNDING.name:
            raise nothing_to_choose("funding_interval", market.funding_interval, self.files)
