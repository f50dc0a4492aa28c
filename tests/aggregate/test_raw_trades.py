"""Raw trades: what is served of them, in order, on every engine."""

from __future__ import annotations

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import raw_trades
from tidytape.errors import MissingColumnError
from tidytape.schema import schema_of


@pytest.fixture
def all_trades(trades) -> pl.DataFrame:
    return trades.with_columns(
        id=pl.col("sequence").cast(pl.String), quote_amount=pl.col("price") * pl.col("amount"), received=0
    )


def test_literal_trades(engine, all_trades):
    got = engine.polars(raw_trades(engine.frame(all_trades)))
    got = in_columns(
        got, ["exchange", "raw_symbol", "side", "timestamp", "id", "price", "amount", "quote_amount"]
    )
    assert got.height == all_trades.height
    sold = got.filter(exchange="A", raw_symbol="X", side="SELL")
    assert sold.select("id", "price", "amount").rows() == [
        ("2", 0.1, 2.0),
        ("4", 0.4, 0.5),
        ("5", 0.6, 0.125),
        ("6", 0.7, 0.25),
    ]
    assert set(got.columns) <= set(schema_of("TRADE").names)


def test_no_trades_keep_all_columns(engine, all_trades):
    got = engine.polars(raw_trades(engine.frame(all_trades.clear())))
    assert got.height == 0
    assert got.columns == raw_trades(all_trades).columns


def test_a_missing_column_is_named(engine, all_trades):
    with pytest.raises(MissingColumnError, match="quote_amount"):
        raw_trades(engine.frame(all_trades.drop("quote_amount")))
