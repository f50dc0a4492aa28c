"""A rollup that is killed anywhere leaves what another run completes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lakes import empty_lake
from simulated import rollup_events as events
from thorough import often
from tidytape.lake import Lake
from tidytape.lake.rollup import ROLLUP_TABLES, rollup

KILLS = often(3, thoroughly=20)

_ROLLUP = """
import sys
from tidytape.lake import Lake
from tidytape.lake.rollup import rollup
rollup(Lake(sys.argv[1]))
"""


def filled(path: Path, seed: int, first: int, last: int) -> Lake:
    lake = empty_lake(path)
    events.market(lake)
    for number, (table, rows) in enumerate(events.pieces(seed, 40)):
        if first <= number < last:
            lake.writer().append(table, rows, source=str(number))
    return lake


def kept(lake: Lake) -> dict[str, pl.DataFrame]:
    return {
        name: pl.scan_delta(lake.delta(name)).select(table.names).collect().sort(table.order)
        for name, table in ROLLUP_TABLES.items()
        if lake.has_table(name)
    }


@pytest.mark.long
def test_killed_at_any_moment_the_next_run_completes_it(tmp_path):
    rng = np.random.default_rng(1)
    lake = filled(tmp_path / "undisturbed", 5, 0, 20)
    rollup(lake)  # half of it is rolled up before, so that old minutes are mended and new ones made
    filled(tmp_path / "undisturbed", 5, 20, 40)
    shutil.copytree(tmp_path / "undisturbed", tmp_path / "before")
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", _ROLLUP, lake.path], check=True, timeout=120)
    whole = time.monotonic() - began
    expected = kept(lake)
    killed = 0
    # On a busy machine some end before their moment: then there is another.
    for share in rng.uniform(0.2, 0.9, 4 * KILLS):
        if killed == KILLS:
            break
        shutil.copytree(tmp_path / "before", tmp_path / "lake")
        process = subprocess.Popen(
            [sys.executable, "-c", _ROLLUP, str(tmp_path / "lake")], stderr=subprocess.DEVNULL
        )
        try:
            process.wait(share * whole)
            whole *= 0.8  # it had ended by then, for it lasts less than was measured
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
        disturbed = Lake(tmp_path / "lake")
        rollup(disturbed)
        found = kept(disturbed)
        assert found.keys() == expected.keys()
        for name, rows in expected.items():
            assert found[name].equals(rows), name
        shutil.rmtree(tmp_path / "lake")
    assert killed == KILLS


@pytest.mark.long
def test_two_rollups_at_once_make_what_one_does(tmp_path):
    lake = filled(tmp_path / "lake", 7, 0, 30)
    shutil.copytree(tmp_path / "lake", tmp_path / "alone")
    alone = Lake(tmp_path / "alone")
    rollup(alone)
    command = [sys.executable, "-c", _ROLLUP, lake.path]
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    expected = kept(alone)
    for name, rows in kept(Lake(lake.path)).items():
        assert rows.equals(expected[name]), name
