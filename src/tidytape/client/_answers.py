"""From the body of an answer to rows that were asked for, and whether any of them are missing. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

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
        In the schema of its data type. What it says of itself stays as it is.
    query : PointsQuery
        What was asked. Amounts count coins, or US dollars where that was asked for or exchanges were joined, unless the
        service sent a unit that we do not know; levels are as high as was asked for.
    answered_at : float or None
        When the service answered, by its own clock. If the service did not say up to when it knows the market, an
        interval that ended by then is final. None for a frame from the cache, which keeps only final intervals.
        [s since the epoch]

    Returns
    -------
    polars.DataFrame, same rows and columns
    """
    descriptors = schema_of(query.type[0]).descriptors
    in_usd = query.quote is not None or query.group_by is not None
    size = None if query.block_size is None else float(query.block_size)
    unit: pl.Expr = pl.lit(AmountUnit.USD if in_usd else AmountUnit.COIN)
    if SENT_UNIT in frame.columns:  # what the service calls by another name is not what was asked for
        unit = pl.when(pl.col(SENT_UNIT).is_null()).then(unit)
    asked = {
        "amount_unit": unit,
        "block_size": pl.lit(size, pl.Float64),
        "is_final": pl.lit(True),
    }
    if answered_at is not None and "is_final" in descriptors:
        now = min(max(int(answered_at * SECOND), 0), _LATEST)  # a header may name any year
        until = pl.from_epoch(pl.lit(now), "ns").dt.replace_time_zone("UTC")
        if DATA_UNTIL in frame.columns:
            until = pl.coalesce(DATA_UNTIL, until)
        asked["is_final"] = finality(frame.columns, until=until, length=_length(query))
    return frame.with_columns(
        pl.coalesce(name, asked[name]).cast(frame.schema[name]).alias(name)
        for name in descriptors
        if frame[name].null_count()
    )


def _length(query: PointsQuery) -> pl.Expr:
    """Return how long the interval of each row lasts; of a market profile the session. [ns]"""
    start = pl.col("timestamp")
    if query.tpo_session is TPOSession.MONTHLY:
        return (start.dt.offset_by("1mo") - start).dt.total_nanoseconds()
    if query.tpo_session is not None:
        return pl.lit({TPOSession.DAILY: DAY, TPOSession.WEEKLY: 7 * DAY}[query.tpo_session])
    assert query.interval is not None  # only trades have none, and they have no intervals
    return pl.lit(query.interval.seconds * SECOND)


# --- ---


_EDGE = 2
"""So far outside its window a point may lie, and is left out. [interval]"""


def decoded(answer: Answer, query: PointsQuery, *, absent: Absent = "null") -> pl.DataFrame:
    """Return the points of an answer, those at the edges of its window too.

    Beside the schema's columns it has ``data_until`` where the service sent it. Services differ on whether the end of a
    window belongs to it, and the interval in which it starts; what lies farther outside answers another question.
    ``absent`` is as of `wire.decode`.

    Raises
    ------
    DecodeError
        If the body is not what the contract says, or has series or times of something that was not asked for.
    """
    name = query.type[0]
    frame = _read(answer, name, absent)
    check_identity(frame, query, name)
    check_grid(frame, query, name)
    check_window(frame, query, name)
    return described(frame, query, answered_at=answer.sent_at)


def check_window(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Refuse points that lie farther outside the window than its edges."""
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
    """Return the times of points, of which none is null: to start polars takes longer than to check a small answer."""
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
    """Refuse series of other markets than the query's; a series may leave its identity out."""
    asked: dict[str, set[str]] = {
        column: set(getattr(query, column))
        for column in ("raw_symbol", "normalized_symbol", "coin")
        if getattr(query, column)
    }
    if query.exchange and query.group_by is None:  # a group is of no single exchange
        asked["exchange"] = set(query.exchange)
    if query.interval is not None:
        asked["interval"] = {query.interval.value, query.interval.alias}
    if query.side is not None and data_type(name).per_side:
        asked["side"] = {query.side.value}
    for column in sorted(asked.keys() & set(frame.columns)):
        for got in frame[column].unique().cast(pl.String).drop_nulls():
            if got not in asked[column]:
                wanted = " or ".join(sorted(asked[column]))
                raise DecodeError(
                    f"{name}: asked for {column} {wanted}, the service sent {printable(got)}", data_type=name
                )


def check_grid(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Refuse points where no interval starts: they are of another interval, whatever their series says or leaves out.

    A week may start on any day, but all of them on the same one.
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


def once(frame: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows without those that repeat another in full, and of them those that share their key."""
    if not frame.select(key).is_duplicated().any():
        return frame, frame.clear()
    # Answers of different times may say different things of whether a row is final.
    values = [name for name in frame.columns if name != "is_final"]
    frame = frame.unique(values, maintain_order=True)
    return frame, frame.filter(pl.struct(key).is_duplicated())


def is_clashing(frame: pl.DataFrame, query: PointsQuery) -> bool:
    """Return whether a point came twice with different values, which `joined` refuses."""
    key = schema_of(query.type[0]).key_of(grouped=query.group_by is not None)
    return not once(frame, key)[1].is_empty()


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
    frame, clash = once(frame, key)
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


# --- ---


_SERIES = ("exchange", "raw_symbol", "coin", "side", "tenor")


def is_dense(query: PointsQuery) -> bool:
    """Whether a market that is traded has a point in nearly every interval."""
    return query.grid is not None and all(kind.dense for kind in query.data_types)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is in an answer; a service may bound either.

    Attributes
    ----------
    rows : int
        Rows of all series.
    points : int
        Points of the longest series.
    """

    rows: int
    points: int

    def is_below(self, other: Size) -> bool:
        """Whether this answer is smaller than another whole one, so that no limit of size cut it."""
        return self.rows < other.rows and self.points < other.points


@dataclass(frozen=True)
class Part:
    """The answer to one request.

    Attributes
    ----------
    query : PointsQuery
        What was asked.
    frame : polars.DataFrame
        What came, points at the edges of the window too.
    notes : tuple of Note or None
        What the service said beside the series; None where it does not say such things.
    closed : int
        Points that start before it were over when the request was sent. [s since the epoch]
    now : float
        When it was sent. [s since the epoch]
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

    @cached_property
    def size(self) -> Size:
        """How much is in the answer."""
        if self.frame.is_empty():
            return Size(0, 0)
        names = [name for name in _SERIES if name in self.frame.columns]
        longest_series = self.frame.group_by(names).len()["len"].max()
        return Size(self.frame.height, int(longest_series))  # type: ignore[arg-type]


def series_of(frame: pl.DataFrame) -> set[tuple[str | None, ...]]:
    """Return the identities of the series in a frame."""
    names = [name for name in _SERIES if name in frame.columns]
    return set(frame.select(names).unique().cast(pl.String).iter_rows())


def lacking(part: Part) -> tuple[Span | None, Span | None]:
    """Return the spans that an answer lacks at the start and end of its window and that no note explains.

    An answer without rows lacks nothing: no service cuts down to nothing. Gaps inside a series are no ends.
    """
    start, end = part.span
    frame = within(part.frame, part.query.start, part.query.end)
    if frame.is_empty() or not is_dense(part.query):
        return None, None
    names = [name for name in _SERIES if name in frame.columns]
    first, last = pl.col("timestamp").min().dt.epoch("s"), pl.col("timestamp").max().dt.epoch("s")
    # A market that is known up to a time, as the service says, has no points after it. Where it has, its end is later.
    known: pl.Expr = pl.col(DATA_UNTIL).max().dt.epoch("s") if DATA_UNTIL in frame.columns else pl.lit(None)
    known = pl.when(known >= last).then(known)
    wanted = {"first": first, "last": last, "until": known}
    if names_one_series(part.query):  # to group takes three times as long
        ends = frame.select(pl.col(names).first(), **wanted)
    else:
        ends = frame.group_by(names).agg(**wanted)
    explained = {(note.exchange, note.raw_symbol) for note in part.notes or ()}
    unexplained = [
        series
        for series in ends.iter_rows(named=True)
        if (series["exchange"], series["raw_symbol"]) not in explained
    ]
    if not unexplained or (explained and part.query.group_by is not None):
        return None, None
    begin = min(end, max(series["first"] for series in unexplained))
    after = [series["last"] + part.query.step for series in unexplained]
    until = [end if series["until"] is None else min(end, series["until"]) for series in unexplained]
    short = [at for at, until_ in zip(after, until, strict=True) if at < until_]
    return (start, begin) if start < begin else None, (min(short), max(until)) if short else None


def names_one_series(query: PointsQuery) -> bool:
    """Whether a query can bring one series at most."""
    is_one_market = len(query.exchange) == 1 and len(query.raw_symbol) == 1
    is_one_group = query.group_by is not None and len(query.coin or query.normalized_symbol) == 1
    is_one_side = not data_type(query.type[0]).per_side or query.side is not None
    return (is_one_market or is_one_group) and is_one_side


def may_lack_series(part: Part) -> bool:
    """Whether a cut between two series may have left whole series out of an answer, so that no end is missing.

    That is so unless the query names one series alone, or the service says of every market why it has no points.
    """
    return (
        is_dense(part.query)
        and part.notes is None
        and not part.frame.is_empty()
        and not names_one_series(part.query)
    )


def tail_of(part: Part) -> Span | None:
    """Return an end of the window so short that a service which cut this answer would not cut that one."""
    start, end = part.span
    size, series = part.size, len(series_of(part.frame))
    points = max(1, min(POINTS_PER_WEIGHT, (size.rows - 1) // (series + 1)))
    start = max(start, end - points * part.query.step)
    return (start, end) if start < end else None


def most_weight(query: PointsQuery) -> int:
    """Return the weight of a request plus the most that probes and repeats of it may weigh. [weight]

    One probe at each end weighs as much as the request, and one thousand points more for the cut between them; to ask
    again for all that a service cut weighs as much as the request, and a little more.
    """
    if not is_dense(query):
        return weight(query)
    thousand = query.model_copy(update={"end": query.start + query.step})
    return 3 * weight(query) + 2 * weight(thousand)


def reach(frame: pl.DataFrame, span: Span, step: int) -> Span:
    """Return the time from the first to the last point of a frame in a span."""
    times = within(frame, *span)["timestamp"].dt.epoch("s")
    return (int(times.min()), int(times.max()) + step) if len(times) else (span[0], span[0])  # type: ignore[arg-type]


def new_rows(frame: pl.DataFrame, held: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the points of a frame in a span that another frame does not have."""
    names = [name for name in (*_SERIES, "timestamp") if name in frame.columns and name in held.columns]
    return within(frame, *span).join(held.select(names), on=names, how="anti", nulls_equal=True)
