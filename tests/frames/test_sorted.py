"""A frame in memory is sorted only if it must be, and then as polars sorts it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tidytape.frames._sorted import in_order

words = st.none() | st.sampled_from(["B", "A", ""])
numbers = st.none() | st.sampled_from([0.0, -0.0, 1.0, float("inf"), float("nan")])
rows = st.lists(st.tuples(words, numbers, st.none() | st.integers(0, 2)), max_size=12)


@pytest.mark.slow
@given(
    rows,
    st.permutations(["word", "number", "count"]),
    st.integers(1, 3),
    st.sampled_from([pl.String, pl.Categorical]),
)
def test_order_is_that_of_polars(rows: list[Any], names: list[str], count: int, dtype: Any):
    schema = {"word": pl.String, "number": pl.Float64, "count": pl.Int64}
    frame = pl.DataFrame(rows, schema, orient="row").cast({"word": dtype})
    columns = names[:count]
    expected = frame.sort(columns)
    assert_frame_equal(in_order(frame, columns).select(columns), expected.select(columns))
    assert in_order(expected, columns).equals(expected)


@pytest.mark.parametrize("columns", [["time"], ["word", "time"], ["time", "number"]])
def test_a_sorted_frame_is_not_copied(columns: list[str]):
    frame = pl.DataFrame({"word": [None] * 3 + ["A"] * 3, "time": [None, 1, 1, 1, 2, 3], "number": [1.0] * 6})
    assert in_order(frame, columns) is frame
    assert in_order(frame.reverse(), columns) is not frame
