"""From the body of an answer to the rows that were asked for, and whether the answer is complete. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidytape import wire
from tidytape.budget import weight
from tidytape.catalogue import POINTS_PER_WEIGHT, AmountUnit, Interval, TPOSession
from tidytape.client._steps import Answer, printable
from tidytape.client._window import longest
from tidytape.errors import DecodeError, IncompleteDataError, counted
from tidytape.query import PointsQuery
from tidytape.query._values import written_time
from tidytape.schema import data_type, schema_of
from tidytape.times import DAY, SECOND, Span
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._notes import Note, notes_in_arrow, notes_in_json
from tidytape.wire._tidy import DATA_UNTIL, SENT_UNIT, concatenated, finality

if TYPE_CHECKING:
    from tidytape.wire._decode import Absent


_LATEST = 2**63 - 1


def described(frame: pl.DataFrame, query: PointsQuery, *, answered_at: float | None) -> pl.DataFrame:
    """Return a frame with its descriptors filled in.

    Parameters
    ----------
    frame : polars.DataFrame
        In the schema of its data type. Only null descriptors are filled in.
    query : PointsQuery
        The query. Amounts count coins, or US dollars if the query has a quote or a group, unless the service sent a
        unit that tidytape does not know. Levels have the block size of the query.
    answered_at : float or None
        When the service answered, by its own clock. An interval that ended by then is final, unless the service says up
        to when it knows the market. None for a frame from the cache, which has only final intervals.
        [s since the epoch]

    Returns
    -------
    polars.DataFrame, same rows and columns
    """
    descriptors = schema_of(query.type[0]).descriptors
    in_usd = query.quote is not None or query.group_by is not None
    size = None if query.block_size is None else float(query.block_size)
    unit: pl.Expr = pl.lit(AmountUnit.USD if in_usd else AmountUnit.COIN)
    if SENT_UNIT in frame.columns:  # a unit with an unknown name stays null
        unit = pl.when(pl.col(SENT_UNIT).is_null()).then(unit)
    descriptor = {
        "amount_unit": unit,
        "block_size": pl.lit(size, pl.Float64),
        "is_final": pl.lit(True),
    }
    if answered_at is not None and "is_final" in descriptors:
        now = min(max(int(answered_at * SECOND), 0), _LATEST)  # a header may name any year
        until = pl.from_epoch(pl.lit(now), "ns").dt.replace_time_zone("UTC")
        if DATA_UNTIL in frame.columns:
            until = pl.coalesce(DATA_UNTIL, until)
        descriptor["is_final"] = finality(frame.columns, until=until, length=_length(query))
    return frame.with_columns(
        pl.coalesce(name, descriptor[name]).cast(frame.schema[name]).alias(name)
        for name in descriptors
        if frame[name].null_count()
    )


def _length(query: PointsQuery) -> pl.Expr:
    """Return the length of each row's interval, or of its session in a market profile. [ns]"""
    start = pl.col("timestamp")
    if query.tpo_session is TPOSession.MONTHLY:
        return (start.dt.offset_by("1mo") - start).dt.total_nanoseconds()
    if query.tpo_session is not None:
        return pl.lit({TPOSession.DAILY: DAY, TPOSession.WEEKLY: 7 * DAY}[query.tpo_session])
    assert query.interval is not None  # only trades have none, and trades have no finality
    return pl.lit(query.interval.seconds * SECOND)


# --- decoding ---


_EDGE = 2
"""A point at most this far outside its window is dropped; one farther outside is an error. [interval]"""


def decoded(answer: Answer, query: PointsQuery, *, absent: Absent = "null") -> pl.DataFrame:
    """Return the points of an answer, including points just outside its window.

    Services differ on whether the end of a window, and the interval around its start, belong to the window. A point
    farther outside belongs to another query. The frame has the schema's columns, and ``data_until`` if the service sent
    it. ``absent`` is as in `wire.decode`.

    Raises
    ------
    DecodeError
        If the body is not what the contract says, or has series or times that the query does not ask for.
    """
    name = query.type[0]
    frame = _read(answer, name, absent)
    check_identity(frame, query, name)
    check_grid(frame, query, name)
    check_window(frame, query, name)
    return described(frame, query, answered_at=answer.sent_at)


def check_window(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Raise DecodeError if points lie far outside the window."""
    edge = _EDGE * longest(query)
    seconds = _nanoseconds(frame) // SECOND
    strays = np.count_nonzero((seconds < query.start - edge) | (seconds >= query.end + edge))
    if strays:
        window = f"{written_time(query.start)} to {written_time(query.end)}"
        raise DecodeError(
            f"{name}: {strays:,} of {counted(frame.height, 'row')} lie outside the window asked for, {window}; "
            f"the first came with {seconds[0]}",
            data_type=name,
        )


def _nanoseconds(frame: pl.DataFrame) -> NDArray[np.int64]:
    """Return the times of points, which are never null, for numpy: it checks a small answer faster than polars."""
    return frame["timestamp"].to_physical().to_numpy()


def within(frame: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """Return the points that start in a span. [s since the epoch]"""
    if frame.is_empty():
        return frame
    times, first, last = frame["timestamp"].cast(pl.Int64), start * SECOND, end * SECOND
    if first <= times.min() and times.max() < last:  # type: ignore[operator]  # of integers
        return frame
    return frame.filter(times.is_between(first, last, closed="left"))


def notes_of(answer: Answer) -> tuple[Note, ...] | None:
    """Return the notes of a decodable answer, or None if the service sends no notes."""
    return notes_in_arrow(answer.content) if _is_arrow(answer) else notes_in_json(answer.content)


def _read(answer: Answer, name: str, absent: Absent) -> pl.DataFrame:
    if _is_arrow(answer):
        return wire.from_arrow(answer.content, name)
    return wire.decode(answer.content, name, absent=absent)


def _is_arrow(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return bool(kind == ARROW_MIME)


def check_identity(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Raise DecodeError for series of other markets than the query's; the identity of a series may be null."""
    allowed: dict[str, set[str]] = {
        column: set(getattr(query, column))
        for column in ("raw_symbol", "normalized_symbol", "coin")
        if getattr(query, column)
    }
    if query.exchange and query.group_by is None:  # a group is of no single exchange
        allowed["exchange"] = set(query.exchange)
    if query.interval is not None:
        allowed["interval"] = {query.interval.value, query.interval.alias}
    if query.side is not None and data_type(name).per_side:
        allowed["side"] = {query.side.value}
    for column in sorted(allowed.keys() & set(frame.columns)):
        for sent in frame[column].unique().cast(pl.String).drop_nulls():
            if sent not in allowed[column]:
                names = " or ".join(sorted(allowed[column]))
                raise DecodeError(
                    f"{name}: asked for {column} {names}, the service sent {printable(sent)}", data_type=name
                )


def check_grid(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Raise DecodeError for points at times at which no interval starts: they are of another interval.

    Weeks may start on any day, but all on the same day.
    """
    grid = query.grid
    if grid is None or data_type(name).interval_optional:
        return
    starts, step = _nanoseconds(frame), grid.seconds * SECOND
    common = min(step, DAY)
    phase = starts.min() % step if len(starts) and grid.seconds > Interval.DAY.seconds else 0
    is_stray = (starts % step != phase) | (starts % common != 0)
    if is_stray.any():
        strays = frame["timestamp"].filter(is_stray).unique().sort()
        raise DecodeError(
            f"{name}: asked for interval {query.interval}, and the service sent {len(strays)} timestamps at which none "
            f"starts, the first at {strays[0]}",
            data_type=name,
        )


def without_repeats(frame: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows without repeats of equal rows, and those of them that share a key with different values."""
    if not frame.select(key).is_duplicated().any():
        return frame, frame.clear()
    # A row may be final in a later answer and not in an earlier one.
    values = [name for name in frame.columns if name != "is_final"]
    frame = frame.unique(values, maintain_order=True)
    return frame, frame.filter(pl.struct(key).is_duplicated())


def is_clashing(frame: pl.DataFrame, query: PointsQuery) -> bool:
    """Return whether a point came twice with different values, which `joined` refuses."""
    key = schema_of(query.type[0]).key_of(grouped=query.group_by is not None)
    return not without_repeats(frame, key)[1].is_empty()


def joined(frames: list[pl.DataFrame], query: PointsQuery) -> pl.DataFrame:
    """Return one frame of the parts of a window: rows by series, then time in the direction asked for, then price.

    Raises
    ------
    IncompleteDataError
        If a point came twice with different values.
    """
    name = query.type[0]
    grouped = query.group_by is not None
    schema = schema_of(name, grouped=grouped)
    key = schema.key_of(grouped=grouped)
    newest_first = query.sort_direction == "SORT_DIRECTION_DESC"
    if not frames:
        return schema.empty()
    frame = schema.conform(concatenated(frames))
    if _is_one_series_in_order(frame, key):
        return frame.reverse() if newest_first else frame
    frame = frame.sort(
        key,
        descending=[newest_first and column == "timestamp" for column in key],
        maintain_order=True,
    )
    frame, clash = without_repeats(frame, key)
    if not clash.is_empty():
        moments = tuple(clash["timestamp"].dt.epoch("s").unique().sort())
        raise IncompleteDataError(
            f"{name}: {len(moments)} timestamps came twice with different values, the first at {moments[0]}",
            missing=tuple((moment, moment + 1) for moment in moments),
        )
    return frame


def _is_one_series_in_order(frame: pl.DataFrame, key: Sequence[str]) -> bool:
    """Return whether a frame is of one series without levels, each point later than the one before."""
    times = _nanoseconds(frame)
    if "price" in key or not (times[1:] > times[:-1]).all():
        return False
    names = (frame[column].to_physical() for column in key if column != "timestamp")
    return all(name.null_count() in (0, len(name)) and name.min() == name.max() for name in names)


# --- whether an answer is complete ---


_SERIES = ("exchange", "raw_symbol", "coin", "side", "tenor")


def is_dense(query: PointsQuery) -> bool:
    """Whether a market that is traded has a point in nearly every interval."""
    return query.grid is not None and all(data_type.dense for data_type in query.data_types)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is in an answer; a service may limit either.

    Attributes
    ----------
    rows : int
        Rows of all series.
    points : int
        Points of the longest series.
    """

    rows: int
    points: int

    def is_below(self, complete_size: Size) -> bool:
        """Whether an answer of this size is smaller than a complete one, so that no limit cut it."""
        return self.rows < complete_size.rows and self.points < complete_size.points


@dataclass(frozen=True)
class Part:
    """The answer to one request.

    Attributes
    ----------
    query : PointsQuery
        The request.
    frame : polars.DataFrame
        All points that came, those at the edges of the window too.
    notes : tuple of Note or None
        Why markets have no points, as the service says it; None if the service does not say it.
    closed : int
        Points that start before this time were over when the request was sent. [s since the epoch]
    now : float
        The time before which the service changes nothing any more. [s since the epoch]
    """

    query: PointsQuery
    frame: pl.DataFrame
    notes: tuple[Note, ...] | None
    closed: int
    now: float

    @property
    def span(self) -> Span:
        """The intervals of the window that were over. [s since the epoch]"""
        start, end = self.query.span
        return start, max(start, min(end, self.closed))

    @property
    def points(self) -> pl.DataFrame:
        """The points of the window, in the columns of the schema."""
        points = within(self.frame, self.query.start, self.query.end)
        return points.drop(DATA_UNTIL, strict=False)

    @cached_property
    def size(self) -> Size:
        """How much is in the answer."""
        if self.frame.is_empty():
            return Size(0, 0)
        names = [name for name in _SERIES if name in self.frame.columns]
        longest_series = self.frame.group_by(names).len()["len"].max()
        return Size(self.frame.height, int(longest_series))  # type: ignore[arg-type]


def spans_to_check(part: Part) -> list[Span]:
    """Return the spans in which the service may have cut an answer, so that they have to be requested once more.

    These are the ends of the window that lack points although the service does not say why. If both ends have points, a
    cut may still have left out whole series; then it is the second half of the window, but at most a thousand points.
    An answer without rows needs no check: no service cuts an answer to nothing. A gap inside a series is no end.
    """
    if not is_dense(part.query) or part.frame.is_empty():
        return []
    ends = _ends_without_points(part)
    if ends or part.notes is not None or names_one_series(part.query):
        return ends
    (start, end), step = part.span, part.query.step
    points = min(POINTS_PER_WEIGHT, (end - start) // step // 2)
    return [(end - points * step, end)] if points else []


def _ends_without_points(part: Part) -> list[Span]:
    """Return the spans at the end and the start of the window in which a series has no points and no note says why."""
    start, end = part.span
    explained = {(note.exchange, note.raw_symbol) for note in part.notes or ()}
    if explained and part.query.group_by is not None:
        return []
    series = [row for row in _reach(part) if (row["exchange"], row["raw_symbol"]) not in explained]
    first = max((row["first"] for row in series), default=start)
    known = [end if row["known"] is None else min(end, row["known"]) for row in series]
    early_ends = [row["after"] for row, until in zip(series, known, strict=True) if row["after"] < until]
    at_end = [(min(early_ends), max(known))] if early_ends else []
    return at_end + ([(start, min(end, first))] if start < first else [])


def _reach(part: Part) -> list[dict[str, Any]]:
    """Return a row per series that has points in the window: from when to when, and how many.

    ``first`` is the start of the first point, ``after`` the end of the last one, ``known`` up to when the service knows
    the market, or null. [s since the epoch]
    """
    frame = within(part.frame, part.query.start, part.query.end)
    if frame.is_empty():
        return []
    second = pl.col("timestamp").dt.epoch("s")
    # A ``data_until`` before the last point is wrong, so it counts as null.
    known: pl.Expr = pl.lit(None)
    if DATA_UNTIL in frame.columns:
        known = pl.col(DATA_UNTIL).max().dt.epoch("s")
        known = pl.when(known >= second.max()).then(known)
    aggregates = {
        "first": second.min(),
        "after": second.max() + part.query.step,
        "known": known,
        "points": pl.len(),
    }
    names = [name for name in _SERIES if name in frame.columns]
    if names_one_series(part.query):  # to group takes three times as long
        rows = frame.select(pl.col(names).first(), **aggregates)
    else:
        rows = frame.group_by(names).agg(**aggregates)
    return rows.to_dicts()


def narrower_span(part: Part, probe: Part, span: Span) -> list[Span]:
    """Return the span to request next, if the answer to a request for a span cannot show whether part was cut.

    A service that limits the points of each series cuts the longest series. If all known points of such a series lie in
    the span, the limit lets these same points through and no others. Then a request that starts after its first point
    shows whether it was cut. At the start of the window it is a request that ends before its last point.
    """
    if probe.size.points < part.size.points:
        return []
    rows, (start, end) = _reach(probe), span
    most = max((row["points"] for row in rows), default=0)
    full = [row for row in rows if row["points"] == most]
    if start == part.span[0]:
        end = max((row["first"] for row in full), default=start)
    else:
        start = min((row["after"] for row in full), default=end)
    return [(start, end)] if start < end else []


def names_one_series(query: PointsQuery) -> bool:
    """Whether a query can bring one series at most."""
    is_one_market = len(query.exchange) == 1 and len(query.raw_symbol) == 1
    is_one_group = query.group_by is not None and len(query.coin or query.normalized_symbol) == 1
    is_one_side = not data_type(query.type[0]).per_side or query.side is not None
    return (is_one_market or is_one_group) and is_one_side


def series_of(frame: pl.DataFrame) -> set[tuple[str | None, ...]]:
    """Return the identities of the series in a frame."""
    names = [name for name in _SERIES if name in frame.columns]
    return set(frame.select(names).unique().cast(pl.String).iter_rows())


def new_points(frame: pl.DataFrame, known: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the points of a frame in a span that another frame does not have."""
    names = [name for name in (*_SERIES, "timestamp") if name in frame.columns and name in known.columns]
    return within(frame, *span).join(known.select(names), on=names, how="anti", nulls_equal=True)


def most_weight(query: PointsQuery) -> int:
    """Return the weight of a request and of the requests that check whether its answer is complete, at most. [weight]

    The check of one end of the window weighs as much as the request at most, and a narrower one may follow.
    """
    if not is_dense(query):
        return weight(query)
    thousand = query.model_copy(update={"end": query.start + query.step})
    return 3 * weight(query) + 2 * weight(thousand)
