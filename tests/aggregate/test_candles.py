"""Candles: literal values on every engine, and the recorded trades against plain Python."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tables import in_columns
from tidytape.aggregate import candles
from tidytape.catalogue import Interval
from tidytape.errors import MissingColumnError, QueryError

MINUTE = 60 * 10**9


def test_literal_candles(engine, trades):
    got = engine.polars(candles(engine.frame(trades), interval="1m"))
    got = in_columns(
        got,
        [
            "exchange",
            "raw_symbol",
            "timestamp",
            "open",
            "high",
            "low",
            "close",
            "volume",
            "first_timestamp",
            "last_timestamp",
        ],
    )
    assert got.rows() == [
        ("A", "X", -MINUTE, 0.2, 0.2, 0.2, 0.2, 3.0, -500_000_000, -500_000_000),
        ("A", "X", 0, 0.3, 0.35, 0.1, 0.35, 7.0, 0, 59_999_999_999),
        ("A", "X", MINUTE, 0.4, 0.4, 0.4, 0.4, 0.5, MINUTE, MINUTE),
        ("A", "X", 60 * MINUTE, 0.6, 0.7, 0.6, 0.7, 0.375, 60 * MINUTE, 60 * MINUTE),
        ("A", "Y", 0, 12.0, 12.0, 12.0, 12.0, 8.0, 10**9, 10**9),
        ("B", "X", 0, 13.0, 13.0, 13.0, 13.0, 16.0, 10**9, 10**9),
    ]


def test_literal_candles_by_side(engine, trades):
    got = engine.polars(candles(engine.frame(trades), interval="1m", by_side=True))
    assert got.columns[:4] == ["timestamp", "exchange", "raw_symbol", "side"]
    first_hour = got.filter(exchange="A", raw_symbol="X").filter(pl.col("timestamp") == 0)
    assert first_hour.select("side", "open", "high", "low", "close", "volume").rows() == [
        ("BUY", 0.3, 0.35, 0.3, 0.35, 5.0),
        ("SELL", 0.1, 0.1, 0.1, 0.1, 2.0),
    ]


@pytest.mark.parametrize(
    ("interval", "by_side"), [*((interval.alias, False) for interval in Interval), ("1h", True)]
)
def test_equals_the_plain_loop(trades, oracle, interval, by_side):
    got = candles(trades, interval=interval, by_side=by_side)
    assert got.to_dicts() == oracle["candles"](trades.to_dicts(), interval, by_side=by_side)


@pytest.mark.parametrize("by_side", [False, True])
def test_equals_the_plain_loop_on_every_engine(engine, trades, oracle, by_side):
    got = engine.polars(candles(engine.frame(trades), interval="1d", by_side=by_side))
    assert got.to_dicts() == oracle["candles"](trades.to_dicts(), "1d", by_side=by_side)


def test_weeks_start_on_monday(trades):
    monday = 345_600 * 10**9  # 1970-01-05 00:00 UTC
    seconds = pl.Series([monday - 1, monday, monday + 7 * 86_400 * 10**9 - 1], dtype=pl.Int64)
    frame = trades.head(3).with_columns(timestamp=seconds, exchange=pl.lit("A"), raw_symbol=pl.lit("X"))
    assert candles(frame, interval="1w")["timestamp"].to_list() == [monday - 7 * 86_400 * 10**9, monday]


def test_no_trades_give_no_candles_but_all_columns(engine, trades):
    got = engine.polars(candles(engine.frame(trades.clear()), interval="1h", by_side=True))
    assert got.height == 0
    assert got.columns == candles(trades, interval="1h", by_side=True).columns


def test_name_alias_and_member_are_one(trades):
    by_alias = candles(trades, interval="4h")
    assert by_alias.equals(candles(trades, interval="FOUR_HOURS"))
    assert by_alias.equals(candles(trades, interval=Interval.FOUR_HOURS))


def test_an_unknown_interval_is_named(trades):
    with pytest.raises(QueryError, match="interval: got '2x'") as caught:
        candles(trades, interval="2x")
    assert caught.value.code == "INVALID_INTERVAL"


def test_a_missing_column_is_named(engine, trades):
    with pytest.raises(MissingColumnError, match="amount"):
        candles(engine.frame(trades.drop("amount")), interval="1m")
    assert engine.polars(candles(engine.frame(trades.drop("side")), interval="1m")).height == 6
    with pytest.raises(MissingColumnError, match="side"):
        candles(engine.frame(trades.drop("side")), interval="1m", by_side=True)


def test_no_frame_is_refused():
    with pytest.raises(QueryError, match=r"got 'builtins\.list', expected a frame"):
        candles([1, 2], interval="1m")


def plain_candles(path: Path) -> dict[int, list[float]]:
    """Minute candles of a recorded log: minute -> open, high, low, close, volume, first ms, last ms."""
    found: dict[int, list[float]] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            data = json.loads(line.split(" ", 1)[1]).get("data", {})
            if data.get("e") != "trade":
                continue
            price, amount, time = float(data["p"]), float(data["q"]), data["T"]
            minute = time // 60_000
            if minute not in found:  # the log is in the order of the trade ids
                found[minute] = [price, price, price, price, 0.0, time, time]
            candle = found[minute]
            candle[1] = max(candle[1], price)
            candle[2] = min(candle[2], price)
            candle[3] = price
            candle[4] += amount
            candle[6] = time
    return found


@pytest.mark.slow
def test_recorded_trades(recorded, tmp_path):
    from ingested import ingest

    path = recorded / "binance-spot_ws_btcusdt_20240808.gz"
    lake = empty_lake(tmp_path / "lake")
    ingest(path, lake, layout="binance-ws", exchange="BINANCE")
    got = candles(lake.scan("trades", exchange="BINANCE", raw_symbol="BTCUSDT"), interval="1m").collect()
    names = ["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close", "volume"]
    got = got.select(*names, "first_timestamp", "last_timestamp")
    expected = pl.DataFrame(
        [
            ("BINANCE", "BTCUSDT", minute * MINUTE, *ohlcv, first * 10**6, last * 10**6)
            for minute, (*ohlcv, first, last) in sorted(plain_candles(path).items())
        ],
        schema=got.schema,
        orient="row",
    )
    assert got.height == 7  # 23:54 to 00:00
    assert_frame_equal(got, expected, check_exact=False, rel_tol=1e-9, abs_tol=0)
