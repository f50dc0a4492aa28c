"""The section about options: volatility by strike, by time to expiry and over time."""

from __future__ import annotations

from typing import Any

import polars as pl

from tidytape.analytics import options
from tidytape.catalogue import Tenor
from tidytape.report._answers import MARKET, Answers, Points
from tidytape.report._overview import name_of
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import ReportTable, Section
from tidytape.report._table import Shown, table

USUAL_DELTA = "25"
"""Delta of the skew that the report shows, at which the symbols end, if there are such symbols. [%]"""

_CHAIN = ("timestamp", "coin", "expiry", "strike", "option_type", "forward", "implied_volatility")


def chains(answers: Answers, timezone: str) -> Section | None:
    """Return the newest chain on the tape, and the service's summaries of volatility and of skew over time.

    A client of a service has only the summaries, because chains are raw events of a lake.
    """
    quotes = answers.events("option_quotes", _CHAIN)
    volatilities = answers.points("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG")
    skews = answers.points("SKEW_OPTION_SUMMARY_AGG")
    if quotes is None and volatilities is None and skews is None:
        return None
    section = Section(
        reading="A negative risk reversal, or a positive skew, means that puts cost more than calls: traders pay for "
        "protection. A term structure that falls means that the market expects higher volatility soon than later.",
        rule="Volatilities are in percent per year. Skew is the volatility of the put minus that of the call.",
    )
    if quotes is not None:
        section.entries += quotes[1]
        section.parts += _chain(quotes[0], timezone)
        section.rule += (
            " The risk reversal is the volatility of the call minus that of the put. The butterfly is the mean of both "
            "minus the volatility at the money. Points at 25 delta are interpolated between the quotes of an expiry; "
            "nothing is extrapolated. Curves are raw SVI fits."
        )
    elif volatilities is not None:
        newest = options.tenor_structure(
            volatilities.of(**volatilities.largest), at=volatilities.frame["timestamp"].max()
        )
        plot = Plot.of("term_structure", newest, timezone=timezone)
        text = f"{name_of(volatilities.largest)}: the newest volatility by tenor."
        section.parts.append(Picture.of(text, 3.6, plot))
    if volatilities is not None:
        section.entries += volatilities.entries
        section.parts += _over_time(volatilities, volatilities.largest, "implied_volatility", timezone)
    if skews is not None:
        section.entries += skews.entries
        market = skews.largest
        same_exchange = skews.of_coin.filter(pl.col("exchange").eq_missing(pl.lit(market["exchange"])))
        symbols = same_exchange["raw_symbol"].cast(pl.String).drop_nulls().unique().sort()
        usual_symbols = [symbol for symbol in symbols if symbol.endswith(USUAL_DELTA)]
        if usual_symbols:
            market |= {"raw_symbol": usual_symbols[0]}
        section.parts += _over_time(skews, market, "skew", timezone)
    return section


def _chain(quotes: pl.DataFrame, timezone: str) -> list[Picture | ReportTable]:
    """Return the smile, the term structure and the points at 25 delta of the newest chain of the main coin."""
    coins = quotes["coin"].drop_nulls().mode().sort()
    coin = str(coins.first()) if coins.len() else ""
    coin_quotes = quotes.filter(coin=coin) if coin else quotes
    exchanges = coin_quotes["exchange"].drop_nulls().mode().sort()
    if exchanges.len():  # a smile shows one exchange: take the one with the most quotes
        coin_quotes = coin_quotes.filter(pl.col("exchange") == exchanges.first())
    chain = _newest(coin_quotes)
    points = options.butterfly(options.risk_reversal(options.delta_points(chain)))
    at = max(chain["timestamp"])

    smile = Plot.of("smile", chain, curves=options.svi(chain), x="deviation")
    structure = Plot.of("term_structure", options.term_structure(points), timezone=timezone)
    return [
        Picture.of(
            f"Volatility by strike of {coin} at {at:%Y-%m-%d %H:%M} UTC, a colour per expiry.", 4.4, smile
        ),
        Picture.of(f"Volatility at the money of {coin} by days to expiry.", 3.6, structure),
        table(
            points.sort("days"),
            {
                "expiry": Shown("Expiry", "date"),
                "days": Shown("Days", "amount"),
                "forward": Shown("Forward", "number", "quote per coin"),
                "iv_atm": Shown("At the money", "points", "%"),
                "iv_25p": Shown("25-delta put", "points", "%"),
                "iv_25c": Shown("25-delta call", "points", "%"),
                "rr25_call_minus_put": Shown("Risk reversal", "points", "vol points"),
                "bf25": Shown("Butterfly", "points", "vol points"),
            },
            f"One row per expiry of {coin}.",
        ),
    ]


def _newest(quotes: pl.DataFrame) -> pl.DataFrame:
    """Return the newest chain: the quotes of the last time or, if quotes come one by one, the last of each option."""
    quotes = quotes.drop_nulls("timestamp")
    last = pl.col("timestamp").max()
    newest = quotes.filter(pl.col("timestamp") == last)
    last_quotes = (
        quotes.filter(pl.col("expiry") > last)
        .sort("timestamp")
        .unique(["expiry", "strike", "option_type"], keep="last", maintain_order=True)
    )
    if newest.height >= last_quotes.height / 2:
        return newest
    return last_quotes.with_columns(timestamp=quotes["timestamp"].max())


def _over_time(
    points: Points, market: dict[str, Any], value: str, timezone: str
) -> list[Picture | ReportTable]:
    """Return a picture of a value over time with a line per tenor, and a table with a row per tenor."""
    rows = points.of(**market)
    name, unit = ("volatility", "%") if value == "implied_volatility" else ("skew", "vol points")
    plot = Plot.of(name, rows, timezone=timezone)
    by_tenor = (
        options.tenor_structure(rows)
        .group_by(*MARKET, "tenor", "days", maintain_order=True)
        .agg(
            first=pl.col(value).drop_nulls().first(),
            last=pl.col(value).drop_nulls().last(),
            lowest=pl.col(value).min(),
            highest=pl.col(value).max(),
        )
        .with_columns(
            pl.col("tenor").cast(pl.String).replace({tenor.value: tenor.alias for tenor in Tenor}),
            change=pl.col("last") - pl.col("first"),
        )
        .sort("days", "tenor")
    )
    return [
        Picture.of(f"{name_of(market)}: {name} over time, a line per tenor.", 3.6, plot),
        table(
            by_tenor,
            {
                "tenor": Shown("Tenor"),
                "days": Shown("Days", "count"),
                "last": Shown("Last", "points", unit),
                "change": Shown("Change", "points", "vol points"),
                "lowest": Shown("Lowest", "points", unit),
                "highest": Shown("Highest", "points", unit),
            },
            f"One row per tenor of {name_of(market)}. The change is the last value minus the first of the window.",
        ),
    ]
