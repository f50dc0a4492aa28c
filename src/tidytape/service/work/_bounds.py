"""What a key may take of the service at a time: threads, and bytes that wait to be sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import TypeVar
from weakref import WeakValueDictionary

from tidytape.lake import LakeReader

R = TypeVar("R")
_OF_KEY = 2  # threads


class Looks:
    """Runs work in threads, two of a key at a time, so that a key with much work keeps only itself waiting.

    Parameters
    ----------
    lake : LakeReader
        The lake that the work reads.
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

        def end() -> None:
            gate.release()
            if not ended.done():
                ended.set_result(None)

        def tell(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end)

        loop, gate = asyncio.get_running_loop(), self._gates.setdefault(key, asyncio.Semaphore(_OF_KEY))
        ended = loop.create_future()
        await gate.acquire()
        looking = self._threads.submit(look)
        looking.add_done_callback(tell)  # not when the caller hangs up, for nothing stops the thread
        try:
            await ended
        finally:
            looking.cancel()  # unless it has begun
        return looking.result()


class Unsent:
    """Counts the bytes that wait to be sent, each with its owner, from before their computation until they are sent.

    A key that holds nothing gets in at once, so whoever reads what he asks for never waits for others. It belongs to
    one event loop.

    Parameters
    ----------
    most, most_of_key : int
        How many bytes may wait in all, and of one key. [byte]

    Attributes
    ----------
    sizes : dict
        By owner the key and the size. [byte]

    Examples
    --------
    >>> async def two_of_one_key(unsent):
    ...     await unsent.take("first", "a", 8)
    ...     second = asyncio.create_task(unsent.take("second", "a", 8))
    ...     await unsent.take("third", "b", 8)  # the other key gets in
    ...     unsent.release("first")
    ...     await second
    ...     return unsent.sizes
    >>> asyncio.run(two_of_one_key(Unsent(most=20, most_of_key=10)))
    {'third': ('b', 8), 'second': ('a', 8)}
    """

    def __init__(self, *, most: int = 256 << 20, most_of_key: int = 64 << 20) -> None:
        self._most, self._most_of_key = most, most_of_key
        self.sizes: dict[object, tuple[str, int]] = {}
        self._of_keys: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @property
    def total(self) -> int:
        """How many bytes wait. [byte]"""
        return self._of_keys.total()

    async def take(self, owner: object, key: str, size: int) -> None:
        """Count so many bytes for an owner; wait until there is room for them."""
        while self._of_keys[key] > 0 and (
            self._of_keys[key] + size > self._most_of_key or self.total + size > self._most
        ):
            await self._changed.wait()
        self.sizes[owner] = key, 0
        self.resize(owner, size)

    def resize(self, owner: object, size: int) -> None:
        """Count another size for an owner who was admitted: what was an estimate is known."""
        if owner in self.sizes:
            key, before = self.sizes[owner]
            self.sizes[owner] = key, size
            self._of_keys[key] += size - before
            self._changed.set()
            self._changed = asyncio.Event()

    def release(self, owner: object) -> None:
        """Count nothing more for an owner."""
        self.resize(owner, 0)
        self.sizes.pop(owner, None)
