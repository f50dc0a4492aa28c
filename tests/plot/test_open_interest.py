from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)


def interest(*closes, exchange="A", unit="COIN", coin="BTC"):
    """Open interest of an hour each."""
    return pl.DataFrame(
        {
            "exchange": exchange, "raw_symbol": "X", "coin": coin, "interval": "HOUR", "amount_unit": unit,
            "timestamp": [START + timedelta(hours=hour) for hour in range(len(closes))], "close": closes,
        },
        schema_overrides={"close": pl.Float64},
    )  # fmt: skip


def candles(*closes, exchange="A"):
    frame = interest(*closes, exchange=exchange).drop("amount_unit")
    return frame.with_columns(pl.col("close").alias(name) for name in ("open", "high", "low"))


@pytest.fixture
def axes():
    return Figure(figsize=(9, 7)).subplots(3, sharex=True)


def test_each_change_has_the_colour_of_its_quadrant(axes, native):
    """The example of the quadrants: each of the four once."""
    drawn = plot.open_interest(
        native(interest(50, 52, 51, 53, 49)), candles=native(candles(100, 101, 102, 101, 99)), axes=axes
    )
    nan = np.nan
    expected = {
        "new_longs": [nan, 4, nan, nan, nan],
        "short_covering": [nan, nan, -100 / 52, nan, nan],
        "new_shorts": [nan, nan, nan, 200 / 51, nan],
        "long_unwinding": [nan, nan, nan, nan, -400 / 53],
    }
    assert {name: steps.get_data().values.tolist() for name, steps in drawn.changes.items()} == {
        name: pytest.approx(values, nan_ok=True) for name, values in expected.items()
    }
    assert len({steps.get_facecolor() for steps in drawn.changes.values()}) == 4
    assert [text.get_text() for text in axes[2].get_legend().get_texts()] == [
        "new longs: price up, OI up (25%)",
        "short covering: price up, OI down (25%)",
        "new shorts: price down, OI up (25%)",
        "long unwinding: price down, OI down (25%)",
    ]
    assert_allclose(drawn.lines["A X"].get_ydata(), [50, 52, 51, 53, 49, 49])
    assert len(drawn.bodies.get_paths()) == 5
    axes[0].figure.canvas.draw()


def test_axes_are_labelled_with_units(axes):
    plot.open_interest(interest(50, 52), candles=candles(100, 101), axes=axes)
    assert [ax.get_ylabel() for ax in axes] == [
        "Price [quote per BTC]",
        "Open interest [BTC]",
        "OI change [%]",
    ]
    assert axes[0].get_title(loc="left") == "Price and open interest · A X, 1h"
    assert axes[2].get_xlabel() == "Time [UTC]"
    limits = {ax.get_xlim() for ax in axes}
    assert len(limits) == 1


def test_small_changes_are_flat(axes):
    drawn = plot.open_interest(interest(50, 52), candles=candles(100, 101), oi_band=0.1, axes=axes)
    assert list(drawn.changes) == ["flat"]


def test_several_markets_have_a_line_each_and_a_sum(ax, native):
    both = pl.concat([interest(5, 6), interest(1, 2, exchange="B")])
    drawn = plot.open_interest(native(both), axes=ax)
    assert {name: line.get_ydata().tolist() for name, line in drawn.lines.items()} == {
        "A": [5, 6, 6],
        "B": [1, 2, 2],
    }
    assert drawn.total.get_ydata().tolist() == [6, 8, 8]
    assert ax.get_title(loc="left") == "Open interest · X, 2 markets, 1h"
    assert drawn.axes == (ax,)
    assert ax.get_ylim()[0] == 0


def test_coins_are_not_added_up(ax):
    both = pl.concat([interest(5, 6), interest(1, 2, coin="ETH")])
    assert plot.open_interest(both, axes=ax).total is None


def test_no_open_interest_says_no_data(ax, axes, native):
    assert plot.open_interest(native(interest(1).clear()), axes=ax).lines == {}
    assert [text.get_text() for text in ax.texts] == ["no data"]
    drawn = plot.open_interest(native(interest(1).clear()), candles=native(candles(1).clear()), axes=axes)
    assert drawn.changes == {}
    assert [text.get_text() for part in axes for text in part.texts] == ["no data"] * 3


def test_what_is_wrong_is_named(ax, axes):
    with pytest.raises(MissingColumnError, match="'close'"):
        plot.open_interest(interest(1).drop("close"), axes=ax)
    with pytest.raises(QueryError, match="2 markets"):
        plot.open_interest(pl.concat([interest(1), interest(1, exchange="B")]), candles=candles(1), axes=axes)
    with pytest.raises(QueryError, match="in USD it moves with the price"):
        plot.open_interest(interest(1, 2, unit="USD"), candles=candles(1, 2), axes=axes)
    with pytest.raises(QueryError, match="axes: got '3 axes'"):
        plot.open_interest(interest(1), axes=axes)
    with pytest.raises(QueryError, match="axes: got '1 axes'"):
        plot.open_interest(interest(1), candles=candles(1), axes=ax)
