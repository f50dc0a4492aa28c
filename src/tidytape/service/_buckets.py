"""Token buckets of the keys, in this process, or in Redis, which all replicas of the service share."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tidytape.budget import (
    MOST_BURST,
    TIERS,
    Admission,
    Tier,
    TokenBucket,
    admission,
    refuse_impossible,
    refuse_negative,
)
from tidytape.errors import QueryError, TidytapeError
from tidytape.times import MICROSECOND

if TYPE_CHECKING:
    from redis.asyncio import Redis


_log = logging.getLogger("tidytape.service")


class UnreachableError(Exception):
    """The bucket store did not answer. The service admits no request whose weight it cannot count."""

    def __init__(self) -> None:
        super().__init__("the bucket store cannot be reached")


class Buckets(ABC):
    """A store with a bucket for every owner and size: a key whose tier changes starts a bucket of the new size.

    An owner is the public id of a key, never the key. Every method except `close` raises `UnreachableError` if the
    store does not answer. Times are whole microseconds, the finest unit that every store has, so that all stores give
    the same answers. A store of your own is a subclass that defines `counted`.

    Attributes
    ----------
    faults : int
        Number of requests to the store that got no answer.
    """

    faults: int = 0

    async def take(self, owner: str, tier: Tier, weight: int) -> Admission:
        """Take a weight if the bucket holds it, otherwise take nothing.

        Raises
        ------
        BudgetError
            If the weight is larger than the bucket.
        UnreachableError
            If the store does not answer. The weight may have been taken; the request must not be admitted.
        """
        refuse_impossible(weight, tier.burst)
        return await self.counted(owner, tier, take=weight)

    async def give_back(self, owner: str, tier: Tier, weight: int) -> Admission:
        """Put weight back into the bucket, because the service did not answer the request that took it."""
        refuse_negative(weight)
        return await self.counted(owner, tier, give_back=weight)

    async def look(self, owner: str, tier: Tier) -> Admission:
        """Return the state of the bucket without taking anything."""
        return await self.counted(owner, tier)

    @abstractmethod
    async def counted(self, owner: str, tier: Tier, *, take: int = 0, give_back: int = 0) -> Admission:
        """Take a weight if the bucket holds it, or put one back, in one atomic step; return the state."""

    async def check(self) -> None:  # noqa: B027 - memory is always there
        """Raise UnreachableError if no weight could be taken now."""

    async def close(self) -> None:  # noqa: B027 - memory has no connections
        """Close the connections."""


class MemoryBuckets(Buckets):
    """Buckets in this process, for as long as it runs.

    Parameters
    ----------
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    def __init__(self, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, Tier], TokenBucket] = {}

    async def counted(self, owner: str, tier: Tier, *, take: int = 0, give_back: int = 0) -> Admission:
        """Take a weight if the bucket holds it, or put one back; return the state."""
        return self.counted_now(owner, tier, take=take, give_back=give_back)

    def counted_now(self, owner: str, tier: Tier, *, take: int = 0, give_back: int = 0) -> Admission:
        """Do what ``counted`` does, in code that has no event loop."""
        now = self._clock() // MICROSECOND * MICROSECOND
        # If two threads find no bucket at the same time, both get the one that was stored first.
        new_bucket = TokenBucket(tier.per_minute, tier.burst, now_ns=now)
        bucket = self._buckets.setdefault((owner, tier), new_bucket)
        return bucket.give_back(give_back, now_ns=now) if give_back else bucket.take(take, now_ns=now)


_SCRIPT = Path(__file__).with_suffix(".lua")
_CONNECTIONS = 32


class RedisBuckets(Buckets):
    """Buckets in Redis: each request is one round trip and atomic.

    An instance belongs to the event loop that uses it first.

    Parameters
    ----------
    url : str
        ``redis://[user:password@]host[:port][/database]``, ``rediss://`` with TLS, or ``unix://path``.
    prefix : str
        Prefix of the names in Redis. The public id of a service key follows, never the key.
    timeout : float
        The longest that one request may take. [s]
    clock : callable, optional
        Returns epoch nanoseconds; by default the time of the Redis server, on which all replicas agree. [ns]

    Raises
    ------
    QueryError
        If the address cannot be read.
    TidytapeError
        If the extra is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "tidytape:",
        timeout: float = 1.0,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._redis = _opened(url)
        self._ask = self._redis.register_script(_SCRIPT.read_text("utf-8"))
        self._prefix = prefix
        self._timeout = timeout
        self._clock = clock
        self._away = False

    async def counted(self, owner: str, tier: Tier, *, take: int = 0, give_back: int = 0) -> Admission:
        """Take a weight if the bucket holds it, or put one back, in one request; return the state."""
        now_argument = "" if self._clock is None else self._clock() // MICROSECOND
        arguments = [take, give_back, tier.per_minute, tier.burst, now_argument]
        is_admitted, now, counted_at, missing_time, used_weight = await self._in_time(
            self._name(owner, tier), arguments
        )
        return admission(
            tier.per_minute,
            tier.burst,
            at_ns=counted_at * MICROSECOND,
            missing=missing_time * MICROSECOND,
            used=used_weight,
            now_ns=now * MICROSECOND,
            refused=0 if is_admitted else take,
        )

    async def check(self) -> None:
        """Raise UnreachableError if no weight could be taken now: ask for a bucket without an owner."""
        await self.look("check", TIERS["basic"])

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    def _name(self, owner: str, tier: Tier) -> str:
        if tier.burst > MOST_BURST:
            raise ValueError(f"tier {tier.name}: got a burst of {tier.burst}, expected at most {MOST_BURST}")
        # The size is part of the name, because another size means another bucket. Words are quoted, so that no two
        # buckets have the same name.
        words = (quote(owner, safe=""), quote(tier.name, safe=""), str(tier.per_minute), str(tier.burst))
        return self._prefix + ":".join(words)

    async def _in_time(self, name: str, arguments: list[int | str]) -> list[int]:
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(self._timeout):
                answer: list[int] = await self._ask(keys=[name], args=arguments)
        except (RedisError, OSError, TimeoutError) as error:
            self.faults += 1
            if not self._away:
                self._away = True
                _log.error("the bucket store cannot be reached, requests get 503: %r", error)
            raise UnreachableError from None
        if self._away:
            self._away = False
            _log.warning("the bucket store answers again")
        return answer


def _opened(url: str) -> Redis:
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise TidytapeError("buckets in Redis need an extra: pip install 'tidytape[redis]'") from None
    # Redis may have counted a request whose answer was lost; a second try would count it twice.
    no_retry = Retry(NoBackoff(), 0)
    try:
        parts = urlsplit(url)
        if parts.scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
            raise ValueError("a database is a number")
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=None,  # one limit holds for the complete request
            retry=no_retry,
            protocol=2,  # version 3 adds messages that are no answers
        )
        # Checks that all settings in the address exist; it does not connect.
        pool.make_connection()  # type: ignore[no-untyped-call]
    except (TypeError, ValueError):
        # The library's message is left out, because it may quote the address, which may hold a password.
        raise QueryError(
            "buckets",
            got="an address that cannot be read",
            expected="redis://[user:password@]host[:port][/database], with special characters in percent-encoding",
        ) from None
    return Redis.from_pool(pool)
