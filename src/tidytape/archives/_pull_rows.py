"""Kinds of data that `tidytape.pull` knows: how ccxt is asked for them, and how their rows go into a lake."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.archives._pull_markets import BINANCE, PulledMarket
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._batch import Spool
from tidytape.lake._lake import Lake
from tidytape.lake._tables import FUNDING, OPEN_INTEREST, RECORDED_CANDLES, TRADES, Table
from tidytape.lake.ingest._frames import FrameRows
from tidytape.lake.ingest._layout import Job, Parsed
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._run import require_good, source_of
from tidytape.lake.ingest._write import Writer
from tidytape.times import DAY, MILLISECOND, MINUTE, FrameInterval, Span

Row = dict[str, Any]
"""A row by our columns, with its time in milliseconds."""

USUAL_FUNDING = 8 * 60 * MINUTE
"""Funding interval where the rows do not show one. [ns]"""

_BEFORE = 7 * DAY
"""Settlements up to so long before new ones show their interval. [ns]"""


def _candle(candle: Any) -> Row:
    return dict(zip(("timestamp", "open", "high", "low", "close", "volume"), candle, strict=False))


def _settlement(report: Any) -> Row:
    return {"timestamp": report["timestamp"], "rate": report["fundingRate"]}


def _interest(report: Any) -> Row:
    return {"timestamp": report["timestamp"], "amount": report["openInterestAmount"]}


def _trade(trade: Any) -> Row:
    row = {name: trade[name] for name in ("timestamp", "price", "amount", "id")}
    return row | {"side": trade.get("side") or "unknown"}


@dataclass(frozen=True)
class Kind:
    """A kind of data.

    Attributes
    ----------
    name : str
        Its name in arguments and results.
    table : Table
        The table of the lake.
    feature, method : str
        What ccxt calls it among the features of an exchange, and its method.
    row : callable
        Returns the row of an object of ccxt.
    needs : str
        Column without which a row cannot be stored.
    has_interval : bool
        Whether the method takes an interval.
    """

    name: str
    table: Table
    feature: str
    method: str
    row: Callable[[Any], Row]
    needs: str
    has_interval: bool = False

    def rows(self, answer: Any) -> list[Row]:
        """Return the rows of an answer that have a time and a value, in the order of time."""
        rows = [self.row(entry) for entry in answer or () if entry]
        usable = [row for row in rows if row["timestamp"] is not None and row[self.needs] is not None]
        return sorted(usable, key=lambda row: int(row["timestamp"]))


_KINDS = (
    Kind("candles", RECORDED_CANDLES, "fetchOHLCV", "fetch_ohlcv", _candle, "close", has_interval=True),
    Kind("funding", FUNDING, "fetchFundingRateHistory", "fetch_funding_rate_history", _settlement, "rate"),
    Kind(
        "open_interest",
        OPEN_INTEREST,
        "fetchOpenInterestHistory",
        "fetch_open_interest_history",
        _interest,
        "amount",
        has_interval=True,
    ),
    Kind("trades", TRADES, "fetchTrades", "fetch_trades", _trade, "id"),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}


@dataclass(frozen=True)
class Stored:
    """The rows of one series in a lake: a kind of data of one market.

    Attributes
    ----------
    lake : Lake
        The lake.
    market : PulledMarket
        The market.
    kind : Kind
        The kind of data.
    interval : FrameInterval
        Length of candles, and time between reports of open interest.
    """

    lake: Lake
    market: PulledMarket
    kind: Kind
    interval: FrameInterval

    @property
    def _name(self) -> str:
        interval = f"/{self.interval.alias}" if self.kind.has_interval else ""
        return f"pulled:{'/'.join(self.market.key)}/{self.kind.name}{interval}"

    def asked(self) -> Span | None:
        """Return the span that was pulled before; None if there is none. [ns]"""
        delta = self.lake.delta("markets")
        notes = [delta.transaction_version(f"{self._name} {end}") for end in ("from", "to")]
        return None if None in notes else (notes[0], notes[1])  # type: ignore[return-value]  # checked

    def note_asked(self, span: Span) -> None:
        """Note that a span was pulled, joined with the span of before if the two meet. [ns]"""
        before = self.asked()
        if before is not None and before[0] <= span[1] and span[0] <= before[1]:
            span = min(before[0], span[0]), max(before[1], span[1])
        if span != before:
            notes = dict(zip((f"{self._name} from", f"{self._name} to"), span, strict=True))
            self.lake.writer()._note(notes)

    @property
    def is_registered(self) -> bool:
        """Whether the lake knows the market; if not, a pull was interrupted before it was over."""
        exchange, raw_symbol = self.market.key
        is_market = (pl.col("exchange") == exchange) & (pl.col("raw_symbol") == raw_symbol)
        return not self.lake.markets().filter(is_market).is_empty()

    def rows(self, start: int, end: int) -> pl.DataFrame:
        """Return the lake's rows with ``start <= timestamp < end``, sorted by time. [ns]"""
        exchange, raw_symbol = self.market.key
        scan = self.lake.scan(
            self.kind.table.name, exchange=exchange, raw_symbol=raw_symbol, start=start, end=end
        )
        if self.kind.table is RECORDED_CANDLES:
            scan = scan.filter(pl.col("interval") == self.interval.nanoseconds)
        return scan.sort("timestamp").collect()

    def put(self, rows: list[Row]) -> None:
        """Put rows into the lake as those of a file.

        Raises
        ------
        QueryError, IngestError
            If they contradict the lake.
        LakeError
            If the lake cannot be written.
        """
        frame = pl.DataFrame(rows, infer_schema_length=None)
        frame = frame.with_columns(timestamp=pl.col("timestamp").cast(pl.Int64) * MILLISECOND)
        if self.kind.table is FUNDING:
            frame = self._with_intervals(frame)
        layout = FrameRows(
            table=self.kind.table.name,
            words={"side": {"unknown": "none"}} if self.kind.table is TRADES else None,
            time_unit="ns",
            interval=self.interval.alias if self.kind.table is RECORDED_CANDLES else None,
            rate_unit="fraction" if self.kind.table is FUNDING else None,
            rows=frame,
        )
        exchange, raw_symbol = self.market.key
        market = Market(exchange=exchange, raw_symbol=raw_symbol)
        job = Job(Path(f"{self.kind.name} of {exchange} {raw_symbol}"), market, layout)
        is_of_trades = self.kind.table is TRADES
        with Spool() as spool:
            parsed = layout.read(job, spool, lambda _: None)
            if (
                is_of_trades
            ):  # a state that is left out is a hole of the result, a trade would be missing without a word
                require_good(parsed, job, skip_bad=False)
            if parsed.batches:
                self._state_facts(parsed)
                digest = hashlib.sha256(frame.write_csv().encode()).hexdigest()
                source = source_of(digest, job, layout, skip_bad=not is_of_trades)
                Writer(self.lake, market).put(job, parsed, source)

    def _state_facts(self, parsed: Parsed) -> None:
        """Say what ccxt says about the market, as the kind of a file does."""
        key, unit = self.market.key, self.market.unit(self.kind.table)
        parsed.markets[key] = self.market.names
        parsed.amount_unit, parsed.is_described = lambda *_: unit, True
        if unit is CountedUnit.CONTRACTS and self.market.contract is not None:
            parsed.contracts[key] = self.market.contract
        # ccxt takes Binance's aggregated trades.
        parsed.kind = "aggTrades" if self.market.source in BINANCE else "trades"

    def _with_intervals(self, new: pl.DataFrame) -> pl.DataFrame:
        """Return settlements with their funding intervals, and with those of the lake that had none until now."""
        start, end = new["timestamp"].min(), new["timestamp"].max()
        assert isinstance(start, int)
        assert isinstance(end, int)
        before = self.rows(start - _BEFORE, end + 1).select("timestamp", "rate", known="funding_interval")
        both = pl.concat([before, new.select("timestamp", "rate")], how="diagonal")
        all_rows = both.unique("timestamp", keep="first").sort("timestamp")
        intervals = all_rows.with_columns(funding_interval=funding_intervals(all_rows["timestamp"]))
        return intervals.filter(pl.col("known").is_null()).drop("known")


def funding_intervals(times: pl.Series) -> pl.Series:
    """Return the time since the settlement before, from which longer steps than both neighbours are taken for holes.

    The first settlement has the interval of the second one. An interval is null as long as only the next settlement
    can show whether it is a hole.

    Examples
    --------
    >>> hours = pl.Series([0, 8, 16, 32, 40, 44, 48]) * 60 * MINUTE
    >>> (funding_intervals(hours) // (60 * MINUTE)).to_list()
    [8, 8, 8, 8, 8, 4, 4]
    >>> funding_intervals(hours[:2]).to_list()
    [None, None]
    """
    step = (pl.col("times").diff() + MINUTE // 2) // MINUTE * MINUTE
    later = step.shift(-1)
    longest = pl.max_horizontal(step.shift(1), later)
    interval = pl.when(step <= longest).then(step).otherwise(later)
    is_first = pl.int_range(pl.len()) == 0
    frame = times.to_frame("times").select(interval=pl.when(is_first).then(None).otherwise(interval))
    return frame.select(
        pl.when(is_first).then(pl.col("interval").shift(-1)).otherwise("interval")
    ).to_series()


def holes(times: pl.Series, steps: pl.Series, start: int, end: int, *, usual: int) -> list[Span]:
    """Return the spans of a window in which rows are missing; a row may be up to a minute late.

    Parameters
    ----------
    times : polars.Series of int64, n rows, sorted
        Times of the rows. [ns]
    steps : polars.Series of int64, n rows
        Time since the row that should be before each of them. [ns]
    start, end : int
        The window. [ns]
    usual : int
        The step where there is none. [ns]

    Examples
    --------
    >>> holes(pl.Series([1, 2, 5]), pl.Series([1, 1, 1]), 0, 8, usual=1)
    [(0, 1), (3, 5), (6, 8)]
    """
    if times.is_empty():
        return [(start, end)] if end - start >= usual else []
    filled = steps.fill_null(strategy="forward").fill_null(usual).to_list()
    late = [min(MINUTE, step // 2) for step in filled]
    first, last = times[0], times[-1]
    spans = [(start, first)] if first - start >= filled[0] else []
    spans += [
        (before + step, time)
        for before, time, step, slack in zip(times, times[1:], filled[1:], late[1:], strict=False)
        if time - before >= 2 * step - slack
    ]
    return [*spans, (last + filled[-1], end)] if end - last > filled[-1] + late[-1] else spans
