"""``GET /v1/points``: sends the answer to a query in the form that the caller accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tidytape.query import PointsQuery
from tidytape.service._answering import Points, Prepared
from tidytape.service._responses import GONE, get, gone_caller, is_known, params_of, unless
from tidytape.service.work._computing import PART, Answer, form_accepted, qualities
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._pages import PAGE_ENDS, PAGES, asks_for_pages, write_page_ends

R = TypeVar("R")


def points(answers: Points) -> Route:
    """Return the route.

    Parameters
    ----------
    answers : Points
    """

    async def answer_points(request: Request) -> Response:
        gone = asyncio.ensure_future(gone_caller(request.receive))
        try:
            return await answer_unless(gone, request)
        finally:
            gone.cancel()

    async def answer_unless(gone: asyncio.Future[None], request: Request) -> Response:
        facts, accept = request.state.facts, request.headers.get("accept", "")

        async def wait(work: Coroutine[Any, Any, R]) -> R | None:
            return await unless(gone, work)

        def form_of(query: PointsQuery) -> str:
            # ``*/*`` is answered in JSON, and so are several types, because an Arrow stream has one schema.
            form = form_accepted(accept) if len(query.type) == 1 else JSON_MIME
            # Clients of older releases, which take JSON too, expect the levels of a market profile in other columns.
            is_older = (
                form == ARROW_MIME and query.data_types[0].has_sessions and qualities(accept).get(JSON_MIME)
            )
            return JSON_MIME if is_older else form

        takes_pages = asks_for_pages(request.headers.getlist("prefer"))
        preparing = answers.prepare(
            params_of(request), request.state.account, facts, form_of, takes_pages=takes_pages
        )
        prepared = await wait(preparing)
        if prepared is None:
            return Response(status_code=GONE)
        if is_known(prepared.tag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=_headers(prepared))

        coding = request.headers.get("accept-encoding", "")
        answer = await answers.answer(prepared, facts, coding=coding, wait=wait)
        if answer is None:
            return Response(status_code=GONE)
        answer = replace(answer, headers={**_headers(prepared), **answer.headers})
        return response_of(answer, media_type=prepared.form, sent=partial(answers.sent, prepared))

    return get("/v1/points", answer_points)


def response_of(answer: Answer, *, media_type: str, sent: Callable[[], None]) -> Response:
    """Return the response of an answer, which calls ``sent`` in the end; a large body is sent in parts."""
    if isinstance(answer.body, bytes) and len(answer.body) <= PART:
        sent()  # the connection takes it at once
        return Response(answer.body, headers=answer.headers, media_type=media_type)
    return _InParts(answer, media_type, sent)


class _InParts(Response):
    """A response that is sent part by part, as the caller accepts them."""

    def __init__(self, answer: Answer, media_type: str, sent: Callable[[], None]) -> None:
        self._answer, self._sent = answer, sent
        self.status_code, self.media_type, self.background = 200, media_type, None
        self.init_headers({**answer.headers, "Content-Length": str(answer.size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            for part in _parts(self._answer):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            # It is accepted once all but the end of the last part is sent.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._sent()


def _parts(answer: Answer) -> Iterator[bytes | memoryview]:
    """Yield what is sent of an answer: of memory all but the end at once and without a copy. [byte]"""
    body = answer.body
    if not isinstance(body, bytes):
        yield from answer.parts()
    elif len(body) <= 2 * PART:
        yield body
    else:
        yield memoryview(body)[:-PART]
        # A copy: while it waits alone, nothing may hold the whole body, whose bytes are no longer counted.
        yield body[-PART:]


def _headers(prepared: Prepared) -> dict[str, str]:
    headers = {"Vary": "Accept, Accept-Encoding, Prefer"}
    if prepared.tag is not None:
        headers["ETag"] = prepared.tag
    if prepared.page_ends:
        headers |= {"Preference-Applied": PAGES, PAGE_ENDS: write_page_ends(prepared.page_ends)}
    return headers
