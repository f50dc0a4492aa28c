"""The service over gRPC, asked over a socket: it answers, charges and refuses as it does over HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from google.protobuf import json_format

from messages import comparable, json_of
from rpc_server import SERVICE, Served, running
from tidytape.catalogue import ERROR_STATUS, LISTS
from tidytape.lake import Lake
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.answer._scan import UNHURRIED
from tidytape.service.http import _rpc as rpc
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.service.work._computing import Task

T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
pytestmark = pytest.mark.slow


class Clock:
    """Epoch nanoseconds that a test moves by hand."""

    now = (T0 + 30 * 86_400) * 10**9

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(lake: Path, clock: Clock) -> Iterator[Served]:
    tiers = ("basic", "advanced", "enterprise")
    keys = [Key(tier[0], hashed(f"{tier}-key"), tier, created=0) for tier in tiers]
    expired = Key("x", hashed("expired-key"), "enterprise", created=0, expires=1_700_000_000)
    app = create_app(Lake(lake), Keys([*keys, expired]), clock=clock, grpc_address="127.0.0.1:0")
    with running(app) as served:
        yield served


def asked(**changed: Any) -> dict[str, Any]:
    base = {"type": ["TRADE_SIDE_AGNOSTIC_AGG"], "exchange": ["ALPHA"], "rawSymbol": ["BTCUSDT"]}
    return base | {"interval": "MINUTE", "from": T0, "period": 240} | changed


def error_of(served: Served, method: str, body: bytes, **more: Any) -> tuple[grpc.StatusCode, str, str]:
    with pytest.raises(grpc.RpcError) as failure:
        served.call(method, body, **more)
    return failure.value.code(), served.trailing.get("error-code", ""), failure.value.details()


def params(request: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, one)
        for name, value in request.items()
        for one in (value if isinstance(value, list) else [value])
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"type": ["TRADE_AGG", "VOLUME_PROFILE_AGG"]},
        {"gapfill": True, "sortDirection": "SORT_DIRECTION_DESC"},
        {"from": 0},
        {"side": "BUY", "type": ["TRADE_AGG"]},
    ],
    ids=str,
)
def test_points_are_those_of_http(served: Served, changed: dict[str, Any]) -> None:
    over_http = served.get("/v1/points", params(asked(**changed)))
    assert over_http.status_code == 200
    body = json_of(served.call("GetPoints", pb.PointRequest(**asked(**changed)).SerializeToString()))
    assert comparable(orjson.loads(body)) == comparable(over_http.json())
    shared = {"x-ratelimit-limit", "x-ratelimit-used", "x-ratelimit-remaining", "x-request-id"}
    assert shared <= set(served.trailing)
    before, after = (int(one["x-ratelimit-remaining"]) for one in (over_http.headers, served.trailing))
    assert before > after  # both took weight from one bucket


@pytest.mark.parametrize(
    ("changed", "key", "code", "status"),
    [
        ({"period": None}, "enterprise", "INVALID_PARAMS", "INVALID_ARGUMENT"),
        ({"from": None}, "enterprise", "INVALID_PARAMS", "INVALID_ARGUMENT"),
        ({"type": [4_711]}, "enterprise", "INVALID_TYPE", "INVALID_ARGUMENT"),
        ({"type": ["UNKNOWN_TYPE"]}, "enterprise", "INVALID_TYPE", "INVALID_ARGUMENT"),
        ({"interval": 99}, "enterprise", "INVALID_INTERVAL", "INVALID_ARGUMENT"),
        ({"exchange": ["GAMMA"]}, "enterprise", "INVALID_EXCHANGE", "INVALID_ARGUMENT"),
        ({"rawSymbol": ["NONE"]}, "enterprise", "INVALID_SYMBOL", "INVALID_ARGUMENT"),
        ({"rawSymbol": []}, "enterprise", "INVALID_SYMBOL", "INVALID_ARGUMENT"),
        ({"transform": {"normalize": {"quote": "EUR"}}}, "enterprise", "INVALID_PARAMS", "INVALID_ARGUMENT"),
        ({"maxDepth": 0}, "enterprise", "INVALID_PARAMS", "INVALID_ARGUMENT"),
        ({"gapfill": True, "type": ["TPO_AGG"]}, "enterprise", "UNSUPPORTED", "INVALID_ARGUMENT"),
        ({"type": ["TOKEN_SUPPLY_AGG"], "rawSymbol": [], "exchange": [], "tokenName": "x"}, "basic",
         "TYPE_NOT_PERMITTED", "PERMISSION_DENIED"),
        ({"from": 0}, "basic", "HISTORY_NOT_PERMITTED", "PERMISSION_DENIED"),
        ({"period": 60 * 100_001}, "enterprise", "POINT_LIMIT_EXCEEDED", "PERMISSION_DENIED"),
        ({"exchange": ["ALPHA", "BETA"], "rawSymbol": [], "coin": ["BTC"],
          "transform": {"groupBy": {"type": "GROUP_BY_TYPE_SUM"}}}, "basic",
         "AGGREGATION_NOT_PERMITTED", "PERMISSION_DENIED"),
    ],
    ids=str,
)  # fmt: skip
def test_refusals_are_those_of_http(
    served: Served, changed: dict[str, Any], key: str, code: str, status: str
) -> None:
    served.key = f"{key}-key"
    request = {name: value for name, value in asked(**changed).items() if value is not None}
    message = pb.PointRequest(**request)
    got_status, got_code, details = error_of(served, "GetPoints", message.SerializeToString())
    over_http = served.get("/v1/points", list(rpc.params_of(message)))
    assert (got_code, details) == (code, over_http.json()["message"])
    assert over_http.json()["error"] == code
    assert got_status is grpc.StatusCode[status] is rpc.STATUS[code]
    assert served.trailing["x-ratelimit-used"] == over_http.headers["x-ratelimit-used"] == "0"


def test_a_token_is_of_a_stream_alone(served: Served) -> None:
    request = pb.PointRequest(**asked(token="abc")).SerializeToString()
    assert error_of(served, "GetPoints", request)[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "metadata",
    [[], [("x-service-key", "guess")], [("x-service-key", "expired-key")], [("x-service-key", "")]],
)
@pytest.mark.parametrize("method", ["GetPoints", "GetCoins", "GetUsage", "GetMarkets"])
def test_no_key_no_data(served: Served, method: str, metadata: list[tuple[str, str]]) -> None:
    status, code, details = error_of(served, method, b"", metadata=metadata)
    assert (status, code) == (grpc.StatusCode.UNAUTHENTICATED, "INVALID_API_KEY")
    assert "guess" not in details
    assert not any(name.startswith("x-ratelimit") for name in served.trailing)


def test_an_exhausted_budget_says_when_to_come_back(served: Served) -> None:
    served.key = "basic-key"
    heavy = pb.PointRequest(**asked(period=60 * 100_000)).SerializeToString()  # weighs 100
    served.call("GetPoints", heavy)
    served.call("GetPoints", heavy)
    status, code, details = error_of(served, "GetPoints", heavy)
    assert (status, code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    assert served.trailing["retry-after"] == "60"
    over_http = served.get("/v1/points", params(asked(period=60 * 100_000)))
    assert over_http.json()["message"] == details
    assert over_http.headers["retry-after"] == "60"


def test_bytes_that_are_no_request_are_refused(served: Served) -> None:
    assert error_of(served, "GetPoints", b"\xff\xff")[:2] == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_REQUEST",
    )


def test_a_request_that_is_too_long_is_refused(served: Served) -> None:
    request = pb.PointRequest(**asked(event=["x" * 70_000])).SerializeToString()
    assert error_of(served, "GetPoints", request)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_method_that_is_not_there_is_refused(served: Served) -> None:
    assert error_of(served, "GetEverything", b"")[0] is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.long
@pytest.mark.parametrize("method", sorted(rpc._LISTS))
def test_lists_are_those_of_http(served: Served, method: str) -> None:
    name = rpc._LISTS[method]
    descriptor = pb.DESCRIPTOR.services_by_name["MarketData"].methods_by_name[method]
    request = getattr(pb, descriptor.input_type.name)()
    query: list[tuple[str, str]] = []
    if name in {"symbols", "normalized-symbols"}:
        request.type.append(pb.TRADE_AGG)
        query = [("type", "TRADE_AGG")]
    message = getattr(pb, descriptor.output_type.name).FromString(
        served.call(method, request.SerializeToString())
    )
    got = json_format.MessageToDict(message, always_print_fields_with_no_presence=name == "usage")
    expected = served.get(f"/v1/{name}", query).json()
    assert comparable(got) == comparable(expected)
    assert served.trailing["x-ratelimit-used"] == "0"
    assert name not in LISTS or got or not expected[LISTS[name]]


def test_markets_are_filtered_and_paged_as_over_http(served: Served) -> None:
    sort = {"field": "VOLUME_24H", "direction": "SORT_DIRECTION_DESC"}
    request = pb.MarketRequest(coin=["BTC"], pageSize=1, pageOffset=1, sortCriteria=sort, distinct=False)
    got = pb.MarketResponse.FromString(served.call("GetMarkets", request.SerializeToString()))
    expected = served.get("/v1/markets", list(rpc.params_of(request))).json()
    assert [market.rawSymbol for market in got.symbols] == [one["rawSymbol"] for one in expected["symbols"]]
    assert (len(got.symbols), got.nextOffset) == (1, 2)


def test_a_list_that_needs_a_type_says_so(served: Served) -> None:
    status, code, details = error_of(served, "GetSymbols", b"")
    over_http = served.get("/v1/symbols")
    assert (code, details) == (over_http.json()["error"], over_http.json()["message"])
    assert status is rpc.STATUS[code]


def test_every_code_has_a_status() -> None:
    assert set(rpc.STATUS) == set(ERROR_STATUS)


def test_calls_are_logged_and_counted(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tidytape.access"):
        served.call("GetPoints", pb.PointRequest(**asked()).SerializeToString())
        error_of(served, "GetPoints", b"")
    lines = [record.message for record in caplog.records if record.name == "tidytape.access"]
    done, refused = map(orjson.loads, lines)
    facts = {
        name: done[name] for name in ("method", "route", "status", "key", "tier", "type", "weight", "rows")
    }
    assert facts == {
        "method": "gRPC",
        "route": "points",
        "status": 200,
        "key": "e",
        "tier": "enterprise",
        "type": "TRADE_SIDE_AGNOSTIC_AGG",
        "weight": 1,
        "rows": 3,
    }
    assert refused["status"] == 400
    assert "enterprise-key" not in caplog.text
    assert 'tidytape_requests_total{route="points",status="200"} 1.0' in served.http.get("/metrics").text


def test_an_answer_of_a_hundred_thousand_points_goes_through(served: Served) -> None:
    request = pb.PointRequest(**asked(period=60 * 100_000, gapfill=True)).SerializeToString()
    response = pb.PointResponse.FromString(served.call("GetPoints", request))
    assert [len(series.points) for series in response.series] == [30 * 1_440]  # up to now


def test_a_failure_says_no_more_than_an_id(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidytape.service._answering.estimated", lambda *_: 1 / 0)
    request = pb.PointRequest(**asked()).SerializeToString()
    status, code, details = error_of(served, "GetPoints", request)
    assert (status, code) == (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR")
    assert details == f"the service failed; request {served.trailing['x-request-id']}"
    assert "ZeroDivisionError" in caplog.text


class Stalled:
    """Computes nothing; a task has begun if the test says so."""

    limits, waiting, ended = UNHURRIED, 0, 0

    def __init__(self, *, begins: bool) -> None:
        self.begins, self.tasks = begins, []

    async def run(self, task: Task) -> Any:
        task.begun = self.begins
        self.tasks.append(task)
        await asyncio.sleep(60)


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_who_hangs_up_pays_for_an_answer_that_has_begun(lake: Path, *, begins: bool, how: str) -> None:
    keys = Keys([Key("e", hashed("enterprise-key"), "enterprise", created=0)])
    computing = Stalled(begins=begins)
    clock = T0 * 10**9
    app = create_app(Lake(lake), keys, computing=computing, clock=lambda: clock, grpc_address="127.0.0.1:0")
    with running(app) as served:
        unary = served.channel.unary_unary(SERVICE + "GetPoints")
        metadata = [("x-service-key", served.key)]
        call = unary.future(
            pb.PointRequest(**asked()).SerializeToString(),
            metadata=metadata,
            timeout=60 if how == "cancel" else 1,
        )
        while not computing.tasks:
            time.sleep(0.01)
        if how == "cancel":
            call.cancel()
        for _ in range(500):
            used = pb.UsageResponse.FromString(served.call("GetUsage")).used
            if call.done() and used == int(begins):
                break
            time.sleep(0.01)
        assert used == int(begins)


def test_one_key_does_not_take_the_calls_of_all(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "_MOST_OF_KEY", 2)
    keys = Keys(
        [Key(name, hashed(f"{name}-key"), "enterprise", created=0) for name in ("enterprise", "other")]
    )
    computing = Stalled(begins=False)
    app = create_app(
        Lake(lake), keys, computing=computing, clock=lambda: T0 * 10**9, grpc_address="127.0.0.1:0"
    )
    with running(app) as served:
        request = pb.PointRequest(**asked()).SerializeToString()
        metadata = [("x-service-key", served.key)]
        calls = [
            served.channel.unary_unary(SERVICE + "GetPoints").future(request, metadata=metadata, timeout=60)
            for _ in range(2)
        ]
        while len(computing.tasks) < 2:
            time.sleep(0.01)
        status, code, _ = error_of(served, "GetUsage", b"")
        assert (status, code) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        assert served.trailing["retry-after"] == "2"
        served.call("GetUsage", metadata=[("x-service-key", "other-key")])
        calls[0].cancel()
        for _ in range(500):  # the refused call itself is not counted
            try:
                served.call("GetUsage")
                break
            except grpc.RpcError:
                time.sleep(0.01)
        else:
            raise AssertionError("a call that ended still counts")
        calls[1].cancel()
