"""A stream that is followed in the background, and the frame that its batches make together."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import polars as pl

from tidytape.client._batches import Present, StreamBatch
from tidytape.client._stream_base import StreamBase
from tidytape.errors import QueryError, TidytapeError
from tidytape.query import StreamQuery
from tidytape.query._values import milliseconds, whole_number
from tidytape.schema import Schema, data_type
from tidytape.times import MILLISECOND
from tidytape.wire._tidy import concatenated

FrameT = TypeVar("FrameT")

Drive = Callable[[Any, Callable[[StreamBatch[pl.DataFrame]], None]], None]
"""Follows a stream to its end in this thread, and gives each batch to a function."""

_FRAMES, _ROWS = 64, 10_000
"""So many frames or rows wait to be merged, unless someone looks: a small frame takes memory too."""
_HEEDFUL = 0.2
"""How long to wait at a stretch: a longer wait may not hear of an interrupt. [s]"""


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
        """Return the rows to keep: whole times, of the newest one all."""
        if frame.is_empty():
            return frame
        times = frame["timestamp"].to_physical()
        newest: int = times.max()  # type: ignore[assignment]  # of integers
        after = newest - self._length
        if self._rows is not None:
            if frame.height <= self._rows:
                return frame
            after = min(int(times.top_k(self._rows + 1).min()), newest - 1)  # type: ignore[arg-type]
        return frame.filter(times > after)


class _Rolling:
    """The newest value of each point of one data type, as far back as is kept."""

    def __init__(self, name: str, schema: Schema, *, grouped: bool, keep: Keep) -> None:
        self._sorting = list(schema.key_of(grouped=grouped))
        # A point with levels is replaced as a whole; the sides of a book belong to one point.
        has_levels, has_sides = "price" in self._sorting, data_type(name).per_side
        inside = {"price", *(() if has_sides else ("side",))} if has_levels else set()
        self._point = [column for column in self._sorting if column not in inside]
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
        """Forget the points from a time on: they come again."""
        self._frame = self.merged().filter(pl.col("timestamp") < start)

    def merged(self) -> pl.DataFrame:
        """Return the frame, its rows sorted by the key."""
        if self._pending:
            parts = [self._frame, *self._pending]
            number = pl.concat(
                [
                    pl.repeat(number, part.height, dtype=pl.UInt32, eager=True)
                    for number, part in enumerate(parts)
                ]
            )
            frame = concatenated(parts).with_columns(number.alias(_NUMBER))
            newest = frame.filter(pl.col(_NUMBER) == pl.col(_NUMBER).max().over(self._point))
            kept = self._keep.of(newest.drop(_NUMBER))
            self._frame = kept.sort(self._sorting, maintain_order=True)
            self._pending, self._rows = [], 0
        return self._frame


_NUMBER = "\x00number"


class _State:
    """What the thread of a live frame and its readers share."""

    def __init__(self, frames: Mapping[str, _Rolling]) -> None:
        self.changed = threading.Condition()
        self.frames = frames
        self.batches = 0
        self.over: dict[str, datetime] = {}
        self.gaps: list[tuple[datetime | None, datetime]] = []
        self.error: BaseException | None = None
        self.is_running = True

    def take(self, batch: StreamBatch[pl.DataFrame]) -> None:
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
        try:
            drive(stream, self.take)
        except BaseException as error:  # noqa: BLE001 - it is raised where the frame is waited for
            self.error = error
        finally:
            with self.changed:
                self.is_running = False
                self.changed.notify_all()


class Live(Generic[FrameT]):
    """A frame that grows: what ``client.live`` returns. A thread in the background follows the stream.

    Of each point it has the newest value: an update is replaced by the final point, and that by a revision.

    Attributes
    ----------
    query : StreamQuery
        What is streamed.
    frame : frame
        The points that are kept, sorted as of a fetch; of a stream of several data types ask ``frames``.
    frames : dict of str to frame
        The same of each data type.
    over : dict of str to datetime
        By data type the start of the last interval that is over. [UTC]
    gaps : tuple of (datetime or None, datetime)
        Times in which revisions may be missing, as of `StreamBatch`. [UTC]
    batches : int
        How many batches came.
    error : TidytapeError or None
        What ended the stream, if that was an error.
    is_running : bool
        Whether more may come.

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
        # The thread knows nothing of this object, so that it ends when nobody holds it any more.
        self._thread = threading.Thread(
            target=state.follow, args=(stream, drive), daemon=True, name="tidytape-live"
        )
        self._thread.start()

    @property
    def query(self) -> StreamQuery:
        """What is streamed."""
        return self._stream.query

    @property
    def frames(self) -> dict[str, FrameT]:
        """The points of each data type that are kept, sorted as of a fetch."""
        with self._state.changed:
            merged = {name: rolling.merged() for name, rolling in self._state.frames.items()}
        return {name: self._present(frame, self._schemas[name]) for name, frame in merged.items()}

    @property
    def frame(self) -> FrameT:
        """The points that are kept, sorted as of a fetch.

        Raises
        ------
        QueryError
            If the stream is of several data types.
        """
        if len(self._schemas) > 1:
            expected = "one; live.frames has the frame of each"
            raise QueryError(
                "data_type", got=f"a stream of {len(self._schemas)} data types", expected=expected
            )
        return next(iter(self.frames.values()))

    @property
    def over(self) -> dict[str, datetime]:
        """By data type the start of the last interval that is over. [UTC]"""
        return dict(self._state.over)

    @property
    def gaps(self) -> tuple[tuple[datetime | None, datetime], ...]:
        """Times in which revisions may be missing. [UTC]"""
        return tuple(self._state.gaps)

    @property
    def batches(self) -> int:
        """How many batches came."""
        return self._state.batches

    @property
    def error(self) -> BaseException | None:
        """What ended the stream, if that was an error."""
        return self._state.error

    @property
    def is_running(self) -> bool:
        """Whether more may come."""
        return self._state.is_running

    def wait(self, until: Callable[[], bool] | None = None, *, timeout: float | None = None) -> bool:
        """Wait for the next batch, or until something is so.

        Parameters
        ----------
        until : callable, optional
            Is asked after each batch; the next batch will do if left out.
        timeout : float, optional
            Longest time to wait; without end if left out. [s]

        Returns
        -------
        bool
            Whether it is so; False where the time is up, or the stream ended before.

        Raises
        ------
        TidytapeError
            If the stream failed.
        """
        state = self._state
        before = state.batches
        last = None if timeout is None else time.monotonic() + timeout
        while True:
            is_running = state.is_running  # before it looks, since the last batch may come meanwhile
            is_so = bool(until()) if until is not None else state.batches > before
            left = _HEEDFUL if last is None else min(_HEEDFUL, last - time.monotonic())
            if state.error is not None:
                raise state.error
            if is_so or not is_running or left <= 0:
                return is_so
            with state.changed:
                if state.batches == before or until is not None:
                    state.changed.wait(left)

    def stop(self) -> None:
        """End the stream, from any thread or signal handler. It does not block; what was received stays."""
        self._stream.stop()

    def __enter__(self) -> Live[FrameT]:
        """Return it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        """Stop; raise what ended the stream, unless something else was raised."""
        self.stop()
        self._thread.join(1.0)
        if kind is None and isinstance(self.error, TidytapeError):
            raise self.error

    def __repr__(self) -> str:
        """Return what is streamed, and how it goes."""
        how = "running" if self.is_running else "ended" if self.error is None else f"failed: {self.error}"
        rows = sum(rolling.merged().height for rolling in self._locked())
        return f"<Live {repr(self._stream).split(' ', 1)[1][:-1]}: {rows:,} rows, {how}>"

    def _locked(self) -> list[_Rolling]:
        with self._state.changed:
            for rolling in self._state.frames.values():
                rolling.merged()
            return list(self._state.frames.values())
