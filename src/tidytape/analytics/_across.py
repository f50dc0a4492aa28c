"""How a frame of several venues is read: what is one market, what are markets of one kind, what is no number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.analytics._apart import of_rows
from tidytape.errors import QueryError
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.members import matched
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT

Duration = str | timedelta
"""A timedelta, or a text such as ``"8h"``; a bare number has no unit."""

MARKET = INSTRUMENT
"""Columns that name one market."""

MIXED = "__mixed"
"""1.0 where the rows of a series have several amount units, so that their amounts do not add up; else 0.0."""

TWICE = "__twice"
"""1.0 where a market is there more than once at one time, so that no sum over markets is right; else 0.0."""

_OF_A_MARKET = (*MARKET, "normalized_symbol", "category")


def across(table: Table[Any], by: str | Iterable[str] | None, *, without: Iterable[str] = ()) -> list[str]:
    """Return the columns that tell apart what is compared across markets: ``by``, or those that are of no market."""
    if by is None:
        return of_rows(table, without=(*_OF_A_MARKET, "timestamp", "price", *without))
    return table.series(by, without=("timestamp", *without))


def unlevelled(table: Table[Any], series: Iterable[str], *, used: Iterable[str] = ()) -> None:
    """Raise QueryError if the frame has a row for each price, and prices are not told apart."""
    if "price" in table.names and "price" not in {*series, *used}:
        raise QueryError(
            "by",
            got=list(series),
            expected="'price' among the columns: the frame has it, and so may have several rows per market",
            hint="add it to by, or drop the column",
        )


def twice(
    rows: nw.LazyFrame[Any],
    series: Iterable[str],
    *,
    members: Iterable[str] = MARKET,
    of_amounts: bool = False,
) -> tuple[nw.LazyFrame[Any], list[str]]:
    """Return the rows with `TWICE`, and the columns of texts that with ``timestamp`` name a member of a series.

    Amounts of different units do not add up. So ``of_amounts``, the rows have `MIXED`, and `TWICE` is 1 where it is.
    """
    series = list(series)
    rows, parts = matched(rows, [*series, *members])
    rows = repeated(rows, [*parts, "timestamp"])
    if not of_amounts:
        return rows, parts
    differ = nw.lit(value=False)
    if AMOUNT_UNIT in rows.collect_schema().names():
        unit, of_series = nw.col(f"__of_{AMOUNT_UNIT}"), [f"__of_{name}" for name in series]
        rows, _ = matched(rows, [*series, AMOUNT_UNIT])
        differ = unit.min().over("__of", *of_series) != unit.max().over("__of", *of_series)
    rows = rows.with_columns(nw.when(differ).then(1.0).otherwise(0.0).alias(MIXED))
    rows = rows.with_columns(nw.max_horizontal(TWICE, MIXED).alias(TWICE))
    return rows, parts


def repeated(rows: nw.LazyFrame[Any], key: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return the rows with ``__times``, how often each one's key is there, and `TWICE`."""
    rows = rows.with_columns(__times=nw.lit(1.0))
    rows = rows.with_columns(__times=nw.col("__times").sum().over(*key))
    return rows.with_columns(nw.when(nw.col("__times") > 1).then(1.0).otherwise(0.0).alias(TWICE))


def once(
    rows: nw.LazyFrame[Any],
    series: Iterable[str],
    *,
    members: Iterable[str] = MARKET,
    amounts: Iterable[str] = (),
) -> nw.LazyFrame[Any]:
    """Return one row per member, a market, series and time, with `TWICE`; which of several is any.

    Amounts of those are 0, lest they be those of any of them.
    """
    amounts = list(amounts)
    rows, parts = twice(rows, series, members=members, of_amounts=bool(amounts))
    rows = rows.unique(subset=[*parts, "timestamp"], keep="any")
    return rows.with_columns(
        nw.when(nw.col(TWICE) > 0).then(0.0).otherwise(nw.col(name)).alias(name) for name in amounts
    )


def finite(name: str) -> nw.Expr:
    """Return a column of numbers, null where it is not finite: what is no number is not known."""
    return nw.when(nw.col(name).is_finite()).then(nw.col(name)).alias(name)


def one_engine(table: Table[Any], other: Table[Any], parameter: str) -> None:
    """Raise QueryError unless two frames are of one engine, and in DuckDB of one connection: other rows cannot meet."""
    first, second = table.engine, other.engine
    if first is not second:
        raise QueryError(
            parameter, got=f"a frame of {second.value}", expected=f"a frame of {first.value}, like the first"
        )
    if first.is_duckdb() and not _is_one_connection(table.rows.to_native(), other.rows.to_native()):
        raise QueryError(
            parameter,
            got="a frame of another connection of DuckDB",
            expected="one of the connection of the first",
            hint="bring it over, e.g. with connection.from_arrow(frame.to_arrow_table())",
        )


def _is_one_connection(first: Any, second: Any) -> bool:
    """Return whether DuckDB joins two relations; nothing is read of them."""
    try:
        first.project("1 AS one").union(second.project("1 AS one"))
    except Exception as error:
        # Its own error, which has no name here where DuckDB need not be.
        if "connection" not in str(error):
            raise
        return False
    return True
