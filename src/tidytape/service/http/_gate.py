"""The gate before every route with data: it requires a key, adds the rate-limit headers, and hides internal errors."""

from __future__ import annotations

import logging
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidytape.service._accounts import Account, Accounts, rate_limit_headers
from tidytape.service._buckets import UnreachableError
from tidytape.service._responses import error_response

_log = logging.getLogger("tidytape.service")
_PAUSE = 2  # seconds
_GUARDED = ("/v1/", "/holdings")

LONGEST_TARGET = 1 << 16
"""Longest path and query that the service reads: some thousand symbols, and milliseconds of work. [byte]"""


class Gate:
    """ASGI middleware that finds the account of a request and puts it into ``scope["state"]["account"]``.

    It stands inside `tidytape.service.http._monitoring.RequestLog`, which names the request.

    Parameters
    ----------
    app : ASGI application
        The app behind the gate.
    accounts : Accounts
    key_header : str
        Name of the header that carries the key.
    """

    def __init__(self, app: ASGIApp, *, accounts: Accounts, key_header: str) -> None:
        self._app = app
        self._accounts = accounts
        self._key_header = key_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _in_origin_form(scope)
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                account: Account | None = scope["state"].get("account")
                if account is not None:
                    # A request that took weight knows the state of its bucket.
                    state = account.state or await account.look()
                    MutableHeaders(scope=message).update(rate_limit_headers(state))
                started = True
            await send(message)

        try:
            try:
                answer = self._refusal(scope) or self._app
                await answer(scope, receive, send_with_headers)
            except UnreachableError:
                raise
            except Exception:  # noqa: BLE001 - every failure gets the one error shape
                # The log has the reason; the caller gets an id and nothing else.
                number = scope["state"]["facts"]["id"]
                _log.exception("request %s failed", number)
                if not started:
                    answer = error_response("INTERNAL_ERROR", f"the service failed; request {number}")
                    await answer(scope, receive, send_with_headers)
        except UnreachableError as error:
            # Raised by taking weight, or by looking when the response starts: nothing has been sent.
            answer = error_response("UNAVAILABLE", f"{error}; try again", retry_after=_PAUSE)
            await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Find the account of a request; return a refusal if it has none and needs one, or cannot be read."""
        refusal, length = None, len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
        if scope["path"].startswith(_GUARDED):
            secret = Headers(scope=scope).get(self._key_header)
            account = self._accounts.of(secret) if secret else None
            if account is None:
                fault = "an unknown or expired key" if secret else "no key"
                message = f"{self._key_header}: got {fault}, expected a valid API key"
                refusal = error_response("INVALID_API_KEY", message)
            else:
                scope["state"]["account"] = account
                scope["state"]["facts"].update(key=account.key.id, tier=account.tier.name)
        if _is_ambiguous(scope):
            message = "headers: got Content-Length and Transfer-Encoding, expected one"
            refusal = refusal or error_response("INVALID_REQUEST", message)
            # If the length of the body is ambiguous, so is the start of the next request.
            refusal.headers["Connection"] = "close"
        elif length > LONGEST_TARGET:
            message = f"path and query: got {length} bytes, expected at most {LONGEST_TARGET}"
            refusal = refusal or error_response("URI_TOO_LONG", message)
        return refusal


def _in_origin_form(scope: Scope) -> None:
    """Read ``GET http://host/path`` as ``GET /path``: HTTP/1.1 requires servers to accept both."""
    raw = scope.get("raw_path") or b""
    if not raw.lower().startswith((b"http://", b"https://")):
        return
    path = b"/" + raw.split(b"://", 1)[1].partition(b"/")[2]
    scope["raw_path"] = path
    scope["path"] = unquote(path.decode("ascii"))


def _is_ambiguous(scope: Scope) -> bool:
    """Return whether two headers say where the body ends, which a proxy may read differently."""
    names = {name for name, _ in scope["headers"]}
    return {b"content-length", b"transfer-encoding"} <= names
