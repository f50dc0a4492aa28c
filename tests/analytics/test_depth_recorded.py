"""Ten recorded snapshots of 25 levels, and what plain loops make of them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from oracles import depth as oracle
from tidytape.analytics import depth

Row = tuple[int, str, float, float]


@pytest.fixture(scope="module")
def rows(recorded: Path) -> list[Row]:
    """The (ns, side, price, size) rows of the file, read with the standard library."""
    with (recorded / "tardis_binance-futures_book_snapshot_25_BTCUSDT.csv").open() as file:
        return [
            (
                int(line["timestamp"]) * 1000,
                side,
                float(line[f"{name}[{n}].price"]),
                float(line[f"{name}[{n}].amount"]),
            )
            for line in csv.DictReader(file)
            for side, name in (("BID", "bids"), ("ASK", "asks"))
            for n in range(25)
        ]


@pytest.fixture(scope="module")
def book(rows: list[Row]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["timestamp", "side", "price", "size"], orient="row")
    return frame.with_columns(pl.from_epoch("timestamp", time_unit="ns").dt.replace_time_zone("UTC"))


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [None, "0.5"])
def test_matrix(rows: list[Row], book: pl.DataFrame, block_size: str | None) -> None:
    found = depth.matrix(book, block_size=block_size)
    bids, asks, times, prices = oracle.matrix(rows, block_size=block_size)
    np.testing.assert_allclose(found.bids, bids, rtol=1e-6)
    np.testing.assert_allclose(found.asks, asks, rtol=1e-6)
    assert_array_equal(found.times.astype(int), times)
    assert_array_equal(found.prices, prices)
    total = pl.col("size").sum()
    sums = book.group_by("timestamp", "side").agg(total).sort("side", "timestamp")["size"]
    both = np.concatenate([np.nansum(side, axis=1) for side in (found.asks, found.bids)])
    np.testing.assert_allclose(both, sums, rtol=1e-5)


@pytest.mark.slow
def test_depth_and_slippage(rows: list[Row], book: pl.DataFrame) -> None:
    for bps in (0.5, 2, 5, 50):
        near = depth.depth_within(book, bps=bps)
        wanted = oracle.depth_within(rows, bps)
        assert near["bid_depth"].to_list() == pytest.approx(
            [float(wanted[t][0]) for t in sorted(wanted)], rel=1e-12
        )
        assert near["ask_depth"].to_list() == pytest.approx(
            [float(wanted[t][1]) for t in sorted(wanted)], rel=1e-12
        )
        assert near["bid_covered"].to_list() == [wanted[time][2] for time in sorted(wanted)]
    for size in (0.01, 3, 20, 10_000):
        curve = depth.slippage(book, size=size)
        answers = oracle.slippage(rows, size)
        for got, key in zip(curve["average_price"].to_list(), sorted(answers), strict=True):
            average = answers[key][1]
            assert got == (None if average is None else pytest.approx(float(average), rel=1e-12))
        costs = curve["slippage"].drop_nulls()
        assert (costs > 0).all()


def test_walls(rows: list[Row], book: pl.DataFrame) -> None:
    found = depth.walls(book, threshold=5, snapshots=3)
    times = pl.col("first_timestamp", "last_timestamp").dt.epoch("ns")
    columns = [
        "first_timestamp",
        "side",
        "price",
        "last_timestamp",
        "snapshots",
        "is_start_known",
        "is_end_known",
    ]
    wanted = [(*wall[:5], *wall[-2:]) for wall in oracle.walls(rows, 5, 3)]
    assert wanted
    assert found.with_columns(times).select(columns).rows() == [
        (start, side, float(price), *rest) for start, side, price, *rest in wanted
    ]
