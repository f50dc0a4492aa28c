"""What every picture shares: colours that are readable on any background, ticks, legends."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from tables import each_row
from tidytape import plot
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._matplotlib import label_rows
from tidytape.plot._tracks import from_above, line_of


def contrast(one, other):
    """The W3C's contrast ratio of two colours."""
    light, dark = sorted((style._luminance(to_rgb(one)), style._luminance(to_rgb(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def is_dark(ax):
    return style.Ground.of(ax).is_dark


def axes(face, ground="white"):
    return Figure(facecolor=ground).add_subplot(facecolor=face)


@each_row("face", ["white", "#f4f1e8", "#1e1e1e", "black", "#0d1117", "#002b36"])
def test_colours_are_readable_on_any_face(face):
    look = style.inside(axes(face))
    assert contrast(look.ink, face) > 7
    assert contrast(look.poc, face) > 10
    assert min(contrast(colour, face) for colour in (look.up, look.down, look.flat)) > 3
    assert min(contrast(colour, face) for colour in (look.buy, look.sell, look.volume)) > 1.9
    assert contrast(look.grid, face) < 2


@pytest.mark.parametrize("face", ["white", "black"])
def test_colours_of_several_series_are_seen_on_white_and_on_black(face):
    colours = style.inside(axes(face)).series
    assert min(contrast(colour, face) for colour in colours) > (2 if face == "white" else 6)
    assert len(set(colours)) == 6


def test_lines_beyond_the_colours_differ_in_dashes():
    ground = style.Ground.of(axes("white"))
    looks = [ground.look(place) for place in range(24)]
    assert len({(look["colour"], look["dashes"]) for look in looks}) == 24


def test_lines_end_with_markers_that_differ_and_are_listed_as_they_end():
    ground = style.Ground.of(axes("white"))
    values = [np.array(ends) for ends in ([1.0, 2.0, np.nan], [3.0, 9.0, 5.0], [7.0, 1.0, 1.0])]
    lines = [line_of(np.arange(3.0), ends, **ground.look(place)) for place, ends in enumerate(values)]
    assert [line.marked for line in lines] == [[1], [2], [2]]
    assert len({line.marker for line in lines}) == 3
    assert from_above(lines) == [lines[1], lines[0], lines[2]]


def test_a_title_that_a_narrow_figure_would_cut_off_is_smaller():
    sizes = []
    for width in (9, 5):
        ax = Figure(figsize=(width, 4)).add_subplot()
        style.write_title(ax, "Market profile · DEMO_SPOT BTCUSDT, 2 sessions of 1 d, rows of 50 USDT")
        (text,) = [text for text in ax.findobj(Text) if text.get_text().startswith("Market profile")]
        sizes.append(text.get_size())
    assert sizes[0] == 12
    assert 8 <= sizes[1] < 10


@pytest.mark.parametrize(
    ("zone", "days"),
    [("UTC", "2024-08-08 to 2024-08-09"), ("Asia/Tokyo", "2024-08-08 to 2024-08-10")],
)
def test_a_time_axis_says_which_days_it_shows(hours, zone, days):
    ax = axes("white")
    plot.candles(hours(*((hour, 1.0, 2.0, 0.5, 1.5, 3.0) for hour in range(48))), ax=ax, timezone=zone)
    ax.get_figure().draw_without_rendering()
    assert ax.xaxis.get_offset_text().get_text() == days


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 730])
def test_what_is_around_the_data_is_of_no_day(hours, length):
    ax = axes("white")
    bars = hours(*((24 * day, 1.0, 2.0, 0.5, 1.5, 3.0) for day in range(length)))
    plot.candles(bars.with_columns(interval=pl.lit("1d")), ax=ax)
    ax.get_figure().draw_without_rendering()
    last = datetime(2024, 8, 8, tzinfo=UTC) + timedelta(days=length - 1)
    assert ax.xaxis.get_offset_text().get_text() == f"2024-08-08 to {last:%Y-%m-%d}"
    ax.set_xlim(ax.get_xlim()[0] + 1.01, ax.get_xlim()[1])  # a reader who zooms
    ax.get_figure().draw_without_rendering()
    assert ax.xaxis.get_offset_text().get_text().endswith(f"{last:%Y-%m-%d}")


def test_labels_take_the_colours_of_the_figure_and_marks_those_of_the_axes(hours):
    ax = axes("#111111", "white")
    plot.candles(hours((0, 1.0, 2.0, 0.5, 1.5, 3.0)), ax=ax)
    assert contrast(ax.xaxis.label.get_color(), "white") > 7
    assert contrast(ax.title.get_color(), "white") > 7
    assert style.inside(ax).ink != style.around(ax).ink
    assert contrast(ax.get_xgridlines()[0].get_color(), "#111111") < 2


def test_a_style_of_matplotlib_suffices(hours, levels):
    frame, profile = hours((0, 1.0, 2.0, 0.5, 1.5, 3.0)), levels((1.0, 2.0, 1.0), (1.5, 1.0, 3.0))
    before = dict(plt.rcParams)
    with plt.style.context("dark_background"):
        drawn = plot.candles_with_profile(frame, profile)
        texts = [
            drawn.axes.price.yaxis.label,
            drawn.axes.volume.xaxis.label,
            *drawn.axes.key.get_legend().get_texts(),
        ]
        assert min(contrast(text.get_color(), "black") for text in texts) > 7
        assert contrast(drawn.lines["POC"].get_color(), "black") > 7
        plt.close(drawn.figure)
    assert dict(plt.rcParams) == before


def test_transparent_axes_are_those_of_the_figure_behind():
    assert is_dark(axes("none", "#202020"))
    assert not is_dark(axes("none", "white"))
    assert is_dark(axes("black", "none"))  # a figure without a face lies on what its axes are made for
    figure = Figure(facecolor="black")
    assert is_dark(figure.subfigures(1, 2)[0].add_subplot(facecolor="none"))


@pytest.mark.parametrize("face", ["white", "black"])
def test_shades_begin_near_the_face_and_grow_away_from_it(face):
    colours = style.Ground.of(axes(face)).shades(style.CYCLE[0])
    ratios = [contrast(colours(share)[:3], face) for share in np.linspace(0, 1, 20)]
    assert ratios == sorted(ratios)
    assert ratios[0] < 1.4
    assert ratios[-1] > 8


@pytest.mark.parametrize(
    ("low", "high"), [(0.3, 0.9), (1.0, 1.01), (2.0, 9.0), (1.0, 1e3), (1e-4, 1e7), (40.0, 60.0)]
)
@pytest.mark.parametrize("is_log", [True, False])
def test_every_colour_bar_has_ticks(low, high, is_log):
    ticks = style.bar_ticks(low, high, is_log=is_log)
    assert 2 <= len(ticks) <= 9
    assert all(low <= tick <= high for tick in ticks)
    ax = axes("white")
    mesh = ax.imshow([[low, high]], norm=LogNorm(low, high) if is_log else None)
    bar = style.colour_bar(ax, mesh, "Size", "BTC")
    ax.figure.canvas.draw()
    assert all(tick.get_text() for tick in bar.ax.get_yticklabels())
    assert bar.ax.get_ylabel() == "Size [BTC]"


@each_row("place", ["inside", "beside", "above", "corner"])
@each_row("face", ["white", "black"])
def test_legends_are_readable_wherever_they_stand(place, face):
    ax = axes(face, "white")
    ax.plot([0, 1], label="one")
    ax.plot([1, 0], label="two")
    drawn = style.legend(ax, title="Time [UTC]", place=place)
    below = face if place == "inside" else "white"
    texts = [*drawn.get_texts(), drawn.get_title()]
    assert min(contrast(text.get_color(), below) for text in texts) > 7


@pytest.mark.slow
def test_a_dollar_in_a_name_begins_no_formula():
    name = r"$x^2_{\frac and $WIF"
    ax = axes("white")
    ax.plot([0, 1], label=name)
    style.write_title(ax, name)
    style.name_axis(ax.xaxis, name)
    style.legend(ax, title=name)
    style.colour_bar(ax, ax.imshow([[0, 1]]), name)
    label_rows(ax, [name, name], [name, name], [name, name])
    ax.figure.savefig(io.BytesIO())  # raises where it is one


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_without_a_flat_x_and_y_are_refused(projection):
    with pytest.raises(QueryError, match="flat x and y"):
        style.frame_axes(Figure().add_subplot(projection=projection))


@pytest.mark.parametrize(
    ("given", "got"), [(Figure().subplots(2), "ndarray"), (Figure(), "Figure"), (1, "int")]
)
def test_what_is_not_axes_is_refused(hours, given, got):
    candles = hours((0, 10.0, 12.0, 9.0, 11.0, 1.0))
    with pytest.raises(QueryError, match=f"ax: got '{got}', expected axes of matplotlib, or None") as caught:
        plot.candles(candles, ax=given)
    assert ("such as axes[0]" in str(caught.value)) == (got == "ndarray")


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [Figure().subplots(2, 2), Figure().subplots(2), Figure().add_subplot(), "xyz"]
)
def test_panels_are_three_axes_in_a_row(hours, levels, given):
    candles = hours((0, 10.0, 12.0, 9.0, 11.0, 1.0))
    sides = pl.concat([candles.with_columns(side=pl.lit(side)) for side in ("BUY", "SELL")])
    with pytest.raises(QueryError, match="expected three: price, profile, volume"):
        plot.candles_with_profile(candles, levels((10.0, 1.0, 1.0)), axes=given)
    with pytest.raises(QueryError, match="expected three: price, delta, CVD"):
        plot.order_flow(candles, sides, axes=given)
    with pytest.raises(QueryError, match="expected 3, with candles"):
        plot.open_interest(candles.drop("volume"), candles=candles, axes=given)
