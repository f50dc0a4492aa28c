"""Value areas of 2,000 sessions of 200 levels, beside the plain loop a user would write.

Run with ``python tests/bench/bench_value_area.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import polars as pl

from tidytape.analytics.profile import value_area

SESSIONS, LEVELS = 2_000, 200


def plain_loop(levels: pl.DataFrame, share: float = 0.7) -> Iterator[tuple[int, float, float, float]]:
    """Grow each session's area two rows at a time, in floats and plain Python."""
    for (session,), frame in levels.group_by("session", maintain_order=True):
        prices, counts = frame["price"].to_list(), frame["volume"].to_list()
        middle = (prices[0] + prices[-1]) / 2
        poc = min(range(len(counts)), key=lambda row: (-counts[row], abs(prices[row] - middle), prices[row]))
        low = high = poc
        enclosed, target = counts[poc], share * sum(counts)
        while enclosed < target:
            above, below = sum(counts[high + 1 : high + 3]), sum(counts[max(low - 2, 0) : low])
            if high + 1 < len(counts) and (above >= below or low == 0):
                enclosed, high = enclosed + above, min(high + 2, len(counts) - 1)
            else:
                enclosed, low = enclosed + below, max(low - 2, 0)
        yield session, prices[poc], prices[low], prices[high]


def fastest(run: Callable[[], Any], times: int = 5) -> float:
    """Return the shortest of some runs. [s]"""
    seconds = []
    for _ in range(times):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return min(seconds)


def main() -> None:
    draw = np.random.default_rng(0)
    levels = pl.DataFrame(
        {
            "session": np.repeat(np.arange(SESSIONS), LEVELS),
            "price": np.tile(100 + np.arange(LEVELS) / 2, SESSIONS),
            "volume": draw.exponential(10, SESSIONS * LEVELS).round(3),
        }
    )
    frames = {
        "polars": levels,
        "pandas": levels.to_pandas(),
        "pyarrow": levels.to_arrow(),
    }
    relation = duckdb.from_arrow(frames["pyarrow"])
    runs = {name: lambda frame=frame: value_area(frame, by="session") for name, frame in frames.items()}
    runs["duckdb"] = lambda: value_area(relation, by="session").fetchall()
    runs["polars, row_size=0.5"] = lambda: value_area(levels, by="session", row_size=0.5)

    expected = list(plain_loop(levels))
    assert value_area(levels, by="session").select("session", "poc", "val", "vah").rows() == expected

    loop = fastest(lambda: list(plain_loop(levels)), times=3)
    print(f"{SESSIONS:,} sessions of {LEVELS} levels")
    print(f"{'plain loop':24}{loop * 1e3:8.0f} ms     1.0 x")
    for name, run in runs.items():
        seconds = fastest(run)
        print(f"{name:24}{seconds * 1e3:8.0f} ms{loop / seconds:8.1f} x")


if __name__ == "__main__":
    main()
