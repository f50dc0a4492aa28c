"""A pull that is killed, again and again: the run that ends has the lake of a run that was never killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from exchange_apis import opened
from thorough import often
from tidytape.lake import Lake

KILLS = often(3, thoroughly=30)
SCRIPT = """
import sys, ccxt, tidytape
exchange = ccxt.bybit({"rateLimit": 1})
exchange.urls["api"] = dict.fromkeys(exchange.urls["api"], sys.argv[1])
symbols, data = ["BTC/USDT:USDT", "BTC/USD:BTC"], ["candles", "funding", "open_interest", "trades"]
tidytape.pull(exchange, symbols, data=data, since="2d", lake=sys.argv[2], progress=False)
"""


def start(address: str, lake: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, address, str(lake)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    )


def rows(lake: Path) -> dict[str, pl.DataFrame]:
    tables = ("candles", "funding", "open_interest", "trades")
    frames = {name: Lake(lake).scan(name).collect().sort(pl.all()) for name in tables}
    return frames | {"markets": Lake(lake).markets()}


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_random_moments_a_pull_ends_with_the_lake_of_one_run(
    tmp_path: Path, sign: signal.Signals
) -> None:
    moments = random.Random(sign)
    with opened("bybit") as exchange:
        address = exchange.urls["api"]["public"]
        began = time.monotonic()
        process = start(address, tmp_path / "once")
        text, _ = process.communicate(timeout=120)
        took = time.monotonic() - began
        assert process.returncode == 0, text
        for _ in range(KILLS):
            process = start(address, tmp_path / "killed")
            try:
                process.wait(moments.uniform(0.3, 1) * took)
            except subprocess.TimeoutExpired:
                process.send_signal(sign)
            process.communicate(timeout=60)
        process = start(address, tmp_path / "killed")
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0, text
    whole = rows(tmp_path / "once")
    for name, frame in rows(tmp_path / "killed").items():
        assert_frame_equal(frame, whole[name])
