"""Everyday jobs on one million rows of two markets: polars, which the client returns, beside pandas.

Run with ``python tests/bench/bench_habits.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from contest import OURS, contest

ROWS = 1_000_000
HOUR = 60  # [rows]


def candles() -> pd.DataFrame:
    """Return minutes of two markets, one below the other."""
    draw = np.random.default_rng(0)
    times = pd.date_range("2023-01-01", periods=ROWS // 2, freq="1min", tz="UTC")
    frames = [
        pd.DataFrame(
            {
                "timestamp": times,
                "exchange": name,
                "close": 1_000 + draw.normal(size=ROWS // 2).cumsum(),
                "volume": draw.random(ROWS // 2),
            }
        )
        for name in ("A", "B")
    ]
    return pd.concat(frames, ignore_index=True).astype({"exchange": "category"})


def jobs(pandas: pd.DataFrame, polars: pl.DataFrame, path: Path) -> dict[str, tuple[Callable[[], Any], ...]]:
    """Return each job for polars and for pandas; both begin with the frame as a client returns it."""
    rare, rare_of_polars = pandas.iloc[::HOUR], polars.gather_every(HOUR)
    by, time, volume = "exchange", "timestamp", pl.col("volume").sum()
    return {
        "resample to hours": (
            lambda: polars.group_by_dynamic(time, every="1h", group_by=by).agg(volume),
            lambda: pandas.groupby(by, observed=True).resample("1h", on=time)["volume"].agg("sum"),
        ),
        "rolling mean": (
            lambda: polars.with_columns(pl.col("close").rolling_mean(HOUR).over(by)),
            lambda: pandas.groupby(by, observed=True)["close"].rolling(HOUR).mean(),
        ),
        "as-of join": (
            lambda: polars.sort(time).join_asof(rare_of_polars.sort(time), on=time, by=by),
            lambda: pd.merge_asof(pandas.sort_values(time), rare.sort_values(time), on=time, by=by),
        ),
        "sum per market": (
            lambda: polars.group_by(by).agg(volume),
            lambda: pandas.groupby(by, observed=True)["volume"].agg("sum"),
        ),
        "read Parquet": (lambda: pl.read_parquet(path), lambda: pd.read_parquet(path)),
        "from one to the other": (lambda: pl.from_pandas(pandas), polars.to_pandas),
    }


def main() -> None:
    pandas = candles()
    polars = pl.from_pandas(pandas)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "candles.parquet"
        pandas.to_parquet(path)
        for name, (ours, theirs) in jobs(pandas, polars, path).items():
            print(f"\n{name}")
            contest({OURS: ours, "pandas": theirs})


if __name__ == "__main__":
    main()
