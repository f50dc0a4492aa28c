"""The section about depth: resting sizes near the price, and the cost of a trade."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tidytape.analytics import depth
from tidytape.report._answers import MARKET, Answers
from tidytape.report._overview import name_of
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Section
from tidytape.report._table import Shown, table

_NEAR = 25.0  # the depth near the mid is the size within this distance from it [bps]
_SHARES = (0.1, 0.5, 1.0)  # sizes of the trades whose slippage is shown, as shares of the depth near the mid
_LARGE = 0.98  # a wall is at least as large as this quantile of all sizes
_MOST_WALLS = 10  # rows of the table of walls


def depths(answers: Answers, timezone: str) -> Section | None:
    """Return the heatmap of the book of the largest market, depth near the mid, walls, and slippage."""
    books = answers.points("BLOCK_BOOK_SNAPSHOT_AGG")
    if books is None or books.unit == "USD":
        return None
    books = replace(books, frame=books.frame.filter(pl.col("size").is_finite() & (pl.col("size") > 0)))
    if books.frame.is_empty():
        return None
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    market = books.largest if candles is None else candles.largest  # prefer the market of the sections above
    if books.of(**market).is_empty():
        market = books.largest
    book = books.of(**market)

    newest = book.filter(pl.col("timestamp") == pl.col("timestamp").max())
    near = depth.depth_within(books.frame, bps=_NEAR)
    median_depth = near.group_by(MARKET).agg(pl.col("bid_depth", "ask_depth").median(), spans=pl.len())
    walls = depth.walls(book, threshold=float(book["size"].quantile(_LARGE) or 0.0), snapshots=3)
    largest_walls = walls.sort(
        "size_mean", "first_timestamp", "side", "price", descending=[True, False, False, False]
    ).head(_MOST_WALLS)
    size = float(replace(books, frame=median_depth).of(**market)["bid_depth"].item() or newest["size"].sum())
    costs = depth.slippage(newest, size=[float(f"{size * share:.4g}") for share in _SHARES])
    return Section(
        reading="A dark line that stays at one price is a wall: large orders that wait there. "
        "Where the line ends before the price reaches it, somebody cancelled the orders.",
        rule=f"Depth is the size within {_NEAR:g} basis points of the mid. A wall is a price with at least the "
        f"{_LARGE:.0%} quantile of all sizes in three snapshots in a row. Slippage is how far the average price of a "
        "trade against the newest book lies from the mid. The start of a wall is seen if the snapshot before shows "
        "its price without it; otherwise the wall may be older.",
        parts=[
            Picture.of(
                f"The order book of {name_of(market)}: bids below the price, asks above it.",
                4.8,
                Plot.of("book_heatmap", book, timezone=timezone),
            ),
            table(
                median_depth.sort(MARKET),
                {
                    "exchange": Shown("Exchange"),
                    "raw_symbol": Shown("Symbol"),
                    "bid_depth": Shown("Bids", "amount", "coin"),
                    "ask_depth": Shown("Asks", "amount", "coin"),
                    "spans": Shown("Books", "count"),
                },
                f"One row per market: the median size within {_NEAR:g} basis points of the mid.",
            ),
            table(
                largest_walls.with_columns(
                    pl.when(name).then(pl.lit("yes")).otherwise(pl.lit("no")).alias(name)
                    for name in ("is_standing", "is_start_known")
                ),
                {
                    "side": Shown("Side"),
                    "price": Shown("Price", "number", "quote per coin"),
                    "size_mean": Shown("Mean size", "amount", "coin"),
                    "snapshots": Shown("Snapshots", "count"),
                    "first_timestamp": Shown("Since", "time", "UTC"),
                    "is_start_known": Shown("Start seen"),
                    "is_standing": Shown("Still there"),
                },
                f"The {_MOST_WALLS} largest walls of {name_of(market)}, by mean size.",
            ),
            Picture.of(
                f"The newest book of {name_of(market)}: what rests, and what trading a size costs.",
                3.8,
                Plot.of("depth", book, timezone=timezone),
                Plot.of("slippage", book, timezone=timezone),
            ),
            table(
                costs,
                {
                    "side": Shown("Side"),
                    "size": Shown("Size", "number", "coin"),
                    "average_price": Shown("Average price", "number", "quote per coin"),
                    "slippage": Shown("Slippage", "points", "bp"),
                    "unfilled": Shown("Unfilled", "number", "coin"),
                },
                f"What a trade costs against the newest book of {name_of(market)}.",
            ),
        ],
        entries=books.entries,
    )
