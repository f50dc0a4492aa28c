"""The protocol of a stream: what to send, when to connect again, and which batches the lines make. No I/O.

`Following.batch` is a flow like those of ``_steps.py``, but with three steps of its own, because the driver reads the
stream while the service writes it. The driver has at most one connection at a time.

=========  ==================================================  ===============================================
step       the driver                                          the outcome
=========  ==================================================  ===============================================
`Open`     closes the connection, sends a request              a `Head`, or the failure
`Read`     waits for more of the body                          bytes, none at the end, or the failure
`Pause`    closes the connection, waits                        None
=========  ==================================================  ===============================================
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, get_args

import httpx

from tidytape.catalogue import DATA_TYPES, StreamEnd, TPOSession
from tidytape.client._batches import Reading, StreamBatch, utc_time
from tidytape.client._request import get, is_too_long, listen, may_pass, pause_after, refused
from tidytape.client._settings import Settings, transport_error
from tidytape.client._steps import Answer, Failure, is_readable, printable
from tidytape.client._window import longest
from tidytape.errors import (
    DecodeError,
    QueryError,
    RateLimitError,
    ServerError,
    ServiceError,
    StreamGapError,
    TierError,
)
from tidytape.query import StreamQuery
from tidytape.times import SECOND
from tidytape.wire._stream import LINES_MIME, Batch, over_of_refusal
from tidytape.wire._tidy import epoch_nanoseconds

R = TypeVar("R")

OnGap = Literal["raise", "restart"]

_PATH = "/v1/stream"
SILENCE = 45.0
"""Silence after which a connection counts as dead: three times the 15 s in which a service sends a line. [s]"""
_STEADY = 15.0
"""If a connection lasts longer than this, earlier failures no longer count. [s]"""
_MOST_REFUSAL = 2**20
"""How much of the body of a refusal the client reads. [byte]"""


@dataclass(frozen=True, slots=True)
class Open:
    """Send a request, and wait at most ``seconds`` for the head of its answer."""

    request: httpx.Request
    seconds: float


@dataclass(frozen=True, slots=True)
class Read:
    """Wait at most ``seconds`` for more of the body."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Close the connection, and wait ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer."""

    status: int
    headers: httpx.Headers


StreamStep = Open | Read | Pause
StreamFlow = Generator[StreamStep, Any, R]


class Following:
    """The state of one stream, over all its connections.

    Parameters
    ----------
    settings : Settings
    query : StreamQuery
    reading : Reading
        Decodes the lines of the stream.
    on_gap : {"raise", "restart"}
        What to do if the service can no longer go on from the token.

    Attributes
    ----------
    query : StreamQuery
        The query of the stream.
    token : str or None
        The token of the last batch that was delivered.
    is_over : bool
        Whether the stream has ended.
    """

    def __init__(self, settings: Settings, query: StreamQuery, reading: Reading, *, on_gap: OnGap) -> None:
        self.query, self.token = query, query.token
        self.is_over = False
        self._settings, self._reading = settings, reading
        if on_gap not in get_args(OnGap):
            expected = " or ".join(map(repr, get_args(OnGap)))
            raise QueryError("on_gap", got=on_gap, expected=expected)
        self._on_gap = on_gap
        self._over: dict[str, int] = {}
        """By data type the start of the last interval that is over. [ns since the epoch]"""
        self._newest_trades: dict[str, int] = {}
        """By data type the time of the newest trade that was delivered. [ns since the epoch]"""
        self._gap: tuple[datetime | None, datetime] | None = None
        self._buffer = bytearray()
        self._searched = 0
        """How many bytes at the beginning of the buffer contain no end of a line."""
        self._opened_at: float | None = None
        """When the connection was made, on the clock of ``time.monotonic``; None without a connection. [s]"""
        self._trouble: ServiceError | None = None
        """The error with which the service ended the stream; raised before the next batch."""
        self._failures = 0
        self._failing_since = 0.0
        self._is_unreachable = False
        """Whether nothing listened at the address at the last attempt."""

    def lost(self) -> None:
        """Forget the connection and the beginning of an incomplete line."""
        self._buffer.clear()
        self._searched = 0
        self._opened_at = None

    def batch(self) -> StreamFlow[StreamBatch[Any] | None]:
        """Return the next batch with news; None at the end of the stream.

        Raises
        ------
        StreamGapError
            If the service cannot go on from the token, unless ``on_gap="restart"``.
        DecodeError
            If a line breaks the contract.
        ServiceError
            If the service did not answer within the attempts and the time that the settings allow.
        """
        while not self.is_over:
            try:
                line = yield from self._line()
            except ServiceError as error:
                self.lost()
                yield Pause(self._pause_after(error))
                continue
            batch = self._reading.read(line)
            self._settle(batch)
            if batch.frames or batch.over:
                self._failures = 0
            stream_batch = self._presented(batch)
            if stream_batch.has_news:
                return stream_batch
        if self._gap is not None:  # the gap reaches the end of the stream, so no batch has told it
            return self._presented(Batch(token=self.token or ""))
        return None

    def _presented(self, batch: Batch) -> StreamBatch[Any]:
        """Return a batch for the caller, with the gap before it."""
        gap, self._gap = self._gap, None
        return self._reading.presented(batch, gap)

    def _settle(self, batch: Batch) -> None:
        """Update the state of the stream from a line."""
        self.token = batch.token
        self._over.update(batch.over)
        for (name, _), frame in batch.frames.items():
            # Trades have no intervals that could be over.
            if DATA_TYPES[name].interval_optional and frame.height:
                newest = int(epoch_nanoseconds(frame["timestamp"]).max())
                self._newest_trades[name] = max(newest, self._newest_trades.get(name, 0))
        if batch.end is None:
            return
        code, message = map(printable, batch.end)
        if code == StreamEnd.PERIOD_OVER:
            self.is_over = True
        else:
            self._trouble = ServerError(f"the service ended the stream: {code}: {message}", code=code)

    # --- lines ---

    def _line(self) -> StreamFlow[bytes]:
        """Return the next complete line; connect first if there is no connection."""
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        if self._opened_at is None:
            yield from self._open()
        began = time.monotonic()  # when the line began to arrive
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > self._settings.max_body:
                raise self._too_long()
            remaining = began + self._settings.deadline - time.monotonic() if self._buffer else self._silence
            part = (yield Read(min(self._silence, remaining))) if remaining > 0 else TimeoutError()
            if isinstance(part, Failure):
                raise self._failed(part)
            if not part:
                raise self._failed(httpx.RemoteProtocolError("the stream was cut"))
            if not self._buffer:
                began = time.monotonic()
            self._buffer += part
        if end > self._settings.max_body:
            raise self._too_long()
        line = bytes(memoryview(self._buffer)[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        if self._opened_at is not None and time.monotonic() - self._opened_at > _STEADY:
            self._failures = 0
        return self._settings.secret.hidden_answer(Answer(httpx.codes.OK, httpx.Headers(), line)).content

    def _too_long(self) -> DecodeError:
        return DecodeError(
            f"{_PATH}: a line is longer than max_body, {self._settings.max_body} bytes; stream less at a time, or give "
            "the client a larger max_body"
        )

    @property
    def _silence(self) -> float:
        """The longest wait for the next part of the body. [s]"""
        return max(SILENCE, self._settings.timeout)

    # --- connections ---

    def _open(self) -> StreamFlow[None]:
        """Request the stream, from the token on."""
        settings, line = self._settings, self._settings.quota.line
        query = self.query.model_copy(update={"token": self.token})
        if self.token is not None and query.end is None:  # the token contains the start of the stream
            query = query.model_copy(update={"start": None})
        # Without compression: it would need a flush after each line, and a limit for the decompressed line.
        self._request = get(
            settings, _PATH, query.to_params(), LINES_MIME, self._silence, encoding="identity"
        )
        head = yield Open(self._request, self._silence)
        if not isinstance(head, Head):
            raise self._failed(head)
        settings.quota.is_heard, self._is_unreachable = True, False
        listen(settings, Answer(head.status, head.headers, b""), taken=0, sent=line)
        if head.status != httpx.codes.OK:
            yield from self._refusal(head)
        if not is_readable(head.headers) or "gzip" in head.headers.get("content-encoding", ""):
            encoding = printable(head.headers["content-encoding"])
            raise DecodeError(f"{_PATH}: the stream is encoded as {encoding}, and no encoding was asked for")
        self._opened_at = time.monotonic()

    def _refusal(self, head: Head) -> StreamFlow[None]:
        """Read the answer of a service that refuses the stream, and raise the error for it."""
        body = bytearray()
        until = time.monotonic() + self._settings.timeout
        while is_readable(head.headers) and len(body) < _MOST_REFUSAL:
            remaining = until - time.monotonic()
            part = (yield Read(remaining)) if remaining > 0 else b""
            if isinstance(part, Failure) or not part:  # a refusal is understood without its body
                break
            body += part
        answer = self._settings.secret.hidden_answer(Answer(head.status, head.headers, bytes(body)))
        for name, start in over_of_refusal(answer.content, self.query.type).items():
            # The token says which intervals were over; a stream that begins with it does not know that.
            self._over.setdefault(name, start)
        raise refused(answer, self._request, 0)

    def _failed(self, failure: Failure) -> ServiceError:
        """Return the error of a connection that failed."""
        url = self._request.url
        why = f"{type(failure).__name__}: {printable(self._settings.secret.hidden(str(failure)))}"
        if isinstance(failure, TimeoutError):
            why = f"the stream fell silent for {self._silence:g} s, or a line took longer than the deadline"
        self._is_unreachable = isinstance(failure, httpx.ConnectError)
        return transport_error(failure, url, why, 0)

    # --- failures ---

    def _pause_after(self, error: ServiceError) -> float:
        """Return how long to wait before the next attempt; raise the error if there is no further attempt. [s]"""
        settings, now = self._settings, time.monotonic()
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        if self.token is not None and error.code == StreamEnd.TOKEN_EXPIRED:
            self._start_anew()
        elif not (may_pass(error) or self._is_own_place(error)):
            raise error
        pause = pause_after(error, self._failures, settings=settings, is_unreachable=self._is_unreachable)
        is_late = now + pause - self._failing_since > settings.deadline
        if self._failures >= settings.attempts or is_late:
            raise error
        if isinstance(error, RateLimitError) and is_too_long(settings, pause):
            raise error
        return pause

    def _is_own_place(self, error: ServiceError) -> bool:
        """Return whether the service may refuse the stream because it still counts this stream's last connection."""
        is_refused = isinstance(error, TierError) and error.code == "STREAM_LIMIT_EXCEEDED"
        return is_refused and self.token != self.query.token

    # --- gaps ---

    def _start_anew(self) -> None:
        """Go on without the token, from the first interval that was not final, or raise StreamGapError."""
        token, query = self.token, self.query
        starts = [self._begin(name) for name in query.type]
        begin = min((start for start in starts if start is not None), default=None)
        if None in starts:
            begin = query.start
        if self._on_gap == "raise" or begin is None:
            hint = (
                "on_gap='restart' starts anew from the first interval that was not final, and marks the batch"
            )
            if begin is None:
                hint = "start names a time to start anew from"
            over = {name: utc_time(start) for name, start in self._over.items()}
            raise StreamGapError(
                f"{', '.join(query.type)}: the service can no longer go on from the token; {_over_in_words(over)}; "
                f"{hint}",
                data_types=query.type,
                over=over,
                token=token,
            )
        start = None if query.start is None else utc_time(query.start * SECOND)
        self._gap = start, utc_time(begin * SECOND)
        self.token = None
        self.is_over = query.end is not None and begin >= query.end
        self.query = query.model_copy(update={"start": begin, "token": None})

    def _begin(self, name: str) -> int | None:
        """Return the time from which points of a data type are needed again; None if unknown. [s since the epoch]"""
        if name in self._over:
            return self._after(self._over[name])
        newest = self._newest_trades.get(name)
        return self.query.start if newest is None else newest // SECOND

    def _after(self, start: int) -> int:
        """Return the end of the interval or session that starts at ``start`` [ns]. [s since the epoch]"""
        second = start // SECOND
        query = self.query.window(0, 1)[0]
        if query.tpo_session is TPOSession.MONTHLY:
            begin = datetime.fromtimestamp(second, UTC)
            later = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
            return int(later.timestamp())
        return second + longest(query)


def _over_in_words(over: dict[str, datetime]) -> str:
    if not over:
        return "which intervals were over is not known here"
    return "over were " + ", ".join(f"{name} up to {start:%Y-%m-%d %H:%M:%S}" for name, start in over.items())
