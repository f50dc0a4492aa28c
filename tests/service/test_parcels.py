"""Large bodies that go from process to process through a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tidytape.service import parcels
from tidytape.service.parcels import Parcel, ParcelResponse, Parcels, laid_down

BODY = os.urandom(3 * parcels._PART + 7)

no_names_to_lose = pytest.mark.skipif(os.name == "nt", reason="an open file cannot lose its name here")


def sent(response: ParcelResponse) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is received")

    asyncio.run(response({"type": "http"}, receive, send))
    return messages


@no_names_to_lose
def test_a_large_body_arrives_in_parts_and_leaves_no_file() -> None:
    kept = Parcels()
    place = kept.place()
    assert laid_down(BODY, place) is None
    parcel = Parcel(place)
    assert not Path(place).exists()
    start, *parts = sent(ParcelResponse(parcel, headers={"ETag": "x"}, media_type="application/json"))
    assert start["status"] == 200
    headers = dict(start["headers"])
    assert headers[b"content-length"] == str(len(BODY)).encode()
    assert headers[b"etag"] == b"x"
    assert b"".join(part["body"] for part in parts) == BODY
    assert max(len(part["body"]) for part in parts) <= parcels._PART
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]
    kept.close()
    assert not Path(place).parent.exists()


@no_names_to_lose
def test_a_parcel_that_nobody_wants_lets_go_of_its_file() -> None:
    kept = Parcels()
    place = kept.place()
    laid_down(BODY, place)
    parcel = Parcel(place)
    number = parcel._file
    del parcel
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(number)


def test_a_small_body_and_one_without_room_go_the_other_way(tmp_path: Path) -> None:
    assert laid_down(b"small", str(tmp_path / "1")) == b"small"
    assert laid_down(BODY, str(tmp_path / "there is no such folder" / "1")) == BODY
    assert list(tmp_path.iterdir()) == []


def test_no_two_bodies_share_a_place() -> None:
    kept = Parcels()
    assert len({kept.place() for _ in range(100)}) == 100
