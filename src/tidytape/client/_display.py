"""Queries, spans and the progress of a fetch as text for people."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tidytape.catalogue import GroupBy, Interval, SortDirection, Tenor, TPOSession
from tidytape.errors import Argument, html_text
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.query._values import written_time
from tidytape.times import Span

FIELDS: Mapping[str, str] = {
    wire: field for query in (MetaQuery, MarketsQuery, PointsQuery) for field, wire in query.WIRE.items()
}
"""The name in Python of each URL parameter."""

_ENUMS: Mapping[str, Iterable[Any]] = {
    "interval": Interval,
    "tenor": Tenor,
    "transform.groupBy.type": GroupBy,
    "sortDirection": SortDirection,
    "tpoSession": TPOSession,
}
_ALIASES = {name: {member.value: member.alias for member in enum} for name, enum in _ENUMS.items()}
_SHOWN = 3


def described(params: Iterable[Sequence[str]]) -> str:
    """Return URL parameters with their names and values in Python, and times in ISO 8601.

    Examples
    --------
    >>> described([("type", "TRADE_AGG"), ("coin", "BTC"), ("interval", "MINUTE"), ("from", "0"), ("period", "60")])
    'TRADE_AGG coin=BTC interval=1m, 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'
    """
    by_name: dict[str, list[str]] = {}
    for name, value in params:
        by_name.setdefault(name, []).append(_ALIASES.get(name, {}).get(value, value))
    if "from" in by_name and "period" in by_name:
        start = int(by_name.pop("from")[0])
        times = [spans([(start, start + int(by_name.pop("period")[0]))])]
    else:
        times = [
            f"{word} {written_time(int(by_name.pop(name)[0]))}"
            for name, word in (("from", "from"), ("to", "until"))
            if name in by_name
        ]
    types = by_name.pop("type", [])
    other_params = [f"{FIELDS.get(name, name)}={','.join(values)}" for name, values in by_name.items()]
    return ", ".join(filter(None, [" ".join([*types, *other_params]), *times]))


def of_query(query: PointsQuery, start: int, end: int) -> str:
    """Return a query in words, with the window from start to end."""
    return described(query.model_copy(update={"start": start, "end": end}).to_params())


def spans(several: Sequence[Span], *, shown: int = _SHOWN) -> str:
    """Return the first ``shown`` spans in ISO 8601, and how many more there are.

    Examples
    --------
    >>> spans([(0, 60)])
    '1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'
    """
    shown_spans = ", ".join(f"{written_time(start)} to {written_time(end)}" for start, end in several[:shown])
    return shown_spans + (f" and {len(several) - shown} more" if len(several) > shown else "")


def lasting(seconds: float) -> str:
    """Return a duration in days, hours, minutes or seconds, as suits its length.

    Examples
    --------
    >>> lasting(0.2), lasting(90), lasting(3_600 * 26)
    ('0 s', '90 s', '1 day, 2:00 h')
    """
    rounded = round(seconds)
    if rounded < 120:
        return f"{rounded} s"
    if rounded < 3_600:
        return f"{rounded // 60} min {rounded % 60} s"
    text, _, _ = str(timedelta(seconds=rounded)).rpartition(":")
    return f"{text} h"


def facts_table(heading: str, facts: Mapping[str, str]) -> str:
    """Return an HTML table for a notebook, without facts that are empty."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html_text(name)}</th><td style='text-align:left'>{html_text(fact)}</td></tr>"
        for name, fact in facts.items()
        if fact
    )
    return f"<p><b>{html_text(heading)}</b></p><table>{rows}</table>"


# --- progress ---

_LOG = logging.getLogger("tidytape")

_REPORTED_WAIT = 10.0
"""The shortest wait that is reported. [s]"""


class Bar:
    """The progress of a fetch and its budget waits, shown on a bar, or in the log if there is no bar.

    Parameters
    ----------
    what : str
        The data type that is fetched.
    bar : tqdm, optional
    """

    def __init__(self, what: str, bar: Any = None) -> None:
        self._what = what
        self._bar = bar
        self._until = 0.0

    def advance(self) -> None:
        """Count one more request as done."""
        if self._bar is not None:
            self._bar.update()

    def expect(self, requests: int) -> None:
        """Count more requests as still to do."""
        if self._bar is not None and requests:
            self._bar.total += requests
            self._bar.refresh()

    def looks_ahead(self, weight: int) -> None:
        """Warn that part of the weight is for a time more than a day ahead of now. [weight]"""
        if weight:
            _LOG.warning(
                "%s: weight %s of this fetch is for a time more than a day ahead of now; an earlier end saves it",
                self._what,
                f"{weight:,}",
            )

    def waits(self, seconds: float) -> None:
        """Report a budget wait only if it is long and ends later than the last one reported. [s]"""
        until = time.time() + seconds
        if seconds < _REPORTED_WAIT or until < self._until + _REPORTED_WAIT:
            return
        self._until = until
        when = written_time(round(until))
        if self._bar is not None:
            self._bar.set_postfix_str(f"waits for the budget until {when}")
        else:
            # Log it and do not warn: `warnings` shows a text only once, and a filter that raises would end the fetch.
            _LOG.warning(
                "%s: the budget of the key makes this fetch wait %s, until %s; %s bounds that, and a plan "
                "tells it beforehand",
                self._what,
                lasting(seconds),
                when,
                Argument("max_wait"),
            )


@contextmanager
def progress(what: str, total: int, *, shows: bool | None) -> Iterator[Bar]:
    """Yield the progress of a fetch of ``total`` requests.

    If ``shows`` is None, a fetch of more than one request shows a bar at a terminal or in a notebook.
    """
    if not (total > 1 and _is_interactive() if shows is None else shows):
        yield Bar(what)
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc=what, unit="request", leave=False) as bar:
        yield Bar(what, bar)


def _is_interactive() -> bool:
    """Return whether a person watches: standard error is a terminal, or the IPython shell has a notebook's kernel."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")
