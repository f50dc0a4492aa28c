"""Heatmaps as arrays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from oracles import depth as oracle
from tables import each_row
from tidytape import Client
from tidytape.analytics import depth
from tidytape.analytics.depth import _matrix
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)
NAN = float("nan")


def book(*rows, **whose):
    """Return a frame of (minute, side, price, size) rows."""
    frame = pl.DataFrame(
        rows,
        schema={"minute": pl.Int64, "side": pl.String, "price": pl.Float64, "size": pl.Float64},
        orient="row",
    )
    time = pl.Series(
        "timestamp", [START + timedelta(minutes=m) for m in frame["minute"]], pl.Datetime("ns", "UTC")
    )
    return frame.drop("minute").with_columns(time, **{name: pl.lit(value) for name, value in whose.items()})


ROWS = (
    (0, "BID", 99.0, 3.0),
    (0, "BID", 99.5, 1.0),
    (0, "ASK", 100.5, 2.0),
    (1, "BID", 99.5, 4.0),
    (1, "ASK", 100.0, 8.0),
    (3, "BID", 99.5, 5.0),
    (3, "ASK", 99.5, 6.0),
)


def test_cells_are_sizes_zero_inside_and_nan_outside_what_was_sent():
    found = depth.matrix(book(*ROWS))
    assert_array_equal(found.bids, [[3, 1, 0, 0], [NAN, 4, 0, NAN], [NAN, 5, NAN, NAN]])
    assert_array_equal(found.asks, [[0, 0, 0, 2], [NAN, 0, 8, NAN], [NAN, 6, NAN, NAN]])
    assert found.prices.tolist() == [99.0, 99.5, 100.0, 100.5]
    minutes = np.array([0, 1, 3], "timedelta64[m]")
    assert_array_equal(found.times, np.datetime64("2024-08-08", "ns") + minutes)
    assert (found.bids.dtype, found.asks.dtype, found.prices.dtype) == (np.float32, np.float32, np.float64)
    assert found.times.dtype == "datetime64[ns]"


@pytest.mark.parametrize("how", [{"interval": "1m"}, {}])
def test_a_time_that_is_not_there_is_a_line_of_nan(how):
    frame = book(*ROWS) if how else book(*ROWS, interval="MINUTE")
    found = depth.matrix(frame, **how)
    assert found.bids.shape == (4, 4)
    assert np.isnan(found.bids[2]).all()
    assert np.isnan(found.asks[2]).all()
    assert_array_equal(found.bids[3], [NAN, 5, NAN, NAN])


def test_larger_blocks_add_up_on_their_multiples():
    found = depth.matrix(book(*ROWS), block_size=1)
    assert found.prices.tolist() == [99.0, 100.0]
    assert_array_equal(found.bids, [[4, 0], [4, 0], [5, NAN]])
    assert_array_equal(found.asks, [[0, 2], [0, 8], [6, NAN]])


def test_only_the_prices_asked_for_are_kept_and_the_rest_still_says_what_was_sent():
    found = depth.matrix(book(*ROWS), prices=(99.2, 100.2))
    assert found.prices.tolist() == [99.5, 100.0]
    assert_array_equal(found.bids, [[1, 0], [4, 0], [5, NAN]])
    assert_array_equal(found.asks, [[0, 0], [0, 8], [6, NAN]])
    assert depth.matrix(book(*ROWS), prices=(1, 2)).bids.shape == (3, 0)


def test_prices_are_the_floats_of_their_decimals():
    rows = [(0, "ASK", price, 1.0) for price in (0.1, 0.2, 0.3, 0.7)]
    assert depth.matrix(book(*rows)).prices.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert depth.matrix(book(*rows), block_size=0.1).prices.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_rows_are_as_wide_as_leaves_prices_apart():
    rows = [(0, "ASK", price, 1.0) for price in (10.0, 10.4, 11.0)]
    found = depth.matrix(book(*rows))
    assert found.prices.tolist() == [10.0, 10.2, 10.4, 10.6, 10.8, 11.0]
    assert_array_equal(found.asks, [[1, 0, 1, 0, 0, 1]])


def test_parts_add_up_to_the_whole(monkeypatch):
    draw = np.random.default_rng(0)
    rows = [(at // 20, "BID", float(price), 1.0) for at, price in enumerate(draw.permutation(4000) % 50)]
    whole = depth.matrix(book(*rows))
    monkeypatch.setattr(_matrix, "_AT_ONCE", 64)
    parts = depth.matrix(book(*rows))
    assert_array_equal(parts.bids, whole.bids)
    assert np.nansum(parts.bids) == 4000.0


def test_a_step_seen_only_far_down_the_frame_counts_too():
    rows = [(minute, "ASK", 100.0 + level, 1.0) for minute in range(60) for level in range(100)]
    found = depth.matrix(book(*rows, (60, "ASK", 100.25, 7.0)))
    assert found.asks.shape == (61, 397)
    assert found.asks[60, 1] == 7.0
    assert np.nansum(found.asks) == 6007.0


def test_sizes_of_one_cell_are_added_in_any_order_of_rows():
    rows = [(0, "BID", 99.0, 1.0), (1, "BID", 99.0, 1.0), (0, "BID", 99.0, 2.5), (0, "ASK", 100.0, 1.0)]
    assert_array_equal(depth.matrix(book(*rows)).bids, [[3.5, 0.0], [1.0, NAN]])


@pytest.mark.parametrize("size", [None, NAN, float("inf"), -1.0])
def test_what_is_not_known_is_nan(size):
    rows = [(0, "BID", 98.0, 1.0), (0, "BID", 99.0, size), (0, "ASK", 100.0, 1.0)]
    assert_array_equal(depth.matrix(book(*rows)).bids, [[1.0, NAN, 0.0]])


@pytest.mark.parametrize("block_size", [None, 1])
def test_rows_without_a_place_are_in_no_cell(block_size):
    lost = [(0, "BID", None, 1.0), (0, "BID", NAN, 1.0), (0, "ASK", float("inf"), 1.0), (0, None, 50.0, 1.0)]
    frame = book(*lost, (0, "BID", 99.0, 1.0), (0, "ASK", 100.0, 1.0))
    found = depth.matrix(frame, block_size=block_size)
    assert found.prices.tolist() == [99.0, 100.0]
    assert_array_equal(found.bids, [[1.0, 0.0]])
    unplaced = frame.with_columns(timestamp=pl.lit(None, pl.Datetime("ns", "UTC")))
    assert depth.matrix(unplaced).bids.shape == (0, 0)


def test_one_price_is_one_row():
    found = depth.matrix(book((0, "BID", 99.37, 2.0)))
    assert (found.bids.tolist(), found.asks.tolist(), found.prices.tolist()) == ([[2.0]], [[0.0]], [99.37])


@pytest.mark.parametrize("block_size", [None, "0.00000001"])
def test_prices_of_up_to_fifteen_digits_stay_apart(block_size):
    found = depth.matrix(
        book(*((0, "BID", price, price) for price in (61234.00000017, 61234.00000018, 61234.00000021))),
        block_size=block_size,
    )
    assert found.prices.tolist() == [
        61234.00000017,
        61234.00000018,
        61234.00000019,
        61234.0000002,
        61234.00000021,
    ]
    assert (found.bids > 0).tolist() == [[True, True, False, False, True]]


def test_prices_that_were_computed_are_read_as_decimals():
    found = depth.matrix(book((0, "BID", 0.1 * 3, 1.0), (0, "BID", 0.3, 2.0), (0, "BID", 0.1 * 7, 4.0)))
    assert found.prices.tolist() == [0.3, 0.7]
    assert found.bids.tolist() == [[3.0, 4.0]]


def test_prices_too_far_out_to_have_a_row_are_refused_or_left_out(engine):
    frame = engine.frame(
        book((0, "BID", 0.00001234, 1.0), (0, "ASK", 0.00001235, 2.0), (0, "ASK", 1e19, 4.0))
    )
    if engine.name == "spark":
        pytest.skip("arrays in memory")
    for arguments in ({}, {"prices": (0.0, 1e12)}):
        with pytest.raises(QueryError, match="larger blocks"):
            depth.matrix(frame, block_size="0.00000001", **arguments)
    found = depth.matrix(frame, block_size="0.00000001", prices=(0.0, 0.0001))
    assert found.prices[:2].tolist() == [0.00001234, 0.00001235]
    assert found.asks[0, :3].tolist() == [0.0, 2.0, 0.0]


def test_to_xarray():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed: pip install 'tidytape[xarray]'")
    found = depth.matrix(book(*ROWS))
    data = found.to_xarray()
    assert isinstance(data, xarray.Dataset)
    assert data["bids"].dims == data["asks"].dims == ("time", "price")
    assert_array_equal(data["bids"].to_numpy(), found.bids)
    assert data["bids"].sel(time="2024-08-08T00:01", price=99.5).item() == 4.0
    liquidated = depth.liquidation_matrix(
        book((0, "BID", 1.0, 2.0)).drop("side").rename({"size": "liquidations"})
    )
    assert liquidated.to_xarray()["liquidations"].dims == ("time", "price")


@each_row(
    ("frame", "arguments", "message"),
    [
        (pl.concat([book(*ROWS, exchange="X"), book(*ROWS, exchange="Y")]), {}, "one series"),
        (book(*ROWS).with_columns(coin=pl.Series(["BTC", None] + ["BTC"] * 5)), {}, "one series"),
        (book(*ROWS).with_columns(coin=pl.Series([None] * 5 + ["BTC"] * 2)), {}, "one series"),
        (book(*ROWS, (3, "BUY", 99.0, 1.0)), {}, "column side"),
        (book(*ROWS, (3, "BUY", None, 1.0)), {}, "column side"),
        (book(*ROWS), {"interval": "5m"}, "whole multiples"),
        (book(*ROWS), {"interval": "2m"}, "interval"),
        (book(*ROWS), {"block_size": 0}, "block_size"),
        (book(*ROWS), {"prices": (2, 1)}, "prices"),
        (book(*ROWS), {"prices": (1, NAN)}, "prices"),
        (book(*ROWS).with_columns(size=pl.lit("much")), {}, "size"),
        (book((0, "BID", 0.0001, 1.0), (0, "BID", 1e9, 1.0)), {"block_size": "0.0001"}, "larger blocks"),
        (book((0, "BID", 1.1e-23, 1.0), (0, "BID", 2.7e-23, 1.0)), {}, "no common step"),
    ],
)
def test_what_cannot_be_is_refused(frame, arguments, message):
    with pytest.raises(QueryError, match=message):
        depth.matrix(frame, **arguments)


def test_missing_columns_are_named():
    with pytest.raises(MissingColumnError, match="side"):
        depth.matrix(book(*ROWS).drop("side"))


def test_no_rows_give_empty_arrays():
    found = depth.matrix(book())
    assert (found.bids.shape, found.asks.shape, found.times.shape, found.prices.shape) == (
        (0, 0),
        (0, 0),
        (0,),
        (0,),
    )
    assert found.bids.dtype == np.float32


@pytest.mark.slow
def test_demo_heatmaps_are_the_loop_s():
    client = Client.demo()
    day = {"interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
    (symbol,) = client.symbols(type="BLOCK_BOOK_SNAPSHOT_AGG", exchange="DEMO_PERP")[:1]
    frame = client.book_heatmap(exchange="DEMO_PERP", raw_symbol=symbol, block_size=20, max_depth=20, **day)
    found = depth.matrix(frame)
    rows = frame.select(
        pl.col("timestamp").to_physical(), pl.col("side").cast(pl.String), "price", "size"
    ).rows()
    bids, asks, times, prices = oracle.matrix(rows, step=3_600_000_000_000)
    assert_array_equal(found.bids, np.array(bids, np.float32))
    assert_array_equal(found.asks, np.array(asks, np.float32))
    assert (found.times.astype(int).tolist(), found.prices.tolist()) == (times, prices)
    liquidated = depth.liquidation_matrix(client.liquidation_heatmap(exchange="DEMO_PERP", coin="BTC", **day))
    assert liquidated.liquidations.size


def test_a_heatmap_of_liquidations_is_sent_to_its_own_matrix():
    frame = pl.DataFrame({"timestamp": [0], "price": [1.0], "liquidations": [1.0]})
    with pytest.raises(QueryError, match="liquidation_matrix"):
        depth.matrix(frame)
