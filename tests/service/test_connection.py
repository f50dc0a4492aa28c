"""Bytes on a real socket that are no request, or never become one: the server answers what it can, and lives on."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvicorn

from tables import each_row
from tidytape.catalogue import ERROR_STATUS
from tidytape.lake import Lake
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.http import _connection as connection
from tidytape.service.http._connection import LISTENING

SECONDS = 20  # after which a test has hung
KEY = b"X-Service-Key: enterprise-key\r\n"
GOOD = b"GET /v1/usage HTTP/1.1\r\nHost: service\r\n" + KEY + b"\r\n"
LAST = GOOD[:-2] + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[Callable[[], socket.socket]]:
    """A service on a port of this machine, and a way to connect to it."""
    app = create_app(Lake(lake), Keys([Key("e", hashed("enterprise-key"), "enterprise", created=0)]))
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_keep_alive=1, **LISTENING)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = server.servers[0].sockets[0].getsockname()
    yield lambda: socket.create_connection(address, timeout=SECONDS)
    server.should_exit = True
    thread.join(SECONDS)
    assert not thread.is_alive()


def everything(sock: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def said(server: Callable[[], socket.socket], sent: bytes) -> bytes:
    """What the server says to some bytes, after which it hangs up."""
    with server() as sock:
        sock.sendall(sent)
        return everything(sock)


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes, bytes]:
    """Status, headers and body of the first answer, and the rest."""
    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    head, _, rest = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    length = int(headers["content-length"])
    return int(first.split(" ")[1]), headers, rest[:length], rest[length:]


def is_well(server: Callable[[], socket.socket]) -> None:
    status, _, body, rest = parsed(said(server, LAST))
    assert (status, json.loads(body)["limit"], rest) == (200, 750, b"")


def refused(answer: bytes) -> str:
    """The code of a refusal that has the one shape, and after which the server hung up."""
    status, headers, body, rest = parsed(answer)
    told = json.loads(body)
    assert (set(told), rest) == ({"error", "message"}, b"")
    assert ERROR_STATUS[told["error"]] == status
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert len(headers["x-request-id"]) == 16
    return str(told["error"])


def with_headers(lines: bytes) -> bytes:
    return b"GET /v1/usage HTTP/1.1\r\nHost: service\r\n" + KEY + lines + b"\r\n\r\n"


NO_REQUEST = {
    "words": b"hello?\r\n\r\n",
    "no target": b"GET\r\n\r\n",
    "no version": b"GET /v1/usage\r\n\r\n",
    "a version that is none": b"GET /v1/usage HTTP/9.9.9\r\n\r\n",
    "a secure hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n",
    "a NUL in the target": b"GET /v1/\x00 HTTP/1.1\r\nHost: service\r\n\r\n",
    "raw bytes in the target": b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: service\r\n\r\n",
    "a space in the target": b"GET /v1/usage x HTTP/1.1\r\nHost: service\r\n\r\n",
    "no host": b"GET /v1/usage HTTP/1.1\r\n\r\n",
    "two hosts": with_headers(b"Host: elsewhere"),
    "no colon": with_headers(b"nonsense"),
    "a space before the colon": with_headers(b"X-A : b"),
    "an empty name": with_headers(b": b"),
    "a NUL in a value": with_headers(b"X-A: b\x00c"),
    "a bare CR in a value": with_headers(b"X-A: b\rc"),
    "two lengths": with_headers(b"Content-Length: 1\r\nContent-Length: 2"),
    "a negative length": with_headers(b"Content-Length: -1"),
    "a length that is none": with_headers(b"Content-Length: 1e9"),
    "an unknown coding": with_headers(b"Transfer-Encoding: gzip"),
}


@each_row("sent", NO_REQUEST.values())
def test_what_is_no_request_is_refused_in_the_one_shape(server: Any, sent: bytes) -> None:
    assert refused(said(server, sent)) == "INVALID_REQUEST"
    is_well(server)


MEGABYTE = b"a" * (1 << 20)
TOO_LONG = {
    "a request line": (b"GET /v1/points?" + MEGABYTE + b" HTTP/1.1\r\nHost: service\r\n\r\n", "URI_TOO_LONG"),
    "a request line without end": (b"GET /" + MEGABYTE * 8, "URI_TOO_LONG"),
    "a method": (MEGABYTE, "URI_TOO_LONG"),
    "a header": (with_headers(b"X-A: " + MEGABYTE), "HEADERS_TOO_LONG"),
    "a header without end": (b"GET / HTTP/1.1\r\nX-A: " + MEGABYTE * 8, "HEADERS_TOO_LONG"),
    "a hundred thousand headers": (with_headers(b"\r\n".join([b"X-A: b"] * 100_000)), "HEADERS_TOO_LONG"),
    "a key": (b"GET /v1/usage HTTP/1.1\r\nX-Service-Key: " + MEGABYTE + b"\r\n\r\n", "HEADERS_TOO_LONG"),
}


@each_row(("sent", "code"), TOO_LONG.values())
def test_what_is_too_long_is_refused_and_the_refusal_can_be_read(server: Any, sent: bytes, code: str) -> None:
    assert refused(said(server, sent)) == code
    is_well(server)


def test_the_longest_query_that_is_read_is_refused_by_the_app(server: Any) -> None:
    sent = LAST.replace(b"/v1/usage", b"/v1/usage?" + b"a" * 70_000)
    status, headers, body, _ = parsed(said(server, sent))
    assert (status, json.loads(body)["error"]) == (414, "URI_TOO_LONG")
    assert headers["x-ratelimit-limit"] == "750"


@pytest.mark.slow
def test_requests_in_a_row_are_answered_in_a_row(server: Any) -> None:
    paths = [b"/v1/usage", b"/v1/nothing", b"/healthz", b"/v1/types"] * 25
    rest = said(server, b"".join(GOOD.replace(b"/v1/usage", path) for path in paths) + LAST)
    statuses = []
    while rest:
        status, _, _, rest = parsed(rest)
        statuses.append(status)
    assert statuses == [200, 404, 200, 200] * 25 + [200]


def test_what_follows_a_good_request_and_is_none_is_refused_after_its_answer(server: Any) -> None:
    status, _, _, rest = parsed(said(server, GOOD + b"hello?\r\n\r\n"))
    assert status == 200
    assert refused(rest) == "INVALID_REQUEST"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        GOOD[:-2] + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1_000_000,
        LAST[:-2] + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        LAST[:-2] + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        LAST[:-2] + b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n",
        GOOD.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
    ids=["body", "chunks", "expect", "upgrade", "1.0"],
)
def test_what_a_request_needs_not_have_changes_nothing(
    server: Any, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(
        connection, "_PATIENCE", 1
    )  # what follows a body nobody asked for is waited for no longer
    status, _, body, _ = parsed(said(server, sent))
    assert (status, json.loads(body)["window_seconds"]) == (200, 60)
    is_well(server)


def test_a_request_whose_length_is_said_twice_is_refused_and_nothing_after_it_is_read(server: Any) -> None:
    """A proxy that believes the other header would take the body for the next request."""
    smuggled = b"GET /v1/types HTTP/1.1\r\nHost: service\r\n" + KEY + b"\r\n"
    head = GOOD[:-2] + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = said(server, head + b"0\r\n\r\n" + smuggled)
    assert refused(answer) == "INVALID_REQUEST"
    is_well(server)


@pytest.mark.parametrize(
    "form", [b"http://service/v1/usage", b"HTTP://service:8000/v1/usage?x=", b"https://a/v1/usage"]
)
def test_a_target_with_the_whole_address_is_answered(server: Any, form: bytes) -> None:
    status, _, body, _ = parsed(said(server, LAST.replace(b"/v1/usage", form)))
    if b"?" in form:
        assert (status, json.loads(body)["error"]) == (400, "INVALID_PARAMS")
    else:
        assert (status, json.loads(body)["window_seconds"]) == (200, 60)


@pytest.mark.slow
def test_a_body_that_breaks_off_or_is_none_is_survived(server: Any) -> None:
    for body in (b"Content-Length: 1000\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nnonsense"):
        said(server, GOOD[:-2] + body)
        is_well(server)


def test_a_head_has_no_body(server: Any) -> None:
    answer = said(server, LAST.replace(b"GET", b"HEAD"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: GET\r\n" in head
    assert body == b""
    assert said(server, LAST.replace(b"GET /v1/usage", b"HEAD /healthz")).startswith(b"HTTP/1.1 200 ")


def test_a_request_that_comes_byte_by_byte_is_answered(server: Any) -> None:
    with server() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(LAST)):
            sock.sendall(LAST[at : at + 1])
        assert parsed(everything(sock))[0] == 200


def test_hundreds_of_half_requests_keep_nobody_else_waiting(server: Any) -> None:
    halves = [server() for _ in range(300)]
    for number, sock in enumerate(halves):
        sock.sendall(LAST[: number % len(LAST)])
    is_well(server)
    for number, sock in enumerate(halves):
        if number % 2:
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )  # to reset, not to close
        sock.close()
    is_well(server)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"", b"GET /v1/us", GOOD[:-2], GOOD[:-2] + b"Content-Length: 9\r\n\r\nh", GOOD + b"GET /"]
)
def test_who_does_not_finish_is_not_waited_for(
    server: Any, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "_PATIENCE", 0.2)
    with server() as sock:
        sock.sendall(sent)
        answered = everything(sock)  # comes to an end, for the server hangs up
    assert answered == b"" or parsed(answered)[0] == 200
    is_well(server)


@pytest.mark.slow
def test_thousands_of_requests_with_bytes_changed_at_random(
    server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rng = Random(7)
    points = b"/v1/points?type=TRADE_AGG&exchange=ALPHA&rawSymbol=BTCUSDT&interval=HOUR&from=1723161600&period=7200"
    with caplog.at_level(logging.ERROR):
        for _ in range(1_000):
            sent = bytearray(LAST.replace(b"/v1/usage", points))
            for _ in range(rng.choice([1, 1, 2, 5, 20])):
                at = rng.randrange(len(sent))
                change = rng.randrange(3)
                if change == 0:
                    sent[at] = rng.randrange(256)
                elif change == 1:
                    sent[at:at] = rng.choice(
                        [b"\r\n", b"\n", b"\x00", b" ", b":", b"%", b"\xff", b"GET / HTTP/1.1\r\n"]
                    )
                else:
                    del sent[at : at + rng.randrange(1, 9)]
            # Whatever became of it, the last request ends it: as one of its own, or as part of what is none.
            answer = said(server, bytes(sent) + b"\r\n\r\n" + LAST)
            while answer:
                status, headers, body, answer = parsed(answer)
                if status >= 400:
                    assert ERROR_STATUS[json.loads(body)["error"]] == status < 500, (sent, body)
                    assert "x-request-id" in headers
    assert not caplog.records
    is_well(server)
