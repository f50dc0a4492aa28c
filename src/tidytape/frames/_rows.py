"""Columns that may be none, first, last and next rows of a series, and rows repeated for each of several numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import narwhals
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.frames._dialects import Frame, in_sql

_Frame = TypeVar("_Frame", bound=Frame)


def with_all(frame: _Frame, columns: Iterable[nw.Expr]) -> _Frame:
    """Add columns, of which there may be none; Spark Connect refuses ``with_columns`` of none."""
    columns = list(columns)
    return cast("_Frame", frame.with_columns(columns)) if columns else frame


# `first` and `last` of `narwhals.stable.v2` have no `order_by` yet; those of `narwhals` have, and take its expressions.
# Sorting the frame before costs more, and a lazy engine need not keep the order.


def first(frame: Frame, column: str, order: Sequence[str]) -> nw.Expr:
    """Return the first value of a column in each group, in the order of some columns, for an aggregation."""
    return _first_and_last(frame, column, order)[0]


def last(frame: Frame, column: str, order: Sequence[str]) -> nw.Expr:
    """Return the last value of a column in each group, in the order of some columns, for an aggregation."""
    return _first_and_last(frame, column, order)[1]


def _first_and_last(frame: Frame, column: str, order: Sequence[str]) -> tuple[nw.Expr, nw.Expr]:
    if frame.implementation.is_spark_like():
        # Spark's `first` takes no order, but its structs compare field by field.
        ordered = nw.struct(*dict.fromkeys((*order, column)))
        return ordered.min().struct.field(column), ordered.max().struct.field(column)
    value = nw.col(column)
    return narwhals.Expr.first(value, order_by=order), narwhals.Expr.last(value, order_by=order)


def order_keys(
    frame: Frame, name: str, columns: tuple[str, str] = ("timestamp", "sequence")
) -> tuple[list[nw.Expr], tuple[str, ...]]:
    """Return columns to add to the frame, and the names of the columns that then put its rows in order."""
    if in_sql(frame):
        return [], columns
    # polars orders by one column much faster than by two, and one integer of 128 bits holds both.
    timestamp, sequence = (nw.col(column).cast(nw.Int128()) for column in columns)
    return [(timestamp * nw.lit(2**64, nw.Int128()) + sequence).alias(name)], (name,)


def within(value: nw.Expr, keys: Sequence[str]) -> nw.Expr:
    """Return an aggregate over each row's group, whose keys may be null; without keys, over all rows."""
    return value.over(*keys) if keys else value


_NEXT: Final = "__next_"


def with_next(
    frame: nw.LazyFrame[Any],
    names: Iterable[str],
    *,
    over: Sequence[str],
    order_by: Sequence[str],
    prefix: str = _NEXT,
) -> nw.LazyFrame[Any]:
    """Add to each row the values of the next one, as ``<prefix><name>``; null in the last row."""
    return frame.with_columns(
        nw.col(name).shift(-1).over(*over, order_by=order_by).alias(f"{prefix}{name}") for name in names
    )


def next_of(name: str) -> str:
    """Return the name that `with_next` gives to the next row's value of a column."""
    return f"{_NEXT}{name}"


def interpolated(at: nw.Expr, x: str, y: str, *, prefix: str = _NEXT) -> nw.Expr:
    """Interpolate column ``y`` at the value ``at`` of column ``x``, linearly between a row and the next one.

    A row has the result if ``at`` lies between its ``x`` and the next row's; other rows are null. A row whose ``x``
    equals ``at`` gives its own ``y`` and needs no next row. So if ``x`` rises, at most one row has a result.
    """
    this_x, next_x = nw.col(x), nw.col(f"{prefix}{x}")
    line = nw.col(y) + (nw.col(f"{prefix}{y}") - nw.col(y)) * (at - this_x) / (next_x - this_x)
    return nw.when(this_x == at).then(nw.col(y)).otherwise(nw.when((this_x < at) & (at < next_x)).then(line))


def starts_run(rows: nw.DataFrame[Any], keys: list[str]) -> NDArray[np.bool_]:
    """Return whether each row of a polars frame is the first row, or has other keys than the row before it.

    Keys may be null.
    """
    is_first = np.zeros(len(rows), np.bool_)
    is_first[:1] = True
    if keys:
        polars = rows.implementation.to_native_namespace()
        key_values = polars.col(*keys)
        is_first[1:] = (
            rows.to_native()
            .select(polars.any_horizontal(key_values.ne_missing(key_values.shift())))
            .to_series()[1:]
        )
    return is_first


_BASE: Final = 32
MOST_NUMBERS: Final = _BASE**4
"""How many numbers a range of four digits can have; the query of a longer range fails."""


def spread(
    frame: nw.LazyFrame[Any], first: str, last: str, *, name: str, digits: int = 4
) -> nw.LazyFrame[Any]:
    """Repeat each row once per integer of a range, ends included.

    SQL engines build the integers digit by digit, in base 32: for each digit, every row is repeated 32 times, and rows
    beyond the last number are dropped at once. The digits are a string literal in the query. A table of numbers would
    have to exist where the engine looks for tables, and its size would depend on the largest distance, which is only
    known once the rows of the lazy frame are read.

    Parameters
    ----------
    frame : narwhals LazyFrame
    first, last : str
        Columns of the ends, int64, which the result lacks. A range whose last number is below its first gives no row.
    name : str
        Name for the column of the numbers, int64.
    digits : int
        How many digits of base 32 a distance may have; the query of a longer range fails.

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.LazyFrame({"low": [3, 7], "high": [5, 7], "of": ["a", "b"]}))
    >>> spread(frame, "low", "high", name="number").collect().rows()
    [('a', 3), ('a', 4), ('a', 5), ('b', 7)]
    """
    start, end = nw.col(first), nw.col(last)
    # A distance of more digits overflows int32 on purpose: the engine then raises, instead of leaving out the numbers
    # that the digits cannot reach.
    scale = 2**31 // _BASE**digits
    distance = ((end - start) * scale).cast(nw.Int32)
    last_number = start + distance.cast(nw.Int64()) // scale
    others = [column for column in frame.collect_schema().names() if column not in {first, last, name}]
    rows = frame.select(*others, start.alias("__at"), last_number.alias("__end"))
    if not in_sql(frame):
        # polars can build lists of integers, in a tenth of the time.
        polars = frame.implementation.to_native_namespace()
        numbers = polars.int_ranges("__at", polars.col("__end") + 1).alias(name)
        native = rows.filter(nw.col("__at") <= nw.col("__end")).to_native().select(*others, numbers)
        return cast("nw.LazyFrame[Any]", nw.from_native(native.explode(name)))
    for place in reversed(range(digits)):
        steps = " ".join(str(digit * _BASE**place) for digit in range(_BASE))
        rows = (
            rows.with_columns(nw.lit(steps).str.split(" ").alias("__step"))
            .explode("__step")
            .with_columns(nw.col("__at") + nw.col("__step").cast(nw.Int64))
            .filter(nw.col("__at") <= nw.col("__end"))
            .drop("__step")
        )
    return rows.select(*others, nw.col("__at").alias(name))


def crossed(frame: nw.LazyFrame[Any], name: str, values: Iterable[float]) -> nw.LazyFrame[Any]:
    """Repeat each row once per value; the values become a column of float64.

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.LazyFrame({"coin": ["BTC", "ETH"]}))
    >>> crossed(frame, "days", [7, 30]).sort("coin", "days").collect().rows()
    [('BTC', 7.0), ('BTC', 30.0), ('ETH', 7.0), ('ETH', 30.0)]
    """
    # The numbers are passed as one text: splitting and parsing it, to the last bit, is the only way that all engines
    # share.
    numbers = nw.lit(" ".join(repr(float(value)) for value in values)).str.split(" ")
    return frame.with_columns(numbers.alias(name)).explode(name).with_columns(nw.col(name).cast(nw.Float64))
