"""How long an interval is, as a column."""

from __future__ import annotations

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.frames.buckets import SECOND, interval_of

__all__ = ["interval_nanoseconds"]


def interval_nanoseconds(interval: str | None) -> nw.Expr:
    """Return the length of an interval given, or of the one in column ``interval``; null where that names none. [ns]"""
    if interval is not None:
        return nw.lit(float(interval_of(interval).seconds * SECOND))
    named = nw.col("interval").cast(nw.String)
    first, *others = Interval
    # Null where none is: pandas takes no null for a number in a literal.
    length: nw.Expr = nw.when(_called(named, first)).then(nw.lit(float(first.seconds * SECOND)))
    for known in others:
        length = nw.when(_called(named, known)).then(nw.lit(float(known.seconds * SECOND))).otherwise(length)
    return length


def _called(named: nw.Expr, interval: Interval) -> nw.Expr:
    return (named == interval.value) | (named == interval.alias)
