"""What term structures, of chains and of summaries, and other series of values have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.analytics._arguments import number
from tidytape.analytics._series import TWICE, repeated


def flat_within(got: object) -> float:
    """Return the slope up to which a structure is flat; QueryError if it is none."""
    return number("flat", got, least=0)


def shape(slope: nw.Expr, flat: float) -> nw.Expr:
    """Contango where the slope is above ``flat``, backwardation where it is below minus that; null where it is."""
    level = nw.when(slope.is_finite()).then(nw.lit("flat"))
    falls = nw.when(slope < -flat).then(nw.lit("backwardation")).otherwise(level)
    return nw.when(slope > flat).then(nw.lit("contango")).otherwise(falls)


def last_before(rows: nw.LazyFrame[Any], last: int, series: Sequence[str]) -> nw.LazyFrame[Any]:
    """Keep the rows of each series' last time at or before ``last``. [ns]"""
    rows = rows.filter(nw.col("timestamp") <= last)
    newest = nw.col("timestamp").max()
    return rows.filter(nw.col("timestamp") == (newest.over(*series) if series else newest))


def single(rows: nw.LazyFrame[Any], key: Sequence[str], names: Iterable[str]) -> nw.LazyFrame[Any]:
    """Return the rows with null for the values of a key that is there twice: which of them holds nobody knows."""
    is_single = nw.col(TWICE) == 0
    return repeated(rows, key).with_columns(
        nw.when(is_single).then(nw.col(name)).alias(name) for name in names
    )
