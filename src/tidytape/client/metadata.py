"""What a fetch was, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import orjson
import polars as pl

from tidytape import wire
from tidytape.catalogue import NoteCode
from tidytape.client.display import counted, facts_table, of_query, spans
from tidytape.client.fingerprint import fingerprint
from tidytape.client.reasons import Reason, in_words, reasons_of
from tidytape.client.window import Window
from tidytape.errors import TidytapeError
from tidytape.query import PointsQuery
from tidytape.times import Span

__all__ = ["Metadata"]


def _times(given: tuple[Span, ...]) -> tuple[tuple[datetime, datetime], ...]:
    return tuple(
        (datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)) for start, end in given
    )


_WHOLE = {True: "yes", False: "no", None: "cannot be known of this type"}

_CHEAP = 100_000
"""Most rows whose hash is made only to be shown: a few milliseconds. [row]"""


@dataclass(frozen=True, repr=False)
class Metadata:
    """What a fetch was, and what it cost.

    Attributes
    ----------
    query : PointsQuery
        What was asked; of its time only the start counts.
    start, end : int
        The window, half-open. [s since the epoch]
    requests : int
        How many requests for points were sent. Each time that one was sent again counts, whatever came of it; what
        weighs nothing, such as a look at the quota, does not.
    weight : int
        What those weighed together that the service accepted. [weight]
    cached : tuple of (int, int)
        Spans that were kept from before, half-open. [s since the epoch]
    missing : tuple of (int, int)
        Spans without an answer, half-open; none unless ``partial="flag"``. [s since the epoch]
    failures : tuple of TidytapeError
        Why these are missing.
    at : datetime
        When it was fetched, in UTC.
    reason : tuple of Reason
        Why markets that were asked for have no points, or none at the ends of the window: one per market, as far as the
        service says it or the client knows it itself. A service that follows the specification alone does not say it.
    is_whole : bool or None
        Whether all points are there that the service has. None for types whose points are rare (trades, liquidations,
        profiles, books, option summaries, supply): nothing in an answer shows whether it was cut.
    """

    query: PointsQuery
    start: int
    end: int
    requests: int
    weight: int
    cached: tuple[Span, ...]
    missing: tuple[Span, ...]
    failures: tuple[TidytapeError, ...]
    at: datetime
    _frame: pl.DataFrame = field(compare=False)
    reason: tuple[Reason, ...] = ()
    is_whole: bool | None = None

    @classmethod
    def replayed(cls, window: Window, frame: pl.DataFrame, at: datetime, told: Mapping[str, Any]) -> Metadata:
        """Return those of a frame from a tape: nothing was sent, and it is of when it was recorded."""
        missing = tuple((int(start), int(end)) for start, end in told.get("missing", ()))
        notes = wire.read_notes(orjson.dumps(told.get("notes", []))) or ()
        reason = reasons_of(window, notes, frame, now=at.timestamp())
        is_whole = told.get("is_whole")
        return cls(window.query, window.start, window.end, 0, 0, (), missing, (), at, frame, reason, is_whole)

    @property
    def left_out(self) -> Span | None:
        """The time at the front of the window that no point covers: its interval began before the window.

        Half-open, in seconds since the epoch; None where the window begins with an interval. [s since the epoch]
        """
        window = Window(self.query, self.start, self.end)
        first = min(window.span[0], self.end)
        return (self.start, first) if self.start < first else None

    def of(self, frame: pl.DataFrame) -> Metadata:
        """Return the same of a frame that was made of the one that was fetched."""
        return replace(self, _frame=frame)

    @property
    def cached_times(self) -> tuple[tuple[datetime, datetime], ...]:
        """Spans that were kept from before, half-open, in UTC."""
        return _times(self.cached)

    @property
    def missing_times(self) -> tuple[tuple[datetime, datetime], ...]:
        """Spans without an answer, half-open, in UTC."""
        return _times(self.missing)

    @cached_property
    def hash(self) -> str:
        """Fingerprint of the frame: equal for equal names, kinds, values and order, whatever library holds them."""
        return fingerprint(self._frame)

    def __repr__(self) -> str:
        """Return it on one line."""
        said = [f"{self._frame.height:,} rows", counted(self.requests, "request"), f"weight {self.weight:,}"]
        said += [f"{name} {spans(given, shown=1)}" for name, given in self._kept.items() if given]
        empty = [one for one in self.reason if one.code is not NoteCode.PART]
        said += [in_words(empty)] if empty else []
        said += [f"hash {self._shown_hash[:12]}"] if self._shown_hash else []
        return f"<Metadata {of_query(self.query, self.start, self.end)}: {', '.join(said)}>"

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        return facts_table(
            "Metadata",
            {
                "asked": of_query(self.query, self.start, self.end),
                "rows": f"{self._frame.height:,}",
                "requests": f"{self.requests:,}, weight {self.weight:,}",
                **{name: spans(given) for name, given in self._kept.items()},
                "front left out": spans([self.left_out]) if self.left_out else "",
                "why": in_words(self.reason),
                "whole": _WHOLE[self.is_whole],
                "failures": "; ".join(dict.fromkeys(map(str, self.failures))),
                "fetched at": self.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "hash": self._shown_hash or f"on demand, of {self._frame.height:,} rows: .hash",
            },
        )

    @property
    def _kept(self) -> dict[str, tuple[Span, ...]]:
        return {"from the cache": self.cached, "missing": self.missing}

    @property
    def _shown_hash(self) -> str | None:
        """The hash, where it is known already or soon made."""
        return self.hash if "hash" in self.__dict__ or self._frame.height <= _CHEAP else None
