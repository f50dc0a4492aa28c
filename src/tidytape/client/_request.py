"""One request: its wait for the budget, its retries, and its answer or error. Also the requests for lists."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

import httpx
import orjson
import polars as pl

from tidytape import wire
from tidytape._version import __version__
from tidytape.client._budget import Line, Usage, reported
from tidytape.client._display import FIELDS, lasting
from tidytape.client._settings import Settings, transport_error
from tidytape.client._steps import Answer, Failure, Flow, Send, Wait, is_readable, printable
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    CertificateError,
    DecodeError,
    IncompleteDataError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    TidytapeError,
    TierError,
    TransportError,
    worded,
)
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.query._base import ROUTES
from tidytape.schema import HOLDINGS, MARKETS, PREDICTION_MARKETS
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._holdings import decode_holdings
from tidytape.wire._tidy import concatenated

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


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
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Flow[Answer]:
    """Send one GET again and again, until it is answered, the attempts are used up or the deadline would pass.

    Parameters
    ----------
    settings : Settings
    path : str
        Beginning with ``/v1/``.
    params : list of (str, str)
        URL parameters.
    accept : str
        Media types that the caller can decode.
    cost : int
        Weight of the request. [weight]
    until : float, optional
        When to give up, on the clock of ``time.monotonic``. By default the deadline of the settings counts from the
        time at which the budget admits the request. [s]
    waits : callable, optional
        Called with the time that the request has to wait for the budget. [s]
    tally : Tally, optional
        Counts the requests and their weight.
    headers : mapping of str to str
        More headers of the request.

    Returns
    -------
    Answer
        The answer, whose status is 200. If the service repeated the key in it, the key is removed.

    Raises
    ------
    BudgetError
        If the request would have to wait for the budget longer than ``max_wait``.
    ServiceError
        If there was no answer; the class of the error says why.
    """
    if settings.offline:
        raise TransportError(f"{path}: the client is offline", url=settings.base_url + path, weight=cost)
    yield from _admitted(settings, cost, waits)
    tally = tally or Tally()
    charge = cost  # the weight to give back, because no answer has charged it yet
    try:
        if until is None:
            until = time.monotonic() + settings.deadline
        attempt = 0
        while True:
            attempt += 1
            timeout = max(0.001, min(settings.timeout, until - time.monotonic()))
            request = get(settings, path, params, accept, timeout)
            request.headers.update(headers)
            step = Send(request, until, settings.max_body)
            line = settings.quota.line
            answer = (yield step) if step.remaining else TimeoutError()
            if not isinstance(answer, _UNSENT):
                tally.requests += 1
            try:
                if isinstance(answer, Answer):
                    answer = settings.secret.hidden_answer(answer)
                    settings.quota.is_heard = True
                    is_accepted = answer.status == httpx.codes.OK
                    listen(settings, answer, taken=charge if is_accepted else 0, sent=line)
                    if is_accepted:
                        tally.weight += cost
                        charge = 0
                        _check_readable(answer, step.request)
                        return answer
                    raise refused(answer, step.request, cost)
                # The service has charged the weight, although its answer is incomplete. If the request is sent again,
                # it takes its weight once more.
                if step.accepted:
                    tally.weight += cost
                    listen(settings, Answer(httpx.codes.OK, step.accepted[-1], b""), taken=charge, sent=line)
                    settings.quota.take(charge)
                raise _transport_error(answer, step, settings, cost)
            except _TEMPORARY as error:
                is_unreachable = isinstance(answer, httpx.ConnectError)
                pause = pause_after(error, attempt, settings=settings, is_unreachable=is_unreachable)
                is_last = attempt >= settings.attempts or time.monotonic() + pause >= until
                if is_last or not may_pass(error):
                    raise
            yield Wait(pause)
    finally:
        if charge:
            settings.quota.give_back(charge)


@dataclass(slots=True)
class Tally:
    """The number and weight of the requests that a fetch has sent.

    Attributes
    ----------
    requests : int
        How many requests were sent; a request that was sent again counts again.
    weight : int
        The weight of the requests that the service accepted, whether or not their answers arrived completely. [weight]
    """

    requests: int = 0
    weight: int = 0


def may_pass(error: BaseException) -> bool:
    """Return whether the same request may succeed if the client sends it again."""
    return isinstance(error, _TEMPORARY) and not isinstance(error, CertificateError)


_TEMPORARY = (RateLimitError, ServerError, TransportError)

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Failures that happen before the client has sent anything."""

_SLICE = 5.0
"""The longest single pause of a wait for the budget; after each pause the client computes anew how long to wait. [s]"""


def _admitted(settings: Settings, cost: int, waits: Callable[[float], None] | None) -> Flow[None]:
    """Take the weight of a request from the budget, and wait until the budget has it."""
    if not cost:
        return
    available = settings.quota.available
    reservation = settings.quota.take(cost)
    try:
        while wait := reservation.wait:
            refuse_to_wait(settings, wait, cost, available)
            if waits is not None:
                waits(wait)
            yield Wait(min(wait, _SLICE))
    except BaseException:
        reservation.give_up()
        raise


def is_too_long(settings: Settings, wait: float) -> bool:
    """Return whether a budget wait is longer than ``max_wait``. [s]"""
    return settings.max_wait is not None and wait > settings.max_wait


def refuse_to_wait(settings: Settings, wait: float, cost: int, available: int) -> None:
    """Raise BudgetError if the client would wait for the budget longer than ``max_wait``."""
    quota, max_wait = settings.quota, settings.max_wait
    if not is_too_long(settings, wait):
        return
    bound = ""
    if max_wait:
        enough = f"``max_wait={math.ceil(wait)}`` allows it, and ``max_wait=None`` any wait"
        bound = f", and ``max_wait`` is {lasting(max_wait)}; {enough}"
    raise BudgetError(
        f"weight {cost:,} is more than the {available:,} left; it will be there in {lasting(wait)}, at "
        f"{quota.per_minute:,} a minute and {quota.burst:,} at once{bound}",
        weight=cost,
        available=available,
        seconds=wait,
    )


def listen(settings: Settings, answer: Answer, *, taken: int, sent: Line) -> None:
    """Update the budget from the headers of a response."""
    budget = reported(answer.headers, now=answer.sent_at)  # both times are by the clock of the service
    if budget is None:
        settings.quota.used(taken)
        return
    limit, remaining, reset = budget
    settings.quota.heard(limit=limit, remaining=remaining, reset=reset, taken=taken, sent=sent)


def get(
    settings: Settings,
    path: str,
    params: list[tuple[str, str]],
    accept: str,
    timeout: float,
    *,
    encoding: str = "gzip",
) -> httpx.Request:
    """Return one GET; each of its steps, such as connecting or reading, may take ``timeout``. [s]"""
    return httpx.Request(
        "GET",
        settings.base_url + path,
        params=httpx.QueryParams(params),  # type: ignore[arg-type]
        headers={
            settings.auth_header: settings.secret.value,
            "Accept": accept,
            "Accept-Encoding": encoding,
            "User-Agent": f"tidytape/{__version__}",
        },
        extensions={"timeout": httpx.Timeout(timeout).as_dict()},
    )


def pause_after(error: ServiceError, attempt: int, *, settings: Settings, is_unreachable: bool) -> float:
    """Return how long to wait after ``attempt`` failures in a row, the last of which is ``error``. [s]

    ``is_unreachable`` says whether nothing listens at the address.
    """
    if is_unreachable:
        return _restarting(attempt) if settings.quota.is_heard else _not_there(attempt)
    return _failing(attempt) if error.retry_after is None else error.retry_after


def _not_there(attempt: int) -> float:
    """Return a pause if nothing has ever listened: a user who mistyped a port gets the error soon. [s]"""
    return random.uniform(0.0, _doubled(attempt, longest=0.4))


def _restarting(attempt: int) -> float:
    """Return a pause if a service that answered before does not listen now: long enough for a restart. [s]"""
    return _doubled(attempt, longest=30.0) + random.uniform(0.0, 0.5)


def _failing(attempt: int) -> float:
    """Return a pause after failures of a running service: random, so that clients do not retry in step. [s]"""
    return random.uniform(0.0, _doubled(attempt, longest=30.0))


def _doubled(attempt: int, *, longest: float) -> float:
    """Return half a second, doubled with each attempt after the first. [s]"""
    return min(0.5 * 2.0 ** min(attempt - 1, 10), longest)


_NEAR_DEADLINE = 0.01
"""A timeout that comes this shortly before the deadline counts as the deadline. [s]"""


def _transport_error(failure: Failure, step: Send, settings: Settings, cost: int) -> TransportError:
    """Return the error of a request that brought no usable response."""
    is_deadline = isinstance(failure, httpx.TimeoutException) and step.remaining < _NEAR_DEADLINE
    if is_deadline or isinstance(failure, TimeoutError):
        why = f"no whole answer within the deadline of {settings.deadline:g} s, retries and waits included"
    else:
        why = f"{type(failure).__name__}: {printable(settings.secret.hidden(str(failure)))}"
    return transport_error(failure, step.request.url, why, cost)


def _check_readable(answer: Answer, request: httpx.Request) -> None:
    """Raise DecodeError if the body has an encoding that the client did not request, or is a web page.

    A web page comes from a login portal, a proxy, or any server that is not the service.
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
"""How much white space may stand before the first character of a body. [byte]"""


def refused(answer: Answer, request: httpx.Request, cost: int) -> Exception:
    """Return the error of an answer whose status is not 200."""
    status = answer.status
    code, message, query_facts = _body_of_refusal(answer)
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
        return refused_query(message, query_facts, code or "INVALID_PARAMS", status)
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


_IN_PYTHON = {**FIELDS, **{route: call for call, route in ROUTES.items()}}
"""The names in Python of the parameters and the routes of the API."""


def refused_query(message: str, facts: Mapping[str, str], code: str, status: int) -> RefusedQueryError:
    """Return the error of a refused query. A service that sends no ``facts`` says everything in its message."""
    before_colon, colon, after_colon = message.partition(": ")
    name = facts.get("parameter", before_colon if colon else "request")
    name, text = _IN_PYTHON.get(name, name), after_colon or message
    got: str | None = text
    hint: str | None = None
    expected = "a request the service accepts"
    if "expected" in facts:
        got, expected = facts.get("got"), _in_python(facts["expected"])
        hint = _in_python(facts["hint"]) if "hint" in facts else None
        text = f"{f'got {got}' if got else 'left out'}, expected {expected}{f'; {hint}' if hint else ''}"
    return RefusedQueryError(
        name,
        got=got,
        expected=expected,
        hint=hint,
        code=code,
        status=status,
        message=f"``{name}``: {text} ({code})",
    )


def _in_python(text: str) -> str:
    """Return a text of our service in which each marked parameter has its name in Python, still marked."""
    return worded(text, lambda name: f"``{_IN_PYTHON.get(name, name)}``")


def _body_of_refusal(answer: Answer) -> tuple[str | None, str, dict[str, str]]:
    """Return the code, the message and the facts of a refusal, with control characters escaped.

    If the body is not a refusal as the contract has it, the message quotes the body.
    """
    try:
        body = orjson.loads(answer.content)
        facts = {name: printable(body[name]) for name in _FACTS if isinstance(body.get(name), str)}
        return printable(str(body["error"])), printable(str(body["message"])), facts
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        quoted = printable(answer.content.decode("utf-8", "replace").strip())[:200]
        return None, quoted or httpx.codes.get_reason_phrase(answer.status), {}


_FACTS = ("parameter", "got", "expected", "hint")


def _retry_after(answer: Answer) -> float | None:
    """Return how long ``Retry-After``, a number or a date, asks to wait; None if it is absent or means at once. [s]"""
    header = answer.headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
            # A date without a zone is in UTC.
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = date.timestamp() - answer.sent_at
        except (ValueError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds > _AT_ONCE else None


_AT_ONCE = 0.01
"""A ``Retry-After`` of at most this says nothing about when to retry. [s]"""


# --- lists and the quota ---


_NESTED_COLUMN = "prediction_markets"


def markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets, all pages within one deadline.

    Returns
    -------
    polars.DataFrame
        One row per market, in the service's order. If the order changes between two pages, a market may come twice;
        then its last row counts.

    Raises
    ------
    IncompleteDataError
        If the pages have no end.
    """
    until = time.monotonic() + settings.deadline
    pages: list[pl.DataFrame] = []
    known_keys: set[tuple[str | None, ...]] = set()
    repeated_pages = 0
    offset = query.page_offset
    while len(pages) < _MOST_PAGES:
        params = query.model_copy(update={"page_offset": offset}).to_params()
        answer = yield from ask(settings, "/v1/markets", params, accept=JSON_MIME, cost=0, until=until)
        frame, next_offset = wire.decode_markets(answer.content)
        keys = set(frame.select(MARKETS.key).iter_rows())
        repeated_pages = repeated_pages + 1 if keys and keys <= known_keys else 0
        if repeated_pages == _MOST_REPEATED:
            raise IncompleteDataError(
                f"/v1/markets: the page at {offset} and {_MOST_REPEATED - 1} before it bring nothing new; the service "
                "does not heed pageOffset"
            )
        known_keys |= keys
        pages.append(frame)
        # A page that is not full may still not be the last: ask until a page is empty or the offset stays the same.
        if frame.is_empty() or next_offset is None or next_offset <= offset:
            rows = MARKETS.conform(concatenated(pages))
            return rows.unique(MARKETS.key, keep="last", maintain_order=True)
        offset = next_offset
    raise IncompleteDataError(
        f"/v1/markets: {_MOST_PAGES} pages and no end; a larger ``page_size`` takes fewer, if the service heeds it"
    )


_MOST_PAGES = 10_000
_MOST_REPEATED = 3
"""If this many pages in a row have no new market, the service ignores the offset.

A list whose order changes between two pages has fewer pages without a new market.
"""


def usage(settings: Settings) -> Flow[Usage]:
    """Fetch the quota of the key."""
    usage_now, _ = yield from _usage(settings)
    return usage_now


def _usage(settings: Settings) -> Flow[tuple[Usage, float]]:
    """Fetch the quota of the key; return it with the time of the answer by the service's clock. [s since the epoch]"""
    answer = yield from ask(settings, "/v1/usage", [], accept=JSON_MIME, cost=0)
    try:
        body = orjson.loads(answer.content)
        return Usage(**{name: _integer(body[name]) for name in Usage.__slots__}), answer.sent_at
    except (ValueError, TypeError, KeyError) as error:
        raise DecodeError(f"/v1/usage: expected the quota as an object of integers, got {error!r}") from None


_LARGEST = 10**15


def _integer(value: object) -> int:
    """Read an integer of proto3 JSON, which may write an integer as a text."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        value = int(value[:20])  # int refuses very long texts; 20 digits are above _LARGEST already
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= _LARGEST:
        raise ValueError(value)
    return int(value)


def names(settings: Settings, name: str, query: MetaQuery) -> Flow[list[str]]:
    """Fetch a list of names, in the service's order."""
    answer = yield from ask(settings, f"/v1/{name}", query.to_params(), accept=JSON_MIME, cost=0)
    return wire.decode_names(answer.content, name)


def block_sizes(settings: Settings, query: MetaQuery) -> Flow[pl.DataFrame]:
    """Fetch the recommended block sizes, in the service's order."""
    answer = yield from ask(settings, "/v1/block-sizes", query.to_params(), accept=JSON_MIME, cost=0)
    return wire.decode_block_sizes(answer.content)


def holdings(settings: Settings, query: MetaQuery) -> Flow[pl.DataFrame]:
    """Fetch which data a service has, per market and data type; if it has no such list, only its markets.

    Returns
    -------
    polars.DataFrame
        Schema HOLDINGS.
    """
    rows = yield from listed_holdings(settings, query)
    if rows is not None:
        return rows
    types = list(query.type) or (yield from names(settings, "types", query))
    parts = []
    for name in types:
        query_of_type = query.model_copy(update={"type": (name,)})
        parts.append((yield from _listed_of_type(settings, name, query_of_type)))
    return HOLDINGS.conform(pl.concat(parts)) if parts else HOLDINGS.empty()


def listed_holdings(settings: Settings, query: MetaQuery) -> Flow[pl.DataFrame | None]:
    """Fetch which data a service has, per market and data type; None if it has no such list."""
    try:
        answer = yield from ask(settings, _HOLDINGS, query.to_params(), accept=JSON_MIME, cost=0)
        return decode_holdings(answer.content)
    except DecodeError:
        return None
    except ServiceError as error:
        # The contract does not have this route. A service without the route answers as to any wrong address.
        if error.status not in _NOT_OFFERED:
            raise
        return None


_HOLDINGS = "/holdings/markets"
_NOT_OFFERED = frozenset({401, 403, 404, 405, 406, 410, 501})


def _listed_of_type(settings: Settings, name: str, query: MetaQuery) -> Flow[pl.DataFrame]:
    """Fetch the markets of a data type, or its coins if it has no markets. The times of their data stay unknown."""
    search = MarketsQuery(type=name, exchange=query.exchange, coin=query.coin, category=query.category)
    market_rows = yield from markets(settings, search)
    columns = ("exchange", "raw_symbol", "category", "coin", "normalized_symbol", "available_since")
    frame = market_rows.select(columns).unique(["exchange", "raw_symbol"], keep="first", maintain_order=True)
    for column in ("raw_symbol", "normalized_symbol"):
        if symbols := getattr(query, column):
            frame = frame.filter(pl.col(column).is_in(symbols))
    if market_rows.is_empty():
        coins = yield from names(settings, "coins", query)
        frame = HOLDINGS.empty().select(columns).clear()
        frame = pl.concat([frame, pl.DataFrame({"coin": coins}, schema={"coin": pl.String})], how="diagonal")
    return HOLDINGS.conform(frame.with_columns(type=pl.lit(name)))


def prediction_markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets, and return the prediction markets in them.

    Returns
    -------
    polars.DataFrame
        One row per market and prediction market, in the service's order.

    Raises
    ------
    IncompleteDataError
        As for `markets`, or if a market has two prediction markets of one name.
    """
    market_rows = yield from markets(settings, query)
    market_key = ["exchange", "raw_symbol"]
    if _NESTED_COLUMN not in market_rows.columns:
        return PREDICTION_MARKETS.empty()
    entries = (
        market_rows.select(*market_key, _NESTED_COLUMN).explode(_NESTED_COLUMN).drop_nulls(_NESTED_COLUMN)
    )
    # By the contract an entry has no fields of these names. If a service sends some, drop them.
    fields = entries[_NESTED_COLUMN].struct.unnest().drop(market_key, strict=False)
    rows = PREDICTION_MARKETS.conform(entries.select(market_key).hstack(fields)).unique(maintain_order=True)
    if rows.select(PREDICTION_MARKETS.key).is_duplicated().any():
        raise IncompleteDataError("/v1/markets: a prediction market came twice with different values")
    return rows


def informed(settings: Settings) -> Flow[None]:
    """Ask the service for the budget, if the client does not know it yet."""
    quota = settings.quota
    if quota.is_known or quota.is_silent or settings.offline:
        return
    line = quota.line
    try:
        usage_now, sent_at = yield from _usage(settings)
    except TidytapeError as error:
        if isinstance(error, AuthenticationError):
            raise
        quota.is_silent = True  # the headers of answers may still say the budget
        return
    quota.heard(
        limit=usage_now.limit,
        remaining=usage_now.remaining,
        reset=usage_now.reset - sent_at,
        taken=0,
        sent=line,
    )
