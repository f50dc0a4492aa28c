"""The time of the row before or after, to the nanosecond on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.frames.buckets import SECOND

__all__ = ["with_neighbour"]


def with_neighbour(
    rows: nw.LazyFrame[Any],
    column: str,
    *,
    name: str,
    over: Sequence[str],
    order: Sequence[str],
    back: int = 1,
) -> nw.LazyFrame[Any]:
    """Return the rows with the time of another row of their group; where there is none, with their own.

    Seconds and what is left go apart, because pandas has the null beside the first row only among floats, and of
    nanoseconds they hold every 256th.

    Parameters
    ----------
    rows : narwhals LazyFrame
    column : str
        A column of times without null. [ns]
    name : str
        What the neighbour's is called.
    over : sequence of str
        The columns of a group.
    order : sequence of str
        The columns that put its rows in order, none of them ``column`` itself: pandas would lose it.
    back : int
        How many rows before; below zero, after.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.LazyFrame({"group": 0, "order": [0, 1], "timestamp": [5, 1_723_161_600_000_000_001]})
    >>> rows = with_neighbour(nw.from_native(frame), "timestamp", name="next", over=["group"], order=["order"], back=-1)
    >>> rows.collect()["next"].to_list()
    [1723161600000000001, 1723161600000000001]
    """
    time = nw.col(column)
    seconds, rest = nw.col("__seconds"), nw.col("__rest")
    rows = rows.with_columns(__rest=(time % SECOND).cast(nw.Float64))
    # A quotient of floats, rounded: whole division is one of floats on Spark, and cut off.
    rows = rows.with_columns(__seconds=((time - rest.cast(nw.Int64)).cast(nw.Float64) / SECOND).round())
    rows = rows.with_columns(
        __other_seconds=seconds.shift(back).over(*over, order_by=list(order)),
        __other_rest=rest.shift(back).over(*over, order_by=list(order)),
    )
    is_alone = nw.col("__other_seconds").is_null()
    other = (
        nw.when(is_alone).then(own).otherwise(nw.col(shifted)).cast(nw.Int64)
        for own, shifted in ((seconds, "__other_seconds"), (rest, "__other_rest"))
    )
    whole, part = other
    return rows.with_columns((whole * SECOND + part).alias(name)).drop(
        "__seconds", "__rest", "__other_seconds", "__other_rest"
    )
