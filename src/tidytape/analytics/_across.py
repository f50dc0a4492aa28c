"""How a frame of several venues is read: what is one market, what are markets of one kind, what is no number."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.errors import QueryError
from tidytape.frames.doors import INSTRUMENT
from tidytape.frames.table import Table

__all__ = ["MARKET", "Duration", "across", "finite", "one_engine", "with_words"]

Duration = str | timedelta
"""A timedelta, or a text such as ``"8h"``; a bare number has no unit."""

MARKET = INSTRUMENT
"""Columns that name one market."""

_OF_A_MARKET = (*MARKET, "normalized_symbol", "category")


def across(table: Table[Any], by: str | Iterable[str] | None, *, without: Iterable[str] = ()) -> list[str]:
    """Return the columns that tell apart what is compared across markets: ``by``, or the identity columns of none."""
    left_out = (*_OF_A_MARKET, "timestamp", *without) if by is None else ("timestamp", *without)
    return table.series(by, without=left_out)


def with_words(rows: nw.LazyFrame[Any], columns: Iterable[str]) -> nw.LazyFrame[Any]:
    """Return the rows with these columns as text where they are categories: categories of two frames do not meet."""
    schema = rows.collect_schema()
    words = [name for name in columns if isinstance(schema[name], nw.Categorical | nw.Enum)]
    return rows.with_columns(nw.col(*words).cast(nw.String())) if words else rows


def finite(name: str) -> nw.Expr:
    """Return a column of numbers, null where it is not finite: what is no number is not known."""
    return nw.when(nw.col(name).is_finite()).then(nw.col(name)).alias(name)


def one_engine(table: Table[Any], other: Table[Any], parameter: str) -> None:
    """Raise QueryError unless two frames are of one engine, whose rows alone can meet."""
    first, second = table.rows.implementation, other.rows.implementation
    if first is not second:
        raise QueryError(
            parameter, got=f"a frame of {second.value}", expected=f"a frame of {first.value}, like the first"
        )
