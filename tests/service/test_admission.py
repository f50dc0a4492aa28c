"""Answers and streams share one admission: turns, limits, and bounds for what nobody reads."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from lakes import empty_lake
from service.conftest import T0, Service
from stream_readers import Driven, Held, account, registered, streams_of, trades
from tidytape.errors import LakeError
from tidytape.lake import Lake
from tidytape.query import StreamQuery
from tidytape.query._base import Query
from tidytape.service import Key, Keys, Processes, create_app, hashed
from tidytape.service.answer._estimate import Estimate
from tidytape.service.answer._holdings import DescribedLake
from tidytape.service.http import _connection as connection
from tidytape.service.stream import _changes as changes
from tidytape.service.stream import _feed as feed
from tidytape.service.work._bounds import Looks, Unsent
from tidytape.service.work._computing import Computing
from tidytape.times import SECOND
from tidytape.wire._stream import decode_batch

PROFILE = "VOLUME_PROFILE_AGG"
KEY = {"X-Service-Key": "enterprise-key"}


# --- bytes that wait to be sent -------------------------------------------------------------------------------------


def test_a_key_over_its_bound_waits_and_no_other_key_does() -> None:
    async def work() -> list[str]:
        unsent, order = Unsent(most=30, most_of_key=10), []

        async def take(owner: str, key: str, size: int) -> None:
            await unsent.take(owner, key, size)
            order.append(owner)

        tasks = [
            asyncio.create_task(take(*row))
            for row in [("a1", "a", 20), ("a2", "a", 6), ("a3", "a", 1), ("b1", "b", 9), ("c1", "c", 5)]
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sorted(order) == ["a1", "b1", "c1"]  # a key that holds nothing gets in, whatever its size
        assert unsent.total == 34
        unsent.resize("a1", 5)  # it was smaller than its estimate
        await asyncio.gather(tasks[2])
        assert not tasks[1].done()  # it has no room yet
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert unsent.sizes == {"a1": ("a", 5), "b1": ("b", 9), "c1": ("c", 5), "a3": ("a", 1)}
        for owner in ("a1", "a3", "b1", "c1", "c1"):
            unsent.release(owner)
        assert unsent.total == 0
        return order

    assert asyncio.run(work())[-1] == "a3"


# --- threads of a key -------------------------------------------------------------------------------------------------


def test_a_look_up_of_a_caller_who_hung_up_counts_until_its_thread_ends(tmp_path: Path) -> None:
    may_end, running = threading.Event(), []

    def work() -> None:
        running.append(1)
        may_end.wait(30)

    async def read() -> None:
        looks = Looks(empty_lake(tmp_path / "lake"), ThreadPoolExecutor(8))
        tasks = [asyncio.create_task(looks.run("a", work)) for _ in range(6)]
        while len(running) < 2:
            await asyncio.sleep(0.01)
        for task in tasks[:3]:  # one of them waits
            task.cancel()
        await asyncio.sleep(0.1)
        assert len(running) == 2
        assert await looks.run("b", max, 1, 2) == 2
        may_end.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(running) == 5  # two that began, and three whose callers wait

    asyncio.run(read())


@pytest.mark.slow
def test_lists_of_one_key_do_not_hold_up_the_requests_of_another(
    traded: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, began = threading.Event(), []

    def rows(*args: object) -> Any:
        began.append(1)
        may_end.wait(60)
        raise LakeError("gone")

    monkeypatch.setattr(DescribedLake, "rows", rows)
    with running(traded.path) as served:
        callers = [served.open("/holdings/markets") for _ in range(20)]
        soon(lambda: began)
        other = {"X-Service-Key": "other-key"}
        for path in ("/v1/points", "/v1/markets"):
            where = target(path, period=60) if path == "/v1/points" else path
            assert httpx.get(f"{served.url}{where}", headers=other, timeout=20).status_code == 200
        assert len(began) == 2
        may_end.set()
        for caller in callers:
            caller.close()


@pytest.mark.parametrize("path", ["/v1/points", "/v1/stream", "/v1/symbols"])
def test_parameters_are_not_read_in_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    threads = set()
    read = Query.from_params.__func__  # type: ignore[attr-defined]

    def from_params(model: Any, params: Any) -> Any:
        threads.add(threading.current_thread().name)
        return read(model, params)

    monkeypatch.setattr(Query, "from_params", classmethod(from_params))
    assert service.get(path, params={"side": "UP"}).status_code in {400, 500}
    assert [name for name in threads if not name.startswith("tidytape-lake")] == []
    assert threads


def test_readers_of_a_query_do_not_wait_for_other_look_ups_of_the_key_that_opens(
    traded: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read() -> None:
        streams, waited = streams_of(traded), []
        run = Looks.run

        async def watched(looks: Looks, key: str, *work: Any) -> Any:
            if key == "e" and any(feed.still.locked() for feed in streams._feeds.values()):
                waited.append(work)
            return await run(looks, key, *work)

        monkeypatch.setattr(Looks, "run", watched)
        driven = await Driven(streams, query("TRADE_AGG")).open()
        assert not waited
        await driven.close()

    asyncio.run(read())


@pytest.mark.slow
def test_keys_take_turns_at_what_is_live(traded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, began = threading.Event(), []

    async def read() -> None:
        streams = streams_of(traded)
        many = [
            await Driven(streams, query(PROFILE, block_size=str(size)), account(key="many")).open()
            for size in range(1, 9)
        ]
        # Both read the first of these queries; it has the turns of whoever holds fewer streams.
        both = await Driven(streams, query(PROFILE, block_size="1"), account(key="few")).open()
        few = await Driven(streams, query("TRADE_AGG"), account(key="few")).open()
        for driven in (*many, both, few):
            await driven.caught_up()
        compute = feed.next_part

        def slowly(remainder: Any, *moments: Any) -> Any:
            if remainder.query.type == ("VOLUME_PROFILE_AGG",) and remainder.query.block_size != 1:
                began.append(1)
                may_end.wait(30)
            return compute(remainder, *moments)

        monkeypatch.setattr(feed, "next_part", slowly)
        add(traded, 360, 400)
        looking = asyncio.create_task(streams.look())
        try:
            async with asyncio.timeout(20):
                for driven in (both, few):
                    while driven.held.batches < 2:
                        await asyncio.sleep(0.02)
                assert len(began) == 2
        finally:
            may_end.set()
        await looking
        for driven in (*many, both, few):
            await driven.close()

    asyncio.run(read())


# --- streams in worker processes --------------------------------------------------------------------------------------


@pytest.fixture
def traded(tmp_path: Path) -> Lake:
    """A lake with two hours of trades of one market, and a trade every 20 s."""
    made = empty_lake(tmp_path / "lake")
    registered(made, "BTCUSDT")
    add(made, 0, 360)
    return made


def add(lake: Lake, first: int, last: int) -> None:
    rows = [
        (str(number), (T0 + number * 20) * SECOND, "BUY" if number % 3 else "SELL", 100.0 + number % 17, 1.0)
        for number in range(first, last)
    ]
    lake.writer().append("trades", trades(rows), source=f"trades {first}")


def query(*types: str, **more: Any) -> StreamQuery:
    return StreamQuery(
        type=list(types), exchange="X", raw_symbol="BTCUSDT", interval="1m", **{"start": T0, **more}
    )


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories have many parts, and none of them is small."""
    monkeypatch.setattr(changes, "_POINTS", 10)
    monkeypatch.setattr(changes, "_POINTS_WITH_LEVELS", 10)
    monkeypatch.setattr(Estimate, "is_small", property(lambda estimate: False))


@pytest.mark.slow
@pytest.mark.usefixtures("short_parts")
def test_history_and_large_live_steps_of_processes_are_those_of_threads(
    traded: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimate, "is_probably_small", property(lambda estimate: False))
    processes = Processes(traded, workers=1)

    async def read() -> None:
        streams = streams_of(traded, computing=processes)
        driven = [
            await Driven(streams, query(*types)).open()
            for types in (["TRADE_AGG", PROFILE], ["TPO_AGG"], ["TRADE", "TRADE_SIDE_AGNOSTIC_AGG"])
        ]
        for first in (360, 400):
            for reader in driven:
                await reader.caught_up()
            add(traded, first, first + 40)
            await streams.look()
        traded.writer().append(
            "trades", trades([("999", (T0 + 95) * SECOND, "BUY", 90.0, 2.0)]), source="late"
        )
        await streams.look()
        (window,) = query(PROFILE).window(T0, T0 + 10_800)
        for reader in driven:
            await reader.caught_up()
            reader.held.require_answer(traded, window.model_copy(update={"type": reader.query.type}))
            await reader.close()

    try:
        asyncio.run(read())
    finally:
        processes.close()


def worker(change: str) -> list[str]:
    """The command of a worker in which ``computed`` is changed by some code."""
    modules = (
        "import os, signal, time\nfrom tidytape.service.work import _computing as task, _worker as worker\n"
    )
    return [sys.executable, "-c", f"{modules}computed = task.computed\n{change}\nworker.main()"]


@pytest.mark.slow
@pytest.mark.usefixtures("short_parts")
def test_a_worker_that_crashes_ends_the_stream_with_its_token(
    traded: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = tmp_path / "crash"
    crash.touch()
    change = (
        f"tasks = []\ndef crashes(*args):\n    tasks.append(args)\n"
        f"    if len(tasks) == 4 and os.path.exists({str(crash)!r}):\n"
        f"        os.remove({str(crash)!r})\n        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return computed(*args)\ntask.computed = crashes"
    )
    monkeypatch.setattr(Processes, "command", worker(change))
    processes = Processes(traded, workers=1)
    try:
        with running(traded.path, computing=processes) as served:
            params = query("TRADE_AGG", end=T0 + 6_600).to_params()
            held, opened = Held(), 0
            while held.end is None or held.end[0] != "PERIOD_OVER":
                opened += 1
                assert opened < 4
                asked = [*params, *([("token", held.token)] if held.token else [])]
                with httpx.stream(
                    "GET", f"{served.url}/v1/stream", params=asked, headers=KEY, timeout=60
                ) as answer:
                    assert answer.status_code == 200, answer.read()
                    for line in answer.iter_lines():
                        held.apply(decode_batch(line.encode(), ["TRADE_AGG"]))
                assert held.end is not None
            assert opened == 2
            (window,) = query("TRADE_AGG").window(T0, T0 + 6_600)
            held.require_answer(traded, window)
            assert processes.ended == 1
    finally:
        processes.close()


@pytest.mark.slow
def test_streams_with_a_long_history_leave_a_worker_to_others(
    traded: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimate, "is_small", property(lambda estimate: False))
    monkeypatch.setattr(Estimate, "is_heavy", property(lambda estimate: estimate.rows > 100))
    gate = tmp_path / "gate"
    change = (
        f"def late(engine, one):\n    while one.heavy and not os.path.exists({str(gate)!r}):\n"
        "        time.sleep(0.01)\n    return computed(engine, one)\ntask.computed = late"
    )
    monkeypatch.setattr(Processes, "command", worker(change))
    processes = Processes(traded, workers=2)

    async def read() -> None:
        streams = streams_of(traded, computing=processes)
        heavy = [Driven(streams, query(PROFILE), account(key="heavy")) for _ in range(4)]
        opening = [asyncio.create_task(reader.open()) for reader in heavy]
        while processes.waiting < 3:
            await asyncio.sleep(0.01)
        light = Driven(streams, query(PROFILE, start=T0 + 7_000), account(key="light"))
        async with asyncio.timeout(30):
            await light.open()
            await light.caught_up()
        assert not any(task.done() for task in opening)
        gate.touch()
        await asyncio.gather(*opening)
        for reader in (*heavy, light):
            await reader.caught_up()
            await reader.close()

    try:
        asyncio.run(read())
    finally:
        processes.close()


@pytest.mark.slow
def test_a_stream_that_is_resumed_pays_for_what_ended_since_and_gets_it(traded: Lake) -> None:
    async def read() -> None:
        streams, who = streams_of(traded), account()
        first = await Driven(streams, query("TRADE_AGG"), who).open()
        await first.caught_up()
        await first.close()
        paid = (await who.look()).used
        add(traded, 360, 720)
        again = Driven(streams, query("TRADE_AGG", token=first.held.token), who)
        again.held = first.held
        await again.open()
        assert again.reader is not None
        assert (await who.look()).used == paid + again.reader.weight > paid
        await again.caught_up()
        (window,) = query("TRADE_AGG").window(T0, T0 + 14_400)
        again.held.require_answer(traded, window)
        await again.close()

    asyncio.run(read())


# --- over sockets -----------------------------------------------------------------------------------------------------


class Served:
    def __init__(self, app: Any, server: uvicorn.Server) -> None:
        self.app = app
        self.address = server.servers[0].sockets[0].getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"

    def open(self, path: str, *, buffer: int | None = None) -> socket.socket:
        """Send a request on a socket."""
        sock = socket.socket()
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.settimeout(30)
        sock.connect(self.address)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Service-Key: enterprise-key\r\n\r\n".encode())
        return sock

    def metric(self, name: str) -> float:
        text = httpx.get(f"{self.url}/metrics").text
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name)))


class running:  # noqa: N801 - a context
    """A service on a port of this machine."""

    def __init__(
        self,
        lake: str | Path,
        *,
        keys: Keys | None = None,
        computing: Computing | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        self._lake, self._computing = Lake(lake, storage_options=options), computing
        self._keys = keys or Keys(
            [Key(name, hashed(f"{name}-key"), "enterprise", created=0) for name in ("enterprise", "other")]
        )

    def __enter__(self) -> Served:
        self._app = create_app(self._lake, self._keys, computing=self._computing)
        config = uvicorn.Config(self._app, port=0, log_config=None, **connection.LISTENING)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        soon(lambda: self._server.started)
        return Served(self._app, self._server)

    def __exit__(self, *error: object) -> None:
        self._app.state.streams.close()
        self._server.should_exit = True
        self._thread.join()


def soon(is_true: Callable[[], object], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.02)


def target(path: str, **more: Any) -> str:
    params = {"type": "TRADE", "exchange": "X", "rawSymbol": "BTCUSDT", "from": T0, **more}
    return f"{path}?{httpx.QueryParams(params)}"


def many(lake: Lake, count: int) -> None:
    """Add trades, a thousand a second."""
    rows = [
        (str(10_000 + number), T0 * SECOND + number * 10**6, "BUY", 100.0, 1.0) for number in range(count)
    ]
    lake.writer().append("trades", trades(rows), source="many")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_UNREAD", 1.0)
    monkeypatch.setattr(connection, "_LOOKS", 0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_what_nobody_reads_is_bounded_and_cut_and_others_are_answered(
    traded: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidytape.service._answering._ROOM", 0.5)
    many(traded, 90_000)
    keys = [Key(name, hashed(f"{name}-key"), "enterprise", created=0) for name in ("enterprise", "other")]
    with running(traded.path, keys=Keys(keys)) as served, caplog.at_level(logging.WARNING):
        sockets = [served.open(target("/v1/points", period=90), buffer=4_096) for _ in range(12)]
        soon(lambda: served.metric("tidytape_unsent_bytes") > 30 << 20)
        assert served.metric("tidytape_unsent_bytes") <= 80 << 20
        other = httpx.get(
            f"{served.url}{target('/v1/points', period=1)}",
            headers={"X-Service-Key": "other-key"},
            timeout=30,
        )
        assert other.status_code == 200
        soon(lambda: served.metric("tidytape_unsent_bytes") == 0)
        assert served.metric("tidytape_connections_cut_total") >= 3
        assert "its caller read nothing for 1 s" in caplog.text
        statuses = [sock.recv(12)[9:] for sock in sockets]
        assert statuses.count(b"503") + statuses.count(b"200") == 12
        assert b"503" in statuses
        for sock in sockets:
            sock.close()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_stream_that_nobody_reads_is_cut(traded: Lake) -> None:
    many(traded, 90_000)
    with running(traded.path) as served, served.open(target("/v1/stream"), buffer=4_096):
        soon(lambda: served.metric("tidytape_connections_cut_total") == 1)
        soon(lambda: not served.app.state.streams.readers)
        assert served.metric("tidytape_unsent_bytes") == 0


@pytest.mark.slow
def test_who_reads_slowly_but_reads_gets_everything(traded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_UNREAD", 1.0)
    monkeypatch.setattr(connection, "_LOOKS", 0.1)
    many(traded, 60_000)
    with running(traded.path) as served, served.open(target("/v1/points", period=60), buffer=4_096) as sock:
        body = b""
        while b"\r\n\r\n" not in body:
            body += sock.recv(1 << 16)
        head, _, body = body.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        began = time.monotonic()
        while len(body) < length:
            if time.monotonic() < began + 3:
                time.sleep(0.3)
            part = sock.recv(1 << 18)
            assert part
            body += part
        assert len(json.loads(body)["series"][0]["points"]) > 1_000
        assert served.metric("tidytape_connections_cut_total") == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/points", "/v1/stream"])
def test_a_caller_that_closes_only_its_own_end_gets_what_it_asked_for(
    traded: Lake, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_LOOKS", 0.1)
    computed = changes.next_part
    monkeypatch.setattr(changes, "next_part", lambda *args: time.sleep(0.5) or computed(*args))
    with running(traded.path) as served, served.open(target(path, period=600)) as sock:
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while part := sock.recv(1 << 16):
            answer += part
        assert b"HTTP/1.1 200" in answer
        assert answer.count(b'"Point"') == 30
        assert path == "/v1/points" or b"PERIOD_OVER" in answer


@pytest.mark.slow
def test_a_caller_that_closed_altogether_is_noticed(traded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LOOKS", 0.1)
    with running(traded.path) as served:
        sock = served.open(target("/v1/stream"))
        soon(lambda: served.app.state.streams.readers)
        sock.recv(100)
        time.sleep(0.3)
        while sock.recv(1 << 20)[-1:] != b"\n":
            pass
        sock.close()
        soon(lambda: not served.app.state.streams.readers, seconds=8)


@pytest.mark.slow
def test_the_stream_of_a_revoked_key_ends_within_two_seconds(traded: Lake) -> None:
    keys = Keys([Key("enterprise", hashed("enterprise-key"), "enterprise", created=0)])
    with (
        running(traded.path, keys=keys) as served,
        httpx.stream("GET", f"{served.url}{target('/v1/stream')}", headers=KEY, timeout=30) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        keys._by_id.clear()
        began = time.monotonic()
        *_, last = lines
        assert json.loads(last)["end"]["code"] == "INVALID_API_KEY"
        assert time.monotonic() - began < 2


# --- refusals -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_computed_is_refused_when_the_stream_opens_and_costs_nothing(
    service: Service, window: Callable[..., dict[str, object]]
) -> None:
    params = window(type=PROFILE, rawSymbol="HUGE")
    answer, expected = (service.get(path, params=params) for path in ("/v1/stream", "/v1/points"))
    assert answer.status_code == expected.status_code == 400
    assert answer.json() == expected.json()
    assert answer.headers["X-RateLimit-Used"] == "0"
    assert service.app.state.streams.readers == set()


_PROXY = """
import sys, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if Path(sys.argv[2]).exists():
            self.answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        headers = dict(self.headers)
        asked = urllib.request.Request(sys.argv[1] + self.path, body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(asked) as answer:
                self.answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.headers, error.read())

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.slow
def test_an_object_store_that_answers_503_is_a_503_until_it_answers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("moto.server")
    import object_store

    away = tmp_path / "away"
    with object_store.served() as address:
        bucket = object_store.emptied(address, monkeypatch, tmp_path)
        made = Lake.create(f"s3://{bucket}/lake")
        registered(made, "BTCUSDT")
        add(made, 0, 60)
        command = [sys.executable, "-c", _PROXY, address, str(away)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.stdout.readline().strip()}")
            options = {"max_retries": "1", "retry_timeout": "2s"}
            with running(f"s3://{bucket}/lake", options=options) as served:

                def ask(path: str) -> httpx.Response:
                    return httpx.get(f"{served.url}{target(path, period=60)}", headers=KEY, timeout=60)

                assert ask("/v1/points").status_code == ask("/v1/stream").status_code == 200
                away.touch()
                for path in ("/v1/points", "/v1/stream"):
                    answer = ask(path)
                    assert (answer.status_code, answer.json()["error"]) == (503, "UNAVAILABLE"), answer.text
                    assert answer.headers["Retry-After"] == "2"
                away.unlink()
                assert ask("/v1/points").status_code == ask("/v1/stream").status_code == 200
            proxy.kill()
