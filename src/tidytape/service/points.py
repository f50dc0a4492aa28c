"""``GET /v1/points``: checks the tier, takes the weight, and sends the answer in the form that the caller accepts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tidytape import wire
from tidytape.budget import weight
from tidytape.errors import QueryError, counted
from tidytape.query import PointsQuery, respelled
from tidytape.query.values import written_time
from tidytape.service.accounts import Account
from tidytape.service.buckets import UnreachableError
from tidytape.service.computing import (
    Answer,
    Computing,
    OverloadedError,
    SharedBody,
    StoppedError,
    Task,
    qualities,
)
from tidytape.service.engine import Engine
from tidytape.service.estimate import Estimate, Statistics, estimated, require_trades
from tidytape.service.responses import error_response, etag, get, is_known
from tidytape.service.scan import MarketsByType
from tidytape.times import SECOND

__all__ = ["points", "response_of"]

R = TypeVar("R")
_log = logging.getLogger("tidytape.service")
_PAUSE = 2  # seconds
_GONE = 499  # for the log alone: the caller has hung up


def points(engine: Engine, threads: Executor, computing: Computing, *, clock: Callable[[], int]) -> Route:
    """Return the route.

    Parameters
    ----------
    engine : Engine
        Finds the markets that a query selects.
    threads : Executor
        The threads that read the lake's logs.
    computing : Computing
        Computes the answers.
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    async def answer_points(request: Request) -> Response:
        account: Account = request.state.account
        facts, accept = request.state.facts, request.headers.get("accept", "")
        query = PointsQuery.from_params(request.query_params.multi_items())
        facts.update(route="points", type=",".join(kind.name for kind in query.data_types))
        _require_tier(account, query, now=clock() // SECOND)
        # ``*/*`` is answered in JSON.
        form = (
            wire.ARROW_MIME
            if len(query.type) == 1 and qualities(accept).get(wire.ARROW_MIME)
            else wire.JSON_MIME
        )

        lake = engine.lake.now()

        def look_up() -> tuple[MarketsByType, str | None, Estimate]:
            subjects = engine.at(lake).instruments(query)
            statistics = Statistics(lake)
            tag = etag(lake, query, form=form, now=clock() // SECOND)
            estimate = estimated(query, subjects, statistics)
            estimate.require(query, computing.limits)
            require_trades(query, subjects, statistics)
            return subjects, tag, estimate

        try:
            instruments, tag, estimate = await asyncio.get_running_loop().run_in_executor(threads, look_up)
        except QueryError as error:
            raise respelled(error, PointsQuery.WIRE) from None
        if is_known(tag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=_headers(tag))
        query_weight = weight(query)
        admission = await account.take(query_weight)
        if not admission.admitted:
            return error_response(
                "RATE_LIMITED",
                f"weight {query_weight} is more than the {admission.remaining} left; wait {admission.retry_after} s",
                retry_after=admission.retry_after,
            )
        facts.update(weight=query_weight)
        coding = request.headers.get("accept-encoding", "")
        key, heavy, small = account.key.id, estimate.is_heavy, estimate.is_small
        task = Task(query, instruments, form, coding, key=key, heavy=heavy, small=small, lake=lake)
        is_charged = False
        try:
            answer = await _while_connected(request, computing.answer(task))
            # A caller who hangs up pays for an answer whose computation has begun: it runs to its end.
            is_charged = answer is not None or task.begun
        except QueryError as error:
            raise respelled(error, PointsQuery.WIRE) from None
        except OverloadedError:
            return error_response(
                "UNAVAILABLE", "too many queries are waiting; try again", retry_after=_PAUSE
            )
        except StoppedError as error:
            _log.error("request %s: its worker %s", facts["id"], error)
            if error.too_long:
                is_charged = True  # otherwise keeping the service busy would be free
                return error_response("TIMEOUT", f"the answer took too long; request {facts['id']}")
            return error_response(
                "INTERNAL_ERROR", f"the worker ended before the answer was there; request {facts['id']}"
            )
        finally:
            if not is_charged:
                await _give_back(account, query_weight, facts)
        if answer is None:
            return Response(status_code=_GONE)
        facts["rows"] = answer.rows
        headers = {**_headers(tag), **answer.headers}
        return response_of(replace(answer, headers=headers), media_type=form)

    return get("/v1/points", answer_points)


def response_of(answer: Answer, *, media_type: str) -> Response:
    """Return the response of an answer; a body in shared memory is sent in parts and never held whole."""
    if not isinstance(answer.body, SharedBody):
        return Response(answer.body, headers=answer.headers, media_type=media_type)
    headers = {**answer.headers, "Content-Length": str(answer.body.size)}
    return StreamingResponse(answer.body.parts(), headers=headers, media_type=media_type)


async def _give_back(account: Account, weight: int, facts: dict[str, object]) -> None:
    """Give the weight back; log the key and the weight if the bucket store cannot be reached."""
    with anyio.CancelScope(shield=True):
        try:
            await account.give_back(weight)
        except UnreachableError as error:
            _log.error("weight %d was not given back to key %s: %s", weight, account.key.id, error)
        else:
            facts.pop("weight")


async def _while_connected(request: Request, work: Coroutine[Any, Any, R]) -> R | None:
    """Return the result of the work; None if the caller hung up first, which cancels the work."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        gone.cancel()
        task.cancel()


async def _gone(request: Request) -> None:
    """Wait until the caller has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _require_tier(account: Account, query: PointsQuery, *, now: int) -> None:
    """Raise QueryError if the tier of an account does not include the query."""
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
    days, first = account.tier.history_days, account.tier.history_start(now=now)
    if days is not None and first is not None and query.start < first:
        raise QueryError(
            PointsQuery.WIRE["start"],
            got=written_time(query.start),
            expected=f"a time in the last {counted(days, 'day')}, which the {account.tier.name} tier has",
            code="HISTORY_NOT_PERMITTED",
        )


def _headers(tag: str | None) -> dict[str, str]:
    return {"Vary": "Accept, Accept-Encoding", **({} if tag is None else {"ETag": tag})}
