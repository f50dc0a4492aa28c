"""From the lake to points: one plan per data type, the only place that knows what the points are made of.

`reads` says which events the points of a query are made of, `is_alone` whether each point needs only the events of its
own interval, and `tables_read` which tables of the lake hold these events. Other modules ask here how many rows an
answer reads, up to which time it is known, whether it may stay in memory, and which of its points a commit may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from tidytape import aggregate
from tidytape.aggregate._group import in_usd as worth_in_usd
from tidytape.aggregate._minutes import needed_of_candles
from tidytape.aggregate._tpo import MOST_ROWS, PROFILE, Cut, tpo_of_minutes
from tidytape.catalogue import (
    DATA_TYPES,
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    TPOSession,
)
from tidytape.errors import QueryError
from tidytape.frames._table import planned
from tidytape.lake._tables import TABLES
from tidytape.query import PointsQuery
from tidytape.schema import LEVELS, schema_of
from tidytape.service.answer._candles import candle_minutes, candles, candles_by_side, last_closes, resampled
from tidytape.service.answer._scan import MARKET, RATE_TABLES, MarketScan, in_usd
from tidytape.times import DAY, SECOND

_DISTINCT = 2.0**53  # whole numbers up to here are distinct doubles
_LONGEST_SESSION = {None: 0, TPOSession.DAILY: DAY, TPOSession.WEEKLY: 7 * DAY, TPOSession.MONTHLY: 31 * DAY}


# --- trades ---------------------------------------------------------------------------------------------------------


def _trades(scan: MarketScan) -> pl.LazyFrame:
    # A trade belongs to no interval, so the window is not widened to whole intervals.
    first, last = scan.query.start * SECOND, scan.query.end * SECOND
    trades = scan.events("trades", start=first, end=last)
    if scan.query.side:
        trades = trades.filter(pl.col("side") == str(scan.query.side))
    if in_usd(scan.query):
        trades = trades.with_columns(amount=pl.col("quote_amount"))
    # Their order is that of `aggregate.raw_trades`, which the engine gives them.
    return trades.select(*MARKET, "side", "timestamp", "id", "price", "amount", "quote_amount")


def _profile_minutes(
    scan: MarketScan, *, end: int | None = None, minutes: pl.DataFrame | None = None
) -> pl.LazyFrame:
    """Return the rows of minute profiles; ``minutes`` are the minute candles, if the caller has read them already."""
    size = scan.block_size
    rows = candle_minutes(scan, end=end) if minutes is None else minutes.lazy()
    _require_rows(rows.select(pl.col("high").abs().max()).collect(engine="streaming").item(), size)
    if scan.needs_rates:
        return planned(aggregate.minute_profile.core, scan.events("trades", end=end), block_size=size)
    return scan.minutes("profile_1m", block_size=size, end=end)


def _require_rows(highest: float | None, size: Decimal) -> None:
    if highest is not None and highest > _DISTINCT * float(size):
        lower_bound = f"at least {highest / _DISTINCT:.1g} at prices of {highest:g}"
        raise QueryError(
            "block_size", got=str(size), expected=f"{lower_bound}; rows below that cannot be told apart"
        )


def require_touched(scans: Sequence[MarketScan]) -> None:
    """Refuse a block size at which the time blocks of market profiles touch more levels than one request may make.

    A time block touches every level between its lowest and its highest price, which minute candles have.
    """
    touched_levels = 0
    for scan in scans:
        query, size = scan.query, float(scan.block_size)
        block = (query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES) * 60 * SECOND
        if query.tpo_session is None:
            block = min(block, query.step * SECOND)
        minutes = candle_minutes(scan, end=_end_of_sessions(scan))
        levels = (pl.col("high").max() - pl.col("low").min()) / size + 1
        time_blocks = minutes.group_by(pl.col("timestamp") // block).agg(levels=levels)
        highest, total = (
            time_blocks.select(pl.col("levels").max(), total=pl.col("levels").sum())
            .collect(engine="streaming")
            .row(0)
        )
        touched_levels += round(total)
        _require_levels(scan, highest, touched=touched_levels)


def _require_levels(scan: MarketScan, highest: float | None, *, touched: int) -> None:
    """Refuse a block size if one time block, or all of them, have too many levels."""
    most_levels = MOST_ROWS - 2  # a time block may touch one more level at either end
    if highest is not None and highest > most_levels:
        expected = f"a size that cuts the range of every time block into at most {most_levels:,} levels"
        hint = f"one has {highest:,.0f}"
    elif touched > scan.limits.touched:
        expected = f"a size at which the time blocks touch at most {scan.limits.touched:,} levels together"
        hint = f"at this size they touch {touched:,}; a shorter window has fewer, too"
    else:
        return
    raise QueryError("block_size", got=str(scan.block_size), expected=expected, hint=hint)


def _end_of_sessions(scan: MarketScan) -> int:
    """Return the end of the last session that starts in the window. [ns since the epoch]"""
    return scan.end + _LONGEST_SESSION[scan.query.tpo_session]


def _volume_profile(scan: MarketScan) -> pl.LazyFrame:
    core, minutes = aggregate.profile_of.core, _profile_minutes(scan)
    return planned(core, minutes, interval=scan.interval, block_size=scan.block_size, amount=scan.amount)


def _tpo(scan: MarketScan) -> pl.LazyFrame:
    return tpo_of_members([scan], united=False)


def tpo_of_members(scans: Sequence[MarketScan], *, united: bool = True) -> pl.LazyFrame:
    """Return the market profile of one market, or of a group, whose members' touches are united and volumes summed."""
    query, first_scan = scans[0].query, scans[0]
    end = _end_of_sessions(first_scan)
    needed_columns = needed_of_candles()
    minutes_of_scans = [
        candle_minutes(scan, end=end).select(needed_columns).collect(engine="streaming") for scan in scans
    ]
    minutes = pl.concat(minutes_of_scans).lazy()
    rows = pl.concat(
        _profile_minutes(scan, end=end, minutes=minutes_of_scan)
        for scan, minutes_of_scan in zip(scans, minutes_of_scans, strict=True)
    )
    block_minutes = query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES
    cut = Cut.of(first_scan.interval, first_scan.block_size, None, query.tpo_session, block_minutes)
    is_in_window = nw.col("timestamp").is_between(first_scan.start, first_scan.end, closed="left")
    levels, sessions = (
        table.filter(is_in_window).to_native()
        for table in tpo_of_minutes(
            nw.from_native(minutes), nw.from_native(rows), cut, first_scan.amount, united=united
        )
    )
    columns = [field.column for field in DATA_TYPES["TPO_AGG"].levels[0].fields]
    levels_of_sessions = levels.group_by(PROFILE).agg(pl.struct(columns).sort_by("price").alias(LEVELS))
    profiles: pl.LazyFrame = sessions.join(levels_of_sessions, on=list(PROFILE), how="left")
    return profiles


# --- what is not traded ---------------------------------------------------------------------------------------------


def _open_interest(scan: MarketScan) -> pl.LazyFrame:
    points = resampled(scan, scan.minutes("open_interest_1m"), "OPEN_INTEREST_AGG")
    if not in_usd(scan.query):
        return points
    rates = nw.from_native(scan.rates.lazy()) if scan.rates is not None else None
    prices = nw.from_native(_closes(scan))
    return planned(worth_in_usd, points, scan.market.quote_coin, "OPEN_INTEREST_AGG", rates, prices)


def _closes(scan: MarketScan) -> pl.LazyFrame:
    """Return the closes of the window, and the last close before it."""
    # Prices do not depend on the unit of amounts, so the query needs no USD rate of the quote.
    closes = candles(replace(scan, query=scan.query.model_copy(update={"quote": None, "group_by": None})))
    columns = ["exchange", "raw_symbol", "timestamp", "close"]
    last_close = last_closes(scan.lake, [scan.market], scan.interval, before=scan.start, sides=())
    parts = [closes.select(columns)]
    if last_close is not None:
        parts.append(last_close.lazy().select(columns))
    return pl.concat(parts)


def _funding(scan: MarketScan) -> pl.LazyFrame:
    points = resampled(scan, scan.minutes("funding_1m"), "FUNDING_RATE_AGG")
    milliseconds = scan.query.funding_interval or DEFAULT_FUNDING_INTERVAL_MS
    rate_columns = [
        name for name in schema_of("FUNDING_RATE_AGG").names if name.startswith(("rate_", "predicted_"))
    ]
    return points.with_columns(pl.col(rate_columns) * (milliseconds / DEFAULT_FUNDING_INTERVAL_MS))


def _liquidations(scan: MarketScan) -> pl.LazyFrame:
    if scan.needs_rates:
        events = scan.events("liquidations").with_columns(amount=pl.col("quote_amount"))
        points = planned(aggregate.liquidations.core, events, interval=scan.interval)
    else:
        name = "quote_liquidations" if in_usd(scan.query) else "liquidations"
        minutes = scan.minutes("liquidations_1m").with_columns(liquidations=pl.col(name))
        points = resampled(scan, minutes.drop("quote_liquidations"), "LIQUIDATION_AGG")
    return points.filter(pl.col("side") == str(scan.query.side)) if scan.query.side else points


def _book(scan: MarketScan) -> pl.LazyFrame:
    minutes = scan.minutes("book_1m", block_size=scan.block_size)
    if scan.needs_rates:
        minutes = scan.in_usd(minutes.rename({"size": "amount", "quote_size": "quote_amount"})).rename(
            {"amount": "size", "quote_amount": "quote_size"}
        )
    return planned(
        aggregate.book_of.core,
        minutes,
        interval=scan.interval,
        block_size=scan.block_size,
        amount=scan.amount,
        # The levels of a group are cut only after its members are summed, which decides which levels are closest.
        max_depth=None if scan.query.group_by else scan.query.max_depth,
        in_progress=scan.lake.extent("book", scan.market.exchange, scan.market.raw_symbol)[1],
    )


# --- options, tokens and heatmaps -----------------------------------------------------------------------------------


def _quotes(scan: MarketScan) -> pl.LazyFrame:
    return scan.lake.scan(
        "option_quotes", exchange=scan.market.exchange, start=scan.start, end=scan.end
    ).filter(pl.col("coin") == scan.market.coin)


def _option_summary(scan: MarketScan, summary: Any) -> pl.LazyFrame:
    """Return the points of one symbol of an option summary, of only one tenor if the query names it."""
    points = planned(summary.core, _quotes(scan), interval=scan.interval).filter(
        pl.col("raw_symbol") == scan.market.raw_symbol
    )
    tenor = scan.query.tenor
    return points.filter(pl.col("tenor") == str(tenor)) if tenor else points


def _option_open_interest(scan: MarketScan) -> pl.LazyFrame:
    return planned(aggregate.option_open_interest.core, _quotes(scan), interval=scan.interval)


def _cme_open_interest(scan: MarketScan) -> pl.LazyFrame:
    return planned(aggregate.cme_open_interest.core, scan.events("cme_open_interest"), interval=scan.interval)


def _token_supply(scan: MarketScan) -> pl.LazyFrame:
    # Dominance is a share of all tokens, so read the reports of all tokens.
    return (
        planned(
            aggregate.token_supply.core,
            scan.lake.scan("token_supply", start=scan.start, end=scan.end),
            interval=scan.interval,
        )
        .filter(pl.col("token_name") == scan.market.raw_symbol)
        .drop("token_name")
    )


def _liquidation_heatmap(scan: MarketScan) -> pl.LazyFrame:
    events = scan.lake.scan("liquidations", exchange=scan.market.exchanges, start=scan.start, end=scan.end)
    members = pl.LazyFrame(scan.market.partitions, schema=dict.fromkeys(MARKET, pl.String), orient="row")
    # Without an exchange, the points are sums over several.
    events = events.join(members, on=MARKET).with_columns(
        coin=pl.lit(scan.market.coin), exchange=pl.lit(scan.market.exchange or None, pl.String)
    )
    if in_usd(scan.query):
        if scan.needs_rates:
            events = scan.in_usd(events)
        events = events.with_columns(amount=pl.col("quote_amount"))
    block_size = scan.block_size
    _require_rows(events.select(pl.col("price").abs().max()).collect().item(), block_size)
    levels = planned(
        aggregate.liquidation_heatmap.core, events, interval=scan.interval, block_size=block_size
    )
    if scan.query.max_depth is None:
        return levels
    # Keep the levels with the largest liquidations; of levels with equal ones the lower levels.
    rank = pl.struct(-pl.col("liquidations"), "price").rank("ordinal").over("timestamp")
    return levels.filter(rank <= scan.query.max_depth)


# --- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the points of a data type are made from the lake.

    Attributes
    ----------
    points : callable
        Takes the scan of one market and returns its points: the payload columns of the type, and the identity columns
        that the market does not name. The points begin where the scan does, which may be before the window.
    tables : tuple of str
        The tables of events that the points are made of; a market has the type if one of them has events of the market.
    minutes : tuple of str
        The tables of minute rows that are read instead of events; empty if the type has none.
    converts_events : bool
        Whether amounts in a quote other than USD are converted event by event, so that minute rows cannot be used.
    look_back : int
        How long a report counts after its time, even in the points of its own market. [ns]
    carries : int
        How long the last report of a member counts in a group. [ns]
    lasts : bool
        Whether the last events before a window count, however old they are.
    price_type : str, optional
        The data type whose closes convert the amounts to USD, if the events have no prices.
    weight_type : str, optional
        The data type whose points, in USD, weigh the members of a group, if these are not summed.
    has_time_blocks : bool
        Whether the points have a level for each price that a time block touches: many more levels than rows to read.
        The members of a group share their time blocks, so they are united before the points are computed.
    summary : callable, optional
        For an option summary: the aggregation that computes it from option quotes.
    symbols : tuple of str
        For an option summary: what follows the coin and an underscore in its symbols.
    """

    points: Callable[[MarketScan], pl.LazyFrame]
    tables: tuple[str, ...]
    minutes: tuple[str, ...] = ()
    converts_events: bool = False
    look_back: int = 0
    carries: int = 0
    lasts: bool = False
    price_type: str | None = None
    weight_type: str | None = None
    has_time_blocks: bool = False
    summary: Callable[..., pl.LazyFrame] | None = None
    symbols: tuple[str, ...] = ()

    @property
    def tells_sides(self) -> bool:
        """Whether the points tell the sides of trades; recorded candles have none."""
        return self.tables == ("trades",)


PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        "TRADE": Plan(points=_trades, tables=("trades",)),
        "TRADE_SIDE_AGNOSTIC_AGG": Plan(
            points=candles,
            tables=("trades", "candles"),
            minutes=("candles_of_both_1m",),
            converts_events=True,
        ),
        "TRADE_AGG": Plan(
            points=candles_by_side, tables=("trades",), minutes=("candles_1m",), converts_events=True
        ),
        "OPEN_INTEREST_AGG": Plan(
            points=_open_interest,
            tables=("open_interest",),
            minutes=("open_interest_1m",),
            carries=DAY,
            price_type="TRADE_SIDE_AGNOSTIC_AGG",
        ),
        "FUNDING_RATE_AGG": Plan(
            points=_funding, tables=("funding",), minutes=("funding_1m",), weight_type="OPEN_INTEREST_AGG"
        ),
        "LIQUIDATION_AGG": Plan(
            points=_liquidations, tables=("liquidations",), minutes=("liquidations_1m",), converts_events=True
        ),
        "VOLUME_PROFILE_AGG": Plan(
            points=_volume_profile,
            tables=("trades",),
            minutes=("candles_of_both_1m", "profile_1m"),
            converts_events=True,
        ),
        "TPO_AGG": Plan(
            points=_tpo,
            tables=("trades",),
            minutes=("candles_of_both_1m", "profile_1m"),
            converts_events=True,
            has_time_blocks=True,
        ),
        "BLOCK_BOOK_SNAPSHOT_AGG": Plan(points=_book, tables=("book",), minutes=("book_1m",), lasts=True),
        "VENUEX_LIQUIDATION_AGG": Plan(points=_liquidation_heatmap, tables=("liquidations",)),
        "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": Plan(
            points=partial(_option_summary, summary=aggregate.implied_volatility),
            tables=("option_quotes",),
            summary=aggregate.implied_volatility,
            symbols=("ATM",),
        ),
        "SKEW_OPTION_SUMMARY_AGG": Plan(
            points=partial(_option_summary, summary=aggregate.skew),
            tables=("option_quotes",),
            summary=aggregate.skew,
            symbols=("25", "10"),
        ),
        "TOKEN_SUPPLY_AGG": Plan(points=_token_supply, tables=("token_supply",), look_back=DAY),
        "CME_OPEN_INTEREST_AGG": Plan(points=_cme_open_interest, tables=("cme_open_interest",)),
        "OPTION_OPEN_INTEREST_AGG": Plan(
            points=_option_open_interest, tables=("option_quotes",), look_back=DAY
        ),
    }
)
"""How each data type is answered: the only place in the service that a new data type must be added to."""

TABLES_OF_MARKETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: plan.tables
        for name, plan in PLANS.items()
        if all(TABLES[table].partitions == tuple(MARKET) for table in plan.tables)
    }
)
"""The tables of events of each data type, for data types whose tables have a partition per market."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far outside of its window the points of a query read the events of a data type.

    Attributes
    ----------
    before, after : int
        Time before the window, and after it, that is read too. [ns]
    lasts : bool
        Whether the last events before that time are read too, however old they are.
    """

    before: int = 0
    after: int = 0
    lasts: bool = False


def reads(name: str, query: PointsQuery) -> dict[str, Reach]:
    """Return the data types whose events the points of one data type are made of, beginning with the type itself.

    The result leaves out what depends on the market: the USD rate of its quote, see `MarketScan.needs_rates`; and, for
    a market with both trades and recorded candles, the neighbours of an interval and the first and the last trade,
    which decide whether an interval is made of trades or of recorded candles.

    Examples
    --------
    >>> query = PointsQuery(
    ...     type="FUNDING_RATE_AGG", exchange="X", coin="BTC", interval="1h", start=0, end=3600,
    ...     group_by="open_interest_weighted_avg",
    ... )
    >>> list(reads("FUNDING_RATE_AGG", query))
    ['FUNDING_RATE_AGG', 'OPEN_INTEREST_AGG', 'TRADE_SIDE_AGNOSTIC_AGG']
    """
    plan = PLANS[name]
    before = max(plan.look_back, plan.carries if query.group_by else 0)
    after = _LONGEST_SESSION[query.tpo_session] if plan.has_time_blocks else 0
    reaches = {name: Reach(before, after, lasts=plan.lasts or query.gapfill)}
    if plan.price_type and in_usd(query):
        reaches[plan.price_type] = Reach(before, lasts=True)
    if plan.weight_type and query.group_by:
        reaches |= reads(plan.weight_type, query)
    return reaches


def is_alone(name: str, query: PointsQuery) -> bool:
    """Return whether each point depends only on the events of its own interval or session, as far as `reads` says."""
    reach, *others = reads(name, query).values()
    return not (others or reach.before or reach.lasts)


def tables_read(query: PointsQuery) -> tuple[str, ...]:
    """Return the tables of events that the points of a query may be made of, and those with USD rates of its quotes."""
    tables = {table for name in query.type for other in reads(name, query) for table in PLANS[other].tables}
    return tuple(name for name in TABLES if name in tables or (in_usd(query) and name in RATE_TABLES))
