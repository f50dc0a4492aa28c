"""A follower and a replay that die between the commits of several tables: every row once, whatever comes after."""

from __future__ import annotations

import errno
import itertools
import json
import math
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from followed import require_same
from lakes import empty_lake
from thorough import often
from tidytape.errors import LakeError
from tidytape.lake import Lake, _commit
from tidytape.lake.hygiene import check
from tidytape.lake.ingest import Market, TardisNode, ingest
from tidytape.lake.record import follow, replay

COIN = Market(amount_unit="coin")
TRIALS = often(3, thoroughly=60)


class Died(BaseException):
    """What ends a process at once: no handler of the library may catch it."""


def messages(count: int) -> list[str]:
    """Lines of four tables: trades, funding, open interest and liquidations."""
    lines = []
    for number in range(count):
        time = f"2024-08-08T00:00:{number:02d}.000Z"
        base = {
            "symbol": "BTC-PERPETUAL",
            "exchange": "deribit",
            "timestamp": time,
            "localTimestamp": time,
            "side": "buy",
        }
        lines += [
            {"type": "trade", "id": f"{number}", "price": 100 + number % 7, "amount": 1, **base},
            {"type": "derivative_ticker", "openInterest": 9 + number, "fundingRate": number / 1e5, **base},
            {"type": "liquidation", "id": f"l{number}", "price": 100, "amount": 1, **base},
        ]
    return [json.dumps(line) + "\n" for line in lines]


def dying(
    monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException, *, after: bool
) -> pytest.MonkeyPatch:
    """Let the commit number ``at`` of rows fail, before or after it is in the log."""
    numbers, commit = itertools.count(1), _commit.commit

    def failing(*arguments: Any, **more: Any) -> None:
        is_it = next(numbers) == at
        if not is_it or after:
            commit(*arguments, **more)
        if is_it:
            raise error

    monkeypatch.setattr(_commit, "commit", failing)
    return monkeypatch


class Appending(threading.Event):
    """A stop that appends the next lines whenever the follower has nothing to do, and is set after the last ones."""

    def __init__(self, path: Path, pieces: list[str]) -> None:
        super().__init__()
        self._path, self._pieces = path, pieces

    def wait(self, timeout: float | None = None) -> bool:
        if not self._pieces:
            self.set()
            return True
        self.append()
        return False

    def append(self) -> None:
        with self._path.open("a") as file:
            file.write(self._pieces.pop(0))


@pytest.fixture
def lines() -> list[str]:
    return messages(24)


@pytest.fixture
def whole(lines: list[str], tmp_path: Path) -> Lake:
    (tmp_path / "whole.log").write_text("".join(lines))
    lake = empty_lake(tmp_path / "whole")
    ingest(tmp_path / "whole.log", lake, TardisNode(), market=COIN)
    return lake


def go_on(run: Callable[[], object]) -> bool:
    """Run what dies at some commit; return whether it did."""
    try:
        run()
    except (Died, LakeError):
        return True
    return False


def errors(number: int) -> BaseException:
    return OSError(errno.ENOSPC, "No space left on device") if number % 3 == 0 else Died()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_follower_that_dies_between_two_tables_goes_on(
    seed: int, lines: list[str], whole: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    path, lake = tmp_path / "log", empty_lake(tmp_path / "lake")
    cuts = [0, *sorted(random_.sample(range(1, len(lines)), 8)), len(lines)]
    pieces = ["".join(lines[first:last]) for first, last in itertools.pairwise(cuts)]
    deaths = 0
    while pieces:
        appending = Appending(path, [pieces.pop(0) for _ in pieces[:3]])

        def run(appending: Appending = appending) -> object:
            return follow(
                path, lake, TardisNode(), market=COIN, every=1e-9, tidy=None, stop=appending
            )  # fmt: skip

        with monkeypatch.context() as patch:
            dying(patch, random_.randint(1, 8), errors(deaths + seed), after=random_.random() < 0.5)
            deaths += go_on(run)
        while appending._pieces:  # the recorder goes on
            appending.append()
    stop = threading.Event()
    stop.set()
    follow(path, lake, TardisNode(), market=COIN, tidy=None, stop=stop)
    assert deaths
    require_same(Lake(lake.path), whole)
    report = check(Lake(lake.path))
    assert report.sound
    assert not report.findings, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_replay_that_dies_between_two_tables_goes_on(
    seed: int, lines: list[str], whole: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    path, lake = tmp_path / "log", empty_lake(tmp_path / "lake")
    path.write_text("".join(lines))

    def run() -> object:
        return replay(path, lake, TardisNode(), market=COIN, speed=math.inf, every=3, tidy=None)

    for number in range(3):
        with monkeypatch.context() as patch:
            dying(patch, random_.randint(1, 12), errors(number + seed), after=random_.random() < 0.5)
            go_on(run)
    run()
    require_same(Lake(lake.path), whole)
    assert check(Lake(lake.path)).sound
