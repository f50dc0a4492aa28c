"""No answer is older than the newest commit when its request arrived, and one request looks once per table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import object_store
from tidytape import Client
from tidytape.lake import Lake, _delta
from tidytape.lake.rollup import rollup
from tidytape.service.answer._engine import Engine
from tidytape.times import MINUTE, SECOND

FIRST = 1_722_988_800  # 2024-08-07T00:00:00Z
MARKET = {"exchange": "X", "raw_symbol": "BTC"}
READERS = 3


def trade(number: int) -> pl.DataFrame:
    """Return one trade, in a minute of its own."""
    row = {
        **MARKET, "id": str(number), "timestamp": FIRST * SECOND + number * MINUTE, "sequence": number, "side": "BUY",
        "price": 100.0 + number, "amount": 1.0, "quote_amount": 100.0 + number,
    }  # fmt: skip
    return pl.DataFrame([row])


def filled(lake: Lake) -> Lake:
    lake.writer().register(
        pl.DataFrame([{**MARKET, "coin": "BTC", "quote_coin": "USDT", "category": "SPOT"}])
    )
    lake.writer().append("trades", trade(0), source="0")
    return lake


def require_fresh(path: str, ask: Callable[[Client], int], *, commits: int) -> int:
    """Write to a lake while readers ask; return how many answers they had, each with every trade committed before."""
    committed, problems, answers = [1], [], Counter[int]()
    over = threading.Event()

    def read(number: int) -> None:
        with Client.local(path, cache=False, progress=False) as client:
            while not over.is_set():
                before = committed[0]
                found = ask(client)
                if found < before:
                    problems.append((before, found))
                answers[number] += 1

    readers = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for one in readers:
        one.start()
    lake = Lake(path)
    try:
        for number in range(1, commits):
            lake.writer().append("trades", trade(number), source=str(number))
            committed[0] = number + 1
            if number % 5 == 0:
                rollup(lake, progress=False)
    finally:
        over.set()
        for one in readers:
            one.join()
    assert problems == []
    assert len(answers) == READERS
    return answers.total()


def candles(client: Client) -> int:
    return len(client.candles(**MARKET, interval="1m", start=FIRST, end=FIRST + 7_200))


def hourly(client: Client) -> int:
    """Return how many trades the candles of an hour add up to, each of one coin."""
    return round(client.candles(**MARKET, interval="1h", start=FIRST, end=FIRST + 7_200)["volume"].sum())


def profile(client: Client) -> int:
    """Return how many trades a profile adds up to: its minutes are kept in memory, its levels are not."""
    window = {"start": FIRST, "end": FIRST + 7_200}
    return round(client.volume_profile(**MARKET, interval="1d", block_size=1, **window)["volume"].sum())


def test_answers_are_as_new_as_the_lake(tmp_path: Path) -> None:
    filled(Lake.create(tmp_path / "lake"))
    assert require_fresh(str(tmp_path / "lake"), candles, commits=6) >= READERS


@pytest.mark.long
@pytest.mark.parametrize("ask", [candles, hourly, profile])
def test_answers_of_any_kind_are_as_new_as_the_lake(tmp_path: Path, ask: Callable[[Client], int]) -> None:
    filled(Lake.create(tmp_path / "lake"))
    assert require_fresh(str(tmp_path / "lake"), ask, commits=25) > READERS


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store.served() as address:
        yield address


@pytest.fixture
def bucket(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    return object_store.emptied(address, monkeypatch, tmp_path)


@pytest.mark.long
def test_answers_are_as_new_as_a_lake_in_an_object_store(bucket: str) -> None:
    filled(Lake.create(f"s3://{bucket}/lake"))
    assert require_fresh(f"s3://{bucket}/lake", candles, commits=12) > READERS


# --- looks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often a look decides whether a table has a newer version, by table."""
    counts, look = Counter[str](), _delta.is_newest

    def counted(delta: _delta.Opened, options: Any) -> bool:
        counts[delta.table_uri.rstrip("/").rpartition("/")[2]] += 1
        return look(delta, options)

    monkeypatch.setattr(_delta, "is_newest", counted)
    return counts


def test_one_request_looks_once_per_table(tmp_path: Path, looks: Counter[str]) -> None:
    lake = filled(Lake.create(tmp_path / "lake"))
    rollup(lake, progress=False)
    with Client.local(tmp_path / "lake", cache=False, progress=False) as client:
        for ask in (candles, hourly, profile):
            ask(client)  # opens the tables
            looks.clear()
            ask(client)
            assert set(looks.values()) == {1}


def test_a_moment_does_not_change_and_the_next_one_is_new(tmp_path: Path) -> None:
    lake = filled(Lake.create(tmp_path / "lake"))
    before = lake.now()
    assert before.scan("trades").collect().height == 1
    lake.writer().append("trades", trade(1), source="1")
    assert before.scan("trades").collect().height == 1
    assert before.now().version() == before.version()
    assert lake.now().scan("trades").collect().height == 2


def test_a_table_counts_from_when_it_is_first_asked_for(tmp_path: Path) -> None:
    lake = filled(Lake.create(tmp_path / "lake"))
    lake.scan("trades").collect()
    moment = lake.now()
    lake.writer().append("trades", trade(1), source="1")
    assert moment.scan("trades").collect().height == 2


def test_requests_that_wait_share_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = filled(Lake.create(tmp_path / "lake"))
    lake.delta("trades")
    begun, go, count, look = threading.Event(), threading.Event(), [0], _delta.is_newest

    def slow(delta: _delta.Opened, options: Any) -> bool:
        count[0] += 1
        begun.set()
        assert go.wait(30)
        return look(delta, options)

    monkeypatch.setattr(_delta, "is_newest", slow)
    first = threading.Thread(target=lake.delta, args=("trades",))
    first.start()
    assert begun.wait(30)
    others = [threading.Thread(target=lake.delta, args=("trades",)) for _ in range(20)]
    for one in others:
        one.start()
    time.sleep(0.2)
    go.set()
    for one in [first, *others]:
        one.join()
    # One for the first, and one more that began after the others had asked.
    assert count[0] == 2


def test_an_engine_at_a_moment_reads_that_moment(tmp_path: Path) -> None:
    from tidytape.query import PointsQuery

    lake = filled(Lake.create(tmp_path / "lake"))
    asked = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", **MARKET, interval="1m", start=FIRST, end=FIRST + 7_200
    )
    engine = Engine(lake)
    moment = engine.at(lake.now())
    markets = moment.markets(asked)
    assert moment.frames(asked, markets)[0][1].height == 1
    lake.writer().append("trades", trade(1), source="1")
    assert moment.frames(asked, markets)[0][1].height == 1
    assert engine.frames(asked, markets)[0][1].height == 2
