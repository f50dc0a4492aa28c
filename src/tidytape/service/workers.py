"""Threads in which queries are answered, off the event loop and only so many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio

__all__ = ["Workers"]

R = TypeVar("R")
Args = TypeVarTuple("Args")

_AT_ONCE = 8


class Workers:
    """Run functions in threads.

    Parameters
    ----------
    at_once : int
        How many run at the same time; others wait.
    """

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._limiter = anyio.CapacityLimiter(at_once)

    async def run(self, work: Callable[[*Args], R], *args: *Args) -> R:
        """Return what a function returns, called in a thread."""
        return await anyio.to_thread.run_sync(work, *args, limiter=self._limiter)
