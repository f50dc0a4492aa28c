"""Candles and decisions of two venues and of none: ties, nulls, an interval that is no name of one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
import polars as pl

from analytics.matrix import Case
from tidytape.analytics import pit

START = datetime(2024, 8, 8, tzinfo=UTC)
TIME = pl.Datetime("us", "UTC")


def _at(*minutes: float | None) -> pl.Series:
    times = [None if minute is None else START + timedelta(minutes=minute) for minute in minutes]
    return pl.Series("timestamp", times, TIME)


CANDLES = pl.DataFrame(
    {
        "exchange": ["A", "A", "A", "B", "B", None, "A", "A"],
        "interval": ["MINUTE", "1m", "HOUR", "MINUTE", "WEEK", "MINUTE", None, "3h"],
        "timestamp": _at(0, 1, 0, 0, 0, 3, 1, 1),
        "close": [1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0],
        "n": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)
PROFILES = CANDLES.head(4).with_columns(period_end=_at(30, 60, None, -1))
FACTS = pl.DataFrame(
    {
        "exchange": ["A", "A", "A", "A", "B", None],
        "timestamp": _at(0, 1, 2, 3, 0, 0),
        "known_at": _at(1, 2, 4, 4, 1, 1),
        "rate": [0.1, None, 0.3, 0.4, 0.5, 0.6],
        "whose": ["first", "second", None, "fourth", "fifth", "sixth"],
    }
).sample(fraction=1, shuffle=True, seed=1)
DECISIONS = pl.DataFrame(
    {
        "exchange": ["A", "A", "A", "A", "A", "B", None, "C", "B", "A"],
        "timestamp": _at(0.5, 1, 3.5, 4, 60, 60, 2, 2, None, 2),
        "rate": [float(n) for n in range(10)],
    }
).sample(fraction=1, shuffle=True, seed=2)

BARS = pl.DataFrame(
    {
        "raw_symbol": ["X", "X", "Y", "X", "Y"],
        "interval": "MINUTE",
        "timestamp": _at(1, 0, 0, 3, 2),
        "open": [1.0, 2.0, 30.0, 4.0, 50.0],
        "high": [2.5, 2.0, 35.0, 4.0, 55.0],
        "low": [1.0, 1.5, 20.0, 3.0, 50.0],
        "close": [2.0, 1.5, 30.0, 3.5, 52.0],
        "volume": [9.0, 8.0, 0.0, 7.0, None],
    }
)

KEY = ["exchange", "timestamp"]

# A market that lives, one that died, one under two symbols, one of unknown end, one of unknown beginning.
MARKETS = pl.DataFrame(
    {
        "exchange": ["A", "A", "A", "A", "B", "B", "A"],
        "raw_symbol": ["BTC", "LUNA", "MATIC", "POL", "BTC", "NEW", "BTC"],
        "coin": ["BTC", "LUNA", "MATIC", "POL", None, "NEW", "BTC"],
        "type": ["TRADE", "TRADE", "TRADE", "TRADE", "TRADE", "TRADE", "TRADE_AGG"],
        "available_since": _at(0, 0, 1, 4, 2, None, 0).alias("available_since"),
        "first_timestamp": _at(0, 0, 1, 4, 2, 5, 0).alias("first_timestamp"),
        "last_timestamp": _at(9, 2, 3, 9, 9, 9, 8).alias("last_timestamp"),
        "renamed_to": [None, None, "POL", None, None, None, None],
        "renamed_at": _at(None, None, 3.5, None, None, None, None).alias("renamed_at"),
    }
)
NAMED = pl.DataFrame(
    {
        "exchange": ["A", "A", "A", "A", "B", None, "A"],
        "raw_symbol": ["MATIC", "POL", "POL", "MATIC", "MATIC", "MATIC", "BTC"],
        "coin": ["MATIC", "POL", "POL", "MATIC", "MATIC", None, "BTC"],
        "timestamp": _at(3, 3, 4, 4, 3, 3, None),
        "n": [1, 2, 3, 4, 5, 6, 7],
    }
)

_COLLECT = dict.fromkeys(("duckdb", "spark"), "runs your function on many histories, in memory")


def _is_last(rows: Any) -> Any:
    """What the last row of a frame says; it is not known before."""
    frame = nw.from_native(rows)
    is_last = nw.col("n") == nw.col("n").max()
    return frame.with_columns(is_last=is_last, share=nw.col("n") / nw.col("n").sum()).to_native()


CASES = [
    Case("known_at", pit.known_at, [CANDLES], ["n"]),
    Case(
        "known_at",
        lambda rows: pit.known_at(rows, rule="event", delay=timedelta(seconds=2)),
        [CANDLES],
        ["n"],
        label="event",
    ),
    Case("known_at", pit.known_at, [PROFILES], ["n"], label="period"),
    Case("as_of", lambda rows: pit.as_of(rows, START + timedelta(minutes=2)), [CANDLES], ["n"]),
    Case("asof_join", pit.asof_join, [DECISIONS, FACTS], [*KEY, "rate"]),
    Case(
        "asof_join",
        lambda decisions, facts: pit.asof_join(
            decisions, facts, tolerance=timedelta(minutes=1), by=["exchange"]
        ),
        [DECISIONS, FACTS],
        [*KEY, "rate"],
        label="tolerance",
    ),
    Case(
        "asof_join",
        lambda decisions, candles: pit.asof_join(decisions, candles, by=[], suffix="_known"),
        [DECISIONS.select("timestamp").unique(), CANDLES.filter(pl.col("n").is_in([1, 2, 3, 6])).drop("n")],
        ["timestamp"],
        label="without by",
    ),
    Case(
        "asof_join",
        lambda decisions, facts: pit.asof_join(decisions, facts, order="whose"),
        [DECISIONS, pl.concat([FACTS, FACTS.with_columns(whose=pl.col("whose") + "!")])],
        [*KEY, "rate"],
        label="order",
    ),
    Case(
        "universe",
        lambda markets, times: pit.universe(markets, times, tolerance="1m"),
        [MARKETS, CANDLES.select("timestamp").vstack(_at(2.5, 3.75, 4, 9, 11).to_frame())],
        ["timestamp", "exchange", "raw_symbol"],
    ),
    Case(
        "universe",
        lambda markets, times: pit.universe(markets, times, on="known_at"),
        [MARKETS.drop("coin", "first_timestamp", "renamed_to", "renamed_at"), FACTS],
        ["known_at", "exchange", "raw_symbol"],
        label="on",
    ),
    Case("under_newest_name", lambda frame: pit.under_newest_name(frame, MARKETS), [NAMED], ["n"]),
    Case(
        "leaks",
        lambda rows: pit.leaks(_is_last, rows).frame,
        [CANDLES.filter(pl.col("n") != 7)],
        [*KEY, "interval", "column"],
        gaps=_COLLECT,
    ),
    Case("to_backtesting", pit.to_backtesting, [BARS.filter(pl.col("raw_symbol") == "X")], [], own_kind=True),
    Case("to_vectorbt", pit.to_vectorbt, [BARS], [], own_kind=True),
    Case("to_nautilus", pit.to_nautilus, [BARS.filter(pl.col("raw_symbol") == "Y")], [], own_kind=True),
]
