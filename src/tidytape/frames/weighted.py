"""Means by weight, of sums that do not depend on the order of the rows.

Weights are amounts, and added as `exact` does. Of their products with what they weigh nobody knows the decimals, and a
mean has few rows, the markets of a coin: those are taken apart into three floats, which costs half as much. They are
whole numbers, multiples of 2**-40, and what is left. Up to 2**14 rows of products of 1e-8 to 1e11 and more add up
exactly, to sums below 9e15. Others add up to 1e-15 of the sum of magnitudes too, but for the last bit in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.frames import exact

__all__ = ["weighted"]

_PLACES: Final = {"whole": 0, "fraction": -40}
_PARTS: Final = (*_PLACES, "left")


def weighted(frame: Any, keys: Sequence[str], values: Sequence[str], *, weight: str) -> Any:
    r"""Return one row per keys, with the mean of each column by weight, :math:`\sum_i w_i x_i / \sum_i w_i`.

    Rows in which a value is null are left out of its mean; ``__used_`` and its name is the sum of the other rows'
    weights, null where there is none; ``__members`` the number of all rows. The sums do not depend on their order.
    """
    frame = exact.in_parts(_in_parts(frame, values, weight=weight), weight)
    # Of values without nulls the weights are all used. A lazy frame does not know; there each has a sum of its own.
    used = {name: weight if _is_whole(frame, name) else f"__used_{name}" for name in values}
    for name, own in used.items():
        if own != weight:
            frame = frame.with_columns(exact.where(~nw.col(name).is_null(), weight, own))
    owns = list(dict.fromkeys(used.values()))
    parts = [_name(name, part) for name in values for part in _PARTS]
    sums = frame.group_by(*keys).agg(nw.col(*parts).sum(), exact.summed(*owns), nw.len().alias("__members"))
    sums = sums.with_columns(*(_total(name) for name in values), *(exact.total(own) for own in owns))
    has = {name: nw.col(own) > 0 for name, own in used.items()}
    return sums.select(
        *keys,
        "__members",
        *(nw.when(has[name]).then(nw.col(name) / nw.col(own)).alias(name) for name, own in used.items()),
        *(nw.when(has[name]).then(nw.col(own)).alias(f"__used_{name}") for name, own in used.items()),
    )


def _in_parts(frame: Any, values: Sequence[str], *, weight: str) -> Any:
    """Add the parts of the products of values and their weight."""
    left = {name: nw.col(_name(name, "left")) for name in values}
    frame = frame.with_columns((nw.col(weight) * nw.col(name)).alias(_name(name, "left")) for name in values)
    for part, place in _PLACES.items():
        frame = frame.with_columns(
            exact.rounded(left[name], place).alias(_name(name, part)) for name in values
        )
        frame = frame.with_columns(
            (left[name] - nw.col(_name(name, part))).alias(_name(name, "left")) for name in values
        )
    return frame


def _is_whole(frame: Any, name: str) -> bool:
    return isinstance(frame, nw.DataFrame) and frame[name].null_count() == 0


def _total(name: str) -> nw.Expr:
    whole, fraction, left = (nw.col(_name(name, part)) for part in _PARTS)
    exact_sum = whole + (fraction + left)
    return nw.when(whole.is_finite()).then(exact_sum).otherwise(whole).alias(name)


def _name(column: str, part: str) -> str:
    return f"__weighted_{column}_{part}"
