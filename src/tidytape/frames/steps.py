"""Lengths of intervals as a column of names says them, and buckets of any length."""

from __future__ import annotations

from typing import Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.frames.buckets import SECOND

__all__ = ["MONDAY", "bucket_by", "length_of"]

MONDAY: Final = Interval.WEEK.offset * SECOND
"""The first Monday of the epoch: from it whole days, hours and weeks begin where buckets do. [ns]"""


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
