"""A lake after 10 commits and after half a million: what an append, an opening and the query of a day cost.

Run ``python tests/bench/bench_appends.py [commits]``; 500,000 where left out, which takes 2.5 GB of disk. The first
commits are real appends of 20 markets. The others are written here: each removes or adds one of 20 files, with the
notes and at every hundredth the checkpoint that a follower's commits would have, one commit a minute. So the rows are
the same at both ends. Every number is processor time of a process of its own, without its imports.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import polars as pl
import pyarrow as pa
import pyarrow.dataset  # before the first time is taken
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction, write_deltalake

from tidytape.lake import Lake, _commit, hygiene

MARKETS = 20
REAL = 10
EVERY = 60  # seconds between two commits
START = 1_756_684_800 * 10**9  # 2025-09-01T00:00:00Z [ns]
DAY = 86_400 * 10**9
LOG_NOTES = ("log:bench", "mark:bench")


def rows(number: int, count: int = 5) -> pl.DataFrame:
    """Return the trades of one commit: some of each market, with ids that rise."""
    place = pl.int_range(count * number, count * number + count, eager=True)
    market = pl.DataFrame({"market": range(MARKETS)})
    return market.join(pl.DataFrame({"place": place}), how="cross").select(
        exchange=pl.lit("X"),
        raw_symbol=pl.format("C{}-USDT", pl.col("market")),
        id=(10**8 + pl.col("place")).cast(pl.String),
        timestamp=START + pl.col("place") * 10**9,
        sequence=10**8 + pl.col("place"),
        side=pl.lit("BUY"),
        price=10.0 + pl.col("place") % 7,
        amount=pl.lit(1.0),
        quote_amount=10.0 + pl.col("place") % 7,
        received=pl.lit(None, pl.Int64),
    )


def begun(path: Path) -> Lake:
    """Return a lake with real commits; the files of the last one are removed and added again by all later commits."""
    lake = Lake.create(path)
    for number in range(REAL):
        lake.writer().append("trades", rows(number), source=f"{number}")
    for name in LOG_NOTES:
        note = [Transaction(name, 0)]
        lake.writer()._until_committed("trades", partial(_commit.note, notes=note))
    return lake


def grow(lake: Lake, commits: int) -> None:
    """Write the commits up to a version, an even number."""
    log = Path(lake.path, "trades", "_delta_log")
    first = Lake(lake.path).version()["trades"] + 1
    DeltaTable(log.parent).create_checkpoint()
    template = pq.read_table(log / f"{first - 1:020}.checkpoint.parquet")
    actions = [json.loads(line) for line in (log / f"{REAL:020}.json").read_text().splitlines()]
    added = [action["add"] for action in actions if "add" in action]
    spans = next(action["commitInfo"]["tidytape.spans"] for action in actions if "commitInfo" in action)
    counters = [f"instrument:X/{add['partitionValues']['raw_symbol']}" for add in added]
    lines = []
    for add, counter in zip(added, counters, strict=True):
        facts = {"path": add["path"], "partitionValues": add["partitionValues"], "size": add["size"]}
        remove = {"dataChange": False, "deletionTimestamp": 0, "extendedFileMetadata": True, **facts}
        info = {"timestamp": 0, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
        info |= {"engineInfo": "delta-rs:py-1.6.6", "tidytape.spans": spans if add is added[0] else "[]"}
        note = json.dumps({"txn": {"appId": counter, "version": -1}})
        head = json.dumps({"commitInfo": info})
        lines.append(
            [f"{head}\n{json.dumps(action)}\n{note}\n" for action in ({"remove": remove}, {"add": add})]
        )
    assert (commits - first) % 2 == 1
    now = time.time()
    counts = [REAL] * MARKETS
    for version in range(first, commits + 1):
        market = (version - first) // 2 % MARKETS
        counts[market] += 1
        text = lines[market][(version - first) % 2].replace('"version": -1', f'"version": {counts[market]}')
        notes = "".join(f'{{"txn":{{"appId":"{name}","version":{version}}}}}\n' for name in LOG_NOTES)
        path = log / f"{version:020}.json"
        path.write_text(text + notes)
        then = now - EVERY * (commits - version)
        os.utime(path, (then, then))
        if version % 100 == 0 and (version - first) % 2:
            numbers = dict(zip(counters, counts, strict=True)) | dict.fromkeys(LOG_NOTES, version)
            checkpoint(log, template, version, numbers, then)


def checkpoint(log: Path, template: pa.Table, version: int, numbers: dict[str, int], then: float) -> None:
    """Write a checkpoint with the files of another one and the numbers of its own notes."""
    notes = template.column("txn").combine_chunks()
    names, before = notes.field("appId").to_pylist(), notes.field("version").to_pylist()
    values = [numbers.get(name, number) for name, number in zip(names, before, strict=True)]
    fields = [
        pa.array(values, pa.int64()) if field.name == "version" else notes.field(field.name)
        for field in notes.type
    ]
    column = pa.StructArray.from_arrays(fields, fields=list(notes.type), mask=notes.is_null())
    table = template.set_column(template.column_names.index("txn"), template.schema.field("txn"), column)
    path = log / f"{version:020}.checkpoint.parquet"
    pq.write_table(table, path, compression="snappy")
    os.utime(path, (then, then))
    facts = {"version": version, "size": table.num_rows, "sizeInBytes": path.stat().st_size}
    (log / "_last_checkpoint").write_text(json.dumps(facts))


# -- what is measured: each in a process of its own -------------------------------------------------------------------


def used() -> float:
    """Return the processor time of this process. [s]"""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(what: str, path: str, number: int) -> list[float]:
    """Do one job and return its processor times: of the first time in this process, and of the later ones. [s]"""
    trades, times = f"{path}/trades", []
    window = [("exchange", "=", "X"), ("raw_symbol", "=", "C7-USDT")]
    lake = None
    for place in range(11 if what in ("append", "delta-rs append") else 1):
        new = rows(number + place)
        if what == "delta-rs append":  # a lake stores a product only where it is not that of the price
            product = pl.lit(None, pl.Float64).alias("stated_quote_amount")
            new = new.with_columns(product).drop("quote_amount")
        began = used()
        if what == "open":
            Lake(path).delta("trades")
        elif what == "query":
            day = {"exchange": "X", "raw_symbol": "C7-USDT", "start": START, "end": START + DAY}
            assert Lake(path).scan("trades", **day).collect().height
        elif what == "append":
            lake = lake or Lake(path)
            assert lake.writer().append("trades", new, source=f"{number + place}").rows_new == new.height
        elif what == "keep":
            for report in hygiene.keep(Lake(path)):
                print(report, file=sys.stderr)
        elif what == "delta-rs open":
            DeltaTable(trades)
        elif what == "delta-rs query":
            time_of_day = [("timestamp", ">=", START), ("timestamp", "<", START + DAY)]
            assert DeltaTable(trades).to_pyarrow_table(filters=window + time_of_day).num_rows
        else:
            write_deltalake(trades, new.to_arrow(), mode="append")
        times.append(used() - began)
    return times


class Board:
    """Runs jobs and prints what they cost, beside the same job on the first day."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._number = 10**6

    def run(self, lake: Path, when: str, jobs: list[str], rounds: int = 5) -> None:
        """Run each job some times, each in a new process."""
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            for job in jobs:
                self._number += 100
                command = [sys.executable, __file__, "--measure", job, str(lake), str(self._number)]
                first, *later = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                times.setdefault(job, []).append(first)
                if later:
                    times.setdefault(f"{job}, again", []).append(median(later))
        for job, taken in times.items():
            value = median(taken)
            ratio = value / self._first.setdefault(job, value)
            print(
                f"{when:32}{job:24}{1_000 * value:10.1f} ms of processors{ratio:8.2f} times day one",
                flush=True,
            )


def main() -> None:
    """Print the costs after 10 commits and after many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="?", type=int, default=500_000)
    parser.add_argument("--measure", nargs=3)
    parser.add_argument("--folder", type=Path, help="where the lakes go; by default a temporary folder")
    chosen = parser.parse_args()
    if chosen.measure:
        job, path, number = chosen.measure
        print(json.dumps(measure(job, path, int(number))))
        return
    folder = Path(tempfile.mkdtemp(prefix="tidytape-bench-", dir=chosen.folder))
    try:
        ours, theirs = ["open", "query", "append"], ["delta-rs open", "delta-rs query", "delta-rs append"]
        board = Board()
        lake = begun(folder / "lake")
        for name in ("day one", "day one of delta-rs"):
            shutil.copytree(folder / "lake", folder / name)
        board.run(folder / "day one", f"{REAL} commits", ours)
        board.run(folder / "day one of delta-rs", f"{REAL} commits", theirs)
        began = time.perf_counter()
        grow(lake, chosen.commits)
        print(f"{chosen.commits:,} commits written in {time.perf_counter() - began:.0f} s", flush=True)
        many = f"{chosen.commits:,} commits"
        board.run(folder / "lake", f"{many}, not kept", ours, rounds=1)
        board.run(folder / "lake", f"{many}, first after", ["delta-rs append"], rounds=1)
        board.run(folder / "lake", f"{many}, delta-rs' log", theirs, rounds=3)
        board.run(folder / "lake", f"{many}, keeping", ["keep"], rounds=1)
        board.run(folder / "lake", f"{many}, kept", ours)
        log = folder / "lake" / "trades" / "_delta_log"
        left = sum(1 for path in log.iterdir() if re.match(r"\d{20}", path.name))
        print(f"{left:,} entries in the log; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
