"""Compacting: many small files to few, in the order of time.

Delta's own ``compact`` merges files batch by batch as they arrive, so that the row groups of the merged file span
nearly all of its time, even where the files were appended one after the other (measured with deltalake 1.6: eight files of
100,000 rows became four row groups, one of which runs from the first row to the last). A query of one hour would then
read everything. So a partition is rewritten with ``z_order`` by its timestamp, which with one column is nothing else
than a sort: files and row groups follow each other in time. It rewrites all of a partition, hence it is done only where
a partition has at least twice the files it needs; a tape that grows by small files is so rewritten about as often as it
doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl
from deltalake import DeltaTable
from tqdm.auto import tqdm

from tidytape.errors import QueryError
from tidytape.lake import _delta
from tidytape.lake.hygiene import _log
from tidytape.lake.store import Lake
from tidytape.lake.table import Table
from tidytape.lake.tables import TABLES

__all__ = ["Compacted", "compact"]

TARGET = 128 * 2**20
"""Size that files are to have. [bytes]"""

_IN_MEMORY = 2**30
"""Rows that are sorted beyond this wait on disk. [bytes]"""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting one instrument did.

    Attributes
    ----------
    table : str
        Name of the table.
    instrument : str
        The values of the table's partition columns; empty where there are none.
    files_before, files_after : int
        How many files its rows were in, and are in.
    bytes_before, bytes_after : int
        How large they were, and are. [bytes]
    """

    table: str
    instrument: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        where = f"{self.table} {self.instrument}".rstrip()
        return (
            f"{where}: {self.files_before:,} -> {self.files_after:,} files, "
            f"{self.bytes_before:,} -> {self.bytes_after:,} bytes"
        )


def compact(
    lake: Lake,
    *,
    tables: Iterable[str] | None = None,
    target: int = TARGET,
    everything: bool = False,
    progress: bool | None = None,
) -> tuple[Compacted, ...]:
    """Put the rows of each instrument into few files, in the order of time.

    The rows stay the same, and so does what the lake knows of its sources. One commit per instrument; others may write
    at the same time. The old files stay for those who read them until `vacuum` deletes them.

    Parameters
    ----------
    lake : Lake
        Which one.
    tables : iterable of str, optional
        Names of tables; all where left out.
    target : int
        Size that files are to have. [bytes]
    everything : bool
        Rewrite every instrument, also one that has few files: puts the rows of files that `check` calls unordered in
        the order of time.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    tuple of Compacted
        What was rewritten.

    Raises
    ------
    QueryError
        If there is no such table, or the target is no size.
    LakeError
        If a table cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> compact(Lake.create(tempfile.mkdtemp()))
    ()
    """
    if target < 1:
        raise QueryError("target", got=target, expected="a number of bytes above 0")
    work: list[tuple[Table, dict[str, str | None], pl.DataFrame]] = []
    for name in TABLES if tables is None else tables:
        if name not in TABLES:
            raise QueryError("table", got=name, expected="one of " + ", ".join(TABLES))
        table = TABLES[name]
        if "timestamp" in table.names:  # the registry is one file at all times
            work.extend(
                (table, values, files)
                for values, files in _worth_it(lake, table, target, everything=everything)
            )
    total = sum(int(files["bytes"].sum()) for _, _, files in work)
    done = []
    with tqdm(
        total=total, unit="B", unit_scale=True, disable=None if progress is None else not progress
    ) as bar:
        for table, values, files in work:
            instrument = _log.instrument_name(values)
            bar.set_description(f"{table.name} {instrument}".rstrip())
            _rewrite(lake, table, values, target)
            after = _of(_log.files(_log.opened(lake, table), table), values)
            done.append(
                Compacted(
                    table.name,
                    instrument,
                    files.height,
                    after.height,
                    int(files["bytes"].sum()),
                    int(after["bytes"].sum()),
                )
            )
            bar.update(int(files["bytes"].sum()))
    return tuple(done)


def _worth_it(
    lake: Lake, table: Table, target: int, *, everything: bool
) -> list[tuple[dict[str, str | None], pl.DataFrame]]:
    """The instruments of a table that have more files than they need, with these."""
    files = _log.files(_log.opened(lake, table), table)
    names = list(table.partitions)
    found = []
    for values in files.select(names).unique().sort(names).iter_rows(named=True) if names else [{}]:
        mine = _of(files, values)
        needed = -(-int(mine["bytes"].sum()) // target)
        if mine.height and (everything or mine.height >= 2 * max(needed, 1)):
            found.append((values, mine))
    return found


def _of(files: pl.DataFrame, values: Mapping[str, str | None]) -> pl.DataFrame:
    return files.filter(pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in values.items())


def _rewrite(lake: Lake, table: Table, values: Mapping[str, str | None], target: int) -> None:
    def attempt(delta: DeltaTable) -> None:
        delta.optimize.z_order(
            ["timestamp"],
            partition_filters=_log.partition_filters(values) or None,
            target_size=target,
            max_concurrent_tasks=1,
            max_spill_size=_IN_MEMORY,
            writer_properties=_delta.WRITER,
        )

    _delta.retrying(f"{lake.path}/{table.name}", attempt, lake.storage_options)
