from __future__ import annotations

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.dates import num2date
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError

UP = (0, 60.0, 64.0, 59.0, 62.0, 5.0)
DOWN = (1, 62.0, 63.0, 58.0, 59.0, 7.0)
DOJI = (2, 59.0, 60.0, 58.5, 59.0, 2.0)
HOUR = 1 / 24


def boxes(drawn):
    """(left, bottom, right, top) of every body."""
    return np.array([path.get_extents().extents for path in drawn.bodies.get_paths()])


def test_wick_reaches_from_low_to_high_in_the_middle_of_the_interval(hours, ax, native):
    drawn = plot.candles(native(hours(UP, DOWN)), ax=ax)
    (x0, low), (x1, high) = drawn.wicks.get_segments()[0]
    assert x0 == x1
    assert num2date(x0).isoformat() == "2024-08-08T00:30:00+00:00"
    assert (low, high) == (59.0, 64.0)


def test_body_lies_between_open_and_close_inside_its_interval(hours, ax, native):
    drawn = plot.candles(native(hours(UP, DOWN)), ax=ax)
    left, bottom, right, top = boxes(drawn).T
    assert_allclose(bottom, [60.0, 59.0])
    assert_allclose(top, [62.0, 62.0])
    assert right[0] < left[1]
    assert ((right - left) < HOUR).all()
    assert ((right - left) > HOUR / 2).all()


def test_colour_says_the_direction(hours, ax):
    colours = [to_hex(colour) for colour in plot.candles(hours(UP, DOWN, DOJI), ax=ax).bodies.get_facecolor()]
    assert colours == ["#0072b2", "#d55e00", "#5b6167"]


def test_doji_is_a_line(hours, ax):
    drawn = plot.candles(hours(DOJI), ax=ax)
    ((_, bottom, _, top),) = boxes(drawn)
    assert bottom == top == 59.0
    assert drawn.bodies.get_linewidth()[0] > 0
    assert to_hex(drawn.bodies.get_edgecolor()[0]) == "#5b6167"


def test_axes_are_labelled_with_units(hours, ax):
    plot.candles(hours(UP), ax=ax, timezone="Asia/Tokyo")
    assert ax.get_ylabel() == "Price [USDT per BTC]"
    assert ax.get_xlabel() == "Time [Asia/Tokyo]"
    assert ax.get_title(loc="left") == "Candles · X BTCUSDT, 1h"


def test_units_without_identity_are_those_of_the_schema(hours, ax):
    frame = hours(UP).select("timestamp", "open", "high", "low", "close", "volume")
    plot.candles(frame, ax=ax)
    assert ax.get_ylabel() == "Price [quote per coin]"
    assert ax.get_title(loc="left") == "Candles"


def test_series_of_several_venues_is_named_by_its_symbol(hours, ax):
    frame = hours(UP).with_columns(exchange=pl.lit(None), raw_symbol=pl.lit(None))
    plot.candles(frame, ax=ax)
    assert ax.get_title(loc="left") == "Candles · BTC-USDT, 1h"


def test_times_are_shown_in_the_zone(hours, ax):
    plot.candles(hours(*((hour, *UP[1:]) for hour in range(6))), ax=ax, timezone="Asia/Tokyo")
    ax.figure.canvas.draw()
    assert "09:00" in [tick.get_text() for tick in ax.get_xticklabels()]


def test_naive_times_are_refused(hours, ax):
    with pytest.raises(QueryError, match="zone"):
        plot.candles(hours(UP).with_columns(pl.col("timestamp").dt.replace_time_zone(None)), ax=ax)


@pytest.mark.parametrize(("rows", "width"), [([UP], 1 / 1440), ([UP, DOWN, (5, *UP[1:])], HOUR)])
def test_without_an_interval_the_nearest_candles_say_it(hours, ax, rows, width):
    drawn = plot.volume(hours(*rows).drop("interval"), ax=ax)
    assert_allclose(np.diff(drawn.steps.get_data().edges)[0], width, rtol=1e-6)


def test_missing_prices_and_missing_rows_are_gaps(hours, ax):
    frame = hours(UP, (1, None, None, None, None, None), (2, *DOWN[1:]), (6, *UP[1:]))
    assert len(plot.candles(frame, ax=ax).bodies.get_paths()) == 3
    left = boxes(plot.candles(frame, ax=ax))[:, 0]
    assert_allclose(np.diff(left) / HOUR, [2, 4], rtol=1e-6)


def test_order_of_the_rows_does_not_matter(hours, ax):
    frame = hours(UP, DOWN, DOJI)
    drawn = [plot.candles(f, ax=ax) for f in (frame, frame.reverse())]
    assert_allclose(boxes(drawn[0]), boxes(drawn[1]))


@pytest.mark.parametrize("function", [plot.candles, plot.volume])
def test_empty_frame_says_no_data(hours, ax, native, function):
    function(native(hours(UP).clear()), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    ax.figure.canvas.draw()


def test_price_that_never_moves_has_a_range(hours, ax):
    plot.candles(hours((0, 5.0, 5.0, 5.0, 5.0, 0.0)), ax=ax)
    low, high = ax.get_ylim()
    assert low < 5.0 < high
    ax.figure.canvas.draw()


def test_several_markets_are_refused(hours, ax, native):
    other = hours(DOWN).with_columns(raw_symbol=pl.lit("ETHUSDT").cast(pl.Categorical))
    with pytest.raises(QueryError, match=r"BTCUSDT, ETHUSDT.*filter the frame to one raw_symbol") as caught:
        plot.candles(native(pl.concat([hours(UP), other])), ax=ax)
    assert caught.value.parameter == "frame"


def test_both_sides_in_one_frame_are_refused(hours, ax):
    sides = [hours(UP).with_columns(side=pl.lit(side)) for side in ("BUY", "SELL")]
    with pytest.raises(QueryError, match="filter the frame to one side"):
        plot.candles(pl.concat(sides), ax=ax)


def test_times_that_repeat_are_refused(hours, ax):
    frame = hours(UP).select("timestamp", "open", "high", "low", "close")
    with pytest.raises(QueryError, match="several rows of one timestamp"):
        plot.candles(pl.concat([frame, frame]), ax=ax)


def test_missing_column_is_named(hours, ax, native):
    with pytest.raises(MissingColumnError, match="'low'"):
        plot.candles(native(hours(UP).drop("low")), ax=ax)


@pytest.mark.parametrize("frame", [None, [1, 2], {"open": [1.0]}])
def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(QueryError, match="a frame of polars, pandas"):
        plot.candles(frame)


def test_integers_are_nanoseconds(hours, ax, native):
    counted = hours(UP, DOWN).with_columns(pl.col("timestamp").cast(pl.Int64))
    drawn = plot.candles(native(counted), ax=ax)
    assert num2date(drawn.wicks.get_segments()[0][0][0]).isoformat() == "2024-08-08T00:30:00+00:00"
    assert len(plot.volume(native(counted), ax=ax).steps.get_data().values) == 2


def test_text_and_floats_are_no_times(hours, ax):
    for kind in (pl.String, pl.Float64):
        with pytest.raises(QueryError, match="times with a zone"):
            plot.candles(hours(UP).with_columns(pl.col("timestamp").cast(pl.Int64).cast(kind)), ax=ax)


@pytest.mark.parametrize("timezone", ["Mars/Olympus", "", 3, "../etc"])
def test_unknown_zone_is_refused(hours, ax, timezone):
    with pytest.raises(QueryError, match="timezone"):
        plot.candles(hours(UP), ax=ax, timezone=timezone)


def test_volume_is_one_step_per_interval_and_none_in_a_gap(hours, ax, native):
    drawn = plot.volume(native(hours(UP, DOWN, (4, *DOJI[1:]))), ax=ax)
    values, edges, _ = drawn.steps.get_data()
    assert_allclose(values, [5.0, 7.0, np.nan, 2.0])
    assert_allclose((edges - edges[0]) / HOUR, [0, 1, 2, 4, 5], atol=1e-6)
    assert ax.get_ylabel() == "Volume [BTC]"
    assert ax.get_ylim()[0] == 0


def test_volume_in_usd_is_labelled_so(hours, ax):
    plot.volume(hours(UP).with_columns(amount_unit=pl.lit("USD")), ax=ax)
    assert ax.get_ylabel() == "Volume [USD]"
    plot.volume(hours(UP).drop("amount_unit"), ax=ax, quote="USD")
    assert ax.get_ylabel() == "Volume [USD]"


def test_a_unit_that_is_not_known_is_not_shown(hours, ax):
    plot.volume(hours(UP).drop("amount_unit"), ax=ax)
    assert ax.get_ylabel() == "Volume"
    some = pl.when(pl.col("open") == pl.col("open").first()).then(pl.lit("COIN"))
    plot.volume(hours(UP, DOWN).with_columns(amount_unit=some), ax=ax)
    assert ax.get_ylabel() == "Volume"


def test_coins_and_dollars_are_not_drawn_on_one_axis(hours, ax):
    frame = hours(UP, DOWN).with_columns(amount_unit=pl.Series(["COIN", "USD"]))
    with pytest.raises(QueryError, match="2 values of amount_unit: COIN, USD"):
        plot.volume(frame, ax=ax)


@pytest.mark.parametrize(("unit", "label"), [("COIN", " [BTC]"), ("USD", " [USD]"), (None, "")])
def test_open_interest_is_not_a_price(hours, ax, unit, label):
    frame = hours(UP, DOWN).drop("volume").with_columns(amount_unit=pl.lit(unit, pl.String))
    plot.candles(frame, ax=ax)
    assert ax.get_ylabel() == f"Open interest{label}"


@pytest.mark.slow
def test_thousands_of_candles_are_two_artists(hours, ax):
    frame = hours(*((hour, *UP[1:]) for hour in range(5000)))
    drawn = plot.candles(frame, ax=ax)
    assert list(ax.collections) == [drawn.wicks, drawn.bodies]
    assert len(drawn.wicks.get_segments()) == 5000
    assert not list(ax.patches)


@pytest.mark.slow
def test_tick_labels_do_not_touch(hours):
    from matplotlib.figure import Figure

    for width in (3, 6, 14, 25):
        for count in (1, 7, 49, 300, 5000):
            axes = Figure(figsize=(width, 4), layout="constrained").add_subplot()
            plot.candles(hours(*((hour, *UP[1:]) for hour in range(count))), ax=axes)
            axes.figure.canvas.draw()
            shown = [tick for tick in axes.get_xticklabels() if tick.get_text()]
            low, high = axes.get_xlim()
            extents = [t.get_window_extent() for t in shown if low <= t.get_position()[0] <= high]
            assert all(a.x1 < b.x0 for a, b in pairwise(extents)), (width, count)


def test_new_figure_is_pyplots_and_nothing_else_changes(hours):
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    other = plt.figure().add_subplot()
    drawn = plot.candles(hours(UP))
    assert drawn.ax is not other
    assert not other.has_data()
    assert drawn.ax.figure.number in plt.get_fignums()
    assert dict(mpl.rcParams) == before
    plt.close("all")
