"""What a series says of itself: what its amounts count, how high its levels are, and up to when it is known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl
import pytest

from tidytape.errors import DecodeError
from tidytape.wire import decode, encode, from_arrow, to_arrow

CANDLES, PROFILE, TPO = "TRADE_SIDE_AGNOSTIC_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"


def body(points: list[dict[str, Any]], **identity: Any) -> bytes:
    series = {"id": {"exchange": "X"} | identity, "points": [{"Point": point} for point in points]}
    return orjson.dumps({"series": [series]})


def minutes(*starts: int) -> list[dict[str, Any]]:
    return [{"timestamp": {"s": start}, "close": 1.0} for start in starts]


# "1" is a double too, but not to a reader of columns.
lanes = pytest.mark.parametrize("size", [10.0, "10"], ids=["number", "number as text"])


@lanes
def test_descriptors_of_a_series_are_on_each_of_its_rows(size: object) -> None:
    points = [{"timestamp": {"s": 0}, "profile": [100.0, 1.0, 2.0, 110.0, 3.0, 4.0]}]
    frame = decode(
        body(points, interval="MINUTE", amountUnit="USD", blockSize=size, dataUntil={"s": 60}), PROFILE
    )
    assert frame.select("amount_unit", "block_size", "is_final").rows() == [("USD", 10.0, True)] * 2
    assert frame["data_until"].to_list() == [datetime(1970, 1, 1, 0, 1, tzinfo=UTC)] * 2


def test_an_interval_is_final_when_it_ends_no_later_than_the_data() -> None:
    frame = decode(
        body(minutes(0, 60, 120), interval="MINUTE", dataUntil={"s": 119, "ns": 999_999_999}), CANDLES
    )
    assert frame["is_final"].to_list() == [True, False, False]
    frame = decode(body(minutes(0, 60, 120), interval="1m", dataUntil={"s": 120}), CANDLES)
    assert frame["is_final"].to_list() == [True, True, False]


def test_a_session_is_final_when_its_period_has_ended() -> None:
    level = {"price": 1.0, "block_ids": [0]}
    points = [
        {"TpoAggregation": {"timestamp": {"s": 0}, "period_end": end, "levels": [level]}}
        for end in ({"s": 86_400}, {"s": 172_800}, None)
    ]
    frame = decode(body(points, interval="HOUR", dataUntil={"s": 90_000}), TPO)
    assert frame["is_final"].to_list() == [True, False, None]


@pytest.mark.parametrize(
    "identity", [{}, {"interval": "MINUTE"}, {"dataUntil": {"s": 60}}, {"amountUnit": None}]
)
def test_a_service_that_does_not_send_them_is_read_with_nulls(identity: dict[str, Any]) -> None:
    frame = decode(body(minutes(0), **identity), CANDLES)
    assert frame.select("amount_unit", "is_final").rows() == [(None, None)]


@pytest.mark.parametrize("size", [0, -1.0, "NaN", "Infinity"])
def test_what_is_no_unit_and_no_height_is_not_known(size: object) -> None:
    points = [{"timestamp": {"s": 0}, "profile": [100.0, 1.0, 2.0]}]
    frame = decode(body(points, amountUnit="CONTRACTS", blockSize=size), PROFILE)
    assert frame.select("amount_unit", "block_size").rows() == [(None, None)]


def test_a_unit_that_is_not_known_is_kept_as_it_was_sent() -> None:
    sent = orjson.loads(body(minutes(0), amountUnit="BARRELS"))
    sent["series"] += orjson.loads(body(minutes(60)))["series"]
    frame = decode(orjson.dumps(sent), CANDLES)
    assert frame.select("amount_unit", "series_amount_unit").rows() == [(None, "BARRELS"), (None, None)]
    assert decode(encode(frame, CANDLES), CANDLES).equals(frame)
    foreign = frame.with_columns(amount_unit=pl.col("series_amount_unit")).drop("series_amount_unit")
    for one in (frame, foreign):
        assert from_arrow(to_arrow(one, CANDLES), CANDLES).select(frame.columns).equals(frame)
    for unit in ("", "COIN"):
        assert "series_amount_unit" not in decode(body(minutes(0), amountUnit=unit), CANDLES).columns


def test_a_point_does_not_describe_its_series() -> None:
    points = [{"timestamp": {"s": 0}, "amountUnit": "USD", "dataUntil": 5, "isFinal": True}]
    frame = decode(body(points, amountUnit="COIN"), CANDLES)
    assert frame.select("amount_unit", "is_final").rows() == [("COIN", None)]
    assert {"point_amount_unit", "point_data_until", "point_is_final"} <= set(frame.columns)


def test_both_ways_of_sending_a_frame_keep_what_describes_it() -> None:
    sent = decode(body(minutes(0, 60), interval="MINUTE", amountUnit="COIN", dataUntil={"s": 60}), CANDLES)
    unfinished = sent.drop("is_final")  # the writer need not have it
    assert decode(encode(unfinished, CANDLES), CANDLES).equals(sent)
    assert from_arrow(to_arrow(unfinished, CANDLES), CANDLES).select(sent.columns).equals(sent)


def test_series_that_are_described_differently_stay_apart() -> None:
    frame = decode(body(minutes(0, 60), interval="MINUTE"), CANDLES)
    frame = frame.with_columns(amount_unit=pl.Series(["COIN", None], dtype=pl.Categorical()))
    assert decode(encode(frame, CANDLES), CANDLES).equals(frame)


def test_arrow_with_a_time_of_another_kind_is_refused() -> None:
    frame = decode(body(minutes(0), interval="MINUTE"), CANDLES).with_columns(data_until=pl.lit(60))
    with pytest.raises(DecodeError, match="column data_until is Int"):
        from_arrow(to_arrow(frame, CANDLES), CANDLES)
