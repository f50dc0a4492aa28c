"""What changed between two moments of the lake: the difference of two answers, where commits touched them.

Only the points that commits may have changed are computed, at both moments, and compared. The difference from no moment
is all of history.

Examples
--------
The points of a query that differ between two moments, a window at a time::

    now = Moment(engine)
    for part in differences(query, since=earlier, now=now, start=0, end=2**40):
        part.frames["TRADE_AGG", Change.FINAL]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from tidytape.catalogue import Change
from tidytape.errors import QueryError
from tidytape.query import PointsQuery
from tidytape.schema import data_type, schema_of
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.service.answer._scan import Market, MarketsByType
from tidytape.service.stream._moments import Moment, after, touched_spans
from tidytape.times import SECOND, intersected, union
from tidytape.wire._tidy import DATA_UNTIL, identity_columns, with_finality

_POINTS = 1_000  # of a market in the first part of a difference
_POINTS_WITH_LEVELS = 60  # the same, of points with levels
_SECONDS_OF_TRADES = 600  # in the first part of a difference
_ROWS_READ = 1_000_000  # for one part, by estimate
_MOST_READ = 20_000_000  # rows for a single interval; a stream that takes more is refused
_ROWS_SENT = 10_000  # in one part, about
_NO_END = 2**62 // SECOND


class TooMuchError(Exception):
    """A single interval takes too many rows to be computed again whenever the lake changes."""


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


def differences(
    query: PointsQuery,
    *,
    since: Moment | None,
    now: Moment,
    start: int,
    end: int | None,
    already: Mapping[str, int],
) -> Iterator[Difference]:
    """Yield the points that changed between two moments, in parts that follow one another in time.

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
    if not spans:
        yield Difference({}, start, is_last=True)
    length, statistics = _first_length(query), Statistics(now.lake)
    for number, (first, last) in enumerate(spans):
        at = first
        while at < last:
            cut = _cut(query, markets, statistics, at, min(last, after(query, at, length)))
            frames: dict[tuple[str, Change], pl.DataFrame] = {}
            for name, spans_of_markets in touched.items():
                changed = [
                    market for market, parts in spans_of_markets.items() if intersected((at, cut), parts)
                ]
                if changed:
                    members = changed if query.group_by is None else markets[name]
                    part = query.model_copy(update={"type": (name,), "start": at, "end": cut})
                    frames |= _changed(name, part, members, since, now, already=already.get(name))
            is_last = cut >= last and number == len(spans) - 1
            rows = sum(frame.height for frame in frames.values())
            if frames or is_last:
                yield Difference(frames, cut, is_last)
            if rows > 2 * _ROWS_SENT:
                length = max(1, length // 2)
            elif rows < _ROWS_SENT // 4:
                length *= 2
            at = cut


def _first_length(query: PointsQuery) -> int:
    """Return the length of the first part of a difference. [s]"""
    if query.interval is None:
        return _SECONDS_OF_TRADES
    has_levels = any(data_type.levels for data_type in query.data_types)
    return query.step * (_POINTS_WITH_LEVELS if has_levels else _POINTS)


def _cut(query: PointsQuery, markets: MarketsByType, statistics: Statistics, at: int, end: int) -> int:
    """Return an earlier end for a part that begins at ``at`` if too many rows would be read for it. [s]"""

    def rows(end: int) -> int:
        return estimated(query.model_copy(update={"start": at, "end": end}), markets, statistics).rows

    if rows(end) <= _ROWS_READ:
        return end
    least = rows(after(query, at))
    if least > _MOST_READ:
        raise TooMuchError(
            f"an interval of this stream takes about {least:,} rows, and may take {_MOST_READ:,}; "
            "a shorter interval takes fewer, and a lake whose minutes are rolled up"
        )
    # Every part also reads the look-back of one interval, up to a day; many small parts would read it many times.
    while rows(end) > max(_ROWS_READ, 2 * least):
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
    schema, kind = schema_of(name), data_type(name)
    keys = [column for column in schema.key_of(grouped=is_grouped) if column in earlier.columns]
    aside = {*schema.descriptors, *_NAMES, *keys, DATA_UNTIL}
    values = [column for column in points.columns if column not in aside and column in earlier.columns]
    then = earlier.select(
        *keys, *(pl.col(column).alias(f"then {column}") for column in values), is_there=True
    )
    both = points.select(*keys, *values).join(
        then, on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    same = (pl.col(column).eq_missing(pl.col(f"then {column}")) for column in values)
    rows = both.select(*keys, same=pl.all_horizontal(pl.col("is_there").fill_null(value=False), *same))
    if not kind.levels:
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
