"""How what is asked, when, and for how long is written for people: on one line, or as a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from html import escape
from typing import Any

from tidytape.catalogue import GroupBy, Interval, SortDirection, Tenor, TPOSession
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.query._values import written_time
from tidytape.times import Span

FIELDS: Mapping[str, str] = {
    wire: field for query in (MetaQuery, MarketsQuery, PointsQuery) for field, wire in query.WIRE.items()
}
"""What a parameter of the wire is called in Python."""

_KINDS: Mapping[str, Iterable[Any]] = {
    "interval": Interval,
    "tenor": Tenor,
    "transform.groupBy.type": GroupBy,
    "sortDirection": SortDirection,
    "tpoSession": TPOSession,
}
_ALIASES = {name: {one.value: one.alias for one in kind} for name, kind in _KINDS.items()}
_SHOWN = 3


def described(params: Iterable[Sequence[str]]) -> str:
    """Return URL parameters as a caller in Python says them, times in ISO 8601.

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
        when = [spans([(start, start + int(by_name.pop("period")[0]))])]
    else:
        when = [
            f"{word} {written_time(int(by_name.pop(name)[0]))}"
            for name, word in (("from", "from"), ("to", "until"))
            if name in by_name
        ]
    types = by_name.pop("type", [])
    rest = [f"{FIELDS.get(name, name)}={','.join(values)}" for name, values in by_name.items()]
    return ", ".join(filter(None, [" ".join([*types, *rest]), *when]))


def of_query(query: PointsQuery, start: int, end: int) -> str:
    """Return a query in words, with other times than its own."""
    return described(query.model_copy(update={"start": start, "end": end}).to_params())


def spans(several: Sequence[Span], *, shown: int = _SHOWN) -> str:
    """Return spans of time in ISO 8601; of many the first.

    Examples
    --------
    >>> spans([(0, 60)])
    '1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'
    """
    shown_spans = ", ".join(f"{written_time(start)} to {written_time(end)}" for start, end in several[:shown])
    return shown_spans + (f" and {len(several) - shown} more" if len(several) > shown else "")


def lasting(seconds: float) -> str:
    """Return a length of time in the units that people count it in.

    Examples
    --------
    >>> lasting(0.2), lasting(90), lasting(3_600 * 26)
    ('0 s', '90 s', '1 day, 2:00 h')
    """
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    text, _, _ = str(timedelta(seconds=whole)).rpartition(":")
    return f"{text} h"


def facts_table(heading: str, facts: Mapping[str, str]) -> str:
    """Return an HTML table of facts for a notebook, without the empty ones."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(fact)}</td></tr>"
        for name, fact in facts.items()
        if fact
    )
    return f"<p><b>{escape(heading)}</b></p><table>{rows}</table>"
