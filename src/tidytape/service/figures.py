"""Figures of markets over the last 24 hours, from the points that the service answers with.

The 24 hours end with the newest trade of the lake, or now where that is earlier: a lake that was recorded in August has
the figures of its last day in August. They are of five-minute points, the one in progress as it stands.

Markets that are known by recorded candles alone have figures of their own 24 hours, of points of an hour, which end
with the newest candle of such a market. Newer candles of one exchange then change no figure of the markets with trades.
Of a market with both, recorded candles of at most five minutes tell what its trades do not; where only longer ones do,
its volume is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from tidytape.catalogue import Interval, MarketSortField
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.schema import schema_of
from tidytape.service.options import Instrument
from tidytape.service.plans import PLANS, Want, candles, untold
from tidytape.service.remembered import Remembered
from tidytape.times import SECOND

__all__ = ["FIGURES", "Figures"]

FIGURES = ("last_price", "volume_24h", "volume_change_24h", "price_change_24h", "oi_change_24h")
"""Columns of a market entry that are computed."""

_KEY = ["exchange", "raw_symbol"]
_INTERVALS = {"trades": Interval.FIVE_MINUTES, "candles": Interval.HOUR}
_TRADED = ["trades", "candles"]
_DAY = 86_400
_TRUE_RANGES = 14
_AT_ONCE = 5_000
_VALUES = ("high", "low", "close", "volume")
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
        names = (*FIGURES, *([column] if column else []))
        ends = {table: self._end(table) for table in _INTERVALS}
        known = self._known.get((*ends.values(), column), dict)
        wanted = markets.unique(_KEY, maintain_order=True)
        missing = wanted.filter([key not in known for key in wanted.select(_KEY).iter_rows()])
        for table, end in ends.items():
            if end is None:
                continue
            alone = self._candles_alone()
            of_table = missing.join(
                alone, on=_KEY, how="semi" if table == "candles" else "anti", maintain_order="left"
            )
            for part in of_table.iter_slices(_AT_ONCE):
                for *key, row in self._made(part, end, column, _INTERVALS[table]):
                    known[(key[0], key[1])] = row
        nothing = (None,) * len(names)
        rows = [known.get(key, nothing) for key in markets.select(_KEY).iter_rows()]
        figures = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")
        return markets.drop(names, strict=False).hstack(figures)

    def _candles_alone(self) -> pl.DataFrame:
        """Return the first and the last candle of the markets that have candles and no trades."""
        return self._lake.extents("candles").join(self._lake.extents("trades"), on=_KEY, how="anti")

    def _end(self, table: str) -> int | None:
        """Return the end of the 24 hours of markets with trades, or with candles alone; None without any. [s]"""
        held = self._candles_alone() if table == "candles" else self._lake.extents(table)
        if held.is_empty():
            return None
        last: int = min(max(held["last"]), self._clock())
        step = _INTERVALS[table].seconds
        return (last // SECOND // step + 1) * step

    def _made(
        self, markets: pl.DataFrame, end: int, column: str | None, interval: Interval
    ) -> Iterator[tuple[str, str, tuple[float | None, ...]]]:
        start = end - 2 * _DAY
        query = _query(_CANDLES, start, end, interval, "USD")
        traded = self._points(query, markets, _TRADED, _candles_in_full)
        query = _query(_INTEREST, start, end, interval)
        interest = self._points(query, markets, ["open_interest"], PLANS[_INTEREST])
        found = _joined(markets.select(_KEY), _traded(traded, end), _changed(interest, end))
        found = self._with_last_price(found, end)
        if column:
            found = self._with_range(found, markets, end)
        for exchange, symbol, *row in found.select(
            *_KEY, *FIGURES, *([column] if column else [])
        ).iter_rows():
            yield exchange, symbol, tuple(row)

    def _with_last_price(self, found: pl.DataFrame, end: int) -> pl.DataFrame:
        """Add the last price where the points have none: of the last trade, or the last recorded candle."""
        older = found.filter(pl.col("last_price").is_null())
        last = (
            self._lake.extents("trades")
            .join(older, on=_KEY, how="semi")
            .filter(pl.col("last") < end * SECOND)
        )
        day = (pl.col("last") // (_DAY * SECOND)).alias("day")
        trades = [
            # Of one day, so that files are skipped by time whatever day the others traded last.
            self._lake.scan(
                "trades",
                exchange=str(exchange),
                raw_symbol=markets["raw_symbol"],
                start=markets["last"].min(),  # type: ignore[arg-type]  # polars types any value
                end=markets["last"].max() + 1,  # type: ignore[operator, arg-type]
            )
            .join(markets.lazy(), left_on=[*_KEY, "timestamp"], right_on=[*_KEY, "last"], how="semi")
            .group_by(_KEY)
            .agg(older=pl.col("price").sort_by("sequence").last(), time=pl.col("timestamp").max())
            for (exchange, _), markets in last.group_by("exchange", day)
        ]
        over = pl.col("timestamp") + pl.col("interval")
        recorded = self._lake.extents("candles").join(older, on=_KEY, how="semi")
        candles = [
            # A candle that is not over yet has no close.
            self._lake.scan(
                "candles", exchange=str(exchange), raw_symbol=markets["raw_symbol"], end=end * SECOND
            )
            .filter(over <= self._clock())
            .group_by(_KEY)
            .agg(older=pl.col("close").sort_by(over).last(), time=over.max() - 1)
            for (exchange,), markets in recorded.group_by("exchange")
        ]
        if not (trades or candles):
            return found
        prices = pl.concat(pl.collect_all([*trades, *candles], engine="streaming"))
        prices = prices.group_by(_KEY).agg(pl.col("older").sort_by("time").last())
        return (
            _joined(found, prices).with_columns(last_price=pl.coalesce("last_price", "older")).drop("older")
        )

    def _with_range(self, found: pl.DataFrame, markets: pl.DataFrame, end: int) -> pl.DataFrame:
        """Add ``pct_from_ath`` and ``atr_percent``."""
        today = end // _DAY * _DAY
        highest = pl.concat([self._lake.highest("trades", "price"), self._lake.highest("candles", "high")])
        highest = highest.group_by(_KEY).agg(pl.col("highest").max())
        # Of the day before the first only the close counts.
        query = _query(_CANDLES, today - (_TRUE_RANGES + 1) * _DAY, today, Interval.DAY)
        days = self._points(query, markets, _TRADED, candles)
        before = pl.col("close").shift(1).over(_KEY, order_by="seconds")
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
        query: PointsQuery,
        markets: pl.DataFrame,
        tables: list[str],
        plan: Callable[[Want], pl.LazyFrame],
    ) -> pl.DataFrame:
        """Points of the markets that have events in one of the tables, in one plan per exchange and quote.

        Amounts are null where they are wanted in USD and the worth of the quote is not known.
        """
        start, end = (second * SECOND for second in query.span)
        within = (pl.col("last") >= start) & (pl.col("first") < end)
        rows = pl.concat([self._lake.extents(table) for table in tables]).filter(within)
        held = markets.join(rows, on=_KEY, how="semi", maintain_order="left")
        in_coin = query.model_copy(update={"quote": None})
        plans = []
        for (exchange, quote_coin), alike in held.group_by("exchange", "quote_coin", maintain_order=True):
            symbol, *others = alike["raw_symbol"].unique(maintain_order=True)
            quote = None if quote_coin is None else str(quote_coin)
            one = Instrument(str(exchange), symbol, None, None, None, None, quote)
            want = Want(self._lake, one, query, others=tuple(others))
            try:
                _ = want.rates if want.needs_rates else None
            except QueryError:
                points = plan(Want(self._lake, one, in_coin, others=tuple(others)))
                plans.append(points.with_columns(volume=pl.lit(None, pl.Float64)))
            else:
                plans.append(plan(want))
        names = [name for name in _VALUES if name in schema_of(query.type[0]).names]
        seconds = (pl.col("timestamp") // SECOND).alias("seconds")
        empty = pl.DataFrame(schema={**dict.fromkeys(_KEY, pl.String), "seconds": pl.Int64})
        empty = empty.with_columns(pl.lit(None, pl.Float64).alias(name) for name in names)
        parts = [points.select(*_KEY, seconds, *names) for points in plans]
        return pl.concat([empty, *pl.collect_all(parts, engine="streaming")]).sort("seconds")


def _candles_in_full(want: Want) -> pl.LazyFrame:
    """Candles of markets, without the volume of those of which longer recorded candles tell more."""
    points = candles(want)
    if not want.holds("candles"):
        return points
    lacking = untold(want).select(_KEY).unique().with_columns(lacks=True).lazy()
    known = pl.when(pl.col("lacks").is_null()).then("volume")
    return points.join(lacking, on=_KEY, how="left").with_columns(volume=known)


def _query(name: str, start: int, end: int, interval: Interval, quote: str | None = None) -> PointsQuery:
    # The plan is handed the markets; the names only make the query whole.
    return PointsQuery(
        type=name, exchange="-", raw_symbol="-", interval=interval, start=start, end=end, quote=quote
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
    ends = interest.drop_nulls("close").sort("seconds").group_by(_KEY, maintain_order=True)
    now_and_before = ends.agg(now=close.filter(new).last(), before=close.filter(~new).last())
    return now_and_before.select(*_KEY, oi_change_24h=_percent(pl.col("now"), pl.col("before")))


def _percent(now: pl.Expr, before: pl.Expr) -> pl.Expr:
    """Change against what was before, null where that is nothing."""
    return pl.when(before > 0).then(100 * (now - before) / before)


def _joined(frame: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    for other in others:
        frame = frame.join(other, on=_KEY, how="left", maintain_order="left")
    return frame
