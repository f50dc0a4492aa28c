"""Clients against services that mean harm: every call ends in time, within memory, with an error that says why."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import pickle
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx
import pytest

import tidytape
from tables import each_row
from tidytape.client._local import AppTransport
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    ForkError,
    IncompleteDataError,
    QueryError,
    RateLimitError,
    ServerError,
    TransportError,
)

KEY = "the-secret-key"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Write = Callable[[bytes], Awaitable[None]]


def whole(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return HEAD + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def drip_body(write: Write, path: str) -> None:
    await write(HEAD + b"Content-Length: 100000\r\n\r\n")
    while True:
        await write(b" ")
        await asyncio.sleep(0.02)


async def drip_headers(write: Write, path: str) -> None:
    await write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await write(b"X-A: b\r\n")
        await asyncio.sleep(0.02)


async def early_hints(write: Write, path: str) -> None:
    while True:
        await write(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
        await asyncio.sleep(0.02)


async def silent(write: Write, path: str) -> None:
    await asyncio.sleep(10)


async def endless(write: Write, path: str) -> None:
    await write(HEAD + b"\r\n")
    while True:
        await write(b" " * 2**16)


async def bomb(write: Write, path: str) -> None:
    await write(whole(gzip.compress(b" " * 2**25), b"Content-Encoding: gzip"))


async def bomb_in_bomb(write: Write, path: str) -> None:
    body = gzip.compress(gzip.compress(b" " * 2**25))
    await write(whole(body, b"Content-Encoding: gzip, gzip"))


async def long_failure(write: Write, path: str) -> None:
    await write(b"HTTP/1.1 500 Oops\r\n\r\n")
    while True:
        await write(b"x" * 2**16)


async def coded_failure(write: Write, path: str) -> None:
    await write(whole(b"??", b"Content-Encoding: br").replace(b"200 OK", b"500 Oops", 1))


def page_at(path: str) -> int:
    return int(parse_qs(urlparse(path).query).get("pageOffset", ["0"])[0])


async def pages_for_ever(write: Write, path: str) -> None:
    at = page_at(path)
    page = {"symbols": [{"exchange": "X", "rawSymbol": str(at)}], "nextOffset": at + 1}
    await write(whole(json.dumps(page).encode()))


MODES = {one.__name__: one for one in (
    drip_body, drip_headers, early_hints, silent, endless, bomb, bomb_in_bomb, long_failure, coded_failure,
    pages_for_ever,
)}  # fmt: skip


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split()[1].decode()
            await MODES[path.split("/")[1]](write, path)
            if not path.startswith("/pages"):
                break
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def over() -> None:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(over(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


Ask = Callable[..., Any]


@pytest.fixture(params=["sync", "asyncio"])
def ask(request: pytest.FixtureRequest, address: str) -> Ask:
    """Call a method of one or the other client on a mode of the service."""

    def plain(mode: str, method: str = "usage", **options: Any) -> Any:
        with tidytape.Client(f"{address}/{mode}", KEY, **options) as client:
            return getattr(client, method)()

    def awaited(mode: str, method: str = "usage", **options: Any) -> Any:
        async def call() -> Any:
            async with tidytape.AsyncClient(f"{address}/{mode}", KEY, **options) as client:
                return await getattr(client, method)()

        return asyncio.run(call())

    return plain if request.param == "sync" else awaited


# --- time ---


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["drip_body", "drip_headers", "early_hints", "silent"])
def test_the_deadline_bounds_whatever_the_service_does(ask: Ask, mode: str) -> None:
    began = time.monotonic()
    with pytest.raises(TransportError, match=r"within the deadline of 0\.3 s") as caught:
        ask(mode, deadline=0.3)
    assert time.monotonic() - began < 5
    assert caught.value.url is not None


@pytest.mark.slow
def test_the_timeout_is_of_one_attempt_and_the_deadline_of_all(ask: Ask) -> None:
    with pytest.raises(TransportError, match="ReadTimeout"):  # a busy machine connects within half a second
        ask("silent", timeout=0.5, deadline=30, attempts=1)


def test_what_was_left_behind_ends_with_the_next_part(address: str) -> None:
    before = threading.active_count()
    with (
        tidytape.Client(f"{address}/drip_body", KEY, deadline=0.1) as client,
        pytest.raises(TransportError),
    ):
        client.usage()
    until = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.slow
def test_a_refused_connection_is_an_error_soon() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it
        began = time.monotonic()
        with (
            tidytape.Client(f"http://127.0.0.1:{taken.getsockname()[1]}", KEY) as client,
            pytest.raises(TransportError, match="is a service running there"),
        ):
            client.usage()
        assert time.monotonic() - began < 3


def test_only_a_refused_connection_has_short_pauses(script: Any, waits: list[float]) -> None:
    for trouble, longest in ((httpx.ConnectError("no"), 0.4), (httpx.Response(500), 30.0)):
        with pytest.raises((TransportError, ServerError)):
            tidytape.Client("http://never", "another-key", transport=script(trouble), attempts=12).usage()
        assert len(waits) == 11
        assert max(waits) <= longest
        waits.clear()


@pytest.mark.parametrize("value", ["0", "-5"])
def test_come_back_at_once_is_not_believed(client: Any, script: Any, waits: list[float], value: str) -> None:
    with pytest.raises(RateLimitError) as caught:
        client(script(httpx.Response(429, headers={"retry-after": value})), attempts=8).usage()
    assert caught.value.retry_after is None
    assert max(waits) > 0


def test_a_date_to_come_back_at_is_honoured(client: Any, script: Any, waits: list[float]) -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 60))
    with pytest.raises(RateLimitError):
        client(script(httpx.Response(429, headers={"retry-after": date})), attempts=2).usage()
    assert len(waits) == 1
    assert 50 < waits[0] <= 60


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_a_service_that_says_when_to_come_back_is_waited_for(
    client: Any, script: Any, waits: list[float], candles: Any, window: Any, status: int
) -> None:
    service = script(httpx.Response(status, headers={"retry-after": "7"}), candles(0, 60))
    asked = client(service)
    came = asked.fetch(asked.query.candles(**{**window, "end": 120}))
    assert waits == [7.0]
    assert (came.frame.height, came.metadata.requests, len(service.requests)) == (2, 2, 2)


def test_a_service_that_says_to_come_back_too_late_is_not_waited_for(
    client: Any, script: Any, waits: list[float]
) -> None:
    with pytest.raises(ServerError) as caught:
        client(script(httpx.Response(503, headers={"retry-after": "400"}))).usage()
    assert caught.value.retry_after == 400.0
    assert waits == []


# --- size ---


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["endless", "bomb"])
def test_a_body_is_read_up_to_a_limit(ask: Ask, mode: str) -> None:
    with pytest.raises(DecodeError, match="longer than max_body, 1000000 bytes") as caught:
        ask(mode, max_body=1_000_000)
    assert "larger max_body" in str(caught.value)


@pytest.mark.slow
def test_encodings_that_were_not_asked_for_are_not_decoded(ask: Ask) -> None:
    with pytest.raises(DecodeError, match="encoded as gzip, gzip"):
        ask("bomb_in_bomb")
    with pytest.raises(ServerError, match="HTTP 500"):
        ask("coded_failure", attempts=1)


@pytest.mark.slow
def test_of_a_refusal_the_beginning_is_read(ask: Ask) -> None:
    with pytest.raises(ServerError, match="HTTP 500: xxx"):
        ask("long_failure", attempts=1)


# --- pages ---


def page(*rows: dict[str, Any] | str, following: int | None) -> httpx.Response:
    symbols = [{"exchange": "X", "rawSymbol": row} if isinstance(row, str) else row for row in rows]
    return httpx.Response(200, json={"symbols": symbols, "nextOffset": following})


def test_a_service_that_does_not_heed_the_offset(client: Any, script: Any) -> None:
    service = script(lambda request: page("A", "B", following=page_at(str(request.url)) + 2))
    with pytest.raises(IncompleteDataError, match="bring nothing new"):
        client(service).markets()
    assert len(service.requests) == 4


@pytest.mark.slow
def test_pages_without_end_end_with_the_deadline(ask: Ask) -> None:
    with pytest.raises(TransportError, match=r"deadline of 0\.3 s"):
        ask("pages_for_ever", "markets", deadline=0.3)


def test_pages_without_end_end_with_their_number(
    client: Any, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidytape.client._request._MOST_PAGES", 5)

    def answer(request: httpx.Request) -> httpx.Response:
        at = page_at(str(request.url))
        return page(str(at), following=at + 1)

    service = script(answer)
    with pytest.raises(IncompleteDataError, match="5 pages and no end"):
        client(service).markets()
    assert len(service.requests) == 5


def test_a_market_that_came_twice_is_there_once(client: Any, script: Any) -> None:
    nested = {"exchange": "X", "rawSymbol": "P", "predictionMarkets": [{"slug": "rain"}]}
    service = script(page("A", nested, following=2), page(nested, "B", following=4), page(following=4))
    assert client(service).markets()["raw_symbol"].to_list() == ["A", "P", "B"]


def test_of_a_list_that_moves_between_pages_the_last_answer_counts(client: Any, script: Any) -> None:
    other = {"exchange": "X", "rawSymbol": "B", "coin": "ETH"}
    service = script(page("A", "B", following=2), page(other, "C", following=4), page(following=4))
    assert client(service).markets().select("raw_symbol", "coin").rows() == [
        ("A", None),
        ("B", "ETH"),
        ("C", None),
    ]


def test_a_page_that_the_list_pushed_down_is_no_end(client: Any, script: Any) -> None:
    service = script(
        page("B", following=1), page("B", following=2), page("C", following=3), page(following=3)
    )
    assert client(service).markets(page_size=1)["raw_symbol"].to_list() == ["B", "C"]


# --- something else than was asked for ---


def answered(series_id: dict[str, str], kind: str = "TRADE_SIDE_AGNOSTIC_AGG") -> httpx.Response:
    points = [{"Point": {"timestamp": {"s": 0}, "close": 1.0}}]
    return httpx.Response(200, json={"series": [{"id": {"type": kind, **series_id}, "points": points}]})


@pytest.mark.parametrize(
    ("series_id", "named"),
    [
        ({"exchange": "EVIL", "rawSymbol": "BTC"}, "asked for exchange X, the service sent EVIL"),
        ({"exchange": "X", "rawSymbol": "ETH"}, "asked for raw_symbol BTC, the service sent ETH"),
        ({"exchange": "X", "rawSymbol": "BTC", "interval": "DAY"}, "asked for interval .*1m.* sent 1d"),
    ],
)
def test_a_series_of_something_else(
    client: Any, script: Any, window: Any, series_id: dict[str, str], named: str
) -> None:
    with pytest.raises(DecodeError, match=named):
        client(script(answered(series_id))).candles(**window)


def test_a_series_of_the_other_side(client: Any, script: Any, window: Any) -> None:
    service = script(answered({"exchange": "X", "rawSymbol": "BTC", "side": "SELL"}, "TRADE_AGG"))
    with pytest.raises(DecodeError, match="asked for side BUY, the service sent SELL"):
        client(service).candles(**window, side="buy")


@pytest.mark.parametrize(
    "series_id", [{}, {"exchange": "X"}, {"exchange": "X", "rawSymbol": "BTC", "interval": "MINUTE"}]
)
def test_a_series_that_does_not_say_what_it_is(
    client: Any, script: Any, window: Any, series_id: dict[str, str]
) -> None:
    assert client(script(answered(series_id))).candles(**window).height == 1


def test_a_group_is_of_no_single_exchange(client: Any, script: Any, window: Any) -> None:
    service = script(answered({"exchange": "ALL", "coin": "BTC"}))
    query = {"exchange": ["X", "Y"], "coin": "BTC", "interval": "1m", "start": 0, "end": 600}
    assert client(service).candles(**query, group_by="sum").height == 1


# --- what is shown, and kept ---


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("trouble", [httpx.ConnectError("no"), httpx.ReadTimeout("slow")])
def test_no_error_leads_to_the_request_and_its_key(
    client: Any, script: Any, waits: list[float], trouble: Any
) -> None:
    with pytest.raises(TransportError) as caught:
        client(script(trouble), attempts=2).usage()
    assert not [one for one in chain(caught.value) if isinstance(one, httpx.HTTPError)]
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert KEY not in "".join(told.format())


def test_settings_are_not_pickled() -> None:
    with tidytape.Client("https://service", KEY) as client, pytest.raises(TypeError, match="hold a key"):
        pickle.dumps(client._settings)


@pytest.mark.parametrize("status", [400, 403, 500])
def test_what_a_service_says_cannot_act_on_a_terminal(client: Any, script: Any, status: int) -> None:
    said = {"error": "\x1b[31mBAD", "message": "\x1b]0;pwn\x07\r\n\u202e" + "y" * 10_000}
    for response in (httpx.Response(status, json=said), httpx.Response(status, text=said["message"])):
        with pytest.raises(tidytape.TidytapeError) as caught:
            client(script(response), attempts=1).usage()
        assert str(caught.value).isprintable()
        assert r"\x1b]0;pwn\x07" in str(caught.value)
        assert len(str(caught.value)) < 1100


@pytest.mark.parametrize(
    "content",
    [b'{"limit": 1e308, "remaining": "x", "used": 1, "reset": 1, "window_seconds": 1}', b'{"limit": 1e999}'],
)
def test_a_quota_of_no_integers(client: Any, script: Any, content: bytes) -> None:
    with pytest.raises(DecodeError):
        client(script(httpx.Response(200, content=content))).usage()


# --- settings ---


@each_row(
    ("option", "value"),
    [
        *[(name, bad) for name in ("timeout", "deadline") for bad in ("5", None, True, float("nan"), -1)],
        ("deadline", float("inf")),
        ("timeout", 10**400),
        *[(name, bad) for name in ("attempts", "max_body") for bad in ("5", None, True, 1.5, 0)],
        *[("auth_header", bad) for bad in ("", "Bad Header", "X\n", "X-Kéy", "X:", None, b"X")],
    ],
)
def test_a_setting_that_is_none_is_refused(option: str, value: object) -> None:
    for kind in (tidytape.Client, tidytape.AsyncClient):
        with pytest.raises(QueryError) as caught:
            kind("http://service", KEY, **{option: value})  # type: ignore[call-overload]
        assert caught.value.parameter == option


@pytest.mark.parametrize("key", [b"the-secret-key", ["the-secret-key"], 20240808])
def test_a_key_that_is_no_text_is_refused_and_not_shown(key: object) -> None:
    with pytest.raises(AuthenticationError, match="expected a str") as caught:
        tidytape.Client("http://service", key)  # type: ignore[call-overload]
    assert "secret" not in str(caught.value)
    assert "2024" not in str(caught.value)


# --- after the end ---


def test_a_closed_client_says_so(client: Any, script: Any) -> None:
    closed = client(script(httpx.Response(200, json={})))
    closed.close()
    with pytest.raises(TransportError, match="the client is closed"):
        closed.usage()

    async def later() -> None:
        other = tidytape.AsyncClient("https://service", KEY)
        await other.aclose()
        with pytest.raises(TransportError, match="the client is closed"):
            await other.usage()

    asyncio.run(later())


def test_closing_a_local_client_ends_what_runs() -> None:
    entered = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await asyncio.sleep(60)

    client = tidytape.Client("http://service", KEY, transport=AppTransport(app))
    said: list[Exception] = []

    def use() -> None:
        try:
            client.usage()
        except TransportError as error:
            said.append(error)

    user = threading.Thread(target=use)
    user.start()
    assert entered.wait(5)
    client.close()
    user.join(5)
    assert [str(error) for error in said] == ["the client is closed; make another one"]


# --- forks ---


def in_a_fork(work: Callable[[], bool], *, seconds: float = 10.0) -> bool:
    """Say whether the work is true in a forked process, which must end in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork of many threads is what is tested
        child = os.fork()
    if child == 0:
        good = False
        try:
            good = work()
        finally:
            os._exit(0 if good else 1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


async def pong(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": []})
    await send({"type": "http.response.body", "body": b"no"})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_has_no_part_in_a_local_client(tmp_path: Path) -> None:
    transport = AppTransport(pong, folder=str(tmp_path))
    client = tidytape.Client("http://service", KEY, transport=transport)
    with pytest.raises(AuthenticationError):
        client.usage()

    def child() -> bool:
        try:
            client.usage()
        except ForkError as error:
            client.close()
            transport._finalizer()
            return "spawn" in str(error)
        return False

    assert in_a_fork(child)
    assert tmp_path.is_dir()
    with pytest.raises(AuthenticationError):  # and the parent's goes on
        client.usage()
    client.close()
    assert not tmp_path.exists()
