"""The volatility risk premium: as known, of every market, and never of the future."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from tidytape.analytics.options import volatility_risk_premium
from tidytape.analytics.pit import known_at
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2026, 3, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)

IMPLIED = pl.DataFrame(
    {
        "exchange": "OPTIONS",
        "coin": ["BTC", "BTC", "ETH", "SOL"],
        "tenor": "ONE_M",
        "interval": "DAY",
        "timestamp": [START, START + 24 * HOUR, START, START],
        "implied_volatility": [52.0, 50.0, 70.0, 90.0],
    }
)
# Hourly, known an hour later; the day of the implied ends at its twenty-fourth.
REALIZED = pl.DataFrame(
    [
        ("A", "X", "BTC", START + 23 * HOUR, 40.0),
        ("A", "X", "BTC", START + 24 * HOUR, 999.0),
        ("B", "Y", "BTC", START + 20 * HOUR, 45.0),
        ("A", "Z", "ETH", START + 30 * HOUR, 60.0),
    ],
    schema=["exchange", "raw_symbol", "coin", "timestamp", "realized_volatility"],
    orient="row",
).with_columns(interval=pl.lit("HOUR"))


def test_the_last_known_of_every_market() -> None:
    found = volatility_risk_premium(IMPLIED, REALIZED)
    assert found.select("coin", "realized_exchange", "known_at", "realized_volatility").rows() == [
        ("BTC", "A", START + 24 * HOUR, 40.0),
        ("BTC", "A", START + 48 * HOUR, 999.0),
        ("BTC", "B", START + 24 * HOUR, 45.0),
        ("BTC", "B", START + 48 * HOUR, 45.0),
        ("ETH", "A", START + 24 * HOUR, None),
        ("SOL", None, START + 24 * HOUR, None),
    ]
    assert found["volatility_risk_premium"].to_list() == [12.0, -949.0, 7.0, 5.0, None, None]
    assert found["variance_risk_premium"][0] == pytest.approx(0.52**2 - 0.40**2)


def test_tolerance_forgets() -> None:
    found = volatility_risk_premium(IMPLIED, REALIZED, tolerance=2 * HOUR)
    assert found["realized_volatility"].to_list() == [40.0, None, None, None, None, None]


def test_the_future_leaves_the_past_as_it_was() -> None:
    end = START + 24 * HOUR
    value = pl.when(pl.col("timestamp") >= end).then(1.0).otherwise("realized_volatility")
    later = REALIZED.with_columns(realized_volatility=value)
    before, after = (
        volatility_risk_premium(IMPLIED, frame).filter(known_at=end) for frame in (REALIZED, later)
    )
    assert len(before) == 4
    assert before.equals(after)


def test_one_market_without_a_name() -> None:
    found = volatility_risk_premium(IMPLIED, REALIZED.filter(exchange="A").drop("exchange", "raw_symbol"))
    assert len(found) == len(IMPLIED)
    assert found.columns[-4:] == [
        "implied_volatility",
        "realized_volatility",
        "variance_risk_premium",
        "volatility_risk_premium",
    ]


@pytest.mark.slow
def test_words_of_one_side_may_be_categories() -> None:
    expected = volatility_risk_premium(IMPLIED, REALIZED)
    kept = REALIZED.with_columns(pl.col("coin", "exchange").cast(pl.Categorical))
    assert volatility_risk_premium(IMPLIED, kept).rows() == expected.rows()
    found = volatility_risk_premium(IMPLIED.with_columns(pl.col("coin").cast(pl.Categorical)), REALIZED)
    assert found.rows() == expected.rows()
    assert found.schema["coin"] == pl.Categorical


def test_an_instant_is_known_at_once() -> None:
    instant = known_at(IMPLIED.drop("interval", "tenor"), rule="event")
    found = volatility_risk_premium(instant.filter(coin="BTC"), REALIZED.filter(exchange="A"))
    assert found.select("timestamp", "known_at", "realized_volatility").rows() == [
        (START, START, None),
        (START + 24 * HOUR, START + 24 * HOUR, 40.0),
    ]


def test_what_is_refused() -> None:
    with pytest.raises(MissingColumnError, match="realized_volatility"):
        volatility_risk_premium(IMPLIED, IMPLIED)
    with pytest.raises(QueryError, match="like the first"):
        volatility_risk_premium(IMPLIED, REALIZED.to_pandas())
    with pytest.raises(QueryError, match="without it"):
        volatility_risk_premium(IMPLIED.with_columns(realized_volatility=1.0), REALIZED)
    with pytest.raises(MissingColumnError, match="interval"):
        volatility_risk_premium(IMPLIED.drop("interval"), REALIZED)
