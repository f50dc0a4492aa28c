"""Ranges of whole numbers, a row for each."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import polars as pl
import pytest

from engines import Engine
from tidytape.frames._rows import MOST_NUMBERS, spread
from tidytape.frames._table import OpenTable

RANGES = pl.DataFrame(
    {"low": [3, -2, 7, 5, 0], "high": [5, 1, 7, 4, 1_100], "of": ["a", "b", None, "none", "long"]}
)


@pytest.mark.parametrize("name", ["polars", "polars lazy", "pandas", "duckdb"])
def test_each_number_has_a_row(name):
    engine = Engine(name)
    frame = OpenTable.of(engine.frame(RANGES)).rows
    numbers = spread(frame, "low", "high", name="number").sort("of", "number", nulls_last=True)
    native = numbers.collect("polars").to_native()
    assert native.columns == ["of", "number"]
    expected = [("a", n) for n in (3, 4, 5)] + [("b", n) for n in (-2, -1, 0, 1)]
    assert native.rows() == expected + [("long", n) for n in range(1_101)] + [(None, 7)]


def test_a_range_that_is_too_long_fails():
    frame = nw.from_native(pl.LazyFrame({"low": [0], "high": [MOST_NUMBERS]}))
    with pytest.raises(Exception, match="conversion from `i64` to `i32` failed"):
        spread(frame, "low", "high", name="number").collect()


def test_more_digits_reach_further():
    frame = nw.from_native(pl.LazyFrame({"low": [0], "high": [MOST_NUMBERS]}))
    assert (
        spread(frame, "low", "high", name="number", digits=6).select(nw.len()).collect().item()
        == MOST_NUMBERS + 1
    )
