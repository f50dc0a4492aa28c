"""How far numbers lie from their usual level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.analytics.quality._robust import ENOUGH, with_most
from tidytape.frames.buckets import bucket_by
from tidytape.times import HOUR

Rows = nw.LazyFrame[Any]


def far_rates(rows: Rows, rates: Sequence[str], series: list[str], *, limit: float) -> tuple[Rows, nw.Expr]:
    """Return the rows, and whether a rate is ``limit`` robust deviations from the median of its series."""
    found: nw.Expr = nw.lit(value=False)
    for column in rates:
        value = nw.col(column)
        rows = rows.with_columns(__level=nw.when(value.is_finite()).then(value))
        rows, is_far = _far(rows, around=series, series=series, limit=limit)
        own = f"__outlier_{column}"
        rows = rows.with_columns(is_far.alias(own))
        found = found | nw.col(own)
    return rows, found


def far_prices(rows: Rows, prices: Sequence[str], series: list[str], *, limit: float) -> tuple[Rows, nw.Expr]:
    """Return the rows of events, and whether a price is ``limit`` robust deviations from the median of its hour."""
    found: nw.Expr = nw.lit(value=False)
    for column in prices:
        value = nw.col(column)
        rows = rows.with_columns(
            __hour=bucket_by(nw.col("__time"), HOUR),
            __level=nw.when((value > 0) & value.is_finite()).then(value).log(),
            __usual_price=value.median().over(series),
        )
        rows, is_far = _far(rows, around=[*series, "__hour"], series=series, limit=limit)
        # A price of nothing has no logarithm; among others it is as far as can be.
        is_nothing = ((value <= 0) & (nw.col("__usual_price") > 0)).fill_null(value=False)
        own = f"__outlier_{column}"
        rows = rows.with_columns((is_far | is_nothing).alias(own))
        found = found | nw.col(own)
    return rows, found


def _far(rows: Rows, *, around: list[str], series: list[str], limit: float) -> tuple[Rows, nw.Expr]:
    level = nw.col("__level")
    rows = rows.with_columns(__usual=level.median().over(around), __levels=level.count().over(series))
    rows = rows.with_columns(__off=(level - nw.col("__usual")).abs())
    rows = with_most(rows, over=series, limit=limit)
    is_far = (nw.col("__levels") >= ENOUGH) & (nw.col("__off") > nw.col("__most"))
    return rows, is_far.fill_null(value=False)
