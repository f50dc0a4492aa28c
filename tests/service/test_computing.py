"""Answers that are computed in processes: the same ones, and stopped where they must be."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidytape.lake import Lake
from tidytape.service import Key, Keys, Processes, create_app, hashed, parcels
from tidytape.service import computing as module

pytestmark = pytest.mark.slow

T0 = 1_723_161_600
KEY = {"X-Service-Key": "enterprise-key"}


def slow(seconds: float) -> None:
    """Make every answer of this process take long."""
    computed = module._computed

    def late(*args: Any) -> Any:
        time.sleep(seconds)
        return computed(*args)

    module._computed = late  # type: ignore[assignment]


def greedy() -> None:
    def eat(*args: Any) -> Any:
        return bytearray(8 << 30)

    module._computed = eat  # type: ignore[assignment]


@pytest.fixture
def app_of(lake: Path) -> Iterator[Any]:
    made: list[Processes] = []

    def make(prepare: Any = None, **options: Any) -> Any:
        begin = module._begin
        if prepare is not None:
            module._begin = prepare  # a function of this module, so that a process can find it
        try:
            computing = Processes(Lake(lake), **options)
            made.append(computing)
        finally:
            module._begin = begin
        keys = Keys([Key("e", hashed("enterprise-key"), "enterprise", created=0)])
        return create_app(Lake(lake), keys, computing=computing)

    yield make
    for one in made:
        one.close()


def begin_slow(path: str, options: Any, memory: int | None) -> None:
    module._begin(path, options, memory)
    slow(0.8)


def begin_very_slow(path: str, options: Any, memory: int | None) -> None:
    module._begin(path, options, memory)
    slow(60)


def begin_large(path: str, options: Any, memory: int | None) -> None:
    module._begin(path, options, memory)
    parcels._LARGE = 10  # every body is a large one


def begin_greedy(path: str, options: Any, memory: int | None) -> None:
    module._begin(path, options, memory)
    greedy()


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


def test_large_answers_are_the_same_ones(app_of: Any, service: Any, window: Any) -> None:
    app = app_of(begin_large, workers=1)
    plain = {"Accept-Encoding": "identity"}
    for headers in (plain, plain | {"Accept": "application/vnd.apache.arrow.stream"}):
        expected = service.get("/v1/points", params=window(), headers=headers)
        for _ in range(2):
            (answer,) = asked(app, 1, window(), headers=headers)
            assert (answer.status_code, answer.content) == (200, expected.content)
            assert answer.headers["content-type"] == expected.headers["content-type"]
            assert answer.headers["content-length"] == str(len(expected.content))


def test_what_takes_too_long_is_stopped_and_free(app_of: Any, window: Any) -> None:
    app = app_of(begin_very_slow, workers=1, seconds=0.5)
    began = time.monotonic()
    (answer,) = asked(app, 1, window())
    assert (answer.status_code, answer.json()["error"]) == (504, "TIMEOUT")
    assert time.monotonic() - began < 30
    assert used(app) == 0
    # The process is gone, not merely forgotten: another one takes the next task.
    assert asked(app, 1, window())[0].status_code == 504


def test_what_takes_too_much_memory_ends_alone(app_of: Any, window: Any) -> None:
    app = app_of(begin_greedy, workers=1, memory=1 << 30)
    (answer,) = asked(app, 1, window())
    assert (answer.status_code, answer.json()["error"]) == (500, "INTERNAL_ERROR")
    assert used(app) == 0


def test_a_process_that_dies_is_replaced(app_of: Any, window: Any) -> None:
    app = app_of(workers=1)
    assert asked(app, 1, window())[0].status_code == 200
    (child,) = multiprocessing.active_children()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    assert asked(app, 1, window())[0].status_code in {200, 500}
    assert asked(app, 1, window())[0].status_code == 200


def test_a_queue_that_is_full_takes_no_more(app_of: Any, window: Any) -> None:
    app = app_of(begin_slow, workers=1, waiting=2)
    answers = asked(app, 8, window())
    statuses = sorted(one.status_code for one in answers)
    assert statuses == [200] * 3 + [503] * 5
    full = next(one for one in answers if one.status_code == 503)
    assert full.headers["Retry-After"] == "2"
    assert full.json()["error"] == "UNAVAILABLE"
    assert used(app) == 3
    assert asked(app, 1, window())[0].status_code == 200  # places are free again


def test_who_hangs_up_is_not_computed_for_and_not_charged(app_of: Any, window: Any) -> None:
    app = app_of(begin_very_slow, workers=1, seconds=50)

    async def hang_up() -> float:
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            try:
                return next(messages)
            except StopIteration:
                await asyncio.sleep(1)
                return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            return

        query = str(httpx.QueryParams(window())).encode()
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": "/v1/points",
            "raw_path": b"/v1/points", "query_string": query, "root_path": "", "scheme": "http",
            "headers": [(b"x-service-key", b"enterprise-key")], "server": ("service", 80), "client": ("c", 1),
        }  # fmt: skip
        began = time.monotonic()
        await app(scope, receive, send)
        return time.monotonic() - began

    assert asyncio.run(hang_up()) < 20
    assert used(app) == 0


def test_closing_finishes_what_was_begun(lake: Path, window: Any) -> None:
    begin, module._begin = module._begin, begin_slow  # type: ignore[assignment]
    try:
        computing = Processes(Lake(lake), workers=1)
    finally:
        module._begin = begin
    keys = Keys([Key("e", hashed("enterprise-key"), "enterprise", created=0)])
    app = create_app(Lake(lake), keys, computing=computing)

    async def close_while_it_runs() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service", headers=KEY) as client:
            asking = asyncio.create_task(client.get("/v1/points", params=window(), timeout=60))
            while not computing._taken:  # until it is a task of the pool
                await asyncio.sleep(0.01)
            await asyncio.to_thread(computing.close)
            return await asking

    assert asyncio.run(close_while_it_runs()).status_code == 200
