"""A download that is killed, again and again: the run that ends has the lake of a run that was never killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import date

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mirror import Mirror, answers, breaks_off, put_binance
from thorough import often
from tidytape.lake import TABLES, Lake

KILLS = often(4, thoroughly=30)
COMMAND = [sys.executable, "-c", "from tidytape.cli import main; main()", "download", "binance", "BTCUSDT"]


def start(mirror, folder, lake):
    window = [
        "--start",
        "2024-08-01",
        "--end",
        "2024-08-04",
        "--data",
        "candles,trades,funding,open_interest",
    ]
    where = ["--lake", str(lake), "--folder", str(folder), "--mirror", mirror.address, "--market", "um"]
    return subprocess.Popen(
        [*COMMAND, *window, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def rows(lake):
    opened = Lake(lake)
    return {name: opened.scan(name).collect().sort(pl.all()) for name in TABLES if name != "markets"} | {
        "markets": opened.markets()
    }


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_random_moments_a_download_ends_with_the_lake_of_one_run(tmp_path, sign):
    mirror = Mirror()
    put_binance(mirror, date(2024, 8, 1), 3, trades=2_000)
    for path in [path for path in mirror.files if path.endswith(".zip")]:
        mirror.faults[path] = breaks_off(30_000)
    moments = random.Random(sign)
    with mirror.served():
        process = start(mirror, tmp_path / "files", tmp_path / "once")
        began = time.monotonic()
        text, _ = process.communicate(timeout=120)
        takes = time.monotonic() - began
        assert process.returncode == 0, text
        want = rows(tmp_path / "once")
        killed = lakes = 0
        while killed < KILLS or process.returncode:
            process = start(mirror, tmp_path / "files", tmp_path / str(lakes))
            try:
                process.wait(moments.uniform(0.1, 1) * takes if killed < KILLS else 120)
            except subprocess.TimeoutExpired:
                process.send_signal(sign)
                killed += 1
            text, _ = process.communicate(timeout=60)
            assert process.returncode in {0, 130, -sign}, text
            # Python prints an interrupt that comes while it collects garbage, and goes on.
            assert "Traceback" not in text or "Exception ignored" in text or process.returncode == -sign, text
            if process.returncode == 0:
                got = rows(tmp_path / str(lakes))
                for name in want:
                    assert_frame_equal(got[name], want[name])
                lakes += 1
    # Nothing is left behind but the locks.
    assert {path.name for path in (tmp_path / "files").rglob("*") if path.is_file()} <= {".lock"}


@pytest.mark.slow
def test_an_interrupt_ends_a_download_that_waits(tmp_path):
    """polars replaces the handler of the signal, after which a wait without an end is not interrupted."""
    mirror = Mirror()
    put_binance(mirror, date(2024, 8, 1), 3, trades=10)
    for path in [path for path in mirror.files if path.endswith(".zip")]:
        mirror.faults[path] = answers(429, Retry_After="100")
    with mirror.served():
        process = start(mirror, tmp_path / "files", tmp_path / "lake")
        while not mirror.asked:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=20)
    assert process.returncode == 130, text
    assert "what came so far is in the lake; the same command goes on" in text
    assert not (tmp_path / "lake").exists()
