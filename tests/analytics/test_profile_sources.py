"""Profiles as they come: from a client, of `aggregate` from trades and from minutes, and of a recorded market."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tidytape
from ingested import ingest
from lakes import empty_lake
from tidytape import aggregate
from tidytape.analytics import profile

STEP = 50
ASKED = {
    "exchange": "DEMO_SPOT",
    "coin": "BTC",
    "interval": "1d",
    "start": "2024-08-07",
    "end": "2024-08-09",
    "block_size": STEP,
}


def profiles(client):
    """Levels and sessions as a client fetches them; the levels with what their sessions say of time."""
    asked = {"session": "daily", "block_minutes": 30, **ASKED}
    levels, sessions = client.tpo(**asked), client.tpo_sessions(**asked)
    return profile.with_sessions(levels, sessions), sessions


@pytest.fixture(scope="module")
def fetched():
    return profiles(tidytape.Client.demo())


@pytest.mark.slow
def test_ours_is_what_the_service_sends_under_names_of_our_own(fetched):
    levels, sent = fetched
    found = profile.summary(levels, count="tpo_count", row_size=STEP)
    assert not set(found.columns) & {"poc_price", "vah_price", "val_price", "ibr_high", "poor_highs"}
    for ours, theirs in {
        "poc": "poc_price",
        "vah": "vah_price",
        "val": "val_price",
        "total": "total_tpo_count",
    }.items():
        assert found[ours].to_list() == sent[theirs].to_list()
    assert (found["value_area_share"] * 100).to_list() == pytest.approx(
        sent["value_area_percentage"].to_list()
    )
    # Theirs are prices of trades, ours the rows that they lie in.
    for end in ("high", "low"):
        rows = (sent[f"ibr_{end}"] / STEP).floor() * STEP
        assert found[f"initial_balance_{end}"].to_list() == rows.to_list()
        assert found[f"is_poor_{end}"].to_list() == (sent[f"poor_{end}s"].list.len() > 0).to_list()
    runs = profile.single_prints(levels, row_size=STEP)
    assert runs["rows"].sum() == sent["single_prints"].list.len().sum() == levels["is_single_print"].sum()


@pytest.mark.slow
def test_a_pandas_client_gives_the_same(fetched):
    levels, _ = fetched
    frame, _ = profiles(tidytape.Client.demo(backend="pandas"))
    for function in (profile.summary, profile.developing, profile.single_prints):
        ours, theirs = function(levels, row_size=STEP), function(frame, row_size=STEP)
        assert theirs["timestamp"].tolist() == ours.to_pandas()["timestamp"].tolist()
        numbers = ours.select(pl.selectors.numeric())
        same = pl.from_pandas(theirs[numbers.columns]).cast(pl.Float64).fill_nan(None)
        assert_frame_equal(same, numbers.cast(pl.Float64), rel_tol=1e-12)


@pytest.mark.slow
def test_volume_profiles_of_a_client():
    levels = tidytape.Client.demo().volume_profile(**ASKED)
    found = profile.summary(levels, row_size=STEP)
    assert found["has_blocks"].to_list() == [False, False]
    assert found["total"].to_list() == pytest.approx(
        levels.group_by("timestamp", maintain_order=True).agg(pl.sum("volume"))["volume"].to_list()
    )
    week = profile.composite(levels, row_size=STEP, count=["buy_volume", "sell_volume"])
    assert week["buy_volume"].sum() == pytest.approx(levels["buy_volume"].sum())


@pytest.mark.slow
def test_profiles_of_aggregate_from_trades_and_from_minutes_say_the_same():
    path = [100, 103, 99, 104, 107, 105, 110, 108, 111, 109]
    trades = pl.DataFrame(
        {
            "exchange": "VENUE",
            "raw_symbol": "BTCUSDT",
            "timestamp": [(1_723_075_200 + 900 * number) * 10**9 for number in range(len(path))],
            "sequence": range(len(path)),
            "side": "BUY",
            "price": [float(price) for price in path],
            "amount": 2.0,
            "quote_amount": [2.0 * price for price in path],
        }
    )
    cut = {"interval": "1d", "block_size": 1}
    minutes = aggregate.minute_candles(trades), aggregate.minute_profile(trades, block_size=1)
    from_trades, from_minutes = aggregate.tpo(trades, **cut), aggregate.tpo_of(*minutes, **cut)
    ended = profile.with_sessions(from_trades, aggregate.tpo_sessions(trades, **cut))
    ended_minutes = profile.with_sessions(from_minutes, aggregate.tpo_sessions_of(*minutes, **cut))
    touches = aggregate.tpo_touches(trades, **cut)
    found = profile.summary(ended, count="tpo_count", row_size=1)
    assert found.select("low", "high", "initial_balance_low", "initial_balance_high").row(0) == (
        99,
        111,
        99,
        104,
    )
    assert profile.summary(ended_minutes, count="tpo_count", row_size=1).equals(found)
    counted = profile.summary(touches, count="tpo_count", row_size=1, block_minutes=30)
    assert counted.equals(found.drop("period_end"))
    balance = profile.initial_balance(from_trades, block_minutes=30)
    assert profile.initial_balance(touches, block_minutes=30).equals(balance)
    developed = profile.developing(touches, block_minutes=30, row_size=1)
    area = profile.value_area(from_trades, count="tpo_count", row_size=1)
    assert profile.value_area(touches, count="tpo_count", row_size=1).equals(area)
    assert developed.tail(1).select(area.columns).equals(area)
    volume = profile.developing(touches, block_minutes=30, row_size=1, count="volume").tail(1)
    assert volume["poc"].item() == profile.point_of_control(from_trades)["poc"].item()


def test_profiles_from_candles_by_their_close():
    candles = pl.DataFrame(
        {"day": [1, 1, 1, 2], "close": [10.2, 10.7, 10.3, 12.0], "volume": [1.0, 3.0, 2.5, 4.0]}
    )
    found = profile.value_area(candles, by="day", price="close", row_size=0.5)
    assert found.select("poc", "val", "vah").rows() == [(10.0, 10.0, 10.5), (12.0, 12.0, 12.0)]
    levels = profile.composite(candles, by="day", price="close", row_size=0.5)
    assert levels.rows() == [(1, 10.0, 3.5), (1, 10.5, 3.0), (2, 12.0, 4.0)]


@pytest.mark.slow
def test_recorded_market(recorded, tmp_path):
    lake = empty_lake(tmp_path / "lake")
    ingest(recorded / "binance-spot_ws_btcusdt_20240808.gz", lake, layout="binance-ws", exchange="BINANCE")
    client = tidytape.Client.local(tmp_path / "lake")
    asked = {
        "exchange": "BINANCE",
        "raw_symbol": "BTCUSDT",
        "interval": "5m",
        "block_minutes": 5,
        "block_size": 5,
        "start": "2024-08-08T23:50:00Z",
        "end": "2024-08-09T00:05:00Z",
    }
    sent = client.tpo_sessions(**asked)
    found = profile.summary(client.tpo(**asked), count="tpo_count", row_size=5, block_minutes=5)
    assert len(found) == len(sent) > 1
    for ours, theirs in {"poc": "poc_price", "vah": "vah_price", "val": "val_price"}.items():
        assert found[ours].to_list() == sent[theirs].to_list()
    assert found["value_area_share"].min() >= 0.7
