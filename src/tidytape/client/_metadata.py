"""What a fetch says of itself: its plan, its progress, its metadata, and why markets have no points."""

from __future__ import annotations

import hashlib
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from typing import Any

import orjson
import polars as pl

from tidytape.budget import weight
from tidytape.catalogue import NoteCode
from tidytape.client._answers import most_weight
from tidytape.client._display import facts_table, lasting, of_query, spans
from tidytape.client._steps import printable
from tidytape.client._window import Window
from tidytape.errors import Argument, EmptyAnswerWarning, TidytapeError, counted
from tidytape.query import PointsQuery
from tidytape.query._values import written_time
from tidytape.times import SECOND, Span
from tidytape.wire._notes import Note, read_notes, write_notes


def fingerprint(frame: pl.DataFrame) -> str:
    """Return a SHA-256 of the names, kinds, values and order of a frame.

    Of each column in turn its name, kind and length, which of its values are null, and the others: numbers as
    little-endian bytes, times as nanoseconds since the epoch, text as lengths and UTF-8, lists as lengths and their
    values. How a library holds or writes them has no part in it, and neither has ``is_final``, which says when a frame
    was fetched and not what it says.

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
    >>> one, other = pl.DataFrame({"a": [1, None]}), pl.DataFrame({"a": [None, 1]})
    >>> fingerprint(one) == fingerprint(one.clone()), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    digest = hashlib.sha256()
    for column in frame:
        if column.name == "is_final":
            continue
        digest.update(f"{column.name}\0".encode())
        _tell(column.alias(""), digest.update)  # polars would read a name such as "^x$" as a pattern
    return digest.hexdigest()


def _tell(column: pl.Series, update: Callable[[bytes], None]) -> None:
    import polars as pl

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
        update(_little(present.list.len().cast(pl.Int64)))
        inner = present.explode(empty_as_null=False) if len(present) else present.explode()
        _tell(inner if len(present) else pl.Series(dtype=dtype.inner), update)
    elif isinstance(dtype, pl.String):
        update(_little(present.str.len_bytes().cast(pl.Int64)))
        update("".join(present.to_list()).encode())
    elif isinstance(dtype, pl.Boolean):
        update(present.cast(pl.UInt8).to_numpy().tobytes())
    elif dtype.is_numeric() or isinstance(dtype, pl.Datetime):
        update(_little(present))
    else:
        update(repr(present.to_list()).encode())


def _little(numbers: pl.Series) -> bytes:
    array = numbers.to_numpy()
    return (array if sys.byteorder == "little" else array.byteswap()).tobytes()


# --- ---


_LOG = logging.getLogger("tidytape")

_PATIENCE = 10.0
"""A shorter wait is not worth a word. [s]"""


class Bar:
    """The progress of a fetch and its budget waits, shown on a bar, or in the log if there is no bar.

    Parameters
    ----------
    what : str
        What is fetched.
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
        if seconds < _PATIENCE or until < self._until + _PATIENCE:
            return
        self._until = until
        when = written_time(round(until))
        if self._bar is not None:
            self._bar.set_postfix_str(f"waits for the budget until {when}")
        else:
            # Not `warnings`: each wait is news, and a filter that makes errors of them must not end a fetch halfway.
            _LOG.warning(
                "%s: the budget of the key makes this fetch wait %s, until %s; %s bounds that, and a plan "
                "tells it beforehand",
                self._what,
                lasting(seconds),
                when,
                Argument("max_wait"),
            )


@contextmanager
def progress(what: str, total: int, *, wanted: bool | None) -> Iterator[Bar]:
    """Yield the progress of a fetch of ``total`` requests.

    Where ``wanted`` is None it is shown if there is more than one request and someone is looking: at a terminal, or in
    a notebook.
    """
    if not (total > 1 and _is_seen() if wanted is None else wanted):
        yield Bar(what)
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc=what, unit="request", leave=False) as bar:
        yield Bar(what, bar)


def _is_seen() -> bool:
    # A notebook has a shell with a kernel; some library that was only imported has none.
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")


# --- ---


_SHOWN = 3
_MARKET = ("exchange", "raw_symbol", "coin")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the points of a market do not fill the window.

    Attributes
    ----------
    code : NoteCode
        ``NO_DATA``, ``OUTSIDE``, ``NOT_BEGUN``, ``TIER``: there are no points, and Python warns. ``QUIET``: the market
        is covered and nothing happened. ``PART``: there are points, and no others at the ends of the window.
    data_type : str
        What was asked for.
    exchange, raw_symbol, coin : str or None
        The market; all are None where the reason holds for every market.
    start, end : int
        The window, half-open. [s since the epoch]
    first, last : datetime or None
        The first and the last event that the service holds of this type, in UTC.
    types : tuple of str
        The types that the market has, where it does not have this one, or not in all of the window.
    intervals : tuple of str
        The intervals that its candles make up, where the one that was asked for is not among them.
    tenors : tuple of str
        The tenors that its newest quotes make up, where the one that was asked for is not among them.
    around : datetime or None
        Start of the interval or session that the whole window lies inside of, where none starts in the window.

    Examples
    --------
    >>> print(Reason(NoteCode.NO_DATA, "TPO_AGG", "X", "BTCUSDT", types=("OPEN_INTEREST_AGG",)))
    X BTCUSDT has no TPO_AGG; it has OPEN_INTEREST_AGG
    >>> print(Reason(NoteCode.NO_DATA, "TPO_AGG", "X", "BTCUSDT", types=("TRADE_SIDE_AGNOSTIC_AGG",)))
    X BTCUSDT has no TPO_AGG; it has TRADE_SIDE_AGNOSTIC_AGG; tidytape.aggregate.candle_tpo makes one of its candles
    """

    code: NoteCode
    data_type: str
    exchange: str | None = None
    raw_symbol: str | None = None
    coin: str | None = None
    start: int = 0
    end: int = 0
    first: datetime | None = None
    last: datetime | None = None
    types: tuple[str, ...] = ()
    intervals: tuple[str, ...] = ()
    tenors: tuple[str, ...] = ()
    around: datetime | None = None

    @property
    def market(self) -> str:
        """The market as people name it."""
        names = [self.exchange, self.raw_symbol or self.coin]
        return printable(" ".join(filter(None, names))) or "the service"

    @property
    def note(self) -> Note:
        """The same as the service says it."""
        first, last = (
            None if time is None else round(time.timestamp()) * SECOND for time in (self.first, self.last)
        )
        market = self.exchange, self.raw_symbol, self.coin
        return Note(self.code, self.data_type, *market, first, last, self.types, self.intervals, self.tenors)

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"{self.market} {self._said}"

    @property
    def _said(self) -> str:
        asked, what = spans([(self.start, self.end)]), self.data_type
        held = ""
        if self.first is not None and self.last is not None:
            held = f" from {_written(self.first)} to {_written(self.last)}"
        match self.code:
            case NoteCode.NO_DATA if self.intervals:
                able = printable(", ".join(self.intervals))
                return f"has no {what} of this interval; its candles make up {able}"
            case NoteCode.NO_DATA if self.tenors:
                able = printable(", ".join(self.tenors))
                return f"has no {what} of this tenor; its newest quotes have tenors {able}"
            case NoteCode.NO_DATA:
                others = printable(", ".join(self.types)) or "no other type either"
                return f"has no {what}; it has {others}{self._of_candles}"
            case NoteCode.OUTSIDE:
                return f"has {what}{held}, and none in {asked}{self._instead}"
            case NoteCode.NOT_BEGUN if self.around is not None:
                return (
                    f"has no {what} that starts in {asked}; the one around it starts {_written(self.around)}"
                )
            case NoteCode.NOT_BEGUN:
                return f"has no {what} yet: no interval that starts in {asked} has begun"
            case NoteCode.TIER:
                return f"has no {what} in {asked} that the tier of this key sees"
            case NoteCode.QUIET:
                return f"has {what}{held}; nothing happened in {asked}"
            case _:
                return f"has {what}{held}, and in {asked} no points but these{self._instead}"

    @property
    def _instead(self) -> str:
        """Other data that the market has for the window."""
        if self.intervals:
            return f"; its candles make up {printable(', '.join(self.intervals))}"
        return f"; there it has {printable(', '.join(self.types))}{self._of_candles}" if self.types else ""

    @property
    def _of_candles(self) -> str:
        """How to make the points of candles, where the market has candles and no trades."""
        call = _OF_CANDLES.get(self.data_type)
        return (
            f"; tidytape.aggregate.{call} makes one of its candles" if call and _CANDLES in self.types else ""
        )


_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
_OF_CANDLES = {"VOLUME_PROFILE_AGG": "candle_profile", "TPO_AGG": "candle_tpo"}
"""The function that makes of candles what is otherwise made of trades."""


def _written(time: datetime) -> str:
    return written_time(int(time.timestamp()))


def reasons_of(
    window: Window, notes: Iterable[Note], frame: pl.DataFrame, *, now: float
) -> tuple[Reason, ...]:
    """Return one reason for each market that the notes of all parts of a window name.

    Parameters
    ----------
    window : Window
    notes : iterable of Note
        Of every answer, from the service, the cache or a tape.
    frame : polars.DataFrame
        The points of the window. A market that has some is not empty, whatever the note of a part says.
    now : float
        [s since the epoch]

    Returns
    -------
    tuple of Reason
        In the order of the notes. Where no note says why there is nothing, the client says it of a window in which no
        interval has begun; else there is none.
    """
    of_market: dict[tuple[str | None, ...], list[Note]] = {}
    for note in notes:
        of_market.setdefault(tuple(getattr(note, name) for name in _MARKET), []).append(note)
    present = _present(frame) if of_market else set()
    is_group = window.query.group_by is not None
    reasons = []
    for key, many in of_market.items():
        # A group has no market of its own: its members are what their notes say.
        is_empty = (
            all(note.code is not NoteCode.PART for note in many) if is_group else key[:2] not in present
        )
        reasons.append(_reason(window, many, is_empty=is_empty))
    around = _around(window)
    if not reasons and frame.is_empty() and (around is not None or window.span[0] > now):
        start, end = window.asked
        reasons = [Reason(NoteCode.NOT_BEGUN, window.data_type, start=start, end=end, around=around)]
    return tuple(reason for reason in reasons if reason is not None)


def _present(frame: pl.DataFrame) -> set[tuple[str | None, ...]]:
    """Return exchange and symbol of the markets that have points."""
    names = _MARKET[:2]
    if not set(names) <= set(frame.columns):
        return set()
    return set(frame.select(names).unique().cast(pl.String).iter_rows())


def _reason(window: Window, notes: Sequence[Note], *, is_empty: bool) -> Reason | None:
    """Return the reason of one market from its notes on the parts of a window; None where there is nothing to say."""
    firsts = [note.first for note in notes if note.first is not None]
    lasts = [note.last for note in notes if note.last is not None]
    first, last = min(firsts, default=None), max(lasts, default=None)
    codes = {note.code for note in notes}
    if not is_empty and NoteCode.PART not in codes:
        return None
    code = next(filter(codes.__contains__, _FIRST_OF)) if is_empty else NoteCode.PART
    start, end = (second * SECOND for second in window.span)
    if code is NoteCode.OUTSIDE and first is not None and last is not None and start <= last and first < end:
        code = NoteCode.QUIET  # parts of the window lie outside of what is held, and the whole does not
    decisive = next(note for note in notes if note.code is code) if code in codes else notes[-1]
    return Reason(
        code,
        window.data_type,
        decisive.exchange,
        decisive.raw_symbol,
        decisive.coin,
        window.start,
        window.end,
        _moment(first),
        _moment(last),
        decisive.types,
        decisive.intervals,
        decisive.tenors,
        _around(window) if code is NoteCode.NOT_BEGUN else None,
    )


_FIRST_OF = (
    NoteCode.QUIET,
    NoteCode.PART,
    NoteCode.TIER,
    NoteCode.OUTSIDE,
    NoteCode.NOT_BEGUN,
    NoteCode.NO_DATA,
)
"""Of several codes of one market without points the one that counts: it is covered where a part says that it is."""


def _around(window: Window) -> datetime | None:
    """Return the start of the interval or session around a window in which none starts."""
    around = window.request(window.start, window.end).around
    return None if around is None else datetime.fromtimestamp(around, UTC)


def _moment(ns: int | None) -> datetime | None:
    return None if ns is None else datetime.fromtimestamp(ns / SECOND, UTC)


def in_every_part(window: Window, parts: Sequence[Sequence[Reason]]) -> tuple[Reason, ...]:
    """Return the reasons of the markets that have no points in any part of a window."""
    empty = [[reason for reason in part if reason.code is not NoteCode.PART] for part in parts]
    in_all = set.intersection(*({reason.market for reason in part} for part in empty)) if empty else set()
    notes = [reason.note for part in empty for reason in part if reason.market in in_all]
    return reasons_of(window, notes, pl.DataFrame(), now=time.time()) if notes else ()


def in_words(reasons: Sequence[Reason]) -> str:
    """Return reasons on one line; of many the first."""
    more = f"; and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
    return "; ".join(map(str, reasons[:_SHOWN])) + more


def warn_of_empty(reasons: Sequence[Reason]) -> None:
    """Warn of markets without points at the caller's line, unless nothing happened in them."""
    empty = [reason for reason in reasons if reason.code.warns]
    if not empty:
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tidytape."):
        level, frame = level + 1, frame.f_back
    warnings.warn(EmptyAnswerWarning(in_words(empty), reasons=tuple(empty)), stacklevel=level)


# --- ---


@dataclass(frozen=True, repr=False)
class PlanPart:
    """The requests that one query of a plan would send.

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
        """Sum of the weights of its requests. [weight]"""
        return sum(map(weight, self.requests))

    @property
    def weight_at_most(self) -> int:
        """Weight including every probe and repeat for answers that end early without a note. [weight]

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
    """The requests that a fetch would send now, with their weight and the time they would wait.

    Attributes
    ----------
    parts : tuple of PlanPart
        One per query, in the order in which they were given.
    seconds : float or None
        How long the budget would make the client wait for all of them together; None where the budget is not known, or
        the tier refuses it: no wait helps. [s]
    tier : str or None
        The tier that was named, whose full budget ``seconds`` is about; None if it is about that of the client's key.
    refusal : str or None
        Why the tier that was named does not include all of it; None if it does.
    """

    parts: tuple[PlanPart, ...]
    seconds: float | None
    tier: str | None = None
    refusal: str | None = None

    @property
    def requests(self) -> tuple[PointsQuery, ...]:
        """The requests that would be sent."""
        return tuple(request for part in self.parts for request in part.requests)

    @property
    def weight(self) -> int:
        """Sum of the weights of all requests. [weight]"""
        return sum(part.weight for part in self.parts)

    @property
    def weight_at_most(self) -> int:
        """The weight of all requests of the plan, and of those that may be added to check for cut answers. [weight]"""
        return sum(part.weight_at_most for part in self.parts)

    @property
    def ahead(self) -> int:
        """Weight that is for a time more than a day ahead of now. [weight]"""
        return sum(part.ahead for part in self.parts)

    @property
    def cached(self) -> tuple[Span, ...]:
        """Spans that cost nothing, part by part, half-open. [s since the epoch]"""
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
        """Return it as a notebook shows it: the sum, and a table of its parts, or of the first requests of its one."""
        return f"<p><b>Plan</b>: {escape(self._sum)}</p>" + (
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
    """Return the totals of parts of a plan in words."""
    requests = [request for part in parts for request in part.requests]
    least, most = sum(part.weight for part in parts), sum(part.weight_at_most for part in parts)
    doubt = f" (at most {most:,})" if most > least else ""
    clauses = [counted(len(requests), "request"), f"weight {least:,}{doubt}", wait]
    if ahead := sum(part.ahead for part in parts):
        clauses.append(f"weight {ahead:,} of it for a time more than a day ahead of now")
    again = sum(_is_asked(span, part) for part in parts for span in part.cached)
    if kept := sum(len(part.cached) for part in parts) - again:
        clauses.append(f"{counted(kept, 'span')} from the cache")
    if again:
        clauses.append(f"{counted(again, 'span')} of the cache asked for again, which costs no more")
    if lacking := [span for part in parts for span in part.lacking]:
        clauses.append(f"offline, and the cache lacks {spans(lacking)}")
    return ", ".join(filter(None, clauses))


def _is_asked(span: Span, part: PlanPart) -> bool:
    """Whether a request that joins two gaps asks for a cached span again."""
    return any(request.start <= span[0] and span[1] <= request.end for request in part.requests)


def _cached_line(cached: Sequence[Span]) -> str:
    return f"<p>from the cache: {escape(spans(cached))}</p>" if cached else ""


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
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows[:_SHOWN]
    )
    more = len(rows) - _SHOWN
    rest = f"<tr><td colspan={len(head)}>and {more:,} more</td></tr>" if more > 0 else ""
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{shown}{rest}</table>"


# --- ---


def _times(several: tuple[Span, ...]) -> tuple[tuple[datetime, datetime], ...]:
    return tuple(
        (datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)) for start, end in several
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
        notes = read_notes(orjson.dumps(told.get("notes", []))) or ()
        reason = reasons_of(window, notes, frame, now=at.timestamp())
        is_whole = told.get("is_whole")
        return cls(window.query, window.start, window.end, 0, 0, (), missing, (), at, frame, reason, is_whole)

    @property
    def recorded(self) -> dict[str, Any]:
        """The facts that a tape keeps, from which ``replayed`` rebuilds the metadata."""
        return {
            "requests": self.requests,
            "weight": self.weight,
            "missing": self.missing,
            "is_whole": self.is_whole,
            "notes": orjson.loads(write_notes(reason.note for reason in self.reason)),
        }

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
        """Spans that came from the cache, half-open, in UTC."""
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
        facts = [f"{self._frame.height:,} rows", counted(self.requests, "request"), f"weight {self.weight:,}"]
        facts += [
            f"{name} {spans(kept_spans, shown=1)}" for name, kept_spans in self._kept.items() if kept_spans
        ]
        empty = [reason for reason in self.reason if reason.code is not NoteCode.PART]
        facts += [in_words(empty)] if empty else []
        facts += [f"hash {self._shown_hash[:12]}"] if self._shown_hash else []
        return f"<Metadata {of_query(self.query, self.start, self.end)}: {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it."""
        return facts_table(
            "Metadata",
            {
                "asked": of_query(self.query, self.start, self.end),
                "rows": f"{self._frame.height:,}",
                "requests": f"{self.requests:,}, weight {self.weight:,}",
                **{name: spans(kept_spans) for name, kept_spans in self._kept.items()},
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
