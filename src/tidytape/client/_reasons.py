"""The reasons why markets have no points in a window, which the service says or the client knows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import polars as pl

from tidytape.catalogue import NoteCode
from tidytape.client._display import spans
from tidytape.client._steps import printable
from tidytape.client._window import Window
from tidytape.errors import EmptyAnswerWarning, warn
from tidytape.query._values import written_time
from tidytape.times import SECOND
from tidytape.wire._notes import Note

_SHOWN = 3
_MARKET_COLUMNS = ("exchange", "raw_symbol", "coin")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the points of a market do not fill the window.

    Attributes
    ----------
    code : NoteCode
        ``NO_DATA``, ``OUTSIDE``, ``NOT_BEGUN``, ``TIER``: there are no points, and Python warns. ``QUIET``: the service
        has the market at that time, and nothing happened. ``PART``: there are points, but not up to both ends of the
        window. ``SUMMED``: the points are sums over ``exchanges``. ``NO_SIDE``: some trades have no side, so no side
        counts them.
    data_type : str
        The data type that the query asks for.
    exchange, raw_symbol, coin : str or None
        The market; all are None if the reason holds for every market.
    start, end : int
        The window, half-open. [s since the epoch]
    first, last : datetime or None
        The first and the last event of this type that the service has, in UTC.
    types : tuple of str
        The types that the market has, if it does not have this type, or not in all of the window.
    intervals : tuple of str
        The intervals that can be computed from the market's recorded candles, if the query has another interval.
    tenors : tuple of str
        The tenors that can be computed from the market's newest quotes, if the query has another tenor.
    around : datetime or None
        Start of the interval or session that contains the window, if no interval starts in the window.
    exchanges : tuple of str
        The exchanges that the points are sums over, if neither the query nor the service names one.
    renamed_from, renamed_to : str or None
        The symbol that the market had before it was renamed, if the window begins before that; or has since.
    renamed_at : datetime or None
        When it was renamed, in UTC.

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
    exchanges: tuple[str, ...] = ()
    renamed_from: str | None = None
    renamed_to: str | None = None
    renamed_at: datetime | None = None

    @property
    def market(self) -> str:
        """The market as people name it."""
        names = [self.exchange, self.raw_symbol or self.coin]
        return printable(" ".join(filter(None, names))) or "the service"

    @property
    def note(self) -> Note:
        """The reason as a note, the form in which a service says it."""
        first, last, renamed_at = (
            None if time is None else round(time.timestamp()) * SECOND
            for time in (self.first, self.last, self.renamed_at)
        )
        market = self.exchange, self.raw_symbol, self.coin
        lists = self.types, self.intervals, self.tenors, (), self.exchanges
        renaming = self.renamed_from, self.renamed_to, renamed_at
        return Note(self.code, self.data_type, *market, first, last, *lists, *renaming)

    def __str__(self) -> str:
        """Return the reason as a sentence."""
        return f"{self.market} {self._sentence}{self._other_symbol}"

    @property
    def _sentence(self) -> str:
        window, data_type = spans([(self.start, self.end)]), self.data_type
        extent = ""
        if self.first is not None and self.last is not None:
            extent = f" from {_written(self.first)} to {_written(self.last)}"
        match self.code:
            case NoteCode.NO_DATA if self.intervals:
                possible = printable(", ".join(self.intervals))
                return f"has no {data_type} of this interval; its candles make up {possible}"
            case NoteCode.NO_DATA if self.tenors:
                possible = printable(", ".join(self.tenors))
                return f"has no {data_type} of this tenor; its newest quotes have tenors {possible}"
            case NoteCode.NO_DATA:
                others = printable(", ".join(self.types)) or "no other type either"
                return f"has no {data_type}; it has {others}{self._of_candles}"
            case NoteCode.OUTSIDE:
                return f"has {data_type}{extent}, and none in {window}{self._instead}"
            case NoteCode.NOT_BEGUN if self.around is not None:
                return f"has no {data_type} that starts in {window}; the one around it starts {_written(self.around)}"
            case NoteCode.NOT_BEGUN:
                return f"has no {data_type} yet: no interval that starts in {window} has begun"
            case NoteCode.TIER:
                return f"has no {data_type} in {window} that the tier of this key sees"
            case NoteCode.SUMMED:
                return f"has {data_type} of several exchanges, summed: {printable(', '.join(self.exchanges))}"
            case NoteCode.NO_SIDE:
                return f"has trades without a side in {window}; no side of its {data_type} counts them"
            case NoteCode.QUIET:
                return f"has {data_type}{extent}; nothing happened in {window}"
            case _:
                return f"has {data_type}{extent}, and in {window} no points but these{self._instead}"

    @property
    def _other_symbol(self) -> str:
        """The symbol that the market has in the other part of its life."""
        if self.renamed_at is None:
            return ""
        if self.renamed_from is not None:
            return f"; until {_written(self.renamed_at)} its symbol was {printable(self.renamed_from)}"
        return f"; since {_written(self.renamed_at)} its symbol is {printable(str(self.renamed_to))}"

    @property
    def _instead(self) -> str:
        """Other data that the market has for the window."""
        if self.intervals:
            return f"; its candles make up {printable(', '.join(self.intervals))}"
        return f"; there it has {printable(', '.join(self.types))}{self._of_candles}" if self.types else ""

    @property
    def _of_candles(self) -> str:
        """How to compute the points from candles, if the market has candles and no trades."""
        call = _OF_CANDLES.get(self.data_type)
        return (
            f"; tidytape.aggregate.{call} makes one of its candles" if call and _CANDLES in self.types else ""
        )


_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
_OF_CANDLES = {"VOLUME_PROFILE_AGG": "candle_profile", "TPO_AGG": "candle_tpo"}
"""The functions that compute these data types from candles; the service computes them from trades."""


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
        The notes of every answer, from the service, the cache or a tape.
    frame : polars.DataFrame
        The points of the window. A market with points is not empty, even if the note of a part says so.
    now : float
        [s since the epoch]

    Returns
    -------
    tuple of Reason
        In the order of the notes. If they give no reason and no interval of the window has begun, the client gives this
        reason itself.
    """
    notes_by_market: dict[tuple[str | None, ...], list[Note]] = {}
    notes = list(notes)
    reasons_of_points = {
        note: Reason(
            note.code,
            window.data_type,
            note.exchange,
            note.raw_symbol,
            note.coin,
            window.start,
            window.end,
            exchanges=note.exchanges,
        )
        for note in notes
        if note.code in _OF_POINTS
    }
    for note in notes:
        if note.code is NoteCode.IGNORED or note.code in _OF_POINTS:
            continue
        notes_by_market.setdefault(tuple(getattr(note, name) for name in _MARKET_COLUMNS), []).append(note)
    filled_markets = _filled_markets(frame) if notes_by_market else set()
    is_group = window.query.group_by is not None
    reasons = []
    for market, market_notes in notes_by_market.items():
        # The points of a group belong to no single market, so only the notes say whether a market is empty.
        is_empty = (
            all(note.code is not NoteCode.PART for note in market_notes)
            if is_group
            else market[:2] not in filled_markets
        )
        reasons.append(_reason(window, market_notes, is_empty=is_empty))
    around = _around(window)
    if not reasons and frame.is_empty() and (around is not None or window.span[0] > now):
        start, end = window.unaligned
        reasons = [Reason(NoteCode.NOT_BEGUN, window.data_type, start=start, end=end, around=around)]
    return (*reasons_of_points.values(), *(reason for reason in reasons if reason is not None))


def _filled_markets(frame: pl.DataFrame) -> set[tuple[str | None, ...]]:
    """Return the exchange and the symbol of each market that has points."""
    names = _MARKET_COLUMNS[:2]
    if not set(names) <= set(frame.columns):
        return set()
    return set(frame.select(names).unique().cast(pl.String).iter_rows())


def _reason(window: Window, notes: Sequence[Note], *, is_empty: bool) -> Reason | None:
    """Return the reason of one market from its notes on the parts of a window; None if its points fill the window."""
    first_times = [note.first for note in notes if note.first is not None]
    last_times = [note.last for note in notes if note.last is not None]
    first, last = min(first_times, default=None), max(last_times, default=None)
    codes = {note.code for note in notes}
    if not is_empty and NoteCode.PART not in codes:
        return None
    code = next(filter(codes.__contains__, _PRECEDENCE)) if is_empty else NoteCode.PART
    start, end = (second * SECOND for second in window.span)
    if code is NoteCode.OUTSIDE and first is not None and last is not None and start <= last and first < end:
        code = NoteCode.QUIET  # the note is about a part of the window; the whole window overlaps the data
    decisive = next(note for note in notes if note.code is code) if code in codes else notes[-1]
    return Reason(
        code,
        window.data_type,
        decisive.exchange,
        decisive.raw_symbol,
        decisive.coin,
        window.start,
        window.end,
        _datetime(first),
        _datetime(last),
        decisive.types,
        decisive.intervals,
        decisive.tenors,
        _around(window) if code is NoteCode.NOT_BEGUN else None,
        renamed_from=decisive.renamed_from,
        renamed_to=decisive.renamed_to,
        renamed_at=_datetime(decisive.renamed_at),
    )


_OF_POINTS = {NoteCode.SUMMED, NoteCode.NO_SIDE}
"""Codes that say what the points of a market are, not why it lacks some."""

_PRECEDENCE = (
    NoteCode.QUIET,
    NoteCode.PART,
    NoteCode.TIER,
    NoteCode.OUTSIDE,
    NoteCode.NOT_BEGUN,
    NoteCode.NO_DATA,
)
"""Which code counts if the parts of a window have different ones, first before last.

For example, QUIET in one part says that the service has the market.
"""


def _around(window: Window) -> datetime | None:
    """Return the start of the interval or session that contains the window; None if one starts in the window."""
    around = window.request(window.start, window.end).around
    return None if around is None else datetime.fromtimestamp(around, UTC)


def _datetime(ns: int | None) -> datetime | None:
    return None if ns is None else datetime.fromtimestamp(ns / SECOND, UTC)


def in_every_part(window: Window, parts: Sequence[Sequence[Reason]]) -> tuple[Reason, ...]:
    """Return the reasons of the markets that have no points in any part of a window, of the data type of the parts."""
    reasons = [[reason for reason in part if reason.code is not NoteCode.PART] for part in parts]
    empty_in_all = (
        set.intersection(*({reason.market for reason in part} for part in reasons)) if parts else set()
    )
    notes = [reason.note for part in reasons for reason in part if reason.market in empty_in_all]
    data_type = next((reason.data_type for part in parts for reason in part), window.data_type)
    return of_type(reasons_of(window, notes, pl.DataFrame(), now=time.time()), data_type) if notes else ()


def of_type(reasons: Iterable[Reason], data_type: str) -> tuple[Reason, ...]:
    """Return reasons with another data type: that of what is computed from the points that are not there."""
    return tuple(replace(reason, data_type=data_type) for reason in reasons)


def in_words(reasons: Sequence[Reason]) -> str:
    """Return the first reasons on one line, and how many more there are."""
    more = f"; and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
    return "; ".join(map(str, reasons[:_SHOWN])) + more


def warn_of_empty(reasons: Sequence[Reason]) -> None:
    """Warn of markets without points, at the caller's line; do not warn if nothing happened in a market (``QUIET``)."""
    warned_reasons = [reason for reason in reasons if reason.code.warns]
    if not warned_reasons:
        return
    warn(EmptyAnswerWarning(in_words(warned_reasons), reasons=tuple(warned_reasons)))
