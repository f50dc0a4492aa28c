"""An ingest that is killed, and ingests at the same time: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ingested import ingest
from lakes import empty_lake
from thorough import often
from tidytape.lake import TABLES

INGEST = """
import sys
from tidytape.lake import Lake
from tidytape.lake.ingest import BinanceWs, Market, ingest
lake, *files = sys.argv[1:]
lake = Lake(lake)
print("ready", flush=True)
if sys.stdin.readline():
    market = Market(exchange="BINANCE", category="perpetual", contract="linear", contract_size="0.001")
    report = ingest(files, lake, BinanceWs(), market=market, workers=2)
    print(report.trades_new, report.book_rows_new, flush=True)
"""

KILLS = often(4, thoroughly=20)


def start(lake, files):
    process = subprocess.Popen(
        [sys.executable, "-c", INGEST, lake.path, *map(str, files)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def everything(lake):
    return {
        name: lake.scan(name).collect().sort(pl.all(), maintain_order=True)
        for name in (*TABLES,)
        if name != "markets"
    } | {"markets": lake.markets()}


def same(lake, want):
    for name, rows in everything(lake).items():
        assert_frame_equal(rows, want[name])


@pytest.fixture
def files(write, log):
    """Three logs of trades and book events that overlap."""
    lines = []
    for number in range(1, 2400):
        lines += [log.trade(number, q=f"{number}")]
        lines += [log.update(number, number, bids=[["100.5", "3"]], asks=[["101.5", "4"]])]
    return [write(*lines[at : at + 2000], name=f"log{at}") for at in range(0, 4000, 1400)]


def options():
    return {
        "layout": "binance-ws", "exchange": "BINANCE", "category": "perpetual", "contract": "linear",
        "contract_size": "0.001",
    }  # fmt: skip


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again_it_is_an_undisturbed_run(files, tmp_path):
    whole = empty_lake(tmp_path / "whole")
    began = time.monotonic()
    ingest(files, whole, **options())
    lasts = max(time.monotonic() - began, 0.2)
    random_ = random.Random(20)
    # The first at once: it is killed on any machine.
    moments = [0.0, *(random_.uniform(0, 1.3) for _ in range(KILLS - 1))]
    lakes = [empty_lake(tmp_path / f"lake{number}") for number in range(KILLS)]
    killed = 0
    for at in range(0, KILLS, 2):  # two at once, the start of Python takes most of the time
        pair = list(zip(lakes[at : at + 2], moments[at : at + 2], strict=True))
        processes = [start(lake, files) for lake, _ in pair]
        for process, (_, moment) in zip(processes, pair, strict=True):
            go(process)
            time.sleep(moment * lasts)
            process.kill()
            is_killed = process.wait() != 0
            killed += is_killed
            if not is_killed:  # it had ended by then, for it lasts less than was measured
                lasts *= 0.7
            process.stdin.close()
            process.stdout.close()
    assert killed > KILLS // 5  # else the moments say nothing
    want = everything(whole)
    for lake in lakes:
        ingest(files, lake, **options())
        same(lake, want)


@pytest.mark.long
def test_two_processes_with_files_of_one_symbol(files, write, log, tmp_path, lake):
    one, other = [files[0], files[2]], [files[1]]
    processes = [start(lake, part) for part in (one, other)]
    for process in processes:
        go(process)
    counts = []
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        counts.append([int(number) for number in out.split()])
    whole = empty_lake(tmp_path / "whole")
    report = ingest(files, whole, **options())
    # Every row went in by exactly one of the two. Rows of a book are numbered by their file.
    assert [sum(pair) for pair in zip(*counts, strict=True)] == [report.trades_new, report.book_rows_new]
    for name in ("trades", "book"):
        key = list(TABLES[name].key)
        drop = ["sequence", "received"]
        assert_frame_equal(
            lake.scan(name).collect().sort(key).drop(drop), whole.scan(name).collect().sort(key).drop(drop)
        )
        assert not lake.scan(name).select(key).collect().is_duplicated().any()
    assert_frame_equal(lake.markets(), whole.markets())
