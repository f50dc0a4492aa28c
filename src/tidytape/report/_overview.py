"""The first section: how the price of every market moved."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from tidytape.analytics import cross, quality
from tidytape.catalogue import Interval
from tidytape.report._answers import MARKET, Answers, Points
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Section
from tidytape.report._table import Shown, table

_TRADED = ["SPOT", "PERPETUAL"]  # categories of markets whose price is the price of the coin
_FEWEST_RETURNS = 20  # the standard deviation of fewer returns says little


def overview(answers: Answers, timezone: str) -> Section | None:
    """Return candles of the largest market, and one row per market."""
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    if candles is None:
        return None
    largest, coin = candles.largest, candles.coin
    coin_candles = candles.frame.filter(pl.col("coin") == coin, pl.col("category").is_in(_TRADED))

    is_only_market = candles.frame.select(MARKET).n_unique() == 1
    market_text = name_of(largest) + ("" if is_only_market else f", the market of {coin} that traded most,")
    text = f"{market_text} in candles of {candles.interval}."
    picture = Picture.of(text, 4.4, Plot.of("candles", candles.of(**largest), timezone=timezone))
    return Section(
        reading="Compare the change of a market with its usual move: a change within 1 σ is common, one beyond 2 σ is "
        "rare.",
        rule=f"Candles of {candles.interval}. Change is the last close over the first open, minus 1. σ is the standard "
        "deviation of the log returns from each close to the next, times the square root of their number. A gap is no "
        "return, nor is a night in which the market is closed. Volatility is σ per year of 365 days, if the whole year "
        "has as many returns per day as the window; of a window that is longer than the data of a market, only the "
        "days from that of its first candle to that of its last one count. Held is the share of the intervals with a "
        "candle, from the first to the last candle of all markets; a market that closes at night holds fewer.",
        parts=[
            picture,
            table(
                _summary(candles),
                {
                    "exchange": Shown("Exchange"),
                    "raw_symbol": Shown("Symbol"),
                    "open": Shown("First", "number"),
                    "close": Shown("Last", "number"),
                    "change": Shown("Change", "percent"),
                    "moves": Shown("Change", "points", "σ"),
                    "low": Shown("Low", "number"),
                    "high": Shown("High", "number"),
                    "volume": Shown("Volume", "amount", candles.unit),
                    "realized_volatility": Shown("Volatility", "points", "% per year"),
                    "completeness": Shown("Held", "percent"),
                },
                "One row per market. Prices are in the quote of the market.",
            ),
            *(_across(candles, coin_candles, timezone) if coin_candles.select(MARKET).n_unique() > 1 else []),
        ],
        entries=candles.entries,
    )


def _across(candles: Points, coin_candles: pl.DataFrame, timezone: str) -> list[Picture]:
    """Return pictures that compare the markets of one coin: their premiums and their shares in the volume."""
    amounts = coin_candles.with_columns(candles.turnover.alias("volume"))
    if candles.length < timedelta(hours=1):  # shares of minutes are noise
        hour = pl.col("timestamp").dt.truncate("1h"), pl.lit(Interval.HOUR.value).alias("interval")
        amounts = amounts.group_by(*MARKET, "coin", *hour, maintain_order=True).agg(pl.col("volume").sum())
    shares = cross.market_share(amounts, amount="volume")
    premiums = Plot.of("premium", cross.premium(coin_candles), timezone=timezone)
    market_shares = Plot.of("market_share", shares, amount="volume in the quote", timezone=timezone)
    return [
        Picture.of(
            f"How much dearer {candles.coin} is on each exchange than the median of all.", 3.6, premiums
        ),
        Picture.of(f"Shares in the traded volume of {candles.coin}.", 3.6, market_shares),
    ]


def name_of(market: dict[str, str]) -> str:
    """Return the name of a market: exchange and symbol, without those that are null."""
    return " ".join(filter(None, market.values()))


def _usual_moves(candles: Points) -> pl.DataFrame:
    r"""Return for each market its usual move over the window: the standard deviation of n log returns, times √n.

    A gap gives no return. `tidytape.analytics.options.realized_volatility` gives null for a window with a gap, so it
    would never give a volatility for a market that closes at night.
    """
    previous = pl.col("timestamp", "close").shift().over(MARKET).name.prefix("previous_")
    has_no_gap = pl.col("timestamp") - pl.col("previous_timestamp") == candles.length
    returns = (pl.col("close") / pl.col("previous_close")).log()
    return (
        candles.frame.with_columns(previous)
        .filter(has_no_gap, pl.col("close") > 0, pl.col("previous_close") > 0)
        .group_by(MARKET, maintain_order=True)
        .agg(usual_move=returns.std() * returns.len().sqrt(), returns=pl.len())
        .filter(pl.col("returns") >= _FEWEST_RETURNS)
    )


def _summary(candles: Points) -> pl.DataFrame:
    frame = candles.frame
    first, last = candles.window
    completeness = quality.completeness(frame, start=first, end=last + candles.length)
    has_change = (pl.col("open") > 0) & (pl.col("close") > 0)
    # A market may be closed at either end of the window, so the time from its first candle to its last is too short.
    start, end = candles.query_window
    until = (
        (pl.col("timestamp").max() + candles.length).dt.offset_by("1d").dt.offset_by("-1ns").dt.truncate("1d")
    )
    first_candle = pl.col("timestamp").min()
    since = pl.max_horizontal(first_candle.dt.truncate("1d"), start)
    # The window cuts off the return of a candle that begins with it.
    cut_off = pl.when(first_candle == since).then(pl.lit(candles.length)).otherwise(pl.lit(timedelta()))
    years = (pl.min_horizontal(until, end) - since - cut_off) / timedelta(days=365)
    return (
        frame.group_by(MARKET, maintain_order=True)
        .agg(
            pl.col("open").first(),
            pl.col("close").last(),
            pl.col("low").min(),
            pl.col("high").max(),
            pl.col("volume").sum(),
            years=years,
        )
        # From a price of 0 there is no relative change; prices that never move have no usual move to compare with.
        .with_columns(change=pl.when(has_change).then(pl.col("close") / pl.col("open") - 1))
        .join(completeness.select(*MARKET, "completeness"), on=MARKET, how="left")
        .join(_usual_moves(candles), on=MARKET, how="left")
        .with_columns(
            realized_volatility=pl.col("usual_move") / pl.col("years").sqrt() * 100,
            moves=pl.when(pl.col("usual_move") > 0).then(pl.col("change").log1p() / pl.col("usual_move")),
        )
        .sort(MARKET)
    )
