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
"""How many faults there are, and a description of the first one."""


@dataclass(frozen=True)
class Scope:
    """The rows of one market, or of many markets, in one version of a table, for a check.

    Attributes
    ----------
    lake : LakeReader
        For a check that compares with other tables.
    table : Table
        Which table.
    delta : Opened
        The version that is checked.
    partition : mapping of str to str
        The market: values of the table's partition columns. Empty if the table has none, or for many markets.
    files : polars.DataFrame, one row per file of the market
        Its files by the log, see `tidytape.lake._delta.file_log`.
    rows : polars.LazyFrame
        Its rows, in no order.
    now : int
        When the check began. [ns since the epoch]
    members : tuple of Scope
        For many markets: each of them.
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
        timed = "timestamp" in self.table.names
        logged = self.files.select("path", "rows").iter_rows()
        return [_read_file(store, path, rows, timed=timed) for path, rows in logged]

    @classmethod
    def of_many(cls, members: Sequence[Scope]) -> Scope:
        """Return markets of one version of a table as one scope."""
        first = members[0]
        names = list(first.partition)
        partitions = pl.LazyFrame(
            [tuple(member.partition.values()) for member in members],
            schema=dict.fromkeys(names, pl.String),
            orient="row",
        )
        superset = [
            pl.col(name).is_in(sorted({str(member.partition[name]) for member in members})) for name in names
        ]
        rows = _delta.scanned(first.delta, first.table, first.lake.storage_options)
        return cls(
            first.lake,
            first.table,
            first.delta,
            {},
            pl.concat(member.files for member in members),
            rows.filter(*superset).join(partitions, on=names, how="semi"),
            first.now,
            tuple(members),
        )

    @property
    def size(self) -> int:
        """Number of rows by the log."""
        return int(self.files["rows"].sum())

    @property
    def market(self) -> tuple[str, ...]:
        """Values of the table's partition columns."""
        return tuple(str(value) for value in self.partition.values())


class _File(NamedTuple):
    """A file that was read. ``fault`` says why it cannot be read, or that the log says another number of rows."""

    path: str
    fault: str
    first: int | None
    last: int | None
    is_sorted: bool


def _read_file(store: pyarrow.fs.FileSystem, path: str, logged: int | None, *, timed: bool) -> _File:
    first: int | None = None
    last: int | None = None
    is_sorted = True
    try:
        file = pq.ParquetFile(path, filesystem=store, page_checksum_verification=True)
        rows = file.metadata.num_rows
        # Reads every column: no other check does, so only this one notices every damaged page. Reads batches, because a
        # file may be larger than memory.
        for batch in file.iter_batches(batch_size=2**16):
            times = (
                pl.Series(batch.column("timestamp"), dtype=pl.Int64).drop_nulls() if timed else pl.Series()
            )
            if times.is_empty():
                continue
            is_sorted = is_sorted and times.is_sorted() and (last is None or times[0] >= last)
            least, most = int(times.min()), int(times.max())  # type: ignore[arg-type]  # polars types any value
            first = least if first is None else min(first, least)
            last = most if last is None else max(last, most)
    except (OSError, pa.ArrowException) as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "is missing" if is_missing else " ".join(str(error).split())[:200]
        return _File(path, f"{path}: {reason}", None, None, is_sorted=True)
    differs = logged is not None and rows != logged
    fault = f"{path}: holds {counted(rows, 'row')}, the log says {logged}" if differs else ""
    return _File(path, fault, first, last, is_sorted)
