"""The weight of a request, the tiers of keys, and the token bucket of a key. No I/O, and no clock of its own.

Examples
--------
>>> from tidytape.query import PointsQuery
>>> query = PointsQuery(type="BLOCK_BOOK_SNAPSHOT_AGG", exchange=["A", "B"], coin="BTC", interval="1m",
...                     start=0, end=60_000, group_by="sum", max_depth=3501)
>>> weight(query)
17
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidytape.catalogue import (
    POINTS_PER_WEIGHT,
    SURCHARGE_PARTS,
    WEIGHT_WINDOW_SECONDS,
    DataType,
    Interval,
    TierName,
)
from tidytape.errors import BudgetError, QueryError, counted, did_you_mean
from tidytape.query import PointsQuery
from tidytape.query._values import written_time
from tidytape.times import SECOND

__all__ = [
    "MOST_BURST",
    "TIERS",
    "Admission",
    "Tier",
    "TokenBucket",
    "admission",
    "refuse_impossible",
    "refuse_negative",
    "tier",
    "weight",
]


# --- weight ---------------------------------------------------------------------------------------------------------


def weight(query: PointsQuery) -> int:
    r"""Return the weight of a request, evaluated in exact integers.

    .. math:: w = \sum_{types} \left\lceil
        \lceil p / 1000 i \rceil \cdot m \cdot (5 + n)(5 + k) / 25 \right\rceil

    p is the length of the window [s], i the interval [s], m the multiplier of the type. n is the number of distinct
    exchanges if they are aggregated (two or more, and a ``group_by``), else 0. k is the number of included depths that
    ``max_depth`` begins beyond the first.

    Parameters
    ----------
    query : PointsQuery
        The weights of several types add up; a type that the catalogue does not know has the multiplier 1.

    Returns
    -------
    int, >= 1
        [weight]

    References
    ----------
    .. [1] Service specification, "Weight formula", steps 1 to 5. In floats ``1 + 0.2 n`` charges one too many at times.

    Examples
    --------
    >>> shapes = {"type": "TRADE_AGG", "coin": "BTC", "interval": "1m", "start": 0, "end": 60_000}
    >>> [weight(PointsQuery(exchange=list("ABCDE")[:n], group_by="sum", **shapes)) for n in (1, 2, 3, 5)]
    [1, 2, 2, 2]
    """
    thousands = -(-query.period // (query.step * POINTS_PER_WEIGHT))
    exchanges = len(query.exchange) if query.is_aggregation else 0
    unknown = len(query.type) - len(query.data_types)
    parts = [
        (data_type.multiplier, _extra_depths(data_type, query.max_depth)) for data_type in query.data_types
    ]
    parts += [(1, 0)] * unknown
    full = SURCHARGE_PARTS
    return sum(
        -(-thousands * multiplier * (full + exchanges) * (full + depths) // full**2)
        for multiplier, depths in parts
    )


def _extra_depths(data_type: DataType, max_depth: int | None) -> int:
    if max_depth is None or data_type.included_depth is None:
        return 0
    return (max_depth - 1) // data_type.included_depth


# --- tiers ----------------------------------------------------------------------------------------------------------


_DAY = Interval.DAY.seconds


@dataclass(frozen=True, slots=True)
class Tier:
    """What the keys of an account may fetch, and how much of it.

    Attributes
    ----------
    name : str
        The name of the tier.
    per_minute : int
        Sustained budget. [weight per min]
    burst : int
        Largest weight that the bucket can hold. [weight]
    history_days : int or None
        Age of the oldest data that the tier includes; None without a limit. [d]
    aggregation : bool
        Whether several exchanges may be joined into one series.
    rank : TierName
        The tier includes the data types whose tier in the catalogue is not above this one.
    streams : int
        How many streams a key may hold at once.
    """

    name: str
    per_minute: int
    burst: int
    history_days: int | None
    aggregation: bool
    rank: TierName
    streams: int = 10

    def permits(self, kind: DataType) -> bool:
        """Return whether the tier includes a data type.

        Examples
        --------
        >>> from tidytape.catalogue import DATA_TYPES
        >>> TIERS["basic"].permits(DATA_TYPES["SKEW_OPTION_SUMMARY_AGG"])
        False
        """
        order = list(TierName)
        return order.index(kind.tier) <= order.index(self.rank)

    def history_start(self, *, now: float) -> int | None:
        """Return the time of the earliest data that the tier includes; None without a limit. [s since the epoch]

        It is midnight in UTC, so that the service does not refuse a request for the last 90 days that took a second to
        arrive.

        Examples
        --------
        >>> TIERS["basic"].history_start(now=100 * 86_400 + 5) == 10 * 86_400
        True
        """
        return None if self.history_days is None else (int(now) // _DAY - self.history_days) * _DAY

    def require(self, query: PointsQuery, *, now: float) -> None:
        """Raise QueryError if the tier does not include a query.

        Parameters
        ----------
        query : PointsQuery
        now : float
            The time of the query. [s since the epoch]

        Raises
        ------
        QueryError
            If a data type, a join of exchanges or the start of the window is beyond the tier.

        Examples
        --------
        >>> query = PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1d", start=0, end=86_400)
        >>> TIERS["enterprise"].require(query, now=200 * 86_400)
        >>> TIERS["basic"].require(query, now=200 * 86_400)
        Traceback (most recent call last):
        tidytape.errors.QueryError: start: got '1970-01-01T00:00:00Z', expected a time in the last 90 days, which the \
basic tier has
        """
        for data_type in query.data_types:
            if not self.permits(data_type):
                raise QueryError(
                    "type",
                    got=data_type.name,
                    expected=f"a type of the {self.name} tier",
                    code="TYPE_NOT_PERMITTED",
                )
        if query.is_aggregation and not self.aggregation:
            raise QueryError(
                "group_by",
                got=str(query.group_by),
                expected=f"no value; the {self.name} tier does not aggregate exchanges",
                code="AGGREGATION_NOT_PERMITTED",
            )
        first = self.history_start(now=now)
        if first is not None and query.start < first:
            raise QueryError(
                "start",
                got=written_time(query.start),
                expected=f"a time in the last {counted(self.history_days or 0, 'day')}, which the {self.name} tier has",
                code="HISTORY_NOT_PERMITTED",
            )

    def seconds_for(self, weight: int) -> float:
        """Return how long a key of the tier, with a full bucket, has to wait until it has sent ``weight``. [s]

        Examples
        --------
        >>> TIERS["basic"].seconds_for(200), TIERS["basic"].seconds_for(528)
        (0.0, 196.8)
        """
        return max(0, weight - self.burst) * WEIGHT_WINDOW_SECONDS / self.per_minute


TIERS: Mapping[str, Tier] = MappingProxyType(
    {
        tier.name: tier
        for tier in (
            Tier("basic", 100, 200, 90, aggregation=False, rank=TierName.BASIC, streams=5),
            Tier("advanced", 750, 1_500, 365, aggregation=True, rank=TierName.ADVANCED, streams=20),
            Tier("enterprise", 750, 1_500, None, aggregation=True, rank=TierName.ENTERPRISE, streams=100),
        )
    }
)
"""The tiers of the specification, by name. A service may have other tiers, and a client learns those from it."""

MOST_BURST = 100_000_000
"""The largest burst that every store of buckets counts exactly. [weight]"""


def tier(name: str, tiers: Mapping[str, Tier] = TIERS) -> Tier:
    """Return a tier by its name, in any case.

    Raises
    ------
    QueryError
        If no tier has that name.

    Examples
    --------
    >>> tier("Basic").burst
    200
    """
    folded = {known.casefold(): of_name for known, of_name in tiers.items()}
    try:
        return folded[name.casefold()]
    except KeyError:
        hint = did_you_mean(name, tiers)
        raise QueryError("tier", got=name, expected="one of " + ", ".join(tiers), hint=hint) from None


# --- the bucket -----------------------------------------------------------------------------------------------------


CLOCK_WAS_SET = 1
"""If a time lies further than this before the time of the last call, the clock was set back. [s]"""
_WINDOW_NS = WEIGHT_WINDOW_SECONDS * SECOND


@dataclass(frozen=True, slots=True)
class Admission:
    """The bucket's answer, and the state that the rate-limit headers show.

    Attributes
    ----------
    admitted : bool
        Whether the weight was taken.
    limit : int
        Sustained budget. [weight per min]
    remaining : int
        Whole tokens in the bucket now. [weight]
    used : int
        Weight taken in the last 60 s. [weight]
    reset : int
        Epoch second at which the bucket is full again, rounded up. [s]
    retry_after : int
        Whole seconds until the same weight can be admitted, 0 if it was; always at least 1 if it was not. [s]
    """

    admitted: bool
    limit: int
    remaining: int
    used: int
    reset: int
    retry_after: int


def refuse_negative(weight: int) -> None:
    """Raise ValueError if a weight is below zero."""
    if weight < 0:
        raise ValueError(f"weight: got {weight}, expected 0 or more")


def refuse_impossible(weight: int, burst: int) -> None:
    """Raise an error if a bucket of this size can never give a weight.

    Raises
    ------
    ValueError
        If the weight is below zero.
    BudgetError
        If the weight is more than the bucket can ever hold, so that a wait would never end.
    """
    refuse_negative(weight)
    if weight > burst:
        raise BudgetError(
            f"weight {weight} is more than the bucket can ever hold ({burst}); ask for a smaller window",
            weight=weight,
            available=burst,
        )


def admission(
    per_minute: int, burst: int, *, at_ns: int, missing: int, used: int, now_ns: int, refused: int = 0
) -> Admission:
    """Return the answer of a bucket from its state, which this process or another store may keep.

    Parameters
    ----------
    per_minute, burst : int
        Refill rate [weight per min] and capacity [weight] of the bucket.
    at_ns : int
        Time up to which the bucket is refilled. [ns since the epoch]
    missing : int
        How much the bucket lacks to be full, in units of 1/(60e9) token.
    used : int
        Weight taken in the last 60 s. [weight]
    now_ns : int
        Time of the caller's clock, which may be behind the bucket's. [ns since the epoch]
    refused : int
        Weight that the bucket did not admit; 0 if it refused nothing. [weight]

    Examples
    --------
    >>> admission(100, 200, at_ns=0, missing=60 * 10**9, used=1, now_ns=0).remaining
    199
    """
    full = burst * _WINDOW_NS
    shortfall = refused * _WINDOW_NS - (full - missing)
    wait = -(-(at_ns - now_ns - (-shortfall // per_minute)) // SECOND) if refused else 0  # rounded up
    return Admission(
        admitted=not refused,
        limit=per_minute,
        remaining=(full - missing) // _WINDOW_NS,
        used=used,
        reset=-(-(at_ns - (-missing // per_minute)) // SECOND),
        retry_after=wait,
    )


class TokenBucket:
    """A continuously refilled bucket of weight. Threads may share it; the caller passes the time.

    Parameters
    ----------
    per_minute : int, >= 1
        Refill rate. [weight per min]
    burst : int, >= 1
        Capacity; the bucket starts full. [weight]
    now_ns : int
        Time at which the bucket starts. [ns since the epoch]

    Notes
    -----
    The bucket counts what it lacks to be full in whole units of 1/(60e9) token, so that refilling is exact for any
    pattern of calls. Calls may come a little out of order: a time up to a second before the last one refills nothing.
    If the time is earlier than that, the clock was set back, and the bucket goes on from there, as full as it was.

    The bucket keeps the weight of each request of the last 60 s. There are at most ``burst + per_minute`` of them,
    because no more weight can be taken in that time and each took at least 1.

    Examples
    --------
    >>> bucket = TokenBucket(100, 200, now_ns=0)
    >>> bucket.take(200, now_ns=0).remaining
    0
    >>> bucket.take(1, now_ns=0).retry_after
    1
    >>> bucket.take(1, now_ns=600_000_000).admitted
    True
    """

    def __init__(self, per_minute: int, burst: int, *, now_ns: int) -> None:
        self._per_minute = per_minute
        self._burst = burst
        self._missing = 0
        self._at = now_ns
        self._taken: deque[tuple[int, int]] = deque()  # time [ns] and weight of each request of the last 60 s
        self._used = 0  # the sum of these weights
        self._lock = threading.Lock()

    def take(self, weight: int, *, now_ns: int) -> Admission:
        """Take ``weight`` if the bucket holds it, else take nothing.

        Raises
        ------
        ValueError
            If the weight is below zero.
        BudgetError
            If the bucket can never hold ``weight``, so that a wait would never end.
        """
        refuse_impossible(weight, self._burst)
        with self._lock:
            self._refill(now_ns)
            cost = weight * _WINDOW_NS
            if cost > self._burst * _WINDOW_NS - self._missing:
                return self._state(now_ns, refused=weight)
            if weight:
                self._missing += cost
                self._taken.append((self._at, weight))
                self._used += weight
            return self._state(now_ns)

    def give_back(self, weight: int, *, now_ns: int) -> Admission:
        """Put back ``weight`` that was taken for a request that got no answer.

        Raises
        ------
        ValueError
            If the weight is below zero.
        """
        refuse_negative(weight)
        with self._lock:
            self._refill(now_ns)
            self._missing = max(0, self._missing - weight * _WINDOW_NS)
            # The newest weights go first, because the oldest leave the window by themselves.
            while weight and self._taken:
                at, newest = self._taken.pop()
                if newest > weight:
                    self._taken.append((at, newest - weight))
                returned = min(newest, weight)
                weight -= returned
                self._used -= returned
            return self._state(now_ns)

    def look(self, *, now_ns: int) -> Admission:
        """Return the state of the bucket without taking weight."""
        return self.take(0, now_ns=now_ns)

    def _refill(self, now_ns: int) -> None:
        if now_ns < self._at - CLOCK_WAS_SET * SECOND:
            step = now_ns - self._at
            self._taken = deque((at + step, weight) for at, weight in self._taken)
            self._at = now_ns
        elapsed = max(0, now_ns - self._at)
        self._at += elapsed
        self._missing = max(0, self._missing - elapsed * self._per_minute)
        while self._taken and self._taken[0][0] <= self._at - _WINDOW_NS:
            self._used -= self._taken.popleft()[1]

    def _state(self, now_ns: int, *, refused: int = 0) -> Admission:
        return admission(
            self._per_minute,
            self._burst,
            at_ns=self._at,
            missing=self._missing,
            used=self._used,
            now_ns=now_ns,
            refused=refused,
        )
