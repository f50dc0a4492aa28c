"""The lake of `Client.demo`: simulated once on a machine, kept in the user's cache folder, and copied for each client.

A process makes the lake under another name and renames it when it is complete, so a process that dies leaves no
incomplete lake. If several processes need the lake at once, the first one makes it and the others wait. If the folder
cannot be written to, each process makes a lake of its own in a temporary folder.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import filelock

from tidytape._version import __version__
from tidytape.client._cache import default_folder
from tidytape.errors import LakeError
from tidytape.lake import Lake

DAYS = 2
"""How much of the demo's market a client holds. [d]"""

_SEED = 7
_SOURCES = ("demo", "lake", "aggregate", "frames", "catalogue.py", "schema.py", "times.py")
"""The parts of the package whose code decides the contents of the lake."""

_WAIT = 300.0  # longest wait for another process that makes the lake [s]
_ABANDONED = 3_600.0  # age at which an unfinished folder counts as left by a dead process [s]
_FORGOTTEN = 14 * 86_400.0  # time without use after which a lake of another version is removed [s]
_NEWEST = 7  # most lakes of other versions that stay


def copied(*, progress: bool | None = None) -> str:
    """Return the path of a new copy of the demo's lake, which the caller removes.

    Parameters
    ----------
    progress : bool, optional
        Show a bar while the lake is simulated; by default only if the standard error is a terminal.
    """
    folder = tempfile.mkdtemp(prefix="tidytape-demo-")
    try:
        try:
            lake = made_once(
                default_folder() / "demo", _name(), lambda path: _simulate(path, progress=progress)
            )
            shutil.copytree(lake, folder, dirs_exist_ok=True)
        except (OSError, LakeError):
            shutil.copytree(_temporary(os.getpid(), progress=progress), folder, dirs_exist_ok=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def made_once(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return ``folder / name``; if it does not exist, one process makes it, and others wait for it.

    Parameters
    ----------
    folder : Path
        Made if it does not exist. Before the call of ``make``, folders in it that nobody used for two weeks are
        removed, and so are all but the seven that were used last.
    name : str
        Name of the folder to return.
    make : callable
        Takes the path of an empty folder and fills the folder.

    Returns
    -------
    Path
        A folder that no process writes to.

    Raises
    ------
    OSError
        If the folder does not exist and cannot be made.
    """
    path = folder / name
    if not path.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock", timeout=_WAIT):
            if not path.is_dir():  # another process may have been faster
                _tidy(folder)
                unfinished_folder = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
                try:
                    make(unfinished_folder)
                    unfinished_folder.replace(path)
                except BaseException:
                    shutil.rmtree(unfinished_folder, ignore_errors=True)
                    raise
    with suppress(OSError):  # the cache folder may be read only
        os.utime(path)
    return path


def _tidy(folder: Path) -> None:
    """Remove folders that dead processes left unfinished, and finished folders that nobody has used for long."""
    now = time.time()
    ages = [(now - path.stat().st_mtime, path) for path in folder.iterdir() if path.is_dir()]
    abandoned_folders = [path for age, path in ages if path.name.startswith(".new-") and age > _ABANDONED]
    finished_folders = sorted((age, path) for age, path in ages if not path.name.startswith(".new-"))
    unused_folders = [
        path for rank, (age, path) in enumerate(finished_folders) if rank >= _NEWEST or age > _FORGOTTEN
    ]
    for path in (*abandoned_folders, *unused_folders):
        shutil.rmtree(path, ignore_errors=True)


@cache
def _name() -> str:
    """Return a name that changes with the code and the version of numpy that make the lake."""
    import numpy as np

    digest = hashlib.sha256(f"{__version__} {np.__version__} {DAYS} {_SEED}".encode())
    package = Path(__file__).parent.parent
    for source in _SOURCES:
        path = package / source
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _simulate(path: Path, *, progress: bool | None) -> None:
    from tqdm.auto import tqdm

    from tidytape.demo import fill
    from tidytape.lake.rollup import rollup

    with tqdm(
        total=DAYS + 1,
        desc="simulate the demo's market, once on this machine",
        unit="step",
        disable=None if progress is None else not progress,
        leave=False,
    ) as bar:
        fill(path, days=DAYS, seed=_SEED, progress=lambda *_: bar.update())
        rollup(Lake(path), progress=False, is_complete=True)
        bar.update()


@cache
def _temporary(process: int, *, progress: bool | None) -> str:
    """Return the path of a lake for this process alone, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="tidytape-demo-")
    atexit.register(_remove, folder, process)
    _simulate(Path(folder), progress=progress)
    return folder


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked process must not remove the lake of its parent
        shutil.rmtree(folder, ignore_errors=True)
