"""Figures of markets over the last 24 hours, from the points that the service answers with.

The 24 hours end with the newest trade of the lake, or now where that is earlier: a lake that was recorded in August has
the figures of its last day in August. They are of five-minute points, the one in progress as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from tidytape.catalogue import Interval, MarketSortField
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.schema import schema_of
from tidytape.service.engine import Engine
from tidytape.service.options import Instrument
from tidytape.service.plans import SOURCES
from tidytape.service.remembered import Remembered

__all__ = ["FIGURES", "Figures"]

FIGURES = ("last_price", "volume_24h", "volume_change_24h", "price_change_24h", "oi_change_24h")
"""Columns of a market entry that are computed."""

_KEY = ["exchange", "raw_symbol"]
_INTERVAL = Interval.FIVE_MINUTES
_STEP = _INTERVAL.seconds
_DAY = 86_400
_NS = 10**9
_TRUE_RANGES = 14
_AT_ONCE = 200
_CANDLES, _INTEREST = "TRADE_SIDE_AGNOSTIC_AGG", "OPEN_INTEREST_AGG"

_MORE = {MarketSortField.PCT_FROM_ATH: "pct_from_ath", MarketSortField.ATR_PERCENT: "atr_percent"}


class Figures:
    """Figures of the markets of a lake, kept until the lake changes or five minutes pass.

    Parameters
    ----------
    lake : Lake
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    def __init__(self, lake: Lake, *, clock: Callable[[], int]) -> None:
        self._lake = lake
        self._clock = clock
        self._engine = Engine(lake, clock=clock)
        self._known: Remembered[dict[tuple[str, str], tuple[float | None, ...]]] = Remembered(lake)

    def of(self, markets: pl.DataFrame, *, sort_field: MarketSortField | None = None) -> pl.DataFrame:
        """Return markets with their figures.

        Parameters
        ----------
        markets : polars.DataFrame, n rows
            ``exchange``, ``raw_symbol``, ``quote_coin``.
        sort_field : MarketSortField, optional
            A figure that is not in an entry and wanted beside those that are.

        Returns
        -------
        polars.DataFrame, n rows, same order
            With `FIGURES`: ``last_price`` [quote per coin]; ``volume_24h`` [USD], null where the quote's worth is not
            known; changes [%] against the 24 hours before, null where there was nothing. ``pct_from_ath``: the last
            price against the highest of all [%]; ``atr_percent``: the average true range of the last 14 whole days
            against the last price [%], null where there are fewer.
        """
        column = _MORE.get(sort_field) if sort_field is not None else None
        end = self._end()
        names = (*FIGURES, *([column] if column else []))
        known = self._known.get((end, column), dict)
        wanted = markets.unique(_KEY, maintain_order=True)
        missing = wanted.filter([key not in known for key in wanted.select(_KEY).iter_rows()])
        if end is not None:
            for part in missing.iter_slices(_AT_ONCE):
                for *key, row in self._made(part, end, column):
                    known[(key[0], key[1])] = row
        nothing = (None,) * len(names)
        rows = [known.get(key, nothing) for key in markets.select(_KEY).iter_rows()]
        figures = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")
        return markets.drop(names, strict=False).hstack(figures)

    def _end(self) -> int | None:
        """End of the 24 hours, on the interval's grid; None where nothing was ever traded. [s]"""
        newest = [last for table in ("trades", "candles") for last in self._lake.extents(table)["last"]]
        if not newest:
            return None
        last: int = min(max(newest), self._clock())
        return (last // _NS // _STEP + 1) * _STEP

    def _made(
        self, markets: pl.DataFrame, end: int, column: str | None
    ) -> Iterator[tuple[str, str, tuple[float | None, ...]]]:
        start = end - 2 * _DAY
        candles = self._in_usd(markets, start, end)
        interest = self._points(_INTEREST, _subjects(markets), start, end)
        found = _joined(markets.select(_KEY), _traded(candles, end), _changed(interest, end))
        found = self._with_last_price(found, end)
        if column:
            found = self._with_range(found, markets, end)
        for exchange, symbol, *row in found.select(
            *_KEY, *FIGURES, *([column] if column else [])
        ).iter_rows():
            yield exchange, symbol, tuple(row)

    def _in_usd(self, markets: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
        """Candles of markets with volumes in USD, null where the worth of a quote is not known."""
        query = _query(_CANDLES, start, end, _INTERVAL, quote="USD")
        parts = []
        for (_,), group in markets.group_by("quote_coin", maintain_order=True):
            subjects = _subjects(group)
            try:
                self._engine.require_rates(_CANDLES, query, subjects[:1])
            except QueryError:
                coins = self._points(_CANDLES, subjects, start, end)
                parts.append(coins.with_columns(volume=pl.lit(None, pl.Float64)))
            else:
                parts.append(self._points(_CANDLES, subjects, start, end, quote="USD"))
        return pl.concat(parts).sort("timestamp")

    def _with_last_price(self, found: pl.DataFrame, end: int) -> pl.DataFrame:
        """Add the last price of markets that have not traded for two days: of their last trade."""
        older = found.filter(pl.col("last_price").is_null())
        last = (
            self._lake.extents("trades").join(older, on=_KEY, how="semi").filter(pl.col("last") < end * _NS)
        )
        trades = [
            self._lake.scan("trades", exchange=exchange, raw_symbol=symbol, start=time, end=time + 1)
            .sort("sequence")
            .select(*_KEY, older="price")
            .tail(1)
            for exchange, symbol, time in last.select(*_KEY, "last").iter_rows()
        ]
        if not trades:
            return found
        prices = pl.concat(pl.collect_all(trades))
        return (
            _joined(found, prices).with_columns(last_price=pl.coalesce("last_price", "older")).drop("older")
        )

    def _with_range(self, found: pl.DataFrame, markets: pl.DataFrame, end: int) -> pl.DataFrame:
        """Add ``pct_from_ath`` and ``atr_percent``."""
        subjects, today = _subjects(markets), end // _DAY * _DAY
        highest = pl.concat([self._lake.highest("trades", "price"), self._lake.highest("candles", "high")])
        highest = highest.group_by(_KEY).agg(pl.col("highest").max())
        # Of the day before the first only the close counts.
        days = self._points(
            _CANDLES, subjects, today - (_TRUE_RANGES + 1) * _DAY, today, interval=Interval.DAY
        )
        before = pl.col("close").shift(1).over(_KEY, order_by="timestamp")
        ranges = (
            days.with_columns(
                range=pl.max_horizontal("high", before) - pl.min_horizontal("low", before), before=before
            )
            .drop_nulls("before")
            .group_by(_KEY)
            .agg(average=pl.col("range").mean(), count=pl.len())
            .filter(pl.col("count") == _TRUE_RANGES)
        )
        last = pl.col("last_price")
        return _joined(found, highest, ranges).with_columns(
            pct_from_ath=_percent(last, pl.col("highest")), atr_percent=100 * pl.col("average") / last
        )

    def _points(
        self,
        name: str,
        subjects: list[Instrument],
        start: int,
        end: int,
        interval: Interval = _INTERVAL,
        **more: str,
    ) -> pl.DataFrame:
        """Points of any number of markets, as a query of them would be answered; those without events are not asked."""
        within = (pl.col("last") >= start * _NS) & (pl.col("first") < end * _NS)
        extents = pl.concat([self._lake.extents(table) for table in SOURCES[name]]).filter(within)
        known = set(extents.select(_KEY).iter_rows())
        subjects = [one for one in subjects if (one.exchange, one.raw_symbol) in known]
        if not subjects:
            empty = schema_of(name).empty().with_columns(pl.col(_KEY).cast(pl.String))
            return empty.with_columns(pl.lit(None, pl.Int64).alias("seconds"))
        query = _query(name, start, end, interval, **more)
        ((_, frame),) = self._engine.frames(query, {name: subjects})
        return frame.with_columns(
            pl.col(_KEY).cast(pl.String), pl.col("timestamp").dt.epoch("s").alias("seconds")
        )


def _traded(candles: pl.DataFrame, end: int) -> pl.DataFrame:
    new = pl.col("seconds") >= end - _DAY
    volume, close = pl.col("volume"), pl.col("close")
    sums = candles.group_by(_KEY, maintain_order=True).agg(
        last_price=close.last(),
        price_before=close.filter(~new).last(),
        # A sum of what is not known is not known.
        volume_24h=pl.when(volume.is_not_null().all()).then(volume.filter(new).sum()),
        volume_before=volume.filter(~new).sum(),
    )
    return sums.with_columns(
        volume_change_24h=_percent(pl.col("volume_24h"), pl.col("volume_before")),
        price_change_24h=_percent(pl.col("last_price"), pl.col("price_before")),
    )


def _changed(interest: pl.DataFrame, end: int) -> pl.DataFrame:
    new, close = pl.col("seconds") >= end - _DAY, pl.col("close")
    ends = interest.drop_nulls("close").sort("timestamp").group_by(_KEY, maintain_order=True)
    now_and_before = ends.agg(now=close.filter(new).last(), before=close.filter(~new).last())
    return now_and_before.select(*_KEY, oi_change_24h=_percent(pl.col("now"), pl.col("before")))


def _percent(now: pl.Expr, before: pl.Expr) -> pl.Expr:
    """Change against what was before, null where that is nothing."""
    return pl.when(before > 0).then(100 * (now - before) / before)


def _joined(frame: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    for other in others:
        frame = frame.join(other, on=_KEY, how="left", maintain_order="left")
    return frame


def _query(name: str, start: int, end: int, interval: Interval, **more: Any) -> PointsQuery:
    # The engine is handed the markets; the names only make the query whole.
    return PointsQuery(
        type=name, exchange="-", raw_symbol="-", interval=interval, start=start, end=end, **more
    )


def _subjects(markets: pl.DataFrame) -> list[Instrument]:
    return [_subject(*names) for names in markets.select(*_KEY, "quote_coin").iter_rows()]


def _subject(exchange: str, raw_symbol: str, quote_coin: str | None = None) -> Instrument:
    return Instrument(exchange, raw_symbol, None, None, None, None, quote_coin)
