"""spec.md, "Data type catalogue": every row, each of its columns."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import BY_TYPE, of
from tables import each_row

# type, weight multiplier, most points per request, lowest tier
CATALOGUE = [
    ("TRADE_SIDE_AGNOSTIC_AGG", 1, 100_000, "basic"),
    ("TRADE_AGG", 1, 100_000, "basic"),
    ("OPEN_INTEREST_AGG", 1, 100_000, "basic"),
    ("FUNDING_RATE_AGG", 1, 100_000, "basic"),
    ("LIQUIDATION_AGG", 1, 100_000, "basic"),
    ("TOKEN_SUPPLY_AGG", 1, 100_000, "advanced"),
    ("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", 1, 100_000, "advanced"),
    ("SKEW_OPTION_SUMMARY_AGG", 1, 100_000, "advanced"),
    ("VOLUME_PROFILE_AGG", 2, 20_000, "basic"),
    ("TPO_AGG", 5, 20_000, "basic"),
    ("VENUEX_LIQUIDATION_AGG", 5, 5_000, "advanced"),
    ("BLOCK_BOOK_SNAPSHOT_AGG", 10, 4_000, "basic"),
    # silences.md: absent from the catalogue, so 1x, 100,000 points, all tiers.
    ("TRADE", 1, 100_000, "basic"),
    ("CME_OPEN_INTEREST_AGG", 1, 100_000, "basic"),
    ("OPTION_OPEN_INTEREST_AGG", 1, 100_000, "basic"),
]
NAMES = [row[0] for row in CATALOGUE]


def test_these_are_all_the_types() -> None:
    assert set(NAMES) == set(BY_TYPE)


@pytest.mark.slow
@each_row("name", NAMES)
def test_is_answered(service: Any, name: str) -> None:
    series = service.series(**of(name))
    assert {one["id"]["type"] for one in series} == {name}
    assert all(one["points"] for one in series)


@pytest.mark.parametrize(("name", "multiplier"), [(row[0], row[1]) for row in CATALOGUE], ids=NAMES)
def test_weight_multiplier(service: Any, name: str, multiplier: int) -> None:
    assert service.weight(**of(name, interval="MINUTE", period=1_000 * 60)) == multiplier
    assert service.weight(**of(name, interval="MINUTE", period=1_001 * 60)) == 2 * multiplier


@pytest.mark.parametrize(("name", "most"), [(row[0], row[2]) for row in CATALOGUE], ids=NAMES)
def test_max_points_per_request(service: Any, name: str, most: int) -> None:
    too_many = of(name, interval="MINUTE", period=(most + 1) * 60)
    assert service.refused(**too_many) == (403, "POINT_LIMIT_EXCEEDED")
    assert service.points(**of(name, interval="MINUTE", period=most * 60)).status_code == 200


@pytest.mark.parametrize(("name", "lowest"), [(row[0], row[3]) for row in CATALOGUE], ids=NAMES)
@pytest.mark.parametrize("tier", ["basic", "advanced", "enterprise"])
def test_tier(service: Any, name: str, lowest: str, tier: str) -> None:
    if tier == "basic" and lowest == "advanced":
        assert service.refused(**of(name, key=tier)) == (403, "TYPE_NOT_PERMITTED")
    else:
        assert service.points(**of(name, key=tier)).status_code == 200
