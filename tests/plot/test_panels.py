from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.figure import Figure

from tidytape import plot
from tidytape.errors import QueryError

CANDLES = ((0, 60.0, 64.0, 59.0, 62.0, 5.0), (1, 62.0, 63.0, 58.0, 59.0, 7.0))
LEVELS = ((58.0, 1.0, 1.0), (59.0, 2.0, 1.0), (60.0, 4.0, 3.0), (61.0, 0.0, 1.0), (65.0, 0.5, 0.0))


@pytest.fixture
def axes():
    return plot.panels(Figure(figsize=(14, 8), dpi=100))


def test_lines_cross_candles_and_profile_at_one_price(hours, levels, axes, native):
    drawn = plot.candles_with_profile(native(hours(*CANDLES)), native(levels(*LEVELS)), axes=axes)
    assert list(drawn.lines) == ["VAH", "POC", "VAL"]
    for name, line in drawn.lines.items():
        assert line.axes is axes.price
        assert list(line.get_ydata()) == list(drawn.lines_beside[name].get_ydata())
    assert drawn.value_area.axes is axes.price
    assert drawn.poc == 60.0


def test_panels_show_the_same_prices_and_times(hours, levels, axes):
    plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=axes)
    assert axes.price.get_ylim() == axes.profile.get_ylim()
    assert axes.price.get_xlim() == axes.volume.get_xlim()
    low, high = axes.price.get_ylim()
    assert low < 58.0
    assert high > 66.0  # the upper edge of a row that only the profile has


def test_axes_of_ones_own_need_not_share(hours, levels):
    figure = Figure()
    own = [figure.add_subplot(2, 2, place) for place in (1, 2, 3)]
    drawn = plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=own)
    assert drawn.axes.key is None
    assert drawn.figure is figure
    assert own[0].get_ylim() == own[1].get_ylim()
    assert own[0].get_xlim() == own[2].get_xlim()
    assert own[1].get_legend() is not None
    figure.canvas.draw()


def test_every_axis_is_labelled_once(hours, levels, axes):
    plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=axes)
    assert axes.price.get_ylabel() == "Price [USDT per BTC]"
    assert axes.volume.get_ylabel() == "Volume [BTC]"
    assert axes.volume.get_xlabel() == "Time [UTC]"
    assert axes.profile.get_xlabel() == "Volume [BTC per 1 USDT]"
    assert axes.price.get_xlabel() == axes.profile.get_ylabel() == ""
    assert axes.price.get_title(loc="left") == "Candles and volume profile · X BTCUSDT, 1h"


def test_the_title_says_how_many_intervals_the_profile_adds_up(hours, levels, axes):
    bars = hours((0, 60.0, 63.0, 59.0, 62.0, 10.0), (1, 62.0, 64.0, 61.0, 61.5, 4.0))
    points = levels((60.0, 1.0, 1.0), (61.0, 2.0, 1.0), interval="HOUR")
    later = points.with_columns((pl.col("timestamp") + timedelta(hours=1)).cast(points.schema["timestamp"]))
    both = pl.concat([points, later])
    plot.candles_with_profile(bars, both, axes=axes)
    assert (
        axes.price.get_title(loc="left")
        == "Candles and volume profile · X BTCUSDT, 1h, profile of 2 × 1h added up"
    )


def test_legend_is_in_the_free_corner(hours, levels, axes):
    plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=axes)
    texts = [text.get_text() for text in axes.key.get_legend().get_texts()]
    assert texts[:3] == ["VAH 60", "POC 60", "VAL 58"]
    assert texts[3].startswith("Value area, ")
    assert texts[4:] == ["Buy volume", "Sell volume"]
    assert all(ax.get_legend() is None for ax in axes[:3])


def test_profile_of_another_venue_is_named(hours, levels, axes):
    other = levels(*LEVELS, exchange="Y", raw_symbol="BTC-PERP")
    plot.candles_with_profile(hours(*CANDLES), other, axes=axes)
    assert axes.key.get_legend().get_title().get_text() == "Y BTC-PERP"


def test_profile_of_another_market_is_refused(hours, levels, axes):
    with pytest.raises(QueryError, match="profile of ETH-USDT") as caught:
        plot.candles_with_profile(
            hours(*CANDLES), levels(*LEVELS, normalized_symbol="ETH-USDT", coin="ETH"), axes=axes
        )
    assert caught.value.parameter == "profile"


@pytest.mark.parametrize("empty", ["candles", "profile", "both"])
def test_a_panel_without_data_says_so_and_the_others_are_drawn(hours, levels, axes, empty):
    candles, profile = hours(*CANDLES), levels(*LEVELS)
    drawn = plot.candles_with_profile(
        candles if empty == "profile" else candles.clear(),
        profile if empty == "candles" else profile.clear(),
        axes=axes,
    )
    said = {name for name, ax in axes._asdict().items() if any(t.get_text() == "no data" for t in ax.texts)}
    assert (
        said
        == {
            "candles": {"price", "volume"},
            "profile": {"profile"},
            "both": {"price", "volume", "profile"},
        }[empty]
    )
    drawn.figure.canvas.draw()
    known = empty != "both"
    assert axes.price.get_ylabel() == ("Price [USDT per BTC]" if known else "Price [quote per coin]")
    assert axes.price.get_title(loc="left").startswith("Candles and volume profile · X BTCUSDT") == known
    prices = {ax: [tick.get_text() for tick in ax.get_yticklabels() if tick.get_visible()] for ax in axes[:2]}
    assert any(any(texts) for texts in prices.values()) == known


@pytest.mark.slow
def test_candles_without_volume_keep_their_times(hours, levels, axes):
    drawn = plot.candles_with_profile(
        hours(*((*row[:5], None) for row in CANDLES)), levels(*LEVELS), axes=axes
    )
    drawn.figure.canvas.draw()
    assert any(tick.get_text() and tick.get_visible() for tick in axes.price.get_xticklabels())


def test_wrong_axes_are_refused(hours, levels, axes):
    with pytest.raises(QueryError, match="three"):
        plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=[axes.price])


@pytest.mark.slow
def test_two_pictures_fit_in_one_figure(hours, levels):
    figure = Figure(figsize=(20, 8), layout="constrained")
    for part in figure.subfigures(1, 2):
        drawn = plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=plot.panels(part))
        assert drawn.figure is figure
    figure.canvas.draw()


def test_a_figure_with_a_layout_keeps_it():
    figure = Figure(layout="tight")
    engine = figure.get_layout_engine()
    plot.panels(figure)
    assert figure.get_layout_engine() is engine


@pytest.mark.slow
@pytest.mark.parametrize("size", [(14, 8), (6.4, 4.8), (6, 11), (22, 5)])
def test_nothing_overlaps(hours, levels, size):
    many = hours(*((hour, *CANDLES[hour % 2][1:]) for hour in range(100)))
    axes = plot.panels(Figure(figsize=size, dpi=100))
    drawn = plot.candles_with_profile(
        many, levels(*((60_000 + 10 * n, 3.0, n % 9) for n in range(300))), axes=axes
    )
    drawn.figure.canvas.draw()
    legend = axes.key.get_legend().get_window_extent()
    title = axes.price._left_title.get_window_extent()
    for ax in axes[:3]:
        assert not legend.overlaps(ax.get_window_extent())
    assert not title.overlaps(axes.profile.xaxis.label.get_window_extent())
    assert not axes.price.yaxis.label.get_window_extent().overlaps(
        axes.volume.yaxis.label.get_window_extent()
    )
    width, _ = drawn.figure.canvas.get_width_height()
    assert legend.x1 <= width
    assert legend.y0 >= 0
    ticks = [
        tick.get_window_extent() for tick in axes.profile.get_xticklabels(which="major") if tick.get_text()
    ]
    inside = [t for t in ticks if t.x0 < axes.profile.get_window_extent().x1]
    assert all(a.x1 < b.x0 for a, b in pairwise(inside))


@pytest.mark.slow
def test_given_axes_need_neither_pyplot_nor_settings(hours, levels, axes):
    before = dict(mpl.rcParams)
    plot.candles_with_profile(hours(*CANDLES), levels(*LEVELS), axes=axes)
    assert dict(mpl.rcParams) == before
    code = "import sys, tidytape.plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def minutes(*, interval, numbers, columns):
    """Rows of a market at these minutes after midnight, and what is the same in all of them."""
    midnight = datetime(2024, 8, 8, tzinfo=UTC)
    whose = {"exchange": "X", "raw_symbol": "BTCUSDT", "normalized_symbol": "BTC-USDT", "interval": interval}
    times = [midnight + timedelta(minutes=one) for one in numbers]
    return pl.DataFrame({"timestamp": times, **whose, **columns})


CANDLE = {"open": 60.0, "high": 61.0, "low": 59.0, "close": 60.0}
LEVEL = {"price": 60.0, "buy_volume": 1.0, "sell_volume": 1.0}


@pytest.mark.slow
def test_a_profile_of_a_part_of_the_candles_is_refused(axes):
    """Asked for from 00:03 to 00:15: the profile's first interval of 5 minutes began before, and is left out."""
    bars = minutes(interval="MINUTE", numbers=range(3, 15), columns={**CANDLE, "volume": 1.0})
    profile = minutes(interval="FIVE_MINUTES", numbers=[5, 10], columns=LEVEL)
    with pytest.raises(
        QueryError, match=r"a profile of 2024-08-08 00:05 to 2024-08-08 00:15 UTC.* left out"
    ) as caught:
        plot.candles_with_profile(bars, profile, axes=axes)
    assert caught.value.parameter == "profile"
    inside = bars.filter(pl.col("timestamp") >= profile["timestamp"].min())
    plot.candles_with_profile(inside, profile, axes=axes)
    assert axes.key.get_legend().get_title().get_text() == ""
    nothing_traded = bars.with_columns(
        volume=pl.when(pl.col("timestamp").dt.minute() >= 5).then(1.0).otherwise(0.0)
    )
    plot.candles_with_profile(nothing_traded, profile, axes=plot.panels(Figure()))


def test_the_legend_says_the_time_of_a_profile_that_is_of_more_than_the_candles(axes):
    bars = minutes(interval="MINUTE", numbers=range(12), columns={**CANDLE, "volume": 1.0})
    profile = minutes(interval="FIFTEEN_MINUTES", numbers=[0], columns=LEVEL)
    plot.candles_with_profile(bars, profile, axes=axes, timezone="Europe/Berlin")
    assert axes.key.get_legend().get_title().get_text() == (
        "Profile: 2024-08-08 02:00 to 2024-08-08 02:15 Europe/Berlin"
    )


def test_panels_of_a_frame_are_refused():
    with pytest.raises(QueryError, match=r"figure: got .*DataFrame"):
        plot.panels(pl.DataFrame())
