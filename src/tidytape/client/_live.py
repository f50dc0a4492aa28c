"""A live frame: a thread follows a stream, and its batches are merged into one frame per data type."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import polars as pl

from tidytape.client._answers import in_order
from tidytape.client._batches import Present, StreamBatch
from tidytape.client._stream_base import StreamBase
from tidytape.errors import QueryError, TidytapeError
from tidytape.query import StreamQuery
from tidytape.query._values import milliseconds, whole_number
from tidytape.schema import TPO_SESSIONS, Schema, data_type
from tidytape.times import MILLISECOND
from tidytape.wire._tidy import concatenated

FrameT = TypeVar("FrameT")

Drive = Callable[[Any, Callable[[StreamBatch[pl.DataFrame]], None]], None]
"""A function that follows a stream to its end in this thread, and passes each batch to a function."""

_FRAMES, _ROWS = 64, 10_000
"""The thread merges new frames when there are this many frames or rows, or when a reader asks for the frame."""
_INTERRUPT_POLL = 0.2
"""Longest wait during which Ctrl-C has no effect. [s]"""


class Keep:
    """How much of a live frame to keep.

    Parameters
    ----------
    keep : str, timedelta or int
        A time before the newest point, as ``"1d"``; or a number of rows.

    Examples
    --------
    >>> frame = pl.DataFrame({"timestamp": [0, 60, 60, 120]}).cast(pl.Datetime("ns", "UTC"))
    >>> [Keep(rows).of(frame).height for rows in (1, 2, 3, 9)]
    [1, 1, 3, 4]
    """

    def __init__(self, keep: object) -> None:
        self._rows: int | None = None
        self._length = 0
        try:
            if isinstance(keep, int) and not isinstance(keep, bool):
                self._rows = whole_number(keep, "keep", low=1)
            else:
                self._length = milliseconds(keep, "keep") * MILLISECOND
        except QueryError:
            expected = "a time such as '1d', in ms, s, m, h or d, a timedelta, or a number of rows"
            raise QueryError("keep", got=keep, expected=expected) from None

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows to keep: all rows of a time or none, and always the rows of the newest time."""
        if frame.is_empty():
            return frame
        times = frame["timestamp"].to_physical()
        newest: int = times.max()  # type: ignore[assignment]  # of integers
        after = newest - self._length
        if self._rows is not None:
            if frame.height <= self._rows:
                return frame
            # Drop the time of the newest row that is too much, because its rows do not all fit.
            after = min(int(times.top_k(self._rows + 1).min()), newest - 1)  # type: ignore[arg-type]
        return frame.filter(times > after)


class _Rolling:
    """The newest value of each recent point of one data type."""

    def __init__(self, name: str, schema: Schema, *, grouped: bool, keep: Keep) -> None:
        self._key_columns = list(schema.key_of(grouped=grouped))
        # A new point replaces all levels of the old point. Both sides of a book are one point.
        level_columns: set[str] = set()
        if "price" in self._key_columns:
            level_columns = {"price"} if data_type(name).per_side else {"price", "side"}
        self._point_columns = [column for column in self._key_columns if column not in level_columns]
        self._keep = keep
        self._frame = schema.empty()
        self._pending: list[pl.DataFrame] = []
        self._rows = 0

    def add(self, frame: pl.DataFrame) -> None:
        self._pending.append(frame)
        self._rows += frame.height
        if len(self._pending) >= _FRAMES or self._rows > max(_ROWS, self._frame.height // 4):
            self.merged()

    def drop_from(self, start: datetime) -> None:
        """Remove the points from a time on, because they come again."""
        self._frame = self.merged().filter(pl.col("timestamp") < start)

    def merged(self) -> pl.DataFrame:
        """Return the frame, its rows in the order of a fetched frame."""
        if self._pending:
            parts = [self._frame, *self._pending]  # a later part has the newer value of a point
            number = pl.concat(
                [
                    pl.repeat(number, part.height, dtype=pl.UInt32, eager=True)
                    for number, part in enumerate(parts)
                ]
            )
            frame = concatenated(parts).with_columns(number.alias(_PART_COLUMN))
            newest = frame.filter(
                pl.col(_PART_COLUMN) == pl.col(_PART_COLUMN).max().over(self._point_columns)
            )
            recent = self._keep.of(newest.drop(_PART_COLUMN))
            self._frame = in_order(recent, self._key_columns)
            self._pending, self._rows = [], 0
        return self._frame


_PART_COLUMN = "\x00part"


class _State:
    """The state that the thread of a live frame and its readers share."""

    def __init__(self, frames: Mapping[str, _Rolling]) -> None:
        self.changed = threading.Condition()
        self.frames = frames
        self.batches = 0
        self.over: dict[str, datetime] = {}
        self.gaps: list[tuple[datetime | None, datetime]] = []
        self.error: BaseException | None = None
        self.is_running = True

    def take(self, batch: StreamBatch[pl.DataFrame]) -> None:
        """Add the changes of a batch, and wake the readers."""
        with self.changed:
            if batch.gap is not None:
                self.gaps.append(batch.gap)
                for rolling in self.frames.values():
                    rolling.drop_from(batch.gap[1])
            for name, changes in batch.changes.items():
                for frame in (changes.revisions, changes.finals, changes.updates):
                    if frame.height:
                        self.frames[name].add(frame)
                if changes.over is not None:
                    self.over[name] = changes.over
            self.batches += 1
            self.changed.notify_all()

    def follow(self, stream: Any, drive: Drive) -> None:
        """Follow a stream to its end, in the thread of the live frame."""
        try:
            drive(stream, self.take)
        except BaseException as error:  # noqa: BLE001 - `Live.wait` raises it
            self.error = error
        finally:
            with self.changed:
                self.is_running = False
                self.changed.notify_all()


class Live(Generic[FrameT]):
    """A frame that grows: what ``client.live`` returns. A thread in the background follows the stream.

    It has the newest value of each point: the final point replaces its updates, and a revision replaces the final
    point.

    Attributes
    ----------
    query : StreamQuery
        The query of the stream.
    frame : frame
        The points that are kept, sorted as in a fetch. If the stream has several data types, use ``frames``.
    frames : dict of str to frame
        The points that are kept of each data type.
    over : dict of str to datetime
        By data type the start of the last interval that is over. [UTC]
    gaps : tuple of (datetime or None, datetime)
        Times between which revisions may be missing, as in `StreamBatch`. [UTC]
    batches : int
        How many batches have come.
    error : TidytapeError or None
        The error that ended the stream; None if there was none.
    is_running : bool
        Whether the stream goes on.

    Examples
    --------
    >>> import tidytape
    >>> with tidytape.Client.demo() as client:
    ...     live = client.live(
    ...         "TRADE_SIDE_AGNOSTIC_AGG", exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1m",
    ...         start="2024-08-08T00:00Z", end="2024-08-08T01:00Z", keep="30m",
    ...     )
    ...     with live:
    ...         live.wait(lambda: not live.is_running)
    ...     live.frame.height
    True
    30
    """

    def __init__(
        self,
        stream: StreamBase[Any],
        drive: Drive,
        schemas: Mapping[str, Schema],
        keep: Keep,
        present: Present,
    ) -> None:
        self._stream, self._schemas, self._present = stream, schemas, present
        grouped = stream.query.group_by is not None
        rolling = {
            name: _Rolling(name, schema, grouped=grouped, keep=keep) for name, schema in schemas.items()
        }
        state = self._state = _State(rolling)
        self._finalizer = weakref.finalize(self, stream.stop)
        # The thread has no reference to this object, so it can end when the object is no longer used.
        self._thread = threading.Thread(
            target=state.follow, args=(stream, drive), daemon=True, name="tidytape-live"
        )
        self._thread.start()

    @property
    def query(self) -> StreamQuery:
        """The query of the stream."""
        return self._stream.query

    @property
    def frames(self) -> dict[str, FrameT]:
        """The points that are kept of each data type, sorted as in a fetch."""
        return {name: self._present(frame, self._schemas[name]) for name, frame in self._merged().items()}

    @property
    def frame(self) -> FrameT:
        """The points that are kept, sorted as in a fetch.

        Raises
        ------
        QueryError
            If the stream has several data types.
        """
        names = [name for name in self._schemas if name != TPO_SESSIONS.name]
        if len(names) > 1:
            expected = "one; live.frames has the frame of each"
            raise QueryError("data_type", got=f"a stream of {len(names)} data types", expected=expected)
        return self.frames[names[0]]

    @property
    def over(self) -> dict[str, datetime]:
        """By data type the start of the last interval that is over. [UTC]"""
        return dict(self._state.over)

    @property
    def gaps(self) -> tuple[tuple[datetime | None, datetime], ...]:
        """Times between which revisions may be missing. [UTC]"""
        return tuple(self._state.gaps)

    @property
    def batches(self) -> int:
        """How many batches have come."""
        return self._state.batches

    @property
    def error(self) -> BaseException | None:
        """The error that ended the stream; None if there was none."""
        return self._state.error

    @property
    def is_running(self) -> bool:
        """Whether the stream goes on."""
        return self._state.is_running

    def wait(self, until: Callable[[], bool] | None = None, *, timeout: float | None = None) -> bool:
        """Wait for the next batch, or until a condition is true.

        Parameters
        ----------
        until : callable, optional
            Returns whether the condition is true; called after each batch. By default any batch ends the wait.
        timeout : float, optional
            Longest time to wait; by default there is no limit. [s]

        Returns
        -------
        bool
            True if the batch came or the condition is true; False if the time was up or the stream ended first.

        Raises
        ------
        TidytapeError
            If the stream failed.
        """
        state = self._state
        batches_before = state.batches
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            is_running = state.is_running  # read first: the last batch may come before the condition is asked
            is_reached = bool(until()) if until is not None else state.batches > batches_before
            remaining = (
                _INTERRUPT_POLL if deadline is None else min(_INTERRUPT_POLL, deadline - time.monotonic())
            )
            if state.error is not None:
                raise state.error
            if is_reached or not is_running or remaining <= 0:
                return is_reached
            with state.changed:
                if state.batches == batches_before or until is not None:
                    state.changed.wait(remaining)

    def stop(self) -> None:
        """End the stream, from any thread or signal handler, without blocking. The frames stay."""
        self._stream.stop()

    def __enter__(self) -> Live[FrameT]:
        """Return the live frame."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        """Stop; raise the error that ended the stream, unless the block has raised an error itself."""
        self.stop()
        self._thread.join(1.0)
        if kind is None and isinstance(self.error, TidytapeError):
            raise self.error

    def __repr__(self) -> str:
        """Return the query, and whether the stream goes on."""
        state = "running" if self.is_running else "ended" if self.error is None else f"failed: {self.error}"
        rows = sum(frame.height for frame in self._merged().values())
        return f"<Live {repr(self._stream).split(' ', 1)[1][:-1]}: {rows:,} rows, {state}>"

    def _merged(self) -> dict[str, pl.DataFrame]:
        """Return the frame of each data type, merged while the thread may add nothing."""
        with self._state.changed:
            return {name: rolling.merged() for name, rolling in self._state.frames.items()}
