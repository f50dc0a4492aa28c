"""Every case of a hostile service ends in the right frame or in a typed error, and the key is nowhere.

Both clients are asked each case, with a cache and all logging on. The key is looked for in the message, the repr, the
facts and the traceback of an error, in warnings, in logs, and in the files and frames of the cache.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import tidytape
from client.hostile_service import CASES, KEY, WIRE_CASES, Answer, Case, key_spellings
from tables import each_row
from tidytape.errors import TidytapeError, TransportError

WINDOW = {"exchange": "X", "raw_symbol": "BTC", "interval": "1m", "start": 0, "end": 180}
ASKS: dict[str, Callable[[Any], Any]] = {
    "candles": lambda client: client.fetch(client.query.candles(**WINDOW)),
    "by_side": lambda client: client.fetch(client.query.candles(**WINDOW, by_side=True)),
    "profile": lambda client: client.fetch(client.query.volume_profile(**WINDOW)),
    "markets": lambda client: client.markets(page_size=2),
    "coins": lambda client: client.coins(),
    "usage": lambda client: client.usage(),
    "block_sizes": lambda client: client.block_sizes(),
}
SECONDS = 10.0
"""Longest that a case may take."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are tested elsewhere."""
    for name in ("_failing", "_not_there", "_restarting"):
        monkeypatch.setattr(f"tidytape.client._request.{name}", lambda attempt: 0.001)


class Transport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Gives the answers of a case, one after the other, unread as the network would."""

    def __init__(self, case: Case) -> None:
        self.answers = list(case.answers)
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["x-service-key"] == KEY
        self.sent += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        assert isinstance(answer, Answer)
        headers = httpx.Headers(answer.headers)
        headers.setdefault("content-length", str(len(answer.body)))
        return httpx.Response(answer.status, headers=headers, stream=httpx.ByteStream(answer.body))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


class Server:
    """Gives the answers of a case as the bytes of a connection each."""

    def __init__(self, case: Case) -> None:
        self.answers = list(case.answers)
        self.sent = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(2**16)
                self.sent += 1
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                assert isinstance(answer, bytes)
                try:
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(1)
                    connection.recv(
                        1
                    )  # the client closes first, so that what was sent is not lost in a reset
                except OSError:
                    pass

    def close(self) -> None:
        if self.thread.is_alive():
            self.listening.shutdown(socket.SHUT_RDWR)
            self.listening.close()
            self.thread.join(5)


def called(driver: str, address: str, ask: Callable[[Any], Any], **options: Any) -> Any:
    """Return what a client gives, or the error that it raises."""

    async def awaited() -> Any:
        async with tidytape.AsyncClient(address, KEY, **options) as client:
            return await ask(client)

    try:
        if driver == "asyncio":
            return asyncio.run(awaited())
        with tidytape.Client(address, KEY, **options) as client:
            return ask(client)
    except TidytapeError as error:
        return error


def told(error: BaseException) -> str:
    """Return everything that can be seen of an error."""
    shown = traceback.TracebackException.from_exception(error)
    facts = {name: value for name, value in vars(error).items() if not name.startswith("__")}
    return f"{error} {error!r} {error.args} {facts} {''.join(shown.format())}"


def frames_of(folder: Path) -> list[pl.DataFrame]:
    return [pl.read_parquet(path) for path in folder.rglob("*.parquet")]


def check(case: Case, came: Any, sent: int, folder: Path, heard: str) -> None:
    seen = [heard, *(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())]
    kept = frames_of(folder)
    seen += [f"{frame.columns} {frame.rows()}" for frame in kept]
    if isinstance(case.outcome, type):
        assert type(came) is case.outcome, repr(came)
        seen.append(told(came))
        assert str(came).isprintable()
        assert len(str(came)) < 1_500
        assert kept == []  # nothing of what went wrong is kept
    else:
        assert not isinstance(came, Exception), repr(came)
        frame = getattr(came, "frame", came)
        case.outcome(frame)
        if hasattr(came, "metadata"):
            seen += [repr(came), came.metadata._repr_html_()]
            assert came.metadata.requests == sent
        if isinstance(frame, pl.DataFrame):
            seen.append(f"{frame.columns} {frame.rows()}")
        assert sent == (case.sent or len(case.answers))
    if isinstance(case.outcome, type) and case.sent:
        assert sent == case.sent
    for spelling in key_spellings():
        assert not [one for one in seen if spelling.lower() in one.lower()], spelling


DRIVERS = pytest.mark.parametrize("driver", ["sync", "asyncio"])


@pytest.mark.slow
@DRIVERS
@each_row("case", CASES)
def test_a_hostile_answer(
    case: Case,
    driver: str,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    transport = Transport(case)
    caplog.clear()
    began = time.monotonic()
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        came = called(
            driver,
            "https://service.example",
            ASKS[case.ask],
            transport=transport,
            cache=folder,
            attempts=3,
            **case.options,
        )
    assert time.monotonic() - began < SECONDS
    heard = f"{caplog.text} {[str(one.message) for one in warned]}"
    check(case, came, transport.sent, folder, heard)


@pytest.fixture
def serve() -> Iterator[Callable[[Case], Server]]:
    made: list[Server] = []

    def make(case: Case) -> Server:
        made.append(Server(case))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.mark.slow
@DRIVERS
@each_row("case", WIRE_CASES)
def test_a_hostile_connection(
    case: Case,
    driver: str,
    serve: Callable[[Case], Server],
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    server = serve(case)
    caplog.clear()
    began = time.monotonic()
    with caplog.at_level(logging.DEBUG):
        came = called(driver, server.address, ASKS[case.ask], cache=folder, attempts=3)
    assert time.monotonic() - began < SECONDS
    check(case, came, server.sent, folder, caplog.text)
    server.close()


@DRIVERS
def test_a_reset_is_tried_again(driver: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sent = []

        def reset() -> None:
            for _ in range(3):
                connection, _ = listening.accept()
                sent.append(connection.recv(2**16))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        thread = threading.Thread(target=reset, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        came = called(driver, address, ASKS["candles"], attempts=3, cache=False)
        thread.join(5)
    assert isinstance(came, TransportError)
    assert len(sent) == 3


BROKEN = [
    case
    for case in (*CASES, *WIRE_CASES)
    if case.outcome is TransportError and not case.name.endswith("right")
]


@pytest.mark.slow
@each_row("case", BROKEN)
def test_a_transfer_that_stays_broken_may_be_flagged(case: Case, serve: Callable[[Case], Server]) -> None:
    options: dict[str, Any] = {"attempts": 2, "cache": False, "partial": "flag"}
    service: Server | Transport
    if isinstance(case.answers[0], bytes):
        service = serve(case)
        came = called("sync", service.address, ASKS["candles"], **options)
    else:
        service = Transport(case)
        came = called("sync", "https://service.example", ASKS["candles"], transport=service, **options)
    assert came.frame.is_empty()
    assert came.metadata.missing == ((0, 180),)
    assert came.metadata.requests == service.sent == 2
    assert [type(one) for one in came.metadata.failures] == [TransportError]
    for spelling in key_spellings():
        assert spelling not in f"{came!r} {came._repr_html_()} {told(came.metadata.failures[0])}"


def test_there_are_a_hundred_faults_of_many_kinds() -> None:
    names = [case.name for case in (*CASES, *WIRE_CASES)]
    assert len(set(names)) == len(names)
    assert len(names) > 100
    errors = {case.outcome for case in (*CASES, *WIRE_CASES) if isinstance(case.outcome, type)}
    assert len(errors) >= 8
