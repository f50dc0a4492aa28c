"""Large bodies between processes: through memory that both reach, for a pipe takes longer than making them did."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Parcel", "laid_down"]

_LARGE = 256 * 1024  # bytes; below it a pipe is as good
_PART = 256 * 1024  # bytes


class Parcel:
    """Room for a body that another process makes.

    It is a file in memory without a name in any folder, so nothing is left of it when this object is gone, or its
    process, however that ended.

    Attributes
    ----------
    path : str or None
        Where the other process writes; None where the system has no such files.
    """

    def __init__(self) -> None:
        self.path = None
        if sys.platform == "linux":
            self._file = os.memfd_create("tidytape")
            weakref.finalize(self, os.close, self._file)
            self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    @property
    def size(self) -> int:
        """Length of the body. [byte]"""
        return os.fstat(self._file).st_size

    def parts(self) -> Iterator[bytes]:
        """Give the body in parts."""
        for start in range(0, self.size, _PART):
            yield os.pread(self._file, _PART, start)


def laid_down(body: bytes, path: str | None) -> bytes | None:
    """Put a large body where a parcel says; return a small one, and one that cannot be put there."""
    if path is None or len(body) < _LARGE:
        return body
    try:
        Path(path).write_bytes(body)
    except OSError:
        return body
    return None
