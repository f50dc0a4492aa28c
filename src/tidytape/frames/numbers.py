"""Repeat rows on every engine: once per integer of a range (`spread`), or once per value of a list (`crossed`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import narwhals.stable.v2 as nw

_BASE: Final = 32
MOST_NUMBERS: Final = _BASE**4
"""Most numbers of a range of four digits; the query of a longer one fails."""


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
    if frame.implementation.is_polars():
        return _exploded(frame.with_columns(last_number.alias(last)).filter(start <= end), first, last, name)
    others = [column for column in frame.collect_schema().names() if column not in {first, last, name}]
    rows = frame.select(
        *others,
        start.alias("__at"),
        last_number.alias("__end"),
    )
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


def _exploded(frame: nw.LazyFrame[Any], first: str, last: str, name: str) -> nw.LazyFrame[Any]:
    """Do what `spread` does by the lists of integers that polars has, in a tenth of the time."""
    polars = frame.implementation.to_native_namespace()
    numbers = polars.int_ranges(polars.col(first), polars.col(last) + 1).alias(name)
    others = [column for column in frame.collect_schema().names() if column not in {first, last, name}]
    native = frame.to_native().select(*others, numbers).explode(name)
    rows: nw.LazyFrame[Any] = nw.from_native(native)
    return rows


def crossed(frame: nw.LazyFrame[Any], name: str, values: Iterable[float]) -> nw.LazyFrame[Any]:
    """Repeat each row once per value; the values become a column of float64.

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.LazyFrame({"coin": ["BTC", "ETH"]}))
    >>> crossed(frame, "days", [7, 30]).sort("coin", "days").collect().rows()
    [('BTC', 7.0), ('BTC', 30.0), ('ETH', 7.0), ('ETH', 30.0)]
    """
    # A text, which every engine splits, and reads to the last bit: no other way of writing numbers is common to all.
    numbers = nw.lit(" ".join(repr(float(value)) for value in values)).str.split(" ")
    return frame.with_columns(numbers.alias(name)).explode(name).with_columns(nw.col(name).cast(nw.Float64))
