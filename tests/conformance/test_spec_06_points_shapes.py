"""spec.md, "GET /v1/points": the shape of the response, per type."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import (
    FUNDING_GROUP,
    PERP,
    SKEW,
    SUM,
    TPO,
)
from conformance.conftest import payloads
from conformance.lake import DAY, HOUR, T0


@pytest.mark.parametrize("name", ["TRADE_AGG", "LIQUIDATION_AGG"])
def test_shape_two_series_unless_side_filters(service: Any, name: str) -> None:
    asked = {"type": name, "rawSymbol": "BTCUSDT_PERP"}
    assert [one["id"]["side"] for one in service.series(**asked)] == ["BUY", "SELL"]
    assert [one["id"]["side"] for one in service.series(**asked, side="SELL")] == ["SELL"]


def test_shape_one_skew_series_selected_by_venue_coin_symbol_and_tenor(service: Any) -> None:
    found = service.id(**SKEW)
    assert (found["exchange"], found["coin"], found["rawSymbol"], found["tenor"]) == (
        "OPTIONS", "BTC", "BTC_25", "ONE_M",
    )  # fmt: skip


def test_shape_skew_flavour_is_selected_by_the_raw_symbol(service: Any) -> None:
    assert service.id(**{**SKEW, "rawSymbol": "BTC_10"})["rawSymbol"] == "BTC_10"


def test_shape_skew_of_several_exchanges_is_not_supported(service: Any) -> None:
    assert service.refused(**{**SKEW, "exchange": ["OPTIONS", "ALPHA"]}) == (400, "UNSUPPORTED")


@pytest.mark.slow
def test_shape_skew_symbols_and_tenors_are_discovered_on_markets(service: Any) -> None:
    listed = service.get("/v1/markets", exchange="OPTIONS").json()["symbols"]
    assert {(one["rawSymbol"], one["tenor"]) for one in listed} == {
        ("BTC_ATM", "ONE_M"), ("BTC_25", "ONE_M"), ("BTC_10", "ONE_M"),
    }  # fmt: skip


@pytest.mark.slow
def test_shape_tpo_of_a_group_with_coin(service: Any) -> None:
    asked = {
        **TPO,
        "exchange": ["ALPHA", "BETA"],
        "rawSymbol": None,
        "coin": "TPO",
        "transform_groupBy_type": SUM,
    }
    (profile,) = service.payloads(**asked)
    assert profile["levels"][3]["block_ids"] == [0, 4, 5, 6, 7]


def test_shape_of_several_types_is_series_of_each(service: Any) -> None:
    found = service.series(type=["LIQUIDATION_AGG", "OPEN_INTEREST_AGG"], **PERP)
    assert [one["id"]["type"] for one in found] == ["LIQUIDATION_AGG", "LIQUIDATION_AGG", "OPEN_INTEREST_AGG"]
    assert all(payloads(one) for one in found)


def test_shape_of_a_funding_group(service: Any) -> None:
    assert "rateClose" in service.payloads(**FUNDING_GROUP)[0]


def test_shape_a_session_that_starts_before_from_is_not_returned(service: Any) -> None:
    asked = {**TPO, "from_": T0 + 1, "period": DAY}
    assert [one["timestamp"]["s"] for one in service.payloads(**asked)] == [T0 + DAY]
    assert service.series(**{**TPO, "from_": T0 + 1, "period": HOUR}) == []
