"""The list endpoints: what there is, by every filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulated import rollup_events as events
from simulated.everything import DAY, everything
from tidytape.catalogue import DATA_TYPES, LISTS
from tidytape.lake import Lake

S0 = events.START // 10**9
SYMBOLS = sorted(events.SYMBOLS)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(everything(tmp_path_factory.mktemp("lists") / "lake").path)


@pytest.fixture
def ask(service: Any) -> Any:
    def listed(name: str, **params: Any) -> list[Any]:
        named = {{"from_": "from"}.get(key, key): value for key, value in params.items()}
        answer = service.get(f"/v1/{name}", params=named)
        assert answer.status_code == 200, answer.text
        assert answer.headers["X-RateLimit-Used"] == "0"
        assert list(answer.json()) == [LISTS[name]]
        return answer.json()[LISTS[name]]

    return listed


def test_everything_there_is(ask: Any) -> None:
    assert ask("types") == list(DATA_TYPES)
    assert ask("exchanges") == ["CME", "DERIBIT", "X"]
    assert ask("categories") == ["SPOT", "PERPETUAL", "FUTURE", "OPTION"]
    assert ask("coins") == ["BTC", "ETH", "OLD"]
    assert ask("symbols", type="TRADE") == SYMBOLS
    assert ask("normalized-symbols", type="TRADE") == ["BTC-USD", "BTC-USDT"]
    assert ask("symbols", type="SKEW_OPTION_SUMMARY_AGG") == ["BTC_10", "BTC_25"]
    assert ask("symbols", type="IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG") == ["BTC_ATM"]


def test_each_filter_narrows(ask: Any) -> None:
    assert ask("types", exchange="CME") == ["CME_OPEN_INTEREST_AGG"]
    assert ask("types", coin="ETH") == ["TOKEN_SUPPLY_AGG"]
    assert ask("types", rawSymbol="OLDUSDT") == ["TRADE_SIDE_AGNOSTIC_AGG"]  # recorded candles and no trades
    assert ask("exchanges", category="OPTION") == ["DERIBIT"]
    assert ask("exchanges", type=["CME_OPEN_INTEREST_AGG", "TRADE"]) == ["CME", "X"]
    assert ask("coins", normalizedSymbol="BTC-USD", exchange="CME") == ["BTC"]
    assert ask("coins", exchange="NOWHERE") == []
    assert ask("symbols", type="CME_OPEN_INTEREST_AGG", coin="BTC") == ["BTCQ4"]


def test_a_span_of_time_is_half_open(ask: Any) -> None:
    """The regulated future was reported at hours 0, 1 and 2."""
    assert ask("exchanges", type="CME_OPEN_INTEREST_AGG", from_=S0 + 7_200) == ["CME"]
    assert ask("exchanges", type="CME_OPEN_INTEREST_AGG", from_=S0 + 7_201) == []
    assert ask("exchanges", type="CME_OPEN_INTEREST_AGG", to=S0) == []
    assert ask("exchanges", type="CME_OPEN_INTEREST_AGG", to=S0 + 1) == ["CME"]


@pytest.mark.slow
def test_tenors_are_those_that_are_answered(ask: Any, service: Any) -> None:
    """Expiries of six and nine days: a week lies between them, and nothing else does."""
    assert ask("tenors") == ["ONE_W"]
    assert ask("tenors", type="SKEW_OPTION_SUMMARY_AGG", rawSymbol="BTC_25") == ["ONE_W"]
    assert ask("tenors", type="TRADE") == []
    assert ask("tenors", exchange="X") == []
    asked = {
        "type": "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG",
        "exchange": "DERIBIT",
        "coin": "BTC",
        "interval": "DAY",
    }
    answer = service.get("/v1/points", params={**asked, "from": S0, "period": DAY}).json()
    assert [one["id"]["tenor"] for one in answer["series"]] == ["ONE_W"]


def test_block_sizes_are_recommended_of_the_book(ask: Any, lake: Path) -> None:
    sizes = ask("block-sizes")
    assert [one["rawSymbol"] for one in sizes] == SYMBOLS
    book = Lake(lake).scan("book", raw_symbol="BTCUSDT").filter("is_snapshot").collect()
    last = book.filter(book["timestamp"] == book["timestamp"].max())
    bids, asks = (last.filter(last["side"] == side)["price"] for side in ("BID", "ASK"))
    middle = (bids.max() + asks.min()) / 2
    (size,) = (one["blockSize"] for one in sizes if one["rawSymbol"] == "BTCUSDT")
    target = middle * 0.2 / 3500
    assert size <= target < size * 2.5
    assert f"{size:e}"[0] in "125"
    assert ask("block-sizes", exchange="CME") == []


@pytest.mark.parametrize("name", ["symbols", "normalized-symbols"])
def test_a_type_is_needed_and_its_absence_is_the_service_error_that_the_contract_has(
    service: Any, name: str
) -> None:
    answer = service.get(f"/v1/{name}")
    assert answer.status_code == 500
    assert answer.json()["error"] == "INTERNAL_ERROR"
    assert "type" in answer.json()["message"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"type": "TPOAGG"}, "TPO_AGG"),
        ({"exchnge": "X"}, "exchange"),
        ({"from": "10", "to": "5"}, "to"),
        ({"from": "soon"}, "from"),
        ({"category": "SPOTS"}, "SPOT"),
    ],
)
def test_what_cannot_be_right_is_refused(service: Any, params: dict[str, str], message: str) -> None:
    answer = service.get("/v1/coins", params=params)
    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_a_list_needs_a_key(service: Any) -> None:
    assert service.get("/v1/coins", key=None).status_code == 401
