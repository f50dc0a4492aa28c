"""Large bodies that go from process to process through memory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import h11
import pytest
from starlette.responses import Response
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from tidytape.service.http._connection import _Http
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


def test_a_body_of_this_process_goes_out_without_a_copy_except_for_its_end() -> None:
    ends: list[str] = []
    start, *parts, last = sent(
        response_of(
            Answer(BODY, {"ETag": "x"}, 1), media_type="application/json", sent=lambda: ends.append("sent")
        )
    )
    assert dict(start["headers"])[b"content-length"] == str(len(BODY)).encode()
    assert b"".join(part["body"] for part in parts) == BODY
    assert (last["body"], last["more_body"], ends) == (b"", False, ["sent"])
    *whole, end = [part["body"] for part in parts]
    assert all(part.obj is BODY for part in whole)
    # More than the server may hold when it accepts the last message: nothing else is left of the answer then.
    assert len(end) == task.PART > HIGH_WATER_LIMIT
    assert not isinstance(end, memoryview)


@pytest.mark.parametrize("size", [task.PART + 1, 2 * task.PART])
def test_a_body_that_is_not_large_goes_out_at_once(size: int) -> None:
    _, part, last = sent(
        response_of(Answer(BODY[:size], {}, 1), media_type="application/json", sent=lambda: None)
    )
    assert part == {"type": "http.response.body", "body": BODY[:size], "more_body": True}
    assert last["more_body"] is False


def test_the_connection_passes_a_body_on_without_a_copy() -> None:
    http = _Http(h11.SERVER)
    http.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert type(http.next_event()) is h11.Request
    headers = [("Content-Length", str(len(BODY)))]
    assert http.send(h11.Response(status_code=200, headers=headers)).startswith(b"HTTP/1.1 200")
    part = memoryview(BODY)
    assert http.send(h11.Data(data=part)) is part
    assert http.send(h11.EndOfMessage()) == b""


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
