"""The real service behind a bad way to it: the right frame or the right error, in time, its weight counted right."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import orjson
import polars as pl
import pytest

import tidytape
from simulated.everything import START, everything
from tidytape.budget import TIERS, Tier
from tidytape.catalogue import TierName
from tidytape.client._local import AppTransport, AsyncAppTransport
from tidytape.errors import (
    DecodeError,
    IncompleteDataError,
    RateLimitError,
    ServerError,
    TidytapeError,
    TransportError,
)
from tidytape.lake import Lake
from tidytape.service import Key, Keys, create_app, hashed

S0 = START // 10**9
KEY = "the-secret-key"
# Three requests: 40 + 40 + 20.
BOOK = {
    "exchange": "X",
    "coin": "BTC",
    "interval": "1m",
    "start": S0 - 86_400,
    "end": S0 - 86_400 + 10_000 * 60,
}
WEIGHT = 100
# What comes in during a test is nothing, so that what was spent can be counted.
SLOW = Tier("slow", 1, TIERS["advanced"].burst, None, aggregation=True, rank=TierName.ENTERPRISE)

Send = Callable[[dict[str, Any]], Any]
Trouble = Callable[[Any, dict[str, Any], Any, Send], Any]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("troubled") / "lake")


@pytest.fixture(scope="module")
def plain(lake: Lake) -> pl.DataFrame:
    with tidytape.Client.local(lake.path) as client:
        return client.book_heatmap(**BOOK)  # type: ignore[arg-type]


class Way:
    """An ASGI app before the service: each request for points meets the next trouble first, then none."""

    def __init__(self, service: Any, *troubles: Trouble) -> None:
        self.service = service
        self.troubles = list(troubles)
        self.lock = threading.Lock()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        with self.lock:
            meets = scope["path"] == "/v1/points" and self.troubles
            trouble = self.troubles.pop(0) if meets else None
        if trouble is None:
            await self.service(scope, receive, send)
        else:
            await trouble(self.service, scope, receive, send)


def status(code: int, **headers: str) -> Trouble:
    """Refuse, before the service hears of it."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def refuse(service: Any, scope: Any, receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": code, "headers": named})
        await send({"type": "http.response.body", "body": b"no"})

    return refuse


def changed(change: Callable[[bytes], bytes], **headers: str) -> Trouble:
    """Let the service answer, as JSON, and change its body on the way."""

    async def meddle(service: Any, scope: Any, receive: Any, send: Send) -> None:
        sent: list[dict[str, Any]] = []

        async def gather(message: dict[str, Any]) -> None:
            sent.append(message)

        kept = [
            (name, value) for name, value in scope["headers"] if name not in (b"accept", b"accept-encoding")
        ]
        await service({**scope, "headers": [*kept, (b"accept", b"application/json")]}, receive, gather)
        body = change(b"".join(one.get("body", b"") for one in sent))
        own = {b"content-length": str(len(body)).encode()} | {
            name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
        }
        named = [(name, value) for name, value in sent[0]["headers"] if name not in own] + list(own.items())
        await send({**sent[0], "headers": named})
        await send({"type": "http.response.body", "body": body})

    return meddle


def shuffled_and_twice(body: bytes) -> bytes:
    said = orjson.loads(body)
    for one in said["series"]:
        one["points"] *= 2
        random.Random(7).shuffle(one["points"])
    return orjson.dumps(said)


def twice_and_different(body: bytes) -> bytes:
    said = orjson.loads(body)
    for one in said["series"]:
        for point in [*one["points"]]:
            other = json.loads(json.dumps(point))
            other["Point"]["bids"] = [number + 1 for number in other["Point"]["bids"]]
            one["points"].append(other)
    return orjson.dumps(said)


def service_of(lake: Lake) -> Any:
    return create_app(lake, Keys([Key("k", hashed(KEY), "slow", created=0)]), tiers={"slow": SLOW})


Fetch = Callable[..., tuple[Any, int]]


@pytest.fixture(params=["sync", "asyncio"])
def fetch(request: pytest.FixtureRequest, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Fetch the book over a bad way; return what came, or its error, and what the service says was spent."""
    monkeypatch.setattr(
        "tidytape.client._request._failing", lambda attempt: 0.01
    )  # the pauses are tested elsewhere

    def plainly(app: Any, options: Any) -> tuple[Any, int]:
        with tidytape.Client("http://troubled", KEY, transport=AppTransport(app), **options) as client:
            try:
                came: Any = client.fetch(client.query.book_heatmap(**BOOK))  # type: ignore[arg-type]
            except TidytapeError as error:
                came = error
            return came, client.usage().used

    async def awaited(app: Any, options: Any) -> tuple[Any, int]:
        transport = AsyncAppTransport(app)
        async with tidytape.AsyncClient("http://troubled", KEY, transport=transport, **options) as client:
            try:
                came: Any = await client.fetch(client.query.book_heatmap(**BOOK))  # type: ignore[arg-type]
            except TidytapeError as error:
                came = error
            return came, (await client.usage()).used

    def over(*troubles: Trouble, **options: Any) -> tuple[Any, int]:
        app = Way(service_of(lake), *troubles)
        if request.param == "sync":
            return plainly(app, options)
        return asyncio.run(awaited(app, options))

    return over


SURVIVED: dict[str, list[Trouble]] = {
    "none": [],
    "500": [status(500)],
    "several 5xx": [status(503), status(502), status(500)],
    "not ready": [status(408), status(425), status(503, retry_after="0.01")],
    "429": [status(429)],
    "429, no time": [status(429, retry_after=value) for value in ("0", "-7", "soon")],
    "429, a time": [status(429, retry_after="0.01")],
    "shuffled and twice": [changed(shuffled_and_twice)] * 3,
    "text/html": [changed(bytes, content_type="text/html")] * 3,
    "no type": [changed(bytes, content_type="")] * 3,
    "gzip": [changed(gzip.compress, content_encoding="gzip")] * 3,
}


@pytest.mark.long
@pytest.mark.parametrize("troubles", SURVIVED.values(), ids=SURVIVED)
def test_what_comes_over_a_bad_way_is_what_the_service_has(
    fetch: Fetch, plain: pl.DataFrame, troubles: list[Trouble]
) -> None:
    came, used = fetch(*troubles)
    assert came.frame.equals(plain)
    sent = 3 + sum(trouble.__name__ == "refuse" for trouble in troubles)
    assert (came.metadata.requests, came.metadata.weight, used) == (sent, WEIGHT, WEIGHT)


WRONG: dict[str, tuple[Trouble, type[Exception]]] = {
    "twice and different": (changed(twice_and_different), IncompleteDataError),
    "half a body": (changed(lambda body: body[: len(body) // 2]), DecodeError),
    "nothing": (changed(lambda body: b""), TransportError),
    "JSON as Arrow": (changed(bytes, content_type="application/vnd.apache.arrow.stream"), DecodeError),
    "a bomb": (changed(lambda body: gzip.compress(b" " * 10**7), content_encoding="gzip"), DecodeError),
    "half a gzip": (changed(lambda body: gzip.compress(body)[:-20], content_encoding="gzip"), TransportError),
    "no gzip": (changed(bytes, content_encoding="gzip"), TransportError),
    "of another coin": (changed(lambda body: body.replace(b"BTC", b"ETH")), DecodeError),
}


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "error"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_right_is_an_error_and_nothing_is_returned(
    fetch: Fetch, trouble: Trouble, error: type[Exception]
) -> None:
    came, _ = fetch(*[trouble] * 20, max_body=10**6, attempts=2)
    assert isinstance(came, error), repr(came)
    assert KEY not in f"{came} {vars(came)}"


ENDLESS: dict[str, tuple[Trouble, type[Exception]]] = {
    "500": (status(500), ServerError),
    "429": (status(429), RateLimitError),
    "429, in thirty years": (status(429, retry_after="1e9"), RateLimitError),
}


@pytest.mark.parametrize(("trouble", "error"), ENDLESS.values(), ids=ENDLESS)
def test_trouble_without_end_is_an_error_and_charges_nothing(
    fetch: Fetch, trouble: Trouble, error: type[Exception]
) -> None:
    began = time.monotonic()
    came, used = fetch(*[trouble] * 100, attempts=3, deadline=5)
    assert isinstance(came, error)
    assert used == 0
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_the_rest_is_there_where_a_part_is_flagged(fetch: Fetch, plain: pl.DataFrame) -> None:
    came, used = fetch(*[status(500)] * 2, attempts=2, parallel=1, partial="flag")
    start, end = BOOK["start"], BOOK["start"] + 4_000 * 60  # type: ignore[operator]
    assert came.metadata.missing == ((start, end),)
    assert (came.metadata.requests, came.metadata.weight, used) == (4, WEIGHT - 40, WEIGHT - 40)
    left = plain.filter(pl.col("timestamp").dt.epoch("s") >= end)
    assert came.frame.equals(left)


# --- what happens to connections: no app can do that ---


def answer_of(start: int) -> bytes:
    points = [
        {
            "Point": {
                "timestamp": {"s": start},
                "open": 1.0,
                "high": 1.0,
                "low": 1.0,
                "close": 1.0,
                "volume": 1.0,
            }
        }
    ]
    series_id = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "X", "rawSymbol": "BTC"}
    return orjson.dumps({"series": [{"id": series_id, "points": points}]})


class Breaking:
    """A server that breaks so many answers in its way, and gives the others whole."""

    def __init__(self, way: str, times: int) -> None:
        self.way, self.left, self.asked = way, times, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                self.asked += b"/v1/points" in connection.recv(2**16)
                body = answer_of(0)
                if self.left:
                    self.left -= 1
                    self.break_off(connection, body)
                else:
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    connection.sendall(head.encode() + body)

    def break_off(self, connection: socket.socket, body: bytes) -> None:
        if self.way == "half a body":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:20])
        elif self.way == "half a chunk":
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body)
            connection.sendall(head + body[:20])
        elif self.way == "half a head":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif self.way == "a reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self.way == "no HTTP":
            connection.sendall(os.urandom(64).replace(b"HTTP", b"") + b"\r\n\r\n")

    def close(self) -> None:
        self.listening.close()


WAYS = ["half a body", "half a chunk", "half a head", "a reset", "a close", "no HTTP"]
MINUTES = {"exchange": "X", "raw_symbol": "BTC", "interval": "1m", "start": 0, "end": 60}


@pytest.fixture
def breaking() -> Iterator[Callable[[str, int], Breaking]]:
    made: list[Breaking] = []

    def make(way: str, times: int) -> Breaking:
        made.append(Breaking(way, times))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_connection_that_breaks_is_made_again(
    breaking: Callable[[str, int], Breaking], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("tidytape.client._request._failing", lambda attempt: 0.01)
    server = breaking(way, 2)
    with tidytape.Client(server.address, KEY) as client:
        told = client.fetch(client.query.candles(**MINUTES))  # type: ignore[arg-type]
    assert told.frame.height == 1
    charged = (
        3 if way in {"half a body", "half a chunk"} else 1
    )  # what was accepted is charged, arrived or not
    assert (told.metadata.requests, told.metadata.weight, server.asked) == (3, charged, 3)

    async def again() -> Any:
        async with tidytape.AsyncClient(server.address, KEY) as other:
            return await other.fetch(other.query.candles(**MINUTES))  # type: ignore[arg-type]

    server.left, server.asked = 2, 0
    assert asyncio.run(again()).frame.equals(told.frame)
    assert server.asked == 3


@pytest.mark.parametrize("way", WAYS)
def test_connections_that_all_break_are_an_error(
    breaking: Callable[[str, int], Breaking], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("tidytape.client._request._failing", lambda attempt: 0.01)
    server = breaking(way, 100)
    with tidytape.Client(server.address, KEY, attempts=3) as client, pytest.raises(TransportError) as caught:
        client.candles(**MINUTES)  # type: ignore[arg-type]
    assert server.asked == 3
    assert str(caught.value).startswith(f"{server.address}: ")
    assert caught.value.weight == 1


def test_a_transport_that_lies_about_what_is_left_is_not_believed_for_long() -> None:
    """What a service says of its budget may be nonsense; the fetch ends all the same."""

    class Lying(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            lies = {"X-RateLimit-Limit": "1000000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"}
            return httpx.Response(200, content=answer_of(0), headers=lies)

    with tidytape.Client("http://lying", KEY, transport=Lying(), parallel=1) as client:
        for _ in range(5):
            assert client.candles(**MINUTES).height == 1  # type: ignore[arg-type]
