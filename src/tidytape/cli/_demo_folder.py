"""The folder of a demo: a demo replaces the results of an earlier demo, and never changes other files."""

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
"""File with the fingerprint of each result of a demo, by name; it has no names until the demo is complete."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Create the folder, lock it against other demos, and remove the results of an earlier demo, complete or not.

    Raises
    ------
    QueryError
        If the folder cannot be written; if another demo is writing to it; or if a file or folder with the name of a
        result is a link, was not written by a demo, or was changed since. Nothing is removed then.
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
    """Record the fingerprints of a complete demo, so that a later demo knows which results it may replace."""
    (folder / _MARKER).write_text(json.dumps({name: _fingerprint(folder / name) for name in _RESULTS}))


def _clear(folder: Path) -> None:
    """Remove the results of an earlier demo; raise if one of them is not a demo's own."""
    marker = folder / _MARKER
    fingerprints = json.loads(marker.read_text()) if marker.is_file() else None
    existing = [folder / name for name in _RESULTS if os.path.lexists(folder / name)]
    was_interrupted = fingerprints == {}
    for path in existing:
        is_of_demo = was_interrupted or (
            fingerprints is not None and fingerprints.get(path.name) == _fingerprint(path)
        )
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
