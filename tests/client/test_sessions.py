"""Sessions of market profiles: asked for by their length, whatever interval the contract wants beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tidytape
from lakes import demo_lake
from tidytape.client import _local as local
from tidytape.errors import EmptyAnswerWarning, QueryError

WINDOW = {
    "exchange": "DEMO_SPOT",
    "coin": "BTC",
    "start": "2024-08-01",
    "end": "2024-08-10",
    "block_size": 100,
}
STARTS = {
    "daily": [date(2024, 8, 7), date(2024, 8, 8)],
    "weekly": [date(2024, 8, 5)],
    "monthly": [date(2024, 8, 1)],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sessions") / "lake"
    return demo_lake(path)


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.local(lake) as one:
        yield one


@pytest.mark.long
def test_a_session_that_began_before_the_window_is_left_out_as_documented(client: Any) -> None:
    inside = WINDOW | {"start": "2024-08-07"}
    with pytest.warns(EmptyAnswerWarning, match="the one around it starts 2024-08-05"):
        assert client.tpo_sessions(session="weekly", **inside).is_empty()
    assert client.tpo_sessions(session="weekly", **inside | {"start": "2024-08-05"}).height == 1
    for method in (client.tpo, client.tpo_sessions):
        assert "A session that began before ``start`` is left out." in " ".join(method.__doc__.split())


@pytest.mark.slow
@pytest.mark.parametrize("session", STARTS)
def test_a_session_needs_no_interval(client: Any, session: str) -> None:
    sessions = client.tpo_sessions(session=session, **WINDOW)
    assert sessions["timestamp"].dt.date().to_list() == STARTS[session]
    assert (
        client.plan(client.query.tpo(session=session, **WINDOW)).weight == 5
    )  # the least that a profile weighs
    levels = client.tpo(session=session, **WINDOW)
    assert levels["timestamp"].unique().sort().equals(sessions["timestamp"].sort())


@pytest.mark.long
@pytest.mark.parametrize("interval", ["1h", "1w"])
@pytest.mark.parametrize("session", STARTS)
def test_where_both_are_given_the_session_counts(
    client: Any, lake: Path, tmp_path: Path, session: str, interval: str
) -> None:
    alone = client.tpo_sessions(session=session, **WINDOW).drop("interval")
    both = client.tpo_sessions(session=session, interval=interval, **WINDOW)
    assert both.drop("interval").equals(alone)
    with tidytape.Client(**local.connection(lake), cache=tmp_path) as keeping:
        for _ in range(2):
            assert keeping.tpo_sessions(session=session, interval=interval, **WINDOW).equals(both)


@pytest.mark.slow
def test_neither_is_an_error_that_names_both(client: Any) -> None:
    for ask in (client.tpo, client.tpo_sessions, client.query.tpo):
        with pytest.raises(
            QueryError, match=r"interval: left out, .*'daily', 'weekly', 'monthly'.*'4h'"
        ) as caught:
            ask(**WINDOW)
        assert caught.value.code == "INVALID_INTERVAL"

    async def later() -> None:
        async with tidytape.AsyncClient.demo() as other:
            await other.tpo(**WINDOW)  # type: ignore[arg-type]

    with pytest.raises(QueryError, match="'daily'"):
        asyncio.run(later())


@pytest.mark.slow
def test_an_interval_alone_is_a_session(client: Any) -> None:
    assert client.tpo_sessions(interval="4h", **WINDOW).height == 12
