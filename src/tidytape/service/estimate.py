"""What a request takes, from the statistics of files alone: how many rows are read, and how many are made.

One estimate decides whether a request is refused, which lane of the queue it waits in, and whether it may take the last
worker. Nothing here reads a row, but for the count of
trades where a window may hold too many of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from tidytape.catalogue import DATA_TYPES, DEFAULT_TPO_BLOCK_MINUTES, USD_QUOTES
from tidytape.errors import QueryError, counted
from tidytape.lake.store import Facts
from tidytape.query import PointsQuery, window_hint
from tidytape.service.options import Instrument, Subjects
from tidytape.times import DAY, SECOND

__all__ = [
    "UNHURRIED",
    "Estimate",
    "Limits",
    "Statistics",
    "estimated",
    "require_trades",
    "rows_within",
]


_LIGHT_ROWS = 1_000_000
_LIGHT_MADE = 250_000
_COUNTED = 20_000_000
_ROWS_PER_SECOND = 2_000_000
_BYTES_PER_ROW = 300
_BYTES_PER_NUMBER = 8
_ROWS_PER_TOUCH = 4
"""A level that a time block touches takes as much as some rows: the levels are sorted and joined several times."""


class Statistics(Protocol):
    """What an estimate is made of."""

    def events(self, table: str, *partition: str) -> list[Facts]:
        """Return the files of one partition of a table of events."""

    def minutes(self, table: str, one: Instrument, start: int, end: int) -> int:
        """Return about how many rows are read for the minutes of a market: kept ones, and events for all others."""

    def count_trades(self, one: Instrument, start: int, end: int) -> int:
        """Return how many trades of a market a window holds; the trades are read."""

    def first_trades(self, one: Instrument, start: int, end: int, most: int) -> list[int]:
        """Return the timestamps of a market's first trades of a window, at most so many. [ns since the epoch]"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take.

    Attributes
    ----------
    rows : int or None
        Rows that may be read; None where nothing limits the time of an answer.
    made : int
        Rows that may be made.
    """

    rows: int | None
    made: int

    @classmethod
    def of(cls, *, seconds: float | None, memory: int | None) -> Self:
        """Return the limits under which an answer keeps within some time [s] and some memory [byte]."""
        rows = None if seconds is None else int(seconds * _ROWS_PER_SECOND)
        return cls(rows, (memory or 4 << 30) // _BYTES_PER_ROW)

    @property
    def listed(self) -> int:
        """Numbers that lists of market profiles may hold in Arrow: each level has the single prints of its session."""
        return self.made * _BYTES_PER_ROW // _BYTES_PER_NUMBER

    @property
    def touched(self) -> int:
        """Levels that the time blocks of a market profile may touch, each counted once per block."""
        return self.made // _ROWS_PER_TOUCH


UNHURRIED = Limits.of(seconds=None, memory=None)
"""Limits where nothing ends what takes long: in the process of the caller."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a request takes.

    Attributes
    ----------
    rows : int
        About how many rows are read.
    made : int
        About how many rows or levels are made.
    least : int
        How many rows are made for certain.
    """

    rows: int
    made: int
    least: int = 0

    @property
    def is_heavy(self) -> bool:
        """Whether it never takes the last worker, and runs at low priority."""
        return self.rows > _LIGHT_ROWS or self.made > _LIGHT_MADE

    def require(self, query: PointsQuery, limits: Limits) -> None:
        """Raise QueryError if the request takes more than one request may."""
        if limits.rows is not None and self.rows > limits.rows:
            got, most, number = f"about {self.rows:,} rows to read", limits.rows, self.rows
        elif self.least > limits.made:
            if query.block_size is not None:
                raise QueryError(
                    "block_size",
                    got=str(query.block_size),
                    expected=f"a size at which at most {limits.made:,} rows are made",
                    hint=f"at this size there are {self.least:,} or more; a shorter window has fewer, too",
                )
            got, most, number = f"{self.least:,} rows to make", limits.made, self.least
        else:
            return
        raise QueryError(
            "end",
            got=got,
            expected=f"at most {most:,} in one request",
            hint=window_hint(query.period * most // number),
            code="POINT_LIMIT_EXCEEDED",
        )


def estimated(query: PointsQuery, subjects: Subjects, statistics: Statistics) -> Estimate:
    """Return what a request takes: the sum over its data types and markets."""
    parts = [_of_type(name, query, one, statistics) for name in query.type for one in subjects.get(name, [])]
    return Estimate(*(sum(numbers) for numbers in zip(*parts, strict=True))) if parts else Estimate(0, 0)


def _of_type(name: str, query: PointsQuery, one: Instrument, statistics: Statistics) -> tuple[int, int, int]:
    """Return rows, made and least of one market."""
    start, end = query.span[0] * SECOND, query.span[1] * SECOND
    if name in _EVENTS:
        table, partitions = _EVENTS[name](one)
        rows = sum(rows_within(statistics.events(table, *names), start, end) for names in partitions)
        return rows, rows, 0
    if name == "TPO_AGG":
        end += DAY * 31 if query.tpo_session else 0
    is_converted = (query.quote or query.group_by) and one.quote_coin not in USD_QUOTES
    raw = _CONVERTED.get(name) if is_converted else None
    if raw is not None:
        rows = rows_within(statistics.events(raw, one.exchange, one.raw_symbol), start, end)
    else:
        rows = sum(statistics.minutes(table, one, start, end) for table in _MINUTES[name])
    is_worth = name == "OPEN_INTEREST_AGG" and (query.quote or query.group_by)
    if is_worth:  # the closes that it is converted at
        rows += statistics.minutes("candles_of_both_1m", one, start, end)
    if is_worth or name == "TRADE_SIDE_AGNOSTIC_AGG":
        rows += rows_within(statistics.events("candles", one.exchange, one.raw_symbol), start, end)
    series = 2 if DATA_TYPES[name].per_side and not query.side else 1
    if query.gapfill:
        return rows, query.points * series, query.points * series
    if name == "TPO_AGG":
        touched, least = _touched(query, one, statistics, start, end)
        return rows, max(rows, _ROWS_PER_TOUCH * touched), _ROWS_PER_TOUCH * least
    return rows, rows if DATA_TYPES[name].levels else min(rows, query.points * series), 0


_MINUTES = {
    "TRADE_SIDE_AGNOSTIC_AGG": ("candles_of_both_1m",),
    "TRADE_AGG": ("candles_1m",),
    "OPEN_INTEREST_AGG": ("open_interest_1m",),
    "FUNDING_RATE_AGG": ("funding_1m",),
    "LIQUIDATION_AGG": ("liquidations_1m",),
    "VOLUME_PROFILE_AGG": ("candles_of_both_1m", "profile_1m"),
    "TPO_AGG": ("candles_of_both_1m", "profile_1m"),
    "BLOCK_BOOK_SNAPSHOT_AGG": ("book_1m",),
}
"""Tables of minutes that a data type is made of."""

_CONVERTED = {
    "TRADE_SIDE_AGNOSTIC_AGG": "trades",
    "TRADE_AGG": "trades",
    "VOLUME_PROFILE_AGG": "trades",
    "TPO_AGG": "trades",
    "LIQUIDATION_AGG": "liquidations",
}
"""Tables of events that are read instead where amounts are converted from another quote to USD."""

_EVENTS: dict[str, Callable[[Instrument], tuple[str, list[tuple[str, ...]]]]] = {
    "TRADE": lambda one: ("trades", [(one.exchange, one.raw_symbol)]),
    "CME_OPEN_INTEREST_AGG": lambda one: ("cme_open_interest", [(one.exchange, one.raw_symbol)]),
    "VENUEX_LIQUIDATION_AGG": lambda one: ("liquidations", [(one.exchange, name) for name in one.members]),
    "TOKEN_SUPPLY_AGG": lambda one: ("token_supply", [()]),
} | dict.fromkeys(
    ("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "SKEW_OPTION_SUMMARY_AGG", "OPTION_OPEN_INTEREST_AGG"),
    lambda one: ("option_quotes", [(one.exchange, str(one.coin))]),
)
"""Tables of events, and which partitions of them, that a data type without minutes is made of."""


def rows_within(files: Iterable[Facts], start: int, end: int) -> int:
    """Return about how many rows of files lie in a window: of each as much as its time lies in it.

    Examples
    --------
    >>> rows_within([Facts(100, 0, 99), Facts(50, 1_000, 2_000)], 0, 50)
    50
    """
    return math.ceil(sum((one.rows or 0) * _share(one, start, end) for one in files))


def _share(one: Facts, start: int, end: int) -> float:
    """Return what share of a file's time lies in a window; all of it where its time is not known."""
    if one.first is None or one.last is None:
        return 1.0
    inside = min(one.last + 1, end) - max(one.first, start)
    return max(0, inside) / (one.last + 1 - one.first)


def _touched(
    query: PointsQuery, one: Instrument, statistics: Statistics, start: int, end: int
) -> tuple[int, int]:
    """Return about how many levels the time blocks of a market profile touch, and how many at least.

    The range of a price that walks at random grows with the root of time, so a time block has that share of a file's
    range. At least, the time blocks of a file together touch all levels of its range. The exact number is known once
    minutes are read, see `tidytape.service.plans.require_touched`.
    """
    if one.block_size is None:
        return 0, 0
    block = min((query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES) * 60, query.step) * SECOND
    about, least = 0.0, 0.0
    for file in statistics.events("trades", one.exchange, one.raw_symbol):
        share = _share(file, start, end)
        if not share or file.low is None or file.high is None or file.first is None or file.last is None:
            continue
        levels = (file.high - file.low) / float(one.block_size)
        blocks = max(1.0, (file.last + 1 - file.first) / block)
        about += share * (levels * blocks**0.5 + blocks)
        least += levels if share == 1 else 0
    return math.ceil(about), math.floor(least)


# --- trades ---------------------------------------------------------------------------------------------------------


def require_trades(query: PointsQuery, subjects: Subjects, statistics: Statistics) -> None:
    """Refuse a window that holds more trades than one request may have.

    Trades are read only where the files of the window hold too many; and of those, for the longest window that fits,
    no more than the limit. More trades than can be counted in a moment are not counted but estimated.

    Raises
    ------
    QueryError
        It says how many there are, and how long a window fits.
    """
    most = DATA_TYPES["TRADE"].max_points
    start, end = query.start * SECOND, query.end * SECOND
    markets = subjects.get("TRADE", [])
    files = [file for one in markets for file in statistics.events("trades", one.exchange, one.raw_symbol)]
    if sum(file.rows or 0 for file in files if _share(file, start, end)) <= most:
        return
    about = rows_within(files, start, end)
    is_counted = about <= _COUNTED
    trades = sum(statistics.count_trades(one, start, end) for one in markets) if is_counted else about
    if trades <= most:
        return
    times = sorted(time for one in markets for time in statistics.first_trades(one, start, end, most + 1))
    fits = (times[most] - start) // SECOND
    raise QueryError(
        "end",
        got=f"{'' if is_counted else 'about '}{counted(trades, 'trade')}",
        expected=f"at most {counted(most, 'trade')} in one request",
        hint=window_hint(fits),
        code="POINT_LIMIT_EXCEEDED",
    )
