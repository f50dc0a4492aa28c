"""Decode the lines of a stream into tidy frames, in the schemas of a fetch of the same query. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import polars as pl

from tidytape.catalogue import Change
from tidytape.client._answers import (
    check_grid,
    check_identity,
    check_window,
    described,
    is_clashing,
    joined,
    with_levels_in_order,
    within,
)
from tidytape.errors import DecodeError, QueryError
from tidytape.query import StreamQuery
from tidytape.query._values import LAST_SECOND
from tidytape.query._values import token as read_token
from tidytape.schema import TPO_SESSIONS, Schema, data_type, schema_of
from tidytape.wire import levels_of, sessions_of
from tidytape.wire._stream import Batch, decode_batch
from tidytape.wire._tidy import OF_SERIES, concatenated

if TYPE_CHECKING:
    from tidytape.wire._decode import Absent


FrameT = TypeVar("FrameT")

Present = Callable[[pl.DataFrame, Schema], Any]
"""A function that returns a frame as the client's kind of frame."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_time(nanoseconds: int) -> datetime:
    """Return a time in UTC, in whole microseconds, from nanoseconds since the epoch.

    Examples
    --------
    >>> utc_time(60_000_000_000)
    datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.timezone.utc)
    """
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


class Changes(Generic[FrameT]):
    """The changes of one data type in a batch of a stream. Each frame has the columns and dtypes of a fetch.

    Attributes
    ----------
    over : datetime or None
        Start of the last interval that this batch declares over; None if it declares none. For that interval and
        earlier ones, later batches have only revisions. [UTC]
    """

    __slots__ = ("_parts", "_present", "_schema", "over")

    def __init__(
        self,
        parts: Mapping[Change, pl.DataFrame],
        schema: Schema,
        over: datetime | None,
        present: Present,
    ) -> None:
        self._parts, self._schema, self._present = parts, schema, present
        self.over = over

    @property
    def frame(self) -> FrameT:
        """All points: first revisions, then those that became final, then those in progress."""
        return self._of(*Change)

    @property
    def revisions(self) -> FrameT:
        """Points that have changed after they were final or their interval was over; raw trades that came late."""
        return self._of(Change.REVISION)

    @property
    def finals(self) -> FrameT:
        """Points that became final."""
        return self._of(Change.FINAL)

    @property
    def updates(self) -> FrameT:
        """Points whose interval is in progress."""
        return self._of(Change.UPDATE)

    def _of(self, *changes: Change) -> FrameT:
        frames = [self._parts[change] for change in changes if change in self._parts]
        frame = concatenated(frames) if frames else self._schema.empty()
        shown: FrameT = self._present(frame, self._schema)
        return shown

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each change that has rows."""
        return {change.value: self._parts[change].height for change in Change if change in self._parts}


@dataclass(frozen=True, slots=True, repr=False)
class StreamBatch(Generic[FrameT]):
    """A batch of a stream: all changes up to its token since the batch before.

    If the stream has one data type, ``frame``, ``finals``, ``updates``, ``revisions`` and ``over`` are those of its
    `Changes`; if it has several, ``of(data_type)`` returns the `Changes` of each. Market profiles are levels;
    ``of("TPO_SESSIONS")`` returns the changes of their sessions.

    Attributes
    ----------
    changes : mapping of str to Changes
        The changes by data type, in the order of the query.
    token : str
        Resumes the stream after this batch: ``client.stream(..., token=token)``.
    gap : (datetime or None, datetime) or None
        Only in the first batch after the stream had to start anew; else None. Revisions between the two times may be
        missing; if the first time is None, from the beginning of the stream on. All points from the second time on come
        again, so drop those that you have. [UTC]
    """

    changes: Mapping[str, Changes[FrameT]]
    token: str
    gap: tuple[datetime | None, datetime] | None = None

    def of(self, data_type: str) -> Changes[FrameT]:
        """Return the changes of one data type.

        Raises
        ------
        QueryError
            If the stream does not have this data type.
        """
        name = data_type.upper()
        if name not in self.changes:
            raise QueryError("data_type", got=data_type, expected="one of " + ", ".join(self.changes))
        return self.changes[name]

    @property
    def frames(self) -> dict[str, FrameT]:
        """All points of each data type."""
        return {name: changes.frame for name, changes in self.changes.items()}

    @property
    def frame(self) -> FrameT:
        """All points: first revisions, then those that became final, then those in progress."""
        return self._only.frame

    @property
    def revisions(self) -> FrameT:
        """Points that have changed after they were final or their interval was over; raw trades that came late."""
        return self._only.revisions

    @property
    def finals(self) -> FrameT:
        """Points that became final."""
        return self._only.finals

    @property
    def updates(self) -> FrameT:
        """Points whose interval is in progress."""
        return self._only.updates

    @property
    def over(self) -> datetime | None:
        """Start of the last interval that this batch declares over; None if it declares none. [UTC]"""
        return self._only.over

    @property
    def _only(self) -> Changes[FrameT]:
        changes = [changes for name, changes in self.changes.items() if name != TPO_SESSIONS.name]
        if len(changes) > 1:
            raise QueryError(
                "data_type",
                got=f"a stream of {len(changes)} data types",
                expected="one; batch.of(data_type) has the frames of each, and batch.frames all of them",
            )
        return changes[0]

    @property
    def has_news(self) -> bool:
        """Whether the batch has changes or a gap. A batch without both only shows that the service is alive."""
        return self.gap is not None or any(
            changes.counts or changes.over for changes in self.changes.values()
        )

    def __repr__(self) -> str:
        """Return the number of rows of each type and change, and the intervals that are over."""
        parts = []
        for name, changes in self.changes.items():
            counts = ", ".join(f"{rows:,} {change}" for change, rows in changes.counts.items()) or "no rows"
            over = "" if changes.over is None else f", over {changes.over:%Y-%m-%d %H:%M:%S}"
            parts.append(f"{name}: {counts}{over}")
        gap = "" if self.gap is None else f"; started anew at {self.gap[1]:%Y-%m-%d %H:%M:%S}"
        return f"<StreamBatch {'; '.join(parts)}{gap}>"


class Reading:
    """Reads the lines of one stream.

    Parameters
    ----------
    query : StreamQuery
    absent : {"null", "zero"}
        As in `tidytape.wire.decode`.
    present : callable
        Returns a frame as the client's kind of frame.
    """

    def __init__(self, query: StreamQuery, absent: Absent, present: Present) -> None:
        self._absent, self._present = absent, present
        # `model_copy` does not check the new times: a stream may be longer than one request may be.
        window = query.window(0, 1)[0].model_copy(
            update={"start": query.start or 0, "end": query.end or LAST_SECOND}
        )
        self._queries = {name: window.model_copy(update={"type": (name,)}) for name in query.type}
        grouped = query.group_by is not None
        self.schemas = {name: schema_of(name, grouped=grouped) for name in query.type}
        if any(data_type(name).has_sessions for name in query.type):
            self.schemas[TPO_SESSIONS.name] = TPO_SESSIONS.with_coverage() if grouped else TPO_SESSIONS

    def read(self, line: bytes) -> Batch:
        """Decode one line of the stream.

        Raises
        ------
        DecodeError
            If the line breaks the contract, or has series or times that the query does not ask for.
        """
        if line.lstrip().startswith(b"<"):
            raise DecodeError(
                "/v1/stream: answered with a page, expected lines of JSON; is the address of the service right?"
            )
        batch = decode_batch(line, self._queries, absent=self._absent)
        try:
            read_token(batch.token, "token")
            for start in batch.over.values():
                utc_time(start)  # refuses a time that no datetime can hold
        except (QueryError, OverflowError) as error:
            raise DecodeError(f"/v1/stream: {error}") from None
        frames = {
            (name, change): self._checked(frame, name, change)
            for (name, change), frame in batch.frames.items()
        }
        return Batch(frames, batch.over, batch.token, batch.end)

    def _checked(self, frame: pl.DataFrame, name: str, change: Change) -> pl.DataFrame:
        query = self._queries[name]
        check_identity(frame, query, name)
        check_grid(frame, query, name)
        check_window(frame, query, name)
        frame = with_levels_in_order(frame, name)
        frame = within(frame, query.start, query.end).drop(OF_SERIES, strict=False)
        if is_clashing(frame, query):
            raise DecodeError(
                f"{name}: a point came twice in one batch, with different values", data_type=name
            )
        frame = joined([described(frame, query, answered_at=None)], query)
        if "is_final" in frame.columns and change is not Change.REVISION:
            frame = frame.with_columns(pl.lit(change is Change.FINAL).alias("is_final"))
        return frame

    def presented(self, batch: Batch, gap: tuple[datetime | None, datetime] | None) -> StreamBatch[Any]:
        """Return a batch with frames of the client's kind."""
        parts: dict[str, dict[Change, pl.DataFrame]] = {name: {} for name in self.schemas}
        times = {name: utc_time(start) for name, start in batch.over.items()}
        for (name, change), frame in batch.frames.items():
            if not frame.height:
                continue
            if data_type(name).has_sessions:
                parts[TPO_SESSIONS.name][change] = sessions_of(frame)
                parts[name][change] = levels_of(frame, name)
            else:
                parts[name][change] = frame
        for name in batch.over:
            if data_type(name).has_sessions:
                times[TPO_SESSIONS.name] = times[name]
        changes = {
            name: Changes[Any](parts[name], schema, times.get(name), self._present)
            for name, schema in self.schemas.items()
        }
        return StreamBatch(changes, batch.token, gap)
