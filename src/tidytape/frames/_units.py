"""Checks of what amounts count (``amount_unit``) and how high levels are (``block_size``), if columns say so.

A frame in memory that breaks a rule is refused. A lazy frame is not read: its values become null where they break the
rule, so that results computed from them are null, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import AmountUnit
from tidytape.errors import QueryError
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable

AMOUNT_UNIT: Final = "amount_unit"
"""Column that says what the amounts of a row count, COIN or USD."""

BLOCK_SIZE: Final = "block_size"
"""Column of the height of a row's level. [quote per coin]"""

_NOUNS: Final = {AMOUNT_UNIT: "amount unit per series, COIN or USD", BLOCK_SIZE: "block size per series"}


def require_one_unit(
    table: OpenTable[IntoFrameT],
    column: str,
    keys: Sequence[str],
    values: Iterable[str],
    *,
    parameter: str = "frame",
) -> OpenTable[IntoFrameT]:
    """Refuse a frame whose rows of the same keys have several amount units, or block sizes; return the table.

    Parameters
    ----------
    table : OpenTable
    column : str
        `AMOUNT_UNIT` or `BLOCK_SIZE`. A frame without the column is not checked. Null counts as a unit of its own.
    keys : sequence of str
        Columns whose rows are computed together; if ``column`` is among them, nothing is checked.
    values : iterable of str
        Columns that become null in a lazy frame where rows of the same keys differ.
    parameter : str
        The caller's name of the frame.

    Raises
    ------
    QueryError
        If rows of an eager frame differ.
    """
    if column not in table.names or column in keys:
        return table
    unit = nw.col(column).cast(nw.String)
    units = {*table.rows.select(unit).unique().collect()[column].to_list()} if table.is_eager else None
    if units is not None and len(units) <= 1 and (column == BLOCK_SIZE or units <= {None, *AmountUnit}):
        return table
    table, mixed_values = _checked(
        table, column, has_one_unit(column, keys), dict.fromkeys([*values, column])
    )
    if mixed_values:
        values_in_series = f"{column} {' and '.join(sorted(map(str, mixed_values)))} in one series"
        raise QueryError(
            parameter,
            got=values_in_series,
            expected=f"one {_NOUNS[column]}",
            hint=f"fetch all with one, or add {column!r} to by",
        )
    return table


def _checked(
    table: OpenTable[IntoFrameT], column: str, is_valid: nw.Expr, values: Iterable[str]
) -> tuple[OpenTable[IntoFrameT], list[Any]]:
    """Return the table, and an eager frame's invalid values of ``column``; a lazy frame gets null ``values`` there."""
    if table.is_eager:
        return table, table.rows.filter(~is_valid).select(column).unique().collect()[column].to_list()
    valid_values = [nw.when(is_valid).then(nw.col(name)).alias(name) for name in values]
    return replace(table, rows=table.rows.with_columns(valid_values)), []


def has_one_unit(column: str, keys: Sequence[str]) -> nw.Expr:
    """Return whether rows of the same keys have one amount unit, COIN or USD, or one block size; null counts as one."""
    value = nw.col(column).cast(nw.String).fill_null("")
    least = within(value.min(), keys)
    has_one = least == within(value.max(), keys)
    return has_one & least.is_in(["", *AmountUnit]) if column == AMOUNT_UNIT else has_one


def require_unit(
    table: OpenTable[IntoFrameT],
    unit: str,
    values: Iterable[str],
    *,
    parameter: str,
    expected: str,
    hint: str,
) -> OpenTable[IntoFrameT]:
    """Refuse a frame whose amounts count another unit than ``unit``; return the table.

    Raises
    ------
    QueryError
        If amounts of an eager frame count another unit; in a lazy frame ``values`` become null there.
    """
    if AMOUNT_UNIT not in table.names:
        return table
    unit_column = nw.col(AMOUNT_UNIT).cast(nw.String)
    table, others = _checked(table, AMOUNT_UNIT, unit_column.is_null() | (unit_column == unit), values)
    if others:
        raise QueryError(parameter, got=f"amount_unit {others[0]}", expected=expected, hint=hint)
    return table


def require_blocks(
    table: OpenTable[IntoFrameT], step: Fraction, price: str, *, parameter: str, exactly: bool = False
) -> OpenTable[IntoFrameT]:
    """Refuse levels that cannot be added up to rows of the height ``step``; return the table.

    ``step`` must be a whole multiple of the column ``block_size``, or with ``exactly`` equal it. Block sizes that are
    null, not finite or not above 0 are not checked.

    Raises
    ------
    QueryError
        If a block size of an eager frame does not fit; in a lazy frame prices become null there.
    """
    if BLOCK_SIZE not in table.names or not table.schema[BLOCK_SIZE].is_numeric() or price not in table.names:
        return table
    if table.is_eager:
        sizes = table.rows.select(BLOCK_SIZE).unique().collect()[BLOCK_SIZE].drop_nulls().sort()
        for size in (size for size in sizes.to_list() if isfinite(size) and size > 0):
            ratio = step / Fraction(str(size))
            if ratio.denominator != 1 or (exactly and ratio != 1):
                expected_height_text = f"{size:.12g}, the block_size of the levels"
                expected = expected_height_text if exactly else f"a whole multiple of {expected_height_text}"
                raise QueryError(parameter, got=float(step), expected=expected)
        return table
    height = nw.col(BLOCK_SIZE)
    blocks = float(step) / height
    nearest = nw.lit(1.0) if exactly else (blocks + 0.5).floor()
    is_valid = (nearest >= 1) & ((blocks - nearest).abs() <= 1e-9 * nearest)
    is_known = height.is_finite() & (height > 0)
    return _checked(table, BLOCK_SIZE, (~is_known | is_valid).fill_null(value=True), [price])[0]
