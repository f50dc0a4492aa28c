"""Keeping a lake: its rows stay the same, whenever it is killed, and versions within the retention stay readable."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from thorough import often
from tidytape.errors import LakeError
from tidytape.lake import TABLES, Lake
from tidytape.lake.hygiene import check, compact, keep
from tidytape.lake.ingest import Csv, Market, ingest
from tidytape.lake.rollup import ROLLUP_TABLES

KILLS = often(3, thoroughly=30)
WEEK = 7 * 24 * 3_600  # [s]

_KEEP = """
import sys
from tidytape.lake import Lake
from tidytape.lake.hygiene import keep
lake = Lake(sys.argv[1])
print("ready", flush=True)
if sys.stdin.readline():
    keep(lake, retention_hours=int(sys.argv[2]))
"""


def fill(lake: Lake, tape, commits: range, *, symbols: tuple[str, ...] = ("A", "B")) -> None:
    """Append ten trades of each market with each commit."""
    for number in commits:
        rows = pl.concat(tape(10 * number, 10 * number + 10, raw_symbol=symbol) for symbol in symbols)
        lake.writer().append("trades", rows, source=f"{number}")


def rows_of(lake: Lake) -> pl.DataFrame:
    return Lake(lake.path).scan("trades").collect().sort("exchange", "raw_symbol", "sequence")


def log_of(lake: Lake, table: str = "trades") -> list[Path]:
    return sorted(Path(lake.path, table, "_delta_log").glob("0*"))


def aged(lake: Lake, seconds: float) -> None:
    """Make the log of the trades older."""
    for path in log_of(lake):
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


@pytest.mark.slow
def test_keeping_does_all_and_changes_no_row(lake: Lake, tape) -> None:
    fill(lake, tape, range(20))
    before = rows_of(lake)
    by_table = {report.table: report for report in keep(lake)}
    assert by_table["trades"].merged == 40
    assert by_table["candles_1m"].minutes > 0
    assert_frame_equal(rows_of(lake), before)
    assert len(Lake(lake.path)._files("trades", "BINANCE", "A")) == 1
    assert any(path.name.endswith("checkpoint.parquet") for path in log_of(lake))
    assert check(Lake(lake.path)).sound
    assert keep(Lake(lake.path)) == ()


@pytest.mark.slow
def test_versions_within_the_retention_stay_readable(lake: Lake, tape) -> None:
    fill(lake, tape, range(12))
    keep(lake)
    aged(lake, WEEK - 60)
    keep(lake)
    for version in range(13):
        assert lake.at({"trades": version}).scan("trades").collect().height == 20 * version


@pytest.mark.slow
def test_older_entries_of_the_log_go_up_to_a_checkpoint(lake: Lake, tape) -> None:
    fill(lake, tape, range(6))
    keep(lake)
    newest = Lake(lake.path).version()["trades"]
    aged(lake, WEEK + 60)
    fill(lake, tape, range(6, 9))
    report = next(report for report in keep(lake) if report.table == "trades")
    assert report.log_entries == newest
    assert "old entries of the log" in str(report)
    assert rows_of(lake).height == 180
    for version in range(newest, newest + 4):
        assert lake.at({"trades": version}).scan("trades").collect().height >= 120
    with pytest.raises(LakeError):
        lake.at({"trades": newest - 1}).scan("trades").collect()


@pytest.mark.slow
@pytest.mark.parametrize(("stated", "goes"), [("interval 2 weeks", False), ("interval 1 day", True)])
def test_a_longer_retention_that_the_table_states_counts(
    lake: Lake, tape, *, stated: str, goes: bool
) -> None:
    fill(lake, tape, range(3))
    lake.delta("trades").alter.set_table_properties({"delta.logRetentionDuration": stated})
    keep(lake)
    aged(lake, WEEK + 60)
    fill(Lake(lake.path), tape, range(3, 5))
    keep(Lake(lake.path))
    assert (f"{0:020}.json" not in {path.name for path in log_of(lake)}) == goes


def test_compacting_writes_checkpoints(lake: Lake, tape) -> None:
    fill(lake, tape, range(3))
    compact(lake, progress=False)
    version = Lake(lake.path).version()["trades"]
    assert Path(lake.path, "trades", "_delta_log", f"{version:020}.checkpoint.parquet").exists()
    log = Path(lake.path, "trades", "_delta_log")
    for path in log.glob("*.json"):
        path.unlink()
    assert rows_of(lake).height == 60


def files_of(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{number}.csv" for number in range(count)]
    for number, path in enumerate(paths):
        lines = [f"{1_693_929_600 + 5 * number + place},100,1,buy,{5 * number + place}" for place in range(6)]
        path.write_text("timestamp,price,amount,side,id\n" + "\n".join(lines) + "\n")
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("tidy", [True, False])
def test_an_ingest_of_many_small_files_tidies_a_little(tmp_path: Path, *, tidy: bool) -> None:
    lake = empty_lake(tmp_path / "lake")
    market = Market(exchange="X", raw_symbol="BTC-USD")
    for path in files_of(tmp_path, 60):
        ingest(path, Lake(lake.path), Csv(), market=market, workers=1, tidy=tidy, progress=False)
    rows = Lake(lake.path).scan("trades").collect()
    assert sorted(map(int, rows["id"])) == list(range(301))
    count = len(Lake(lake.path)._files("trades", "X", "BTC-USD"))
    assert count <= 16 if tidy else count == 60
    assert check(Lake(lake.path)).sound


@pytest.mark.slow
def test_a_tidying_that_fails_does_not_fail_the_ingest(tmp_path: Path, monkeypatch, caplog) -> None:
    from tidytape.lake.hygiene import _merging

    def failing(*_: object, **__: object) -> int:
        raise LakeError("no room")

    monkeypatch.setattr(_merging, "merge_small", failing)
    lake = empty_lake(tmp_path / "lake")
    report = ingest(
        files_of(tmp_path, 9),
        lake,
        Csv(),
        market=Market(exchange="X", raw_symbol="BTC-USD"),
        workers=1,
        progress=False,
    )
    assert report.trades_new == 46
    assert "tidying trades failed" in caplog.text


def begun(lake: Lake, retention_hours: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _KEEP, lake.path, str(retention_hours)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.slow
def test_killed_at_any_moment_every_row_is_there_once(tmp_path: Path, tape) -> None:
    random_, killed, lasts = random.Random(7), 0, 1.0
    for trial in range(4 * KILLS):
        if killed == KILLS:
            break
        lake = empty_lake(tmp_path / f"{trial}")
        fill(lake, tape, range(20))
        expected = rows_of(lake)
        process = begun(lake, 0)
        began = time.monotonic()
        go(process)
        try:
            process.communicate(timeout=random_.uniform(0.0, lasts))
            lasts = min(lasts, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
        assert_frame_equal(rows_of(lake), expected)
        fill(Lake(lake.path), tape, range(18, 22))  # the writer goes on, with rows that are there already
        keep(Lake(lake.path), retention_hours=0)
        assert rows_of(lake).height == 440
        report = check(Lake(lake.path))
        assert report.sound
        assert not [finding for finding in report.findings if finding.check != "order"], str(report)
    assert killed == KILLS


@pytest.mark.slow
def test_beside_a_writer_every_row_is_there_once(lake: Lake, tape) -> None:
    fill(lake, tape, range(10))
    keepers = [begun(lake, 168) for _ in range(2)]
    for process in keepers:
        go(process)
    fill(lake, tape, range(10, 40))
    for process in keepers:
        process.communicate(timeout=120)
    assert [process.returncode for process in keepers] == [0, 0]
    assert rows_of(lake).height == 800
    assert not Lake(lake.path).scan("trades").select(TABLES["trades"].key).collect().is_duplicated().any()
    keep(Lake(lake.path))
    assert check(Lake(lake.path)).sound
    assert {report.table for report in keep(Lake(lake.path))} <= {*ROLLUP_TABLES}
