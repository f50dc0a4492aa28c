"""The service as an ASGI app: its routes, its gate, and one shape for every refusal."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.exceptions import HTTPException

from tidytape.budget import TIERS, Tier
from tidytape.errors import BudgetError, QueryError, shown
from tidytape.lake import Lake
from tidytape.service import openapi
from tidytape.service.buckets import Buckets, MemoryBuckets
from tidytape.service.computing import Computing, Threads
from tidytape.service.discovery import discovery
from tidytape.service.engine import Engine
from tidytape.service.gate import Gate
from tidytape.service.health import health
from tidytape.service.keys import Keys
from tidytape.service.limits import Accounts
from tidytape.service.observer import Figures, Observer
from tidytape.service.page import page
from tidytape.service.points import points
from tidytape.service.refusals import from_query_error, refusal
from tidytape.service.workers import Workers

__all__ = ["KEY_HEADER", "create_app"]

KEY_HEADER = "X-Service-Key"
"""Header that carries the key, unless a deployment renames it."""

_REFUSED_BY_ROUTER = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def create_app(
    lake: Lake,
    keys: Keys,
    *,
    key_header: str = KEY_HEADER,
    tiers: Mapping[str, Tier] = TIERS,
    computing: Computing | None = None,
    buckets: Buckets | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> FastAPI:
    """Return the service as an ASGI app.

    Parameters
    ----------
    lake : Lake
        What it answers from.
    keys : Keys
        Who may ask.
    key_header : str
        Header that carries the key.
    tiers : mapping of str to Tier
        What each tier may ask for.
    computing : Computing, optional
        Where answers are computed; in threads of this process where left out.
    buckets : Buckets, optional
        Where weight is counted; in this process where left out. Closed when the server shuts down.
    clock : callable
        Returns epoch nanoseconds; tests give their own. [ns]

    Returns
    -------
    FastAPI
    """
    workers, engine = Workers(), Engine(lake, clock=clock)
    computes = computing or Threads(engine)
    counted = buckets or MemoryBuckets(clock=clock)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await counted.close()

    # No interactive docs: their pages load scripts from elsewhere. The service describes itself better than its code.
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    figures = Figures()
    figures.watch(
        CounterMetricFamily,
        "tidytape_key_file_faults",
        "Times the key file was found deleted, unreadable or writable by every user.",
        lambda: keys.faults,
    )
    figures.watch(
        CounterMetricFamily,
        "tidytape_bucket_store_faults",
        "Requests to the bucket store that got no answer.",
        lambda: counted.faults,
    )
    figures.watch(
        GaugeMetricFamily,
        "tidytape_queries_waiting",
        "Queries that wait for a worker.",
        lambda: computes.waiting,
    )
    figures.watch(
        CounterMetricFamily,
        "tidytape_workers_ended",
        "Workers that ended before their answer was there.",
        lambda: computes.ended,
    )
    accounts = Accounts(keys, buckets=counted, clock=clock, tiers=tiers)
    app.add_middleware(Gate, accounts=accounts, key_header=key_header)
    app.add_middleware(Observer, figures=figures)  # the last one added is the outermost
    app.include_router(health(lake, counted, figures, openapi.document(key_header=key_header)))
    app.include_router(page(key_header=key_header, tiers=tiers))
    app.include_router(points(engine, workers, computes, clock=clock))
    app.include_router(discovery(lake, workers, clock=clock))

    @app.exception_handler(QueryError)
    async def refuse(request: Request, error: QueryError) -> Response:
        return from_query_error(error)

    @app.exception_handler(BudgetError)
    async def too_heavy(request: Request, error: BudgetError) -> Response:
        return refusal("INVALID_PARAMS", error.message)

    @app.exception_handler(HTTPException)
    async def not_here(request: Request, error: HTTPException) -> Response:
        code = _REFUSED_BY_ROUTER.get(error.status_code, "INVALID_PARAMS")
        what = shown(f"{request.method} {request.scope['path']}")
        answer = refusal(code, f"request: got {what}, expected GET on a documented path")
        answer.headers.update(error.headers or {})
        return answer

    return app
