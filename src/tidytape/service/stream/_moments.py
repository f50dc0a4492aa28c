"""A moment of the lake: up to when its points are known, and which of them commits may have changed since another one.

A moment is the lake at one version of each of its tables. The logs of the tables say which markets and times commits
touched between two moments, so only those points need to be computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.catalogue import Interval, TPOSession
from tidytape.errors import LakeError
from tidytape.lake import LakeReader, _delta
from tidytape.lake._tables import REGISTRIES, TABLES
from tidytape.lake.rollup._recipes import SKEW
from tidytape.query import PointsQuery
from tidytape.query._values import LAST_SECOND
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._metadata import known_until
from tidytape.service.answer._plans import PLANS, is_alone, reads, tables_read
from tidytape.service.answer._scan import Market, MarketsByType, MarketScan, needs_rates, quote_markets
from tidytape.times import DAY, SECOND, Span, intersected, union
from tidytape.wire._sessions import row_count

_QUIET = DAY
"""Intervals end without waiting for a market whose newest event is so much older than that of another market. [ns]"""

_WINDOWS, _SMALL_ROWS = 2, 5_000  # windows of a moment whose points stay in memory, and the most rows of one
_MOMENTS = 16
_FOREVER = 2**62
_ALWAYS = (-_FOREVER, _FOREVER)


@dataclass
class Moment:
    """The lake at one version of each of its tables.

    Attributes
    ----------
    engine : Engine
        Answers from it.
    """

    engine: Engine
    _known: dict[tuple[str, Market, int, int], int] = field(default_factory=dict, repr=False)
    _points: dict[Any, pl.DataFrame] = field(default_factory=dict, repr=False)

    @property
    def lake(self) -> LakeReader:
        """The lake at this moment."""
        return self.engine.lake

    @cached_property
    def versions(self) -> Mapping[str, int]:
        """The version of each table of events; -1 where the lake is older than the table."""
        return versions_of(self.lake)

    def known(self, name: str, query: PointsQuery, market: Market) -> int:
        """Return the time that the points of a market are known up to, 0 without events. [ns since the epoch]

        Recorded candles count if those in the window of the query make up its interval.
        """
        key = name, market, query.start, query.end
        if key not in self._known:
            self._known[key] = known_until(name, MarketScan(self.lake, market, query)) or 0
        return self._known[key]

    def known_in_any(self, name: str, query: PointsQuery, market: Market) -> Span:
        """Return the least and the greatest time that `known` returns, whatever the window."""
        times = [self.known(name, query, market)]
        reads_candles = any("candles" in PLANS[other].tables for other in reads(name, query))
        if reads_candles and self.lake.extent("candles", *market.partitions[0])[0] is not None:
            times.append(self.known(name, query.model_copy(update={"start": 0, "end": LAST_SECOND}), market))
        return min(times), max(times)

    def points(self, name: str, query: PointsQuery, markets: list[Market]) -> pl.DataFrame:
        """Return the points of the window of a query in the order of an answer.

        Those of the last small windows stay in memory: when the lake has changed again, this is the earlier moment.
        """
        key = name, query, tuple(markets)
        if key not in self._points:
            ((_, frame),) = self.engine.frames(query, {name: markets})
            if row_count(frame) > _SMALL_ROWS:
                return frame
            if len(self._points) >= _WINDOWS:
                self._points.pop(next(iter(self._points)))
            self._points[key] = frame
        return self._points[key]


def versions_of(lake: LakeReader) -> Mapping[str, int]:
    """Return the version of each table of events; -1 where the lake is older than the table."""
    return {name: version for name, version in lake.version().items() if TABLES[name] not in REGISTRIES}


def versions_read(query: PointsQuery, lake: LakeReader) -> dict[str, int]:
    """Return the version of each table that the points of a query are read from, tables of minutes included."""
    minutes = {table for name in query.type for other in reads(name, query) for table in PLANS[other].minutes}
    stored = {table: lake.delta(table).version() for table in minutes if lake.has_table(table)}
    versions = versions_of(lake)
    return {**stored, **{name: versions.get(name, -1) for name in tables_read(query)}}


@lru_cache(maxsize=_MOMENTS)
def moment_at(engine: Engine, query: PointsQuery, versions: tuple[tuple[str, int], ...]) -> Moment:
    """Return the lake at the versions of `versions_read`; the last few moments of a process stay in memory."""
    lake = engine.lake.now()
    if versions_read(query, lake) != dict(versions):
        lake = engine.lake.at(dict(versions))
    return Moment(engine.at(lake, keeps=False))


# --- up to when points are known ------------------------------------------------------------------------------------


def over(query: PointsQuery, markets: MarketsByType, moment: Moment) -> dict[str, int]:
    """Return, for each data type, the start of the last interval known to its end in all markets. [ns since epoch]

    Markets without events do not count, nor do those whose newest event is a day older than that of another. Raw trades
    have no intervals.
    """
    ends = {
        data_type.name: _known_of_all(data_type.name, query, markets[data_type.name], moment)
        for data_type in query.data_types
        if not data_type.interval_optional
    }
    return {
        name: query.start_of(query.start_of(end // SECOND) - 1) * SECOND for name, end in ends.items() if end
    }


def known_beyond(query: PointsQuery, moment: Moment, end: int) -> bool:
    """Return whether every market of every data type is known up to a time, as `over` counts them. [ns]"""
    markets = moment.engine.markets(query, rates=False)
    return all(_known_of_all(name, query, markets[name], moment) >= end for name in query.type)


def newest_data_time(query: PointsQuery, moment: Moment) -> int:
    """Return the newest time up to which a market of the query is known; 0 without events. [ns since the epoch]"""
    markets = moment.engine.markets(query, rates=False)
    return max(
        (moment.known(name, query, market) for name in query.type for market in markets[name]), default=0
    )


def require_files(query: PointsQuery, then: Moment, now: Moment) -> None:
    """Raise LakeError if a file was removed that the difference between two moments is read from.

    It looks at local lakes only: in an object store it would need a request per file.
    """
    if "://" in then.lake.path:
        return
    markets = now.engine.markets(query, rates=False)
    for table, names in partitions_read(
        query, [market for name in query.type for market in markets[name]], now
    ):
        folder = Path(then.lake.uri(table))
        for file in then.lake._files(table, *names):
            if not (folder / file.path).exists():
                raise LakeError(f"a file of table {table!r} was removed", path=str(folder))


def partitions_read(
    query: PointsQuery, markets: Sequence[Market], now: Moment
) -> list[tuple[str, tuple[str, ...]]]:
    """Return each table of events that the points of a query are made of, with each partition that counts.

    A partition counts if it holds a market's own events, or the trades that price its quote.
    """
    quotes = {market.quote_coin for market in markets if needs_rates(query, market)}
    partitions = {names for market in markets for names in market.partitions}
    partitions |= {names for quote in quotes for names in quote_markets(now.lake, quote)}
    return [
        (table, names)
        for table in tables_read(query)
        for names in (partitions if TABLES[table].partitions else [()])
    ]


def _known_of_all(name: str, query: PointsQuery, markets: Sequence[Market], moment: Moment) -> int:
    """Return the time that all markets are known up to, 0 without events; markets that are long quiet do not count."""
    known = [time for market in markets if (time := moment.known(name, query, market))]
    return min((time for time in known if time >= max(known) - _QUIET), default=0)


# --- what commits touched -------------------------------------------------------------------------------------------


def touched_spans(
    name: str, query: PointsQuery, markets: Sequence[Market], since: Moment | None, now: Moment
) -> dict[Market, list[Span]]:
    """Return the spans in which points of each market may have changed, or became final, widened to intervals. [s]"""
    is_apart = is_alone(name, query) and not any(needs_rates(query, market) for market in markets)
    after_any = [] if since is None or is_apart else _after_any(query, markets, since, now)
    touched = {}
    for market in markets:
        _, known_now = now.known_in_any(name, query, market)
        if since is None:
            spans = [_ALWAYS]
        else:
            spans = _of_market(name, query, market, since, now) if is_apart else list(after_any)
            known_then, _ = since.known_in_any(name, query, market)
            if known_now > known_then:  # these points became final
                spans.append((known_then or -_FOREVER, known_now + 1))
        # The points of a group are made of the events of all its members.
        events = list(_extents(name, [market] if query.group_by is None else markets, now))
        first = min((first for first, _ in events), default=_FOREVER)
        last = max((last for _, last in events), default=known_now)
        # Whole intervals, so that an interval is computed in the same window at each moment.
        touched[market] = union(
            (query.start_of(start // SECOND), after(query, (end - 1) // SECOND, 1))
            for start, end in intersected((first, max(last, known_now) + 1), spans)
        )
    return touched


def _of_market(name: str, query: PointsQuery, market: Market, since: Moment, now: Moment) -> list[Span]:
    """Return the spans whose points the committed rows of one market may change. [ns since the epoch]"""
    spans: list[Span] = []
    for table in PLANS[name].tables:
        committed = _committed(table, since, now)
        if committed is None:
            return [_ALWAYS]
        for names, span in committed:
            if names in market.partitions:
                spans += _reached(table, names, span, query, since=since, now=now)
    return [(first, last + 1) for first, last in spans]


def _after_any(query: PointsQuery, markets: Sequence[Market], since: Moment, now: Moment) -> list[Span]:
    """Return the time from the first row on that was committed to anything that points are made of. [ns]"""
    partitions = set(partitions_read(query, markets, now))
    firsts: list[int] = []
    for table in tables_read(query):
        committed = _committed(table, since, now)
        if committed is None:
            return [_ALWAYS]
        for names, span in committed:
            if (table, names) in partitions:
                firsts += [first for first, _ in _reached(table, names, span, query, since=since, now=now)]
    # A snapshot of a book may bear a later time than the updates that it came before.
    return [(min(firsts) - SKEW, _FOREVER)] if firsts else []


def _reached(
    table: str, names: tuple[str, ...], span: Span, query: PointsQuery, *, since: Moment, now: Moment
) -> list[Span]:
    """Return the first and the last times of points that committed rows may change. [ns since the epoch]

    ``span`` is the first and the last time of the rows. Where a market has both trades and recorded candles, a row also
    decides whether its neighbouring intervals are made of trades or of recorded candles, and the first and the last
    trade decide it for all intervals up to them.
    """
    if table not in {"trades", "candles"} or now.lake.extent("candles", *names)[0] is None:
        return [span]
    step = query.step * SECOND
    spans = [span]
    if table == "trades":
        (first_then, last_then), (first, last) = (
            moment.lake.extent(table, *names) for moment in (since, now)
        )
        if first is not None and last is not None:
            spans += [
                (first, last if first_then is None else first_then),
                (first if last_then is None else last_then, last),
            ]
    return [(first - step, last + step) for first, last in spans]


def _committed(table: str, since: Moment, now: Moment) -> list[tuple[tuple[str, ...], Span]] | None:
    """Return for each commit to a table the partition and the first and last time of its rows; None if no log says."""
    then, version = since.versions.get(table, -1), now.versions.get(table, -1)
    if version <= then:
        return []
    if then < 0:
        return None
    spans = _delta.spans_since(now.lake.delta(table), then)
    if spans is None:
        return None
    return [(names, span) for names, spans_of_market in spans.items() for span in spans_of_market]


def _extents(name: str, markets: Sequence[Market], now: Moment) -> Iterator[Span]:
    """Yield the first and the last event of each partition that holds events of markets. [ns since the epoch]"""
    for table in PLANS[name].tables:
        for market in markets:
            for names in market.partitions:
                first, last = now.lake.extent(table, *names)
                if first is not None and last is not None:
                    yield first, last


def after(query: PointsQuery, at: int, length: int = 1) -> int:
    """Return the start of the interval or session some seconds after ``at``, at least that of the next one. [s]"""
    later = query.start_of(at + length)
    if later > at:
        return later
    sessions = {TPOSession.MONTHLY: 31, TPOSession.WEEKLY: 7, TPOSession.DAILY: 1}
    step = query.step if query.tpo_session is None else sessions[query.tpo_session] * Interval.DAY.seconds
    return query.start_of(query.start_of(at) + step)
