"""Look-ups in the logs of the lake, in threads that no key takes all of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar
from weakref import WeakValueDictionary

from tidytape.lake import LakeReader

R = TypeVar("R")
_OF_KEY = 2


class Looks:
    """Runs look-ups in threads, two of a key at a time, so that a key with many of them keeps only itself waiting.

    Parameters
    ----------
    lake : LakeReader
        The lake that the look-ups read.
    threads : Executor

    Examples
    --------
    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from tidytape.lake import Lake
    >>> looks = Looks(Lake.create(tempfile.mkdtemp()), ThreadPoolExecutor(8))
    >>> asyncio.run(looks.run("key", max, 1, 2))
    2
    """

    def __init__(self, lake: LakeReader, threads: Executor) -> None:
        self._lake, self._threads = lake, threads
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, key: str, work: Callable[..., R], *args: object) -> R:
        """Run a function in a thread, for a key.

        Raises
        ------
        LakeError
            If an object store does not answer; and what the function raises.
        """

        def look() -> R:
            with self._lake._reading():
                return work(*args)

        gate = self._gates.setdefault(key, asyncio.Semaphore(_OF_KEY))
        async with gate:
            return await asyncio.get_running_loop().run_in_executor(self._threads, look)
