"""Plans: the requests that fetches would send now, with their weight and the time that they would wait."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tidytape.budget import Tier, weight
from tidytape.client._answers import most_weight
from tidytape.client._display import lasting, of_query, spans
from tidytape.client._request import informed
from tidytape.client._settings import Settings
from tidytape.client._steps import Call, Flow
from tidytape.client._window import SETTLING, Window, ahead, covering
from tidytape.errors import QueryError, counted, html_text
from tidytape.query import PointsQuery
from tidytape.query._values import written_time
from tidytape.times import Span, intersected, without


@dataclass(frozen=True, repr=False)
class PlanPart:
    """The requests that one query of a plan would send.

    Attributes
    ----------
    query : PointsQuery
        The query; ``start`` and ``end`` are its window.
    start, end : int
        The window, half-open. [s since the epoch]
    requests : tuple of PointsQuery
        The requests that would be sent, oldest first.
    cached : tuple of (int, int)
        Spans that cost nothing, half-open: the cache has them, or an earlier part of the plan will have cached them.
        [s since the epoch]
    ahead : int
        Weight of requests for a time more than a day ahead of now, which no service can know yet. [weight]
    lacking : tuple of (int, int)
        Spans that the cache of an offline client lacks, half-open. [s since the epoch]
    is_certain : bool
        Whether the service says where it has no points, so that the client need not check its answers.
    """

    query: PointsQuery
    start: int
    end: int
    requests: tuple[PointsQuery, ...]
    cached: tuple[Span, ...]
    ahead: int = 0
    lacking: tuple[Span, ...] = ()
    is_certain: bool = False

    @property
    def weight(self) -> int:
        """Sum of the weights of the part's requests. [weight]"""
        return sum(map(weight, self.requests))

    @property
    def weight_at_most(self) -> int:
        """The weight if the client has to request both ends of every answer once more, to check that it is complete.

        The client checks answers only of candles, funding and open interest, and only if the service does not say where
        it has no points. [weight]
        """
        return self.weight if self.is_certain else sum(map(most_weight, self.requests))

    def __str__(self) -> str:
        return _summed([self])

    def __repr__(self) -> str:
        """Return the query and the totals on one line."""
        return f"<PlanPart {of_query(self.query, self.start, self.end)}: {self}>"


@dataclass(frozen=True, repr=False)
class Plan:
    """The requests that a fetch would send now, with their weight and the time they would wait.

    Attributes
    ----------
    parts : tuple of PlanPart
        One per query, in the order of the queries.
    seconds : float or None
        How long the client would wait for the budget, for all requests together; None if the budget is not known, or if
        the tier does not include all queries, because no wait helps then. [s]
    tier : str or None
        The name of the tier that the plan is for; None if the plan is for the key of the client.
    refusal : str or None
        Why the tier does not include all queries; None if the tier includes them.
    """

    parts: tuple[PlanPart, ...]
    seconds: float | None
    tier: str | None = None
    refusal: str | None = None

    @property
    def requests(self) -> tuple[PointsQuery, ...]:
        """The requests of all parts."""
        return tuple(request for part in self.parts for request in part.requests)

    @property
    def weight(self) -> int:
        """Sum of the weights of all requests. [weight]"""
        return sum(part.weight for part in self.parts)

    @property
    def weight_at_most(self) -> int:
        """The weight of all requests of the plan and of all checks of their answers that may follow. [weight]"""
        return sum(part.weight_at_most for part in self.parts)

    @property
    def ahead(self) -> int:
        """Weight of requests for a time more than a day ahead of now. [weight]"""
        return sum(part.ahead for part in self.parts)

    @property
    def cached(self) -> tuple[Span, ...]:
        """Spans of all parts that cost nothing, half-open. [s since the epoch]"""
        return tuple(span for part in self.parts for span in part.cached)

    @property
    def _sum(self) -> str:
        if self.seconds is None:
            wait = "the budget is not known" if self.requests and not self.refusal else ""
        else:
            of_tier = f" of the {self.tier} tier" if self.tier else ""
            wait = f"{lasting(self.seconds)} of waiting for the budget{of_tier}"
        if self.refusal:
            return f"the {self.tier} tier refuses it: {self.refusal}; it would be {_summed(self.parts, wait)}"
        return _summed(self.parts, wait)

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return self._sum
        each = [f"  {of_query(part.query, part.start, part.end)}: {part}" for part in self.parts]
        return "\n".join([f"{len(self.parts)} queries: {self._sum}", *each])

    def __repr__(self) -> str:
        """Return the sum on one line."""
        return f"<Plan {self._sum}>"

    def _repr_html_(self) -> str:
        """Return the totals and a table for a notebook: of the requests if the plan has one part, else of the parts."""
        return f"<p><b>Plan</b>: {html_text(self._sum)}</p>" + (
            _cached_line(self.cached)
            + _table(
                ("from", "until", "points at most", "weight"),
                [_request_cells(request) for request in self.requests],
            )
            if len(self.parts) == 1
            else _table(
                ("query", "requests", "weight", "from the cache"), [_part_cells(part) for part in self.parts]
            )
        )


_SHOWN = 10


def _summed(parts: Sequence[PlanPart], wait: str = "") -> str:
    """Return the totals of some parts of a plan in words."""
    requests = [request for part in parts for request in part.requests]
    least, most = sum(part.weight for part in parts), sum(part.weight_at_most for part in parts)
    at_most = f" (at most {most:,})" if most > least else ""
    clauses = [counted(len(requests), "request"), f"weight {least:,}{at_most}", wait]
    if ahead := sum(part.ahead for part in parts):
        clauses.append(f"weight {ahead:,} of it for a time more than a day ahead of now")
    requested_again = sum(_is_requested(span, part) for part in parts for span in part.cached)
    if from_cache := sum(len(part.cached) for part in parts) - requested_again:
        clauses.append(f"{counted(from_cache, 'span')} from the cache")
    if requested_again:
        clauses.append(
            f"{counted(requested_again, 'span')} of the cache asked for again, which costs no more"
        )
    if lacking := [span for part in parts for span in part.lacking]:
        clauses.append(f"offline, and the cache lacks {spans(lacking)}")
    return ", ".join(filter(None, clauses))


def _is_requested(span: Span, part: PlanPart) -> bool:
    """Return whether one request, for the gaps before and after a cached span, covers that span too."""
    return any(request.start <= span[0] and span[1] <= request.end for request in part.requests)


def _cached_line(cached: Sequence[Span]) -> str:
    return f"<p>from the cache: {html_text(spans(cached))}</p>" if cached else ""


def _request_cells(request: PointsQuery) -> tuple[str, ...]:
    window = written_time(request.start), written_time(request.end)
    return *window, f"{request.points:,}", f"{weight(request):,}"


def _part_cells(part: PlanPart) -> tuple[str, ...]:
    query = of_query(part.query, part.start, part.end)
    return query, f"{len(part.requests):,}", f"{part.weight:,}", spans(part.cached)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    shown = "".join(
        "<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in cells) + "</tr>" for cells in rows[:_SHOWN]
    )
    more = len(rows) - _SHOWN
    last_line = f"<tr><td colspan={len(head)}>and {more:,} more</td></tr>" if more > 0 else ""
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{shown}{last_line}</table>"


def planned(settings: Settings, windows: Sequence[Window], tier: Tier | None = None) -> Flow[Plan]:
    """Plan the fetches of several windows, for the client's key, or for a tier whose budget is full.

    For a key the client may ask the service for the budget, which has no weight. For a tier it sends nothing.
    """
    missing_by_window = yield Call(lambda: [_missing(settings, window) for window in windows])
    if tier is None and any(missing_by_window):
        yield from informed(settings)
    now, quota = time.time(), settings.quota
    burst = quota.burst if tier is None else tier.burst
    parts: list[PlanPart] = []
    to_be_cached: dict[tuple[tuple[str, str], ...], list[Span]] = {}
    for window, missing in zip(windows, missing_by_window, strict=True):
        missing_spans = missing
        # Earlier parts of the plan will have cached the spans that they request.
        if settings.cache is not None and not settings.offline:
            earlier_spans = to_be_cached.setdefault(tuple(window.params), [])
            missing_spans = [part for span in missing for part in without(span, earlier_spans)]
            earlier_spans += intersected((0, window.closed(now - SETTLING)), missing)
        requested_spans = [] if settings.offline else missing_spans
        parts.append(
            PlanPart(
                window.query,
                window.start,
                window.end,
                requests=tuple(covering(window, requested_spans, burst=burst)),
                cached=() if settings.cache is None else tuple(without(window.span, missing_spans)),
                ahead=ahead(window, requested_spans, now=now, burst=burst),
                lacking=tuple(missing_spans) if settings.offline else (),
                is_certain=settings.is_certain,
            )
        )
    cost = sum(part.weight for part in parts)
    if tier is not None:
        refusal = _refusal(tier, windows, now=now)
        return Plan(tuple(parts), None if refusal else tier.seconds_for(cost), tier.name, refusal)
    return Plan(tuple(parts), quota.seconds_for(cost) if quota.is_known else None)


def _refusal(tier: Tier, windows: Sequence[Window], *, now: float) -> str | None:
    """Return why a tier does not include one of the windows; None if it includes them all."""
    try:
        for window in windows:
            tier.require(window.query, now=now)
    except QueryError as error:
        return str(error)
    return None


def _missing(settings: Settings, window: Window) -> list[Span]:
    """Return the spans of a window that the cache lacks."""
    if settings.cache is None:
        return [window.unaligned]
    return settings.cache.series(settings.base_url, window, absent=settings.absent).missing(window.span)
