"""Sums of amounts that do not depend on the order in which the rows are added.

Adding floats in another order gives another last bit, and engines that work in parallel add in another order at every
run. So an amount is taken apart into five floats, and those are added: how many times 2**33 coins there are in it, 8
coins, 1e-8 coin, 2**-30 of that, and what is left. Each but the last is a whole number of at most 2**29. Whole numbers
below 2**53 add up exactly in floats, in any order and on every engine, and floats do not overflow as integers do, of
which an engine makes an error or a wrong number. A float's own noise around a decimal of up to eight places is not left
over, so the sum of such amounts is the decimal that one would get by hand.

A sum of amounts of which one is unknown is unknown. So where an amount is null or not finite, its fourth part is
infinite, which no other part ever is and no addition undoes, and `total` makes null of it.

Bounds: whatever its size, a sum is right to 1e-15 of the sum of magnitudes. Its last bit does not depend on the order
of up to 2**24 (1.7e7) rows of a group with sums of up to 7e25 coins, and of more rows in so far as they do not all lie
near the largest count of a part. What is left is added as a float, which is exact too for amounts of 4e-11 coin and
more; of smaller ones the last bit may depend on the order.

Examples
--------
>>> import narwhals.stable.v2 as nw
>>> import polars as pl
>>> frame = nw.from_native(pl.DataFrame({"amount": [0.1, 0.2, 0.3]}))
>>> frame["amount"].sum(), in_parts(frame, "amount").select(summed("amount")).select(total("amount"))["amount"][0]
(0.6000000000000001, 0.6)
>>> frame = nw.from_native(pl.DataFrame({"amount": [0.1, None]}))
>>> in_parts(frame, "amount").select(summed("amount")).select(total("amount"))["amount"][0]
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, TypeVar

import narwhals.stable.v2 as nw

from tidytape.frames._dialects import Frame

_Frame = TypeVar("_Frame", bound=Frame)

_UNITS: Final = 1e8  # per coin
_RESTS: Final = 2.0**30  # per unit; a power of two, so that nothing is rounded
_STEPS: Final = (("huge", 33, 1.0), ("whole", 3, _UNITS), ("units", 0, _RESTS), ("rest", 0, 1.0))
"""Name of a part, what it is a multiple of as a power of two, and how many of the next unit what is left is."""
_PARTS: Final = (*(name for name, _, _ in _STEPS), "left")
_NOISE: Final = 5e-16  # of an amount: below it, what is left is the noise of writing a decimal as a float
_MOST: Final = 1e290  # coins; more of them are not finite in units


def in_parts(frame: _Frame, *columns: str) -> _Frame:
    """Add the parts that amounts consist of.

    Parameters
    ----------
    frame : narwhals frame
    *columns : str
        Names of columns of amounts. [coin]

    Returns
    -------
    frame of the same kind
        Five columns more for each, float64 and never null, named after it.
    """
    parted: Any = frame.with_columns(
        nw.col(name).cast(nw.Float64()).fill_null(0.0).alias(_name(name, "left")) for name in columns
    )
    # One step after the other, each of columns: what two expressions share, an engine may compute twice.
    for part, exponent, scale in _STEPS:
        parted = parted.with_columns(
            rounded(_part(name, "left"), exponent).alias(_name(name, part)) for name in columns
        )
        rests = [(name, _part(name, "left") - _part(name, part)) for name in columns]
        parted = parted.with_columns(
            (left if scale == 1.0 else left * scale).alias(_name(name, "left")) for name, left in rests
        )
        if part == "units":
            parted = parted.with_columns(_without_noise(name) for name in columns)
    found: _Frame = parted
    return found


def where(condition: nw.Expr, column: str, name: str) -> list[nw.Expr]:
    """Return the parts of amounts under another name, zero where the condition does not hold.

    Parameters
    ----------
    condition : expression, bool
        Null does not hold.
    column : str
        Name of a column of amounts, whose parts the frame has. [coin]
    name : str
        The other name.

    Returns
    -------
    list of expressions, float64
    """
    return [
        nw.when(condition).then(_part(column, part)).otherwise(0.0).alias(_name(name, part))
        for part in _PARTS
    ]


def difference(column: str, less: str, name: str) -> list[nw.Expr]:
    """Return the parts of the difference of two columns of known amounts, whose parts the frame has."""
    return [(_part(column, part) - _part(less, part)).alias(_name(name, part)) for part in _PARTS]


def together(column: str, more: str, name: str) -> list[nw.Expr]:
    """Return the parts of the sum of two columns of amounts, whose parts the frame has."""
    return [(_part(column, part) + _part(more, part)).alias(_name(name, part)) for part in _PARTS]


def parts_of(*columns: str) -> list[str]:
    """Return the names of the parts of columns of amounts."""
    return [_name(column, part) for column in columns for part in _PARTS]


def summed(*columns: str) -> nw.Expr:
    """Return the sums of the parts of columns of amounts, for an aggregation or a window."""
    return nw.col(*parts_of(*columns)).sum()


def running(*columns: str) -> nw.Expr:
    """Return the cumulative sums of the parts of columns of amounts, for a window with an order."""
    return nw.col(*parts_of(*columns)).cum_sum()


def total(column: str) -> nw.Expr:
    """Return the amounts that sums of parts make, named as the column of the amounts; null where one is unknown.

    Parameters
    ----------
    column : str
        Name of the column.

    Returns
    -------
    expression, float64
        [coin]
    """
    huge, whole, units, rest, left = (_part(column, part) for part in _PARTS)
    counted = (huge + whole) * _UNITS + (units + (rest + left) / _RESTS)
    # Divide by a column: for a constant polars multiplies by the rounded reciprocal.
    exact = counted / (huge * 0.0 + _UNITS)
    amount = nw.when(huge.abs() < _MOST).then(exact).otherwise(huge)
    return nw.when(rest.abs() < _MOST).then(amount).alias(column)


def rounded(value: nw.Expr, exponent: int = 0) -> nw.Expr:
    """Round to whole multiples of a power of two, a half to the even one: what a float this large can still tell."""
    # Not `round`, because engines disagree on halves, and `floor` would treat the signs unequally.
    large = 1.5 * 2.0 ** (52 + exponent)
    return (value + large) - large


def _without_noise(amount: str) -> nw.Expr:
    left = _part(amount, "left")
    is_more = left.abs() > nw.col(amount).abs() * (_NOISE * _UNITS * _RESTS)
    nothing = nw.when(nw.col(amount).cast(nw.Float64()).is_finite()).then(0.0).otherwise(inf)
    return nw.when(is_more).then(left).otherwise(nothing).alias(_name(amount, "left"))


def _part(column: str, part: str) -> nw.Expr:
    return nw.col(_name(column, part))


def _name(column: str, part: str) -> str:
    return f"__{column}_{part}"
