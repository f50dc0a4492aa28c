"""A lake that small commits go into stays small, and its rows stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from followed import HEAD, SAID, ids, trades
from tidytape.lake import Lake
from tidytape.lake._delta import Facts
from tidytape.lake.hygiene import check, compact
from tidytape.lake.hygiene._merging import to_merge
from tidytape.lake.ingest import Csv
from tidytape.lake.record._follow import Follower
from tidytape.lake.record._tail import Log
from tidytape.lake.record._tidy import Tidier
from tidytape.lake.rollup import minutes


class Clock:
    """A clock that stands until it is set on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def fill(lake: Lake, path: Path, numbers: range, clock: Clock, tidier: Tidier) -> None:
    """Commit every trade by itself, one a second, and tidy every minute; each minute by a new follower."""
    for first in range(numbers.start, numbers.stop, 60):
        beside = Lake(lake.path)
        follower = Follower(beside, Csv(), SAID, skip_bad=False)
        log = Log(path, path.open("rb"))
        for number in range(first, min(first + 60, numbers.stop)):
            with path.open("a") as file:
                file.write(trades(number))
            log.read()
            assert follower.put(log)
            clock.now += 1
        log.close()
        tidier.tidy()


def files_of(lake: Lake) -> list[Path]:
    return [path for path in Path(lake.path).rglob("*") if path.is_file()]


@pytest.mark.slow
def test_files_are_merged_and_what_was_replaced_is_deleted_in_time(lake: Lake, tmp_path: Path) -> None:
    clock = Clock()
    tidier = Tidier(lake, keep=100, clock=clock)
    path = tmp_path / "log"
    path.write_text(HEAD)
    fill(lake, path, range(60), clock, tidier)
    lake = Lake(lake.path)
    assert ids(lake) == list(range(60))
    assert len(lake._files("trades", "X", "BTC-USD")) == 1
    stored = [file for file in files_of(lake) if file.parent.name == "raw_symbol=BTC-USD"]
    trades_stored = [file for file in stored if "trades" in file.parts]
    assert len(trades_stored) == 61  # a stream may go on from any of these versions
    clock.now += 99
    tidier.tidy()
    assert all(file.exists() for file in trades_stored)
    clock.now += 1
    tidier.tidy()
    assert sum(file.exists() for file in trades_stored) == 1
    assert ids(Lake(lake.path)) == list(range(60))


@pytest.mark.long
def test_two_thousand_small_commits_leave_some_hundred_files(lake: Lake, tmp_path: Path) -> None:
    clock = Clock()
    tidier = Tidier(lake, keep=0, clock=clock)
    path = tmp_path / "log"
    path.write_text(HEAD)
    fill(lake, path, range(2000), clock, tidier)
    tidier.tidy()
    lake = Lake(lake.path)
    assert ids(lake) == list(range(2000))
    assert len(files_of(lake)) < 200
    assert check(lake).sound
    first, last = lake.extent("trades", "X", "BTC-USD")
    assert first is not None
    assert last is not None
    minute = 60 * 10**9
    window = {"start": first // minute * minute, "end": last // minute * minute + minute}
    candles = minutes(lake, "candles_1m", exchange="X", raw_symbol="BTC-USD", **window).collect()
    assert candles["count_buy"].sum() if "count_buy" in candles.columns else candles.height == 2000 // 60 + 1


@pytest.mark.slow
def test_an_older_version_is_readable_after_a_merge(lake: Lake, tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "log"
    path.write_text(HEAD)
    fill(lake, path, range(20), clock, Tidier(lake, keep=900, clock=clock))
    delta = Lake(lake.path).delta("trades")
    delta.load_as_version(7)
    assert delta.to_pyarrow_table().num_rows == 7


def test_tables_that_nobody_writes_to_are_left_alone(lake: Lake) -> None:
    before = lake.version()
    Tidier(lake, keep=900).tidy()
    assert Lake(lake.path).version() == before


@pytest.mark.slow
def test_a_compaction_between_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    clock = Clock()
    tidier = Tidier(lake, keep=900, clock=clock)
    path = tmp_path / "log"
    path.write_text(HEAD)
    fill(lake, path, range(30), clock, tidier)
    rows = lake.scan("trades").collect().sort("sequence")
    compact(Lake(lake.path), everything=True, progress=False)
    tidier.tidy()
    assert_frame_equal(Lake(lake.path).scan("trades").collect().sort("sequence"), rows)
    fill(lake, path, range(30, 40), clock, tidier)
    assert ids(Lake(lake.path)) == list(range(40))


SIZES = st.lists(st.integers(1, 200 * 2**20), max_size=200)


@given(SIZES)
def test_merging_until_nothing_is_merged_leaves_few_files(sizes: list[int]) -> None:
    files = [Facts(size // 8, 0, 0, bytes=size, path=str(place)) for place, size in enumerate(sizes)]
    while chosen := to_merge(files):
        assert len(chosen) > 1
        rows = sum(file.rows or 0 for file in chosen)
        assert rows <= 4_000_000
        merged = Facts(rows, 0, 0, bytes=sum(file.bytes for file in chosen), path=f"{len(files)} {rows}")
        files = [file for file in files if file not in chosen] + [merged]
    # Under eight of each size, and full ones.
    small = [file for file in files if file.bytes < 8 * 2**20]
    assert len(small) <= 7 * 4
    assert sum(file.bytes for file in files) == sum(sizes)
