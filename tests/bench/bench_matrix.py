"""A heatmap of 2 million points, and one of 100,000, to arrays: tidytape beside pandas.

``pivot`` and ``pivot_table`` stop at one wide table; ``pivot, the same arrays`` goes on to what tidytape gives: bids
and asks apart, prices that are evenly spaced, float32, 0 inside what was sent and NaN outside.

Run with ``python tests/bench/bench_matrix.py``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
from contest import OURS, contest

from tidytape.analytics import depth

SIDES = ("BID", "ASK")
START, MINUTE = 1_723_075_200_000_000_000, 60_000_000_000


def book(times: int, levels: int) -> pl.DataFrame:
    """Return a book of a minute each that walks about, with so many blocks on a side, a tenth of them empty."""
    draw = np.random.default_rng(0)
    mid = 10_000 + draw.normal(0, 3, times).cumsum().round().astype(int)
    away = np.arange(-levels, levels)
    row = mid[:, None] + away
    present = draw.random(row.shape) > 0.1
    side = np.broadcast_to(np.where(away < 0, *SIDES), row.shape)[present]
    time = np.broadcast_to(START + MINUTE * np.arange(times)[:, None], row.shape)[present]
    size = draw.exponential(1, len(side))
    instant, word = pl.Datetime("ns", "UTC"), pl.Categorical()
    return pl.DataFrame(
        {
            **{
                name: pl.repeat(name, len(side), eager=True).cast(word)
                for name in ("exchange", "raw_symbol", "coin")
            },
            "interval": pl.repeat("MINUTE", len(side), eager=True).cast(word),
            "timestamp": pl.Series(time).cast(instant),
            "side": pl.Series(side).cast(word),
            "price": row[present] * 5.0,
            "size": size,
        }
    ).rechunk()


def pivot(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot(index="timestamp", columns=["side", "price"], values="size")


def pivot_table(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(
        index="timestamp", columns=["side", "price"], values="size", aggfunc="sum", observed=True
    )


def pivot_to_arrays(frame: pd.DataFrame) -> list[np.ndarray]:
    wide = pivot(frame)
    lowest = frame.groupby("timestamp")["price"].agg(["min", "max"]).to_numpy()
    prices = np.arange(lowest[:, 0].min(), lowest[:, 1].max() + 1, 5.0)
    inside = (prices >= lowest[:, :1]) & (prices <= lowest[:, 1:])
    found = []
    for side in SIDES:
        sizes = wide[side].reindex(columns=prices).to_numpy(np.float32)
        sizes[inside & np.isnan(sizes)] = 0
        found.append(sizes)
    return found


def main() -> None:
    for times, levels in ((1_000, 1_111), (1_000, 56)):
        frame = book(times, levels)
        pandas = frame.to_pandas()
        found = depth.matrix(frame)
        for sizes, expected in zip((found.bids, found.asks), pivot_to_arrays(pandas), strict=True):
            np.testing.assert_array_equal(sizes, expected)
        shape = " x ".join(f"{n:,}" for n in found.bids.shape)
        print(f"\n{len(frame):,} points to two matrices of {shape}")
        contest(
            {
                OURS: lambda frame=frame: depth.matrix(frame),
                "tidytape, pandas frame": lambda frame=pandas: depth.matrix(frame),
                "pivot": lambda frame=pandas: pivot(frame),
                "pivot, the same arrays": lambda frame=pandas: pivot_to_arrays(frame),
                "pivot_table": lambda frame=pandas: pivot_table(frame),
            }
        )


if __name__ == "__main__":
    main()
