"""A lake of many small markets: what each step costs, in seconds.

Run ``python tests/bench/bench_many_markets.py [markets] [trades of each] [--file-per-market]``; 2,000 markets of 500
trades where left out. The trades of each market lie in one day. They come in one file, or in a file per market.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tidytape import Client
from tidytape.lake import Lake, hygiene
from tidytape.lake.ingest import Csv, Market, ingest
from tidytape.lake.rollup import rollup

START = 1_756_684_800  # 2025-09-01T00:00:00Z [s]
DAY = 86_400  # [s]


def trades_of(market: int, count: int) -> pl.DataFrame:
    """Trades of one market: a random walk over a day."""
    rng = np.random.default_rng(market)
    price = float(10 ** rng.uniform(-3, 4))
    return pl.DataFrame(
        {
            "raw_symbol": [f"C{market:05}-USDT"] * count,
            "id": np.arange(count),
            "timestamp": START * 10**9 + np.sort(rng.integers(0, DAY * 10**9, count)),
            "price": price * np.exp(np.cumsum(rng.normal(0, 0.001, count))),
            "amount": np.round(rng.exponential(3.0, count) + 0.01, 2),
            "side": np.where(rng.random(count) < 0.5, "buy", "sell"),
        }
    )


def generate(folder: Path, markets: int, count: int, *, file_per_market: bool) -> list[Path]:
    """Write the trades as CSV, in order of time."""
    frames = [trades_of(market, count) for market in range(markets)]
    if not file_per_market:
        frames = [pl.concat(frames).sort("timestamp")]
    paths = [folder / f"{number}.csv" for number in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        frame.write_csv(path)
    return paths


def timed(what: str, run: Callable[[], Any]) -> Any:
    """Run a step, and print what it took."""
    began, worked = time.perf_counter(), time.process_time()
    result = run()
    seconds, work = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{what:24} {seconds:8.2f} s, of processors {work:8.2f} s   peak so far {peak:6.0f} MB", flush=True)
    return result


def main() -> None:
    """Print the seconds of each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("markets", nargs="?", type=int, default=2_000)
    parser.add_argument("trades", nargs="?", type=int, default=500)
    parser.add_argument("--file-per-market", action="store_true")
    parser.add_argument("--skip", action="append", default=[], help="name of a step to leave out")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidytape-bench-"))
    try:
        run(folder, chosen)
    finally:
        shutil.rmtree(folder)


def run(folder: Path, chosen: argparse.Namespace) -> None:
    """Run the steps one after the other."""
    files = generate(folder, chosen.markets, chosen.trades, file_per_market=chosen.file_per_market)
    lake = Lake.create(folder / "lake")

    def step(what: str, run: Callable[[], Any]) -> Any:
        return None if what in chosen.skip else timed(what, run)

    def opened() -> Client:
        return Client.local(folder / "lake")

    step("ingest", lambda: ingest(files, lake, Csv(), market=Market(exchange="X"), progress=False))
    step("markets(), no rollup", lambda: opened().markets())
    step("first rollup", lambda: rollup(lake, progress=False))
    step("second rollup", lambda: rollup(Lake(folder / "lake"), progress=False))
    client = opened()
    page = step("markets(), cold", client.markets)
    step("markets(), warm", client.markets)
    ask = {"exchange": "X", "raw_symbol": "C00007-USDT", "start": START, "end": START + DAY}
    step("candles of one market", lambda: opened().candles(interval="1h", **ask))
    report = step("lake check", lambda: hygiene.check(lake, progress=False))
    if page is not None and page.height != chosen.markets:
        sys.exit(f"{page.height} of {chosen.markets} markets")
    if report is not None and not report.sound:
        sys.exit(str(report))


if __name__ == "__main__":
    main()
