"""2 million trades to daily volume profiles: tidytape, DuckDB SQL, and PyPI's MarketProfile.

Run ``python tests/bench/bench_volume_profile.py [rows]``. tidytape and DuckDB read the same rows in memory, DuckDB from
its own table, and give the same levels, bought and sold. MarketProfile gives one volume per level, and besides finds
point of control, value area and extrema; its frame is indexed before, in time that does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
from bench_tpo import BLOCK_SIZE, DAY, market_profile, trades
from contest import contest
from polars.testing import assert_frame_equal

from tidytape import aggregate


def ours(frame: pl.DataFrame) -> pl.DataFrame:
    return aggregate.volume_profile(frame.lazy(), interval="1d", block_size=BLOCK_SIZE).collect(
        engine="streaming"
    )


def in_duckdb(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    # Both sides in one conditional sum each, and the sum of both from them: one pass over the trades.
    return connection.sql(
        f"""
        SELECT *, buy_volume + sell_volume AS volume FROM (
            SELECT exchange, raw_symbol, timestamp // {DAY} * {DAY} AS timestamp,
                   floor(price / {BLOCK_SIZE}) * {BLOCK_SIZE} AS price,
                   coalesce(sum(amount) FILTER (side = 'BUY'), 0) AS buy_volume,
                   coalesce(sum(amount) FILTER (side = 'SELL'), 0) AS sell_volume
            FROM trades GROUP BY ALL
        ) ORDER BY exchange, raw_symbol, timestamp, price
        """
    ).pl()


def main(rows: int = 2_000_000) -> dict[str, float]:
    """Print the times and their ratios to ours; return the ratios."""
    frame = trades(rows)
    connection = duckdb.connect()
    connection.register("frame", frame.to_arrow())
    connection.execute("CREATE TABLE trades AS SELECT * FROM frame")
    contenders: dict[str, Callable[[], Any]] = {
        "tidytape": lambda: ours(frame),
        "DuckDB SQL": lambda: in_duckdb(connection),
    }
    if run := market_profile(frame, mode="vol"):
        contenders["MarketProfile"] = run
    else:
        print("MarketProfile is not installed: skipped (pip install MarketProfile)")
    expected = ours(frame)
    print(f"{rows:,} trades to {expected.height:,} levels")
    theirs = in_duckdb(connection).select(expected.columns)
    assert_frame_equal(expected, theirs, check_exact=False, rel_tol=1e-9)
    return contest(contenders)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
