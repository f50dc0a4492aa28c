"""The first market profile of a fresh service beside later ones, from the moment at which the service listens.

Run ``python tests/bench/bench_first.py LAKE [seconds]``, on a lake of the demo: ``tidytape demo --out demo`` makes one.
``seconds`` is a pause between the start of the service and the first request, by default none. Each profile is of
another height of levels or length of time blocks, so that no answer is asked for twice.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx

from tidytape.query import PointsQuery

sys.path.append(str(Path(__file__).parents[1]))
from served import served


def of_children() -> float:
    """Return the time of the processor that the processes below this one have used. [s]"""
    fields_by_process = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields_by_process[int(file.parent.name)] = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
    below, total = {os.getpid()}, 0
    for process, fields in sorted(fields_by_process.items()):
        if int(fields[1]) in below:
            below.add(process)
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def new_key(keys: Path) -> str:
    """Return a new key, which is in a file of keys then."""
    command = [sys.executable, "-m", "tidytape", "keys", "new", "--keys", str(keys), "--tier", "enterprise"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(lake: str, pause: float = 0.0) -> dict[str, float]:
    """Print the times of the first profile and of the later ones; return how many times the later the first takes."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.json"
        key = new_key(keys)
        began = time.perf_counter()
        with served(Path(folder) / "log", "--lake", lake, "--keys", keys) as address:
            listens = time.perf_counter() - began
            with httpx.Client(base_url=address, headers={"X-Service-Key": key}, timeout=60) as http:
                time.sleep(pause)
                times, processor = [], []
                for block_size, minutes in itertools.product((20, 25, 40, 50), (30, 60, 5)):
                    query = PointsQuery(
                        type="TPO_AGG",
                        exchange="DEMO_SPOT",
                        coin="BTC",
                        interval="1d",
                        block_size=block_size,
                        tpo_block_minutes=minutes,
                        start="2024-08-08",
                        end="2024-08-09",
                    )
                    start, used = time.perf_counter(), of_children()
                    http.get("/v1/points", params=query.to_params()).raise_for_status()
                    times.append(time.perf_counter() - start)
                    processor.append(of_children() - used)
    print(f"the service listens after {listens:.2f} s; then a pause of {pause:g} s")
    ratios = {}
    for name, values in {"wall": times, "processor": processor}.items():
        first, later = values[0], median(values[3:])
        ratios[name] = first / later
        print(
            f"{name:<10} first {first:.3f} s, second {values[1]:.3f} s, later {later:.3f} s: {first / later:.1f} times"
        )
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return ratios


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:3]))
