"""The client's own account of the budget of a key, so that it waits instead of being refused."""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidytape.catalogue import WEIGHT_WINDOW_SECONDS
from tidytape.times import SECOND

_WINDOW_NS = WEIGHT_WINDOW_SECONDS * SECOND
_MARGIN = 0.001
"""Added to each wait, because a rounded wait may be too short. [s]"""

_MOST = 10**12
"""The largest budget that is believed; a header with a larger number is ignored. [weight]"""

_BURST = 2
"""Capacity of the bucket, as a multiple of the budget of a minute, until the service reports another capacity."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The quota of a key, as the service reports it.

    Attributes
    ----------
    limit : int
        Sustained budget. [weight per window]
    remaining : int
        The weight that is available now. [weight]
    used : int
        The weight of the requests in the last window. [weight]
    reset : int
        Epoch second at which the bucket is full again. [s]
    window_seconds : int
        Length of the window. [s]
    """

    limit: int
    remaining: int
    used: int
    reset: int
    window_seconds: int


Line = tuple[int, int]
"""The weight of all requests so far, and of those that are not answered yet. [weight]"""


@dataclass(frozen=True, slots=True)
class Taken:
    """The weight of one request, and its place in the line of requests that wait for the budget."""

    quota: Quota
    weight: int
    place: int

    @property
    def wait(self) -> float:
        """Time until the request may be sent, by what responses have said of the budget. [s]"""
        return self.quota.wait_for(self.weight, place=self.place)

    def give_up(self) -> None:
        """Leave the line."""
        self.quota.leave(self.weight)


class Quota:
    """The token bucket of one key, learned from responses. Threads and tasks may share it.

    A request takes its weight before it waits, so that requests keep their order. So the level may be below zero; the
    request waits until it is not.

    Parameters
    ----------
    clock : callable
        Returns nanoseconds that only go forward. [ns]

    Examples
    --------
    >>> quota = Quota(clock=lambda: 0)
    >>> quota.take(5).wait  # nothing is known of the budget
    0.0
    >>> quota.heard(limit=100, remaining=150, reset=None, taken=5)
    >>> quota.take(150).wait, round(quota.take(5).wait, 2)
    (0.0, 3.0)
    """

    def __init__(self, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._per_minute = 0
        self._burst = 0
        self._scaled_level = 0  # [weight / _WINDOW_NS], so that refilling is exact
        self._at = clock()
        self._unanswered_weight = 0  # weight of requests without an answer yet
        self.is_silent = False  # the client asked for the budget, and the service did not say it
        self.is_heard = False  # the service has sent any answer
        self.has_notes = False  # the service says why series do not fill the window
        self._taken = 0  # weight of all requests so far, which is the place of the last one in the line

    @property
    def is_known(self) -> bool:
        """Whether a response has said what the budget is."""
        return self._per_minute > 0

    @property
    def is_asked(self) -> bool:
        """Whether requests are on their way whose answers will be the first to say the budget."""
        return self._unanswered_weight > 0 and not (self.is_known or self.is_silent)

    @property
    def per_minute(self) -> int | None:
        """Refill rate; None if it is not known. [weight per min]"""
        return self._per_minute or None

    @property
    def burst(self) -> int | None:
        """Capacity of the bucket, which no request may exceed; None if it is not known. [weight]"""
        return self._burst if self.is_known else None

    def take(self, weight: int) -> Taken:
        """Take weight. ``wait`` of the result is the time until the weight may be used."""
        with self._lock:
            self._refill()
            self._unanswered_weight += weight
            self._taken += weight
            self._scaled_level -= weight * _WINDOW_NS
            return Taken(self, weight, self._taken)

    def wait_for(self, weight: int, *, place: int) -> float:
        """Return how long to wait until weight at a place in the line may be used, as is known now. [s]"""
        with self._lock:
            self._refill()
            later = self._taken - place  # it does not wait for requests behind it
            if self.is_known and weight > self._burst:
                # The bucket has become too small for the request: send it when the bucket is full, and let the service
                # refuse it.
                later = max(later, self._unanswered_weight - self._burst)
            return self._wait(-later)

    def leave(self, weight: int) -> None:
        """Give back the weight of a request that stopped waiting; the requests behind it move up."""
        with self._lock:
            self._taken -= weight
        self.give_back(weight)

    def give_back(self, weight: int) -> None:
        """Give back the weight of a request that was not sent, or that the service did not answer."""
        with self._lock:
            self._refill()
            self._unanswered_weight -= weight
            self._scaled_level += weight * _WINDOW_NS
            self._trim()

    def used(self, weight: int) -> None:
        """Note that the service accepted a request and did not say the remaining weight."""
        with self._lock:
            self._unanswered_weight -= weight

    def seconds_for(self, weight: int) -> float:
        """Return the time until so much more weight is available; 0 if the budget is not known. [s]"""
        with self._lock:
            self._refill()
            return self._wait(weight) if self.is_known else 0.0

    @property
    def available(self) -> int:
        """Weight that a caller can take without waiting. [weight]"""
        with self._lock:
            self._refill()
            return max(0, self._scaled_level // _WINDOW_NS)

    @property
    def line(self) -> Line:
        """Return the state when a request is sent; ``heard`` compares it with the state when the answer arrives."""
        with self._lock:
            return self._taken, self._unanswered_weight

    def heard(
        self, *, limit: int, remaining: int, reset: float | None, taken: int, sent: Line | None = None
    ) -> None:
        """Update the bucket from a response.

        Parameters
        ----------
        limit, remaining : int
            As reported. [weight per minute], [weight]
        reset : float, optional
            Time until the bucket is full again, as reported. [s]
        taken : int
            Weight of the request that this answers. [weight]
        sent : Line, optional
            The ``line`` when that request was sent. The response may not count requests that were sent later, even if
            their answers came earlier.
        """
        if not (1 <= limit <= _MOST and 0 <= remaining <= _MOST):
            self.used(taken)
            return
        with self._lock:
            self._refill()
            self._unanswered_weight -= taken
            first = not self.is_known
            self._per_minute = limit
            self._burst = max(_burst(limit, remaining, reset), remaining)
            # The service may or may not have counted other open requests, and it reports whole numbers. Within these
            # bounds the client's own level is more exact.
            level, unseen = self._scaled_level // _WINDOW_NS, max(0, self._unanswered_weight)
            if sent is not None:
                unseen = max(unseen, self._taken - sent[0] + sent[1] - taken)
            if first:
                self._scaled_level = (remaining - unseen) * _WINDOW_NS
            elif remaining < level:
                self._scaled_level = remaining * _WINDOW_NS
            elif remaining > level + unseen + 1:
                self._scaled_level = (remaining - unseen) * _WINDOW_NS
            self._trim()

    def _refill(self) -> None:
        now = self._clock()
        self._scaled_level += (now - self._at) * self._per_minute
        self._at = now
        self._trim()

    def _trim(self) -> None:
        if self.is_known:
            # A full bucket gains nothing until the next request reaches the service.
            self._scaled_level = min(
                self._scaled_level, (self._burst - max(0, self._unanswered_weight)) * _WINDOW_NS
            )

    def _wait(self, more: int = 0) -> float:
        short = more * _WINDOW_NS - self._scaled_level
        return short / self._per_minute / SECOND + _MARGIN if short > 0 and self.is_known else 0.0


def _burst(limit: int, remaining: int, reset: float | None) -> int:
    """Return the capacity of the bucket: the remaining weight plus the refill until it is full."""
    usual = _BURST * limit
    if reset is None or reset < 0:  # the clock of the service is wrong
        return usual
    # Both are rounded: the remaining weight by less than one, the time by less than a second.
    reported_burst = remaining + reset * limit / WEIGHT_WINDOW_SECONDS
    slack = limit / WEIGHT_WINDOW_SECONDS + 2
    return usual if reported_burst >= usual - slack else max(1, int(reported_burst - slack))


_shared: weakref.WeakValueDictionary[str, Quota] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def quota_of(base_url: str, api_key: str) -> Quota:
    """Return the quota of a key, the same one to every client of this process that has the key."""
    # The name is a hash, so that the registry does not hold the key.
    name = hashlib.sha256(f"{base_url}\n{api_key}".encode("utf-8", "surrogatepass")).hexdigest()
    with _sharing:
        quota = _shared.get(name)
        if quota is None:
            quota = _shared[name] = Quota()
        return quota


def reported(headers: Mapping[str, str], *, now: float) -> tuple[int, int, float | None] | None:
    """Read limit, remaining and the time until the bucket is full from the headers of a response; None where absent."""
    limit, remaining, reset = (
        _whole_number(headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset")
    )
    if limit is None or remaining is None:
        return None
    return limit, remaining, None if reset is None else reset - now


def _whole_number(text: str | None) -> int | None:
    """Read a whole number of at most fifteen digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 15 else None
