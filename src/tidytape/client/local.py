"""A client of the service in this process: requests go to the app through memory, by the same path as over HTTP.

This is the one room that reaches up to the service and the demo, and only when a local client is asked for: whoever
fetches from elsewhere does not load a server.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import threading
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tidytape.budget import Tier
from tidytape.catalogue import TierName
from tidytape.lake import Lake

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["async_connection", "async_demo_connection", "connection", "demo_connection"]

_ADDRESS = "http://tidytape.local"
_UNLIMITED = Tier("local", 10**9, 10**9, None, aggregation=True, rank=TierName.ENTERPRISE)


def connection(lake: str | Path) -> dict[str, Any]:
    """Return the arguments that make a ``Client`` speak to a service over a lake."""
    app, key = _service(lake)
    return {"base_url": _ADDRESS, "api_key": key, "transport": AppTransport(app)}


def async_connection(lake: str | Path) -> dict[str, Any]:
    """Return the arguments that make an ``AsyncClient`` speak to a service over a lake."""
    app, key = _service(lake)
    return {"base_url": _ADDRESS, "api_key": key, "transport": AsyncAppTransport(app)}


def demo_connection() -> dict[str, Any]:
    """Return the arguments that make a ``Client`` speak to a service over a fresh demo lake."""
    folder = _demo_lake()
    app, key = _service(folder)
    return {"base_url": _ADDRESS, "api_key": key, "transport": AppTransport(app, folder=folder)}


def async_demo_connection() -> dict[str, Any]:
    """Return the arguments that make an ``AsyncClient`` speak to a service over a fresh demo lake."""
    folder = _demo_lake()
    app, key = _service(folder)
    return {"base_url": _ADDRESS, "api_key": key, "transport": AsyncAppTransport(app, folder=folder)}


def _service(lake: str | Path) -> tuple[ASGIApp, str]:
    from tidytape.service import Key, Keys, create_app, hashed

    key = secrets.token_urlsafe(32)
    keys = Keys([Key("local", hashed(key), _UNLIMITED.name, created=0)])
    return create_app(Lake(lake), keys, tiers={_UNLIMITED.name: _UNLIMITED}), key


def _demo_lake() -> str:
    from tidytape.demo import fill

    folder = tempfile.mkdtemp(prefix="tidytape-demo-")
    try:
        fill(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


class AppTransport(httpx.BaseTransport):
    """Carries the requests of blocking code to an ASGI app.

    The app runs on an event loop of its own, in a thread of its own, so that it works wherever the caller is: in plain
    code, or in a notebook whose own loop is already running.
    """

    def __init__(self, app: ASGIApp, *, folder: str | None = None) -> None:
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._folder = folder
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._opening = threading.Lock()
        self._finalizer = weakref.finalize(self, _let_go, self._stack, folder)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        with self._opening:
            if self._portal is None:
                self._portal = self._stack.enter_context(start_blocking_portal())
        return self._portal.call(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        timeout = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                response = await self._inner.handle_async_request(request)
                body = await response.aread()
        except TimeoutError:
            raise httpx.ReadTimeout(f"no answer within {timeout} s", request=request) from None
        return httpx.Response(response.status_code, headers=response.headers, content=body)

    def close(self) -> None:
        """Stop the loop and remove the demo's lake."""
        self._finalizer()
        self._portal = None


class AsyncAppTransport(httpx.ASGITransport):
    """Carries the requests of asyncio code to an ASGI app."""

    def __init__(self, app: ASGIApp, *, folder: str | None = None) -> None:
        super().__init__(app, raise_app_exceptions=False)
        self._finalizer = weakref.finalize(self, _let_go, ExitStack(), folder)

    async def aclose(self) -> None:
        """Remove the demo's lake."""
        self._finalizer()


def _let_go(stack: ExitStack, folder: str | None) -> None:
    stack.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
