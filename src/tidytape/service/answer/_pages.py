"""Pages: the windows of at most 100,000 raw trades into which a longer window is cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidytape.errors import QueryError, counted
from tidytape.lake._delta import Facts
from tidytape.query import PointsQuery, window_hint
from tidytape.query._values import written_time
from tidytape.service.answer._estimate import Statistics, rows_within
from tidytape.service.answer._scan import Market, MarketsByType
from tidytape.times import SECOND

_COUNTED = 20_000_000  # trades of a window that are counted; more are estimated
_MOST = 100  # pages whose ends are found at once, so that a window of years does not take long


def page_ends(times: NDArray[np.int64], query: PointsQuery) -> list[int]:
    """Return the ends of the pages of a window. [s since the epoch]

    Every page but the last is as long as its trades allow. A second with more trades than that is a page of its own,
    whose request is refused.

    Parameters
    ----------
    times : array of int64
        The times of the window's trades, sorted. [ns since the epoch]
    query : PointsQuery

    Examples
    --------
    >>> query = PointsQuery(type="TRADE", exchange="X", coin="BTC", start=0, end=100)
    >>> page_ends(np.arange(250_000) * 200_000, query)
    [20, 40, 100]
    """
    limit, start, first, ends = most_trades(query), query.start, 0, list[int]()
    while len(times) - first > limit:
        start = max(int(times[first + limit]) // SECOND, start + 1)
        first = int(np.searchsorted(times, start * SECOND))
        ends.append(start)
    return ends if ends and ends[-1] >= query.end else [*ends, query.end]


def pages(query: PointsQuery, ends: Sequence[int]) -> list[PointsQuery]:
    """Return the queries of the pages of a window with these ends. [s since the epoch]"""
    starts = (query.start, *ends[:-1])
    return [
        query.model_copy(update={"start": start, "end": end}) for start, end in zip(starts, ends, strict=True)
    ]


def most_trades(query: PointsQuery) -> int:
    """Return how many raw trades an answer may have; 0 if the query asks for none."""
    return max(
        (data_type.max_points for data_type in query.data_types if data_type.interval_optional), default=0
    )


def found_ends(
    query: PointsQuery, subjects: MarketsByType, statistics: Statistics, *, most: int | None = _MOST
) -> list[int]:
    """Return the ends of the pages of a window, as `page_ends`, of which the last may hold too many trades.

    It reads no trades if the files of the window hold few enough.

    Parameters
    ----------
    query : PointsQuery
    subjects : dict of str to list of Market
    statistics : Statistics
    most : int or None
        How many pages are found at once; None for all.
    """
    if _are_few(query, subjects, statistics):
        return [query.end]
    rows = None if most is None else most * most_trades(query)
    return page_ends(_first_times(query, subjects, statistics, rows), query)


def require_trades(query: PointsQuery, subjects: MarketsByType, statistics: Statistics) -> None:
    """Refuse a window that holds more trades than one request may have.

    It reads trades only if the files of the window hold too many, and for the hint no more trades than the limit. It
    estimates a number of trades that takes long to count.

    Raises
    ------
    QueryError
        The message says how many trades there are, and the hint how long a window may be.
    """
    if _are_few(query, subjects, statistics):
        return
    limit, start, end = most_trades(query), query.start * SECOND, query.end * SECOND
    markets = _markets(query, subjects)
    estimated_trades = rows_within(_files(markets, statistics), start, end)
    is_counted = estimated_trades <= _COUNTED
    trades = (
        sum(statistics.count_trades(market, start, end) for market in markets)
        if is_counted
        else estimated_trades
    )
    if trades <= limit:
        return
    first_times = _first_times(query, subjects, statistics, limit + 1)
    seconds = (int(first_times[limit]) - start) // SECOND
    hint = window_hint(seconds)
    if not seconds:
        hint += (
            f"; the second {written_time(query.start)} alone has more, and no shorter window can be asked for"
        )
    raise QueryError(
        "end",
        got=f"{'' if is_counted else 'about '}{counted(trades, 'trade')}",
        expected=f"at most {counted(limit, 'trade')} in one request",
        hint=hint,
        code="POINT_LIMIT_EXCEEDED",
    )


def _are_few(query: PointsQuery, subjects: MarketsByType, statistics: Statistics) -> bool:
    """Return whether the files that may hold trades of the window have few enough, by their logs."""
    start, end = query.start * SECOND, query.end * SECOND
    files = _files(_markets(query, subjects), statistics)
    return sum(file.rows or 0 for file in files if file.share(start, end)) <= most_trades(query)


def _first_times(
    query: PointsQuery, subjects: MarketsByType, statistics: Statistics, most: int | None
) -> NDArray[np.int64]:
    """Return the times of the first ``most`` trades of a window, of all for None, sorted. [ns since the epoch]"""
    span = query.start * SECOND, query.end * SECOND
    times = [statistics.first_trades(market, *span, most) for market in _markets(query, subjects)]
    return np.sort(np.concatenate(times))[:most]


def _markets(query: PointsQuery, subjects: MarketsByType) -> list[Market]:
    """Return the markets whose raw trades a query asks for."""
    names = [data_type.name for data_type in query.data_types if data_type.interval_optional]
    return [market for name in names for market in subjects[name]]


def _files(markets: Sequence[Market], statistics: Statistics) -> list[Facts]:
    return [file for market in markets for file in statistics.events("trades", *market.partitions[0])]
