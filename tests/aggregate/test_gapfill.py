"""Gap filling: literal values on every engine, and nothing invented."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import polars as pl
import pytest

from engines import Engine
from tidytape import Client
from tidytape.aggregate import gapfill, resample
from tidytape.errors import MissingColumnError, QueryError

MINUTE = 60 * 10**9
START = 1_723_161_600 * 10**9  # large enough that a float could not hold its nanoseconds


def candles(rows, **named) -> pl.DataFrame:
    """Rows of (exchange, minute, price)."""
    return pl.DataFrame(
        [
            {
                "exchange": exchange,
                "raw_symbol": "X",
                **named,
                "timestamp": START + minute * MINUTE,
                **dict.fromkeys(("open", "high", "low", "close"), price),
                "volume": 1.0,
                "first_timestamp": START + minute * MINUTE + 1,
                "last_timestamp": START + minute * MINUTE + 7,
            }
            for exchange, minute, price in rows
        ],
        schema_overrides=dict.fromkeys(named, pl.String),
    )


def shown(frame: pl.DataFrame, by: str = "exchange") -> list[tuple]:
    """Each minute's series, close, volume, and whether it was filled."""
    minute = ((pl.col("timestamp") - START) // MINUTE).alias("minute")
    return frame.select(by, minute, "close", "volume", pl.col("first_timestamp").is_null()).rows()


def test_gaps_repeat_the_close_and_nothing_comes_before_the_first(engine):
    frame = candles([("A", 1, 10.0), ("A", 4, 11.0), ("B", 2, 5.0)])
    got = engine.polars(gapfill(engine.frame(frame), interval="1m", start=START, end=START + 5 * MINUTE))
    assert got.columns == frame.columns
    assert got.schema == frame.schema or engine.name == "duckdb"
    assert shown(got) == [
        ("A", 1, 10.0, 1.0, False),
        ("A", 2, 10.0, 0.0, True),
        ("A", 3, 10.0, 0.0, True),
        ("A", 4, 11.0, 1.0, False),
        ("B", 2, 5.0, 1.0, False),
        ("B", 3, 5.0, 0.0, True),
        ("B", 4, 5.0, 0.0, True),
    ]
    filled = got.filter(pl.col("first_timestamp").is_null())
    assert (filled["open"] == filled["close"]).all()
    assert (filled["high"] == filled["low"]).all()
    assert filled["last_timestamp"].null_count() == 4
    assert (
        got["last_timestamp"].drop_nulls().to_list() == frame["last_timestamp"].to_list()
    )  # to the nanosecond


def test_the_last_close_before_the_window_fills_its_start_and_series_without_a_candle(engine):
    frame = candles([("A", 1, 10.0)])
    last = pl.DataFrame({"exchange": ["A", "B"], "raw_symbol": "X", "close": [9.0, 4.0]})
    connection = duckdb.connect()
    pair = [connection.from_arrow(one.to_arrow()) for one in (frame, last)]
    native, before = pair if engine.name == "duckdb" else (engine.frame(frame), engine.frame(last))
    got = engine.polars(gapfill(native, interval="1m", start=START, end=START + 2 * MINUTE, last=before))
    assert shown(got) == [
        ("A", 0, 9.0, 0.0, True),
        ("A", 1, 10.0, 1.0, False),
        ("B", 0, 4.0, 0.0, True),
        ("B", 1, 4.0, 0.0, True),
    ]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["COIN", "USD"])])
def test_filled_candles_count_what_the_others_of_the_series_count(engine, dtype):
    frame = candles([("A", 1, 10.0), ("A", 3, 11.0), ("B", 0, 5.0), ("C", 0, 7.0)]).with_columns(
        amount_unit=pl.col("exchange").replace_strict({"A": "COIN", "B": "USD", "C": None}).cast(dtype),
        is_final=pl.lit(value=True),
    )
    last = pl.DataFrame({"exchange": ["A", "D"], "raw_symbol": "X", "close": [9.0, 4.0]})
    connection = duckdb.connect()
    pair = [connection.from_arrow(one.to_arrow()) for one in (frame, last)]
    native, before = pair if engine.name == "duckdb" else (engine.frame(frame), engine.frame(last))
    filled = gapfill(native, interval="1m", start=START, end=START + 5 * MINUTE, last=before)
    got = engine.polars(filled)
    assert set(got.columns) == set(frame.columns)
    units = got.with_columns(pl.col("amount_unit").cast(pl.String)).select("exchange", "amount_unit").unique()
    assert sorted(units.rows()) == [("A", "COIN"), ("B", "USD"), ("C", None), ("D", None)]
    is_filled = pl.col("first_timestamp").is_null()
    assert got.select((is_filled == pl.col("is_final").is_null()).all()).item()
    assert got["is_final"].dtype == pl.Boolean
    hours = engine.polars(resample(filled, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="1h"))
    assert dict(hours.select("exchange", "volume").rows()) == {"A": 2.0, "B": 1.0, "C": 1.0, "D": 0.0}


def test_only_whole_intervals_that_start_inside_the_window_are_filled(engine):
    frame = candles([("A", -2, 8.0), ("A", 9, 9.0)])
    got = engine.polars(
        gapfill(engine.frame(frame), interval="1m", start=START + 1, end=START + 2 * MINUTE + 1)
    )
    assert [row[1] for row in shown(got)] == [-2, 1, 2, 9]
    assert [row[2] for row in shown(got)] == [8.0, 8.0, 8.0, 9.0]


def test_weeks_are_filled_from_monday_to_monday():
    monday = 345_600 * 10**9
    frame = candles([("A", 0, 8.0)]).with_columns(timestamp=pl.lit(monday))
    got = gapfill(frame, interval="1w", start=0, end=monday + 15 * 1440 * MINUTE)
    assert got["timestamp"].to_list() == [monday + week * 7 * 1440 * MINUTE for week in range(3)]


def test_sides_and_series_named_by_nulls(engine):
    frame = pl.concat(
        [candles([(None, 0, 1.0)], side="BUY", coin="BTC"), candles([(None, 0, 2.0)], side="SELL", coin=None)]
    ).with_columns(pl.col("exchange").cast(pl.String))
    got = engine.polars(gapfill(engine.frame(frame), interval="1m", start=START, end=START + 3 * MINUTE))
    assert sorted(row[:3] for row in shown(got, "side")) == [
        (side, minute, close) for side, close in (("BUY", 1.0), ("SELL", 2.0)) for minute in range(3)
    ]
    assert got.filter(side="SELL")["coin"].null_count() == 3


def test_no_candle_no_close(engine):
    frame = candles([("A", 0, 1.0)]).clear()
    got = engine.polars(gapfill(engine.frame(frame), interval="1m", start=START, end=START + 3 * MINUTE))
    assert (got.height, got.columns) == (0, frame.columns)


def test_an_empty_window_changes_nothing(engine):
    frame = candles([("A", 0, 1.0), ("A", 3, 1.0)])
    got = gapfill(engine.frame(frame), interval="1m", start=START, end=START)
    assert engine.polars(got).rows() == frame.rows()


def test_a_window_is_said_as_a_query_says_it():
    frame = candles([("A", 0, 1.0)])
    start, end = (datetime.fromtimestamp(one // 10**9, UTC) for one in (START, START + 4 * MINUTE))
    want = gapfill(frame, interval="1m", start=START, end=START + 4 * MINUTE)
    assert want.height == 4
    for given in ((start, end), (start.isoformat(), end.isoformat()), (START, end)):
        assert gapfill(frame, interval="1m", start=given[0], end=given[1]).equals(want)
    for start_, end_, name in (
        (end, start, "end"),
        (1.5, end, "start"),
        ("soon", end, "start"),
        (start, True, "end"),
    ):
        with pytest.raises(QueryError, match=f"{name}: got "):
            gapfill(frame, interval="1m", start=start_, end=end_)


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_candles_of_another_interval_are_refused(kind):
    frame = candles([("A", 0, 1.0)]).with_columns(interval=pl.lit("FIFTEEN_MINUTES"))
    with pytest.raises(QueryError, match="interval: got '1m', expected 15m, that of the candles"):
        gapfill(Engine(kind).frame(frame), interval="1m", start=START, end=START + MINUTE)
    assert gapfill(frame.lazy(), interval="1m", start=START, end=START + MINUTE).collect().height == 1


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float32])
def test_prices_may_be_of_another_number(engine, dtype):
    frame = candles([("A", 0, 1.0)]).with_columns(
        pl.col("open", "high", "low", "close", "volume").cast(dtype)
    )
    got = engine.polars(gapfill(engine.frame(frame), interval="1m", start=START, end=START + 2 * MINUTE))
    assert got["close"].to_list() == [1.0, 1.0]


def test_a_close_that_is_no_number_fills_nothing(engine):
    frame = candles([("A", 0, 5.0), ("A", 1, float("nan")), ("A", 3, float("inf"))])
    got = engine.polars(gapfill(engine.frame(frame), interval="1m", start=START, end=START + 5 * MINUTE))
    assert got["close"].to_list()[2] == got["close"].to_list()[4] == 5.0


def test_a_long_window_is_filled_to_its_end():
    frame = candles([("A", 0, 1.0)])
    got = gapfill(frame, interval="1m", start=START, end=START + 100_000 * MINUTE)
    assert got["timestamp"].to_list() == list(range(START, START + 100_000 * MINUTE, MINUTE))


def test_an_unknown_interval_and_missing_columns_are_named():
    frame = candles([("A", 0, 1.0)])
    with pytest.raises(QueryError, match="interval: got '2x'"):
        gapfill(frame, interval="2x", start=0, end=1)
    with pytest.raises(MissingColumnError, match="volume"):
        gapfill(frame.drop("volume"), interval="1m", start=0, end=1)
    with pytest.raises(MissingColumnError, match="raw_symbol"):
        gapfill(frame, interval="1m", start=0, end=1, last=frame.select("exchange", "close"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polars", "polars lazy", "pyarrow", "pandas"])
def test_frames_of_a_client_are_filled_and_keep_their_types(kind):
    start = 1_723_075_200 * 10**9
    with Client.demo() as client:
        whole = client.candles(
            exchange="DEMO_SPOT", coin="BTC", interval="1m", start="2024-08-08", end="2024-08-08T00:05"
        )
    frame = whole[[0, 3, 4]].with_columns(held=pl.duration(minutes=1))
    last = whole.select("exchange", "raw_symbol", "normalized_symbol", "coin", "category", "interval")
    last = last.head(1).with_columns(pl.all().cast(pl.String), close=pl.lit(7.0))
    engine = Engine(kind)
    filled = gapfill(
        engine.frame(frame),
        interval="1m",
        start=start - 2 * MINUTE,
        end=start + 5 * MINUTE,
        last=engine.frame(last),
    )
    got = engine.polars(filled)
    assert got.schema == frame.schema
    first = whole["close"][0]
    assert got["timestamp"].dt.epoch("ns").to_list() == [start + n * MINUTE for n in range(-2, 5)]
    assert got["close"].to_list() == [7.0, 7.0, first, first, first, *whole["close"][3:].to_list()]
    is_real = [False, False, True, False, False, True, True]
    assert got["last_timestamp"].is_not_null().to_list() == is_real
    assert got["held"].is_not_null().to_list() == is_real
    assert got["amount_unit"].cast(pl.String).to_list() == ["COIN"] * 7
    real = got.filter(is_real)
    assert real.equals(frame)


def test_times_without_a_zone_are_refused():
    frame = candles([("A", 0, 1.0)]).with_columns(pl.from_epoch("timestamp", "ns"))
    for function, more in (
        (gapfill, {"start": 0, "end": 1}),
        (resample, {"data_type": "TRADE_SIDE_AGNOSTIC_AGG"}),
    ):
        with pytest.raises(QueryError, match=r"timestamp: got .timestamp: Datetime"):
            function(frame, interval="1m", **more)
