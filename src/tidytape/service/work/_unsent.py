"""The bytes of answers that wait to be sent, bounded per key and in all. No threads, no clock."""

from __future__ import annotations

import asyncio
from collections import Counter

MOST = 256 << 20
MOST_OF_KEY = 64 << 20


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

    def __init__(self, *, most: int = MOST, most_of_key: int = MOST_OF_KEY) -> None:
        self._most, self._most_of_key = most, most_of_key
        self.sizes: dict[object, tuple[str, int]] = {}
        self._of_keys: Counter[str] = Counter()
        self._waiting: dict[asyncio.Future[None], tuple[object, str, int]] = {}  # in the order they came

    @property
    def total(self) -> int:
        """How many bytes wait. [byte]"""
        return self._of_keys.total()

    async def take(self, owner: object, key: str, size: int) -> None:
        """Count so many bytes for an owner; wait until there is room for them."""
        admitted = asyncio.get_running_loop().create_future()
        self._waiting[admitted] = owner, key, size
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            self._waiting.pop(admitted, None)
            self.release(owner)  # it may have been admitted at the same time
            self._admit()
            raise

    def resize(self, owner: object, size: int) -> None:
        """Count another size for an owner who was admitted: what was an estimate is known."""
        if owner in self.sizes:
            key, before = self.sizes[owner]
            self.sizes[owner] = key, size
            self._of_keys[key] += size - before
            self._admit()

    def release(self, owner: object) -> None:
        """Count nothing more for an owner."""
        self.resize(owner, 0)
        self.sizes.pop(owner, None)

    def _admit(self) -> None:
        """Admit those who wait and fit, the ones of a key in the order they came."""
        behind: set[str] = set()
        for admitted, (owner, key, size) in list(self._waiting.items()):
            of_key = self._of_keys[key]
            fits = of_key + size <= self._most_of_key and self.total + size <= self._most
            if key not in behind and (fits or of_key <= 0):
                del self._waiting[admitted]
                self.sizes[owner] = key, size
                self._of_keys[key] += size
                admitted.set_result(None)
            else:
                behind.add(key)
