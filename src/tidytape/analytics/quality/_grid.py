"""The intervals that rows of a frame lie in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.analytics import _arguments as arguments
from tidytape.errors import QueryError
from tidytape.frames.buckets import bucket_by, length_of


def needed(names: Sequence[str], interval: str | timedelta | None) -> None:
    """Raise QueryError unless the length of the rows' intervals is known."""
    if interval is None and "interval" not in names:
        raise QueryError(
            "interval",
            got=None,
            expected="the length of an interval",
            hint="the frame has no column 'interval'",
        )


def with_grid(rows: nw.LazyFrame[Any], interval: str | timedelta | None) -> nw.LazyFrame[Any]:
    """Return the rows with ``__step``, the length of each one's interval, and ``__bucket``, its start. [ns]

    The length is 0 where it is not known; then the bucket is the time itself.
    """
    length = (
        length_of(nw.col("interval"))
        if interval is None
        else nw.lit(arguments.length("interval", interval), nw.Int64())
    )
    rows = rows.with_columns(__step=length)
    known = nw.col("__step") > 0
    rows = rows.with_columns(__length=nw.when(known).then(nw.col("__step")).otherwise(nw.lit(1, nw.Int64())))
    return rows.with_columns(__bucket=bucket_by(nw.col("__time"), nw.col("__length")))


def count_of(span: nw.Expr) -> nw.Expr:
    """Return how many intervals a span is, which is a whole number of them."""
    # A quotient of floats, rounded: whole division is one of floats on Spark, and cut off.
    return (span.cast(nw.Float64) / nw.col("__length").cast(nw.Float64)).round().cast(nw.Int64)
