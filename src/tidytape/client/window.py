"""A window of any length: which requests cover it, or what is missing of it, at the least weight. No I/O.

Spans are half-open pairs of epoch seconds, ``(start, end)``. [s]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    """Return the requests for what is missing of a window, oldest first.

    A request pays for whole thousands of points, so every cut but the last lies on a multiple of 1,000 points from
    where its span starts. A span is joined with the spans before it where that costs no more. Of one span the requests
    weigh the least there is; of several at most a thousand points more for each gap between them.

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
    spans: list[Span] = []
    for start, end in missing:
        # Joined with the span before, both pay for the gap, and their points are rounded up once instead of twice.
        if spans and cuts.cost(spans[-1][0], end) <= cuts.cost(*spans[-1]) + cuts.cost(start, end):
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return [query for span in spans for query in cuts.requests(*span)]


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
        self._thousand = POINTS_PER_WEIGHT * window.query.step
        self._weights = {0: 0}
        self._found: dict[int, tuple[int, int]] = {}
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
        self._most = most

    def cost(self, start: int, end: int) -> int:
        """Return what the requests of a span weigh."""
        return self._best(-(-(end - start) // self._thousand))[0]

    def requests(self, start: int, end: int) -> list[PointsQuery]:
        """Return the requests of a span: of one length, but for the last."""
        length = self._best(-(-(end - start) // self._thousand))[1]
        cuts = [*range(start, end, length * self._thousand), end]
        return [self._window.request(*span) for span in pairwise(cuts)]

    def _best(self, thousands: int) -> tuple[int, int]:
        """Return the least weight of so many thousands of points in requests of one length, and that length."""
        if thousands not in self._found:
            lengths = [thousands] if thousands <= self._most else range(1, self._most + 1)
            costs = [
                (thousands // one * self._weight(one) + self._weight(thousands % one), -one)
                for one in lengths
            ]
            cost, shortest = min(costs)
            self._found[thousands] = cost, -shortest
        return self._found[thousands]

    def _weight(self, thousands: int) -> int:
        if thousands not in self._weights:
            query = self._window.request(0, thousands * self._thousand)
            self._weights[thousands] = weight(query)
        return self._weights[thousands]
