"""spec.md, "GET /v1/points": of every row of its table of parameters, the meaning."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import (
    BY_TYPE,
    FUNDING_GROUP,
    GROUP,
    HEATMAP,
    PERP,
    TOKEN,
    TPO,
    USD,
    VENUES,
    VOLATILITY,
    of,
)
from conformance.lake import T0
from tables import each_row


def test_type_selects_the_kind_of_data(service: Any) -> None:
    assert service.id(type="VOLUME_PROFILE_AGG")["type"] == "VOLUME_PROFILE_AGG"


def test_exchange_is_repeated_for_multi_exchange_queries(service: Any) -> None:
    assert [one["id"]["exchange"] for one in service.series(**VENUES)] == ["ALPHA", "ALPHA", "BETA"]


def test_raw_symbol_is_exchange_specific(service: Any) -> None:
    assert service.refused(exchange="BETA", rawSymbol="BTCUSDT") == (400, "INVALID_SYMBOL")


def test_coin_returns_all_matching_markets_on_the_given_exchange(service: Any) -> None:
    found = service.series(rawSymbol=None, coin="BTC")
    assert [one["id"]["rawSymbol"] for one in found] == ["BTCUSDT", "BTCUSDT_PERP"]


def test_normalized_symbol_is_cross_exchange(service: Any) -> None:
    found = service.series(exchange=["ALPHA", "BETA"], rawSymbol=None, normalizedSymbol="BTC-USDT")
    assert [one["id"]["rawSymbol"] for one in found] == ["BTCUSDT", "BTCUSDT_PERP", "BTC-PERP"]


def test_category_filters(service: Any) -> None:
    found = service.series(**VENUES, category="PERPETUAL")
    assert [one["id"]["rawSymbol"] for one in found] == ["BTCUSDT_PERP", "BTC-PERP"]


def test_token_name_of_a_market_independent_query(service: Any) -> None:
    assert service.rows("marketcap", **{**TOKEN, "tokenName": "Ethereum"}) == [(0, 1.5e12)]


@pytest.mark.slow
def test_token_name_usually_equals_the_coin_name_of_a_market(service: Any) -> None:
    listed = service.get("/v1/markets", exchange="ALPHA", coin="BTC").json()["symbols"]
    assert {one.get("coinName") for one in listed} & {"Bitcoin"}
    assert service.payloads(**{**TOKEN, "tokenName": "Bitcoin"})


def test_interval_is_the_aggregation_interval(service: Any) -> None:
    assert service.rows("open", "close", "volume", interval="FIVE_MINUTES") == [(0, 100.0, 99.0, 7.75)]


@pytest.mark.slow
def test_tenor_of_an_option_summary(service: Any) -> None:
    assert service.id(**VOLATILITY, tenor="ONE_M")["tenor"] == "ONE_M"
    assert service.series(**VOLATILITY, tenor="ONE_W") == []


def test_from_is_inclusive(service: Any) -> None:
    assert service.rows(from_=T0 + 180) == [(180,)]
    assert service.series(from_=T0 + 181) == []


def test_period_is_the_duration_in_seconds_from_from(service: Any) -> None:
    assert service.rows(period=180) == [(0,), (60,)]
    assert service.rows(period=181) == [(0,), (60,), (180,)]


@pytest.mark.parametrize(("side", "volumes"), [("BUY", [1.0, 0.25, 4.0]), ("SELL", [2.0, 0.5])])
@pytest.mark.parametrize("name", ["TRADE_AGG", "TRADE"])
def test_side_keeps_only_that_side(service: Any, name: str, side: str, volumes: list[float]) -> None:
    assert service.id(type=name, side=side)["side"] == side
    found = [one.get("volume", one.get("amount")) for one in service.payloads(type=name, side=side)]
    assert found == volumes


@pytest.mark.parametrize(("side", "minute"), [("BUY", 0), ("SELL", 60)])
def test_side_keeps_only_that_side_of_liquidations(service: Any, side: str, minute: int) -> None:
    assert service.rows("liquidations", type="LIQUIDATION_AGG", side=side, **PERP) == [(minute, 3.0)]


COINS = ["TRADE_AGG", "TRADE", "BLOCK_BOOK_SNAPSHOT_AGG", "VOLUME_PROFILE_AGG"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        *(of(name) for name in BY_TYPE),
        *(of(name, rawSymbol=None, coin="BTC", exchange=["ALPHA", "BETA"]) for name in COINS),
    ],
    ids=[*BY_TYPE, *(f"{name} of a coin" for name in COINS)],
)
def test_sort_direction_turns_the_points_of_every_series(service: Any, asked: dict[str, Any]) -> None:
    oldest = service.series(**asked, sortDirection="SORT_DIRECTION_ASC")
    newest = service.series(**asked, sortDirection="SORT_DIRECTION_DESC")
    assert [one["id"] for one in oldest] == [one["id"] for one in newest]
    assert [one["points"] for one in oldest] == [one["points"][::-1] for one in newest]
    assert oldest


def test_gapfill_fills_missing_intervals_with_the_last_close(service: Any) -> None:
    assert service.rows("open", "high", "low", "close", "volume", gapfill="true")[2] == (
        120, 100.5, 100.5, 100.5, 100.5, 0.0,
    )  # fmt: skip
    assert [start for (start,) in service.rows(gapfill="true")] == [0, 60, 120, 180, 240]


@pytest.mark.parametrize("value", [None, "false"])
def test_gapfill_is_off_by_default(service: Any, value: str | None) -> None:
    assert [start for (start,) in service.rows(gapfill=value)] == [0, 60, 180]


# What 3, 0.75 and 4 coins, or the levels of them, are at the prices at which it happened.
IN_USD: dict[str, tuple[dict[str, Any], str, Any]] = {
    "candle volume": ({}, "volume", 100.0 + 2 * 101.5),
    "candle volume per side": ({"type": "TRADE_AGG", "side": "SELL"}, "volume", 2 * 101.5),
    "open interest": ({"type": "OPEN_INTEREST_AGG", **PERP}, "close", 6 * 96.0),
    "liquidations": ({"type": "LIQUIDATION_AGG", **PERP, "side": "BUY"}, "liquidations", 2 * 98.0 + 97.0),
    "volume profile": (
        {"type": "VOLUME_PROFILE_AGG", "interval": "HOUR"},
        "profile",
        [99.0, 396.0, 0.0, 100.0, 100.0, 0.0, 100.5, 25.125, 50.25, 101.5, 0.0, 203.0],
    ),
    "order-book heatmap": (
        {"type": "BLOCK_BOOK_SNAPSHOT_AGG", "maxDepth": 2},
        "bids",
        [100.0, 100.0, 99.5, 2 * 99.75],
    ),
    "liquidation heatmap": (
        HEATMAP,
        "levels",
        [100.0, 2 * 100.25, 100.5, 100.75, 101.0, 4 * 101.0 + 101.25],
    ),
    "market profile": (TPO, "total_volume", 240.0),
}


@pytest.mark.parametrize(("asked", "name", "value"), IN_USD.values(), ids=IN_USD)
def test_transform_normalize_quote_converts_values_to_usd(
    service: Any, asked: dict[str, Any], name: str, value: Any
) -> None:
    assert service.payloads(**asked, **USD)[0][name] == value


def test_transform_normalize_quote_leaves_prices(service: Any) -> None:
    prices = ("open", "high", "low", "close")
    assert service.rows(*prices, **USD) == service.rows(*prices)


@pytest.mark.slow
def test_transform_normalize_quote_does_not_apply_to_the_funding_rate(service: Any) -> None:
    asked = {"type": "FUNDING_RATE_AGG", **PERP}
    assert service.points(**asked, **USD).content == service.points(**asked).content
    assert service.points(**FUNDING_GROUP, **USD).content == service.points(**FUNDING_GROUP).content


@pytest.mark.parametrize("value", ["EUR", "USDT", ""])
def test_transform_normalize_quote_has_one_value(service: Any, value: str) -> None:
    assert service.refused(transform_normalize_quote=value) == (400, "INVALID_PARAMS")


def test_transform_group_by_type_aggregates_the_exchanges_into_one_series(service: Any) -> None:
    assert len(service.series(**VENUES)) == 3
    assert len(service.series(**GROUP)) == 1


@pytest.mark.parametrize(
    ("milliseconds", "factor"),
    [(None, 1.0), (28_800_000, 1.0), (3_600_000, 1 / 8), (86_400_000, 3.0)],
    ids=["default", "8 hours", "1 hour", "1 day"],
)
def test_transform_normalize_funding_interval(service: Any, milliseconds: int | None, factor: float) -> None:
    asked = {"type": "FUNDING_RATE_AGG", "transform_normalize_fundingInterval": milliseconds}
    ((_, rate, predicted),) = service.rows("rateClose", "predictedClose", **asked, **PERP)
    assert rate == pytest.approx(0.0003 * factor, rel=1e-12)
    assert predicted == pytest.approx(0.0001 * factor, rel=1e-12)


@pytest.mark.parametrize("milliseconds", [0, -1, "8.5", "NaN"])
def test_transform_normalize_funding_interval_is_a_positive_int64(service: Any, milliseconds: Any) -> None:
    asked = {"type": "FUNDING_RATE_AGG", "transform_normalize_fundingInterval": milliseconds}
    assert service.refused(**asked, **PERP) == (400, "INVALID_PARAMS")


# The first day has ten half hours that traded, each in its first two minutes; every one of them touched the third row.
BLOCKS = {
    5: [0, 6, 12, 18, 24, 30, 36, 42, 48, 54],
    30: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    60: [0, 1, 2, 3, 4],
    240: [0, 1],
}


@pytest.mark.slow
@pytest.mark.parametrize("minutes", BLOCKS)
def test_tpo_block_size_minutes(service: Any, minutes: int) -> None:
    (profile,) = service.payloads(**TPO, tpoBlockSizeMinutes=minutes)
    assert profile["block_size_minutes"] == minutes
    assert profile["levels"][2]["block_ids"] == BLOCKS[minutes]


def test_tpo_block_size_minutes_is_30_by_default(service: Any) -> None:
    assert service.payloads(**TPO)[0]["block_size_minutes"] == 30


@each_row("minutes", [0, 1, 15, 120, -30, "half"])
def test_tpo_block_size_minutes_has_four_values(service: Any, minutes: Any) -> None:
    assert service.refused(**TPO, tpoBlockSizeMinutes=minutes) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("name", ["tpoBlockSizeMinutes", "tpoSession"])
def test_tpo_parameters_are_of_tpo_agg_only(service: Any, name: str) -> None:
    value = 30 if name == "tpoBlockSizeMinutes" else "TPO_SESSION_DAILY"
    assert service.refused(**{name: value}) == (400, "UNSUPPORTED")


@pytest.mark.slow
def test_tpo_session_makes_one_profile_of_a_day_of_hours(service: Any) -> None:
    (profile,) = service.payloads(**{**TPO, "interval": "HOUR"}, tpoSession="TPO_SESSION_DAILY")
    assert profile["total_tpo_count"] == 20


@pytest.mark.parametrize("depth", [1, 2, 3, None])
def test_max_depth_is_the_number_of_price_levels_of_the_order_book_heatmap(
    service: Any, depth: int | None
) -> None:
    first = service.payloads(type="BLOCK_BOOK_SNAPSHOT_AGG", maxDepth=depth)[0]
    assert first["bids"] == [100.0, 1.0, 99.5, 2.0, 99.0, 4.0][: 2 * (depth or 3)]
    assert first["asks"] == [100.5, 3.0, 101.0, 5.0][: 2 * (depth or 2)]


@pytest.mark.slow
def test_max_depth_is_the_number_of_price_levels_of_a_group(service: Any) -> None:
    first = service.payloads(type="BLOCK_BOOK_SNAPSHOT_AGG", maxDepth=1, **GROUP)[0]
    assert (first["bids"], first["asks"]) == ([100.0, 100.0], [100.0, 3 * 100.5])


def test_max_depth_is_the_number_of_price_levels_of_the_liquidation_heatmap(service: Any) -> None:
    (point,) = service.payloads(**HEATMAP, maxDepth=2)
    assert len(point["levels"]) == 2 * 2


@pytest.mark.parametrize("depth", [0, -1, "1.5", "deep"])
def test_max_depth_is_a_positive_int64(service: Any, depth: Any) -> None:
    assert service.refused(type="BLOCK_BOOK_SNAPSHOT_AGG", maxDepth=depth) == (400, "INVALID_PARAMS")


BLOCKED: dict[str, tuple[dict[str, Any], str, list[float]]] = {
    "VOLUME_PROFILE_AGG": (
        {"type": "VOLUME_PROFILE_AGG", "interval": "HOUR"},
        "profile",
        [99.0, 100.0, 101.0],
    ),
    "BLOCK_BOOK_SNAPSHOT_AGG": ({"type": "BLOCK_BOOK_SNAPSHOT_AGG"}, "asks", [100.0, 101.0]),
    "VENUEX_LIQUIDATION_AGG": (HEATMAP, "levels", [100.0, 101.0]),
}


@pytest.mark.parametrize(("asked", "name", "prices"), BLOCKED.values(), ids=BLOCKED)
def test_block_size(service: Any, asked: dict[str, Any], name: str, prices: list[float]) -> None:
    stride = 3 if name == "profile" else 2
    assert service.payloads(**asked, blockSize=1)[0][name][::stride] == prices


@pytest.mark.slow
def test_block_size_of_a_market_profile(service: Any) -> None:
    (profile,) = service.payloads(**TPO, blockSize=2)
    assert [level["price"] for level in profile["levels"]] == [10.0, 12.0, 14.0]


@pytest.mark.parametrize("size", [0, -1, "NaN", "Infinity", "large"])
def test_block_size_is_a_positive_number(service: Any, size: Any) -> None:
    assert service.refused(type="VOLUME_PROFILE_AGG", blockSize=size) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("event", ["rain", "rain-in-may"])
def test_event_is_a_filter_by_slug(service: Any, event: str) -> None:
    found = service.series(exchange="PREDICT", rawSymbol=["11", "22", "33"], event=event)
    assert [one["id"]["rawSymbol"] for one in found] == ["11", "22"]


@each_row("value", ["1e3", "12.5", "", "now", "-1"])
@each_row("name", ["from_", "period"])
def test_from_and_period_are_whole_seconds(service: Any, name: str, value: str) -> None:
    assert service.refused(**{name: value}) == (400, "INVALID_PARAMS")
