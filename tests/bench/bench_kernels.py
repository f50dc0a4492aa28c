"""Point in time, and volatility, beside the plain call of polars or numpy that does the core of each.

The plain call checks nothing, and adds no columns that say what the numbers are. The times are CPU seconds of all
threads. Run with ``python tests/bench/bench_kernels.py``; with names of jobs after it, it runs only these.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
from contest import OURS, contest

from tidytape.analytics import pit

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
    end = (pl.col("timestamp") + timedelta(minutes=1)).alias("known_at")
    return {
        OURS: lambda: pit.known_at(candles),
        "tidytape, text": lambda: pit.known_at(texts),
        "one addition": lambda: candles.with_columns(end),
    }


JOBS = {"known_at": known_at}


def main() -> None:
    for name in sys.argv[1:] or JOBS:
        print(f"\n{name}")
        contest(JOBS[name](), clock=time.process_time)


if __name__ == "__main__":
    main()
