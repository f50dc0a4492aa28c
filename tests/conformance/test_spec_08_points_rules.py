"""spec.md, "Rules" of ``GET /v1/points`` 1 to 8, and "Instrument selection"."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import FUNDING_GROUP, GROUP, PERP, SUM, USD, VENUES, of
from conformance.lake import T0
from tables import each_row


def test_selection_by_raw_symbol_is_one_market(service: Any) -> None:
    assert service.id()["rawSymbol"] == "BTCUSDT"


def test_selection_by_normalized_symbol_selects_on_every_exchange(service: Any) -> None:
    found = service.series(exchange=["ALPHA", "BETA"], rawSymbol=None, normalizedSymbol="BTC-USDT")
    assert {one["id"]["exchange"] for one in found} == {"ALPHA", "BETA"}
    assert {one["id"]["normalizedSymbol"] for one in found} == {"BTC-USDT"}


@pytest.mark.slow
def test_selection_by_coin_covers_all_pairs(service: Any) -> None:
    found = service.series(exchange="GAMMA", rawSymbol=None, coin="BTC")
    assert [one["id"]["normalizedSymbol"] for one in found] == ["BTC-EUR", "BTC-TRY"]


@pytest.mark.parametrize(
    "given",
    [
        {"coin": "BTC"},
        {"normalizedSymbol": "BTC-USDT"},
        {"rawSymbol": None, "coin": "BTC", "normalizedSymbol": "BTC-USDT"},
        {"coin": "BTC", "normalizedSymbol": "BTC-USDT"},
        {"rawSymbol": None},
    ],
    ids=["raw and coin", "raw and normalized", "coin and normalized", "all three", "none"],
)
def test_selection_is_exactly_one_of_three_ways(service: Any, given: dict[str, Any]) -> None:
    assert service.refused(**given) == (400, "INVALID_SYMBOL")


def test_rule_1_from_is_inclusive(service: Any) -> None:
    assert service.rows(from_=T0, period=60) == [(0,)]


def test_rule_1_data_covers_from_through_from_plus_period(service: Any) -> None:
    assert [start for (start,) in service.rows(from_=T0 + 60, period=121)] == [60, 180]


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["advanced", "enterprise"])
def test_rule_2_multi_exchange_aggregation_is_for_higher_tiers(service: Any, tier: str) -> None:
    assert service.points(key=tier, **GROUP).status_code == 200


def test_rule_2_multi_exchange_aggregation_is_not_for_basic(service: Any) -> None:
    assert service.refused(key="basic", **GROUP) == (403, "AGGREGATION_NOT_PERMITTED")


def test_rule_2_several_exchanges_without_group_by_are_for_all(service: Any) -> None:
    assert service.points(key="basic", **VENUES).status_code == 200


def test_rule_2_one_exchange_with_group_by_is_for_all(service: Any) -> None:
    assert service.points(key="basic", **{**GROUP, "exchange": "ALPHA"}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["TRADE_SIDE_AGNOSTIC_AGG", "OPEN_INTEREST_AGG", "VOLUME_PROFILE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"]
)
def test_rule_3_a_group_is_in_usd_without_being_asked(service: Any, name: str) -> None:
    asked = {**GROUP, "type": name}
    assert service.payloads(**asked) == service.payloads(**asked, **USD)


def test_rule_3_values_of_a_group_are_usd(service: Any) -> None:
    # 100 + 203 of ALPHA's spot, 192 of its perpetual, 300 of BETA.
    assert service.rows("volume", **GROUP)[0] == (0, 795.0)


def test_rule_3_a_group_of_one_exchange_is_in_usd_too(service: Any) -> None:
    asked = {"rawSymbol": None, "coin": "BTC", "category": "SPOT", "transform_groupBy_type": SUM}
    assert service.rows("volume", **asked) == [(0, 303.0), (60, 75.375), (180, 396.0)]


def test_rule_4_a_candle_group_sums_volume(service: Any) -> None:
    assert service.rows("volume", **GROUP) == [(0, 795.0), (60, 75.375 + 102.0), (180, 396.0 + 98.0)]


def test_rule_4_a_candle_group_preserves_the_extremes(service: Any) -> None:
    assert service.rows("high", "low", **GROUP) == [(0, 101.5, 96.0), (60, 102.0, 100.5), (180, 99.0, 98.0)]


def test_rule_4_a_funding_group_is_an_average_by_open_interest_not_a_sum(service: Any) -> None:
    first = service.payloads(**FUNDING_GROUP)[0]
    assert first["rateOpen"] == pytest.approx((0.0001 * 576 + 0.0008 * 1_000) / 1_576, rel=1e-12)


@pytest.mark.parametrize(("exchange", "rate"), [("ALPHA", 0.0003), ("BETA", 0.0008)])
def test_rule_5_rates_are_normalized_to_8_hours_by_default(service: Any, exchange: str, rate: float) -> None:
    """BETA settles every hour, at 0.0001."""
    symbol = {"ALPHA": "BTCUSDT_PERP", "BETA": "BTC-PERP"}[exchange]
    found = service.rows("rateClose", type="FUNDING_RATE_AGG", exchange=exchange, rawSymbol=symbol)
    assert found[0] == (0, pytest.approx(rate, rel=1e-12))


def test_rule_5_rates_are_normalized_to_the_interval_given_in_milliseconds(service: Any) -> None:
    asked = of("FUNDING_RATE_AGG", exchange="BETA", rawSymbol="BTC-PERP")
    found = service.rows("rateClose", **asked, transform_normalize_fundingInterval=3_600_000)
    assert found == [(0, pytest.approx(0.0001, rel=1e-12)), (60, pytest.approx(0.0002, rel=1e-12))]


@each_row(
    "name",
    ["OPEN_INTEREST_AGG", "FUNDING_RATE_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG",
     "BLOCK_BOOK_SNAPSHOT_AGG", "VENUEX_LIQUIDATION_AGG", "TOKEN_SUPPLY_AGG", "SKEW_OPTION_SUMMARY_AGG",
     "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "TRADE", "CME_OPEN_INTEREST_AGG", "OPTION_OPEN_INTEREST_AGG"],
)  # fmt: skip
def test_rule_6_gapfill_of_any_other_type_is_unsupported(service: Any, name: str) -> None:
    assert service.refused(**of(name, gapfill="true")) == (400, "UNSUPPORTED")


@pytest.mark.parametrize("interval", ["SECOND", "UNKNOWN_AGGREGATION_INTERVAL", "3"])
def test_rule_7_an_unsupported_interval_yields_an_error(service: Any, interval: str) -> None:
    status, code = service.refused(interval=interval)
    assert (status, code) == (400, "INVALID_INTERVAL")


def test_rule_8_the_point_count_is_bounded(service: Any) -> None:
    assert service.refused(period=100_001 * 60) == (403, "POINT_LIMIT_EXCEEDED")
    assert service.points(period=100_000 * 60).status_code == 200


def test_rule_8_of_several_types_the_smallest_limit_counts(service: Any) -> None:
    asked = {"type": ["TRADE_AGG", "VOLUME_PROFILE_AGG"]}
    assert service.refused(**asked, period=20_001 * 60) == (403, "POINT_LIMIT_EXCEEDED")
    assert service.points(**asked, period=20_000 * 60).status_code == 200


def test_open_interest_in_usd_is_at_the_buckets_close(service: Any) -> None:
    # 6 at 96; in the third minute nothing was traded, and 8 count at 96 still.
    assert service.rows("close", type="OPEN_INTEREST_AGG", **PERP, **USD) == [(0, 576.0), (120, 768.0)]
