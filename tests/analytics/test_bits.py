"""Numbers to the last bit: engines add the rows of a group in another order at every run, and results do not show it.

So there are more rows here than an engine adds in one go, and decimals of which floats do not hold the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidytape.analytics import depth, profile

START = datetime(2024, 8, 8, tzinfo=UTC)
RANDOM = np.random.default_rng(7)


def books() -> pl.DataFrame:
    """100 snapshots of 200 levels."""
    frame = pl.DataFrame({"number": range(100)}).join(pl.DataFrame({"level": range(200)}), how="cross")
    return frame.select(
        timestamp=START + pl.col("number") * timedelta(minutes=1),
        side=pl.when(pl.col("level") < 100).then(pl.lit("BID")).otherwise(pl.lit("ASK")),
        price=pl.col("level") / 10 + 90,
        size=pl.Series(RANDOM.integers(1, 10**6, frame.height) / 1000),
    )


def sessions() -> pl.DataFrame:
    """A profile of 100 levels on each of 200 days."""
    frame = pl.DataFrame({"day": range(200)}).join(pl.DataFrame({"level": range(100)}), how="cross")
    return frame.select(
        exchange=pl.lit("A"),
        timestamp=START + pl.col("day") * timedelta(days=1),
        price=pl.col("level") / 10 + 60_000,
        volume=pl.Series(RANDOM.integers(1, 10**6, frame.height) / 1000),
    )


BOOKS, SESSIONS = books(), sessions()
ONE = SESSIONS.drop("timestamp")

CALLS: dict[str, tuple[pl.DataFrame, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "walls": (BOOKS, lambda frame: depth.walls(frame, threshold=0.5, snapshots=2)),
    "depth_within": (BOOKS, lambda frame: depth.depth_within(frame, bps=[100, 500])),
    "slippage": (BOOKS, lambda frame: depth.slippage(frame, size=[1_000, 20_000, 10**9])),
    "slippage of cash": (
        BOOKS.with_columns(amount_unit=pl.lit("USD")),
        lambda frame: depth.slippage(frame, size=[100_000], amount="quote"),
    ),
    "composite": (SESSIONS, lambda frame: profile.composite(frame, by="exchange", row_size=0.1)),
    "nodes": (ONE, lambda frame: profile.nodes(frame, by="exchange")),
    "nodes of rows": (ONE, lambda frame: profile.nodes(frame, by="exchange", row_size=0.5)),
    "shape": (ONE, lambda frame: profile.shape(frame, by="exchange")),
    "summary": (SESSIONS, lambda frame: profile.summary(frame, by="exchange")),
    "value_area": (ONE, lambda frame: profile.value_area(frame, by="exchange")),
    "value_area, lazy": (ONE, lambda frame: profile.value_area(frame.lazy(), by="exchange").collect()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_many_rows_in_any_order_give_the_same_bits(name: str) -> None:
    frame, call = CALLS[name]
    wanted = call(frame)
    for seed in range(4):
        assert_frame_equal(call(frame.sample(fraction=1, shuffle=True, seed=seed)), wanted, check_exact=True)


def test_the_mean_size_of_a_wall_is_that_of_the_decimals() -> None:
    level = BOOKS.filter(price=90.0)
    (wall,) = depth.walls(level, threshold=0.0005, snapshots=100).iter_rows(named=True)
    assert wall["size_mean"] == float(sum(Fraction(str(size)) for size in level["size"]) / 100)


def test_what_a_size_costs_is_that_of_the_decimals() -> None:
    book = BOOKS.filter(timestamp=START)
    (row,) = depth.slippage(book, size=1_000).filter(side="BUY").iter_rows(named=True)
    left, paid = Fraction(1_000), Fraction(0)
    for price, size in book.filter(side="ASK").sort("price").select("price", "size").iter_rows():
        part = min(left, Fraction(str(size)))
        left, paid = left - part, paid + part * Fraction(str(price))
    assert row["average_price"] == pytest.approx(float(paid / 1_000), rel=1e-15, abs=0)
