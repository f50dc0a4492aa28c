"""From the body of an answer to rows that were asked for: decoded, of what was asked, each once, in order."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidytape import wire
from tidytape.catalogue import Interval
from tidytape.client.describing import described
from tidytape.client.settings import Absent
from tidytape.client.steps import Answer, printable
from tidytape.client.window import longest
from tidytape.errors import DecodeError, IncompleteDataError, counted
from tidytape.query import PointsQuery
from tidytape.query.values import written_time
from tidytape.schema import data_type, schema_of
from tidytape.times import DAY, SECOND
from tidytape.wire import Note

__all__ = ["check_grid", "check_identity", "decoded", "is_clashing", "joined", "notes_of", "once", "within"]


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
    edge = _EDGE * longest(query)
    times = frame["timestamp"].dt.epoch("s")
    strays = ((times < query.start - edge) | (times >= query.end + edge)).sum()
    if strays:
        asked = f"{written_time(query.start)} to {written_time(query.end)}"
        raise DecodeError(
            f"{name}: {strays:,} of {counted(frame.height, 'row')} lie outside the window asked for, {asked}; "
            f"the first came with {times[0]}",
            data_type=name,
        )
    return described(frame, query, answered_at=answer.sent_at)


def within(frame: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """Return the points that start in a span. [s since the epoch]"""
    if frame.is_empty():
        return frame
    times, first, last = frame["timestamp"].cast(pl.Int64), start * SECOND, end * SECOND
    if first <= times.min() and times.max() < last:  # type: ignore[operator]  # of integers
        return frame
    return frame.filter(times.is_between(first, last, closed="left"))


def notes_of(answer: Answer) -> tuple[Note, ...] | None:
    """Return what an answer says beside its series, which can be decoded; None where it says nothing of the kind."""
    return wire.notes_in_arrow(answer.content) if _is_arrow(answer) else wire.notes_in_json(answer.content)


def _read(answer: Answer, name: str, absent: Absent) -> pl.DataFrame:
    if _is_arrow(answer):
        return wire.from_arrow(answer.content, name)
    return wire.decode(answer.content, name, absent=absent)


def _is_arrow(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return bool(kind == wire.ARROW_MIME)


def check_identity(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Refuse series of something that was not asked for; what a series does not say of itself is accepted."""
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
    named = asked.keys() & set(frame.columns)
    sent = frame.select(pl.col(column).unique().cast(pl.String).implode() for column in sorted(named))
    for column in named:
        for got in sent[column].item().drop_nulls():
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
    times = frame["timestamp"].unique().sort()
    starts = times.dt.epoch("ns")
    step = grid.seconds * SECOND
    common = min(step, DAY)
    phase = starts[0] % step if len(starts) and grid.seconds > Interval.DAY.seconds else 0
    strays = times.filter((starts % step != phase) | (starts % common != 0))
    if len(strays):
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
    frame = schema.conform(wire.concatenated(frames)).sort(
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
