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
from tidytape.service._responses import HALF_CLOSED, error_response
from tidytape.service.http._gate import LONGEST_TARGET

if sys.platform == "linux":
    import fcntl
    import termios

_log = logging.getLogger("tidytape.access")
_service_log = logging.getLogger("tidytape.service")
_PROCESSING = h11.InformationalResponse(status_code=102, headers=[], reason=b"Processing")
_LONGEST_HEAD = LONGEST_TARGET + (1 << 15)  # bytes of request line and headers
_PATIENCE = 30.0  # seconds for a request to arrive
_LINGER = 2.0  # seconds for a caller to read the refusal
_UNREAD = 30.0  # seconds for a caller to read something of what is sent
_LOOKS = 1.0  # seconds between two looks at what a connection has not sent
_TOO_LONG = 431
_NOSNIFF = (b"x-content-type-options", b"nosniff")


class _Http(h11.Connection):
    """What a connection makes of its events; a body goes to the socket as it lies in memory, without a copy."""

    def send(self, event: h11.Event) -> Any:
        """Return what is sent of an event; None if that is the end of the connection. [byte]"""
        parts = self.send_with_data_passthrough(event)
        if parts is None:
            return None
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Connection(H11Protocol):
    """One connection to a caller."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _Http(h11.SERVER, _LONGEST_HEAD)
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._drained = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server has it
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._wait(_PATIENCE)
        self._look((0, 0, 0), self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        self._wait(None)
        if self._watch is not None:
            self._watch.cancel()
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

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """Return whether the connection stays open: a caller that sends no more still reads what it asked for."""
        if not self._is_answering():
            return False
        self.cycle.keep_alive = False
        self.scope["state"][HALF_CLOSED] = True
        return True

    def resume_writing(self) -> None:
        """Go on, for the buffer is almost empty again."""
        self._drained += 1
        super().resume_writing()

    def _look(self, before: tuple[int, int, int], moved_at: float) -> None:
        """Cut the connection if nothing was sent for long; learn whether a caller that sends no more is still there."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        state = self._drained, size, _in_kernel(self.transport) if size else 0
        if state != before or not size:
            moved_at = now
        if now - moved_at >= _UNREAD:
            scope: Any = self.scope  # None before the first request
            facts = scope["state"].get("facts", {}) if scope else {}
            _service_log.warning("request %s: its caller read nothing for %g s", facts.get("id"), _UNREAD)
            if (metrics := self.app_state.get("metrics")) is not None:
                metrics.cut.inc()
            self.transport.abort()
            return
        if self._is_answering() and not self.cycle.response_started and self._is_half_closed():
            # A connection that is closed altogether looks the same until something is sent to it.
            self.transport.write(self.conn.send(_PROCESSING) or b"")
        self._watch = self.loop.call_later(_LOOKS, self._look, state, moved_at)

    def _is_half_closed(self) -> bool:
        """Return whether the caller sends no more, and knows answers that come before the answer."""
        return self.scope["http_version"] != "1.0" and bool(self.scope["state"].get(HALF_CLOSED))

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


def _in_kernel(transport: asyncio.BaseTransport) -> int:
    """Return how much of what was sent the caller has not received; 0 where the system does not say. [byte]"""
    if sys.platform != "linux":
        return 0
    unreceived = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(unreceived, sys.byteorder)


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
