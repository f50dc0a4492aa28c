"""A cache whose size is bounded in bytes. It removes the least recently used values first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import polars as pl

_KEY = 1_024  # bytes that a key and its entry take, about; so the number of values of size 0 is bounded too

_COLUMN = 400  # bytes that a column takes beside its values, measured with frames without rows

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, bounded in bytes. Threads may share it.

    Parameters
    ----------
    most : int
        How much memory the values may take, with 1 KiB for each key. [byte]

    Attributes
    ----------
    size : int
        How much memory they take now. [byte]

    Examples
    --------
    >>> letters = Recent[str, str](100_000)
    >>> letters.put("a", "A", size=60_000)
    >>> letters.put("b", "B", size=60_000)
    >>> letters.get("a"), letters.get("b"), letters.size
    (None, 'B', 61024)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return a value; None if it is not in memory."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: K, value: V, *, size: int) -> None:
        """Keep a value of ``size`` bytes, and remove the least recently used values until the others fit."""
        size += _KEY
        with self._lock:
            if size > self.most or key in self._values:
                return
            self._values[key] = value, size
            self.size += size
            while self.size > self.most:
                _, (_, removed_size) = self._values.popitem(last=False)
                self.size -= removed_size


def frame_size(frame: pl.DataFrame) -> int:
    """Return about how much memory a frame takes, also one without rows. [byte]

    Examples
    --------
    >>> frame_size(pl.DataFrame({"a": [1, 2]}))
    416
    """
    return int(frame.estimated_size()) + _COLUMN * frame.width
