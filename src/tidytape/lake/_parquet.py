"""Parts of a batch as Parquet files of a Delta table, in memory that does not grow with the batch.

The writer of delta-rs holds all rows of a partition until it closes a file, in several copies: 3 GB for 20 million
trades. Here a row group is written as soon as no later part can hold a row that belongs before it.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from tidytape.lake.batch import Part
from tidytape.lake.table import ROW_GROUP, Table
from tidytape.times import MILLISECOND

_FILE = 32 * ROW_GROUP
_WAITING = 8 * ROW_GROUP
"""Rows of all partitions that wait for others to be sorted among them; beyond it a partition is cut into files."""

_OPEN = 128
"""Files that are written to at once: of a day of a thousand instruments each is its own. [files]"""

_LONGEST = 256
"""Text beyond this is not worth its place in the log; without it a reader does not skip. [characters]"""

_LAST_PLANE = "\U00100000"


def filesystem(uri: str, options: dict[str, str] | None) -> pyarrow.fs.FileSystem:
    """Return the folder of a table as delta-rs reaches it, local or in an object store."""
    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(uri, options))


def written(parts: Sequence[Part], table: Table, files: pyarrow.fs.FileSystem) -> list[AddAction]:
    """Write rows as new files, which are nobody's until they are committed.

    Parameters
    ----------
    parts : sequence of Part
        The rows, in any order.
    table : Table
        Whose rows they are.
    files : pyarrow.fs.FileSystem
        The table's folder.

    Returns
    -------
    list of AddAction
        One per file. The rows of a file are in the table's order, in row groups of at most `ROW_GROUP` rows.
    """
    tapes: dict[tuple[Any, ...], _Tape] = {}
    actions: list[AddAction] = []
    try:
        # By their beginning: then no later part holds a row from before the beginning of the next.
        ordered = sorted(parts, key=lambda part: part.first)
        for part, following in zip_longest(ordered, ordered[1:]):
            for values, rows in _by_partition(part.frame().select(table.names), table):
                if values not in tapes:
                    tapes[values] = _Tape(values, table, files, actions)
                tapes[values].add(rows)
            if following is not None:
                for tape in tapes.values():
                    tape.write(before=following.first)
                _make_room(list(tapes.values()))
        for tape in tapes.values():
            tape.close()
    except BaseException:
        for tape in tapes.values():
            tape.abandon()
        removed(actions, files)
        raise
    return actions


def filed(
    frames: Iterable[pl.DataFrame],
    values: Mapping[str, str],
    table: Table,
    files: pyarrow.fs.FileSystem,
    *,
    target: float = math.inf,
    new: bool = True,
    others: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> list[AddAction]:
    """Write the rows of one partition as new files, which are nobody's until they are committed.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        The rows, in the table's order.
    values : mapping of str to str
        The partition.
    table : Table
        Whose rows they are.
    files : pyarrow.fs.FileSystem
        The table's folder.
    target : float
        A file that has reached this size is ended. [bytes]
    new : bool
        Whether the table does not have these rows yet.
    others : mapping of str to pyarrow.DataType
        Types of the columns of ``frames`` that are none of the table's.

    Returns
    -------
    list of AddAction
        One per file.
    """
    actions: list[AddAction] = []
    file: _File | None = None
    try:
        for frame in frames:
            for group in frame.drop(values.keys()).iter_slices(table.row_group):
                if file is None:
                    file = _File(values, group, files, dictionaries=_dictionaries(table), others=others)
                file.write(group)
                if file.size >= target:
                    actions.append(file.close(new=new))
                    file = None
        if file is not None:
            actions.append(file.close(new=new))
    except BaseException:
        if file is not None:
            file.abandon()
        removed(actions, files)
        raise
    return actions


def _dictionaries(table: Table) -> list[str]:
    """The columns worth a dictionary: numbers that count and ids are nearly all different."""
    return [
        column.name
        for column in table.columns
        if column.dtype != "int64" and column.name not in {table.identity, *table.partitions}
    ]


def _make_room(tapes: list[_Tape]) -> None:
    """Write rows that wait, until few enough do, and end the longest files where too many are open."""
    waiting = sum(tape.waiting for tape in tapes)
    for tape in sorted(tapes, key=lambda tape: tape.waiting, reverse=True):
        if waiting <= _WAITING:
            break
        waiting -= tape.waiting
        tape.write_all()
        if len([other for other in tapes if other.written]) > _OPEN:
            max(tapes, key=lambda other: other.written).end()


def removed(actions: Iterable[AddAction], files: pyarrow.fs.FileSystem) -> None:
    """Remove files that were not committed; one that stays is harmless, and taken by a vacuum."""
    for action in actions:
        try:
            files.delete_file(action.path)
        except OSError:
            continue


def _by_partition(frame: pl.DataFrame, table: Table) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    if not table.partitions:
        yield (), frame
        return
    yield from frame.partition_by(table.partitions, as_dict=True, include_key=False).items()


class _Tape:
    """The rows of one partition on their way into files."""

    def __init__(
        self, values: tuple[Any, ...], table: Table, files: pyarrow.fs.FileSystem, actions: list[AddAction]
    ) -> None:
        self.values = dict(zip(table.partitions, values, strict=True))
        self.order = [name for name in table.order if name not in table.partitions]
        self.files = files
        self.actions = actions
        self.waiting = 0
        self._rows: list[pl.DataFrame] = []
        self._dictionaries = _dictionaries(table)
        self._floor: int | None = None
        self._file: _File | None = None

    @property
    def written(self) -> int:
        """Rows in the file that is open, 0 where none is."""
        return 0 if self._file is None else self._file.rows

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows, in any order."""
        self._rows.append(rows)
        self.waiting += rows.height

    def write(self, *, before: int) -> None:
        """Write whole row groups of what is from before a time, which no row to come is."""
        if self.waiting < ROW_GROUP:
            return
        rows = self._sorted()
        ready = rows["timestamp"].search_sorted(before)
        self._write(rows, ready - ready % ROW_GROUP)

    def write_all(self) -> None:
        """Write everything, to make room. Rows that belong before its end go into another file."""
        rows = self._sorted()
        self._write(rows, rows.height)
        self._floor = rows["timestamp"][-1]

    def close(self) -> None:
        """Write what is left, and end the file."""
        rows = self._sorted()
        self._write(rows, rows.height)
        self.end()

    def abandon(self) -> None:
        """End the file without its rows."""
        if self._file is not None:
            self._file.abandon()

    def _sorted(self) -> pl.DataFrame:
        self._rows = [pl.concat(self._rows).sort(self.order)]
        return self._rows[0]

    def _write(self, rows: pl.DataFrame, count: int) -> None:
        for begin in range(0, count, ROW_GROUP):
            group = rows.slice(begin, min(ROW_GROUP, count - begin))
            if self._file is not None and (
                self._file.rows >= _FILE or (self._floor is not None and group["timestamp"][0] <= self._floor)
            ):
                self.end()
            if self._file is None:
                self._file = _File(self.values, group, self.files, dictionaries=self._dictionaries)
            self._file.write(group)
        self._rows = [rows.slice(count)]
        self.waiting = rows.height - count

    def end(self) -> None:
        """End the file that is open; what comes goes into another."""
        self._floor = None
        if self._file is not None:
            self.actions.append(self._file.close())
            self._file = None


class _File:
    """One Parquet file, and what the log tells of it."""

    def __init__(
        self,
        values: Mapping[str, Any],
        rows: pl.DataFrame,
        files: pyarrow.fs.FileSystem,
        *,
        dictionaries: list[str],
        others: Mapping[str, pa.DataType] = MappingProxyType({}),
    ) -> None:
        self.values = values
        folder = "".join(f"{name}={quote(value, safe='-_.~')}/" for name, value in values.items())
        self.path = f"{folder}part-{uuid.uuid4()}.zstd.parquet"
        self.rows = 0
        self._files = files
        self._facts: list[pl.DataFrame] = []
        types = {name: others.get(name) or _ARROW[dtype] for name, dtype in rows.schema.items()}
        self._schema = pa.schema(list(types.items()))
        # What this release does not know may be a list, or a structure, which has no smallest value.
        self._compared = [name for name in types if name not in others]
        self._sink = files.open_output_stream(self.path)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            use_dictionary=dictionaries,
            store_schema=False,
            write_page_checksum=True,  # so that a check can tell a damaged page from another number
        )

    @property
    def size(self) -> int:
        """What was written so far. [bytes]"""
        return int(self._sink.tell())

    def write(self, rows: pl.DataFrame) -> None:
        """Write a row group."""
        self._writer.write_table(rows.to_arrow().cast(self._schema), row_group_size=ROW_GROUP)
        self.rows += rows.height
        compared = pl.col(self._compared)
        self._facts.append(
            rows.select(
                compared.min().name.prefix("min "),
                compared.max().name.prefix("max "),
                pl.all().null_count().name.prefix("null "),
            )
        )

    def close(self, *, new: bool = True) -> AddAction:
        """End the file, and return what adds it to the table; whether its rows are new."""
        self._writer.close()
        size = self.size
        self._sink.close()
        return AddAction(
            path=self.path,
            size=size,
            partition_values=self.values,
            modification_time=time.time_ns() // MILLISECOND,
            data_change=new,
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
        facts = pl.concat(self._facts)
        least = {name: facts[f"min {name}"].min() for name in self._compared}
        most = {name: facts[f"max {name}"].max() for name in self._compared}
        told = [name for name in self._compared if _can_be_told(least[name]) and _can_be_told(most[name])]
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: least[name] for name in told},
                "maxValues": {name: most[name] for name in told},
                "nullCount": {name: int(facts[f"null {name}"].sum()) for name in self._schema.names},
            },
            allow_nan=False,
        )


_ARROW = {
    pl.String(): pa.string(),
    pl.Float64(): pa.float64(),
    pl.Int64(): pa.int64(),
    pl.Boolean(): pa.bool_(),
}


def _can_be_told(value: Any) -> bool:
    """Whether a smallest or largest value can stand in the log: no truth value has one there, and no NaN."""
    if isinstance(value, str):
        # Tried: of text with characters of the last plane, polars skips files that hold what is looked for.
        return len(value) <= _LONGEST and max(value, default="") < _LAST_PLANE
    return value is not None and not isinstance(value, bool) and math.isfinite(value)
