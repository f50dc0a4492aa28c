"""Open interest of regulated futures: literal values on every engine."""

from __future__ import annotations

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import cme_open_interest
from tidytape.errors import MissingColumnError
from tidytape.schema import schema_of

DAY = 86_400 * 10**9


@pytest.fixture
def reports() -> pl.DataFrame:
    rows = [
        ("CME", "BTCZ4", 2, 15.0, 900.0, 61.0),
        ("CME", "BTCZ4", 1, 14.0, None, 60.0),
        ("CME", "BTCZ4", 3, None, 870.0, None),
        ("CME", "BTCZ4", DAY, None, None, 62.0),
        ("CME", "BTCZ4", 2 * DAY, None, None, None),
        ("CME", "ETHZ4", DAY, 1.0, 2.0, 3.0),
    ]
    columns = ["exchange", "raw_symbol", "timestamp", "amount", "usd_amount", "price"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_literal_points(engine, reports):
    got = engine.polars(cme_open_interest(engine.frame(reports), interval="1d"))
    ohlc = [f"{of}{name}" for of in ("", "value_", "price_") for name in ("open", "high", "low", "close")]
    assert got.select("exchange", "raw_symbol", "timestamp", *ohlc).rows() == [
        ("CME", "BTCZ4", 0, 14.0, 15.0, 14.0, 15.0, 900.0, 900.0, 870.0, 870.0, 60.0, 61.0, 60.0, 61.0),
        ("CME", "BTCZ4", DAY, *[None] * 8, *[62.0] * 4),
        ("CME", "ETHZ4", DAY, *[1.0] * 4, *[2.0] * 4, *[3.0] * 4),
    ]


def test_columns_are_those_of_the_schema(engine, reports):
    got = engine.polars(cme_open_interest(engine.frame(reports.clear()), interval="1h"))
    names = schema_of("CME_OPEN_INTEREST_AGG").names
    assert got.height == 0
    values = names[names.index("is_final") + 1 :]
    got = in_columns(got, ["exchange", "raw_symbol", "timestamp", *values])


def test_a_missing_column_is_named(engine, reports):
    with pytest.raises(MissingColumnError, match="usd_amount"):
        cme_open_interest(engine.frame(reports.drop("usd_amount")), interval="1d")
