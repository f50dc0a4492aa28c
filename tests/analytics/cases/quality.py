"""Frames with something wrong in every way: two markets of candles, open interest, trades."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import polars as pl

from analytics.matrix import Case
from tidytape.analytics import quality

START = datetime(2024, 8, 8, tzinfo=UTC)
_UNORDERED = "All findings but `unordered`: rows have no order there."


def candles(name: str | None, count: int) -> pl.DataFrame:
    """Hours of a price that swings a little."""
    closes = [100 + math.sin(n) for n in range(-1, count)]
    opens, closes = closes[:-1], closes[1:]
    return pl.DataFrame(
        {
            "exchange": pl.Series([name] * count, dtype=pl.String),
            "raw_symbol": "X",
            "interval": "HOUR",
            "side": "BUY",
            "timestamp": [START + timedelta(hours=n) for n in range(count)],
            "open": opens,
            "high": [max(both) + 0.5 for both in zip(opens, closes, strict=True)],
            "low": [min(both) - 0.5 for both in zip(opens, closes, strict=True)],
            "close": closes,
            "volume": [10.0 + n % 3 for n in range(count)],
        },
        schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
    )


def changed(frame: pl.DataFrame, row: int, **values: object) -> pl.DataFrame:
    """The frame with other values in one row."""
    return frame.with_row_index("row").select(
        (pl.when(pl.col("row") == row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name))
        if (value := values.get(name, ...)) is not ...
        else pl.col(name)
        for name in frame.columns
    )


def spoiled() -> pl.DataFrame:
    frame = candles("A", 80)
    frame = changed(frame, 3, high=0.0)
    frame = changed(frame, 5, volume=-1.0)
    frame = changed(frame, 6, volume=math.inf)
    frame = changed(frame, 7, volume=math.nan)
    frame = changed(frame, 8, volume=None)
    frame = changed(frame, 9, side="NEITHER")
    frame = changed(frame, 11, close=9_999.0, high=9_999.0)
    frame = changed(frame, 12, open=9_999.0, high=9_999.0)
    frame = changed(frame, 15, close=0.0, low=0.0)
    for row in range(30, 50):
        frame = changed(frame, row, open=frame["close"][29], high=frame["close"][29], low=frame["close"][29])
        frame = changed(frame, row, close=frame["close"][29])
    scaled = pl.col("open", "high", "low", "close") * pl.when(pl.int_range(pl.len()) < 60).then(1).otherwise(
        100
    )
    frame = frame.with_columns(scaled).filter(~pl.int_range(pl.len()).is_between(20, 24))
    frame = frame.with_columns(
        timestamp=pl.when(pl.int_range(pl.len()) == 2)
        .then(pl.col("timestamp") + pl.duration(seconds=1))
        .otherwise("timestamp")
    )
    lost = frame.tail(1).with_columns(timestamp=pl.lit(None, pl.Datetime("us", "UTC")))
    return pl.concat([frame, frame.slice(13, 1), lost]).with_columns(
        side=pl.when(pl.col("side") == "NEITHER").then(pl.lit("NEITHER")).otherwise(pl.lit("BUY"))
    )


BAD = pl.concat([spoiled(), candles(None, 60)])
# Only the audit takes a word that is no interval.
WORSE = BAD.with_columns(
    interval=pl.when(pl.int_range(pl.len()) == 70).then(pl.lit("FORTNIGHT")).otherwise("interval")
)
_BY = ["exchange", "raw_symbol", "interval"]
# What candles can have, whatever the order of the rows.
_OF_OTHERS = {"crossed_book", "quote_mismatch", "frozen_interest", "frozen_rate", "unordered"}
ORDERED = [name for name in quality._checks.CHECKS if name not in _OF_OTHERS]
OPEN_INTEREST = changed(candles("A", 30).drop("volume", "side"), 4, open=-1.0)
LEVELS = pl.DataFrame(
    {
        "timestamp": [START] * 3 + [START + timedelta(hours=3)] * 2,
        "price": [1.0, 2.0, 2.0, 1.0, None],
        "buy_volume": [1.0, -1.0, 2.0, None, 3.0],
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)

_SWINGS = [math.sin(7 * n) for n in range(30)]
FUNDING = pl.DataFrame(
    {
        "exchange": ["A"] * 30 + [None] * 30,
        "interval": "HOUR",
        "timestamp": [START + timedelta(hours=n) for n in range(30)] * 2,
        "rate_close": [1e-4 + 1e-6 * off for off in _SWINGS[:-1]] + [0.5] + [1e-4] * 29 + [-0.5],
        "predicted_close": [1e-4, None, math.nan] + [1e-4] * 26 + [math.inf] + [2e-4] * 30,
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)
TRADES = pl.DataFrame(
    {
        "raw_symbol": "X",
        "id": [str(n) for n in range(60)],
        "timestamp": [START + timedelta(minutes=5 * (n // 2)) for n in range(60)],
        "price": [100 + off for off in _SWINGS] + [1_000.0, 0.0, None, math.nan] + [100.0] * 26,
        "amount": 1.0,
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)
QUOTED = pl.DataFrame(
    {
        "raw_symbol": ["A"] * 6 + ["B"] * 3 + [None] * 2,
        "timestamp": [START + timedelta(minutes=5 * n) for n in range(11)],
        "low": 100.0,
        "high": 110.0,
        "volume": [1.0, 2.0, None, math.nan, math.inf, -1.0, 1.0, 2.0, 0.0, 3.0, 1.0],
        "quote_volume": [61_700.0, 123_400.0, 5.0, 5.0, 5.0, 5.0, 105.0, 210.0, 0.0, 3.0, None],
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)
BOOK = pl.DataFrame(
    {
        "exchange": ["A"] * 6 + [None] * 4,
        "interval": "HOUR",
        "timestamp": [START] * 4 + [START + timedelta(hours=1)] * 2 + [START] * 4,
        "side": ["BID", "ASK", "BID", "ASK", "BID", "ASK", "BID", "ASK", "ASK", None],
        "price": [99.0, 101.0, 102.0, 103.0, 99.0, 99.0, 100.0, 99.0, 98.0, 97.0],
        "size": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, None, 1.0],
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)

CASES = [
    Case("audit", lambda frame: quality.audit(frame, by=_BY, checks=ORDERED), [WORSE], [*_BY, "finding"]),
    Case(
        "audit",
        lambda frame: quality.audit(frame, by="raw_symbol", outlier=3, frozen=2, stale=1, unit_jump=2.5),
        [OPEN_INTEREST],
        ["raw_symbol", "finding"],
        label="of open interest",
    ),
    Case(
        "audit",
        lambda frame: quality.audit(frame, by=[], interval="1h"),
        [LEVELS],
        ["finding"],
        label="of levels",
    ),
    Case(
        "audit",
        lambda frame: quality.audit(frame, by=_BY, checks="unordered"),
        [BAD.reverse()],
        _BY,
        gaps=dict.fromkeys(("polars lazy", "duckdb", "spark"), _UNORDERED),
        label="of order",
    ),
    *(
        Case(
            "audit",
            lambda frame, by=by, finding=finding: quality.audit(frame, by=by, checks=finding),
            [spoiled],
            [by, "finding"],
            label=f"of {label}",
        )
        for label, spoiled, by, finding in (
            ("rates", FUNDING, "exchange", "outlier"),
            ("trades", TRADES, "raw_symbol", "outlier"),
            ("books", BOOK, "exchange", "crossed_book"),
            ("amounts in the quote", QUOTED, "raw_symbol", "quote_mismatch"),
        )
    ),
    Case(
        "examples",
        lambda frame: quality.examples(frame, finding="crossed_book", by="exchange"),
        [BOOK],
        ["exchange", "timestamp", "side", "price"],
        label="of crossed_book",
    ),
    *(
        Case(
            "examples",
            lambda frame, finding=finding: quality.examples(frame, finding=finding, by=_BY, rows=4),
            [WORSE],
            [*_BY, "timestamp", "close", "volume"],
            label=f"of {finding}",
        )
        for finding in ORDERED
    ),
    Case("gaps", lambda frame: quality.gaps(frame, by=_BY), [BAD], [*_BY, "start"]),
    Case(
        "gaps",
        lambda frame: quality.gaps(
            frame, by="exchange", interval="4h", start="2024-08-07T22:00Z", end="2024-08-12"
        ),
        [BAD],
        ["exchange", "start"],
        label="of a window",
    ),
    Case("completeness", lambda frame: quality.completeness(frame, by=_BY), [BAD], _BY),
    Case(
        "completeness",
        lambda frame: quality.completeness(
            frame, by="exchange", interval="30m", start="2024-08-07T12:00Z", end="2024-08-10"
        ),
        [BAD],
        ["exchange"],
        label="of a window",
    ),
    Case(
        "completeness",
        lambda frame: quality.completeness(frame, by=_BY, interval="1h", every="1d", end="2024-08-12"),
        [BAD],
        [*_BY, "start"],
        label="by day",
    ),
]
