"""Merge small files by size, write checkpoints, and clean the logs of tables.

`compact` rewrites all files of a market, so it cannot run every minute. Here the files of a market are merged by size,
as in a log-structured merge tree: as soon as several files have about the same size, they become one. So a row is
rewritten a few times in its life, and a market has a few dozen files.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import pyarrow.fs

from tidytape.errors import LakeError
from tidytape.lake import _commit, _delta
from tidytape.lake._parquet import filesystem
from tidytape.lake._tables import ROW_GROUP, Table
from tidytape.lake._writer import LakeWriter

_LOG = logging.getLogger("tidytape.lake")

_SMALLEST = 64 * 2**10
RATIO = 8
"""Files whose sizes differ by at most this factor belong together; so many of them are merged."""

MOST_ROWS = 4_000_000
"""Rows of a merged file, which are in memory at once."""

_OF_LOG = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_INTERVAL = re.compile(r"interval (\d+) (second|minute|hour|day|week)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_LOG_RETENTION = "delta.logRetentionDuration"


def to_merge(files: Iterable[_delta.Facts], most_rows: int = MOST_ROWS) -> list[_delta.Facts]:
    """Return the files to merge: the smallest ones, if enough of them have about the same size.

    If the merged file would complete a group of the next size, that group is merged with them, and so on.
    """
    tiers: dict[int, list[_delta.Facts]] = {}
    for file in files:
        if file.rows is not None and file.rows < most_rows:
            tiers.setdefault(_tier(file.bytes), []).append(file)
    chosen: list[_delta.Facts] = []
    rows = 0
    for tier in sorted(tiers):
        if len(tiers[tier]) + bool(chosen) < RATIO:
            break
        more = sorted(tiers[tier], key=lambda file: (file.first or 0, file.path))
        for file in more:
            rows += file.rows or 0
            if rows > most_rows:
                return chosen if len(chosen) > 1 else []
            chosen.append(file)
    return chosen if len(chosen) > 1 else []


def _tier(size: int) -> int:
    tier = 0
    while size >= _SMALLEST * RATIO**tier:
        tier += 1
    return tier


def merge_small(writer: LakeWriter, table: Table, *, most_rows: int = MOST_ROWS) -> int:
    """Merge files of about one size of every market of a table; return the number of files that were merged.

    A commit merges the files of as many markets as have the rows of a row group together: one scan reads them.

    Parameters
    ----------
    writer : LakeWriter
        Writes to the lake.
    table : Table
        A table with partitions.
    most_rows : int
        Rows of a merged file.
    """
    due = writer._until_committed(table.name, partial(_due, most_rows=most_rows))
    merged = 0
    for markets in _groups(due):
        attempt = partial(_merge, table, markets, most_rows, writer.lake.storage_options)
        merged += writer._until_committed(table.name, attempt)
    return merged


def _due(delta: _delta.Opened, most_rows: int) -> dict[_delta.Partition, int]:
    """Return the markets with files to merge, and the number of rows of these files."""
    markets = _delta.partitions(delta) or [()]  # a table without partition columns is one market
    chosen = {names: to_merge(_delta.files(delta, names), most_rows) for names in markets}
    # tidytape writes no market without a name.
    return {
        names: sum(file.rows or 0 for file in files)
        for names, files in chosen.items()
        if files and None not in names
    }


def _groups(rows_of: dict[_delta.Partition, int]) -> Iterator[list[_delta.Partition]]:
    """Yield markets in groups that are merged at once: long merges lose races against a writer of every second."""
    group: list[_delta.Partition] = []
    rows = 0
    for names, rows_of_market in rows_of.items():
        if group and rows + rows_of_market > ROW_GROUP:
            yield group
            group, rows = [], 0
        group.append(names)
        rows += rows_of_market
    if group:
        yield group


def _merge(
    table: Table,
    markets: Sequence[_delta.Partition],
    most_rows: int,
    options: _delta.Options,
    delta: _delta.Opened,
) -> int:
    chosen = {names: to_merge(_delta.files(delta, names), most_rows) for names in markets}
    files_of = {names: files for names, files in chosen.items() if files}
    if files_of:
        _commit.merge(delta, table, files_of, options=options)
    return sum(map(len, files_of.values()))


def tidy_a_little(writer: LakeWriter, tables: Iterable[Table]) -> None:
    """Merge small files of tables that this process has just committed to, after every eighth commit.

    Merged files have at most the rows of a row group, so the work is bounded. Files that were replaced stay. If it
    fails, that is logged: the rows are in the lake, and the next commits try again.
    """
    for table in tables:
        version = writer._version(table)
        if version is not None and version % RATIO == 0:
            try:
                merge_small(writer, table, most_rows=ROW_GROUP)
            except LakeError as error:
                _LOG.warning("tidying %s failed, and is tried again: %s", table.name, error)


def write_checkpoint(delta: _delta.Opened) -> None:
    """Write a checkpoint of an open version unless there is one, so that opening the table reads no older commits."""
    if delta.version() > 0 and not _delta.has_checkpoint(delta):
        delta.create_checkpoint()


def clean_log(delta: _delta.Opened, keep: float) -> int:
    """Delete the commits and checkpoints before the newest checkpoint that is older than ``keep`` seconds.

    A reader that opened the table since then began with that checkpoint or a later one. Delta Lake's own cleaning
    deletes a checkpoint by its age alone, even if a reader has just begun with it. If the table states a longer
    retention of its log, that counts.

    Returns
    -------
    int
        Number of files that were deleted.
    """
    stated = delta.metadata().configuration.get(_LOG_RETENTION)
    if stated is not None:
        match = _INTERVAL.fullmatch(stated)
        if match is None:
            return 0
        keep = max(keep, int(match[1]) * _SECONDS[match[2]])
    store = filesystem(delta.table_uri, delta._storage_options)
    entries = store.get_file_info(pyarrow.fs.FileSelector("_delta_log"))
    versions = [(int(match[1]), entry) for entry in entries if (match := _OF_LOG.fullmatch(entry.base_name))]
    limit = time.time() - keep
    checkpoints = [
        version
        for version, entry in versions
        if entry.base_name.endswith("parquet") and entry.mtime.timestamp() <= limit
    ]
    newest = max(checkpoints, default=0)
    deleted = 0
    for version, entry in versions:
        if version < newest:
            with suppress(OSError):  # another process deleted it
                store.delete_file(entry.path)
                deleted += 1
    return deleted
