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
_EXTRA_COLUMNS = {MarketSortField.PCT_FROM_ATH: "pct_from_ath", MarketSortField.ATR_PERCENT: "atr_percent"}


class MarketStatistics:
    """Statistics of markets over the last 24 hours, kept until the lake changes or five minutes pass.

    They are computed from five-minute points, including the one in progress. The 24 hours end with the newest trade of
    the lake, or now if that is earlier: a lake that was recorded in August shows the last day of August.

    Markets with recorded candles and no trades have other 24 hours: their points are of an hour, and the 24 hours end
    with the newest candle of such a market. So newer candles of one exchange do not change markets with trades. If a
    market has both, recorded candles of at most five minutes fill the time without trades; if only longer candles cover
    that time, its volume is unknown.

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
            Adds `STATISTICS`: ``last_price`` [quote per coin]; ``volume_24h`` [USD], null if the lake does not know the
            USD rate of the quote; changes against the 24 hours before [%], null if these have no value. Adds the
            statistic of ``sort_field``, ``pct_from_ath``: the change from the highest price ever to the last price [%];
            or ``atr_percent``: the average true range of the last 14 whole days, divided by the last price [%], null if
            there are fewer days.
        """
        extra_column = _EXTRA_COLUMNS.get(sort_field) if sort_field is not None else None
        columns = (*STATISTICS, *([extra_column] if extra_column else []))
        ends = {table: self._end(table) for table in _INTERVALS}
        cached_rows = self._known.get((*ends.values(), extra_column), dict)
        unique_markets = markets.unique(MARKET, maintain_order=True)
        missing_markets = unique_markets.filter(
            [key not in cached_rows for key in unique_markets.select(MARKET).iter_rows()]
        )
        for table, end in ends.items():
            if end is None:
                continue
            markets_of_table = missing_markets.join(
                self._candles_alone(),
                on=MARKET,
                how="semi" if table == "candles" else "anti",
                maintain_order="left",
            )
            for some_markets in markets_of_table.iter_slices(_AT_ONCE):
                for *key, row in self._statistics(some_markets, end, extra_column, _INTERVALS[table]):
                    cached_rows[(key[0], key[1])] = row
        no_statistics = (None,) * len(columns)
        rows = [cached_rows.get(key, no_statistics) for key in markets.select(MARKET).iter_rows()]
        statistics = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Float64), orient="row")
        return markets.drop(columns, strict=False).hstack(statistics)

    def _candles_alone(self) -> pl.DataFrame:
        """Return the times of the first and the last candle of each market with candles and no trades."""
        return self._lake.extents("candles").join(self._lake.extents("trades"), on=MARKET, how="anti")

    def _end(self, table: str) -> int | None:
        """Return the end of the 24 hours of markets with trades, or with only candles; None if there are none. [s]"""
        extents = self._candles_alone() if table == "candles" else self._lake.extents(table)
        if extents.is_empty():
            return None
        last_event: int = min(max(extents["last"]), self._clock())
        step = _INTERVALS[table].seconds
        return (last_event // SECOND // step + 1) * step

    def _statistics(
        self, markets: pl.DataFrame, end: int, extra_column: str | None, interval: Interval
    ) -> Iterator[tuple[str, str, tuple[float | None, ...]]]:
        start = end - 2 * _DAY
        query = _query(_CANDLES, start, end, interval, "USD")
        candles_of_markets = self._points(query, markets, _TRADED, _candles_in_full)
        query = _query(_INTEREST, start, end, interval)
        interest = self._points(query, markets, ["open_interest"], PLANS[_INTEREST].points)
        rows = _joined(
            markets.select(MARKET),
            _trade_statistics(candles_of_markets, end),
            _interest_change(interest, end),
        )
        rows = self._with_last_price(rows, end)
        if extra_column:
            rows = self._with_range(rows, markets, end)
        for exchange, symbol, *row in rows.select(
            *MARKET, *STATISTICS, *([extra_column] if extra_column else [])
        ).iter_rows():
            yield exchange, symbol, tuple(row)

    def _with_last_price(self, rows: pl.DataFrame, end: int) -> pl.DataFrame:
        """Fill a missing last price from the last trade or the last recorded candle."""
        markets_without_price = rows.filter(pl.col("last_price").is_null())
        last_trades = (
            self._lake.extents("trades")
            .join(markets_without_price, on=MARKET, how="semi")
            .filter(pl.col("last") < end * SECOND)
        )
        trades = [
            # One scan for all last trades of a day, so that it skips files by time.
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
            for (exchange, _), markets in last_trades.group_by("exchange", pl.col("last") // (_DAY * SECOND))
        ]
        candle_end = pl.col("timestamp") + pl.col("interval")
        last_candles = self._lake.extents("candles").join(markets_without_price, on=MARKET, how="semi")
        candles = [
            # A candle that is still in progress has no close yet.
            self._lake.scan(
                "candles", exchange=str(exchange), raw_symbol=markets["raw_symbol"], end=end * SECOND
            )
            .filter(candle_end <= self._clock())
            .group_by(MARKET)
            .agg(older=pl.col("close").sort_by(candle_end).last(), time=candle_end.max() - 1)
            for (exchange,), markets in last_candles.group_by("exchange")
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
        highest_prices = pl.concat(
            [self._lake._highest("trades", "price"), self._lake._highest("candles", "high")]
        )
        highest_prices = highest_prices.group_by(MARKET).agg(pl.col("highest").max())
        # One day more, because the range of a day needs the close of the day before.
        query = _query(_CANDLES, today - (_TRUE_RANGES + 1) * _DAY, today, Interval.DAY)
        days = self._points(query, markets, _TRADED, candles)
        previous_close = pl.col("close").shift(1).over(MARKET, order_by="seconds")
        ranges = (
            days.with_columns(
                range=pl.max_horizontal("high", previous_close) - pl.min_horizontal("low", previous_close),
                before=previous_close,
            )
            .drop_nulls("before")
            .group_by(MARKET)
            .agg(average=pl.col("range").mean(), count=pl.len())
            .filter(pl.col("count") == _TRUE_RANGES)
        )
        last_price = pl.col("last_price")
        return _joined(rows, highest_prices, ranges).with_columns(
            pct_from_ath=_percent(last_price, pl.col("highest")),
            atr_percent=100 * pl.col("average") / last_price,
        )

    def _points(
        self,
        query: PointsQuery,
        markets: pl.DataFrame,
        tables: list[str],
        plan: Callable[[MarketScan], pl.LazyFrame],
    ) -> pl.DataFrame:
        """Return points of the markets that have events in one of the tables, with one plan per exchange and quote.

        Volumes in USD are null if the lake does not know the USD rate of the quote.
        """
        start, end = (second * SECOND for second in query.span)
        is_in_window = (pl.col("last") >= start) & (pl.col("first") < end)
        extents = pl.concat([self._lake.extents(table) for table in tables]).filter(is_in_window)
        markets = markets.join(extents, on=MARKET, how="semi", maintain_order="left")
        query_in_coin = query.model_copy(update={"quote": None})
        plans = []
        for (exchange, quote_coin), members in markets.group_by(
            "exchange", "quote_coin", maintain_order=True
        ):
            symbol, *other_symbols = members["raw_symbol"].unique(maintain_order=True)
            quote = None if quote_coin is None else str(quote_coin)
            market = Market(str(exchange), symbol, None, None, None, None, quote)
            scan = MarketScan(self._lake, market, query, others=tuple(other_symbols))
            try:
                _ = scan.rates if scan.needs_rates else None
            except QueryError:
                points = plan(MarketScan(self._lake, market, query_in_coin, others=tuple(other_symbols)))
                plans.append(points.with_columns(volume=pl.lit(None, pl.Float64)))
            else:
                plans.append(plan(scan))
        value_columns = [name for name in _VALUE_COLUMNS if name in schema_of(query.type[0]).names]
        seconds = (pl.col("timestamp") // SECOND).alias("seconds")
        empty = pl.DataFrame(schema={**dict.fromkeys(MARKET, pl.String), "seconds": pl.Int64}).with_columns(
            pl.lit(None, pl.Float64).alias(name) for name in value_columns
        )
        selected_plans = [points.select(*MARKET, seconds, *value_columns) for points in plans]
        return pl.concat([empty, *pl.collect_all(selected_plans, engine="streaming")]).sort("seconds")


def _candles_in_full(scan: MarketScan) -> pl.LazyFrame:
    """Return candles of markets; volumes of a market are null if its points leave out longer recorded candles."""
    points = candles(scan)
    if not scan.holds("candles"):
        return points
    incomplete_markets = candles_without_points(scan).select(MARKET).unique().with_columns(lacks=True).lazy()
    known_volume = pl.when(pl.col("lacks").is_null()).then("volume")
    return points.join(incomplete_markets, on=MARKET, how="left").with_columns(volume=known_volume)


def _query(name: str, start: int, end: int, interval: Interval, quote: str | None = None) -> PointsQuery:
    # The plan gets its markets from the scan; these names only make the query valid.
    return PointsQuery(
        type=name, exchange="-", raw_symbol="-", interval=interval, start=start, end=end, quote=quote
    )


def _trade_statistics(candles: pl.DataFrame, end: int) -> pl.DataFrame:
    is_in_day = pl.col("seconds") >= end - _DAY
    volume, close = pl.col("volume"), pl.col("close")
    return (
        candles.group_by(MARKET, maintain_order=True)
        .agg(
            last_price=close.last(),
            price_before=close.filter(~is_in_day).last(),
            # A sum with an unknown addend is unknown.
            volume_24h=pl.when(volume.is_not_null().all()).then(volume.filter(is_in_day).sum()),
            volume_before=volume.filter(~is_in_day).sum(),
        )
        .with_columns(
            volume_change_24h=_percent(pl.col("volume_24h"), pl.col("volume_before")),
            price_change_24h=_percent(pl.col("last_price"), pl.col("price_before")),
        )
    )


def _interest_change(interest: pl.DataFrame, end: int) -> pl.DataFrame:
    is_in_day, close = pl.col("seconds") >= end - _DAY, pl.col("close")
    return (
        interest.drop_nulls("close")
        .sort("seconds")
        .group_by(MARKET, maintain_order=True)
        .agg(now=close.filter(is_in_day).last(), before=close.filter(~is_in_day).last())
        .select(*MARKET, oi_change_24h=_percent(pl.col("now"), pl.col("before")))
    )


def _percent(now: pl.Expr, before: pl.Expr) -> pl.Expr:
    """Return the change against an earlier value; null if the earlier value is not above 0. [%]"""
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
"""Sort fields that are in the registry, so that they need no statistics."""

_ORDER = ["exchange", "raw_symbol", "coin", "tenor"]
_SEARCHED = ("raw_symbol", "normalized_symbol", "coin", "coin_name", "quote_coin_name", "full_name")


def markets_page(holdings: Inventory, query: MarketsQuery, statistics: MarketStatistics) -> bytes:
    """Return the body of one page.

    Parameters
    ----------
    holdings : Inventory
        The inventory of the lake.
    query : MarketsQuery
    statistics : MarketStatistics
        Last prices and statistics of the last 24 hours.

    Returns
    -------
    bytes
        JSON with ``symbols`` and ``nextOffset``, which is the offset plus the number of results. A market that is an
        outcome of a prediction market names it in ``predictionMarkets``; an option summary is one market per tenor.
        If ``type`` names a data type of option chains, a chain is a market with an empty symbol.

    Raises
    ------
    QueryError
        If the page is too large, or a data type does not exist.
    """
    size = query.page_size or DEFAULT_PAGE
    if size > LARGEST_PAGE:
        raise QueryError("page_size", got=size, expected=f"at most {LARGEST_PAGE}")
    markets = _filtered(holdings, query).sort(_ORDER)
    has_statistics = query.sort_field not in _REGISTERED or query.distinct
    if has_statistics:
        markets = statistics.of(markets, sort_field=query.sort_field)
    if query.distinct:
        markets = _distinct(markets)
    if query.sort_field is not None:
        markets = markets.sort(
            query.sort_field.alias,
            descending=query.sort_direction is SortDirection.DESC,
            nulls_last=True,
            maintain_order=True,
        )
    page = markets.slice(query.page_offset, size)
    page = page if has_statistics else statistics.of(page)
    return encode_markets(
        _with_predictions(MARKETS.conform(page).select(MARKETS.names), holdings.lake.prediction_markets()),
        query.page_offset + page.height,
    )


def _distinct(markets: pl.DataFrame) -> pl.DataFrame:
    """Return one market per normalized symbol: the one with the highest volume; of several such, the first by name."""
    ranked_markets = markets.sort("volume_24h", descending=True, nulls_last=True, maintain_order=True)
    # Markets without a normalized symbol all stay.
    is_first = pl.col("normalized_symbol").is_first_distinct() | pl.col("normalized_symbol").is_null()
    return ranked_markets.filter(is_first).sort(_ORDER)


def _with_predictions(markets: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Add ``prediction_markets``: the prediction markets that a market is an outcome of, or null."""
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
    markets_of_types = holdings.all().filter(pl.col("type").is_in(query.type))
    # The chain of a coin has a data type without symbols, and no entry in the registry; its symbol is empty.
    is_chain = pl.col("exchange").is_not_null() & pl.col("raw_symbol").is_null()
    chains = markets_of_types.filter(is_chain).with_columns(available_since="first", raw_symbol=pl.lit(""))
    markets_of_types = pl.concat([markets_of_types, chains], how="diagonal")
    markets = pl.concat(
        [holdings.lake.markets(), holdings.option_summaries(), chains.drop("type", "first", "last")],
        how="diagonal",
    ).unique(_ORDER, keep="first")
    marketcaps = holdings.marketcaps().rename({"marketcap": "reported"})
    markets = (
        markets.join(marketcaps, on="coin", how="left", maintain_order="left")
        # A reported market capitalisation is newer than the registered one.
        .with_columns(marketcap=pl.coalesce("reported", "marketcap"))
        .drop("reported")
    )
    # A registered 1 says that a unit is a coin, as in all other markets.
    markets = markets.with_columns(factor=pl.when(pl.col("factor") != 1).then("factor"))
    markets = filtered(markets, query, ("exchange", "coin", "category"))
    if query.type:
        markets = markets.join(markets_of_types, on=MARKET, how="semi", maintain_order="left")
    if query.symbol_filter:
        text = query.symbol_filter.lower()
        matches = [pl.col(name).str.to_lowercase().str.contains(text, literal=True) for name in _SEARCHED]
        markets = markets.filter(pl.any_horizontal(*[match.fill_null(value=False) for match in matches]))
    return markets
