"""Small answers in threads of the service: keys take turns, and what takes too long is thrown away."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, Processes, create_app, hashed
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._scan import UNHURRIED
from tidytape.service.work._computing import Answer, AnswerTask, OverloadedError, StoppedError, Task
from tidytape.service.work._desks import SmallDesks, SmallFirst

T0 = 1_723_161_600
QUERY = PointsQuery(type="TRADE", exchange="ALPHA", raw_symbol="BTCUSDT", start=T0, end=T0 + 60)


def task(key: str = "a") -> Task:
    return AnswerTask(QUERY, {}, "application/json", "", key=key, small=True)


@dataclass
class Held:
    """Computations that wait for a gate, and whose tasks are noted when they begin."""

    gate: threading.Event = field(default_factory=threading.Event)
    begun: list[str] = field(default_factory=list)

    def __call__(self, engine: Engine, one: Task) -> Answer:
        self.begun.append(one.key)
        assert self.gate.wait(30)
        return Answer(one.key.encode(), {}, 1)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    one = Held()
    monkeypatch.setattr("tidytape.service.work._desks.computed", one)
    yield one
    one.gate.set()


@pytest.fixture
def desks_of(lake: Path) -> Iterator[Callable[..., SmallDesks]]:
    made: list[SmallDesks] = []

    def make(**options: Any) -> SmallDesks:
        bounds = {"desks": 1, "waiting": 100, "waiting_of_key": 100, "seconds": 30.0, **options}
        made.append(SmallDesks(Engine(Lake(lake)), **bounds))
        return made[-1]

    yield make
    for one in made:
        one.close()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError


def outcomes(*work: Coroutine[Any, Any, Answer]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*work, return_exceptions=True)

    return asyncio.run(all_of_them())


def test_keys_take_turns(desks_of: Callable[..., SmallDesks], held: Held) -> None:
    desks = desks_of()

    async def three_of_one_and_one_of_another() -> None:
        asked = [asyncio.ensure_future(desks.run(task(key))) for key in ("a", "a", "a", "b")]
        await until(lambda: desks.waiting == 3)
        held.gate.set()
        assert [one.body for one in await asyncio.gather(*asked)] == [b"a", b"a", b"a", b"b"]

    asyncio.run(three_of_one_and_one_of_another())
    assert held.begun == ["a", "a", "b", "a"]


def test_what_takes_too_long_is_thrown_away_and_the_desk_goes_on(
    desks_of: Callable[..., SmallDesks], held: Held
) -> None:
    desks = desks_of(seconds=0.3)
    began = time.monotonic()
    (late,) = outcomes(desks.run(task()))
    assert isinstance(late, StoppedError)
    assert late.too_long
    assert time.monotonic() - began < 10
    held.gate.set()
    (answer,) = outcomes(desks.run(task("b")))
    assert answer.body == b"b"


@pytest.mark.slow
def test_the_time_that_a_task_waits_does_not_count(desks_of: Callable[..., SmallDesks], held: Held) -> None:
    desks = desks_of(seconds=1.0)

    async def one_behind_another() -> None:
        first = asyncio.ensure_future(desks.run(task("a")))
        second = asyncio.ensure_future(desks.run(task("b")))
        with pytest.raises(StoppedError):
            await first
        await asyncio.sleep(0.5)
        assert not second.done()  # it has waited for longer than it may compute
        held.gate.set()
        assert (await second).body == b"b"

    asyncio.run(one_behind_another())


def test_too_many_tasks_are_refused(desks_of: Callable[..., SmallDesks], held: Held) -> None:
    desks = desks_of(waiting=2)

    async def four_at_once() -> list[Any]:
        asked = [asyncio.ensure_future(desks.run(task(key))) for key in ("a", "b", "c", "d")]
        await until(lambda: any(one.done() for one in asked))
        held.gate.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(four_at_once())
    assert [type(one) for one in found] == [Answer, Answer, Answer, OverloadedError]
    held.gate.clear()
    while desks.busy:  # the thread of the desk has not put it back yet
        time.sleep(0.01)
    desks.drain()

    async def after_the_end() -> Any:
        first, second = (asyncio.ensure_future(desks.run(task(key))) for key in ("a", "b"))
        refused = await asyncio.gather(second, return_exceptions=True)
        held.gate.set()
        await first
        return refused[0]

    assert isinstance(asyncio.run(after_the_end()), OverloadedError)


def test_who_hangs_up_before_his_turn_is_not_computed(
    desks_of: Callable[..., SmallDesks], held: Held
) -> None:
    desks = desks_of()

    async def one_goes() -> None:
        first = asyncio.ensure_future(desks.run(task("a")))
        gone_task = task("b")
        gone = asyncio.ensure_future(desks.run(gone_task))
        await until(lambda: desks.waiting == 1 and held.begun == ["a"])
        gone.cancel()
        await until(lambda: desks.waiting == 0)
        held.gate.set()
        await first
        assert not gone_task.begun

    asyncio.run(one_goes())
    assert held.begun == ["a"]


def test_a_panic_of_a_library_ends_one_answer_alone(
    desks_of: Callable[..., SmallDesks], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):  # as Rust's are
        pass

    def panics(engine: Engine, one: Task) -> Answer:
        if one.key == "a":
            raise PanicException("of the test")
        return Answer(b"", {}, 0)

    monkeypatch.setattr("tidytape.service.work._desks.computed", panics)
    desks = desks_of()
    first, second = outcomes(desks.run(task("a")), desks.run(task("b")))
    assert isinstance(first, RuntimeError)
    assert "PanicException: of the test" in str(first)
    assert isinstance(second, Answer)


class Others:
    """What computes in processes, as far as `SmallFirst` knows it."""

    limits, ended, waiting = UNHURRIED, 2, 3

    def __init__(self) -> None:
        self.asked: list[Task] = []

    async def run(self, one: Task) -> Answer:
        self.asked.append(one)
        return Answer(b"other", {}, 1)

    def drain(self) -> None:
        self.asked.clear()

    def close(self) -> None:
        self.asked.clear()


def test_small_answers_are_computed_here_and_all_others_elsewhere(
    desks_of: Callable[..., SmallDesks], lake: Path
) -> None:
    small, others = desks_of(), Others()
    computing = SmallFirst(small, others)  # type: ignore[arg-type]
    app = create_app(
        Lake(lake), Keys([Key("k", hashed("key"), "enterprise", created=0)]), computing=computing
    )
    window = {"exchange": "ALPHA", "rawSymbol": "BTCUSDT", "interval": "MINUTE", "from": T0, "period": 600}

    def get(**more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.get(
                    "/v1/points", params={**window, **more}, headers={"X-Service-Key": "key"}
                )

        return asyncio.run(ask())

    assert get(type="TRADE_SIDE_AGNOSTIC_AGG").json()["series"]
    assert not others.asked
    # How far back the last close lies nobody knows before.
    assert get(type="TRADE_SIDE_AGNOSTIC_AGG", gapfill="true").content == b"other"
    assert [one.small for one in others.asked] == [False]
    assert (computing.ended, computing.waiting) == (2, 3)


@pytest.mark.slow
def test_the_service_ends_with_both(lake: Path) -> None:
    processes = Processes(Lake(lake), workers=1)
    small = SmallDesks(Engine(Lake(lake)), desks=1, waiting=1, waiting_of_key=1, seconds=30)
    computing = SmallFirst(small, processes)
    computing.drain()
    computing.close()
    assert not [one for one in threading.enumerate() if one in small._threads or one in processes._threads]
