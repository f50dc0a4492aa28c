"""``GET /holdings``: from when to when there is what, for who has a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulated import rollup_events as events
from simulated.everything import everything
from tidytape.catalogue import DATA_TYPES

S0 = events.START // 10**9
HOUR = 3_600


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(everything(tmp_path_factory.mktemp("spans") / "lake").path)


@pytest.fixture
def held(service: Any) -> Any:
    def rows(**params: Any) -> list[dict[str, Any]]:
        answer = service.get("/holdings", params=params)
        assert answer.status_code == 200, answer.text
        assert answer.headers["X-RateLimit-Limit"] == "750"
        assert list(answer.json()) == ["holdings"]
        return answer.json()["holdings"]

    return rows


@pytest.mark.slow
def test_every_type_and_venue_with_its_span(held: Any) -> None:
    rows = held()
    assert list(dict.fromkeys(row["type"] for row in rows)) == list(DATA_TYPES)
    by_key = {(row["type"], row["exchange"]): row for row in rows}
    assert by_key["CME_OPEN_INTEREST_AGG", "CME"] == {
        "type": "CME_OPEN_INTEREST_AGG",
        "exchange": "CME",
        "subjects": 1,
        "first": {"s": S0},
        "last": {"s": S0 + 2 * HOUR},
    }
    assert by_key["TOKEN_SUPPLY_AGG", None]["subjects"] == 2
    assert by_key["SKEW_OPTION_SUMMARY_AGG", "DERIBIT"]["subjects"] == 2
    # Two markets of trades, and a third of recorded candles alone.
    assert (by_key["TRADE", "X"]["subjects"], by_key["TRADE_SIDE_AGNOSTIC_AGG", "X"]["subjects"]) == (2, 3)


def test_a_span_is_of_the_events_that_the_filters_leave(held: Any, service: Any) -> None:
    (row,) = held(type="TRADE", exchange="X", rawSymbol="BTCUSDT")
    window = {"exchange": "X", "rawSymbol": "BTCUSDT", "from": S0 - HOUR, "period": 9 * HOUR}
    (both,) = [service.get("/v1/points", params={"type": "TRADE", **window}).json()["series"]]
    times = [
        (point["Point"]["timestamp"]["s"], point["Point"]["timestamp"].get("ns", 0))
        for series in both
        for point in series["points"]
    ]
    first, last = ((row[end]["s"], row[end].get("ns", 0)) for end in ("first", "last"))
    assert (first, last) == (min(times), max(times))
    assert held(exchange="NOWHERE") == []
    assert held(type="CME_OPEN_INTEREST_AGG", to=S0) == []


@pytest.mark.parametrize(
    ("params", "code"),
    [({"type": "TRADES"}, "INVALID_TYPE"), ({"venue": "X"}, "INVALID_PARAMS"), ({"from": "x"}, "INVALID_PARAMS")],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(service: Any, params: dict[str, str], code: str) -> None:
    answer = service.get("/holdings", params=params)
    assert (answer.status_code, answer.json()["error"]) == (400, code)


@pytest.mark.parametrize("key", [None, "guess", "expired-key"])
def test_no_key_no_data(service: Any, key: str | None) -> None:
    answer = service.get("/holdings", key=key)
    assert (answer.status_code, answer.json()["error"]) == (401, "INVALID_API_KEY")
    assert "x-ratelimit-limit" not in answer.headers
