"""How numbers move from row to row: not at all, too far, or to another size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.analytics.quality._robust import ENOUGH, with_most

Rows = nw.LazyFrame[Any]

_SIDE = 5
"""Rows on either side of a jump that tell it from a spike."""


@dataclass(frozen=True)
class Windows:
    """Series, each in its order."""

    series: list[str]
    order: list[str]

    def shifted(self, column: str, rows: int) -> nw.Expr:
        """Return the value so many rows before, or after."""
        return nw.col(column).shift(rows).over(self.series, order_by=self.order)


def frozen(rows: Rows, prices: Sequence[str], windows: Windows, *, limit: int) -> tuple[Rows, nw.Expr]:
    """Return the rows, and whether one is of ``limit`` or more in a row on which no price moves."""
    rows = rows.with_columns(__before=windows.shifted(prices[-1], 1))
    is_same = [nw.col(price) == nw.col("__before") for price in prices]
    rows = rows.with_columns(
        __same=nw.all_horizontal(*is_same, ignore_nulls=False).fill_null(value=False).cast(nw.Int64)
    )
    rows = rows.with_columns(__moved=1 - nw.col("__same"))
    rows = rows.with_columns(__run=nw.col("__moved").cum_sum().over(windows.series, order_by=windows.order))
    rows = rows.with_columns(__still=nw.col("__same").sum().over([*windows.series, "__run"]))
    return rows, (nw.col("__same") == 1) & (nw.col("__still") >= limit)


def unit_jumps(rows: Rows, sized: Sequence[str], windows: Windows, *, factor: float) -> tuple[Rows, nw.Expr]:
    """Return the rows, and whether from one on five numbers are all ``factor`` times the five before, or a part."""
    before = [f"__before_{back}" for back in range(1, _SIDE + 1)]
    after = [f"__after_{ahead}" for ahead in range(_SIDE)]
    found: nw.Expr = nw.lit(value=False)
    for column in sized:
        rows = rows.with_columns(
            windows.shifted(column, back).alias(name)
            for back, name in (*enumerate(before, 1), *((-ahead, name) for ahead, name in enumerate(after)))
        )
        # Of fewer rows than five nothing is said, nor of five with a null among them.
        known = [~nw.col(name).is_null() for name in (*before, *after)]
        rows = rows.with_columns(
            __known=nw.all_horizontal(*known, ignore_nulls=False),
            __low=nw.min_horizontal(*before),
            __high=nw.max_horizontal(*before),
            __lower=nw.min_horizontal(*after),
            __higher=nw.max_horizontal(*after),
        )
        up = (nw.col("__low") > 0) & (nw.col("__lower") >= nw.col("__high") * factor)
        down = (nw.col("__lower") > 0) & (nw.col("__higher") * factor <= nw.col("__low"))
        own = f"__jumps_{column}"
        rows = rows.with_columns((nw.col("__known") & (up | down)).fill_null(value=False).alias(own))
        found = found | nw.col(own)
    return rows, found


def outliers(rows: Rows, moving: Sequence[str], windows: Windows, *, limit: float) -> tuple[Rows, nw.Expr]:
    """Return the rows, and whether the move to one is ``limit`` robust deviations from the usual, and no way back."""
    found: nw.Expr = nw.lit(value=False)
    for column in moving:
        value, log = nw.col(column), nw.col("__log")
        rows = rows.with_columns(__log=nw.when((value > 0) & value.is_finite()).then(value).log())
        rows = rows.with_columns(
            __log_1=windows.shifted("__log", 1),
            __log_2=windows.shifted("__log", 2),
            __level=value.median().over(windows.series),
        )
        rows = rows.with_columns(
            __move=log - nw.col("__log_1"),
            __move_before=nw.col("__log_1") - nw.col("__log_2"),
            __both=log - nw.col("__log_2"),
        )
        move, usual, off = nw.col("__move"), nw.col("__median"), nw.col("__off")
        rows = rows.with_columns(
            __median=move.median().over(windows.series), __moves=move.count().over(windows.series)
        )
        rows = rows.with_columns(__off=(move - usual).abs())
        rows = with_most(rows, over=windows.series, limit=limit)
        most = nw.col("__most")
        is_far = off > most
        was_far = ((nw.col("__move_before") - usual).abs() > most).fill_null(value=False)
        is_back = ((nw.col("__both") - usual - usual).abs() <= most).fill_null(value=False)
        # A level of nothing has no logarithm; among others it is as far as can be.
        is_nothing = ((value <= 0) & (nw.col("__level") > 0)).fill_null(value=False)
        is_one = ((nw.col("__moves") >= ENOUGH) & is_far & ~(was_far & is_back)).fill_null(value=False)
        own = f"__outlier_{column}"
        rows = rows.with_columns((is_one | is_nothing).alias(own))
        found = found | nw.col(own)
    return rows, found
