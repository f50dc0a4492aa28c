"""What the order of rows says: first and last, before and after, and where a run of equal keys starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import narwhals
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.frames.door import Frame

# `narwhals.stable.v2` does not offer `order_by` on `first` and `last` yet; its expressions are expressions of
# `narwhals`, whose methods do. Sorting the frame before would promise nothing to a lazy engine, and costs more.


def first(frame: Frame, column: str, order: Sequence[str]) -> nw.Expr:
    """First value of a group of the frame in the order of some columns, for an aggregation."""
    return _first_and_last(frame, column, order)[0]


def last(frame: Frame, column: str, order: Sequence[str]) -> nw.Expr:
    """Last value of a group of the frame in the order of some columns, for an aggregation."""
    return _first_and_last(frame, column, order)[1]


def _first_and_last(frame: Frame, column: str, order: Sequence[str]) -> tuple[nw.Expr, nw.Expr]:
    if frame.implementation.is_spark_like():
        # Spark knows no first of an order, but compares structs field by field.
        placed = nw.struct(*dict.fromkeys((*order, column)))
        return placed.min().struct.field(column), placed.max().struct.field(column)
    value = nw.col(column)
    return narwhals.Expr.first(value, order_by=order), narwhals.Expr.last(value, order_by=order)


def order_keys(
    frame: Frame, name: str, columns: tuple[str, str] = ("timestamp", "sequence")
) -> tuple[list[nw.Expr], tuple[str, ...]]:
    """Return columns to add to the frame, and the names of those that then put its rows in order."""
    if not frame.implementation.is_polars():
        return [], columns
    # Both in one number, which a sequence of 64 bits leaves whole: polars orders by one column much faster than by two.
    timestamp, sequence = (nw.col(column).cast(nw.Int128()) for column in columns)
    return [(timestamp * nw.lit(2**64, nw.Int128()) + sequence).alias(name)], (name,)


def within(value: nw.Expr, keys: Sequence[str]) -> nw.Expr:
    """Return an aggregate of each row's group, null being a key; of no keys, that of all rows."""
    return value.over(*keys) if keys else value


_NEXT: Final = "__next_"


def with_next(
    frame: nw.LazyFrame[Any],
    names: Iterable[str],
    *,
    over: Sequence[str],
    order_by: Sequence[str],
    prefix: str = _NEXT,
) -> nw.LazyFrame[Any]:
    """Add to each row the values of the next one, as ``<prefix><name>``; null in the last row."""
    return frame.with_columns(
        nw.col(name).shift(-1).over(*over, order_by=order_by).alias(f"{prefix}{name}") for name in names
    )


def next_of(name: str) -> str:
    """Return what `with_next` calls the next row's value of a column."""
    return f"{_NEXT}{name}"


def interpolated(at: nw.Expr, x: str, y: str, *, prefix: str = _NEXT) -> nw.Expr:
    """Column ``y`` where column ``x`` is ``at``, linear between a row and its next one; null elsewhere.

    A row whose ``x`` is ``at`` needs no next one, so of several rows at most one has the value, if ``x`` rises.
    """
    here, there = nw.col(x), nw.col(f"{prefix}{x}")
    line = nw.col(y) + (nw.col(f"{prefix}{y}") - nw.col(y)) * (at - here) / (there - here)
    return nw.when(here == at).then(nw.col(y)).otherwise(nw.when((here < at) & (at < there)).then(line))


def starts_run(rows: nw.DataFrame[Any], keys: list[str]) -> NDArray[np.bool_]:
    """Return whether each row of a frame of polars is the first, or has other keys than the one before it.

    Null is a key.
    """
    is_first = np.zeros(len(rows), np.bool_)
    is_first[:1] = True
    if keys:
        polars = rows.implementation.to_native_namespace()
        here = polars.col(*keys)
        differs = rows.to_native().select(polars.any_horizontal(here.ne_missing(here.shift())))
        is_first[1:] = differs.to_series().to_numpy()[1:]
    return is_first
