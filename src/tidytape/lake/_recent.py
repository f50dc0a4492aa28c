"""Values in memory, of which those that were asked for longest ago go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

import polars as pl

_KEY = 1_024  # bytes; what a key and its place take, so that values of no size do not add up without end

_COLUMN = 400  # bytes; what a column takes beside its values, as measured of frames without rows

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, bounded in bytes. Threads may share it.

    Parameters
    ----------
    most : int
        How much the values may take together, and a KiB for the key of each. [byte]

    Attributes
    ----------
    size : int
        How much they take. [byte]

    Examples
    --------
    >>> kept = Recent[str, str](100_000)
    >>> kept.put("a", "A", size=60_000)
    >>> kept.put("b", "B", size=60_000)
    >>> kept.get("a"), kept.get("b"), kept.size
    (None, 'B', 61024)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return a value; None if it is not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, *, size: int) -> None:
        """Keep a value of some bytes, and let others go until all are within the bound."""
        size += _KEY
        with self._lock:
            if size > self.most or key in self._values:
                return
            self._values[key] = value, size
            self.size += size
            while self.size > self.most:
                _, (_, gone) = self._values.popitem(last=False)
                self.size -= gone


def frame_size(frame: pl.DataFrame) -> int:
    """Return about how much memory a frame takes, also one without rows. [byte]

    Examples
    --------
    >>> frame_size(pl.DataFrame({"a": [1, 2]}))
    416
    """
    return int(frame.estimated_size()) + _COLUMN * frame.width
