"""One series of a pull: a kind of data of one market, from its pages into the lake, and its holes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tidytape.archives._pull_exchange import Source
from tidytape.archives._pull_markets import PulledMarket
from tidytape.archives._pull_pages import TradePages, state_pages
from tidytape.archives._pull_rows import USUAL_FUNDING, Kind, Row, Stored, funding_intervals, holes
from tidytape.errors import RefusedQueryError
from tidytape.lake._lake import Lake
from tidytape.lake._tables import FUNDING, RECORDED_CANDLES, TRADES
from tidytape.times import MILLISECOND, SECOND, FrameInterval, Span, without

_AT_ONCE = 20_000
"""Rows that are written in one commit."""

_PAGE = 50
"""Rows of a page where ccxt does not say it: few, because an empty page stands for as many intervals."""

_UNTIL = {"okx": "after", "okxus": "after", "myokx": "after"}
"""The exchange's own name for the end of a window, where ccxt does not translate ``until``."""

_TIME = pl.Datetime("ns", "UTC")
SCHEMA = {
    "market": pl.String(),
    "data": pl.String(),
    "rows": pl.Int64(),
    "first": _TIME,
    "last": _TIME,
    "gap_from": _TIME,
    "gap_to": _TIME,
    "reason": pl.String(),
}
"""Columns of the result of a pull."""

_NONE_CAME = "none came: the exchange has none of this time, or nobody traded"
_NO_TRADES_CAME = (
    "none came: the exchange takes no since for trades, keeps no older ones, or nobody traded; tidytape download has "
    "whole days of some exchanges"
)


@dataclass
class Series:
    """A kind of data of one market in a window.

    Attributes
    ----------
    source : Source
        The exchange.
    market : PulledMarket
        The market.
    kind : Kind
        The kind of data.
    length : FrameInterval
        Length of candles, and time between reports of open interest.
    window : tuple of int
        Start, inclusive, and end, exclusive; only whole candles count. [ns]

    Raises
    ------
    QueryError
        If nothing says what the amounts count.
    """

    source: Source
    market: PulledMarket
    kind: Kind
    length: FrameInterval
    window: Span
    _rows: list[Row] = field(default_factory=list)
    _holes: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.absence = self.market.without(self.kind.table)
        if self.absence is None:
            self.market.require_unit(self.kind.table)
        if self.kind.has_interval:
            start, end = self.window
            length, offset = self.length.nanoseconds, self.length.offset * SECOND
            is_of_candles = self.kind.table is RECORDED_CANDLES
            last = end - (end - offset) % length if is_of_candles else end
            self.window = start + (offset - start) % length, last

    @property
    def step(self) -> int:
        """Usual time between two rows. [ns]"""
        return self.length.nanoseconds if self.kind.has_interval else USUAL_FUNDING

    def pulled(self, lake: Lake, bar: Any) -> list[dict[str, Any]]:
        """Put what is new into the lake, and return the rows of the result; ``bar`` counts rows."""
        stored = Stored(lake, self.market, self.kind, self.length)
        if self.absence is not None:
            return [self._result(rows=0), *self._gaps([self.window], self.absence)]
        since = self.window[0]
        spans = self._missing(stored)
        try:
            for span in spans:
                for rows, hole in self._pages(span, stored):
                    if hole is not None:
                        self._write(stored, since)
                        self._holes.append(hole)
                        since = hole[1]
                    self._rows += rows
                    bar.update(len(rows))
                    if len(self._rows) >= _AT_ONCE:
                        self._write(stored, since)
                self._write(stored, since)
                if span != spans[-1]:  # rows follow it, so it is over
                    stored.note_asked((since, span[1]))
        finally:
            self._write(stored, since)  # also after an error or an interrupt
        return self._results(stored)

    def _write(self, stored: Stored, since: int) -> None:
        """Put the rows so far into the lake, and note that everything from ``since`` to their end was pulled."""
        rows, self._rows = self._rows, []
        if rows:
            stored.put(rows)
            length = self.length.nanoseconds if self.kind.table is RECORDED_CANDLES else MILLISECOND
            last = max(row["timestamp"] for row in rows) * MILLISECOND
            stored.note_asked((since, min(last + length, self.window[1])))

    def _missing(self, stored: Stored) -> list[Span]:
        """Return the parts of the window that must be asked for: not pulled before, and without rows in the lake."""
        asked = stored.asked()
        has_rows = self.kind.table is RECORDED_CANDLES and stored.is_registered
        parts = self._empty(stored.rows(*self.window)) if has_rows else [self.window]
        return [rest for part in parts for rest in without(part, [asked] if asked else [])]

    def _pages(self, span: Span, stored: Stored) -> Iterator[tuple[list[Row], Span | None]]:
        """Yield rows, and the span before them that the exchange did not answer, or None. [ns]"""
        start, end = (-(-time // MILLISECOND) for time in span)
        if self.kind.table is TRADES:
            before = stored.rows(span[0] - 2 * MILLISECOND, span[0])
            for page in TradePages(self._ask, (start, end), set(before["id"])):
                hole = page.hole and (page.hole[0] * MILLISECOND, page.hole[1] * MILLISECOND)
                yield page.rows, hole
            return
        step = self.step // MILLISECOND
        length = self._page_length() or _PAGE
        least = step if self.kind.table is RECORDED_CANDLES else 1
        for rows in state_pages(self._ask, (start, end), step=step, least=least, window=length * step):
            yield rows, None

    def _page_length(self) -> int | None:
        return self.source.page_length(self.market.symbol) if self.kind.table is RECORDED_CANDLES else None

    def _ask(self, since: int | None, until: int | None) -> list[Row]:
        interval = [self.length.alias] if self.kind.has_interval else []
        names = {"until", _UNTIL.get(self.source.name, "until")}
        ends = {} if until is None else dict.fromkeys(names, until)
        arguments = [self.market.symbol, *interval, since, self._page_length(), ends]
        try:
            return self.kind.rows(self.source.ask(self.kind.method, *arguments))
        except RefusedQueryError:
            if until is None:
                raise
            return []  # an end is only tried

    def _empty(self, rows: pl.DataFrame) -> list[Span]:
        """Return the parts of the window without rows."""
        times = rows["timestamp"]
        steps = funding_intervals(times) if self.kind.table is FUNDING else times * 0 + self.step
        return holes(times, steps, *self.window, usual=self.step)

    def _results(self, stored: Stored) -> list[dict[str, Any]]:
        rows = stored.rows(*self.window)
        times = rows["timestamp"]
        is_of_trades = self.kind.table is TRADES
        gaps = self._holes if is_of_trades else self._empty(rows)
        summary = self._result(rows=rows.height, first=times.min(), last=times.max())
        return [summary, *self._gaps(gaps, _NO_TRADES_CAME if is_of_trades else _NONE_CAME)]

    def _gaps(self, spans: list[Span], reason: str) -> list[dict[str, Any]]:
        return [self._result(rows=0, gap_from=start, gap_to=end, reason=reason) for start, end in spans]

    def _result(self, **facts: Any) -> dict[str, Any]:
        return {"market": " ".join(self.market.key), "data": self.kind.name} | facts
