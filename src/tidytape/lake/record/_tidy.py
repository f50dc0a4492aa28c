"""Keep a lake small while small commits go into it: merge small files, make minutes, delete files no longer needed.

A commit a second makes 86,400 files a day, which are merged by size.

Merged files and older commits stay for ``keep`` seconds, because a stream that goes on from an older version needs
them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

from tidytape.errors import TidytapeError
from tidytape.lake import _delta
from tidytape.lake._lake import Lake
from tidytape.lake._parquet import filesystem
from tidytape.lake._tables import TABLES, Table
from tidytape.lake.hygiene._info import tables_of
from tidytape.lake.hygiene._merging import clean_log, merge_small
from tidytape.lake.rollup import ROLLUP_TABLES, rollup

_LOG = logging.getLogger("tidytape.lake")
_RETENTION = "delta.deletedFileRetentionDuration"


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
        # Merged first, because the rollup then reads one file per market instead of one per commit.
        self._tidy_tables(TABLES)
        self._try("the minutes", lambda: rollup(self._lake, progress=False))
        self._tidy_tables(ROLLUP_TABLES)

    def _tidy_tables(self, names: Iterable[str]) -> None:
        for table in tables_of(self._lake, names):
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
        merge_small(self._lake.writer(), table)
        self._delete_replaced(table)

    def _set_retention(self, table: Table, delta: _delta.Opened) -> None:
        """Set a retention if the table has none, so that checkpoints forget replaced files, which are very many."""
        if _RETENTION not in delta.metadata().configuration:
            delta.alter.set_table_properties({_RETENTION: f"interval {round(self._keep)} seconds"})

    def _delete_replaced(self, table: Table) -> None:
        """Delete files that were replaced long enough ago."""
        delta, now = self._lake.delta(table.name), self._clock()
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
        clean_log(delta, self._keep)


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
