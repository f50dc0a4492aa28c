"""Compact and vacuum: put many small files into few in the order of time, and delete files that no version needs.

Compacting writes the rows of a market anew in the table's order, and replaces its files in one commit. The commit fails
if another process wrote to the market meanwhile, or compacted it; then it is tried again. Commits to other markets do
not disturb it.

Delta's own ``optimize`` is not used, because of these measurements (deltalake 1.6.6):

- ``compact`` and ``z_order`` do not notice each other. Two of them that begin at one version both succeed, and every
  row is there twice, without an error: their commits lack the transactions that would show the conflict.
- ``compact`` merges files batch by batch as they arrive, so that the row groups of the merged file span nearly the
  file's whole time, even where the files were appended one after the other: eight files of 100,000 rows became four row
  groups, one of which runs from the first row to the last. A query of one hour would then read everything.

Compacting rewrites all files of a market, so it takes only markets with at least twice as many files as they need. So a
tape that grows by small files is rewritten about once each time it doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

import polars as pl
import pyarrow.fs
from deltalake import DeltaTable
from tqdm.auto import tqdm

from tidytape.errors import LakeError, QueryError, counted
from tidytape.lake import _commit, _delta
from tidytape.lake._lake import Lake
from tidytape.lake._parquet import filesystem
from tidytape.lake._tables import Table
from tidytape.lake._writer import LakeWriter
from tidytape.lake.hygiene._info import tables_of
from tidytape.lake.hygiene._merging import write_checkpoint
from tidytape.times import MINUTE

TARGET = 128 * 2**20
"""Size of a compacted file. [bytes]"""

RETENTION = 168
"""How long a file stays that only older versions need. [h]"""

_UNFINISHED = 24
"""How long a file stays that no version names, because an ingest may be about to commit it. [h]"""

_AT_ONCE = 4_000_000
"""Most rows that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting one market did.

    Attributes
    ----------
    table : str
        Name of the table.
    market : str
        The values of the table's partition columns; empty where there are none.
    files_before, files_after : int
        How many files it had, and has now.
    bytes_before, bytes_after : int
        Size of these files together. [bytes]
    """

    table: str
    market: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        where = f"{self.table} {self.market}".rstrip()
        return (
            f"{where}: {self.files_before:,} -> {counted(self.files_after, 'file')}, "
            f"{self.bytes_before:,} -> {counted(self.bytes_after, 'byte')}"
        )


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What vacuuming one table deleted, or would delete.

    Attributes
    ----------
    table : str
        Name of the table.
    files : int
        Number of files.
    bytes : int
        Size of these files together. [bytes]
    dry_run : bool
        Whether nothing was deleted.
    """

    table: str
    files: int
    bytes: int
    dry_run: bool

    def __str__(self) -> str:
        verb = "would delete" if self.dry_run else "deleted"
        return f"{self.table}: {verb} {counted(self.files, 'file')}, {counted(self.bytes, 'byte')}"


def compact(
    lake: Lake,
    *,
    tables: Iterable[str] | None = None,
    target: int = TARGET,
    everything: bool = False,
    progress: bool | None = None,
) -> tuple[Compacted, ...]:
    """Put the rows of each market into few files, in the order of time.

    The rows stay the same, and so do the notes of their sources. Each market is one commit; other processes may write
    at the same time. The old files stay for readers of older versions until `vacuum` deletes them. Each table gets a
    checkpoint, so that opening it does not read older commits.

    Parameters
    ----------
    lake : Lake
        The lake to write to.
    tables : iterable of str, optional
        Names of tables; all where left out.
    target : int
        Size of a compacted file. [bytes]
    everything : bool
        Rewrite every market, also one with few files: this puts the rows of files that `check` calls unordered into the
        order of time.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    tuple of Compacted
        One per market that was rewritten.

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
    writer = lake.writer()
    # A registry has no timestamp: it is one file.
    chosen_tables = [table for table in tables_of(lake, tables) if "timestamp" in table.names]
    writer._require_writable(*chosen_tables)  # all of them before the first commit
    to_rewrite = [
        (table, names, files)
        for table in chosen_tables
        for names, files in _files_by_market(lake, table)
        if files and (everything or len(files) >= 2 * max(-(-_size(files) // target), 1))
    ]
    compacted = []
    with tqdm(
        total=sum(_size(files) for *_, files in to_rewrite),
        unit="B",
        unit_scale=True,
        disable=None if progress is None else not progress,
    ) as bar:
        for table, names, files in to_rewrite:
            market = " ".join(names)
            bar.set_description(f"{table.name} {market}".rstrip())
            _rewrite(writer, table, names, target)
            files_after = _delta.files(lake.delta(table.name), names)
            compacted.append(
                Compacted(table.name, market, len(files), len(files_after), _size(files), _size(files_after)),
            )
            bar.update(_size(files))
    with _delta.failing("write a checkpoint", lake.path, lake.storage_options):
        for table in chosen_tables:
            write_checkpoint(lake.delta(table.name))
    return tuple(compacted)


def _size(files: list[_delta.Facts]) -> int:
    return sum(file.bytes for file in files)


def _files_by_market(lake: Lake, table: Table) -> Iterator[tuple[_delta.Partition, list[_delta.Facts]]]:
    delta = lake.delta(table.name)
    for names in _delta.partitions(delta) if table.partitions else [()]:
        if None not in names:  # tidytape writes no market without a name, and no condition can select one
            yield names, _delta.files(delta, names)


def _rewrite(writer: LakeWriter, table: Table, names: _delta.Partition, target: int) -> None:
    """Rewrite the files of one market in one commit."""
    options = writer.lake.storage_options
    partition = dict(zip(table.partitions, names, strict=True))

    def attempt(delta: _delta.Opened) -> None:
        files = _delta.files(delta, names)
        if not files:
            return
        rows = _delta.scanned_files(delta, table, [file.path for file in files], options)
        frames = _in_order(rows, table, [file.rows for file in files])
        _commit.rewrite(delta, table, partition, frames, target=target, options=options)

    writer._until_committed(table.name, attempt)


def _in_order(rows: pl.LazyFrame, table: Table, rows_of_files: list[int | None]) -> Iterator[pl.DataFrame]:
    """Yield the rows in the order of the table, span by span; raise LakeError if rows without a time are left out."""
    counts_in_log = [count for count in rows_of_files if count is not None]
    if len(counts_in_log) == len(rows_of_files) and sum(counts_in_log) <= _AT_ONCE:
        # Few enough for one scan: a market may have tens of thousands of small files.
        frame = rows.collect(engine="streaming")
        _require_times(table, frame["timestamp"].null_count(), frame.height)
        yield frame.sort(table.order)
        return
    row_count = int(rows.select(pl.len()).collect(engine="streaming").item())
    minute = (pl.col("timestamp") // MINUTE).alias("minute")
    counts = rows.group_by(minute).agg(rows=pl.len()).drop_nulls().sort("minute").collect(engine="streaming")
    written = 0
    for first_minute, last_minute in spans(counts):
        rows_of_span = rows.filter(
            pl.col("timestamp").is_between(first_minute * MINUTE, (last_minute + 1) * MINUTE, closed="left")
        )
        frame = rows_of_span.collect(engine="streaming").sort(table.order)
        written += frame.height
        yield frame
    _require_times(table, row_count - written, row_count)


def _require_times(table: Table, without_time: int, row_count: int) -> None:
    """Raise LakeError if rows have no time."""
    if without_time:
        raise LakeError(
            f"will not compact {table.name}: {without_time} of {counted(row_count, 'row')} without a time; see what "
            "check says"
        )


def spans(counts: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """Yield spans of minutes, ends included, each with as many rows as fit into memory, and at least one minute.

    Parameters
    ----------
    counts : polars.DataFrame, one row per minute, sorted
        ``minute``, ``rows``.
    """
    first_minute = last_minute = None
    count = 0
    for minute, rows in counts.iter_rows():
        if first_minute is not None and last_minute is not None and count + rows > _AT_ONCE:
            yield first_minute, last_minute
            first_minute, count = None, 0
        first_minute = minute if first_minute is None else first_minute
        last_minute, count = minute, count + rows
    if first_minute is not None and last_minute is not None:
        yield first_minute, last_minute


def vacuum(
    lake: Lake,
    *,
    retention_hours: int | None = None,
    dry_run: bool = True,
    tables: Iterable[str] | None = None,
) -> tuple[Vacuumed, ...]:
    """Delete the files that the newest version of no table needs.

    These are files that were replaced, e.g. by `compact`, and files that a killed ingest left behind. The newest
    version stays complete whatever the retention is; older versions can be read only within the retention.

    Parameters
    ----------
    lake : Lake
        The lake to write to.
    retention_hours : int, >= 0, optional
        How long a file stays after it was replaced; 168, a week, if left out. A reader of an older version loses its
        files, and so does a reader that takes longer. Files that no version ever named always stay 24 hours, because an
        ingest may be about to commit them. [h]
    dry_run : bool
        Only say what would be deleted.
    tables : iterable of str, optional
        Names of tables; all where left out.

    Returns
    -------
    tuple of Vacuumed, one per table

    Raises
    ------
    QueryError
        If there is no such table, or the retention is below 0.
    LakeError
        If a table cannot be opened, or a file cannot be deleted.

    Examples
    --------
    >>> import tempfile
    >>> sum(table.files for table in vacuum(Lake.create(tempfile.mkdtemp())))
    0
    """
    if retention_hours is not None and retention_hours < 0:
        raise QueryError("retention_hours", got=retention_hours, expected="0 or more hours")
    writer = lake.writer()
    vacuumed = []
    chosen_tables = tables_of(lake, tables)
    # A table whose format this release does not know may need any of its files.
    writer._require_writable(*chosen_tables)
    for table in chosen_tables:
        attempt = partial(_vacuum_table, lake, table, retention_hours, dry_run=dry_run)
        # A vacuum commits its begin and its end. These commits fail if another process replaces files at the same time.
        vacuumed.append(writer._until_committed(table.name, attempt))
    return tuple(vacuumed)


def _vacuum_table(
    lake: Lake, table: Table, hours: int | None, delta: _delta.Opened, *, dry_run: bool
) -> Vacuumed:
    # The first pass removes replaced files after the retention. The second removes files that no version names, after a
    # day, or after the retention if that is longer.
    retention = RETENTION if hours is None else hours
    passes = ((False, retention), (True, max(retention, _UNFINISHED)))
    paths: dict[str, None] = {}
    for full, limit in passes:
        paths.update(dict.fromkeys(_vacuum(delta, limit, full=full, dry_run=True, enforce=hours is None)))
    # Compare with the log, so that a misread path never deletes rows.
    paths_in_log = set(_delta.file_log(delta)["path"])
    if needed_paths := sorted(
        {path for path in paths if path in paths_in_log or unquote(path) in paths_in_log}
    ):
        raise LakeError(
            f"will not delete {needed_paths[0]!r} of {table.name}: its newest version needs it",
            path=needed_paths[0],
        )
    # Leave out files that were deleted long ago, which the log still names.
    store = filesystem(lake.uri(table.name), lake.storage_options)
    infos = (store.get_file_info(path) for path in paths)
    sizes = [info.size or 0 for info in infos if info.type != pyarrow.fs.FileType.NotFound]
    if sizes and not dry_run:
        for full, limit in passes:
            _vacuum(delta, limit, full=full, dry_run=False, enforce=hours is None)
    return Vacuumed(table.name, len(sizes), sum(sizes), dry_run)


def _vacuum(delta: DeltaTable, hours: int, *, full: bool, dry_run: bool, enforce: bool) -> list[str]:
    return delta.vacuum(hours, dry_run=dry_run, enforce_retention_duration=enforce, full=full)
