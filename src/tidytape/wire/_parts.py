"""What both lanes of the decoder make of a body, and how that becomes one tidy frame.

A body is three tables, one inside the other: series, their points, the levels of the points. The lanes differ
in how they get there; from here on there is one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidytape.catalogue import IDENTITY_FIELDS, DataType
from tidytape.schema import column_name, schema_of
from tidytape.wire._bounds import check_cells

__all__ = [
    "MOST_NESTING",
    "Counts",
    "Levelled",
    "Parts",
    "has_empty_struct",
    "identity_columns",
    "unknown_column",
]

Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]

MOST_NESTING = 16
"""How deep an unknown field may nest and still be kept as lists and structs."""


@cache
def identity_columns(kind: DataType) -> tuple[str, ...]:
    """Return the columns that say which series a row belongs to; the side of a book row is not one."""
    names = schema_of(kind.name).names
    return tuple(
        field.column
        for field in IDENTITY_FIELDS
        if field.column in names and (field.column != "side" or kind.per_side)
    )


def unknown_column(name: str) -> str:
    """Return the column of a field the catalogue does not know."""
    # Names go through C, where a zero byte ends them, and an empty one would be replaced by a position.
    return column_name(name).replace("\0", "\ufffd") or "_"


def has_empty_struct(dtype: Any) -> bool:
    """Return whether a type of Arrow has structs without fields, which neither Parquet nor polars' joins can hold."""
    inner = [dtype.field(place).type for place in range(dtype.num_fields)]
    return (pa.types.is_struct(dtype) and not inner) or any(map(has_empty_struct, inner))


@dataclass(frozen=True, slots=True)
class Levelled:
    """One array of levels over all points: ``counts`` per point, and one row of ``rows`` per level."""

    counts: Counts
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Parts:
    """A body as tables whose columns have their final names; columns the schema does not know are among them.

    Attributes
    ----------
    series : polars.DataFrame, one row per series
        Identity.
    counts : array of int64, one per series
        How many points it has.
    points : polars.DataFrame, one row per point, in the order of the body
        Scalar payload fields.
    levels : tuple of Levelled
        One per array of levels that the data type has, in the catalogue's order.
    """

    series: pl.DataFrame
    counts: Counts
    points: pl.DataFrame
    levels: tuple[Levelled, ...] = ()

    def check(self, kind: DataType, size: int) -> None:
        """Raise Fault if the frame would be out of proportion to a body of this size. [byte]"""
        tables = [self.series, self.points, *(levels.rows for levels in self.levels)]
        filled = (c.name for table in tables for c in table.get_columns() if c.null_count() < len(c))
        names = {*schema_of(kind.name).names, *filled}
        rows = sum(levels.rows.height for levels in self.levels) if kind.levels else self.points.height
        check_cells(rows, len(names), size)

    def frame(self, kind: DataType) -> pl.DataFrame:
        """Return the tidy frame: the schema's columns, then unknown ones, the innermost table first."""
        # Categories are made here, once per series and not once per row.
        series = self.series.with_columns(pl.col(identity_columns(kind)).cast(pl.Categorical()))
        # Columns of nothing are left out while they are short.
        series = pl.DataFrame([c for c in series if c.name in _homes(kind) or c.null_count() < len(c)])
        owner = _owners(self.counts)
        if not kind.levels:
            return _merged(kind, [("point", self.points), ("series", series[owner])])
        levels, point = self._level_rows(kind)
        tables = [("level", levels), ("point", self.points[point]), ("series", series[owner[point]])]
        return _merged(kind, tables)

    def _level_rows(self, kind: DataType) -> tuple[pl.DataFrame, Rows]:
        """Return the rows of all levels, those of a point together, and the position of the point of each."""
        counts = np.sum([part.counts for part in self.levels], axis=0)
        owner = _owners(counts)
        tables = [
            part.rows
            if levels.book_side is None
            else part.rows.with_columns(pl.lit(levels.book_side.value, dtype=pl.Categorical()).alias("side"))
            for levels, part in zip(kind.levels, self.levels, strict=True)
        ]
        if len(tables) == 1:
            return tables[0], owner
        # Within a point the arrays keep the catalogue's order, bids before asks.
        order = np.empty(len(owner), dtype=np.uint32)
        start, seen = counts.cumsum() - counts, 0
        for part in self.levels:
            place = np.arange(part.rows.height)
            shift = start - (part.counts.cumsum() - part.counts)
            order[place + np.repeat(shift, part.counts)] = place + seen
            start, seen = start + part.counts, seen + part.rows.height
        return pl.concat(tables, how="diagonal_relaxed")[order], owner


def _owners(counts: Counts) -> Rows:
    """Return for each thing the position of what it belongs to, which has so many."""
    return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)


@cache
def _homes(kind: DataType) -> dict[str, str]:
    """Return which table each column of the schema comes from."""
    homes = dict.fromkeys(schema_of(kind.name).names, "level")
    homes |= dict.fromkeys((field.column for field in kind.fields), "point")
    return homes | dict.fromkeys(identity_columns(kind), "series")


def _merged(kind: DataType, tables: Sequence[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """Put tables of equally many rows, innermost first, side by side."""
    homes, dtypes, identity = _homes(kind), schema_of(kind.name).polars(), identity_columns(kind)
    known: dict[str, pl.Series] = {}
    extras: dict[str, pl.Series] = {}
    for place, table in tables:
        for column in table.get_columns():
            name = column.name
            if homes.get(name) == place:
                inner = known.get(name)
                known[name] = column if inner is None else inner.zip_with(inner.is_not_null(), column)
            elif name in identity and column.dtype == pl.String:
                # A payload that names its own coin; the series fills in where it does not.
                known.setdefault(name, column.cast(dtypes[name]))
            elif column.null_count() < len(column):
                while name in homes or name in extras:
                    name = f"{place}_{name}"
                extras[name] = column.alias(name)
    if "volume" in homes and "volume" not in known:
        known["volume"] = known["buy_volume"] + known["sell_volume"]  # the schema's one derived column
    return pl.DataFrame([known[name].alias(name) for name in homes] + list(extras.values()))
