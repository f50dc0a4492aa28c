"""A client of the service in this process: requests go to the app through memory, by the same path as over HTTP.

This is the one room that reaches up to the service and the demo, and only when a local client is asked for: whoever
fetches from elsewhere does not load a server.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tidytape.budget import Tier
from tidytape.catalogue import TierName
from tidytape.client._demo_lake import copied
from tidytape.client._local_stream import Blocking, is_stream, streamed
from tidytape.client._settings import LOCAL
from tidytape.client._steps import closed_error
from tidytape.client._stream_base import ABORT
from tidytape.errors import TransportError
from tidytape.lake import Lake, LakeReader

if TYPE_CHECKING:
    from starlette.types import ASGIApp


_PATIENCE = 3_600.0  # what one answer may take [s]
_UNPACKED = "identity"  # memory is no wire
_UNLIMITED = Tier("local", 10**9, 10**9, None, aggregation=True, rank=TierName.ENTERPRISE)


class AppTransport(httpx.BaseTransport):
    """Carries the requests of blocking code to an ASGI app.

    The app runs on an event loop in a thread of its own, so that it works wherever the caller is: in plain code, or in
    a notebook whose own loop is already running.

    Attributes
    ----------
    ends_in_time : bool
        True: the timeout of a request bounds the whole answer, so the client needs no thread of its own to bound it.
    lake : LakeReader or None
        The lake that the app answers from.
    """

    ends_in_time = True

    def __init__(self, app: ASGIApp, *, lake: LakeReader | None = None, folder: str | None = None) -> None:
        self._app = app
        self.lake = lake
        self.is_demo = folder is not None
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._held = _Held(folder)
        self._finalizer = weakref.finalize(self, self._held.let_go)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if is_stream(request):
            return self._held.followed(self._held.run(partial(self._begun, request)))
        return self._held.run(partial(self._answer, request))

    async def _begun(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = _UNPACKED
        timeout = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                return await streamed(self._app, request)
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
        """Stop what is on its way, and remove the demo's lake."""
        self._finalizer()


class AsyncAppTransport(httpx.ASGITransport):
    """Carries the requests of asyncio code to an ASGI app."""

    def __init__(self, app: ASGIApp, *, lake: LakeReader | None = None, folder: str | None = None) -> None:
        super().__init__(app, raise_app_exceptions=False)
        self.lake = lake
        self.is_demo = folder is not None
        self._held = _Held(folder)
        self._finalizer = weakref.finalize(self, self._held.let_go)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self._held.check_process()
        request.headers["Accept-Encoding"] = _UNPACKED
        if is_stream(request):
            return await streamed(self.app, request)
        return await super().handle_async_request(request)

    async def aclose(self) -> None:
        """Remove the demo's lake."""
        self._finalizer()


def connection(
    lake: str | Path | None,
    transport: type[AppTransport | AsyncAppTransport] = AppTransport,
    **options: Any,
) -> dict[str, Any]:
    """Return the arguments that make a client speak to a service over a lake; over a fresh demo lake where None."""
    from tidytape.service import Key, Keys, create_app, hashed

    if fixed := options.keys() & {"base_url", "api_key", "transport"}:
        raise TypeError(f"a client in this process has its own {min(fixed)}")
    path = copied(progress=options.get("progress")) if lake is None else lake
    held = Lake(path)
    key = secrets.token_urlsafe(32)
    keys = Keys([Key("local", hashed(key), _UNLIMITED.name, created=0)])
    app = create_app(held, keys, tiers={_UNLIMITED.name: _UNLIMITED})
    # Only a cache tells lakes apart by their address, and to read every table's version takes longer than the rest.
    name = _name(held) if options.get("cache") or options.get("offline") else "lake"
    # A client need not be guarded from the service in its own process; no network can be stuck in between.
    return {
        "base_url": f"http://{name}.{LOCAL}",
        "api_key": key,
        "transport": transport(app, lake=held, folder=str(path) if lake is None else None),
        "max_body": sys.maxsize,
        "timeout": _PATIENCE,
        "deadline": _PATIENCE,
        **options,
    }


def _name(lake: LakeReader) -> str:
    """Return a name that neither another lake has nor this one after a write, so that a cache keeps them apart."""
    identity = f"{lake.path}\n{lake.delta('markets').metadata().id}\n{sorted(lake.version().items())}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]


_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of all local clients of a process. Its thread ends with the process, and is not forked."""
    if process not in _loops:
        loop = asyncio.new_event_loop()
        if _loops.setdefault(process, loop) is not loop:  # another thread was faster
            loop.close()
        else:
            threading.Thread(target=loop.run_forever, daemon=True, name="tidytape-local").start()
    return _loops[process]


class _Held:
    """The resources of a local client: the demo's lake, and requests on their way.

    A fork copies the objects but neither the thread of the loop nor the right to the lake, so all of it belongs to the
    process that made it.
    """

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._process = os.getpid()
        self._closed = False
        self._running: set[Future[httpx.Response]] = set()
        self._streams: set[httpx.Response] = set()

    def check_process(self) -> None:
        """Refuse to work where the process has forked since."""
        if os.getpid() != self._process:
            raise TransportError(
                "a local client does not outlive a fork; make another one in the new process"
            )

    def run(self, answer: Callable[[], Coroutine[Any, Any, httpx.Response]]) -> httpx.Response:
        """Run a coroutine on the loop and wait for it."""
        self.check_process()
        future = asyncio.run_coroutine_threadsafe(answer(), _loop(self._process))
        self._running.add(future)
        if self._closed:  # from here on `let_go` cancels it
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise closed_error() from None
        finally:
            future.cancel()  # where Ctrl-C ends the waiting
            self._running.discard(future)

    def followed(self, response: httpx.Response) -> httpx.Response:
        """Return a response of the loop as one for blocking code, which ends at the latest with the client."""
        self._streams.add(response)
        if self._closed:
            response.extensions[ABORT]()
        body = Blocking(response, _loop(self._process), lambda: self._streams.discard(response))
        return httpx.Response(
            response.status_code, headers=response.headers, stream=body, extensions=response.extensions
        )

    def let_go(self) -> None:
        """Stop what is on its way, and remove the demo's lake."""
        if os.getpid() != self._process:
            return
        self._closed = True
        for future in self._running.copy():
            future.cancel()
        for response in self._streams.copy():
            response.extensions[ABORT]()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
