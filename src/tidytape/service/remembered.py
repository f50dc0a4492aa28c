"""What was made of a lake, kept until the lake changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tidytape.lake import Lake

__all__ = ["Remembered"]

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by name, all forgotten as soon as a table of the lake has a new version.

    Parameters
    ----------
    lake : Lake
        What they are made of.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> remembered = Remembered(lake)
    >>> remembered.get("markets", lambda: lake.markets().height), remembered.get("markets", lambda: 5)
    (0, 0)
    >>> lake.register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["BTCUSDT"]}))
    >>> remembered.get("markets", lambda: lake.markets().height)
    1
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._version: dict[str, int] = {}
        self._values: dict[Hashable, T] = {}
        self._lock = threading.Lock()

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a name, made if it is not known of the lake as it is now."""
        version = self._lake.version()
        with self._lock:
            if version != self._version:
                self._version, self._values = version, {}
            if name in self._values:
                return self._values[name]
        value = (
            make()
        )  # outside of the lock: two that ask at once make it twice, and nobody waits for another's
        with self._lock:
            if version == self._version:
                self._values[name] = value
        return value
