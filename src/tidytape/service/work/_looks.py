"""Look-ups in the logs of the lake, in threads that no key takes all of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar
from weakref import WeakValueDictionary

R = TypeVar("R")
_OF_KEY = 2


class Looks:
    """Runs look-ups in threads, two of a key at a time, so that a key with many of them keeps only itself waiting.

    Parameters
    ----------
    threads : Executor

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> asyncio.run(Looks(ThreadPoolExecutor(8)).run("key", max, 1, 2))
    2
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, key: str, work: Callable[..., R], *args: object) -> R:
        """Run a function in a thread, for a key."""
        gate = self._gates.setdefault(key, asyncio.Semaphore(_OF_KEY))
        async with gate:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
