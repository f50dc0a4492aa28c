"""spec.md, "GET /v1/usage": every field."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.lake import NOW

# After 50 of a basic key's 200 are spent: 100 come back in a minute, so 50 in half of one.
USAGE = {"limit": 100, "remaining": 150, "used": 50, "reset": NOW + 30, "window_seconds": 60}


@pytest.mark.parametrize("name", USAGE)
def test_usage(service: Any, name: str) -> None:
    assert service.weight(key="basic", period=50_000 * 60) == 50
    assert service.get("/v1/usage", key="basic").json()[name] == USAGE[name]


def test_usage_has_these_fields_and_no_others(service: Any) -> None:
    assert set(service.get("/v1/usage").json()) == set(USAGE)


def test_usage_consumes_no_weight(service: Any) -> None:
    for _ in range(3):
        assert service.get("/v1/usage").json()["used"] == 0


def test_usage_is_the_same_as_the_headers(service: Any) -> None:
    service.weight(period=1_001 * 60)
    response = service.get("/v1/usage")
    headers = {
        name: int(response.headers[f"X-RateLimit-{name}"]) for name in ("Limit", "Remaining", "Used", "Reset")
    }
    body = response.json()
    assert headers == {name.title(): body[name] for name in ("limit", "remaining", "used", "reset")}
