"""Responses of an ASGI app in this process that are read while the app writes them: those of streams.

The transport of httpx for apps gives a response when it is whole, which a stream never is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream

from tidytape.client._stream_base import ABORT

if TYPE_CHECKING:
    from starlette.types import ASGIApp


_AHEAD = 4
"""How many parts of a body the app writes before they are read."""


def is_stream(request: httpx.Request) -> bool:
    """Return whether the answer to a request has no end."""
    return request.url.path.endswith("/v1/stream")


async def streamed(app: ASGIApp, request: httpx.Request) -> httpx.Response:
    """Return the answer of an app once it has begun; its body is read as the app writes it.

    To close the response, or to call its extension `ABORT` from any thread, ends the app's part of it.
    """
    loop = asyncio.get_running_loop()
    head: asyncio.Future[dict[str, Any]] = loop.create_future()
    written, parts = anyio.create_memory_object_stream[bytes](_AHEAD)

    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()  # for ever: whoever goes away cancels the task
        return messages.pop()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            head.set_result(message)
        elif body := message.get("body"):
            await written.send(body)

    async def run() -> None:
        async with written:
            with contextlib.suppress(Exception):  # what is left of the answer is missing, as over a network
                await app(_scope(request), receive, send)
        if not head.done():
            head.set_result({"status": httpx.codes.INTERNAL_SERVER_ERROR, "headers": []})

    task = loop.create_task(run())
    try:
        start = await asyncio.shield(head)
    except BaseException:
        task.cancel()
        raise
    return httpx.Response(
        start["status"],
        headers=start["headers"],
        stream=_Body(task, parts),
        extensions={ABORT: lambda: _cancel(loop, task)},
    )


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.suppress(RuntimeError):  # a loop that is closed runs nothing any more
        loop.call_soon_threadsafe(task.cancel)


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 123),
        "root_path": "",
    }


class _Body(httpx.AsyncByteStream):
    """The parts of a body, from the task of the app that writes them."""

    def __init__(self, task: asyncio.Task[None], parts: MemoryObjectReceiveStream[bytes]) -> None:
        self._task, self._parts = task, parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        self._task.cancel()
        self._parts.close()


class Blocking(httpx.SyncByteStream):
    """The body of a response of another thread's loop, for blocking code."""

    def __init__(
        self, response: httpx.Response, loop: asyncio.AbstractEventLoop, done: Callable[[], None]
    ) -> None:
        self._response, self._loop, self._done = response, loop, done

    def __iter__(self) -> Iterator[bytes]:
        """Wait for each part."""
        parts = self._response.aiter_raw()

        async def following() -> bytes | None:
            return await anext(parts, None)

        while part := asyncio.run_coroutine_threadsafe(following(), self._loop).result():
            yield part

    def close(self) -> None:
        """End the app's part of it."""
        self._response.extensions[ABORT]()
        self._done()
