"""The time of the row before or after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw

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
        The columns that put its rows in order.
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
    other = nw.col(column).shift(back).over(*over, order_by=list(order))
    return rows.with_columns(other.alias(name)).with_columns(nw.coalesce(name, column).alias(name))
