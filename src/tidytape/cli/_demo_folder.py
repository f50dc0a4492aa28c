"""The folder of a demo: a demo replaces the results of an earlier one, and leaves all other files alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidytape.errors import QueryError

LAKE, TAPE, PAGE = "lake", "market.tape", "report.html"
_RESULTS = (LAKE, TAPE, PAGE)
_MARKER = ".demo.json"
"""Names the results of a demo, with their fingerprints; it is empty while a demo is at work."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make the folder, keep other demos out of it, and remove the results of an earlier demo, finished or interrupted.

    Raises
    ------
    QueryError
        If the folder cannot be written, another demo is at work in it, or it has something of a result's name that no
        demo wrote, that has changed since, or that is a link. Nothing is removed then.
    """
    import filelock

    if folder.exists() and not folder.is_dir():
        raise QueryError("out", got=str(folder), expected="a folder, or a name that is free")
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        expected = "a folder that no other demo is writing to right now"
        raise QueryError("out", got=str(folder), expected=expected) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    with lock:
        try:
            _clear(folder)
        except OSError as error:
            raise _unwritable(folder, error) from None
        yield


def seal(folder: Path) -> None:
    """Note that a demo is complete, so that a later one knows what it may replace."""
    (folder / _MARKER).write_text(json.dumps({name: _fingerprint(folder / name) for name in _RESULTS}))


def _clear(folder: Path) -> None:
    marker = folder / _MARKER
    earlier = json.loads(marker.read_text()) if marker.is_file() else None
    existing = [folder / name for name in _RESULTS if os.path.lexists(folder / name)]
    for path in existing:
        is_interrupted = earlier == {}
        is_of_demo = earlier is not None and (is_interrupted or earlier.get(path.name) == _fingerprint(path))
        if path.is_symlink() or not is_of_demo:
            raise QueryError(
                "out",
                got=str(path),
                expected="a name that is free, or what an earlier demo wrote and nobody changed since",
                hint="choose another folder, or move it away",
            )
    marker.write_text("{}")
    for path in existing:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _fingerprint(path: Path) -> str:
    """Return a hash of the names and sizes of the files of a result."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if not file.is_dir())
    sizes = [(file.relative_to(path).as_posix(), file.lstat().st_size) for file in files]
    return hashlib.sha256(json.dumps(sizes).encode()).hexdigest()


def _unwritable(folder: Path, error: OSError) -> QueryError:
    return QueryError("out", got=f"{folder}: {error.strerror}", expected="a folder that can be written")
