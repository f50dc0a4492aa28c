"""Names, options and errors as a user meets them."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pytest

import tidytape
from tables import each_row
from tidytape import FetchError
from tidytape.client._settings import Options

DAY = {"exchange": "DEMO_SPOT", "coin": "BTC", "interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}


def test_options_are_those_of_the_client() -> None:
    for kind in (tidytape.Client, tidytape.AsyncClient):
        keywords = inspect.signature(kind).parameters.keys()
        assert set(keywords) == {"base_url", "api_key", "backend", "transport", *Options.__annotations__}


@pytest.mark.slow
def test_local_demo_and_replay_take_the_options_of_a_client(tmp_path: Path) -> None:
    options: Any = {"partial": "flag", "parallel": 2, "timeout": 5.0, "max_body": 10**6, "progress": False}
    with tidytape.Client.demo(**options, backend="pandas") as demo, demo.record(tmp_path / "tape"):
        frame = demo.candles(**DAY)
    with tidytape.Client.replay(tmp_path / "tape", **options, cache=True, offline=True) as replayed:
        assert replayed.candles(**DAY).height == len(frame) == 24
    assert isinstance(frame, pd.DataFrame)
    for client in (demo, replayed):
        read = client._settings
        assert (read.partial, read.parallel, read.timeout, read.max_body) == ("flag", 2, 5.0, 10**6)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_wiat'"):
        tidytape.Client.demo(max_wiat=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", [tidytape.Client, tidytape.AsyncClient])
def test_the_address_of_a_client_in_this_process_is_its_own(kind: Any) -> None:
    with pytest.raises(TypeError, match="has its own base_url"):
        kind.demo(base_url="http://service")


def test_asyncio_takes_them_too() -> None:
    async def parallel() -> int:
        async with tidytape.AsyncClient.demo(parallel=3) as client:
            return client._settings.parallel

    assert asyncio.run(parallel()) == 3


@pytest.mark.slow
def test_what_a_client_returns_is_named_at_the_top() -> None:
    with tidytape.Client.demo() as client:
        asked = client.query.candles(**DAY)
        fetched, plan = client.fetch(asked), client.plan(asked)
    assert isinstance(fetched, tidytape.Fetched)
    assert isinstance(fetched.metadata, tidytape.Metadata)
    assert isinstance(plan, tidytape.Plan)
    assert {"Fetched", "Metadata", "Plan", "FetchError", "RefusedQueryError"} <= set(dir(tidytape))


def answering(status: int, body: Any, **options: Any) -> Any:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json=body))
    return tidytape.Client("http://service", "the-secret-key", transport=transport, attempts=1, **options)


@each_row(
    ("status", "body"),
    [
        (400, {"error": "INVALID_PARAMS", "message": "coin: got 'BTC', expected another"}),
        (401, {"error": "UNAUTHORIZED", "message": "who?"}),
        (403, {"error": "FORBIDDEN", "message": "not you"}),
        (429, {"error": "RATE_LIMITED", "message": "later"}),
        (404, {"error": "NOT_FOUND", "message": "where?"}),
        (500, {"error": "INTERNAL", "message": "oh"}),
        (200, {"series": 1}),
        (200, {"series": [{"points": 3}]}),
    ],
)
def test_one_class_catches_every_failure_of_a_fetch(status: int, body: Any) -> None:
    with pytest.raises(FetchError):
        answering(status, body).candles(**DAY)


def test_it_catches_what_never_reaches_the_service_too(tmp_path: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    client = tidytape.Client("http://service", "k", transport=httpx.MockTransport(refuse), attempts=1)
    with pytest.raises(FetchError):
        client.candles(**DAY)
    offline = answering(200, {}, cache=tmp_path, offline=True)
    with pytest.raises(FetchError, match="offline"):
        offline.candles(**DAY)
    with pytest.raises(FetchError):
        tidytape.Client.replay(tmp_path / "nowhere")


def test_an_argument_that_cannot_be_is_no_failed_fetch() -> None:
    with tidytape.Client.demo() as client, pytest.raises(tidytape.QueryError) as caught:
        client.candles(**DAY | {"interval": "2m"})
    assert not isinstance(caught.value, FetchError)
    assert isinstance(caught.value, ValueError)


def test_a_refused_query_is_both() -> None:
    with pytest.raises(tidytape.RefusedQueryError) as caught:
        answering(400, {"error": "INVALID_PARAMS", "message": "coin: got 'BTC', expected another"}).candles(
            **DAY
        )
    assert isinstance(caught.value, tidytape.QueryError)
    assert (caught.value.parameter, caught.value.status) == ("coin", 400)


@pytest.mark.slow
def test_frames_have_the_type_of_the_backend() -> None:
    with tidytape.Client.demo(backend="polars") as client:
        assert isinstance(client.candles(**DAY), pl.DataFrame)
