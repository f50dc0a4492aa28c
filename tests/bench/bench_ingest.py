"""A large file of trades into a lake: CPU, time, memory and bytes of tidytape, beside DuckDB and polars.

Run ``python tests/bench/bench_ingest.py [million trades] [rounds]``; 20 make a file of about 1 GB. The others do what a
user would write who knows them: sort the file by time into one Parquet file packed by zstd. They check no value, find
no repeated trade and register no market. Each contender runs in a process of its own, so that its CPU, with what its
imports take, and its peak are its own; they take turns. The last table is the first rollup of the lake.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

STEP = 1_000_000
MARKET = {"exchange": "X", "raw_symbol": "BTC-USDT"}


def generate(folder: Path, millions: int) -> tuple[Path, Path]:
    """One tape as CSV and as Parquet: a random walk of trades some milliseconds apart, times in microseconds."""
    rng = np.random.default_rng(7)
    text, table = folder / "trades.csv", folder / "trades.parquet"
    now, price, first = 1_693_929_600_000_000, 26_000.0, 4_000_000_000
    for number in range(millions):
        times = now + np.cumsum(rng.integers(0, 5000, STEP))
        prices = np.round(price + np.cumsum(rng.normal(0, 0.05, STEP)), 1)
        frame = pl.DataFrame(
            {
                "id": np.arange(first, first + STEP),
                "timestamp": times,
                "price": prices,
                "amount": np.round(rng.exponential(0.05, STEP) + 1e-5, 5),
                "side": np.where(rng.random(STEP) < 0.5, "buy", "sell"),
            }
        )
        now, price, first = int(times[-1]), float(prices[-1]), first + STEP
        with text.open("ab") as file:
            frame.write_csv(file, include_header=number == 0)
    in_utc = pl.from_epoch("timestamp", time_unit="us").dt.replace_time_zone("UTC")
    pl.scan_csv(text).with_columns(in_utc).sink_parquet(table, compression="zstd")
    return text, table


def ours(file: str, folder: str) -> None:
    from tidytape.lake import Lake
    from tidytape.lake.ingest import Csv, Market, Parquet, ingest

    layout = Csv() if file.endswith("csv") else Parquet()
    ingest(file, Lake.create(f"{folder}/lake"), layout, market=Market(**MARKET), workers=1, progress=False)


def by_duckdb(file: str, folder: str) -> None:
    import duckdb

    query = f"COPY (SELECT * FROM '{file}' ORDER BY timestamp) TO '{folder}/trades.parquet'"
    duckdb.execute(f"{query} (FORMAT parquet, COMPRESSION zstd)")


def by_polars(file: str, folder: str) -> None:
    rows = pl.scan_csv(file) if file.endswith("csv") else pl.scan_parquet(file)
    rows.sort("timestamp").sink_parquet(f"{folder}/trades.parquet", compression="zstd")


def first_rollup(file: str, folder: str) -> None:
    from tidytape.lake import Lake
    from tidytape.lake.rollup import rollup

    lake = Lake(file)
    lake.writer().register(
        pl.DataFrame({name: [text] for name, text in MARKET.items()} | {"block_size": [10.0]})
    )
    rollup(lake, progress=False)


CONTENDERS = {"tidytape": ours, "duckdb": by_duckdb, "polars": by_polars, "rollup": first_rollup}


def contend(who: str, file: str, folder: str) -> None:
    """Do the work, and print CPU and time [s], peak of memory [GB] and bytes of Parquet [MB]."""
    began = time.perf_counter()
    CONTENDERS[who](file, folder)
    seconds, usage = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    size = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
    print(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 2**20, size / 1e6)


def run(who: str, file: Path) -> list[float]:
    """CPU, time, peak and bytes of one contender."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        words = [sys.executable, __file__, who, str(file), folder]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return [float(word) for word in done.stdout.split()]


def compare(file: Path, rounds: int) -> None:
    """Print the medians of all contenders, and what share of theirs ours are."""
    results: dict[str, list[list[float]]] = {name: [] for name in CONTENDERS if name != "rollup"}
    for _ in range(rounds):
        for name, rows in results.items():
            rows.append(run(name, file))
    medians = {name: [median(column) for column in zip(*rows, strict=True)] for name, rows in results.items()}
    for name, (cpu, seconds, peak, size) in medians.items():
        ratios = [ours / theirs for ours, theirs in zip(medians["tidytape"], medians[name], strict=True)]
        print(
            f"{name:<10}{cpu:7.2f} s CPU{seconds:8.2f} s{peak:7.2f} GB{size:9.1f} MB; ours is "
            f"{ratios[0]:.2f} of the CPU, {ratios[1]:.2f} of the time, {ratios[3]:.2f} of the bytes"
        )


def main(millions: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in generate(folder, millions):
            print(f"{millions} million trades, {file.suffix} of {file.stat().st_size / 1e6:.0f} MB")
            compare(file, rounds)
        (folder / "filled").mkdir()
        ours(str(folder / "trades.csv"), str(folder / "filled"))
        cpu, seconds, peak, _ = run("rollup", folder / "filled" / "lake")
        print(f"first rollup {cpu:7.2f} s CPU{seconds:8.2f} s{peak:7.2f} GB")
    print(f"medians of {rounds}; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    if len(sys.argv) > 3:
        contend(*sys.argv[1:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
