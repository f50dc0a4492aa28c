"""Volume profiles of candles: literal values on every engine, what adds nothing, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from tidytape.aggregate import candle_profile
from tidytape.errors import MissingColumnError, QueryError

HOUR = 3_600_000_000_000

CANDLES = pl.DataFrame(
    [
        ("A", "X", 0, 10.5, 12.5, 12.0, 4.0),  # a quarter, a half, a quarter
        ("A", "X", 1, 12.0, 12.0, 12.0, 1.0),  # one price
        ("A", "X", 2, 11.0, 13.0, 11.0, 2.0),  # ends on an edge: the row above gets nothing
        ("A", "X", HOUR, 0.2, 0.4, 0.3, 3.0),
        ("B", "X", 0, -0.5, 0.5, 0.5, 8.0),
        ("B", "X", 1, 5.0, 5.5, 5.0, 0.0),  # nothing was traded
    ],
    schema=["exchange", "raw_symbol", "timestamp", "low", "high", "close", "volume"],
    orient="row",
)


def rows(found: pl.DataFrame, *columns: str) -> list[tuple]:
    return found.select("exchange", "timestamp", "price", *columns).rows()


def test_uniform_is_even_over_the_range(engine) -> None:
    found = engine.polars(
        candle_profile(engine.frame(CANDLES), interval="1h", block_size=1, spreading="uniform")
    )
    assert found.columns == ["exchange", "raw_symbol", "timestamp", "price", "volume", "spreading"]
    assert rows(found, "volume", "spreading") == [
        ("A", 0, 10.0, 1.0, "uniform"),
        ("A", 0, 11.0, 3.0, "uniform"),
        ("A", 0, 12.0, 3.0, "uniform"),
        ("A", HOUR, 0.0, 3.0, "uniform"),
        ("B", 0, -1.0, 4.0, "uniform"),
        ("B", 0, 0.0, 4.0, "uniform"),
    ]


def test_close_is_where_candles_closed(engine) -> None:
    found = engine.polars(
        candle_profile(engine.frame(CANDLES), interval="1h", block_size=1, spreading="close")
    )
    assert rows(found, "volume", "spreading") == [
        ("A", 0, 11.0, 2.0, "close"),
        ("A", 0, 12.0, 5.0, "close"),
        ("A", HOUR, 0.0, 3.0, "close"),
        ("B", 0, 0.0, 8.0, "close"),
    ]


def test_rows_are_those_of_exact_decimals() -> None:
    found = candle_profile(CANDLES[3:4], interval="1h", block_size="0.1", spreading="uniform")
    assert found["price"].to_list() == [0.2, 0.3]
    assert found["volume"].to_list() == pytest.approx([1.5, 1.5], rel=1e-15)


def test_sides_are_told_apart(engine) -> None:
    sided = pl.concat(
        [
            CANDLES[:1].with_columns(side=pl.lit("BUY")),
            CANDLES[:1].with_columns(side=pl.lit("SELL"), volume=8.0),
            CANDLES[:1].with_columns(side=pl.lit("UNKNOWN")),
        ]
    )
    found = engine.polars(
        candle_profile(engine.frame(sided), interval="1h", block_size=1, spreading="uniform")
    )
    volumes = found.select("price", "buy_volume", "sell_volume", "volume")
    assert volumes.rows() == [(10.0, 1.0, 2.0, 3.0), (11.0, 2.0, 4.0, 6.0), (12.0, 1.0, 2.0, 3.0)]


def test_times_stay_of_their_kind_and_intervals_are_named(engine) -> None:
    noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    fetched = CANDLES[:1].with_columns(timestamp=pl.lit(noon), interval=pl.lit("MINUTE"), coin=pl.lit("BTC"))
    found = engine.polars(
        candle_profile(engine.frame(fetched), interval="1d", block_size=5, spreading="close")
    )
    assert found["timestamp"].dt.convert_time_zone("UTC").to_list() == [datetime(2024, 8, 8, tzinfo=UTC)]
    assert found.select("coin", "interval").rows() == [("BTC", "DAY")]


@pytest.mark.parametrize("column", ["volume", "low", "high"])
@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_what_cannot_be_placed_adds_nothing(column, bad) -> None:
    broken = CANDLES.with_columns(pl.when(pl.col("timestamp") == 1).then(bad).otherwise(column).alias(column))
    left = CANDLES.filter(pl.col("timestamp") != 1)
    found, wanted = (
        candle_profile(frame, interval="1h", block_size=1, spreading="uniform") for frame in (broken, left)
    )
    assert found.equals(wanted)


def test_a_low_above_the_high_adds_nothing() -> None:
    turned = CANDLES[:1].with_columns(low=10.9, high=10.1)
    assert candle_profile(turned, interval="1h", block_size=1, spreading="uniform").is_empty()


def test_no_candles_give_no_rows_but_all_columns(engine) -> None:
    found = engine.polars(
        candle_profile(engine.frame(CANDLES.clear()), interval="1h", block_size=1, spreading="uniform")
    )
    assert found.columns == ["exchange", "raw_symbol", "timestamp", "price", "volume", "spreading"]
    assert found.is_empty()


def test_what_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="spreading"):
        candle_profile(CANDLES, interval="1h", block_size=1, spreading="normal")
    with pytest.raises(QueryError, match="block_size"):
        candle_profile(CANDLES, interval="1h", block_size=0, spreading="close")
    with pytest.raises(MissingColumnError, match="low"):
        candle_profile(CANDLES.drop("low"), interval="1h", block_size=1, spreading="uniform")
