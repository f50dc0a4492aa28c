"""20 million trades to one-minute candles: tidytape, hand-written polars, DuckDB, chDB.

Run ``python tests/bench/bench_candles.py [rows]``. Every contender gives the same candles, open and close decided by
(timestamp, sequence), from the same rows in memory; DuckDB and chDB from tables of their own, DuckDB in each of its
idioms for it, chDB with its dictionary type for the texts.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from contest import contest
from polars.testing import assert_frame_equal

from tidytape import aggregate

MINUTE = 60 * 10**9
KEY = ["exchange", "raw_symbol", "timestamp"]


def trades(rows: int, *, seed: int = 0) -> pl.DataFrame:
    """Trades of one market over ten days, many of them in the same millisecond."""
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


def by_one_id(frame: pl.DataFrame) -> pl.DataFrame:
    """Candles of trades whose sequence alone gives their order, which holds here and not in every archive."""
    price = pl.col("price")
    return (
        frame.lazy()
        .group_by("exchange", "raw_symbol", bucket=pl.col("timestamp") // MINUTE * MINUTE)
        .agg(
            open=price.min_by("sequence"),
            high=price.max(),
            low=price.min(),
            close=price.max_by("sequence"),
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


def in_chdb(frame: pl.DataFrame) -> Callable[[], pl.DataFrame] | None:
    """Return a run of chDB over the trades in its memory, or None without it."""
    try:
        from chdb.session import Session
    except ImportError:
        return None
    session = Session()
    text, number, real = "LowCardinality(String)", "Int64", "Float64"
    kinds = [text, text, number, number, text, real, real]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(frame.columns, kinds, strict=True))
    session.query(f"CREATE TABLE trades ({columns}) ENGINE = Memory")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trades.parquet"
        frame.write_parquet(path)
        session.query(f"INSERT INTO trades SELECT * FROM file('{path}', Parquet)")
    query = f"""
        SELECT exchange, raw_symbol, intDiv(trades.timestamp, {MINUTE}) * {MINUTE} AS bucket,
               argMin(price, (trades.timestamp, sequence)) AS open, max(price) AS high, min(price) AS low,
               argMax(price, (trades.timestamp, sequence)) AS close, sum(amount) AS volume,
               min(trades.timestamp) AS first_timestamp, max(trades.timestamp) AS last_timestamp
        FROM trades GROUP BY exchange, raw_symbol, bucket ORDER BY exchange, raw_symbol, bucket
        SETTINGS output_format_arrow_low_cardinality_as_dictionary = 0, output_format_arrow_string_as_string = 1
    """

    def run() -> pl.DataFrame:
        answer = io.BytesIO(session.query(query, "ArrowStream").bytes())
        return pl.read_ipc_stream(answer).rename({"bucket": "timestamp"})

    return run


def main(rows: int = 20_000_000) -> dict[str, float]:
    """Print the times and their ratios to ours; return the ratios."""
    frame = trades(rows)
    connection = duckdb.connect()
    connection.register("frame", frame.to_arrow())
    connection.execute("CREATE TABLE trades AS SELECT * FROM frame")
    contenders: dict[str, Callable[[], pl.DataFrame]] = {
        "tidytape": lambda: ours(frame),
        "polars by hand": lambda: by_hand(frame),
        "polars min_by one id": lambda: by_one_id(frame),
        "DuckDB arg_min": lambda: in_duckdb(
            connection,
            "arg_min(price, (trades.timestamp, sequence))",
            "arg_max(price, (trades.timestamp, sequence))",
        ),
        "DuckDB arg_min by one id": lambda: in_duckdb(
            connection, "arg_min(price, sequence)", "arg_max(price, sequence)"
        ),
        "DuckDB first ORDER BY": lambda: in_duckdb(
            connection,
            "first(price ORDER BY trades.timestamp, sequence)",
            "last(price ORDER BY trades.timestamp, sequence)",
        ),
    }
    if run := in_chdb(frame):
        contenders["chDB"] = run
    else:
        print("chDB is not installed: skipped (pip install chdb)")
    expected = ours(frame)
    for run in contenders.values():
        assert_frame_equal(expected, run(), check_column_order=False, check_exact=False, rel_tol=1e-9)
    print(f"{rows:,} trades to {expected.height:,} candles")
    return contest(contenders)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
