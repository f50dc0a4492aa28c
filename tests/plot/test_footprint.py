"""Footprints, by their artists."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError

# (price, bought, sold) of the first hour and of the second.
FIRST = ((100.0, 1.0, 2.0), (101.0, 9.0, 1.0), (102.0, 4.0, 6.0), (103.0, 0.0, 1.0))
SECOND = ((101.0, 5.0, 5.0), (102.0, 0.0, 0.0), (103.0, 1.0, 8.0))


@pytest.fixture
def points(levels):
    """A volume profile of each hour."""

    def frame(*hours, **whose):
        parts = [
            levels(*rows, **({"interval": "HOUR"} | whose)).with_columns(
                pl.col("timestamp") + timedelta(hours=hour)
            )
            for hour, rows in enumerate(hours)
        ]
        return pl.concat(parts)

    return frame


def boxes(collection):
    """Left, right, low and high of each rectangle."""
    found = [path.get_extents() for path in collection.get_paths()]
    return [(box.x0, box.x1, box.y0, box.y1) for box in found]


def test_each_level_that_traded_has_its_delta(points, ax, native):
    drawn = plot.footprint(native(points(FIRST, SECOND)), ax=ax)
    assert_allclose(
        [box[2:] for box in boxes(drawn.levels)], [(p, p + 1) for p in (100, 101, 102, 103, 101, 103)]
    )
    assert_allclose(drawn.levels.get_array(), [-1, 8, -2, -1, 0, -7])
    assert drawn.row_height == 1.0


def test_levels_stand_inside_their_interval(points, ax):
    frame = points(FIRST, SECOND)
    start = date2num(frame["timestamp"][0])
    drawn = plot.footprint(frame, ax=ax)
    for (left, right, *_), hour in zip(boxes(drawn.levels), (0, 0, 0, 0, 1, 1), strict=True):
        assert start + hour / 24 < left < right < start + (hour + 1) / 24


def test_numbers_say_what_was_sold_and_bought(points, ax):
    drawn = plot.footprint(points(FIRST, SECOND), ax=ax)
    assert [text.get_text() for text in drawn.numbers[:2]] == ["2.00 × 1.00", "1.00 × 9.00"]
    assert len(drawn.numbers) == 6


@pytest.mark.slow
def test_colours_alone_where_numbers_have_no_room(points):
    drawn = plot.footprint(points(*[FIRST] * 60), ax=Figure(figsize=(6, 4)).add_subplot())
    assert drawn.numbers == ()
    assert len(drawn.levels.get_paths()) == 240
    fine = [(100 + n / 10, 1.0, 2.0) for n in range(1000)]
    drawn = plot.footprint(points(fine), ax=Figure(figsize=(6, 4)).add_subplot())
    assert len(drawn.numbers) == len(drawn.levels.get_paths()) <= 40  # larger rows, with room for numbers


def test_the_row_that_traded_most_is_framed(points, ax):
    drawn = plot.footprint(points(FIRST, SECOND), ax=ax)
    # 10 at 101 and at 102: the first hour's are a tie, and the one nearer to the centre wins.
    assert [box[2] for box in boxes(drawn.pocs)] == [101.0, 101.0]


def test_imbalances_are_diagonal(points, ax):
    drawn = plot.footprint(points(FIRST, SECOND), ax=ax)
    # 9 bought at 101 against 2 sold at 100; 4 at 102 against 1 at 101. The mean side of a row is 3.
    assert_allclose([segment[:, 1].mean() for segment in drawn.buy_imbalances.get_segments()], [101.5, 102.5])
    # 6 sold at 102 against 0 bought at 103. Of 103 in the second hour, 102 did not trade, and there is none above.
    assert_allclose([segment[:, 1].mean() for segment in drawn.sell_imbalances.get_segments()], [102.5])
    strict = plot.footprint(points(FIRST, SECOND), ax=Figure().add_subplot(), imbalance=4.2)
    assert len(strict.buy_imbalances.get_segments()) == 1


def test_larger_rows_add_up(points, ax):
    drawn = plot.footprint(points(FIRST), ax=ax, row_size=2)
    assert_allclose(drawn.levels.get_array(), [7, -3])
    assert_allclose([box[2:] for box in boxes(drawn.levels)], [(100, 102), (102, 104)])


def test_axes_are_labelled_with_units(points, ax):
    plot.footprint(points(FIRST, SECOND), ax=ax, timezone="Asia/Tokyo")
    assert ax.get_title(loc="left") == "Footprint · X BTCUSDT, 1h, sold × bought [BTC], rows of 1 USDT"
    assert ax.get_ylabel() == "Price [USDT per BTC]"
    assert ax.get_xlabel() == "Time [Asia/Tokyo]"
    assert [inset.get_ylabel() for inset in ax.child_axes] == ["Delta [BTC per 1 USDT]"]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["POC", "Buy imbalance, 3×", "Sell imbalance, 3×"]
    ax.figure.canvas.draw()


@pytest.mark.parametrize("rows", [(), ((100.0, None, 1.0),), ((100.0, 0.0, 0.0),)])
def test_nothing_traded_says_no_data(points, ax, native, rows):
    drawn = plot.footprint(native(points(rows)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert (drawn.levels, drawn.numbers, drawn.row_height) == (None, (), None)


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [({"row_size": 0}, "row_size"), ({"imbalance": 1}, "imbalance"), ({"timezone": "Mars"}, "timezone")],
)
def test_wrong_arguments_are_refused(points, ax, arguments, parameter):
    with pytest.raises(QueryError) as caught:
        plot.footprint(points(FIRST), ax=ax, **arguments)
    assert caught.value.parameter == parameter


def test_a_profile_without_sides_is_refused(points, ax):
    with pytest.raises(MissingColumnError, match="sell_volume"):
        plot.footprint(points(FIRST).drop("sell_volume"), ax=ax)
