"""One request until it is answered: admitted by the budget, sent, tried again, or told as the error it is."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import orjson
import tenacity

from tidytape._version import __version__
from tidytape.client.display import FIELDS, lasting
from tidytape.client.network import transport_error
from tidytape.client.quota import Line, reported
from tidytape.client.settings import Settings
from tidytape.client.steps import Answer, Failure, Flow, Send, Wait, is_readable, printable
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    CertificateError,
    DecodeError,
    QueryError,
    RateLimitError,
    ServerError,
    ServiceError,
    TierError,
    TransportError,
)

__all__ = ["Tally", "ask", "is_too_long", "refuse_to_wait"]


def ask(
    settings: Settings,
    path: str,
    params: list[tuple[str, str]],
    *,
    accept: str,
    cost: int,
    until: float | None = None,
    waits: Callable[[float], None] | None = None,
    tally: Tally | None = None,
) -> Flow[Answer]:
    """Send one GET until it is answered, the attempts are used up or the deadline would pass.

    Parameters
    ----------
    settings : Settings
    path : str
        Beginning with ``/v1/``.
    params : list of (str, str)
        URL parameters.
    accept : str
        Media types that are understood.
    cost : int
        Weight of the request. [weight]
    until : float, optional
        When to give up, on the clock of ``time.monotonic``; the deadline of the settings from the moment on that the
        budget admits the request, if left out. [s]
    waits : callable, optional
        Is told how long the budget makes the request wait. [s]
    tally : Tally, optional
        Counts what is sent.

    Returns
    -------
    Answer
        Of status 200, without the key, should the service have repeated it.

    Raises
    ------
    BudgetError
        If the budget is used up, and the client was told not to wait, or not for so long.
    ServiceError
        If there was no answer; which one says why.
    """
    if settings.offline:
        raise TransportError(f"{path}: the client is offline", url=settings.base_url + path, weight=cost)
    yield from _admitted(settings, cost, waits)
    taken, tally = cost, tally or Tally()
    try:
        if until is None:
            until = time.monotonic() + settings.deadline
        pause: list[float] = []
        patience: Callable[[tenacity.RetryCallState], float] = _backing_off
        retrying = tenacity.Retrying(
            retry=_MAY_PASS,
            stop=lambda state: (
                state.attempt_number >= settings.attempts or time.monotonic() + state.upcoming_sleep >= until
            ),
            wait=lambda state: patience(state),  # noqa: PLW0108 - the one of the last failure
            sleep=pause.append,  # it only notes the pause; the driver carries it out
            reraise=True,
        )
        for attempt in retrying:
            while pause:
                yield Wait(pause.pop())
            with attempt:
                step = Send(_request(settings, path, params, accept, until), until, settings.max_body)
                line = settings.quota.line
                answer = (yield step) if step.remaining else TimeoutError()
                if not isinstance(answer, _UNSENT):
                    tally.requests += 1
                patience = _backing_off
                if isinstance(answer, Answer):
                    answer = settings.secret.hidden_answer(answer)
                    settings.quota.is_heard = True
                    accepted = answer.status == httpx.codes.OK
                    _listen(settings, answer, taken=taken if accepted else 0, sent=line)
                    if accepted:
                        tally.weight += cost
                        taken = 0
                        _check_readable(answer, step.request)
                        return answer
                    raise _refused(answer, step.request, cost)
                if step.accepted:  # the service has charged for it, though not all of it arrived
                    tally.weight += cost
                    _listen(settings, Answer(httpx.codes.OK, step.accepted[-1], b""), taken=taken, sent=line)
                    settings.quota.take(taken)
                if isinstance(answer, httpx.ConnectError):
                    patience = _RESTARTING if settings.quota.is_heard else _NOT_THERE
                raise _transport_error(answer, step, settings, cost)
        raise AssertionError("tenacity returns or raises")  # pragma: no cover
    finally:
        if taken:
            settings.quota.give_back(taken)


@dataclass(slots=True)
class Tally:
    """What a fetch has sent so far.

    Attributes
    ----------
    requests : int
        How many requests were sent, each time that one was sent again included.
    weight : int
        What those weigh that the service accepted, whether or not all of the answer arrived. [weight]
    """

    requests: int = 0
    weight: int = 0


_MAY_PASS = tenacity.retry_if_exception_type(
    (RateLimitError, ServerError, TransportError)
) & tenacity.retry_if_not_exception_type(CertificateError)
"""What may be gone when the same is sent again."""

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Failures before anything was sent."""

_SLICE = 5.0
"""How long to wait for the budget at a stretch; the rest is reckoned anew, by what the service says meanwhile. [s]"""


def _admitted(settings: Settings, cost: int, waits: Callable[[float], None] | None) -> Flow[None]:
    """Take the weight from the budget, as far as it is known, and wait until it is there."""
    if not cost:
        return
    available = settings.quota.available
    taken = settings.quota.take(cost)
    try:
        while wait := taken.wait:
            refuse_to_wait(settings, wait, cost, available)
            if waits is not None:
                waits(wait)
            yield Wait(min(wait, _SLICE))
    except BaseException:
        taken.give_up()
        raise


def is_too_long(settings: Settings, wait: float) -> bool:
    """Whether the client may not wait so long for the budget. [s]"""
    return settings.max_wait is not None and wait > settings.max_wait


def refuse_to_wait(settings: Settings, wait: float, cost: int, available: int) -> None:
    """Raise BudgetError where the budget would make the client wait longer than it may."""
    quota, most = settings.quota, settings.max_wait
    if not is_too_long(settings, wait):
        return
    bound = f", and max_wait is {lasting(most)}" if most else ""
    raise BudgetError(
        f"weight {cost:,} is more than the {available:,} left; it will be there in {lasting(wait)}, at "
        f"{quota.per_minute:,} a minute and {quota.burst:,} at once{bound}",
        weight=cost,
        available=available,
        seconds=wait,
    )


def _listen(settings: Settings, answer: Answer, *, taken: int, sent: Line) -> None:
    """Learn of the budget from what a response says of it."""
    told = reported(answer.headers, now=answer.sent_at)  # by the clock of the service, as the reset is
    if told is None:
        settings.quota.used(taken)
        return
    limit, remaining, reset = told
    settings.quota.heard(limit=limit, remaining=remaining, reset=reset, taken=taken, sent=sent)


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
            settings.auth_header: settings.secret.value,
            "Accept": accept,
            "Accept-Encoding": "gzip",
            "User-Agent": f"tidytape/{__version__}",
        },
        extensions={"timeout": httpx.Timeout(timeout).as_dict()},
    )


_NOT_THERE = tenacity.wait_random_exponential(multiplier=0.5, max=0.4)
"""Pauses where nothing listens and never did: whoever mistyped a port should hear of it soon. [s]"""

_RESTARTING = tenacity.wait_exponential(multiplier=0.5, max=30) + tenacity.wait_random(0, 0.5)
"""Pauses where a service has answered before and nothing listens now: long enough for it to start again. [s]"""

_FAILING = tenacity.wait_random_exponential(multiplier=0.5, max=30)
"""Pauses after a service that is there has failed: longer each time, at random so that clients do not move in step."""


def _backing_off(state: tenacity.RetryCallState) -> float:
    """Wait as long as the service says, if it says so."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ServiceError) and error.retry_after is not None:
        return error.retry_after
    return float(_FAILING(state))


_CLOSE = 0.01
"""What may be left of the deadline when a timeout that was cut down to it strikes. [s]"""


def _transport_error(failure: Failure, step: Send, settings: Settings, cost: int) -> TransportError:
    """Return what the library says when no usable response came back."""
    late = isinstance(failure, httpx.TimeoutException) and step.remaining < _CLOSE
    if late or isinstance(failure, TimeoutError):
        said = f"no whole answer within the deadline of {settings.deadline:g} s, retries and waits included"
    else:
        said = f"{type(failure).__name__}: {printable(settings.secret.hidden(str(failure)))}"
    return transport_error(failure, step.request.url, said, cost)


def _check_readable(answer: Answer, request: httpx.Request) -> None:
    """Raise DecodeError where the body is packed in another way than asked for, or is a web page.

    A web page comes from a portal, a proxy, or another server than the service.
    """
    if not is_readable(answer.headers):
        encoding = printable(answer.headers["content-encoding"])
        raise DecodeError(f"{request.url.path}: the body is encoded as {encoding}, asked for was gzip")
    if not answer.content[:_BLANK].lstrip().startswith(b"<"):
        return
    kind = printable(answer.headers.get("content-type", "")) or "no content type"
    raise DecodeError(
        f"{request.url.copy_with(query=None)}: answered HTTP {answer.status} with a page ({kind}), neither JSON nor "
        "Arrow; is the address of the service right?"
    )


_BLANK = 1_024
"""In how much of a body to look for its first character. [byte]"""


def _refused(answer: Answer, request: httpx.Request, cost: int) -> Exception:
    """Turn any status but 200 into the error it means."""
    status = answer.status
    code, message = _said(answer)
    facts: dict[str, Any] = {
        "status": status,
        "code": code,
        "url": str(request.url),
        "weight": cost,
        "request_id": printable(answer.headers.get("x-request-id", "")) or None,
        "retry_after": _retry_after(answer),
    }
    text = f"HTTP {status} {code or ''}".strip() + f": {message}"
    if status in _WRONG or code == "POINT_LIMIT_EXCEEDED":
        return _refused_query(message, code or "INVALID_PARAMS", status)
    if status == httpx.codes.UNAUTHORIZED:
        return AuthenticationError(text, **facts)
    if status == httpx.codes.FORBIDDEN:
        return TierError(text, **facts)
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return RateLimitError(text, **facts)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR or status in _NOT_READY:
        return ServerError(text, **facts)
    return ServiceError(f"{text}; is the address of the service right?", **facts)


_NOT_READY = {httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_EARLY}

_WRONG = {
    httpx.codes.BAD_REQUEST,
    httpx.codes.REQUEST_URI_TOO_LONG,
    httpx.codes.REQUEST_HEADER_FIELDS_TOO_LARGE,
}


_FACTS = re.compile(r"got (?P<got>.+?), expected (?P<expected>.+?)(?:; (?P<hint>.+))?", re.DOTALL)
"""How a refusal of our service is worded."""


def _refused_query(message: str, code: str, status: int) -> QueryError:
    """Read what the service says of a parameter, and name it as a caller in Python does."""
    parameter, colon, rest = message.partition(": ")
    field = FIELDS.get(parameter, parameter) if colon else "request"
    found = _FACTS.fullmatch(rest)
    return QueryError(
        field,
        got=found["got"] if found else rest or message,
        expected=found["expected"] if found else "a request the service accepts",
        hint=found["hint"] if found else None,
        code=code,
        status=status,
        message=f"{field}: {rest or message} ({code})",
    )


def _said(answer: Answer) -> tuple[str | None, str]:
    """Read the error shape; a body of any other shape is quoted. Both are for a terminal, so nothing in them acts."""
    try:
        body = orjson.loads(answer.content)
        return printable(str(body["error"])), printable(str(body["message"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        quoted = printable(answer.content.decode("utf-8", "replace").strip())[:200]
        return None, quoted or httpx.codes.get_reason_phrase(answer.status)


def _retry_after(answer: Answer) -> float | None:
    """Return the seconds to wait, from a number or a date; None where it says nothing or asks to come back at once."""
    said = answer.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            moment = parsedate_to_datetime(said)
            # A date without a zone is in UTC.
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = moment.timestamp() - answer.sent_at
        except (ValueError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds > _AT_ONCE else None


_AT_ONCE = 0.01
"""To come back so soon is no answer to when. [s]"""
