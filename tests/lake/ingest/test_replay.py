"""Recorded logs that are replayed: the lake that an ingest makes, in the order of the events."""

from __future__ import annotations

import gzip
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from followed import HEAD, SAID, ids, require_same, trades
from lakes import empty_lake
from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import BinanceWs, Csv, IngestReport, Market, Parquet, ingest
from tidytape.lake.record import replay


@pytest.mark.slow
def test_all_events_go_in_and_a_second_replay_finds_them(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(
        gzip.compress((HEAD + trades(*range(50)))[:-1].encode())
    )  # the last line lacks its newline
    whole = empty_lake(tmp_path / "whole")
    ingest(path, whole, Csv(), market=SAID)
    assert replay(path, lake, Csv(), market=SAID, speed=math.inf, every=10).trades_new == 50
    require_same(lake, whole)
    assert replay(path, lake, Csv(), market=SAID, speed=math.inf).trades_new == 0
    assert ids(lake) == list(range(50))


@pytest.mark.slow
def test_files_keep_step_by_the_times_of_their_events(lake: Lake, tmp_path: Path) -> None:
    paths = [tmp_path / "even", tmp_path / "odd"]
    for first, path in enumerate(paths):
        path.write_text(HEAD + trades(*range(first, 40, 2)))
    newest: list[int] = []

    def progress(report: IngestReport) -> None:
        newest.append(max(ids(lake)))
        assert {*range(newest[-1] - 10)} <= {*ids(lake)}

    replay(paths, lake, Csv(), market=SAID, speed=math.inf, every=10, progress=progress)
    assert newest == sorted(newest)
    assert newest[0] <= 10
    assert ids(lake) == list(range(40))


@pytest.mark.slow
def test_a_replay_that_was_stopped_goes_on(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD + trades(*range(40)))
    stop = threading.Event()

    def progress(report: IngestReport) -> None:
        stop.set()

    replay(path, lake, Csv(), market=SAID, speed=math.inf, every=10, stop=stop, progress=progress)
    assert 0 < len(ids(lake)) < 40
    replay(path, lake, Csv(), market=SAID, speed=math.inf, every=10)
    assert ids(lake) == list(range(40))


@pytest.mark.slow
def test_a_replay_that_goes_on_does_not_wait_for_what_is_there(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD + trades(*range(30)))
    replay(path, lake, Csv(), market=SAID, speed=math.inf, every=10)
    path.write_text(HEAD + trades(*range(40)))
    stop = threading.Event()
    given_up = threading.Timer(20, stop.set)
    given_up.start()
    # At this speed the first thirty take eight hours.
    replay(
        path, lake, Csv(), market=SAID, speed=0.001, every=0.1, stop=stop, progress=lambda report: stop.set()
    )
    given_up.cancel()
    assert 30 < len(ids(lake)) < 40


@pytest.mark.long
def test_it_lasts_as_long_as_the_recording_by_the_speed(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEAD + trades(*range(40)))
    rows: list[int] = []
    replay(
        path,
        lake,
        Csv(),
        market=SAID,
        speed=20,
        every=0.25,
        progress=lambda report: rows.append(report.trades_new),
    )
    assert len(rows) > 2  # as the machine allows
    assert rows == sorted(rows)
    assert rows[-1] == 40


@pytest.mark.parametrize(
    "wrong",
    [
        *({"speed": speed} for speed in (0, math.nan, 1e300)),
        *({"every": every} for every in (0, math.inf, 1e300)),
        {"keep": 1},
    ],
)
def test_what_cannot_be_right_is_refused(lake: Lake, tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(QueryError, match=next(iter(wrong))):
        replay(tmp_path / "log", lake, Csv(), market=SAID, **wrong)


def test_files_that_cannot_be_replayed_are_refused(lake: Lake, write: Callable[..., Path]) -> None:
    with pytest.raises(QueryError, match="parquet"):
        replay(write("a"), lake, Parquet(), market=SAID)
    with pytest.raises(IngestError, match="no lines"):
        replay(write(HEAD.strip()), lake, Csv(), market=SAID)
    with pytest.raises(IngestError, match="breaks off"):
        replay(broken(write("a" * 999, packed=True)), lake, Csv(), market=SAID)


def broken(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-9])
    return path


@pytest.mark.long
def test_recorded_messages_of_two_markets(recorded: Path, lake: Lake, tmp_path: Path) -> None:
    files = [recorded / f"binance-spot_ws_{symbol}_20240808.gz" for symbol in ("btcusdt", "ethusdt")]
    market = Market(exchange="BINANCE")
    whole = empty_lake(tmp_path / "whole")
    ingest(files, whole, BinanceWs(), market=market)
    replay(files, lake, None, market=market, speed=math.inf, every=20)
    require_same(lake, whole)
