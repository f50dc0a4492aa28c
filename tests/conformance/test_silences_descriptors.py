"""Decided on 2026-11-22: what amounts count, how high levels are, and up to when a market is known."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import FUNDING_GROUP, GROUP, of
from conformance.lake import T0

COIN, USD = "COIN", "USD"


@pytest.mark.parametrize(
    "name", ["TRADE_AGG", "OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG", "TRADE"]
)
def test_amounts_count_coins_unless_more_is_asked_for(service: Any, name: str) -> None:
    assert {one["id"]["amountUnit"] for one in service.series(**of(name))} == {COIN}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TRADE_AGG", "OPEN_INTEREST_AGG", "LIQUIDATION_AGG", "VOLUME_PROFILE_AGG"])
@pytest.mark.parametrize("asked", [{"transform_normalize_quote": USD}, GROUP], ids=["quote", "group"])
def test_amounts_count_us_dollars_where_that_is_asked_for_and_in_groups(
    service: Any, name: str, asked: dict[str, Any]
) -> None:
    assert {one["id"]["amountUnit"] for one in service.series(**{**of(name), **asked, "type": name})} == {USD}


@pytest.mark.slow
def test_rates_count_nothing(service: Any) -> None:
    assert "amountUnit" not in service.id(**FUNDING_GROUP)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["VOLUME_PROFILE_AGG", "TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"])
def test_levels_say_how_high_they_are(service: Any, name: str) -> None:
    (size,) = {one["id"]["blockSize"] for one in service.series(type=name)}
    assert size > 0
    assert {one["id"]["blockSize"] for one in service.series(type=name, blockSize=10)} == {10}


def test_a_market_is_known_up_to_its_newest_event(service: Any) -> None:
    trades = service.series(type="TRADE", period=30 * 86_400)
    newest = max(point["Point"]["timestamp"]["s"] for one in trades for point in one["points"])
    (until,) = {one["id"]["dataUntil"]["s"] for one in service.series()}
    assert until == newest
    assert until > T0


@pytest.mark.slow
def test_a_group_is_known_up_to_what_its_oldest_member_is(service: Any) -> None:
    """A market without events of the type is no member."""
    members = {**GROUP}
    del members["transform_groupBy_type"]
    untils = [one["id"]["dataUntil"]["s"] for one in service.series(**members)]
    assert len(set(untils)) > 1
    assert service.id(**GROUP)["dataUntil"]["s"] == min(untils)
