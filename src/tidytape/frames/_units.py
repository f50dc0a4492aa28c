"""What the amounts of a frame count and how high its levels are, where its columns say it.

A frame in memory that does not fit is refused. A lazy frame is not read: its values are null where it does not fit, so
that no result made of them is a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import QueryError
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable

AMOUNT_UNIT: Final = "amount_unit"
"""Column of what the amounts of a row count, COIN or USD."""

BLOCK_SIZE: Final = "block_size"
"""Column of the height of a row's level. [quote per coin]"""

_CALLED: Final = {AMOUNT_UNIT: "amount unit", BLOCK_SIZE: "block size"}


def of_one(
    table: OpenTable[IntoFrameT],
    column: str,
    keys: Sequence[str],
    values: Iterable[str],
    *,
    parameter: str = "frame",
) -> OpenTable[IntoFrameT]:
    """Return a table in which rows of the same keys have one amount unit, or one block size.

    Parameters
    ----------
    table : OpenTable
    column : str
        `AMOUNT_UNIT` or `BLOCK_SIZE`. Without the column nothing is checked. Null beside a value is another one.
    keys : sequence of str
        Columns of what is computed as one; if ``column`` is among them, nothing is checked.
    values : iterable of str
        Columns that a lazy frame has null where rows of the same keys differ.
    parameter : str
        What the caller calls the frame.

    Raises
    ------
    QueryError
        If rows of an eager frame differ.
    """
    if column not in table.names or column in keys:
        return table
    unit = nw.col(column).cast(nw.String)
    if table.is_eager and len(table.rows.select(unit).unique().collect()) <= 1:
        return table
    table, several = _checked(table, column, is_of_one(column, keys), dict.fromkeys([*values, column]))
    if several:
        got = f"{column} {' and '.join(sorted(map(str, several)))} in one series"
        hint = f"fetch all with one, or add {column!r} to by"
        raise QueryError(parameter, got=got, expected=f"one {_CALLED[column]} per series", hint=hint)
    return table


def _checked(
    table: OpenTable[IntoFrameT], column: str, fits: nw.Expr, values: Iterable[str]
) -> tuple[OpenTable[IntoFrameT], list[Any]]:
    """Return which values of a column do not fit, of an eager frame; a lazy one has null in ``values`` there."""
    if table.is_eager:
        return table, table.rows.filter(~fits).select(column).unique().collect()[column].to_list()
    known = [nw.when(fits).then(nw.col(name)).alias(name) for name in values]
    return replace(table, rows=table.rows.with_columns(known)), []


def is_of_one(column: str, keys: Sequence[str]) -> nw.Expr:
    """Return whether rows of the same keys have one amount unit, or one block size; null is one too."""
    value = nw.col(column).cast(nw.String).fill_null("")
    return within(value.min(), keys) == within(value.max(), keys)


def counting(
    table: OpenTable[IntoFrameT],
    unit: str,
    values: Iterable[str],
    *,
    parameter: str,
    expected: str,
    hint: str,
) -> OpenTable[IntoFrameT]:
    """Return a table whose amounts do not count another unit than ``unit``.

    Raises
    ------
    QueryError
        If some amounts of an eager frame do; a lazy frame has ``values`` null there.
    """
    if AMOUNT_UNIT not in table.names:
        return table
    own = nw.col(AMOUNT_UNIT).cast(nw.String)
    table, others = _checked(table, AMOUNT_UNIT, own.is_null() | (own == unit), values)
    if others:
        raise QueryError(parameter, got=f"amount_unit {others[0]}", expected=expected, hint=hint)
    return table


def on_blocks(
    table: OpenTable[IntoFrameT], step: Fraction, price: str, *, parameter: str, exactly: bool = False
) -> OpenTable[IntoFrameT]:
    """Return a table of levels that rows of the height ``step`` can be made of.

    The height must be a whole multiple of the column ``block_size``, or ``exactly`` it. What is null, not finite or not
    above 0 is not checked.

    Raises
    ------
    QueryError
        If it is none for some rows of an eager frame; a lazy frame has its prices null there.
    """
    if BLOCK_SIZE not in table.names or not table.schema[BLOCK_SIZE].is_numeric() or price not in table.names:
        return table
    if table.is_eager:
        sizes = table.rows.select(BLOCK_SIZE).unique().collect()[BLOCK_SIZE].drop_nulls().sort()
        for size in (size for size in sizes.to_list() if isfinite(size) and size > 0):
            ratio = step / Fraction(str(size))
            if ratio.denominator != 1 or (exactly and ratio != 1):
                own = f"{size:.12g}, the block_size of the levels"
                expected = own if exactly else f"a whole multiple of {own}"
                raise QueryError(parameter, got=float(step), expected=expected)
        return table
    height = nw.col(BLOCK_SIZE)
    blocks = float(step) / height
    whole = nw.lit(1.0) if exactly else (blocks + 0.5).floor()
    fits = (whole >= 1) & ((blocks - whole).abs() <= 1e-9 * whole)
    is_known = height.is_finite() & (height > 0)
    return _checked(table, BLOCK_SIZE, (~is_known | fits).fill_null(value=True), [price])[0]
