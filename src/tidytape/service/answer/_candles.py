"""Candles of a market, made of trades, of recorded candles, or of both."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import (
    Interval,
    Side,
)
from tidytape.frames._joined import IDLE, with_fills
from tidytape.frames._table import planned
from tidytape.lake import LakeReader
from tidytape.service.answer._scan import MARKET, Market, MarketScan, in_usd
from tidytape.times import DAY, HOUR, MINUTE, SECOND

_START, _LENGTH = pl.col("timestamp"), pl.col("interval")


def tiled(candles: pl.LazyFrame, lengths: Collection[int]) -> pl.LazyFrame:
    """Return candles of several lengths without overlaps.

    Shorter candles replace a longer candle if they fill it completely; otherwise the longer candle replaces them. So no
    time counts twice, and time that a candle covers is missing only if candles overlap in part.

    Parameters
    ----------
    candles : polars.LazyFrame, n rows
        Candles of one length do not overlap.
    lengths : collection of int
        The lengths to use. [ns]

    Returns
    -------
    polars.LazyFrame, at most n rows
        The same columns.
    """
    shortest, *longer = sorted(lengths) or [0]
    tiles = candles.filter(shortest == _LENGTH)
    for length in longer:
        long_candles = covered(candles.filter(length == _LENGTH), by=tiles)
        # Collected, because a lazy plan would read the shorter candles again for each longer length.
        long_tiles = (
            long_candles.filter(pl.col("covered") < _LENGTH)
            .drop("covered")
            .collect(engine="streaming")
            .lazy()
        )
        short_candles = covered(tiles, by=long_tiles).filter(pl.col("covered") == 0).drop("covered")
        tiles = pl.concat([short_candles, long_tiles]).collect(engine="streaming").lazy()
    return tiles


def covered(spans: pl.LazyFrame, *, by: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``covered`` to spans: how much time of each the spans of ``by`` cover, which must not overlap. [ns]"""
    order = [*MARKET, "timestamp"]
    covering_spans = by.select(*order, "interval").sort(order)
    before = (_LENGTH.cum_sum() - _LENGTH).over(MARKET)
    covering_spans = covering_spans.select(*MARKET, start="timestamp", length="interval", before=before).sort(
        "start"
    )
    covered_before = pl.col("before") + pl.min_horizontal("length", pl.col("at") - pl.col("start"))

    def until(frame: pl.LazyFrame, at: pl.Expr, name: str) -> pl.LazyFrame:
        """Add how much time before ``at`` the spans of ``by`` cover in all."""
        return (
            frame.with_columns(at=at)
            .sort("at")
            .join_asof(covering_spans, left_on="at", right_on="start", by=MARKET, check_sortedness=False)
            .with_columns(covered_before.fill_null(0).alias(name))
            .drop("at", "start", "length", "before")
        )

    return (
        until(until(spans, _START, "since"), _START + _LENGTH, "covered")
        .with_columns(pl.col("covered") - pl.col("since"))
        .drop("since")
    )


def with_starts_inside(spans: pl.LazyFrame, *, by: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``has_start_inside`` to spans: whether a span of ``by`` starts inside."""
    starts = by.select(*MARKET, start="timestamp").sort("start")
    return (
        spans.sort("timestamp")
        .join_asof(
            starts,
            left_on="timestamp",
            right_on="start",
            by=MARKET,
            strategy="forward",
            check_sortedness=False,
        )
        .with_columns(has_start_inside=(pl.col("start") < _START + _LENGTH).fill_null(value=False))
        .drop("start")
    )


LONGEST_CANDLE = 7 * DAY
"""The longest recorded candle. [ns]"""

_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"


def candle_minutes(scan: MarketScan, *, by_side: bool = False, end: int | None = None) -> pl.LazyFrame:
    """Return minute candles of trades; if the query converts to USD, their ``quote_volume`` is in USD."""
    if scan.needs_rates:
        return planned(aggregate.minute_candles.core, scan.events("trades", end=end), by_side=by_side)
    return scan.minutes("candles_1m" if by_side else "candles_of_both_1m", end=end)


def candles(scan: MarketScan) -> pl.LazyFrame:
    """Return candles of markets, each made of trades or of recorded candles, whichever cover its whole interval."""
    if not scan.holds("candles"):
        return traded_candles(scan)
    return _candles_of_both(scan) if scan.holds("trades") else recorded_candles(scan)


def traded_candles(scan: MarketScan) -> pl.LazyFrame:
    """Return candles made of trades."""
    return _of_interval(scan, candle_minutes(scan), by_side=False)


def _of_interval(scan: MarketScan, minute_rows: pl.LazyFrame, *, by_side: bool) -> pl.LazyFrame:
    """Return candles of the query's interval; candles of a minute need no aggregation, only their unit."""
    if scan.interval is not Interval.MINUTE:
        return planned(
            aggregate.candles_of.core,
            minute_rows,
            interval=scan.interval,
            by_side=by_side,
            amount=scan.amount,
        )
    if scan.amount == "quote":
        minute_rows = minute_rows.with_columns(volume=pl.col("quote_volume"))
    return minute_rows.drop("quote_volume", "first_sequence", "last_sequence", "trades")


def resampled(scan: MarketScan, points: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """Return points of the query's interval, without ``coverage``: a single market's unknown amounts are null."""
    return planned(aggregate.resample.core, points, data_type=name, interval=scan.interval).drop("coverage")


def recorded_candles(scan: MarketScan) -> pl.LazyFrame:
    """Return candles of the query's interval, made of recorded candles; overlaps are resolved as by `tiled`."""
    return resampled(scan, _tiles(scan, scan.start, scan.end).drop("interval"), _CANDLES)


def _candles_of_both(scan: MarketScan) -> pl.LazyFrame:
    """Return candles of markets that have recorded candles and trades.

    A bucket inside the time of the trades is made of trades. At the first and the last trade, and at a hole (a recorded
    candle has volume and there are no trades), the trades are incomplete: such a bucket is made of recorded candles,
    and of trades in the minutes that no candle covers.
    """
    step = scan.interval.seconds * SECOND
    # Read the neighbours of the first and the last bucket too, so that no choice depends on where the window ends.
    wide_scan = replace(scan, before=scan.before + step)
    minute_rows = candle_minutes(wide_scan, end=scan.end + step).with_columns(interval=pl.lit(MINUTE))
    tiles = _tiles(scan, wide_scan.start, scan.end + step)
    holes = covered(tiles.filter(pl.col(IDLE) == 0), by=minute_rows).filter(pl.col("covered") == 0)
    candle_start, candle_end = pl.col("timestamp"), pl.col("timestamp") + pl.col("interval")
    bucket_columns = [*MARKET, "bucket"]
    buckets_with_holes = pl.concat(
        holes.select(*MARKET, bucket=_bucket(scan, time), is_holed=pl.lit(value=True))
        for time in (candle_start - 1, candle_start, candle_end)
    ).unique(bucket_columns)
    is_inside_trades = pl.col("first").le(pl.col("bucket")) & pl.col("last").ge(pl.col("bucket") + (step - 1))
    is_in_window = pl.col("bucket").is_between(scan.start, scan.end, closed="left")
    tiles = (
        tiles.with_columns(bucket=_bucket(scan, candle_start))
        .filter(is_in_window)
        .join(scan.extents("trades").lazy(), on=MARKET, how="left")
        .join(buckets_with_holes, on=bucket_columns, how="left")
        .filter(~is_inside_trades.fill_null(value=False) | pl.col("is_holed").fill_null(value=False))
    )
    minute_rows = minute_rows.with_columns(bucket=_bucket(scan, candle_start)).filter(is_in_window)
    minutes_of_trades = minute_rows.join(tiles, on=bucket_columns, how="anti").drop("bucket", "interval")
    uncovered_minutes = covered(minute_rows.join(tiles, on=bucket_columns, how="semi"), by=tiles).filter(
        pl.col("covered") == 0
    )
    if scan.amount == "quote":
        uncovered_minutes = uncovered_minutes.with_columns(volume=pl.col("quote_volume"))
    columns = [*MARKET, "timestamp", "open", "high", "low", "close", "volume"]
    unknown_times = [pl.lit(None, pl.Int64).alias(f"{end}_timestamp") for end in ("first", "last")]
    parts_of_candles = pl.concat(
        [
            tiles.select(*columns, IDLE, *unknown_times),
            uncovered_minutes.select(*columns, pl.lit(0, pl.Int32).alias(IDLE), *unknown_times),
        ]
    )
    parts = [
        _of_interval(scan, minutes_of_trades, by_side=False),
        resampled(scan, parts_of_candles, _CANDLES),
    ]
    return pl.concat([part.select(*columns, "first_timestamp", "last_timestamp") for part in parts])


def _bucket(scan: MarketScan, time: pl.Expr) -> pl.Expr:
    """Return the start of the interval that a time lies in. [ns since the epoch]"""
    return time - (time - scan.interval.offset * SECOND) % (scan.interval.seconds * SECOND)


def _recorded(scan: MarketScan, start: int, end: int) -> pl.LazyFrame:
    """Return the recorded candles that start in a span, with `IDLE`: 1 where a candle only fills a gap."""
    # Read the longest candle before them too, so that the close before does not depend on where the span starts.
    candles = scan.lake.scan(
        "candles",
        exchange=scan.market.exchange,
        raw_symbol=scan.symbols,
        start=start - LONGEST_CANDLE,
        end=end,
    )
    return _with_fills(candles, cut=scan.extent("trades") is not None).filter(start <= _START)


def _with_fills(candles: pl.LazyFrame, *, cut: bool) -> pl.LazyFrame:
    """Add `IDLE` to recorded candles; ``cut`` says whether a trade may have set the close before the first one."""
    marked_candles = planned(
        with_fills,
        candles.with_columns(
            volume=pl.coalesce("volume", "quote_volume"),
            first_timestamp=pl.lit(None, pl.Int64),
            coins=pl.col("volume"),
        ),
        [*MARKET, "interval"],
        cut=cut,
    )
    return marked_candles.with_columns(volume=pl.col("coins")).drop("coins", "first_timestamp")


def has_tiles(scan: MarketScan) -> bool:
    """Return whether recorded candles that start in the window fit into the interval of the query."""
    return (
        not _recorded(scan, scan.start, scan.end)
        .filter(scan.interval.seconds * SECOND % pl.col("interval") == 0)
        .select("timestamp")
        .head(1)
        .collect(engine="streaming")
        .is_empty()
    )


def _tiles(scan: MarketScan, start: int, end: int) -> pl.LazyFrame:
    """Return the recorded candles of a span that fit into the interval of the query, without overlaps."""
    recorded_rows = _recorded(scan, start, end).filter(
        scan.interval.seconds * SECOND % pl.col("interval") == 0
    )
    candle_lengths = recorded_rows.select(pl.col("interval").unique()).collect(engine="streaming")["interval"]
    if in_usd(scan.query):
        recorded_rows = recorded_rows.rename({"volume": "amount", "quote_volume": "quote_amount"})
        recorded_rows = (
            scan.in_usd(recorded_rows.with_columns(price=pl.col("close")))
            if scan.needs_rates
            else recorded_rows
        )
        recorded_rows = recorded_rows.drop("amount", "price", strict=False).rename({"quote_amount": "volume"})
    # A recorded candle does not say when its first and its last trade happened.
    unknown_time = pl.lit(None, pl.Int64)
    return tiled(
        recorded_rows.with_columns(first_timestamp=unknown_time, last_timestamp=unknown_time), candle_lengths
    )


def candles_without_points(scan: MarketScan) -> pl.DataFrame:
    """Return the recorded candles of a window that its points do not include.

    Such a candle does not fit into the interval of the query, and something was traded in it. No fitting candle starts
    inside it, and trades do not cover its time.
    """
    candle_start, candle_end = pl.col("timestamp"), pl.col("timestamp") + pl.col("interval")
    recorded_rows = _recorded(scan, scan.start - LONGEST_CANDLE, scan.end).filter(candle_end > scan.start)
    fits = scan.interval.seconds * SECOND % pl.col("interval") == 0
    candidates = (
        with_starts_inside(recorded_rows.filter(~fits, pl.col(IDLE) == 0), by=recorded_rows.filter(fits))
        .filter(~pl.col("has_start_inside"))
        .select(*MARKET, "timestamp", "interval")
    )
    long_candles = candidates.collect(engine="streaming")
    candles_inside_trades = long_candles.join(scan.extents("trades"), on=MARKET).join(
        scan.extents("candles").select(*MARKET, newest="last"), on=MARKET
    )
    # The newest candle may still be in progress, and so may the trades in it.
    is_in_progress = (pl.col("newest") == candle_start) & (pl.col("last") >= candle_start)
    candles_inside_trades = candles_inside_trades.filter(
        pl.col("first") <= candle_start, (pl.col("last") >= candle_end - 1) | is_in_progress
    )
    if candles_inside_trades.is_empty():
        return long_candles
    # Minute rows start at whole minutes, but candles of a mapped file may start at any time.
    start, end = candles_inside_trades.select(
        candle_start.min() // MINUTE * MINUTE, end=-(-candle_end.max() // MINUTE) * MINUTE
    ).row(0)
    minute_rows = candle_minutes(replace(scan, before=scan.before + scan.start - start), end=end)
    candles_with_trades = (
        with_starts_inside(candles_inside_trades.lazy(), by=minute_rows)
        .filter("has_start_inside")
        .collect(engine="streaming")
    )
    return long_candles.join(candles_with_trades, on=[*MARKET, "timestamp", "interval"], how="anti")


def lengths_without_points(scan: MarketScan) -> list[int]:
    """Return the lengths of the recorded candles in a window that no point of the answer includes. [s]"""
    if not scan.holds("candles", before=LONGEST_CANDLE):
        return []
    return [length // SECOND for length in candles_without_points(scan)["interval"].unique().sort()]


def candles_by_side(scan: MarketScan) -> pl.LazyFrame:
    """Return candles of each side, made of trades."""
    minute_rows = candle_minutes(scan, by_side=True)
    if scan.query.side:
        minute_rows = minute_rows.filter(pl.col("side") == str(scan.query.side))
    return _of_interval(scan, minute_rows, by_side=True)


_GROWTH = 4  # each span of the search for a last trade is longer by this factor than the one before


def last_closes(
    lake: LakeReader, markets: list[Market], interval: Interval, *, before: int, sides: tuple[str, ...]
) -> pl.DataFrame | None:
    """Return the last candle of each market before a time, per side if ``sides`` are named.

    If both are, a market also has the last candle of its trades without a side.

    The search goes back from ``before`` to the market's first trade, in spans that grow. So its cost depends on the age
    of the last trade, not on the length of the history. A recorded candle counts if it is newer than the last trade and
    ``sides`` is empty, because it has no side.

    Returns
    -------
    polars.DataFrame or None, one row per market (and side) that traded, in the order of the last trades
        A candle of the trades at the time of the last trade, with the columns that name the series. The last row of a
        group's series has the group's last close.
    """
    last_candles = [
        candle.with_columns(*market.named(interval))
        for market in markets
        for candle in _last_candles(lake, market, before, sides)
    ]
    # Members that traded last at the same time have the order of `aggregate.group`.
    return (
        pl.concat(last_candles, how="diagonal").sort("last_timestamp", "exchange", "raw_symbol")
        if last_candles
        else None
    )


def _last_candles(
    lake: LakeReader, market: Market, before: int, sides: tuple[str, ...]
) -> Iterator[pl.DataFrame]:
    last_trades = list(_last_trades(lake, market, before, sides))
    if sides:  # recorded candles have no side
        yield from last_trades
        return
    time = max((trade["last_timestamp"].item() for trade in last_trades), default=None)
    last_candle = _last_recorded(lake, market, before, after=time)
    yield from last_trades if last_candle is None else [last_candle]


def _last_trades(
    lake: LakeReader, market: Market, before: int, sides: tuple[str, ...]
) -> Iterator[pl.DataFrame]:
    missing_sides: set[str | None] = {*sides} or {""}
    files = lake._files("trades", market.exchange, market.raw_symbol)
    if len(sides) == len(Side) and any(file.sideless != 0 for file in files):
        missing_sides.add(None)
    floor, _ = lake.extent("trades", market.exchange, market.raw_symbol)
    high, span = before, HOUR
    while floor is not None and missing_sides and high > floor:
        low = max(floor, high - span)
        trades = lake.scan(
            "trades", exchange=market.exchange, raw_symbol=market.raw_symbol, start=low, end=high
        )
        if not sides:
            trades = trades.with_columns(side=pl.lit(""))
        times = trades.group_by("side").agg(pl.col("timestamp").max()).collect(engine="streaming")
        for side, time in times.select("side", "timestamp").iter_rows():
            if side in missing_sides:
                missing_sides.discard(side)
                trades_at_time = trades.filter(
                    pl.col("timestamp") == time, pl.col("side").eq_missing(pl.lit(side, pl.String))
                )
                yield aggregate.candles(trades_at_time, interval="1m", by_side=bool(sides)).collect()
        high, span = low, span * _GROWTH


def _last_recorded(
    lake: LakeReader, market: Market, before: int, *, after: int | None
) -> pl.DataFrame | None:
    """Return the last recorded candle that ended by ``before``; None if the trade at ``after`` is newer.

    A candle between the market's first and last trade is newer than the trade if it starts after the trade and does not
    only fill a gap; any other candle is newer if it ends after the trade.
    """
    start, end = pl.col("timestamp"), pl.col("timestamp") + pl.col("interval")
    since = None if after is None else after - LONGEST_CANDLE
    names = {"exchange": market.exchange, "raw_symbol": market.raw_symbol}
    ended_candles = lake.scan("candles", **names, start=since, end=before).filter(end <= before)
    if after is not None:
        ended_candles = _with_fills(ended_candles, cut=True)
        first, last = lake.extent("trades", *names.values())
        is_inside_trades = (start >= first) & (end - 1 <= last)
        ended_candles = ended_candles.filter(
            pl.when(is_inside_trades).then((start > after) & (pl.col(IDLE) == 0)).otherwise(end - 1 > after)
        )
    newest = ended_candles.with_columns(last_timestamp=end - 1).bottom_k(1, by=-pl.col("last_timestamp"))
    candle = newest.select("exchange", "raw_symbol", "timestamp", "close", "last_timestamp").collect()
    return candle if candle.height else None
