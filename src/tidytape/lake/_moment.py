"""A lake at one moment: all reads for one answer agree, even while another process writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidytape.lake import _delta
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import REGISTRIES

if TYPE_CHECKING:
    from tidytape.lake._lake import Lake


class Moment(LakeReader):
    """A lake at one moment, see `LakeReader.now`."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake.path, lake.storage_options)
        self._lake, self._began, self._frames = lake, time.monotonic(), lake._frames
        self._absent: set[str] = set()

    def __repr__(self) -> str:
        return f"{self._lake!r}.now()"

    def now(self) -> LakeReader:
        """Return itself."""
        return self

    def at(self, versions: Mapping[str, int]) -> LakeReader:
        """Return the lake as it was at some versions."""
        return self._lake.at(versions)

    def delta(self, table: str) -> _delta.Opened:
        """Return the version of a table that was the newest when the table was first asked for."""
        if table not in self._tables:
            self._tables[table] = self._lake._newest(table, since=self._began)
        return self._tables[table]

    def has_table(self, table: str) -> bool:
        """Return whether the lake had a table when the table was first asked for."""
        if table in self._tables:
            return True
        if table not in self._absent and self._lake.has_table(table):
            return True
        self._absent.add(table)
        return False


class Past(Moment):
    """A lake as it was, see `LakeReader.at`."""

    def __init__(self, lake: Lake, versions: Mapping[str, int]) -> None:
        super().__init__(lake)
        self._versions = {name: version for name, version in versions.items() if version >= 0}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{self._lake!r}.at({self._versions!r})"

    def delta(self, table: str) -> _delta.Opened:
        """Return a table in the version that ``versions`` names, or a registry in its newest version."""
        if table not in self._versions:
            return super().delta(table)
        with self._lock:
            if table not in self._tables:
                version = self._versions[table]
                self._tables[table] = _delta.opened(self.uri(table), self.storage_options, version=version)
            return self._tables[table]

    def has_table(self, table: str) -> bool:
        """Return whether ``versions`` names a table, or it is a registry of the lake."""
        is_registry = any(table == registry.name for registry in REGISTRIES)
        return table in self._versions or (is_registry and super().has_table(table))

    def _is_lost_if_absent(self, table: str) -> bool:
        return False
