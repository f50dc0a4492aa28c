"""Which requests cover a window: all of it, nothing twice that costs more, and never more weight than need be."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import each_row
from tidytape.budget import weight
from tidytape.catalogue import DATA_TYPES
from tidytape.client._window import Window, covering
from tidytape.errors import BudgetError, QueryError
from tidytape.query import PointsQuery
from tidytape.times import union, without

STEP = 60
THOUSAND = 1000 * STEP


def window(kind: str = "TRADE_AGG", *, points: int, **fields: Any) -> Window:
    given_ = {"exchange": "X", "coin": "BTC", "interval": "1m"} | fields
    query = PointsQuery(type=kind, start=0, end=STEP, **given_)
    return Window(query, 0, points * STEP)


def least(total: int, weights: list[int]) -> int:
    """The least weight of so many thousands, tried out in full."""

    @cache
    def best(left: int) -> int:
        return min(
            (weights[part - 1] + best(left - part) for part in range(1, min(left, len(weights)) + 1)),
            default=0,
        )

    return best(total)


@each_row("kind", [name for name in DATA_TYPES if DATA_TYPES[name].group_by])
@each_row("venues", [1, 2, 3, 4])
@each_row("points", [1, 999, 1000, 1001, 7_500, 23_000])
def test_the_weight_is_the_least_there_is(kind: str, venues: int, points: int) -> None:
    group = DATA_TYPES[kind].group_by
    asked = window(kind, points=points, exchange=list("ABCD")[:venues], group_by=str(group))
    requests = covering(asked, [(0, points * STEP)])
    most = DATA_TYPES[kind].max_points // 1000
    weights = [weight(asked.request(0, part * THOUSAND)) for part in range(1, most + 1)]
    assert sum(map(weight, requests)) == least(-(-points // 1000), weights)
    assert [one.start for one in requests[1:]] == [one.end for one in requests[:-1]]
    assert (requests[0].start, requests[-1].end) == (0, points * STEP)
    assert all(one.points <= DATA_TYPES[kind].max_points for one in requests)


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 4_000), min_size=1, max_size=6),
    st.lists(st.integers(1, 2_500), min_size=6, max_size=6),
)
def test_what_is_missing_is_joined_only_where_that_costs_no_more(holes: list[int], gaps: list[int]) -> None:
    missing, at = [], 0
    for hole, gap in zip(holes, gaps, strict=False):
        missing.append((at, at + hole * STEP))
        at += (hole + gap) * STEP
    asked = window(points=at // STEP)
    requests = covering(asked, missing)
    covered = union((one.start, one.end) for one in requests)
    for span in missing:
        assert without(span, covered) == []

    def cost(first: int, last: int) -> int:
        return sum(map(weight, covering(asked, [(missing[first][0], missing[last][1])])))

    count = len(missing)
    tried = []
    for size in range(count):
        for cuts in combinations(range(1, count), size):
            edges = [0, *cuts, count]
            tried.append(sum(cost(a, b - 1) for a, b in pairwise(edges)))
    assert min(tried) <= sum(map(weight, requests)) <= min(tried) + count - 1


def test_no_request_weighs_more_than_the_bucket_holds() -> None:
    asked = window("BLOCK_BOOK_SNAPSHOT_AGG", points=9_000, max_depth=9_000)
    assert {weight(one) for one in covering(asked, [asked.span], burst=40)} == {28, 14}
    with pytest.raises(BudgetError, match="a thousand points of BLOCK_BOOK_SNAPSHOT_AGG weigh 14"):
        covering(asked, [asked.span], burst=13)


def test_requests_are_put_together_to_the_window_they_cover() -> None:
    queries = PointsQuery.split(
        type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=30, end=250_000 * STEP + 90
    )
    asked = Window.of(queries[::-1])
    assert (asked.start, asked.end) == (30, 250_000 * STEP + 90)
    assert asked.span == (60, 250_000 * STEP + 120)
    other = queries[0].model_copy(update={"coin": ("ETH",)})
    for wrong in ([], [queries[0], queries[2]], [queries[0], other], "TRADE_AGG"):
        with pytest.raises(QueryError, match="query: "):
            Window.of(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "now", "closed"),
    [
        ({"interval": "1m"}, 119.9, 60),
        ({"interval": "1m"}, 120, 120),
        ({"interval": "1h"}, 7_200, 7_200),
        ({"interval": "1h"}, 7_199, 3_600),
        ({"interval": "1m", "tpo_session": "daily", "kind": "TPO_AGG"}, 86_400 * 2, 86_400 + 60),
    ],
)
def test_a_point_is_closed_when_its_time_is_over(fields: dict[str, Any], now: float, closed: int) -> None:
    assert window(points=10, **fields).closed(now) == closed


def test_many_small_holes_are_joined_as_few_are() -> None:
    asked = window(points=8_000)
    holes = [(at * 120, at * 120 + 60) for at in range(4_000)]
    (request,) = covering(asked, holes)
    assert (request.start, request.end) == (0, holes[-1][1])
    apart = [(at * 60_000 * 1_000, at * 60_000 * 1_000 + 60) for at in range(300)]
    assert [(one.start, one.end) for one in covering(asked, apart)] == apart
