"""Minutes of trades: what candles are made of, of sides and of both."""

from __future__ import annotations

import polars as pl
import pytest

from tidytape.aggregate import candles, candles_of, minute_candles


@pytest.fixture
def valued(trades):
    return trades.with_columns(quote_amount=pl.col("price") * pl.col("amount"))


@pytest.mark.parametrize("by_side", [False, True])
def test_minutes_are_the_candles_of_a_minute(engine, valued, by_side):
    minutes = engine.polars(minute_candles(engine.frame(valued), by_side=by_side))
    expected = candles(valued, interval="1m", by_side=by_side)
    key = ["exchange", "raw_symbol", "timestamp", *(["side"] if by_side else [])]
    assert minutes.select(expected.columns).sort(key).equals(expected.sort(key))


@pytest.mark.parametrize("interval", ["1m", "1h", "1w"])
def test_candles_over_both_sides_are_made_of_either_minutes(engine, valued, interval):
    expected = candles(valued, interval=interval)
    for by_side in (False, True):
        minutes = minute_candles(engine.frame(valued), by_side=by_side)
        assert engine.polars(candles_of(minutes, interval=interval)).equals(expected)
