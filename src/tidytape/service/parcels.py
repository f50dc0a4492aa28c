"""Large bodies between processes: through files in memory, for a pipe takes longer than it took to make them."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["Parcel", "ParcelResponse", "Parcels", "laid_down"]

_LARGE = 256 * 1024  # bytes; below it a pipe is as good
_PART = 256 * 1024  # bytes
_IN_MEMORY = Path("/dev/shm")


class Parcels:
    """A folder for bodies on their way from one process to another, removed with the object."""

    def __init__(self) -> None:
        memory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        self._folder = tempfile.mkdtemp(prefix="tidytape-", dir=memory)
        self._names = itertools.count()
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def place(self) -> str:
        """Return a path where nothing is yet."""
        return str(Path(self._folder, str(next(self._names))))

    def close(self) -> None:
        """Remove the folder."""
        self._finalizer()


class Parcel:
    """A body in a file that has no name any more: it is gone with this object, or with the process.

    Parameters
    ----------
    path : str
        Where it was laid down.

    Attributes
    ----------
    size : int
        Its length. [byte]
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        Path(path).unlink()
        self.size = os.fstat(self._file).st_size

    def parts(self) -> Iterator[bytes]:
        """Give the body in parts."""
        for start in range(0, self.size, _PART):
            yield os.pread(self._file, _PART, start)


def laid_down(body: bytes, path: str) -> bytes | None:
    """Put a large body into a file; return a small one, and one for which there is no room."""
    if len(body) < _LARGE or os.name == "nt":  # where an open file cannot lose its name
        return body
    try:
        with Path(path).open("xb") as file:
            file.write(body)
    except OSError:
        with suppress(OSError):
            Path(path).unlink()
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
