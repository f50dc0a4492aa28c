"""From answers to rows: what was asked for, and fields that are not the same in every answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import orjson
import polars as pl
import pytest

from tidytape.client._answers import decoded, joined
from tidytape.client._endpoints import ParquetFile
from tidytape.client._steps import Answer
from tidytape.errors import DecodeError
from tidytape.query import PointsQuery

DAY = 86_400
MONDAY, SUNDAY = 4 * DAY, 3 * DAY  # the epoch was a Thursday


def asked(interval: str, data_type: str = "TRADE_SIDE_AGNOSTIC_AGG") -> PointsQuery:
    return PointsQuery(
        type=data_type, exchange="X", raw_symbol="BTC", interval=interval, start=0, end=3_000_000
    )


def answer(*points: dict[str, Any], **said: str) -> Answer:
    series = {
        "id": {"exchange": "X", "rawSymbol": "BTC", **said},
        "points": [{"Point": one} for one in points],
    }
    return Answer(200, httpx.Headers(), orjson.dumps({"series": [series]}))


def at(*seconds: float, **said: str) -> Answer:
    times = ({"s": int(second), "ns": round(second % 1 * 10**9)} for second in seconds)
    return answer(*({"timestamp": time} for time in times), **said)


@pytest.mark.parametrize("said", [{}, {"interval": "HOUR"}], ids=["unsaid", "said"])
def test_points_of_another_interval_are_refused(said: dict[str, str]) -> None:
    with pytest.raises(DecodeError, match=r"asked for interval HOUR, .* 9 timestamps .* 1970-01-01 00:01:00"):
        decoded(at(*range(0, 600, 60), **said), asked("1h"))
    assert decoded(at(0, 3600, **said), asked("1h")).height == 2


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [("1m", [67]), ("1m", [60.5]), ("1d", [3600]), ("1w", [MONDAY, MONDAY + DAY]), ("1w", [MONDAY + 60])],
)
def test_points_at_which_no_interval_starts_are_refused(interval: str, seconds: list[float]) -> None:
    with pytest.raises(DecodeError, match="timestamps at which none starts"):
        decoded(at(*seconds), asked(interval))


@pytest.mark.parametrize("first", [MONDAY, SUNDAY])
def test_weeks_may_start_on_any_day(first: int) -> None:
    assert decoded(at(first, first + 7 * DAY), asked("1w")).height == 2


def test_trades_lie_anywhere() -> None:
    trade = {"timestamp": {"s": 7, "ns": 1}, "id": "1", "price": 1, "amount": 1}
    assert decoded(answer(trade), asked("1m", "TRADE")).height == 1
    assert decoded(answer(), asked("1m")).height == 0


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(1, [1], ["1", "[1]"]), ({"a": 1}, 3, ['{"a":1}', "3"]), ("x", {"a": 1}, ["x", '{"a":1}'])],
)
def test_a_field_of_another_kind_in_another_part_is_text(
    first: object, second: object, kept: list[str]
) -> None:
    query = asked("1m")
    parts = [
        decoded(answer({"timestamp": {"s": second_}, "foo": value}), query)
        for second_, value in ((0, first), (60, second))
    ]
    assert joined(parts, query)["foo"].to_list() == kept
    assert joined([joined(parts, query), *parts], query)["foo"].to_list() == kept


def test_a_file_has_one_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with ParquetFile(path) as file:
        for value in ("x", [1], {"a": 1}):
            file.write(pl.DataFrame({"^.*$": [value], "open": [1.0]}))
    assert pl.read_parquet(path).rows() == [("x", 1.0), ("[1]", 1.0), ('{"a":1}', 1.0)]
    with ParquetFile(path) as file:
        file.write(pl.DataFrame({"foo": [1]}))
        with pytest.raises(
            DecodeError, match=r"column foo is List\(Int64\) in a later answer and Int64 in the first"
        ):
            file.write(pl.DataFrame({"foo": [[1]]}))
