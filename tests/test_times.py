"""Units, names of intervals and spans."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.times import DAY, HOUR, MONDAY, SECOND, WEEK, YEAR, intersected, interval_of, union, without

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8)


@given(spans, st.tuples(st.integers(0, 50), st.integers(0, 50)))
def test_spans_are_sets_of_seconds(many: list[tuple[int, int]], one: tuple[int, int]) -> None:
    def seconds(of: list[tuple[int, int]]) -> set[int]:
        return {second for first, last in of for second in range(first, last)}

    assert seconds(union(many)) == seconds(many)
    assert seconds(without(one, many)) == seconds([one]) - seconds(many)
    assert seconds(intersected(one, many)) == seconds([one]) & seconds(many)


def test_units_agree_with_the_intervals_of_the_catalogue() -> None:
    lengths = {Interval.HOUR: HOUR, Interval.DAY: DAY, Interval.WEEK: WEEK}
    assert {interval: interval.seconds * SECOND for interval in lengths} == lengths
    assert YEAR == 365 * DAY
    assert (MONDAY // DAY + 3) % 7 == 0  # the epoch began on a Thursday


@pytest.mark.parametrize("name", ["HOUR", "1h", timedelta(hours=1)])
def test_an_interval_has_a_name_an_alias_and_a_length(name: str | timedelta) -> None:
    assert interval_of(name) is Interval.HOUR


def test_an_interval_that_is_not_there_is_refused_with_a_hint() -> None:
    with pytest.raises(QueryError, match="did you mean '15m'"):
        interval_of("15min")
