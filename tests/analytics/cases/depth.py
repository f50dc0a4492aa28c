"""A book on two venues: a hole in time, a null, a crossed block, two orders of one price, a side that is empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from analytics.matrix import Case
from tidytape.analytics import depth

START = datetime(2024, 8, 8, tzinfo=UTC)

_ROWS = [
    # venue, minute, side, price, size
    ("A", 0, "BID", 99.0, 3.0),
    ("A", 0, "BID", 99.8, 1.0),
    ("A", 0, "BID", 99.9, 0.5),
    ("A", 0, "ASK", 99.9, 0.1),
    ("A", 0, "ASK", 100.1, 2.0),
    ("A", 0, "ASK", 100.5, 7.0),
    ("A", 1, "BID", 99.8, 1.5),
    ("A", 1, "BID", 99.8, 0.25),
    ("A", 1, "ASK", 100.1, None),
    ("A", 1, "ASK", 100.2, 4.0),
    ("A", 3, "BID", 99.8, 2.0),
    ("A", 3, "BID", 99.1, 4.0),
    ("A", 3, "ASK", 100.1, 2.5),
    ("A", 3, "ASK", 100.5, 8.0),
    ("A", 3, None, 100.6, 8.0),
    ("B", 0, "BID", 99.8, 6.0),
    ("B", 1, "BID", 99.7, 6.0),
    ("B", 1, "ASK", 99.9, 5.0),
    ("B", 2, "ASK", 99.9, 5.5),
    ("B", 3, "BID", 99.8, 5.0),
    ("B", 3, "ASK", 99.9, 5.5),
]
BOOK = pl.DataFrame(
    [
        (venue, "BTC", "MINUTE", START + timedelta(minutes=minute), side, price, size)
        for venue, minute, side, price, size in _ROWS
    ],
    schema={
        "exchange": pl.String,
        "coin": pl.String,
        "interval": pl.String,
        "timestamp": pl.Datetime("us", "UTC"),
        "side": pl.String,
        "price": pl.Float64,
        "size": pl.Float64,
    },
    orient="row",
).sample(fraction=1, shuffle=True, seed=1)
ONE = BOOK.filter(pl.col("exchange") == "A")

LIQUIDATIONS = pl.DataFrame(
    {
        "coin": ["BTC", "BTC", "BTC", "BTC", "ETH"],
        "timestamp": [START + timedelta(hours=hour) for hour in (0, 0, 1, 3, 3)],
        "price": [60_000.0, 60_200.0, 60_100.0, 60_100.0, 3000.0],
        "liquidations": [0.5, 4.0, 0.25, None, 1.0],
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)

KEY = ["exchange", "coin", "interval", "timestamp"]

CASES = [
    Case("matrix", depth.matrix, [ONE], [], own_kind=True),
    Case(
        "matrix",
        lambda book: depth.matrix(book, block_size=0.5, prices=(99, 100)),
        [ONE],
        [],
        own_kind=True,
        label="coarser",
    ),
    Case(
        "liquidation_matrix",
        lambda rows: depth.liquidation_matrix(rows, interval="1h"),
        [LIQUIDATIONS.filter(pl.col("coin") == "BTC")],
        [],
        own_kind=True,
    ),
    Case("regrid", lambda book: depth.regrid(book, block_size="0.5"), [BOOK], [*KEY, "side", "price"]),
    Case(
        "regrid",
        lambda book: depth.regrid(book, interval="5m", time="mean"),
        [BOOK],
        [*KEY, "side", "price"],
        label="mean",
    ),
    Case(
        "regrid",
        lambda rows: depth.regrid(rows, interval="4h", block_size=500),
        [LIQUIDATIONS],
        ["coin", "timestamp", "price"],
        label="liquidations",
    ),
    Case("depth_within", lambda book: depth.depth_within(book, bps=[5, 20, 100]), [BOOK], [*KEY, "bps"]),
    Case("imbalance", lambda book: depth.imbalance(book, bps=30, block_size="0.1"), [BOOK], [*KEY, "bps"]),
    Case("slippage", lambda book: depth.slippage(book, size=[0.5, 2, 9.25]), [BOOK], [*KEY, "side", "size"]),
    Case(
        "slippage",
        lambda book: depth.slippage(book, size=150, amount="quote", block_size=0.1),
        [BOOK],
        [*KEY, "side", "size"],
        label="quote",
    ),
    Case(
        "slippage",
        lambda book: depth.slippage(book, size=[0.05, 0.5]),
        [BOOK.with_columns(block_size=pl.when(pl.col("exchange") == "A").then(0.2))],
        [*KEY, "side", "size"],
        label="heights",
    ),
    Case(
        "imbalance",
        lambda book: depth.imbalance(book, bps=[5, 30]),
        [BOOK.with_columns(block_size=pl.when(pl.col("exchange") == "A").then(0.2))],
        [*KEY, "bps"],
        label="heights",
    ),
    Case(
        "walls",
        lambda book: depth.walls(book, threshold=1, snapshots=1),
        [BOOK],
        ["exchange", "coin", "interval", "first_timestamp", "side", "price"],
    ),
    Case(
        "walls",
        lambda book: depth.walls(
            book,
            threshold=1.5,
            snapshots=2,
            duration=timedelta(minutes=1),
            max_gap=timedelta(minutes=1),
            by="exchange",
        ),
        [BOOK],
        ["exchange", "first_timestamp", "side", "price"],
        label="with a gap",
    ),
]
