"""StreamPoints: the stream of HTTP as messages, over a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import polars as pl
import pytest

from messages import batch_of
from rpc_server import SERVICE, Served, running
from stream_readers import Held, registered, trades
from tidytape.budget import TIERS
from tidytape.catalogue import StreamEnd
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.http import _rpc as rpc
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.wire._stream import decode_batch

pytestmark = pytest.mark.slow
MINUTE = 60 * 10**9
T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
TYPES = ["TRADE_AGG", "VOLUME_PROFILE_AGG"]


def rows(first: int, last: int) -> Any:
    return trades(
        (str(n), T0 * 10**9 + n * MINUTE // 4, "BUY" if n % 3 else "SELL", 100.0 + n % 7, 1.0)
        for n in range(first, last)
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.create(tmp_path / "lake")
    registered(made, "BTCUSDT")
    made.writer().append("trades", rows(0, 40), source="first")
    return made


@pytest.fixture
def served(lake: Lake) -> Iterator[Served]:
    with running(app_of(lake)) as served:
        yield served


def app_of(lake: Lake) -> Any:
    keys = Keys([Key(tier[0], hashed(f"{tier}-key"), tier, created=0) for tier in ("basic", "enterprise")])
    clock = (T0 + 86_400) * 10**9
    return create_app(lake, keys, grpc_address="127.0.0.1:0", token_secret=b"s" * 32, clock=lambda: clock)


def request(**more: Any) -> bytes:
    asked = {"type": TYPES, "exchange": ["X"], "rawSymbol": ["BTCUSDT"], "interval": "MINUTE", "from": T0}
    return pb.PointRequest(**asked | more).SerializeToString()


def opened(served: Served, body: bytes) -> Any:
    stream = served.channel.unary_stream(SERVICE + "StreamPoints")
    return stream(body, metadata=[("x-service-key", served.key)], timeout=60)


def query(minutes: int, types: list[str] = TYPES) -> PointsQuery:
    market = {"exchange": "X", "raw_symbol": "BTCUSDT"}
    return PointsQuery(type=types, **market, interval="1m", start=T0, end=T0 + 60 * minutes)


def test_history_ends_with_its_period(served: Served, lake: Lake) -> None:
    call, held = opened(served, request(period=60 * 8)), Held()
    for message in call:
        held.apply(batch_of(message, TYPES))
    assert held.end[0] == StreamEnd.PERIOD_OVER
    assert call.code() is grpc.StatusCode.OK
    held.require_answer(lake, query(8))
    begun = dict(call.initial_metadata())
    assert {"x-request-id", "x-ratelimit-used", "x-ratelimit-remaining"} <= set(begun)
    assert int(begun["x-ratelimit-used"]) >= 1


@pytest.mark.parametrize("types", [TYPES, ["TPO_AGG", "TRADE"], ["TRADE_SIDE_AGNOSTIC_AGG"]], ids=str)
def test_batches_are_those_of_http(served: Served, types: list[str]) -> None:
    body = request(type=types, period=60 * 8)
    got = [batch_of(message, types) for message in opened(served, body)]
    params = list(rpc.params_of(pb.PointRequest.FromString(body)))
    lines = served.get("/v1/stream", params).content.splitlines()
    expected = [decode_batch(line, types) for line in lines]
    assert [(one.over, one.end, one.token) for one in got] == [
        (one.over, one.end, one.token) for one in expected
    ]
    assert [list(one.frames) for one in got] == [list(one.frames) for one in expected]
    for one, other in zip(got, expected, strict=True):
        for name, frame in one.frames.items():
            assert frame.height == other.frames[name].height
            same = [column for column, dtype in frame.schema.items() if not dtype.is_nested()]
            assert frame.select(same).equals(other.frames[name].select(same))


def test_what_is_new_arrives_and_a_token_goes_on(served: Served, lake: Lake) -> None:
    held, call = Held(), opened(served, request())
    messages = iter(call)

    def until(is_done: Callable[[], bool]) -> None:
        while not is_done():
            held.apply(batch_of(next(messages), TYPES))

    def updates() -> int:
        frame = held.points.get("TRADE_AGG")
        return 0 if frame is None else frame["timestamp"].n_unique()

    until(lambda: updates() == 10)
    lake.writer().append("trades", rows(40, 48), source="second")
    until(lambda: updates() == 12)
    assert held.over["TRADE_AGG"] == (T0 + 60 * 10) * 10**9
    call.cancel()
    lake.writer().append("trades", rows(48, 60), source="third")
    lake.writer().append("trades", rows(13, 14).with_columns(id=pl.lit("late")), source="late")
    messages = iter(opened(served, request(token=held.token)))
    until(lambda: updates() == 15)
    assert (
        held.points["TRADE_AGG"].filter(pl.col("timestamp").dt.epoch("s") == T0 + 180)["volume"].sum() == 5.0
    )  # a late trade: a revision
    held.require_answer(lake, query(60))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"token": "guess"}, "INVALID_PARAMS"),
        ({"gapfill": True}, "INVALID_PARAMS"),
        ({"sortDirection": "SORT_DIRECTION_DESC"}, "INVALID_PARAMS"),
        ({"rawSymbol": ["NONE"]}, "INVALID_SYMBOL"),
        ({"interval": 99}, "INVALID_INTERVAL"),
    ],
    ids=str,
)
def test_refusals_are_those_of_http(served: Served, more: dict[str, Any], code: str) -> None:
    body = request(**more)
    call = opened(served, body)
    with pytest.raises(grpc.RpcError) as failure:
        next(call)
    over_http = served.get("/v1/stream", list(rpc.params_of(pb.PointRequest.FromString(body))))
    trailing = dict(failure.value.trailing_metadata())
    assert (trailing["error-code"], failure.value.details()) == (code, over_http.json()["message"])
    assert over_http.json()["error"] == code
    assert failure.value.code() is rpc.STATUS[code]


def test_streams_of_a_key_are_counted(served: Served) -> None:
    served.key, most = "basic-key", TIERS["basic"].streams
    calls = [opened(served, request()) for _ in range(most)]
    for call in calls:
        next(call)
    with pytest.raises(grpc.RpcError) as failure:
        next(opened(served, request()))
    assert dict(failure.value.trailing_metadata())["error-code"] == "STREAM_LIMIT_EXCEEDED"
    assert len(served.app.state.streams.readers) == most
    for call in calls:
        call.cancel()
    _soon(lambda: not served.app.state.streams.readers)
    next(opened(served, request()))


@pytest.mark.long
def test_a_reader_that_stops_is_cut_and_holds_up_nobody(
    served: Served, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidytape.service.http._rpc.PATIENCE", 0.5)
    body = request(type=["TRADE"], interval=0)
    number = pl.int_range(100, 600_000, eager=True)
    lake.writer().append(
        "trades",
        pl.concat([rows(0, 1)] * len(number)).with_columns(
            id=number.cast(pl.String), sequence=number, timestamp=T0 * 10**9 + number * MINUTE // 4
        ),
        source="many",
    )
    stopped = opened(served, body)
    next(stopped)  # and no more: the messages that follow fill what gRPC keeps for the reader
    _soon(lambda: served.app.state.streams.counts["cut"] == 1)
    assert not served.app.state.streams.readers
    assert served.app.state.streams._held["e"] == 1  # gRPC still keeps something for it
    stopped.cancel()
    _soon(lambda: served.app.state.streams._held["e"] == 0)
    held = Held()
    for message in opened(served, request(period=60 * 8)):
        held.apply(batch_of(message, TYPES))
    held.require_answer(lake, query(8))


def test_the_service_ends_its_streams_with_a_token(lake: Lake) -> None:
    held = Held()
    with running(app_of(lake)) as served:
        call = opened(served, request())
        held.apply(batch_of(next(call), TYPES))

        def read() -> None:
            for message in call:
                held.apply(batch_of(message, TYPES))

        thread = threading.Thread(target=read)
        thread.start()
        served.stop()
        thread.join()
    assert held.end[0] == StreamEnd.SHUTTING_DOWN
    assert held.token
    assert call.code() is grpc.StatusCode.OK


def _soon(is_true: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if is_true():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come true")
