"""Liquidations: literal values on every engine, and the recorded ones against plain Python."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import liquidations
from tidytape.errors import MissingColumnError
from tidytape.schema import schema_of

MINUTE = 60 * 10**9
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")
SCHEMA = {
    "exchange": pl.String,
    "raw_symbol": pl.String,
    "timestamp": pl.Int64,
    "side": pl.String,
    "amount": pl.Float64,
}


@pytest.fixture
def events() -> pl.DataFrame:
    rows = [
        ("A", "X", 0, "BUY", 0.1),
        ("A", "X", MINUTE - 1, "BUY", 0.2),
        ("A", "X", 5, "SELL", 4.0),
        ("A", "X", MINUTE, "BUY", 8.0),
        ("A", "Y", -1, "SELL", 16.0),
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def test_literal_points(engine, events):
    got = engine.polars(liquidations(engine.frame(events), interval="1m"))
    got = in_columns(got, ["exchange", "raw_symbol", "side", "timestamp", "liquidations"])
    assert got.rows() == [
        ("A", "X", "BUY", 0, 0.3),
        ("A", "X", "BUY", MINUTE, 8.0),
        ("A", "X", "SELL", 0, 4.0),
        ("A", "Y", "SELL", -MINUTE, 16.0),
    ]


def test_no_events_give_no_points_but_all_columns(engine, events):
    got = engine.polars(liquidations(engine.frame(events.clear()), interval="1h"))
    assert got.height == 0
    assert got.columns == liquidations(events, interval="1h").columns
    assert set(got.columns) <= set(schema_of("LIQUIDATION_AGG").names)


def test_a_missing_column_is_named(engine, events):
    with pytest.raises(MissingColumnError, match="side"):
        liquidations(engine.frame(events.drop("side")), interval="1h")


def test_recorded_liquidations(engine, recorded):
    """The feed gives the side of the order that closed the position: the opposite of the position's."""
    position = {"sell": "BUY", "buy": "SELL"}
    rows, days = [], {}
    with (recorded / "tardis-node_normalized_liquidation.jsonl").open() as lines:
        for message in map(json.loads, lines):
            since = datetime.fromisoformat(message["timestamp"]) - EPOCH
            market, side = (message["exchange"], message["symbol"]), position[message["side"]]
            amount = message["amount"]
            rows.append((*market, since // timedelta(microseconds=1) * 1000, side, float(amount)))
            key = (*market, side, since.days * 1440 * MINUTE)
            days[key] = days.get(key, Decimal(0)) + Decimal(repr(amount))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    got = engine.polars(liquidations(engine.frame(frame), interval="1d"))
    assert frame.height == 38
    got = got.select("exchange", "raw_symbol", "side", "timestamp", "liquidations")
    assert got.rows() == [(*key, float(amount)) for key, amount in sorted(days.items())]
