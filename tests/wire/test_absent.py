"""Numbers that a point leaves out: unknown, or 0 as of a service that leaves out zeros."""

from __future__ import annotations

import httpx
import polars as pl
import pytest

from tidytape.client import Client
from tidytape.errors import QueryError
from tidytape.wire import decode, levels_of

CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"


def body(name: str, *points: str) -> bytes:
    inside = ",".join(f'{{"Point":{point}}}' for point in points)
    identity = f'{{"type":"{name}","exchange":"X","rawSymbol":"BTCUSDT","interval":"MINUTE"}}'
    return f'{{"series":[{{"id":{identity},"points":[{inside}]}}]}}'.encode()


CANDLE = '{"timestamp":{"s":60},"open":1,"high":2,"low":1,"close":2}'
UNKNOWN = '{"timestamp":{"s":120},"open":1,"high":2,"low":1,"close":2,"volume":null}'
STRANGE = '{"timestamp":{"s":180},"open":"1","high":2,"low":1,"close":2,"takerRatio":0.5}'


@pytest.mark.parametrize(("absent", "volume"), [("null", None), ("zero", 0.0)])
def test_an_absent_volume_is_what_the_service_means_by_it(absent: str, volume: float | None) -> None:
    for points in ((CANDLE,), (CANDLE, STRANGE), (CANDLE, UNKNOWN), (CANDLE, UNKNOWN, STRANGE)):
        got = decode(body(CANDLES, *points), CANDLES, absent=absent)
        volumes = dict(got.select(pl.col("timestamp").dt.epoch("s"), "volume").rows())
        assert volumes[60] == volume
        assert volumes.get(120) is None  # a number that is written as null is unknown in both cases
        assert volumes.get(180, volume) == volume


def test_optional_numbers_that_are_absent_are_unknown_in_both_cases() -> None:
    for name, point in (
        ("OPEN_INTEREST_AGG", '{"timestamp":{"s":60},"close":5}'),
        ("FUNDING_RATE_AGG", '{"timestamp":{"s":60},"rateClose":0.1}'),
    ):
        one, other = (decode(body(name, point), name, absent=absent) for absent in ("null", "zero"))
        assert one.equals(other)
        assert one.null_count().sum_horizontal().item() > 3


def test_levels_that_are_objects_have_zeros_and_derived_numbers_do_not() -> None:
    point = '{"TpoAggregation":{"timestamp":{"s":60},"levels":[{"price":1,"buy_volume":2}]}}'
    got = levels_of(decode(body("TPO_AGG", point), "TPO_AGG", absent="zero"))
    assert got.select("buy_volume", "sell_volume", "tpo_count").rows() == [(2.0, 0.0, None)]


def test_a_client_is_told_what_its_service_means(tmp_path: object) -> None:
    def served(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, content=body(CANDLES, CANDLE), headers={"content-type": "application/json"}
        )

    asked = {"exchange": "X", "raw_symbol": "BTCUSDT", "interval": "1m", "start": 60, "end": 120}
    for absent, volume in (("null", None), ("zero", 0.0), ("null", None)):  # in one cache
        with Client(
            "http://service.test",
            "key",
            absent=absent,
            cache=str(tmp_path),
            transport=httpx.MockTransport(served),
        ) as client:
            assert client.candles(**asked)["volume"].to_list() == [volume]
    with pytest.raises(QueryError, match="absent: got 'nothing', expected 'null' or 'zero'"):
        Client("http://service.test", "key", absent="nothing")
