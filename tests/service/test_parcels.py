"""Large bodies that go from process to process through memory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from starlette.responses import Response

from tidytape.service.http._points import response_of
from tidytape.service.work import _computing as task
from tidytape.service.work._computing import Answer, SharedBody, left_in_memory

BODY = os.urandom(3 * task.PART + 7)

in_memory = pytest.mark.skipif(sys.platform != "linux", reason="no files in memory here")


def sent(response: Response) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is received")

    asyncio.run(response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send))
    return messages


@in_memory
def test_a_large_body_arrives_in_parts() -> None:
    parcel = SharedBody()
    assert left_in_memory(BODY, parcel.path) is None
    start, *parts = sent(
        response_of(Answer(parcel, {"ETag": "x"}, 1), media_type="application/json", sent=lambda: None)
    )
    assert start["status"] == 200
    headers = dict(start["headers"])
    assert headers[b"content-length"] == str(len(BODY)).encode()
    assert headers[b"etag"] == b"x"
    assert b"".join(part["body"] for part in parts) == BODY
    assert max(len(part["body"]) for part in parts) <= task.PART
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]


@pytest.mark.slow
@in_memory
def test_another_process_can_lay_a_body_down() -> None:
    parcel = SharedBody()
    leave = f"left_in_memory(b'x' * 500_000, {parcel.path!r})"
    code = f"from tidytape.service.work._computing import left_in_memory; assert {leave} is None"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert b"".join(parcel.parts()) == b"x" * 500_000


@in_memory
def test_nothing_is_left_of_a_parcel_that_nobody_wants() -> None:
    parcel = SharedBody()
    left_in_memory(BODY, parcel.path)
    number = parcel._file
    del parcel
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(number)


def test_a_small_body_and_one_that_cannot_be_put_there_go_the_other_way() -> None:
    assert left_in_memory(b"small", SharedBody().path) == b"small"
    assert left_in_memory(BODY, None) == BODY
    assert left_in_memory(BODY, "/proc/self/fd/999999") == BODY
