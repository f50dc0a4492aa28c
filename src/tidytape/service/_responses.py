"""Responses: the one shape of an error, and ETags."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive

from tidytape._version import __version__
from tidytape.catalogue import ERROR_STATUS
from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.wire._values import written_time

GONE = 499
"""The status of a request whose caller has hung up, for the log alone."""

HALF_CLOSED = "half_closed"
"""In the state of a request, whether its caller sends no more; it may be gone, or still read."""

R = TypeVar("R")


def get(path: str, endpoint: Callable[..., Any], *, head: bool = False) -> Route:
    """Return the route that answers GET, and HEAD only if it says so."""
    route = Route(path, endpoint, methods=["GET"])
    if not head and route.methods is not None:
        route.methods.discard("HEAD")  # Starlette adds it, and would compute an answer for its headers
    return route


def params_of(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a URL, which is parsed when the first is taken: many parameters take milliseconds."""
    yield from request.query_params.multi_items()


def error_response(
    code: str,
    message: str,
    *,
    retry_after: int | None = None,
    over: Mapping[str, int] = MappingProxyType({}),
    facts: Mapping[str, str | None] = MappingProxyType({}),
) -> Response:
    """Return the response for an error code; ``over`` and ``facts`` are those of `RefusedError`.

    Examples
    --------
    >>> response = error_response("RATE_LIMITED", "wait", retry_after=3)
    >>> response.status_code, response.body
    (429, b'{"error":"RATE_LIMITED","message":"wait","retry_after":3}')
    """
    body: dict[str, object] = {"error": code, "message": _encodable(message)}
    body |= {name: _encodable(fact) for name, fact in facts.items() if fact is not None}
    headers: dict[str, str] = {}
    if retry_after is not None:
        body["retry_after"] = retry_after
        headers["Retry-After"] = str(retry_after)
    if over:
        body["over"] = {name: written_time(start) for name, start in over.items()}
    return Response(orjson.dumps(body), ERROR_STATUS[code], headers, media_type="application/json")


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which UTF-8 cannot hold and which a text may quote from a request."""
    return text.encode("utf-8", "replace").decode()


def etag(lake: LakeReader, query: PointsQuery, *, form: str, now: int) -> str | None:
    """Return the ETag of the answer to a query; None if the window is not over or the lake is in an object store.

    An answer depends on the query, the version of the lake, the media type and the version of this library. Late events
    change the version of the lake, and so the ETag. An object store needs a round trip per table to tell its version,
    which costs more than an ETag saves.

    Parameters
    ----------
    lake : LakeReader
    query : PointsQuery
    form : str
        Media type of the answer.
    now : int
        Epoch second. [s]
    """
    if query.span[1] > now or "://" in lake.path:
        return None
    facts = [__version__, form, sorted(query.to_params()), sorted(lake.version().items())]
    # Weak: the same answer may be compressed in several ways.
    return f'W/"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}"'


def is_known(tag: str | None, if_none_match: str | None) -> bool:
    """Return whether ``If-None-Match`` names an ETag."""
    if tag is None or if_none_match is None:
        return False
    bare = tag.removeprefix("W/")
    tags = [known_tag.strip().removeprefix("W/") for known_tag in if_none_match.split(",")]
    return "*" in tags or bare in tags


async def while_connected(request: Request, work: Coroutine[Any, Any, R]) -> R | None:
    """Return the result of the work; None if the caller hung up first, which cancels the work."""
    gone = asyncio.ensure_future(gone_caller(request.receive))
    try:
        return await unless(gone, work)
    finally:
        gone.cancel()


async def unless(gone: asyncio.Future[None], work: Coroutine[Any, Any, R]) -> R | None:
    """Return the result of the work; None if the caller is gone first, which cancels the work."""
    task = asyncio.ensure_future(work)
    try:
        either: set[asyncio.Future[Any]] = {task, gone}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()


async def gone_caller(receive: Receive) -> None:
    """Wait until the caller has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
