"""Funding: literal values on every engine, and the recorded reports against plain Python."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import funding
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

HOUR = 3_600 * 10**9
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")
SCHEMA = {
    "exchange": pl.String,
    "raw_symbol": pl.String,
    "timestamp": pl.Int64,
    "rate": pl.Float64,
    "predicted_rate": pl.Float64,
    "funding_interval": pl.Int64,
}


def frame_of(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@pytest.fixture
def reports() -> pl.DataFrame:
    return frame_of(
        [
            ("A", "X", 30, 0.0001, None, 8 * HOUR),
            ("A", "X", 10, 0.0003, None, 8 * HOUR),
            ("A", "X", 20, None, 0.0004, 8 * HOUR),  # each passes over its own nulls
            ("A", "Y", 10, 0.0001, None, HOUR),  # a settlement an hour: eight of them in eight hours
            ("A", "Y", HOUR, 0.5, None, None),  # an unknown unit
            ("B", "X", 0, 0.5, 0.5, 0),
        ]
    )


def test_literal_points(engine, reports):
    got = engine.polars(funding(engine.frame(reports), interval="1h"))
    got = in_columns(
        got,
        [
            "exchange",
            "raw_symbol",
            "timestamp",
            "rate_open",
            "rate_high",
            "rate_low",
            "rate_close",
            "predicted_open",
            "predicted_high",
            "predicted_low",
            "predicted_close",
        ],
    )
    assert got.rows() == [
        ("A", "X", 0, 0.0003, 0.0003, 0.0001, 0.0001, *[0.0004] * 4),
        ("A", "Y", 0, *[0.0008] * 4, *[None] * 4),
    ]


@pytest.mark.parametrize("asked", ["1h", 3_600_000, timedelta(hours=1)])
def test_rates_are_linear_in_the_funding_interval(reports, asked):
    got = funding(reports, interval="1h", funding_interval=asked)
    assert got["rate_close"].to_list() == [0.0001 / 8, 0.0001]


def test_an_interval_that_is_not_stated_can_be_named(engine, reports):
    got = engine.polars(funding(engine.frame(reports), interval="1h", unstated="4h"))
    assert got.select("exchange", "raw_symbol", "timestamp", "rate_close").rows()[2:] == [
        ("A", "Y", HOUR, 1.0),
        ("B", "X", 0, 1.0),
    ]


def test_no_reports_give_no_points_but_all_columns(engine, reports):
    got = engine.polars(funding(engine.frame(reports.clear()), interval="1h"))
    assert got.height == 0
    assert got.columns == funding(reports, interval="1h").columns
    assert set(got.columns) <= set(schema_of("FUNDING_RATE_AGG").names)


@pytest.mark.parametrize("parameter", ["funding_interval", "unstated"])
@pytest.mark.parametrize("value", [0, -1, "eight hours", 1.5, timedelta(0)])
def test_a_funding_interval_is_a_positive_duration(reports, parameter, value):
    with pytest.raises(QueryError, match=f"{parameter}: .* expected a positive duration"):
        funding(reports, interval="1h", **{parameter: value})


def test_a_missing_column_is_named(engine, reports):
    with pytest.raises(MissingColumnError, match="predicted_rate"):
        funding(engine.frame(reports.drop("predicted_rate")), interval="1h")


def test_recorded_tickers(engine, recorded):
    """Tickers do not say their funding interval: nothing comes of them until it is named."""
    with gzip.open(recorded / "tardis-node_normalized_derivative_ticker.jsonl.gz", "rt") as lines:
        messages = [json.loads(line) for line in lines]
    rows, days = [], {}
    for message in messages:
        since = datetime.fromisoformat(message["timestamp"]) - EPOCH
        rate, predicted = message["fundingRate"], message.get("predictedFundingRate")
        time = since // timedelta(microseconds=1) * 1000
        rows.append((message["exchange"], message["symbol"], time, rate, predicted, None))
        if rate is not None or predicted is not None:
            of_day = days.setdefault((*rows[-1][:2], since.days * 24 * HOUR), ([], []))
            for found, value in zip(of_day, (rate, predicted), strict=True):
                found.extend([] if value is None else [(time, float(value))])
    expected = []
    for key, both in sorted(days.items()):
        cells = [[value for _, value in sorted(found)] or [None] for found in both]
        expected.append((*key, *(value for found in cells for value in plain_ohlc(found))))
    frame = frame_of(rows)
    assert funding(frame, interval="1d").height == 0
    got = engine.polars(funding(engine.frame(frame), interval="1d", unstated="8h"))
    assert sum(len(found) for found, _ in days.values()) == 71
    assert sum(len(found) for _, found in days.values()) == 31
    ohlc = [f"{of}_{name}" for of in ("rate", "predicted") for name in ("open", "high", "low", "close")]
    assert got.select("exchange", "raw_symbol", "timestamp", *ohlc).rows() == expected


def plain_ohlc(values):
    if values == [None]:
        return [None] * 4
    return values[0], max(values), min(values), values[-1]


def test_recorded_markets(engine, recorded):
    """BitMEX says its funding interval as a time after 2000-01-01."""
    with gzip.open(recorded / "cryptofeed_BITMEX.0_instruments.gz", "rt") as lines:
        contracts = json.loads(next(lines).split(": ", 1)[1])
    rows, expected = [], []
    for contract in contracts:
        time = (datetime.fromisoformat(contract["timestamp"]) - EPOCH) // timedelta(seconds=1) * 10**9
        interval, rate, predicted = (
            contract[name] for name in ("fundingInterval", "fundingRate", "indicativeFundingRate")
        )
        own = None
        if interval is not None:
            length = datetime.fromisoformat(interval) - datetime.fromisoformat("2000-01-01T00:00:00Z")
            assert length == timedelta(hours=8)
            own = length // timedelta(seconds=1) * 10**9
            expected.append(("BITMEX", contract["symbol"], rate / 8, predicted / 8))
        rows.append(("BITMEX", contract["symbol"], time, rate, predicted, own))
    got = engine.polars(funding(engine.frame(frame_of(rows)), interval="1h", funding_interval="1h"))
    assert len(rows) == 34
    found = got.select("exchange", "raw_symbol", "rate_close", "predicted_close")
    assert found.rows() == sorted(expected)
    assert set(got["timestamp"]) == {1_626_991_200 * 10**9}  # 2021-07-22 22:00 UTC
