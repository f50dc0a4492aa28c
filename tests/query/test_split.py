"""A window of any length, cut into requests that one answer can hold."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tables import each_row
from tidytape.budget import weight
from tidytape.errors import QueryError
from tidytape.query import PointsQuery

FIELDS: dict[str, Any] = {"type": "TRADE_AGG", "exchange": "X", "coin": "BTC", "interval": "1m"}


@each_row(
    ("name", "points", "expected"),
    [
        ("TRADE_AGG", 100_000, [100_000]),
        ("TRADE_AGG", 100_001, [100_000, 1]),
        ("TRADE_AGG", 250_000, [100_000, 100_000, 50_000]),
        ("VOLUME_PROFILE_AGG", 40_001, [20_000, 20_000, 1]),
        ("TPO_AGG", 20_000, [20_000]),
        ("VENUEX_LIQUIDATION_AGG", 5_001, [5_000, 1]),
        ("BLOCK_BOOK_SNAPSHOT_AGG", 9_000, [4_000, 4_000, 1_000]),
        (["TRADE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"], 4_001, [4_000, 1]),
        ("NEW_AGG", 2_500, [1_000, 1_000, 500]),
    ],
)
def test_parts_are_as_large_as_they_may_be(name: Any, points: int, expected: list[int]) -> None:
    exchange = () if name == "VENUEX_LIQUIDATION_AGG" else "X"
    parts = list(
        PointsQuery.split(**{**FIELDS, "type": name, "exchange": exchange}, start=0, end=60 * points)
    )
    assert [part.points for part in parts] == expected


def test_parts_cover_the_window_without_gap_or_overlap() -> None:
    parts = list(PointsQuery.split(**FIELDS, start=7, end=15_000_000))
    assert (parts[0].start, parts[-1].end) == (7, 15_000_000)
    assert [late.start for late in parts[1:]] == [early.end for early in parts[:-1]]
    assert [part.start for part in parts] == [7, 6_000_007, 12_000_007]


def test_parts_keep_every_other_field() -> None:
    fields = FIELDS | {
        "exchange": ["X", "Y"],
        "group_by": "sum",
        "gapfill": True,
        "side": "BUY",
        "category": "SPOT",
    }
    whole = PointsQuery(**fields, start=0, end=60)
    for part in PointsQuery.split(**fields, start=0, end=12_000_000):
        assert {name: value for name, value in part if name not in {"start", "end"}} == {
            name: value for name, value in whole if name not in {"start", "end"}
        }


def test_parts_keep_what_an_iterator_held() -> None:
    fields = FIELDS | {"exchange": iter(["X", "Y"]), "category": iter(["SPOT"]), "event": iter(["slug"])}
    parts = list(PointsQuery.split(**fields, start=0, end=12_000_000))
    assert [(part.exchange, part.category, part.event) for part in parts] == [
        (("X", "Y"), ("SPOT",), ("slug",))
    ] * 2


def test_times_as_people_write_them() -> None:
    parts = list(
        PointsQuery.split(**FIELDS | {"interval": "1h"}, start="2000-01-01", end="2012-01-01T00:00Z")
    )
    assert [part.start for part in parts] == [946_684_800, 1_306_684_800]
    assert parts[-1].end == 1_325_376_000


def test_a_mistake_is_told_before_the_first_part_is_taken() -> None:
    with pytest.raises(QueryError, match="interval"):
        PointsQuery.split(**FIELDS | {"interval": "2m"}, start=0, end=60)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"interval": "2m"}, "interval"),
        ({"coin": ()}, "raw_symbol"),
        ({"end": 0}, "end"),
        ({"start": "x"}, "start"),
        ({"gapfil": True}, "gapfil"),
    ],
)
def test_mistakes_are_those_of_a_query(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(QueryError) as caught:
        list(PointsQuery.split(**{**FIELDS, "start": 0, "end": 60_000_000, **changes}))
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("points", "expected"), [(250_000, 250), (250_001, 251), (199_999, 200), (100_500, 101)]
)
def test_parts_weigh_what_the_whole_would(points: int, expected: int) -> None:
    assert sum(map(weight, PointsQuery.split(**FIELDS, start=30, end=30 + 60 * points))) == expected


def test_cuts_lie_on_whole_thousands_from_the_start() -> None:
    parts = list(PointsQuery.split(**FIELDS | {"type": "BLOCK_BOOK_SNAPSHOT_AGG"}, start=59, end=1_000_000))
    assert [(late.start - early.start) % 60_000 for early, late in pairwise(parts)] == [0, 0, 0, 0]
