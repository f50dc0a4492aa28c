"""The service in this process: transports that carry requests to its app through memory instead of a network.

This is the only module of the client that imports the service and the demo, and only for a local client. So a client of
another service does not load the code of a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream

from tidytape._forks import refuse_fork
from tidytape.budget import Tier, weight
from tidytape.catalogue import ERROR_STATUS, TierName
from tidytape.client._computed import Computed
from tidytape.client._demo_lake import copied
from tidytape.client._request import refused_query
from tidytape.client._settings import LOCAL
from tidytape.client._steps import closed_error, printable
from tidytape.client._stream_base import ABORT
from tidytape.errors import ForkError, QueryError
from tidytape.lake import Lake, LakeReader
from tidytape.query import PointsQuery

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


_LONGEST_ANSWER = 3_600.0  # longest time of one answer [s]
_UNPACKED = "identity"  # no compression, because memory is fast
_UNLIMITED = Tier("local", 10**9, 10**9, None, aggregation=True, rank=TierName.ENTERPRISE)


class AppTransport(httpx.BaseTransport):
    """Carries the requests of blocking code to an ASGI app.

    The app runs on an event loop in its own thread. So it works in plain code, and in a notebook whose loop is running.

    Attributes
    ----------
    ends_in_time : bool
        True: the timeout of a request limits the whole answer, so the client needs no thread of its own to limit it.
    lake : LakeReader or None
        The lake of the app.
    points : callable or None
        Computes the answer to a query without the app.
    """

    ends_in_time = True

    def __init__(
        self,
        app: ASGIApp,
        *,
        lake: LakeReader | None = None,
        folder: str | None = None,
        points: Callable[[PointsQuery], Computed] | None = None,
    ) -> None:
        self._app = app
        self.lake, self.points = lake, points
        self.is_demo = folder is not None
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._resources = _Resources(folder)
        self._finalizer = weakref.finalize(self, self._resources.let_go)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if _is_stream(request):
            return self._resources.followed(self._resources.run(partial(self._open_stream, request)))
        return self._resources.run(partial(self._answer, request))

    async def _open_stream(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = _UNPACKED
        timeout = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                return await _streamed(self._app, request)
        except TimeoutError:
            raise httpx.ReadTimeout(f"no answer within {timeout} s", request=request) from None

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = _UNPACKED
        timeout = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                response = await self._inner.handle_async_request(request)
                body = b"".join([part async for part in response.aiter_raw()])
        except TimeoutError:
            raise httpx.ReadTimeout(f"no answer within {timeout} s", request=request) from None
        return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(body))

    def close(self) -> None:
        """Cancel open requests, and remove the demo's lake."""
        self._finalizer()


class AsyncAppTransport(httpx.ASGITransport):
    """Carries the requests of asyncio code to an ASGI app."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        lake: LakeReader | None = None,
        folder: str | None = None,
        points: Callable[[PointsQuery], Computed] | None = None,
    ) -> None:
        super().__init__(app, raise_app_exceptions=False)
        self.lake, self.points = lake, points
        self.is_demo = folder is not None
        self._resources = _Resources(folder)
        self._finalizer = weakref.finalize(self, self._resources.let_go)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self._resources.check_process()
        request.headers["Accept-Encoding"] = _UNPACKED
        if _is_stream(request):
            return await _streamed(self.app, request)
        return await super().handle_async_request(request)

    async def aclose(self) -> None:
        """Remove the demo's lake."""
        self._finalizer()


class _AppWhenAsked:
    """The service's app, made for the first request: points are computed without it, and it loads a web framework."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = cache(make)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._make()(scope, receive, send)


def connection(
    lake: str | Path | None,
    transport: type[AppTransport | AsyncAppTransport] = AppTransport,
    **options: Any,
) -> dict[str, Any]:
    """Return the arguments of a client whose service reads a lake; for None, a new copy of the demo's lake."""
    refuse_fork()
    from tidytape.service._buckets import MemoryBuckets

    if fixed_options := options.keys() & {"base_url", "api_key", "transport"}:
        raise TypeError(f"a client in this process has its own {min(fixed_options)}")
    path = copied(progress=options.get("progress")) if lake is None else lake
    opened_lake = Lake(path)
    key = secrets.token_urlsafe(32)
    buckets = MemoryBuckets()

    def make_app() -> ASGIApp:
        from tidytape.service import Key, Keys, create_app, hashed

        keys = Keys([Key("local", hashed(key), _UNLIMITED.name, created=0)])
        return create_app(opened_lake, keys, tiers={_UNLIMITED.name: _UNLIMITED}, buckets=buckets)

    points = _points(opened_lake, lambda cost: buckets.counted_now("local", _UNLIMITED, take=cost))
    # Only a cache needs an address per lake. Reading the version of every table, which the address depends on, takes
    # longer than everything else here.
    name = _name(opened_lake) if options.get("cache") or options.get("offline") else "lake"
    # The client trusts the service in its own process, and no network is between them, so the limits are wide.
    return {
        "base_url": f"http://{name}.{LOCAL}",
        "api_key": key,
        "transport": transport(
            _AppWhenAsked(make_app),
            lake=opened_lake,
            folder=str(path) if lake is None else None,
            points=points,
        ),
        "max_body": sys.maxsize,
        "timeout": _LONGEST_ANSWER,
        "deadline": _LONGEST_ANSWER,
        **options,
    }


def _points(lake: LakeReader, charge: Callable[[int], object]) -> Callable[[PointsQuery], Computed]:
    """Return the function that computes the answer to a query, and refuses it in the words of a refusal over HTTP."""
    from tidytape.service._in_process import answered
    from tidytape.service._refusals import refused
    from tidytape.service.answer._engine import Engine

    engine = Engine(lake)

    def compute(query: PointsQuery) -> Computed:
        try:
            computed = Computed(*answered(engine, query))
        except QueryError as error:
            refusal = refused(error)
        else:
            charge(sum(map(weight, computed.requests)))
            return computed
        assert refusal is not None  # every QueryError is one
        facts = {name: printable(fact) for name, fact in refusal.facts.items() if fact is not None}
        status = ERROR_STATUS[refusal.code]
        raise refused_query(printable(refusal.message), facts, refusal.code, status)

    return compute


def _name(lake: LakeReader) -> str:
    """Return a name for a lake and its version, so that a cache does not mix lakes or versions."""
    identity = f"{lake.path}\n{lake.delta('markets').metadata().id}\n{sorted(lake.version().items())}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]


_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of all local clients of a process. Its thread ends with the process.

    A forked process has no copy of the thread, so it gets a loop of its own.
    """
    if process not in _loops:
        loop = asyncio.new_event_loop()
        if _loops.setdefault(process, loop) is not loop:  # another thread has made one meanwhile
            loop.close()
        else:
            threading.Thread(target=loop.run_forever, daemon=True, name="tidytape-local").start()
    return _loops[process]


class _Resources:
    """The resources of a local client: the demo's lake, and open requests.

    A fork copies this object, but not the thread of the loop. So only the process that made it may use it, and removes
    the lake.
    """

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._process = os.getpid()
        self._closed = False
        self._running: set[Future[httpx.Response]] = set()
        self._streams: set[httpx.Response] = set()

    def check_process(self) -> None:
        """Raise ForkError in a process that was forked after the client was made."""
        if os.getpid() != self._process:
            raise ForkError

    def run(self, answer: Callable[[], Coroutine[Any, Any, httpx.Response]]) -> httpx.Response:
        """Run a coroutine on the loop, and wait for its response."""
        self.check_process()
        future = asyncio.run_coroutine_threadsafe(answer(), _loop(self._process))
        self._running.add(future)
        if self._closed:  # `let_go` ran before the future was in the set
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise closed_error() from None
        finally:
            future.cancel()  # if Ctrl-C has ended the wait; a finished future stays as it is
            self._running.discard(future)

    def followed(self, response: httpx.Response) -> httpx.Response:
        """Return a response for blocking code from a response of the loop; closing the client ends it."""
        self._streams.add(response)
        if self._closed:
            response.extensions[ABORT]()
        body = _Blocking(response, _loop(self._process), lambda: self._streams.discard(response))
        return httpx.Response(
            response.status_code, headers=response.headers, stream=body, extensions=response.extensions
        )

    def let_go(self) -> None:
        """Cancel open requests, end streams, and remove the demo's lake."""
        if os.getpid() != self._process:
            return
        self._closed = True
        for future in self._running.copy():
            future.cancel()
        for response in self._streams.copy():
            response.extensions[ABORT]()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


# --- streams ---

# The transport of httpx for apps returns a response only when it is complete, but a stream never is.

_AHEAD = 4
"""How many parts of a body the app may write before the client reads them."""


def _is_stream(request: httpx.Request) -> bool:
    """Return whether a request is for a stream, whose answer has no end."""
    return request.url.path.endswith("/v1/stream")


async def _streamed(app: ASGIApp, request: httpx.Request) -> httpx.Response:
    """Return the response of an app as soon as it has begun; its body can be read while the app writes it.

    Close the response, or call its extension `ABORT` from any thread, to cancel the app's task.
    """
    loop = asyncio.get_running_loop()
    head: asyncio.Future[dict[str, Any]] = loop.create_future()
    written_parts, parts = anyio.create_memory_object_stream[bytes](_AHEAD)

    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()  # until the task is cancelled
        return messages.pop()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            head.set_result(message)
        elif body := message.get("body"):
            await written_parts.send(body)

    async def run() -> None:
        async with written_parts:
            with contextlib.suppress(
                Exception
            ):  # an error of the app ends the body early, as it does on a network
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
    with contextlib.suppress(RuntimeError):  # the loop is closed
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
    """The parts of a body that a task of the app writes."""

    def __init__(self, task: asyncio.Task[None], parts: MemoryObjectReceiveStream[bytes]) -> None:
        self._task, self._parts = task, parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        self._task.cancel()
        self._parts.close()


class _Blocking(httpx.SyncByteStream):
    """The body, for blocking code, of a response that the loop of another thread receives."""

    def __init__(
        self, response: httpx.Response, loop: asyncio.AbstractEventLoop, done: Callable[[], None]
    ) -> None:
        self._response, self._loop, self._done = response, loop, done

    def __iter__(self) -> Iterator[bytes]:
        """Wait for each part."""
        parts = self._response.aiter_raw()

        async def next_part() -> bytes | None:
            return await anext(parts, None)

        while part := asyncio.run_coroutine_threadsafe(next_part(), self._loop).result():
            yield part

    def close(self) -> None:
        """Cancel the app's task."""
        self._response.extensions[ABORT]()
        self._done()
