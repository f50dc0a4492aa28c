"""What takes a connection of its own: bytes that are HTTP, or are not."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from client.hostile.case import GOOD, KEY, RIGHT, Case
from client.hostile.streams import arrow
from tidytape.errors import ServerError, ServiceError, TransportError
from tidytape.wire._arrow import ARROW_MIME


def raw(*lines: bytes, then: bytes = b"", status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join([status, *lines, b"Connection: close", b"", then])


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in chunks)


CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: %d" % len(GOOD)


def connections() -> Iterator[Case]:
    stream, echo = arrow(), KEY.encode()
    members = gzip.compress(GOOD[:50]) + gzip.compress(GOOD[50:])
    right = {
        "HTTP/1.0 without a length": raw(status=b"HTTP/1.0 200 OK", then=GOOD),
        "no length": raw(then=GOOD),
        "no length, Arrow": raw(b"Content-Type: " + ARROW_MIME.encode(), then=stream),
        "chunks of a byte": raw(
            CHUNKED, then=chunked(*(GOOD[at : at + 1] for at in range(len(GOOD)))) + b"0\r\n\r\n"
        ),
        "gzip in chunks of three bytes": raw(
            CHUNKED,
            b"Content-Encoding: gzip",
            then=chunked(*(members[at : at + 3] for at in range(0, len(members), 3))) + b"0\r\n\r\n",
        ),
        "more than its length": raw(LENGTH, then=GOOD + b"x" * 99),
        "interim answers": b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 9 + raw(LENGTH, then=GOOD),
        "a version that there is not": raw(LENGTH, then=GOOD, status=b"HTTP/3.0 200 OK"),
        "a reason that is the key": raw(LENGTH, then=GOOD, status=b"HTTP/1.1 200 " + echo),
        "no length, the key beside": raw(then=GOOD.replace(b'{"series"', b'{"key": "%s", "series"' % echo)),
    }
    for name, sent in right.items():
        yield Case(f"connection, {name}", (sent,), RIGHT)
    broken = {
        "closed": b"",
        "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
        "half a body": raw(LENGTH, then=GOOD[:40]),
        "half a chunk": raw(CHUNKED, then=b"ff\r\n" + GOOD[:40]),
        "no last chunk": raw(CHUNKED, then=chunked(GOOD)),
        "no length, cut": raw(then=GOOD[:-40]),
        "no length, cut at a bracket": raw(then=GOOD[: GOOD.index(b"}}") + 2]),
        "no length, cut Arrow": raw(b"Content-Type: " + ARROW_MIME.encode(), then=stream[:-8]),
        "no length, nothing": raw(),
        "no length, cut gzip": raw(b"Content-Encoding: gzip", then=gzip.compress(GOOD)[:-5]),
        "no HTTP": b"\x16\x03\x01" + echo,
        "the key as a head": echo + b" 200\r\n\r\n",
        "a header that is none": raw(b": " + echo, then=GOOD),
        "a header with a zero byte": raw(b"X-Echo: " + echo + b"\0", then=GOOD),
        "two lengths": raw(LENGTH, b"Content-Length: 3", then=GOOD),
        "a length of a word": raw(b"Content-Length: " + echo, then=GOOD),
        "a length below zero": raw(b"Content-Length: -1", then=GOOD),
        "a chunk of a word": raw(CHUNKED, then=b"length\r\n" + GOOD),
        "a head of a megabyte": raw(b"X: " + b"y" * 2**20, then=GOOD),
        "a status of a word": raw(LENGTH, then=GOOD, status=b"HTTP/1.1 OK " + echo),
    }
    for name, sent in broken.items():
        yield Case(f"connection, {name}, then right", (sent, raw(LENGTH, then=GOOD)), RIGHT)
        yield Case(f"connection, {name}", (sent,), TransportError)
    yield Case(
        "connection, 500 with the key",
        (raw(b"X-Request-Id: " + echo, status=b"HTTP/1.1 500 " + echo),),
        ServerError,
    )
    yield Case(
        "connection, a redirect",
        (raw(b"Location: http://127.0.0.1:1/" + echo, status=b"HTTP/1.1 302 Found"),),
        ServiceError,
    )
