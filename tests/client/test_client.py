"""Clients over a lake: both backends, plain and asyncio, inside a running loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pytest

import tidytape
from lakes import demo_lake, empty_lake
from tables import each_row
from tidytape.client import _local as local
from tidytape.errors import AuthenticationError, LakeError, QueryError
from tidytape.schema import schema_of

DAY: dict[str, Any] = {
    "exchange": "DEMO_SPOT",
    "raw_symbol": "BTCUSDT",
    "interval": "1h",
    "start": "2024-08-08",
    "end": "2024-08-09",
}


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("client") / "lake"
    return demo_lake(path)


@pytest.mark.slow
def test_candles_are_a_frame_of_the_schema(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        frame = client.candles(**DAY)
    assert frame.schema == schema_of("TRADE_SIDE_AGNOSTIC_AGG").empty().schema
    assert frame.height == 24
    assert frame["timestamp"][0] == datetime(2024, 8, 8, tzinfo=UTC)


@pytest.mark.slow
def test_sides_add_up_to_the_agnostic_volume(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        both = client.candles(**DAY)
        sides = client.candles(**DAY, by_side=True)
        buys = client.candles(**DAY, side="buy")
    summed = sides.group_by("timestamp").agg(pl.col("volume").sum()).sort("timestamp")
    assert summed["volume"].to_list() == pytest.approx(both["volume"].to_list(), rel=1e-12)
    assert buys.equals(sides.filter(pl.col("side") == "BUY"))


@pytest.mark.slow
def test_volume_profile_holds_the_volume_of_the_candles(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        candles = client.candles(**DAY)
        levels = client.volume_profile(**DAY, block_size="2.5")
    assert levels["volume"].sum() == pytest.approx(candles["volume"].sum(), rel=1e-12)
    assert (levels["price"] % 2.5 == 0).all()


@pytest.mark.slow
def test_times_may_be_written_in_any_usual_way(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        expected = client.candles(**DAY)
        for start, end in [
            (1_723_075_200, 1_723_161_600),
            (datetime(2024, 8, 8), datetime(2024, 8, 9, tzinfo=UTC)),  # noqa: DTZ001 - naive is UTC, and that is the point
            (pd.Timestamp("2024-08-08"), "2024-08-09T02:00:00+02:00"),
        ]:
            assert client.candles(**{**DAY, "start": start, "end": end}).equals(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
def test_empty_results_keep_columns_and_dtypes(lake: Path) -> None:
    window = {**DAY, "start": "2020-01-01", "end": "2020-01-02"}
    with (
        tidytape.Client.local(lake) as client,
        tidytape.Client.local(lake, backend="pandas") as pandas_client,
    ):
        assert client.candles(**window).schema == client.candles(**DAY).schema
        empty, full = pandas_client.candles(**window), pandas_client.candles(**DAY)
        assert empty.dtypes.astype(str).to_dict() == full.dtypes.astype(str).to_dict()
        assert len(pandas_client.volume_profile(**window)) == 0


@pytest.mark.slow
def test_pandas_has_the_same_columns_and_values(lake: Path) -> None:
    with (
        tidytape.Client.local(lake) as client,
        tidytape.Client.local(lake, backend="pandas") as pandas_client,
    ):
        expected = client.volume_profile(**DAY)
        frame = pandas_client.volume_profile(**DAY)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == expected.columns
    assert str(frame.dtypes["timestamp"]) == "datetime64[ns, UTC]"
    assert str(frame.dtypes["exchange"]) == "category"
    assert frame["volume"].tolist() == expected["volume"].to_list()
    assert frame["exchange"].astype(str).tolist() == expected["exchange"].cast(pl.String).to_list()


@pytest.mark.slow
def test_it_works_inside_a_running_loop(lake: Path) -> None:
    async def notebook_cell() -> int:
        with tidytape.Client.local(lake) as client:
            return client.candles(**DAY).height

    assert asyncio.run(notebook_cell()) == 24


@pytest.mark.slow
def test_asyncio_returns_the_same_frames(lake: Path) -> None:
    async def fetched() -> list[Any]:
        async with tidytape.AsyncClient.local(lake) as client:
            frames = await asyncio.gather(
                client.candles(**DAY), client.volume_profile(**DAY), client.markets()
            )
            return [*frames, await client.usage()]

    with tidytape.Client.local(lake) as client:
        expected = [client.candles(**DAY), client.volume_profile(**DAY), client.markets()]
    *frames, usage = asyncio.run(fetched())
    assert all(frame.equals(other) for frame, other in zip(frames, expected, strict=True))
    assert usage.window_seconds == 60


def test_constructors_agree() -> None:
    assert [*inspect.signature(tidytape.Client).parameters] == [
        *inspect.signature(tidytape.AsyncClient).parameters
    ]


def test_a_wrong_argument_is_an_error_before_anything_is_sent(lake: Path) -> None:
    with tidytape.Client.local(lake) as client:
        with pytest.raises(QueryError, match="interval: got '2m'"):
            client.candles(**{**DAY, "interval": "2m"})
        with pytest.raises(TypeError, match="intervall"):
            client.candles(**DAY, intervall="1m")
        assert client.usage().used == 0


def test_what_the_lake_does_not_hold_is_named(lake: Path) -> None:
    with (
        tidytape.Client.local(lake) as client,
        pytest.raises(QueryError, match="did you mean 'BTCUSDT'") as caught,
    ):
        client.candles(**{**DAY, "raw_symbol": "BTCUSD"})
    assert (caught.value.parameter, caught.value.code, caught.value.status) == (
        "raw_symbol",
        "INVALID_SYMBOL",
        400,
    )


def test_there_must_be_a_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="nothing"):
        tidytape.Client.local(tmp_path / "nothing")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueryError, match="TIDYTAPE_BASE_URL"):
        tidytape.Client()
    monkeypatch.setenv("TIDYTAPE_BASE_URL", "http://127.0.0.1:9/")
    with pytest.raises(AuthenticationError, match="TIDYTAPE_API_KEY"):
        tidytape.Client()
    monkeypatch.setenv("TIDYTAPE_API_KEY", "from-the-environment")
    with tidytape.Client() as client:
        assert repr(client) == "Client('http://127.0.0.1:9', backend='polars')"


@pytest.mark.slow
def test_a_client_of_a_lake_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    empty_lake(path)
    with tidytape.Client.local(path) as client:
        assert repr(client) == f"Client.local({str(path)!r}, backend='polars')"
    with tidytape.Client.demo(backend="pandas") as client:
        assert repr(client) == "Client.demo(backend='pandas')"
    assert repr(tidytape.AsyncClient.demo()) == "AsyncClient.demo(backend='polars')"


@pytest.mark.slow
def test_an_answer_of_a_lake_may_take_an_hour(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = []
    answer = local.AppTransport.handle_request

    def watched(transport: local.AppTransport, request: httpx.Request) -> httpx.Response:
        allowed.append(request.extensions["timeout"]["read"])
        return answer(transport, request)

    monkeypatch.setattr(local.AppTransport, "handle_request", watched)
    with tidytape.Client.local(lake) as client:
        client.coins()
    with tidytape.Client.local(lake, timeout=2) as client:
        client.coins()
    assert allowed == [pytest.approx(3_600, abs=10), 2]


@each_row(
    "address",
    [
        "service",
        "ftp://service",
        "http://",
        "http://user:pass@service",
        "http://service?key=1",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_refused_and_no_secret_shown(address: str) -> None:
    with pytest.raises(QueryError) as caught:
        tidytape.Client(address, "key")
    assert caught.value.parameter == "base_url"
    assert "pass" not in str(caught.value).removeprefix("base_url")


@pytest.mark.parametrize("key", ["with\nnewline", "ключ", " padded "])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        tidytape.Client("http://service", key)
    assert key.strip() not in str(caught.value)


def test_settings_do_not_show_the_key() -> None:
    with tidytape.Client("https://service", "the-secret-key") as client:
        assert "the-secret-key" not in repr(client) + repr(vars(client))
        with pytest.raises((TypeError, AttributeError)):  # nor does it travel in a pickle
            pickle.dumps(client)


@pytest.mark.parametrize("option", ["timeout", "deadline", "attempts"])
def test_numbers_must_be_positive(option: str) -> None:
    with pytest.raises(QueryError, match=option):
        tidytape.Client("http://service", "key", **{option: 0})


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(QueryError, match="backend: got 'dask'"):
        tidytape.Client("https://service", "key", backend="dask")  # type: ignore[call-overload]


@pytest.mark.slow
def test_the_demo_lake_is_removed_with_its_client() -> None:
    client = tidytape.Client.demo()
    folder = Path(client._of_process[0]._transport._resources.folder)  # type: ignore[attr-defined]
    assert client.exchanges(type="BLOCK_BOOK_SNAPSHOT_AGG", coin="BTC") == ["DEMO_PERP", "DEMO_SPOT"]
    assert folder.is_dir()
    client.close()
    assert not folder.exists()


@pytest.mark.slow
def test_the_demo_documents_its_days_and_all_its_markets() -> None:
    told = inspect.getdoc(tidytape.Client.demo) or ""
    with tidytape.Client.demo() as client:
        markets = client.markets().select("exchange", "raw_symbol").unique().rows()
        candles = client.candles(
            exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1d", start="2024-08-01", end="2024-09-01"
        )
    lines = told.splitlines()
    for exchange, symbol in markets:
        assert any(f"``{exchange}``" in line and f"``{symbol}``" in line for line in lines), (
            exchange,
            symbol,
        )
    assert {*re.findall(r"``DEMO_\w+``", told)} == {f"``{exchange}``" for exchange, _ in markets}
    first, last = candles["timestamp"].min(), candles["timestamp"].max() + timedelta(days=1)
    assert f"from {first:%Y-%m-%d} to {last:%Y-%m-%d} 00:00 UTC" in told


def test_threads_that_come_at_once_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    both, before = threading.Barrier(2, timeout=10), threading.enumerate()

    def new() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop()
        made.append(loop)
        both.wait()  # each thread has seen that there is no loop
        return loop

    monkeypatch.setattr(local, "_loops", {})
    monkeypatch.setattr("asyncio.new_event_loop", new)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(local._loop, [os.getpid()] * 2)
    assert first is second
    assert sum(loop.is_closed() for loop in made) == 1
    first.call_soon_threadsafe(first.stop)
    for thread in threading.enumerate():
        if thread.name == "tidytape-local" and thread not in before:
            thread.join()
    first.close()
