"""Processes that share a cache, against a service in a process of its own: what one fetches no other pays for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidytape
from served import served
from simulated.everything import START, everything
from tidytape.service import KeyFile, tiers_of

pytestmark = pytest.mark.slow

S0 = START // 10**9
DAYS = 50
CHUNK = 40  # weight of one request: four thousand points of a type of 10x
ASKED = {
    "exchange": "X", "coin": "BTC", "interval": "1m", "start": S0 + 7_200 - DAYS * 86_400, "end": S0 + 7_200,
}  # fmt: skip
WHOLE = DAYS * 1_440 // 1_000 * 10
TIERS = '[vast]\nper_minute = 100000\nburst = 200000\ntypes = "enterprise"\n'

PROGRAM = """
import json, sys, tidytape
address, key, folder, asked = sys.argv[1:]
with tidytape.Client(address, key, cache=folder, progress=False, parallel=2) as client:
    sys.stdin.read(1)  # until all of them are there
    told = client.fetch(client.query.book_heatmap(**json.loads(asked))).metadata
    print(told.weight, told.requests, told.hash)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """An address, and a key of it."""
    folder = tmp_path_factory.mktemp("processes")
    lake = everything(folder / "lake")
    tiers = folder / "tiers.toml"
    tiers.write_text(TIERS)
    _, secret = KeyFile(folder / "keys.json", tiers=tiers_of(tiers)).new("vast")
    words = ("--lake", lake.path, "--keys", folder / "keys.json", "--tiers", tiers, "--workers", 1)
    with served(folder / "log", *words) as address:
        yield address, secret


def fetching(service: tuple[str, str], folder: Path, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *service, str(folder), json.dumps(ASKED | more)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_fetch_the_same_at_once_pay_for_it_once(
    service: tuple[str, str], tmp_path: Path, count: int
) -> None:
    crew = [fetching(service, tmp_path) for _ in range(count)]
    told = []
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in crew:
        said, _ = one.communicate(timeout=120)
        told.append(said.split())
    assert WHOLE <= sum(int(weight) for weight, _, _ in told) <= WHOLE + CHUNK
    assert len({digest for _, _, digest in told}) == 1


def test_a_fetch_that_was_killed_is_finished_by_the_next_for_what_was_missing(
    service: tuple[str, str], tmp_path: Path
) -> None:
    killed = fetching(service, tmp_path)
    assert killed.stdin is not None
    killed.stdin.write("\n")
    killed.stdin.flush()
    until = time.monotonic() + 60
    while len(list(tmp_path.rglob("*.parquet"))) < 5:
        assert time.monotonic() < until
        assert killed.poll() is None
        time.sleep(0.002)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    spans = [path.stem.split("-")[:2] for path in tmp_path.rglob("[0-9]*.parquet")]
    kept = sum((int(end) - int(start)) // 60_000 * 10 for start, end in spans)
    assert CHUNK <= kept < WHOLE
    said, _ = fetching(service, tmp_path).communicate("\n", timeout=120)
    weight, requests, digest = said.split()
    assert int(weight) == WHOLE - kept
    assert 0 < int(requests) < -(-WHOLE // CHUNK)
    with tidytape.Client(*service) as client:
        told = client.fetch(client.query.book_heatmap(**ASKED)).metadata  # type: ignore[arg-type]
    assert (told.weight, told.hash) == (WHOLE, digest)
