"""spec.md, "GET /v1/points": of every row of its table of parameters, whether it is required and repeatable."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import (
    GROUP,
    HEATMAP,
    SKEW,
    SUM,
    TOKEN,
    TPO,
)  # fmt: skip
from conformance.lake import T0
from tables import each_row

# --- the column "Required" ------------------------------------------------------------------------------------------

REQUIRED = {
    "type": (400, "INVALID_TYPE"),
    "interval": (400, "INVALID_INTERVAL"),
    "from_": (400, "INVALID_PARAMS"),
    "period": (400, "INVALID_PARAMS"),
    # "Conditional": for candles of a market.
    "exchange": (400, "INVALID_EXCHANGE"),
    "rawSymbol": (400, "INVALID_SYMBOL"),
}


@each_row(("name", "refusal"), REQUIRED.items())
def test_required(service: Any, name: str, refusal: tuple[int, str]) -> None:
    assert service.refused(**{name: None}) == refusal


@pytest.mark.parametrize("name", ["exchange", "coin", "rawSymbol", "tenor"])
def test_required_for_skew(service: Any, name: str) -> None:
    assert service.refused(**{**SKEW, name: None})[0] == 400


def test_exchange_is_not_required_for_the_liquidation_heatmap(service: Any) -> None:
    assert service.id(**HEATMAP)["exchange"] == "VENUEX"


# --- the column "Repeatable" ----------------------------------------------------------------------------------------

BTC = {"rawSymbol": None, "coin": "BTC"}
REPEATED: dict[str, tuple[dict[str, Any], int]] = {
    "type": ({"type": ["TRADE_SIDE_AGNOSTIC_AGG", "VOLUME_PROFILE_AGG"]}, 2),
    "exchange": ({**BTC, "exchange": ["ALPHA", "BETA"]}, 3),
    "rawSymbol": ({"rawSymbol": ["BTCUSDT", "ETHUSDT"]}, 2),
    "coin": ({**BTC, "coin": ["BTC", "ETH"]}, 3),
    "normalizedSymbol": ({"rawSymbol": None, "normalizedSymbol": ["BTC-USDT", "ETH-USDT"]}, 3),
    "category": ({**BTC, "category": ["SPOT", "PERPETUAL"]}, 2),
    "event": (
        {"exchange": "PREDICT", "rawSymbol": ["11", "22", "33"], "event": ["rain", "snow"]},
        3,
    ),
}


@pytest.mark.parametrize(("asked", "count"), REPEATED.values(), ids=REPEATED)
def test_repeatable(service: Any, asked: dict[str, Any], count: int) -> None:
    assert len(service.series(**asked)) == count


ONCE = {
    "tokenName": {**TOKEN, "tokenName": ["Bitcoin", "Ethereum"]},
    "interval": {"interval": ["MINUTE", "HOUR"]},
    "tenor": {**SKEW, "tenor": ["ONE_M", "ONE_W"]},
    "from": {"from_": [T0, T0 + 60]},
    "period": {"period": [60, 120]},
    "side": {"type": "TRADE_AGG", "side": ["BUY", "SELL"]},
    "sortDirection": {"sortDirection": ["SORT_DIRECTION_ASC", "SORT_DIRECTION_DESC"]},
    "gapfill": {"gapfill": ["true", "false"]},
    "transform.normalize.quote": {"transform_normalize_quote": ["USD", "USD"]},
    "transform.groupBy.type": {**GROUP, "transform_groupBy_type": [SUM, SUM]},
    "transform.normalize.fundingInterval": {"transform_normalize_fundingInterval": [1, 2]},
    "tpoBlockSizeMinutes": {**TPO, "tpoBlockSizeMinutes": [5, 30]},
    "tpoSession": {**TPO, "tpoSession": ["TPO_SESSION_DAILY", "TPO_SESSION_WEEKLY"]},
    "maxDepth": {"type": "BLOCK_BOOK_SNAPSHOT_AGG", "maxDepth": [1, 2]},
    "blockSize": {"type": "VOLUME_PROFILE_AGG", "blockSize": [1, 2]},
}


@each_row("asked", ONCE.values())
def test_not_repeatable(service: Any, asked: dict[str, Any]) -> None:
    assert service.refused(**asked) == (400, "INVALID_PARAMS")
