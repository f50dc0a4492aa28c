"""The metadata of a fetch: what it asked for, the weight it used, and the fingerprint of its frame."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

import orjson
import polars as pl

from tidytape.catalogue import NoteCode
from tidytape.client._answers import is_dense
from tidytape.client._display import facts_table, of_query, spans
from tidytape.client._reasons import Reason, in_words, reasons_of
from tidytape.client._window import Window
from tidytape.errors import TidytapeError, counted
from tidytape.query import PointsQuery
from tidytape.times import Span
from tidytape.wire._notes import Note, read_notes, write_notes


def _times(spans_: tuple[Span, ...]) -> tuple[tuple[datetime, datetime], ...]:
    return tuple(
        (datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)) for start, end in spans_
    )


_WHOLE = {True: "yes", False: "no", None: "cannot be known of this type"}

_CHEAP = 100_000
"""Metadata show the hash of a longer frame only if it is computed already, because the hash takes long. [row]"""


@dataclass(frozen=True, repr=False)
class Metadata:
    """The query of a fetch, the requests and the weight that it took, and what is missing.

    Attributes
    ----------
    query : PointsQuery
        The query; ``start`` and ``end`` are its window.
    start, end : int
        The window, half-open. [s since the epoch]
    requests : int
        How many requests for points the client sent, repeated requests included. Requests without weight, such as a
        request for the quota, do not count.
    weight : int
        The weight of the requests that the service accepted. [weight]
    cached : tuple of (int, int)
        Spans that came from the cache, half-open. [s since the epoch]
    missing : tuple of (int, int)
        Spans without an answer, half-open; always empty unless ``partial="flag"``. [s since the epoch]
    failures : tuple of TidytapeError
        Why these spans are missing.
    at : datetime
        The time of the fetch, in UTC.
    reason : tuple of Reason
        Why markets have no points, or no points at the ends of the window: one reason per market, if the service says
        it or the client knows it. A service that follows only the specification does not say it.
    is_whole : bool or None
        Whether the frame has all points that the service has. None for types whose points are rare (trades,
        liquidations, profiles, books, option summaries, supply): nothing in their answers shows whether they were cut.
    sessions : mapping of (str, str) to str
        When markets trade, by exchange and raw symbol, as text that `tidytape.Session.parsed` reads. It has the markets
        with points whose session the service states; the others have the UTC day.
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
    sessions: Mapping[tuple[str, str], str] = field(default_factory=dict, hash=False)

    @classmethod
    def of_fetch(
        cls,
        window: Window,
        frame: pl.DataFrame,
        notes: Iterable[Note],
        *,
        requests: int,
        weight: int,
        cached: Sequence[Span] = (),
        missing: Sequence[Span] = (),
        failures: Sequence[TidytapeError] = (),
        sessions: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> Metadata:
        """Return the metadata of a fetch that has just ended, with the reasons that the notes of its answers give."""
        notes = dict.fromkeys(notes)  # each once, in their order
        # A full frame without notes needs no reason.
        reasons = reasons_of(window, notes, frame, now=time.time()) if notes or frame.is_empty() else ()
        return cls(
            window.query,
            window.start,
            window.end,
            requests,
            weight,
            tuple(cached),
            tuple(missing),
            tuple(failures),
            datetime.now(UTC),
            frame,
            reasons,
            not missing if is_dense(window.query) else None,
            dict(sessions),
        )

    @classmethod
    def replayed(
        cls, window: Window, frame: pl.DataFrame, at: datetime, facts: Mapping[str, Any]
    ) -> Metadata:
        """Return the metadata of a frame from a tape, with the time of the recording and no requests."""
        missing = tuple((int(start), int(end)) for start, end in facts.get("missing", ()))
        notes = read_notes(orjson.dumps(facts.get("notes", []))) or ()
        reason = reasons_of(window, notes, frame, now=at.timestamp())
        is_whole = facts.get("is_whole")
        sessions = {(exchange, symbol): text for exchange, symbol, text in facts.get("sessions", ())}
        asked = window.query, window.start, window.end
        return cls(*asked, 0, 0, (), missing, (), at, frame, reason, is_whole, sessions)

    @property
    def recorded(self) -> dict[str, Any]:
        """The facts that a tape keeps, from which ``replayed`` rebuilds the metadata."""
        facts: dict[str, Any] = {
            "requests": self.requests,
            "weight": self.weight,
            "missing": self.missing,
            "is_whole": self.is_whole,
            "notes": orjson.loads(write_notes(reason.note for reason in self.reason)),
        }
        if self.sessions:
            facts["sessions"] = [[*market, text] for market, text in self.sessions.items()]
        return facts

    @property
    def left_out(self) -> Span | None:
        """The beginning of the window that no interval covers, half-open; None if an interval starts with the window.

        The interval there began before the window, so the window does not have its point. [s since the epoch]
        """
        window = Window(self.query, self.start, self.end)
        first = min(window.span[0], self.end)
        return (self.start, first) if self.start < first else None

    def of(self, frame: pl.DataFrame) -> Metadata:
        """Return the same metadata for a frame that was computed from the fetched frame."""
        return replace(self, _frame=frame)

    @property
    def cached_times(self) -> tuple[tuple[datetime, datetime], ...]:
        """Spans that came from the cache, half-open, in UTC."""
        return _times(self.cached)

    @property
    def missing_times(self) -> tuple[tuple[datetime, datetime], ...]:
        """Spans without an answer, half-open, in UTC."""
        return _times(self.missing)

    @cached_property
    def hash(self) -> str:
        """Fingerprint of the frame: equal for frames with equal names, kinds, values and order, in every library."""
        return fingerprint(self._frame)

    def __repr__(self) -> str:
        """Return the metadata on one line."""
        facts = [f"{self._frame.height:,} rows", counted(self.requests, "request"), f"weight {self.weight:,}"]
        facts += [
            f"{label} {spans(labelled, shown=1)}" for label, labelled in self._spans.items() if labelled
        ]
        empty = [reason for reason in self.reason if reason.code is not NoteCode.PART]
        facts += [in_words(empty)] if empty else []
        facts += [f"hash {self._shown_hash[:12]}"] if self._shown_hash else []
        return f"<Metadata {of_query(self.query, self.start, self.end)}: {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        """Return the metadata as a table for a notebook."""
        return facts_table(
            "Metadata",
            {
                "asked": of_query(self.query, self.start, self.end),
                "rows": f"{self._frame.height:,}",
                "requests": f"{self.requests:,}, weight {self.weight:,}",
                **{label: spans(labelled) for label, labelled in self._spans.items()},
                "front left out": spans([self.left_out]) if self.left_out else "",
                "why": in_words(self.reason),
                "whole": _WHOLE[self.is_whole],
                "sessions": "; ".join(
                    f"{' '.join(market)}: {text}" for market, text in self.sessions.items()
                ),
                "failures": "; ".join(dict.fromkeys(map(str, self.failures))),
                "fetched at": self.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "hash": self._shown_hash or f"on demand, of {self._frame.height:,} rows: .hash",
            },
        )

    @property
    def _spans(self) -> dict[str, tuple[Span, ...]]:
        return {"from the cache": self.cached, "missing": self.missing}

    @property
    def _shown_hash(self) -> str | None:
        """The hash, if it is computed already or quick to compute."""
        return self.hash if "hash" in self.__dict__ or self._frame.height <= _CHEAP else None


def fingerprint(frame: pl.DataFrame) -> str:
    """Return a SHA-256 of the names, kinds, values and order of a frame.

    The hash covers, for each column, its name, kind and length, which values are null, and the other values: numbers as
    little-endian bytes, times as nanoseconds since the epoch, text as lengths and UTF-8, lists as lengths and their
    values. It does not depend on the library of the frame, nor on ``is_final``, which depends on the time of the fetch.

    Parameters
    ----------
    frame : polars.DataFrame

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> import polars as pl
    >>> frame, reverse = pl.DataFrame({"a": [1, None]}), pl.DataFrame({"a": [None, 1]})
    >>> fingerprint(frame) == fingerprint(frame.clone()), fingerprint(frame) == fingerprint(reverse)
    (True, False)
    """
    digest = hashlib.sha256()
    for column in frame:
        if column.name == "is_final":
            continue
        digest.update(f"{column.name}\0".encode())
        _add_column(column.alias(""), digest.update)  # polars would read a name such as "^x$" as a pattern
    return digest.hexdigest()


def _add_column(column: pl.Series, update: Callable[[bytes], None]) -> None:
    """Add a column to a hash."""
    dtype = column.dtype
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column, dtype = column.cast(pl.String), pl.String()
    if isinstance(dtype, pl.Datetime):
        column = column.dt.cast_time_unit("ns").dt.epoch("ns")
        kind = f"time {dtype.time_zone}"
    else:
        kind = str(dtype)
    update(f"{kind}\0{len(column)}\0".encode())
    update(column.is_null().cast(pl.UInt8).to_numpy().tobytes())
    present = column.drop_nulls()
    if isinstance(dtype, pl.List):
        update(_little_endian(present.list.len().cast(pl.Int64)))
        members = present.explode(empty_as_null=False) if len(present) else pl.Series(dtype=dtype.inner)
        _add_column(members, update)
    elif isinstance(dtype, pl.String):
        update(_little_endian(present.str.len_bytes().cast(pl.Int64)))
        update("".join(present.to_list()).encode())
    elif isinstance(dtype, pl.Boolean):
        update(present.cast(pl.UInt8).to_numpy().tobytes())
    elif dtype.is_numeric() or isinstance(dtype, pl.Datetime):
        update(_little_endian(present))
    else:
        update(repr(present.to_list()).encode())


def _little_endian(numbers: pl.Series) -> bytes:
    array = numbers.to_numpy()
    return (array if sys.byteorder == "little" else array.byteswap()).tobytes()
