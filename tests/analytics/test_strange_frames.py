"""Frames as people have them: every function answers as of a plain one, or refuses by a typed error."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

from analytics.matrix import Case, some_cases
from analytics.overriding import FIRST, answer, parameters
from analytics.test_matrix import assert_same, assert_same_kind
from engines import Engine
from tables import each_row
from tidytape.errors import MissingColumnError, QueryError

MATRIX = [pytest.param(case, id=f"{namespace}.{case}") for namespace, case in some_cases()]
IN_PANDAS = [one for one in MATRIX if "pandas" not in one.values[0].gaps]
IN_DUCKDB = [one for one in MATRIX if "duckdb" not in one.values[0].gaps]


def indexed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an index of columns' names and one label, which nothing finds a row by."""
    levels = [np.zeros(len(frame), int), ["A"] * len(frame)]
    return frame.set_axis(pd.MultiIndex.from_arrays(levels, names=["timestamp", "price"]))


@pytest.mark.long
@pytest.mark.parametrize("case", IN_PANDAS)
def test_the_index_of_pandas_has_no_part_in_it(case: Case) -> None:
    plain = [frame.to_pandas() for frame in case.frames]
    given = [indexed(frame) for frame in plain]
    wanted, got = case.call(*plain), case.call(*given)
    if case.own_kind:
        assert_same_kind(got, wanted)
        return
    if not got.index.equals(wanted.index):  # where the rows are those of the frame
        assert got.index.equals(given[0].index)
        assert got.index.names == given[0].index.names
    pd.testing.assert_frame_equal(got.reset_index(drop=True), wanted)


@each_row("case", MATRIX)
def test_names_of_working_columns_and_patterns_are_refused(case: Case) -> None:
    for name, place in product(["__when", "^.*$", "*"], range(len(case.frames))):
        given = [
            frame.with_columns(pl.lit(1).alias(name)) if number == place else frame
            for number, frame in enumerate(case.frames)
        ]
        with pytest.raises(QueryError, match="rename or drop") as caught:
            case.call(*given)
        assert repr(name) in str(caught.value)


@pytest.mark.slow
@each_row("case", IN_DUCKDB)
def test_names_that_duckdb_may_take_for_others_are_refused(case: Case) -> None:
    for place in range(len(case.frames)):
        given = [
            Engine("duckdb").frame(frame.with_columns(Total=pl.lit(9.0)) if number == place else frame)
            for number, frame in enumerate(case.frames)
        ]
        with pytest.raises(QueryError, match=r"a column 'Total'.*lower case.*rename it"):
            case.call(*given)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FIRST if "by" in parameters(name)])
def test_a_dotted_name_tells_series_apart_or_is_refused_in_duckdb(name: str) -> None:
    _, case = FIRST[name]
    if "duckdb" in case.gaps or case.own_kind:
        pytest.skip("it takes no frame of DuckDB")
    given = [Engine("duckdb").frame(frame.with_columns(pl.lit("A").alias("a.b"))) for frame in case.frames]
    with suppress(QueryError, MissingColumnError):  # of a profile or a book without that column
        Engine("duckdb").polars(answer(name, given, by=["a.b"]))


@pytest.mark.long
@pytest.mark.parametrize("case", IN_PANDAS)
def test_a_row_without_a_time_is_in_pandas_what_it_is_in_polars(case: Case) -> None:
    if case.own_kind:
        pytest.skip("it answers with no frame")
    is_last = pl.int_range(pl.len()) == pl.len() - 1
    given = [
        frame.with_columns(timestamp=pl.when(~is_last).then("timestamp"))
        if "timestamp" in frame.columns and len(frame) > 1
        else frame
        for frame in case.frames
    ]
    got, wanted = pl.from_pandas(case.call(*[frame.to_pandas() for frame in given])), case.call(*given)
    assert_same(got.sort(case.key, nulls_last=True), wanted.sort(case.key, nulls_last=True))
