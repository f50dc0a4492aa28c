"""What a request costs to compute, estimated from only the statistics of files."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidytape.catalogue import DATA_TYPES, DEFAULT_TPO_BLOCK_MINUTES, Selection, Side
from tidytape.errors import QueryError
from tidytape.lake import LakeReader
from tidytape.lake._delta import Facts
from tidytape.lake.rollup import Sources, sources
from tidytape.lake.rollup._recipes import RECIPES
from tidytape.query import PointsQuery, window_hint
from tidytape.service.answer._candles import LONGEST_CANDLE
from tidytape.service.answer._plans import PLANS, reads
from tidytape.service.answer._scan import (
    ROWS_PER_TOUCH,
    Limits,
    Market,
    MarketsByType,
    needs_rates,
    quote_markets,
)
from tidytape.times import DAY, MINUTE, SECOND

_EARLIEST, _LATEST = -(2**63), 2**63 - 1
_LIGHT_ROWS = 1_000_000  # rows that a light request may read
_LIGHT_MADE = 250_000  # rows that a light request may make
_SMALL = 250_000  # rows of a small request, which takes a fifth of a second at most
_ROWS_PER_MARKET = 25_000  # rows whose reading takes as long as planning for one more market


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a request costs to compute.

    It decides whether a request is refused, in which lane of the queue it waits, and whether it may take the last
    worker. Estimating reads no rows, except to count trades if a window may hold too many.

    Attributes
    ----------
    rows : int
        About how many rows the request reads.
    made : int
        About how many rows or levels the request makes.
    least : int
        How many rows the request makes at least.
    most : float
        How many rows the request reads and makes at most, by the statistics of files, and rows that stand for the time
        to plan for its markets; infinite if nothing bounds it.
    """

    rows: int
    made: int
    least: int = 0
    most: float = math.inf

    @property
    def is_heavy(self) -> bool:
        """Whether the request may not take the last worker and runs at low priority."""
        return self.is_heavier_than(0, 0)

    def is_heavier_than(self, rows: int, levels: int) -> bool:
        """Return whether the request is heavy, and reads or makes more than these numbers."""
        return self.rows > max(_LIGHT_ROWS, rows) or self.made > max(_LIGHT_MADE, levels)

    @property
    def is_small(self) -> bool:
        """Whether the request is certainly so small that it never needs to be stopped."""
        return self.most <= _SMALL

    @property
    def is_probably_small(self) -> bool:
        """Whether the request is small by estimate, if not for certain; then its points may stay in memory."""
        return self.rows <= _SMALL and self.made <= _SMALL

    def require(self, query: PointsQuery, limits: Limits) -> None:
        """Raise QueryError if the request costs more than one request may."""
        if limits.rows is not None and self.rows > limits.rows:
            got, limit, count = f"about {self.rows:,} rows to read", limits.rows, self.rows
        elif self.least > limits.made:
            if query.block_size is not None:
                raise QueryError(
                    "block_size",
                    got=str(query.block_size),
                    expected=f"a size at which at most {limits.made:,} rows are made",
                    hint=f"at this size there are {self.least:,} or more; a shorter window has fewer, too",
                )
            got, limit, count = f"{self.least:,} rows to make", limits.made, self.least
        else:
            return
        raise QueryError(
            "end",
            got=got,
            expected=f"at most {limit:,} in one request",
            hint=window_hint(query.period * limit // count),
            code="POINT_LIMIT_EXCEEDED",
        )


def estimated(query: PointsQuery, subjects: MarketsByType, statistics: Statistics) -> Estimate:
    """Return what a request costs: the sum over its data types and markets."""
    parts = [
        _of_market(name, query, market, statistics)
        for name in query.type
        for market in subjects.get(name, [])
    ]
    if not parts:
        return Estimate(0, 0, most=0)
    rows, made, least = (sum(numbers) for numbers in zip(*parts, strict=True))
    most = sum(
        _most(name, query, market, statistics) for name in query.type for market in subjects.get(name, [])
    )
    return Estimate(rows, made, least, most + _ROWS_PER_MARKET * (len(parts) - 1))


def _of_market(name: str, query: PointsQuery, market: Market, statistics: Statistics) -> tuple[int, int, int]:
    """Return how many rows are read, made, and made at least, for one data type and market."""
    plan, data_type = PLANS[name], DATA_TYPES[name]
    parts = _parts(name, query, market)
    rows = sum(_rows_of(part, market, statistics) for part in parts)
    if needs_rates(query, market):
        rows += statistics.rates(market.quote_coin, parts[0].start, parts[0].end)
    if not plan.minutes:
        return rows, rows, 0
    series = 2 if data_type.per_side and not query.side else 1
    if series == 2 and plan.tells_sides:
        trades = statistics.events("trades", *market.partitions[0])
        series += any(file.sideless and file.may_hold(parts[0].start, parts[0].end) for file in trades)
    if query.gapfill:
        return rows, query.points * series, query.points * series
    if plan.has_time_blocks:
        touched, least = _touched(query, market, statistics, parts[0].start, parts[0].end)
        return rows, max(rows, ROWS_PER_TOUCH * touched), ROWS_PER_TOUCH * least
    return rows, rows if data_type.levels else min(rows, query.points * series), 0


def _most(name: str, query: PointsQuery, market: Market, statistics: Statistics) -> float:
    """Return how many rows one data type of a market reads and makes at most; infinite if no statistics bound it."""
    plan, (part, *other_parts) = PLANS[name], _parts(name, query, market)
    # No statistics say how old the last price or report is, nor which events the points of a whole exchange need.
    if (
        needs_rates(query, market)
        or other_parts
        or query.gapfill
        or DATA_TYPES[name].selection is not Selection.MARKET
    ):
        return math.inf
    most = sum(statistics.most_minutes(table, market, part.start, part.end) for table in part.minutes)
    for table in part.tables:
        start = part.start - LONGEST_CANDLE if table == "candles" else part.start
        most += statistics.most_events(table, market, start, part.end)
    if plan.has_time_blocks:
        most += _most_of_levels(query, market, statistics, part.start, part.end)
    return most


@dataclass(frozen=True, slots=True)
class _Part:
    """The tables of minutes and of events that are read for one data type, in a span. [ns since the epoch]"""

    minutes: tuple[str, ...]
    tables: tuple[str, ...]
    start: int
    end: int


def _parts(name: str, query: PointsQuery, market: Market) -> list[_Part]:
    """Return what is read for the points of one data type and market; the part of the type itself comes first."""
    parts = []
    for read_type, reach in reads(name, query).items():
        plan = PLANS[read_type]
        # Closes that convert the amounts of another type are not converted themselves.
        is_converted = plan.converts_events and read_type == name and needs_rates(query, market)
        minutes = () if is_converted else plan.minutes
        tables = set(plan.tables).difference(RECIPES[table].raw.name for table in minutes)
        start, end = (second * SECOND for second in query.span)
        parts.append(_Part(minutes, tuple(tables), start - reach.before, end + reach.after))
    return parts


def _rows_of(part: _Part, market: Market, statistics: Statistics) -> int:
    """Return about how many rows of a part are read."""
    minutes = sum(statistics.minutes(table, market, part.start, part.end) for table in part.minutes)
    partitions = [(table, *names) for table in part.tables for names in market.partitions]
    files = [file for partition in partitions for file in statistics.events(*partition)]
    return minutes + rows_within(files, part.start, part.end)


def _most_of_levels(
    query: PointsQuery, market: Market, statistics: Statistics, start: int, end: int
) -> float:
    """Return the most rows that a market profile costs: each time block may touch all levels of the files."""
    files = [
        file
        for file in statistics.events("trades", market.exchange, market.raw_symbol)
        if file.may_hold(start, end)
    ]
    if market.block_size is None:
        return math.inf
    highest = max((math.inf if file.high is None else file.high for file in files), default=0.0)
    lowest = min((-math.inf if file.low is None else file.low for file in files), default=0.0)
    level_count = (highest - lowest) / float(market.block_size) + 2
    return ROWS_PER_TOUCH * level_count * ((end - start) // _block(query) + 2)


def _block(query: PointsQuery) -> int:
    """Return the length of a time block of a market profile. [ns]"""
    return min((query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES) * 60, query.step) * SECOND


def rows_within(files: Iterable[Facts], start: int, end: int) -> int:
    """Return about how many rows of files lie in a window, by the share of each file's time that lies in it.

    Examples
    --------
    >>> rows_within([Facts(100, 0, 99), Facts(50, 1_000, 2_000)], 0, 50)
    50
    """
    return math.ceil(sum((file.rows or 0) * file.share(start, end) for file in files))


def _touched(
    query: PointsQuery, market: Market, statistics: Statistics, start: int, end: int
) -> tuple[int, int]:
    """Return about how many levels the time blocks of a market profile touch, and how many at least.

    Prices are taken as a random walk, whose range grows with the root of time; so a time block touches that share of
    the levels of a file. Together the time blocks of a file touch at least all levels of its range. `require_touched`
    of `_plans.py` reads minute rows to get the exact number.
    """
    if market.block_size is None:
        return 0, 0
    block = _block(query)
    about_touched, least_touched = 0.0, 0.0
    for file in statistics.events("trades", market.exchange, market.raw_symbol):
        share = file.share(start, end)
        if not share or file.low is None or file.high is None or file.first is None or file.last is None:
            continue
        level_count = (file.high - file.low) / float(market.block_size)
        block_count = max(1.0, (file.last + 1 - file.first) / block)
        about_touched += share * (level_count * block_count**0.5 + block_count)
        least_touched += level_count if share == 1 else 0
    return math.ceil(about_touched), math.floor(least_touched)


class Statistics:
    """The facts of a lake's logs about its files, and numbers of trades if these facts do not suffice.

    Parameters
    ----------
    lake : LakeReader
    """

    def __init__(self, lake: LakeReader) -> None:
        self._lake = lake

    def events(self, table: str, *partition: str) -> list[Facts]:
        """Return the log's facts about the files of one partition."""
        return self._lake._files(table, *partition)

    def minutes(self, table: str, market: Market, start: int, end: int) -> int:
        """Return about how many rows are read for the minutes of a market."""
        origin = self._sources(table, market, start, end)
        spans = [(table, span) for span in origin.kept] + [(origin.raw, span) for span in origin.holes]
        return sum(
            rows_within(self.events(name, market.exchange, market.raw_symbol), *span) for name, span in spans
        )

    def rates(self, quote: str | None, start: int, end: int) -> int:
        """Return about how many rows are read for the USD rate of a quote: reports, or else trades of one market."""
        if reports := self.events("quote_rates"):
            return rows_within(reports, _EARLIEST, end)
        market = next(iter(quote_markets(self._lake, quote)), None)
        return 0 if market is None else rows_within(self.events("trades", *market), start - DAY, end)

    def most_events(self, table: str, market: Market, start: int, end: int) -> float:
        """Return how many rows the files have that may hold events of a span; infinite if a log does not say it."""
        files = [file for names in market.partitions for file in self.events(table, *names)]
        return sum(
            math.inf if file.rows is None else file.rows for file in files if file.may_hold(start, end)
        )

    def most_minutes(self, table: str, market: Market, start: int, end: int) -> float:
        """Return how many rows are read at most for the minutes of a market; infinite if nothing bounds it."""
        origin, recipe = self._sources(table, market, start, end), RECIPES[table]
        if origin.holes and recipe.lasts:  # a book needs the events since the last snapshot, however old
            return math.inf
        rows_per_minute = len(Side) + recipe.table["side"].nullable if "side" in recipe.table.key else 1
        rows_stored: float = sum((last - first) // MINUTE * rows_per_minute for first, last in origin.kept)
        if recipe.has_levels:
            rows_stored = sum(self.most_events(table, market, *span) for span in origin.kept)
        return rows_stored + sum(self.most_events(origin.raw, market, *span) for span in origin.holes)

    def count_trades(self, market: Market, start: int, end: int) -> int:
        """Return how many trades a window holds."""
        return int(self._trades(market, start, end).select(pl.len()).collect(engine="streaming").item())

    def first_trades(self, market: Market, start: int, end: int, most: int | None) -> NDArray[np.int64]:
        """Return the timestamps of the first ``most`` trades of a window, of all for None. [ns since the epoch]

        They are sorted.
        """
        if most is not None:
            end = min(end, self._end_of_most(market, start, most))
        times = self._trades(market, start, end).select("timestamp").collect(engine="streaming")["timestamp"]
        return times.sort().head(len(times) if most is None else most).to_numpy()

    def _end_of_most(self, market: Market, start: int, most: int) -> int:
        """Return a time before which the market has ``most`` trades since ``start``, if it has so many. [ns]"""
        files = self.events("trades", market.exchange, market.raw_symbol)
        rows = 0
        for file in sorted(files, key=lambda file: file.last or 0):
            if file.first is None or file.last is None or file.first < start:
                continue
            rows += file.rows or 0
            if rows >= most:
                return file.last + 1
        return _LATEST

    def _sources(self, table: str, market: Market, start: int, end: int) -> Sources:
        return sources(
            self._lake,
            table,
            exchange=market.exchange,
            raw_symbol=market.raw_symbol,
            start=start,
            end=end,
            block_size=market.block_size,
            made_at=market.registered_block_size,
        )

    def _trades(self, market: Market, start: int, end: int) -> pl.LazyFrame:
        return self._lake.scan(
            "trades", exchange=market.exchange, raw_symbol=market.raw_symbol, start=start, end=end
        )
