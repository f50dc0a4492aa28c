"""How many files and function calls of tidytape four journeys take. A count is the same on slow and fast machines.

Run it as ``python tests/bench/journeys.py``. It prints a line for each journey: the number of files of the package
whose functions ran, and how often functions of the package were called. A generator counts each time that it goes on;
modules and class bodies, which run once at import, do not count. ``--files`` prints the calls of each file, and
``--functions`` those of each function. Only a stream takes more calls on a busy machine, because it looks for news of
the lake while it lasts; the lowest count of a few runs is its own.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import polars as pl

import tidytape
from tidytape.analytics import profile

PACKAGE = str(Path(tidytape.__file__).parent)
Calls = Counter[CodeType]


class Counting:
    """Counts calls of tidytape's functions in all threads that start after it is made, while it is on."""

    def __init__(self) -> None:
        self.calls: Calls | None = None
        threading.setprofile(self._count)
        sys.setprofile(self._count)

    @contextmanager
    def on(self) -> Iterator[Calls]:
        """Count while the context lasts."""
        self.calls = calls = Counter()
        try:
            yield calls
        finally:
            self.calls = None

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and self.calls is not None and _is_counted(code):
            self.calls[code] += 1


@cache
def _is_counted(code: CodeType) -> bool:
    """Return whether code is a function of the package; modules and class bodies are not optimised."""
    return code.co_filename.startswith(PACKAGE) and bool(code.co_flags & inspect.CO_OPTIMIZED)


def fetch_of_48_candles(client: tidytape.Client[pl.DataFrame]) -> None:
    """Fetch two days of hours."""
    candles = client.candles(
        exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1h", start="2024-08-07", end="2024-08-09"
    )
    assert candles.height == 48


def journeys() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield name and function of each journey; what a journey needs is made before it is yielded."""
    with tidytape.Client.demo() as client:
        yield "a cold fetch of 48 candles", lambda: fetch_of_48_candles(client)
        yield "the same, hot", lambda: fetch_of_48_candles(client)
        levels = client.volume_profile(
            exchange="DEMO_SPOT",
            raw_symbol="BTCUSDT",
            interval="1h",
            block_size=10,
            start="2024-08-07",
            end="2024-08-09",
        )
        yield "value_area of a profile", lambda: profile.value_area(levels)
    with tidytape.Client.demo() as client:

        def hour() -> None:
            with client.stream(
                "TRADE_SIDE_AGNOSTIC_AGG",
                exchange="DEMO_SPOT",
                raw_symbol="BTCUSDT",
                interval="1m",
                start="2024-08-08",
                end="2024-08-08T01:00",
            ) as stream:
                assert sum(batch.finals.height for batch in stream) == 60

        yield "a stream of an hour", hour


def main() -> None:
    """Print the files and calls of each journey."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--functions", action="store_true")
    options = parser.parse_args()
    counting = Counting()
    for name, journey in journeys():
        with counting.on() as calls:
            journey()
            time.sleep(0.2)  # threads of the local service finish
        of_file: Counter[str] = Counter()
        for code, number in calls.items():
            of_file[str(Path(code.co_filename).relative_to(PACKAGE))] += number
        print(f"{name}: {len(of_file)} files, {of_file.total():,} calls")
        if options.files:
            for file, number in of_file.most_common():
                print(f"  {number:6,} {file}")
        if options.functions:
            for code, number in calls.most_common():
                file = Path(code.co_filename).relative_to(PACKAGE)
                print(f"  {number:6,} {file}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
