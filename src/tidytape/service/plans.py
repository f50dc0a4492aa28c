"""From the lake to points, one plan per data type. Minutes where rollups keep them, raw events where they do not.

A plan gives a lazy frame of one subject: the payload of its type and what of its key the subject does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import narwhals.stable.v2 as nw
import polars as pl

from tidytape import aggregate
from tidytape.aggregate.group import in_usd as worth_in_usd
from tidytape.aggregate.tpo import MOST_ROWS, Cut, tpo_of_minutes
from tidytape.catalogue import (
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    USD_QUOTES,
    Interval,
    TPOSession,
)
from tidytape.errors import QueryError
from tidytape.frames.table import planned
from tidytape.lake import Lake
from tidytape.lake.rollup import minutes, minutes_of_many
from tidytape.query import PointsQuery
from tidytape.schema import schema_of
from tidytape.service.estimate import UNHURRIED, Limits
from tidytape.service.options import Instrument, last_closes, rates
from tidytape.service.tiles import MARKET, covered, met, tiled
from tidytape.times import DAY, MINUTE, SECOND

__all__ = [
    "PLANS",
    "SOURCES",
    "Want",
    "candles",
    "has_tiles",
    "in_usd",
    "require_touched",
    "tpo_of_members",
    "untold",
    "untold_lengths",
]

_LONGEST_CANDLE = 7 * DAY
_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
_TOLD_APART = 2.0**53  # rows that doubles tell apart
_LONGEST_SESSION = {TPOSession.DAILY: DAY, TPOSession.WEEKLY: 7 * DAY, TPOSession.MONTHLY: 31 * DAY}


@dataclass(frozen=True)
class Want:
    """What is asked of one subject.

    Attributes
    ----------
    lake : Lake
        Where its events are.
    one : Instrument
        The subject.
    query : PointsQuery
        What is asked.
    before : int
        How much more is wanted before the window. [ns]
    others : tuple of str
        Symbols of more markets of the same exchange and quote, to be answered in the same plan.
    limits : Limits
        What the answer may take.
    lists_once : bool
        Whether the lists of a market profile stand on the lowest level of each session alone, and are null on others.
    """

    lake: Lake
    one: Instrument
    query: PointsQuery
    before: int = 0
    others: tuple[str, ...] = ()
    limits: Limits = UNHURRIED
    lists_once: bool = False

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the markets."""
        return (self.one.raw_symbol, *self.others)

    @property
    def interval(self) -> Interval:
        """Of the points."""
        return self.query.interval or Interval.MINUTE

    @property
    def start(self) -> int:
        """First instant. [ns since the epoch]"""
        return self.query.span[0] * SECOND - self.before

    @property
    def end(self) -> int:
        """End of the last point, exclusive. [ns since the epoch]"""
        return self.query.span[1] * SECOND

    @property
    def needs_rates(self) -> bool:
        """Whether amounts in terms of the quote are not yet USD."""
        return in_usd(self.query) and self.one.quote_coin not in USD_QUOTES

    @property
    def amount(self) -> Literal["coin", "quote"]:
        """What amounts are counted in."""
        return "quote" if in_usd(self.query) else "coin"

    @cached_property
    def rates(self) -> pl.DataFrame | None:
        """What one of the quote is worth. [USD]"""
        start = self.start + self.before
        return rates(self.lake, self.one.quote_coin, start=start, end=self.end, before=self.before)

    def events(self, table: str, *, start: int | None = None, end: int | None = None) -> pl.LazyFrame:
        """Raw events of the window; amounts in terms of the quote are in USD where that is asked for."""
        found = self.lake.scan(
            table,
            exchange=self.one.exchange,
            raw_symbol=self.symbols,
            start=self.start if start is None else start,
            end=self.end if end is None else end,
        )
        return self.worth(found) if self.needs_rates else found

    def minutes(
        self, table: str, *, block_size: Decimal | None = None, end: int | None = None
    ) -> pl.LazyFrame:
        """Minutes of the window, from a rollup where there is one."""
        if self.others:
            return minutes_of_many(
                self.lake,
                table,
                exchange=self.one.exchange,
                raw_symbols=self.symbols,
                start=self.start,
                end=end or self.end,
            )
        return minutes(
            self.lake,
            table,
            exchange=self.one.exchange,
            raw_symbol=self.one.raw_symbol,
            start=self.start,
            end=end or self.end,
            block_size=block_size,
            made_at=self.one.registered_block_size,
        )

    def extents(self, table: str) -> pl.DataFrame:
        """Return ``first`` and ``last`` event of each market that a table has, whatever the window."""
        if self.others:
            held = self.lake.extents(table)
            return held.filter(
                pl.col("exchange") == self.one.exchange, pl.col("raw_symbol").is_in(self.symbols)
            )
        names = self.one.exchange, self.one.raw_symbol
        first, last = self.lake.extent(table, *names)
        rows = [] if first is None else [(*names, first, last)]
        dtypes = {**dict.fromkeys(MARKET, pl.String()), **dict.fromkeys(("first", "last"), pl.Int64())}
        return pl.DataFrame(rows, schema=dtypes, orient="row")

    def holds(self, table: str, *, before: int = 0) -> bool:
        """Whether a table may have rows of the markets in the window, or up to so long before it. [ns]"""
        if self.others:
            spans = self.extents(table).select("first", "last").rows()
        else:
            spans = [self.lake.extent(table, self.one.exchange, self.one.raw_symbol)]
        since = self.start - before
        return any(first is not None and first < self.end and last >= since for first, last in spans)

    def worth(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return events whose ``quote_amount`` is in USD."""
        assert self.rates is not None
        rows = events.with_columns(coins_before_usd=pl.col("amount"))
        usd = planned(worth_in_usd, rows, self.one.quote_coin, rates=nw.from_native(self.rates.lazy()))
        return usd.with_columns(quote_amount=pl.col("amount"), amount=pl.col("coins_before_usd")).drop(
            "coins_before_usd"
        )

    @property
    def block_size(self) -> Decimal:
        """Height of price rows."""
        if self.one.block_size is None:
            raise QueryError(
                "block_size",
                got=None,
                expected=f"a block size; none is registered for {self.one.exchange} {self.one.raw_symbol}",
            )
        return self.one.block_size


def in_usd(query: PointsQuery) -> bool:
    """Whether amounts are in USD: where that is asked for, and always in a group."""
    return query.quote is not None or query.group_by is not None


# --- trades ---------------------------------------------------------------------------------------------------------


def _trades(want: Want) -> pl.LazyFrame:
    # A trade lies in no interval: the window is cut where it was asked for.
    first, last = want.query.start * SECOND, want.query.end * SECOND
    trades = want.events("trades", start=first, end=last)
    if want.query.side:
        trades = trades.filter(pl.col("side") == str(want.query.side))
    if in_usd(want.query):
        trades = trades.with_columns(amount=pl.col("quote_amount"))
    return planned(aggregate.raw_trades.core, trades)


def candle_minutes(want: Want, *, by_side: bool = False, end: int | None = None) -> pl.LazyFrame:
    """Minutes of trades, whose ``quote_volume`` is in USD where that is asked for."""
    if want.needs_rates:
        return planned(aggregate.minute_candles.core, want.events("trades", end=end), by_side=by_side)
    return want.minutes("candles_1m" if by_side else "candles_of_both_1m", end=end)


def candles(want: Want) -> pl.LazyFrame:
    """Candles of markets, each of trades or of recorded candles, whichever tells it whole."""
    if not want.holds("candles"):
        return traded_candles(want)
    return _candles_of_both(want) if want.holds("trades") else recorded_candles(want)


def traded_candles(want: Want) -> pl.LazyFrame:
    """Candles made of trades."""
    return _of_interval(want, candle_minutes(want), by_side=False)


def _of_interval(want: Want, minutes_: pl.LazyFrame, *, by_side: bool) -> pl.LazyFrame:
    """Candles of the interval asked for; those of a minute are there already, but for what they count."""
    if want.interval is not Interval.MINUTE:
        core = aggregate.candles_of.core
        return planned(core, minutes_, interval=want.interval, by_side=by_side, amount=want.amount)
    if want.amount == "quote":
        minutes_ = minutes_.with_columns(volume=pl.col("quote_volume"))
    return minutes_.drop("quote_volume", "first_sequence", "last_sequence", "trades")


def _resampled(want: Want, points: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """Points of the interval asked for. Of one market, an unknown amount is null, and there is no coverage."""
    return planned(aggregate.resample.core, points, data_type=name, interval=want.interval).drop("coverage")


def recorded_candles(want: Want) -> pl.LazyFrame:
    """Candles made of recorded ones, the shortest that tell each time whole."""
    return _resampled(want, _tiles(want, want.start, want.end).drop("interval", "is_quiet"), _CANDLES)


def _candles_of_both(want: Want) -> pl.LazyFrame:
    """Candles of markets that have recorded candles and trades.

    A bucket that lies wholly inside of the trades is made of them. At its ends the trades are a part, and so they are
    where they have a hole: a recorded candle tells of trades and there are none. Such a bucket is made of recorded
    candles, and of trades in the minutes that no candle tells of.
    """
    step = want.interval.seconds * SECOND
    # What lies beside a bucket tells whether the trades go on: no choice depends on where the window ends.
    wide = replace(want, before=want.before + step)
    minutes_ = candle_minutes(wide, end=want.end + step).with_columns(interval=pl.lit(MINUTE))
    tiles = _tiles(want, wide.start, want.end + step)
    holes = covered(tiles.filter(~pl.col("is_quiet")), by=minutes_).filter(pl.col("covered") == 0)
    start, after = pl.col("timestamp"), pl.col("timestamp") + pl.col("interval")
    at = [*MARKET, "bucket"]
    holed = pl.concat(
        holes.select(*MARKET, bucket=_bucket(want, time), is_holed=pl.lit(value=True))
        for time in (start - 1, start, after)
    ).unique(at)
    within = pl.col("first").le(pl.col("bucket")) & pl.col("last").ge(pl.col("bucket") + (step - 1))
    asked = pl.col("bucket").is_between(want.start, want.end, closed="left")
    tiles = (
        tiles.with_columns(bucket=_bucket(want, start))
        .filter(asked)
        .join(want.extents("trades").lazy(), on=MARKET, how="left")
        .join(holed, on=at, how="left")
        .filter(~within.fill_null(value=False) | pl.col("is_holed").fill_null(value=False))
    )
    minutes_ = minutes_.with_columns(bucket=_bucket(want, start)).filter(asked)
    of_trades = minutes_.join(tiles, on=at, how="anti").drop("bucket", "interval")
    others = covered(minutes_.join(tiles, on=at, how="semi"), by=tiles).filter(pl.col("covered") == 0)
    if want.amount == "quote":
        others = others.with_columns(volume=pl.col("quote_volume"))
    columns = [*MARKET, "timestamp", "open", "high", "low", "close", "volume"]
    unknown = [pl.lit(None, pl.Int64).alias(f"{end}_timestamp") for end in ("first", "last")]
    of_candles = pl.concat([tiles.select(*columns, *unknown), others.select(*columns, *unknown)])
    parts = [_of_interval(want, of_trades, by_side=False), _resampled(want, of_candles, _CANDLES)]
    return pl.concat([part.select(*columns, "first_timestamp", "last_timestamp") for part in parts])


def _bucket(want: Want, time: pl.Expr) -> pl.Expr:
    """Start of the interval that a time lies in. [ns since the epoch]"""
    return time - (time - want.interval.offset * SECOND) % (want.interval.seconds * SECOND)


def _recorded(want: Want, start: int, end: int) -> pl.LazyFrame:
    """Return the recorded candles that start in a span, and whether each tells that nothing was traded."""
    recorded = want.lake.scan(
        "candles", exchange=want.one.exchange, raw_symbol=want.symbols, start=start, end=end
    )
    return recorded.with_columns(is_quiet=pl.coalesce("volume", "quote_volume").eq(0).fill_null(value=False))


def has_tiles(want: Want) -> bool:
    """Whether recorded candles that start in the window make up its interval."""
    makes_up = want.interval.seconds * SECOND % pl.col("interval") == 0
    rows = _recorded(want, want.start, want.end).filter(makes_up)
    return not rows.select("timestamp").head(1).collect(engine="streaming").is_empty()


def _tiles(want: Want, start: int, end: int) -> pl.LazyFrame:
    """Return the recorded candles of a span that make up the interval; none tells of the same time as another."""
    recorded = _recorded(want, start, end).filter(want.interval.seconds * SECOND % pl.col("interval") == 0)
    lengths = recorded.select(pl.col("interval").unique()).collect(engine="streaming")["interval"]
    if in_usd(want.query):
        recorded = recorded.rename({"volume": "amount", "quote_volume": "quote_amount"})
        recorded = want.worth(recorded.with_columns(price=pl.col("close"))) if want.needs_rates else recorded
        recorded = recorded.drop("amount", "price", strict=False).rename({"quote_amount": "volume"})
    unknown = pl.lit(None, pl.Int64)  # when the first and the last trade happened
    return tiled(recorded.with_columns(first_timestamp=unknown, last_timestamp=unknown), lengths)


def untold(want: Want) -> pl.DataFrame:
    """Return the recorded candles of a window that the points of its interval do not tell of.

    They do not make up the interval, neither trades nor shorter candles tell of the same time, and they are not quiet.
    """
    first, after = pl.col("timestamp"), pl.col("timestamp") + pl.col("interval")
    recorded = _recorded(want, want.start - _LONGEST_CANDLE, want.end).filter(after > want.start)
    makes_up = want.interval.seconds * SECOND % pl.col("interval") == 0
    unmet = met(recorded.filter(~makes_up, ~pl.col("is_quiet")), by=recorded.filter(makes_up))
    unmet = unmet.filter(~pl.col("met")).select(*MARKET, "timestamp", "interval")
    long = unmet.collect(engine="streaming")
    newest = want.extents("candles").select(*MARKET, newest="last")
    within = long.join(want.extents("trades"), on=MARKET).join(newest, on=MARKET)
    is_in_progress = (pl.col("newest") == first) & (pl.col("last") >= first)  # it may be, so may the trades
    within = within.filter(pl.col("first") <= first, (pl.col("last") >= after - 1) | is_in_progress)
    if within.is_empty():
        return long
    # Minutes are read from and to a whole one, whatever the candles of a mapped file start at.
    start, end = within.select(first.min() // MINUTE * MINUTE, end=-(-after.max() // MINUTE) * MINUTE).row(0)
    minutes_ = candle_minutes(replace(want, before=want.before + want.start - start), end=end)
    traded = met(within.lazy(), by=minutes_).filter(pl.col("met")).collect(engine="streaming")
    return long.join(traded, on=[*MARKET, "timestamp", "interval"], how="anti")


def untold_lengths(want: Want) -> list[int]:
    """Return the lengths of the recorded candles in a window that no point of the answer includes. [s]"""
    if not want.holds("candles", before=_LONGEST_CANDLE):
        return []
    return [one // SECOND for one in untold(want)["interval"].unique().sort()]


def _candles_by_side(want: Want) -> pl.LazyFrame:
    minutes_ = candle_minutes(want, by_side=True)
    if want.query.side:
        minutes_ = minutes_.filter(pl.col("side") == str(want.query.side))
    return _of_interval(want, minutes_, by_side=True)


def _profile_minutes(want: Want, *, end: int | None = None) -> pl.LazyFrame:
    size = want.block_size
    highest = candle_minutes(want, end=end).select(pl.col("high").abs().max()).collect(engine="streaming")
    _require_rows(highest.item(), size)
    if want.needs_rates:
        return planned(aggregate.minute_profile.core, want.events("trades", end=end), block_size=size)
    return want.minutes("profile_1m", block_size=size, end=end)


def _require_rows(highest: float | None, size: Decimal) -> None:
    if highest is not None and highest > _TOLD_APART * float(size):
        least = f"at least {highest / _TOLD_APART:.1g} at prices of {highest:g}"
        expected = f"{least}; rows below that cannot be told apart"
        raise QueryError("block_size", got=str(size), expected=expected)


def require_touched(wants: Sequence[Want]) -> None:
    """Refuse a block size at which the time blocks of market profiles touch more levels than one request may make.

    A time block touches each level between its lowest and its highest price. The minutes of candles are read for that.
    """
    touched = listed = 0
    for want in wants:
        query, size = want.query, float(want.block_size)
        block = (query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES) * 60 * SECOND
        if query.tpo_session is None:
            block = min(block, query.step * SECOND)
        minutes = candle_minutes(want, end=_end_of_sessions(want))
        levels = pl.col("levels")
        of_blocks = (
            minutes.group_by(pl.col("timestamp") // block, _session_of(want).alias("session"))
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
        most = MOST_ROWS - 2  # at its ends a time block may reach into two levels more
        if highest is not None and highest > most:
            expected = f"a size that cuts the range of every time block into at most {most:,} levels"
            raise QueryError(
                "block_size", got=str(want.block_size), expected=expected, hint=f"one has {highest:,.0f}"
            )
        if touched > want.limits.touched:
            raise QueryError(
                "block_size",
                got=str(want.block_size),
                expected=f"a size at which the time blocks touch at most {want.limits.touched:,} levels together",
                hint=f"at this size they touch {touched:,}; a shorter window has fewer, too",
            )
        if not want.lists_once and listed > want.limits.listed:
            raise QueryError(
                "block_size",
                got=str(want.block_size),
                expected="a size at which the lists of single prints, one for each level, have at most "
                f"{want.limits.listed:,} prices together",
                hint=f"at this size they may have {listed:,.0f}; a quarter of that with blocks twice as high; JSON has "
                "each list once",
            )


def _session_of(want: Want) -> pl.Expr:
    """Return what tells the sessions of minutes apart."""
    session, time = want.query.tpo_session, pl.col("timestamp")
    if session is TPOSession.MONTHLY:
        return pl.from_epoch(time, "ns").dt.truncate("1mo")
    length = {TPOSession.DAILY: Interval.DAY, TPOSession.WEEKLY: Interval.WEEK}.get(session, want.interval)  # type: ignore[arg-type]  # None is no key
    return (time - length.offset * SECOND) // (length.seconds * SECOND)


def _end_of_sessions(want: Want) -> int:
    """Return the end of the last session that starts in the window."""
    session = want.query.tpo_session
    return want.end if session is None else want.end + _LONGEST_SESSION[session]


def _volume_profile(want: Want) -> pl.LazyFrame:
    core, minutes_ = aggregate.profile_of.core, _profile_minutes(want)
    return planned(core, minutes_, interval=want.interval, block_size=want.block_size, amount=want.amount)


def _tpo(want: Want) -> pl.LazyFrame:
    return tpo_of_members([want], united=False)


def tpo_of_members(wants: Sequence[Want], *, united: bool = True) -> pl.LazyFrame:
    """Market profile of one subject, or one of all the members of a group: their blocks united, volumes summed."""
    query, first = wants[0].query, wants[0]
    session = query.tpo_session
    end = _end_of_sessions(first)
    minutes = pl.concat([candle_minutes(want, end=end) for want in wants])
    rows = pl.concat([_profile_minutes(want, end=end) for want in wants])
    minutes_of_block = query.tpo_block_minutes or DEFAULT_TPO_BLOCK_MINUTES
    cut = Cut.of(first.interval, first.block_size, session, minutes_of_block)
    inside = pl.col("timestamp").is_between(first.start, first.end, closed="left")
    made = tpo_of_minutes(nw.from_native(minutes), nw.from_native(rows), cut, first.amount, united=united)
    levels: pl.LazyFrame = made[0].to_native().filter(inside)
    touches: pl.LazyFrame = made[1].to_native().filter(inside)
    profile = ["exchange", "raw_symbol", "timestamp"]
    blocks = touches.group_by(*profile, "price").agg(block_ids=pl.col("block_id").sort().cast(pl.Int32))
    lists = levels.group_by(profile).agg(
        *(pl.col("price").filter(pl.col(flag)).sort().alias(name) for flag, name in _TPO_LISTS.items()),
        pl.col("price").min(),
    )
    # On every level the lists take as much as the square of the levels: no two rows of a column share a list.
    whole = levels.join(blocks, on=[*profile, "price"])
    if first.lists_once:
        whole = whole.join(lists, on=[*profile, "price"], how="left")
    else:
        whole = whole.join(lists.drop("price"), on=profile)
    return whole.drop(*_TPO_LISTS, "is_in_progress")


_TPO_LISTS = {"is_poor_high": "poor_highs", "is_poor_low": "poor_lows", "is_single_print": "single_prints"}


# --- what is not traded ---------------------------------------------------------------------------------------------


def _open_interest(want: Want) -> pl.LazyFrame:
    points = _resampled(want, want.minutes("open_interest_1m"), "OPEN_INTEREST_AGG")
    if not in_usd(want.query):
        return points
    worth = nw.from_native(want.rates.lazy()) if want.rates is not None else None
    prices = nw.from_native(_closes(want))
    return planned(worth_in_usd, points, want.one.quote_coin, "OPEN_INTEREST_AGG", worth, prices)


def _closes(want: Want) -> pl.LazyFrame:
    """Closes of the window, and the last one before it."""
    # A price is the same in every unit of amounts, so what a quote is worth need not be known.
    query = want.query.model_copy(update={"quote": None, "group_by": None})
    closes = candles(replace(want, query=query))
    columns = ["exchange", "raw_symbol", "timestamp", "close"]
    before = last_closes(want.lake, [want.one], want.interval, before=want.start, sides=())
    parts = [closes.select(columns)]
    if before is not None:
        parts.append(before.lazy().select(columns))
    return pl.concat(parts)


def _funding(want: Want) -> pl.LazyFrame:
    points = _resampled(want, want.minutes("funding_1m"), "FUNDING_RATE_AGG")
    asked = want.query.funding_interval or DEFAULT_FUNDING_INTERVAL_MS
    rate = [name for name in schema_of("FUNDING_RATE_AGG").names if name.startswith(("rate_", "predicted_"))]
    return points.with_columns(pl.col(rate) * (asked / DEFAULT_FUNDING_INTERVAL_MS))


def _liquidations(want: Want) -> pl.LazyFrame:
    if want.needs_rates:
        events = want.events("liquidations").with_columns(amount=pl.col("quote_amount"))
        found = planned(aggregate.liquidations.core, events, interval=want.interval)
    else:
        name = "quote_liquidations" if in_usd(want.query) else "liquidations"
        made = want.minutes("liquidations_1m").with_columns(liquidations=pl.col(name))
        found = _resampled(want, made.drop("quote_liquidations"), "LIQUIDATION_AGG")
    return found.filter(pl.col("side") == str(want.query.side)) if want.query.side else found


def _book(want: Want) -> pl.LazyFrame:
    made = want.minutes("book_1m", block_size=want.block_size)
    if want.needs_rates:
        made = want.worth(made.rename({"size": "amount", "quote_size": "quote_amount"})).rename(
            {"amount": "size", "quote_amount": "quote_size"}
        )
    return planned(
        aggregate.book_of.core,
        made,
        interval=want.interval,
        block_size=want.block_size,
        amount=want.amount,
        # Which levels of a group are closest is known when it is summed.
        max_depth=None if want.query.group_by else want.query.max_depth,
        in_progress=want.lake.extent("book", want.one.exchange, want.one.raw_symbol)[1],
    )


# --- options, tokens and heatmaps -----------------------------------------------------------------------------------


def _quotes(want: Want) -> pl.LazyFrame:
    quotes = want.lake.scan("option_quotes", exchange=want.one.exchange, start=want.start, end=want.end)
    return quotes.filter(pl.col("coin") == want.one.coin)


def _implied_volatility(want: Want) -> pl.LazyFrame:
    return _of_tenor(want, planned(aggregate.implied_volatility.core, _quotes(want), interval=want.interval))


def _skew(want: Want) -> pl.LazyFrame:
    return _of_tenor(want, planned(aggregate.skew.core, _quotes(want), interval=want.interval))


def _of_tenor(want: Want, points: pl.LazyFrame) -> pl.LazyFrame:
    kept = points.filter(pl.col("raw_symbol") == want.one.raw_symbol)
    return kept.filter(pl.col("tenor") == str(want.query.tenor)) if want.query.tenor else kept


def _option_open_interest(want: Want) -> pl.LazyFrame:
    # A report counts for 24 hours, so those before the window do.
    earlier = Want(want.lake, want.one, want.query, before=want.before + DAY)
    points = planned(aggregate.option_open_interest.core, _quotes(earlier), interval=want.interval)
    return points.filter(pl.col("timestamp") >= want.start)


def _cme_open_interest(want: Want) -> pl.LazyFrame:
    return planned(aggregate.cme_open_interest.core, want.events("cme_open_interest"), interval=want.interval)


def _token_supply(want: Want) -> pl.LazyFrame:
    # Dominance is a share of all tokens, each with what it last reported.
    reports = want.lake.scan("token_supply", start=want.start - DAY, end=want.end)
    points = planned(aggregate.token_supply.core, reports, interval=want.interval)
    mine = points.filter(pl.col("token_name") == want.one.raw_symbol, pl.col("timestamp") >= want.start)
    return mine.drop("token_name")


def _liquidation_heatmap(want: Want) -> pl.LazyFrame:
    events = want.lake.scan("liquidations", exchange=want.one.exchange, start=want.start, end=want.end)
    members = pl.LazyFrame({"raw_symbol": want.one.members}, schema={"raw_symbol": pl.String})
    events = events.join(members, on="raw_symbol").with_columns(coin=pl.lit(want.one.coin))
    if in_usd(want.query):
        if want.needs_rates:
            events = want.worth(events)
        events = events.with_columns(amount=pl.col("quote_amount"))
    size = want.block_size
    _require_rows(events.select(pl.col("price").abs().max()).collect().item(), size)
    levels = planned(aggregate.liquidation_heatmap.core, events, interval=want.interval, block_size=size)
    if want.query.max_depth is None:
        return levels
    # The levels that most was liquidated on; of equals the lower ones.
    heaviest = pl.struct(-pl.col("liquidations"), "price").rank("ordinal").over("timestamp")
    return levels.filter(heaviest <= want.query.max_depth)


Plan = Callable[[Want], pl.LazyFrame]

PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        "TRADE": _trades,
        "TRADE_SIDE_AGNOSTIC_AGG": candles,
        "TRADE_AGG": _candles_by_side,
        "OPEN_INTEREST_AGG": _open_interest,
        "FUNDING_RATE_AGG": _funding,
        "LIQUIDATION_AGG": _liquidations,
        "VOLUME_PROFILE_AGG": _volume_profile,
        "TPO_AGG": _tpo,
        "BLOCK_BOOK_SNAPSHOT_AGG": _book,
        "VENUEX_LIQUIDATION_AGG": _liquidation_heatmap,
        "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": _implied_volatility,
        "SKEW_OPTION_SUMMARY_AGG": _skew,
        "TOKEN_SUPPLY_AGG": _token_supply,
        "CME_OPEN_INTEREST_AGG": _cme_open_interest,
        "OPTION_OPEN_INTEREST_AGG": _option_open_interest,
    }
)
"""How each data type is answered."""

SOURCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "TRADE": ("trades",),
        "TRADE_SIDE_AGNOSTIC_AGG": ("trades", "candles"),
        "TRADE_AGG": ("trades",),
        "OPEN_INTEREST_AGG": ("open_interest",),
        "FUNDING_RATE_AGG": ("funding",),
        "LIQUIDATION_AGG": ("liquidations",),
        "VOLUME_PROFILE_AGG": ("trades",),
        "TPO_AGG": ("trades",),
        "BLOCK_BOOK_SNAPSHOT_AGG": ("book",),
        "VENUEX_LIQUIDATION_AGG": ("liquidations",),
        "CME_OPEN_INTEREST_AGG": ("cme_open_interest",),
    }
)
"""The raw tables of each data type that is of single markets: it is answered of a market that is in any of them."""
