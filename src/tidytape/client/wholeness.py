"""Whether an answer is whole: what it lacks at its ends, and whether anybody explains that. No I/O.

Nothing in an answer says that the service cut it. What can be seen is that a series ends before the window does, or
begins after it. In a dense type that is unusual, so the client asks once more for what is missing (a probe) and knows
from the answer whether the data end there or were cut. It asks only where nobody explains the missing end. The notes of
the service explain it. So does another answer of the same fetch that has more rows and is whole, because a service that
gives that many did not cut this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from tidytape import wire
from tidytape.budget import weight
from tidytape.catalogue import POINTS_PER_WEIGHT
from tidytape.client.tidying import within
from tidytape.query import PointsQuery
from tidytape.schema import data_type
from tidytape.times import Span
from tidytape.wire import Note

__all__ = [
    "Part",
    "Size",
    "is_dense",
    "lacking",
    "may_lack_series",
    "most_weight",
    "names_one_series",
    "new_rows",
    "reach",
    "series_of",
    "size_of",
    "tail_of",
]

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
        """Whether a service that gave the other one whole cannot have cut this one for its size."""
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
        return size_of(self.frame)


def series_of(frame: pl.DataFrame) -> set[tuple[str | None, ...]]:
    """Return the series that a frame has, by what names them."""
    names = [name for name in _SERIES if name in frame.columns]
    return set(frame.select(names).unique().cast(pl.String).iter_rows())


def size_of(frame: pl.DataFrame) -> Size:
    """Return how much is in an answer."""
    if frame.is_empty():
        return Size(0, 0)
    names = [name for name in _SERIES if name in frame.columns]
    return Size(frame.height, int(frame.group_by(names).len()["len"].max()))  # type: ignore[arg-type]


def lacking(part: Part) -> tuple[Span | None, Span | None]:
    """Return what an answer lacks and nobody explains: at the front of its window, and at the end.

    An answer without rows lacks nothing: no service cuts down to nothing. Gaps inside a series are no ends.
    """
    start, end = part.span
    frame = within(part.frame, part.query.start, part.query.end)
    if frame.is_empty() or not is_dense(part.query):
        return None, None
    names = [name for name in _SERIES if name in frame.columns]
    first, last = pl.col("timestamp").min().dt.epoch("s"), pl.col("timestamp").max().dt.epoch("s")
    # A market that is known up to a time, as the service says, has no points after it. Where it has, its end is later.
    known: pl.Expr = (
        pl.col(wire.DATA_UNTIL).max().dt.epoch("s") if wire.DATA_UNTIL in frame.columns else pl.lit(None)
    )
    known = pl.when(known >= last).then(known)
    wanted = {"first": first, "last": last, "until": known}
    if names_one_series(part.query):  # to group takes three times as long
        ends = frame.select(pl.col(names).first(), **wanted)
    else:
        ends = frame.group_by(names).agg(**wanted)
    explained = _explained(part, names)
    unexplained = [
        one for one in ends.iter_rows(named=True) if (one[names[0]], one[names[1]]) not in explained
    ]
    if not unexplained or (explained and part.query.group_by is not None):
        return None, None
    begin = min(end, max(one["first"] for one in unexplained))
    after = [one["last"] + part.query.step for one in unexplained]
    until = [end if one["until"] is None else min(end, one["until"]) for one in unexplained]
    short = [at for at, until_ in zip(after, until, strict=True) if at < until_]
    return (start, begin) if start < begin else None, (min(short), max(until)) if short else None


def _explained(part: Part, names: Sequence[str]) -> set[tuple[str | None, ...]]:
    """Return exchange and symbol of the markets that a note names."""
    assert tuple(names[:2]) == _SERIES[:2]  # every schema has them first
    return {(note.exchange, note.raw_symbol) for note in part.notes or ()}


def names_one_series(query: PointsQuery) -> bool:
    """Whether a query can have no more than one series."""
    is_one_market = len(query.exchange) == 1 and len(query.raw_symbol) == 1
    is_one_group = query.group_by is not None and len(query.coin or query.normalized_symbol) == 1
    is_one_side = not data_type(query.type[0]).per_side or query.side is not None
    return (is_one_market or is_one_group) and is_one_side


def may_lack_series(part: Part) -> bool:
    """Whether an answer may lack series that a cut between two of them left out, so that no end of it is missing.

    That is so unless the query names one series alone, or the service says of every market why it has no points.
    """
    return (
        is_dense(part.query)
        and part.notes is None
        and not part.frame.is_empty()
        and not names_one_series(part.query)
    )


def tail_of(part: Part) -> Span | None:
    """Return the end of a window, so short that a service that cut this answer would not cut what it has there."""
    start, end = part.span
    size, series = part.size, len(series_of(part.frame))
    points = max(1, min(POINTS_PER_WEIGHT, (size.rows - 1) // (series + 1)))
    start = max(start, end - points * part.query.step)
    return (start, end) if start < end else None


def most_weight(query: PointsQuery) -> int:
    """Return the most that a request may weigh together with all that is asked to make its answer whole. [weight]

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
