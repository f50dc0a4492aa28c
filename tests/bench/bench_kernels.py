"""Point in time, and volatility, beside the plain call of polars or numpy that does the core of each.

The plain call checks nothing, and adds no columns that say what the numbers are. The times are CPU seconds of all
threads. Run with ``python tests/bench/bench_kernels.py``; with names of jobs after it, it runs only these.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from contest import OURS, contest
from numpy.typing import NDArray
from scipy.special import ndtr

from tidytape.analytics import options, pit

Floats = NDArray[np.float64]

ROWS = 1_000_000
MINUTE = 60 * 10**9  # [ns]
START = 1_672_531_200 * 10**9  # 2023-01-01 [ns]


def minutes() -> pl.DataFrame:
    """Return minutes of one market as the client returns them, without a gap."""
    draw = np.random.default_rng(0)
    times = pl.Series(START + MINUTE * np.arange(ROWS)).cast(pl.Datetime("ns", "UTC"))
    words = [
        pl.lit(word, pl.Categorical()).alias(name)
        for name, word in {"exchange": "X", "raw_symbol": "BTCUSDT", "interval": "1m"}.items()
    ]
    close = 60_000 * np.exp(draw.normal(scale=1e-3, size=ROWS).cumsum())
    return pl.DataFrame({"timestamp": times, "close": close}).with_columns(words)


def known_at() -> dict[str, Callable[[], Any]]:
    """Return when a million candles are known, beside one addition to a column."""
    candles = minutes()
    texts = candles.with_columns(pl.col("interval").cast(pl.String))
    end = (pl.col("timestamp") + pl.duration(minutes=1, time_unit="ns")).alias("known_at")
    return {
        OURS: lambda: pit.known_at(candles),
        "tidytape, text": lambda: pit.known_at(texts),
        "one addition": lambda: candles.with_columns(end),
    }


def asof_join() -> dict[str, Callable[[], Any]]:
    """Return a join of a million candles with 4,000 funding rates that were known at the start of each."""
    candles, key = minutes(), ["exchange", "raw_symbol"]
    funding = (
        candles.gather_every(ROWS // 4_000)
        .rename({"close": "rate_close"})
        .with_columns(interval=pl.lit("4h"))
    )
    known_funding = funding.with_columns(known_at=pl.col("timestamp") + pl.duration(hours=4, time_unit="ns"))
    shuffled = candles.sample(fraction=1.0, shuffle=True, seed=0)

    def polars(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join_asof(
            known_funding, left_on="timestamp", right_on="known_at", by=key, check_sortedness=False
        )

    return {
        OURS: lambda: pit.asof_join(candles, funding),
        "tidytape, shuffled": lambda: pit.asof_join(shuffled, funding),
        "join_asof by the same key": lambda: polars(candles),
        "sort, join_asof": lambda: polars(shuffled.sort(*key, "timestamp")),
    }


def realized_volatility() -> dict[str, Callable[[], Any]]:
    """Return the volatility of a million candles over a day, beside the deviation of the same returns."""
    candles = minutes()
    returns = (pl.col("close") / pl.col("close").shift()).log()
    return {
        OURS: lambda: options.realized_volatility(candles, window=1_440),
        "rolling_std of returns": lambda: candles.with_columns(volatility=returns.rolling_std(1_440)),
    }


def chain() -> pl.DataFrame:
    """Return 20,000 options of one time with prices in coin, between the money and two deviations from it."""
    draw = np.random.default_rng(0)
    count, forward = 20_000, 60_000.0
    days, volatility = draw.uniform(1, 365, count), draw.uniform(20, 120, count)
    deviation = volatility / 100 * np.sqrt(days / 365)
    strike = forward * np.exp(draw.uniform(-2, 2, count) * deviation)
    now = pl.lit(START).cast(pl.Datetime("ns", "UTC"))
    life = pl.Series((days * 1_440).astype(np.int64) * MINUTE).cast(pl.Duration("ns"))
    options_now = pl.DataFrame({"strike": strike, "implied_volatility": volatility}).with_columns(
        timestamp=now,
        expiry=now + life,
        forward=forward,
        option_type=pl.when(pl.col("strike") > forward).then(pl.lit("CALL")).otherwise(pl.lit("PUT")),
    )
    return options.black76_price(options_now).drop("implied_volatility")


def newton(price: Floats, strike: Floats, forward: Floats, years: Floats) -> Floats:
    """Return volatilities of out-of-the-money options by Newton's method, from the start of Manaster and Koehler."""
    x = np.log(forward / strike)
    sign = np.where(strike > forward, 1.0, -1.0)
    deviation = np.sqrt(2 * np.abs(x))
    for _ in range(20):
        d1 = x / deviation + deviation / 2
        value = sign * (ndtr(sign * d1) - strike / forward * ndtr(sign * (d1 - deviation)))
        step = (value - price) * np.sqrt(2 * np.pi) / np.exp(-d1 * d1 / 2)
        deviation -= step
        if np.abs(step).max() < 1e-10:
            break
    return deviation / np.sqrt(years)


def implied_volatility() -> dict[str, Callable[[], Any]]:
    """Return the implied volatility of 20,000 options, beside Newton's method in numpy."""
    priced = chain()
    years = (priced["expiry"] - priced["timestamp"]).dt.total_seconds(fractional=True) / (365 * 86_400)
    arrays = (*priced.select("black76_price", "strike", "forward").to_numpy().T, years.to_numpy())
    return {
        OURS: lambda: options.implied_volatility(priced, price="black76_price"),
        "Newton in numpy": lambda: newton(*arrays),
    }


JOBS = {
    "implied_volatility": implied_volatility,
    "known_at": known_at,
    "asof_join": asof_join,
    "realized_volatility": realized_volatility,
}


def main() -> None:
    for name in sys.argv[1:] or JOBS:
        print(f"\n{name}")
        contest(JOBS[name](), clock=time.process_time)


if __name__ == "__main__":
    main()
