"""What a client of a lake in the same process takes, beside polars on a Parquet file: a day of trades, and candles.

Run ``python tests/bench/bench_local.py [trades per day]``. The lake has two days of trades, and 75 days of finished
minutes. The peers read one file each, sorted by time, with a filter on the time: raw trades as polars writes them, and
candles in row groups of 10,000. If ArcticDB is installed, it reads the same candles. Each window of candles is another
one; all the points of tidytape are in its memory by then, as they are for a user who asks again, and a last row has
none in memory. Ratios are of processor time; the wall-clock medians stand beside them.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
from bench_history import DAY, END, EXCHANGE, SYMBOL, filled, trades
from bench_serve import DAYS, LAST, prepared
from contest import contest

from tidytape import Client
from tidytape.service.answer import _hot as hot

MARKET = {"exchange": EXCHANGE, "raw_symbol": SYMBOL}


def both(contenders: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Print the wall-clock times, then the processor times; return the ratios of the latter."""
    contest(contenders, rounds=rounds)
    return contest(contenders, rounds=rounds, clock=time.process_time)


def of_trades(folder: Path, per_day: int) -> None:
    """A day of raw trades."""
    lake = filled(folder / "lake", days=2, per_day=per_day)
    file = folder / "trades.parquet"
    trades(END // DAY - 2, 2, per_day).sort("timestamp").write_parquet(file, compression="zstd")
    start, end, time_ = END - DAY, END, pl.col("timestamp")
    print(f"\na day of trades, {per_day:,}")
    with Client.local(lake.path) as client:
        contenders: dict[str, Callable[[], Any]] = {
            "tidytape": lambda: client.trades(**MARKET, start=start // 10**9, end=end // 10**9),
            "polars, a Parquet file": lambda: (
                pl.scan_parquet(file).filter(time_ >= start, time_ < end).collect()
            ),
        }
        assert len({len(run()) for run in contenders.values()}) == 1
        both(contenders, rounds=9)


def of_candles(folder: Path) -> None:
    """Candles of one minute: 1,000 and 100,000, of windows drawn at random."""
    prepared(folder)
    file, second = folder / "groups.parquet", pl.col("time")
    candles = pl.read_parquet(folder / "candles.parquet")
    candles.write_parquet(file, row_group_size=10_000, compression="zstd")
    arctic = _arctic(folder, candles)
    draw = random.Random(7)
    for count in (1_000, 100_000):

        def window(count: int = count) -> tuple[int, int]:
            last = LAST - 60 * draw.randrange((DAYS - 2) * 1_440 - count)
            return last - 60 * count, last

        def ours() -> pl.DataFrame:
            start, end = window()
            return client.candles(**MARKET, interval="1m", start=start, end=end)

        def computed() -> pl.DataFrame:
            with mock.patch.object(hot, "FRAMES", type(hot.FRAMES)(64 * 2**20)):
                return ours()

        def rows() -> pl.DataFrame:
            start, end = window()
            return pl.scan_parquet(file).filter(second >= start, second < end).collect()

        with Client.local(folder / "lake") as client:
            contenders: dict[str, Callable[[], Any]] = {
                "tidytape": ours,
                "tidytape, nothing in memory": computed,
                "polars, row groups of 10,000": rows,
            }
            if arctic is not None:
                contenders["ArcticDB to pandas"] = lambda window=window: arctic(*window())
            client.candles(**MARKET, interval="1m", start=LAST - 60 * DAYS * 1_440, end=LAST)
            print(f"\n{count:,} candles of one minute")
            both(contenders, rounds=60)


def _arctic(folder: Path, candles: pl.DataFrame) -> Callable[[int, int], Any] | None:
    """Return ArcticDB's read of a window; None without it."""
    try:
        import arcticdb
    except ImportError:
        print("ArcticDB is not installed: skipped (pip install arcticdb, in an environment of its own)")
        return None
    library = arcticdb.Arctic(f"lmdb://{folder / 'arctic'}").create_library("candles")
    times = pl.from_epoch("time", time_unit="s").cast(pl.Datetime("ns"))
    library.write(SYMBOL, candles.with_columns(times).to_pandas().set_index("time"))

    def read(start: int, end: int) -> Any:
        span = (datetime.fromtimestamp(second, UTC).replace(tzinfo=None) for second in (start, end - 1))
        return library.read(SYMBOL, date_range=tuple(span)).data

    return read


def main(per_day: int = 1_000_000) -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("trades", "candles"):
            (folder / part).mkdir()
        of_trades(folder / "trades", per_day)
        of_candles(folder / "candles")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
