"""The protocol between a fetch, which decides what to do next, and a driver, which does it. No I/O.

A flow is a generator. It yields a step, the driver carries the step out and sends the outcome back into the generator.
The return value of the generator is the result of the flow. The drivers are ``_sync.py`` and ``_aio.py``, so plain code
and asyncio have one protocol.

=============  ==============================================  ================================
step           the driver                                      the outcome
=============  ==============================================  ================================
`Send`         sends a request and gathers its answer          an `Answer`, or the failure
`Wait`         waits                                           None
`Call`         runs a function that may block: files           what it returns, or its error
`Together`     carries out several flows at once               their results, or the first error
=============  ==============================================  ================================
"""

from __future__ import annotations

import gzip
import io
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import orjson

from tidytape.errors import DecodeError, TidytapeError, TransportError, escaped
from tidytape.wire._arrow import ARROW_BEGIN, ARROW_END

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request and gather its answer, before a deadline."""

    request: httpx.Request
    until: float
    """When to give up, on the clock of ``time.monotonic``. [s]"""
    max_body: int
    """Longest body to read. [byte]"""
    accepted: list[httpx.Headers] = field(default_factory=list)
    """The headers of the answer, as soon as the service has accepted the request; its body may still fail to arrive."""

    @property
    def remaining(self) -> float:
        """Time until the request is given up. [s]"""
        return max(0.0, self.until - time.monotonic())


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a time. [s]"""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that arrived completely."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def sent_at(self) -> float:
        """The time in the header ``Date``; now if there is none. [s since the epoch]"""
        try:
            return parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return time.time()


FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError)
"""Errors that a driver sends into a flow instead of an answer; the flow decides whether to try again.

``InvalidURL`` and ``UnicodeError`` come from a redirect to a malformed address: httpx parses the address although the
client does not follow it.
"""

Failure = httpx.HTTPError | httpx.InvalidURL | UnicodeError | TimeoutError


@dataclass(frozen=True, slots=True)
class Call:
    """Run a blocking function; the async driver runs it in a thread."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Together:
    """Run flows at the same time. Of all flows of a client at most ``parallel`` run at once."""

    flows: Sequence[Flow[Any]]


Step = Send | Wait | Call | Together
Flow = Generator[Step, Any, R]

_MOST_REFUSAL = 2**20
"""How much of the body of a refusal the client reads. [byte]"""


class Gathering:
    """The body of a response while it arrives: decompressed, complete, and limited in size and time.

    A gzip of a megabyte can hold a gigabyte, so the decompressed size is limited too. The client asks for no other
    encoding and does not read others: a few bytes of some encodings, or of gzip inside gzip, can fill any memory.

    Raises
    ------
    DecodeError
        If the body is longer than ``max_body``.
    TimeoutError
        If a part arrives after the time at which the request is given up.
    httpx.HTTPError
        If an accepted answer has no body, its body ends too early, or its gzip is damaged.
    """

    def __init__(self, step: Send, response: httpx.Response) -> None:
        self._step = step
        self._response = response
        self._is_accepted = response.status_code == httpx.codes.OK
        self._max_body = step.max_body if self._is_accepted else _MOST_REFUSAL
        self._body = bytearray()
        if self._is_accepted:
            step.accepted.append(response.headers)
        self.readable = is_readable(response.headers)
        """Whether the client can read the body; it understands a refusal without the body."""
        self.is_read = response.is_stream_consumed
        """Whether the transport has already read and decompressed the body."""

    def add(self, part: bytes) -> bool:
        """Add the next part of the body, as it was sent; return whether to read on."""
        if time.monotonic() > self._step.until:
            raise TimeoutError
        self._body += part
        return self._has_room(len(self._body))

    def answer(self) -> Answer:
        """Return the complete answer."""
        is_packed = _encoding(self._response.headers) in _GZIP and not self.is_read
        content = self._unpacked() if is_packed and self.readable else bytes(self._body)
        if self._is_accepted and self.readable:
            if not content:
                raise self._cut_off("the answer has no body")
            has_length = self._response.headers.keys() & {"content-length", "transfer-encoding"}
            # Without a length, HTTP takes a body that was cut off for a complete one.
            if not (is_packed or has_length) and _is_cut(content):
                raise self._cut_off("the body ends too early")
        return Answer(self._response.status_code, self._response.headers, content)

    def _unpacked(self) -> bytes:
        content = bytearray()
        try:
            with gzip.open(io.BytesIO(self._body)) as file:
                while part := file.read(_PIECE):
                    content += part
                    if not self._has_room(len(content)):
                        break
        except EOFError:
            if self._is_accepted:
                raise self._cut_off("the gzip ends too early") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise httpx.DecodingError(str(error), request=self._step.request) from None
        return bytes(content)

    def _has_room(self, size: int) -> bool:
        """Return whether to read on after ``size`` bytes; raise DecodeError if an accepted answer is too long."""
        if self._is_accepted and size > self._max_body:
            raise DecodeError(
                f"{self._step.request.url.path}: the body is longer than max_body, {self._max_body} bytes; ask "
                "for less at a time, or give the client a larger max_body"
            )
        return size < self._max_body or self._is_accepted

    def _cut_off(self, why: str) -> httpx.HTTPError:
        return httpx.RemoteProtocolError(why, request=self._step.request)


_PIECE = 2**20
"""How much to decompress at once. [byte]"""

_GZIP = ("gzip", "x-gzip")


def is_readable(headers: httpx.Headers) -> bool:
    """Return whether a body is gzip, for which the client asked, or not compressed."""
    return _encoding(headers) in {"", "identity", *_GZIP}


def _encoding(headers: httpx.Headers) -> str:
    return str(headers.get("content-encoding", "")).strip().lower()


def _is_cut(body: bytes) -> bool:
    """Return whether an Arrow stream or a JSON document lacks its end."""
    if body.startswith(ARROW_BEGIN):
        return not body.endswith(ARROW_END)
    # Counting brackets is faster than parsing. It is exact unless there are brackets in strings.
    opening, closing = (sum(map(body.count, brackets)) for brackets in ((b"{", b"["), (b"}", b"]")))
    if opening <= closing:
        return False
    try:
        orjson.loads(body)
    except ValueError:
        return True
    return False  # the brackets were in strings


def closed_error() -> TransportError:
    """Return the error of a client that is used after it was closed."""
    return TransportError("the client is closed; make another one")


def outward(error: TidytapeError) -> TidytapeError:
    """Return an error without its cause and without the traceback inside the library; its message says everything.

    Raise the error outside of the ``except`` block that caught it. Then its context is at most an error that the caller
    of the library was handling.
    """
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = False
    return error.with_traceback(None)


_LONGEST_TEXT = 500


def printable(text: str) -> str:
    """Return the beginning of a text from outside, with control characters written out."""
    shown = escaped(text[: _LONGEST_TEXT + 1])
    return shown if len(shown) <= _LONGEST_TEXT else shown[: _LONGEST_TEXT - 1] + "…"
