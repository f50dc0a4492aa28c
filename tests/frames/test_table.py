"""A frame opened and closed: times of every engine, and what is refused at the door."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import dateutil.tz
import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from engines import Engine
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames._door import wrapped
from tidytape.frames._table import OpenTable

INSTANTS = [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), None, datetime(2026, 3, 5, 8, 0, 0, 1, UTC)]
FRAME = pl.DataFrame(
    {"row": [0, 1, 2], "timestamp": INSTANTS}, schema_overrides={"timestamp": pl.Datetime("us", "UTC")}
)


def nanoseconds(instant: datetime | None) -> int | None:
    if instant is None:
        return None
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1_000


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_are_whole_nanoseconds_inside_and_what_they_were_outside(engine: Engine, unit: str) -> None:
    native = engine.frame(FRAME.with_columns(pl.col("timestamp").dt.cast_time_unit(unit)))
    table = OpenTable.of(native, times=["timestamp"])
    inside = nw.from_native(table.rows.sort("row").collect("polars").to_native())
    assert inside["timestamp"].to_list() == [nanoseconds(instant) for instant in INSTANTS]
    later = table.rows.with_columns(later=nw.col("timestamp") + 3_600_000_000_000)
    closed = engine.polars(table.closed(later, sort=["row"], times={"later": "timestamp"})).sort("row")
    assert closed.select(
        pl.col("timestamp", "later").dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    ).rows() == [(instant, instant and instant + timedelta(hours=1)) for instant in INSTANTS]
    if engine.name != "spark":  # which writes what it likes into Parquet
        assert closed["timestamp"].dtype.time_unit == unit


def test_nanoseconds_are_not_lost(engine: Engine) -> None:
    if engine.name == "spark":
        pytest.skip("Spark's times have microseconds")
    frame = pl.DataFrame({"timestamp": [1_772_697_600_000_000_123]}).with_columns(
        pl.col("timestamp").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    )
    table = OpenTable.of(engine.frame(frame), times=["timestamp"])
    assert table.rows.collect("polars")["timestamp"].to_list() == [1_772_697_600_000_000_123]
    closed = engine.polars(table.closed(table.rows))
    assert closed["timestamp"].dt.epoch("ns").to_list() == [1_772_697_600_000_000_123]


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_text_is_no_time_and_the_error_says_how_it_becomes_one(kind: str) -> None:
    frame: Any = pl.DataFrame({"timestamp": ["2024-08-08 12:00:00"]})
    frame = frame.to_pandas() if kind == "pandas" else frame
    with pytest.raises(QueryError, match=r"pd\.to_datetime\(…, utc=True\)"):
        OpenTable.of(frame, times=["timestamp"])


FAR = [
    datetime(9999, 12, 31, tzinfo=UTC),
    datetime(1600, 1, 1, tzinfo=UTC),
    datetime(2262, 4, 12, tzinfo=UTC),
]
NEAR = [
    datetime(1677, 9, 22, tzinfo=UTC),
    datetime(2262, 4, 11, tzinfo=UTC),
    datetime(2026, 3, 5, tzinfo=UTC),
]


@pytest.mark.parametrize("unit", ["us", "ms"])
@pytest.mark.parametrize("arrow", [False, True])
def test_times_out_of_reach_are_not_known(engine: Engine, unit: str, *, arrow: bool) -> None:
    instants = [*FAR, None, *NEAR]
    frame = pl.DataFrame(
        {"row": range(7), "timestamp": instants}, schema_overrides={"timestamp": pl.Datetime("us", "UTC")}
    ).with_columns(pl.col("timestamp").dt.cast_time_unit(unit))
    if arrow and engine.name != "pandas":
        pytest.skip("pandas alone has two kinds of times")
    native = frame.to_pandas(use_pyarrow_extension_array=True) if arrow else engine.frame(frame)
    table = OpenTable.of(native, times=["timestamp"])
    inside = nw.from_native(table.rows.sort("row").collect("polars").to_native())
    assert inside["timestamp"].to_list() == [*[None] * 4, *map(nanoseconds, NEAR)]
    # Without a null among them, too.
    table = OpenTable.of(engine.frame(frame.head(3)), times=["timestamp"])
    assert table.rows.collect("polars")["timestamp"].to_list() == [None] * 3


def test_infinite_times_of_duckdb_are_not_known() -> None:
    frame = duckdb.sql("SELECT unnest(['infinity', '-infinity', 'epoch'])::TIMESTAMPTZ AS timestamp")
    table = OpenTable.of(frame, times=["timestamp"])
    assert table.rows.collect("polars")["timestamp"].to_list() == [None, None, 0]


def test_whole_nanoseconds_stay_what_they_are(engine: Engine) -> None:
    table = OpenTable.of(engine.frame(pl.DataFrame({"timestamp": [10**18]})), times=["timestamp"])
    assert engine.polars(table.closed(table.rows))["timestamp"].to_list() == [10**18]


def test_the_zone_of_the_caller_is_kept() -> None:
    frame = FRAME.with_columns(pl.col("timestamp").dt.convert_time_zone("America/New_York"))
    table = OpenTable.of(frame, times=["timestamp"])
    assert table.closed(table.rows).equals(frame)


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin"])
def test_the_zone_of_pandas_is_kept(zone: str) -> None:
    frame = (
        FRAME.drop_nulls().to_pandas().assign(timestamp=lambda frame: frame["timestamp"].dt.tz_convert(zone))
    )
    table = OpenTable.of(frame, times=["timestamp"])
    assert table.rows.collect()["timestamp"].to_list() == [nanoseconds(t) for t in INSTANTS if t is not None]
    pd.testing.assert_frame_equal(table.closed(table.rows), frame)


def test_a_time_without_a_zone_is_refused(engine: Engine) -> None:
    if engine.name == "spark":
        pytest.skip("its reader of Parquet gives every time a zone")
    with pytest.raises(QueryError, match="replace_time_zone"):
        OpenTable.of(
            engine.frame(FRAME.with_columns(pl.col("timestamp").dt.replace_time_zone(None))),
            times=["timestamp"],
        )


def test_what_is_missing_or_of_another_kind_is_refused() -> None:
    with pytest.raises(MissingColumnError, match="volume"):
        OpenTable.of(FRAME, ["volume"])
    with pytest.raises(QueryError, match="numbers in column word"):
        OpenTable.of(pl.DataFrame({"word": ["a"]}), numbers=["word"])
    for name in ("__one", "^o.*$", "*"):
        with pytest.raises(QueryError, match=rf"a column '{re.escape(name)}'"):
            OpenTable.of(pl.DataFrame({name: [1]}))
    with pytest.raises(QueryError, match=r"a column 'Total'.*lower case"):
        OpenTable.of(duckdb.sql("SELECT 1 AS Total"))
    with pytest.raises(QueryError, match="without a dot"):
        OpenTable.of(duckdb.sql('SELECT 1 AS "a.b"')).series_columns("a.b")
    with pytest.raises(QueryError, match="a frame of polars"):
        OpenTable.of([1, 2])  # type: ignore[type-var]


def test_series_are_the_identity_columns_that_there_are() -> None:
    table = OpenTable.of(pl.DataFrame({"coin": ["BTC"], "x": [1], "exchange": ["A"]}))
    assert table.series_columns() == ["exchange", "coin"]
    assert table.series_columns(without=["coin"]) == ["exchange"]
    assert table.series_columns("x") == ["x"]
    with pytest.raises(QueryError, match="by"):
        table.series_columns(["x", "x"])
    with pytest.raises(MissingColumnError, match="y"):
        table.series_columns("y")


def test_names_with_a_meaning_elsewhere_are_names() -> None:
    frame = pl.DataFrame({"__index_level_0__": [1], "^GSPC": [2], "a.b": [3], "Total": [4]})
    table = OpenTable.of(frame)
    assert table.closed(table.rows).equals(frame)
    assert table.series_columns("a.b") == ["a.b"]


@pytest.mark.parametrize(
    "zone", [dateutil.tz.gettz("Europe/Berlin"), timezone(timedelta(hours=5, minutes=30)), "Etc/GMT+3"]
)
def test_zones_of_pandas_without_a_name_are_kept(zone: Any) -> None:
    frame = FRAME.to_pandas().assign(timestamp=lambda frame: frame["timestamp"].dt.tz_convert(zone))
    table = OpenTable.of(frame, times=["timestamp"])
    inside = table.rows.collect()["timestamp"].drop_nulls()
    assert inside.to_list() == [nanoseconds(instant) for instant in INSTANTS if instant is not None]
    pd.testing.assert_frame_equal(table.closed(table.rows), frame)
    later = table.closed(table.rows.with_columns(later=nw.col("timestamp")), times={"later": "timestamp"})
    assert later["later"].dt.tz == frame["timestamp"].dt.tz


def test_times_of_pandas_on_arrow() -> None:
    frame = FRAME.to_pandas(use_pyarrow_extension_array=True)
    table = OpenTable.of(frame, times=["timestamp"])
    assert pl.from_pandas(table.closed(table.rows)).equals(FRAME)


def test_pandas_keeps_its_index_where_rows_are_the_same() -> None:
    frame = pd.DataFrame({"x": np.array([3.0, 1.0])}, index=[7, 9])
    table = OpenTable.of(frame)
    assert list(table.closed(table.rows.with_columns(y=nw.col("x") + 1), like_rows=True).index) == [7, 9]
    assert list(table.closed(table.rows, sort=["x"]).index) == [0, 1]
    named = frame.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 1)], names=["x", None]))
    table = OpenTable.of(named)
    pd.testing.assert_frame_equal(table.closed(table.rows, like_rows=True), named)
    assert list(table.rows.sort("x").collect()["x"]) == [1.0, 3.0]


def test_what_sql_cannot_do_is_said(engine: Engine) -> None:
    table = OpenTable.of(engine.frame(pl.DataFrame({"x": [1.0]})))
    if engine.name in {"duckdb", "spark"}:
        with pytest.raises(QueryError, match="a fit is a loop: collect it first"):
            table.collected("a fit is a loop")
    else:
        assert engine.polars(table.closed(table.collected("a fit is a loop")))["x"].to_list() == [1.0]


def test_whole_numbers_that_become_null_stay_whole(engine: Engine) -> None:
    frame = pl.DataFrame({"row": [0, 1], "timestamp": [1_772_697_600_000_000_123, 1_772_697_600_000_000_124]})
    table = OpenTable.of(engine.frame(frame), times=["timestamp"])
    rows = table.rows.with_columns(later=nw.when(nw.col("row") == 1).then(nw.col("timestamp")))
    assert engine.polars(table.closed(rows)).sort("row")["later"].to_list() == [
        None,
        1_772_697_600_000_000_124,
    ]


def test_columns_that_have_no_name_of_their_own_are_refused() -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=["close", "close"])
    levels = frame.set_axis(pd.MultiIndex.from_tuples([("BTC", "close"), ("ETH", "close")]), axis=1)
    twice = pa.table([pa.array([1.0]), pa.array([2.0])], names=["close", "close"])
    for native in (frame, levels, frame.set_axis([0, 1], axis=1), twice, duckdb.sql("SELECT 1 AS x, 2 AS x")):
        with pytest.raises(QueryError, match=r"candles: got .*a text as its name.*; rename") as caught:
            OpenTable.of(native, parameter="candles")
        assert caught.value.hint
        with pytest.raises(QueryError, match="a text as its name"):
            wrapped(native)


def test_a_frame_in_memory_knows_which_columns_are_null_in_the_same_rows(engine: Engine) -> None:
    data = pl.DataFrame({"a": [1.0, None], "b": [None, 1.0], "c": [2.0, None], "d": [1.0, 1.0]})
    table = OpenTable.of(engine.frame(data))
    like_a = "a" if table.is_eager else "c"
    assert table.same_nulls(["a", "b", "c", "d"]) == {"a": "a", "b": "b", "c": like_a, "d": "d"}
