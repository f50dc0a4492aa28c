"""A follower that is killed, stopped, and compacted beside: nothing lost, nothing doubled."""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from followed import HEAD, ids, require_same, trades
from lakes import empty_lake
from thorough import often
from tidytape.lake import Lake
from tidytape.lake.hygiene import check, compact
from tidytape.lake.ingest import BinanceWs, Market, Tardis, ingest

KILLS = often(6, thoroughly=60)


def start(lake: Path, log: Path, *options: str, layout: str = "binance-ws") -> subprocess.Popen[str]:
    words = ["ingest", layout, "--follow", str(log), "--lake", str(lake), "--every", "0.05", *options]
    return subprocess.Popen(
        [sys.executable, "-c", "from tidytape.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def commits(lake: Path) -> int:
    try:
        return sum(Lake(lake).delta(table).version() for table in ("trades", "book"))
    except Exception:  # noqa: BLE001  # the process is just making it
        return 0


def wait_until(condition: Any, *, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def lines(recorded: Path) -> list[bytes]:
    return gzip.decompress((recorded / "binance-usdm_ws_btcusdt_20240808.gz").read_bytes()).splitlines(
        keepends=True
    )[:6000]


@pytest.fixture
def whole(lines: list[bytes], tmp_path: Path) -> Lake:
    path = tmp_path / "whole.log"
    path.write_bytes(b"".join(lines))
    lake = empty_lake(tmp_path / "whole")
    ingest(path, lake, BinanceWs(), market=Market(exchange="BINANCE"))
    return lake


def grow(path: Path, lines: list[bytes], *, pieces: int) -> None:
    size = -(-len(lines) // pieces)
    for at in range(0, len(lines), size):
        with path.open("ab") as file:
            file.write(b"".join(lines[at : at + size]))
        time.sleep(0.02)


@pytest.mark.long
def test_killed_at_any_moment_and_started_again(lines: list[bytes], whole: Lake, tmp_path: Path) -> None:
    path, lake = tmp_path / "log", tmp_path / "lake"
    empty_lake(lake)
    random_ = random.Random(17)
    size = -(-len(lines) // KILLS)
    for at in range(0, len(lines) - 100, size):
        process = start(lake, path, "--exchange", "BINANCE")
        before = commits(lake)
        grow(path, lines[at : min(at + size, len(lines) - 100)], pieces=20)
        wait_until(lambda: commits(lake) > before)  # noqa: B023
        time.sleep(random_.uniform(0, 0.3))
        process.kill()
        process.communicate()
    process = start(lake, path, "--exchange", "BINANCE")
    before = Lake(lake).delta("book").version()
    grow(path, lines[-100:], pieces=1)
    wait_until(lambda: Lake(lake).delta("book").version() > before)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.count("\n") == 1
    require_same(Lake(lake), whole)
    assert check(Lake(lake)).sound


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_what_was_read(number: int, lines: list[bytes], whole: Lake, tmp_path: Path) -> None:
    path, lake = tmp_path / "log", tmp_path / "lake"
    path.write_bytes(b"".join(lines[:3000]))
    process = start(lake, path, "--exchange", "BINANCE")
    wait_until(lambda: commits(lake) > 0)
    with path.open("ab") as file:
        file.write(b"".join(lines[3000:]))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "trades" in out
    require_same(Lake(lake), whole)


@pytest.mark.long
def test_two_followers_of_one_log_put_every_row_in_once(tmp_path: Path) -> None:
    path, lake = tmp_path / "log.csv", empty_lake(tmp_path / "lake")
    path.write_text(HEAD + trades(0))
    words = ("--exchange", "X", "--raw-symbol", "BTC-USD")
    processes = [start(Path(lake.path), path, *words, layout="csv") for _ in range(2)]
    for first in range(1, 250, 3):
        with path.open("a") as file:
            file.write(trades(*range(first, first + 3)))
        time.sleep(0.05)
    wait_until(lambda: lake.scan("trades").collect().height >= 250)
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert ids(Lake(lake.path)) == [*range(250)]


@pytest.mark.long
def test_compacted_beside_it_loses_nothing(lines: list[bytes], whole: Lake, tmp_path: Path) -> None:
    path, lake = tmp_path / "log", tmp_path / "lake"
    empty_lake(lake)
    process = start(lake, path, "--exchange", "BINANCE")
    for at in range(0, len(lines), 400):
        grow(path, lines[at : at + 400], pieces=8)
        compact(Lake(lake), everything=True, progress=False)
    wait_until(lambda: Lake(lake).scan("trades").collect().height == whole.scan("trades").collect().height)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    require_same(Lake(lake), whole)
    assert check(Lake(lake)).sound


@pytest.mark.long
def test_a_book_without_ids_is_not_doubled_by_a_kill(recorded: Path, tmp_path: Path) -> None:
    source = recorded / "tardis_deribit_incremental_book_L2_BTC-PERPETUAL.csv"
    header, *levels = source.read_bytes().splitlines(keepends=True)
    path, lake, whole = tmp_path / "book.csv", empty_lake(tmp_path / "lake"), empty_lake(tmp_path / "whole")
    ingest(source, whole, Tardis(), market=Market(contract="INVERSE", contract_size=10))
    path.write_bytes(header)
    said = ("--contract", "INVERSE", "--contract-size", "10")
    for level in levels[::3]:
        process = start(Path(lake.path), path, *said, layout="tardis")
        version = lake.delta("book").version()
        at = levels.index(level)
        with path.open("ab") as file:
            file.write(b"".join(levels[at : at + 3]))
        wait_until(lambda: lake.delta("book").version() > version)  # noqa: B023
        process.kill()
        process.communicate()
    require_same(lake, whole)
