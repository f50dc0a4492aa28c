"""One order book, by its artists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.analytics import depth
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

START = datetime(2024, 8, 8, tzinfo=UTC)
BOOK = (
    # minute, side, price, size
    (0, "BID", 99.0, 3.0),
    (0, "BID", 99.5, 1.0),
    (0, "ASK", 100.5, 2.0),
    (0, "ASK", 101.0, 4.0),
    (5, "BID", 100.0, 7.0),
    (5, "ASK", 101.0, 8.0),
)
WHOSE = {"exchange": "X", "raw_symbol": "BTCUSDT", "normalized_symbol": "BTC-USDT", "coin": "BTC"}


def book(*rows, **whose):
    columns = {"minute": pl.Int64, "side": pl.String, "price": pl.Float64, "size": pl.Float64}
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    times = [START + timedelta(minutes=minute) for minute in frame["minute"]]
    names = WHOSE | {"amount_unit": "COIN", "interval": "MINUTE"} | whose
    named = frame.with_columns(
        pl.Series("timestamp", times, pl.Datetime("ns", "UTC")),
        *(pl.lit(value).alias(name) for name, value in names.items()),
    )
    return schema_of("BLOCK_BOOK_SNAPSHOT_AGG").conform(named.drop("minute"))


def test_depth_adds_up_from_the_mid(ax, native):
    drawn = plot.depth(native(book(*BOOK)), ax=ax, at=START)
    assert_allclose(drawn.bids.get_data().values, [4, 1])
    assert_allclose(drawn.bids.get_data().edges, [98.5, 99, 99.5])
    assert_allclose(drawn.asks.get_data().values, [2, 6])
    assert_allclose(drawn.asks.get_data().edges, [100.5, 101, 101.5])
    assert_allclose(drawn.mid.get_xdata(), 100)


@pytest.mark.slow
def test_depth_is_that_of_analytics(ax):
    frame = book(*BOOK[:4])
    drawn = plot.depth(frame, ax=ax)
    for bps in (30.0, 60.0, 100.0, 110.0):
        (row,) = depth.depth_within(frame, bps=bps).iter_rows(named=True)
        bids, asks = drawn.bids.get_data(), drawn.asks.get_data()
        low, high = 100 * (1 - bps / 1e4), 100 * (1 + bps / 1e4)
        # A step begins at its price; a hair further out it counts.
        reached = (
            bids.values[np.clip(np.searchsorted(bids.edges, low - 1e-9) - 1, 0, 1)] if low <= 99.5 else 0
        )
        assert row["bid_depth"] == pytest.approx(reached)
        reached = (
            asks.values[np.clip(np.searchsorted(asks.edges, high + 1e-9) - 1, 0, 1)] if high >= 100.5 else 0
        )
        assert row["ask_depth"] == pytest.approx(reached)


def test_blocks_count_at_their_middle(ax):
    drawn = plot.depth(book(*BOOK[:4], block_size=0.5), ax=ax)
    assert_allclose(drawn.asks.get_data().edges, [100.75, 101.25, 101.75])
    assert_allclose(drawn.mid.get_xdata(), 100.25)


def test_the_last_book_before_a_time_is_drawn(ax):
    times = {None: "00:05", "2024-08-08T00:04": "00:00", "2024-08-08T00:05": "00:05", "2025-01-01": "00:05"}
    for at, shown in times.items():
        ax = plot.depth(book(*BOOK), ax=Figure().add_subplot(), at=at).ax
        assert ax.get_title(loc="left") == f"Order book · X BTCUSDT, 2024-08-08 {shown} UTC, 1m"
    drawn = plot.depth(book(*BOOK), ax=Figure().add_subplot(), at="2024-08-07")
    assert [text.get_text() for text in drawn.ax.texts] == ["no data"]


def test_both_sides_are_shown_as_far_as_asked_for(ax):
    low, high = plot.depth(book(*BOOK), ax=ax, at=START, bps=75).ax.get_xlim()
    assert_allclose([low, high], [99.25, 100.75])
    wide = (*BOOK[:4], (0, "ASK", 150.0, 1.0), (0, "BID", 50.0, 1.0))
    low, high = plot.depth(book(*wide), ax=ax).ax.get_xlim()
    assert_allclose([low, high], [98.5, 101.5])  # 100 bps, and a level


def test_axes_of_depth_are_labelled_with_units(ax):
    plot.depth(book(*BOOK), ax=ax, timezone="Asia/Tokyo")
    assert ax.get_xlabel() == "Price [USDT per BTC]"
    assert ax.get_ylabel() == "Resting up to the price [BTC]"
    assert ax.get_title(loc="left") == "Order book · X BTCUSDT, 2024-08-08 09:05 Asia/Tokyo, 1m"
    assert [top.get_xlabel() for top in ax.child_axes] == ["Distance from the mid [bp]"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["Bids", "Asks", "Mid 100.5"]
    ax.figure.canvas.draw()


def test_one_side_has_no_mid(ax):
    drawn = plot.depth(book(*BOOK[:2]), ax=ax)
    assert (drawn.asks, drawn.mid) == (None, None)
    ax.figure.canvas.draw()


@pytest.mark.parametrize("draw", [plot.depth, plot.slippage])
@pytest.mark.parametrize("rows", [(), ((0, "BID", 1.0, 0.0),)])
def test_no_book_says_no_data(ax, native, draw, rows):
    draw(native(book(*rows)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    ax.figure.canvas.draw()


@pytest.mark.slow
def test_slippage_is_that_of_analytics(ax, native):
    frame = book(*BOOK[:4])
    drawn = plot.slippage(native(frame), ax=ax, size=[1, 2, 4, 6, 9])
    wanted = depth.slippage(frame, size=[1, 2, 4, 6, 9])
    for side, line in (("BUY", drawn.buys), ("SELL", drawn.sells)):
        rows = wanted.filter(side=side)
        assert_allclose(line.get_xdata(), rows["size"])
        assert_allclose(line.get_ydata(), rows["slippage"].to_numpy())
    assert np.isnan(drawn.sells.get_ydata()[-2:]).all()  # 4 rest on the bids


@pytest.mark.slow
def test_curves_end_where_the_book_does(ax):
    drawn = plot.slippage(book(*BOOK[:4]), ax=ax)
    sizes, cost = drawn.sells.get_data()
    assert sizes[np.isfinite(cost)].max() == pytest.approx(4)
    sizes, cost = drawn.buys.get_data()
    assert sizes[np.isfinite(cost)].max() == pytest.approx(6)
    assert np.all(np.diff(cost[np.isfinite(cost)]) >= -1e-9)


@pytest.mark.slow
def test_axes_of_slippage_are_labelled_with_units(ax):
    plot.slippage(book(*BOOK, amount_unit="USD"), ax=ax)
    assert ax.get_xlabel() == "Order size [USD, log scale]"
    assert ax.get_ylabel() == "Slippage [bp]"
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("draw", "arguments", "parameter"),
    [
        (plot.depth, {"bps": 0}, "bps"),
        (plot.depth, {"at": "yesterday noon"}, "at"),
        (plot.slippage, {"size": []}, "size"),
        (plot.slippage, {"size": [-1]}, "size"),
        (plot.slippage, {"timezone": "Mars"}, "timezone"),
    ],
)
def test_wrong_arguments_are_refused(ax, draw, arguments, parameter):
    with pytest.raises(QueryError) as caught:
        draw(book(*BOOK), ax=ax, **arguments)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("draw", [plot.depth, plot.slippage])
def test_wrong_frames_are_refused(ax, draw):
    with pytest.raises(MissingColumnError, match="size"):
        draw(book(*BOOK).drop("size"), ax=ax)
    with pytest.raises(QueryError, match="filter the frame to one exchange"):
        draw(pl.concat([book(*BOOK), book(*BOOK, exchange="Y")]), ax=ax)
