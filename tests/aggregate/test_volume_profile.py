"""Volume profiles: literal values and plain loops, on every engine."""

from __future__ import annotations

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import volume_profile
from tidytape.catalogue import Interval
from tidytape.errors import MissingColumnError, QueryError


def test_literal_profile(engine, trades):
    got = engine.polars(volume_profile(engine.frame(trades), interval="1d", block_size="0.1"))
    got = in_columns(
        got, ["exchange", "raw_symbol", "timestamp", "price", "buy_volume", "sell_volume", "volume"]
    )
    day = got.filter(exchange="A", raw_symbol="X").filter(pl.col("timestamp") == 0)
    assert day.select("price", "buy_volume", "sell_volume", "volume").rows() == [
        (0.1, 0.0, 2.0, 2.0),
        (0.3, 5.0, 0.0, 5.0),
        (0.4, 0.0, 0.5, 0.5),
        (0.6, 0.0, 0.125, 0.125),
        (0.7, 0.0, 0.25, 0.25),
    ]


@pytest.mark.parametrize(
    ("interval", "block_size"),
    [
        *((interval.alias, "0.1") for interval in Interval),
        *(("1h", block_size) for block_size in ("0.2", "0.3", "0.05", "5", "1E+1")),
    ],
)
def test_equals_the_plain_loop(trades, oracle, interval, block_size):
    got = volume_profile(trades, interval=interval, block_size=block_size)
    assert got.to_dicts() == oracle["volume_profile"](trades.to_dicts(), interval, block_size)


def test_equals_the_plain_loop_on_every_engine(engine, trades, oracle):
    got = engine.polars(volume_profile(engine.frame(trades), interval="1d", block_size="0.3"))
    assert got.to_dicts() == oracle["volume_profile"](trades.to_dicts(), "1d", "0.3")


def test_no_trades_give_no_rows_but_all_columns(engine, trades):
    got = engine.polars(volume_profile(engine.frame(trades.clear()), interval="1h", block_size=1))
    assert got.height == 0
    assert got.columns == volume_profile(trades, interval="1h", block_size=1).columns


@pytest.mark.parametrize("block_size", [0, -1, "0.0", "one", float("nan"), float("inf"), None])
def test_a_block_size_is_a_positive_number(trades, block_size):
    with pytest.raises(QueryError, match=r"block_size: .* expected a positive finite number"):
        volume_profile(trades, interval="1h", block_size=block_size)


def test_a_missing_column_is_named(trades):
    with pytest.raises(MissingColumnError, match="side"):
        volume_profile(trades.drop("side"), interval="1h", block_size=1)


def test_prices_too_far_out_to_have_a_row_are_apart(engine):
    trades = pl.DataFrame(
        {
            "exchange": "A", "raw_symbol": "X", "timestamp": [5, 6, 7], "side": "BUY",
            "price": [0.00001234, 1e12, None], "amount": [1.0, 2.0, 4.0],
        }
    )  # fmt: skip
    found = engine.polars(volume_profile(engine.frame(trades), interval="1h", block_size="0.00000001"))
    rows = found.with_columns(pl.col("price").fill_nan(None)).sort("volume").select("price", "volume").rows()
    assert rows == [(0.00001234, 1.0), (None, 6.0)]
