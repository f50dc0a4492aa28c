"""Summaries of two coins by tenor, with a hole and a null; and candles of two venues, one with a gap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from analytics.matrix import Case
from tidytape.analytics import options

_START = datetime(2026, 3, 5, tzinfo=UTC)
_TENORS = {"ONE_W": 54.7, "ONE_M": 52.3, "THREE_M": 53.25}

SUMMARIES = (
    pl.DataFrame(
        [
            ("OPTIONS", coin, tenor, _START + timedelta(hours=hour), level + scale * hour * (-1) ** hour)
            for coin, scale in (("BTC", 0.5), ("ETH", 1.25))
            for hour in range(8)
            for tenor, level in _TENORS.items()
            if (coin, hour, tenor) != ("ETH", 3, "ONE_W")
        ],
        schema={
            "exchange": pl.Categorical,
            "coin": pl.Categorical,
            "tenor": pl.Categorical,
            "timestamp": pl.Datetime("us", "UTC"),
            "implied_volatility": pl.Float64,
        },
        orient="row",
    )
    .with_columns(
        implied_volatility=pl.when((pl.col("coin") == "BTC") & (pl.col("timestamp") == _START))
        .then(None)
        .otherwise("implied_volatility")
    )
    .sample(fraction=1, shuffle=True, seed=3)
)

CANDLES = (
    pl.DataFrame(
        [
            (
                venue,
                "HOUR",
                _START + timedelta(hours=hour),
                *(round(100 + shift + hour * 0.7 + (hour % 3) * part, 2) for part in (0.3, 1.9, -1.7, 0.8)),
            )
            for venue, shift in (("A", 0.0), ("B", 3.5))
            for hour in range(12)
            if (venue, hour) != ("B", 5)
        ],
        schema={
            "exchange": pl.Categorical,
            "interval": pl.Categorical,
            "timestamp": pl.Datetime("us", "UTC"),
            "open": pl.Float64,
            "high": pl.Float64,
            "low": pl.Float64,
            "close": pl.Float64,
        },
        orient="row",
    )
    .with_columns(
        high=pl.max_horizontal("open", "high", "low", "close"),
        low=pl.min_horizontal("open", "high", "low", "close"),
    )
    .sample(fraction=1, shuffle=True, seed=4)
)

REALIZED = CANDLES.select(
    "exchange", "timestamp", "interval", realized_volatility=pl.col("close") - 60
).with_columns(coin=pl.lit("BTC"))

_SERIES = ["exchange", "coin"]

CASES = [
    Case(
        "tenor_structure",
        options.tenor_structure,
        [SUMMARIES],
        [*_SERIES, "timestamp", "days"],
    ),
    Case(
        "tenor_structure",
        lambda frame: options.tenor_structure(frame, at=_START + timedelta(hours=3, minutes=30), by="coin"),
        [SUMMARIES],
        ["coin", "timestamp", "days"],
        label="at a time",
    ),
    Case(
        "tenor_slope",
        lambda frame: options.tenor_slope(frame, short="1w", long="3m", flat=0.5),
        [SUMMARIES],
        [*_SERIES, "timestamp"],
    ),
    Case(
        "z_score",
        lambda frame: options.z_score(frame, value="implied_volatility", window=4, least=3),
        [SUMMARIES],
        ["exchange", "coin", "tenor", "timestamp"],
        sorts=False,
    ),
    Case(
        "percentile",
        lambda frame: options.percentile(frame, value="implied_volatility", window=4, least=3),
        [SUMMARIES],
        ["exchange", "coin", "tenor", "timestamp"],
        sorts=False,
    ),
    Case(
        "rank",
        lambda frame: options.rank(frame, value="implied_volatility", window=4, least=3),
        [SUMMARIES],
        ["exchange", "coin", "tenor", "timestamp"],
        sorts=False,
    ),
    *(
        Case(
            "realized_volatility",
            lambda frame, estimator=estimator: options.realized_volatility(
                frame, window=4, estimator=estimator
            ),
            [CANDLES],
            ["exchange", "timestamp"],
            label=estimator,
        )
        for estimator in ("close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang")
    ),
    Case(
        "volatility_risk_premium",
        lambda implied, realized: options.volatility_risk_premium(
            implied, realized, implied_interval="1h", tolerance=timedelta(hours=3)
        ),
        [SUMMARIES, REALIZED],
        ["coin", "exchange", "tenor", "realized_exchange", "timestamp"],
    ),
]
