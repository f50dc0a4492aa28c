"""Contenders side by side: each does the same work in turn, and is told by its median."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

__all__ = ["contest", "imported"]

OURS = "tidytape"


def contest(
    contenders: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Print how long each contender takes, and how many times as long as ours; return these ratios.

    They take turns, so that whatever else the machine does falls on all of them, and the ratio is that of medians. The
    first round, in which caches fill and code is compiled, does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            gc.collect()
            start = clock()
            run()
            if number:
                seconds[name].append(clock() - start)
    medians = {name: median(times) for name, times in seconds.items()}
    for name, times in seconds.items():
        print(
            f"{name:<28}{medians[name]:9.4f} s, {min(times):.4f} to {max(times):.4f}"
            f"{medians[name] / medians[OURS]:10.2f} times ours"
        )
    print(f"medians of {rounds}; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return {name: taken / medians[OURS] for name, taken in medians.items()}


def imported(name: str) -> float:
    """Seconds that an import takes in a fresh process, less what Python itself takes."""

    def taken(code: str) -> float:
        times = []
        for _ in range(15):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began)
        return median(times)

    return taken(f"import {name}") - taken("pass")
