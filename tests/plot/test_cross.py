from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.analytics import cross
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)


def points(*rows):
    """Candles of (exchange, hour, close, volume)."""
    exchange, hours, close, volume = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": exchange, "raw_symbol": "BTC", "coin": "BTC", "interval": "HOUR",
            "timestamp": [START + timedelta(hours=hour) for hour in hours], "close": close, "volume": volume,
        },
        schema_overrides={"close": pl.Float64, "volume": pl.Float64},
    )  # fmt: skip


THREE = points(
    ("A", 0, 100, 1), ("B", 0, 101, 3), ("C", 0, 102, 6), ("A", 1, 100, 2), ("B", 1, 100, 8), ("A", 3, 100, 1)
)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# -- premium


def test_premiums_are_in_basis_points(ax, native):
    drawn = plot.premium(cross.premium(native(THREE)), ax=ax)
    alone = np.nan
    assert_allclose(drawn.lines["A"].get_ydata(), [(100 / 101 - 1) * 1e4, 0, np.nan, alone])
    assert_allclose(drawn.lines["C"].get_ydata(), [(102 / 101 - 1) * 1e4])
    assert list(drawn.lines) == ["A", "C"]  # that of B is 0 throughout
    assert ax.get_ylabel() == "Premium over the median [bp]"
    assert ax.get_title(loc="left") == "Premium · BTC, 3 markets, 1h"


def test_the_reference_is_named(ax):
    drawn = plot.premium(cross.premium(THREE, reference={"exchange": "B", "raw_symbol": "BTC"}), ax=ax)
    assert ax.get_ylabel() == "Premium over B BTC [bp]"
    assert list(drawn.lines) == ["A", "C"]


def test_no_premium_says_no_data(ax, native):
    assert plot.premium(native(cross.premium(THREE).clear()), ax=ax).lines == {}
    assert [text.get_text() for text in ax.texts] == ["no data"]
    with pytest.raises(MissingColumnError, match="'premium'"):
        plot.premium(THREE, ax=ax)


# -- market share


def heights(area, hour):
    """The ends of an area where an hour begins, and where the hour before it ends."""
    points = area.get_paths()[0].vertices
    where = np.abs(points[:, 0] - date2num(START + timedelta(hours=hour))) < 1e-6
    return sorted({round(float(value), 6) for value in points[where, 1]})


def test_the_largest_share_is_at_the_bottom(ax, native):
    drawn = plot.market_share(cross.market_share(native(THREE), amount="volume"), amount="volume", ax=ax)
    assert list(drawn.areas) == ["B", "C", "A"]
    assert_allclose(list(drawn.shares.values()), [11 / 21, 6 / 21, 4 / 21])
    assert heights(drawn.areas["B"], 0) == [0, 30]
    assert heights(drawn.areas["C"], 0) == [30, 90]
    assert heights(drawn.areas["A"], 0) == [90, 100]
    assert legend(ax) == ["A, 19.0%", "C, 28.6%", "B, 52.4%"]  # as the areas lie, from above
    assert ax.get_ylabel() == "Share of volume [%]"
    ax.figure.canvas.draw()


def test_a_market_has_one_colour_in_both_pictures(ax):
    shares = plot.market_share(cross.market_share(THREE, amount="volume"), ax=ax)
    over = plot.premium(
        cross.premium(THREE.with_columns(pl.col("close") + pl.col("volume") / 9)), ax=Figure().add_subplot()
    )
    assert {name: to_rgb(line.get_color()) for name, line in over.lines.items()} == {
        name: tuple(area.get_facecolor()[0][:3]) for name, area in shares.areas.items()
    }


def test_areas_fill_all_of_the_height_and_stop_at_gaps(ax):
    drawn = plot.market_share(cross.market_share(THREE, amount="volume"), ax=ax)
    top = drawn.areas["A"]
    assert len(top.get_paths()) == 2  # hour 2 is missing
    assert max(path.vertices[:, 1].max() for path in top.get_paths()) == pytest.approx(100)


def test_small_markets_are_added_up(ax):
    drawn = plot.market_share(cross.market_share(THREE, amount="volume"), most=1, ax=ax)
    assert list(drawn.areas) == ["B", "2 others"]
    assert_allclose(drawn.shares["2 others"], 10 / 21)
    # One market is not "1 others".
    assert list(plot.market_share(cross.market_share(THREE, amount="volume"), most=2, ax=ax).areas)[-1] == "A"


def test_unknown_shares_are_a_gap(ax):
    unknown = points(("A", 0, 1, 1), ("B", 0, 1, 1), ("A", 1, 1, None), ("B", 1, 1, 1))
    drawn = plot.market_share(cross.market_share(unknown, amount="volume"), ax=ax)
    assert_allclose(list(drawn.shares.values()), [0.5, 0.5])
    end = max(path.vertices[:, 0].max() for path in drawn.areas["A"].get_paths())
    assert_allclose((end - date2num(START)) * 24, 1)


def test_one_time_needs_an_interval_to_have_a_width(ax):
    shares = cross.market_share(THREE, amount="volume").filter(timestamp=START)
    drawn = plot.market_share(shares, ax=ax)
    assert_allclose(np.ptp(drawn.times) * 24, 1)
    with pytest.raises(QueryError, match="got 'one time and no interval', expected a column interval"):
        plot.market_share(shares.drop("interval"), ax=ax)


def test_no_shares_say_no_data(ax, native):
    empty = native(cross.market_share(THREE, amount="volume").clear())
    drawn = plot.market_share(empty, ax=ax)
    assert (drawn.areas, drawn.shares) == ({}, {})
    assert [text.get_text() for text in ax.texts] == ["no data"]
    with pytest.raises(QueryError, match="most: got 0"):
        plot.market_share(empty, most=0, ax=ax)
    with pytest.raises(MissingColumnError, match="'share'"):
        plot.market_share(THREE, ax=ax)
