"""How the service listens: bounded requests, bounded patience, and the one error shape for bytes that are not HTTP.

The app never sees such bytes; without this class uvicorn would answer them in a shape of its own.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tidytape.errors import QueryError
from tidytape.service._responses import error_response
from tidytape.service.http._gate import LONGEST_TARGET

_log = logging.getLogger("tidytape.access")
_LONGEST_HEAD = LONGEST_TARGET + (1 << 15)  # bytes of request line and headers
_PATIENCE = 30.0  # seconds for a request to arrive
_LINGER = 2.0  # seconds for a caller to read the refusal
_TOO_LONG = 431
_NOSNIFF = (b"x-content-type-options", b"nosniff")


class Connection(H11Protocol):
    """One connection to a caller."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server has it
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._wait(_PATIENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; while no request is being answered, a whole request has to arrive before the deadline."""
        if self._refused:
            return  # the caller still sends; it reads the refusal once it has finished
        super().data_received(data)
        if self._is_answering():
            self._wait(None)
        elif self._deadline is None and not self.transport.is_closing():
            self._wait(_PATIENCE)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP, or a head that is too long; uvicorn calls this in its `except` block."""
        if self._is_answering():
            # The body breaks off while the request is being answered: there can be no second answer.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.close()
            return
        answer = self._why(sys.exception())
        request_id = secrets.token_hex(8)
        _log.info(orjson.dumps({"id": request_id, "status": answer.status_code}).decode())
        headers = [
            *answer.raw_headers,
            (b"x-request-id", request_id.encode()),
            (b"connection", b"close"),
            _NOSNIFF,
        ]
        parts = (
            h11.Response(status_code=answer.status_code, headers=headers),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        # Closing now would reset the connection before the caller has read the refusal.
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(_LINGER)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _why(self, error: BaseException | None) -> Any:
        if getattr(error, "error_status_hint", None) != _TOO_LONG:
            return error_response(
                "INVALID_REQUEST", "request: got bytes that are no HTTP request, expected HTTP/1.1"
            )
        if b"\n" in self.conn.trailing_data[0]:
            return error_response(
                "HEADERS_TOO_LONG", f"headers: got more than {_LONGEST_HEAD} bytes with the request line"
            )
        return error_response("URI_TOO_LONG", f"path and query: got more than {_LONGEST_HEAD} bytes")

    def _wait(self, seconds: float | None) -> None:
        """Close the connection after some seconds, or never if None."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.close)


LISTENING: Mapping[str, Any] = MappingProxyType(
    {
        "http": Connection,
        "ws": "none",
        "h11_max_incomplete_event_size": _LONGEST_HEAD,
        "server_header": False,
        "access_log": False,  # the service writes a log of its own, see `tidytape.service.http._monitoring`
    }
)
"""Arguments of ``uvicorn.run``."""


def require_free(host: str, port: int, *, parameter: str = "port") -> int:
    """Return the port if it is free, and a free one for port 0; raise QueryError otherwise.

    Examples
    --------
    >>> require_free("127.0.0.1", 0) > 0
    True
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.create_server(address[:2], family=family) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        expected = f"a port that is free on {host}"
        raise QueryError(
            parameter, got=port, expected=expected, hint=str(error.strerror).partition(" (")[0]
        ) from None
