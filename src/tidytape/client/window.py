"""A window of any length: which requests cover it, or what is missing of it, at the least weight. No I/O.

Spans are half-open pairs of epoch seconds, ``(start, end)``. [s]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd

from tidytape.budget import weight
from tidytape.catalogue import POINTS_PER_WEIGHT, Interval, SortDirection, TPOSession
from tidytape.errors import BudgetError, QueryError
from tidytape.query import PointsQuery
from tidytape.times import Span

__all__ = ["SETTLING", "Window", "ahead", "covering", "longest"]


SETTLING = 60
"""How long after its end a point may still change. [s]"""

_LONGEST_SESSION = {TPOSession.DAILY: 86_400, TPOSession.WEEKLY: 7 * 86_400, TPOSession.MONTHLY: 31 * 86_400}


@dataclass(frozen=True, slots=True)
class Window:
    """What is asked, over a time that may be longer than one request can cover.

    Attributes
    ----------
    query : PointsQuery
        What is asked; of its own time only the start counts.
    start, end : int
        The time, half-open. [s since the epoch]
    """

    query: PointsQuery
    start: int
    end: int

    @classmethod
    def of(cls, queries: PointsQuery | Sequence[PointsQuery]) -> Window:
        """Return the window that requests cover together.

        Raises
        ------
        QueryError
            If there are none, they differ in more than time, leave a gap, or are of more than one data type.
        """
        asked = [queries] if isinstance(queries, PointsQuery) else queries
        is_several: object = isinstance(asked, Sequence)  # whatever a caller without types gives
        if not (is_several and asked and all(isinstance(one, PointsQuery) for one in asked)):
            raise QueryError("query", got=queries, expected="a PointsQuery, or those of PointsQuery.split")
        first = asked[0]
        if len(first.type) != 1:
            raise QueryError(
                "type", got=list(first.type), expected="one data type; each has a frame of its own"
            )
        if not cls.differ_in_time_alone(asked):
            raise QueryError(
                "query", got=f"{len(asked)} queries", expected="queries that differ in time alone"
            )
        asked = sorted(asked, key=lambda one: one.start)
        if any(one.end != other.start for one, other in pairwise(asked)):
            raise QueryError("query", got=f"{len(asked)} queries", expected="windows that adjoin")
        return cls(first, asked[0].start, asked[-1].end)

    @staticmethod
    def differ_in_time_alone(queries: Sequence[PointsQuery]) -> bool:
        """Whether they ask for the same over several times."""
        return len({_timeless(one) for one in queries}) <= 1

    @property
    def data_type(self) -> str:
        """Name of its data type."""
        return self.query.type[0]

    @property
    def asked(self) -> Span:
        """The window as it was asked for: where nothing is kept, nothing has to lie on a grid."""
        return self.start, self.end

    @property
    def span(self) -> Span:
        """The window on the grid of its intervals: a point belongs to it when it starts in it."""
        grid = self.query.grid
        return self.asked if grid is None else (ceiled(self.start, grid), ceiled(self.end, grid))

    @property
    def params(self) -> list[tuple[str, str]]:
        """The URL parameters without those that say when, and in which order."""
        return [
            (name, value)
            for name, value in self.query.to_params()
            if name not in {"from", "period", "sortDirection"}
        ]

    def closed(self, now: float) -> int:
        """Return the end of what can no longer change: points that start before it were over by then."""
        grid = self.query.grid
        return int(now) if grid is None else ceiled(int(now) - longest(self.query) + 1, grid)

    @property
    def step(self) -> int:
        """From one point to the next; a second where they lie in no interval. [s]"""
        return 1 if self.query.grid is None else self.query.grid.seconds

    def floored(self, second: int) -> int:
        """Return the last start of an interval at or before a second."""
        grid = self.query.grid
        return second if grid is None else ceiled(second - grid.seconds + 1, grid)

    def request(self, start: int, end: int) -> PointsQuery:
        """Return the one request for a part of it, oldest first."""
        return self.query.model_copy(update={"start": start, "end": end, "sort_direction": SortDirection.ASC})


def longest(query: PointsQuery) -> int:
    """Return how long what a point is made of may last; a second where it is of no interval. [s]"""
    grid, session = query.grid, query.tpo_session
    return 1 if grid is None else max(grid.seconds, _LONGEST_SESSION.get(session, 0) if session else 0)


def _timeless(query: PointsQuery) -> PointsQuery:
    return query.model_copy(update={"start": 0, "end": 1})


def ceiled(second: int, interval: Interval) -> int:
    """Return the first start of an interval at or after a second."""
    step, offset = interval.seconds, interval.offset
    return -(-(second - offset) // step) * step + offset


# --- requests -------------------------------------------------------------------------------------------------------


def covering(window: Window, missing: Sequence[Span], *, burst: int | None = None) -> list[PointsQuery]:
    """Return the requests for what is missing of a window, oldest first, that weigh least together.

    A request pays for whole thousands of points, so every cut but the last lies on a multiple of 1,000 points from
    where its span starts, and spans that lie so close that one request costs no more are asked for in one.

    Parameters
    ----------
    window : Window
    missing : sequence of (int, int)
        Sorted and apart.
    burst : int, optional
        The most that one request may weigh. [weight]

    Raises
    ------
    BudgetError
        If not even a thousand points can be asked for at once.

    Examples
    --------
    >>> query = PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=0, end=60)
    >>> window = Window(query, 0, 250_000 * 60)
    >>> [one.points for one in covering(window, [window.span])]
    [100000, 100000, 50000]
    >>> [one.points for one in covering(window, [(0, 60), (120, 180), (180_000, 180_060)])]
    [3, 1]
    """
    if not missing:
        return []
    cuts = _Cuts(window, burst)
    spans = list(missing)
    while len(spans) > _MOST_COMPARED:
        fewer = [
            one
            for at in range(0, len(spans), _MOST_COMPARED)
            for one in _cheapest_joins(cuts, spans[at : at + _MOST_COMPARED])
        ]
        if len(fewer) > len(spans) // 2:
            spans = fewer
            break
        spans = fewer
    else:
        spans = _cheapest_joins(cuts, spans)
    return [query for start, end in spans for query in cuts.requests(start, end)]


_MOST_COMPARED = 100
"""So many spans are joined in the best of all ways; to find it among more would take longer than to fetch them."""


def _cheapest_joins(cuts: _Cuts, missing: Sequence[Span]) -> list[Span]:
    """Return spans with those neighbours joined that are cheaper together."""
    # best[i] is the weight of the first i spans, and where the last join began.
    best: list[tuple[int, int, int]] = [(0, 0, 0)]
    for last in range(1, len(missing) + 1):
        ways, apart = [], 0
        for first in range(last, 0, -1):
            thousands = cuts.thousands(missing[first - 1][0], missing[last - 1][1])
            apart += cuts.thousands(*missing[first - 1])
            if thousands - apart >= first:
                break  # a wider join saves at most the rounding of one thousand for each span it takes in
            cost, requests = cuts.cost(thousands)
            before = best[first - 1]
            ways.append((before[0] + cost, before[1] + requests, first - 1))
        best.append(min(ways))
    joins: list[Span] = []
    last = len(missing)
    while last:
        first = best[last][2]
        joins.append((missing[first][0], missing[last - 1][1]))
        last = first
    return joins[::-1]


AHEAD = 86_400
"""How far a window may reach beyond now: to the end of today, by any clock that is nearly right. [s]"""


def ahead(window: Window, missing: Sequence[Span], *, now: float, burst: int | None = None) -> int:
    """Return what the requests of a window weigh for a time that is more than a day ahead. [weight]

    It is asked for all the same: whose clock is wrong, and what a service knows of tomorrow, cannot be told from here.
    """
    until = int(now) + AHEAD
    near = [(start, min(end, until)) for start, end in missing if start < until]
    if near == [*missing]:
        return 0
    whole, most = (sum(map(weight, covering(window, part, burst=burst))) for part in (missing, near))
    return max(0, whole - most)


class _Cuts:
    """How spans of one window are cut into requests."""

    def __init__(self, window: Window, burst: int | None) -> None:
        self._window = window
        self._step = window.query.step
        self._thousand = POINTS_PER_WEIGHT * self._step
        self._weights: dict[int, int] = {}
        # What a thousand points weigh before rounding, as a fraction: the exact formula is linear but for its ceiling.
        whole = 25
        self._per_25 = self._weight(whole)
        most = max(1, min(kind.max_points for kind in window.query.data_types) // POINTS_PER_WEIGHT)
        while burst is not None and most > 1 and self._weight(most) > burst:
            most -= 1
        if burst is not None and self._weight(most) > burst:
            raise BudgetError(
                f"a thousand points of {window.data_type} weigh {self._weight(1)}, more than the bucket can ever hold "
                f"({burst}); ask for fewer exchanges or less depth",
                weight=self._weight(1),
                available=burst,
            )
        # Requests of so many thousands lose nothing to rounding, if so many may be asked for at once.
        even = whole // gcd(whole, self._per_25)
        self._most = most // even * even or most
        self._is_even = most >= even

    def _weight(self, thousands: int) -> int:
        if thousands not in self._weights:
            self._weights[thousands] = weight(self._window.request(0, thousands * self._thousand))
        return self._weights[thousands]

    def thousands(self, start: int, end: int) -> int:
        return -(-(end - start) // self._thousand)

    def cost(self, thousands: int) -> tuple[int, int]:
        parts = self._parts(thousands)
        return sum(self._weight(part) for part in parts), len(parts)

    def _parts(self, thousands: int) -> list[int]:
        if self._is_even:
            full, rest = divmod(thousands, self._most)
            return [self._most] * full + [rest] * bool(rest)
        weights = tuple(self._weight(part) for part in range(1, self._most + 1))
        return list(_cheapest(thousands, weights))

    def requests(self, start: int, end: int) -> list[PointsQuery]:
        queries, at = [], start
        for part in self._parts(self.thousands(start, end)):
            until = min(at + part * self._thousand, end)
            queries.append(self._window.request(at, until))
            at = until
        return queries


@lru_cache(maxsize=64)
def _cheapest(total: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    """Return the parts, none longer than there are weights, that make up a total and weigh least; the fewest."""
    best = [(0, 0, 0)]
    for length in range(1, total + 1):
        longest = min(length, len(weights))
        best.append(
            min(
                (best[length - part][0] + weights[part - 1], best[length - part][1] + 1, -part)
                for part in range(1, longest + 1)
            )
        )
    parts, left = [], total
    while left:
        parts.append(-best[left][2])
        left -= parts[-1]
    return tuple(sorted(parts, reverse=True))
