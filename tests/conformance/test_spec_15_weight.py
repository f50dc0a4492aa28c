"""spec.md, "Weight formula" and its worked shapes; "Max points per request". silences.md: exact integers."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import GROUP, HEATMAP, SUM, of
from conformance.lake import DAY, HOUR, WEEK

VENUES = ["ALPHA", "BETA", "VENUEX", "STOCKS", "METALS", "BANKS", "CME"]


def group(count: int, **changed: Any) -> dict[str, Any]:
    """Ask for some venues as one series; a symbol that all the members share keeps the quotes comparable."""
    way = {
        "exchange": VENUES[:count],
        "rawSymbol": None,
        "normalizedSymbol": "BTC-USDT",
        "transform_groupBy_type": SUM,
    }
    return {**way, **changed}


@pytest.mark.parametrize(
    ("period", "interval", "weight"),
    [
        (60, "MINUTE", 1),
        (1, "MINUTE", 1),
        (60_000, "MINUTE", 1),
        (60_001, "MINUTE", 2),
        (120_000, "MINUTE", 2),
        (DAY, "MINUTE", 2),  # 1,440 points
        (WEEK, "MINUTE", 11),  # 10,080
        (WEEK, "FIVE_MINUTES", 3),  # 2,016
        (WEEK, "FIFTEEN_MINUTES", 1),
        (1_000 * HOUR, "HOUR", 1),
        (1_000 * HOUR + 1, "HOUR", 2),
        (30 * DAY, "THIRTY_MINUTES", 2),  # 1,440
        (400 * DAY, "FOUR_HOURS", 3),  # 2,400
        (1_001 * DAY, "DAY", 2),
        (1_000 * WEEK, "WEEK", 1),
    ],
)
def test_1_base_points_are_period_over_interval_and_2_thousands_are_rounded_up(
    service: Any, period: int, interval: str, weight: int
) -> None:
    assert service.weight(period=period, interval=interval) == weight


@pytest.mark.parametrize(
    ("name", "weight"),
    [("TRADE_AGG", 3), ("VOLUME_PROFILE_AGG", 6), ("TPO_AGG", 15), ("BLOCK_BOOK_SNAPSHOT_AGG", 30)],
)
def test_2_base_weight_is_times_the_cost_multiplier(service: Any, name: str, weight: int) -> None:
    assert service.weight(**of(name, interval="MINUTE", period=2_001 * 60)) == weight


# spec.md, "Worked shape": a 1,000-point request of a 1x type and of a 10x type over 2, 3 and 5 exchanges.
@pytest.mark.parametrize(("count", "weight"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_3_exchange_multiplier_of_a_1x_type(service: Any, count: int, weight: int) -> None:
    assert service.weight(**group(count), period=60_000) == weight


@pytest.mark.slow
@pytest.mark.parametrize(("count", "weight"), [(1, 10), (2, 14), (3, 16), (5, 20)])
def test_3_exchange_multiplier_of_a_10x_type(service: Any, count: int, weight: int) -> None:
    asked = group(count, type="BLOCK_BOOK_SNAPSHOT_AGG")
    assert service.weight(**asked, period=60_000) == weight


@pytest.mark.slow
def test_3_several_exchanges_without_group_by_multiply_nothing(service: Any) -> None:
    asked = group(5, type="BLOCK_BOOK_SNAPSHOT_AGG", transform_groupBy_type=None)
    assert service.weight(**asked, period=60_000) == 10


@pytest.mark.slow
def test_silences_3_only_distinct_exchanges_count(service: Any) -> None:
    asked = {"type": "BLOCK_BOOK_SNAPSHOT_AGG", "period": 60_000}
    assert service.weight(**{**GROUP, "exchange": ["ALPHA", "ALPHA"]}, **asked) == 10
    assert service.weight(**{**GROUP, "exchange": ["ALPHA", "BETA", "ALPHA"]}, **asked) == 14


@pytest.mark.parametrize(
    ("depth", "weight"),
    [(None, 10), (1, 10), (3_500, 10), (3_501, 12), (7_000, 12), (7_001, 14), (10_500, 14), (10_501, 16)],
)
def test_4_depth_multiplier_of_the_order_book_heatmap(service: Any, depth: int | None, weight: int) -> None:
    assert service.weight(type="BLOCK_BOOK_SNAPSHOT_AGG", maxDepth=depth, period=60_000) == weight


@pytest.mark.parametrize(
    ("depth", "weight"),
    [(None, 5), (1, 5), (1_500, 5), (1_501, 6), (3_000, 6), (3_001, 7), (4_500, 7), (4_501, 8)],
)
def test_4_depth_multiplier_of_the_liquidation_heatmap(service: Any, depth: int | None, weight: int) -> None:
    assert service.weight(**HEATMAP, maxDepth=depth, period=60_000) == weight


@pytest.mark.parametrize("name", ["TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"])
def test_4_other_types_have_no_depth_multiplier(service: Any, name: str) -> None:
    asked = of(name, interval="MINUTE", period=60_000)
    assert service.weight(**asked, maxDepth=100_000) == service.weight(**asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "depth", "weight"),
    [
        (2, 3_501, 17),  # 10 x 1.4 x 1.2 = 16.8
        (3, 3_501, 20),  # 10 x 1.6 x 1.2 = 19.2
        (3, 7_001, 23),  # 10 x 1.6 x 1.4 = 22.4
        (5, 7_001, 28),  # 10 x 2.0 x 1.4 = 28
    ],
)
def test_5_total_weight_is_rounded_up_once(service: Any, count: int, depth: int, weight: int) -> None:
    asked = group(count, type="BLOCK_BOOK_SNAPSHOT_AGG", maxDepth=depth)
    assert service.weight(**asked, period=60_000) == weight


def test_5_the_minimum_of_a_data_request_is_1(service: Any) -> None:
    assert service.weight(period=1, interval="WEEK") == 1


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/markets", "/v1/usage"])
def test_6_discovery_weighs_nothing(service: Any, path: str) -> None:
    assert service.get(path).headers["X-RateLimit-Used"] == "0"


@pytest.mark.slow
# In floats each of these is one more: 1 + 0.2 * 7 is 2.4000000000000004.
@pytest.mark.parametrize(
    ("thousands", "count", "depth", "weight"),
    [
        (1, 1, 7 * 3_500 + 1, 24),  # 10 x 2.4
        (1, 7, None, 24),
        (1, 5, 7 * 3_500 + 1, 48),  # 10 x 2.0 x 2.4
        (3, 1, 12 * 3_500 + 1, 102),  # 30 x 3.4
        (3, 5, 14 * 3_500 + 1, 228),  # 30 x 2.0 x 3.8
    ],
)
def test_silences_the_formula_is_evaluated_in_exact_integers(
    service: Any, thousands: int, count: int, depth: int, weight: int
) -> None:
    asked = group(count, type="BLOCK_BOOK_SNAPSHOT_AGG", maxDepth=depth)
    assert service.weight(**asked, period=thousands * 60_000) == weight


def test_silences_weights_of_several_types_add_up(service: Any) -> None:
    asked = {"type": ["TRADE_AGG", "VOLUME_PROFILE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"]}
    assert service.weight(**asked, period=60_001) == 2 + 4 + 20


@pytest.mark.parametrize(("period", "weight"), [(60_000, 1), (60_001, 2)])
def test_silences_trade_without_an_interval_is_weighed_as_minute(
    service: Any, period: int, weight: int
) -> None:
    assert service.weight(type="TRADE", interval=None, period=period) == weight


def test_silences_a_request_heavier_than_the_bucket_is_400_not_429(service: Any) -> None:
    three = {"type": ["TRADE_AGG", "TRADE_SIDE_AGNOSTIC_AGG", "LIQUIDATION_AGG"], "period": 100_000 * 60}
    assert service.refused(key="basic", **three) == (400, "INVALID_PARAMS")
    assert service.points(key="advanced", **three).status_code == 200
