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
    seconds, rest = "__seconds", "__rest"
    rows = rows.with_columns((time % SECOND).alias(rest)).with_columns(
        # A quotient of floats, rounded: whole division is one of floats on Spark, and cut off.
        ((time - nw.col(rest)).cast(nw.Float64) / SECOND).round().cast(nw.Int64).alias(seconds)
    )
    other = {part: f"{part}_other" for part in (seconds, rest)}
    rows = rows.with_columns(
        nw.col(part).shift(back).over(*over, order_by=list(order)).alias(shifted)
        for part, shifted in other.items()
    )
    whole = [
        nw.when(nw.col(shifted).is_null()).then(nw.col(part)).otherwise(nw.col(shifted)).cast(nw.Int64)
        for part, shifted in other.items()
    ]
    return rows.with_columns((whole[0] * SECOND + whole[1]).alias(name)).drop(*other, *other.values())
