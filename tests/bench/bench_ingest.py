"""A large file of trades into a lake: time and memory of tidytape, beside polars and delta-rs by hand.

Run ``python tests/bench/bench_ingest.py [million trades]``; 20 make a file of about 1 GB. By hand is what a user would
write first: read the file, write the table. It checks nothing, finds no repeated trade and makes no order; its memory
grows with the file. Each contender runs in a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

PIECES = 4
STEP = 1_000_000


def generate(folder: Path, millions: int) -> list[Path]:
    """One tape in pieces: a random walk of trades some milliseconds apart, times in microseconds."""
    rng = np.random.default_rng(7)
    pieces = [folder / f"{number}.csv" for number in range(PIECES)]
    now, price, first = 1_693_929_600_000_000, 26_000.0, 4_000_000_000
    for number in range(millions):
        path = pieces[number * PIECES // millions]
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
        new = not path.exists()
        with path.open("ab") as file:
            frame.write_csv(file, include_header=new)
    return [path for path in pieces if path.exists()]


def ours(files: list[str], folder: str, workers: int) -> None:
    from tidytape.lake import Lake
    from tidytape.lake.ingest import Csv, Market, ingest

    lake = Lake.create(folder)
    market = Market(exchange="X", raw_symbol="BTC-USDT")
    ingest(files, lake, Csv(), market=market, workers=workers, progress=False)


def by_hand(files: list[str], folder: str) -> None:
    from deltalake import write_deltalake

    for file in files:
        frame = pl.read_csv(file).with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit("BTC-USDT"))
        write_deltalake(folder, frame, mode="append", partition_by=["exchange", "raw_symbol"])


def run(who: str, files: list[Path]) -> tuple[float, float]:
    """Seconds and peak memory in GB of one contender."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, who, f"{folder}/lake", *map(str, files)]
        seconds, peak = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), float(peak)


def contend(who: str, folder: str, files: list[str]) -> None:
    began = time.perf_counter()
    if who == "by hand":
        by_hand(files, folder)
    else:
        ours(files, folder, workers=int(who))
    print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def main(millions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pieces = generate(Path(folder), millions)
        whole = Path(folder) / "whole.csv"
        with whole.open("wb") as out:
            for number, piece in enumerate(pieces):
                data = piece.read_bytes()
                out.write(data if number == 0 else data.partition(b"\n")[2])
        print(f"{millions} million trades, {whole.stat().st_size / 1e6:.0f} MB")
        for name, who, files in (
            ("by hand, one file", "by hand", [whole]),
            ("tidytape, one file", "1", [whole]),
            ("tidytape, pieces one by one", "1", pieces),
            ("tidytape, pieces at once", "4", pieces),
        ):
            seconds, peak = run(who, files)
            print(f"{name:30} {seconds:6.1f} s {peak:6.2f} GB")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        contend(sys.argv[1], sys.argv[2], sys.argv[3:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
