"""Statuses, headers and encodings."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator

from client.hostile.case import GOOD, KEY, OK, RIGHT, Answer, Case, in_url
from client.hostile.streams import ARROW, arrow
from tidytape.errors import (
    AuthenticationError,
    DecodeError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    TidytapeError,
    TierError,
    TransportError,
)

GZIP = {"content-encoding": "gzip"}


# --- statuses -------------------------------------------------------------------------------------------------------


def refusal(status: int, code: str = "NO", **headers: str) -> Answer:
    said = {"error": f"{code}", "message": f"exchange: you sent {KEY}, {in_url(KEY)}", "key": KEY}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(said).encode(), named | {"x-request-id": KEY})


def statuses() -> Iterator[Case]:
    errors: dict[int, type[TidytapeError]] = {
        204: ServiceError,
        206: ServiceError,
        300: ServiceError,
        304: ServiceError,
        400: RefusedQueryError,
        401: AuthenticationError,
        402: ServiceError,
        403: TierError,
        404: ServiceError,
        405: ServiceError,
        408: ServerError,
        414: RefusedQueryError,
        418: ServiceError,
        425: ServerError,
        429: RateLimitError,
        431: RefusedQueryError,
        500: ServerError,
        502: ServerError,
        503: ServerError,
        504: ServerError,
        599: ServerError,
    }
    for status, error in errors.items():
        yield Case(f"status {status}", (refusal(status),), error)
    for status in (301, 302, 307, 308):
        to = f"https://elsewhere.example/{KEY}"
        yield Case(f"redirect {status}", (Answer(status, b"", {"location": to}),), ServiceError, sent=1)
    for status in (408, 425, 429, 500, 502, 503, 504):
        yield Case(f"{status}, then right", (refusal(status), OK), RIGHT)
    for value in ("0.02", "soon", "-7", "nan", "1e999", KEY, "Thu, 01 Jan 1970 00:00:00 GMT", "9" * 400):
        yield Case(f"503 retry-after {value[:9]}", (refusal(503, retry_after=value), OK), RIGHT)
    yield Case("429 in thirty years", (refusal(429, retry_after="1e9"),), RateLimitError, sent=1)
    yield Case("503 in thirty years", (refusal(503, retry_after="1e9"),), ServerError, sent=1)
    yield Case("too many points", (refusal(403, "POINT_LIMIT_EXCEEDED"),), RefusedQueryError)
    yield Case("a code that is the key", (refusal(400, KEY),), RefusedQueryError)
    yield Case("a refusal nested deep", (Answer(400, b'{"error":' * 9_000),), RefusedQueryError)
    yield Case("a refusal of bytes", (Answer(500, bytes(range(256))),), ServerError)
    yield Case("a refusal packed wrongly", (Answer(500, b"no", GZIP), OK), RIGHT)
    yield Case("a refusal in terminal codes", (Answer(403, b"\x1b]0;" + KEY.encode() + b"\x07"),), TierError)


# --- headers --------------------------------------------------------------------------------------------------------

NONSENSE = {
    "x-ratelimit-limit": "-5",
    "x-ratelimit-remaining": "1e999",
    "x-ratelimit-used": KEY,
    "x-ratelimit-reset": "never",
    "date": "yesterday",
    "set-cookie": f"key={KEY}",
    "x-echo": in_url(KEY),
}


def headers() -> Iterator[Case]:
    yield Case("headers of nonsense", (Answer(200, GOOD, NONSENSE),), RIGHT)
    for kind in ("", "text/html", "application/octet-stream", KEY, "application/json; charset=latin-1"):
        yield Case(f"JSON called {kind[:18]!r}", (Answer(200, GOOD, {"content-type": kind}),), RIGHT)
    yield Case("JSON called Arrow", (Answer(200, GOOD, ARROW),), DecodeError)
    yield Case("Arrow called JSON", (Answer(200, arrow()),), DecodeError)
    for encoding in ("br", "zstd", "deflate", "gzip, gzip", "gzip, br", KEY, "\x7f"):
        yield Case(
            f"encoding {encoding[:10]!r}", (Answer(200, GOOD, {"content-encoding": encoding}),), DecodeError
        )
    twice = [("content-encoding", "gzip"), ("content-encoding", "gzip")]
    yield Case("encoding given twice", (Answer(200, gzip.compress(GOOD), twice),), DecodeError)
    for encoding in ("GZIP", "x-gzip", " gzip "):
        packed = Answer(200, gzip.compress(GOOD), {"content-encoding": encoding})
        yield Case(f"encoding {encoding!r}", (packed,), RIGHT)
    yield Case("identity", (Answer(200, GOOD, {"content-encoding": "identity"}),), RIGHT)


# --- gzip -----------------------------------------------------------------------------------------------------------


def packings() -> Iterator[Case]:
    half = len(GOOD) // 2
    several = gzip.compress(GOOD[:half]) + gzip.compress(GOOD[half:])
    whole = gzip.compress(GOOD)
    right = {
        "two members": several,
        "members of a byte": b"".join(gzip.compress(bytes([one])) for one in GOOD),
        "empty members": gzip.compress(b"") * 50 + several + gzip.compress(b""),
        "padding": whole + bytes(64),
        "padding between members": gzip.compress(GOOD[:half]) + bytes(8) + gzip.compress(GOOD[half:]),
    }
    for name, packed in right.items():
        yield Case(f"gzip, {name}", (Answer(200, packed, GZIP),), RIGHT)
    broken = {
        "cut in its head": whole[:7],
        "cut in its data": whole[: len(whole) // 2],
        "cut in its sum": whole[:-3],
        "cut in a later member": several[:-9],
        "of another sum": whole[:-8] + b"\0" * 4 + whole[-4:],
        "of another length": whole[:-4] + b"\xff" * 4,
        "not gzip": GOOD,
        "zlib": zlib.compress(GOOD),
        "garbage behind": whole + b"garbage",
        "of nothing": gzip.compress(b""),
        "no byte": b"",
    }
    for name, packed in broken.items():
        bad = Answer(200, packed, GZIP)
        yield Case(f"gzip, {name}, then right", (bad, OK), RIGHT)
        yield Case(f"gzip, {name}", (bad,), TransportError)
    bomb = gzip.compress(b" " * 2**24)
    yield Case("gzip, a bomb", (Answer(200, bomb, GZIP),), DecodeError, options={"max_body": 10**6})
    yield Case("gzip, gzip in gzip", (Answer(200, gzip.compress(whole), GZIP),), DecodeError)
