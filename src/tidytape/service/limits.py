"""Accounts: whose request it is, what their tier allows, and the bucket their weight is taken from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from tidytape.budget import TIERS, Admission, Tier, tier
from tidytape.catalogue import RATE_LIMIT_HEADERS, USAGE_FIELDS, WEIGHT_WINDOW_SECONDS
from tidytape.service.buckets import Buckets
from tidytape.service.keys import Key, Keys

__all__ = ["Account", "Accounts", "rate_limit_headers", "usage"]


@dataclass(slots=True)
class Account:
    """A known key with its tier and its bucket, for one request.

    Attributes
    ----------
    key : Key
    tier : Tier
    buckets : Buckets
        Where its bucket is.
    state : Admission or None
        What the bucket said last in this request, which its headers show; None before it was asked.
    """

    key: Key
    tier: Tier
    buckets: Buckets
    state: Admission | None = None

    async def take(self, weight: int) -> Admission:
        """Take a weight from the bucket if it holds it."""
        self.state = await self.buckets.take(self.key.id, self.tier, weight)
        return self.state

    async def give_back(self, weight: int) -> Admission:
        """Return a weight that was taken for an answer that was never given."""
        self.state = await self.buckets.give_back(self.key.id, self.tier, weight)
        return self.state

    async def look(self) -> Admission:
        """Return the state without taking anything."""
        self.state = await self.buckets.look(self.key.id, self.tier)
        return self.state


class Accounts:
    """Find the account of a key.

    Parameters
    ----------
    keys : Keys
        The keys the service knows.
    buckets : Buckets
        Where their weight is counted.
    clock : callable
        Returns epoch nanoseconds. [ns]
    tiers : mapping of str to Tier
        The tiers that keys name.
    """

    def __init__(
        self, keys: Keys, *, buckets: Buckets, clock: Callable[[], int], tiers: Mapping[str, Tier] = TIERS
    ) -> None:
        self._keys = keys
        self._buckets = buckets
        self._clock = clock
        self._tiers = tiers

    def of(self, secret: str) -> Account | None:
        """Return the account of a key, or None if the key is unknown or has expired."""
        key = self._keys.find(secret, now=self._clock() / 1e9)
        return None if key is None else Account(key, tier(key.tier, self._tiers), self._buckets)


def rate_limit_headers(state: Admission) -> dict[str, str]:
    """Return the headers that go on every response to a known key."""
    return {name: str(getattr(state, field)) for name, field in RATE_LIMIT_HEADERS.items()}


def usage(state: Admission) -> dict[str, int]:
    """Return the body of ``GET /v1/usage``."""
    known = {**asdict(state), "window_seconds": WEIGHT_WINDOW_SECONDS}
    return {field.name: known[field.name] for field in USAGE_FIELDS}
