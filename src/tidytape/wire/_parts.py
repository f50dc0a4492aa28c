"""What both lanes of the decoder make of a body, and how that becomes one tidy frame.

A body is three tables, one inside the other: series, their points, the levels of the points. The lanes differ
in how they get there; from here on there is one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidytape.catalogue import DESCRIPTOR_FIELDS, IDENTITY_FIELDS, DataType, Field
from tidytape.schema import column_name, schema_of
from tidytape.wire._bounds import check_cells, check_repeated
from tidytape.wire.final import DATA_UNTIL, with_known

Counts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]

SERIES_FIELDS = (*IDENTITY_FIELDS, *DESCRIPTOR_FIELDS)
"""The fields of a series identifier, beside ``type``."""

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

    def with_zeros(self, kind: DataType) -> Parts:
        """Return the parts with 0 for null in the fields that every point must have (`Field.plain`)."""

        def filled(rows: pl.DataFrame, fields: Sequence[Field]) -> pl.DataFrame:
            plain = [field.column for field in fields if field.plain and field.column in rows.columns]
            return rows.with_columns(pl.col(plain).fill_null(0.0))

        levels = zip(kind.levels, self.levels, strict=True)
        return replace(
            self,
            points=filled(self.points, kind.fields),
            levels=tuple(replace(one, rows=filled(one.rows, own.fields)) for own, one in levels),
        )

    def check(self, kind: DataType, size: int) -> None:
        """Raise Fault if the frame would be out of proportion to a body of this size. [byte]"""
        tables = [self.series, self.points, *(levels.rows for levels in self.levels)]
        filled = (c.name for table in tables for c in table.get_columns() if c.null_count() < len(c))
        names = {*schema_of(kind.name).names, *filled}
        rows = sum(levels.rows.height for levels in self.levels) if kind.levels else self.points.height
        check_cells(rows, len(names), size)
        if kind.levels:
            levels = np.sum([part.counts for part in self.levels], axis=0)
            lists = [c for c in self.points.get_columns() if c.dtype == pl.List]
            check_repeated(sum(int((_lengths(column) * levels).sum()) for column in lists))

    def frame(self, kind: DataType) -> pl.DataFrame:
        """Return the tidy frame: the schema's columns, then unknown ones, the innermost table first."""
        # Categories are made here, once per series and not once per row.
        names = [*identity_columns(kind), "amount_unit"]
        series = with_known(self.series).with_columns(pl.col(names).cast(pl.Categorical()))
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


def _lengths(lists: pl.Series) -> Counts:
    """Return how many values each list of a column has."""
    # Methods of a list look the column up by its name, and take "^open$" for a pattern.
    return lists.alias("lists").list.len().fill_null(0).cast(pl.Int64).to_numpy()


def _owners(counts: Counts) -> Rows:
    """Return for each thing the position of what it belongs to, which has so many."""
    return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)


@cache
def _homes(kind: DataType) -> dict[str, str]:
    """Return which table each column of the schema comes from."""
    schema = schema_of(kind.name)
    homes = dict.fromkeys(schema.names, "level")
    homes |= dict.fromkeys((field.column for field in kind.fields), "point")
    homes |= dict.fromkeys((*identity_columns(kind), *schema.descriptors, DATA_UNTIL), "series")
    return homes


def _merged(kind: DataType, tables: Sequence[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """Put tables of equally many rows, innermost first, side by side."""
    homes, identity = _homes(kind), identity_columns(kind)
    known: dict[str, pl.Series] = {}
    extras: dict[str, pl.Series] = {}
    repeated: list[tuple[str, pl.Series]] = []
    for place, table in tables:
        for column in table.get_columns():
            name = column.name
            if homes.get(name) == place:
                known[name] = column
            elif name in identity and column.dtype == pl.String:
                repeated.append((place, column))
            elif column.null_count() < len(column):
                extras[_free(name, place, {*homes, *extras})] = column
    for place, column in repeated:
        name = column.name
        # The single-venue heatmap names its coin in the payload: it fills in where the series names none.
        known[name] = known[name].zip_with(known[name].is_not_null(), column.cast(known[name].dtype))
        if (known[name].cast(pl.String) != column).any():  # nulls are not compared
            extras[_free(name, place, {*homes, *extras})] = column
    if "volume" in homes and "volume" not in known:
        known["volume"] = known["buy_volume"] + known["sell_volume"]  # the schema's one derived column
    if "is_final" in homes:  # it follows from what was sent, see `with_finality`
        known["is_final"] = pl.Series("is_final", [None], pl.Boolean).new_from_index(0, tables[0][1].height)
    if known[DATA_UNTIL].null_count() == len(known[DATA_UNTIL]):
        del known[DATA_UNTIL]
    columns = [known[name].alias(name) for name in homes if name in known]
    return pl.DataFrame(columns + [column.alias(name) for name, column in extras.items()])


def _free(name: str, place: str, taken: set[str]) -> str:
    """Return a name for a column that no other has: the name itself, or with the place it comes from before it."""
    while name in taken:
        name = f"{place}_{name}"
    return name
