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

import time
import zlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import orjson

from tidytape.errors import DecodeError, TidytapeError, TransportError
from tidytape.wire import ARROW_BEGIN, ARROW_END

__all__ = [
    "FAILURES",
    "Answer",
    "Call",
    "Failure",
    "Flow",
    "Gathering",
    "Send",
    "Step",
    "Together",
    "Wait",
    "closed_error",
    "is_readable",
    "outward",
    "printable",
]

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

    A gzip of a megabyte can hold a gigabyte, so what counts is what comes out of it. Other encodings were not asked
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
        self._parts: list[bytes] = []
        self._size = 0
        if self._accepted:
            step.accepted.append(response.headers)
        self.readable = is_readable(response.headers)
        """Whether the body should be read; a refusal is understood without it."""
        self.is_read = response.is_stream_consumed
        """Whether the transport has read, and unpacked, the body already."""
        packed = _encoding(response.headers) in _GZIP and not self.is_read
        self._gunzip = _Gunzip() if packed else None

    def add(self, part: bytes) -> bool:
        """Take the next part of the body, packed as it is sent; return whether more is of use."""
        if time.monotonic() > self._step.until:
            raise TimeoutError
        if self._gunzip is not None:
            try:
                part = self._gunzip.add(part)
            except zlib.error as error:
                raise httpx.DecodingError(str(error), request=self._step.request) from None
        self._parts.append(part)
        self._size += len(part)
        if not self._accepted:
            return self._size < _MOST_REFUSAL
        if self._size > self._step.max_body:
            raise DecodeError(
                f"{self._step.request.url.path}: the body is longer than max_body, {self._step.max_body} bytes; ask "
                "for less at a time, or give the client a larger max_body"
            )
        return True

    def answer(self) -> Answer:
        """Return the whole."""
        content = b"".join(self._parts)
        if self._accepted and self.readable:
            self._check_whole(content)
        return Answer(self._response.status_code, self._response.headers, content)

    def _check_whole(self, content: bytes) -> None:
        """Raise if the body was cut off; HTTP itself notices that only where it knows the length."""
        lacks = None
        if not content:
            lacks = "the answer has no body"
        elif self._gunzip is not None and not self._gunzip.is_whole:
            lacks = "the gzip ends too early"
        elif not self._response.headers.keys() & {"content-length", "transfer-encoding"} and _is_cut(content):
            lacks = "the body ends too early"
        if lacks:
            raise httpx.RemoteProtocolError(lacks, request=self._step.request)


_GZIP = ("gzip", "x-gzip")


def is_readable(headers: httpx.Headers) -> bool:
    """Return whether a body is gzip, as the client asked for, or not compressed."""
    return _encoding(headers) in {"", "identity", *_GZIP}


def _encoding(headers: httpx.Headers) -> str:
    return str(headers.get("content-encoding", "")).strip().lower()


class _Gunzip:
    """Unpacks a gzip, which may have several members, one after the other."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_GZIP_BITS)

    def add(self, packed: bytes) -> bytes:
        """Decompress the next part."""
        parts = []
        while packed:
            if self._member.eof:
                packed = packed.lstrip(b"\0")  # members may be padded
                if not packed:
                    break
                self._member = zlib.decompressobj(wbits=_GZIP_BITS)
            parts.append(self._member.decompress(packed))
            packed = self._member.unused_data
        return b"".join(parts)

    @property
    def is_whole(self) -> bool:
        return self._member.eof


_GZIP_BITS = 16 + zlib.MAX_WBITS


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
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        for one in text[: _MOST_SAID + 1]
    )
    return shown if len(shown) <= _MOST_SAID else shown[: _MOST_SAID - 1] + "…"
