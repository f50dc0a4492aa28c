"""Liquidations, by their artists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

START = datetime(2024, 8, 8, tzinfo=UTC)
WHOSE = {"exchange": "X", "raw_symbol": "BTC-PERP", "normalized_symbol": "BTC-USDT", "coin": "BTC"}
ROWS = ((0, "BUY", 3.0), (0, "SELL", 1.0), (2, "SELL", 4.0))
LEVELS = ((0, 100.0, 1.0), (0, 102.0, 2.0), (2, 101.0, 4.0))


def frame(rows, columns, data_type, **whose):
    rows = pl.DataFrame(rows, schema=columns, orient="row")
    times = pl.Series(
        "timestamp", [START + timedelta(hours=hour) for hour in rows["hour"]], pl.Datetime("ns", "UTC")
    )
    names = WHOSE | {"amount_unit": "COIN", "interval": "HOUR"} | whose
    named = rows.with_columns(times, *(pl.lit(value).alias(name) for name, value in names.items()))
    return schema_of(data_type).conform(named.drop("hour"))


def totals(*rows, **whose):
    columns = {"hour": pl.Int64, "side": pl.String, "liquidations": pl.Float64}
    return frame(rows, columns, "LIQUIDATION_AGG", **whose)


def heat(*rows, **whose):
    columns = {"hour": pl.Int64, "price": pl.Float64, "liquidations": pl.Float64}
    return frame(rows, columns, "VENUEX_LIQUIDATION_AGG", **whose)


def at(hour):
    return date2num(START + timedelta(hours=hour))


def test_longs_stand_above_zero_and_shorts_below(ax, native):
    drawn = plot.liquidations(native(totals(*ROWS)), ax=ax)
    # Hour 1 has no row: nothing was liquidated.
    assert_allclose(drawn.longs.get_data().values, [3, 0, 0])
    assert_allclose(drawn.shorts.get_data().values, [-1, 0, -4])
    assert_allclose(drawn.longs.get_data().edges, [at(hour) for hour in range(4)])
    assert ax.get_ylim() == (-4.32, 4.32)


def test_the_scale_has_no_sign_but_a_unit(ax):
    plot.liquidations(totals(*ROWS), ax=ax, timezone="Asia/Tokyo")
    ax.figure.canvas.draw()
    assert not any("−" in tick.get_text() or "-" in tick.get_text() for tick in ax.get_yticklabels())
    assert ax.get_ylabel() == "Liquidations [BTC]"
    assert ax.get_xlabel() == "Time [Asia/Tokyo]"
    assert ax.get_title(loc="left") == "Liquidations · X BTC-PERP, 1h"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "Longs liquidated",
        "Shorts liquidated",
    ]


def test_liquidations_in_usd_say_so(ax):
    plot.liquidations(totals(*ROWS, amount_unit="USD"), ax=ax)
    assert ax.get_ylabel() == "Liquidations [USD]"


def test_the_price_has_an_axis_of_its_own(ax, hours):
    candles = hours(*((hour, 10.0, 12.0, 9.0, 10.0 + hour, 1.0) for hour in range(5)))
    drawn = plot.liquidations(totals(*ROWS), candles=candles, ax=ax)
    assert_allclose(drawn.price.get_xdata(), [at(hour + 0.5) for hour in range(5)])
    assert_allclose(drawn.price.get_ydata(), [10, 11, 12, 13, 14])
    assert drawn.price_ax.get_ylabel() == "Price [USDT per BTC]"
    assert ax.get_xlim()[1] >= at(5)  # the price is known for longer than something was liquidated
    ax.figure.canvas.draw()


def test_an_unknown_volume_is_not_drawn(ax):
    drawn = plot.liquidations(totals((0, "BUY", None), (1, "BUY", 2.0)), ax=ax)
    assert_allclose(drawn.longs.get_data().values, [2])


@pytest.mark.parametrize("rows", [(), ((0, "BUY", None),)])
def test_no_liquidations_say_no_data(ax, native, rows):
    drawn = plot.liquidations(native(totals(*rows)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert (drawn.longs, drawn.shorts, drawn.price) == (None, None, None)


def test_a_heatmap_stands_at_its_time_and_price(ax, native):
    drawn = plot.liquidation_heatmap(native(heat(*LEVELS)), ax=ax)
    nan = np.nan
    matrix = np.ma.filled(drawn.image.get_array().astype(float), nan)
    assert_allclose(matrix, [[1, nan, nan], [nan, nan, 4], [2, nan, nan]])
    assert drawn.image.get_extent() == [at(0), at(3), 100.0, 103.0]
    assert drawn.block_size == 1.0
    assert ax.get_title(loc="left") == "Liquidations by price · X BTC-PERP, 1h"


def test_a_heatmap_has_a_colour_bar_with_ticks_and_unit(ax):
    plot.liquidation_heatmap(heat(*LEVELS), ax=ax)
    (bar,) = ax.child_axes
    assert bar.get_ylabel() == "Liquidations [BTC per 1 USDT]"
    ax.figure.canvas.draw()
    assert len([tick for tick in bar.get_yticklabels() if tick.get_text()]) >= 2


def test_levels_are_as_high_as_the_frame_says(ax):
    drawn = plot.liquidation_heatmap(heat((0, 100.0, 1.0), (1, 120.0, 1.0), block_size=5.0), ax=ax)
    assert drawn.block_size == 5.0
    assert plot.liquidation_heatmap(heat(*LEVELS), ax=ax, block_size=2).block_size == 2.0


def test_the_price_is_drawn_over_a_heatmap(ax, hours):
    candles = hours(*((hour, 100.0, 104.0, 99.0, 100.0 + hour, 1.0) for hour in range(5)))
    drawn = plot.liquidation_heatmap(heat(*LEVELS), candles=candles, ax=ax)
    assert_allclose(drawn.price.get_data().values, [100, 101, 102, 103, 104])
    assert_allclose(ax.get_xlim(), (at(0), at(5)))
    assert ax.get_ylim()[1] > 104
    fixed = plot.liquidation_heatmap(
        heat(*LEVELS), candles=candles, ax=Figure().add_subplot(), prices=(101, 102)
    )
    assert fixed.ax.get_ylim() == (101, 103)  # levels from 101 to 102, with their height


def test_candles_do_not_change_the_unit_of_a_heatmap(ax, hours):
    candles = hours((0, 100.0, 104.0, 99.0, 100.0, 1.0)).with_columns(amount_unit=pl.lit("COIN"))
    plot.liquidation_heatmap(heat(*LEVELS, amount_unit="USD"), candles=candles, ax=ax)
    assert ax.child_axes[0].get_ylabel() == "Liquidations [USD per 1 USDT]"


@pytest.mark.parametrize("rows", [(), ((0, 100.0, None),), ((0, 100.0, 0.0),)])
def test_an_empty_heatmap_says_no_data(ax, native, rows):
    drawn = plot.liquidation_heatmap(native(heat(*rows)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert (drawn.image, drawn.block_size, drawn.price) == (None, None, None)


@pytest.mark.parametrize("draw", [plot.liquidations, plot.liquidation_heatmap])
def test_candles_of_another_coin_are_refused(ax, hours, draw):
    rows = totals(*ROWS) if draw is plot.liquidations else heat(*LEVELS)
    other = hours((0, 1.0, 1.0, 1.0, 1.0, 1.0)).with_columns(coin=pl.lit("ETH"))
    with pytest.raises(QueryError, match="candles of ETH"):
        draw(rows, candles=other, ax=ax)


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [({"block_size": 0}, "block_size"), ({"prices": (2, 1)}, "prices"), ({"timezone": "Mars"}, "timezone")],
)
def test_wrong_arguments_are_refused(ax, arguments, parameter):
    with pytest.raises(QueryError) as caught:
        plot.liquidation_heatmap(heat(*LEVELS), ax=ax, **arguments)
    assert caught.value.parameter == parameter


def test_missing_columns_are_named(ax):
    with pytest.raises(MissingColumnError, match="liquidations"):
        plot.liquidations(totals(*ROWS).drop("liquidations"), ax=ax)
    with pytest.raises(MissingColumnError, match="price"):
        plot.liquidation_heatmap(heat(*LEVELS).drop("price"), ax=ax)
