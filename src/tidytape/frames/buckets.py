"""Time buckets: the start of the interval that a time lies in, and the length of the intervals of a name."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.errors import QueryError, nearest

SECOND: Final = 1_000_000_000
"""One second. [ns]"""

INTERVALS: Final = {name: interval for interval in Interval for name in (interval.value, interval.alias)}
"""Every interval, by its name and by its alias."""


def interval_of(name: str | timedelta) -> Interval:
    """Return the interval with this name or alias, or of this length.

    Parameters
    ----------
    name : str or timedelta
        An ``Interval``, its name, its alias or its length. Others have no name to stand in a column of intervals.

    Returns
    -------
    Interval

    Raises
    ------
    QueryError
        If there is no such interval.

    Examples
    --------
    >>> interval_of("4h").seconds
    14400
    >>> interval_of(timedelta(hours=4)).alias
    '4h'
    """
    if isinstance(name, timedelta):
        interval = next((one for one in Interval if timedelta(seconds=one.seconds) == name), None)
    else:
        interval = INTERVALS.get(str(name))
    if interval is None:
        close = nearest(str(name), INTERVALS)
        raise QueryError(
            "interval",
            got=name,
            expected="one of " + ", ".join(interval.alias for interval in Interval),
            hint=f"did you mean {close!r}?" if close else None,
            code="INVALID_INTERVAL",
        )
    return interval


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
