"""A week of one-minute candles out of two years, warm: a lake through ``Client.local``, and ArcticDB.

Run ``python tests/bench/bench_arctic.py [trades per day]`` in an environment with ArcticDB (``pip install arcticdb``,
which wants pandas below 3). ArcticDB holds the finished candles of the two years in its LMDB backend and reads the
rows of the week, as pandas, its default, and as polars. tidytape takes the request, finds the minutes of the lake,
which is rolled up first if this tidytape can, and answers through its service's own app. The target is at most 5 times
ArcticDB.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from bench_history import DAY, END, EXCHANGE, SYMBOL, filled, rolled_up
from contest import contest

from tidytape import Client, aggregate
from tidytape.lake import Lake

DAYS = 730
WEEK = (END - 37 * DAY, END - 30 * DAY)


def arctic(folder: Path, lake: Lake) -> dict[str, Callable[[], Any]]:
    """Return ArcticDB's reads of the candles of the week, or nothing without it."""
    try:
        import arcticdb
    except ImportError:
        print("ArcticDB is not installed: skipped (pip install arcticdb, in an environment of its own)")
        return {}
    candles = aggregate.candles(lake.scan("trades"), interval="1m").collect(engine="streaming")
    candles = candles.drop("exchange", "raw_symbol")
    times = [pl.from_epoch(name, time_unit="ns") for name in candles.columns if name.endswith("timestamp")]
    library = arcticdb.Arctic(f"lmdb://{folder}").create_library("candles")
    library.write(SYMBOL, candles.with_columns(times).to_pandas().set_index("timestamp"))
    print(f"ArcticDB {arcticdb.__version__}: {candles.height:,} candles of {DAYS} days")
    # Its ranges include their end.
    ends = [
        datetime.fromtimestamp(time / 10**9, UTC).replace(tzinfo=None) for time in (WEEK[0], WEEK[1] - 1000)
    ]
    reads: dict[str, Callable[[], Any]] = {
        "ArcticDB to pandas": lambda: library.read(SYMBOL, date_range=tuple(ends)).data
    }
    if kinds := getattr(arcticdb, "OutputFormat", None):
        reads["ArcticDB to polars"] = lambda: (
            library.read(SYMBOL, date_range=tuple(ends), output_format=kinds.POLARS).data
        )
    return reads


def main(per_day: int = 5_000) -> dict[str, float]:
    """Print the times and their ratios to ours; return the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        lake = filled(Path(folder) / "lake", days=DAYS, per_day=per_day)
        kind = "rolled up" if rolled_up(lake) else "raw, for there are no rollups yet"
        start, end = (time // 10**9 for time in WEEK)
        with Client.local(lake.path) as client:
            contenders: dict[str, Callable[[], Any]] = {
                "tidytape": lambda: client.candles(
                    exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", start=start, end=end
                )
            }
            week = contenders["tidytape"]()
            print(f"{week.height:,} candles of a week, {per_day:,} trades a day, {kind}")
            contenders |= arctic(Path(folder) / "arctic", lake)
            for name, run in contenders.items():
                assert len(run()) == week.height, name
            ratios = contest(contenders, rounds=15)
            if len(ratios) > 1:
                print(f"tidytape takes {1 / min(ratios.values()):.1f} times as long as the quickest")
            return ratios


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
