"""Streams over real connections: they end when they are told to, and go on when their server does not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tidytape
from client.stream_service import KEY, KINDS, LINES, QUERY, TYPE
from served import served
from tidytape.demo import fill
from tidytape.lake import Lake
from tidytape.lake.ingest import Market, ingest_frame

both = pytest.mark.parametrize("kind", KINDS)
pytestmark = pytest.mark.slow
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"


class Silent:
    """A server that sends the first line of a stream and then nothing, and notes when callers hang up."""

    def __init__(self, beginning: bytes) -> None:
        self._beginning = beginning
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.sent, self.gone = threading.Event(), threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        caller, _ = self._socket.accept()
        with self._socket, caller:
            with contextlib.suppress(ConnectionError):  # who hangs up with bytes unread resets the connection
                caller.recv(2**16)
                caller.sendall(self._beginning)
                self.sent.set()
                caller.settimeout(20)
                while caller.recv(2**16):
                    pass
            self.gone.set()


@pytest.fixture(params=["a line", "half a head"])
def silent(request: pytest.FixtureRequest) -> Silent:
    chunk = b"%x\r\n%b\r\n" % (len(LINES[0]), LINES[0])
    return Silent(HEAD + chunk if request.param == "a line" else HEAD[:30])


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "tidytape-stream"]


MAIN = "from tidytape.cli import main; main()"


def made(kind: str, url: str, key: str = KEY, **options: Any) -> Any:
    return (tidytape.Client if kind == "sync" else tidytape.AsyncClient)(url, key, **options)


@both
def test_stop_wakes_a_stream_that_waits_in_its_socket(kind: str, silent: Silent) -> None:
    stream = made(kind, silent.url).stream(TYPE, **QUERY)

    async def awaited() -> None:
        async for _ in stream:
            pass

    def stop_while_it_waits() -> None:
        assert silent.sent.wait(10)
        time.sleep(0.3)  # it reads what was sent, and waits for more
        stream.stop()

    stopper = threading.Thread(target=stop_while_it_waits)
    stopper.start()
    if kind == "sync":
        for _ in stream:
            pass
    else:
        asyncio.run(awaited())
    stopper.join()
    assert silent.gone.wait(10)
    for thread in threads():
        thread.join(10)
    assert threads() == []


def test_a_stream_that_is_forgotten_closes_its_socket() -> None:
    chunk = b"%x\r\n%b\r\n" % (len(LINES[0]), LINES[0])
    server = Silent(HEAD + chunk)
    stream = made("sync", server.url).stream(TYPE, **QUERY)
    next(stream)
    del stream
    gc.collect()
    assert server.gone.wait(10)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    fill(tmp_path / "lake", days=2)
    return tmp_path / "lake"


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.mark.parametrize("kind", ["async", pytest.param("sync", marks=pytest.mark.long)])
def test_a_stream_outlives_its_server(kind: str, lake: Path, port: int, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    added = subprocess.run(
        [sys.executable, "-c", MAIN, "keys", "new", "--keys", keys, "--tier", "enterprise"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    key = added.stdout.split()[-1]
    hours = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "interval": "1m", "start": "2024-08-08T20:00Z"}
    options = ("--lake", lake, "--keys", keys, "--port", port)
    url = f"http://127.0.0.1:{port}"
    with served(tmp_path / "first.log", *options) as address:
        assert address == url
        live = made(kind, url, key, attempts=50).live(TYPE, **hours, keep="1d")
        assert live.wait(lambda: live.batches > 0, timeout=60)
        batches = live.batches
    trade = {
        "timestamp": datetime(2024, 8, 9, 0, 1, tzinfo=UTC),
        "side": "BUY",
        "price": 60_000.0,
        "amount": 1.0,
    }
    ingest_frame(
        pl.DataFrame([{**trade, "id": "late"}]),
        Lake(lake),
        market=Market(exchange="DEMO_SPOT", raw_symbol="BTCUSDT"),
    )
    with served(tmp_path / "second.log", *options):
        assert live.wait(lambda: live.batches > batches, timeout=60)
        with tidytape.Client(url, key) as client:
            fetched = client.candles(**hours, end="2024-08-09T00:05Z")
        assert live.batches == batches + 1  # of what the first server had sent nothing comes again
        assert live.frame.drop("is_final").equals(fetched.drop("is_final"))
        live.stop()
        live.wait(lambda: not live.is_running, timeout=20)
    assert live.error is None
