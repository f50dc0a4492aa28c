"""A lake: open or make it, look for its newest versions, read it at one moment, write to it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Self

from tidytape.errors import LakeError
from tidytape.lake import _delta
from tidytape.lake._moment import Moment, Past
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import MARKETS, TABLES
from tidytape.lake._writer import LakeWriter


class Lake(LakeReader):
    """A folder of Delta tables of raw events and markets, read in its newest versions.

    `writer` returns a `LakeWriter`; `now` and `at` return a reader of the lake at one moment.

    Parameters
    ----------
    path : str or Path
        Where it is: a local folder, or a URL that Delta Lake can read, e.g. ``s3://bucket/lake``.
    storage_options : mapping of str to str, optional
        What an object store needs, e.g. its region.

    Attributes
    ----------
    path : str
        Its address.
    storage_options : dict of str to str, or None
        As given.

    Raises
    ------
    LakeError
        If there is no lake.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> trade = pl.DataFrame(
    ...     {
    ...         "exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"], "id": ["7"], "timestamp": [5], "sequence": [7],
    ...         "side": ["BUY"], "price": [10.0], "amount": [2.0], "quote_amount": [20.0],
    ...     }
    ... )
    >>> lake.writer().append("trades", trade, source="by hand").rows_new
    1
    >>> lake.scan("trades", exchange="BINANCE", start=0, end=10).select("id", "price").collect().rows()
    [('7', 10.0)]
    """

    def __init__(self, path: str | Path, *, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(path, storage_options)
        self._looks: dict[str, threading.Lock] = {}
        # Not those of readers, because a commit moves a table on, and an answer must read one version.
        self._open_for_writing: dict[str, _delta.Opened] = {}
        self._require_lake()

    @classmethod
    def create(cls, path: str | Path, *, storage_options: Mapping[str, str] | None = None) -> Self:
        """Return the lake at ``path``, and make an empty one if there is none.

        Parameters
        ----------
        path : str or Path
            A folder that does not exist, is empty, or is a lake; or a URL.
        storage_options : mapping of str to str, optional
            What an object store needs.

        Returns
        -------
        Lake

        Raises
        ------
        LakeError
            If something else is there, or it cannot be written.
        """
        root = _delta.root_of(path)
        if "://" not in root:
            _refuse_foreign_folder(Path(root))
        # The registry comes last, because a folder counts as a lake once it has one.
        for table in sorted(TABLES.values(), key=lambda table: table is MARKETS):
            _delta.create(f"{root}/{table.name}", table, storage_options)
        return cls(path, storage_options=storage_options)

    def __repr__(self) -> str:
        return f"Lake({self.path!r})"

    def __reduce__(self) -> tuple[partial[Self], tuple[str]]:
        # Another process opens the tables by itself.
        return partial(type(self), storage_options=self.storage_options), (self.path,)

    def writer(self) -> LakeWriter:
        """Return the writer of the lake, which appends events and registers markets.

        Returns
        -------
        LakeWriter
        """
        return LakeWriter(self)

    def delta(self, table: str) -> _delta.Opened:
        """Return the newest version of a table, see `LakeReader.delta`."""
        return self._newest(table, since=time.monotonic())

    def now(self) -> LakeReader:
        """Return the lake as it is now, see `LakeReader.now`."""
        return Moment(self)

    def at(self, versions: Mapping[str, int]) -> LakeReader:
        """Return the lake as it was, see `LakeReader.at`."""
        return Past(self, versions)

    def has_table(self, table: str) -> bool:
        """Return whether the lake has a table; a rollup makes the tables of minutes."""
        return table in self._tables or _delta.exists(self.uri(table), self.storage_options)

    def _newest(self, table: str, *, since: float) -> _delta.Opened:
        """Return a table in a version that was the newest at some time since ``since``. [s, monotonic]

        A look is a check for a newer version. A caller waits while another one looks, and looks itself only if that
        look began before ``since``. So many requests share one look.
        """
        with self._looks.setdefault(table, threading.Lock()):
            opened_table, look_began = self._tables.get(table), time.monotonic()
            if opened_table is not None and opened_table.seen_at >= since:
                return opened_table
            if opened_table is None or not _delta.is_newest(opened_table, self.storage_options):
                opened_table = _delta.opened(self.uri(table), self.storage_options)
            opened_table.seen_at = look_began
            self._tables[table] = opened_table
            return opened_table


def _refuse_foreign_folder(folder: Path) -> None:
    """Raise LakeError if a folder is no lake and holds other files."""
    if not os.path.lexists(folder):
        return
    try:
        # Tables are no foreign files: another process may be making the same lake right now.
        foreign_names = sorted({entry.name for entry in folder.iterdir()} - set(TABLES))
    except OSError as error:
        raise LakeError(f"cannot make a lake at {folder}: {error.strerror}", path=str(folder)) from error
    if foreign_names and not _delta.exists(f"{folder}/{MARKETS.name}", None):
        raise LakeError(
            f"will not make a lake at {folder}: the folder holds {foreign_names[0]!r}", path=str(folder)
        )
