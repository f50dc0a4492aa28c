"""What changed between two moments of the lake: the difference of two answers, where commits touched them.

A moment is the lake at one version of each of its tables. The logs of the tables say which markets and times commits
touched in between, so only those points are computed, at both moments. The difference from no moment is all of history.

Examples
--------
The points of a query that differ between two moments, a window at a time::

    now = moment_of(engine, engine.lake)
    for part in differences(query, since=earlier, now=now, start=0, end=2**40):
        part.frames["TRADE_AGG", Change.FINAL]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.catalogue import Change, Interval, TPOSession
from tidytape.errors import LakeError, QueryError
from tidytape.lake import LakeReader, _delta
from tidytape.lake._tables import REGISTRIES, TABLES
from tidytape.lake.rollup._recipes import SKEW
from tidytape.query import PointsQuery
from tidytape.query._values import LAST_SECOND
from tidytape.schema import data_type, schema_of
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.service.answer._metadata import description
from tidytape.service.answer._plans import PLANS
from tidytape.service.answer._scan import Market, MarketsByType, MarketScan, in_usd, quote_markets
from tidytape.times import DAY, SECOND, Span, intersected, union
from tidytape.wire import DATA_UNTIL
from tidytape.wire._tidy import identity_columns, with_finality

_QUIET = DAY
"""A market whose newest event is so much older than that of another does not hold up the end of intervals. [ns]"""

_POINTS = 1_000  # of a market in one part of a difference
_LEVELLED = 60  # the same, of points with levels
_TRADED = 600  # seconds of trades in one part
_ROWS = 1_000_000  # to be read for one part, by estimate
_MOST = 20_000_000  # to be read for a single interval; beyond it a stream is refused
_SENT = 10_000  # rows of one part, about
_KEPT, _KEPT_ROWS = 2, 5_000  # windows of a moment that stay in memory, and rows of one
_FOREVER = 2**62


class TooMuchError(Exception):
    """A single interval takes too many rows to be computed again whenever the lake changes."""


@dataclass
class Moment:
    """The lake at one version of each of its tables.

    Attributes
    ----------
    engine : Engine
        Answers from it.
    """

    engine: Engine
    _known: dict[tuple[str, Market, int, int], int | None] = field(default_factory=dict, repr=False)
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
            self._known[key] = description(name, MarketScan(self.lake, market, query))[DATA_UNTIL]
        return self._known[key] or 0

    def known_in_any(self, name: str, query: PointsQuery, market: Market) -> Span:
        """Return the least and the greatest of what `known` says of any window."""
        known = self.known(name, query, market)
        if (
            "candles" not in depends_on(query)
            or self.lake.extent("candles", *market.partitions[0])[0] is None
        ):
            return known, known
        wide = query.model_copy(update={"start": 0, "end": LAST_SECOND})
        other = self.known(name, wide, market)
        return min(known, other), max(known, other)

    def points(self, name: str, query: PointsQuery, markets: list[Market]) -> pl.DataFrame:
        """Return the points of the window of a query in the order of an answer.

        Those of the last small windows stay in memory: when the lake has changed again, this is the earlier moment.
        """
        key = name, query, tuple(markets)
        if key not in self._points:
            ((_, frame),) = self.engine.frames(query, {name: markets}, lists_once=True)
            if frame.height > _KEPT_ROWS:
                return frame
            if len(self._points) >= _KEPT:
                self._points.pop(next(iter(self._points)))
            self._points[key] = frame
        return self._points[key]


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of what changed between two moments.

    Attributes
    ----------
    frames : mapping of (str, Change) to polars.DataFrame
        The points in the schema of their data type and the order of an answer, with ``data_until``.
    until : int
        Everything that changed before it was sent with this part. [s since the epoch]
    is_last : bool
        Whether nothing else changed.
    """

    frames: Mapping[tuple[str, Change], pl.DataFrame]
    until: int
    is_last: bool


def versions_of(lake: LakeReader) -> Mapping[str, int]:
    """Return the version of each table of events; -1 where the lake is older than the table."""
    return {name: version for name, version in lake.version().items() if TABLES[name] not in REGISTRIES}


# --- what a query depends on ----------------------------------------------------------------------------------------


def depends_on(query: PointsQuery) -> tuple[str, ...]:
    """Return the tables of events whose commits may change the points of a query."""
    tables = {table for name in query.type for table in PLANS[name].tables}
    if in_usd(query):
        tables |= {"trades", "candles", "quote_rates"}  # the prices that amounts are converted at
        if "FUNDING_RATE_AGG" in query.type:
            tables.add("open_interest")  # which weighs the rates of a group
    return tuple(name for name in TABLES if name in tables)


def _is_alone(query: PointsQuery, name: str) -> bool:
    """Return whether each point depends on the events of its own market and interval alone."""
    plan = PLANS[name]
    return (name == "TRADE" or bool(plan.minutes)) and "book" not in plan.tables and not in_usd(query)


def over(query: PointsQuery, markets: MarketsByType, moment: Moment) -> dict[str, int]:
    """Return by data type the start of the last interval that every market is known beyond. [ns since the epoch]

    Markets without events do not count, nor do those whose newest event is a day older than that of another. Raw trades
    have no intervals.
    """
    ends = {name: _known_of_all(name, query, markets[name], moment) for name in query.type if name != "TRADE"}
    return {
        name: query.start_of(query.start_of(end // SECOND) - 1) * SECOND for name, end in ends.items() if end
    }


def known_beyond(query: PointsQuery, moment: Moment, end: int) -> bool:
    """Return whether every market of every data type is known up to a time, as `over` counts them. [ns]"""
    markets = moment.engine.markets(query, rates=False)
    return all(_known_of_all(name, query, markets[name], moment) >= end for name in query.type)


def known_of_any(query: PointsQuery, moment: Moment) -> int:
    """Return the time that any market of the query is known up to, 0 without events. [ns since the epoch]"""
    markets = moment.engine.markets(query, rates=False)
    return max((moment.known(name, query, one) for name in query.type for one in markets[name]), default=0)


def require_files(query: PointsQuery, then: Moment, now: Moment) -> None:
    """Raise LakeError unless the files are there that the difference between two moments is read from.

    Only local lakes are looked at: of an object store it would take a request per file.
    """
    markets = now.engine.markets(query, rates=False)
    then_files = {
        (table, file.path)
        for name in query.type
        for table in PLANS[name].tables
        for one in markets[name]
        for names in one.partitions
        for file in then.lake._files(table, *names)
    }
    if "://" in then.lake.path:
        return
    for table, path in then_files:
        if not (Path(then.lake.uri(table)) / path).exists():
            raise LakeError(f"a file of table {table!r} was removed", path=then.lake.uri(table))


def _known_of_all(name: str, query: PointsQuery, markets: Sequence[Market], moment: Moment) -> int:
    """Return the time that all markets are known up to, 0 without events; those long quiet do not count."""
    known = [time for one in markets if (time := moment.known(name, query, one))]
    return min((time for time in known if time >= max(known) - _QUIET), default=0)


# --- what commits touched -------------------------------------------------------------------------------------------


def _touched(
    name: str, query: PointsQuery, markets: Sequence[Market], since: Moment | None, now: Moment
) -> dict[Market, list[Span]]:
    """Return the spans in which points of each market may have changed, or became final, widened to intervals. [s]"""
    everywhere: list[Span] = [] if since is not None else [(-_FOREVER, _FOREVER)]
    is_alone = _is_alone(query, name)
    if since is not None and not is_alone:
        everywhere = _after_any(name, query, markets, since, now)

    def of_points(market: Market) -> Sequence[Market]:
        """Return the markets whose events the points are made of that a market has a part in."""
        return markets if query.group_by is not None else [market]

    found = {}
    for one in markets:
        (_, known_now), spans = now.known_in_any(name, query, one), list(everywhere)
        if since is not None:
            if is_alone:
                spans = _of_market(name, query, one, since, now)
            known_then, _ = since.known_in_any(name, query, one)
            if known_now > known_then:  # what became final
                spans.append((known_then or -_FOREVER, known_now + 1))
        first, last = _first(name, of_points(one), now), max(known_now, _last(name, of_points(one), now)) + 1
        # To the ends of intervals, so that the windows of one interval are alike from moment to moment.
        found[one] = union(
            (query.start_of(start // SECOND), after(query, (end - 1) // SECOND, 1))
            for start, end in intersected((first, last), spans)
        )
    return found


def _of_market(name: str, query: PointsQuery, market: Market, since: Moment, now: Moment) -> list[Span]:
    """Return the spans in which the rows of a market that were committed count. [ns since the epoch]"""
    spans: list[Span] = []
    for table in PLANS[name].tables:
        committed = _committed(table, since, now)
        if committed is None:
            return [(-_FOREVER, _FOREVER)]
        for names, span in committed:
            if names in market.partitions:
                spans += _reached(table, names, span, query, since=since, now=now)
    return [(first, last + 1) for first, last in spans]


def _after_any(
    name: str, query: PointsQuery, markets: Sequence[Market], since: Moment, now: Moment
) -> list[Span]:
    """Return the time from the first row on that was committed to what points depend on. [ns since the epoch]"""
    own = {names for one in markets for names in one.partitions}
    # Prices of other markets may convert the amounts of these.
    quotes = {one.quote_coin for one in markets if MarketScan(now.lake, one, query).needs_rates}
    own |= {names for quote in quotes if quote is not None for names in quote_markets(now.lake, quote)}
    firsts: list[int] = []
    for table in depends_on(query):
        committed = _committed(table, since, now)
        if committed is None:
            return [(-_FOREVER, _FOREVER)]
        for names, span in committed:
            if not TABLES[table].partitions:
                firsts.append(span[0])
            elif names in own:
                firsts += [first for first, _ in _reached(table, names, span, query, since=since, now=now)]
    # A snapshot of a book may bear a later time than the updates that it came before.
    return [(min(firsts) - SKEW, _FOREVER)] if firsts else []


def _reached(
    table: str, names: tuple[str, ...], span: Span, query: PointsQuery, *, since: Moment, now: Moment
) -> list[Span]:
    """Return the spans of points that rows may change which were committed to a table. [ns since the epoch]

    ``span`` is the first and the last time of the rows, and so are the spans returned. Where a market has trades and
    recorded candles, a row also decides whether the intervals beside its own are made of trades or of recorded
    candles, and the first and the last trade decide it for all intervals up to them.
    """
    if table not in {"trades", "candles"} or now.lake.extent("candles", *names)[0] is None:
        return [span]
    step = query.step * SECOND
    spans = [span]
    if table == "trades":
        (first_then, last_then), (first, last) = (one.lake.extent(table, *names) for one in (since, now))
        if first is not None and last is not None:
            spans += [
                (first, last if first_then is None else first_then),
                (first if last_then is None else last_then, last),
            ]
    return [(first - step, last + step) for first, last in spans]


def _committed(table: str, since: Moment, now: Moment) -> list[tuple[tuple[str, ...], Span]] | None:
    """Return market and first and last time of the rows that were committed to a table; None if its log is silent."""
    then, version = since.versions.get(table, -1), now.versions.get(table, -1)
    if version <= then:
        return []
    if then < 0:
        return None
    spans = _delta.spans_since(now.lake.delta(table), then)
    if spans is None:
        return None
    return [(names, span) for names, many in spans.items() for span in many]


def _first(name: str, markets: Sequence[Market], now: Moment) -> int:
    """Return the first event of markets in the tables of a data type; 2**62 without any. [ns since the epoch]"""
    return min((first for first, _ in _extents(name, markets, now)), default=_FOREVER)


def _last(name: str, markets: Sequence[Market], now: Moment) -> int:
    """Return the newest event of markets in the tables of a data type; -2**62 without any. [ns since the epoch]"""
    return max((last for _, last in _extents(name, markets, now)), default=-_FOREVER)


def _extents(name: str, markets: Sequence[Market], now: Moment) -> Iterator[Span]:
    for table in PLANS[name].tables:
        for market in markets:
            for names in market.partitions:
                first, last = now.lake.extent(table, *names)
                if first is not None and last is not None:
                    yield first, last


# --- the difference -------------------------------------------------------------------------------------------------


def differences(
    query: PointsQuery,
    *,
    since: Moment | None,
    now: Moment,
    start: int,
    end: int | None,
    already: Mapping[str, int],
) -> Iterator[Difference]:
    """Yield what changed between two moments, a part of the time after another.

    Parameters
    ----------
    query : PointsQuery
        What is asked, of any window.
    since : Moment or None
        The earlier moment; None for all of history.
    now : Moment
        The later one.
    start, end : int
        The window, half-open; without an end where None. [s since the epoch]
    already : mapping of str to int
        By data type the start of the last interval that was said to be over. [ns since the epoch]

    Yields
    ------
    Difference
        At least one; the last one says so.

    Raises
    ------
    QueryError
        If the query cannot be answered.
    TooMuchError
        If a single interval takes too many rows.
    LakeError
        If a version, or a file of it, was removed.
    """
    markets = now.engine.markets(query, rates=False)
    window = start, _FOREVER // SECOND if end is None else end
    touched = {
        name: {
            one: parts
            for one, spans in _touched(name, query, markets[name], since, now).items()
            if (parts := intersected(window, spans))
        }
        for name in query.type
    }
    spans = union(span for of_markets in touched.values() for parts in of_markets.values() for span in parts)
    length = _length(query)
    statistics = Statistics(now.lake)
    for number, (first, last) in enumerate(spans):
        at = first
        while at < last:
            cut = _cut(query, markets, statistics, at, min(last, after(query, at, length)))
            frames: dict[tuple[str, Change], pl.DataFrame] = {}
            for name, of_markets in touched.items():
                chosen = [one for one, parts in of_markets.items() if intersected((at, cut), parts)]
                if chosen:
                    members = markets[name] if query.group_by is not None else chosen
                    frames |= _changed(
                        name, query, members, since, now, window=(at, cut), already=already.get(name)
                    )
            is_last = cut >= last and number == len(spans) - 1
            rows = sum(frame.height for frame in frames.values())
            if frames or is_last:
                yield Difference(frames, cut, is_last)
            length = max(1, length // 2) if rows > 2 * _SENT else length * 2 if rows < _SENT // 4 else length
            at = cut
    if not spans:
        yield Difference({}, window[0], is_last=True)


def _length(query: PointsQuery) -> int:
    """Return of how many seconds the first part of a difference is. [s]"""
    if query.interval is None:
        return _TRADED
    is_levelled = any(data_type(name).levels for name in query.type)
    return query.step * (_LEVELLED if is_levelled else _POINTS)


def after(query: PointsQuery, at: int, length: int = 1) -> int:
    """Return the start of an interval or session about some seconds later, at least of the next one. [s]"""
    later = query.start_of(at + length)
    if later > at:
        return later
    sessions = {TPOSession.MONTHLY: 31, TPOSession.WEEKLY: 7, TPOSession.DAILY: 1}
    step = query.step if query.tpo_session is None else sessions[query.tpo_session] * Interval.DAY.seconds
    return query.start_of(query.start_of(at) + step)


def _cut(query: PointsQuery, markets: MarketsByType, statistics: Statistics, at: int, end: int) -> int:
    """Return the end of a part that begins at ``at`` so that not too many rows are read for it. [s]"""
    while True:
        part = query.model_copy(update={"start": at, "end": end})
        rows = estimated(part, markets, statistics).rows
        if rows <= _ROWS:
            return end
        shorter = after(query, at, (end - at) // 2)
        if shorter >= end:
            if rows > _MOST:
                raise TooMuchError(
                    f"an interval of this stream takes about {rows:,} rows, and may take {_MOST:,}; a shorter interval "
                    "takes fewer, and a lake whose minutes are rolled up"
                )
            return end
        end = shorter


def _changed(
    name: str,
    query: PointsQuery,
    markets: list[Market],
    since: Moment | None,
    now: Moment,
    *,
    window: Span,
    already: int | None,
) -> dict[tuple[str, Change], pl.DataFrame]:
    """Return the points of a window that changed, by how; the window is of whole intervals. [s]"""
    part = query.model_copy(update={"type": (name,), "start": window[0], "end": window[1]})
    points = now.points(name, part, markets)
    if points.is_empty():
        return {}
    schema, kind = schema_of(name), data_type(name)
    key = schema.key_of(grouped=query.group_by is not None)
    series = {*identity_columns(kind), "coin"}
    point = [*(column for column in key if column in series), "timestamp"]
    if name == "TRADE":
        point.append("id")
    points = points.with_columns(_until_then(name, part, markets, points, since).alias(_THEN))
    is_over = pl.lit(value=False) if already is None else pl.col("timestamp").dt.epoch("ns") <= already
    earlier = None
    if since is not None:
        with suppress(QueryError):  # the price of a quote was not known then
            earlier = since.points(name, part, markets)
    is_other = _is_other(points, earlier, point, key, name)
    if name == "TRADE":
        became_final, was_final = pl.col(_OTHER), pl.col("timestamp") < pl.col(_THEN)
    else:
        then = with_finality(points.with_columns(pl.col(_THEN).alias(DATA_UNTIL)), name)["is_final"]
        points = points.with_columns(then.fill_null(value=False).alias(_WAS_FINAL))
        was_final = pl.col(_WAS_FINAL)
        became_final = pl.col("is_final").fill_null(value=False) & ~was_final
    points = points.with_columns(is_other.alias(_OTHER))
    change = (
        pl.when((was_final & pl.col(_OTHER)) | (is_over & (pl.col(_OTHER) | became_final)))
        .then(pl.lit(Change.REVISION.value))
        .when(became_final)
        .then(pl.lit(Change.FINAL.value))
        .when(_OTHER)
        .then(pl.lit(Change.UPDATE.value))
    )
    changes = points.select(change.alias("change"))["change"]
    points = points.drop(_THEN, _WAS_FINAL, _OTHER, strict=False)
    return {(name, one): rows for one in Change if (rows := points.filter(changes == one.value)).height}


_THEN, _WAS_FINAL, _OTHER = (f"tidytape.stream.{name}" for name in ("then", "was_final", "other"))


def _until_then(
    name: str, query: PointsQuery, markets: list[Market], points: pl.DataFrame, since: Moment | None
) -> pl.Series:
    """Return for each row up to when its market was known at the earlier moment; of a group, its oldest member."""
    dtype = pl.Datetime("ns", "UTC")
    known = {one: 0 if since is None else since.known(name, query, one) for one in markets}
    if len({*known.values()}) == 1:
        return pl.Series([min(known.values())], dtype=pl.Int64).cast(dtype).new_from_index(0, points.height)
    keys = ["coin"] if query.group_by is not None else ["exchange", "raw_symbol", "coin"]
    rows = [(*(getattr(one, key) or None for key in keys), time) for one, time in known.items()]
    table = pl.DataFrame(rows, schema=dict.fromkeys(keys, pl.String) | {_THEN: pl.Int64}, orient="row")
    oldest = table.group_by(keys).agg(pl.col(_THEN).min())
    series = points.select(pl.col(keys).cast(pl.String))
    joined = series.join(oldest, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined[_THEN].cast(dtype)


def _is_other(
    points: pl.DataFrame, earlier: pl.DataFrame | None, point: list[str], key: Sequence[str], name: str
) -> pl.Series:
    """Return for each row whether its point is new, or has another level or value than before."""
    if earlier is None or earlier.is_empty():
        return pl.Series([True]).new_from_index(0, points.height)
    keys = [column for column in key if column in earlier.columns]
    aside = {*schema_of(name).descriptors, *_NAMES, *key, DATA_UNTIL, _THEN, _WAS_FINAL}
    values = [column for column in points.columns if column not in aside and column in earlier.columns]
    then = earlier.select(
        *keys, *(pl.col(column).alias(f"then {column}") for column in values), is_there=True
    )
    both = points.select(*keys, *values).join(
        then, on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    same = (pl.col(column).eq_missing(pl.col(f"then {column}")) for column in values)
    is_same = both.select(pl.all_horizontal(pl.col("is_there").fill_null(value=False), *same).alias("same"))[
        "same"
    ]
    if set(point) == set(keys):
        return ~is_same
    # A point is the same if all its levels are, and none is gone.
    rows = (
        both.select(point)
        .with_columns(is_same)
        .with_columns(pl.col("same").all().over(point), levels=pl.len().over(point))
    )
    before = earlier.group_by(point).agg(levels_before=pl.len())
    rows = rows.join(before, on=point, how="left", nulls_equal=True, maintain_order="left")
    return ~rows.select(
        (pl.col("same") & pl.col("levels").eq_missing(pl.col("levels_before"))).alias("same")
    )["same"]


_NAMES = {"normalized_symbol", "coin", "category", "interval"}
"""What the registry says of a market: it may change without a change of any point."""
