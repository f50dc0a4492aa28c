"""The section about flow: delta, liquidations and open interest."""

from __future__ import annotations

import polars as pl

from tidytape.analytics import flow
from tidytape.catalogue import Side
from tidytape.report._answers import MARKET, Answers, Points
from tidytape.report._overview import name_of
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import ReportTable, Section
from tidytape.report._table import Shown, table


def flows(answers: Answers, timezone: str) -> Section | None:
    """Return delta, liquidations and open interest, with pictures of the largest markets."""
    sides, liquidations = answers.points("TRADE_AGG"), answers.points("LIQUIDATION_AGG")
    if sides is not None and sides.frame["side"].drop_nulls().n_unique() < 2:
        sides = None  # without sells, or without buys, there is no delta to show
    open_interest, heatmap = answers.points("OPEN_INTEREST_AGG"), answers.points("VENUEX_LIQUIDATION_AGG")
    if sides is None and liquidations is None and open_interest is None and heatmap is None:
        return None
    section = Section(
        reading="Look where the cumulative delta rises and the price does not: somebody sells all that the buyers "
        "take. Where the delta falls and the price does not, somebody buys all that is sold.",
        rule="Delta is the volume of aggressive buys minus that of aggressive sells; the imbalance is delta over their "
        "sum. BUY liquidations are longs. Feeds show some liquidations only, so their totals are lower bounds.",
        entries=tuple(entry for points in (sides, liquidations) if points for entry in points.entries),
    )
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    if (
        sides is not None
        and candles is not None
        and sides.interval == candles.interval
        and {*sides.of(**candles.largest)["side"]} == {*map(str, Side)}  # the picture takes no other rows
    ):
        section.parts.append(_order_flow(candles, sides, timezone))
        section.entries += candles.entries
    if sides is not None:
        names = ("buy_volume", "sell_volume", "delta")
        section.parts.append(
            table(
                flow.delta(sides.frame)
                .group_by(MARKET, maintain_order=True)
                .agg(
                    pl.when(pl.col(name).is_not_null().all()).then(pl.col(name).sum()).alias(name)
                    for name in names
                )
                .with_columns(imbalance=pl.col("delta") / (pl.col("buy_volume") + pl.col("sell_volume")))
                .sort(MARKET),
                {
                    "exchange": Shown("Exchange"),
                    "raw_symbol": Shown("Symbol"),
                    "buy_volume": Shown("Bought", "amount", sides.unit),
                    "sell_volume": Shown("Sold", "amount", sides.unit),
                    "delta": Shown("Delta", "amount", sides.unit),
                    "imbalance": Shown("Imbalance", "percent"),
                },
                "One row per market, over the whole window.",
            )
        )
    if open_interest is not None:
        section.parts.append(_open_interest(open_interest, candles, timezone))
        section.entries += open_interest.entries
    if liquidations is not None:
        section.parts += _liquidations(liquidations, candles, timezone)
    if heatmap is not None:
        section.parts.append(_liquidation_heatmap(heatmap, candles, timezone))
        section.entries += heatmap.entries
    return section


def _open_interest(open_interest: Points, candles: Points | None, timezone: str) -> Picture:
    """Return the open interest of the largest market, with its price if the tape has it at the same interval."""
    market = open_interest.leading(pl.col("close").last())
    prices = (
        candles.of(**market) if candles is not None and candles.interval == open_interest.interval else None
    )
    # Open interest in USD moves with the price, so it does not show whether positions were opened.
    has_prices = prices is not None and not prices.is_empty() and open_interest.unit != "USD"

    plot = Plot.of(
        "open_interest", open_interest.of(**market), candles=prices if has_prices else None, timezone=timezone
    )
    positions = ", and which positions were opened or closed in each interval" if has_prices else ""
    return Picture.of(f"Open interest of {name_of(market)}{positions}.", 6.0 if has_prices else 3.6, plot)


def _liquidations(liquidations: Points, candles: Points | None, timezone: str) -> list[Picture | ReportTable]:
    """Return the picture of the market with the most liquidations, and the totals by market and day."""
    market = liquidations.leading(pl.col("liquidations").sum())
    prices = None if candles is None else candles.of(**market)

    plot = Plot.of("liquidations", liquidations.of(**market), candles=prices, timezone=timezone)
    days = table(
        flow.liquidation_imbalance(liquidations.frame, interval="1d").sort(*MARKET, "timestamp"),
        {
            "timestamp": Shown("Day", "date", "UTC"),
            "exchange": Shown("Exchange"),
            "raw_symbol": Shown("Symbol"),
            "long_liquidations": Shown("Longs liquidated", "amount", liquidations.unit),
            "short_liquidations": Shown("Shorts liquidated", "amount", liquidations.unit),
            "liquidation_imbalance": Shown("Imbalance", "percent"),
        },
        "One row per market and day with liquidations.",
    )
    text = f"Liquidations of {name_of(market)}: longs above zero, shorts below."
    return [Picture.of(text, 3.6, plot), days]


def _liquidation_heatmap(heatmap: Points, candles: Points | None, timezone: str) -> Picture:
    """Return the heatmap of liquidations of one coin, with the price of its largest market."""
    coin, market = heatmap.coin, heatmap.largest
    has_price = candles is not None and coin == candles.coin
    prices = candles.of(**candles.largest) if candles is not None and has_price else None

    plot = Plot.of("liquidation_heatmap", heatmap.of(**market), candles=prices, timezone=timezone)
    return Picture.of(f"Where positions in {coin} were liquidated, by price and time.", 4.0, plot)


def _order_flow(candles: Points, sides: Points, timezone: str) -> Picture:
    """Return price, delta and cumulative delta of the largest market."""
    market = candles.largest

    plot = Plot.of("order_flow", candles.of(**market), sides.of(**market), timezone=timezone)
    return Picture.of(f"Price, delta and cumulative volume delta of {name_of(market)}.", 6.0, plot)
