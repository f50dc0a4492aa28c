"""A local client computes frames in its process; over HTTP the same questions have the same answers."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidytape
from lakes import empty_lake
from simulated import rollup_events as events
from simulated.everything import ASKED, everything
from tidytape import Client
from tidytape.client._local import AppTransport
from tidytape.errors import DecodeError, LakeError, RefusedQueryError, TidytapeError, TransportError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.answer import _pages as paging

S0 = events.START // 10**9
DAY = 86_400
NS = 10**9

Pair = tuple[Client[pl.DataFrame], Client[pl.DataFrame]]
"""A client in the process of a lake, and one that asks its service over HTTP."""


def _transport(lake: Lake) -> AppTransport:
    return AppTransport(create_app(lake, Keys([Key("k", hashed("key"), "enterprise", created=0)])))


def _over_http(lake: Lake, **options: Any) -> Client[pl.DataFrame]:
    return Client("http://service", "key", transport=_transport(lake), **options)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake that states when one of its markets trades."""
    made = everything(tmp_path_factory.mktemp("everything") / "lake")
    exchange, symbol, *_ = made.markets().row(0)
    stated = {"exchange": exchange, "raw_symbol": symbol, "session": "09:30-16:00 America/New_York Mon-Fri"}
    made.writer().register(pl.DataFrame([stated]))
    return made


@pytest.fixture(scope="module")
def pair(lake: Lake) -> Iterator[Pair]:
    with Client.local(lake.path) as local, _over_http(lake) as far:
        yield local, far


@pytest.fixture(scope="module")
def demo() -> Iterator[Pair]:
    with Client.demo() as local, _over_http(Lake(local._transport.lake.path)) as far:
        yield local, far


def _outcome(client: Client[pl.DataFrame], query: Any) -> tuple[object, ...]:
    """Everything that a caller can see of a fetch, but the time."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = client.fetch(query)
        except TidytapeError as error:
            facts = {name: value for name, value in vars(error).items() if name != "marked_facts"}
            return type(error), str(error), facts
    told, columns = got.metadata, {name: column.to_list() for name, column in got.frame.to_dict().items()}
    facts = told.requests, told.weight, told.cached, told.missing, told.failures, told.reason, told.is_whole
    facts = *facts, told.sessions
    warned = [(kind.category, str(kind.message)) for kind in caught]
    return got.frame.schema, columns, facts, told.query, told.left_out, told.hash, warned


def _agree(pair: Pair, query: Any) -> tuple[object, ...]:
    here, far = (_outcome(client, query) for client in pair)
    assert here == far
    return here


WINDOWS = {
    "whole": (S0, S0 + DAY),
    "cut": (S0 + 7 * 60 + 13, S0 + 9 * 3_600 + 17),
    "before": (S0 - 100 * DAY, S0 - 90 * DAY),
    "edge": (S0 - 3_600, S0 + 60),
    "ahead": (4_000_000_000, 4_000_000_000 + DAY),
}
MORE: list[dict[str, Any]] = [
    {},
    {"sort_direction": "desc"},
    {"quote": "USD"},
    {"group_by": "SUM"},
    {"gapfill": True},
    {"max_depth": 3},
    {"side": "BUY"},
    {"funding_interval": "1h"},
    {"block_size": "25"},
    {"tpo_session": "daily"},
    {"interval": "5m"},
]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ASKED))
def test_every_type_is_the_same_in_the_process_and_over_http(pair: Pair, name: str) -> None:
    answered = 0
    asked_of = [
        *product((WINDOWS["whole"], WINDOWS["cut"]), MORE),
        *product(WINDOWS.values(), [{}, {"gapfill": True}]),
    ]
    for (start, end), more in asked_of:
        asked = {"type": name, "interval": "1h", **ASKED[name], "start": start, "end": end, **more}
        try:
            query = PointsQuery(**asked)
        except TidytapeError:
            continue
        answered += isinstance(_agree(pair, query)[0], pl.Schema)
    assert answered >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TRADE", "TRADE_AGG", "OPEN_INTEREST_AGG"])
def test_a_type_is_the_same_in_the_process_and_over_http(pair: Pair, name: str) -> None:
    asked = {"type": name, "interval": "1h", **ASKED[name], "start": S0, "end": S0 + 2 * 3_600}
    _, columns, *_ = _agree(pair, PointsQuery(**asked))
    assert columns["timestamp"]  # type: ignore[index]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_methods_of_the_demo_are_the_same_in_the_process_and_over_http(
    demo: Pair, data: st.DataObject
) -> None:
    draw, query = data.draw, demo[0].query
    first = draw(st.integers(1_722_988_800 - 3_600, 1_722_988_800 + 2 * DAY))
    window = {"start": first, "end": first + draw(st.sampled_from([1, 59, 61, 3_600, 40_000, 2 * DAY]))}
    interval = {"interval": draw(st.sampled_from(["1m", "5m", "1h", "4h", "1d"]))}
    market = draw(
        st.sampled_from(
            [
                {"exchange": "DEMO_SPOT", "coin": "BTC"},
                {"exchange": ["DEMO_SPOT", "DEMO_PERP"], "coin": "ETH"},
                {"exchange": "DEMO_STOCKS", "raw_symbol": "ACME"},
                {"exchange": ["DEMO_PERP", "DEMO_LINEAR"], "coin": ["BTC", "ETH"]},
                {"exchange": ["DEMO_PERP", "DEMO_INVERSE"], "coin": "BTC", "group_by": "SUM"},
                {"coin": "SOL"},
                {"exchange": "DEMO_PERP", "raw_symbol": "NOTHING"},
            ]
        )
    )
    asked = draw(st.sampled_from(["candles", "trades", "open_interest", "funding", "liquidations", "tpo",
                                  "volume_profile", "book", "tpo_sessions"]))  # fmt: skip
    more = {} if asked == "trades" else {"session": "daily"} if asked.startswith("tpo") else interval
    try:
        whole = getattr(query, asked)(**market, **more, **window)
    except TidytapeError:
        return
    _agree(demo, whole)


@pytest.mark.parametrize(
    "wrong",
    [
        {"coin": "BTD"},
        {"exchange": "XX"},
        {"block_size": "0.0000001", "type": "TPO_AGG", "interval": "1d"},
    ],
    ids=str,
)
def test_a_refusal_has_the_same_words_in_the_process_and_over_http(pair: Pair, wrong: dict[str, Any]) -> None:
    asked = {"type": "TRADE_AGG", "interval": "1h", **ASKED["TRADE_AGG"], "start": S0, "end": S0 + DAY}
    kind, message, facts = _agree(pair, PointsQuery(**{**asked, **wrong}))
    assert kind is RefusedQueryError, message
    assert facts["code"] in str(message)  # type: ignore[index]
    assert "from" not in str(message).split(":")[0]


def _busy(path: Any, times: np.ndarray) -> Lake:
    """A lake with a trade at each time of one market."""
    made = empty_lake(path)
    market = {
        "exchange": "X",
        "raw_symbol": "BTCUSDT",
        "coin": "BTC",
        "quote_coin": "USDT",
        "category": "SPOT",
    }
    made.writer().register(pl.DataFrame([market]))
    rows = pl.DataFrame({"timestamp": times}).with_columns(
        pl.lit("X").alias("exchange"),
        pl.lit("BTCUSDT").alias("raw_symbol"),
        side=pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.lit("SELL")).otherwise(pl.lit("BUY")),
        id=pl.int_range(pl.len()).cast(pl.String),
        sequence=pl.int_range(pl.len()),
        price=pl.lit(10.0),
        amount=pl.lit(1.0),
        quote_amount=pl.lit(10.0),
    )
    made.writer().append("trades", rows, source="all")
    return made


ALL = {"type": "TRADE", "exchange": "X", "raw_symbol": "BTCUSDT", "start": S0, "end": S0 + DAY}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    seconds=st.lists(st.integers(0, 300), min_size=1, max_size=120),
    limit=st.integers(1, 40),
    side=st.sampled_from([None, "BUY"]),
)
def test_pages_have_every_trade_once_and_none_is_refused(
    tmp_path_factory: pytest.TempPathFactory, seconds: list[int], limit: int, side: str | None
) -> None:
    times = np.sort((S0 + np.array(seconds)) * NS + np.arange(len(seconds)))
    busy = _busy(tmp_path_factory.mktemp("busy") / "lake", times)
    sent: list[int] = []
    asked = PointsQuery(**ALL, side=side)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paging, "most_trades", lambda query: limit)
        transport = _transport(busy)
        answer = transport.handle_request

        def watched(request: Any) -> Any:
            response = answer(request)
            sent.append(response.status_code)
            return response

        patch.setattr(transport, "handle_request", watched)
        with Client.local(busy.path) as local, Client("http://s", "key", transport=transport) as far:
            here, there = (_outcome(client, asked) for client in (local, far))
    assert here == there
    crowded = np.unique(times // NS, return_counts=True)[1].max() > limit
    if crowded:
        assert here[0] is RefusedQueryError
        return
    is_asked = np.arange(len(times)) % 3 != 0 if side else np.ones(len(times), bool)
    assert here[1]["timestamp"] == pl.Series(times[is_asked]).cast(pl.Datetime("ns", "UTC")).to_list()  # type: ignore[index]
    assert {*sent} == {200}
    ends = paging.page_ends(times, PointsQuery(**ALL)) if len(times) > limit else [S0 + DAY]
    assert len(sent) <= 2 * -(-len(times) // limit) + 1, ends


def test_a_closed_client_computes_nothing(lake: Lake) -> None:
    client = Client.local(lake.path)
    client.close()
    with pytest.raises(TransportError, match="closed"):
        client.fetch(PointsQuery(**ALL))


def test_what_a_local_client_computes_counts_in_its_usage(lake: Lake) -> None:
    asked = {"interval": "1h", **ASKED["TRADE_AGG"], "start": S0, "end": S0 + DAY}
    with Client.local(lake.path) as client:
        got = client.fetch(PointsQuery(type="TRADE_AGG", **asked))
        assert client.usage().used == got.metadata.weight > 0
        with pytest.raises(RefusedQueryError):
            client.fetch(PointsQuery(type="TRADE_AGG", **{**asked, "coin": "NOTHING"}))
        assert client.usage().used == got.metadata.weight


def test_a_local_client_sends_nothing_for_points(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"type": "TRADE_AGG", "interval": "1h", **ASKED["TRADE_AGG"], "start": S0, "end": S0 + DAY}
    with Client.local(lake.path) as client:
        monkeypatch.setattr(AppTransport, "handle_request", lambda *_: pytest.fail("something was sent"))
        assert client.fetch(PointsQuery(**asked)).frame.height


def test_a_lake_that_cannot_be_read_says_so(tmp_path: Any) -> None:
    busy = _busy(tmp_path / "lake", np.array([S0 * NS]))
    with Client.local(busy.path) as client:
        for file in (tmp_path / "lake" / "trades").rglob("*.parquet"):
            file.unlink()
        with pytest.raises(LakeError, match="cannot read the lake"):
            client.fetch(PointsQuery(**ALL))


@pytest.mark.slow
def test_threads_share_a_local_client(demo: Pair) -> None:
    asked = {
        "exchange": "DEMO_SPOT",
        "coin": "BTC",
        "interval": "1h",
        "start": "2024-08-07",
        "end": "2024-08-08",
    }
    frames: list[pl.DataFrame] = []
    threads = [
        threading.Thread(target=lambda: frames.append(demo[0].volume_profile(**asked))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(frames) == 8
    assert all(frame.equals(frames[0]) for frame in frames)


@pytest.mark.slow
def test_an_async_client_computes_in_threads(demo: Pair) -> None:
    asked = {
        "exchange": "DEMO_SPOT",
        "coin": "BTC",
        "interval": "1h",
        "start": "2024-08-07",
        "end": "2024-08-08",
    }

    async def fetched() -> pl.DataFrame:
        async with tidytape.AsyncClient.demo() as client:
            return await client.candles(**asked)

    assert asyncio.run(fetched()).equals(demo[0].candles(**asked))


def test_a_page_without_the_ends_of_the_others_is_no_answer(tmp_path: Any) -> None:
    busy = _busy(tmp_path / "lake", np.arange(10) * NS + S0 * NS)
    transport = _transport(busy)
    answer = transport.handle_request

    def without_ends(request: Any) -> Any:
        response = answer(request)
        response.headers.pop("x-page-ends", None)
        return response

    with pytest.MonkeyPatch.context() as patch, Client("http://s", "key", transport=transport) as client:
        patch.setattr(paging, "most_trades", lambda query: 4)
        patch.setattr(transport, "handle_request", without_ends)
        with pytest.raises(DecodeError, match="X-Page-Ends: got None"):
            client.fetch(PointsQuery(**ALL))


def test_a_second_with_too_many_trades_is_named(tmp_path: Any) -> None:
    busy = _busy(tmp_path / "lake", np.arange(10) + (S0 + 60) * NS)
    with pytest.MonkeyPatch.context() as patch, Client.local(busy.path) as client:
        patch.setattr(paging, "most_trades", lambda query: 4)
        with pytest.raises(RefusedQueryError, match=r"the second \S+ alone has more"):
            client.fetch(PointsQuery(**ALL))


def test_a_closed_client_reads_no_events(tmp_path: Any) -> None:
    busy = _busy(tmp_path / "lake", np.array([S0 * NS]))
    client = Client.local(busy.path)
    client.close()
    with pytest.raises(TransportError, match="closed"):
        client.events("trades", exchange="X", raw_symbol="BTCUSDT", start=S0, end=S0 + 60)
