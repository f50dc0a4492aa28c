"""From the lake to points: one plan per data type."""

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
from tidytape.aggregate._tpo import MOST_ROWS, Cut, tpo_of_minutes
from tidytape.catalogue import (
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    Interval,
    TPOSession,
)
from tidytape.errors import QueryError
from tidytape.frames._table import planned
from tidytape.lake._tables import TABLES
from tidytape.schema import schema_of
from tidytape.service.answer._candles import candle_minutes, candles, candles_by_side, last_closes, resampled
from tidytape.service.answer._scan import MARKET, MarketScan, in_usd
from tidytape.times import DAY, SECOND

_TOLD_APART = 2.0**53  # levels above it are no longer distinct doubles
_LONGEST_SESSION = {TPOSession.DAILY: DAY, TPOSession.WEEKLY: 7 * DAY, TPOSession.MONTHLY: 31 * DAY}


# --- trades ---------------------------------------------------------------------------------------------------------


def _trades(scan: MarketScan) -> pl.LazyFrame:
    # A trade belongs to no interval, so the window is not widened to whole intervals.
    first, last = scan.query.start * SECOND, scan.query.end * SECOND
    trades = scan.events("trades", start=first, end=last)
    if scan.query.side:
        trades = trades.filter(pl.col("side") == str(scan.query.side))
    if in_usd(scan.query):
        trades = trades.with_columns(amount=pl.col("quote_amount"))
    return planned(aggregate.raw_trades.core, trades)


def _profile_minutes(
    scan: MarketScan, *, end: int | None = None, minutes: pl.DataFrame | None = None
) -> pl.LazyFrame:
    """Return the minute profile; ``minutes`` are its minute candles, where the caller has read them already."""
    size = scan.block_size
    rows = candle_minutes(scan, end=end) if minutes is None else minutes.lazy()
    highest = rows.select(pl.col("high").abs().max()).collect(engine="streaming")
    _require_rows(highest.item(), size)
    if scan.needs_rates:
        return planned(aggregate.minute_profile.core, scan.events("trades", end=end), block_size=size)
    return scan.minutes("profile_1m", block_size=size, end=end)


def _require_rows(highest: float | None, size: Decimal) -> None:
    if highest is not None and highest > _TOLD_APART * float(size):
        least = f"at least {highest / _TOLD_APART:.1g} at prices of {highest:g}"
        expected = f"{least}; rows below that cannot be told apart"
        raise QueryError("block_size", got=str(size), expected=expected)


def require_touched(scans: Sequence[MarketScan]) -> None:
    """Refuse a block size at which the time blocks of market profiles touch more levels than one request may make.

    A time block touches every level between its lowest and its highest price, which minute candles know.
    """
    touched = listed = 0
    for scan in scans:
        query, size = scan.query, float(scan.block_size)
        block = (query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES) * 60 * SECOND
        if query.tpo_session is None:
            block = min(block, query.step * SECOND)
        minutes = candle_minutes(scan, end=_end_of_sessions(scan))
        levels = pl.col("levels")
        of_blocks = (
            minutes.group_by(pl.col("timestamp") // block, _session_of(scan).alias("session"))
            .agg(pl.col("high").max(), pl.col("low").min())
            .with_columns(levels=(pl.col("high") - pl.col("low")) / size + 1)
            .collect(engine="streaming")
        )
        highest, total = of_blocks.select(levels.max(), total=levels.sum()).row(0)
        touched += round(total)
        of_sessions = of_blocks.group_by("session").agg(
            levels=(pl.col("high").max() - pl.col("low").min()) / size + 1
        )
        listed += of_sessions.select((levels**2).sum()).item()
        most = MOST_ROWS - 2  # a time block may reach into one more level at either end
        if highest is not None and highest > most:
            expected = f"a size that cuts the range of every time block into at most {most:,} levels"
            hint = f"one has {highest:,.0f}"
        elif touched > scan.limits.touched:
            expected = (
                f"a size at which the time blocks touch at most {scan.limits.touched:,} levels together"
            )
            hint = f"at this size they touch {touched:,}; a shorter window has fewer, too"
        elif not scan.lists_once and listed > scan.limits.listed:
            expected = (
                "a size at which the lists of single prints, one for each level, have at most "
                f"{scan.limits.listed:,} prices together"
            )
            hint = (
                f"at this size they may have {listed:,.0f}; a quarter of that with blocks twice as high; JSON has "
                "each list once"
            )
        else:
            continue
        raise QueryError("block_size", got=str(scan.block_size), expected=expected, hint=hint)


def _session_of(scan: MarketScan) -> pl.Expr:
    """Return a number or a time that is the same for all minutes of a session."""
    session, time = scan.query.tpo_session, pl.col("timestamp")
    if session is TPOSession.MONTHLY:
        return pl.from_epoch(time, "ns").dt.truncate("1mo")
    length = {TPOSession.DAILY: Interval.DAY, TPOSession.WEEKLY: Interval.WEEK}.get(session, scan.interval)  # type: ignore[arg-type]  # None is no key
    return (time - length.offset * SECOND) // (length.seconds * SECOND)


def _end_of_sessions(scan: MarketScan) -> int:
    """Return the end of the last session that starts in the window."""
    session = scan.query.tpo_session
    return scan.end if session is None else scan.end + _LONGEST_SESSION[session]


def _volume_profile(scan: MarketScan) -> pl.LazyFrame:
    core, minutes_ = aggregate.profile_of.core, _profile_minutes(scan)
    return planned(core, minutes_, interval=scan.interval, block_size=scan.block_size, amount=scan.amount)


def _tpo(scan: MarketScan) -> pl.LazyFrame:
    return tpo_of_members([scan], united=False)


def tpo_of_members(scans: Sequence[MarketScan], *, united: bool = True) -> pl.LazyFrame:
    """Return the market profile of one market, or of a group: members' blocks are united, their volumes added up."""
    query, first = scans[0].query, scans[0]
    session = query.tpo_session
    end = _end_of_sessions(first)
    needed = needed_of_candles()
    read = [candle_minutes(scan, end=end).select(needed).collect(engine="streaming") for scan in scans]
    minutes = pl.concat(read).lazy()
    rows = pl.concat(
        _profile_minutes(scan, end=end, minutes=known) for scan, known in zip(scans, read, strict=True)
    )
    minutes_of_block = query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES
    cut = Cut.of(first.interval, first.block_size, session, minutes_of_block)
    inside = pl.col("timestamp").is_between(first.start, first.end, closed="left")
    levels_and_touches = tpo_of_minutes(
        nw.from_native(minutes), nw.from_native(rows), cut, first.amount, united=united
    )
    levels: pl.LazyFrame = levels_and_touches[0].to_native().filter(inside)
    touches: pl.LazyFrame = levels_and_touches[1].to_native().filter(inside)
    profile = ["exchange", "raw_symbol", "timestamp"]
    blocks = touches.group_by(*profile, "price").agg(block_ids=pl.col("block_id").sort().cast(pl.Int32))
    lists = levels.group_by(profile).agg(
        *(pl.col("price").filter(pl.col(flag)).sort().alias(name) for flag, name in _TPO_LISTS.items()),
        pl.col("price").min(),
    )
    # No two rows of a column share a list, so lists on every level take memory in the square of the levels.
    whole = levels.join(blocks, on=[*profile, "price"])
    if first.lists_once:
        whole = whole.join(lists, on=[*profile, "price"], how="left")
    else:
        whole = whole.join(lists.drop("price"), on=profile)
    return whole.drop(*_TPO_LISTS, "is_in_progress")


_TPO_LISTS = {"is_poor_high": "poor_highs", "is_poor_low": "poor_lows", "is_single_print": "single_prints"}


# --- what is not traded ---------------------------------------------------------------------------------------------


def _open_interest(scan: MarketScan) -> pl.LazyFrame:
    points = resampled(scan, scan.minutes("open_interest_1m"), "OPEN_INTEREST_AGG")
    if not in_usd(scan.query):
        return points
    worth = nw.from_native(scan.rates.lazy()) if scan.rates is not None else None
    prices = nw.from_native(_closes(scan))
    return planned(worth_in_usd, points, scan.market.quote_coin, "OPEN_INTEREST_AGG", worth, prices)


def _closes(scan: MarketScan) -> pl.LazyFrame:
    """Return the closes of the window, and the last one before it."""
    # Prices do not depend on the unit of amounts, so the price of the quote need not be known.
    query = scan.query.model_copy(update={"quote": None, "group_by": None})
    closes = candles(replace(scan, query=query))
    columns = ["exchange", "raw_symbol", "timestamp", "close"]
    before = last_closes(scan.lake, [scan.market], scan.interval, before=scan.start, sides=())
    parts = [closes.select(columns)]
    if before is not None:
        parts.append(before.lazy().select(columns))
    return pl.concat(parts)


def _funding(scan: MarketScan) -> pl.LazyFrame:
    points = resampled(scan, scan.minutes("funding_1m"), "FUNDING_RATE_AGG")
    milliseconds = scan.query.funding_interval or DEFAULT_FUNDING_INTERVAL_MS
    rate = [name for name in schema_of("FUNDING_RATE_AGG").names if name.startswith(("rate_", "predicted_"))]
    return points.with_columns(pl.col(rate) * (milliseconds / DEFAULT_FUNDING_INTERVAL_MS))


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
        # The closest levels of a group are known once it is summed.
        max_depth=None if scan.query.group_by else scan.query.max_depth,
        in_progress=scan.lake.extent("book", scan.market.exchange, scan.market.raw_symbol)[1],
    )


# --- options, tokens and heatmaps -----------------------------------------------------------------------------------


def _quotes(scan: MarketScan) -> pl.LazyFrame:
    quotes = scan.lake.scan("option_quotes", exchange=scan.market.exchange, start=scan.start, end=scan.end)
    return quotes.filter(pl.col("coin") == scan.market.coin)


def _option_summary(scan: MarketScan, summary: Any) -> pl.LazyFrame:
    """Points of one symbol of an option summary, of one tenor if the query names it."""
    points = planned(summary.core, _quotes(scan), interval=scan.interval)
    points = points.filter(pl.col("raw_symbol") == scan.market.raw_symbol)
    tenor = scan.query.tenor
    return points.filter(pl.col("tenor") == str(tenor)) if tenor else points


def _option_open_interest(scan: MarketScan) -> pl.LazyFrame:
    # A report counts for 24 hours, so those of the day before the window count too.
    earlier = replace(scan, before=scan.before + DAY)
    points = planned(aggregate.option_open_interest.core, _quotes(earlier), interval=scan.interval)
    return points.filter(pl.col("timestamp") >= scan.start)


def _cme_open_interest(scan: MarketScan) -> pl.LazyFrame:
    return planned(aggregate.cme_open_interest.core, scan.events("cme_open_interest"), interval=scan.interval)


def _token_supply(scan: MarketScan) -> pl.LazyFrame:
    # Dominance is a share of all tokens, each by its last report.
    reports = scan.lake.scan("token_supply", start=scan.start - DAY, end=scan.end)
    points = planned(aggregate.token_supply.core, reports, interval=scan.interval)
    of_token = points.filter(
        pl.col("token_name") == scan.market.raw_symbol, pl.col("timestamp") >= scan.start
    )
    return of_token.drop("token_name")


def _liquidation_heatmap(scan: MarketScan) -> pl.LazyFrame:
    events = scan.lake.scan("liquidations", exchange=scan.market.exchange, start=scan.start, end=scan.end)
    symbols = [symbol for _, symbol in scan.market.partitions]
    members = pl.LazyFrame({"raw_symbol": symbols}, schema={"raw_symbol": pl.String})
    events = events.join(members, on="raw_symbol").with_columns(coin=pl.lit(scan.market.coin))
    if in_usd(scan.query):
        if scan.needs_rates:
            events = scan.in_usd(events)
        events = events.with_columns(amount=pl.col("quote_amount"))
    size = scan.block_size
    _require_rows(events.select(pl.col("price").abs().max()).collect().item(), size)
    levels = planned(aggregate.liquidation_heatmap.core, events, interval=scan.interval, block_size=size)
    if scan.query.max_depth is None:
        return levels
    # Keep the levels with the most liquidated; of equal levels the lower ones.
    heaviest = pl.struct(-pl.col("liquidations"), "price").rank("ordinal").over("timestamp")
    return levels.filter(heaviest <= scan.query.max_depth)


# --- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the points of a data type are made from the lake.

    Attributes
    ----------
    points : callable
        Takes the scan of one market and returns its points: the payload of the type, and what of its identity the
        market does not name.
    tables : tuple of str
        The tables of events that the points are made of; a market has the type if any of them has events of it.
    minutes : tuple of str
        The tables of minute rows that are read instead of events; empty if the type has none.
    converts_events : bool
        Whether amounts in a quote other than USD are converted event by event, so that minute rows are of no use.
    summary : callable, optional
        Of an option summary: the aggregation that makes it of option quotes.
    symbols : tuple of str
        Of an option summary: what follows the coin and an underscore in its symbols.
    """

    points: Callable[[MarketScan], pl.LazyFrame]
    tables: tuple[str, ...]
    minutes: tuple[str, ...] = ()
    converts_events: bool = False
    summary: Callable[..., pl.LazyFrame] | None = None
    symbols: tuple[str, ...] = ()


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
            points=_open_interest, tables=("open_interest",), minutes=("open_interest_1m",)
        ),
        "FUNDING_RATE_AGG": Plan(points=_funding, tables=("funding",), minutes=("funding_1m",)),
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
        ),
        "BLOCK_BOOK_SNAPSHOT_AGG": Plan(points=_book, tables=("book",), minutes=("book_1m",)),
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
        "TOKEN_SUPPLY_AGG": Plan(points=_token_supply, tables=("token_supply",)),
        "CME_OPEN_INTEREST_AGG": Plan(points=_cme_open_interest, tables=("cme_open_interest",)),
        "OPTION_OPEN_INTEREST_AGG": Plan(points=_option_open_interest, tables=("option_quotes",)),
    }
)
"""How each data type is answered: the one place in the service that a new data type needs."""

TABLES_OF_MARKETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: plan.tables
        for name, plan in PLANS.items()
        if all(TABLES[table].partitions == tuple(MARKET) for table in plan.tables)
    }
)
"""The tables of events of each data type whose tables have a partition per market."""
