"""What changed between two moments of the lake: the difference of two answers, where commits touched them.

Only the points that commits may have changed are computed, at both moments, and compared. The difference from no moment
is all of history.

Examples
--------
The points of a query that differ between two moments, one part at a time::

    remainder = whole_difference(query, since=earlier, now=now, start=0, end=2**40, already={}, ends={})
    while remainder.spans:
        difference, remainder = next_part(remainder, earlier, now)
        difference.frames["TRADE_AGG", Change.FINAL]
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import polars as pl

from tidytape.catalogue import Change
from tidytape.errors import QueryError
from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.schema import data_type, wire_schema
from tidytape.service.answer._estimate import Estimate, Statistics, estimated
from tidytape.service.answer._scan import Market, MarketsByType
from tidytape.service.stream._moments import Moment, after, touched_spans
from tidytape.times import SECOND, Span, intersected, union
from tidytape.wire._sessions import IN_PROGRESS, row_count
from tidytape.wire._tidy import DATA_UNTIL, OF_SERIES, identity_columns, with_finality

_POINTS = 1_000  # of a market in the first part of a difference
_POINTS_WITH_LEVELS = 60  # the same, of points with levels
_SECONDS_OF_TRADES = 600  # in the first part of a difference
_MOST_READ = 20_000_000  # rows for a single interval; a stream that takes more is refused
_ROWS_SENT = 10_000  # in one part, about
_NO_END = 2**62 // SECOND


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of what changed between two moments.

    Attributes
    ----------
    frames : mapping of (str, Change) to polars.DataFrame
        The points in the schema of their data type and the order of an answer, with ``data_until``.
    until : int
        Everything that changed before it was sent with this part. [s since the epoch]
    over : mapping of str to int
        By data type the start of the last interval that is over after this part. [ns since the epoch]
    is_last : bool
        Whether nothing else changed.
    """

    frames: Mapping[tuple[str, Change], pl.DataFrame]
    until: int
    over: Mapping[str, int]
    is_last: bool


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of the difference between two moments: plain data, which any process can go on with.

    Attributes
    ----------
    query : PointsQuery
        What is asked, of any window.
    markets : dict of str to list of Market
        The markets that it selects, by data type.
    touched : mapping of str to mapping of Market to list of Span
        By data type where commits may have changed the points of each market. [s since the epoch]
    spans : list of Span
        What is left of these for all markets together, in order. [s since the epoch]
    start, end : int, and int or None
        The window, half-open. [s since the epoch]
    already : mapping of str to int
        By data type the start of the last interval that was said to be over. [ns since the epoch]
    ends : mapping of str to int
        The same at the later moment. [ns since the epoch]
    is_history : bool
        Whether there is no earlier moment.
    length : int
        How long the next part is, if it does not take too many rows. [s]
    """

    query: PointsQuery
    markets: MarketsByType
    touched: Mapping[str, Mapping[Market, list[Span]]]
    spans: list[Span]
    start: int
    end: int | None
    already: Mapping[str, int]
    ends: Mapping[str, int]
    is_history: bool
    length: int

    def estimate(self, lake: LakeReader) -> Estimate:
        """Return what an answer takes that has all that is left; ``lake`` is the later moment."""
        if not self.spans:
            return Estimate(0, 0, most=0)
        window = {"start": self.spans[0][0], "end": self.spans[-1][1]}
        return estimated(self.query.model_copy(update=window), self.markets, Statistics(lake))

    def over_after(self, until: int, *, is_last: bool) -> dict[str, int]:
        """Return per data type the start of the last interval that is over once a part is sent. [ns since the epoch]"""
        if not (is_last or self.is_history):
            return {}
        before = _NO_END if is_last else self.query.start_of(until - 1)
        last = _NO_END if self.end is None else self.query.start_of(self.end - 1)
        ends = {name: min(time, before * SECOND) for name, time in self.ends.items()}
        return {name: min(time, last * SECOND) for name, time in ends.items() if time >= self.start * SECOND}


def whole_difference(
    query: PointsQuery,
    *,
    since: Moment | None,
    now: Moment,
    start: int,
    end: int | None,
    already: Mapping[str, int],
    ends: Mapping[str, int],
) -> Remainder:
    """Return the whole difference between two moments as what is left of it; only logs are read.

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
    already, ends : mapping of str to int
        As of `Remainder`. [ns since the epoch]

    Raises
    ------
    LakeError
        If a version was removed.
    """
    markets = now.engine.markets(query, rates=False)
    window = start, _NO_END if end is None else end
    touched = {
        name: {
            market: parts
            for market, spans in touched_spans(name, query, markets[name], since, now).items()
            if (parts := intersected(window, spans))
        }
        for name in query.type
    }
    spans = union(span for markets_ in touched.values() for parts in markets_.values() for span in parts)
    return Remainder(
        query,
        markets,
        touched,
        spans,
        start,
        end,
        already,
        ends,
        is_history=since is None,
        length=_first_length(query),
    )


def next_part(remainder: Remainder, since: Moment | None, now: Moment) -> tuple[Difference, Remainder]:
    """Compute the next part of a difference; return it, and what is left after it.

    Parameters
    ----------
    remainder : Remainder
    since, now : Moment or None, and Moment
        The moments that it is the difference of.

    Raises
    ------
    QueryError
        If the query cannot be answered, or a single interval takes too many rows.
    LakeError
        If a version, or a file of it, was removed.
    """
    if not remainder.spans:
        return Difference(
            {}, remainder.start, remainder.over_after(remainder.start, is_last=True), is_last=True
        ), remainder
    query, length, (at, last) = remainder.query, remainder.length, remainder.spans[0]
    cut = _cut(query, remainder.markets, Statistics(now.lake), at, min(last, after(query, at, length)))
    frames: dict[tuple[str, Change], pl.DataFrame] = {}
    for name, spans_of_markets in remainder.touched.items():
        changed = [market for market, parts in spans_of_markets.items() if intersected((at, cut), parts)]
        if changed:
            members = changed if query.group_by is None else remainder.markets[name]
            part = query.model_copy(update={"type": (name,), "start": at, "end": cut})
            frames |= _changed(name, part, members, since, now, already=remainder.already.get(name))
    rows = sum(map(row_count, frames.values()))
    if rows > 2 * _ROWS_SENT:
        length = max(1, length // 2)
    elif rows < _ROWS_SENT // 4:
        length *= 2
    spans = [(cut, last), *remainder.spans[1:]] if cut < last else remainder.spans[1:]
    over = remainder.over_after(cut, is_last=not spans)
    return Difference(frames, cut, over, is_last=not spans), replace(remainder, spans=spans, length=length)


def _first_length(query: PointsQuery) -> int:
    """Return the length of the first part of a difference. [s]"""
    if query.interval is None:
        return _SECONDS_OF_TRADES
    has_levels = any(data_type.levels for data_type in query.data_types)
    return query.step * (_POINTS_WITH_LEVELS if has_levels else _POINTS)


def _cut(query: PointsQuery, markets: MarketsByType, statistics: Statistics, at: int, end: int) -> int:
    """Return an earlier end for a part that begins at ``at`` if it would read or make too many rows. [s]"""

    def estimate(end: int) -> Estimate:
        return estimated(query.model_copy(update={"start": at, "end": end}), markets, statistics)

    if not estimate(end).is_heavy:
        return end
    least = estimate(after(query, at))
    if least.rows > _MOST_READ:
        raise QueryError(
            "interval",
            got=f"about {least.rows:,} rows to read for a single interval",
            expected=f"at most {_MOST_READ:,} in a stream",
            hint="a shorter interval takes fewer, and a lake whose minutes are rolled up",
        )
    # Every part also reads the look-back of one interval, up to a day; many small parts would read it many times.
    while estimate(end).is_heavier_than(2 * least.rows, 2 * least.made):
        end = after(query, at, (end - at) // 2)
    return end


_THEN, _WAS_FINAL, _DIFFERS = (f"tidytape.stream.{name}" for name in ("then", "was_final", "differs"))
"""Columns beside those of the points: up to when they were known at the earlier moment, whether they were final then,
and whether they have other values now."""


def _changed(
    name: str,
    query: PointsQuery,
    markets: list[Market],
    since: Moment | None,
    now: Moment,
    *,
    already: int | None,
) -> dict[tuple[str, Change], pl.DataFrame]:
    """Return the points of a window that changed, by the kind of change; the window consists of whole intervals."""
    points = now.points(name, query, markets)
    if points.is_empty():
        return {}
    earlier = None
    if since is not None:
        with suppress(QueryError):  # the price of a quote was not known then
            earlier = since.points(name, query, markets)
    known = {market: 0 if since is None else since.known(name, query, market) for market in markets}
    points = points.with_columns(
        _known_then(query, known, points).alias(_THEN),
        _differs(points, earlier, name, is_grouped=query.group_by is not None).alias(_DIFFERS),
    )
    differs = pl.col(_DIFFERS)
    if "is_final" in points.columns:
        then = with_finality(points.with_columns(pl.col(_THEN).alias(DATA_UNTIL)), name)["is_final"]
        points = points.with_columns(then.fill_null(value=False).alias(_WAS_FINAL))
        was_final = pl.col(_WAS_FINAL)
        became_final = pl.col("is_final").fill_null(value=False) & ~was_final
    else:  # a trade is final at once
        became_final, was_final = differs, pl.col("timestamp") < pl.col(_THEN)
    is_over = pl.lit(value=False) if already is None else pl.col("timestamp").dt.epoch("ns") <= already
    change = (
        pl.when((was_final & differs) | (is_over & (differs | became_final)))
        .then(pl.lit(Change.REVISION.value))
        .when(became_final)
        .then(pl.lit(Change.FINAL.value))
        .when(differs)
        .then(pl.lit(Change.UPDATE.value))
    )
    changes = points.select(change.alias("change"))["change"]
    points = points.drop(_THEN, _WAS_FINAL, _DIFFERS, strict=False)
    return {
        (name, change): rows for change in Change if (rows := points.filter(changes == change.value)).height
    }


def _known_then(query: PointsQuery, known: Mapping[Market, int], points: pl.DataFrame) -> pl.Series:
    """Return for each row up to when its market, or the oldest member of its group, was known at the earlier moment."""
    dtype = pl.Datetime("ns", "UTC")
    if len({*known.values()}) == 1:
        return pl.Series([min(known.values())], dtype=pl.Int64).cast(dtype).new_from_index(0, points.height)
    keys = ["coin"] if query.group_by is not None else ["exchange", "raw_symbol", "coin"]
    rows = [(*(getattr(market, key) or None for key in keys), time) for market, time in known.items()]
    oldest = (
        pl.DataFrame(rows, schema=dict.fromkeys(keys, pl.String) | {_THEN: pl.Int64}, orient="row")
        .group_by(keys)
        .agg(pl.col(_THEN).min())
    )
    return (
        points.select(pl.col(keys).cast(pl.String))
        .join(oldest, on=keys, how="left", nulls_equal=True, maintain_order="left")[_THEN]
        .cast(dtype)
    )


def _differs(points: pl.DataFrame, earlier: pl.DataFrame | None, name: str, *, is_grouped: bool) -> pl.Series:
    """Return for each row whether its point is new, or has other levels or values than at the earlier moment."""
    if earlier is None or earlier.is_empty():
        return pl.Series([True]).new_from_index(0, points.height)
    schema, kind = wire_schema(name), data_type(name)
    keys = [column for column in schema.key_of(grouped=is_grouped) if column in earlier.columns]
    aside = {*schema.descriptors, *_NAMES, *keys, *OF_SERIES, IN_PROGRESS}
    values = [column for column in points.columns if column not in aside and column in earlier.columns]
    then = earlier.select(
        *keys, *(pl.col(column).alias(f"then {column}") for column in values), is_there=True
    )
    both = points.select(*keys, *values).join(
        then, on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    same = (pl.col(column).eq_missing(pl.col(f"then {column}")) for column in values)
    rows = both.select(*keys, same=pl.all_horizontal(pl.col("is_there").fill_null(value=False), *same))
    if not kind.level_rows:
        return ~rows["same"]
    # A point is the same if all its levels are the same, and none of its earlier levels is missing.
    point = [column for column in keys if column in {*identity_columns(kind), "coin", "timestamp"}]
    levels_then = earlier.group_by(point).agg(levels_then=pl.len())
    rows = rows.with_columns(pl.col("same").all().over(point), levels=pl.len().over(point)).join(
        levels_then, on=point, how="left", nulls_equal=True, maintain_order="left"
    )
    return ~rows.select(same=pl.col("same") & pl.col("levels").eq_missing(pl.col("levels_then")))["same"]


_NAMES = {"normalized_symbol", "coin", "category", "interval"}
"""Columns from the registry of markets: they may change while no point does."""
