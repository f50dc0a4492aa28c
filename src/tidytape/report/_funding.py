"""The section about funding rates, and their mean by open interest."""

from __future__ import annotations

import polars as pl

from tidytape.analytics import funding
from tidytape.report._answers import MARKET, Answers, Points
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Section
from tidytape.report._table import Shown, table

# The service converts rates to this funding interval unless a query asks for another one.
_DEFAULT_INTERVAL = "8h"


def fundings(answers: Answers, timezone: str) -> Section | None:
    """Return funding rates per year, and their mean by open interest."""
    rates, open_interest = answers.points("FUNDING_RATE_AGG"), answers.points("OPEN_INTEREST_AGG")
    if rates is None:
        return None
    coin = rates.coin
    weights = None if open_interest is None else open_interest.frame.filter(coin=coin)
    funding_interval = _interval(rates)

    plot = Plot.of(
        "funding", rates.of_coin, open_interest=weights, funding_interval=funding_interval, timezone=timezone
    )
    return Section(
        reading="A positive rate means that longs pay shorts. A trader who is short on the exchange with the highest "
        "rate and long on the one with the lowest earns the difference, before costs.",
        rule="Rates per year are simple: the rate times the number of its "
        "funding intervals in 365 days. The mean of all markets is "
        "weighted by open interest, and covers the share of open interest that has a rate at that time.",
        parts=[
            Picture.of(f"Funding of {coin} per year: settled rates solid, predicted ones dashed.", 4.0, plot),
            table(
                _summary(rates, open_interest),
                {
                    "exchange": Shown("Exchange"),
                    "raw_symbol": Shown("Symbol"),
                    "last": Shown("Last rate", "percent", "per year"),
                    "predicted": Shown("Predicted", "percent", "per year"),
                    "mean": Shown("Mean rate", "percent", "per year"),
                    "lowest": Shown("Lowest", "percent", "per year"),
                    "highest": Shown("Highest", "percent", "per year"),
                    "open_interest": Shown(
                        "Open interest", "amount", open_interest.unit if open_interest else ""
                    ),
                    "share": Shown("Share", "percent", "of the open interest"),
                },
                "One row per market; the rates of the window, highest mean first. Share is the market's part of the "
                "open interest that all markets of its coin with a rate have.",
            ),
        ],
        entries=rates.entries + (open_interest.entries if open_interest else ()),
    )


def _interval(rates: Points) -> str:
    """Return the funding interval that the rates refer to."""
    return f"{rates.query.funding_interval // 1000}s" if rates.query.funding_interval else _DEFAULT_INTERVAL


def yearly(rates: Points) -> pl.DataFrame:
    """Add ``apr`` and ``predicted_apr`` to the rates. [1 per year]"""
    funding_interval = _interval(rates)
    frame = funding.annualized(rates.frame, funding_interval=funding_interval)
    predicted = funding.annualized(rates.frame, rate="predicted_close", funding_interval=funding_interval)
    return frame.with_columns(predicted["apr"].alias("predicted_apr"))


def _summary(rates: Points, open_interest: Points | None) -> pl.DataFrame:
    last_open_interest = (
        rates.frame.select(MARKET).unique().with_columns(open_interest=pl.lit(None, pl.Float64))
        if open_interest is None
        else open_interest.frame.group_by(MARKET, maintain_order=True).agg(
            open_interest=pl.col("close").last()
        )
    )
    return (
        yearly(rates)
        .group_by(MARKET, maintain_order=True)
        .agg(
            pl.col("coin").first(),
            last=pl.col("apr").last(),
            predicted=pl.col("predicted_apr").last(),
            mean=pl.col("apr").mean(),
            lowest=pl.col("apr").min(),
            highest=pl.col("apr").max(),
        )
        .join(last_open_interest, on=MARKET, how="left")
        .with_columns(share=pl.col("open_interest") / pl.col("open_interest").sum().over("coin"))
        .sort("mean", *MARKET, descending=[True, False, False], nulls_last=True)
    )
