"""The methods that list: what they send, every shape of an answer, and answers that are none."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import orjson
import pytest

import tidytape
from simulated.asked import LISTS, predicted
from simulated.everything import everything
from tables import each_row
from tidytape.catalogue import LISTS as ENDPOINTS
from tidytape.catalogue import LISTS_OF_A_TYPE
from tidytape.client._lists import ListMethods
from tidytape.errors import DecodeError, IncompleteDataError, QueryError, ServerError
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.schema import BLOCK_SIZES, PREDICTION_MARKETS

METHOD = {endpoint: endpoint.replace("-", "_") for endpoint in ENDPOINTS}
NAMES = [endpoint for endpoint in ENDPOINTS if endpoint != "block-sizes"]
FILTERS: dict[str, Any] = {
    "type": ["TPO_AGG", "TRADE"],
    "exchange": "X",
    "category": ["spot", "option"],
    "coin": ["BTC", "ETH"],
    "raw_symbol": "BTCUSDT",
    "normalized_symbol": "BTC-USDT",
    "start": "2024-08-08",
    "end": datetime(2024, 8, 9, tzinfo=UTC),
}


def answering(body: Any) -> httpx.Response:
    return httpx.Response(200, content=body if isinstance(body, bytes) else orjson.dumps(body))


def asked(name: str) -> dict[str, Any]:
    return LISTS[METHOD.get(name, name)]


# --- what is sent ---


@each_row("name", ENDPOINTS)
def test_every_filter_reaches_its_endpoint(client: Any, script: Any, name: str) -> None:
    parameters = [*inspect.signature(getattr(ListMethods, METHOD[name])).parameters][1:]
    assert parameters == list(FILTERS) == list(MetaQuery.WIRE)
    transport = script(answering({}))
    with client(transport) as asking:
        got = getattr(asking, METHOD[name])(**FILTERS)
    assert len(got) == 0
    (request,) = transport.requests
    assert request.url.path == f"/v1/{name}"
    sent = parse_qsl(request.url.query.decode())
    assert ("from", "1723075200") in sent
    assert ("to", "1723161600") in sent
    assert MetaQuery.from_params(sent) == MetaQuery(**FILTERS)


@pytest.mark.parametrize("method", ["markets", "prediction_markets"])
def test_a_search_is_that_of_markets(client: Any, script: Any, method: str) -> None:
    search = {"exchange": "P", "coin": "BTC", "category": "spot", "type": "TRADE", "symbol_filter": "rain",
              "sort_field": "volume_24h", "sort_direction": "desc", "distinct": True, "page_size": 7}  # fmt: skip
    own = ["as_of"] if method == "markets" else []  # the client's, see test_as_of
    assert [*inspect.signature(getattr(ListMethods, method)).parameters][1:] == [*search, *own]
    transport = script(answering({"symbols": [], "nextOffset": 0}))
    with client(transport) as asking:
        assert getattr(asking, method)(**search).is_empty()
    (request,) = transport.requests
    assert request.url.path == "/v1/markets"
    assert MarketsQuery.from_params(parse_qsl(request.url.query.decode())) == MarketsQuery(**search)


@each_row("name", LISTS_OF_A_TYPE)
@each_row("given", [{}, {"type": None}, {"type": []}])
def test_what_services_fail_at_is_never_sent(client: Any, script: Any, name: str, given: Any) -> None:
    transport = script(answering([]))
    with (
        client(transport) as asking,
        pytest.raises(QueryError, match="type: left out, expected at least one"),
    ):
        getattr(asking, METHOD[name])(exchange="X", **given)
    assert transport.requests == []


def test_a_list_is_asked_for_again_where_the_service_fails(
    client: Any, script: Any, waits: list[float]
) -> None:
    failing = httpx.Response(500, json={"error": "INTERNAL_ERROR", "message": "no"})
    with client(script(failing, answering(["BTC"]))) as asking:
        assert asking.coins() == ["BTC"]
    assert len(waits) == 1
    with client(script(failing), attempts=2) as asking, pytest.raises(ServerError):
        asking.coins()


# --- names ---


@each_row("name", NAMES)
@each_row("shape", ["named", "bare", "other", "plain"])
def test_a_list_of_names_comes_in_any_shape_and_keeps_its_order(
    client: Any, script: Any, name: str, shape: str
) -> None:
    values = ["b", "a", "ü\u202e", ""]
    body = {
        "named": {"categories": ["no"], ENDPOINTS[name]: values, "coins": ["no"]} | {ENDPOINTS[name]: values},
        "bare": values,
        "other": {"data": values, "page": 1},
        "plain": {name: values, "others": []},
    }[shape]
    with client(script(answering(body))) as asking:
        assert getattr(asking, METHOD[name])(**asked(name)) == values


@each_row("name", NAMES)
def test_an_empty_list_is_empty(client: Any, script: Any, name: str) -> None:
    for body in ({}, [], {ENDPOINTS[name]: []}, {ENDPOINTS[name]: None}):
        with client(script(answering(body))) as asking:
            assert getattr(asking, METHOD[name])(**asked(name)) == []


HOSTILE = [
    b" ", b"not json", b'"BTC"', b"1", b"null", b'{"a": [], "b": []}', b'{"a": 1}', b"[" * 5_000, b"[1]", b"[null]",
    b'[["BTC"]]', b'[{"coin": "BTC"}]', b"[true]", b'["\xff"]', b'["\\ud800"]',
]  # fmt: skip


@each_row("name", NAMES)
@each_row("body", HOSTILE)
def test_what_is_no_list_of_names_is_refused(client: Any, script: Any, name: str, body: bytes) -> None:
    with client(script(answering(body))) as asking, pytest.raises(DecodeError):
        getattr(asking, METHOD[name])(**asked(name))


def test_what_is_wrong_with_a_list_is_said_with_its_place(client: Any, script: Any) -> None:
    with (
        client(script(answering({"coins": ["BTC", 7]}))) as asking,
        pytest.raises(DecodeError, match="coins: element 1: 7 is no string"),
    ):
        asking.coins()


# --- block sizes ---


def test_block_sizes_are_objects_or_numbers(client: Any, script: Any) -> None:
    entry = {"exchange": "X", "rawSymbol": "BTCUSDT", "blockSize": 0.5}
    spelled = {"exchange": "X", "raw_symbol": "ETHUSDT", "block_size": "0.25", "note": "new"}
    for body in ([entry, spelled, 5], {"blockSizes": [entry, spelled, 5]}, {"sizes": [entry, spelled, "5"]}):
        with client(script(answering(body))) as asking:
            found = asking.block_sizes()
        assert found.columns == ["exchange", "raw_symbol", "note", "block_size"]
        assert found.select(*BLOCK_SIZES.names, "note").rows() == [
            ("X", "BTCUSDT", 0.5, None),
            ("X", "ETHUSDT", 0.25, "new"),
            (None, None, 5.0, None),
        ]
    with client(script(answering({}))) as asking:
        assert asking.block_sizes().schema == BLOCK_SIZES.empty().schema


@each_row(
    "body",
    [[{}], [{"blockSize": None}], [None], [True], ["X"], [[1]], [{"blockSize": {}}], [{"exchange": 1, "blockSize": 1}],
     {"blockSizes": 5}, b"[1" + b"0" * 400 + b"]", 7],
)  # fmt: skip
def test_what_is_no_block_size_is_refused(client: Any, script: Any, body: Any) -> None:
    with client(script(answering(body))) as asking, pytest.raises(DecodeError):
        asking.block_sizes()


# --- prediction markets ---


def page(*entries: dict[str, Any], following: int = 0) -> httpx.Response:
    return answering({"symbols": list(entries), "nextOffset": following})


def outcome(symbol: str, *predictions: dict[str, Any]) -> dict[str, Any]:
    return {"exchange": "P", "rawSymbol": symbol, "predictionMarkets": list(predictions)}


def test_each_outcome_has_a_row_per_prediction_market(client: Any, script: Any) -> None:
    rain = {"slug": "rain", "outcomes": ["Yes", "No"], "lastPrice": 0.25, "closed": False}
    snow = {"slug": "snow", "prices": [0.5, 0.25], "availableTo": {"s": 60}}
    pages = [
        page(outcome("11", rain, snow), {"exchange": "X", "rawSymbol": "BTC"}, following=2),
        page(outcome("22", rain), outcome("33"), following=4),
        page(following=4),
    ]
    with client(script(*pages)) as asking:
        found = asking.prediction_markets()
    assert found.schema == PREDICTION_MARKETS.empty().schema
    assert found.select(PREDICTION_MARKETS.key).rows() == [
        ("P", "11", "rain"),
        ("P", "11", "snow"),
        ("P", "22", "rain"),
    ]
    assert found["outcomes"].to_list() == [["Yes", "No"], None, ["Yes", "No"]]
    assert found["available_to"][1] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)


def test_fields_that_the_contract_does_not_know_are_kept(client: Any, script: Any) -> None:
    first = {"slug": "a", "fooBar": 1, "exchange": "not the market's", "rawSymbol": "nor this"}
    second = {"slug": "b", "^x.*$": {"deep": [1]}}
    pages = [
        page(outcome("1", first), following=1),
        page(outcome("2", second), following=2),
        page(following=2),
    ]
    with client(script(*pages)) as asking:
        found = asking.prediction_markets()
    assert found.select("exchange", "raw_symbol", "slug", "foo_bar").rows() == [
        ("P", "1", "a", 1),
        ("P", "2", "b", None),
    ]
    assert found.columns[-4:] == list(PREDICTION_MARKETS.names[-4:])
    assert set(found.columns) - set(PREDICTION_MARKETS.names) == {"foo_bar", "^x.*$"}


def test_one_that_comes_twice_is_one_row_or_an_error(client: Any, script: Any) -> None:
    one = {"slug": "a", "lastPrice": 0.5}
    with client(script(page(outcome("1", one, one), following=1), page(following=1))) as asking:
        assert asking.prediction_markets().height == 1
    other = one | {"lastPrice": 0.25}
    with (
        client(script(page(outcome("1", one, other), following=1), page(following=1))) as asking,
        pytest.raises(IncompleteDataError, match="came twice with different values"),
    ):
        asking.prediction_markets()


@each_row(
    "nested",
    [{}, "a", [1], [{}], [{"slug": None}], [{"slug": "a", "closed": "yes"}], [{"slug": "a", "prices": 1}]],
)
def test_what_is_no_prediction_market_is_refused(client: Any, script: Any, nested: Any) -> None:
    for spelling in ("predictionMarkets", "prediction_markets"):
        entry = {"exchange": "P", "rawSymbol": "1", spelling: nested}
        with client(script(page(entry, following=1))) as asking, pytest.raises(DecodeError):
            asking.prediction_markets()


# --- the real service ---


@pytest.mark.slow
def test_lists_of_a_lake_are_those_of_its_service(tmp_path: Path) -> None:
    lake = predicted(everything(tmp_path / "lake"))
    with tidytape.Client.local(lake.path) as client:
        assert client.exchanges() == ["CME", "DERIBIT", "X"]
        assert client.types(exchange="CME") == ["CME_OPEN_INTEREST_AGG"]
        assert client.categories(exchange=["X", "CME"]) == ["SPOT", "PERPETUAL", "FUTURE"]
        assert client.coins(type="TOKEN_SUPPLY_AGG") == ["BTC", "ETH"]
        assert client.symbols(type="CME_OPEN_INTEREST_AGG", coin="BTC") == ["BTCQ4"]
        assert client.normalized_symbols(type="TRADE", category="spot") == ["BTC-USDT"]
        assert client.tenors() == ["ONE_W"]
        assert client.coins(exchange="NOWHERE") == []
        assert client.block_sizes(raw_symbol="BTCUSDT")["exchange"].to_list() == ["X"]
        assert client.prediction_markets()["raw_symbol"].to_list() == ["11", "22"]
        assert client.prediction_markets(symbol_filter="nothing").equals(PREDICTION_MARKETS.empty())
        with pytest.raises(QueryError, match="did you mean 'TPO_AGG'") as caught:
            client.coins(type="TPO_AG")
        assert (caught.value.parameter, caught.value.status) == ("type", 400)
        assert client.usage().used == 0
    with tidytape.Client.local(lake.path, backend="pandas") as client:
        assert list(client.prediction_markets()["prices"][0]) == [0.5, 0.25]
        assert client.coins() == ["BTC", "ETH", "OLD"]


@pytest.mark.slow
def test_a_span_of_time_is_half_open(tmp_path: Path) -> None:
    lake = everything(tmp_path / "lake")
    last = 1_723_161_600 + 7_200
    with tidytape.Client.local(lake.path) as client:
        for start, venues in ((last, ["CME"]), (last + 1, [])):
            assert client.exchanges(type="CME_OPEN_INTEREST_AGG", start=start) == venues
        with pytest.raises(QueryError, match="end: got"):
            client.exchanges(start=10, end=5)
