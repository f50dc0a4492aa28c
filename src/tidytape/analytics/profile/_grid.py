"""Rows of a profile: which one a price lies in, and at what price a row is published."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics._arguments import is_number
from tidytape.errors import QueryError

DIGITS: Final = 12
"""Numbers are compared to twelve of the sixteen digits a float carries.

0.1 + 0.2 then equals 0.3, and no comparison turns on the order in which an engine adds. The digits are decimal, so
that decimals are not cut in the middle.
"""


def step_of(row_size: object) -> Fraction | None:
    """Return the step as the exact decimal that its shortest spelling says: 0.1 is a tenth; None for None."""
    if row_size is None:
        return None
    if not is_number(row_size) or not row_size > 0:
        raise QueryError("row_size", got=row_size, expected="a finite number above 0, or None")
    step = Fraction(str(row_size))
    if step.denominator > _FINEST:
        raise QueryError("row_size", got=row_size, expected="at most 40 decimal places, or None")
    return step


_FINEST: Final = 10**40


MOST_STEPS: Final = 2.0**50
"""A price so many steps from zero has no row: floats do not tell its neighbours apart."""


def with_place(levels: nw.LazyFrame[Any], keys: list[str], step: Fraction | None) -> nw.LazyFrame[Any]:
    """Add the ``place`` of each level, a whole number that its row shares: of the grid, or of the price itself."""
    price = nw.col("price")
    if step is None:
        levels = levels.with_columns(highest=price.abs().max().over(keys))
        return levels.with_columns(place=whole(price, nw.col("highest"))).drop("highest")
    # A row is its low edge: 0.19 lies in the row of 0.1. What is on the grid but for a float's noise is on it.
    steps = price / float(step)
    nearest = (steps + 0.5).floor()
    place = nearest - (nearest - steps > 1e-9 + 1e-12 * steps.abs()).cast(nw.Float64)
    return levels.with_columns(place=place)


def with_index(rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None) -> nw.LazyFrame[Any]:
    """Add the ``index`` that counts rows: neighbours differ by 1."""
    place = nw.col("place")
    return rows.with_columns(index=place if step else place.rank("dense").over(keys).cast(nw.Float64))


def row_price(step: Fraction | None) -> nw.Expr:
    """Return the price a row is published at: of the grid, or as it came."""
    if step is None:
        return nw.col("price")
    return quotient(nw.col("place") * float(step.numerator), step.denominator)


def known_price() -> nw.Expr:
    """Return whether a level has a price."""
    return nw.col("price").is_finite().fill_null(value=False)


def whole(value: nw.Expr, largest: nw.Expr) -> nw.Expr:
    """Return ``value`` in whole decimal units, of which ``largest`` holds about ``10 ** DIGITS``."""
    return in_units(value, scale(largest))


def scale(largest: nw.Expr) -> nw.Expr:
    """Return how many units there are in 1, for ``largest`` to hold about ``10 ** DIGITS`` of them."""
    # The rounded logarithm turns over at a root of 10, where no decimal lies: engines agree on the digit.
    decade = nw.when(largest > 0).then(largest).log(10).round()
    return 10.0 ** (DIGITS - decade)


def in_units(value: nw.Expr, scale: nw.Expr) -> nw.Expr:
    """Return ``value`` in whole units; 0 where there are none."""
    # floor(x + 1/2), because engines disagree on how to round a half.
    return (value * scale + 0.5).floor().fill_null(0.0)


def quotient(whole: nw.Expr, denominator: int) -> nw.Expr:
    """Return the float closest to a fraction of whole numbers, e.g. 0.3 for 3 and 10."""
    # By a column, because polars multiplies by the rounded reciprocal of a literal: 3 * 0.1 is not 0.3.
    return whole / (whole * 0.0 + float(denominator))
