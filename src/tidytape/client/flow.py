"""The protocol of a fetch, without I/O: what to send, when to wait, what an answer means.

A flow is a generator. It yields ``Send`` and is given the response, or yields ``Wait`` and is given nothing; what it
returns is the result. ``sync.py`` and ``aio.py`` only carry these out, so there is one protocol for both.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
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
from tidytape.query import MarketsQuery, PointsQuery
from tidytape.schema import MARKETS, schema_of

__all__ = ["Flow", "Send", "Usage", "Wait", "markets", "points", "transport_error", "usage"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request and read the whole body of its response."""

    request: httpx.Request


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this much time pass. [s]"""

    seconds: float


Flow = Generator[Send | Wait, httpx.Response | None, R]


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
        response = yield from _ask(
            settings, "/v1/points", query.to_params(), accept=accept, cost=weight(query)
        )
        frame = _decoded(response, name)
        # Services differ on whether the end of a window belongs to it; ours are half-open, so chunks never overlap.
        start, end = (
            pl.from_epoch(pl.lit(second), "s").dt.cast_time_unit("ns") for second in (query.start, query.end)
        )
        moment = pl.col("timestamp").dt.replace_time_zone(None)
        frames.append(frame.filter((moment >= start) & (moment < end)))
    return _joined(frames, name, newest_first=first.sort_direction == "SORT_DIRECTION_DESC")


def markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets.

    Returns
    -------
    polars.DataFrame
        One row per market, in the service's order.
    """
    pages = []
    offset = query.page_offset
    while True:
        params = query.model_copy(update={"page_offset": offset}).to_params()
        response = yield from _ask(settings, "/v1/markets", params, accept=wire.JSON_MIME, cost=0)
        frame, following = wire.decode_markets(response.content)
        pages.append(frame)
        # The end cannot be told from a full page: ask until one is empty or the offset stands still.
        if frame.is_empty() or following is None or following <= offset:
            return MARKETS.conform(pl.concat(pages, how="diagonal_relaxed"))
        offset = following


def usage(settings: Settings) -> Flow[Usage]:
    """Fetch the quota of the key."""
    response = yield from _ask(settings, "/v1/usage", [], accept=wire.JSON_MIME, cost=0)
    try:
        body = orjson.loads(response.content)
        return Usage(**{name: int(body[name]) for name in Usage.__slots__})
    except (ValueError, TypeError, KeyError) as error:
        raise DecodeError(f"/v1/usage: expected the quota as an object of integers, got {error!r}") from None


# --- one request ----------------------------------------------------------------------------------------------------


def _ask(
    settings: Settings, path: str, params: list[tuple[str, str]], *, accept: str, cost: int
) -> Flow[httpx.Response]:
    """Send one GET until it is answered, the attempts are used up or the deadline would pass."""
    request = httpx.Request(
        "GET",
        settings.base_url + path,
        params=httpx.QueryParams(params),  # type: ignore[arg-type]
        headers={
            settings.auth_header: settings.api_key,
            "Accept": accept,
            "Accept-Encoding": "gzip",
            "User-Agent": f"tidytape/{__version__}",
        },
        extensions={"timeout": httpx.Timeout(settings.timeout).as_dict()},
    )
    pause: list[float] = []
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((RateLimitError, ServerError, TransportError)),
        stop=tenacity.stop_after_attempt(settings.attempts) | tenacity.stop_before_delay(settings.deadline),
        wait=_patience,
        sleep=pause.append,  # it only notes the pause; the driver carries it out
        reraise=True,
    )
    for attempt in retrying:
        while pause:
            yield Wait(pause.pop())
        with attempt:
            response = yield Send(request)
            if response is None:
                raise TransportError("the driver gave no response", url=str(request.url), weight=cost)
            if response.status_code == httpx.codes.OK:
                return response
            raise _refused(response, request, cost)
    raise AssertionError("tenacity returns or raises")  # pragma: no cover


_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=30)


def _patience(state: tenacity.RetryCallState) -> float:
    """Wait as long as the service says, or else longer each time, at random so that clients do not move in step."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, RateLimitError) and error.retry_after is not None:
        return error.retry_after
    return float(_backoff(state))


def transport_error(error: Exception, request: httpx.Request) -> TransportError:
    """Return what the library says when no usable response came back."""
    hint = "; is a service running there?" if isinstance(error, httpx.ConnectError) else ""
    where = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
    return TransportError(f"{where}: {type(error).__name__}: {error}{hint}", url=str(request.url))


def _refused(response: httpx.Response, request: httpx.Request, cost: int) -> Exception:
    """Turn any status but 200 into the error it means."""
    status = response.status_code
    code, message = _said(response)
    facts: dict[str, Any] = {
        "status": status,
        "code": code,
        "url": str(request.url),
        "weight": cost,
        "request_id": response.headers.get("x-request-id"),
    }
    text = f"HTTP {status} {code or ''}".strip() + f": {message}"
    if status == httpx.codes.BAD_REQUEST or code == "POINT_LIMIT_EXCEEDED":
        return _refused_query(message, code or "INVALID_PARAMS", status)
    if status == httpx.codes.UNAUTHORIZED:
        return AuthenticationError(text, **facts)
    if status == httpx.codes.FORBIDDEN:
        return TierError(text, **facts)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return RateLimitError(text, retry_after=_retry_after(response), **facts)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerError(text, **facts)
    return ServiceError(f"{text}; is the address of the service right?", **facts)


_FIELDS = {wire: field for field, wire in {**MarketsQuery.WIRE, **PointsQuery.WIRE}.items()}


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


def _said(response: httpx.Response) -> tuple[str | None, str]:
    """Read the error shape; a body of any other shape is quoted, in part."""
    try:
        body = orjson.loads(response.content)
        return str(body["error"]), str(body["message"])
    except (ValueError, TypeError, KeyError):
        return None, response.content[:200].decode("utf-8", "replace").strip() or response.reason_phrase


def _retry_after(response: httpx.Response) -> float | None:
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


# --- what is answered -----------------------------------------------------------------------------------------------


def _decoded(response: httpx.Response, name: str) -> pl.DataFrame:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == wire.ARROW_MIME:
        return wire.from_arrow(response.content, name)
    return wire.decode(response.content, name)


def _joined(frames: list[pl.DataFrame], name: str, *, newest_first: bool) -> pl.DataFrame:
    schema = schema_of(name)
    frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")
    frame = schema.conform(frame).sort(
        schema.key,
        descending=[newest_first and column == "timestamp" for column in schema.key],
        maintain_order=True,
    )
    if frame.select(pl.struct(schema.key).is_duplicated().any()).item():
        frame = frame.unique(maintain_order=True)
        clash = frame.filter(pl.struct(schema.key).is_duplicated())
        if not clash.is_empty():
            moments = tuple(clash["timestamp"].dt.epoch("s").unique().sort())
            raise IncompleteDataError(
                f"{name}: {len(moments)} timestamps came twice with different values, the first at {moments[0]}",
                missing=tuple((moment, moment + 1) for moment in moments),
            )
    return frame
