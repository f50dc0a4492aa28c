"""spec.md, "Resources and their fields": the envelope, the series identifier and the timestamp."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import GROUP, NOTHING, SKEW, TOKEN, VENUES, of
from conformance.lake import T0
from tables import each_row


def test_envelope_series_is_an_array_of_id_and_points(service: Any) -> None:
    body = service.points().json()
    assert set(body) == {"series", "notes"}  # the second is this service's own
    assert [set(one) for one in body["series"]] == [{"id", "points"}]


def test_envelope_one_series_per_unique_combination(service: Any) -> None:
    ids = [one["id"] for one in service.series(type="TRADE_AGG", **VENUES)]
    assert [(one["exchange"], one["rawSymbol"], one["side"]) for one in ids] == [
        ("ALPHA", "BTCUSDT", "BUY"),
        ("ALPHA", "BTCUSDT", "SELL"),
        ("ALPHA", "BTCUSDT_PERP", "BUY"),
        ("ALPHA", "BTCUSDT_PERP", "SELL"),
        ("BETA", "BTC-PERP", "BUY"),
        ("BETA", "BTC-PERP", "SELL"),
    ]


def test_envelope_each_point_is_wrapped_under_the_key_point(service: Any) -> None:
    (series,) = service.series()
    assert [set(point) for point in series["points"]] == [{"Point"}] * 3


def test_envelope_tpo_is_under_point_tpo_aggregation(service: Any) -> None:
    (series,) = service.series(**of("TPO_AGG"))
    (point,) = series["points"]
    assert list(point) == ["Point"]
    assert list(point["Point"]) == ["TpoAggregation"]


def test_envelope_of_nothing_is_an_empty_array(service: Any) -> None:
    assert service.points(**NOTHING).json()["series"] == []


# --- series identifier ----------------------------------------------------------------------------------------------

CANDLES = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG",
    "exchange": "ALPHA",
    "rawSymbol": "BTCUSDT",
    "normalizedSymbol": "BTC-USDT",
    "category": "SPOT",
    "interval": "MINUTE",
    "coin": "BTC",
}


@each_row("name", CANDLES)
def test_series_identifier(service: Any, name: str) -> None:
    assert service.id()[name] == CANDLES[name]


def test_series_identifier_of_a_candle_has_nothing_else(service: Any) -> None:
    assert service.identity() == CANDLES
    assert set(service.id()) == {*CANDLES, "amountUnit", "dataUntil"}


@pytest.mark.parametrize("name", ["TRADE_AGG", "LIQUIDATION_AGG", "TRADE"])
def test_series_identifier_side_is_present_for_per_side_types(service: Any, name: str) -> None:
    assert [one["id"]["side"] for one in service.series(**of(name))] == ["BUY", "SELL"]


def test_series_identifier_tenor_is_present_for_option_summaries(service: Any) -> None:
    assert service.id(**SKEW)["tenor"] == "ONE_M"


def test_series_identifier_normalized_symbol_of_an_option_summary_is_the_coin(service: Any) -> None:
    assert service.id(**SKEW)["normalizedSymbol"] == "BTC"


@pytest.mark.parametrize("interval", ["MINUTE", "HOUR", "WEEK"])
def test_series_identifier_interval_is_the_one_asked_for(service: Any, interval: str) -> None:
    week = {"from_": T0 - 4 * 86_400, "period": 604_800}
    assert {one["id"]["interval"] for one in service.series(interval=interval, **week)} == {interval}


@pytest.mark.parametrize(
    ("symbol", "venue", "category"),
    [("BTCUSDT", "ALPHA", "SPOT"), ("BTCUSDT_PERP", "ALPHA", "PERPETUAL"), ("BTCQ4", "CME", "FUTURE")],
)
def test_series_identifier_category(service: Any, symbol: str, venue: str, category: str) -> None:
    name = "CME_OPEN_INTEREST_AGG" if venue == "CME" else "TRADE_SIDE_AGNOSTIC_AGG"
    assert service.id(type=name, exchange=venue, rawSymbol=symbol)["category"] == category


def test_series_identifier_of_a_token_has_no_venue_and_no_symbol(service: Any) -> None:
    assert service.identity(**TOKEN) == {"type": "TOKEN_SUPPLY_AGG", "coin": "BTC", "interval": "DAY"}


def test_series_identifier_of_a_group_has_no_venue_and_no_symbol(service: Any) -> None:
    assert not {"exchange", "rawSymbol"} & set(service.id(**GROUP))


# --- timestamp ------------------------------------------------------------------------------------------------------


def test_timestamp_is_whole_unix_seconds_without_ns_when_it_is_0(service: Any) -> None:
    first = service.payloads()[0]
    assert first["timestamp"] == {"s": T0}
    assert first["firstTimestamp"] == {"s": T0}


def test_timestamp_has_nanoseconds_when_they_are_not_0(service: Any) -> None:
    assert service.payloads()[0]["lastTimestamp"] == {"s": T0 + 59, "ns": 750_000_000}
