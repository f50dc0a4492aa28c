"""Candles, delta and cumulative volume delta, by their artists."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.analytics import flow
from tidytape.errors import MissingColumnError, QueryError

PRICES = (10.0, 12.0, 9.0, 11.0)
VOLUMES = ((0, 3.0, 1.0), (1, 1.0, 4.0), (3, 2.0, 2.0))  # hour, bought, sold


@pytest.fixture
def axes():
    return Figure(figsize=(8, 6)).subplots(3, sharex=True)


@pytest.fixture
def candles(hours):
    return hours(*((hour, *PRICES, bought + sold) for hour, bought, sold in VOLUMES))


@pytest.fixture
def sides(candles):
    """Candles by side of the same hours."""
    return pl.concat(
        candles.with_columns(
            side=pl.lit(side), volume=pl.Series([row[place] for row in VOLUMES], dtype=pl.Float64)
        )
        for place, side in ((1, "BUY"), (2, "SELL"))
    )


def test_deltas_and_their_sum_stand_below_the_candles(candles, sides, axes, native):
    drawn = plot.order_flow(native(candles), native(sides), axes=axes)
    assert_allclose(drawn.more_bought.get_data().values, [2, 0, np.nan, 0])
    assert_allclose(drawn.more_sold.get_data().values, [0, -3, np.nan, 0])
    assert_allclose(drawn.cvd.get_data().values, [2, -1, np.nan, -1])
    start = candles["timestamp"][0]
    assert_allclose(drawn.cvd.get_data().edges, date2num(start) + np.arange(5) / 24)
    assert len(drawn.bodies.get_paths()) == 3


def test_sums_are_those_of_analytics(candles, sides, axes):
    wanted = flow.cvd(sides, interval="1h")
    drawn = plot.order_flow(candles, sides, axes=axes)
    values = drawn.cvd.get_data().values
    assert_allclose(values[np.isfinite(values)], wanted["cvd"])


def test_trades_are_summed_over_the_intervals_of_the_candles(candles, axes):
    rows = [
        (hour, side, amount)
        for hour, bought, sold in VOLUMES
        for side, amount in (("BUY", bought), ("SELL", sold))
    ]
    start = candles["timestamp"][0]
    trades = pl.DataFrame(rows, schema=["hour", "side", "amount"], orient="row").select(
        (pl.lit(start) + pl.duration(hours="hour", minutes=7)).alias("timestamp"), "side", "amount"
    )
    drawn = plot.order_flow(candles, trades, axes=axes)
    assert_allclose(drawn.cvd.get_data().values, [2, -1, np.nan, -1])


def test_a_session_starts_the_sum_anew(hours, axes):
    frame = hours(*((hour, *PRICES, 4.0) for hour in (22, 23, 24)))
    volumes = frame.select("timestamp", buy_volume=pl.lit(3.0), sell_volume=pl.lit(1.0))
    drawn = plot.order_flow(frame, volumes, axes=axes, anchor="session", period="1d")
    assert_allclose(drawn.cvd.get_data().values, [2, 4, 2])


def test_axes_say_units_and_share_their_time(candles, sides, axes):
    drawn = plot.order_flow(candles, sides, axes=axes, timezone="Asia/Tokyo")
    assert [ax.get_ylabel() for ax in drawn.axes] == ["Price [USDT per BTC]", "Delta [BTC]", "CVD [BTC]"]
    assert [ax.get_xlabel() for ax in drawn.axes] == ["", "", "Time [Asia/Tokyo]"]
    assert drawn.axes.price.get_title(loc="left") == "Order flow · X BTCUSDT, 1h"
    assert len({ax.get_xlim() for ax in drawn.axes}) == 1
    drawn.figure.canvas.draw()


def test_a_new_figure_has_three_panels_that_move_together(candles, sides):
    import matplotlib.pyplot as plt

    drawn = plot.order_flow(candles, sides)
    assert drawn.axes.price.get_shared_x_axes().joined(drawn.axes.price, drawn.axes.cvd)
    plt.close(drawn.figure)


def test_panels_without_data_say_so(candles, sides, axes):
    drawn = plot.order_flow(candles[:0], sides[:0], axes=axes)
    assert [[text.get_text() for text in ax.texts] for ax in drawn.axes] == [["no data"]] * 3
    drawn.figure.canvas.draw()


def test_wrong_frames_and_arguments_are_refused(candles, sides, axes):
    with pytest.raises(QueryError, match="sides of ETH-USDT"):
        plot.order_flow(candles, sides.with_columns(normalized_symbol=pl.lit("ETH-USDT")), axes=axes)
    with pytest.raises(QueryError, match="three: price, delta, CVD"):
        plot.order_flow(candles, sides, axes=axes[:2])
    with pytest.raises(QueryError, match="anchor"):
        plot.order_flow(candles, sides, axes=axes, anchor="week")
    with pytest.raises(MissingColumnError, match="volume"):
        plot.order_flow(candles, sides.drop("volume"), axes=axes)
