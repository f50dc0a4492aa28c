"""Between a row and its next one: what is linear there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

__all__ = ["interpolated", "next_of", "with_next"]

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
