"""What the amounts of a frame count and how high its levels are, where its columns say it.

A frame in memory that does not fit is refused. A lazy frame is not read: its values are null where it does not fit, so
that no result made of them is a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import QueryError
from tidytape.frames.ordered import within
from tidytape.frames.table import Table

AMOUNT_UNIT: Final = "amount_unit"
"""Column of what the amounts of a row count, COIN or USD."""

BLOCK_SIZE: Final = "block_size"
"""Column of the height of a row's level. [quote per coin]"""

_CALLED: Final = {AMOUNT_UNIT: "amount unit", BLOCK_SIZE: "block size"}


def of_one(
    table: Table[IntoFrameT],
    column: str,
    keys: Sequence[str],
    values: Iterable[str],
    *,
    parameter: str = "frame",
) -> Table[IntoFrameT]:
    """Return a table in which rows of the same keys have one amount unit, or one block size.

    Parameters
    ----------
    table : Table
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
    own = nw.col(column).cast(nw.String)
    if table.is_eager:
        found = table.rows.select(own).unique().collect()[column].to_list()
        if len(found) > 1:
            of_keys = table.rows.select(*keys, own).unique().collect()
            if len(of_keys) > (len(of_keys.select(*keys).unique()) if keys else 1):
                got = f"{column} {' and '.join(sorted(str(value) for value in found))} in one series"
                hint = f"fetch all with one, or add {column!r} to by"
                raise QueryError(parameter, got=got, expected=f"one {_CALLED[column]} per series", hint=hint)
        return table
    is_one = is_of_one(column, keys)
    known = [nw.when(is_one).then(nw.col(name)).alias(name) for name in dict.fromkeys([*values, column])]
    return replace(table, rows=table.rows.with_columns(known))


def is_of_one(column: str, keys: Sequence[str]) -> nw.Expr:
    """Return whether rows of the same keys have one amount unit, or one block size; null is one too."""
    value = nw.col(column).cast(nw.String).fill_null("")
    return within(value.min(), keys) == within(value.max(), keys)


def counting(
    table: Table[IntoFrameT], unit: str, values: Iterable[str], *, parameter: str, expected: str, hint: str
) -> Table[IntoFrameT]:
    """Return a table whose amounts do not count another unit than ``unit``.

    Raises
    ------
    QueryError
        If some amounts of an eager frame do; a lazy frame has ``values`` null there.
    """
    if AMOUNT_UNIT not in table.names:
        return table
    own = nw.col(AMOUNT_UNIT).cast(nw.String)
    is_other = (~own.is_null() & (own != unit)).fill_null(value=False)
    if table.is_eager:
        others = table.rows.filter(is_other).select(own).unique().collect()[AMOUNT_UNIT].to_list()
        if others:
            raise QueryError(parameter, got=f"amount_unit {others[0]}", expected=expected, hint=hint)
        return table
    known = [nw.when(~is_other).then(nw.col(name)).alias(name) for name in values]
    return replace(table, rows=table.rows.with_columns(known))


def on_blocks(
    table: Table[IntoFrameT], step: Fraction, price: str, *, parameter: str, exactly: bool = False
) -> Table[IntoFrameT]:
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
        sizes = table.rows.select(BLOCK_SIZE).unique().collect()[BLOCK_SIZE].drop_nulls().sort().to_list()
        for size in sizes:
            if not (isfinite(size) and size > 0):
                continue
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
    known = nw.when((~is_known | fits).fill_null(value=True)).then(nw.col(price))
    return replace(table, rows=table.rows.with_columns(known.alias(price)))
