"""Value areas beside MarketProfile, a compiled loop and a plain one; daily profiles of candles; cost against rows.

Run ``python tests/bench/bench_value_area.py``. Of 2,000 sessions of 200 levels tidytape computes all at once, on each
engine, and the others one after the other: a plain loop, the same compiled by numba if that is installed (``pip install
numba``), and PyPI's MarketProfile, which also builds the profile, of one trade per level, and is asked for a twentieth
of the sessions. Of a month of one-minute candles both make profiles by their closes and find the value area of each
day. Ratios are those of one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import polars as pl
from contest import contest
from market_profile import MarketProfile

from tidytape.analytics.profile import developing, summary, value_area

SESSIONS, LEVELS, STEP = 2_000, 200, 0.5
DAYS, MINUTES = 30, 1_440
PART = 20


def sessions(count: int, levels: int = LEVELS) -> pl.DataFrame:
    """Return sessions of as many levels on a grid, no volume like another."""
    draw = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "session": np.repeat(np.arange(count), levels),
            "price": np.tile(100 + np.arange(levels) * STEP, count),
            "volume": draw.exponential(10, count * levels).round(3),
        }
    )


def grow(counts: Any, share: float) -> tuple[int, int, int]:
    """Return the rows of the point of control, value area low and high, grown two rows at a time."""
    last = len(counts) - 1
    poc, total = 0, 0.0
    for row in range(last + 1):
        total += counts[row]
        nearer = abs(2 * row - last) < abs(2 * poc - last)
        if counts[row] > counts[poc] or (counts[row] == counts[poc] and nearer):
            poc = row
    low = high = poc
    enclosed = counts[poc]
    while enclosed < share * total:
        above = below = -1.0
        if high < last:
            above = counts[high + 1] + (counts[high + 2] if high + 2 <= last else 0.0)
        if low > 0:
            below = counts[low - 1] + (counts[low - 2] if low >= 2 else 0.0)
        if above >= below:
            enclosed, high = enclosed + above, min(high + 2, last)
        else:
            enclosed, low = enclosed + below, max(low - 2, 0)
    return poc, low, high


def each(levels: pl.DataFrame, grow: Callable[..., tuple[int, int, int]]) -> Iterator[tuple[Any, ...]]:
    """Return one row per session from a loop over them, rows in the order of price."""
    for (session,), frame in levels.group_by("session", maintain_order=True):
        prices, counts = frame["price"].to_numpy(), frame["volume"].to_numpy()
        yield session, *(float(prices[row]) for row in grow(counts, 0.7))


def plain(levels: pl.DataFrame) -> list[tuple[Any, ...]]:
    return list(each(levels, lambda counts, share: grow(counts.tolist(), share)))


def compiled() -> Callable[[pl.DataFrame], list[tuple[Any, ...]]] | None:
    """Return the loop compiled by numba, over slices of the columns; None without it."""
    try:
        from numba import njit
    except ImportError:
        return None
    grown = njit(grow)

    @njit
    def all_of(starts: Any, counts: Any) -> Any:
        found = np.empty((len(starts) - 1, 3), np.int64)
        for place in range(len(starts) - 1):
            found[place] = grown(counts[starts[place] : starts[place + 1]], 0.7)
        return found

    def run(levels: pl.DataFrame) -> list[tuple[Any, ...]]:
        ordered = levels.sort("session", "price")
        sizes = ordered["session"].rle().struct.field("len").to_numpy()
        starts = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])
        found = all_of(starts, ordered["volume"].to_numpy()) + starts[:-1, None]
        prices = ordered["price"].to_numpy()[found]
        named = ordered["session"].to_numpy()[starts[:-1]]
        return list(zip(named.tolist(), *prices.T.tolist(), strict=True))

    return run


def of_market_profile(days: list[Any]) -> list[tuple[Any, ...]]:
    """Return what MarketProfile finds in one frame per day."""
    found = []
    for frame, step in days:
        day = MarketProfile(frame, tick_size=step)[frame.index[0] : frame.index[-1]]
        found.append((float(day.poc_price), *map(float, day.value_area)))
    return found


def theirs(levels: pl.DataFrame, times: Any, price: str = "price", *, step: float) -> tuple[Any, float]:
    """Return a session as MarketProfile takes it; making it is in time that does not count."""
    candles = levels.select(Close=price, High=price, Low=price, Volume="volume")
    return candles.to_pandas().set_index(times), step


def value_areas() -> None:
    levels = sessions(SESSIONS)
    pandas, arrow = levels.to_pandas(), levels.to_arrow()
    relation = duckdb.connect().from_arrow(arrow)
    expected = plain(levels)
    assert value_area(levels, by="session").select("session", "poc", "val", "vah").rows() == expected
    times = np.arange(LEVELS).astype("datetime64[s]")
    parts = levels.filter(pl.col("session") < SESSIONS // PART).partition_by("session", maintain_order=True)
    few = [theirs(part, times, step=STEP) for part in parts]
    rules: dict[str, Any] = {"rule": "one_row", "stop": "exceed"}
    same = value_area(levels, by="session", **rules).select("poc", "val", "vah").rows()
    assert of_market_profile(few) == same[: len(few)]
    loop = compiled()
    contenders: dict[str, Callable[[], Any]] = {
        "tidytape": lambda: value_area(levels, by="session"),
        "tidytape, row_size": lambda: value_area(levels, by="session", row_size=STEP),
        "tidytape on pandas": lambda: value_area(pandas, by="session"),
        "tidytape on pyarrow": lambda: value_area(arrow, by="session"),
        "tidytape on DuckDB": lambda: value_area(relation, by="session").fetchall(),
        "plain loop": lambda: plain(levels),
        f"MarketProfile, 1/{PART} of them": lambda: of_market_profile(few),
    }
    if loop is not None:
        assert loop(levels) == expected
        contenders["numba loop"] = lambda: loop(levels)
    print(f"{SESSIONS:,} sessions of {LEVELS} levels")
    ratios = contest(contenders)
    print(
        f"all of them by MarketProfile: {ratios[f'MarketProfile, 1/{PART} of them'] * PART:.0f} times ours\n"
    )


def days_of_candles() -> None:
    draw = np.random.default_rng(1)
    steps = np.cumsum(draw.normal(0, 4, DAYS * MINUTES))
    times = np.datetime64("2024-01-01", "us") + np.arange(DAYS * MINUTES).astype("timedelta64[m]")
    # On the middle of a row: MarketProfile takes the upper edge of a row for its price, and we the lower.
    close = 10.0 * np.round((60_000 + steps) / 10)
    candles = pl.DataFrame(
        {"timestamp": times, "close": close, "volume": draw.exponential(10, DAYS * MINUTES).round(3)}
    ).with_columns(day=pl.col("timestamp").dt.truncate("1d"))
    parts = candles.partition_by("day", maintain_order=True)
    days = [theirs(part, part["timestamp"].to_numpy(), "close", step=10) for part in parts]
    rules: dict[str, Any] = {"rule": "one_row", "stop": "exceed"}

    def ours(**rules: Any) -> pl.DataFrame:
        return value_area(candles, by="day", price="close", **rules)

    assert ours(**rules).select("poc", "val", "vah").rows() == of_market_profile(days)
    print(f"{DAYS} daily profiles of {DAYS * MINUTES:,} one-minute candles")
    contest({"tidytape": ours, "MarketProfile": lambda: of_market_profile(days)})
    print()


def cost_against_rows(most: int) -> None:
    print("seconds per million rows, the fastest of three")
    for rows in (10_000, 100_000, 1_000_000, 10_000_000):
        if rows > most:
            break
        levels = sessions(rows // LEVELS)
        ordered = levels.with_columns(timestamp=(pl.col("session") + 19_675) * 86_400_000_000_000)
        of_blocks = ordered.with_columns(block_id=pl.int_range(pl.len()) * 7919 % 48)
        runs: dict[str, Callable[[], Any]] = {
            "value_area": lambda levels=levels: value_area(levels, by="session"),
            "value_area, row_size": lambda levels=levels: value_area(levels, by="session", row_size=STEP),
        }
        if rows <= 1_000_000:
            # Each session is compared with all others for naked points of control: 5,000 of them are enough.
            runs["summary"] = lambda frame=ordered: summary(frame.drop("session"), row_size=STEP)
        if rows <= 100_000:
            # A row for each block and level by then, 24 times as many here.
            runs["developing"] = lambda frame=of_blocks: developing(
                frame, by="session", block_minutes=30, row_size=STEP
            )
        for name, run in runs.items():
            taken = []
            for _ in range(3):
                start = perf_counter()
                run()
                taken.append(perf_counter() - start)
            print(f"{name:<28}{rows:>12,} rows {min(taken) * 1e6 / rows:9.3f}")


if __name__ == "__main__":
    value_areas()
    days_of_candles()
    cost_against_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
