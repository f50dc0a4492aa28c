"""A window of any length, and the requests that cover its missing spans at the least weight. No I/O.

Spans are half-open pairs of epoch seconds, ``(start, end)``. [s]
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import Any

from tidytape.budget import weight
from tidytape.catalogue import POINTS_PER_WEIGHT, Interval, SortDirection, TPOSession
from tidytape.errors import BudgetError, QueryError, shown
from tidytape.query import PointsQuery
from tidytape.query._values import EXPECTED_TIME, TimeLike, epoch_seconds, whole_number, written_time
from tidytape.times import Span

SETTLING = 60
"""How long after its end a point may still change. [s]"""

_LONGEST_SESSION = {TPOSession.DAILY: 86_400, TPOSession.WEEKLY: 7 * 86_400, TPOSession.MONTHLY: 31 * 86_400}


@dataclass(frozen=True, slots=True)
class Window:
    """A query over a window of any length, also longer than one request may cover.

    Attributes
    ----------
    query : PointsQuery
        The query; only its start counts, not its end.
    start, end : int
        The window, half-open. [s since the epoch]
    """

    query: PointsQuery
    start: int
    end: int

    @classmethod
    def of(cls, queries: PointsQuery | Sequence[PointsQuery]) -> Window:
        """Return the window that queries cover together.

        Raises
        ------
        QueryError
            If there is no query, or the queries differ in more than time, leave a gap, or have more than one data type.
        """
        queries_ = [queries] if isinstance(queries, PointsQuery) else queries
        # A caller may pass anything; for mypy the check would always be true, so its type is object.
        is_several: object = isinstance(queries_, Sequence)
        if not (is_several and queries_ and all(isinstance(query, PointsQuery) for query in queries_)):
            expected = "what a method of client.query returns, e.g. client.query.candles(...)"
            raise QueryError(
                "query",
                got=_called(queries),
                expected=expected,
                message=f"query: got {_called(queries)}, expected {expected}, or a PointsQuery",
            )
        first = queries_[0]
        if len(first.type) != 1:
            raise QueryError(
                "type", got=list(first.type), expected="one data type; each has a frame of its own"
            )
        if len(queries_) > 1 and not cls.differ_in_time_alone(queries_):
            raise QueryError(
                "query", got=f"{len(queries_)} queries", expected="queries that differ in time alone"
            )
        queries_ = sorted(queries_, key=lambda query: query.start)
        if any(query.end != following.start for query, following in pairwise(queries_)):
            raise QueryError("query", got=f"{len(queries_)} queries", expected="windows that adjoin")
        return cls(first, queries_[0].start, queries_[-1].end)

    @staticmethod
    def differ_in_time_alone(queries: Sequence[PointsQuery]) -> bool:
        """Return whether queries are equal except for their times."""
        return len({query.model_copy(update={"start": 0, "end": 1}) for query in queries}) <= 1

    @property
    def data_type(self) -> str:
        """The name of the query's data type."""
        return self.query.type[0]

    @property
    def unaligned(self) -> Span:
        """The window as the caller gave it, not aligned to intervals."""
        return self.start, self.end

    @property
    def span(self) -> Span:
        """The window with both ends moved forward to the next start of an interval, if they are not one.

        It has the same points, because a point belongs to a window if its interval starts there.
        """
        grid = self.query.grid
        return self.unaligned if grid is None else (ceiled(self.start, grid), ceiled(self.end, grid))

    @property
    def params(self) -> list[tuple[str, str]]:
        """The URL parameters without times and order."""
        return [
            (name, value)
            for name, value in self.query.to_params()
            if name not in {"from", "period", "sortDirection"}
        ]

    def closed(self, now: float) -> int:
        """Return the start of the first interval that was not over at ``now``. [s since the epoch]"""
        grid = self.query.grid
        return int(now) if grid is None else ceiled(int(now) - longest(self.query) + 1, grid)

    @property
    def step(self) -> int:
        """The time from one point to the next; 1 if points have no interval. [s]"""
        return 1 if self.query.grid is None else self.query.grid.seconds

    def floored(self, second: int) -> int:
        """Return the last start of an interval at or before a second."""
        grid = self.query.grid
        return second if grid is None else ceiled(second - grid.seconds + 1, grid)

    def request(self, start: int, end: int) -> PointsQuery:
        """Return one request for the span from ``start`` to ``end``, oldest point first."""
        return self.query.model_copy(update={"start": start, "end": end, "sort_direction": SortDirection.ASC})


def longest(query: PointsQuery) -> int:
    """Return the longest time that one point may cover; one second if the query has no interval. [s]"""
    grid, session = query.grid, query.tpo_session
    return 1 if grid is None else max(grid.seconds, _LONGEST_SESSION.get(session, 0) if session else 0)


def _called(value: object) -> str:
    """Return a short name of a value, without its contents: a frame has many lines."""
    if value is None or isinstance(value, str | int | float):
        return shown(value)
    kind = type(value).__name__
    if isinstance(value, Sized) and not len(value):
        return f"an empty {kind}"
    members = value if isinstance(value, list) else []
    wrong_member = next(
        (f" with {_called(member)}" for member in members if not isinstance(member, PointsQuery)), ""
    )
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}{wrong_member}"


def ceiled(second: int, interval: Interval) -> int:
    """Return the first start of an interval at or after a second."""
    step, offset = interval.seconds, interval.offset
    return -(-(second - offset) // step) * step + offset


# --- times ----------------------------------------------------------------------------------------------------------

_AGO = re.compile(r"-(\d{1,9})([smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MOST_INTERVALS = 10**9


@dataclass(frozen=True, slots=True)
class Times:
    """The window of a fetch as the caller writes it.

    Attributes
    ----------
    start, end : time or str, optional
        Times, or texts such as ``-30d``, which count back from now in seconds, minutes, hours, days or weeks. Without
        an end the window ends now.
    limit : int, optional
        Instead of a start: how many intervals the window has, counted back from the last one that begins before the
        end.

    Examples
    --------
    >>> day = {"type": "TRADE_AGG", "exchange": "X", "coin": "BTC", "interval": "1h", "start": 0, "end": 1}
    >>> Times(None, "1970-01-02", 3).resolved(lambda: PointsQuery(**day))
    (75600, 86400)
    >>> Times("-30d").are_relative, Times(0, 60).are_relative
    (True, False)
    """

    start: TimeLike | None = None
    end: TimeLike | None = None
    limit: int | None = None

    @property
    def are_relative(self) -> bool:
        """Whether the window depends on the time of the call."""
        return self.end is None or any(map(_ago, (self.start, self.end)))

    @property
    def written(self) -> tuple[tuple[str, str], ...]:
        """The name and the value of each argument that the caller gave."""
        times = {"start": self.start, "end": self.end, "limit": self.limit}
        return tuple((name, str(value)) for name, value in times.items() if value is not None)

    def resolved(self, any_query: Callable[[], PointsQuery]) -> tuple[TimeLike, TimeLike]:
        """Return start and end. A text such as ``-30d`` counts back from the client's clock, in whole seconds.

        Parameters
        ----------
        any_query : callable
            Returns the query, with whatever times. It is called only with a limit, to learn the length of an interval.

        Raises
        ------
        QueryError
            If there is neither start nor limit, or both, a start that counts back from now lies after the end, or the
            interval has no fixed length.
        """
        now = int(time.time())
        end = now if self.end is None else _absolute_time(self.end, "end", now)
        if self.limit is None:
            if self.start is None:
                expected = "a time, '-30d' to count back from now, or ``limit`` instead"
                raise QueryError("start", got=None, expected=expected)
            start = _absolute_time(self.start, "start", now)
            if (
                _ago(self.start)
                and not _ago(self.end)
                and epoch_seconds(end, "end") <= epoch_seconds(start, "start")
            ):
                hint = "such a start counts back from now; ``limit`` counts intervals back from ``end``"
                expected = f"a time before ``end`` ({written_time(epoch_seconds(end, 'end'))})"
                raise QueryError("start", got=self.start, expected=expected, hint=hint)
            return start, end
        if self.start is not None:
            raise QueryError("limit", got=self.limit, expected="nothing where ``start`` is given")
        query = any_query()
        if query.grid is None or query.tpo_session is not None:
            hint = "give ``start`` instead"
            raise QueryError("limit", got=self.limit, expected="intervals of a fixed length", hint=hint)
        count = whole_number(self.limit, "limit", low=1, high=_MOST_INTERVALS)
        end = epoch_seconds(end, "end")
        start = ceiled(end, query.grid) - count * query.grid.seconds
        if start < 0:
            raise QueryError("limit", got=self.limit, expected="intervals since 1970-01-01")
        return start, end


def _ago(value: object) -> re.Match[str] | None:
    """Return the match of a text such as ``-30d``; None for any other value."""
    return _AGO.fullmatch(value.strip()) if isinstance(value, str) else None


def _absolute_time(value: Any, parameter: str, now: int) -> TimeLike:
    """Return the time that a text such as ``-30d`` names, and any other time unchanged."""
    if ago := _ago(value):
        return now - int(ago[1]) * _UNITS[ago[2]]
    is_list = hasattr(value, "__len__") and not isinstance(value, str)
    if is_list and getattr(value, "ndim", None) != 0:  # numpy has times without dimensions
        kind = type(value).__name__
        hint = "of an index take index[0], or index.min() and index.max()"
        raise QueryError(parameter, got=f"{kind} of {len(value)}", expected="one time", hint=hint)
    if isinstance(value, str):
        _require_time(value, parameter)
    return value


def _require_time(value: str, parameter: str) -> None:
    """Raise QueryError if a text is no time. Its message also offers ``-30d``, which only methods of a client take."""
    try:
        epoch_seconds(value, parameter)
    except QueryError as error:
        if error.expected != EXPECTED_TIME:
            raise
        before_now = f"'-30d' to count back from now, in {', '.join(_UNITS)}"
        hint = f"did you mean {f'-{value.strip()}'!r}?" if _ago(f"-{value.strip()}") else error.hint
        hint = "without ``end`` the window ends now" if value.strip().lower() == "now" else hint
        raise QueryError(
            parameter, got=value, expected=f"{EXPECTED_TIME}, or {before_now}", hint=hint
        ) from None


# --- requests -------------------------------------------------------------------------------------------------------


def covering(window: Window, missing: Sequence[Span], *, burst: int | None = None) -> list[PointsQuery]:
    """Return the requests that cover the missing spans of a window, oldest first.

    A request pays for whole thousands of points. So each request is as long as allowed, and only the last request of a
    span may have no multiple of 1,000 points. A span is joined with the span before it if that costs no more. For each
    gap the weight exceeds the least possible weight by at most the weight of a thousand points.

    Parameters
    ----------
    window : Window
    missing : sequence of (int, int)
        Sorted, and with a gap between any two.
    burst : int, optional
        The largest weight of one request. [weight]

    Raises
    ------
    BudgetError
        If not even a thousand points can be asked for at once.

    Examples
    --------
    >>> query = PointsQuery(type="TRADE_AGG", exchange="X", coin="BTC", interval="1m", start=0, end=60)
    >>> window = Window(query, 0, 250_000 * 60)
    >>> [request.points for request in covering(window, [window.span])]
    [100000, 100000, 50000]
    >>> [request.points for request in covering(window, [(0, 60), (120, 180), (180_000, 180_060)])]
    [3, 1]
    """
    if not missing:
        return []
    thousand_points = POINTS_PER_WEIGHT * window.query.step  # [s]

    @cache
    def weight_of(thousands: int) -> int:
        return weight(window.request(0, thousands * thousand_points)) if thousands else 0

    # The longest request, in thousands of points.
    most = max(1, min(data_type.max_points for data_type in window.query.data_types) // POINTS_PER_WEIGHT)
    if burst is not None:
        most = next((thousands for thousands in range(most, 0, -1) if weight_of(thousands) <= burst), 0)
        if not most:
            raise BudgetError(
                f"a thousand points of {window.data_type} weigh {weight_of(1)}, more than the bucket can ever hold "
                f"({burst}); ask for fewer exchanges or less depth",
                weight=weight_of(1),
                available=burst,
            )

    def cost(start: int, end: int) -> int:
        longest_requests, last_thousands = divmod(-(-(end - start) // thousand_points), most)
        return longest_requests * weight_of(most) + weight_of(last_thousands)

    spans: list[Span] = []
    for start, end in missing:
        # Joined spans pay for the gap between them, but their points are rounded up to thousands only once.
        if spans and cost(spans[-1][0], end) <= cost(*spans[-1]) + cost(start, end):
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    parts = (pairwise([*range(start, end, most * thousand_points), end]) for start, end in spans)
    return [window.request(*part) for part in chain.from_iterable(parts)]


AHEAD = 86_400
"""How far a window may reach beyond now: it may end with today in every time zone. [s]"""


def ahead(window: Window, missing: Sequence[Span], *, now: float, burst: int | None = None) -> int:
    """Return how much of the weight of a window's requests is for times more than a day ahead of now. [weight]

    The client sends these requests anyway: its own clock may be wrong, and a service may know data of tomorrow.
    """
    until = int(now) + AHEAD
    near_spans = [(start, min(end, until)) for start, end in missing if start < until]
    if near_spans == [*missing]:
        return 0
    all_weight, near_weight = (
        sum(map(weight, covering(window, spans, burst=burst))) for spans in (missing, near_spans)
    )
    return max(0, all_weight - near_weight)
