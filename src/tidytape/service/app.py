"""The HTTP app over a lake: routes only. What they do lies in engine, limits, markets and refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar, TypeVarTuple

import anyio
import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from tidytape import wire
from tidytape._version import __version__
from tidytape.budget import TIERS, Tier, weight
from tidytape.errors import BudgetError, QueryError
from tidytape.lake import Lake
from tidytape.query import MarketsQuery, PointsQuery, respelled
from tidytape.service.engine import Engine, Subjects
from tidytape.service.gate import Gate
from tidytape.service.keys import Keys
from tidytape.service.limits import Account, Accounts, usage
from tidytape.service.markets import page
from tidytape.service.openapi import parameters
from tidytape.service.refusals import from_query_error, refusal

__all__ = ["KEY_HEADER", "create_app"]

KEY_HEADER = "X-Service-Key"
"""Header that carries the key, unless a deployment renames it."""

R = TypeVar("R")
Args = TypeVarTuple("Args")

_MOST_QUERIES_AT_ONCE = 8
_REFUSED_BY_ROUTER = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def create_app(
    lake: Lake,
    keys: Keys,
    *,
    key_header: str = KEY_HEADER,
    tiers: Mapping[str, Tier] = TIERS,
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
    clock : callable
        Returns epoch nanoseconds; tests give their own. [ns]

    Returns
    -------
    FastAPI
    """
    engine = Engine(lake, clock=clock)
    workers = anyio.CapacityLimiter(_MOST_QUERIES_AT_ONCE)
    # No interactive docs: their pages load scripts from elsewhere.
    app = FastAPI(
        title="Market Data Query Service",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(
        Gate, accounts=Accounts(keys, clock=clock, tiers=tiers), key_header=key_header, clock=clock
    )

    async def in_worker(work: Callable[[*Args], R], *args: *Args) -> R:
        return await anyio.to_thread.run_sync(work, *args, limiter=workers)

    @app.get("/v1/points", openapi_extra=parameters(PointsQuery))
    async def points(request: Request) -> Response:
        account: Account = request.state.account
        query = PointsQuery.from_params(request.query_params.multi_items())
        _require_tier(account, query)
        try:
            instruments = await in_worker(engine.instruments, query)
        except QueryError as error:
            raise respelled(error, PointsQuery.WIRE) from None
        cost = weight(query)
        admission = account.bucket.take(cost, now_ns=clock())
        if not admission.admitted:
            return refusal(
                "RATE_LIMITED",
                f"weight {cost} is more than the {admission.remaining} left; wait {admission.retry_after} s",
                retry_after=admission.retry_after,
            )
        answer = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_gone, request, group.cancel_scope)
                accept = request.headers.get("accept", "")
                answer = await in_worker(_answer, engine, query, instruments, accept)
                if (
                    group.cancel_scope.cancel_called
                ):  # while a worker was busy with it, which nothing can interrupt
                    answer = None
                group.cancel_scope.cancel()
        except* QueryError as errors:
            raise respelled(_first(errors), PointsQuery.WIRE) from None
        finally:
            if answer is None:
                # No answer, no charge: also when the caller hung up while it was waited for.
                account.bucket.give_back(cost, now_ns=clock())
        return answer or refusal("INTERNAL_ERROR", "nobody is there to read the answer")

    @app.get("/v1/markets", openapi_extra=parameters(MarketsQuery))
    async def markets(request: Request) -> Response:
        query = MarketsQuery.from_params(request.query_params.multi_items())
        body = await in_worker(page, lake, query)
        return Response(body, media_type=wire.JSON_MIME)

    @app.get("/v1/usage")
    async def quota(request: Request) -> Response:
        for name, value in request.query_params.multi_items():
            raise QueryError(name, got=value, expected="no parameter here")
        state = request.state.account.bucket.look(now_ns=clock())
        return Response(orjson.dumps(usage(state)), media_type=wire.JSON_MIME)

    @app.exception_handler(QueryError)
    async def refuse(request: Request, error: QueryError) -> Response:
        return from_query_error(error)

    @app.exception_handler(BudgetError)
    async def too_heavy(request: Request, error: BudgetError) -> Response:
        return refusal("INVALID_PARAMS", error.message)

    @app.exception_handler(HTTPException)
    async def not_here(request: Request, error: HTTPException) -> Response:
        code = _REFUSED_BY_ROUTER.get(error.status_code, "INVALID_PARAMS")
        what = f"{request.method} {request.url.path}"
        answer = refusal(code, f"{what}: got no such route or method, expected GET on a documented path")
        answer.headers.update(error.headers or {})
        return answer

    return app


async def _cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    """Cancel what is done for a caller that has hung up; what waits for a worker then never starts."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _first(errors: BaseExceptionGroup[QueryError]) -> QueryError:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, QueryError)
    return error


def _require_tier(account: Account, query: PointsQuery) -> None:
    for kind in query.data_types:
        if not account.tier.permits(kind):
            raise QueryError(
                "type",
                got=kind.name,
                expected=f"a type of the {account.tier.name} tier",
                code="TYPE_NOT_PERMITTED",
            )
    if query.is_aggregation and not account.tier.aggregation:
        raise QueryError(
            PointsQuery.WIRE["group_by"],
            got=str(query.group_by),
            expected=f"no value; the {account.tier.name} tier does not aggregate exchanges",
            code="AGGREGATION_NOT_PERMITTED",
        )


def _answer(engine: Engine, query: PointsQuery, instruments: Subjects, accept: str) -> Response:
    frames = engine.frames(query, instruments)
    vary = {"Vary": "Accept"}
    if len(frames) == 1 and _takes_arrow(accept):
        return Response(wire.to_arrow(frames[0][1]), headers=vary, media_type=wire.ARROW_MIME)
    return Response(wire.encode_all(frames), headers=vary, media_type=wire.JSON_MIME)


def _takes_arrow(accept: str) -> bool:
    """Whether a caller asks for Arrow by name; ``*/*`` is answered in JSON."""
    for choice in accept.lower().split(","):
        kind, *options = (part.strip() for part in choice.split(";"))
        if kind == wire.ARROW_MIME:
            return not any(
                option.replace(" ", "") in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for option in options
            )
    return False
