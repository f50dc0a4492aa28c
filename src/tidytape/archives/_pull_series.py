"""Pull one kind of data of one market: fetch its pages, put their rows into the lake, and find the holes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.archives._pull_exchange import Source
from tidytape.archives._pull_markets import BINANCE, PulledMarket
from tidytape.archives._pull_pages import TradePage, TradePages, state_pages
from tidytape.archives._pull_rows import USUAL_FUNDING, Kind, Row, funding_intervals, holes
from tidytape.errors import RefusedQueryError
from tidytape.lake._batch import Spool
from tidytape.lake._lake import Lake
from tidytape.lake._tables import FUNDING, MARKETS, RECORDED_CANDLES, TRADES
from tidytape.lake.ingest._frames import FrameRows
from tidytape.lake.ingest._layout import Job
from tidytape.lake.ingest._run import require_good, source_of
from tidytape.lake.ingest._write import Writer
from tidytape.times import DAY, MILLISECOND, SECOND, FrameInterval, Span, without

_AT_ONCE = 20_000
"""Rows that are written in one commit."""
_PAGE = 20
"""Rows of a page where ccxt does not say it: fewer than any exchange's, because an empty page stands for as many."""
_BEFORE = 7 * DAY
"""Settlements up to so long before new ones show their interval. [ns]"""
_UNTIL = {"okx": "after", "okxus": "after", "myokx": "after"}
"""The exchange's own name for the end of a window, where ccxt does not translate ``until``."""
_NONE_CAME = "none came with all its values: the exchange has none of this time, or nobody traded"


@dataclass
class Series:
    """A kind of data of one market in a window.

    Attributes
    ----------
    lake : Lake
        The lake that gets the rows.
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
    """

    lake: Lake
    source: Source
    market: PulledMarket
    kind: Kind
    length: FrameInterval
    window: Span
    _rows: list[Row] = field(default_factory=list)
    _trade_holes: list[tuple[Span, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        length, offset = self.length.nanoseconds, self.length.offset * SECOND
        start, end = self.window
        if self.kind.has_interval:
            start += (offset - start) % length
        if self.kind.table is RECORDED_CANDLES:
            end -= (end - offset) % length
        self.window = start, end

    def pulled(self, bar: Any) -> list[dict[str, Any]]:
        """Put what is new into the lake, and return the rows of the result; ``bar`` counts rows."""
        absence = self.market.absence(self.kind.table)
        if absence is not None:
            return [self._result(rows=0, reason=absence)]
        since, spans = self.window[0], self._missing()
        try:
            for span in spans:
                for rows, hole, reason in self._pages(span):
                    if hole is not None:
                        self._write(since)
                        self._trade_holes.append((hole, reason))
                        since = hole[1]
                    self._rows += rows
                    bar.update(len(rows))
                    if len(self._rows) >= _AT_ONCE:
                        self._write(since)
                self._write(since)
                if span != spans[-1]:  # rows follow it, so it is over
                    self._note_asked((since, span[1]))
        finally:
            self._write(since)  # also after an error or an interrupt
        return self._results()

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def _missing(self) -> list[Span]:
        """Return the parts of the window that must be asked for: not pulled before, and without candles in the lake."""
        exchange, raw_symbol = self.market.key
        market = self.lake.markets().filter(
            pl.col("exchange") == exchange, pl.col("raw_symbol") == raw_symbol
        )
        parts: list[Span] = [self.window]
        since: Any
        since, block_size = (market[name].min() for name in ("available_since", "block_size"))
        if self.kind.table is RECORDED_CANDLES and since is not None and block_size is not None:
            # A pull that was killed before it registered the market left candles from before the market's time, or the
            # market without the height of a level, which only prices show.
            parts = self._empty(self._stored(max(since, self.window[0]), self.window[1]))
        asked = self._asked()
        return [rest for part in parts for rest in without(part, [asked] if asked else [])]

    def _pages(self, span: Span) -> Iterator[TradePage]:
        """Yield rows, and the span before them that the exchange did not answer, or None, and why. [ns]"""
        start, end = (-(-time // MILLISECOND) for time in span)
        if self.kind.table is TRADES:
            before = self._stored(span[0] - 2 * MILLISECOND, span[0])
            for page in TradePages(self._ask, (start, end), set(before["id"])):
                hole = page.hole and (page.hole[0] * MILLISECOND, page.hole[1] * MILLISECOND)
                yield page._replace(hole=hole)
            return
        step = self._step // MILLISECOND
        least = step if self.kind.table is RECORDED_CANDLES else 1
        window = step * (self._page_length or _PAGE)
        for rows in state_pages(self._ask, (start, end), step=step, least=least, window=window):
            yield TradePage(rows, None)

    @property
    def _step(self) -> int:
        """Usual time between two rows. [ns]"""
        return self.length.nanoseconds if self.kind.has_interval else USUAL_FUNDING

    @property
    def _page_length(self) -> int | None:
        return (
            self.source.page_length(self.market.listing["symbol"])
            if self.kind.table is RECORDED_CANDLES
            else None
        )

    def _ask(self, since: int | None, until: int | None) -> list[Row]:
        interval = [self.length.alias] if self.kind.has_interval else []
        names = ["until", _UNTIL.get(self.source.name, "until")]
        ends = {} if until is None else dict.fromkeys(names, until)
        arguments = [self.market.listing["symbol"], *interval, since, self._page_length, ends]
        try:
            rows: list[Row] = self.source.ask(self.kind.method, *arguments, read=self.kind.rows)
        except RefusedQueryError:
            if until is None:
                raise
            return []  # an end is only tried
        return rows

    # -- what the lake has ---------------------------------------------------------------------------------------------

    def _stored(self, start: int, end: int) -> pl.DataFrame:
        """Return the lake's rows with ``start <= timestamp < end``, sorted by time. [ns]"""
        exchange, raw_symbol = self.market.key
        table = self.kind.table
        rows = self.lake.scan(table.name, exchange=exchange, raw_symbol=raw_symbol, start=start, end=end)
        if table is RECORDED_CANDLES:
            rows = rows.filter(pl.col("interval") == self.length.nanoseconds)
        return rows.sort("timestamp").collect()

    @property
    def _notes(self) -> list[str]:
        """Names of the notes with the start and the end of the span that was pulled."""
        words = [
            *self.market.key,
            self.kind.table.name,
            *([self.length.alias] if self.kind.has_interval else []),
        ]
        return [f"pulled:{'/'.join(words)} {end}" for end in ("from", "to")]

    def _asked(self) -> Span | None:
        """Return the span that was pulled before; None if there is none. [ns]"""
        markets = self.lake.delta(MARKETS.name)
        start, end = (markets.transaction_version(note) for note in self._notes)
        return None if start is None or end is None else (start, end)

    def _note_asked(self, span: Span) -> None:
        """Note that a span was pulled, joined with the span of before if the two meet. [ns]"""
        before = self._asked() or span
        if before[0] <= span[1] and span[0] <= before[1]:
            span = min(before[0], span[0]), max(before[1], span[1])
        self.lake.writer()._note(dict(zip(self._notes, span, strict=True)))

    def _write(self, since: int) -> None:
        """Put the rows so far into the lake, and note that everything from ``since`` to their end was pulled."""
        rows, self._rows = self._rows, []
        if rows:
            self._put(rows)
            last = max(row["timestamp"] for row in rows) * MILLISECOND
            length = self.length.nanoseconds if self.kind.table is RECORDED_CANDLES else MILLISECOND
            self._note_asked((since, min(last + length, self.window[1])))

    def _put(self, rows: list[Row]) -> None:
        """Put rows into the lake as those of a file, whose kind says what ccxt says about the market."""
        table, facts = self.kind.table, self.market.facts(self.kind.table)
        frame = pl.DataFrame(rows, infer_schema_length=None)
        frame = frame.with_columns(timestamp=pl.col("timestamp").cast(pl.Int64) * MILLISECOND)
        options: dict[str, Any] = {"interval": self.length.alias} if table is RECORDED_CANDLES else {}
        if table is FUNDING:
            frame, options = self._with_intervals(frame), {"rate_unit": "fraction"}
        if table is TRADES:
            frame = frame.with_columns(pl.col("side").cast(pl.String).fill_null("unknown"))
            options = {"words": {"side": {"unknown": "none"}}}
        layout = FrameRows(table=table.name, time_unit="ns", rows=frame, **options)
        job = Job(Path(f"{table.name} of {' '.join(self.market.key)}"), facts, layout)
        with Spool() as spool:
            parsed = layout.read(job, spool, lambda _: None)
            # A state that is left out is a hole of the result, but a trade would be missed.
            if table is TRADES:
                require_good(parsed, job, skip_bad=False)
            unit = self.market.unit(table)
            parsed.amount_unit, parsed.is_described = lambda *_: unit, unit is not None
            parsed.markets[self.market.key] = self.market.names
            # ccxt takes Binance's aggregated trades.
            parsed.kind = "aggTrades" if self.market.source in BINANCE else "trades"
            if parsed.batches:
                digest = hashlib.sha256(frame.write_csv().encode()).hexdigest()
                Writer(self.lake, facts).put(job, parsed, source_of(digest, job, layout, skip_bad=True))

    def _with_intervals(self, new: pl.DataFrame) -> pl.DataFrame:
        """Return settlements with their funding intervals, and with those of the lake that had none until now."""
        start, end = new.select(pl.col("timestamp").min() - _BEFORE, last=pl.col("timestamp").max() + 1).row(
            0
        )
        before = self._stored(start, end).select("timestamp", "rate", known="funding_interval")
        both = pl.concat([before, new.select("timestamp", "rate")], how="diagonal")
        settlements = both.unique("timestamp", keep="first", maintain_order=True).sort("timestamp")
        intervals = settlements.with_columns(funding_interval=funding_intervals(settlements["timestamp"]))
        return intervals.filter(pl.col("known").is_null()).drop("known")

    # -- the result ----------------------------------------------------------------------------------------------------

    def _results(self) -> list[dict[str, Any]]:
        rows = self._stored(*self.window)
        summary = self._result(rows=rows.height, first=rows["timestamp"].min(), last=rows["timestamp"].max())
        is_of_trades = self.kind.table is TRADES
        gaps = self._trade_holes if is_of_trades else [(span, _NONE_CAME) for span in self._empty(rows)]
        return [
            summary,
            *(
                self._result(rows=0, gap_from=start, gap_to=end, reason=reason)
                for (start, end), reason in gaps
            ),
        ]

    def _empty(self, rows: pl.DataFrame) -> list[Span]:
        """Return the parts of the window without rows."""
        times = rows["timestamp"]
        steps = funding_intervals(times) if self.kind.table is FUNDING else times * 0 + self._step
        return holes(times, steps, *self.window, usual=self._step)

    def _result(self, **facts: Any) -> dict[str, Any]:
        return {"market": " ".join(self.market.key), "data": self.kind.table.name} | facts
