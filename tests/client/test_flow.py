"""One fetch against services that behave badly: the right result or the right error, and no needless waiting."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

import tidytape
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    IncompleteDataError,
    QueryError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    TierError,
    TransportError,
)

TRANSPORT_ERRORS = [
    one for one in vars(httpx).values() if isinstance(one, type) and issubclass(one, httpx.TransportError)
]


def refused(status: int, code: str | None = None, message: str = "said so", **headers: str) -> httpx.Response:
    content = {"json": {"error": code, "message": message}} if code else {"text": "<html>oops</html>"}
    return httpx.Response(
        status, headers={name.replace("_", "-"): value for name, value in headers.items()}, **content
    )  # type: ignore[arg-type]


def test_the_request_is_what_the_contract_says(client: Any, script: Any, candles: Any, window: Any) -> None:
    service = script(candles(0, 60))
    frame = client(service).candles(**window)
    (request,) = service.requests
    assert (request.method, request.url.path) == ("GET", "/v1/points")
    assert dict(request.url.params) == {
        "type": "TRADE_SIDE_AGNOSTIC_AGG",
        "exchange": "X",
        "rawSymbol": "BTC",
        "interval": "MINUTE",
        "from": "0",
        "period": "600",
    }
    assert request.headers["x-service-key"] == "the-secret-key"
    arrow = "application/vnd.apache.arrow.stream"
    assert request.headers["accept"] == f"{arrow};constants=once, {arrow};q=0.9, application/json;q=0.8"
    assert frame["timestamp"].dt.epoch("s").to_list() == [0, 60]


def test_the_key_header_can_be_renamed(client: Any, script: Any, candles: Any, window: Any) -> None:
    service = script(candles(0))
    client(service, auth_header="X-Other").candles(**window)
    assert service.requests[0].headers["x-other"] == "the-secret-key"
    assert "x-service-key" not in service.requests[0].headers


@pytest.mark.parametrize(
    ("response", "error", "facts"),
    [
        (
            refused(400, "INVALID_SYMBOL", "rawSymbol: got 'B'"),
            RefusedQueryError,
            {"code": "INVALID_SYMBOL", "parameter": "raw_symbol"},
        ),
        (refused(401, "INVALID_API_KEY"), AuthenticationError, {"status": 401, "code": "INVALID_API_KEY"}),
        (refused(403, "TYPE_NOT_PERMITTED"), TierError, {"status": 403, "weight": 1}),
        (refused(403, "POINT_LIMIT_EXCEEDED"), RefusedQueryError, {"status": 403}),
        (refused(404), ServiceError, {"status": 404, "code": None}),
        (refused(302, location="http://elsewhere/"), ServiceError, {"status": 302}),
    ],
)
def test_a_refusal_is_typed_and_not_repeated(
    client: Any, script: Any, window: Any, waits: list[float], response: Any, error: Any, facts: Any
) -> None:
    service = script(response)
    with pytest.raises(error) as caught:
        client(service).candles(**window)
    assert type(caught.value) is error
    assert {name: getattr(caught.value, name) for name in facts} == facts
    assert len(service.requests) == 1
    assert waits == []


@pytest.mark.parametrize(
    "trouble",
    [
        refused(500, "INTERNAL_ERROR"),
        refused(503),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
    ],
)
def test_a_passing_failure_is_tried_again(
    client: Any, script: Any, candles: Any, window: Any, waits: list[float], trouble: Any
) -> None:
    service = script(trouble, trouble, candles(0))
    assert client(service).candles(**window).height == 1
    assert len(service.requests) == 3
    assert len(waits) == 2
    assert all(0 <= wait <= 30 for wait in waits)


def test_a_service_that_starts_again_is_waited_for_and_one_that_never_was_is_not(
    client: Any, script: Any, candles: Any, window: Any, waits: list[float]
) -> None:
    never = tidytape.Client("http://never", "k", transport=script(httpx.ConnectError("refused")))
    with pytest.raises(TransportError, match="is a service running there"):
        never.candles(**window)
    assert len(waits) == 5
    assert sum(waits) < 2.5
    waits.clear()
    restarted = client(script(candles(0), *[httpx.ConnectError("refused")] * 5, candles(0)))
    assert restarted.candles(**window).height == restarted.candles(**window).height == 1
    assert [round(wait - 0.5 * 2**n, 9) for n, wait in enumerate(waits)] == pytest.approx(
        [0.25] * 5, abs=0.25
    )


def test_a_web_page_is_told_as_one(client: Any, script: Any, window: Any, waits: list[float]) -> None:
    page = httpx.Response(200, html="\n <!doctype html><title>Welcome</title>")
    for ask in (lambda one: one.candles(**window), lambda one: one.coins(), lambda one: one.markets()):
        service = script(page)
        with pytest.raises(DecodeError) as caught:
            ask(client(service))
        path = service.requests[0].url.path
        assert str(caught.value) == (
            f"http://service{path}: answered HTTP 200 with a page (text/html; charset=utf-8), neither JSON nor Arrow; "
            "is the address of the service right?"
        )
    assert waits == []


def test_retry_after_is_honoured(
    client: Any, script: Any, candles: Any, window: Any, waits: list[float]
) -> None:
    service = script(refused(429, "RATE_LIMITED", retry_after="7"), candles(0))
    assert client(service).candles(**window).height == 1
    assert waits == [7.0]


def test_a_retry_after_beyond_the_deadline_is_an_error_at_once(
    client: Any, script: Any, window: Any, waits: list[float]
) -> None:
    service = script(refused(429, "RATE_LIMITED", retry_after="86400"))
    with pytest.raises(RateLimitError) as caught:
        client(service, deadline=60).candles(**window)
    assert caught.value.retry_after == 86400
    assert waits == []


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-3", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_retry_after_that_is_no_number_of_seconds_is_survived(
    client: Any, script: Any, candles: Any, window: Any, waits: list[float], value: str
) -> None:
    service = script(refused(429, "RATE_LIMITED", retry_after=value), candles(0))
    assert client(service).candles(**window).height == 1
    assert 0 <= waits[0] <= 30


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (refused(500), ServerError),
        (refused(429, retry_after="0"), RateLimitError),
        (httpx.ConnectError("refused"), TransportError),
    ],
)
def test_failures_without_end_end(
    client: Any, script: Any, window: Any, waits: list[float], trouble: Any, error: Any
) -> None:
    service = script(trouble)
    with pytest.raises(error):
        client(service, attempts=4).candles(**window)
    assert len(service.requests) == 4
    assert len(waits) == 3


@pytest.mark.parametrize(
    "body",
    [b" ", b"{", b"<html>", b'{"series": 3}', b'{"series":[{"id":{},"points":[{"Point":{"open":1}}]}]}'],
)
def test_a_body_off_the_contract_is_a_decode_error(
    client: Any, script: Any, window: Any, body: bytes
) -> None:
    with pytest.raises(DecodeError):
        client(script(httpx.Response(200, content=body))).candles(**window)


def test_points_outside_the_window_are_left_out(client: Any, script: Any, candles: Any, window: Any) -> None:
    frame = client(script(candles(0, 600, 660))).candles(**{**window, "start": 60})
    assert frame.height == 0
    frame = client(script(candles(0, 540, 600))).candles(**window)
    assert frame["timestamp"].dt.epoch("s").to_list() == [0, 540]


def test_a_long_window_is_several_requests_and_one_frame(client: Any, script: Any, window: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/points":
            return refused(404)  # a service that does not tell of its budget
        from_, period = int(request.url.params["from"]), int(request.url.params["period"])
        ids = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "X", "rawSymbol": "BTC"}
        # A service whose windows include their end: the border belongs to both answers.
        points = [{"Point": {"timestamp": {"s": second}, "close": 1.0}} for second in (from_, from_ + period)]
        part = {"code": "PART", "exchange": "X", "rawSymbol": "BTC"}  # and it says that there are no others
        return httpx.Response(200, json={"series": [{"id": ids, "points": points}], "notes": [part]})

    service = script(answer)
    frame = client(service).candles(**{**window, "end": 250_000 * 60})
    usage, *points = service.requests
    assert usage.url.path == "/v1/usage"
    assert sorted(int(one.url.params["period"]) for one in points) == [3_000_000, 6_000_000, 6_000_000]
    assert frame["timestamp"].dt.epoch("s").to_list() == [0, 6_000_000, 12_000_000]


def test_shuffled_and_repeated_points_come_out_ordered_and_once(
    client: Any, script: Any, candles: Any, window: Any
) -> None:
    frame = client(script(candles(120, 0, 60, 120))).candles(**window)
    assert frame["timestamp"].dt.epoch("s").to_list() == [0, 60, 120]


def test_a_point_with_two_values_is_an_error(
    client: Any, script: Any, candles: Any, point: Any, window: Any
) -> None:
    with pytest.raises(IncompleteDataError) as caught:
        client(script(candles(0, 60, point(60, close=9.0)))).candles(**window)
    assert caught.value.missing == ((60, 61),)


def test_no_key_in_any_error(client: Any, script: Any, window: Any, waits: list[float]) -> None:
    for trouble in (refused(401, "INVALID_API_KEY"), refused(500), httpx.ConnectError("no")):
        fetcher = client(script(trouble), attempts=1)
        with pytest.raises(ServiceError) as caught:
            fetcher.candles(**window)
        assert "the-secret-key" not in f"{caught.value!r} {caught.value} {vars(caught.value)} {fetcher!r}"
        assert "the-secret-key" not in repr(vars(fetcher)["_settings"])


@pytest.mark.parametrize("error", TRANSPORT_ERRORS)
def test_every_transport_error_of_httpx_is_ours(
    client: Any, script: Any, window: Any, waits: list[float], error: type[Exception]
) -> None:
    with pytest.raises(TransportError) as caught:
        client(script(error("why")), attempts=2).candles(**window)
    assert caught.value.url is not None
    assert caught.value.url.startswith("http://service/v1/points?type=TRADE_SIDE_AGNOSTIC_AGG&")


# --- pages ---


def page(*names: str, following: int | None) -> httpx.Response:
    body: dict[str, Any] = {"symbols": [{"exchange": "X", "rawSymbol": name} for name in names]}
    return httpx.Response(200, json=body if following is None else {**body, "nextOffset": following})


def test_markets_follows_pages_until_one_is_empty(client: Any, script: Any) -> None:
    service = script(page("A", "B", following=2), page("C", following=3), page(following=3))
    assert client(service).markets(page_size=2)["raw_symbol"].to_list() == ["A", "B", "C"]
    assert [one.url.params.get("pageOffset") for one in service.requests] == [None, "2", "3"]


@pytest.mark.parametrize("following", [None, 0])
def test_markets_stops_where_the_offset_stands_still(client: Any, script: Any, following: int | None) -> None:
    service = script(page("A", following=following))
    assert client(service).markets()["raw_symbol"].to_list() == ["A"]
    assert len(service.requests) == 1


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"limit": "many"}', b"null"])
def test_a_quota_off_the_contract_is_a_decode_error(client: Any, script: Any, content: bytes) -> None:
    with pytest.raises(DecodeError):
        client(script(httpx.Response(200, content=content))).usage()


def test_a_key_that_the_service_repeats_stands_in_no_error(client: Any, script: Any, window: Any) -> None:
    said = {"error": "INVALID_API_KEY", "message": "the-secret-key is unknown"}
    answers = [
        httpx.Response(401, json=said, headers={"X-Request-Id": "the-secret-key"}),
        httpx.Response(404, content=b"x" * 190 + b"the-secret-key"),
        httpx.ReadError("bad header the-secret-key"),
    ]
    for answer in answers:
        with pytest.raises(ServiceError) as caught:
            client(script(answer), attempts=1).candles(**window)
        assert "secret" not in f"{caught.value} {vars(caught.value)}"


@pytest.mark.parametrize("location", ["mailto:x", "http://xn--/"])
def test_a_redirect_to_nowhere_is_told(client: Any, script: Any, window: Any, location: str) -> None:
    with pytest.raises(TransportError):
        client(script(httpx.Response(302, headers={"Location": location})), attempts=1).candles(**window)


def test_a_message_nested_without_end_is_quoted(client: Any, script: Any, window: Any) -> None:
    said = b'{"error": "E", "message": ' + b"[" * 1015 + b"]" * 1015 + b"}"
    with pytest.raises(QueryError):
        client(script(httpx.Response(400, content=said))).candles(**window)


def test_to_come_back_at_once_is_no_time_to_wait(
    client: Any, script: Any, window: Any, candles: Any, waits: list[float]
) -> None:
    soon = httpx.Response(
        429, json={"error": "RATE_LIMITED", "message": "m"}, headers={"Retry-After": "1e-9"}
    )
    client(script(soon, soon, candles(0))).candles(**window)
    assert waits
    assert 1e-9 not in waits


@pytest.mark.parametrize("limit", [1e300, "1_0", True, "1" * 5_000, None])
def test_a_quota_that_is_no_number_is_refused(client: Any, script: Any, limit: object) -> None:
    body = {"limit": limit, "remaining": 1, "used": 0, "reset": 0, "window_seconds": 60}
    with pytest.raises(DecodeError, match="quota"):
        client(script(httpx.Response(200, json=body))).usage()


def test_the_bucket_is_read_by_the_clock_of_the_service(script: Any, window: Any, candles: Any) -> None:
    answer = candles(0)
    at = 1_000_000_000  # a clock that is years behind ours
    answer.headers.update(
        {
            "X-RateLimit-Limit": "100",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(at + 120),
            "Date": format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True),
        }
    )
    asking = tidytape.Client("http://service", "a-key-of-its-own", transport=script(answer))
    asking.candles(**window)
    assert asking._settings.quota.burst == 200


class Breaks(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b'{"series'
        raise httpx.ReadError("reset")


def test_a_body_that_breaks_off_is_counted_for_it_is_charged(
    client: Any, script: Any, window: Any, candles: Any, waits: list[float]
) -> None:
    broken = [httpx.Response(200, stream=Breaks()) for _ in range(2)]
    asking = client(script(*broken, candles(0)))
    told = asking.fetch(asking.query.candles(**window)).metadata
    assert (told.requests, told.weight) == (3, 3)
    assert asking._settings.quota.line[1] == 0
