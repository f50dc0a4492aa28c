"""The protocol of a fetch, without I/O: what to send, when to wait, what an answer means.

A flow is a generator. It yields ``Send`` and is given the answer or the failure, or yields ``Wait`` and is given
nothing; what it returns is the result. ``sync.py`` and ``aio.py`` only carry these out, so there is one protocol for
both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import orjson
import polars as pl
import tenacity

from tidytape import wire
from tidytape._version import __version__
from tidytape.budget import weight
from tidytape.client.settings import Settings
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    IncompleteDataError,
    QueryError,
    RateLimitError,
    ServerError,
    ServiceError,
    TierError,
    TransportError,
)
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.schema import MARKETS, data_type, schema_of

__all__ = [
    "FAILURES",
    "Answer",
    "Failure",
    "Flow",
    "Gathering",
    "Send",
    "Usage",
    "Wait",
    "ask",
    "closed_error",
    "markets",
    "points",
    "usage",
]

R = TypeVar("R")


# --- what a driver is told, and tells -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request and gather its answer, or give it up."""

    request: httpx.Request
    until: float
    """When to give it up, on the clock of ``time.monotonic``. [s]"""
    max_body: int
    """Longest body to read. [byte]"""

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


FAILURES = (httpx.HTTPError, TimeoutError)
"""What a driver gives a flow in the place of an answer; a flow decides whether to try again."""

Failure = httpx.HTTPError | TimeoutError
Flow = Generator[Send | Wait, Answer | Failure | None, R]

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
        encoding = response.headers.get("content-encoding", "").strip().lower()
        self.readable = encoding in {"", "identity", "gzip"}
        """Whether the body should be read; a refusal is understood without it."""
        if not self.readable and self._accepted:
            raise DecodeError(
                f"{step.request.url.path}: the body is encoded as {_printable(encoding)}, asked for was gzip"
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


@dataclass(frozen=True, slots=True)
class Usage:
    """The quota of a key, as the service reports it.

    Attributes
    ----------
    limit : int
        Sustained budget. [weight per window]
    remaining : int
        What is left now. [weight]
    used : int
        What was taken in the last window. [weight]
    reset : int
        Epoch second at which the bucket is full again. [s]
    window_seconds : int
        Length of the window. [s]
    """

    limit: int
    remaining: int
    used: int
    reset: int
    window_seconds: int


# --- what is asked --------------------------------------------------------------------------------------------------


def points(settings: Settings, queries: Sequence[PointsQuery]) -> Flow[pl.DataFrame]:
    """Fetch the requests that together cover one window, and join their frames.

    Returns
    -------
    polars.DataFrame
        In the schema of the queries' data type; rows by series, then time in the direction asked for, then price.

    Raises
    ------
    QueryError
        If the queries are of more than one data type: each type has a frame of its own.
    DecodeError
        If the service sent series of something else.
    IncompleteDataError
        If the service sent a point twice with different values.
    """
    first = queries[0]
    if len(first.type) != 1:
        raise QueryError("type", got=list(first.type), expected="one data type; each has a frame of its own")
    name = first.type[0]
    accept = f"{wire.ARROW_MIME}, {wire.JSON_MIME};q=0.9"
    frames = []
    for query in queries:
        answer = yield from ask(settings, "/v1/points", query.to_params(), accept=accept, cost=weight(query))
        frame = _decoded(answer, name)
        _check_identity(frame, query, name)
        # Services differ on whether the end of a window belongs to it; ours are half-open, so chunks never overlap.
        start, end = (
            pl.from_epoch(pl.lit(second), "s").dt.cast_time_unit("ns") for second in (query.start, query.end)
        )
        moment = pl.col("timestamp").dt.replace_time_zone(None)
        frames.append(frame.filter((moment >= start) & (moment < end)))
    return _joined(frames, first, name)


def markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets, all of them within one deadline.

    Returns
    -------
    polars.DataFrame
        One row per market, in the service's order.

    Raises
    ------
    IncompleteDataError
        If the pages have no end, or a market came twice with different values.
    """
    until = time.monotonic() + settings.deadline
    pages: list[pl.DataFrame] = []
    seen: set[tuple[str | None, ...]] = set()
    offset = query.page_offset
    while len(pages) < _MOST_PAGES:
        params = query.model_copy(update={"page_offset": offset}).to_params()
        answer = yield from ask(settings, "/v1/markets", params, accept=wire.JSON_MIME, cost=0, until=until)
        frame, following = wire.decode_markets(answer.content)
        keys = set(frame.select(MARKETS.key).iter_rows())
        if keys and keys <= seen:
            raise IncompleteDataError(
                f"/v1/markets: the page at {offset} brings nothing that was not on the pages before it; "
                "the service does not heed pageOffset"
            )
        seen |= keys
        pages.append(frame)
        # The end cannot be told from a full page: ask until one is empty or the offset stands still.
        if frame.is_empty() or following is None or following <= offset:
            listed = MARKETS.conform(pl.concat(pages, how="diagonal_relaxed"))
            listed, clash = _once(listed, MARKETS.key)
            if not clash.is_empty():
                exchange, symbol, _ = clash.select(MARKETS.key).row(0)
                raise IncompleteDataError(
                    f"/v1/markets: {_printable(symbol)} of {_printable(exchange)} came twice with different values"
                )
            return listed
        offset = following
    raise IncompleteDataError(
        f"/v1/markets: {_MOST_PAGES} pages and no end; a larger page_size takes fewer, if the service heeds it"
    )


_MOST_PAGES = 10_000


def usage(settings: Settings) -> Flow[Usage]:
    """Fetch the quota of the key."""
    answer = yield from ask(settings, "/v1/usage", [], accept=wire.JSON_MIME, cost=0)
    try:
        body = orjson.loads(answer.content)
        return Usage(**{name: int(body[name]) for name in Usage.__slots__})
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DecodeError(f"/v1/usage: expected the quota as an object of integers, got {error!r}") from None


# --- one request ----------------------------------------------------------------------------------------------------


def ask(
    settings: Settings,
    path: str,
    params: list[tuple[str, str]],
    *,
    accept: str,
    cost: int,
    until: float | None = None,
) -> Flow[Answer]:
    """Send one GET until it is answered, the attempts are used up or the deadline would pass."""
    if until is None:
        until = time.monotonic() + settings.deadline
    pause: list[float] = []
    longest = _HEARD
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((RateLimitError, ServerError, TransportError)),
        stop=lambda state: (
            state.attempt_number >= settings.attempts or time.monotonic() + state.upcoming_sleep >= until
        ),
        wait=lambda state: _patience(state, longest),
        sleep=pause.append,  # it only notes the pause; the driver carries it out
        reraise=True,
    )
    for attempt in retrying:
        while pause:
            yield Wait(pause.pop())
        with attempt:
            step = Send(_request(settings, path, params, accept, until), until, settings.max_body)
            answer = (yield step) if step.remaining else TimeoutError()
            if isinstance(answer, Answer):
                if answer.status == httpx.codes.OK:
                    return answer
                longest = _HEARD
                raise _refused(answer, step.request, cost)
            longest = _UNHEARD if isinstance(answer, httpx.ConnectError) else _HEARD
            raise _transport_error(answer, step, settings.deadline, cost)
    raise AssertionError("tenacity returns or raises")  # pragma: no cover


def _request(
    settings: Settings, path: str, params: list[tuple[str, str]], accept: str, until: float
) -> httpx.Request:
    """Return one GET, whose single steps take no longer than the whole may."""
    timeout = max(0.001, min(settings.timeout, until - time.monotonic()))
    return httpx.Request(
        "GET",
        settings.base_url + path,
        params=httpx.QueryParams(params),  # type: ignore[arg-type]
        headers={
            settings.auth_header: settings.api_key,
            "Accept": accept,
            "Accept-Encoding": "gzip",
            "User-Agent": f"tidytape/{__version__}",
        },
        extensions={"timeout": httpx.Timeout(timeout).as_dict()},
    )


_HEARD = 30.0
"""Longest pause after a service that is there has failed. [s]"""

_UNHEARD = 0.4
"""Longest pause where nothing listens: that seldom passes, and whoever mistyped a port should hear of it soon. [s]"""


def _patience(state: tenacity.RetryCallState, longest: float) -> float:
    """Wait as long as the service says, or else longer each time, at random so that clients do not move in step."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, RateLimitError) and error.retry_after is not None:
        return error.retry_after
    return float(tenacity.wait_random_exponential(multiplier=0.5, max=longest)(state))


_CLOSE = 0.01
"""What may be left of the deadline when a timeout that was cut down to it strikes. [s]"""


def _transport_error(failure: Failure | None, step: Send, deadline: float, cost: int) -> TransportError:
    """Return what the library says when no usable response came back."""
    url = step.request.url
    late = isinstance(failure, httpx.TimeoutException) and step.remaining < _CLOSE
    if late or isinstance(failure, TimeoutError):
        said = f"no whole answer within the deadline of {deadline:g} s, retries and waits included"
    else:
        said = f"{type(failure).__name__}: {_printable(str(failure))}"
    if isinstance(failure, httpx.ConnectError):
        said += "; is a service running there?"
    where = f"{url.scheme}://{url.netloc.decode('ascii')}"
    return TransportError(f"{where}: {said}", url=str(url), weight=cost)


def _refused(answer: Answer, request: httpx.Request, cost: int) -> Exception:
    """Turn any status but 200 into the error it means."""
    status = answer.status
    code, message = _said(answer)
    facts: dict[str, Any] = {
        "status": status,
        "code": code,
        "url": str(request.url),
        "weight": cost,
        "request_id": _printable(answer.headers.get("x-request-id", "")) or None,
    }
    text = f"HTTP {status} {code or ''}".strip() + f": {message}"
    if status in _WRONG or code == "POINT_LIMIT_EXCEEDED":
        return _refused_query(message, code or "INVALID_PARAMS", status)
    if status == httpx.codes.UNAUTHORIZED:
        return AuthenticationError(text, **facts)
    if status == httpx.codes.FORBIDDEN:
        return TierError(text, **facts)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return RateLimitError(text, retry_after=_retry_after(answer), **facts)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerError(text, **facts)
    return ServiceError(f"{text}; is the address of the service right?", **facts)


_WRONG = {
    httpx.codes.BAD_REQUEST,
    httpx.codes.REQUEST_URI_TOO_LONG,
    httpx.codes.REQUEST_HEADER_FIELDS_TOO_LARGE,
}
_FIELDS = {
    wire: field for query in (MetaQuery, MarketsQuery, PointsQuery) for field, wire in query.WIRE.items()
}


def _refused_query(message: str, code: str, status: int) -> QueryError:
    """Read what the service says of a parameter, and name it as a caller in Python does."""
    parameter, colon, rest = message.partition(": ")
    field = _FIELDS.get(parameter, parameter) if colon else "request"
    return QueryError(
        field,
        got=rest or message,
        expected="a request the service accepts",
        code=code,
        status=status,
        message=f"{field}: {rest or message} ({code})",
    )


def _said(answer: Answer) -> tuple[str | None, str]:
    """Read the error shape; a body of any other shape is quoted. Both are for a terminal, so nothing in them acts."""
    try:
        body = orjson.loads(answer.content)
        return _printable(str(body["error"])), _printable(str(body["message"]))
    except (ValueError, TypeError, KeyError):
        quoted = answer.content[:200].decode("utf-8", "replace").strip()
        return None, _printable(quoted) or httpx.codes.get_reason_phrase(answer.status)


_MOST_SAID = 500


def _printable(text: str) -> str:
    """Return the beginning of a text that came from outside, control characters written out."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        for one in text[: _MOST_SAID + 1]
    )
    return shown if len(shown) <= _MOST_SAID else shown[: _MOST_SAID - 1] + "…"


def _retry_after(answer: Answer) -> float | None:
    """Return the seconds to wait, from a number or a date; None where it says nothing or asks to come back at once."""
    said = answer.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            moment = parsedate_to_datetime(said)
            # A date without a zone is in UTC.
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


# --- what is answered -----------------------------------------------------------------------------------------------


def _decoded(answer: Answer, name: str) -> pl.DataFrame:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == wire.ARROW_MIME:
        return wire.from_arrow(answer.content, name)
    return wire.decode(answer.content, name)


def _check_identity(frame: pl.DataFrame, query: PointsQuery, name: str) -> None:
    """Refuse series of something that was not asked for; what a series does not say of itself is accepted."""
    asked: dict[str, set[str]] = {
        column: set(getattr(query, column))
        for column in ("raw_symbol", "normalized_symbol", "coin")
        if getattr(query, column)
    }
    if query.exchange and query.group_by is None:  # a group is of no single exchange
        asked["exchange"] = set(query.exchange)
    if query.interval is not None:
        asked["interval"] = {query.interval.value, query.interval.alias}
    if query.side is not None and data_type(name).per_side:
        asked["side"] = {query.side.value}
    named = asked.keys() & set(frame.columns)
    sent = frame.select(pl.col(column).unique().cast(pl.String).implode() for column in sorted(named))
    for column in named:
        for got in sent[column].item().drop_nulls():
            if got not in asked[column]:
                wanted = " or ".join(sorted(asked[column]))
                raise DecodeError(
                    f"{name}: asked for {column} {wanted}, the service sent {_printable(got)}", data_type=name
                )


def _once(frame: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows without those that repeat another in full, and of them those that share their key."""
    if not frame.select(key).is_duplicated().any():
        return frame, frame.clear()
    frame = frame.unique(maintain_order=True)
    return frame, frame.filter(pl.struct(key).is_duplicated())


def _joined(frames: list[pl.DataFrame], query: PointsQuery, name: str) -> pl.DataFrame:
    schema = schema_of(name)
    key = schema.key_of(grouped=query.group_by is not None)
    newest_first = query.sort_direction == "SORT_DIRECTION_DESC"
    frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")
    frame = schema.conform(frame).sort(
        key,
        descending=[newest_first and column == "timestamp" for column in key],
        maintain_order=True,
    )
    frame, clash = _once(frame, key)
    if not clash.is_empty():
        moments = tuple(clash["timestamp"].dt.epoch("s").unique().sort())
        raise IncompleteDataError(
            f"{name}: {len(moments)} timestamps came twice with different values, the first at {moments[0]}",
            missing=tuple((moment, moment + 1) for moment in moments),
        )
    return frame
