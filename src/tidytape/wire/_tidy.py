"""One tidy frame from the parts of a body, or from the frames of several answers.

A body is three tables, one inside the other: series, their points, the levels of the points. `Parts` are these tables.
An interval is final when it ends no later than the time up to which its market is known.

If the values of an unknown field are of different kinds, its column is text: strings as they are, other values as JSON.
This rule holds within a body, and across the pages of a list and the requests of a window. So the frame of a window
does not depend on how the window was cut into requests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.datatypes import DataTypeClass

from tidytape.catalogue import (
    DESCRIPTOR_FIELDS,
    IDENTITY_FIELDS,
    LEVEL_VOLUMES,
    AmountUnit,
    DataType,
    Field,
    Interval,
)
from tidytape.schema import LEVELS, wire_schema
from tidytape.times import INTERVALS, SECOND
from tidytape.wire._faults import Fault, check_cells
from tidytape.wire._sessions import IN_PROGRESS, block_in_progress, lengths, owners, regrouped, reserved_names
from tidytape.wire._text import join, value

Counts = npt.NDArray[np.int64]
Positions = npt.NDArray[np.uint32]

SERIES_FIELDS = (*IDENTITY_FIELDS, *DESCRIPTOR_FIELDS)
"""The fields of a series identifier, beside ``type``."""


@cache
def identity_columns(data_type: DataType) -> tuple[str, ...]:
    """Return the columns that identify the series of a row; the side of a book's row is not one of them."""
    names = wire_schema(data_type.name).names
    return tuple(
        field.column
        for field in IDENTITY_FIELDS
        if field.column in names and (field.column != "side" or data_type.per_side)
    )


@dataclass(frozen=True, slots=True)
class Levelled:
    """One array of levels over all points: ``counts`` per point, and one row of ``rows`` per level."""

    counts: Counts
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Parts:
    """A body as tables. Their columns have their final names, and may include columns that the schema does not know.

    Attributes
    ----------
    series : polars.DataFrame, one row per series
        The identity and the descriptors of each series.
    counts : array of int64, one per series
        How many points each series has.
    points : polars.DataFrame, one row per point, in the order of the body
        Scalar payload fields.
    levels : tuple of Levelled
        One per array of levels that the data type has, in the catalogue's order.
    """

    series: pl.DataFrame
    counts: Counts
    points: pl.DataFrame
    levels: tuple[Levelled, ...] = ()

    def with_zeros(self, data_type: DataType) -> Parts:
        """Return the parts with 0 for null in the fields that every point must have (`Field.plain`)."""

        def filled(rows: pl.DataFrame, fields: Sequence[Field]) -> pl.DataFrame:
            plain = [field.column for field in fields if field.plain and field.column in rows.columns]
            return rows.with_columns(pl.col(plain).fill_null(0.0))

        levels = zip(data_type.levels, self.levels, strict=True)
        return replace(
            self,
            points=filled(self.points, data_type.fields),
            levels=tuple(replace(part, rows=filled(part.rows, declared.fields)) for declared, part in levels),
        )

    def check(self, data_type: DataType, size: int) -> None:
        """Raise Fault if levels have other volumes, or the frame is out of proportion to a body of ``size``. [byte]"""
        tables = [self.series, self.points, *(levels.rows for levels in self.levels)]
        filled_columns = (c.name for table in tables for c in table.get_columns() if c.null_count() < len(c))
        columns = len({*wire_schema(data_type.name).names, *filled_columns})
        check_cells(self.series.height, columns, size)
        check_cells(self.points.height, columns, size)
        if not data_type.levels:
            return
        levels_per_point = np.sum([part.counts for part in self.levels], axis=0)
        if data_type.derives_volume and LEVEL_VOLUMES.column in self.points.columns:
            volumes = self.points[LEVEL_VOLUMES.column]
            volume_counts = lengths(volumes)
            for point in np.flatnonzero(
                volumes.is_not_null().to_numpy() & (volume_counts != levels_per_point)
            )[:1]:
                count = int(volume_counts[point])
                levels = f"{levels_per_point[point]} levels"
                raise Fault(f"{LEVEL_VOLUMES.name} has {count} values for {levels}", length=count)
        check_cells(int(levels_per_point.sum()), columns, size)

    def frame(self, data_type: DataType) -> pl.DataFrame:
        """Return the tidy frame: the schema's columns, then unknown columns, those of the innermost table first."""
        # Make categories here, once per series, because there are many more rows.
        names = [*identity_columns(data_type), "amount_unit", SESSION]
        series = with_known(self.series).with_columns(pl.col(names).cast(pl.Categorical()))
        # Drop unknown columns that hold only nulls, before they are repeated for every row.
        series = pl.DataFrame([c for c in series if c.name in _homes(data_type) or c.null_count() < len(c)])
        series_of_point = owners(self.counts)
        points = [("point", self.points), ("series", series[series_of_point])]
        if data_type.has_sessions:
            return _merged(data_type, [("levels", self._levels_in_column(data_type)), *points])
        if not data_type.level_rows:
            return _merged(data_type, points)
        levels, point_of_level = self._level_rows(data_type)
        tables = [
            ("level", levels),
            ("point", self._points(data_type)[point_of_level]),
            ("series", series[series_of_point[point_of_level]]),
        ]
        return _merged(data_type, tables)

    def _levels_in_column(self, data_type: DataType) -> pl.DataFrame:
        """Return the levels of each point as a list of its row."""
        (part,) = self.levels
        fields = [field.column for field in data_type.levels[0].fields]
        used_names = {*_homes(data_type), *fields, *reserved_names(data_type.name)}
        columns = {name: part.rows[name] for name in fields if name in part.rows.columns}
        for column in part.rows.get_columns():
            if column.name not in columns and column.null_count() < len(column):
                name = (
                    column.name if column.name in fields else _unused_name(column.name, "level", used_names)
                )
                columns[name] = column
                used_names.add(name)
        rows = pl.DataFrame([column.alias(name) for name, column in columns.items()])
        return pl.DataFrame([regrouped(rows.to_struct(LEVELS), part.counts)])

    def _level_rows(self, data_type: DataType) -> tuple[pl.DataFrame, Positions]:
        """Return the rows of all levels, grouped by point, and the position of the point that each row belongs to."""
        counts = np.sum([part.counts for part in self.levels], axis=0)
        point_of_level = owners(counts)
        tables = [
            part.rows
            if levels.book_side is None
            else part.rows.with_columns(pl.lit(levels.book_side.value, dtype=pl.Categorical()).alias("side"))
            for levels, part in zip(data_type.levels, self.levels, strict=True)
        ]
        if len(tables) == 1:
            (levels_of_points,) = tables
            if data_type.derives_volume:
                levels_of_points = self._with_volumes(levels_of_points, counts)
            return levels_of_points, point_of_level
        # Each table has one side of all points. Interleave them: the bids of each point come before its asks.
        order = np.empty(len(point_of_level), dtype=np.uint32)
        next_positions = counts.cumsum() - counts  # for each point, where its next level goes
        rows_placed = 0
        for part in self.levels:
            places = np.arange(part.rows.height)
            shifts = next_positions - (part.counts.cumsum() - part.counts)
            order[places + np.repeat(shifts, part.counts)] = places + rows_placed
            next_positions += part.counts
            rows_placed += part.rows.height
        return pl.concat(tables, how="diagonal_relaxed")[order], point_of_level

    def _points(self, data_type: DataType) -> pl.DataFrame:
        """Return the points without the volumes of their levels, which become a column of the levels."""
        return (
            self.points.drop(LEVEL_VOLUMES.column, strict=False) if data_type.derives_volume else self.points
        )

    def _with_volumes(self, levels: pl.DataFrame, counts: Counts) -> pl.DataFrame:
        """Add the volumes of levels, if points have them; ``counts`` is the number of levels of each point."""
        name = LEVEL_VOLUMES.column
        if name not in self.points.columns or self.points[name].null_count() == self.points.height:
            return levels
        volumes = self.points.select(name, counts=counts).filter(pl.col("counts") > 0)
        unknown = pl.lit(None, pl.Float64).repeat_by("counts")
        volume = volumes.select(pl.coalesce(name, unknown).explode()).to_series()
        return levels.with_columns(volume=pl.coalesce(pl.col("buy_volume") + pl.col("sell_volume"), volume))


@cache
def _homes(data_type: DataType) -> dict[str, str]:
    """Return the table that each column comes from: ``series``, ``point``, ``level`` or ``levels``.

    A column of ``client`` is in no body: `with_finality` computes it.
    """
    schema = wire_schema(data_type.name)
    homes = dict.fromkeys(schema.names, "level") | {IN_PROGRESS: "client"}
    homes |= {LEVELS: "levels"} if data_type.has_sessions else {}
    homes |= dict.fromkeys((field.column for field in data_type.fields), "point")
    homes |= dict.fromkeys((*identity_columns(data_type), *schema.descriptors, *OF_SERIES), "series")
    return homes


def _merged(data_type: DataType, tables: Sequence[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """Put tables with the same number of rows side by side; ``tables`` begins with the innermost one."""
    homes, identity = _homes(data_type), identity_columns(data_type)
    columns: dict[str, pl.Series] = {}
    extras: dict[str, pl.Series] = {}
    repeated: list[tuple[str, pl.Series]] = []
    for table_name, table in tables:
        for column in table.get_columns():
            name = column.name
            if homes.get(name) == table_name:
                columns[name] = column
            elif name in identity and column.dtype == pl.String:
                repeated.append((table_name, column))
            elif column.null_count() < len(column):
                extras[_unused_name(name, table_name, {*homes, *extras})] = column
    for table_name, column in repeated:
        name = column.name
        # The heatmap of one exchange names its coin in the payload, which fills the coin if the series has none.
        columns[name] = columns[name].zip_with(columns[name].is_not_null(), column.cast(columns[name].dtype))
        if (columns[name].cast(pl.String) != column).any():  # nulls are not compared
            extras[_unused_name(name, table_name, {*homes, *extras})] = column
    if "volume" in homes and "volume" not in columns:
        columns["volume"] = (
            columns["buy_volume"] + columns["sell_volume"]
        )  # the only derived column of a schema
    if "is_final" in homes:  # `with_finality` computes it
        columns["is_final"] = pl.Series("is_final", [None], pl.Boolean).new_from_index(0, tables[0][1].height)
    for name in OF_SERIES:
        if columns[name].null_count() == len(columns[name]):
            del columns[name]
    documented = [columns[name].alias(name) for name in homes if name in columns]
    return pl.DataFrame(documented + [column.alias(name) for name, column in extras.items()])


def _unused_name(name: str, table_name: str, used_names: set[str]) -> str:
    """Return an unused name for a column: its own name, or its name with the name of its table as a prefix."""
    while name in used_names:
        name = f"{table_name}_{name}"
    return name


DATA_UNTIL = "data_until"
"""Column of a decoded frame: the time up to which the row's market is known, if the service sent it."""

SESSION = "session"
"""Column of a decoded frame: when the row's market trades, if the service sent it."""

OF_SERIES = (DATA_UNTIL, SESSION)
"""Columns of a decoded frame that describe its series, are not in its schema, and are there only if they were sent."""

SENT_UNIT = "series_amount_unit"
"""Column of a decoded frame: the amount unit as the service sent it, if we do not know that unit."""

_UNITS = {None, *(unit.value for unit in AmountUnit)}
_EARLIEST = -(2**62)  # a length can be subtracted from it without leaving int64
_ALIASES = {interval.value: interval.alias for interval in Interval}


def with_known(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with null for unknown amount units, and for block sizes that are not positive numbers.

    Intervals that the service sends by name, such as ``HOUR``, get the name that a query has for them, ``1h``.

    If there are unknown units, the frame also has the column `SENT_UNIT` with them, as the service sent them.
    """
    changes: list[pl.Expr] = []
    if "block_size" in frame.columns:
        size = pl.col("block_size")
        changes.append(pl.when(size.is_finite() & (size > 0)).then(size))
    if "interval" in frame.columns and not _ALIASES.keys().isdisjoint(distinct(frame["interval"])):
        changes.append(pl.col("interval").cast(pl.String).replace(_ALIASES).cast(frame.schema["interval"]))
    frame = frame.with_columns(changes) if changes else frame
    if "amount_unit" not in frame.columns or _UNITS.issuperset(distinct(frame["amount_unit"])):
        return frame
    unit = pl.col("amount_unit").cast(pl.String)
    is_known = unit.is_in([amount.value for amount in AmountUnit])
    unknown_units = frame.select(pl.when(~is_known & (unit != "")).then(unit).alias(SENT_UNIT)).to_series()
    frame = frame.with_columns(pl.when(is_known).then("amount_unit"))
    return frame if unknown_units.null_count() == len(unknown_units) else frame.with_columns(unknown_units)


def distinct(column: pl.Series) -> list[str | None]:
    """Return the different values of a column, ten times as fast as `unique`, which starts the engine of polars."""
    return column.value_counts().to_series().to_list()


def finality(columns: Collection[str], *, until: pl.Expr, length: pl.Expr) -> pl.Expr:
    """Return whether the interval of each row is final.

    Parameters
    ----------
    columns : collection of str
        Columns of the frame. The interval ends at ``period_end`` if that is known, else ``length`` after ``timestamp``.
    until : polars expression, timestamp
        Time up to which the market is known.
    length : polars expression, int64
        Length of the interval. [ns]

    Returns
    -------
    polars expression, bool
        Null if the end of the interval or ``until`` is null.
    """
    has_ended = (
        pl.col("timestamp").dt.epoch("ns") <= until.dt.epoch("ns").clip(lower_bound=_EARLIEST) - length
    )
    if "period_end" in columns:
        has_ended = pl.coalesce(pl.col("period_end") <= until, has_ended)
    return has_ended.alias("is_final")


def epoch_nanoseconds(times: pl.Series) -> npt.NDArray[np.int64]:
    """Return times, of which none is null, as ns since the epoch. `to_physical` would start the engine of polars.

    Examples
    --------
    >>> epoch_nanoseconds(pl.Series([60_000_000_000]).cast(pl.Datetime("ns", "UTC")))
    array([60000000000])
    """
    return times.to_numpy().view(np.int64)


def newest_final(interval: str, until: Any) -> Any:
    """Return the newest start of an interval that is final; times, numbers or arrays, in ns since the epoch."""
    return np.maximum(until, _EARLIEST) - INTERVALS[interval].seconds * SECOND


def with_series(frame: pl.DataFrame, *columns: pl.Series) -> pl.DataFrame:
    """Return a frame with columns added or replaced, as ``with_columns`` does, in a tenth of its time."""
    frame = frame.clone()
    for column in columns:
        if column.name in frame.columns:
            frame.replace_column(frame.get_column_index(column.name), column)
        else:
            frame.insert_column(frame.width, column)
    return frame


def with_finality(frame: pl.DataFrame, data_type: str) -> pl.DataFrame:
    """Compute ``is_final`` of a decoded frame, if the service sent the times up to which its markets are known."""
    schema = wire_schema(data_type)
    if DATA_UNTIL not in frame.columns or "is_final" not in schema.names:
        return frame
    length: pl.Expr = pl.lit(None, pl.Int64)
    if "period_end" not in schema.names:  # a session may be longer than the interval
        names = distinct(frame["interval"])
        until = frame[DATA_UNTIL]
        if len(names) == 1 and names[0] in INTERVALS and not until.null_count():
            # Use numpy: for a small answer, starting the engine of polars takes longer than the computation.
            known_until = newest_final(names[0], epoch_nanoseconds(until))
            return with_series(
                frame, pl.Series("is_final", epoch_nanoseconds(frame["timestamp"]) <= known_until)
            )
        for name in INTERVALS.keys() & set(names):
            nanoseconds = pl.lit(INTERVALS[name].seconds * SECOND)
            length = (
                nanoseconds if len(names) == 1 else pl.when(interval=name).then(nanoseconds).otherwise(length)
            )
    frame = frame.with_columns(finality(frame.columns, until=pl.col(DATA_UNTIL), length=length))
    return frame.with_columns(block_in_progress(pl.col(DATA_UNTIL))) if LEVELS in frame.columns else frame


_DType = pl.DataType | DataTypeClass


def concatenated(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Put decoded frames one below the other; a column of different kinds becomes text.

    Parameters
    ----------
    frames : sequence of polars.DataFrame
        At least one, of one schema; their unknown columns may differ.

    Returns
    -------
    polars.DataFrame, all rows
        A column that a frame lacks is null in the frame's rows.

    Examples
    --------
    >>> frames = [pl.DataFrame({"x": values}) for values in ([1, None], ["a"], [[1, 2]], [{"y": True}])]
    >>> concatenated(frames)["x"].to_list()
    ['1', None, 'a', '[1,2]', '{"y":true}']
    """
    if len(frames) == 1:
        return frames[0]
    dtypes: dict[str, list[pl.DataType]] = {}
    for frame in frames:
        for name, dtype in frame.schema.items():
            if dtype not in dtypes.setdefault(name, []):
                dtypes[name].append(dtype)
    mixed_columns = {
        name for name, kinds in dtypes.items() if not all(_agree(*pair) for pair in combinations(kinds, 2))
    }
    agreeing_frames = [
        frame.with_columns(_as_text(frame[name]) for name in frame.columns if name in mixed_columns)
        for frame in frames
    ]
    return pl.concat(agreeing_frames, how="diagonal_relaxed")


def fitted(column: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return a column as another dtype, or None if the cast would change its values.

    Examples
    --------
    >>> fitted(pl.Series("x", [1]), pl.Float64()).to_list(), fitted(pl.Series("x", [1]), pl.String()).to_list()
    ([1.0], ['1'])
    >>> fitted(pl.Series("x", [0.5]), pl.Int64())
    """
    if column.dtype == dtype:
        return column
    if dtype == pl.String:
        return _as_text(column)
    if not _agree(column.dtype, dtype):
        return None
    empty = pl.DataFrame({column.name: pl.Series(dtype=dtype)})
    converted = pl.concat([empty, column.to_frame()], how="vertical_relaxed")[column.name]
    return converted if converted.dtype == dtype else None


def _agree(first: _DType, second: _DType) -> bool:
    """Return whether one column can hold the values of two dtypes unchanged."""
    if first == second or pl.Null in (first, second):
        return True
    # Prediction markets are a list of structs, whose unknown fields may differ.
    if isinstance(first, pl.List) and isinstance(second, pl.List):
        return _agree(first.inner, second.inner)
    if isinstance(first, pl.Struct) and isinstance(second, pl.Struct):
        others = {field.name: field.dtype for field in second.fields}
        return all(_agree(field.dtype, others.get(field.name, field.dtype)) for field in first.fields)
    if first.is_numeric() and second.is_numeric():
        # No integer type holds both, and a double would round them.
        return not (
            pl.UInt64 in (first, second) and (first.is_signed_integer() or second.is_signed_integer())
        )
    texts = (pl.String, pl.Categorical, pl.Enum)
    return first in texts and second in texts


def _as_text(column: pl.Series) -> pl.Series:
    """Return strings as they are, and other values as JSON."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return column.cast(pl.String)
    text = join(*value(column.alias("value")), ignore_nulls=False)
    return column.alias("value").to_frame().select(text).to_series().alias(column.name)
