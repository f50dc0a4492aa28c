"""First and last value of a group in the order of other columns, on every engine."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals
import narwhals.stable.v2 as nw

from tidytape.frames.doors import Frame

__all__ = ["first", "last", "order_keys"]

# `narwhals.stable.v2` does not offer `order_by` on `first` and `last` yet; its expressions are expressions of
# `narwhals`, whose methods do. Sorting the frame before would promise nothing to a lazy engine, and costs more.


def first(frame: Frame, column: str, order: Sequence[str]) -> nw.Expr:
    """First value of a group of the frame in the order of some columns, for an aggregation."""
    if frame.implementation.is_spark_like():
        return _placed(column, order).min().struct.field(column)
    return narwhals.Expr.first(nw.col(column), order_by=order)


def last(frame: Frame, column: str, order: Sequence[str]) -> nw.Expr:
    """Last value of a group of the frame in the order of some columns, for an aggregation."""
    if frame.implementation.is_spark_like():
        return _placed(column, order).max().struct.field(column)
    return narwhals.Expr.last(nw.col(column), order_by=order)


def _placed(column: str, order: Sequence[str]) -> nw.Expr:
    """Return the value behind what orders it: Spark knows no first of an order, but compares structs field by field."""
    return nw.struct(*dict.fromkeys((*order, column)))


def order_keys(
    frame: Frame, name: str, columns: tuple[str, str] = ("timestamp", "sequence")
) -> tuple[list[nw.Expr], tuple[str, ...]]:
    """Return columns to add to the frame, and the names of those that then put its rows in order."""
    if not frame.implementation.is_polars():
        return [], columns
    # Both in one number, which a sequence of 64 bits leaves whole: polars orders by one column much faster than by two.
    timestamp, sequence = (nw.col(column).cast(nw.Int128()) for column in columns)
    return [(timestamp * nw.lit(2**64, nw.Int128()) + sequence).alias(name)], (name,)
