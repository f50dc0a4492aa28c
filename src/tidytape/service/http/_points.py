"""``GET /v1/points``: sends the answer to a query in the form that the caller accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tidytape.query import PointsQuery
from tidytape.service._answering import Points
from tidytape.service._responses import get, is_known
from tidytape.service.work._computing import Answer, SharedBody, qualities
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._decode import JSON_MIME

R = TypeVar("R")
_GONE = 499  # for the log alone: the caller has hung up


def points(answers: Points) -> Route:
    """Return the route.

    Parameters
    ----------
    answers : Points
    """

    async def answer_points(request: Request) -> Response:
        facts, accept = request.state.facts, request.headers.get("accept", "")

        def form_of(query: PointsQuery) -> str:
            # ``*/*`` is answered in JSON.
            in_arrow = len(query.type) == 1 and qualities(accept).get(ARROW_MIME)
            return ARROW_MIME if in_arrow else JSON_MIME

        params = request.query_params.multi_items()
        prepared = await answers.prepare(params, request.state.account, facts, form_of)
        if is_known(prepared.tag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=_headers(prepared.tag))

        async def wait(work: Coroutine[Any, Any, R]) -> R | None:
            return await _while_connected(request, work)

        coding = request.headers.get("accept-encoding", "")
        answer = await answers.answer(prepared, facts, coding=coding, wait=wait)
        if answer is None:
            return Response(status_code=_GONE)
        headers = {**_headers(prepared.tag), **answer.headers}
        return response_of(replace(answer, headers=headers), media_type=prepared.form)

    return get("/v1/points", answer_points)


def response_of(answer: Answer, *, media_type: str) -> Response:
    """Return the response of an answer; a body in shared memory is sent in parts and never held whole."""
    if not isinstance(answer.body, SharedBody):
        return Response(answer.body, headers=answer.headers, media_type=media_type)
    headers = {**answer.headers, "Content-Length": str(answer.body.size)}
    return StreamingResponse(answer.body.parts(), headers=headers, media_type=media_type)


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


def _headers(tag: str | None) -> dict[str, str]:
    return {"Vary": "Accept, Accept-Encoding", **({} if tag is None else {"ETag": tag})}
