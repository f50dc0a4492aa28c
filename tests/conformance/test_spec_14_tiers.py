"""spec.md, "Tiers": every cell that a service can be held to (a price it has not)."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import GROUP, HEATMAP, SKEW, TOKEN, VOLATILITY
from conformance.lake import DAY, NOW

TIERS = ["basic", "advanced", "enterprise"]


@pytest.mark.parametrize(("tier", "weight"), [("basic", 100), ("advanced", 750), ("enterprise", 750)])
def test_weight_per_minute(service: Any, tier: str, weight: int) -> None:
    headers = service.get("/v1/usage", key=tier).headers
    assert headers["X-RateLimit-Limit"] == str(weight)


@pytest.mark.parametrize(("tier", "burst"), [("basic", 200), ("advanced", 1_500), ("enterprise", 1_500)])
def test_burst_capacity(service: Any, tier: str, burst: int) -> None:
    assert service.get("/v1/usage", key=tier).json()["remaining"] == burst


@pytest.mark.parametrize(("tier", "days"), [("basic", 90), ("advanced", 365), ("enterprise", 10_000)])
def test_history_depth_reaches_that_far(service: Any, tier: str, days: int) -> None:
    assert service.points(key=tier, from_=NOW - days * DAY).status_code == 200


@pytest.mark.parametrize(("tier", "days"), [("basic", 90), ("advanced", 365)])
def test_history_depth_reaches_no_further(service: Any, tier: str, days: int) -> None:
    assert service.refused(key=tier, from_=NOW - days * DAY - 3_600)[0] == 403


@pytest.mark.parametrize(("tier", "status"), [("basic", 403), ("advanced", 200), ("enterprise", 200)])
def test_multi_exchange_aggregation(service: Any, tier: str, status: int) -> None:
    assert service.points(key=tier, **GROUP).status_code == status


@pytest.mark.parametrize(("tier", "status"), [("basic", 403), ("advanced", 200), ("enterprise", 200)])
def test_liquidation_heatmap(service: Any, tier: str, status: int) -> None:
    assert service.points(key=tier, **HEATMAP).status_code == status


@pytest.mark.parametrize(("tier", "status"), [("basic", 403), ("advanced", 200), ("enterprise", 200)])
@pytest.mark.parametrize("asked", [TOKEN, VOLATILITY, SKEW], ids=["dominance", "implied volatility", "skew"])
def test_custom_data_types(service: Any, asked: dict[str, Any], tier: str, status: int) -> None:
    assert service.points(key=tier, **asked).status_code == status


def test_one_type_above_the_tier_refuses_them_all(service: Any) -> None:
    asked = {**VOLATILITY, "type": ["OPTION_OPEN_INTEREST_AGG", VOLATILITY["type"]], "rawSymbol": None}
    assert service.points(key="advanced", **asked).status_code == 200
    assert service.refused(key="basic", **asked) == (403, "TYPE_NOT_PERMITTED")


@pytest.mark.parametrize("tier", TIERS)
def test_the_bucket_refills_continuously_at_the_sustained_rate(service: Any, tier: str) -> None:
    per_minute = 100 if tier == "basic" else 750
    burst = 2 * per_minute
    service.points(key=tier, period=100_000 * 60)  # weighs 100
    for seconds in (0, 12, 24):
        left = service.get("/v1/usage", key=tier).json()["remaining"]
        assert left == min(burst, burst - 100 + per_minute * seconds // 60)
        service.clock.move(12)


@pytest.mark.parametrize("tier", TIERS)
def test_the_bucket_never_holds_more_than_its_burst(service: Any, tier: str) -> None:
    service.clock.move(DAY)
    assert service.get("/v1/usage", key=tier).json()["remaining"] == (200 if tier == "basic" else 1_500)
