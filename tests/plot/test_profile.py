from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import aggregate, plot
from tidytape.analytics.profile import value_area
from tidytape.errors import MissingColumnError, QueryError

# Volumes 1, 4, 10, 4, 1: definitions.md's first golden profile.
GOLDEN = ((10.0, 1.0, 0.0), (11.0, 1.0, 3.0), (12.0, 5.0, 5.0), (13.0, 4.0, 0.0), (14.0, 0.0, 1.0))


def test_a_profile_of_candles_says_so(ax, levels):
    plot.volume_profile(levels((10.0, 1.0, 2.0)).with_columns(spreading=pl.lit("close")), ax=ax)
    assert ax.get_title(loc="left").endswith("made of candles")


def test_buys_and_sells_are_stacked(levels, ax, native):
    drawn = plot.volume_profile(native(levels(*GOLDEN)), ax=ax)
    buy, sell = drawn.buy.get_data(), drawn.sell.get_data()
    assert_allclose(buy.values, [1, 1, 5, 4, 0])
    assert_allclose(sell.baseline, buy.values)
    assert_allclose(sell.values, [1, 4, 10, 4, 1])
    assert_allclose(buy.edges, [10, 11, 12, 13, 14, 15])
    assert drawn.buy.orientation == drawn.sell.orientation == "horizontal"
    assert drawn.buy.get_facecolor() != drawn.sell.get_facecolor()


def test_levels_without_sides_show_their_volumes(levels, ax, native):
    frame = levels(*GOLDEN)
    sides = [pl.when(pl.col("price") != 12).then(name).alias(name) for name in ("buy_volume", "sell_volume")]
    volume = pl.col("buy_volume") + pl.col("sell_volume")
    drawn = plot.volume_profile(native(frame.with_columns(*sides, volume=volume)), ax=ax)
    assert (drawn.buy, drawn.sell) == (None, None)  # a bar of the known sides alone would look like the whole
    assert_allclose(drawn.volume.get_data().values, [1, 4, 10, 4, 1])
    assert drawn.poc == 12.0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"rule": "one_row"}, (12.0, 13.0)),
        ({"rule": "one_row", "tie": "down"}, (11.0, 12.0)),
        ({"rule": "one_row", "stop": "exceed"}, (11.0, 13.0)),
        ({}, (12.0, 14.0)),
        ({"share": 0.4}, (12.0, 12.0)),
    ],
)
def test_lines_are_at_the_value_area(levels, ax, arguments, expected):
    drawn = plot.volume_profile(levels(*GOLDEN), ax=ax, **arguments)
    assert (drawn.val, drawn.vah) == expected
    assert {name: line.get_ydata()[0] for name, line in drawn.lines.items()} == {
        "VAH": expected[1],
        "POC": 12.0,
        "VAL": expected[0],
    }


def test_shade_covers_the_rows_of_the_value_area(levels, ax):
    drawn = plot.volume_profile(levels(*GOLDEN), ax=ax)
    assert drawn.value_area.get_y() == 12.0
    assert drawn.value_area.get_y() + drawn.value_area.get_height() == 15.0  # row 14 reaches to 15


def test_legend_names_lines_with_their_prices(levels, ax):
    plot.volume_profile(levels(*((price / 2, buy, sell) for price, buy, sell in GOLDEN)), ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "VAH 7.0",
        "POC 6.0",
        "VAL 6.0",
        "Value area, 75%",
        "Buy volume",
        "Sell volume",
    ]


@pytest.mark.slow
def test_axes_are_labelled_with_units(levels, ax):
    plot.volume_profile(levels(*GOLDEN), ax=ax)
    assert ax.get_xlabel() == "Volume [BTC per 1 USDT]"
    assert ax.get_ylabel() == "Price [USDT per BTC]"
    assert ax.get_title(loc="left") == "Volume profile · X BTCUSDT"
    plot.volume_profile(levels(*GOLDEN, amount_unit="USD"), ax=ax)
    assert ax.get_xlabel() == "Volume [USD per 1 USDT]"
    plot.volume_profile(levels(*GOLDEN).drop("amount_unit"), ax=ax)
    assert ax.get_xlabel() == "Volume"


def test_levels_of_several_timestamps_are_added(levels, ax, native):
    later = levels(*GOLDEN[2:]).with_columns(pl.col("timestamp").dt.offset_by("1h"))
    drawn = plot.volume_profile(native(pl.concat([levels(*GOLDEN), later])), ax=ax)
    assert_allclose(drawn.sell.get_data().values, [1, 4, 20, 8, 2])


def test_a_profile_that_does_not_tell_sides_apart_has_one_colour(levels, ax, native):
    plain = levels(*GOLDEN).with_columns(volume=pl.col("buy_volume") + pl.col("sell_volume"))
    drawn = plot.volume_profile(native(plain.drop("buy_volume", "sell_volume")), ax=ax)
    assert (drawn.buy, drawn.sell) == (None, None)
    assert_allclose(drawn.volume.get_data().values, [1, 4, 10, 4, 1])
    assert_allclose(drawn.volume.get_data().edges, [10, 11, 12, 13, 14, 15])
    assert (drawn.val, drawn.poc, drawn.vah) == (12.0, 12.0, 14.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()][-2:] == ["Value area, 75%", "Volume"]
    assert plot.volume_profile(native(plain), ax=ax).volume is None


def test_a_profile_without_sides_is_gathered_and_may_be_empty(levels, ax):
    plain = levels(*GOLDEN).select("timestamp", "price", volume=pl.col("buy_volume") + pl.col("sell_volume"))
    drawn = plot.volume_profile(plain, ax=ax, row_size=5)
    assert_allclose(drawn.volume.get_data().values, [20])
    empty = plot.volume_profile(plain.clear(), ax=Figure().add_subplot())
    assert (empty.poc, empty.buy) == (None, None)
    with pytest.raises(MissingColumnError, match="buy_volume"):
        plot.volume_profile(plain.drop("volume"), ax=ax)


@pytest.mark.slow
def test_a_profile_of_candles_is_drawn(hours):
    bars = hours((0, 60.0, 64.0, 59.0, 62.0, 5.0), (1, 62.0, 63.0, 58.0, 59.0, 7.0))
    profile = aggregate.candle_profile(bars, interval="1d", block_size=1, spreading="uniform")
    drawn = plot.candles_with_profile(bars, profile, axes=plot.panels(Figure()))
    assert drawn.volume.get_data().values.sum() == pytest.approx(12.0)


@pytest.mark.slow
def test_title_says_how_many_timestamps_were_added(levels, ax):
    hour = levels(*GOLDEN).with_columns(interval=pl.lit("HOUR"))
    later = hour.with_columns(pl.col("timestamp").dt.offset_by("1h"))
    plot.volume_profile(hour, ax=ax)
    assert ax.get_title(loc="left") == "Volume profile · X BTCUSDT, 1h"
    plot.volume_profile(pl.concat([hour, later]), ax=ax)
    assert ax.get_title(loc="left") == "Volume profile · X BTCUSDT, 2 × 1h"
    plot.volume_profile(pl.concat([hour, later]).drop("interval"), ax=ax)
    assert ax.get_title(loc="left") == "Volume profile · X BTCUSDT, 2 timestamps"


def test_a_profile_has_its_figure(levels, ax):
    assert plot.volume_profile(levels(*GOLDEN), ax=ax).figure is ax.figure


def test_rows_are_gathered_before_the_value_area(levels, ax):
    fine = levels(*((100 + step / 10, 1.0, 0.5 if step != 15 else 1.5) for step in range(40)))
    drawn = plot.volume_profile(fine, ax=ax, row_size=Decimal(1))
    assert (drawn.row_height, drawn.note) == (1.0, "")
    assert_allclose(drawn.buy.get_data().edges, [100, 101, 102, 103, 104])
    assert_allclose(drawn.sell.get_data().values, [15, 16, 15, 15])
    assert drawn.poc == 101.0
    assert plot.volume_profile(fine, ax=ax).poc == 101.5


def test_no_level_falls_in_a_neighbours_row(levels, ax):
    prices = [round(0.1 * step, 1) for step in range(1000)]
    drawn = plot.volume_profile(levels(*((price, 1.0, 0.0) for price in prices)), ax=ax, row_size=0.1)
    together = round(drawn.row_height / 0.1)
    assert_allclose(drawn.buy.get_data().values, together)


def test_a_grid_need_not_go_through_zero(levels, ax):
    drawn = plot.volume_profile(levels((0.5, 1.0, 0.0), (1.5, 2.0, 0.0), (3.5, 3.0, 0.0)), ax=ax)
    assert_allclose(drawn.buy.get_data().edges, [0.5, 1.5, 2.5, 3.5, 4.5])
    assert_allclose(drawn.buy.get_data().values, [1, 2, 0, 3])


def dense(levels):
    return levels(*((50_000 + step / 10, 1.0 + step % 7, 2.0) for step in range(8000)))


def test_dense_profile_is_drawn_in_rows_that_can_be_seen(levels, ax):
    frame = dense(levels)
    drawn = plot.volume_profile(frame, ax=ax)
    rows = drawn.buy.get_data()
    assert 50 < rows.values.size <= 201
    assert_allclose(drawn.sell.get_data().values.sum(), (frame["buy_volume"] + frame["sell_volume"]).sum())
    assert drawn.row_height == pytest.approx(5.0)
    assert drawn.note == ax.get_legend().get_title().get_text() == ""
    assert ax.get_xlabel() == "Volume [BTC per 5 USDT]"


def test_rows_finer_than_one_can_see_are_drawn_together_and_the_legend_says_so(levels, ax):
    drawn = plot.volume_profile(dense(levels), ax=ax, row_size=Decimal("0.1"))
    assert drawn.row_height == pytest.approx(5.0)
    assert ax.get_legend().get_title().get_text() == drawn.note == "area: rows of 0.1 USDT"


@pytest.mark.parametrize("row_size", [None, 0.1])
def test_value_area_of_a_dense_profile_is_that_of_its_rows(levels, ax, row_size):
    frame = dense(levels)
    drawn = plot.volume_profile(frame, ax=ax, row_size=row_size)
    wanted = value_area(
        frame.with_columns(volume=pl.col("buy_volume") + pl.col("sell_volume")),
        by="exchange",
        row_size=row_size or drawn.row_height,
    )
    assert (drawn.poc, drawn.vah, drawn.val) == wanted.select("poc", "vah", "val").row(0)


@pytest.mark.parametrize("number", [199, 200, 201, 399, 2000, 2005])
@pytest.mark.parametrize("first", [50_000, 50_007])
def test_the_longest_row_is_the_point_of_control(levels, number, first):
    """Rows that begin at no round price may be one more than fit, and still have one height."""
    random = np.random.default_rng(number)
    frame = levels(
        *((first + step, volume, 1.0) for step, volume in enumerate(random.exponential(5, number)))
    )
    drawn = plot.volume_profile(frame, ax=Figure().add_subplot())
    rows = drawn.sell.get_data()
    longest = int(np.argmax(rows.values))
    assert (drawn.poc, drawn.note) == (rows.edges[longest], "")
    assert rows.values.size <= 201


@pytest.mark.slow
def test_rows_have_no_seams():
    """Every pixel inside the bars of an even profile has one colour, at heights no multiple of the rows'."""
    for inches in (3.37, 5.0, 7.91):
        figure = Figure(figsize=(3, inches), dpi=100)
        axes = figure.add_axes((0, 0, 1, 1))
        columns = ("price", "buy_volume", "sell_volume")
        frame = pl.DataFrame(
            [(float(price), 5.0, 5.0) for price in range(5000)], schema=columns, orient="row"
        )
        drawn = plot.volume_profile(frame, ax=axes)
        for artist in (*drawn.lines.values(), axes.get_legend(), drawn.value_area):
            artist.remove()
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        image = np.asarray(canvas.buffer_rgba())
        column = image[int(0.1 * len(image)) : int(0.9 * len(image)), 20, :3]
        assert len(np.unique(column, axis=0)) == 1


def test_single_level(levels, ax):
    drawn = plot.volume_profile(levels((60_000.0, 1.0, 2.0)), ax=ax)
    assert (drawn.val, drawn.poc, drawn.vah) == (60_000.0,) * 3
    assert drawn.row_height > 0
    ax.figure.canvas.draw()


def test_profile_of_no_volume_has_no_lines(levels, ax):
    drawn = plot.volume_profile(levels((1.0, 0.0, 0.0), (2.0, 0.0, 0.0)), ax=ax)
    assert (drawn.poc, drawn.lines, drawn.value_area) == (None, {}, None)
    ax.figure.canvas.draw()


@pytest.mark.parametrize("row_size", [None, 0.5])
def test_empty_profile_says_no_data(levels, ax, native, row_size):
    drawn = plot.volume_profile(native(levels(*GOLDEN).clear()), ax=ax, row_size=row_size)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert drawn.poc is None
    ax.figure.canvas.draw()


def test_levels_that_lack_a_value_do_not_count(levels, ax, native):
    drawn = plot.volume_profile(native(levels(*GOLDEN, (None, 9.0, 9.0), (20.0, None, 9.0))), ax=ax)
    assert_allclose(drawn.sell.get_data().values, [1, 4, 10, 4, 1])


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"share": 0}, "share"),
        ({"rule": "three_row"}, "rule"),
        ({"row_size": -1}, "row_size"),
        ({"tie": 1}, "tie"),
    ],
)
@pytest.mark.parametrize("rows", [(), GOLDEN])
def test_wrong_arguments_are_refused_whatever_the_data(levels, ax, arguments, parameter, rows):
    with pytest.raises(QueryError) as caught:
        plot.volume_profile(levels(*rows), ax=ax, **arguments)
    assert caught.value.parameter == parameter


def test_missing_column_is_named(levels, ax):
    with pytest.raises(MissingColumnError, match="'sell_volume'"):
        plot.volume_profile(levels(*GOLDEN).drop("sell_volume"), ax=ax)


def test_several_markets_are_refused(levels, ax):
    with pytest.raises(QueryError, match="filter the frame to one exchange"):
        plot.volume_profile(pl.concat([levels(*GOLDEN), levels(*GOLDEN, exchange="Y")]), ax=ax)
