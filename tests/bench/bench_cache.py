"""A thousand candles from the disk cache, and fetched from ``tidytape serve`` on this machine.

Run ``python tests/bench/bench_cache.py [rounds]``. The cache has 73 days of one-minute candles, and each round reads
another window of a thousand: "in memory" by a client that has read the file, "from disk" by a new client. Times are the
processor's and the wall clock's, medians in turn; those of a fetch include the service's.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import polars as pl
from bench_first import new_key, of_children
from bench_history import EXCHANGE, SYMBOL
from bench_serve import DAYS, LAST, prepared

from tidytape import Client

sys.path.append(str(Path(__file__).parents[1]))
from served import served

CANDLES = 1_000


def main(rounds: int = 40) -> dict[str, float]:
    """Print the times; return how many times the time of a fetch each takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared(folder)
        keys = folder / "keys.json"
        key = new_key(keys)
        with served(folder / "log", "--lake", folder / "lake", "--keys", keys) as address:

            def client(cache: Path | None) -> Client[pl.DataFrame]:
                return Client(address, key, cache=cache or False, progress=False)

            warm, plain = client(folder / "cache"), client(None)

            def candles(by: Client[pl.DataFrame], start: int, end: int) -> pl.DataFrame:
                return by.candles(exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", start=start, end=end)

            candles(warm, LAST - (DAYS - 2) * 86_400, LAST)
            contenders: dict[str, Callable[[int, int], pl.DataFrame]] = {
                "in memory": lambda start, end: candles(warm, start, end),
                "from disk": lambda start, end: candles(fresh, start, end),
                "fetched": lambda start, end: candles(plain, start, end),
            }
            draw = random.Random(7)
            walls: dict[str, list[float]] = {contender: [] for contender in contenders}
            processor: dict[str, list[float]] = {contender: [] for contender in contenders}
            for number in range(rounds + 2):
                end = LAST - 60 * draw.randrange((DAYS - 3) * 1_440 - CANDLES)
                frames, fresh = [], client(folder / "cache")
                for contender, run in contenders.items():
                    began, used = time.perf_counter(), time.process_time() + of_children()
                    frames.append(run(end - 60 * CANDLES, end))
                    if number >= 2:
                        walls[contender].append(time.perf_counter() - began)
                        processor[contender].append(time.process_time() + of_children() - used)
                fresh.close()
                assert frames[0].equals(frames[1])
                assert frames[0].equals(frames[2])
            warm.close()
            plain.close()
    ratios = {contender: median(times) / median(walls["fetched"]) for contender, times in walls.items()}
    for contender, times in walls.items():
        used = 1e3 * sum(processor[contender]) / rounds
        print(
            f"{contender:<12}{1e3 * median(times):8.2f} ms, of the processor {used:8.2f}; "
            f"{ratios[contender]:.2f} times a fetch"
        )
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return ratios


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
