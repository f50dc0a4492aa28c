"""20 million trades to one-minute candles: tidytape, hand-written polars, DuckDB.

Run ``python tests/bench/bench_candles.py [rows]``. Every contender gives the same candles, open and close decided by
(timestamp, sequence), from the same rows in memory; DuckDB from its own table, and in each of its idioms for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import duckdb
import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from tidytape import aggregate

MINUTE = 60 * 10**9
KEY = ["exchange", "raw_symbol", "timestamp"]
ROUNDS = 7


def trades(rows: int, *, seed: int = 0) -> pl.DataFrame:
    """Trades of one instrument over ten days, many of them in the same millisecond."""
    rng = np.random.default_rng(seed)
    milliseconds = np.sort(rng.integers(0, 10 * 86_400_000, rows))
    return pl.DataFrame(
        {
            "timestamp": milliseconds * 10**6 + 1_700_000_040 * 10**9,
            "sequence": np.arange(rows) + 10**9,
            "side": np.array(["BUY", "SELL"])[rng.integers(0, 2, rows)],
            "price": np.round(60_000 + np.cumsum(rng.normal(0, 0.1, rows)), 2),
            "amount": np.round(rng.exponential(0.1, rows), 5),
        }
    ).select(pl.lit("BINANCE").alias("exchange"), pl.lit("BTCUSDT").alias("raw_symbol"), pl.all())


def by_hand(frame: pl.DataFrame) -> pl.DataFrame:
    price = pl.col("price").sort_by("timestamp", "sequence")
    return (
        frame.lazy()
        .group_by("exchange", "raw_symbol", bucket=pl.col("timestamp") // MINUTE * MINUTE)
        .agg(
            open=price.first(),
            high=pl.col("price").max(),
            low=pl.col("price").min(),
            close=price.last(),
            volume=pl.col("amount").sum(),
            first_timestamp=pl.col("timestamp").min(),
            last_timestamp=pl.col("timestamp").max(),
        )
        .rename({"bucket": "timestamp"})
        .sort(KEY)
        .collect(engine="streaming")
    )


def ours(frame: pl.DataFrame) -> pl.DataFrame:
    return aggregate.candles(frame.lazy(), interval="1m").collect(engine="streaming")


def in_duckdb(connection: duckdb.DuckDBPyConnection, opening: str, closing: str) -> pl.DataFrame:
    return connection.sql(
        f"""
        SELECT exchange, raw_symbol, timestamp // {MINUTE} * {MINUTE} AS timestamp,
               {opening} AS open, max(price) AS high, min(price) AS low, {closing} AS close,
               sum(amount) AS volume, min(trades.timestamp) AS first_timestamp, max(trades.timestamp) AS last_timestamp
        FROM trades GROUP BY ALL ORDER BY ALL
        """
    ).pl()


def main(rows: int = 20_000_000) -> dict[str, float]:
    """Print the best times and their ratios to ours; return the ratios.

    The contenders take turns, so that whatever else the machine does falls on all of them.
    """
    frame = trades(rows)
    connection = duckdb.connect()
    connection.register("frame", frame.to_arrow())
    connection.execute("CREATE TABLE trades AS SELECT * FROM frame")
    contenders: dict[str, Callable[[], pl.DataFrame]] = {
        "tidytape": lambda: ours(frame),
        "polars by hand": lambda: by_hand(frame),
        "DuckDB arg_min": lambda: in_duckdb(
            connection,
            "arg_min(price, (trades.timestamp, sequence))",
            "arg_max(price, (trades.timestamp, sequence))",
        ),
        "DuckDB first ORDER BY": lambda: in_duckdb(
            connection,
            "first(price ORDER BY trades.timestamp, sequence)",
            "last(price ORDER BY trades.timestamp, sequence)",
        ),
    }
    expected = ours(frame)
    print(f"{rows:,} trades to {expected.height:,} candles, best of {ROUNDS}")
    seconds = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            start = time.perf_counter()
            result = run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
            assert_frame_equal(expected, result, check_exact=False, rel_tol=1e-9)
    ratios = {name: taken / seconds["tidytape"] for name, taken in seconds.items()}
    for name, taken in seconds.items():
        print(f"{name:<24}{taken:8.3f} s{ratios[name]:8.2f} times ours")
    return ratios


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
