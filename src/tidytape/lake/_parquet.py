"""Write rows as the Parquet files of a Delta table, in the order of time and in bounded memory (ADR 11).

The writer of delta-rs puts the batches of a stream into a file in no order, but readers can skip by time only in a file
that is in order. Here a row group is written as soon as no later part of a batch can have a row that belongs before it.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from tidytape.lake._batch import Part
from tidytape.lake._quotes import without_products
from tidytape.lake._tables import ROW_GROUP, Table
from tidytape.times import MILLISECOND

_FILE = 32 * ROW_GROUP
_WAITING = 8 * ROW_GROUP
"""Rows of all partitions that may wait to be sorted with later rows; if more wait, a partition is cut into files."""

_OPEN = 128
"""Most files that are open at once; a day of a thousand markets needs a thousand files. [files]"""

_LONGEST = 256
"""The log leaves out a bound that is a longer text, so readers do not skip files by it. [characters]"""

_LAST_PLANE = "\U00100000"  # first character of the last Unicode plane


def filesystem(uri: str, options: Mapping[str, str] | None) -> pyarrow.fs.FileSystem:
    """Return the folder of a table as delta-rs reaches it, local or in an object store."""
    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(uri, dict(options) if options else None))


def write_parts(
    parts: Sequence[Part], delta: DeltaTable, table: Table, files: pyarrow.fs.FileSystem
) -> list[AddAction]:
    """Write the parts of a batch as new files, which belong to no version until they are committed.

    Parameters
    ----------
    parts : sequence of Part
        The rows, in any order.
    delta : DeltaTable
        The table as it is stored.
    table : Table
        The table as this release knows it.
    files : pyarrow.fs.FileSystem
        The table's folder.

    Returns
    -------
    list of AddAction
        One per file. The rows of a file are in the table's order, in row groups of at most `ROW_GROUP` rows.
    """
    schema = pa.schema(delta.schema().to_arrow())
    writers: dict[tuple[Any, ...], _PartitionWriter] = {}
    with _removed_on_failure(files, writers) as actions:
        # Sorted by first time, so that no row of a later part is earlier than the first row of the next part.
        ordered = sorted(parts, key=lambda part: part.first)
        for part, following in zip_longest(ordered, ordered[1:]):
            for names, rows in _by_partition(part, table):
                if names not in writers:
                    values = dict(zip(table.partitions, names, strict=True))
                    writers[names] = _PartitionWriter(values, table, schema, files, actions)
                writers[names].add(rows)
            if following is not None:
                for writer in writers.values():
                    writer.write_before(following.first)
                _make_room(list(writers.values()))
        for writer in writers.values():
            writer.write_all()
            writer.end_file()
    return actions


def write_sorted(
    frames: Iterable[pl.DataFrame],
    values: Mapping[str, str],
    delta: DeltaTable,
    table: Table,
    files: pyarrow.fs.FileSystem,
    *,
    target: float,
) -> list[AddAction]:
    """Write rows of one partition that the table has already into new files.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        The rows, in the table's order, with every stored column.
    values : mapping of str to str
        The partition: value by column.
    delta, table, files
        See `write_parts`.
    target : float
        A file that reaches this size is closed. [bytes]

    Returns
    -------
    list of AddAction
        One per file.
    """
    schema = pa.schema(delta.schema().to_arrow())
    writers: dict[tuple[Any, ...], _PartitionWriter] = {}
    with _removed_on_failure(files, writers) as actions:
        writer = _PartitionWriter(values, table, schema, files, actions, target=target)
        writers[()] = writer
        for frame in frames:
            writer.write(frame.drop(values.keys()))
        writer.end_file()
    return actions


def remove(actions: Iterable[AddAction], files: pyarrow.fs.FileSystem) -> None:
    """Remove files that were not committed; a file that cannot be removed is harmless, and a vacuum deletes it."""
    for action in actions:
        try:
            files.delete_file(action.path)
        except OSError:
            continue


@contextmanager
def _removed_on_failure(
    files: pyarrow.fs.FileSystem, writers: Mapping[Any, _PartitionWriter]
) -> Iterator[list[AddAction]]:
    """Yield the list for the new files; if writing fails, remove them and the files that are still open."""
    actions: list[AddAction] = []
    try:
        yield actions
    except BaseException:
        for writer in writers.values():
            writer.abandon()
        remove(actions, files)
        raise


def _make_room(writers: list[_PartitionWriter]) -> None:
    """Write waiting rows until few enough wait, and close the longest file if too many are open."""
    rows_waiting = sum(writer.waiting for writer in writers)
    for writer in sorted(writers, key=lambda writer: writer.waiting, reverse=True):
        if rows_waiting <= _WAITING:
            break
        rows_waiting -= writer.waiting
        writer.write_all()
        if len([other for other in writers if other.rows_in_file]) > _OPEN:
            max(writers, key=lambda other: other.rows_in_file).end_file()


def _by_partition(part: Part, table: Table) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    frame = part.frame().select(table.names)
    if len(part.markets) == 1:
        yield next(iter(part.markets)), frame.drop(table.partitions)
        return
    yield from frame.partition_by(table.partitions, as_dict=True, include_key=False).items()


class _PartitionWriter:
    """Writes the rows of one partition into files. With a ``target`` size it rewrites rows, which come sorted."""

    def __init__(
        self,
        values: Mapping[str, str],
        table: Table,
        schema: pa.Schema,
        files: pyarrow.fs.FileSystem,
        actions: list[AddAction],
        *,
        target: float | None = None,
    ) -> None:
        self.waiting = 0
        self._values = values
        self._table = table
        self._schema = schema
        self._files = files
        self._actions = actions
        self._target = target
        self._order = [name for name in table.order if name not in table.partitions]
        self._group = min(table.row_group, ROW_GROUP)
        self._rows: list[pl.DataFrame] = []
        self._floor: int | None = None  # a row at or before this time goes into the next file
        self._file: _File | None = None

    @property
    def rows_in_file(self) -> int:
        """Rows of the open file; 0 if no file is open."""
        return 0 if self._file is None else self._file.rows

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows in any order; they wait to be sorted with others."""
        self._rows.append(rows)
        self.waiting += rows.height

    def write_before(self, time: int) -> None:
        """Write complete row groups of the rows before ``time``, when the earliest later part begins."""
        if self.waiting < self._group:
            return
        rows = self._sorted()
        earlier_count = rows["timestamp"].search_sorted(time)
        self._take(rows, earlier_count - earlier_count % self._group)

    def write_all(self) -> None:
        """Write every waiting row; a later row that belongs before the last of them goes into another file."""
        rows = self._sorted()
        self._take(rows, rows.height)
        self._floor = rows["timestamp"][-1] if rows.height else self._floor

    def write(self, rows: pl.DataFrame) -> None:
        """Write sorted rows, row group by row group."""
        stored_rows = without_products(rows, self._table, self._schema.names)
        for group in stored_rows.iter_slices(self._group):
            if self._floor is not None and group["timestamp"][0] <= self._floor:
                self.end_file()
            if self._file is None:
                is_new = self._target is None
                self._file = _File(self._values, group, self._table, self._schema, self._files, is_new=is_new)
            self._file.write(group)
            if (self._file.rows >= _FILE) if self._target is None else (self._file.size >= self._target):
                self.end_file()

    def end_file(self) -> None:
        """End the open file; later rows go into another file."""
        self._floor = None
        if self._file is not None:
            self._actions.append(self._file.close())
            self._file = None

    def abandon(self) -> None:
        """Remove the open file."""
        if self._file is not None:
            self._file.abandon()

    def _sorted(self) -> pl.DataFrame:
        rows = pl.concat(self._rows)
        # Most files are in order, and looking takes a tenth of the time and none of the memory of sorting.
        self._rows = [rows if _is_sorted(rows, self._order) else rows.sort(self._order)]
        return self._rows[0]

    def _take(self, rows: pl.DataFrame, count: int) -> None:
        self.write(rows.head(count))
        self._rows = [rows.slice(count)]
        self.waiting = rows.height - count


def _is_sorted(rows: pl.DataFrame, names: Sequence[str]) -> bool:
    """Return whether rows are in the order of some columns; False if there may be a null."""
    is_in_order = pl.lit(value=True)
    for column in map(pl.col, reversed(names)):
        before = column.shift()
        is_in_order = (column > before) | ((column == before) & is_in_order)
    return bool(rows.select(is_in_order.slice(1).fill_null(value=False).all()).item())


class _File:
    """One Parquet file, and its entry in the log."""

    def __init__(
        self,
        values: Mapping[str, Any],
        rows: pl.DataFrame,
        table: Table,
        schema: pa.Schema,
        files: pyarrow.fs.FileSystem,
        *,
        is_new: bool,
    ) -> None:
        folder = "".join(f"{name}={quote(value, safe='-_.~')}/" for name, value in values.items())
        self.path = f"{folder}part-{uuid.uuid4()}.zstd.parquet"
        self.rows = 0
        self._values = values
        self._is_new = is_new
        self._files = files
        self._statistics: list[pl.DataFrame] = []
        self._schema = pa.schema([(name, schema.field(name).type) for name in rows.columns])
        self._sink = files.open_output_stream(self.path)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            # Nearly all integers and ids differ, so a dictionary of them would only take space. Integers mostly rise by
            # little, and their differences take a third of the space and half of the time to read. Differences of ids
            # save little, and take six times as long to read.
            use_dictionary=[
                column.name
                for column in table.columns
                if column.dtype != "int64" and column.name not in {table.identity, *table.partitions}
            ],
            column_encoding={
                column.name: "DELTA_BINARY_PACKED"
                for column in self._schema
                if pa.types.is_int64(column.type)
            },
            store_schema=False,
            write_page_checksum=True,  # so that a check can tell a damaged page from another number
        )

    @property
    def size(self) -> int:
        """Size of what is written so far. [bytes]"""
        return int(self._sink.tell())

    def write(self, rows: pl.DataFrame) -> None:
        """Write a row group."""
        self._writer.write_table(rows.to_arrow().cast(self._schema), row_group_size=ROW_GROUP)
        self.rows += rows.height
        self._statistics.append(
            rows.select(
                pl.all().min().name.prefix("min "),
                pl.all().max().name.prefix("max "),
                pl.all().null_count().name.prefix("null "),
            )
        )

    def close(self) -> AddAction:
        """End the file, and return the action that adds it to the table."""
        self._writer.close()
        size = self.size
        self._sink.close()
        return AddAction(
            path=self.path,
            size=size,
            partition_values=self._values,
            modification_time=time.time_ns() // MILLISECOND,
            data_change=self._is_new,
            stats=self._stats(),
        )

    def abandon(self) -> None:
        """Close the file and remove it."""
        try:
            self._writer.close()
            self._sink.close()
            self._files.delete_file(self.path)
        except (OSError, pa.ArrowException):
            return

    def _stats(self) -> str:
        statistics = pl.concat(self._statistics)
        bounds = {
            name: (statistics[f"min {name}"].min(), statistics[f"max {name}"].max())
            for name in self._schema.names
        }
        storable_bounds = {name: pair for name, pair in bounds.items() if all(map(_fits_the_log, pair))}
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: minimum for name, (minimum, _) in storable_bounds.items()},
                "maxValues": {name: maximum for name, (_, maximum) in storable_bounds.items()},
                "nullCount": {name: int(statistics[f"null {name}"].sum()) for name in self._schema.names},
            },
            allow_nan=False,
        )


def _fits_the_log(value: Any) -> bool:
    """Return whether a value can be a bound in the log, which has no booleans; JSON has no NaN."""
    if isinstance(value, str):
        # If a bound has a character of the last Unicode plane, polars wrongly skips the file, even if the file has the
        # text that a query looks for (tried).
        return len(value) <= _LONGEST and max(value, default="") < _LAST_PLANE
    return value is not None and not isinstance(value, bool) and math.isfinite(value)
