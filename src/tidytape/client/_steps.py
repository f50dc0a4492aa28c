"""The protocol between a fetch and who carries it out: what to send, when to wait, what came of it. No I/O.

A flow is a generator. It yields a step and is given what came of it; what it returns is the result. ``sync.py`` and
``aio.py`` only carry steps out, so there is one protocol for both.

=============  ==============================================  ================================
step           what to do                                      what comes of it
=============  ==============================================  ================================
`Send`         send a request and gather its answer            an `Answer`, or the failure
`Wait`         let time pass                                   nothing
`Call`         run a function that may block: files            what it returns, or its error
`Together`     carry out several flows at once                 their results, or the first error
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
    """Send this request and gather its answer, or give it up."""

    request: httpx.Request
    until: float
    """When to give it up, on the clock of ``time.monotonic``. [s]"""
    max_body: int
    """Longest body to read. [byte]"""
    accepted: list[httpx.Headers] = field(default_factory=list)
    """What the head of an answer said, once the service has accepted the request, whatever becomes of its body."""

    @property
    def remaining(self) -> float:
        """Time until the request is given up. [s]"""
        return max(0.0, self.until - time.monotonic())


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this much time pass. [s]"""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that arrived whole."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def sent_at(self) -> float:
        """When the service says that it answered; now where it does not say. [s since the epoch]"""
        try:
            return parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return time.time()


FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError)
"""What a driver gives a flow in the place of an answer; a flow decides whether to try again.

Of an address that a redirect names, httpx tells as it reads it, though it is not asked to go there.
"""

Failure = httpx.HTTPError | httpx.InvalidURL | UnicodeError | TimeoutError


@dataclass(frozen=True, slots=True)
class Call:
    """Run a blocking function; the async driver runs it in a thread."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Together:
    """Run these flows at the same time, at most ``parallel`` of the client at once."""

    flows: Sequence[Flow[Any]]


Step = Send | Wait | Call | Together
Flow = Generator[Step, Any, R]

_MOST_REFUSAL = 2**20
"""What is read of a body that only says why there is no answer. [byte]"""


class Gathering:
    """The body of a response while it arrives: unpacked, whole, and bounded in size and in time.

    A gzip of a megabyte can hold a gigabyte, so what comes out of it is bounded too. Other encodings were not asked
    for, and a few bytes of some, or of gzip in gzip, hold more than any memory: they are not read.

    Raises
    ------
    DecodeError
        If the body is longer than ``max_body``.
    TimeoutError
        If a part comes after the time of the request.
    httpx.HTTPError
        If an accepted answer has no body, or one that ends too early, or it is packed wrongly.
    """

    def __init__(self, step: Send, response: httpx.Response) -> None:
        self._step = step
        self._response = response
        self._accepted = response.status_code == httpx.codes.OK
        self._most = step.max_body if self._accepted else _MOST_REFUSAL
        self._body = bytearray()
        if self._accepted:
            step.accepted.append(response.headers)
        self.readable = is_readable(response.headers)
        """Whether the body should be read; a refusal is understood without it."""
        self.is_read = response.is_stream_consumed
        """Whether the transport has read, and unpacked, the body already."""

    def add(self, part: bytes) -> bool:
        """Take the next part of the body, packed as it is sent; return whether more is of use."""
        if time.monotonic() > self._step.until:
            raise TimeoutError
        self._body += part
        return self._has_room(len(self._body))

    def answer(self) -> Answer:
        """Return the whole."""
        is_packed = _encoding(self._response.headers) in _GZIP and not self.is_read
        content = self._unpacked() if is_packed and self.readable else bytes(self._body)
        if self._accepted and self.readable:
            if not content:
                raise self._cut_off("the answer has no body")
            has_length = self._response.headers.keys() & {"content-length", "transfer-encoding"}
            if not (is_packed or has_length) and _is_cut(
                content
            ):  # HTTP itself notices only where it knows the length
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
            if self._accepted:
                raise self._cut_off("the gzip ends too early") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise httpx.DecodingError(str(error), request=self._step.request) from None
        return bytes(content)

    def _has_room(self, size: int) -> bool:
        """Return whether a body may be longer than it is; raise DecodeError if an answer is too long already."""
        if self._accepted and size > self._most:
            raise DecodeError(
                f"{self._step.request.url.path}: the body is longer than max_body, {self._most} bytes; ask "
                "for less at a time, or give the client a larger max_body"
            )
        return size < self._most or self._accepted

    def _cut_off(self, why: str) -> httpx.HTTPError:
        return httpx.RemoteProtocolError(why, request=self._step.request)


_PIECE = 2**20
"""What is unpacked at once. [byte]"""

_GZIP = ("gzip", "x-gzip")


def is_readable(headers: httpx.Headers) -> bool:
    """Return whether a body is gzip, as the client asked for, or not compressed."""
    return _encoding(headers) in {"", "identity", *_GZIP}


def _encoding(headers: httpx.Headers) -> str:
    return str(headers.get("content-encoding", "")).strip().lower()


def _is_cut(body: bytes) -> bool:
    """Return whether an Arrow stream or a JSON document lacks its end."""
    if body.startswith(ARROW_BEGIN):
        return not body.endswith(ARROW_END)
    opened, closed = (sum(map(body.count, brackets)) for brackets in ((b"{", b"["), (b"}", b"]")))
    if opened <= closed:
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
    """Return an error without its cause and traceback inside the library; its message says everything.

    Raise it outside of the ``except`` that caught it, so that what the caller handles at the time is its only context.
    """
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = False
    return error.with_traceback(None)


_MOST_SAID = 500


def printable(text: str) -> str:
    """Return the beginning of a text that came from outside, control characters written out."""
    shown = escaped(text[: _MOST_SAID + 1])
    return shown if len(shown) <= _MOST_SAID else shown[: _MOST_SAID - 1] + "…"
