"""silences.md, "Numbers"."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conformance.asked import FUNDING_GROUP, GROUP, HEATMAP, PERP, SKEW, USD, VENUES, VOLATILITY
from conformance.conftest import payloads
from conformance.lake import DAY, HOUR, T0

# --- USD ------------------------------------------------------------------------------------------------------------


def test_values_are_in_coin_terms_by_default(service: Any) -> None:
    assert service.rows("volume") == [(0, 3.0), (60, 0.75), (180, 4.0)]


def test_usd_multiplies_trades_by_the_price_at_which_they_happened(service: Any) -> None:
    assert service.rows("volume", **USD) == [(0, 303.0), (60, 75.375), (180, 396.0)]


def test_usd_multiplies_open_interest_by_the_buckets_close(service: Any) -> None:
    assert service.rows("open", "high", "low", "close", type="OPEN_INTEREST_AGG", **PERP, **USD)[0] == (
        0, 5 * 96.0, 7 * 96.0, 5 * 96.0, 6 * 96.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("exchange", "symbol", "quote"),
    [("ALPHA", "ETHUSDT", "USDT"), ("BETA", "ETHUSD", "USD"), ("PREDICT", "33", "USDC")],
    ids=["USDT", "USD", "USDC"],
)
def test_a_quote_that_is_usd_or_a_usd_stablecoin_counts_as_1_usd(
    service: Any, exchange: str, symbol: str, quote: str
) -> None:
    value = {"USDT": 8 * 10.25, "USD": 2 * 10.5, "USDC": 100 * 0.5}[quote]
    assert service.rows("volume", exchange=exchange, rawSymbol=symbol, **USD) == [(0, value)]


@pytest.mark.slow
def test_another_quote_counts_what_its_usd_market_says(service: Any) -> None:
    # A euro is 1.25 from before the window, and 1.5 once the minute of its next trade is over.
    asked = {"exchange": "GAMMA", "rawSymbol": "BTCEUR"}
    assert service.rows("volume", **asked, **USD) == [(60, 80 * 1.25), (120, 81 * 1.5)]


def test_another_quote_without_a_usd_market_is_unsupported(service: Any) -> None:
    asked = {"exchange": "GAMMA", "rawSymbol": "BTCTRY"}
    assert service.refused(**asked, **USD) == (400, "UNSUPPORTED")
    assert service.rows("volume", **asked) == [(60, 1.0)]


# --- groups ---------------------------------------------------------------------------------------------------------


def test_grouped_candles_open_from_the_member_that_traded_first(service: Any) -> None:
    assert service.rows("open", **GROUP) == [(0, 100.0), (60, 100.5), (180, 99.0)]


def test_grouped_candles_close_from_the_member_that_traded_last(service: Any) -> None:
    assert service.rows("close", **GROUP) == [(0, 101.5), (60, 102.0), (180, 98.0)]


def test_grouped_candles_high_and_low_are_the_extremes(service: Any) -> None:
    assert service.rows("high", "low", **GROUP)[0] == (0, 101.5, 96.0)


def test_grouped_candles_have_the_first_and_the_last_time(service: Any) -> None:
    assert service.rows("firstTimestamp", "lastTimestamp", **GROUP)[1:] == [
        (60, {"s": T0 + 60}, {"s": T0 + 62}),
        (180, {"s": T0 + 180}, {"s": T0 + 200}),
    ]


OPEN_INTEREST = {**GROUP, "type": "OPEN_INTEREST_AGG"}


@pytest.mark.slow
def test_grouped_open_interest_carries_what_a_member_last_reported(service: Any) -> None:
    # First minute: 5, 7, 5, 6 at 96 and 10 at 100. Second: 6 at 96 carried, 12 at 102. Third: 8 at 96, the 12 carried.
    assert service.rows("open", "high", "low", "close", **OPEN_INTEREST) == [
        (0, 1_480.0, 1_672.0, 1_480.0, 1_576.0),
        (60, 1_800.0, 1_800.0, 1_800.0, 1_800.0),
        (120, 1_992.0, 1_992.0, 1_992.0, 1_992.0),
    ]


@pytest.mark.slow
def test_grouped_open_interest_carries_into_the_window(service: Any) -> None:
    assert service.rows("close", **OPEN_INTEREST, from_=T0 + 120, period=60) == [(120, 1_992.0)]


@pytest.mark.slow
def test_grouped_open_interest_carries_at_most_24_hours(service: Any) -> None:
    # BETA's report is of the second minute; ALPHA's 9 are at 98. 23:59 h later both count, 24:01 h later ALPHA alone.
    asked = {**OPEN_INTEREST, "from_": T0 + DAY, "period": 300}
    assert service.rows("close", **asked) == [(DAY, 9 * 98.0 + 12 * 102.0), (DAY + 120, 9 * 98.0)]


@pytest.mark.parametrize(("side", "found"), [("BUY", [(0, 196.0 + 97.0 + 400.0)]), ("SELL", [(60, 303.0)])])
def test_grouped_liquidations_are_summed(service: Any, side: str, found: list[tuple[int, float]]) -> None:
    assert service.rows("liquidations", **GROUP, type="LIQUIDATION_AGG", side=side) == found


@pytest.mark.slow
def test_grouped_funding_is_brought_to_the_funding_interval_first(service: Any) -> None:
    eight = service.rows("rateClose", **FUNDING_GROUP)
    one = service.rows("rateClose", **FUNDING_GROUP, transform_normalize_fundingInterval=3_600_000)
    assert [rate for _, rate in one] == pytest.approx([rate / 8 for _, rate in eight], rel=1e-12)
    assert eight[0] == (0, pytest.approx((0.0003 * 576 + 0.0008 * 1_000) / 1_576, rel=1e-12))


@pytest.mark.slow
def test_grouped_funding_leaves_out_a_member_without_open_interest(service: Any) -> None:
    asked = {**FUNDING_GROUP, "exchange": ["ALPHA", "VENUEX"]}
    assert service.rows("rateClose", **asked) == [(0, pytest.approx(0.0003, rel=1e-12))]


@pytest.mark.slow
def test_grouped_funding_without_a_member_has_no_point(service: Any) -> None:
    assert service.series(**{**FUNDING_GROUP, "exchange": "VENUEX"}) == []
    assert service.series(type="FUNDING_RATE_AGG", exchange="VENUEX", rawSymbol="BTC-A")


# --- gaps -----------------------------------------------------------------------------------------------------------


def test_a_filled_gap_is_flat_without_volume_and_without_times(service: Any) -> None:
    assert service.payloads(gapfill="true")[2] == {
        "timestamp": {"s": T0 + 120}, "open": 100.5, "high": 100.5, "low": 100.5, "close": 100.5, "volume": 0.0,
    }  # fmt: skip


@pytest.mark.slow
def test_gapfill_looks_back_before_the_window(service: Any) -> None:
    """At 95 of a day and a half before; and beyond, at 90 of forty days before."""
    assert service.rows("close", gapfill="true", from_=T0 - 120, period=240) == [
        (-120, 95.0), (-60, 95.0), (0, 101.5), (60, 100.5),
    ]  # fmt: skip
    assert service.rows("close", gapfill="true", from_=T0 - 2 * DAY, period=60) == [(-2 * DAY, 90.0)]


def test_gapfill_never_invents_a_close(service: Any) -> None:
    asked = {"rawSymbol": "LATEUSDT", "gapfill": "true"}
    assert service.series(**asked) == []
    assert service.rows("close", **asked, from_=T0 + DAY - 120, period=180) == [(DAY - 60, 7.0), (DAY, 7.0)]


def test_gapfill_of_sides_takes_each_sides_own_close(service: Any) -> None:
    buys, sells = service.series(type="TRADE_AGG", gapfill="true", from_=T0 - 60, period=180)
    assert [one["close"] for one in payloads(buys)] == [90.0, 100.0, 100.5]
    assert [one["close"] for one in payloads(sells)] == [95.0, 101.5, 100.5]


@pytest.mark.slow
def test_gapfill_of_a_group_takes_the_close_of_the_member_that_traded_last(service: Any) -> None:
    # BETA traded at 99, 100 seconds before the window.
    assert service.rows("close", **GROUP, gapfill="true", from_=T0 - 60, period=120) == [
        (-60, 99.0),
        (0, 101.5),
    ]


# --- levels ---------------------------------------------------------------------------------------------------------


def test_a_price_on_the_grid_stays_on_its_row(service: Any) -> None:
    """In floats 0.3 / 0.1 is 2.9999999999999996, 0.7 / 0.1 is 6.999999999999999 and 2.3 / 0.1 is 22.999999999999996."""
    assert [math.floor(price / 0.1) for price in (0.3, 0.7, 1.1, 2.3)] == [2, 6, 11, 22]
    (point,) = service.payloads(type="VOLUME_PROFILE_AGG", rawSymbol="GRIDUSDT")
    assert point["profile"] == [0.3, 1.0, 0.0, 0.7, 1.0, 0.0, 1.1, 1.0, 0.0, 2.3, 1.0, 0.0]


def test_levels_are_multiples_of_the_block_size(service: Any) -> None:
    (point,) = service.payloads(type="VOLUME_PROFILE_AGG", rawSymbol="GRIDUSDT", blockSize="0.3")
    assert point["profile"][::3] == [0.3, 0.6, 0.9, 2.1]


@pytest.mark.parametrize(
    ("exchange", "symbol", "lowest"), [("ALPHA", "BTCUSDT", 99.0), ("BETA", "BTC-PERP", 100.0)]
)
def test_a_profiles_block_size_comes_from_the_markets_metadata(
    service: Any, exchange: str, symbol: str, lowest: float
) -> None:
    (point,) = service.payloads(
        type="VOLUME_PROFILE_AGG", exchange=exchange, rawSymbol=symbol, interval="HOUR"
    )
    assert point["profile"][0] == lowest
    step = {"ALPHA": 0.5, "BETA": 1.0}[exchange]
    assert all(price % step == 0 for price in point["profile"][::3])


def test_block_100_5_of_a_grid_of_halves_is_kept_apart_from_100(service: Any) -> None:
    (point,) = service.payloads(type="VOLUME_PROFILE_AGG", interval="HOUR")
    assert point["profile"][::3] == [99.0, 100.0, 100.5, 101.5]


@pytest.mark.parametrize("name", ["coin", "levels"])
def test_the_liquidation_heatmap_is_aggregated_per_coin_across_the_venue(service: Any, name: str) -> None:
    (point,) = service.payloads(**HEATMAP)
    # 4 at 101.0 on one market and 1 at 101.25 on the other are of one level.
    assert point[name] == {"coin": "BTC", "levels": [100.0, 2.0, 100.5, 1.0, 101.0, 5.0]}[name]


# --- options --------------------------------------------------------------------------------------------------------


def between(first: float, second: float) -> float:
    """Volatility at 30 days, linear in total variance between 28 and 56 days. [%]"""
    near, far = first**2 * 28, second**2 * 56
    return math.sqrt((near + (far - near) * (30 - 28) / (56 - 28)) / 30)


@pytest.mark.parametrize("symbol", ["BTC_25", "BTC_10"])
def test_skew_is_put_minus_call_so_positive_when_puts_are_dearer(service: Any, symbol: str) -> None:
    (point,) = service.payloads(**{**SKEW, "rawSymbol": symbol})
    assert point["skew"] == pytest.approx(between(62, 60) - between(60, 58), abs=1e-9)
    assert point["skew"] > 0


def test_atm_volatility_is_interpolated_in_total_variance(service: Any) -> None:
    (point,) = service.payloads(**VOLATILITY)
    assert point["impliedVolatility"] == pytest.approx(between(60, 58), abs=1e-9)
    assert point["impliedVolatility"] == pytest.approx(59.7372, abs=5e-5)  # definitions.md


@pytest.mark.slow
@pytest.mark.parametrize("tenor", ["ONE_W", "TWO_M"])
def test_nothing_is_extrapolated_to_a_tenor_outside_the_listed_expiries(service: Any, tenor: str) -> None:
    assert service.series(**{**SKEW, "tenor": tenor}) == []
    assert service.series(**VOLATILITY, tenor=tenor) == []


@pytest.mark.parametrize("symbol", ["BTC_50", "BTC", "ETH_25", "BTC_ATM"])
def test_skew_symbols_are_these_two(service: Any, symbol: str) -> None:
    assert service.refused(**{**SKEW, "rawSymbol": symbol}) == (400, "INVALID_SYMBOL")


# --- candles that somebody else made --------------------------------------------------------------------------------


def test_a_market_with_recorded_candles_alone_is_answered_from_them(service: Any) -> None:
    asked = {"exchange": "GAMMA", "rawSymbol": "OLDUSDT", "interval": "FIVE_MINUTES"}
    assert service.rows("open", "high", "low", "close", "volume", **asked) == [(0, 1.0, 5.0, 0.5, 4.0, 30.0)]


@pytest.mark.parametrize("interval", ["MINUTE", "FIVE_MINUTES", "HOUR", "DAY"])
def test_volume_is_conserved_whatever_the_interval(service: Any, interval: str) -> None:
    period = DAY if interval == "DAY" else HOUR
    found = service.series(**VENUES, interval=interval, period=period)
    assert sum(one["volume"] for series in found for one in payloads(series)) == 7.75 + 3.0 + 4.0
