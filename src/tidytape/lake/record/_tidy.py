"""Keep a lake small while small commits go into it: merge small files, make minutes, delete files no longer needed.

A commit a second makes 86,400 files a day. `compact` rewrites all files of a market, so it cannot run every minute.
Here the files of a market are merged by size, as in a log-structured merge tree: as soon as several files have about
the same size, they become one. So a row is rewritten a few times in its life, and a market has a few dozen files.

Merged files and older commits stay for ``keep`` seconds, because a stream that goes on from an older version needs
them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

import pyarrow.fs

from tidytape.errors import TidytapeError
from tidytape.lake import _commit, _delta
from tidytape.lake._lake import Lake
from tidytape.lake._parquet import filesystem
from tidytape.lake._tables import Table
from tidytape.lake.hygiene._info import tables_of
from tidytape.lake.rollup import rollup

_SMALLEST = 64 * 2**10
_RATIO = 8
"""Files whose sizes differ by at most this factor belong together; so many of them are merged."""

_MOST_ROWS = 4_000_000
"""Rows of a merged file, which are in memory at once."""

_LOG = logging.getLogger("tidytape.lake")
_RETENTION = "delta.deletedFileRetentionDuration"
_OF_LOG = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")


class Tidier:
    """Keeps a lake small, again and again.

    Parameters
    ----------
    lake : Lake
        The lake.
    keep : float
        How long merged files and older commits stay. [s]
    clock : callable, optional
        Returns the time. [s]
    """

    def __init__(self, lake: Lake, *, keep: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._options = lake.path, lake.storage_options
        self._lake = lake
        self._keep = keep
        self._clock = clock
        self._replaced: dict[tuple[str, str], float] = {}
        # A table is tidied only if its version changes.
        self._versions = lake.version()

    def tidy(self) -> None:
        """Make minutes, merge small files, and delete files that were replaced long enough ago.

        A step that fails is logged, and tried again the next time.
        """
        # A table that was opened long ago may need a checkpoint that is gone.
        self._lake = Lake(self._path, storage_options=self._options)
        self._try("the minutes", lambda: rollup(self._lake, progress=False))
        for table in tables_of(self._lake, None):
            version = self._lake.delta(table.name).version()
            if version != self._versions.get(table.name) or any(
                name == table.name for name, _ in self._replaced
            ):
                self._try(table.name, partial(self._tidy_table, table))
                self._versions[table.name] = self._lake.delta(table.name).version()

    def _try(self, what: str, work: Callable[[], object]) -> None:
        try:
            with _delta.failing("tidy the lake", self._path, self._options):
                work()
        except TidytapeError as error:
            _LOG.warning("tidying %s of the lake failed, and is tried again: %s", what, error)

    def _tidy_table(self, table: Table) -> None:
        delta = self._lake.delta(table.name)
        self._set_retention(table, delta)
        if table.partitions:  # of the others only registries grow, and those are one file
            for names in _delta.partitions(delta):
                if to_merge(_delta.files(delta, names)):
                    attempt = partial(self._merge, table, names)
                    self._lake.writer()._until_committed(table.name, attempt)
        self._delete_replaced(table)

    def _merge(self, table: Table, names: _delta.Partition, delta: _delta.Opened) -> None:
        """Merge files of one market once; the next round looks at the merged file."""
        if small := to_merge(_delta.files(delta, names)):
            _commit.merge(delta, table, names, small, options=self._options)

    def _set_retention(self, table: Table, delta: _delta.Opened) -> None:
        """Set a retention if the table has none, so that checkpoints forget replaced files, which are very many."""
        if _RETENTION not in delta.metadata().configuration:
            delta.alter.set_table_properties({_RETENTION: f"interval {round(self._keep)} seconds"})

    def _delete_replaced(self, table: Table) -> None:
        """Delete files that were replaced long enough ago."""
        delta, now = _delta.opened(self._lake.uri(table.name), self._options), self._clock()
        # A file counts as replaced from now on, so it stays longer than necessary if it was replaced before.
        replaced = set(delta.vacuum(0, dry_run=True, enforce_retention_duration=False, full=False))
        for path in replaced:
            self._replaced.setdefault((table.name, path), now)
        # Only now, because a checkpoint forgets replaced files.
        delta.create_checkpoint()
        needed = set(_delta.file_log(delta)["path"])
        store = filesystem(delta.table_uri, self._options)
        for (name, path), since in list(self._replaced.items()):
            if name == table.name and now - since >= self._keep:
                del self._replaced[name, path]
                if path not in needed and unquote(path) not in needed:
                    with suppress(OSError):  # another process deleted it
                        store.delete_file(path)
        _clean_log(store, self._keep)


def _clean_log(store: pyarrow.fs.FileSystem, keep: float) -> None:
    """Delete the commits and checkpoints before the newest checkpoint that is older than ``keep`` seconds.

    A reader that opened the table since then began with that checkpoint or a later one. Delta Lake's own cleaning
    deletes a checkpoint by its age alone, even if a reader has just begun with it.
    """
    entries = store.get_file_info(pyarrow.fs.FileSelector("_delta_log"))
    versions = [(int(match[1]), entry) for entry in entries if (match := _OF_LOG.fullmatch(entry.base_name))]
    limit = time.time() - keep
    checkpoints = [
        version
        for version, entry in versions
        if entry.base_name.endswith("parquet") and entry.mtime.timestamp() <= limit
    ]
    newest = max(checkpoints, default=0)
    for version, entry in versions:
        if version < newest:
            with suppress(OSError):
                store.delete_file(entry.path)


def to_merge(files: Iterable[_delta.Facts]) -> list[_delta.Facts]:
    """Return the files to merge: the smallest ones, if enough of them have about the same size.

    If the merged file would complete a group of the next size, that group is merged with them, and so on.
    """
    tiers: dict[int, list[_delta.Facts]] = {}
    for file in files:
        if file.rows is not None and file.rows < _MOST_ROWS:
            tiers.setdefault(_tier(file.bytes), []).append(file)
    chosen: list[_delta.Facts] = []
    for tier in sorted(tiers):
        if len(tiers[tier]) + bool(chosen) < _RATIO:
            break
        more = sorted(tiers[tier], key=lambda file: (file.first or 0, file.path))
        for file in more:
            if sum(other.rows or 0 for other in chosen) + (file.rows or 0) > _MOST_ROWS:
                break
            chosen.append(file)
    return chosen if len(chosen) > 1 else []


def _tier(size: int) -> int:
    tier = 0
    while size >= _SMALLEST * _RATIO**tier:
        tier += 1
    return tier


class Beside:
    """A context in which a thread tidies a lake again and again.

    Parameters
    ----------
    tidier : Tidier
        It is called in the thread.
    every : float
        Time between two calls. [s]
    """

    def __init__(self, tidier: Tidier, every: float) -> None:
        self._tidier = tidier
        self._every = every
        self._stop = threading.Event()
        self._has_begun = False
        self._thread = threading.Thread(target=self._run, name="tidytape-tidy", daemon=True)

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._has_begun:
            self._tidier.tidy()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self._has_begun = True
            self._tidier.tidy()
