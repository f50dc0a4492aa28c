"""Without an exchange a coin is asked of every exchange that has the data type, and that is recorded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tidytape
from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.client._series import _TYPES, SeriesMethods
from tidytape.errors import EmptyAnswerWarning, QueryError

HOUR: dict[str, Any] = {"start": "2024-08-08T12:00", "end": "2024-08-08T13:00"}
METHODS = [
    name
    for name, method in inspect.getmembers(SeriesMethods, inspect.isfunction)
    if not name.startswith("_") and name not in {"skew", "token_supply", "liquidation_heatmap"}
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with tidytape.Client.demo() as demo:
        yield demo


def arguments(name: str) -> dict[str, Any]:
    return HOUR | {"coin": "BTC"} | ({} if name == "trades" else {"interval": "1h"})


def test_every_method_has_its_type_and_every_type_a_method() -> None:
    assert set(_TYPES.values()) | {"TRADE_AGG"} == set(DATA_TYPES)
    assert {*METHODS, "skew", "token_supply", "liquidation_heatmap"} == set(_TYPES)


@pytest.mark.slow
@each_row("name", METHODS)
def test_no_exchange_is_every_exchange_that_has_the_type(client: Any, name: str) -> None:
    exchanges = client.exchanges(type=name, coin="BTC")
    assert exchanges == client.exchanges(type=_TYPES[name], coin="BTC")
    assert exchanges
    query = getattr(client.query, name)(**arguments(name))
    assert "every exchange" in repr(query)
    answer = client.fetch(query)
    assert answer.metadata.query.exchange == tuple(exchanges)
    assert set(answer.frame["exchange"].unique()) == set(exchanges)
    assert answer.frame.equals(getattr(client, name)(**arguments(name), exchange=exchanges))
    (part,) = client.plan(query).parts
    assert part.query.exchange == tuple(exchanges)
    assert ",".join(exchanges) in repr(part)


def test_a_group_weighs_what_its_exchanges_weigh(client: Any) -> None:
    query = client.query.book_heatmap(coin="BTC", interval="1m", group_by="sum", **HOUR)
    exchanges = client.exchanges(type="book_heatmap", coin="BTC")
    named = client.query.book_heatmap(exchange=exchanges, coin="BTC", interval="1m", group_by="sum", **HOUR)
    assert len(exchanges) == 2
    assert (
        client.plan(query).weight
        == client.plan(named).weight
        > sum(part.points for part in query.queries) / 1000
    )
    assert "weight at least 10" in repr(query)
    assert client.plan(client.query.candles(**arguments("candles")), tier="enterprise").weight == 1
    with pytest.raises(QueryError, match="exchange: left out, expected names, because a plan for a tier"):
        client.plan(query, tier="enterprise")


@pytest.mark.slow
def test_every_way_to_fetch_asks_the_same(client: Any, tmp_path: Path) -> None:
    query = client.query.candles(**arguments("candles"))
    candles = client.fetch(query).frame
    (part,) = client.iter_frames(query)
    assert part.equals(candles)
    assert client.to_parquet(query, tmp_path / "candles.parquet").rows == candles.height

    async def fetched() -> pl.DataFrame:
        async with tidytape.AsyncClient.demo() as other:
            frame: pl.DataFrame = await other.candles(**arguments("candles"))
            return frame

    assert asyncio.run(fetched()).equals(candles)


@pytest.mark.slow
def test_a_replay_asks_the_exchanges_of_the_recording(client: Any, tmp_path: Path) -> None:
    relative = {"coin": "BTC", "interval": "1h", "limit": 3, "end": "2024-08-09"}
    with client.record(tmp_path / "study.tape"):
        planned = client.plan(client.query.candles(**relative))
        queries = client.query.candles(**relative), client.query.candles(**arguments("candles"))
        recorded = [client.fetch(query) for query in queries]
    with tidytape.Client.replay(tmp_path / "study.tape") as replayed:
        plan = replayed.plan(replayed.query.candles(**relative))
        assert plan.parts[0].query.exchange == planned.parts[0].query.exchange
        for answer, asked in zip(recorded, (relative, arguments("candles")), strict=True):
            again = replayed.fetch(replayed.query.candles(**asked))
            assert again.metadata.hash == answer.metadata.hash
            assert again.metadata.query.exchange == answer.metadata.query.exchange
        with pytest.raises(tidytape.TapeError, match="exchanges"):
            replayed.candles(coin="ETH", interval="1h", **HOUR)


@pytest.mark.slow
def test_an_exchange_that_lacks_the_type_is_a_note(client: Any) -> None:
    every = client.exchanges()
    for name in ("candles", "implied_volatility", "option_open_interest"):
        with pytest.warns(EmptyAnswerWarning) as caught:
            answer = client.fetch(getattr(client.query, name)(exchange=every, **arguments(name)))
        assert answer.frame.equals(getattr(client, name)(**arguments(name)))
        reasons = {reason.exchange: reason for reason in caught[0].message.reasons}  # type: ignore[union-attr]
        lacking = set(every) - set(client.exchanges(type=name, coin="BTC"))
        assert set(reasons) == lacking
        for exchange in lacking & set(client.exchanges(coin="BTC")):
            assert set(reasons[exchange].types) == set(client.types(exchange=exchange, coin="BTC")), exchange


@pytest.mark.slow
@each_row(
    "exchange, name",
    [("DEMO_OPTIONS", "candles"), ("DEMO_SPOT", "implied_volatility"), ("DEMO_CME", "candles")],
)
def test_one_exchange_that_lacks_the_type_is_a_note_too(client: Any, exchange: str, name: str) -> None:
    with pytest.warns(EmptyAnswerWarning, match=f"{exchange} .* has no .*; it has [A-Z]"):
        assert getattr(client, name)(exchange=exchange, **arguments(name)).is_empty()
    group = {} if name == "implied_volatility" else {"group_by": "sum"}
    with pytest.warns(EmptyAnswerWarning):
        assert getattr(client, name)(exchange=exchange, **arguments(name), **group).is_empty()


@pytest.mark.slow
def test_a_group_of_all_exchanges_is_that_of_those_with_the_type(client: Any) -> None:
    with pytest.warns(EmptyAnswerWarning, match="and 3 more"):
        every = client.candles(exchange=client.exchanges(), group_by="sum", **arguments("candles"))
    candles = client.candles(group_by="sum", **arguments("candles"))
    assert every.select("timestamp", "open", "high", "low", "close", "volume").equals(
        candles.select("timestamp", "open", "high", "low", "close", "volume")
    )


def test_what_cannot_be_resolved_says_what_to_write(client: Any, tmp_path: Path) -> None:
    with pytest.raises(
        QueryError, match="exchange: left out, expected an exchange; or coin instead of a symbol"
    ):
        client.candles(raw_symbol="BTCUSDT", interval="1h", **HOUR)
    with pytest.raises(
        QueryError, match=r"coin: got \['NONE'\], expected a coin of which an exchange has"
    ) as caught:
        client.candles(coin="NONE", interval="1h", **HOUR)
    assert caught.value.code == "INVALID_SYMBOL"
    offline: Any = tidytape.Client("http://127.0.0.1:1", "k", offline=True, cache=tmp_path)
    with pytest.raises(QueryError, match="exchange: left out, expected names, because an offline client"):
        offline.candles(**arguments("candles"))
