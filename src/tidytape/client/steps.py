"""The protocol between a fetch and who carries it out: what to send, when to wait, what came of it. No I/O.

A flow is a generator. It yields a step and is given what came of it; what it returns is the result. ``sync.py`` and
``aio.py`` only carry steps out, so there is one protocol for both.

=============  ==============================================  ================================
step           what to do                                      what comes of it
=============  ==============================================  ================================
`Send`         send a request and gather its answer            an `Answer`, or the failure
`Wait`         let time pass                                   nothing
`Call`         call a function that may take time: files       what it returns, or its error
`Together`     carry out several flows at once                 their results, or the first error
=============  ==============================================  ================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from tidytape.errors import DecodeError, TransportError

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
        """What is left of the time. [s]"""
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
    lost: int = 0
    """How often the service answered the same before, of which not all arrived; it will have charged for that."""

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
    """Call this function, where nobody waits for it who should not."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Together:
    """Carry these flows out, at once as far as the client has places for them."""

    flows: Sequence[Flow[Any]]


Step = Send | Wait | Call | Together
Flow = Generator[Step, Any, R]

_MOST_REFUSAL = 2**20
"""What is read of a body that only says why there is no answer. [byte]"""


class Gathering:
    """The body of a response while it arrives: bounded in size and in time.

    A gzip of a megabyte can hold a gigabyte, so what counts is what comes out of it. Other encodings were not asked
    for, and a few bytes of some, or of gzip in gzip, hold more than any memory.

    Raises
    ------
    DecodeError
        If the body is longer than ``max_body``, or encoded as it should not be.
    TimeoutError
        If a part comes after the time of the request.
    """

    def __init__(self, step: Send, response: httpx.Response) -> None:
        self._step = step
        self._response = response
        self._accepted = response.status_code == httpx.codes.OK
        self._parts: list[bytes] = []
        self._size = 0
        if self._accepted:
            step.accepted.append(response.headers)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        self.readable = encoding in {"", "identity", "gzip"}
        """Whether the body should be read; a refusal is understood without it."""
        if not self.readable and self._accepted:
            raise DecodeError(
                f"{step.request.url.path}: the body is encoded as {printable(encoding)}, asked for was gzip"
            )

    def add(self, part: bytes) -> bool:
        """Take the next part of the body; return whether more is of use."""
        if time.monotonic() > self._step.until:
            raise TimeoutError
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
        return Answer(self._response.status_code, self._response.headers, b"".join(self._parts))


def closed_error() -> TransportError:
    """Return the error of a client that is used after it was closed."""
    return TransportError("the client is closed; make another one")


_MOST_SAID = 500


def printable(text: str) -> str:
    """Return the beginning of a text that came from outside, control characters written out."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        for one in text[: _MOST_SAID + 1]
    )
    return shown if len(shown) <= _MOST_SAID else shown[: _MOST_SAID - 1] + "…"
