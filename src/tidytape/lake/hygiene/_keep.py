"""Do for a lake all that must be done again and again, e.g. once an hour: minutes, merges, checkpoints, deletions."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass

from tidytape.errors import LakeError, counted
from tidytape.lake import _delta
from tidytape.lake._lake import Lake
from tidytape.lake._tables import TABLES
from tidytape.lake.hygiene._files import RETENTION, vacuum
from tidytape.lake.hygiene._info import tables_of
from tidytape.lake.hygiene._merging import clean_log, merge_small, write_checkpoint
from tidytape.lake.rollup import ROLLUP_TABLES, rollup

_HOUR = 3_600  # [s]


@dataclass(frozen=True, slots=True)
class Kept:
    """What keeping a lake did to one table.

    Attributes
    ----------
    table : str
        Name of the table.
    minutes : int
        Number of one-minute rows that were stored.
    merged : int
        Number of small files that were merged.
    files, bytes : int
        Number and size of the files that were deleted.
    log_entries : int
        Number of commits and checkpoints that were deleted from the log.
    """

    table: str
    minutes: int
    merged: int
    files: int
    bytes: int
    log_entries: int

    def __str__(self) -> str:
        parts = [
            f"stored {counted(self.minutes, 'row')}" if self.minutes else "",
            f"merged {counted(self.merged, 'small file')}" if self.merged else "",
            f"deleted {counted(self.files, 'file')}, {counted(self.bytes, 'byte')}" if self.files else "",
            f"deleted {self.log_entries:,} old entries of the log" if self.log_entries else "",
        ]
        return f"{self.table}: {'; '.join(filter(None, parts))}"


def keep(lake: Lake, *, retention_hours: int | None = None) -> tuple[Kept, ...]:
    """Do all that a lake needs again and again: store new minutes, merge small files, delete what is no longer needed.

    It runs `tidytape.lake.rollup.rollup`, merges small files of each market, writes a checkpoint of each table, runs
    `vacuum`, and deletes old entries of the logs. It may run beside followers, ingests and services, and may be killed
    at any moment: each step is one commit, or deletes what no version within the retention needs.

    Parameters
    ----------
    lake : Lake
        The lake to write to.
    retention_hours : int, >= 0, optional
        How long older versions can be read; 168, a week, if left out. A table whose log states a longer retention
        keeps its log that long. See `vacuum`. [h]

    Returns
    -------
    tuple of Kept, one per table to which it did something

    Raises
    ------
    QueryError
        If the retention is below 0.
    LakeError
        If a table cannot be read or written. If the minutes of a market cannot be computed; everything else is done.

    Examples
    --------
    >>> import tempfile
    >>> keep(Lake.create(tempfile.mkdtemp()))
    ()
    """
    hours = RETENTION if retention_hours is None else retention_hours
    writer = lake.writer()
    writer._require_writable(*tables_of(lake, None))
    merged: Counter[str] = Counter()

    def merge(names: list[str]) -> None:
        for table in tables_of(lake, names):
            merged[table.name] += merge_small(writer, table)

    # Merged first, because the rollup then reads one file per market instead of one per commit.
    merge(list(TABLES))
    failure: LakeError | None = None
    minutes: dict[str, int] = {}
    try:
        # Before the log is cleaned, because a rollup looks there for what is new.
        minutes = {made.table: made.rows for made in rollup(lake, progress=False)}
    except LakeError as error:
        failure = error
    merge(list(ROLLUP_TABLES))
    deleted = {
        report.table: report for report in vacuum(lake, retention_hours=retention_hours, dry_run=False)
    }
    log_entries: dict[str, int] = {}
    with _delta.failing("clean the log", lake.path, lake.storage_options):
        for name in deleted:
            write_checkpoint(lake.delta(name))
            log_entries[name] = clean_log(lake.delta(name), hours * _HOUR)
    if failure is not None:
        raise failure
    kept = (
        Kept(name, minutes.get(name, 0), merged[name], report.files, report.bytes, log_entries[name])
        for name, report in deleted.items()
    )
    return tuple(report for report in kept if any(astuple(report)[1:]))
