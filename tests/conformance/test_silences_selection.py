"""silences.md, "Selection and identity"."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import FUNDING_GROUP, GROUP, HEATMAP, SKEW, SUM, TOKEN, VENUES, VOLATILITY, identity


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "LIQUIDATION_AGG", "TRADE", "OPEN_INTEREST_AGG"]
)
def test_a_series_is_a_unique_combination_of_venue_symbol_side_tenor_and_type(
    service: Any, name: str
) -> None:
    found = service.series(type=[name, "VOLUME_PROFILE_AGG"], **VENUES)
    names = [
        tuple(one["id"].get(field) for field in ("exchange", "rawSymbol", "side", "tenor", "type"))
        for one in found
    ]
    assert len(set(names)) == len(names)


def test_coin_returns_one_series_per_matching_market(service: Any) -> None:
    found = service.series(**VENUES)
    assert [one["id"]["rawSymbol"] for one in found] == ["BTCUSDT", "BTCUSDT_PERP", "BTC-PERP"]


GROUPED: dict[str, tuple[dict[str, Any], list[dict[str, str]]]] = {
    "symbols agree": (
        GROUP,
        [{"type": "TRADE_SIDE_AGNOSTIC_AGG", "interval": "MINUTE", "coin": "BTC", "normalizedSymbol": "BTC-USDT"}],
    ),
    "symbols and categories agree": (
        {**GROUP, "category": "PERPETUAL"},
        [
            {
                "type": "TRADE_SIDE_AGNOSTIC_AGG",
                "interval": "MINUTE",
                "coin": "BTC",
                "normalizedSymbol": "BTC-USDT",
                "category": "PERPETUAL",
            }
        ],
    ),
    "categories agree": (
        {**GROUP, "coin": "ETH"},
        [{"type": "TRADE_SIDE_AGNOSTIC_AGG", "interval": "MINUTE", "coin": "ETH", "category": "SPOT"}],
    ),
    "sides stay apart": (
        {**GROUP, "type": "TRADE_AGG", "coin": "ETH"},
        [
            {"type": "TRADE_AGG", "interval": "MINUTE", "coin": "ETH", "category": "SPOT", "side": side}
            for side in ("BUY", "SELL")
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "ids"), GROUPED.values(), ids=GROUPED)
def test_a_grouped_series_carries_what_its_members_agree_on(
    service: Any, asked: dict[str, Any], ids: list[dict[str, str]]
) -> None:
    assert [identity(one["id"]) for one in service.series(**asked)] == ids


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"]
)
def test_a_grouped_series_has_no_exchange_and_no_raw_symbol(service: Any, name: str) -> None:
    for one in service.series(**{**GROUP, "type": name}):
        assert not {"exchange", "rawSymbol"} & set(one["id"])
        assert one["id"]["coin"] == "BTC"


@pytest.mark.slow
def test_a_grouped_series_of_funding_has_no_exchange_and_no_raw_symbol(service: Any) -> None:
    assert not {"exchange", "rawSymbol"} & set(service.id(**FUNDING_GROUP))


def test_exactly_one_way_does_not_apply_to_option_summaries(service: Any) -> None:
    assert {"coin", "rawSymbol"} <= set(SKEW)
    assert service.payloads(**SKEW)
    assert service.payloads(**VOLATILITY)


@pytest.mark.parametrize(
    "given", [{"coin": "BTC"}, {"tokenName": None, "coin": "BTC"}, {}], ids=["both", "coin", "name"]
)
def test_exactly_one_way_does_not_apply_to_token_supply(service: Any, given: dict[str, Any]) -> None:
    assert service.rows("marketcap", **{**TOKEN, **given}) == [(0, 3.5e12)]


def test_exactly_one_way_does_not_apply_to_the_liquidation_heatmap(service: Any) -> None:
    assert service.payloads(**HEATMAP)


@pytest.mark.parametrize("given", [{"coin": None}, {"rawSymbol": "BTC-A"}, {"normalizedSymbol": "BTC-USDT"}])
def test_the_liquidation_heatmap_is_of_a_coin_alone(service: Any, given: dict[str, Any]) -> None:
    assert service.refused(**{**HEATMAP, **given}) == (400, "INVALID_SYMBOL")


@pytest.mark.parametrize(
    ("slug", "symbols"), [("rain", ["11", "22"]), ("snow", ["33"]), ("snow-in-may", ["33"])]
)
def test_event_filters_markets_of_outcomes_by_slug(service: Any, slug: str, symbols: list[str]) -> None:
    found = service.series(exchange="PREDICT", rawSymbol=["11", "22", "33"], event=slug)
    assert [one["id"]["rawSymbol"] for one in found] == symbols


@pytest.mark.parametrize("name", ["TRADE_SIDE_AGNOSTIC_AGG", "VOLUME_PROFILE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"])
def test_side_on_a_type_without_sides_changes_nothing(service: Any, name: str) -> None:
    assert service.series(type=name, side="SELL") == service.series(type=name)


def test_several_types_are_answered_as_series_of_each(service: Any) -> None:
    both = service.series(type=["TRADE_AGG", "VOLUME_PROFILE_AGG"])
    assert both == service.series(type="TRADE_AGG") + service.series(type="VOLUME_PROFILE_AGG")


def test_a_side_keeps_to_the_types_that_have_sides(service: Any) -> None:
    both = service.series(type=["TRADE_AGG", "VOLUME_PROFILE_AGG"], side="SELL")
    assert [one["id"].get("side") for one in both] == ["SELL", None]
    assert both[1:] == service.series(type="VOLUME_PROFILE_AGG")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exchange", "symbol", "price"),
    [("STOCKS", "ACME", 50.0), ("METALS", "XAU", 2400.0), ("BANKS", "EURUSD", 1.25), ("PREDICT", "11", 0.25)],
    ids=["equities", "commodities", "interbank FX", "prediction market"],
)
def test_venues_of_every_kind_are_markets_like_any_other(
    service: Any, exchange: str, symbol: str, price: float
) -> None:
    asked = {"exchange": exchange, "rawSymbol": symbol}
    assert service.rows("close", **asked) == [(0, price)]
    assert service.rows("close", **asked, gapfill="true")[-1] == (240, price)
    assert service.series(type="VOLUME_PROFILE_AGG", **asked)
    amount = 100.0 if exchange == "PREDICT" else 1.0
    assert service.rows("volume", **asked, transform_normalize_quote="USD") == [(0, price * amount)]


def test_members_of_a_group_may_be_on_one_venue(service: Any) -> None:
    asked = {"rawSymbol": None, "coin": "BTC", "transform_groupBy_type": SUM}
    assert service.rows("volume", **asked)[0] == (0, 100.0 + 203.0 + 192.0)
