"""Where the weight of every key is counted: in this process, or in a place that several share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tidytape.budget import Admission, Tier, TokenBucket, refuse_impossible
from tidytape.times import MICROSECOND

__all__ = ["Buckets", "MemoryBuckets", "UnreachableError"]


class UnreachableError(Exception):
    """The buckets gave no answer. Nothing may be admitted that was not counted."""

    def __init__(self) -> None:
        super().__init__("the bucket store cannot be reached")


class Buckets(Protocol):
    """A bucket for every owner and size: whose tier changes begins one of the new size.

    An owner is the public id of a key, never the key. Every method but `close` raises `UnreachableError` where nobody
    answers. Time is in whole microseconds, the finest that every store can tell, so that all of them answer the same.

    Attributes
    ----------
    faults : int
        How many requests to it got no answer.
    """

    faults: int

    async def take(self, owner: str, tier: Tier, weight: int) -> Admission:
        """Take a weight if the bucket holds it, else nothing.

        Raises
        ------
        BudgetError
            If the bucket can never hold so much.
        """

    async def give_back(self, owner: str, tier: Tier, weight: int) -> Admission:
        """Return a weight that was taken for an answer that was never given."""

    async def look(self, owner: str, tier: Tier) -> Admission:
        """Return the state without taking anything."""

    async def check(self) -> None:
        """Return where weight could be taken now."""

    async def close(self) -> None:
        """Let go of what is held."""


class MemoryBuckets:
    """Buckets in this process, for as long as it runs.

    Parameters
    ----------
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    def __init__(self, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.faults = 0
        self._clock = clock
        self._buckets: dict[tuple[str, Tier], TokenBucket] = {}

    async def take(self, owner: str, tier: Tier, weight: int) -> Admission:
        """Take a weight if the bucket holds it, else nothing."""
        refuse_impossible(weight, tier.burst)
        now = self._now()
        return self._bucket(owner, tier, now).take(weight, now_ns=now)

    async def give_back(self, owner: str, tier: Tier, weight: int) -> Admission:
        """Return a weight that was taken for an answer that was never given."""
        now = self._now()
        return self._bucket(owner, tier, now).give_back(weight, now_ns=now)

    async def look(self, owner: str, tier: Tier) -> Admission:
        """Return the state without taking anything."""
        now = self._now()
        return self._bucket(owner, tier, now).look(now_ns=now)

    async def check(self) -> None:
        """Return: there is nothing to reach."""

    async def close(self) -> None:
        """Return: there is nothing to let go of."""

    def _now(self) -> int:
        return self._clock() // MICROSECOND * MICROSECOND

    def _bucket(self, owner: str, tier: Tier, now: int) -> TokenBucket:
        found = self._buckets.get((owner, tier))
        if found is None:
            # Of two threads that find none, the second gets the bucket of the first.
            found = self._buckets.setdefault(
                (owner, tier), TokenBucket(tier.per_minute, tier.burst, now_ns=now)
            )
        return found
