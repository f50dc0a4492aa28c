"""The points of recent answers in memory, as frames, as Arrow and as JSON.

A point of one market depends only on the events of its own interval, so neither its values nor its text depend on the
window of a query. Points are kept in spans of up to 1,440 points. The key of a span has the names of the files that may
hold its events. A file never changes, and new events come in new files. So an answer is never older than the lake, and
events that are recorded today leave the points of yesterday in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from tidytape.catalogue import Side, SortDirection
from tidytape.errors import QueryError
from tidytape.lake._recent import Recent, frame_size
from tidytape.schema import data_type, wire_schema
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.service.answer._plans import PLANS, is_alone, require_touched
from tidytape.service.answer._scan import Market, MarketScan
from tidytape.times import DAY, HOUR, SECOND
from tidytape.wire._encode import PointTexts, point_texts
from tidytape.wire._sessions import row_count, rows_before
from tidytape.wire._tidy import epoch_nanoseconds

_POINTS = 1_440  # points of a span: a day of minutes
_LONGEST = 60 * DAY  # the longest span
_MOST_POINTS = (
    200_000  # points of a window; those of a longer window are not kept, so that they remove no others
)
_MOST_SPANS = 1_000  # spans of a window
_NAME = 64  # bytes that a name takes beside its letters
_MOST_FILES = (
    1_000  # files with events of a window; reading more names takes longer than computing the points
)


@dataclass(frozen=True, slots=True)
class _Key:
    """Identifies the points of a market in a span: the query's options and the files that they are computed from."""

    lake: str
    name: str
    market: Market
    options: tuple[object, ...]
    start: int
    end: int
    files: tuple[str, ...]

    @property
    def size(self) -> int:
        """How much memory the names of the files take; every version of a table has its own names. [byte]"""
        return sum(map(len, self.files)) + _NAME * len(self.files)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The rows of the points of a span, and the time of each row. [ns since the epoch]

    ``batch`` has the `varying_columns` as Arrow, in the memory of ``points``.
    """

    points: pl.DataFrame
    times: NDArray[np.int64]
    batch: Any

    def part(self, first: int, last: int) -> Any:
        """Return the rows from number ``first`` to ``last``, exclusive, as Arrow."""
        return self.batch.slice(first, last - first)

    def count(self, first: int, last: int) -> int:
        """Return the number of these rows, of market profiles that of their levels."""
        return row_count(self.points[first:last])


@dataclass(frozen=True, slots=True)
class _Text:
    """The points of a span as JSON, their times [ns since the epoch], and the number of rows before each point."""

    points: PointTexts
    times: NDArray[np.int64]
    rows: NDArray[np.int64]

    def part(self, first: int, last: int) -> memoryview:
        """Return the text of the points from number ``first`` to ``last``, exclusive."""
        return self.points.part(first, last)

    def count(self, first: int, last: int) -> int:
        """Return the number of rows of these points."""
        return int(self.rows[last] - self.rows[first])


FRAMES = Recent[_Key, _Frame](64 * 2**20)
"""Frames of points that this process keeps."""

TEXTS = Recent[_Key, _Text](64 * 2**20)
"""JSON of points that this process keeps."""


T = TypeVar("T", _Frame, _Text)


@dataclass(frozen=True, slots=True)
class HotSeries:
    """The points of one series in a window.

    Attributes
    ----------
    side : str or None
        The side of the series; None if series of the data type have no side.
    parts : list
        The points in parts: memoryviews for `tidytape.wire.encode_series` from `texts`, record batches from `batches`.
    rows : int
        Number of rows of the series' frame, at least one.
    first, last : int
        Time of the first and of the last point. [ns since the epoch]
    """

    side: str | None
    parts: list[Any]
    rows: int
    first: int
    last: int


def frame(scan: MarketScan, name: str) -> pl.DataFrame | None:
    """Return the points of a market in the schema and the order of their data type, without descriptors.

    None if points of this type, or of this query, depend on more than the events of their own interval, or if computing
    the spans would read too much.
    """
    parts: list[pl.DataFrame] = []
    series_of_sides = _of_sides(scan, name)
    if series_of_sides is None:
        return None
    for series in series_of_sides:
        keys = _keys(series, name)
        spans = None if keys is None else _frames(series, name, keys)
        if spans is None:
            return None
        parts += [span.points.slice(first, last - first) for span, (first, last) in _inside(spans, series)]
    return pl.concat(parts) if parts else wire_schema(name).empty()


def texts(scan: MarketScan, name: str) -> list[HotSeries] | None:
    """Return the points of a market as JSON, by series; None if it has none, or if `frame` returns None."""
    return _series(scan, name, _texts)


def batches(scan: MarketScan, name: str) -> list[HotSeries] | None:
    """Return the `varying_columns` of the points of a market as Arrow, by series.

    None if it has no points, or if `frame` returns None.
    """
    return _series(scan, name, _frames)


def varying_columns(name: str) -> list[str]:
    """Return the columns that may differ between the points of a market: neither its names nor descriptors."""
    schema = wire_schema(name)
    fixed = {*schema.identity, *schema.descriptors} - {"side"}
    return [column for column in schema.names if column not in fixed]


def _series(
    scan: MarketScan,
    name: str,
    spans_of: Callable[[MarketScan, str, Sequence[_Key]], list[T] | None],
) -> list[HotSeries] | None:
    """Return the points of a market by series; None if it has none, or if ``spans_of`` returns None."""
    hot_series = []
    for series in _of_sides(scan, name) or ():
        keys = _keys(series, name)
        spans = None if keys is None else spans_of(series, name, keys)
        if spans is None:
            return None
        spans_inside = _inside(spans, series)
        if not spans_inside:
            continue
        (head, (first, _)), (tail, (_, last)) = spans_inside[0], spans_inside[-1]
        hot_series.append(
            HotSeries(
                None if series.query.side is None else str(series.query.side),
                [span.part(*numbers) for span, numbers in spans_inside],
                sum(span.count(*numbers) for span, numbers in spans_inside),
                int(head.times[first]),
                int(tail.times[last - 1]),
            )
        )
    return hot_series or None


def _of_sides(scan: MarketScan, name: str) -> list[MarketScan] | None:
    """Return the scan of each series of a market, in the order of an answer; None if one may have no side."""
    sides: Sequence[Side | None] = [None]  # types without sides ignore the side of a query
    if data_type(name).per_side:
        if scan.query.side is None and PLANS[name].tells_sides and scan.may_lack_sides:
            return None
        sides = [scan.query.side] if scan.query.side else sorted(Side)
    return [
        scan if side is scan.query.side else replace(scan, query=scan.query.model_copy(update={"side": side}))
        for side in sides
    ]


def _keys(scan: MarketScan, name: str) -> list[_Key] | None:
    """Return the keys of the spans that cover the window; None if its points should not be kept."""
    if not _are_alone(scan, name) or scan.query.points > _MOST_POINTS:
        return None
    step, offset = scan.interval.seconds * SECOND, scan.interval.offset * SECOND
    length = max(1, min(_POINTS, _LONGEST // step)) * step
    if data_type(name).levels:
        length = max(step, HOUR)  # a point has many rows
    query, plan, names = scan.query, PLANS[name], scan.market.partitions[0]
    begin = (scan.start - offset) // length * length + offset
    starts = range(begin, scan.end, length)
    files = [
        file
        for table in (*plan.tables, *plan.minutes)
        for file in scan.lake._files(table, *names)
        if file.may_hold(begin, scan.end + length)
    ]
    if len(starts) > _MOST_SPANS or len(files) > _MOST_FILES:
        return None
    options = (
        scan.interval,
        scan.amount,
        query.side,
        query.funding_interval,
        query.tpo_block_minutes,
    )
    return [
        _Key(
            scan.lake.path,
            name,
            scan.market,
            options,
            start,
            start + length,
            tuple(file.path for file in files if file.may_hold(start, start + length)),
        )
        for start in starts
    ]


def _are_alone(scan: MarketScan, name: str) -> bool:
    """Return whether each point depends only on the events of its own interval in one market."""
    query, plan = scan.query, PLANS[name]
    if not plan.minutes or query.group_by or query.sort_direction is SortDirection.DESC or scan.needs_rates:
        return False
    if query.tpo_session or not is_alone(name, query):  # a span may begin in the middle of a session
        return False
    return (
        "candles" not in plan.tables or scan.extent("candles") is None
    )  # recorded candles may be longer than an interval


def _frames(scan: MarketScan, name: str, keys: Sequence[_Key]) -> list[_Frame] | None:
    """Return the spans, and compute those that are not in memory; None if that would read too many rows."""
    frames = {key: kept_frame for key in keys if (kept_frame := FRAMES.get(key)) is not None}
    frames |= {key: _empty(name) for key in keys if not key.files}  # a span without events has no points
    missing_keys = [key for key in keys if key not in frames]
    if missing_keys:
        computed_frame = _computed(scan, name, missing_keys[0].start, missing_keys[-1].end)
        if computed_frame is None:
            return None
        for key in missing_keys:
            first, last = np.searchsorted(computed_frame.times, (key.start, key.end))
            # Copied, because a slice would keep the whole frame in memory.
            rows = (
                computed_frame.points
                if len(missing_keys) == 1
                else computed_frame.points[np.arange(first, last)]
            )
            frames[key] = frame = _Frame(rows, computed_frame.times[first:last].copy(), _batch(rows, name))
            FRAMES.put(key, frame, size=key.size + frame_size(rows) + frame.times.nbytes)
    return [frames[key] for key in keys]


@cache
def _empty(name: str) -> _Frame:
    rows = wire_schema(name).empty()
    return _Frame(rows, np.empty(0, np.int64), _batch(rows, name))


def _computed(scan: MarketScan, name: str, start: int, end: int) -> _Frame | None:
    """Compute the points from ``start`` to ``end`` [ns since the epoch]; None if that would read too much."""
    span_query = scan.query.model_copy(update={"start": start // SECOND, "end": end // SECOND})
    span_scan = replace(scan, query=span_query)
    if not estimated(span_query, {name: [scan.market]}, Statistics(scan.lake)).is_probably_small:
        return None
    if PLANS[name].has_time_blocks:
        try:
            require_touched([span_scan])
        except QueryError:
            # The spans reach beyond the window. If they touch too much, the window alone may still be allowed: leave it
            # to the caller.
            return None
    plan = PLANS[name].points(span_scan).with_columns(*scan.market.named(scan.interval))
    schema = wire_schema(name)
    points = schema.conform(plan.collect(engine="streaming")).sort(schema.key_of(grouped=False)).rechunk()
    return _Frame(points, epoch_nanoseconds(points["timestamp"]), None)


def _batch(points: pl.DataFrame, name: str) -> Any:
    """Return the varying columns of points as a record batch."""
    columns = points.select(varying_columns(name)).get_columns()
    arrays = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _texts(scan: MarketScan, name: str, keys: Sequence[_Key]) -> list[_Text] | None:
    """Return the spans as JSON, and write those that are not in memory; None if `_frames` returns None."""
    texts = {key: kept_text for key in keys if (kept_text := TEXTS.get(key)) is not None}
    missing_keys = [key for key in keys if key not in texts]
    if missing_keys:
        frames = _frames(scan, name, missing_keys)
        if frames is None:
            return None
        # Write all spans at once, because writing many of them one by one takes longer.
        all_texts = point_texts(pl.concat(frame.points for frame in frames), name)
        first = 0
        for key, frame in zip(missing_keys, frames, strict=True):
            times, starts = np.unique(frame.times, return_index=True)  # a point may have many rows
            rows = rows_before(frame.points)[np.append(starts, len(frame.times))]
            last = first + len(times)
            texts[key] = text = _Text(all_texts.copy(first, last), times, rows)
            TEXTS.put(key, text, size=key.size + text.points.size + text.times.nbytes + text.rows.nbytes)
            first = last
    return [texts[key] for key in keys]


def _inside(spans: Sequence[T], scan: MarketScan) -> list[tuple[T, tuple[int, int]]]:
    """Return the spans with points in the window, each with the positions where these points begin and end."""
    spans_inside, window = [], (scan.start, scan.end)
    for span in spans:
        first, last = np.searchsorted(span.times, window)
        if last > first:
            spans_inside.append((span, (int(first), int(last))))
    return spans_inside
