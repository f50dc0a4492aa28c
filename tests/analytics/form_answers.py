"""Frames of strangers on each engine, and how an answer compares with the right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pyarrow as pa
from polars.testing import assert_frame_equal

from analytics.forms import lengths
from engines import Engine
from tidytape.catalogue import Interval

__all__ = ["CANONICAL", "as_polars", "brought", "difference", "normal", "other_number", "stretched"]

CANONICAL: dict[str, dict[str, str]] = {
    "trade side": {"B": "BUY", "S": "SELL"},
    "book side": {"B": "BID", "A": "ASK", "BUY": "BID", "SELL": "ASK"},
    "option type": {"C": "CALL", "P": "PUT", "CE": "CALL", "PE": "PUT"},
}
_LENGTHS = {
    spelling: f"{seconds}s"
    for name, seconds in lengths().items()
    for spelling in (
        name.lower(),
        Interval(name).alias,
        f"{seconds // 60}min",
        Interval(name).alias.replace("m", "min"),
    )
}


def brought(frame: pl.DataFrame, engine: str, dtypes: Mapping[str, str] | None = None) -> Any:
    """Return a polars frame as one of an engine; whole numbers with null stay whole in pandas."""
    if engine != "pandas":
        return Engine(engine).frame(frame)
    whole = {name: "Int64" for name in frame.select(cs.integer()).columns if frame[name].null_count()}
    table = frame.to_pandas(integer_object_nulls=True)
    return table.astype(whole | dict(dtypes or {}))


def stretched(frames: Sequence[pl.DataFrame], pace: Fraction) -> list[pl.DataFrame]:
    """Return the frames with all times so many times as far from the day of the first."""
    if pace == 1:
        return list(frames)
    firsts = [
        frame.select(cs.datetime().min()).row(0) for frame in frames if frame.select(cs.datetime()).width
    ]
    day = min(time for row in firsts for time in row if time is not None).replace(hour=0, minute=0, second=0)
    start = int(day.timestamp() * 10**6)
    count = cs.datetime().dt.timestamp("us")
    moved = (count - start) * pace.numerator // pace.denominator + start
    return [frame.with_columns(moved.cast(pl.Datetime("us", "UTC"))) for frame in frames]


def as_polars(answered: Any) -> pl.DataFrame:
    """Return an answer of any engine or kind as a polars frame; arrays become one column of numbers."""
    if isinstance(answered, pl.DataFrame):
        return answered
    if isinstance(answered, pl.LazyFrame):
        return answered.collect()
    if isinstance(answered, pd.DataFrame):
        has_index = not isinstance(answered.index, pd.RangeIndex)
        table = answered.reset_index() if has_index else answered
        return pl.from_pandas(table.set_axis([str(name) for name in table.columns], axis=1))
    if isinstance(answered, pa.Table):
        return pl.DataFrame(answered)
    if isinstance(answered, duckdb.DuckDBPyRelation):
        return answered.pl()
    arrays = [np.ravel(np.asarray(array)) for array in vars(answered).values()]
    numbers = [array.astype("int64") if array.dtype.kind in "Mm" else array for array in arrays]
    floats = [array.astype(float) for array in numbers if array.dtype.kind in "iuf"]
    values = np.concatenate(floats)
    return pl.DataFrame({"place": np.arange(values.size), "drawn": values})


def normal(frame: pl.DataFrame, words: Mapping[str, Mapping[str, str]]) -> pl.DataFrame:
    """Return an answer with one way of saying each thing: words of a canon, times in microseconds, float64."""
    frame = frame.with_columns(
        (cs.categorical() | cs.by_dtype(pl.Enum)).cast(pl.String),
        cs.by_dtype(pl.Float32).cast(pl.String).cast(pl.Float64),
        cs.decimal().cast(pl.Float64),
        cs.duration().cast(pl.Duration("ns")).cast(pl.Int64),
        cs.integer().cast(pl.Int64),
        cs.by_dtype(pl.Null).cast(pl.Float64),
        cs.datetime().dt.cast_time_unit("us"),
    ).with_columns(cs.float().fill_nan(None))
    zoned = [name for name, dtype in frame.schema.items() if getattr(dtype, "time_zone", None)]
    frame = frame.with_columns(pl.col(zoned).dt.convert_time_zone("UTC"))
    for name, canon in words.items():
        if frame.schema.get(name) == pl.String:
            frame = frame.with_columns(pl.col(name).str.to_uppercase().replace(canon))
    intervals = cs.starts_with("interval") & cs.string()
    return frame.with_columns(intervals.str.to_lowercase().replace(_LENGTHS))


def _alike(got: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Return an answer with the times and numbers of another one said as it says them."""
    casts = []
    for name, actual in got.schema.items():
        dtype = right.schema.get(name, actual)
        if isinstance(dtype, pl.Datetime) and actual == pl.Int64:
            casts.append((pl.col(name) // 1000).cast(pl.Datetime("us")).dt.replace_time_zone(dtype.time_zone))
        elif {dtype, actual} == {pl.Float64(), pl.Int64()}:
            casts.append(pl.col(name).cast(dtype, strict=False))
    return got.with_columns(casts)


def _sorted(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    names = [name for name in key if name in frame.columns and not frame.schema[name].is_nested()]
    return frame.sort(names, nulls_last=True, maintain_order=True) if names else frame


def difference(got: pl.DataFrame, right: pl.DataFrame, key: Sequence[str]) -> str:
    """Return in which way an answer differs from the right one; an empty text if it does not."""
    if set(got.columns) != set(right.columns):
        return f"columns {sorted(set(got.columns) ^ set(right.columns))}"
    got, right = (_sorted(frame, key) for frame in (_alike(got, right).select(right.columns), right))
    empty = [name for name in right.columns if got[name].null_count() == len(got)]
    empty = [name for name in empty if right[name].null_count() == len(right)]
    try:
        assert_frame_equal(got.drop(empty), right.drop(empty), rel_tol=1e-9, abs_tol=1e-12)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def other_number(got: pl.DataFrame, right: pl.DataFrame, key: Sequence[str], fed: pl.Series) -> str:
    """Return where an answer says what neither the right answer nor the fed column says; empty text if nowhere."""
    got, fed = _alike(got, right), _alike(fed.to_frame(), right)[fed.name]
    names = [name for name in got.columns if name in right.columns and not right.schema[name].is_nested()]
    keys = [name for name in key if name in names and name != fed.name]
    rows = [_sorted(frame.select(names), keys) for frame in (got, right)]
    places = [frame.select(keys) for frame in rows]
    in_step = bool(keys) and places[0].equals(places[1]) and not places[0].is_duplicated().any()
    for name in names:
        answered, known = (frame[name] for frame in rows)
        if answered.dtype != known.dtype:
            if name == fed.name or not answered.drop_nulls().len():
                continue
            return f"{name} is {answered.dtype}, not {known.dtype}"
        if in_step and name != fed.name:
            wrong = [
                (left, other)
                for left, other in zip(answered, known, strict=True)
                if left is not None and not _equal(left, other)
            ]
        else:
            others = set(known.drop_nulls()) | (set(fed.drop_nulls()) if name == fed.name else set())
            wrong = [
                (left, "none of the right ones")
                for left in answered.drop_nulls().unique()
                if left not in others and not any(_equal(left, other) for other in others)
            ]
        if wrong:
            return f"{name}: {wrong[0][0]}, not {wrong[0][1]}"
    return ""


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return bool(np.isclose(left, right, rtol=1e-9, atol=1e-12))
    return bool(left == right)
