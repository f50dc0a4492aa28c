"""Ten thousand requests that nobody means well with: every one is answered, in one shape, and gives nothing away."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from service.hostile import MODELS, Asked, hostile
from tidytape.catalogue import ERROR_STATUS, LISTS_OF_A_TYPE, RATE_LIMIT_HEADERS
from tidytape.service import hashed
from tidytape.service.http._gate import LONGEST_TARGET

COUNT = 10_000
KEYS = [b"enterprise-key", b"basic-key", b"advanced-key", b"expired-key"]
ROUTES = {path.encode() for path in MODELS}
NEED_A_TYPE = {f"/v1/{name}".encode() for name in LISTS_OF_A_TYPE}
FACTS = {"parameter", "got", "expected", "hint"}  # of a wrong query


@dataclass
class Answer:
    """What came back, headers by their names."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> Any:
        return json.loads(self.body)["error"]


async def ask(app: Any, asked: Asked) -> Answer:
    """Ask the app as a server would: nothing is made nicer on the way."""
    named = [] if asked.key is None else [(b"x-service-key", asked.key)]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50_000),
        "root_path": "",
        "path": unquote(asked.path.decode("latin-1")),
        "raw_path": asked.path,
        "query_string": asked.query,
        "headers": [(b"host", b"service"), *named, *asked.headers],
    }
    messages: list[dict[str, Any]] = []
    arriving = iter([{"type": "http.request", "body": asked.body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in arriving:
            return message
        await asyncio.Event().wait()  # nobody hangs up
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *parts = messages
    assert start["type"] == "http.response.start"
    assert [part.get("more_body", False) for part in parts] == [False]
    headers = {name.decode("ascii").lower(): value.decode("ascii") for name, value in start["headers"]}
    assert len(headers) == len(start["headers"]), "a header is given once"
    return Answer(start["status"], headers, parts[0]["body"])


def secrets(lake: Path) -> list[str]:
    """What nobody outside may read, whatever they send."""
    keys = [key.decode() for key in KEYS]
    places = [
        str(lake),
        str(Path(__file__).parent.parent.parent),
        sys.prefix,
        "site-packages",
        ".parquet",
        "_delta_log",
    ]
    return [
        *keys,
        *map(hashed, keys),
        *places,
        "Traceback",
        'File "',
        ".py",
        " object at 0x",
        "polars",
        "starlette",
    ]


def check(asked: Asked, answer: Answer, hidden: list[str]) -> None:
    """Hold an answer to what every answer is."""
    known = asked.key in KEYS[:3] and not any(name == b"x-service-key" for name, _ in asked.headers)
    path = re.sub(rb"^https?://[^/]*", b"", asked.path)  # a target may be a whole address
    below = path.startswith(b"/v1/") or unquote(path.decode("latin-1")).startswith("/v1/")
    limits = {name.lower() for name in RATE_LIMIT_HEADERS}
    if below and known:
        assert limits <= set(answer.headers)
    else:
        assert not limits & set(answer.headers)
    assert len(answer.headers["x-request-id"]) == 16
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/json"
        told = json.loads(answer.body)
        assert {"error", "message"} <= set(told) <= {"error", "message", "retry_after", *FACTS}
        assert ERROR_STATUS[told["error"]] == answer.status
        assert len(answer.body) < 3_000, "a long request is not sent back"
    if answer.status >= 500:
        assert path in NEED_A_TYPE
        assert answer.error == "INTERNAL_ERROR"
        assert json.loads(answer.body)["message"].startswith(
            "type: left out, expected at least one data type"
        )
    if below and not known:
        assert answer.status == 401
    elif {b"content-length", b"transfer-encoding"} <= {name.lower() for name, _ in asked.headers}:
        assert answer.status == 400
    elif below and path not in ROUTES:
        assert answer.status in {404, 414} or unquote(path.decode("latin-1")).encode() in ROUTES
    elif below and asked.method != "GET":
        assert answer.status in {405, 414}
        assert answer.status == 414 or answer.headers["allow"] == "GET"
    if below and known and len(asked.path) + len(asked.query) > LONGEST_TARGET:
        assert answer.status == 414
    text = answer.body.decode("utf-8", "replace") if answer.status != 200 else ""
    given = repr(asked)
    for one in hidden:
        assert one not in text or one in given, one
        assert all(one not in value for value in answer.headers.values())


@pytest.mark.long
def test_ten_thousand_hostile_requests(service: Any, lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    hidden = secrets(lake)
    used: dict[bytes | None, str] = {}
    seen: dict[int, int] = {}

    async def all_of_them() -> None:
        for asked in hostile(seed=1, count=COUNT):
            answer = await ask(service.app, asked)
            try:
                check(asked, answer, hidden)
                if "x-ratelimit-used" in answer.headers:
                    spent = answer.headers["x-ratelimit-used"]
                    if answer.status != 200:
                        assert spent == used.get(asked.key, "0"), "a request that is refused weighs nothing"
                    used[asked.key] = spent
            except AssertionError as error:
                raise AssertionError(f"{error}\n{str(asked)[:700]}\n{str(answer)[:700]}") from error
            seen[answer.status] = seen.get(answer.status, 0) + 1
            if answer.status == 429:
                service.clock.move(120)
                used.clear()

    with caplog.at_level(logging.WARNING):
        asyncio.run(all_of_them())
    assert not caplog.records, "nothing failed on the inside either"
    # They are not all turned away at the door.
    assert min(seen.get(status, 0) for status in (200, 400, 401, 403, 404, 405, 414, 500)) >= 10, str(seen)
