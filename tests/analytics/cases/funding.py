"""Hourly and eight-hourly rates of three venues and two coins: ties, nulls, a gap, a venue without a rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from analytics.matrix import Case
from tidytape.analytics import funding

START = datetime(2024, 8, 8, tzinfo=UTC)
_NO = None

POINTS = (
    pl.DataFrame(
        [
            # coin, exchange, hour, rate, predicted
            ("BTC", "A", 0, 0.0001, 0.0002),
            ("BTC", "A", 7, 0.0001, 0.00031),
            ("BTC", "A", 8, 0.0003, 0.0001),
            ("BTC", "A", 15, 0.0003, 0.0004),
            ("BTC", "A", 16, _NO, -0.0001),
            ("BTC", "A", 24, -0.0002, 0.0),
            ("BTC", "B", 0, 0.0001, 0.0001),
            ("BTC", "B", 8, -0.0002, 0.0003),
            ("BTC", "B", 15, -0.0002, _NO),
            ("BTC", "B", 16, 0.0004, 0.0001),
            ("BTC", "C", 8, 0.0003, 0.0001),
            ("ETH", "A", 0, 0.00015, 0.0001),
            ("ETH", "A", 8, 0.00025, 0.0001),
            ("ETH", "B", 8, float("inf"), 0.0001),
        ],
        schema=["coin", "exchange", "hour", "rate_close", "predicted_close"],
        orient="row",
    )
    .select(
        "exchange",
        (pl.col("coin") + "USDT").alias("raw_symbol"),
        pl.when(pl.col("coin") == "BTC").then(pl.col("coin")).alias("coin"),
        pl.lit("HOUR").alias("interval"),
        (pl.lit(START) + pl.duration(hours="hour")).cast(pl.Datetime("us", "UTC")).alias("timestamp"),
        "rate_close",
        "predicted_close",
    )
    .cast({"exchange": pl.Categorical})
    .sample(fraction=1, shuffle=True, seed=3)
)

OWN = POINTS.with_columns(
    funding_interval=pl.when(pl.col("exchange").cast(pl.String) != "C")
    .then(8 * 3_600e9)  # a float, for pandas has no null among integers
    .otherwise(None),
    held=pl.col("rate_close").rank("dense").cast(pl.Float64) - 2.0,
    mark=60_000.0 + 1e6 * pl.col("predicted_close"),
    fee=pl.when(pl.col("exchange").cast(pl.String) == "B").then(0.002).otherwise(0.0001),
)

PRICES = pl.DataFrame(
    {
        "row": [0, 1, 2, 3, 4, 5],
        "interval": ["DAY"] * 6,
        "timestamp": [START] * 6,
        "future": [61_200.0, 59_000.0, 60_000.0, None, 61_000.0, 61_000.0],
        "spot": [60_000.0, 60_000.0, 60_000.0, 60_000.0, 0.0, 60_000.0],
        "expiry": [START + timedelta(days=days) for days in (74, 31, 8, 8, 8, 1)],
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC"), "expiry": pl.Datetime("us", "UTC")},
)

SERIES = ["exchange", "raw_symbol", "coin", "interval", "timestamp"]
ACROSS = ["coin", "interval", "timestamp"]
PAIR = [*ACROSS, "exchange", "raw_symbol", "other_exchange", "other_raw_symbol"]

CASES = [
    Case(
        "normalized",
        lambda points: funding.normalized(points, to="1h", funding_interval="8h"),
        [POINTS],
        SERIES,
    ),
    Case(
        "normalized", lambda points: funding.normalized(points, to="1d"), [OWN], SERIES, label="own interval"
    ),
    Case("annualized", lambda points: funding.annualized(points, funding_interval="8h"), [POINTS], SERIES),
    Case(
        "annualized",
        lambda points: funding.annualized(points, rate="predicted_close", days_per_year=360),
        [OWN],
        SERIES,
        label="own interval",
    ),
    Case(
        "accrued",
        lambda points: funding.accrued(points, settled_every="8h", funding_interval="8h", position=-1000),
        [POINTS],
        SERIES,
    ),
    Case(
        "accrued",
        lambda points: funding.accrued(points, settled_every="8h", by=["exchange", "coin"]),
        [
            OWN.with_columns(
                interval=pl.when(pl.col("rate_close") > 0).then(pl.lit("HOUR")).otherwise(pl.lit("DAY"))
            )
        ],
        ["exchange", "coin", "timestamp"],
        label="some rows too long",
    ),
    Case(
        "accrued",
        lambda points: funding.accrued(points, settled_every="row", by=[], position="held", price="mark"),
        [OWN.filter(pl.col("exchange").cast(pl.String) == "A", coin="BTC")],
        ["timestamp"],
        label="each row, of a column",
    ),
    Case(
        "predicted_error",
        lambda points: funding.predicted_error(points, settled_every="8h"),
        [POINTS],
        SERIES,
    ),
    Case(
        "predicted_error",
        lambda points: funding.predicted_error(
            points, settled_every="8h", lead="7h", by=["exchange", "coin"]
        ),
        [POINTS],
        ["exchange", "coin", "timestamp"],
        label="with a lead",
    ),
    Case(
        "predicted_error",
        lambda points: funding.predicted_error(points, settled_every="8h"),
        [pl.concat([POINTS, POINTS.head(4)])],
        SERIES,
        label="rows twice",
    ),
    Case("spread", funding.spread, [POINTS], PAIR),
    Case("spread", funding.spread, [OWN], PAIR, label="own interval"),
    Case(
        "carry",
        lambda points: funding.carry(points, costs=0.001, holding="30d", funding_interval="8h"),
        [POINTS],
        ACROSS,
    ),
    Case(
        "carry",
        lambda points: funding.carry(points, costs={"A": 0.001, "B": 0.0002}, holding="7d", by="coin"),
        [OWN],
        ["coin", "timestamp"],
        label="costs by venue",
    ),
    Case(
        "carry",
        lambda points: funding.carry(points, costs="fee", holding="7d", by=()),
        [OWN.filter(coin="BTC")],
        ["timestamp"],
        label="costs in a column",
    ),
    Case("basis", lambda prices: funding.basis(prices, expiry="expiry"), [PRICES], ["row"]),
    Case("basis", funding.basis, [PRICES.drop("expiry")], ["row"], label="without expiry"),
    Case(
        "cash_and_carry",
        lambda prices: funding.cash_and_carry(prices, expiry="expiry", costs=0.002, financing=0.05),
        [PRICES],
        ["row"],
    ),
    Case(
        "cash_and_carry",
        lambda prices: funding.cash_and_carry(prices, expiry="2024-09-27T08:00:00Z"),
        [PRICES.drop("expiry", "interval")],
        ["row"],
        label="at one time",
    ),
]
