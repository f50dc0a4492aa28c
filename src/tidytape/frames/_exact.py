"""Sums of amounts that do not depend on the order in which the rows are added.

The last bit of a sum of floats depends on the order in which they are added, and engines that work in parallel add in
another order at every run. So each amount is split into five parts, which are added separately: how many times it
contains 2**33 coins, 8 coins, 1e-8 coin and 2**-30 * 1e-8 coin, and a remainder. Each part but the remainder is an
integer of at most 2**29. Floats add integers below 2**53 exactly, in any order and on every engine. Nor do they
overflow. Integers would, and then an engine raises an error or returns a wrong number. The parts drop the noise of a
float around a decimal of up to eight places, so the sum of such amounts is the decimal that one would get by hand.

If one of the amounts is unknown, so is their sum. So if an amount is null or not finite, its fourth part is infinite.
No other part is ever infinite, no addition undoes it, and `total` turns it into null.

Bounds: a sum of any size is right to 1e-15 of the sum of magnitudes. Its last bit does not depend on the order of the
rows if a group has up to 2**24 (1.7e7) rows and a sum of up to 7e25 coins. Nor does it for more rows, unless nearly all
of them are near the largest count of a part. Remainders are added as floats. These sums are exact for amounts of 4e-11
coin and more; for smaller amounts the last bit may depend on the order.

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
from typing import Any, Final, TypeVar, cast

import narwhals.stable.v2 as nw

from tidytape.frames._dialects import Frame

_Frame = TypeVar("_Frame", bound=Frame)

_UNITS: Final = 1e8  # per coin
_RESTS: Final = 2.0**30  # per unit; a power of two, so that nothing is rounded
_STEPS: Final = (("huge", 33, 1.0), ("whole", 3, _UNITS), ("units", 0, _RESTS), ("rest", 0, 1.0))
"""For each part but the last: its name, the power of two it is a multiple of, and the factor to the next unit."""
_PARTS: Final = (*(name for name, _, _ in _STEPS), "left")
_NOISE: Final = 5e-16  # share of an amount; a smaller remainder is the noise of writing a decimal as a float
_MOST: Final = 1e290  # coins; a larger amount overflows when it is counted in units


def in_parts(frame: _Frame, *columns: str) -> _Frame:
    """Split columns of amounts into parts, and add the parts as columns.

    Parameters
    ----------
    frame : narwhals frame
    *columns : str
        Names of columns of amounts. [coin]

    Returns
    -------
    frame of the same kind
        Has five more columns for each column of amounts: float64, never null, and named after it.
    """
    rows: Any = frame.with_columns(
        nw.col(name).cast(nw.Float64()).fill_null(0.0).alias(_name(name, "left")) for name in columns
    )
    # Each step adds columns: an engine may compute an expression twice if two others contain it.
    for part, exponent, scale in _STEPS:
        rows = rows.with_columns(
            rounded(_part(name, "left"), exponent).alias(_name(name, part)) for name in columns
        )
        remainders = [(name, _part(name, "left") - _part(name, part)) for name in columns]
        rows = rows.with_columns(
            (remainder if scale == 1.0 else remainder * scale).alias(_name(name, "left"))
            for name, remainder in remainders
        )
        if part == "units":
            rows = rows.with_columns(_without_noise(name) for name in columns)
    return cast("_Frame", rows)


def where(condition: nw.Expr, column: str, name: str) -> list[nw.Expr]:
    """Return the parts of amounts under another name, zero where the condition does not hold.

    Parameters
    ----------
    condition : expression, bool
        Null counts as false.
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


def added(column: str, more: str, name: str) -> list[nw.Expr]:
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
    """Return the sum of a column of amounts, from the sums of its parts; null where one of the amounts is unknown.

    Parameters
    ----------
    column : str
        Name of the column.

    Returns
    -------
    expression, float64
        [coin]
    """
    huge, eights, units, rest, remainder = (_part(column, part) for part in _PARTS)
    in_units = (huge + eights) * _UNITS + (units + (rest + remainder) / _RESTS)
    # Divide by a column: for a constant polars multiplies by the rounded reciprocal.
    exact = in_units / (huge * 0.0 + _UNITS)
    # More coins than that cannot be counted in units, and then the other parts are below the last bit.
    amount = nw.when(huge.abs() < _MOST).then(exact).otherwise(huge)
    return nw.when(rest.abs() < _MOST).then(amount).alias(column)


def rounded(value: nw.Expr, exponent: int = 0) -> nw.Expr:
    """Round to the nearest multiple of ``2**exponent``, halves to the even multiple."""
    # Adding a large number rounds: the floats near it are multiples of the power. Engines disagree on how `round`
    # treats halves, and `floor` would treat the signs unequally.
    large = 1.5 * 2.0 ** (52 + exponent)
    return (value + large) - large


def _without_noise(amount: str) -> nw.Expr:
    """Return the remainder of an amount, 0 if it is noise, and infinite if the amount is null or not finite."""
    remainder = _part(amount, "left")
    is_above_noise = remainder.abs() > nw.col(amount).abs() * (_NOISE * _UNITS * _RESTS)
    zero_or_unknown = nw.when(nw.col(amount).cast(nw.Float64()).is_finite()).then(0.0).otherwise(inf)
    return nw.when(is_above_noise).then(remainder).otherwise(zero_or_unknown).alias(_name(amount, "left"))


def _part(column: str, part: str) -> nw.Expr:
    return nw.col(_name(column, part))


def _name(column: str, part: str) -> str:
    return f"__{column}_{part}"
