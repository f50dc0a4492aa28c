"""A stream for plain code: a thread reads the connection into a queue, and the caller reads the queue.

The caller never waits for a socket. So any thread can stop the stream, and no server can block the caller, neither
while it connects nor with a header that never ends. The queue is a `queue.SimpleQueue`, because a signal handler or a
destructor may put into one, but may not take a lock.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import httpx

from tidytape.client._batches import StreamBatch
from tidytape.client._following import Following, Head, Open, Pause, StreamStep
from tidytape.client._steps import FAILURES, Failure, closed_error, outward
from tidytape.client._stream_base import StoppedError, StreamBase, abort, shut
from tidytape.errors import TidytapeError

FrameT = TypeVar("FrameT")

_AHEAD = 4
"""How many parts of a body the thread reads ahead of the caller."""
_INTERRUPT_POLL = 0.1
"""Longest wait during which Ctrl-C has no effect. [s]"""


class _Connection:
    """A response that a thread reads into a queue, part by part; the thread waits while the queue is full."""

    def __init__(self, http: httpx.Client, request: httpx.Request) -> None:
        self.parts: SimpleQueue[Head | bytes | BaseException] = SimpleQueue()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(_AHEAD):
            self._permits.put(None)
        self._response: httpx.Response | None = None
        self._socket: Any = None
        self._is_closed = False
        request.extensions["trace"] = self._connected
        run = contextvars.copy_context().run
        threading.Thread(
            target=run, args=(self._read, http, request), daemon=True, name="tidytape-stream"
        ).start()

    def _read(self, http: httpx.Client, request: httpx.Request) -> None:
        try:
            self._response = http.send(request, stream=True)
            try:
                if not self._goes_on():
                    return
                self.parts.put(Head(self._response.status_code, self._response.headers))
                is_read = self._response.is_stream_consumed
                for part in (self._response.content,) if is_read else self._response.iter_raw():
                    self._permits.get()
                    if not self._goes_on():
                        return
                    if part:
                        self.parts.put(part)
                self.parts.put(b"")
            finally:
                self._response.close()
        except BaseException as error:  # noqa: BLE001 - the reader of the parts raises it
            self.parts.put(error)

    def _connected(self, event: str, facts: dict[str, Any]) -> None:
        """Keep the socket as soon as it is connected, so that `close` can shut it before the answer begins."""
        if event in {"connection.connect_tcp.complete", "connection.connect_unix_socket.complete"}:
            self._socket = facts["return_value"].get_extra_info("socket")

    def _goes_on(self) -> bool:
        return not self._is_closed

    def permit_part(self) -> None:
        """Let the thread read one more part."""
        self._permits.put(None)

    def wake(self) -> None:
        """Wake the caller that waits for a part, so that it notices that the stream was stopped."""
        self.parts.put(b"")

    def close(self) -> None:
        """End the thread and close the socket, without blocking."""
        self._is_closed = True
        self._permits.put(None)
        if self._response is not None:
            abort(self._response)
        elif self._socket is not None:
            shut(self._socket)


class _Link:
    """The connection of a stream, and whether the stream was stopped. The stream's finalizer needs both."""

    def __init__(self) -> None:
        self.connection: _Connection | None = None
        self.is_stopped = False
        self.alarm: SimpleQueue[None] = SimpleQueue()
        self._process = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether this process made the connection, and not the process from which it was forked."""
        return os.getpid() == self._process

    def cut(self) -> None:
        """Close the connection if this process made it."""
        connection, self.connection = self.connection, None
        if connection is not None and self.is_own:
            connection.close()

    def stop(self) -> None:
        """End the stream, and wake the thread that waits for a part, without blocking and without a lock."""
        self.is_stopped = True
        self.alarm.put(None)
        connection = self.connection
        if connection is not None:
            connection.wake()
        self.cut()


class Stream(StreamBase[FrameT], Iterator[StreamBatch[FrameT]], Generic[FrameT]):
    """Batches of points as they come: what ``client.stream`` returns. It can be iterated once.

    If the connection is cut, the stream makes another one and goes on after the last complete batch. So nothing is lost
    and nothing comes twice. After Ctrl-C has ended a loop over it, another loop goes on.

    Attributes
    ----------
    query : StreamQuery
        What is streamed.
    token : str or None
        Resumes the stream after the last batch that was returned; None before the first batch.

    Examples
    --------
    >>> import tidytape
    >>> client = tidytape.Client("http://127.0.0.1:8000", "a-key")
    >>> with client.stream("TRADE_AGG", exchange="X", coin="BTC", interval="1m") as stream:
    ...     stream
    <Stream TRADE_AGG exchange=X coin=BTC interval=1m>
    """

    def __init__(
        self,
        following: Following,
        connect: Callable[[], httpx.Client],
        is_closed: Callable[[], bool],
    ) -> None:
        super().__init__(following)
        self._connect, self._is_client_closed = connect, is_closed
        self._link = _Link()
        self._turn = threading.Lock()
        self._finalizer = weakref.finalize(self, self._link.stop)

    def __iter__(self) -> Stream[FrameT]:
        """Return the stream."""
        return self

    def __next__(self) -> StreamBatch[FrameT]:
        """Wait for the next batch.

        Raises
        ------
        TidytapeError
            As for ``client.stream``.
        """
        failure = batch = None
        with self._turn:  # two threads may share a stream
            try:
                batch = self._run()
            except StoppedError:
                pass
            except TidytapeError as error:
                failure = error
        if failure is not None:
            raise outward(failure)
        if batch is None:
            raise StopIteration
        return batch

    def stop(self) -> None:
        """End the iteration, from any thread or signal handler, and close the connection. It does not block."""
        self._link.stop()

    def __enter__(self) -> Stream[FrameT]:
        """Return the stream."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Stop."""
        self.stop()

    # --- steps ---

    def _run(self) -> StreamBatch[FrameT] | None:
        if self._link.is_stopped:
            raise StoppedError
        if not self._link.is_own:  # after a fork the reading thread exists only in the parent process
            self._link = _Link()
            self._finalizer = weakref.finalize(self, self._link.stop)
            self._following.lost()
        steps, is_done = self._following.batch(), False
        try:
            step = next(steps)
            while True:
                step = steps.send(self._carry_out(step))
        except StopIteration as done:
            is_done = True
            batch: StreamBatch[FrameT] | None = done.value
            if self._following.is_over:
                self._link.cut()
            return batch
        except TidytapeError:
            self._following.is_over = True
            raise
        finally:
            steps.close()
            if not is_done:
                self._link.cut()
                self._following.lost()

    def _carry_out(self, step: StreamStep) -> Head | bytes | Failure | None:
        """Carry out one step: pause, or wait for the next part of the connection, which ``Open`` makes anew."""
        if isinstance(step, Pause):
            self._link.cut()
            self._wait(self._link.alarm, step.seconds)
            return None
        if self._is_client_closed():
            raise closed_error()
        if isinstance(step, Open):
            self._link.cut()
            self._link.connection = _Connection(self._connect(), step.request)
        connection = self._link.connection
        if self._link.is_stopped or connection is None:
            self._link.cut()
            raise StoppedError
        part: Head | bytes | BaseException = self._wait(connection.parts, step.seconds)
        if isinstance(part, bytes):
            connection.permit_part()
        if isinstance(part, BaseException) and not isinstance(part, FAILURES):
            # httpx raises RuntimeError if its client is closed before it sends the request.
            if isinstance(part, RuntimeError) and self._is_client_closed():
                raise closed_error()
            raise part
        return part

    def _wait(self, queue: SimpleQueue[Any], seconds: float) -> Any:
        """Return the next part from a queue, or a TimeoutError if none comes within ``seconds``."""
        until = time.monotonic() + seconds
        while True:
            try:
                part = queue.get(timeout=max(0.0, min(_INTERRUPT_POLL, until - time.monotonic())))
            except Empty:
                part = TimeoutError()
            if self._link.is_stopped:
                raise StoppedError
            if not isinstance(part, TimeoutError) or time.monotonic() >= until:
                return part
