"""Liquidation heatmap: literal values on every engine, and the recorded events against plain Python."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import liquidation_heatmap
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

HOUR = 3_600 * 10**9
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")
SCHEMA = {
    "exchange": pl.String,
    "coin": pl.String,
    "timestamp": pl.Int64,
    "price": pl.Float64,
    "amount": pl.Float64,
}


@pytest.fixture
def events() -> pl.DataFrame:
    rows = [
        ("V", "BTC", 5, 0.3, 0.1),
        ("V", "BTC", 6, 0.39, 0.2),  # another market and side perhaps: one venue, one coin
        ("V", "BTC", 6, 0.4, 4.0),
        ("V", "BTC", HOUR, 0.3, 8.0),
        ("V", "ETH", 0, 0.3, 16.0),
        ("W", "BTC", 0, 0.3, 32.0),
        ("V", None, 0, 0.3, 64.0),
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def test_literal_levels(engine, events):
    got = engine.polars(liquidation_heatmap(engine.frame(events), interval="1h", block_size="0.1"))
    got = in_columns(got, ["exchange", "coin", "timestamp", "price", "liquidations"])
    assert got.rows() == [
        ("V", "BTC", 0, 0.3, 0.3),
        ("V", "BTC", 0, 0.4, 4.0),
        ("V", "BTC", HOUR, 0.3, 8.0),
        ("V", "ETH", 0, 0.3, 16.0),
        ("W", "BTC", 0, 0.3, 32.0),
    ]


def test_no_events_give_no_levels_but_all_columns(engine, events):
    got = engine.polars(liquidation_heatmap(engine.frame(events.clear()), interval="1h", block_size=1))
    assert got.height == 0
    assert got.columns == liquidation_heatmap(events, interval="1h", block_size=1).columns
    assert set(got.columns) <= set(schema_of("VENUEX_LIQUIDATION_AGG").names)


def test_what_is_wrong_is_named(events):
    with pytest.raises(MissingColumnError, match="coin"):
        liquidation_heatmap(events.drop("coin"), interval="1h", block_size=1)
    with pytest.raises(QueryError, match="block_size"):
        liquidation_heatmap(events, interval="1h", block_size=0)


def test_recorded_liquidations(engine, recorded):
    rows, levels = [], {}
    with (recorded / "tardis-node_normalized_liquidation.jsonl").open() as lines:
        for message in map(json.loads, lines):
            since = datetime.fromisoformat(message["timestamp"]) - EPOCH
            coin = "BTC" if "BTC" in message["symbol"] or "XBT" in message["symbol"] else message["symbol"]
            price, amount = message["price"], message["amount"]
            time = since // timedelta(microseconds=1) * 1000
            rows.append((message["exchange"], coin, time, float(price), float(amount)))
            row = int((Decimal(repr(price)) / Decimal("2.5")).to_integral_value(ROUND_FLOOR))
            key = (message["exchange"], coin, since.days * 24 * HOUR, row)
            levels[key] = levels.get(key, Decimal(0)) + Decimal(repr(amount))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    got = engine.polars(liquidation_heatmap(engine.frame(frame), interval="1d", block_size="2.5"))
    got = got.select("exchange", "coin", "timestamp", "price", "liquidations")
    assert got.rows() == [(*key, row * 2.5, float(amount)) for (*key, row), amount in sorted(levels.items())]
