"""Option open interest: literal values on every engine, and recorded chains against plain Python."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import option_open_interest
from tidytape.errors import MissingColumnError
from tidytape.schema import schema_of

HOUR = 3_600 * 10**9
DAY = 24 * HOUR
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")
SCHEMA = {
    "exchange": pl.String,
    "coin": pl.String,
    "raw_symbol": pl.String,
    "timestamp": pl.Int64,
    "expiry": pl.Int64,
    "forward": pl.Float64,
    "open_interest": pl.Float64,
}
FAR = 100 * DAY


def frame_of(*rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@pytest.fixture
def quotes() -> pl.DataFrame:
    return frame_of(
        ("D", "BTC", "near", 0, 8 * HOUR, 60.0, 5.0),
        ("D", "BTC", "far", 0, FAR, 61.0, 0.1),
        ("D", "BTC", "far", 1, FAR, None, None),  # says nothing
        ("D", "BTC", "far", HOUR + 5, FAR, 62.0, 0.2),
        ("D", "BTC", "other", HOUR + 1, FAR, 63.0, 0.1),
        ("D", "BTC", "far", 9 * HOUR, FAR, None, 0.4),  # the near one has expired
        ("D", "BTC", "near", 9 * HOUR, 8 * HOUR, 64.0, 7.0),  # quoted after its expiry
        ("D", "ETH", "near", 2 * HOUR, 8 * HOUR, 3.0, None),
    )


def test_literal_points(engine, quotes):
    got = engine.polars(option_open_interest(engine.frame(quotes), interval="1h"))
    got = in_columns(got, ["exchange", "coin", "timestamp", "underlying_price_close", "oi_close"])
    assert got.rows() == [
        ("D", "BTC", 0, 60.0, 5.1),  # of one time, the forward of the nearest expiry
        ("D", "BTC", HOUR, 62.0, 5.3),  # 5 + 0.2 + 0.1: the near one did not report
        ("D", "BTC", 9 * HOUR, None, 0.5),
        ("D", "ETH", 2 * HOUR, 3.0, None),
    ]


@pytest.mark.parametrize(("later", "expected"), [(DAY, 3.0), (DAY + 1, 2.0)])
def test_a_report_holds_for_24_hours(engine, later, expected):
    quotes = frame_of(("D", "BTC", "a", 7, FAR, 1.0, 1.0), ("D", "BTC", "b", 7 + later, FAR, 1.0, 2.0))
    got = engine.polars(option_open_interest(engine.frame(quotes), interval="1h"))
    assert got["oi_close"].to_list() == [1.0, expected]


def test_nothing_is_left_over_of_large_and_small_amounts(engine):
    quotes = frame_of(
        ("D", "BTC", "a", 0, FAR, 1.0, 4e14 + 0.5),
        ("D", "BTC", "b", 0, FAR, 1.0, 0.1),
        ("D", "BTC", "a", HOUR, FAR, 1.0, 0.0),
        ("D", "BTC", "b", HOUR, FAR, 1.0, 1e-12),
        ("D", "BTC", "a", 2 * HOUR, FAR, 1.0, 1e18),  # beyond what is counted: no report
    )
    got = engine.polars(option_open_interest(engine.frame(quotes), interval="1h"))
    assert got["oi_close"].to_list() == [4e14 + 0.6, 1e-12, 1e-12]


def test_no_quotes_give_no_points_but_all_columns(engine, quotes):
    got = engine.polars(option_open_interest(engine.frame(quotes.clear()), interval="1h"))
    assert got.height == 0
    assert got.columns == option_open_interest(quotes, interval="1h").columns
    assert set(got.columns) <= set(schema_of("OPTION_OPEN_INTEREST_AGG").names)


def test_a_missing_column_is_named(engine, quotes):
    with pytest.raises(MissingColumnError, match="expiry"):
        option_open_interest(engine.frame(quotes.drop("expiry")), interval="1h")


def nanoseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1) * 1000


@pytest.mark.slow
def test_recorded_chains(engine, recorded):
    """Three chains of one day: each later one replaces what it quotes again, and the rest holds until it expires."""
    rows, known, expected = [], {}, []
    for path in sorted(recorded.glob("deribit_options_snapshot_*.csv.gz")):
        with gzip.open(path, "rt") as lines:
            quotes = list(csv.DictReader(lines))
        moment = nanoseconds(quotes[0]["timestamp"])
        for quote in quotes:
            expiry, text = nanoseconds(quote["expiry_datetime"]), quote["open_interest"]
            option = (quote["currency"], quote["instrument_name"])
            rows.append(("DERIBIT", *option, moment, expiry, float(quote["futures_price"]), float(text)))
            known[option] = (expiry, Decimal(text))
        for coin in ("BTC", "ETH"):
            alive = [amount for (c, _), (expiry, amount) in known.items() if c == coin and expiry > moment]
            expected.append(("DERIBIT", coin, moment // HOUR * HOUR, float(sum(alive))))
    assert len(rows) == 1874 + 1848 + 1856
    got = engine.polars(option_open_interest(engine.frame(frame_of(*rows)), interval="1h"))
    assert got.select("exchange", "coin", "timestamp", "oi_close").rows() == sorted(expected)
    assert got.filter(coin="BTC")["underlying_price_close"].is_between(70_000, 76_000).all()


def test_recorded_messages(engine, recorded):
    rows = []
    with (recorded / "tardis-node_normalized_option_summary.jsonl").open() as lines:
        for message in map(json.loads, lines):
            times = (nanoseconds(message[name]) for name in ("timestamp", "expirationDate"))
            option = (message["exchange"], message["symbol"].split("-")[0], message["symbol"])
            rows.append((*option, *times, message["underlyingPrice"], message["openInterest"]))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row", strict=False)
    assert frame.height == 30
    got = engine.polars(option_open_interest(engine.frame(frame), interval="1d"))
    okex = got.filter(exchange="okex-options", coin="ETH").select("underlying_price_close", "oi_close")
    # Of some options that were quoted the open interest was not reported.
    assert okex.rows() == [(243.11, None), (243.11, None), (3814.05, None), (3814.05, None)]
    late = got.filter(exchange="deribit", coin="BTC")  # one was quoted 48 ms after its expiry
    assert late.select("underlying_price_close", "oi_close").rows() == [(9440.73, 533.2)]
