"""The rows and files that a check of a lake reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tidytape.errors import counted
from tidytape.lake import _delta
from tidytape.lake._parquet import filesystem
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import Table

Faults = Iterator[tuple[int, str]]
"""Yields the number of faults and a description of the first one; nothing if there is no fault."""


@dataclass(frozen=True)
class Scope:
    """The rows of one market, or of many markets, in one version of a table, for a check.

    Attributes
    ----------
    lake : LakeReader
        The lake, for a check that compares with other tables.
    table : Table
        The table.
    delta : Opened
        The version that is checked.
    partition : mapping of str to str
        The market: values of the table's partition columns. Empty if the table has none, or for many markets.
    files : polars.DataFrame, one row per file of the market
        The files of the market from the log, see `tidytape.lake._delta.file_log`.
    rows : polars.LazyFrame
        The rows of the market, in no order.
    now : int
        When the check began. [ns since the epoch]
    members : tuple of Scope
        The scope of each market; empty if this is the scope of one market.
    """

    lake: LakeReader
    table: Table
    delta: _delta.Opened
    partition: Mapping[str, str | None]
    files: pl.DataFrame
    rows: pl.LazyFrame
    now: int
    members: tuple[Scope, ...] = ()

    @cached_property
    def files_read(self) -> list[_File]:
        """Every file, read once from begin to end for all checks of files."""
        store = filesystem(self.lake.uri(self.table.name), self.lake.storage_options)
        has_time = "timestamp" in self.table.names
        files_in_log = self.files.select("path", "rows").iter_rows()
        return [_read_file(store, path, rows, has_time=has_time) for path, rows in files_in_log]

    @classmethod
    def of_many(cls, members: Sequence[Scope]) -> Scope:
        """Return markets of one version of a table as one scope."""
        first_scope = members[0]
        names = list(first_scope.partition)
        partitions = pl.LazyFrame(
            [tuple(member.partition.values()) for member in members],
            schema=dict.fromkeys(names, pl.String),
            orient="row",
        )
        superset = [  # lets the reader skip files
            pl.col(name).is_in(sorted({str(member.partition[name]) for member in members})) for name in names
        ]
        rows = _delta.scanned(first_scope.delta, first_scope.table, first_scope.lake.storage_options)
        return cls(
            first_scope.lake,
            first_scope.table,
            first_scope.delta,
            {},
            pl.concat(member.files for member in members),
            rows.filter(*superset).join(partitions, on=names, how="semi"),
            first_scope.now,
            tuple(members),
        )

    @property
    def size(self) -> int:
        """Number of rows, from the log."""
        return int(self.files["rows"].sum())

    @property
    def market(self) -> tuple[str, ...]:
        """Values of the table's partition columns."""
        return tuple(str(value) for value in self.partition.values())


class _File(NamedTuple):
    """A file that was read. ``fault`` says why it cannot be read, or that the log has another number of rows."""

    path: str
    fault: str
    first: int | None
    last: int | None
    is_sorted: bool


def _read_file(store: pyarrow.fs.FileSystem, path: str, rows_in_log: int | None, *, has_time: bool) -> _File:
    """Read one file from begin to end."""
    first: int | None = None
    last: int | None = None
    is_sorted = True
    try:
        file = pq.ParquetFile(path, filesystem=store, page_checksum_verification=True)
        rows = file.metadata.num_rows
        # This reads every column. No other check does, so only this one notices every damaged page. It reads in
        # batches, because a file may be larger than memory.
        for batch in file.iter_batches(batch_size=2**16):
            times = (
                pl.Series(batch.column("timestamp"), dtype=pl.Int64).drop_nulls() if has_time else pl.Series()
            )
            if times.is_empty():
                continue
            is_sorted = is_sorted and times.is_sorted() and (last is None or times[0] >= last)
            earliest, latest = int(times.min()), int(times.max())  # type: ignore[arg-type]  # polars types any value
            first = earliest if first is None else min(first, earliest)
            last = latest if last is None else max(last, latest)
    except (OSError, pa.ArrowException) as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "is missing" if is_missing else " ".join(str(error).split())[:200]
        return _File(path, f"{path}: {reason}", None, None, is_sorted=True)
    is_different = rows_in_log is not None and rows != rows_in_log
    fault = f"{path}: holds {counted(rows, 'row')}, the log says {rows_in_log}" if is_different else ""
    return _File(path, fault, first, last, is_sorted)
