"""Accounts: whose request it is, what their tier allows, and the bucket their weight is taken from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from tidytape.budget import TIERS, Admission, Tier, TokenBucket, tier
from tidytape.catalogue import RATE_LIMIT_HEADERS, USAGE_FIELDS, WEIGHT_WINDOW_SECONDS
from tidytape.service.keys import Key, Keys

__all__ = ["Account", "Accounts", "rate_limit_headers", "usage"]


@dataclass(frozen=True, slots=True)
class Account:
    """A known key with its tier and its bucket."""

    key: Key
    tier: Tier
    bucket: TokenBucket


class Accounts:
    """Find the account of a key. Every key has one bucket for as long as the service runs.

    Parameters
    ----------
    keys : Keys
        The keys the service knows.
    clock : callable
        Returns epoch nanoseconds. [ns]
    tiers : mapping of str to Tier
        The tiers that keys name.
    """

    def __init__(self, keys: Keys, *, clock: Callable[[], int], tiers: Mapping[str, Tier] = TIERS) -> None:
        self._keys = keys
        self._clock = clock
        self._tiers = tiers
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._lock = threading.Lock()

    def of(self, secret: str) -> Account | None:
        """Return the account of a key, or None if the key is unknown or has expired."""
        now_ns = self._clock()
        key = self._keys.find(secret, now=now_ns / 1e9)
        if key is None:
            return None
        allowance = tier(key.tier, self._tiers)
        with self._lock:
            # A key that changes tier starts a bucket of the new size.
            bucket = self._buckets.get((key.id, allowance.name))
            if bucket is None:
                bucket = TokenBucket(allowance.per_minute, allowance.burst, now_ns=now_ns)
                self._buckets[key.id, allowance.name] = bucket
        return Account(key, allowance, bucket)


def rate_limit_headers(state: Admission) -> dict[str, str]:
    """Return the headers that go on every response to a known key."""
    headers = {name: str(getattr(state, field)) for name, field in RATE_LIMIT_HEADERS.items()}
    if not state.admitted:
        headers["Retry-After"] = str(state.retry_after)
    return headers


def usage(state: Admission) -> dict[str, int]:
    """Return the body of ``GET /v1/usage``."""
    known = {**asdict(state), "window_seconds": WEIGHT_WINDOW_SECONDS}
    return {field.name: known[field.name] for field in USAGE_FIELDS}
