"""Large bodies between processes: through memory that both reach, for a pipe takes longer than making them did."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["Parcel", "ParcelResponse", "laid_down"]

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


class ParcelResponse(Response):
    """A response whose body is a parcel. It is read as fast as the caller takes it, and never held whole."""

    def __init__(self, parcel: Parcel, *, headers: dict[str, str], media_type: str) -> None:
        super().__init__(headers={**headers, "Content-Length": str(parcel.size)}, media_type=media_type)
        self._parcel = parcel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parcel.parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
