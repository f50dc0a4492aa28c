"""What fetching would send and cost, as things stand: of one window, or of several under one budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tidytape.budget import weight
from tidytape.client.display import counted, lasting, of_query, spans
from tidytape.client.listing import informed
from tidytape.client.settings import Settings
from tidytape.client.steps import Call, Flow
from tidytape.client.wholeness import most_weight
from tidytape.client.window import SETTLING, Window, ahead, covering
from tidytape.query import PointsQuery
from tidytape.query.values import written_time
from tidytape.times import Span, intersected, without

__all__ = ["Plan", "PlanPart", "planned"]


@dataclass(frozen=True, repr=False)
class PlanPart:
    """What one of the queries of a plan would send.

    Attributes
    ----------
    query : PointsQuery
        What is asked; of its time only the start counts.
    start, end : int
        The window, half-open. [s since the epoch]
    requests : tuple of PointsQuery
        What would be sent, oldest first.
    cached : tuple of (int, int)
        Spans that cost nothing, half-open: kept from before, or by what an earlier part of the plan fetches.
        [s since the epoch]
    ahead : int
        What of its weight is for a time more than a day ahead of now, of which nothing can be known yet. [weight]
    lacking : tuple of (int, int)
        Spans that a client that is offline does not have and does not ask for, half-open. [s since the epoch]
    is_certain : bool
        Whether the service says where it has no points, so that the client never asks twice.
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
        """What its requests weigh together. [weight]"""
        return sum(map(weight, self.requests))

    @property
    def weight_at_most(self) -> int:
        """What they weigh with all that is asked again where an answer ends early and nobody explains it. [weight]

        It is more than ``weight`` for candles, funding and open interest of a service that does not say where it has no
        points.
        """
        return self.weight if self.is_certain else sum(map(most_weight, self.requests))

    def __str__(self) -> str:
        return _summed([self])

    def __repr__(self) -> str:
        """Return it on one line."""
        return f"<PlanPart {of_query(self.query, self.start, self.end)}: {self}>"


@dataclass(frozen=True, repr=False)
class Plan:
    """What fetching would send, and what that would cost, as things stand now.

    Attributes
    ----------
    parts : tuple of PlanPart
        One per query, in the order in which they were given.
    seconds : float or None
        How long the budget would make the client wait for all of them together; None where the budget is not known. [s]
    """

    parts: tuple[PlanPart, ...]
    seconds: float | None

    @property
    def requests(self) -> tuple[PointsQuery, ...]:
        """What would be sent."""
        return tuple(one for part in self.parts for one in part.requests)

    @property
    def weight(self) -> int:
        """What all requests weigh together. [weight]"""
        return sum(part.weight for part in self.parts)

    @property
    def weight_at_most(self) -> int:
        """The weight of all requests of the plan, and of those that may be added to check for cut answers. [weight]"""
        return sum(part.weight_at_most for part in self.parts)

    @property
    def ahead(self) -> int:
        """What of the weight is for a time more than a day ahead of now. [weight]"""
        return sum(part.ahead for part in self.parts)

    @property
    def cached(self) -> tuple[Span, ...]:
        """Spans that cost nothing, part by part, half-open. [s since the epoch]"""
        return tuple(span for part in self.parts for span in part.cached)

    @property
    def _sum(self) -> str:
        if self.seconds is None:
            wait = "the budget is not known" if self.requests else ""
        else:
            wait = f"{lasting(self.seconds)} of waiting for the budget"
        return _summed(self.parts, wait)

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return self._sum
        each = [f"  {of_query(one.query, one.start, one.end)}: {one}" for one in self.parts]
        return "\n".join([f"{len(self.parts)} queries: {self._sum}", *each])

    def __repr__(self) -> str:
        """Return the sum on one line."""
        return f"<Plan {self._sum}>"

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it: the sum, and a table of its parts, or of the first requests of its one."""
        return f"<p><b>Plan</b>: {escape(self._sum)}</p>" + (
            _cached_line(self.cached)
            + _table(
                ("from", "until", "points at most", "weight"), [_request_cells(one) for one in self.requests]
            )
            if len(self.parts) == 1
            else _table(
                ("query", "requests", "weight", "from the cache"), [_part_cells(one) for one in self.parts]
            )
        )


_SHOWN = 10


def _summed(parts: Sequence[PlanPart], wait: str = "") -> str:
    """Return what parts of a plan come to."""
    requests = [one for part in parts for one in part.requests]
    least, most = sum(part.weight for part in parts), sum(part.weight_at_most for part in parts)
    doubt = f" (at most {most:,})" if most > least else ""
    said = [counted(len(requests), "request"), f"weight {least:,}{doubt}", wait]
    if ahead := sum(part.ahead for part in parts):
        said.append(f"weight {ahead:,} of it for a time more than a day ahead of now")
    again = sum(_is_asked(span, part) for part in parts for span in part.cached)
    if kept := sum(len(part.cached) for part in parts) - again:
        said.append(f"{counted(kept, 'span')} from the cache")
    if again:
        said.append(f"{counted(again, 'span')} of the cache asked for again, which costs no more")
    if lacking := [span for part in parts for span in part.lacking]:
        said.append(f"offline, and the cache lacks {spans(lacking)}")
    return ", ".join(filter(None, said))


def _is_asked(span: Span, part: PlanPart) -> bool:
    """Whether a span that is kept lies in a request that was joined across it."""
    return any(one.start <= span[0] and span[1] <= one.end for one in part.requests)


def _cached_line(cached: Sequence[Span]) -> str:
    return f"<p>from the cache: {escape(spans(cached))}</p>" if cached else ""


def _request_cells(one: PointsQuery) -> tuple[str, ...]:
    return written_time(one.start), written_time(one.end), f"{one.points:,}", f"{weight(one):,}"


def _part_cells(part: PlanPart) -> tuple[str, ...]:
    asked = of_query(part.query, part.start, part.end)
    return asked, f"{len(part.requests):,}", f"{part.weight:,}", spans(part.cached)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows[:_SHOWN]
    )
    more = len(rows) - _SHOWN
    rest = f"<tr><td colspan={len(head)}>and {more:,} more</td></tr>" if more > 0 else ""
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{shown}{rest}</table>"


def planned(settings: Settings, windows: Sequence[Window]) -> Flow[Plan]:
    """Plan fetches of several windows: nothing that weighs anything is sent."""
    lacking = yield Call(lambda: [_missing(settings, window) for window in windows])
    if any(lacking):
        yield from informed(settings)
    now = time.time()
    parts: list[PlanPart] = []
    coming: dict[tuple[tuple[str, str], ...], list[Span]] = {}
    for window, missing in zip(windows, lacking, strict=True):
        left = missing
        if settings.cache is not None and not settings.offline:  # what one part fetches is kept for the next
            series = coming.setdefault(tuple(window.params), [])
            left = [rest for span in missing for rest in without(span, series)]
            series += intersected((0, window.closed(now - SETTLING)), missing)
        cached = () if settings.cache is None else tuple(without(window.span, left))
        if settings.offline:
            parts.append(PlanPart(window.query, window.start, window.end, (), cached, lacking=tuple(left)))
            continue
        burst = settings.quota.burst
        requests = tuple(covering(window, left, burst=burst))
        beyond = ahead(window, left, now=now, burst=burst)
        certain = settings.is_certain
        parts.append(
            PlanPart(window.query, window.start, window.end, requests, cached, beyond, is_certain=certain)
        )
    plan = Plan(tuple(parts), None)
    return Plan(plan.parts, settings.quota.seconds_for(plan.weight)) if settings.quota.is_known else plan


def _missing(settings: Settings, window: Window) -> list[Span]:
    if settings.cache is None:
        return [window.asked]
    return settings.cache.series(settings.base_url, window, absent=settings.absent).missing(window.span)
