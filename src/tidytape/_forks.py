"""Whether this process was forked from one in which polars or the lake had run. Neither works in such a process.

A fork copies one thread only. Polars waits for its other threads for ever, and the lake's library panics. So a hook of
`os.fork` looks for their threads in the parent, and clients and lakes of the child raise a `ForkError`.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from tidytape.errors import ForkError

_THREADS = Path("/proc/self/task")
_POLARS = re.compile(r"polars-\d")
_LAKE = "tokio-rt-worker"


class _Process:
    """What hooks of ``os.fork`` know of this process."""

    runs = False
    """Whether polars or the lake ran at the last fork."""
    is_broken = False
    """Whether they ran in the parent of this process."""


def refuse_fork() -> None:
    """Raise ForkError in a process in which polars and the lake cannot run."""
    if _Process.is_broken:
        raise ForkError


def _look() -> None:
    """Note whether threads of polars or the lake run now."""
    if not _THREADS.is_dir():  # a system that does not list its threads
        _Process.runs = "polars" in sys.modules
        return
    names = []
    for thread in _THREADS.iterdir():
        with suppress(OSError):  # it ended meanwhile
            names.append((thread / "comm").read_text("utf-8", errors="replace").strip())
    _Process.runs = any(map(_POLARS.match, names)) or ("deltalake" in sys.modules and _LAKE in names)


def _mark() -> None:
    """Mark a child of a process in which polars or the lake ran."""
    _Process.is_broken |= _Process.runs


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_mark)
