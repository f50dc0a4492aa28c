"""What a fetch was, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

import polars as pl

from tidytape.client.display import counted, facts_table, of_query, spans
from tidytape.client.fingerprint import fingerprint
from tidytape.client.window import Span, Window
from tidytape.errors import TidytapeError
from tidytape.query import PointsQuery

__all__ = ["Metadata"]


def _times(given: tuple[Span, ...]) -> tuple[tuple[datetime, datetime], ...]:
    return tuple(
        (datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)) for start, end in given
    )


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
        How many were sent.
    weight : int
        What they weighed together. [weight]
    cached : tuple of (int, int)
        Spans that were kept from before, half-open. [s since the epoch]
    missing : tuple of (int, int)
        Spans without an answer, half-open; none unless ``partial="flag"``. [s since the epoch]
    failures : tuple of TidytapeError
        Why these are missing.
    at : datetime
        When it was fetched, in UTC.
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

    @classmethod
    def replayed(
        cls, window: Window, frame: pl.DataFrame, at: datetime, missing: tuple[Span, ...]
    ) -> Metadata:
        """Return those of a frame from a tape: nothing was sent, and it is of when it was recorded."""
        return cls(window.query, window.start, window.end, 0, 0, (), missing, (), at, frame)

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
