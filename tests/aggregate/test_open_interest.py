"""Open interest: literal values on every engine, and the recorded reports against plain Python."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import open_interest
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

MINUTE = 60 * 10**9
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


@pytest.fixture
def reports() -> pl.DataFrame:
    rows = [
        ("A", "X", MINUTE - 1, 7.0),
        ("A", "X", 5, 9.0),
        ("A", "X", 1, 8.0),
        ("A", "X", 9, None),  # no report, though it is the last
        ("A", "X", MINUTE, 4.0),
        ("A", "X", MINUTE, 3.0),  # of one time: the smaller is the earlier
        ("B", "X", -1, 2.0),
        ("B", "X", 3 * MINUTE, float("nan")),
    ]
    columns = {"exchange": pl.String, "raw_symbol": pl.String, "timestamp": pl.Int64, "amount": pl.Float64}
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_literal_points(engine, reports):
    got = engine.polars(open_interest(engine.frame(reports), interval="1m"))
    got = in_columns(got, ["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close"])
    assert got.rows() == [
        ("A", "X", 0, 8.0, 9.0, 7.0, 7.0),
        ("A", "X", MINUTE, 3.0, 4.0, 3.0, 4.0),
        ("B", "X", -MINUTE, 2.0, 2.0, 2.0, 2.0),
    ]


def test_no_reports_give_no_points_but_all_columns(engine, reports):
    got = engine.polars(open_interest(engine.frame(reports.clear()), interval="1h"))
    assert got.height == 0
    assert got.columns == open_interest(reports, interval="1h").columns
    assert set(got.columns) <= set(schema_of("OPEN_INTEREST_AGG").names)


def test_what_is_wrong_is_named(engine, reports):
    with pytest.raises(MissingColumnError, match="amount"):
        open_interest(engine.frame(reports.drop("amount")), interval="1m")
    with pytest.raises(QueryError, match="interval: got '2x'"):
        open_interest(engine.frame(reports), interval="2x")


def test_recorded_tickers(engine, recorded):
    with gzip.open(recorded / "tardis-node_normalized_derivative_ticker.jsonl.gz", "rt") as lines:
        messages = [json.loads(line) for line in lines]
    rows, days = [], {}
    for message in messages:
        since = datetime.fromisoformat(message["timestamp"]) - EPOCH
        amount, time = message["openInterest"], since // timedelta(microseconds=1) * 1000
        rows.append((message["exchange"], message["symbol"], time, amount))
        if amount is not None:
            key = (message["exchange"], message["symbol"], since.days * 1440 * MINUTE)
            days.setdefault(key, []).append((time, float(amount)))
    expected = []
    for key, found in sorted(days.items()):
        amounts = [amount for _, amount in sorted(found)]
        expected.append((*key, amounts[0], max(amounts), min(amounts), amounts[-1]))
    schema = {"exchange": pl.String, "raw_symbol": pl.String, "timestamp": pl.Int64, "amount": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row", strict=False)
    got = engine.polars(open_interest(engine.frame(frame), interval="1d"))
    assert sum(map(len, days.values())) == 82  # of 133 messages
    names = ["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close"]
    assert got.select(names).rows() == expected
