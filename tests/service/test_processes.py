"""Answers that are computed in worker processes: the same ones, in turns, and stopped only where they must be."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidytape.lake import Lake
from tidytape.service import Key, Keys, Processes, create_app, hashed
from tidytape.service.answer._estimate import Estimate

pytestmark = pytest.mark.slow

T0 = 1_723_161_600
KEY = {"X-Service-Key": "enterprise-key"}


def worker(change: str) -> list[str]:
    """The command of a worker in which ``computed`` is changed by some code."""
    modules = "import os, time\nfrom tidytape.service.work import _computing as task, _worker as worker\n"
    return [sys.executable, "-c", f"{modules}computed = task.computed\n{change}\nworker.main()"]


def slow(seconds: float) -> list[str]:
    """A worker in which every answer takes long."""
    return worker(
        f"def late(*args):\n    time.sleep({seconds})\n    return computed(*args)\ntask.computed = late"
    )


GREEDY = worker("task.computed = lambda *args: bytearray(8 << 30)")
LARGE = worker("task._LARGE = 10")  # every body is a large one
FAILING = worker("def fail(*args):\n    raise ZeroDivisionError('of the test')\ntask.computed = fail")
CHATTY = worker(
    "def chat(*args):\n    os.write(1, b'noise')\n    print('more')\n    return computed(*args)\ntask.computed = chat"
)


@pytest.fixture
def processes_of(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Processes]]:
    made: list[Processes] = []

    def make(command: list[str] | None = None, **options: Any) -> Processes:
        if command is not None:
            monkeypatch.setattr(Processes, "command", command)
        made.append(Processes(Lake(lake), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def app_with(computing: Processes, lake: Path) -> Any:
    keys = Keys(
        [Key(name, hashed(f"{name}-key"), "enterprise", created=0) for name in ("enterprise", "other")]
    )
    return create_app(Lake(lake), keys, computing=computing)


@pytest.fixture
def app_of(processes_of: Callable[..., Processes], lake: Path) -> Callable[..., Any]:
    return lambda command=None, **options: app_with(processes_of(command, **options), lake)


def asked(
    app: Any, count: int, params: dict[str, Any], timeout: float = 60, headers: dict[str, str] | None = None
) -> list[httpx.Response]:
    async def all_at_once() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service", headers=KEY) as client:
            return await asyncio.gather(
                *(
                    client.get("/v1/points", params=params, timeout=timeout, headers=headers)
                    for _ in range(count)
                )
            )

    return asyncio.run(all_at_once())


def used(app: Any) -> int:
    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service", headers=KEY) as client:
            return int((await client.get("/v1/usage")).json()["used"])

    return asyncio.run(ask())


def test_processes_answer_what_threads_do(app_of: Any, service: Any, window: Any) -> None:
    app = app_of(workers=2)
    for params in (window(), window(type="TPO_AGG", interval="DAY", period=86_400), window(type="TRADE")):
        (answer,) = asked(app, 1, params)
        assert answer.status_code == 200
        assert answer.json() == service.get("/v1/points", params=params).json()
    (refused,) = asked(app, 1, window(rawSymbol="NOPE"))
    assert refused.status_code == 400
    (unfit,) = asked(
        app, 1, window(type="VOLUME_PROFILE_AGG", rawSymbol="HUGE")
    )  # found out while it is computed
    assert (unfit.status_code, unfit.json()["error"]) == (400, "INVALID_PARAMS")


def test_a_worker_that_is_ready_has_imported_what_an_answer_needs(lake: Path) -> None:
    program = f"""
import sys
from tidytape.lake import Lake
from tidytape.service.answer._engine import Engine
from tidytape.service.work._computing import warm_up
from tidytape.query import PointsQuery
from tidytape.wire._encode import encode_all
engine = Engine(Lake({str(lake)!r}))
warm_up(engine)
before = set(sys.modules)
query = PointsQuery(
    type="TPO_AGG", exchange="ALPHA", raw_symbol="BTCUSDT", interval="1d", start={T0 - 86_400}, end={T0 + 86_400}
)
frames = engine.frames(query, engine.markets(query))
assert len(encode_all(frames, [])) > 100
print(sorted(name for name in set(sys.modules) - before if not name.startswith("polars.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", [None, worker("os._exit(1)")])
def test_workers_are_waited_for_until_they_are_ready_or_have_failed(
    processes_of: Any, command: list[str] | None
) -> None:
    processes = processes_of(command, workers=2)
    processes.get_ready()
    assert [desk._is_ready for desk in processes._desks] == [command is None] * 2


def test_large_answers_are_the_same_ones(app_of: Any, service: Any, window: Any) -> None:
    app = app_of(LARGE, workers=1)
    plain = {"Accept-Encoding": "identity"}
    for headers in (plain, plain | {"Accept": "application/vnd.apache.arrow.stream"}):
        expected = service.get("/v1/points", params=window(), headers=headers)
        for _ in range(2):
            (answer,) = asked(app, 1, window(), headers=headers)
            assert (answer.status_code, answer.content) == (200, expected.content)
            assert answer.headers["content-type"] == expected.headers["content-type"]
            assert answer.headers["content-length"] == str(len(expected.content))


def test_what_takes_too_long_is_stopped_and_free(app_of: Any, window: Any) -> None:
    app = app_of(slow(60), workers=1, seconds=0.5)
    began = time.monotonic()
    (answer,) = asked(app, 1, window())
    assert (answer.status_code, answer.json()["error"]) == (504, "TIMEOUT")
    assert time.monotonic() - began < 30
    assert used(app) == 1  # it has kept the service busy
    # The process is gone, not merely forgotten: another one takes the next task.
    assert asked(app, 1, window())[0].status_code == 504
    assert "tidytape_workers_ended_total 2.0" in metrics(app)


def metrics(app: Any) -> str:
    async def ask() -> str:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return (await client.get("/metrics")).text

    return asyncio.run(ask())


def test_what_takes_too_much_memory_ends_alone(app_of: Any, window: Any) -> None:
    app = app_of(GREEDY, workers=1, memory=1 << 30)
    (answer,) = asked(app, 1, window())
    assert (answer.status_code, answer.json()["error"]) == (500, "INTERNAL_ERROR")
    assert used(app) == 0


def test_a_worker_that_somebody_ends_is_replaced(processes_of: Any, lake: Path, window: Any) -> None:
    computing = processes_of(workers=1)
    app = app_with(computing, lake)
    assert asked(app, 1, window())[0].status_code == 200
    os.kill(computing._desks[0]._process.pid, signal.SIGKILL)
    assert asked(app, 1, window())[0].status_code in {200, 500}
    assert asked(app, 1, window())[0].status_code == 200
    assert computing.ended == 1


def test_what_fails_says_where_it_failed_and_ends_no_worker(
    processes_of: Any, lake: Path, window: Any, caplog: pytest.LogCaptureFixture
) -> None:
    computing = processes_of(FAILING, workers=1)
    app = app_with(computing, lake)
    (answer,) = asked(app, 1, window())
    assert (answer.status_code, answer.json()["error"]) == (500, "INTERNAL_ERROR")
    assert "of the test" not in answer.text
    assert "In the worker process" in caplog.text
    assert "in fail" in caplog.text
    assert computing.ended == 0
    assert used(app) == 0


def test_what_a_library_prints_does_not_get_between_the_answers(app_of: Any, window: Any) -> None:
    assert asked(app_of(CHATTY, workers=1), 1, window())[0].status_code == 200


def test_a_worker_loads_no_command_line_no_client_and_no_web_framework() -> None:
    code = "import json, sys, tidytape.service.work._worker; print(json.dumps(list(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(json.loads(said))
    heavy = {"typer", "starlette", "httpx", "matplotlib", "pandas", "scipy", "prometheus_client"}
    assert not loaded & {
        *heavy,
        "tidytape.cli",
        "tidytape.client",
        "tidytape.plot",
        "tidytape.service.http._app",
    }


def test_a_queue_that_is_full_takes_no_more(app_of: Any, window: Any) -> None:
    app = app_of(slow(0.8), workers=1, waiting=2)
    answers = asked(app, 8, window())
    statuses = sorted(one.status_code for one in answers)
    assert statuses == [200] * 3 + [503] * 5
    full = next(one for one in answers if one.status_code == 503)
    assert full.headers["Retry-After"] == "2"
    assert full.json()["error"] == "UNAVAILABLE"
    assert used(app) == 3
    assert asked(app, 1, window())[0].status_code == 200  # places are free again


async def hang_up(app: Any, params: dict[str, Any], *, after: float) -> None:
    """Ask, and hang up some seconds later."""
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Any:
        try:
            return next(messages)
        except StopIteration:
            await asyncio.sleep(after)
            return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        return

    query = str(httpx.QueryParams(params)).encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": "/v1/points",
        "raw_path": b"/v1/points", "query_string": query, "root_path": "", "scheme": "http",
        "headers": [(b"x-service-key", b"enterprise-key")], "server": ("service", 80), "client": ("c", 1),
    }  # fmt: skip
    await app(scope, receive, send)


@pytest.mark.long
def test_who_hangs_up_in_the_queue_leaves_it_and_pays_for_what_had_begun(
    processes_of: Any, lake: Path, window: Any
) -> None:
    computing = processes_of(slow(2), workers=1)
    app = app_with(computing, lake)

    async def five_hang_up() -> None:
        callers = [asyncio.create_task(hang_up(app, window(), after=1)) for _ in range(5)]
        while computing.waiting < 4:
            await asyncio.sleep(0.01)
        await asyncio.gather(*callers)

    before = [desk._process.pid for desk in computing._desks]
    began = time.monotonic()
    asyncio.run(five_hang_up())
    assert time.monotonic() - began < 20
    assert computing.waiting == 0
    assert "tidytape_queries_waiting 0.0" in metrics(app)
    assert used(app) == 1  # of five callers one was being answered
    assert asked(app, 1, window())[0].status_code == 200
    assert [desk._process.pid for desk in computing._desks] == before
    assert computing.ended == 0


def test_closing_finishes_what_was_begun_and_refuses_what_waits(
    processes_of: Any, lake: Path, window: Any
) -> None:
    computing = processes_of(slow(1), workers=1)
    app = app_with(computing, lake)

    async def close_while_it_runs() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service", headers=KEY) as client:
            asking = [
                asyncio.create_task(client.get("/v1/points", params=window(), timeout=60)) for _ in range(3)
            ]
            while not (computing.busy and computing.waiting == 2):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(computing.close)
            answers = await asyncio.gather(*asking)
            late = await client.get("/v1/points", params=window())
            return sorted(one.status_code for one in [*answers, late])

    assert asyncio.run(close_while_it_runs()) == [200, 503, 503, 503]


# --- turns ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def all_of_a_coin_are_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that name a coin are heavy, all others light."""
    monkeypatch.setattr(
        "tidytape.service._answering.estimated",
        lambda query, subjects, statistics: Estimate(10**7 if query.coin else 1, 1),
    )


def held(gate: Path, which: str = "True") -> list[str]:
    """A worker in which the answers to tasks of a kind are not computed before the file ``gate`` is there."""
    return worker(
        f"def late(engine, task):\n    while {which} and not os.path.exists({str(gate)!r}):\n"
        "        time.sleep(0.01)\n    return computed(engine, task)\ntask.computed = late"
    )


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


class Callers:
    """Requests under way, each of a key, and their numbers in the order of their answers."""

    def __init__(self, app: Any) -> None:
        transport = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://service", timeout=120)
        self.tasks: list[asyncio.Task[None]] = []
        self.order: list[int] = []

    def ask(self, key: str, params: dict[str, Any]) -> asyncio.Task[None]:
        async def one(number: int) -> None:
            answer = await self._client.get(
                "/v1/points", params=params, headers={"X-Service-Key": f"{key}-key"}
            )
            assert answer.status_code == 200, answer.text
            self.order.append(number)

        self.tasks.append(asyncio.create_task(one(len(self.tasks))))
        return self.tasks[-1]


@pytest.mark.usefixtures("all_of_a_coin_are_heavy")
def test_heavy_requests_never_take_the_last_worker(
    processes_of: Any, lake: Path, window: Any, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    computing = processes_of(held(gate, "task.heavy"), workers=2)

    async def light_one_among_heavy_ones() -> None:
        callers = Callers(app_with(computing, lake))
        for _ in range(4):
            callers.ask("enterprise", window(coin="BTC", rawSymbol=None))
        await until(lambda: computing.busy == 1 and computing.waiting == 3)
        async with asyncio.timeout(60):
            await callers.ask("other", window())
        assert callers.order == [4]
        gate.touch()
        await asyncio.gather(*callers.tasks)

    asyncio.run(light_one_among_heavy_ones())


def test_keys_take_turns(processes_of: Any, lake: Path, window: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    computing = processes_of(held(gate), workers=1)

    async def one_behind_five() -> list[int]:
        callers = Callers(app_with(computing, lake))
        for number in range(5):
            callers.ask("enterprise", window())
            await until(lambda asked=number: computing.waiting == asked)  # type: ignore[misc]
        callers.ask("other", window())
        await until(lambda: computing.waiting == 5)
        gate.touch()
        await asyncio.gather(*callers.tasks)
        return callers.order

    order = asyncio.run(one_behind_five())
    assert order.index(5) <= 2  # behind the one that is computed, and at most one that was there before


@pytest.mark.usefixtures("all_of_a_coin_are_heavy")
@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are Linux's")
def test_heavy_requests_are_computed_at_a_lower_priority(processes_of: Any, lake: Path, window: Any) -> None:
    computing = processes_of(workers=2)
    app = app_with(computing, lake)

    def priorities() -> list[set[int]]:
        pids = [desk._process.pid for desk in computing._desks]
        return [
            {os.getpriority(os.PRIO_PROCESS, int(one.name)) for one in Path(f"/proc/{pid}/task").iterdir()}
            for pid in pids
        ]

    here = os.getpriority(os.PRIO_PROCESS, 0)
    assert asked(app, 1, window())[0].status_code == 200
    assert priorities() == [{here}, {here}]
    assert asked(app, 1, window(coin="BTC", rawSymbol=None))[0].status_code == 200
    assert priorities() == [{here}, {10}]


@pytest.mark.long
def test_waiting_does_not_count_toward_the_time_limit(app_of: Any, window: Any) -> None:
    app = app_of(slow(1.5), workers=1, seconds=5)
    assert [one.status_code for one in asked(app, 4, window())] == [200] * 4
