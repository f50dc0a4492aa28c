"""The section about options: at what volatility they trade, by strike and by time to expiry."""

from __future__ import annotations

import polars as pl

from tidytape.analytics import options
from tidytape.report._answers import Answers
from tidytape.report._overview import name_of
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Section
from tidytape.report._table import Shown, table

__all__ = ["chains"]


def chains(answers: Answers, timezone: str) -> Section | None:
    """Return smile and term structure of the newest chain on the tape."""
    quotes = answers.events("option_quotes")
    if quotes is None:
        return None
    frame, entries = quotes
    coin = frame["coin"].mode().sort()[0]
    chain = frame.filter(pl.col("coin") == coin, pl.col("timestamp") == pl.col("timestamp").max())
    points = options.butterfly(options.risk_reversal(options.delta_points(chain)))
    fits = options.svi(chain)
    at = max(chain["timestamp"])

    smile = Plot.of("smile", chain, curves=fits, x="deviation")
    structure = Plot.of("term_structure", options.term_structure(points), timezone=timezone)
    summaries = answers.points("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG")
    skews = answers.points("SKEW_OPTION_SUMMARY_AGG")
    through_time: list[Picture] = []
    if summaries is not None:
        entries += summaries.entries
        volatility = Plot.of("volatility", summaries.of(**summaries.largest), timezone=timezone)
        text = f"{name_of(summaries.largest)}: volatility by tenor."
        through_time.append(Picture.of(text, 3.6, volatility))
    if skews is not None:
        entries += skews.entries
        symbols = skews.frame.filter(coin=skews.coin)["raw_symbol"].cast(pl.String).unique().sort()
        usual = [symbol for symbol in symbols if symbol.endswith("25")]  # delta
        market = skews.largest | {"raw_symbol": (usual or symbols)[0]}
        text = f"{name_of(market)}: skew by tenor, the volatility of the put less that of the call."
        through_time.append(Picture.of(text, 3.6, Plot.of("skew", skews.of(**market), timezone=timezone)))
    return Section(
        reading="A negative risk reversal means that puts cost more than calls: traders pay for protection. "
        "A term structure that falls means that the market expects higher volatility soon than later.",
        rule="Volatilities are in percent per year. Points at 25 delta are interpolated between the quotes of an "
        "expiry; nothing is extrapolated. The risk reversal is the call less the put, the butterfly the mean of both "
        "less the money. Curves are raw SVI fits.",
        parts=[
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
                    "rr25_call_minus_put": Shown("Risk reversal", "points", "%"),
                    "bf25": Shown("Butterfly", "points", "%"),
                },
                f"One row per expiry of {coin}.",
            ),
            *through_time,
        ],
        entries=entries,
    )
