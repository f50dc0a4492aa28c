"""spec.md, "Rate-limit response headers" and "Versioning". silences.md: the bucket, and where the headers go."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.lake import NOW

HEADERS = {
    "X-RateLimit-Limit": "100",
    "X-RateLimit-Remaining": "150",
    "X-RateLimit-Used": "50",
    "X-RateLimit-Reset": str(NOW + 30),
}
RESPONSES: dict[str, tuple[str, dict[str, Any]]] = {
    "usage": ("/v1/usage", {}),
    "markets": ("/v1/markets", {}),
    "a refusal of points": ("/v1/points", {}),
    "a refusal of markets": ("/v1/markets", {"pageSize": 0}),
    "an unknown path": ("/v1/nothing", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "params"), RESPONSES.values(), ids=RESPONSES)
@pytest.mark.parametrize("name", HEADERS)
def test_header_on_every_response(service: Any, name: str, path: str, params: dict[str, Any]) -> None:
    service.points(key="basic", period=50_000 * 60)
    assert service.get(path, key="basic", **params).headers[name] == HEADERS[name]


@pytest.mark.parametrize("name", HEADERS)
def test_header_on_data(service: Any, name: str) -> None:
    assert service.points(key="basic", period=50_000 * 60).headers[name] == HEADERS[name]


@pytest.mark.parametrize("name", HEADERS)
def test_header_on_429(service: Any, name: str) -> None:
    for _ in range(2):
        service.points(key="basic", period=100_000 * 60)
    expected = {
        **HEADERS,
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Used": "200",
        "X-RateLimit-Reset": str(NOW + 120),
    }
    assert service.points(key="basic").headers[name] == expected[name]


@pytest.mark.parametrize("name", HEADERS)
def test_silences_no_header_without_a_known_key(service: Any, name: str) -> None:
    assert name not in service.points(key="guess").headers


def test_retry_after_only_on_429(service: Any) -> None:
    for _ in range(2):
        assert "Retry-After" not in service.points(key="basic", period=100_000 * 60).headers
    assert "Retry-After" in service.points(key="basic").headers
    assert "Retry-After" not in service.get("/v1/usage", key="basic").headers


def test_silences_the_bucket_starts_full(service: Any) -> None:
    response = service.get("/v1/usage", key="basic")
    assert response.json() == {"limit": 100, "remaining": 200, "used": 0, "reset": NOW, "window_seconds": 60}


def test_silences_remaining_is_in_whole_tokens(service: Any) -> None:
    service.points(key="basic", period=100_000 * 60)
    service.clock.move(0.5)  # 0.83 of a token
    assert service.get("/v1/usage", key="basic").json()["remaining"] == 100
    service.clock.move(0.1)  # and now one
    assert service.get("/v1/usage", key="basic").json()["remaining"] == 101


def test_silences_used_is_the_weight_of_the_last_60_seconds(service: Any) -> None:
    service.points(key="basic", period=10_000 * 60)
    service.clock.move(59.9)
    assert service.get("/v1/usage", key="basic").json()["used"] == 10
    service.clock.move(0.1)
    assert service.get("/v1/usage", key="basic").json()["used"] == 0


def test_silences_reset_is_rounded_up(service: Any) -> None:
    service.points(key="basic", period=1_000 * 60)  # one token: 0.6 s
    assert service.get("/v1/usage", key="basic").json()["reset"] == NOW + 1


def test_silences_weight_is_taken_on_admission_so_parallel_requests_cannot_overspend(service: Any) -> None:
    responses = service.at_once(12, key="basic", period=20_000 * 60)
    statuses = [one.status_code for one in responses]
    assert (statuses.count(200), statuses.count(429)) == (10, 2)
    assert service.get("/v1/usage", key="basic").json()["remaining"] == 0


def test_silences_a_refused_request_costs_nothing(service: Any) -> None:
    for asked in ({"rawSymbol": "NOTHING"}, {"interval": None}, {"exchange": "NOWHERE"}, {"period": 10**8}):
        assert service.points(**asked).headers["X-RateLimit-Remaining"] == "1500"


def test_silences_a_429_costs_nothing(service: Any) -> None:
    service.points(key="basic", period=100_000 * 60)
    service.points(key="basic", period=90_000 * 60)
    assert service.points(key="basic", period=20_000 * 60).status_code == 429
    assert service.points(key="basic", period=10_000 * 60).status_code == 200


def test_silences_a_5xx_gives_the_weight_back(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("tidytape.service.work._computing.computed", broken)
    response = service.points(period=10_000 * 60)
    assert response.status_code == 500
    assert (response.headers["X-RateLimit-Remaining"], response.headers["X-RateLimit-Used"]) == ("1500", "0")


def test_silences_every_key_has_its_own_bucket(service: Any) -> None:
    service.points(key="basic")
    assert service.get("/v1/usage", key="advanced").json()["used"] == 0


# --- versioning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/points", "/v2/points", "/V1/points", "/v1.0/points"])
def test_the_version_is_part_of_the_path(service: Any, path: str) -> None:
    assert service.get(path).status_code == 404


def test_every_documented_endpoint_begins_with_v1(service: Any) -> None:
    described = service.get("/openapi.json").json()["paths"]
    assert {"/v1/points", "/v1/markets", "/v1/usage"} <= set(described)
    assert all(path.startswith("/v1/") for path in described)


def test_all_endpoints_are_get(service: Any) -> None:
    described = service.get("/openapi.json").json()["paths"]
    assert {method for path in described.values() for method in path} == {"get"}
