"""What a query reads from the lake for one market: events, minute rows, and the USD rate of the quote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Literal, Self

import narwhals.stable.v2 as nw
import polars as pl

from tidytape import aggregate
from tidytape.aggregate._group import in_usd as worth_in_usd
from tidytape.catalogue import (
    USD_QUOTES,
    Interval,
)
from tidytape.errors import QueryError
from tidytape.frames._table import planned
from tidytape.lake import LakeReader
from tidytape.lake.rollup import minutes, minutes_of_many
from tidytape.query import PointsQuery
from tidytape.times import DAY, MINUTE, SECOND

_ROWS_PER_SECOND = 2_000_000  # rows that an answer reads in a second, about
_BYTES_PER_ROW = 300  # memory that a row takes, about
MARKET = ["exchange", "raw_symbol"]
"""The columns that name a market."""

ROWS_PER_TOUCH = 4
"""How many rows cost as much as one touch of a market profile, whose levels are sorted and joined several times."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost to compute.

    Attributes
    ----------
    rows : int or None
        Most rows that it may read; None if nothing limits the time of an answer.
    made : int
        Most rows that it may make.
    """

    rows: int | None
    made: int

    @classmethod
    def of(cls, *, seconds: float | None, memory: int | None) -> Self:
        """Return the limits that keep an answer within some time [s] and some memory [byte]."""
        rows = None if seconds is None else int(seconds * _ROWS_PER_SECOND)
        return cls(rows, (memory or 4 << 30) // _BYTES_PER_ROW)

    @property
    def touched(self) -> int:
        """Most touches of a market profile: levels that its time blocks touch, each counted once per time block."""
        return self.made // ROWS_PER_TOUCH


UNHURRIED = Limits.of(seconds=None, memory=None)
"""The limits of a service in the process of its only caller."""


@dataclass(frozen=True, slots=True)
class Market:
    """One market of the lake that a query selects. In a group it has the names that all members share.

    An option summary, a token, and a coin across the markets of one exchange take the same form. They have an empty
    exchange or symbol if they have none.

    Attributes
    ----------
    exchange, raw_symbol : str
    normalized_symbol, coin, category, quote_coin : str or None
    block_size : Decimal or None
        Height of the price levels in this query. [quote per coin]
    available_since : int or None
        [ns since the epoch]
    registered_block_size : Decimal or None
        Height of the price levels in the lake's minute rows. [quote per coin]
    session : str or None
        When it trades, as the lake states it.
    own_partitions : tuple of tuple of str
        The partitions of the lake's tables that hold the events, if these are not (exchange, raw_symbol).
    """

    exchange: str
    raw_symbol: str
    normalized_symbol: str | None
    coin: str | None
    category: str | None
    block_size: Decimal | None
    quote_coin: str | None = None
    available_since: int | None = None
    registered_block_size: Decimal | None = None
    session: str | None = None
    own_partitions: tuple[tuple[str, ...], ...] = ()

    @property
    def partitions(self) -> tuple[tuple[str, ...], ...]:
        """The partitions of the lake's tables that hold the events."""
        return self.own_partitions or ((self.exchange, self.raw_symbol),)

    @property
    def exchanges(self) -> tuple[str, ...]:
        """The exchanges of its partitions; none for a token."""
        return tuple(sorted({names[0] for names in self.partitions if names}))

    def names(self, interval: Interval) -> dict[str, str | None]:
        """Return the names of the market's series by column, without exchange, symbol and side."""
        return {
            "normalized_symbol": self.normalized_symbol,
            "coin": self.coin,
            "category": self.category,
            "interval": interval.alias,
        }

    def named(self, interval: Interval) -> list[pl.Expr]:
        """Return the same names as polars expressions, which add them as columns."""
        return [pl.lit(value, dtype=pl.String).alias(name) for name, value in self.names(interval).items()]


MarketsByType = Mapping[str, list[Market]]
"""The markets that a query selects, by data type."""


RATE_TABLES = ("trades", "quote_rates")
"""The tables of events that `rates` reads."""


def rates(
    lake: LakeReader, quote: str | None, *, start: int, end: int, before: int = 0
) -> pl.DataFrame | None:
    """Return the USD rate of a quote over a window, and for the time ``before`` it if known; None if it counts as USD.

    The rates are those in the lake. If it has none, they are the minute closes of the first market, by exchange and
    symbol, that traded the quote for USD before the window; closes of the day before the window count too.

    Raises
    ------
    QueryError
        If the lake does not know the quote, or its rate at the start of the window.
    """
    if quote in USD_QUOTES:
        return None
    if quote is None:
        raise QueryError(
            "quote",
            got=None,
            expected="markets with names; ingest their files again with ``normalized_symbol``",
            code="UNSUPPORTED",
        )
    known_rates = (
        lake.scan("quote_rates", end=end)
        .filter(pl.col("quote_coin") == quote)
        .select("quote_coin", "timestamp", "usd")
        .collect()
    )
    for market in () if known_rates.height else quote_markets(lake, quote):
        known_rates = _closes(lake, market, start=start - before - DAY, end=end).select(
            pl.lit(quote).alias("quote_coin"),
            pl.col("timestamp") + MINUTE,  # a close is known once its minute is over
            pl.col("close").alias("usd"),
        )
        if _is_known(known_rates, start):
            break
    if not _is_known(known_rates, start):
        raise QueryError(
            "quote",
            got=quote,
            expected="one that counts as USD, or whose worth the lake knows when the window begins",
            code="UNSUPPORTED",
        )
    return known_rates


def _is_known(rates: pl.DataFrame, start: int) -> bool:
    return not rates.filter(pl.col("timestamp") <= start).is_empty()


def quote_markets(lake: LakeReader, quote: str | None) -> Iterable[tuple[str, str]]:
    """Return the markets that trade a quote for US dollars, sorted by exchange and symbol."""
    return (
        lake.markets()
        .filter(pl.col("coin") == quote, pl.col("quote_coin").is_in(USD_QUOTES))
        .select("exchange", "raw_symbol")
        .iter_rows()
    )


def _closes(lake: LakeReader, market: tuple[str, str], *, start: int, end: int) -> pl.DataFrame:
    exchange, symbol = market
    return aggregate.candles(
        lake.scan("trades", exchange=exchange, raw_symbol=symbol, start=start, end=end), interval="1m"
    ).collect(engine="streaming")


@dataclass(frozen=True)
class MarketScan:
    """What a query reads from the lake for one market.

    Attributes
    ----------
    lake : LakeReader
        The lake that holds the events.
    market : Market
        The market.
    query : PointsQuery
        The query.
    before : int
        Time before the window that is read too. [ns]
    others : tuple of str
        Symbols of other markets of the same exchange and quote that the same plan answers.
    limits : Limits
        What the answer may cost to compute.
    """

    lake: LakeReader
    market: Market
    query: PointsQuery
    before: int = 0
    others: tuple[str, ...] = ()
    limits: Limits = UNHURRIED

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the market and of the others."""
        return (self.market.raw_symbol, *self.others)

    @property
    def interval(self) -> Interval:
        """Interval of the points."""
        return self.query.interval or Interval.MINUTE

    @property
    def start(self) -> int:
        """Start of the time that is read. [ns since the epoch]"""
        return self.query.span[0] * SECOND - self.before

    @property
    def end(self) -> int:
        """End of the last point, exclusive. [ns since the epoch]"""
        return self.query.span[1] * SECOND

    @property
    def needs_rates(self) -> bool:
        """Whether amounts in the quote still need conversion to USD."""
        return needs_rates(self.query, self.market)

    @property
    def amount(self) -> Literal["coin", "quote"]:
        """The unit of amounts: coins, or the quote."""
        return "quote" if in_usd(self.query) else "coin"

    @cached_property
    def rates(self) -> pl.DataFrame | None:
        """The USD rate of the quote over the window. [USD]"""
        start = self.start + self.before
        return rates(self.lake, self.market.quote_coin, start=start, end=self.end, before=self.before)

    def events(self, table: str, *, start: int | None = None, end: int | None = None) -> pl.LazyFrame:
        """Return the events of the window; if the query converts to USD, their ``quote_amount`` is in USD."""
        rows = self.lake.scan(
            table,
            exchange=self.market.exchange,
            raw_symbol=self.symbols,
            start=self.start if start is None else start,
            end=self.end if end is None else end,
        )
        return self.in_usd(rows) if self.needs_rates else rows

    def minutes(
        self, table: str, *, block_size: Decimal | None = None, end: int | None = None
    ) -> pl.LazyFrame:
        """Return the minute rows of the window, from a rollup if the lake has one."""
        if self.others:
            return minutes_of_many(
                self.lake,
                table,
                exchange=self.market.exchange,
                raw_symbols=self.symbols,
                start=self.start,
                end=end or self.end,
            )
        return minutes(
            self.lake,
            table,
            exchange=self.market.exchange,
            raw_symbol=self.market.raw_symbol,
            start=self.start,
            end=end or self.end,
            block_size=block_size,
            made_at=self.market.registered_block_size,
        )

    def extents(self, table: str) -> pl.DataFrame:
        """Return the times of the ``first`` and the ``last`` event of each market in a table, in the window or not."""
        exchange = self.market.exchange
        rows = [(exchange, symbol, *self.lake.extent(table, exchange, symbol)) for symbol in self.symbols]
        dtypes = {**dict.fromkeys(MARKET, pl.String()), **dict.fromkeys(("first", "last"), pl.Int64())}
        return pl.DataFrame(rows, schema=dtypes, orient="row").drop_nulls("first")

    def extent(self, *tables: str) -> tuple[int, int] | None:
        """Return the times of the first and the last event of the market in some tables; None if it has none. [ns]"""
        extents = [self.lake.extent(table, *names) for table in tables for names in self.market.partitions]
        spans = [(first, last) for first, last in extents if first is not None and last is not None]
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None

    def holds(self, table: str, *, before: int = 0) -> bool:
        """Return whether a table may have rows of the markets in the window, or up to ``before`` [ns] before it."""
        spans = (self.lake.extent(table, self.market.exchange, symbol) for symbol in self.symbols)
        since = self.start - before
        return any(
            first is not None and last is not None and first < self.end and last >= since
            for first, last in spans
        )

    @property
    def may_lack_sides(self) -> bool:
        """Whether trades of the market in the window may have no side, by the log alone."""
        files = self.lake._files("trades", self.market.exchange, self.market.raw_symbol)
        return any(file.sideless != 0 and file.may_hold(self.start, self.end) for file in files)

    def in_usd(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return events whose ``quote_amount`` is in USD."""
        assert self.rates is not None
        return (
            planned(
                worth_in_usd,
                events.with_columns(coins_before_usd=pl.col("amount")),
                self.market.quote_coin,
                rates=nw.from_native(self.rates.lazy()),
            )
            .with_columns(quote_amount=pl.col("amount"), amount=pl.col("coins_before_usd"))
            .drop("coins_before_usd")
        )

    @property
    def block_size(self) -> Decimal:
        """Height of the price levels. [quote per coin]"""
        if self.market.block_size is None:
            raise QueryError(
                "block_size",
                got=None,
                expected=f"a block size; none is registered for {self.market.exchange} {self.market.raw_symbol}",
            )
        return self.market.block_size


def needs_rates(query: PointsQuery, market: Market) -> bool:
    """Return whether amounts in the quote of a market need conversion to USD."""
    return in_usd(query) and market.quote_coin not in USD_QUOTES


def in_usd(query: PointsQuery) -> bool:
    """Return whether a query converts amounts to USD: if it asks for USD of a type with amounts, and in a group."""
    asks = query.quote is not None and any(data_type.usd for data_type in query.data_types)
    return asks or query.group_by is not None
