"""Walk through a window in pages, by the rows that come: limits differ, pages overlap, and ``since`` may be ignored.

Times are in milliseconds, as ccxt has them. A function that asks takes the time from which rows are wanted and the time
before which they are, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidytape.archives._pull_rows import Row
from tidytape.times import Span

Ask = Callable[[int | None, int | None], list[Row]]

_LATE = 60_000
"""Settlements are up to so long after their time. [ms]"""

_TRADES_WINDOW = 3_600_000
"""Length of the window that an answer without trades stands for: Binance's is an hour. [ms]"""
_FEW = 2
"""Trades of an answer with which a walk would not end: one of them is known already."""


def state_pages(ask: Ask, span: Span, *, step: int, least: int, window: int) -> Iterator[list[Row]]:
    """Yield the rows of a span, each time once; the last of several rows of one time in a page counts.

    If a page begins later than asked for, the time before it is asked for once more with an end, because some exchanges
    send the newest rows first. An answer without new rows stands for one window.

    Parameters
    ----------
    ask : callable
        See `tidytape.archives._pull_pages`.
    span : tuple of int
        Start, inclusive, and end, exclusive. [ms]
    step : int
        Usual time between two rows. [ms]
    least : int
        Least time between two rows. [ms]
    window : int
        Length of the window of an answer. [ms]
    """
    start, end = span
    position = due = start
    seen: set[int] = set()

    def new(rows: list[Row]) -> dict[int, Row]:
        by_time = {row["timestamp"]: row for row in rows if start <= row["timestamp"] < end}
        unseen = {time: by_time[time] for time in sorted(by_time.keys() - seen)}
        seen.update(unseen)
        return unseen

    while position < end:
        rows = new(ask(position, None))
        ahead = [time for time in rows if time >= position]
        first = ahead[0] if ahead else position
        while first > due + min(_LATE, step // 2):
            earlier = new(ask(position, first))
            rows |= earlier
            before = [time for time in earlier if position <= time < first]
            if not before:
                break
            first = before[0]
        if rows:
            yield list(rows.values())
        position = ahead[-1] + least if ahead else position + window
        due = ahead[-1] + step if ahead else position


NONE_CAME = (
    "none came: the exchange takes no since for trades, keeps no older ones, or nobody traded; tidytape download has "
    "whole days of some exchanges"
)
_FEW_CAME = "the exchange sends so few trades at once that asking for all of them would not end"
_NO_IDS = (
    "the exchange sends trades without an id or a time, or several with one id: more of them may be missing"
)


class TradePage(NamedTuple):
    """New trades, and the span before them in which trades are missing, or None, and why they are."""

    rows: list[Row]
    hole: Span | None
    reason: str = NONE_CAME


class _NoIdsError(Exception):
    """Trades of a page cannot be told apart."""


class TradePages:
    """Walks through the trades of a span.

    Each request begins a millisecond before the last trade, so an exchange that takes ``since`` sends a known trade
    again. If it does not, trades are missing. Answers about the past end where the newest trades begin, which every
    exchange sends. The walk ends early, with a hole, at trades that no id tells apart, and if answers have one or two
    trades, so that more may be missing between them.

    Parameters
    ----------
    ask : callable
        See `tidytape.archives._pull_pages`.
    span : tuple of int
        Start, inclusive, and end, exclusive. [ms]
    known : set of str
        Ids of trades directly before the span; empty if none are known.
    """

    def __init__(self, ask: Ask, span: Span, known: set[str]) -> None:
        self._ask = ask
        self._start, self._end = span
        self._position = self._start - bool(known)
        self._known: dict[str, Row | None] = dict.fromkeys(known)
        self._is_begun = self._is_joined = bool(known)

    def __iter__(self) -> Iterator[TradePage]:
        try:
            yield from self._pages()
        except _NoIdsError:
            yield TradePage([], (self._position, self._end), _NO_IDS)

    def _pages(self) -> Iterator[TradePage]:
        newest = self._answer(None)
        last = min([self._end, *(row["timestamp"] for row in newest[:1])])
        since, longest = self._position - 1, 1
        while since < last:
            page = self._answer(since)
            longest = max(longest, len(page))
            new = self._new(page)
            if new and longest <= _FEW and self._was_full(new):
                yield TradePage([], (self._position, min(last + 1, self._end)), _FEW_CAME)
                self._is_joined = False
                break
            if new:
                # Trades that are no older than the newest ones do not show that ``since`` was taken.
                yield self._page(page, new, is_first=not self._is_begun and self._is_late(page, last))
                since = self._position - 1
                continue
            if page and page[0]["timestamp"] >= last:
                break
            if page and page[-1]["timestamp"] >= since:
                # A page of known trades that ends in their millisecond may have room for no others of it.
                is_full = len(page) >= longest > 1 or len(newest) == 1
                first, final = page[0]["timestamp"], page[-1]["timestamp"]
                if is_full and self._is_joined and self._position - 1 <= first <= final <= self._position:
                    yield TradePage([], (self._position, self._position + 1))
                since = max(final, since + 1)
            else:
                since += _TRADES_WINDOW
            self._is_joined = False
        new = self._new(newest)
        is_first = not self._is_begun and last > self._start
        if new:
            yield self._page(newest, new, is_first=is_first)
        elif is_first:
            yield TradePage([], (self._start, last))

    def _answer(self, since: int | None) -> list[Row]:
        """Return a page, each trade once."""
        page: dict[str, Row] = {}
        for row in self._ask(since, None):
            trade_id = row["id"]
            before = page.get(trade_id) or self._known.get(trade_id) or row
            if None in {trade_id, row["timestamp"]} or before != row:
                raise _NoIdsError
            page[trade_id] = row
        return list(page.values())

    def _new(self, page: list[Row]) -> list[Row]:
        return [
            row
            for row in page
            if self._position <= row["timestamp"] < self._end and row["id"] not in self._known
        ]

    def _was_full(self, new: list[Row]) -> bool:
        """Return whether the page before, of known trades, should have had these too."""
        is_after_known = bool(self._known) and not self._is_joined
        return is_after_known and new[0]["timestamp"] < self._position - 1 + _TRADES_WINDOW

    def _is_late(self, page: list[Row], last: int) -> bool:
        """Return whether the first page begins so late that trades before it may be missing."""
        first: int = page[0]["timestamp"]
        return bool(first >= last or first - self._start > page[-1]["timestamp"] - first)

    def _page(self, page: list[Row], new: list[Row], *, is_first: bool) -> TradePage:
        is_apart = self._is_joined and self._known.keys().isdisjoint(row["id"] for row in page)
        hole = None
        if is_first or is_apart:
            # The milliseconds at its ends may have had more trades than came.
            hole = self._position, new[0]["timestamp"] + 1
        self._is_begun = self._is_joined = True
        self._known = {row["id"]: row for row in page}
        self._position = new[-1]["timestamp"]
        return TradePage(new, hole)
