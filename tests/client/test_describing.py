"""What a frame says of its values: from the service where it sends that, else from what was asked and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson
import polars as pl
import pytest

import tidytape
from tidytape.client._metadata import fingerprint
from tidytape.wire._decode import JSON_MIME

DAY = datetime(2024, 8, 9, tzinfo=UTC)
END = DAY + timedelta(minutes=3)
S0 = int(DAY.timestamp())
AT: dict[str, Any] = {"exchange": "X", "raw_symbol": "BTCUSDT", "start": DAY, "end": END, "interval": "1m"}
GROUP: dict[str, Any] = {
    "exchange": ["X", "Y"],
    "coin": "BTC",
    "start": DAY,
    "end": END,
    "interval": "1m",
    "group_by": "sum",
}


def answer(points: list[dict[str, Any]], date: str | None = None, **identity: Any) -> httpx.Response:
    series = {"id": {"interval": "MINUTE"} | identity, "points": [{"Point": point} for point in points]}
    headers = {"content-type": JSON_MIME} | ({"date": date} if date else {})
    return httpx.Response(200, headers=headers, content=orjson.dumps({"series": [series]}))


def candles(**more: Any) -> list[dict[str, Any]]:
    return [{"timestamp": {"s": S0 + 60 * minute}, "close": 1.0, "volume": 2.0} | more for minute in range(3)]


def profiles() -> list[dict[str, Any]]:
    return [{"timestamp": {"s": S0}, "profile": [100.0, 1.0, 2.0]}]


@pytest.fixture
def fetch(script: Any, client: Callable[..., Any]) -> Callable[..., pl.DataFrame]:
    def fetching(sent: httpx.Response, method: str, **asked: Any) -> pl.DataFrame:
        frame: pl.DataFrame = getattr(client(script(sent)), method)(**asked)
        return frame

    return fetching


@pytest.mark.parametrize(
    ("asked", "unit"),
    [(AT, "COIN"), (AT | {"quote": "USD"}, "USD"), (GROUP, "USD")],
    ids=["plain", "usd", "group"],
)
def test_the_unit_follows_from_what_was_asked(fetch: Any, asked: dict[str, Any], unit: str) -> None:
    assert fetch(answer(candles()), "candles", **asked)["amount_unit"].to_list() == [unit] * 3


def test_what_the_service_says_counts_before_what_was_asked(fetch: Any) -> None:
    assert fetch(answer(candles(), amountUnit="USD"), "candles", **AT)["amount_unit"].to_list() == ["USD"] * 3
    sent = answer(profiles(), blockSize=50, amountUnit="COIN")
    assert fetch(sent, "volume_profile", **AT, block_size=10)["block_size"].to_list() == [50.0]


@pytest.mark.parametrize("asked", [AT, AT | {"quote": "USD"}, GROUP], ids=["plain", "usd", "group"])
def test_a_unit_that_is_not_known_is_not_derived(
    script: Any, client: Any, tmp_path: Path, asked: dict[str, Any]
) -> None:
    transport = script(answer(candles(), amountUnit="BARRELS", dataUntil={"s": S0 + 180}))
    with client(transport, cache=tmp_path) as one:
        first, kept = one.candles(**asked), one.candles(**asked)
    assert len(transport.requests) == 1
    for frame in (first, kept):
        assert frame.select("amount_unit", "series_amount_unit").rows() == [(None, "BARRELS")] * 3


def test_levels_are_as_high_as_was_asked_for_and_not_known_otherwise(fetch: Any) -> None:
    assert fetch(answer(profiles()), "volume_profile", **AT, block_size="0.5")["block_size"].to_list() == [
        0.5
    ]
    assert fetch(answer(profiles()), "volume_profile", **AT)["block_size"].to_list() == [None]


def test_without_more_an_interval_is_final_by_the_clock_of_the_service(fetch: Any) -> None:
    frame = fetch(answer(candles(), "Fri, 09 Aug 2024 00:02:59 GMT"), "candles", **AT)
    assert frame["is_final"].to_list() == [True, True, False]


def test_an_interval_is_final_by_what_the_service_knows_whatever_its_clock_says(fetch: Any) -> None:
    sent = answer(candles(), "Sun, 09 Aug 2026 00:00:00 GMT", dataUntil={"s": S0 + 61})
    frame = fetch(sent, "candles", **AT)
    assert frame["is_final"].to_list() == [True, False, False]
    assert "data_until" not in frame.columns


def test_a_month_of_a_market_profile_is_final_when_the_month_is_over(fetch: Any) -> None:
    level = {"price": 1.0, "block_ids": [0]}
    points = [
        {
            "TpoAggregation": {
                "timestamp": {"s": int(datetime(2024, month, 1, tzinfo=UTC).timestamp())},
                "levels": [level],
            }
        }
        for month in (6, 7)
    ]
    asked = {
        "exchange": "X",
        "raw_symbol": "BTCUSDT",
        "start": "2024-06-01",
        "end": "2024-08-01",
        "session": "monthly",
    }
    frame = fetch(answer(points, "Wed, 31 Jul 2024 23:59:59 GMT", interval="DAY"), "tpo", **asked)
    assert frame["is_final"].to_list() == [True, False]


def test_trades_have_a_unit_and_are_in_no_interval(fetch: Any) -> None:
    trade = {"timestamp": {"s": S0}, "id": "1", "price": 1.0, "amount": 2.0}
    frame = fetch(
        answer([trade], interval=None), "trades", exchange="X", raw_symbol="BTCUSDT", start=DAY, end=END
    )
    assert frame["amount_unit"].to_list() == ["COIN"]
    assert "is_final" not in frame.columns


def test_a_fingerprint_is_that_of_the_values(fetch: Any) -> None:
    early = fetch(answer(candles(), "Fri, 09 Aug 2024 00:02:59 GMT"), "candles", **AT)
    late = fetch(answer(candles(), "Sat, 10 Aug 2024 00:02:59 GMT"), "candles", **AT)
    assert not early.equals(late)
    assert fingerprint(early) == fingerprint(late)
    assert fingerprint(early) != fingerprint(early.with_columns(amount_unit=pl.lit("USD")))


def test_cache_and_tape_keep_what_a_frame_said_and_the_cache_only_what_is_final(
    script: Any, client: Any, tmp_path: Path
) -> None:
    sent = answer(candles(), "Sun, 09 Aug 2026 00:00:00 GMT", dataUntil={"s": S0 + 61}, amountUnit="USD")
    transport = script(sent)
    with client(transport, cache=tmp_path / "cache") as online:
        with online.record(tmp_path / "tape"):
            first = online.candles(**AT)
        again = online.candles(**AT)
    assert [int(one.url.params["from"]) for one in transport.requests] == [S0, S0 + 60]
    with tidytape.Client.replay(tmp_path / "tape") as replaying:
        replayed = replaying.candles(**AT)
    assert first["is_final"].to_list() == [True, False, False]
    assert again.equals(first)
    assert replayed.equals(first)
