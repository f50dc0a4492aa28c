"""A service that streams lines, as a transport for both clients, and a way to follow a stream with either of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import httpx
import orjson
import pytest

import tidytape
from tidytape.client import StreamBatch

KEY = "the-secret-key"
TYPE = "TRADE_SIDE_AGNOSTIC_AGG"
QUERY: dict[str, Any] = {"exchange": "X", "raw_symbol": "BTC", "interval": "1m", "start": 0}
KINDS = ["sync", "async"]


def candle(second: int, close: float = 1.0) -> dict[str, Any]:
    prices = {"open": 1.0, "high": 9.0, "low": 0.5, "close": close, "volume": 3.0}
    return {"Point": {"timestamp": {"s": second}, **prices}}


def series(points: Sequence[tuple[int, float]], name: str = TYPE) -> list[dict[str, Any]]:
    market = {"type": name, "exchange": "X", "rawSymbol": "BTC", "interval": "MINUTE"}
    return [{"id": market, "points": [candle(*point) for point in points]}]


def line(
    token: str, *, over: int | None = None, end: str | None = None, **changes: Sequence[tuple[int, float]]
) -> bytes:
    """A batch of candles, as (second, close) of each change."""
    members: dict[str, Any] = {change: series(points) for change, points in changes.items()}
    if over is not None:
        members["over"] = {TYPE: {"s": over}}
    members["token"] = token
    if end is not None:
        members["end"] = {"code": end, "message": "so it is"}
    return orjson.dumps(members) + b"\n"


LINES = [
    line("t0", final=[(0, 1.0), (60, 2.0)], update=[(120, 1.5)], over=60),
    line("t1"),
    line("t2", update=[(120, 1.6)]),
    line("t3", revision=[(0, 1.1)], final=[(120, 1.7)], over=120),
    line("t4", end="PERIOD_OVER"),
]

FOREVER = b""
"""A part for which a reader waits until it goes away."""


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body part by part; an exception among them is raised, and for `FOREVER` it waits."""

    def __init__(self, parts: Iterable[bytes | Exception]) -> None:
        self.parts = parts
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            if part == FOREVER:
                self.closed.wait(20)
                return
            yield part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            if part == FOREVER:
                await asyncio.sleep(20)
                return
            yield part

    def close(self) -> None:
        self.closed.set()

    async def aclose(self) -> None:
        self.closed.set()


def answer(*parts: bytes | Exception, **headers: str) -> httpx.Response:
    body = Parts(parts)
    shown = {"content-type": "application/x-ndjson", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return httpx.Response(200, headers=shown, stream=body, extensions={"tidytape.abort": body.closed.set})


def refusal(status: int, code: str, **headers: str) -> httpx.Response:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={"error": code, "message": "so it is"}, headers=shown)


Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Streaming(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Gives its answers one after the other, the last one for ever, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    @property
    def tokens(self) -> list[str | None]:
        return [request.url.params.get("token") for request in self.requests]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, Exception):
            raise given
        return given(request) if callable(given) else given

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


def rest_of(lines: Sequence[bytes], request: httpx.Request) -> bytes:
    """The lines after the token of a request, as the service goes on from it."""
    token = request.url.params.get("token")
    tokens = [orjson.loads(one)["token"] for one in lines]
    return b"".join(lines[tokens.index(token) + 1 :] if token else lines)


def resuming(lines: Sequence[bytes], cuts: Iterable[int] = (), size: int = 2**16) -> Streaming:
    """A service that goes on from a token, and cuts one connection after the other after so many bytes."""
    pending = list(cuts)

    def serve(request: httpx.Request) -> httpx.Response:
        body = rest_of(lines, request)
        if pending:
            body = body[: pending.pop(0) % (len(body) + 1)]
        return answer(*(body[at : at + size] for at in range(0, len(body), size)))

    return Streaming(serve)


def make(kind: str, transport: Any, **options: Any) -> Any:
    made = tidytape.Client if kind == "sync" else tidytape.AsyncClient
    return made("http://service", KEY, transport=transport, **options)


def follow(
    kind: str,
    transport: Any,
    *,
    options: dict[str, Any] | None = None,
    each: Callable[[Any, StreamBatch[Any]], object] = lambda stream, batch: None,
    types: str | list[str] = TYPE,
    **query: Any,
) -> list[StreamBatch[Any]]:
    """Follow a stream to its end with either client, without pauses between connections."""
    client = make(kind, transport, **(options or {}))
    batches = []

    async def awaited() -> None:
        async with client.stream(types, **(QUERY | query)) as stream:
            async for batch in stream:
                batches.append(batch)
                each(stream, batch)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidytape.client._following.pause_after", lambda *_, **__: 0.0)
        if kind == "async":
            asyncio.run(awaited())
        else:
            with client.stream(types, **(QUERY | query)) as stream:
                for batch in stream:
                    batches.append(batch)
                    each(stream, batch)
    return batches
