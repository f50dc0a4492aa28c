"""spec.md, the list endpoints and their filters. silences.md, "Bodies": the shape of each."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import REFUSAL
from conformance.lake import DAY, HOUR, T0
from tables import each_row

OPTIONS = ["IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "OPTION_OPEN_INTEREST_AGG", "SKEW_OPTION_SUMMARY_AGG"]
TRADED = {"type": "TRADE_AGG"}

# path, filters, field of the body, what it holds
LISTS: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("coins", {"exchange": "BETA"}, "coins", ["BTC", "ETH", "TPO"]),
    ("coins", {"exchange": ["CME", "METALS"]}, "coins", ["BTC", "XAU"]),
    ("coins", {"type": "LIQUIDATION_AGG"}, "coins", ["BTC"]),
    ("coins", {"rawSymbol": "ETHUSDT"}, "coins", ["ETH"]),
    ("coins", {"exchange": "BETA", "category": "SPOT"}, "coins", ["ETH"]),
    ("coins", {"normalizedSymbol": "XAU-USD"}, "coins", ["XAU"]),
    ("coins", {"exchange": "ALPHA", **TRADED, "from": T0 + DAY, "to": T0 + 2 * DAY}, "coins", ["TPO"]),
    ("coins", {"exchange": "ALPHA", **TRADED, "from": T0 + 2 * DAY}, "coins", []),
    ("coins", {"exchange": "ALPHA", **TRADED, "to": T0 - 39 * DAY}, "coins", ["BTC"]),
    ("symbols", {"type": "OPEN_INTEREST_AGG"}, "rawSymbols", ["BTC-PERP", "BTCUSDT_PERP"]),
    ("symbols", {"type": "TRADE_AGG", "exchange": "GAMMA", "coin": "BTC"}, "rawSymbols", ["BTCEUR", "BTCTRY"]),
    ("symbols", {"type": ["BLOCK_BOOK_SNAPSHOT_AGG", "CME_OPEN_INTEREST_AGG"]}, "rawSymbols",
     ["BTC-PERP", "BTCQ4", "BTCUSDT"]),
    ("normalized-symbols", {"type": "TRADE_AGG", "exchange": "BETA"}, "normalizedSymbols",
     ["BTC-USDT", "ETH-USD", "TPO-USDT"]),
    ("tenors", {"type": "SKEW_OPTION_SUMMARY_AGG", "exchange": "OPTIONS"}, "tenors", ["ONE_M"]),
    ("types", {"exchange": "OPTIONS"}, "types", OPTIONS),
    ("types", {"exchange": "CME"}, "types", ["CME_OPEN_INTEREST_AGG"]),
    ("exchanges", {"coin": "ETH"}, "exchanges", ["ALPHA", "BETA"]),
    ("exchanges", {"type": "BLOCK_BOOK_SNAPSHOT_AGG"}, "exchanges", ["ALPHA", "BETA"]),
    ("categories", {"exchange": "CME"}, "categories", ["FUTURE"]),
    ("categories", {"exchange": "ALPHA"}, "categories", ["PERPETUAL", "SPOT"]),
]  # fmt: skip
PATHS = [
    "coins",
    "symbols",
    "normalized-symbols",
    "block-sizes",
    "tenors",
    "types",
    "exchanges",
    "categories",
]


@pytest.mark.parametrize(
    ("path", "asked", "name", "held"),
    LISTS,
    ids=[f"{row[0]} by {' and '.join(row[1])} {n}" for n, row in enumerate(LISTS)],
)
def test_list(service: Any, path: str, asked: dict[str, Any], name: str, held: list[str]) -> None:
    response = service.get(f"/v1/{path}", **asked)
    assert response.status_code == 200
    assert list(response.json()) == [name]
    assert sorted(response.json()[name]) == sorted(held)


@each_row("path", PATHS)
def test_list_weighs_nothing(service: Any, path: str) -> None:
    response = service.get(f"/v1/{path}", key="basic", type="TRADE_AGG")
    assert response.status_code == 200
    assert response.headers["X-RateLimit-Used"] == "0"


@each_row("path", PATHS)
@each_row("key", [None, "guess"])
def test_list_needs_a_key(service: Any, path: str, key: str | None) -> None:
    assert service.get(f"/v1/{path}", key=key, type="TRADE_AGG").status_code == 401


@each_row("path", PATHS)
def test_list_refuses_what_it_does_not_know(service: Any, path: str) -> None:
    response = service.get(f"/v1/{path}", type="TRADE_AGG", exchanges="ALPHA")
    assert (response.status_code, response.json()["error"]) == (400, "INVALID_PARAMS")
    assert "'exchange'" in response.json()["message"]


@pytest.mark.parametrize("path", ["symbols", "normalized-symbols"])
def test_omitted_type_is_a_server_error_that_names_it(service: Any, path: str) -> None:
    response = service.get(f"/v1/{path}")
    assert response.status_code == 500
    assert {"error", "message"} <= set(response.json()) <= REFUSAL
    assert "type" in response.json()["message"]


# Middle of the books: (99.75 + 100.5) / 2 and (99 + 101) / 2. Times 0.2 / 3500 that is 0.00572 and 0.00571.
@pytest.mark.parametrize(("exchange", "symbol"), [("ALPHA", "BTCUSDT"), ("BETA", "BTC-PERP")])
def test_block_sizes_are_the_4k_size(service: Any, exchange: str, symbol: str) -> None:
    response = service.get("/v1/block-sizes", exchange=exchange, rawSymbol=symbol)
    assert response.json() == {
        "blockSizes": [{"exchange": exchange, "rawSymbol": symbol, "blockSize": 0.005}]
    }


@pytest.mark.parametrize("size", [0.005, 5 * 0.005], ids=["4K", "HD"])
def test_a_recommended_block_size_is_accepted_by_the_heatmap(service: Any, size: float) -> None:
    found = service.payloads(type="BLOCK_BOOK_SNAPSHOT_AGG", blockSize=size)
    assert found[0]["bids"] == [100.0, 1.0, 99.75, 2.0, 99.0, 4.0]


def test_block_sizes_need_not_be_asked_for_a_volume_profile(service: Any) -> None:
    assert service.payloads(type="VOLUME_PROFILE_AGG", interval="HOUR", period=HOUR)
