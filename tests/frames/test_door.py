"""The one door: what a frame of pandas or pyarrow keeps, line by line of the page that says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dateutil.tz
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidytape.analytics import options, pit
from tidytape.errors import QueryError
from tidytape.frames._door import Door
from tidytape.frames._table import OpenTable

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pandas.md"
INSTANTS = pd.to_datetime([3, None, 1], unit="s", utc=True)


def through(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the frame in another order, so that no column is merely the caller's."""
    door = Door.of(frame)
    return door.restored(door.frame.reverse())


def keeps(values: Any) -> None:
    """A column of these three values comes back as it was, its rows untouched, turned around, and with a null more."""
    frame = pd.DataFrame({"x": values}, index=[5, 5, 7])
    door = Door.of(frame)
    pd.testing.assert_frame_equal(door.restored(door.frame, like_rows=True), frame)
    pd.testing.assert_frame_equal(through(frame), frame.iloc[::-1].reset_index(drop=True))
    first = door.restored(door.frame.with_columns(pl.when(pl.int_range(3) == 0).then("x")))["x"]
    assert first.dtype == frame["x"].dtype
    assert first.isna().tolist() == [False, True, True]


def objects(values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype="object", index=[5, 5, 7])


def index() -> None:
    frame = pd.DataFrame({"x": [3.0, 1.0]}, index=pd.Index([7, 7], name="x"))
    door = Door.of(frame)
    assert door.restored(door.frame.with_columns(y=1.0), like_rows=True).index.equals(frame.index)
    assert door.restored(door.frame).index.equals(pd.RangeIndex(2))


def multi_index() -> None:
    levels = pd.MultiIndex.from_tuples([("a", 1), ("a", 1)], names=["x", None])
    frame = pd.DataFrame({"x": [3.0, 1.0]}, index=levels)
    door = Door.of(frame)
    pd.testing.assert_frame_equal(door.restored(door.frame, like_rows=True), frame)
    columns = frame.set_axis(pd.MultiIndex.from_tuples([("x", "close")]), axis=1)
    with pytest.raises(QueryError, match="a text as its name"):
        OpenTable.of(columns)


def column_order() -> None:
    frame = pd.DataFrame({"b": [1], "a": [2]})
    door = Door.of(frame)
    assert list(door.restored(door.frame)) == ["b", "a"]
    assert list(door.restored(door.frame.select("a", "b"), like_rows=True)) == ["a", "b"]


def untouched_columns() -> None:
    own = {"x": pd.array([1.5, None], "Float64"), "word": pd.Series(["a", np.nan], dtype="object")}
    frame = pd.DataFrame(own, index=[7, 9])
    door = Door.of(frame)
    kept = door.restored(door.frame.with_columns(y=pl.col("x") + 1), like_rows=True)
    pd.testing.assert_frame_equal(kept[["x", "word"]], frame)
    kept.loc[7, "x"] = 2.5
    assert frame.loc[7, "x"] == 1.5, "a copy"


def nan() -> None:
    for values in (np.array([1.0, np.nan]), pd.array([1.0, np.nan], pd.ArrowDtype(pa.float64()))):
        frame = pd.DataFrame({"x": values})
        assert Door.of(frame).frame["x"].to_list() == [1.0, None]
        assert through(frame)["x"].isna().tolist() == [True, False]
    assert through(pd.DataFrame({"x": [np.nan]}))["x"].dtype == "float64"
    times = pd.DataFrame({"timestamp": [0.0, np.nan]})
    table = OpenTable.of(times, times=["timestamp"])
    assert table.rows.collect()["timestamp"].to_list() == [0, None]
    assert str(table.closed(table.rows)["timestamp"].dtype) == "Int64"
    with pytest.raises(QueryError, match="Float64"):
        OpenTable.of(times + 0.5, times=["timestamp"])
    arrow = pa.table({"x": [1.0, float("nan"), None]})
    assert Door.of(arrow).frame["x"].is_nan().to_list() == [False, True, None]


def nullable() -> None:
    keeps(pd.array([1, None, 3], "Int64"))
    keeps(pd.array([1, None, 3], "UInt8"))
    keeps(pd.array([1.5, None, 3], "Float64"))
    keeps(pd.array([True, None, False], "boolean"))
    door = Door.of(pd.DataFrame({"x": pd.array([1, None], "Int64")}))
    assert door.restored(door.frame.cast(pl.Float64))["x"].dtype == "float64"


def arrow_backed() -> None:
    keeps(pd.array([1, None, 3], pd.ArrowDtype(pa.int32())))
    keeps(pd.array(["a", None, "b"], pd.ArrowDtype(pa.string())))
    keeps(pd.array(["a", None, "b"], pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))))
    keeps(pd.array([1, None, 3], pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int64()))))
    keeps(pd.array([1, None, 3], pd.ArrowDtype(pa.timestamp("s", "+05:30"))))
    keeps(pd.array([1, None, 3], pd.ArrowDtype(pa.decimal128(10, 2))))


def text() -> None:
    keeps(["a", None, "b"])
    keeps(pd.array(["a", None, "b"], "string"))
    keeps(objects(["a", None, "b"]))
    assert Door.of(pd.DataFrame({"x": objects(["a", None, "b"])})).frame.schema == {"x": pl.String}


def categories() -> None:
    keeps(pd.Categorical(["b", None, "a"], ["b", "a", "none"], ordered=True))
    keeps(pd.Categorical([2, None, 1]))
    keeps(pd.Categorical([1.5, None, 1]))
    frame = pd.DataFrame({"x": pd.Categorical(["b", "a", None], ["b", "a"], ordered=True)})
    door = Door.of(frame)
    assert door.restored(door.frame.sort("x", nulls_last=True))["x"].to_list()[:2] == ["a", "b"]
    other = door.restored(door.frame.with_columns(pl.col("x").fill_null("new")))["x"]
    assert other.to_list() == ["b", "a", "new"]
    assert sorted(other.cat.categories) == ["a", "b", "new"]
    enums = Door.of(frame, as_text=False).frame
    assert enums.schema == {"x": pl.Enum(["b", "a"])}
    assert enums["x"].to_list() == ["b", "a", None]
    empty = pd.DataFrame({"x": pd.Categorical([])})
    assert Door.of(empty).frame.schema == {"x": pl.String}


def zones() -> None:
    offset = timezone(timedelta(hours=5, minutes=30))
    for zone in ("UTC", "America/New_York", offset, dateutil.tz.gettz("Europe/Berlin")):
        for unit in ("s", "ms", "us", "ns"):
            times = INSTANTS.tz_convert(zone).as_unit(unit)
            keeps(times)
            inside = Door.of(pd.DataFrame({"x": times})).frame["x"]
            assert inside.dt.epoch("s").to_list() == [3, None, 1]
    frame = pd.DataFrame({"timestamp": INSTANTS.tz_convert(offset)})
    table = OpenTable.of(frame, times=["timestamp"])
    later = table.closed(table.rows.with_columns(later="timestamp"), times={"later": "timestamp"})["later"]
    assert later.dtype == frame["timestamp"].dtype
    arrow = pa.table({"x": pa.array([1, None], pa.timestamp("us", "+05:30"))})
    assert Door.of(arrow).restored(Door.of(arrow).frame).equals(arrow)


def new_columns() -> None:
    door = Door.of(pd.DataFrame({"x": [1, 2]}))
    made = {
        "f": [0.5, None],
        "i": [1, 2],
        "b": [True, False],
        "s": ["a", None],
        "I": [1, None],
        "B": [True, None],
    }
    kinds = [str(dtype) for dtype in door.restored(door.frame.hstack(pl.DataFrame(made))).dtypes[1:]]
    word = "object" if pd.__version__.startswith("2.") else "str"
    assert kinds == ["float64", "int64", "bool", word, "Int64", "boolean"]
    assert str(door.restored(door.frame.with_columns(x=pl.lit(None, pl.Int64)))["x"].dtype) == "Int64"


def other_objects() -> None:
    keeps(objects([True, None, False]))
    keeps(objects([2**62 + 1, None, 1]))
    keeps(objects([[1, 2], None, [3]]))
    keeps(objects([date(2026, 3, 27), None, date(1969, 12, 31)]))
    assert Door.of(pd.DataFrame({"x": objects([[1, 2], None, [3]])})).frame.schema == {"x": pl.List(pl.Int64)}


def outside() -> None:
    kinds: list[Any] = [
        objects([1, None, "a"]),
        objects([{"a": 1}, None, {"b": 2}]),
        objects([2**70, None, 1]),
        pd.period_range("2024", periods=3),
        pd.arrays.SparseArray([1.0, 0.0, 2.0]),
        pd.interval_range(0, 3),
        np.array([1j, 2j, 3j]),
        pd.Categorical(pd.interval_range(0, 3)),
    ]
    for values in kinds:
        frame = pd.DataFrame({"x": values, "y": [1.0, 2.0, 3.0]})
        pd.testing.assert_frame_equal(through(frame), frame.iloc[::-1].reset_index(drop=True))
        table = OpenTable.of(frame)
        pd.testing.assert_frame_equal(
            table.closed(table.rows.filter(nw.col("y") > 1)), frame[1:].reset_index(drop=True)
        )
        for naming in ({"needed": ["x"]}, {"times": ["x"]}, {"numbers": ["x"]}):
            with pytest.raises(QueryError, match=r"x: .*expected numbers, texts, flags or times in column x"):
                OpenTable.of(frame, **naming)  # type: ignore[arg-type]
        with pytest.raises(QueryError, match="by: got 'x: "):
            table.series_columns("x")
        with pytest.raises(QueryError, match="exchange: "):
            OpenTable.of(frame.rename(columns={"x": "exchange"}))


ROWS: dict[str, Callable[[], None]] = {
    "index": index,
    "MultiIndex": multi_index,
    "column order": column_order,
    "untouched columns": untouched_columns,
    "NaN": nan,
    "nullable dtypes": nullable,
    "arrow-backed dtypes": arrow_backed,
    "text": text,
    "categories": categories,
    "zones": zones,
    "new columns": new_columns,
    "other objects": other_objects,
    "what polars cannot hold": outside,
}


@pytest.mark.parametrize("row", ROWS)
def test_what_the_page_says_of_pandas_is_so(row: str) -> None:
    ROWS[row]()


def test_each_line_of_the_page_has_a_test() -> None:
    lines = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines[2:] == list(ROWS)


def test_what_polars_cannot_hold_comes_back_where_functions_keep_rows() -> None:
    periods = pd.period_range("2024", periods=3)
    frame = pd.DataFrame(
        {"timestamp": pd.to_datetime([2, 0, 1], utc=True), "skew": [4.0, 1.0, 2.0], "note": periods},
        index=[3, 5, 9],
    )
    scored = options.z_score(frame, value="skew", window=2)
    pd.testing.assert_frame_equal(scored[list(frame)], frame)


def test_what_polars_cannot_hold_is_joined_from_both_frames() -> None:
    day = [datetime(2024, 8, day, tzinfo=UTC) for day in (8, 9)]
    decisions = pd.DataFrame({"timestamp": day, "mine": objects([1, "a", None])[:2].to_numpy()})
    facts = pd.DataFrame(
        {"timestamp": day[:1], "known_at": day[1:], "theirs": pd.period_range("2024", periods=1)}
    )
    joined = pit.asof_join(decisions, facts)
    assert joined["mine"].tolist() == [1, "a"]
    assert joined["theirs"].isna().tolist() == [True, False]
    assert joined["theirs"].dtype == facts["theirs"].dtype


def test_a_zone_that_polars_does_not_know_is_that_of_each_frame() -> None:
    zones = [dateutil.tz.gettz("Europe/Berlin"), timezone(timedelta(hours=5, minutes=30))]
    decisions, facts = (pd.DataFrame({"timestamp": INSTANTS[[0, 2]].tz_convert(zone)}) for zone in zones)
    facts = facts.assign(known_at=facts["timestamp"])
    joined = pit.asof_join(decisions, facts)
    assert joined["timestamp"].dtype == decisions["timestamp"].dtype
    assert joined["timestamp_right"].dtype == facts["timestamp"].dtype


def test_nanoseconds_that_became_floats_are_refused() -> None:
    """A null among int64 makes floats of them in pandas; nobody knows any more which nanosecond was meant."""
    frame = pl.DataFrame({"timestamp": [1_772_697_600_000_000_123, None]}).to_pandas()
    assert frame["timestamp"].dtype == "float64"
    with pytest.raises(QueryError, match="every 256th nanosecond"):
        OpenTable.of(frame, times=["timestamp"])
    zero = pl.DataFrame({"timestamp": [0, None]}).to_pandas()
    assert OpenTable.of(zero, times=["timestamp"]).rows.collect()["timestamp"].to_list() == [0, None]
