"""Time buckets: the start of the interval that a time lies in, and the length of the intervals of a name."""

from __future__ import annotations

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.times import MONDAY, SECOND


def bucket_start(timestamp: nw.Expr, interval: Interval) -> nw.Expr:
    """Start of the bucket that a time lies in, aligned to the Unix epoch in UTC, weeks to Monday.

    Parameters
    ----------
    timestamp : expression, int64
        Epoch time. [ns]
    interval : Interval
        Length of a bucket.

    Returns
    -------
    expression, int64
        Epoch time. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"timestamp": [59_999_999_999, 60_000_000_000, -1]}))
    >>> frame.select(bucket_start(nw.col("timestamp"), Interval.MINUTE)).to_native()["timestamp"].to_list()
    [0, 60000000000, -60000000000]
    """
    step, offset = interval.seconds * SECOND, interval.offset * SECOND
    # What is left over comes off. The quotient would not do: Spark divides as floats, which skip nanoseconds today.
    if offset == 0:
        return timestamp - timestamp % step
    return timestamp - (timestamp - offset) % step


def length_of(interval: nw.Expr) -> nw.Expr:
    """Return how long the intervals of a column of names or aliases are; 0 where it is none. [ns]"""
    name = interval.cast(nw.String)
    length: nw.Expr = nw.lit(0, nw.Int64())
    for known in Interval:
        is_known = (name == known.value) | (name == known.alias)
        length = nw.when(is_known).then(nw.lit(known.seconds * SECOND, nw.Int64())).otherwise(length)
    return length


def bucket_by(timestamp: nw.Expr, length: nw.Expr | int, *, origin: int = MONDAY) -> nw.Expr:
    """Start of the bucket that a time lies in, of buckets that are counted from a moment, before it too.

    Parameters
    ----------
    timestamp : expression, int64
        Epoch time. [ns]
    length : expression or int, above 0
        Length of a bucket. [ns]
    origin : int
        Where one bucket starts. [ns]

    Returns
    -------
    expression, int64
        Epoch time. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"timestamp": [7, -1]}))
    >>> frame.select(bucket_by(nw.col("timestamp"), 5, origin=1)).to_native()["timestamp"].to_list()
    [6, -4]
    """
    # Twice, because engines disagree on what is left of a number below zero.
    return timestamp - ((timestamp - origin) % length + length) % length
