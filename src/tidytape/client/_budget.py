"""The client's own account of the budget of a key, so that it waits before the service refuses a request."""

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

_LARGEST = 10**12
"""The client ignores a header that states a larger budget than this. [weight]"""

_BURST = 2
"""Usual capacity of the bucket, as a multiple of the budget of a minute."""


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
"""The weight of all requests so far, and the weight of the requests that have no answer yet. [weight]"""


@dataclass(frozen=True, slots=True)
class Taken:
    """The weight of one request, and its place in the line of requests that wait for the budget.

    A place is the weight of all requests up to this one.
    """

    quota: Quota
    weight: int
    place: int

    @property
    def wait(self) -> float:
        """Time until the budget allows the request, as far as responses have told the client the budget. [s]"""
        return self.quota.wait_for(self.weight, place=self.place)

    def give_up(self) -> None:
        """Leave the line: the request will not be sent."""
        self.quota.leave(self.weight)


class Quota:
    """The token bucket of one key, learned from responses. Threads and tasks may share it.

    A request takes its weight from the bucket before it waits, so that requests keep their order. So the bucket may
    hold less than zero. The request waits until that is no longer so.

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
        self._scaled_tokens = 0  # what the bucket holds [weight / _WINDOW_NS], so that refilling is exact
        self._refilled_at = clock()
        self._unanswered_weight = 0  # weight of requests without an answer yet
        self.is_silent = False  # the client asked for the budget, and the service did not say it
        self.is_heard = False  # the service has sent some answer
        self.has_notes = False  # the service says why series do not fill the window
        self._total_weight = (
            0  # weight of all requests so far, and so the place of the last request in the line
        )

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
        """Take weight from the bucket. ``wait`` of the result is the time until the request may be sent."""
        with self._lock:
            self._refill()
            self._unanswered_weight += weight
            self._total_weight += weight
            self._scaled_tokens -= weight * _WINDOW_NS
            return Taken(self, weight, self._total_weight)

    def wait_for(self, weight: int, *, place: int) -> float:
        """Return how long a request at a place in the line has to wait, as far as the budget is known now. [s]"""
        with self._lock:
            self._refill()
            weight_behind = self._total_weight - place  # a request does not wait for the requests behind it
            if self.is_known and weight > self._burst:
                # The bucket has become too small for the request: send it when the bucket is full, and let the service
                # refuse it.
                weight_behind = max(weight_behind, self._unanswered_weight - self._burst)
            return self._wait(-weight_behind)

    def leave(self, weight: int) -> None:
        """Give back the weight of a request that stopped waiting; the requests behind it move up."""
        with self._lock:
            self._total_weight -= weight
        self.give_back(weight)

    def give_back(self, weight: int) -> None:
        """Give back the weight of a request that was not sent, or that the service did not answer."""
        with self._lock:
            self._refill()
            self._unanswered_weight -= weight
            self._scaled_tokens += weight * _WINDOW_NS
            self._trim()

    def used(self, weight: int) -> None:
        """Note that the service accepted a request without saying the remaining weight."""
        with self._lock:
            self._unanswered_weight -= weight

    def seconds_for(self, weight: int) -> float:
        """Return the time until ``weight`` is available; 0 if the budget is not known. [s]"""
        with self._lock:
            self._refill()
            return self._wait(weight) if self.is_known else 0.0

    @property
    def available(self) -> int:
        """Weight that a caller can take without waiting. [weight]"""
        with self._lock:
            self._refill()
            return max(0, self._scaled_tokens // _WINDOW_NS)

    @property
    def line(self) -> Line:
        """The line now. Read it when a request is sent; ``heard`` compares it with the line when the answer arrives."""
        with self._lock:
            return self._total_weight, self._unanswered_weight

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
        if not (1 <= limit <= _LARGEST and 0 <= remaining <= _LARGEST):
            self.used(taken)
            return
        with self._lock:
            self._refill()
            self._unanswered_weight -= taken
            is_first = not self.is_known
            self._per_minute = limit
            self._burst = max(_burst(limit, remaining, reset), remaining)
            # The service may or may not have counted the weight of other open requests, and it reports whole numbers.
            # Within these bounds the client's own count is more exact.
            tokens, open_weight = self._scaled_tokens // _WINDOW_NS, max(0, self._unanswered_weight)
            if sent is not None:
                open_weight = max(open_weight, self._total_weight - sent[0] + sent[1] - taken)
            if is_first:
                self._scaled_tokens = (remaining - open_weight) * _WINDOW_NS
            elif remaining < tokens:
                self._scaled_tokens = remaining * _WINDOW_NS
            elif remaining > tokens + open_weight + 1:
                self._scaled_tokens = (remaining - open_weight) * _WINDOW_NS
            self._trim()

    def _refill(self) -> None:
        now = self._clock()
        self._scaled_tokens += (now - self._refilled_at) * self._per_minute
        self._refilled_at = now
        self._trim()

    def _trim(self) -> None:
        if self.is_known:
            # The service's bucket may still be full, because it has not taken the weight of open requests yet. A full
            # bucket gains nothing, so the client's bucket stays below the capacity by that weight.
            self._scaled_tokens = min(
                self._scaled_tokens, (self._burst - max(0, self._unanswered_weight)) * _WINDOW_NS
            )

    def _wait(self, weight: int) -> float:
        """Return the time until the bucket holds ``weight``, which may be negative; 0 without a known budget. [s]"""
        shortfall = weight * _WINDOW_NS - self._scaled_tokens
        return shortfall / self._per_minute / SECOND + _MARGIN if shortfall > 0 and self.is_known else 0.0


def _burst(limit: int, remaining: int, reset: float | None) -> int:
    """Return the capacity of the bucket: the remaining weight plus the refill until it is full."""
    usual = _BURST * limit
    if reset is None or reset < 0:  # a negative time comes from a wrong clock
        return usual
    # The service rounds both numbers: the remaining weight by less than one, the time by less than a second.
    reported_burst = remaining + reset * limit / WEIGHT_WINDOW_SECONDS
    slack = limit / WEIGHT_WINDOW_SECONDS + 2
    return usual if reported_burst >= usual - slack else max(1, int(reported_burst - slack))


_quotas: weakref.WeakValueDictionary[str, Quota] = weakref.WeakValueDictionary()
_quotas_lock = threading.Lock()


def quota_of(base_url: str, api_key: str) -> Quota:
    """Return the quota of a key; all clients of this process that have the key share one quota."""
    # The name is a hash, so that `_quotas` does not hold the key.
    name = hashlib.sha256(f"{base_url}\n{api_key}".encode("utf-8", "surrogatepass")).hexdigest()
    with _quotas_lock:
        quota = _quotas.get(name)
        if quota is None:
            quota = _quotas[name] = Quota()
        return quota


def reported(headers: Mapping[str, str], *, now: float) -> tuple[int, int, float | None] | None:
    """Read the limit, the remaining weight and the time until the bucket is full from the headers of a response.

    Return None if there is no limit or no remaining weight.
    """
    limit, remaining, reset = (
        _whole_number(headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset")
    )
    if limit is None or remaining is None:
        return None
    return limit, remaining, None if reset is None else reset - now


def _whole_number(text: str | None) -> int | None:
    """Read a whole number of at most fifteen digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 15 else None
