"""Trades and minutes to TPO levels, days of 30-minute blocks: tidytape, DuckDB SQL, and PyPI's MarketProfile.

Run ``python tests/bench/bench_tpo.py [rows]``, by default on ten days of 200,000 and of 2 million trades and on a month
and a year of minute closes; ``bench_volume_profile.py`` is the same for volume profiles. tidytape
and DuckDB read the same rows in memory, DuckDB from its own table, and give the same: levels with counts, volumes,
first and last block, and of the session its initial balance and first and last price. DuckDB repeats what a session has
on its levels; tidytape gives two frames, and besides the point of control, value area and flags. MarketProfile gives
point of control and value area of a lighter count: how many trades each level had, not which blocks. Its frame is
indexed before, in time that does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl
from contest import contest
from polars.testing import assert_frame_equal

from tidytape import aggregate

MINUTE = 60 * 10**9
DAY = 1440 * MINUTE
BLOCK_SIZE = 1
OF_SESSIONS = ["timestamp", "opening_price", "closing_price", "ibr_high", "ibr_low"]
OF_LEVELS = ["price", "tpo_count", "first_touch_block", "last_touch_block", "buy_volume", "sell_volume"]


def trades(rows: int, *, seed: int = 0) -> pl.DataFrame:
    """Trades of one market over ten days, many of them in the same millisecond."""
    rng = np.random.default_rng(seed)
    milliseconds = np.sort(rng.integers(0, 10 * 86_400_000, rows))
    return pl.DataFrame(
        {
            "timestamp": milliseconds * 10**6 + 19_675 * DAY,
            "sequence": np.arange(rows) + 10**9,
            "side": np.array(["BUY", "SELL"])[rng.integers(0, 2, rows)],
            "price": np.round(60_000 + np.cumsum(rng.normal(0, 1, rows)), 2),
            "amount": np.round(rng.exponential(0.1, rows), 5),
        }
    ).select(pl.lit("BINANCE").alias("exchange"), pl.lit("BTCUSDT").alias("raw_symbol"), pl.all())


def minutes(days: int, *, seed: int = 0) -> pl.DataFrame:
    """Closes of one market, a trade per minute."""
    rng = np.random.default_rng(seed)
    rows = days * 1440
    return pl.DataFrame(
        {
            "timestamp": np.arange(rows) * MINUTE + 19_675 * DAY,
            "sequence": np.arange(rows),
            "side": np.array(["BUY", "SELL"])[rng.integers(0, 2, rows)],
            "price": np.round(60_000 * np.exp(np.cumsum(rng.normal(0, 5e-4, rows))), 2),
            "amount": np.round(rng.exponential(10, rows), 5),
        }
    ).select(pl.lit("BINANCE").alias("exchange"), pl.lit("BTCUSDT").alias("raw_symbol"), pl.all())


def ours(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the levels and the sessions."""
    functions = (aggregate.tpo, aggregate.tpo_sessions)
    profiles = [function(frame.lazy(), interval="1d", block_size=BLOCK_SIZE) for function in functions]
    return pl.collect_all(profiles, engine="streaming")


def in_duckdb(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    return connection.sql(
        f"""
        WITH placed AS (
            SELECT exchange, raw_symbol, timestamp // {DAY} * {DAY} AS session, side, price, amount,
                   (timestamp, sequence) AS place,
                   timestamp % {DAY} // {30 * MINUTE} AS block, CAST(floor(price / {BLOCK_SIZE}) AS BIGINT) AS row
            FROM trades
        ),
        touches AS (
            SELECT exchange, raw_symbol, session, block, unnest(range(min(row), max(row) + 1)) AS row
            FROM placed GROUP BY exchange, raw_symbol, session, block
        ),
        sessions AS (
            SELECT exchange, raw_symbol, session, arg_min(price, place) AS opening_price,
                   arg_max(price, place) AS closing_price, max(price) FILTER (block < 2) AS ibr_high,
                   min(price) FILTER (block < 2) AS ibr_low
            FROM placed GROUP BY exchange, raw_symbol, session
        ),
        counts AS (
            SELECT exchange, raw_symbol, session, row, count(*) AS tpo_count,
                   min(block) AS first_touch_block, max(block) AS last_touch_block
            FROM touches GROUP BY exchange, raw_symbol, session, row
        ),
        volumes AS (
            SELECT exchange, raw_symbol, session, row, sum(amount) FILTER (side = 'BUY') AS buy_volume,
                   sum(amount) FILTER (side = 'SELL') AS sell_volume
            FROM placed GROUP BY exchange, raw_symbol, session, row
        )
        SELECT session AS timestamp, opening_price, closing_price, ibr_high, ibr_low,
               row * {BLOCK_SIZE}::DOUBLE AS price, tpo_count, first_touch_block, last_touch_block,
               coalesce(buy_volume, 0) AS buy_volume, coalesce(sell_volume, 0) AS sell_volume
        FROM counts LEFT JOIN volumes USING (exchange, raw_symbol, session, row)
        JOIN sessions USING (exchange, raw_symbol, session)
        ORDER BY exchange, raw_symbol, session, row
        """
    ).pl()


def market_profile(frame: pl.DataFrame, mode: str = "tpo") -> Callable[[], Any] | None:
    """Return a run of PyPI's MarketProfile over the trades, or None without it."""
    try:
        from market_profile import MarketProfile
    except ImportError:
        return None
    price = pl.col("price")
    prices = frame.select(Open=price, High=price, Low=price, Close=price, Volume="amount").to_pandas()
    prices.index = frame["timestamp"].cast(pl.Datetime("ns")).to_pandas()
    days = [group.index for _, group in prices.groupby(prices.index.floor("D"))]

    def run() -> list[Any]:
        profile = MarketProfile(prices, tick_size=BLOCK_SIZE, mode=mode)
        return [profile[day[0] : day[-1]].value_area for day in days]

    return run


def side_by_side(name: str, frame: pl.DataFrame) -> dict[str, float]:
    """Print the times over some trades and their ratios to ours; return the ratios."""
    connection = duckdb.connect()
    connection.register("frame", frame.to_arrow())
    connection.execute("CREATE TABLE trades AS SELECT * FROM frame")
    contenders: dict[str, Callable[[], Any]] = {
        "tidytape": lambda: ours(frame),
        "DuckDB SQL": lambda: in_duckdb(connection),
    }
    if run := market_profile(frame):
        contenders["MarketProfile"] = run
    else:
        print("MarketProfile is not installed: skipped (pip install MarketProfile)")
    levels, sessions = ours(frame)
    expected = levels.join(sessions, on="timestamp").select(*OF_SESSIONS, *OF_LEVELS)
    touches = expected["tpo_count"].sum()
    print(f"{name}: {frame.height:,} trades to {expected.height:,} levels, {touches:,} touches")
    assert_frame_equal(expected, in_duckdb(connection), check_exact=False, rel_tol=1e-9)
    return contest(contenders, rounds=5)


def main(rows: int | None = None) -> dict[str, float]:
    """Print the times and their ratios to ours, of every size or of one; return the ratios of the last."""
    sizes = {"ten days": trades(rows)} if rows else {
        "a month of minutes": minutes(30),
        "a year of minutes": minutes(365),
        "ten days, a thin market": trades(200_000),
        "ten days, a busy one": trades(2_000_000),
    }  # fmt: skip
    ratios = {}
    for name, frame in sizes.items():
        ratios = side_by_side(name, frame)
    return ratios


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
