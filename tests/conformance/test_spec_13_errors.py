"""spec.md, "Errors". silences.md, "Bodies": one shape on every route, and the status of every code."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import GROUP, REFUSAL, SKEW, SUM, TOKEN, USD
from conformance.lake import DAY, NOW
from tables import each_row
from tidytape.service.answer._scan import UNHURRIED
from tidytape.service.work._computing import OverloadedError, StoppedError

# The code, its status, and a request that meets it.
CODES: dict[str, tuple[int, dict[str, Any]]] = {
    "INVALID_API_KEY": (401, {"key": "guess"}),
    "INVALID_PARAMS": (400, {"period": 0}),
    "INVALID_TYPE": (400, {"type": "CANDLES"}),
    "INVALID_EXCHANGE": (400, {"exchange": "NOWHERE"}),
    "INVALID_SYMBOL": (400, {"rawSymbol": "NOTHING"}),
    "INVALID_INTERVAL": (400, {"interval": "FORTNIGHT"}),
    "UNSUPPORTED": (400, {"type": "LIQUIDATION_AGG", "gapfill": "true"}),
    "TYPE_NOT_PERMITTED": (403, {**TOKEN, "key": "basic"}),
    "AGGREGATION_NOT_PERMITTED": (403, {**GROUP, "key": "basic"}),
    "POINT_LIMIT_EXCEEDED": (403, {"period": 100_001 * 60}),
}


@pytest.mark.parametrize(("status", "asked"), CODES.values(), ids=CODES)
def test_silences_code(
    service: Any, status: int, asked: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    response = service.points(**asked)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/json"
    assert {"error", "message"} <= set(response.json()) <= REFUSAL
    assert response.json()["error"] == request.node.callspec.id


@each_row("asked", [row[1] for row in CODES.values()])
def test_silences_the_message_says_what_got_and_expected(service: Any, asked: dict[str, Any]) -> None:
    message = service.points(**asked).json()["message"]
    assert ": got " in message
    assert ", expected " in message


@pytest.mark.parametrize(("tier", "days"), [("basic", 90), ("advanced", 365)])
def test_silences_code_history_not_permitted(service: Any, tier: str, days: int) -> None:
    assert service.refused(key=tier, from_=NOW - days * DAY - 60) == (403, "HISTORY_NOT_PERMITTED")


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/points/", "/v2/points", "/v1", "/v1/"])
def test_silences_code_not_found(service: Any, path: str) -> None:
    response = service.get(path)
    assert (response.status_code, response.json()["error"]) == (404, "NOT_FOUND")
    assert set(response.json()) == {"error", "message"}


@each_row("path", ["/v1/points", "/v1/markets", "/v1/usage"])
@each_row("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_silences_code_method_not_allowed(service: Any, method: str, path: str) -> None:
    """GET only."""
    response = service.request(method, path)
    assert (response.status_code, response.json()["error"]) == (405, "METHOD_NOT_ALLOWED")
    assert set(response.json()) == {"error", "message"}
    assert response.headers["Allow"] == "GET"


def test_rate_limit_budget_exhausted_is_429_with_retry_after(service: Any) -> None:
    assert service.weight(key="basic", period=100_000 * 60) == 100
    assert service.weight(key="basic", period=100_000 * 60) == 100
    response = service.points(key="basic", period=5_000 * 60)
    assert response.status_code == 429
    # 5 of 100 a minute come back in three seconds.
    assert response.headers["Retry-After"] == "3"
    assert set(response.json()) == {"error", "message", "retry_after"}
    assert (response.json()["error"], response.json()["retry_after"]) == ("RATE_LIMITED", 3)


def test_after_retry_after_the_same_request_is_admitted(service: Any) -> None:
    asked = {"key": "basic", "period": 100_000 * 60}
    service.points(**asked)
    service.points(**asked)
    refused = service.points(**asked)
    service.clock.move(int(refused.headers["Retry-After"]) - 1)
    assert service.points(**asked).status_code == 429
    service.clock.move(1)
    assert service.points(**asked).status_code == 200


def test_unsupported_type_and_interval_combination_is_an_error(service: Any) -> None:
    assert service.refused(**{**SKEW, "interval": "TWO_HOURS"}) == (400, "INVALID_INTERVAL")


def test_silences_code_internal_error_says_no_more_than_a_request_id(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError("a secret of the lake")

    monkeypatch.setattr("tidytape.service.work._computing.computed", broken)
    response = service.points()
    assert (response.status_code, response.json()["error"]) == (500, "INTERNAL_ERROR")
    assert set(response.json()) == {"error", "message"}
    assert response.headers["X-Request-Id"] in response.json()["message"]
    assert "secret" not in response.text


class Stopped:
    """Computes nothing: what a process that was ended, or a queue that is full, comes to."""

    limits = UNHURRIED

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def run(self, task: Any) -> Any:
        raise self.error


def test_silences_code_timeout(service: Any) -> None:
    service.open(computing=Stopped(StoppedError(too_long=True)))
    response = service.points()
    assert (response.status_code, response.json()["error"]) == (504, "TIMEOUT")
    assert response.headers["X-RateLimit-Used"] == "1"


def test_a_full_queue_is_503_with_retry_after(service: Any) -> None:
    service.open(computing=Stopped(OverloadedError()))
    response = service.points()
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) >= 1
    assert response.headers["X-RateLimit-Used"] == "0"


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("rawSymbl", "rawSymbol"), ("exchanges", "exchange"), ("sort_direction", "sortDirection"),
     ("transform.groupBy", "transform.groupBy.type"), ("From", "from")],
)  # fmt: skip
def test_silences_an_unknown_parameter_is_refused_with_the_nearest_known_name(
    service: Any, given: str, nearest: str
) -> None:
    response = service.get("/v1/points", **{given: "x"})
    assert (response.status_code, response.json()["error"]) == (400, "INVALID_PARAMS")
    assert f"'{nearest}'" in response.json()["message"]


@pytest.mark.parametrize("path", ["/v1/points", "/v1/markets", "/v1/usage"])
def test_silences_an_unknown_parameter_is_refused_on_every_route(service: Any, path: str) -> None:
    response = service.get(path, colour="red")
    assert (response.status_code, response.json()["error"]) == (400, "INVALID_PARAMS")
    assert response.json()["message"].startswith("colour: got 'red'")


@pytest.mark.parametrize(
    "asked",
    [{"rawSymbol": "BTCTRY", **USD}, {"rawSymbol": None, "coin": "BTC", "transform_groupBy_type": SUM}],
    ids=["of unknown worth", "that cannot be compared"],
)
def test_silences_a_quote_is_unsupported(service: Any, asked: dict[str, Any]) -> None:
    assert service.refused(exchange="GAMMA", **asked) == (400, "UNSUPPORTED")
    message = service.points(exchange="GAMMA", **asked).json()["message"]
    assert message.count("transform.") == 1, "it names the parameter, and is English after that"
