"""Every answer that is not data has one shape: ``error``, a code, and ``message``; ``retry_after`` on 429 and 503."""

from __future__ import annotations

import orjson
from starlette.responses import Response

from tidytape.catalogue import ERROR_STATUS
from tidytape.errors import QueryError

__all__ = ["from_query_error", "refusal"]


def refusal(code: str, message: str, *, retry_after: int | None = None) -> Response:
    """Return the response for an error code.

    Examples
    --------
    >>> response = refusal("RATE_LIMITED", "wait", retry_after=3)
    >>> response.status_code, response.body
    (429, b'{"error":"RATE_LIMITED","message":"wait","retry_after":3}')
    """
    body: dict[str, object] = {"error": code, "message": message}
    headers: dict[str, str] = {}
    if retry_after is not None:
        body["retry_after"] = retry_after
        headers["Retry-After"] = str(retry_after)
    # A message may quote what was sent; lone surrogates cannot be written as UTF-8.
    body["message"] = message.encode("utf-8", "replace").decode()
    return Response(orjson.dumps(body), ERROR_STATUS[code], headers, media_type="application/json")


def from_query_error(error: QueryError) -> Response:
    """Return the response for a query that cannot be right."""
    return refusal(error.code, error.message)
