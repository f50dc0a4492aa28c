"""``GET /v1/markets``: filter, sort and page the markets, with their statistics of 24 hours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from tidytape.catalogue import Interval, MarketSortField, SortDirection
from tidytape.errors import QueryError
from tidytape.lake import LakeReader
from tidytape.lake._predictions import by_outcome
from tidytape.query import MarketsQuery, PointsQuery
from tidytape.schema import MARKETS, PREDICTION_MARKET_ENTRY, schema_of
from tidytape.service.answer._candles import candles, candles_without_points
from tidytape.service.answer._inventory import Inventory, LakeCache, filtered
from tidytape.service.answer._plans import PLANS
from tidytape.service.answer._scan import MARKET, Market, MarketScan
from tidytape.times import SECOND
from tidytape.wire._lists import encode_markets

STATISTICS = ("last_price", "volume_24h", "volume_change_24h", "price_change_24h", "oi_change_24h")
"""Columns of a market entry that are computed from points."""

_INTERVALS = {"trades": Interval.FIVE_MINUTES, "candles": Interval.HOUR}
_TRADED = ["trades", "candles"]
_DAY = 86_400
_TRUE_RANGES = 14
_AT_ONCE = 5_000
_VALUE_COLUMNS = ("high", "low", "close", "volume")
_CANDLES, _INTEREST = "TRADE_SIDE_AGNOSTIC_AGG", "OPEN_INTEREST_AGG"
_MORE = {MarketSortField.PCT_FROM_ATH: "pct_from_ath", MarketSortField.ATR_PERCENT: "atr_percent"}


class MarketStatistics:
    """Statistics of markets over the last 24 hours, kept until the lake changes or five minutes pass.

    They are computed from five-minute points, the one in progress included. The 24 hours end with the newest trade of
    the lake, or now if that is earlier: a lake recorded in August shows the last day of that August.

    Markets with recorded candles and no trades have 24 hours of their own, of points of an hour, that end with the
    newest candle of such a market; so newer candles of one exchange change no market with trades. If a market has both,
    recorded candles of at most five minutes fill what its trades lack; if only longer ones cover it, its volume is
    unknown.

    Parameters
    ----------
    lake : LakeReader
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    def __init__(self, lake: LakeReader, *, clock: Callable[[], int]) -> None:
        self._lake = lake
        self._clock = clock
        self._known: LakeCache[dict[tuple[str, str], tuple[float | None, ...]]] = LakeCache(lake)

    def of(self, markets: pl.DataFrame, *, sort_field: MarketSortField | None = None) -> pl.DataFrame:
        """Return markets with their statistics.

        Parameters
        ----------
        markets : polars.DataFrame, n rows
            ``exchange``, ``raw_symbol``, ``quote_coin``.
        sort_field : MarketSortField, optional
            A statistic to compute besides those of an entry.

        Returns
        -------
        polars.DataFrame, n rows, same order
            With `STATISTICS`: ``last_price`` [quote per coin]; ``volume_24h`` [USD], null where the lake does not know
            what the quote is worth; changes [%] against the 24 hours before, null where there was nothing.
            ``pct_from_ath``: the last price against the highest of all [%]; ``atr_percent``: the average true range of
            the last 14 whole days against the last price [%], null where there are fewer.
        """
        column = _MORE.get(sort_field) if sort_field is not None else None
        names = (*STATISTICS, *([column] if column else []))
        ends = {table: self._end(table) for table in _INTERVALS}
        known = self._known.get((*ends.values(), column), dict)
        unique_markets = markets.unique(MARKET, maintain_order=True)
        missing = unique_markets.filter(
            [key not in known for key in unique_markets.select(MARKET).iter_rows()]
        )
        for table, end in ends.items():
            if end is None:
                continue
            of_table = missing.join(
                self._candles_alone(),
                on=MARKET,
                how="semi" if table == "candles" else "anti",
                maintain_order="left",
            )
            for part in of_table.iter_slices(_AT_ONCE):
                for *key, row in self._statistics(part, end, column, _INTERVALS[table]):
                    known[(key[0], key[1])] = row
        nothing = (None,) * len(names)
        rows = [known.get(key, nothing) for key in markets.select(MARKET).iter_rows()]
        figures = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")
        return markets.drop(names, strict=False).hstack(figures)

    def _candles_alone(self) -> pl.DataFrame:
        """Return the first and the last candle of each market with candles and no trades."""
        return self._lake.extents("candles").join(self._lake.extents("trades"), on=MARKET, how="anti")

    def _end(self, table: str) -> int | None:
        """Return the end of the 24 hours of markets with trades, or with candles alone; None if there are none. [s]"""
        extents = self._candles_alone() if table == "candles" else self._lake.extents(table)
        if extents.is_empty():
            return None
        last: int = min(max(extents["last"]), self._clock())
        step = _INTERVALS[table].seconds
        return (last // SECOND // step + 1) * step

    def _statistics(
        self, markets: pl.DataFrame, end: int, column: str | None, interval: Interval
    ) -> Iterator[tuple[str, str, tuple[float | None, ...]]]:
        start = end - 2 * _DAY
        query = _query(_CANDLES, start, end, interval, "USD")
        traded = self._points(query, markets, _TRADED, _candles_in_full)
        query = _query(_INTEREST, start, end, interval)
        interest = self._points(query, markets, ["open_interest"], PLANS[_INTEREST].points)
        rows = _joined(markets.select(MARKET), _traded(traded, end), _changed(interest, end))
        rows = self._with_last_price(rows, end)
        if column:
            rows = self._with_range(rows, markets, end)
        for exchange, symbol, *row in rows.select(
            *MARKET, *STATISTICS, *([column] if column else [])
        ).iter_rows():
            yield exchange, symbol, tuple(row)

    def _with_last_price(self, rows: pl.DataFrame, end: int) -> pl.DataFrame:
        """Fill a missing last price from the last trade or the last recorded candle."""
        older = rows.filter(pl.col("last_price").is_null())
        last = (
            self._lake.extents("trades")
            .join(older, on=MARKET, how="semi")
            .filter(pl.col("last") < end * SECOND)
        )
        trades = [
            # One scan per day of last trades, so that it skips files by time.
            self._lake.scan(
                "trades",
                exchange=str(exchange),
                raw_symbol=markets["raw_symbol"],
                start=markets["last"].min(),  # type: ignore[arg-type]  # polars types any value
                end=markets["last"].max() + 1,  # type: ignore[operator, arg-type]
            )
            .join(markets.lazy(), left_on=[*MARKET, "timestamp"], right_on=[*MARKET, "last"], how="semi")
            .group_by(MARKET)
            .agg(older=pl.col("price").sort_by("sequence").last(), time=pl.col("timestamp").max())
            for (exchange, _), markets in last.group_by("exchange", pl.col("last") // (_DAY * SECOND))
        ]
        over = pl.col("timestamp") + pl.col("interval")
        recorded = self._lake.extents("candles").join(older, on=MARKET, how="semi")
        candles = [
            # A candle that is still in progress has no close.
            self._lake.scan(
                "candles", exchange=str(exchange), raw_symbol=markets["raw_symbol"], end=end * SECOND
            )
            .filter(over <= self._clock())
            .group_by(MARKET)
            .agg(older=pl.col("close").sort_by(over).last(), time=over.max() - 1)
            for (exchange,), markets in recorded.group_by("exchange")
        ]
        if not (trades or candles):
            return rows
        prices = (
            pl.concat(pl.collect_all([*trades, *candles], engine="streaming"))
            .group_by(MARKET)
            .agg(pl.col("older").sort_by("time").last())
        )
        return _joined(rows, prices).with_columns(last_price=pl.coalesce("last_price", "older")).drop("older")

    def _with_range(self, rows: pl.DataFrame, markets: pl.DataFrame, end: int) -> pl.DataFrame:
        """Add ``pct_from_ath`` and ``atr_percent``."""
        today = end // _DAY * _DAY
        highest = pl.concat([self._lake._highest("trades", "price"), self._lake._highest("candles", "high")])
        highest = highest.group_by(MARKET).agg(pl.col("highest").max())
        # Of the day before the first one only the close is used.
        query = _query(_CANDLES, today - (_TRUE_RANGES + 1) * _DAY, today, Interval.DAY)
        days = self._points(query, markets, _TRADED, candles)
        before = pl.col("close").shift(1).over(MARKET, order_by="seconds")
        ranges = (
            days.with_columns(
                range=pl.max_horizontal("high", before) - pl.min_horizontal("low", before), before=before
            )
            .drop_nulls("before")
            .group_by(MARKET)
            .agg(average=pl.col("range").mean(), count=pl.len())
            .filter(pl.col("count") == _TRUE_RANGES)
        )
        last = pl.col("last_price")
        return _joined(rows, highest, ranges).with_columns(
            pct_from_ath=_percent(last, pl.col("highest")), atr_percent=100 * pl.col("average") / last
        )

    def _points(
        self,
        query: PointsQuery,
        markets: pl.DataFrame,
        tables: list[str],
        plan: Callable[[MarketScan], pl.LazyFrame],
    ) -> pl.DataFrame:
        """Return points of the markets that have events in one of the tables, by one plan per exchange and quote.

        Amounts in USD are null if the lake does not know what the quote is worth.
        """
        start, end = (second * SECOND for second in query.span)
        within = (pl.col("last") >= start) & (pl.col("first") < end)
        rows = pl.concat([self._lake.extents(table) for table in tables]).filter(within)
        markets = markets.join(rows, on=MARKET, how="semi", maintain_order="left")
        in_coin = query.model_copy(update={"quote": None})
        plans = []
        for (exchange, quote_coin), members in markets.group_by(
            "exchange", "quote_coin", maintain_order=True
        ):
            symbol, *others = members["raw_symbol"].unique(maintain_order=True)
            quote = None if quote_coin is None else str(quote_coin)
            market = Market(str(exchange), symbol, None, None, None, None, quote)
            scan = MarketScan(self._lake, market, query, others=tuple(others))
            try:
                _ = scan.rates if scan.needs_rates else None
            except QueryError:
                points = plan(MarketScan(self._lake, market, in_coin, others=tuple(others)))
                plans.append(points.with_columns(volume=pl.lit(None, pl.Float64)))
            else:
                plans.append(plan(scan))
        names = [name for name in _VALUE_COLUMNS if name in schema_of(query.type[0]).names]
        seconds = (pl.col("timestamp") // SECOND).alias("seconds")
        empty = pl.DataFrame(schema={**dict.fromkeys(MARKET, pl.String), "seconds": pl.Int64}).with_columns(
            pl.lit(None, pl.Float64).alias(name) for name in names
        )
        parts = [points.select(*MARKET, seconds, *names) for points in plans]
        return pl.concat([empty, *pl.collect_all(parts, engine="streaming")]).sort("seconds")


def _candles_in_full(scan: MarketScan) -> pl.LazyFrame:
    """Return candles of markets; volumes are null if longer recorded candles cover more than the points do."""
    points = candles(scan)
    if not scan.holds("candles"):
        return points
    lacking = candles_without_points(scan).select(MARKET).unique().with_columns(lacks=True).lazy()
    known = pl.when(pl.col("lacks").is_null()).then("volume")
    return points.join(lacking, on=MARKET, how="left").with_columns(volume=known)


def _query(name: str, start: int, end: int, interval: Interval, quote: str | None = None) -> PointsQuery:
    # The plan gets its markets from the scan; these names only make the query valid.
    return PointsQuery(
        type=name, exchange="-", raw_symbol="-", interval=interval, start=start, end=end, quote=quote
    )


def _traded(candles: pl.DataFrame, end: int) -> pl.DataFrame:
    new = pl.col("seconds") >= end - _DAY
    volume, close = pl.col("volume"), pl.col("close")
    return (
        candles.group_by(MARKET, maintain_order=True)
        .agg(
            last_price=close.last(),
            price_before=close.filter(~new).last(),
            # A sum is unknown if one of its addends is.
            volume_24h=pl.when(volume.is_not_null().all()).then(volume.filter(new).sum()),
            volume_before=volume.filter(~new).sum(),
        )
        .with_columns(
            volume_change_24h=_percent(pl.col("volume_24h"), pl.col("volume_before")),
            price_change_24h=_percent(pl.col("last_price"), pl.col("price_before")),
        )
    )


def _changed(interest: pl.DataFrame, end: int) -> pl.DataFrame:
    new, close = pl.col("seconds") >= end - _DAY, pl.col("close")
    return (
        interest.drop_nulls("close")
        .sort("seconds")
        .group_by(MARKET, maintain_order=True)
        .agg(now=close.filter(new).last(), before=close.filter(~new).last())
        .select(*MARKET, oi_change_24h=_percent(pl.col("now"), pl.col("before")))
    )


def _percent(now: pl.Expr, before: pl.Expr) -> pl.Expr:
    """Return the change against an earlier value, null if that is not above 0. [%]"""
    return pl.when(before > 0).then(100 * (now - before) / before)


def _joined(frame: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    for other in others:
        frame = frame.join(other, on=MARKET, how="left", maintain_order="left")
    return frame


DEFAULT_PAGE = 100
"""Default number of results of a page."""

LARGEST_PAGE = 1_000
"""Largest number of results of a page."""

_REGISTERED = (None, MarketSortField.MARKETCAP, MarketSortField.AVAILABLE_SINCE)
"""Sort fields that need no statistics."""

_ORDER = ["exchange", "raw_symbol", "tenor"]
_SEARCHED = ("raw_symbol", "normalized_symbol", "coin", "coin_name", "quote_coin_name", "full_name")


def markets_page(holdings: Inventory, query: MarketsQuery, statistics: MarketStatistics) -> bytes:
    """Return the body of one page.

    Parameters
    ----------
    holdings : Inventory
        What the lake holds.
    query : MarketsQuery
    statistics : MarketStatistics
        Last prices and statistics of the last 24 hours.

    Returns
    -------
    bytes
        JSON with ``symbols`` and ``nextOffset``, which is the offset plus the number of results. A market that is an
        outcome of a prediction market names it in ``predictionMarkets``; an option summary is one market per tenor.

    Raises
    ------
    QueryError
        If the page is too large, or a data type does not exist.
    """
    size = query.page_size or DEFAULT_PAGE
    if size > LARGEST_PAGE:
        raise QueryError("page_size", got=size, expected=f"at most {LARGEST_PAGE}")
    selected = _filtered(holdings, query).sort(_ORDER)
    computed = query.sort_field not in _REGISTERED or query.distinct
    if computed:
        selected = statistics.of(selected, sort_field=query.sort_field)
    if query.distinct:
        selected = _distinct(selected)
    if query.sort_field is not None:
        selected = selected.sort(
            query.sort_field.alias,
            descending=query.sort_direction is SortDirection.DESC,
            nulls_last=True,
            maintain_order=True,
        )
    shown = selected.slice(query.page_offset, size)
    shown = shown if computed else statistics.of(shown)
    return encode_markets(
        _with_predictions(MARKETS.conform(shown).select(MARKETS.names), holdings.lake.prediction_markets()),
        query.page_offset + shown.height,
    )


def _distinct(markets: pl.DataFrame) -> pl.DataFrame:
    """Return one market per normalized symbol: that of the highest volume, the first by name if several have it."""
    ranked = markets.sort("volume_24h", descending=True, nulls_last=True, maintain_order=True)
    # Markets without a normalized symbol all stay.
    first = pl.col("normalized_symbol").is_first_distinct() | pl.col("normalized_symbol").is_null()
    return ranked.filter(first).sort(_ORDER)


def _with_predictions(markets: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Add ``prediction_markets``: the list of prediction markets that each is an outcome of, or null."""
    outcomes = by_outcome(predictions).join(markets.select(MARKET).cast(pl.String), on=MARKET, how="semi")
    entries = PREDICTION_MARKET_ENTRY.conform(outcomes.select(PREDICTION_MARKET_ENTRY.names))
    lists = (
        outcomes.select(MARKET)
        .with_columns(entries.to_struct("prediction_markets"))
        .group_by(MARKET, maintain_order=True)
        .agg("prediction_markets")
    )
    return (
        markets.with_columns(pl.col(MARKET).cast(pl.String))
        .join(lists, on=MARKET, how="left", maintain_order="left")
        .cast(dict.fromkeys(MARKET, pl.Categorical()))
    )


def _filtered(holdings: Inventory, query: MarketsQuery) -> pl.DataFrame:
    markets = pl.concat([holdings.lake.markets(), holdings.option_summaries()], how="diagonal").unique(
        _ORDER, keep="first"
    )
    reported = holdings.marketcaps().rename({"marketcap": "reported"})
    markets = (
        markets.join(reported, on="coin", how="left", maintain_order="left")
        # Reports are newer than what was registered with the market.
        .with_columns(marketcap=pl.coalesce("reported", "marketcap"))
        .drop("reported")
    )
    markets = filtered(markets, query, ("exchange", "coin", "category"))
    if query.type:
        of_types = holdings.all().filter(pl.col("type").is_in(query.type))
        markets = markets.join(of_types, on=MARKET, how="semi", maintain_order="left")
    if query.symbol_filter:
        part = query.symbol_filter.lower()
        searched = [pl.col(name).str.to_lowercase().str.contains(part, literal=True) for name in _SEARCHED]
        markets = markets.filter(pl.any_horizontal(*[hit.fill_null(value=False) for hit in searched]))
    return markets
