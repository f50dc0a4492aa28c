"""What the options of a query need from the lake: worth of quotes, closes before the window, names of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import USD_QUOTES, Interval
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.times import DAY, HOUR, MINUTE

__all__ = ["Instrument", "Subjects", "grouped", "last_closes", "quote_markets", "rates"]

_GROWTH = 4  # of the spans in which a last trade is looked for


@dataclass(frozen=True, slots=True)
class Instrument:
    """One market of the lake, as the engine needs it; in a group under the names that all of its members share.

    What is no market stands for one: an option summary by its symbol, a token by its name, all markets of a coin on one
    venue by the coin, with their symbols as ``members``. Where it has no venue or symbol, these are empty.
    """

    exchange: str
    raw_symbol: str
    normalized_symbol: str | None
    coin: str | None
    category: str | None
    block_size: Decimal | None
    quote_coin: str | None = None
    available_since: int | None = None
    registered_block_size: Decimal | None = None
    members: tuple[str, ...] = ()

    def named(self, interval: Interval) -> list[pl.Expr]:
        """The columns that name its series beside venue, symbol and side."""
        names = {
            "normalized_symbol": self.normalized_symbol,
            "coin": self.coin,
            "category": self.category,
            "interval": str(interval),
        }
        return [pl.lit(value, dtype=pl.String).alias(name) for name, value in names.items()]


Subjects = Mapping[str, list[Instrument]]
"""What a query selects, by data type."""


def grouped(instruments: list[Instrument]) -> list[Instrument]:
    """Return the members of groups, one group per coin, on one price grid and under the names they share.

    The grid is the coarsest of the group's members, so that levels of one price are levels of one height.

    Raises
    ------
    QueryError
        If nobody knows whether members are of one coin, or the prices of a group are not all in one quote, or in quotes
        that count as USD: they could not be compared.
    """
    members: dict[str | None, list[Instrument]] = {}
    for one in instruments:
        members.setdefault(one.coin, []).append(one)
    for coin, group in members.items():
        if coin is None and len(group) > 1:
            raise QueryError(
                "group_by",
                got=", ".join(sorted(one.raw_symbol for one in group)),
                expected="markets whose coin is known",
                hint="ingest their files again with normalized_symbol",
                code="UNSUPPORTED",
            )
        quotes = {"USD" if one.quote_coin in USD_QUOTES else str(one.quote_coin) for one in group}
        if len(quotes) > 1:
            raise QueryError(
                "group_by",
                got=f"markets of {coin} in " + ", ".join(sorted({str(one.quote_coin) for one in group})),
                expected="markets priced in one currency, or in some that all count as USD",
                hint="select them with normalizedSymbol",
                code="UNSUPPORTED",
            )
    return [
        replace(
            one,
            normalized_symbol=_shared(other.normalized_symbol for other in members[one.coin]),
            category=_shared(other.category for other in members[one.coin]),
            block_size=max((size for other in members[one.coin] if (size := other.block_size)), default=None),
        )
        for one in instruments
    ]


def _shared(names: Iterable[str | None]) -> str | None:
    found = set(names)
    return found.pop() if len(found) == 1 else None


def rates(lake: Lake, quote: str | None, *, start: int, end: int, before: int = 0) -> pl.DataFrame | None:
    """Return what one of a quote is worth over a window, and as far as known so long before it; None if it is one USD.

    The lake's own rates, and without any the minute closes of the first market, by venue and symbol, that traded the
    quote for USD before the window; of those, the day before the window too.

    Raises
    ------
    QueryError
        If the quote is not known, or its worth at the start of the window.
    """
    if quote in USD_QUOTES:
        return None
    if quote is None:
        raise QueryError(
            "quote",
            got=None,
            expected="markets with names; ingest their files again with normalized_symbol",
            code="UNSUPPORTED",
        )
    reported = lake.scan("quote_rates", end=end).filter(pl.col("quote_coin") == quote)
    found = reported.select("quote_coin", "timestamp", "usd").collect()
    for market in () if found.height else quote_markets(lake, quote):
        found = _closes(lake, market, start=start - before - DAY, end=end).select(
            pl.lit(quote).alias("quote_coin"),
            pl.col("timestamp") + MINUTE,  # a close is known when its minute is over
            pl.col("close").alias("usd"),
        )
        if _is_known(found, start):
            break
    if not _is_known(found, start):
        raise QueryError(
            "quote",
            got=quote,
            expected="one that counts as USD, or whose worth the lake knows when the window begins",
            code="UNSUPPORTED",
        )
    return found


def _is_known(rates: pl.DataFrame, start: int) -> bool:
    return not rates.filter(pl.col("timestamp") <= start).is_empty()


def quote_markets(lake: Lake, quote: str) -> Iterable[tuple[str, str]]:
    """Return the markets that trade a quote for US dollars, by exchange and symbol."""
    markets = lake.markets().filter(pl.col("coin") == quote, pl.col("quote_coin").is_in(USD_QUOTES))
    return markets.select("exchange", "raw_symbol").iter_rows()


def _closes(lake: Lake, market: tuple[str, str], *, start: int, end: int) -> pl.DataFrame:
    exchange, symbol = market
    trades = lake.scan("trades", exchange=exchange, raw_symbol=symbol, start=start, end=end)
    return aggregate.candles(trades, interval="1m").collect(engine="streaming")


def last_closes(
    lake: Lake, instruments: list[Instrument], interval: Interval, *, before: int, sides: tuple[str, ...]
) -> pl.DataFrame | None:
    """Return the last candle of each market before a time, of each of the sides or, without any, of both together.

    It is looked for in spans that grow the further back they lie, down to the market's first trade: the work grows with
    how long ago the last trade was, not with all that happened before. A recorded candle counts where it is newer;
    it has no side.

    Returns
    -------
    polars.DataFrame or None, one row per market, and side if asked for, that traded; in the order of the last trades
        A candle of that trade's time alone, with the columns that name its series. Of a group, the last row of a series
        is its last close.
    """
    found = [
        candle.with_columns(*one.named(interval))
        for one in instruments
        for candle in _last_candles(lake, one, before, sides)
    ]
    # Members that traded at the same time are ordered as `aggregate.group` orders them.
    return (
        pl.concat(found, how="diagonal").sort("last_timestamp", "exchange", "raw_symbol") if found else None
    )


def _last_candles(lake: Lake, one: Instrument, before: int, sides: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    trades = list(_last_trades(lake, one, before, sides))
    if sides:  # a recorded candle has none
        yield from trades
        return
    time = max((trade["last_timestamp"].item() for trade in trades), default=None)
    recorded = _last_recorded(lake, one, before, after=time)
    yield from trades if recorded is None else [recorded]


def _last_trades(lake: Lake, one: Instrument, before: int, sides: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    wanted = set(sides) or {""}
    floor, _ = lake.extent("trades", one.exchange, one.raw_symbol)
    high, span = before, HOUR
    while floor is not None and wanted and high > floor:
        low = max(floor, high - span)
        trades = lake.scan("trades", exchange=one.exchange, raw_symbol=one.raw_symbol, start=low, end=high)
        if not sides:
            trades = trades.with_columns(side=pl.lit(""))
        times = trades.group_by("side").agg(pl.col("timestamp").max()).collect(engine="streaming")
        for side, time in times.select("side", "timestamp").iter_rows():
            if side in wanted:
                wanted.discard(side)
                last = trades.filter(pl.col("timestamp") == time, pl.col("side") == side)
                yield aggregate.candles(last, interval="1m", by_side=bool(sides)).collect()
        high, span = low, span * _GROWTH


def _last_recorded(lake: Lake, one: Instrument, before: int, *, after: int | None) -> pl.DataFrame | None:
    """Return the last recorded candle that was over by then; None where the trade of a time ``after`` is newer.

    A candle that lies wholly inside of a market's trades is newer than a trade where it starts after it, any other one
    where it ends after it.
    """
    start, end = pl.col("timestamp"), pl.col("timestamp") + pl.col("interval")
    since = None if after is None else after - 7 * DAY  # no candle is longer
    market = {"exchange": one.exchange, "raw_symbol": one.raw_symbol}
    over = lake.scan("candles", **market, start=since, end=before).filter(end <= before)
    if after is not None:
        first, last = lake.extent("trades", one.exchange, one.raw_symbol)
        within = (start >= first) & (end - 1 <= last)
        is_traded = pl.coalesce("volume", "quote_volume").ne_missing(0.0)
        over = over.filter(pl.when(within).then((start > after) & is_traded).otherwise(end - 1 > after))
    newest = over.with_columns(last_timestamp=end - 1).bottom_k(1, by=-pl.col("last_timestamp"))
    found = newest.select("exchange", "raw_symbol", "timestamp", "close", "last_timestamp").collect()
    return found if found.height else None
