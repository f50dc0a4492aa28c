"""Sums of amounts that do not depend on the order in which the rows are added.

Adding floats in another order gives another last bit, and engines that work in parallel add in another order at every
run. So amounts are added twice: as floats, and as whole numbers of 1e-8, which is exact. The second is the answer
wherever it represents the amounts, which is wherever they have at most eight decimals and add up to less than 9e10.

Examples
--------
>>> import narwhals.stable.v2 as nw
>>> import polars as pl
>>> frame = nw.from_native(pl.DataFrame({"amount": [0.1, 0.2, 0.3]}))
>>> sums = frame.with_columns(units=units(nw.col("amount"))).select(nw.col("amount", "units").sum())
>>> sums.select(floats="amount", exact=total(nw.col("units"), nw.col("amount"))).rows()
[(0.6000000000000001, 0.6)]
"""

from __future__ import annotations

from typing import Final

import narwhals.stable.v2 as nw

__all__ = ["total", "units"]

_UNITS: Final = 1e8  # per coin
_MOST: Final = 9e10  # coins; more of them, counted in units, do not fit into int64
_NOISE: Final = 1e-12  # the relative difference that adding floats can make, with room to spare


def units(amount: nw.Expr) -> nw.Expr:
    """Return amounts as whole numbers of 1e-8.

    Parameters
    ----------
    amount : expression, float64
        [coin]

    Returns
    -------
    expression, int64
        0 where it cannot be counted so. [1e-8 coin]
    """
    counted = (amount * _UNITS).round(0)
    return nw.when(amount.abs() < _MOST).then(counted).otherwise(0.0).cast(nw.Int64())


def total(units: nw.Expr, floats: nw.Expr) -> nw.Expr:
    """Return the sum of amounts.

    Parameters
    ----------
    units : expression, int64
        Sum of the amounts' units. [1e-8 coin]
    floats : expression, float64
        Sum of the amounts. [coin]

    Returns
    -------
    expression, float64
        The units' sum where it is the floats' sum but for the noise of adding; else the floats' sum. [coin]
    """
    # A divisor that is a column: polars multiplies by the rounded reciprocal of a constant one.
    exact = units.cast(nw.Float64()) / (floats * 0.0 + _UNITS)
    return nw.when((exact - floats).abs() <= _NOISE * floats.abs()).then(exact).otherwise(floats)
