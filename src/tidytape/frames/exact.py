"""Sums of amounts that do not depend on the order in which the rows are added.

Adding floats in another order gives another last bit, and engines that work in parallel add in another order at every
run. So amounts are added as whole numbers, which is exact: of 1e-8, and what is left below that, of 1e-17. A float's
own noise around a decimal of up to eight places is not left over, so the sum of such amounts is the decimal that one
would get by hand. Amounts of 9e10 and more cannot be counted so; they are added as floats.

Examples
--------
>>> import narwhals.stable.v2 as nw
>>> import polars as pl
>>> frame = nw.from_native(pl.DataFrame({"amount": [0.1, 0.2, 0.3]}))
>>> sums = frame.with_columns(parts("amount")).select(summed("amount"))
>>> sums.select(floats="amount", exact=total("amount")).rows()
[(0.6000000000000001, 0.6)]
"""

from __future__ import annotations

import math
from typing import Final

import narwhals.stable.v2 as nw

__all__ = ["parts", "summed", "total", "where"]

_UNITS: Final = 1e8  # per coin
_RESTS: Final = 1e9  # per unit
_MOST: Final = 9e10  # coins; more of them, counted in units, do not fit into int64
_ALMOST_HALF: Final = math.nextafter(0.5, 0)  # a half more than a large integer would be rounded to the next
_NOISE: Final = 1e-12  # the relative difference that adding floats can make, with room to spare


def parts(column: str) -> list[nw.Expr]:
    """Return the whole numbers that an amount consists of, to be added beside it.

    Parameters
    ----------
    column : str
        Name of a column of amounts. [coin]

    Returns
    -------
    list of expressions, int64
        Named after the column: its units [1e-8 coin] and what is left of it [1e-17 coin].
    """
    amount = nw.col(column)
    scaled = amount * _UNITS
    # Not `round`, because engines disagree on how to round a half.
    counted = (scaled + _ALMOST_HALF).floor()
    left = scaled - counted
    countable = amount.abs() < _MOST
    # Below this, what is left is the noise of writing a decimal as a float.
    is_more = countable & (left.abs() > 5e-16 * counted.abs())
    units = nw.when(countable).then(counted).otherwise(0.0).cast(nw.Int64())
    rest = nw.when(is_more).then((left * _RESTS + 0.5).floor()).otherwise(0.0).cast(nw.Int64())
    return [units.alias(_units(column)), rest.alias(_rest(column))]


def where(condition: nw.Expr, column: str, name: str) -> list[nw.Expr]:
    """Return a column of amounts and its parts under another name, zero where the condition does not hold.

    Parameters
    ----------
    condition : expression, bool
        Null does not hold.
    column : str
        Name of a column of amounts, with its parts beside it. [coin]
    name : str
        The other name.

    Returns
    -------
    list of expressions
        The amount, float64 [coin], and its parts, int64.
    """
    names = ((column, name), (_units(column), _units(name)), (_rest(column), _rest(name)))
    zeros = (nw.lit(0.0), *[nw.lit(0, nw.Int64())] * 2)
    return [
        nw.when(condition).then(nw.col(own)).otherwise(zero).alias(other)
        for (own, other), zero in zip(names, zeros, strict=True)
    ]


def summed(*columns: str) -> nw.Expr:
    """Return the sums of columns of amounts and of their parts, for an aggregation."""
    return nw.col(*[name for column in columns for name in (column, _units(column), _rest(column))]).sum()


def total(column: str) -> nw.Expr:
    """Return the sum of amounts, from the sums of a column and its parts.

    Parameters
    ----------
    column : str
        Name of the column, which now holds the sum of the floats. [coin]

    Returns
    -------
    expression, float64
        The sum of the parts where it is the floats' sum but for the noise of adding; else the floats' sum. [coin]
    """
    floats = nw.col(column)
    # Divisors that are columns: polars multiplies by the rounded reciprocal of a constant one.
    zero = floats * 0.0
    units = nw.col(_units(column)).cast(nw.Float64()) + nw.col(_rest(column)).cast(nw.Float64()) / (
        zero + _RESTS
    )
    exact = units / (zero + _UNITS)
    return (
        nw.when((exact - floats).abs() <= _NOISE * floats.abs()).then(exact).otherwise(floats).alias(column)
    )


def _units(column: str) -> str:
    return f"__{column}_units"


def _rest(column: str) -> str:
    return f"__{column}_rest"
