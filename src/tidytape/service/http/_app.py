"""The service as an ASGI app: its routes, its middleware, and one shape of every error."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from tidytape.budget import TIERS, Tier
from tidytape.errors import BudgetError, LakeError, QueryError, TidytapeError, shown
from tidytape.lake import LakeReader
from tidytape.service._accounts import Accounts, Keys
from tidytape.service._answering import Points
from tidytape.service._buckets import Buckets, MemoryBuckets
from tidytape.service._refusals import RefusedError, refused
from tidytape.service._responses import error_response
from tidytape.service.answer._engine import Engine
from tidytape.service.http._discovery import Lists, discovery
from tidytape.service.http._gate import Gate
from tidytape.service.http._monitoring import Metrics, RequestLog, health
from tidytape.service.http._openapi import document
from tidytape.service.http._points import points
from tidytape.service.page import page
from tidytape.service.stream._http import stream
from tidytape.service.stream._streams import Streams
from tidytape.service.stream._tokens import Tokens
from tidytape.service.work._bounds import Looks, Unsent
from tidytape.service.work._computing import Computing, Threads
from tidytape.times import SECOND

KEY_HEADER = "X-Service-Key"
"""Header that carries the key, unless a deployment renames it."""

_THREADS = 8  # requests that read the lake's logs at the same time; others wait
_ROUTING_ERRORS = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def create_app(
    lake: LakeReader,
    keys: Keys,
    *,
    key_header: str = KEY_HEADER,
    tiers: Mapping[str, Tier] = TIERS,
    computing: Computing | None = None,
    buckets: Buckets | None = None,
    clock: Callable[[], int] = time.time_ns,
    token_secret: bytes | None = None,
    grpc_address: str | None = None,
) -> Starlette:
    """Return the service as an ASGI app.

    Parameters
    ----------
    lake : LakeReader
        The lake that it answers from.
    keys : Keys
        The keys that it accepts.
    key_header : str
        Header that carries the key.
    tiers : mapping of str to Tier
        What a key of each tier may ask for.
    computing : Computing, optional
        What computes answers; threads of this process by default.
    buckets : Buckets, optional
        What counts weight; memory of this process by default. The app closes it when the server shuts down.
    clock : callable
        Returns epoch nanoseconds. [ns]
    token_secret : bytes, optional
        What signs the resume tokens of streams; made for this app if left out, so that none outlives it.
    grpc_address : str, optional
        Host and port on which the app answers over gRPC too, as long as it runs; port 0 takes one that is free, and
        ``app.state.grpc_port`` says which. Needs the extra ``grpc``. Over HTTP alone if left out.

    Returns
    -------
    Starlette
        Its ``state.streams`` are the open streams, which ``close`` ends.

    Raises
    ------
    TidytapeError
        If there is an address for gRPC, and the extra is not installed.
    """
    engine, threads = Engine(lake, clock=clock), ThreadPoolExecutor(_THREADS, "tidytape-lake")
    computing = computing or Threads(engine)
    buckets = buckets or MemoryBuckets(clock=clock)

    def is_valid(key: str) -> bool:
        return keys.has(key, now=clock() / SECOND)

    tokens, unsent, looks = Tokens(token_secret), Unsent(), Looks(lake, threads)
    streams = Streams(engine, tokens, looks, computing, unsent, clock=clock, allowed=is_valid)
    metrics = Metrics(
        lake=lake, keys=keys, buckets=buckets, computing=computing, streams=streams, unsent=unsent
    )
    accounts = Accounts(keys, buckets=buckets, clock=clock, tiers=tiers)
    answers = Points(engine, looks, computing, unsent, clock=clock)
    lists = Lists(lake, looks, clock=clock)
    rpc = None if grpc_address is None else _rpc()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Mapping[str, object]]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(buckets.close)
            if rpc is not None and grpc_address is not None:
                calls = rpc.Calls(answers, lists, streams, accounts, metrics, key_header)
                app.state.grpc_port = await stack.enter_async_context(rpc.serving(calls, grpc_address))
                stack.callback(streams.close)  # first, for open streams would hold up the end
            yield {"metrics": metrics}  # where connections count

    app = Starlette(
        routes=[
            points(answers),
            stream(streams),
            *discovery(lists),
            *health(lake, buckets, metrics, document(key_header=key_header)),
            page(key_header=key_header, tiers=tiers),
        ],
        middleware=[
            Middleware(RequestLog, metrics=metrics),
            Middleware(Gate, accounts=accounts, key_header=key_header),
        ],
        exception_handlers={
            QueryError: _refusal,
            BudgetError: _refusal,
            LakeError: _refusal,
            RefusedError: _refusal,
            HTTPException: _no_such_route,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.streams = streams
    return app


def _rpc() -> ModuleType:
    """Return the module that answers over gRPC."""
    try:
        from tidytape.service.http import _rpc as rpc
    except ImportError as error:
        message = f"answers over gRPC need an extra ({error}): pip install 'tidytape[grpc]'"
        raise TidytapeError(message) from None
    return rpc


async def _refusal(request: Request, error: Exception) -> Response:
    refusal = refused(error)
    if refusal is None:
        raise error
    return error_response(
        refusal.code,
        refusal.message,
        retry_after=refusal.retry_after,
        over=refusal.over,
        facts=refusal.facts,
    )


async def _no_such_route(request: Request, error: Any) -> Response:
    code = _ROUTING_ERRORS.get(error.status_code, "INVALID_PARAMS")
    target = shown(f"{request.method} {request.scope['path']}")
    response = error_response(code, f"request: got {target}, expected GET on a documented path")
    response.headers.update(error.headers or {})
    return response
