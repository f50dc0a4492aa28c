"""Categories as text, and back."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidytape.frames._table import OpenTable


def test_words_are_text_inside_and_sorted_as_text() -> None:
    frame = pd.DataFrame({"coin": pd.Categorical(["ETH", None, "BTC"], ["ETH", "BTC", "X"], ordered=True)})
    table = OpenTable.of(frame)
    assert table.rows.collect_schema()["coin"] == nw.String
    assert table.rows.collect()["coin"].is_null().to_list() == [False, True, False]
    closed = table.closed(table.rows.filter(~nw.col("coin").is_null()), sort=["coin"])
    assert closed["coin"].tolist() == ["BTC", "ETH"]
    assert closed["coin"].dtype == frame["coin"].dtype


@pytest.mark.parametrize(
    "coded", [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int64(), pa.large_string())]
)
def test_a_dictionary_of_arrow_keeps_its_type(coded: pa.DataType) -> None:
    frame = pa.table({"coin": pa.array(["ETH", None, "BTC"]).cast(coded)})
    table = OpenTable.of(frame)
    assert table.closed(table.rows).equals(frame)
    on_arrow = frame.to_pandas(types_mapper=pd.ArrowDtype)
    of_pandas = OpenTable.of(on_arrow)
    pd.testing.assert_frame_equal(of_pandas.closed(of_pandas.rows), on_arrow)


def test_categories_that_are_no_words_stay_apart() -> None:
    frame = pd.DataFrame({"leg": pd.Categorical([2, None, 1])})
    table = OpenTable.of(frame)
    pd.testing.assert_frame_equal(table.closed(table.rows), frame)


def test_words_of_a_column_that_is_new() -> None:
    frame = pl.DataFrame({"coin": ["ETH", "BTC"]}, schema={"coin": pl.Enum(["ETH", "BTC"])})
    table = OpenTable.of(frame)
    rows = table.rows.with_columns(nw.col("coin").alias("other"), coin=nw.lit("SOL"))
    closed = table.with_text_columns({"other": "coin", "coin": None}).closed(rows)
    assert closed.schema == {"coin": pl.Categorical(), "other": frame.schema["coin"]}
    assert closed["coin"].to_list() == ["SOL", "SOL"]


def test_a_word_that_pandas_does_not_know_is_not_lost() -> None:
    frame = pd.DataFrame({"rule": pd.Categorical(["interval"])})
    table = OpenTable.of(frame)
    closed = table.closed(table.rows.with_columns(rule=nw.lit("period")))
    assert closed["rule"].tolist() == ["period"]
