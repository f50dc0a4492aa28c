"""spec.md, "Point payloads": the fields of every type, and their values in coin terms. silences.md, "Payloads"."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import HEATMAP, PERP, SKEW, TOKEN, TPO, VOLATILITY, of
from conformance.conftest import payloads
from conformance.lake import DAY, HOUR, T0
from tables import each_row

# --- candles --------------------------------------------------------------------------------------------------------

CANDLE = {
    "open": 100.0,
    "high": 101.5,
    "low": 100.0,
    "close": 101.5,
    "volume": 3.0,
    "timestamp": {"s": T0},
    "firstTimestamp": {"s": T0},
    "lastTimestamp": {"s": T0 + 59, "ns": 750_000_000},
}
BUYS_OF_THE_SECOND_MINUTE = {
    "open": 100.5,
    "high": 100.5,
    "low": 100.5,
    "close": 100.5,
    "volume": 0.25,  # of 0.75 traded
    "timestamp": {"s": T0 + 60},
    "firstTimestamp": {"s": T0 + 61, "ns": 500_000_000},
    "lastTimestamp": {"s": T0 + 61, "ns": 500_000_000},
}


@each_row("name", CANDLE)
def test_trade_side_agnostic_agg(service: Any, name: str) -> None:
    assert service.payloads()[0][name] == CANDLE[name]


@each_row("name", BUYS_OF_THE_SECOND_MINUTE)
def test_trade_agg(service: Any, name: str) -> None:
    buys, _ = service.series(type="TRADE_AGG")
    assert payloads(buys)[1][name] == BUYS_OF_THE_SECOND_MINUTE[name]


def test_a_candle_has_these_fields_and_no_others(service: Any) -> None:
    assert all(set(one) == set(CANDLE) for one in service.payloads())
    assert all(set(p) == set(CANDLE) for one in service.series(type="TRADE_AGG") for p in payloads(one))


# --- states ---------------------------------------------------------------------------------------------------------


def test_open_interest_agg(service: Any) -> None:
    assert service.payloads(type="OPEN_INTEREST_AGG", **PERP) == [
        {"open": 5.0, "high": 7.0, "low": 5.0, "close": 6.0, "timestamp": {"s": T0}},
        {"open": 8.0, "high": 8.0, "low": 8.0, "close": 8.0, "timestamp": {"s": T0 + 120}},
    ]


def test_funding_rate_agg(service: Any) -> None:
    assert service.payloads(type="FUNDING_RATE_AGG", **PERP) == [
        {
            "rateOpen": 0.0001,
            "rateHigh": 0.0003,
            "rateLow": 0.0001,
            "rateClose": 0.0003,
            "predictedOpen": 0.0002,
            "predictedHigh": 0.0002,
            "predictedLow": 0.0001,
            "predictedClose": 0.0001,
            "timestamp": {"s": T0},
        }
    ]


def test_funding_rate_agg_predicted_values_are_left_out_when_not_available(service: Any) -> None:
    for one in service.payloads(type="FUNDING_RATE_AGG", exchange="BETA", rawSymbol="BTC-PERP"):
        assert set(one) == {"rateOpen", "rateHigh", "rateLow", "rateClose", "timestamp"}


def test_liquidation_agg_is_one_series_per_side(service: Any) -> None:
    buys, sells = service.series(type="LIQUIDATION_AGG", **PERP)
    assert (buys["id"]["side"], payloads(buys)) == ("BUY", [{"liquidations": 3.0, "timestamp": {"s": T0}}])
    assert (sells["id"]["side"], payloads(sells)) == (
        "SELL",
        [{"liquidations": 3.0, "timestamp": {"s": T0 + 60}}],
    )


def test_skew_option_summary_agg(service: Any) -> None:
    (point,) = service.payloads(**SKEW)
    assert set(point) == {"skew", "timestamp"}
    assert point["timestamp"] == {"s": T0}


# --- TPO ------------------------------------------------------------------------------------------------------------

PROFILE = {
    "timestamp": {"s": T0},
    "period_start": {"s": T0},
    "period_end": {"s": T0 + DAY},
    # Derived fields; silences.md: our service fills every one. Counts by row are 1, 4, 10, 4, 1, the golden profile of
    # definitions.md: by the two-row rule, up on ties, its value area is rows 2 to 4, 15 of 20.
    "block_size_minutes": 30,
    "poc_price": 12.0,
    "vah_price": 14.0,
    "val_price": 12.0,
    "profile_high": 14.0,
    "profile_low": 10.0,
    "opening_price": 10.0,
    "closing_price": 12.0,
    "ibr_high": 12.0,
    "ibr_low": 10.0,
    "total_tpo_count": 20,
    "value_area_percentage": 75.0,
    "poor_highs": [],
    "poor_lows": [],
    "total_volume": 20.0,
    "single_prints": [],
}
LEVELS = {
    "price": [10.0, 11.0, 12.0, 13.0, 14.0],
    "block_ids": [[0], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [4, 5, 6, 7], [7]],
    "buy_volume": [1.0, 3.0, 6.0, 0.0, 0.0],
    "sell_volume": [0.0, 0.0, 6.0, 3.0, 1.0],
    "tpo_count": [1, 4, 10, 4, 1],
    "volume": [1.0, 3.0, 12.0, 3.0, 1.0],
    "first_touch_block": [0, 0, 0, 4, 7],
    "last_touch_block": [0, 3, 9, 7, 7],
}


@each_row("name", PROFILE)
def test_tpo_agg(service: Any, name: str) -> None:
    (profile,) = service.payloads(**TPO)
    assert profile[name] == PROFILE[name]


@each_row("name", LEVELS)
def test_tpo_agg_level(service: Any, name: str) -> None:
    (profile,) = service.payloads(**TPO)
    assert [level[name] for level in profile["levels"]] == LEVELS[name]


def test_tpo_agg_has_these_fields_and_no_others(service: Any) -> None:
    (profile,) = service.payloads(**TPO)
    assert set(profile) == {*PROFILE, "levels"}
    assert all(set(level) == set(LEVELS) for level in profile["levels"])


# Half hours that traded 20-22, 22-24, 24-26 and 26: counts 1, 1, 2, 1, 2, 1, 2 from 20 up.
SECOND_DAY = {
    "poc_price": 22.0,  # 22, 24 and 26 tie; 22 and 24 are as close to the middle, and the lower price is taken
    "val_price": 22.0,
    "vah_price": 26.0,  # 2 and, two rows above against two below, 3 against 2, then 3 against 2 again: 8 of 10
    "value_area_percentage": 80.0,
    "single_prints": [23.0, 25.0],  # 20 and 21 are a tail
    "poor_highs": [26.0],
    "poor_lows": [],
    "ibr_high": 24.0,
    "ibr_low": 20.0,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SECOND_DAY)
def test_tpo_agg_of_a_second_day(service: Any, name: str) -> None:
    (profile,) = service.payloads(**{**TPO, "from_": T0 + DAY})
    assert profile[name] == SECOND_DAY[name]


# --- other payloads named in the service definition -----------------------------------------------------------------


def test_trade(service: Any) -> None:
    buys, sells = service.series(type="TRADE")
    assert payloads(buys)[1] == {
        "id": "5",
        "price": 100.5,
        "amount": 0.25,
        "timestamp": {"s": T0 + 61, "ns": 500_000_000},
        "quote_amount": 25.125,
    }
    assert [one["id"] for one in payloads(buys)] == ["2", "5", "6"]
    assert [one["id"] for one in payloads(sells)] == ["3", "4"]


def test_cme_open_interest_agg(service: Any) -> None:
    asked = {"type": "CME_OPEN_INTEREST_AGG", "exchange": "CME", "rawSymbol": "BTCQ4"}
    assert service.payloads(**asked, interval="DAY", period=DAY) == [
        {
            "open": 5.0,
            "high": 7.0,
            "low": 5.0,
            "close": 6.0,
            "valueOpen": 500.0,
            "valueHigh": 770.0,
            "valueLow": 500.0,
            "valueClose": 630.0,
            "priceOpen": 100.0,
            "priceHigh": 110.0,
            "priceLow": 100.0,
            "priceClose": 105.0,
            "timestamp": {"s": T0},
        }
    ]


def test_option_open_interest_agg(service: Any) -> None:
    # 30 strikes, calls and puts, two expiries, 2 coins each.
    assert service.payloads(**of("OPTION_OPEN_INTEREST_AGG")) == [
        {"underlyingPriceClose": 100.0, "oiClose": 240.0, "timestamp": {"s": T0}}
    ]


def test_venuex_liquidation_agg_has_pairs_of_price_and_volume_price_ascending(service: Any) -> None:
    assert service.payloads(**HEATMAP) == [
        {"timestamp": {"s": T0}, "coin": "BTC", "levels": [100.0, 2.0, 100.5, 1.0, 101.0, 5.0]}
    ]


# --- payloads that spec.md does not show, silences.md ---------------------------------------------------------------


def test_silences_volume_profile_agg_has_triplets_price_ascending(service: Any) -> None:
    assert service.payloads(type="VOLUME_PROFILE_AGG", interval="HOUR", period=HOUR) == [
        {
            "timestamp": {"s": T0},
            "profile": [99.0, 4.0, 0.0, 100.0, 1.0, 0.0, 100.5, 0.25, 0.5, 101.5, 0.0, 2.0],
        }
    ]


def test_silences_block_book_snapshot_agg_has_pairs_closest_to_mid_first(service: Any) -> None:
    assert service.payloads(type="BLOCK_BOOK_SNAPSHOT_AGG")[0] == {
        "timestamp": {"s": T0},
        "bids": [100.0, 1.0, 99.5, 2.0, 99.0, 4.0],
        "asks": [100.5, 3.0, 101.0, 5.0],
    }


def test_silences_implied_volatility_option_summary_agg_is_in_percent(service: Any) -> None:
    (point,) = service.payloads(**VOLATILITY)
    assert set(point) == {"impliedVolatility", "timestamp"}
    assert point["impliedVolatility"] == pytest.approx(59.7372, abs=5e-5)


def test_silences_token_supply_agg(service: Any) -> None:
    assert service.payloads(**TOKEN) == [
        {
            "marketcap": 3.5e12,
            "firstMarketcap": 3e12,
            "marketcapDominancePercent": 70.0,  # 3.5 of 3.5 + 1.5
            "circulatingSupply": 19.5e6,
            "totalSupply": 19.75e6,
            "maxSupply": 21e6,
            "totalValueLocked": 1e9,
            "fullyDilutedValuation": 4e12,
            "totalVolume": 5e10,
            "usdPrice": 179_487.5,
            "cgMarketcapRank": 1,
            "chain": "bitcoin",
            "contractAddress": "none",
            "timestamp": {"s": T0},
        }
    ]


def test_silences_token_supply_agg_leaves_out_what_was_not_reported(service: Any) -> None:
    (point,) = service.payloads(**{**TOKEN, "tokenName": "Ethereum"})
    assert set(point) == {"marketcap", "firstMarketcap", "marketcapDominancePercent", "timestamp"}


def test_silences_a_trade_has_its_side_on_the_series_id(service: Any) -> None:
    assert [one["id"]["side"] for one in service.series(type="TRADE")] == ["BUY", "SELL"]
