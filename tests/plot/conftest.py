from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from matplotlib.figure import Figure

START = datetime(2024, 8, 8, tzinfo=UTC)
WHOSE = {
    "exchange": "X",
    "raw_symbol": "BTCUSDT",
    "normalized_symbol": "BTC-USDT",
    "coin": "BTC",
    "category": "SPOT",
    "amount_unit": "COIN",
}


@pytest.fixture(params=["polars", "polars-lazy", "pandas"])
def native(request):
    """Turn a polars frame into the kind under test."""
    return {
        "polars": lambda frame: frame,
        "polars-lazy": lambda frame: frame.lazy(),
        "pandas": lambda frame: frame.to_pandas(),
    }[request.param]


@pytest.fixture
def ax():
    return Figure(figsize=(8, 5), dpi=100).add_subplot()


@pytest.fixture
def hours():
    """Candles at the given hours: (hour, open, high, low, close, volume) each."""

    def frame(*rows, interval="HOUR"):
        columns = ["hour", "open", "high", "low", "close", "volume"]
        numbers = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Float64), orient="row")
        time = [START + timedelta(hours=hour) for hour in numbers["hour"]]
        return numbers.select(
            *(pl.lit(value).cast(pl.Categorical).alias(name) for name, value in WHOSE.items()),
            pl.lit(interval).cast(pl.Categorical).alias("interval"),
            pl.Series("timestamp", time, dtype=pl.Datetime("ns", "UTC")),
            *columns[1:],
        )

    return frame


@pytest.fixture
def levels():
    """A volume profile of (price, buy, sell) rows."""

    def frame(*rows, **whose):
        columns = dict.fromkeys(["price", "buy_volume", "sell_volume"], pl.Float64)
        numbers = pl.DataFrame(rows, schema=columns, orient="row")
        return numbers.select(
            *(pl.lit(value).cast(pl.Categorical).alias(name) for name, value in (WHOSE | whose).items()),
            pl.lit(START).dt.cast_time_unit("ns").alias("timestamp"),
            *columns,
        )

    return frame
