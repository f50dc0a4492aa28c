"""A stream for asyncio: a task reads the connection, and `stop` cancels that task."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, TypeVar

import httpx

from tidytape.client._batches import StreamBatch
from tidytape.client._following import Following, Head, Open, Pause, StreamStep
from tidytape.client._steps import FAILURES, Failure, closed_error, outward
from tidytape.client._stream_base import StoppedError, StreamBase, abort
from tidytape.errors import TidytapeError

FrameT = TypeVar("FrameT")
R = TypeVar("R")


class _Link:
    """The connection of a stream, and whether the stream was stopped. The stream's finalizer needs both."""

    def __init__(self) -> None:
        self.response: httpx.Response | None = None
        self.parts: AsyncIterator[bytes] | None = None
        self.is_stopped = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[Any] | None = None

    async def open(self, http: httpx.AsyncClient, request: httpx.Request) -> Head:
        """Send a request, and return the head of its answer."""
        self.response = await http.send(request, stream=True)
        is_read = self.response.is_stream_consumed
        self.parts = _single(self.response.content) if is_read else self.response.aiter_raw()
        return Head(self.response.status_code, self.response.headers)

    async def read(self) -> bytes:
        """Return the next part of the body; no bytes at its end."""
        assert self.parts is not None
        async for part in self.parts:
            if part:
                return part
        return b""

    async def cut(self) -> None:
        """Close the connection."""
        response, self.response, self.parts = self.response, None, None
        if response is not None:
            await response.aclose()

    def stop(self) -> None:
        """End the stream, and cancel the task that waits for a part, without blocking and without a lock."""
        self.is_stopped = True
        loop = self.loop
        if loop is None or loop.is_closed():
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
        elif self.response is not None:  # without a task that waits, nothing else closes the connection
            assert self.loop is not None
            abort(self.response)
            closing = self.loop.create_task(self.cut())
            _closing_tasks.add(closing)
            closing.add_done_callback(_closing_tasks.discard)


async def _single(part: bytes) -> AsyncIterator[bytes]:
    yield part


_closing_tasks: set[asyncio.Task[None]] = set()
"""Tasks that close connections. A loop has only weak references to its tasks, so keep them here until they end."""


class AsyncStream(StreamBase[FrameT], AsyncIterator[StreamBatch[FrameT]], Generic[FrameT]):
    """Batches of points as they come: what ``client.stream`` of an ``AsyncClient`` returns. It can be iterated once.

    If the connection is cut, the stream makes another one and goes on after the last complete batch. So nothing is lost
    and nothing comes twice. After a loop over it was cancelled, another loop goes on.

    Attributes
    ----------
    query : StreamQuery
        The query of the stream.
    token : str or None
        Resumes the stream after the last batch that was returned; None before the first batch.

    Examples
    --------
    >>> import tidytape
    >>> client = tidytape.AsyncClient("http://127.0.0.1:8000", "a-key")
    >>> client.stream("TRADE_AGG", exchange="X", coin="BTC", interval="1m")
    <AsyncStream TRADE_AGG exchange=X coin=BTC interval=1m>
    """

    def __init__(
        self,
        following: Following,
        connect: Callable[[], httpx.AsyncClient],
        is_closed: Callable[[], bool],
    ) -> None:
        super().__init__(following)
        self._connect, self._is_client_closed = connect, is_closed
        self._link = _Link()
        self._finalizer = weakref.finalize(self, self._link.stop)

    def __aiter__(self) -> AsyncStream[FrameT]:
        """Return the stream."""
        return self

    async def __anext__(self) -> StreamBatch[FrameT]:
        """Wait for the next batch.

        Raises
        ------
        TidytapeError
            As for ``client.stream``.
        """
        failure = batch = None
        try:
            batch = await self._run()
        except StoppedError:
            pass
        except TidytapeError as error:
            failure = error
        if failure is not None:
            raise outward(failure)
        if batch is None:
            raise StopAsyncIteration
        return batch

    def stop(self) -> None:
        """End the iteration, from any thread, task or signal handler, and close the connection. It does not block."""
        self._link.stop()

    async def aclose(self) -> None:
        """Stop, and wait until the connection is closed."""
        self.stop()
        if self._link.task is None:
            await self._link.cut()

    async def __aenter__(self) -> AsyncStream[FrameT]:
        """Return the stream."""
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Stop."""
        await self.aclose()

    # --- steps ---

    async def _run(self) -> StreamBatch[FrameT] | None:
        if self._link.is_stopped:
            raise StoppedError
        steps, is_done = self._following.batch(), False
        self._link.loop = asyncio.get_running_loop()
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._carry_out(step))
        except StopIteration as done:
            is_done = True
            batch: StreamBatch[FrameT] | None = done.value
            if self._following.is_over:
                await self._link.cut()
            return batch
        except TidytapeError:
            self._following.is_over = True
            raise
        finally:
            steps.close()
            if not is_done:
                self._following.lost()
                await self._link.cut()

    async def _carry_out(self, step: StreamStep) -> Head | bytes | Failure | None:
        """Carry out one step: pause, or open a connection, or read its next part."""
        if isinstance(step, Pause):
            await self._link.cut()
            await self._stoppable(asyncio.sleep(step.seconds))
            return None
        if self._is_client_closed():
            raise closed_error()
        if isinstance(step, Open):
            await self._link.cut()
        try:
            async with asyncio.timeout(step.seconds):
                if isinstance(step, Open):
                    return await self._stoppable(self._link.open(self._connect(), step.request))
                return await self._stoppable(self._link.read())
        except FAILURES as failure:
            return failure
        except RuntimeError:  # httpx raises it if its client is closed
            if self._is_client_closed():
                raise closed_error() from None
            raise

    async def _stoppable(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in a task, which `stop` cancels."""
        link = self._link
        assert link.loop is not None
        link.task = task = link.loop.create_task(work)
        try:
            if link.is_stopped:  # `stop` came before there was a task to cancel
                task.cancel()
            return await task
        except asyncio.CancelledError:
            if link.is_stopped:
                raise StoppedError from None
            raise
        finally:
            link.task = None
