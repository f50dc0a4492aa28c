"""Vacuuming: deleting files that the newest version of a table does not need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

import pyarrow.fs
from deltalake import DeltaTable

from tidytape.errors import LakeError, QueryError, counted
from tidytape.lake import _delta
from tidytape.lake._columns import require_rewritable
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene._tables import tables as kept
from tidytape.lake.store import Lake
from tidytape.lake.table import Table

__all__ = ["Vacuumed", "vacuum"]

RETENTION = 168
"""How long files stay that an older version needs. [h]"""

_UNFINISHED = 24
"""How long files stay that no version names: they may be those of an ingest that has not committed yet. [h]"""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What vacuuming one table deleted, or would delete.

    Attributes
    ----------
    table : str
        Name of the table.
    files : int
        How many.
    bytes : int
        How large they are together. [bytes]
    dry_run : bool
        Nothing was deleted.
    """

    table: str
    files: int
    bytes: int
    dry_run: bool

    def __str__(self) -> str:
        would = "would delete" if self.dry_run else "deleted"
        return f"{self.table}: {would} {counted(self.files, 'file')}, {counted(self.bytes, 'byte')}"


def vacuum(
    lake: Lake,
    *,
    retention_hours: int | None = None,
    dry_run: bool = True,
    tables: Iterable[str] | None = None,
) -> tuple[Vacuumed, ...]:
    """Delete the files that the newest version of no table needs.

    These are files that were replaced, e.g. by `compact`, and those that an ingest left behind that was killed. The
    newest version stays whole whatever the retention is; older ones can be read only as far back as that.

    Parameters
    ----------
    lake : Lake
        Which one.
    retention_hours : int, >= 0, optional
        How long a file stays after it was replaced; 168, a week, where left out. Who reads an older version than that,
        or has been reading for longer, loses its files. Files that no version ever named stay 24 hours in any case,
        because an ingest may be about to commit them. [h]
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
        If a table cannot be opened, or a file not be deleted.

    Examples
    --------
    >>> import tempfile
    >>> sum(table.files for table in vacuum(Lake.create(tempfile.mkdtemp())))
    0
    """
    if retention_hours is not None and retention_hours < 0:
        raise QueryError("retention_hours", got=retention_hours, expected="0 or more hours")
    done = []
    chosen = kept(lake, tables)
    for table in chosen:  # of a format that this release does not know, any file may be needed
        require_rewritable(lake.delta(table.name), table)
    for table in chosen:
        attempt = partial(_of_table, lake, table, retention_hours, dry_run=dry_run)
        # It commits that it begins and ends, and loses to whoever replaces files at the same time.
        done.append(_delta.retrying(lake.uri(table.name), attempt, lake.storage_options))
    return tuple(done)


def _of_table(lake: Lake, table: Table, hours: int | None, delta: DeltaTable, *, dry_run: bool) -> Vacuumed:
    # Twice: files that were replaced, by the retention asked for, and every other one, by no less than a day.
    ways = (
        (False, RETENTION if hours is None else hours),
        (True, max(RETENTION if hours is None else hours, _UNFINISHED)),
    )
    paths: dict[str, None] = {}
    for full, retention in ways:
        paths.update(dict.fromkeys(_vacuum(delta, retention, full=full, dry_run=True, enforce=hours is None)))
    # By what the log says, so that no misreading of a path further down can cost a row.
    needed = set(_log.files(delta, table)["path"])
    if wrong := sorted({path for path in paths if path in needed or unquote(path) in needed}):
        raise LakeError(
            f"will not delete {wrong[0]!r} of {table.name}: its newest version needs it", path=wrong[0]
        )
    # The log also remembers files that were deleted long ago.
    sizes = _sizes(lake, table, paths)
    if sizes and not dry_run:
        for full, retention in ways:
            _vacuum(delta, retention, full=full, dry_run=False, enforce=hours is None)
    return Vacuumed(table.name, len(sizes), sum(sizes), dry_run)


def _vacuum(delta: DeltaTable, hours: int, *, full: bool, dry_run: bool, enforce: bool) -> list[str]:
    return delta.vacuum(hours, dry_run=dry_run, enforce_retention_duration=enforce, full=full)


def _sizes(lake: Lake, table: Table, paths: Iterable[str]) -> list[int]:
    store = _log.store_of(lake, table)
    there = (store.get_file_info(path) for path in paths)
    return [info.size or 0 for info in there if info.type != pyarrow.fs.FileType.NotFound]
