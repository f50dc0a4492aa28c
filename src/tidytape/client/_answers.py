"""Decode an answer into the rows of its query, and decide whether the answer is complete. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tidytape import wire
from tidytape.budget import weight
from tidytape.catalogue import POINTS_PER_WEIGHT, AmountUnit, Interval, SortDirection, TPOSession
from tidytape.client._steps import Answer, printable
from tidytape.client._window import longest
from tidytape.errors import DecodeError, IncompleteDataError, counted
from tidytape.query import PointsQuery
from tidytape.query._values import written_time
from tidytape.schema import LEVELS, data_type, wire_schema
from tidytape.times import DAY, SECOND, Span
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._notes import Note, notes_in_arrow, notes_in_json
from tidytape.wire._sessions import IN_PROGRESS, block_in_progress, owners, regrouped, unnested
from tidytape.wire._tidy import (
    DATA_UNTIL,
    SENT_UNIT,
    SESSION,
    concatenated,
    distinct,
    epoch_nanoseconds,
    finality,
)

if TYPE_CHECKING:
    from tidytape.wire._decode import Absent


_LATEST = 2**63 - 1
"""The latest time that a timestamp can hold. [ns since the epoch]"""


def described(frame: pl.DataFrame, query: PointsQuery, *, answered_at: float | None) -> pl.DataFrame:
    """Return a frame with its descriptors filled in.

    Parameters
    ----------
    frame : polars.DataFrame
        In the schema of its data type. Only null descriptors are filled in.
    query : PointsQuery
        The query. Amounts count coins, or US dollars if the query has a quote or a group. The unit stays null if the
        service sent one that tidytape does not know. Levels have the block size of the query.
    answered_at : float or None
        When the service answered, by its own clock. An interval is final if it ended by then, or by the time up to
        which the service knows the market, if it says that time. None for a frame from the cache, which has only final
        intervals. [s since the epoch]

    Returns
    -------
    polars.DataFrame, same rows and columns
    """
    descriptors = wire_schema(query.type[0]).descriptors
    if LEVELS not in frame.columns and not any(frame[name].null_count() for name in descriptors):
        return frame
    in_usd = query.quote is not None or query.group_by is not None
    size = None if query.block_size is None else float(query.block_size)
    unit: pl.Expr = pl.lit(AmountUnit.USD if in_usd else AmountUnit.COIN)
    if SENT_UNIT in frame.columns:  # a unit with an unknown name stays null
        unit = pl.when(pl.col(SENT_UNIT).is_null()).then(unit)
    expressions = {
        "amount_unit": unit,
        "block_size": pl.lit(size, pl.Float64),
        "is_final": pl.lit(True),
    }
    in_progress = pl.lit(None, pl.Int64).alias(IN_PROGRESS)
    if answered_at is not None and "is_final" in descriptors:
        now = min(max(int(answered_at * SECOND), 0), _LATEST)  # a header may name any year
        until = pl.from_epoch(pl.lit(now), "ns").dt.replace_time_zone("UTC")
        if DATA_UNTIL in frame.columns:
            until = pl.coalesce(DATA_UNTIL, until)
        expressions["is_final"] = finality(frame.columns, until=until, length=_length(query))
        in_progress = block_in_progress(until)
    frame = frame.with_columns(
        pl.coalesce(name, expressions[name]).cast(frame.schema[name]).alias(name)
        for name in descriptors
        if frame[name].null_count()
    )
    is_told = answered_at is None and IN_PROGRESS in frame.columns
    return frame if is_told or LEVELS not in frame.columns else frame.with_columns(in_progress)


def _length(query: PointsQuery) -> pl.Expr:
    """Return the length of each row's interval, or of each row's session for a market profile. [ns]"""
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
        If the body breaks the contract, or has series or times that the query does not ask for.
    """
    name = query.type[0]
    frame = _read(answer, name, absent)
    check_identity(frame, query, name)
    check_grid(frame, query, name)
    check_window(frame, query, name)
    frame = with_levels_in_order(frame, name)
    return described(frame, query, answered_at=answer.sent_at)


def check_window(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Raise DecodeError if points lie far outside the window."""
    tolerance = _EDGE * longest(query)
    seconds = epoch_nanoseconds(frame["timestamp"]) // SECOND
    is_stray = (seconds < query.start - tolerance) | (seconds >= query.end + tolerance)
    if stray_count := np.count_nonzero(is_stray):
        window = f"{written_time(query.start)} to {written_time(query.end)}"
        raise DecodeError(
            f"{name}: {stray_count:,} of {counted(frame.height, 'row')} lie outside the window asked for, {window}; "
            f"the first came with {seconds[is_stray][0]}",
            data_type=name,
        )


def with_levels_in_order(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Sort the levels of each session of market profiles by price; raise DecodeError if two have one price."""
    if LEVELS not in frame.columns:
        return frame
    levels, counts = unnested(frame)
    prices, session = levels["price"].to_numpy(), owners(counts)
    if ((prices[1:] > prices[:-1]) | (session[1:] != session[:-1])).all():
        return frame  # as nearly every service sends them
    twice = pl.DataFrame({"session": session, "price": prices}).is_duplicated()
    if twice.any():
        text = f"{name}: a session has two levels at one price, {prices[twice.arg_true()[0]]}"
        raise DecodeError(text, data_type=name)
    levels = levels[np.lexsort((prices, session))]
    return frame.with_columns(regrouped(levels.to_struct(LEVELS), counts))


def within(frame: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """Return the points that start in a span. [s since the epoch]"""
    if frame.is_empty():
        return frame
    times, first, last = frame["timestamp"].cast(pl.Int64), start * SECOND, end * SECOND
    if first <= times.min() and times.max() < last:  # type: ignore[operator]  # of integers
        return frame
    return frame.filter(times.is_between(first, last, closed="left"))


def without_sessions(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple[str, str], str]]:
    """Return a frame without the column of sessions, and the session of each market that the service stated."""
    if SESSION not in frame.columns:
        return frame, {}
    # An empty text is an absent one, as in the names of a series.
    stated = frame.select("exchange", "raw_symbol", SESSION).filter(pl.col(SESSION) != "").drop_nulls()
    stated = stated.unique(maintain_order=True)
    return frame.drop(SESSION), {(exchange, symbol): text for exchange, symbol, text in stated.iter_rows()}


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
    """Raise DecodeError if a series has another identity than the query names; a null in its identity is allowed."""
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
        for sent in distinct(frame[column]):
            if sent is not None and sent not in allowed[column]:
                names = " or ".join(sorted(allowed[column]))
                raise DecodeError(
                    f"{name}: asked for {column} {names}, the service sent {printable(sent)}", data_type=name
                )


def check_grid(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Raise DecodeError if no interval of the query starts at a point's time.

    The service may start weeks on any day, but all weeks on the same day.
    """
    grid = query.grid
    if grid is None or data_type(name).interval_optional:
        return
    starts, step = epoch_nanoseconds(frame["timestamp"]), grid.seconds * SECOND
    common = min(step, DAY)  # the grid of intervals longer than a day is known only up to whole days
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
    """Return the frame without repeated equal rows, and its rows that share a key but have different values."""
    if not frame.select(key).is_duplicated().any():
        return frame, frame.clear()
    # A row may be final in a later answer and not in an earlier one.
    values = [name for name in frame.columns if name != "is_final"]
    frame = frame.unique(values, maintain_order=True)
    return frame, frame.filter(pl.struct(key).is_duplicated())


def is_clashing(frame: pl.DataFrame, query: PointsQuery) -> bool:
    """Return whether a point came twice with different values, which `joined` refuses."""
    key = wire_schema(query.type[0]).key_of(grouped=query.group_by is not None)
    return not without_repeats(frame, key)[1].is_empty()


def joined(frames: list[pl.DataFrame], query: PointsQuery) -> pl.DataFrame:
    """Return one frame of the parts of a window: rows in the order of `in_order`, in the direction asked for.

    Raises
    ------
    IncompleteDataError
        If a point came twice with different values.
    """
    frame, has_each_point_once = _ordered(frames, query)
    if has_each_point_once:
        return frame
    name = query.type[0]
    frame, clash = without_repeats(frame, _key_of(query))
    if not clash.is_empty():
        seconds = tuple(clash["timestamp"].dt.epoch("s").unique().sort())
        raise IncompleteDataError(
            f"{name}: {len(seconds)} timestamps came twice with different values, the first at {seconds[0]}",
            missing=tuple((second, second + 1) for second in seconds),
        )
    return frame


def ordered(frames: list[pl.DataFrame], query: PointsQuery) -> pl.DataFrame:
    """Return one frame of the parts of a window, as `joined`, of parts that have each point once."""
    return _ordered(frames, query)[0]


def _ordered(frames: list[pl.DataFrame], query: PointsQuery) -> tuple[pl.DataFrame, bool]:
    """Return one frame of the parts of a window, in order, and whether it certainly has each point once."""
    schema, key = wire_schema(query.type[0], grouped=query.group_by is not None), _key_of(query)
    if not frames:
        return schema.empty(), True
    frame = schema.conform(concatenated(frames))
    newest_first = query.sort_direction == SortDirection.DESC
    if not newest_first and _are_in_order(frame, key):
        return frame, True
    return in_order(frame, key, newest_first=newest_first), False


def _key_of(query: PointsQuery) -> tuple[str, ...]:
    grouped = query.group_by is not None
    return wire_schema(query.type[0], grouped=grouped).key_of(grouped=grouped)


def in_order(frame: pl.DataFrame, key: Sequence[str], *, newest_first: bool = False) -> pl.DataFrame:
    """Return rows by series, then time, then price; trades by market, then time, then id, whatever their side.

    Ids that are whole numbers as text are sorted as numbers.
    """
    order = [(pl.col(name), newest_first and name == "timestamp") for name in key]
    if "id" in key:
        order = [part for name, part in zip(key, order, strict=True) if name not in {"side", "id"}]
        order += [(pl.col("id").str.len_chars(), newest_first), (pl.col("id"), newest_first)]
    columns, descending = zip(*order, strict=True)
    return frame.sort(columns, descending=descending, maintain_order=True)


def _are_in_order(frame: pl.DataFrame, key: Sequence[str]) -> bool:
    """Return whether rows are certainly in the order of `in_order`, oldest first, and no two have the same key.

    It takes less than a sort: a column with one value is not compared, and the others only in rows that are equal in
    the columns before them.
    """
    columns = [frame[name] for name in key if name not in {"side", "id"} or "id" not in key]
    if "id" in key:
        columns += [frame["id"].str.len_chars(), frame["id"]]
    ties = np.arange(frame.height - 1)  # rows that are equal to the next one so far
    for column in columns:
        values = column.to_physical()
        if values.null_count() == len(values) or (not values.null_count() and values.min() == values.max()):
            continue
        if values.null_count() or column.dtype == pl.Categorical:
            return False
        is_whole = len(ties) == len(values) - 1
        rows, next_rows = (values[:-1], values[1:]) if is_whole else (values[ties], values[ties + 1])
        if (next_rows < rows).any():
            return False
        ties = ties[(next_rows == rows).to_numpy()]
        if not len(ties):
            return True
    return not len(ties)


# --- whether an answer is complete ---


_SERIES_COLUMNS = ("exchange", "raw_symbol", "coin", "side", "tenor")


def is_dense(query: PointsQuery) -> bool:
    """Return whether a market that is traded has a point in nearly every interval."""
    return query.grid is not None and all(data_type.dense for data_type in query.data_types)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an answer. A service may limit its rows, or the points of each series.

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
        """Return whether an answer of this size is smaller than a complete answer, so that no limit cut it."""
        return self.rows < complete_size.rows and self.points < complete_size.points


@dataclass(frozen=True)
class Part:
    """The answer to one request.

    Attributes
    ----------
    query : PointsQuery
        The request.
    frame : polars.DataFrame
        All points of the answer, also those just outside the window.
    notes : tuple of Note or None
        Why markets have no points, as the service says it; None if the service does not say it.
    closed : int
        Points that start before this time were over at ``now``. [s since the epoch]
    now : float
        The time of the answer, less a minute in which the service may still change what has ended. [s since the epoch]
    """

    query: PointsQuery
    frame: pl.DataFrame
    notes: tuple[Note, ...] | None
    closed: int
    now: float

    @property
    def span(self) -> Span:
        """The span of the intervals of the window that were over. [s since the epoch]"""
        start, end = self.query.span
        return start, max(start, min(end, self.closed))

    @property
    def points(self) -> pl.DataFrame:
        """The points of the window, in the columns of the schema."""
        points = within(self.frame, self.query.start, self.query.end)
        return points.drop(DATA_UNTIL, strict=False)

    @cached_property
    def size(self) -> Size:
        """The rows of the answer, and the points of its longest series."""
        if self.frame.is_empty():
            return Size(0, 0)
        series_columns = [name for name in _SERIES_COLUMNS if name in self.frame.columns]
        longest_series = self.frame.group_by(series_columns).len()["len"].max()
        return Size(self.frame.height, int(longest_series))  # type: ignore[arg-type]


def spans_to_check(part: Part) -> list[Span]:
    """Return the spans in which the service may have cut an answer, so that the client has to request them once more.

    These are the ends of the window that lack points although the service does not say why. If both ends have points, a
    cut may still have left out whole series. Then the span is the second half of the window, but at most its last
    thousand points. An answer without rows needs no check, because no service cuts an answer to nothing. Gaps inside a
    series are not checked.
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
    """Return at most two spans, at the end and at the start of the window.

    In these at least one series lacks points, and no note says why.
    """
    start, end = part.span
    explained_markets = {(note.exchange, note.raw_symbol) for note in part.notes or ()}
    if explained_markets and part.query.group_by is not None:
        return []
    extents = [
        extent
        for extent in _extents(part)
        if (extent["exchange"], extent["raw_symbol"]) not in explained_markets
    ]
    latest_first_point = max((extent["first_point"] for extent in extents), default=start)
    known_ends = [
        end if extent["known_until"] is None else min(end, extent["known_until"]) for extent in extents
    ]
    early_ends = [
        extent["points_end"]
        for extent, known_end in zip(extents, known_ends, strict=True)
        if extent["points_end"] < known_end
    ]
    at_end = [(min(early_ends), max(known_ends))] if early_ends else []
    return at_end + ([(start, min(end, latest_first_point))] if start < latest_first_point else [])


def _extents(part: Part) -> list[dict[str, Any]]:
    """Return a row per series that has points in the window: where its points begin and end, and how many they are.

    ``first_point`` is the start of the first point, ``points_end`` the end of the last point. ``known_until`` is the
    time up to which the service knows the market, or null. [s since the epoch]
    """
    frame = within(part.frame, part.query.start, part.query.end)
    if frame.is_empty():
        return []
    second = pl.col("timestamp").dt.epoch("s")
    # If ``data_until`` is before the last point, it is wrong and counts as null.
    known_until: pl.Expr = pl.lit(None)
    if DATA_UNTIL in frame.columns:
        known_until = pl.col(DATA_UNTIL).max().dt.epoch("s")
        known_until = pl.when(known_until >= second.max()).then(known_until)
    aggregates = {
        "first_point": second.min(),
        "points_end": second.max() + part.query.step,
        "known_until": known_until,
        "points": pl.len(),
    }
    series_columns = [name for name in _SERIES_COLUMNS if name in frame.columns]
    if names_one_series(part.query):  # grouping takes three times as long
        rows = frame.select(pl.col(series_columns).first(), **aggregates)
    else:
        rows = frame.group_by(series_columns).agg(**aggregates)
    return rows.to_dicts()


def narrower_span(part: Part, probe: Part, span: Span) -> list[Span]:
    """Return the next span to request, if ``probe``, the answer to ``span``, cannot show whether ``part`` was cut.

    A service may limit the points of each series. If all known points of a longest series lie in the span, the limit
    lets through these points again, and no others. So the next request leaves them out: it starts after the last point
    of one such series. At the start of the window it ends before the first point of one such series instead.
    """
    if probe.size.points < part.size.points:
        return []
    rows, (start, end) = _extents(probe), span
    most = max((row["points"] for row in rows), default=0)
    longest_series = [row for row in rows if row["points"] == most]
    if start == part.span[0]:
        end = max((row["first_point"] for row in longest_series), default=start)
    else:
        start = min((row["points_end"] for row in longest_series), default=end)
    return [(start, end)] if start < end else []


def names_one_series(query: PointsQuery) -> bool:
    """Return whether the answer to a query has at most one series."""
    is_one_market = len(query.exchange) == 1 and len(query.raw_symbol) == 1
    is_one_group = query.group_by is not None and len(query.coin or query.normalized_symbol) == 1
    is_one_side = not data_type(query.type[0]).per_side or query.side is not None
    return (is_one_market or is_one_group) and is_one_side


def series_of(frame: pl.DataFrame) -> set[tuple[str | None, ...]]:
    """Return the identities of the series in a frame."""
    series_columns = [name for name in _SERIES_COLUMNS if name in frame.columns]
    return set(frame.select(series_columns).unique().cast(pl.String).iter_rows())


def new_points(frame: pl.DataFrame, known: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the points of ``frame`` in a span that the frame ``known`` does not have."""
    key = [
        name for name in (*_SERIES_COLUMNS, "timestamp") if name in frame.columns and name in known.columns
    ]
    return within(frame, *span).join(known.select(key), on=key, how="anti", nulls_equal=True)


def most_weight(query: PointsQuery) -> int:
    """Return the most that a request and the checks of its answer can weigh together. [weight]

    The client may check both ends of the window. Each check weighs at most as much as the request, and a narrower check
    may follow it.
    """
    if not is_dense(query):
        return weight(query)
    shortest = query.model_copy(update={"end": query.start + query.step})
    return 3 * weight(query) + 2 * weight(shortest)
