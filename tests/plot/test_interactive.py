"""The interactive twins: the numbers, units and names of the static pictures, in pages of a bounded size."""

from __future__ import annotations

import inspect
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.axes._secondary_axes import SecondaryAxis
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from numpy.testing import assert_allclose, assert_array_equal

import tidytape
from tables import each_row
from tidytape import plot
from tidytape.analytics import cross, options, profile, quality
from tidytape.errors import MissingColumnError, QueryError
from tidytape.plot import _style
from tidytape.plot._plotly import MOST_CELLS
from tidytape.plot._series import MOST_CANDLES
from tidytape.plot._thin import MOST_POINTS, points_to_send

pytest.importorskip("plotly")
interactive = plot.interactive

DAYS = {"start": "2024-08-07", "end": "2024-08-09"}
SPOT = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}
PERP = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP"}
START = datetime(2024, 8, 8, tzinfo=UTC)


@pytest.fixture(scope="module")
def client():
    with tidytape.Client.demo() as client:
        yield client


def candles(c, **asked):
    return c.candles(**{"interval": "1h", **SPOT, **DAYS, **asked})


def ended_levels(c):
    asked = {"session": "daily", **SPOT, **DAYS}
    return profile.with_sessions(c.tpo(**asked), c.tpo_sessions(**asked))


def chain(c):
    return c.events("option_quotes", coin="BTC", start="2024-08-08", end="2024-08-08T00:30")


# What each function is asked: frames and options.

ASKED: dict[str, Any] = {
    "candles": lambda c: ([candles(c)], {}),
    "volume": lambda c: ([candles(c)], {}),
    "volume_profile": lambda c: ([c.volume_profile(interval="1d", **SPOT, **DAYS)], {}),
    "candles_with_profile": lambda c: ([candles(c), c.volume_profile(interval="1d", **SPOT, **DAYS)], {}),
    "market_profile": lambda c: ([ended_levels(c)], {}),
    "footprint": lambda c: (
        [c.volume_profile(interval="15m", **PERP, start="2024-08-08T13:00", end="2024-08-08T15:00")],
        {},
    ),
    "order_flow": lambda c: ([candles(c, **PERP), candles(c, by_side=True, **PERP)], {}),
    "funding": lambda c: (
        [c.funding(exchange="DEMO_PERP", coin="BTC", interval="1h", **DAYS)],
        {"open_interest": c.open_interest(exchange="DEMO_PERP", coin="BTC", interval="1h", **DAYS)},
    ),
    "open_interest": lambda c: (
        [c.open_interest(interval="1h", **PERP, **DAYS)],
        {"candles": candles(c, **PERP)},
    ),
    "premium": lambda c: ([cross.premium(of_bitcoin(c))], {}),
    "market_share": lambda c: ([cross.market_share(of_bitcoin(c), amount="volume")], {}),
    "volatility": lambda c: (
        [c.implied_volatility(exchange="DEMO_OPTIONS", raw_symbol="BTC_ATM", interval="1h", **DAYS)],
        {"realized": options.realized_volatility(candles(c), window=24)},
    ),
    "skew": lambda c: (
        [c.skew(tenor="1w", exchange="DEMO_OPTIONS", coin="BTC", raw_symbol="BTC_25", interval="1h", **DAYS)],
        {},
    ),
    "smile": lambda c: ([chain(c)], {"curves": options.svi(chain(c))}),
    "surface": lambda c: ([options.svi(chain(c))], {}),
    "term_structure": lambda c: ([options.term_structure(options.delta_points(chain(c)))], {}),
    "liquidations": lambda c: (
        [c.liquidations(interval="1h", **PERP, **DAYS)],
        {"candles": candles(c, **PERP)},
    ),
    "liquidation_heatmap": lambda c: (
        [c.liquidation_heatmap(exchange="DEMO_PERP", coin="BTC", interval="1h", **DAYS)],
        {"candles": candles(c, **PERP)},
    ),
    "book_heatmap": lambda c: ([c.book_heatmap(interval="1h", **SPOT, **DAYS)], {}),
    "depth": lambda c: ([c.book_heatmap(interval="1h", **SPOT, **DAYS)], {}),
    "slippage": lambda c: ([c.book_heatmap(interval="1h", **SPOT, **DAYS)], {"size": [0.1, 1, 10]}),
    "coverage": lambda c: ([c.describe(coin="BTC")], {}),
    "completeness": lambda c: ([quality.completeness(of_bitcoin(c), every="1h")], {}),
}
PLACES: dict[str, Any] = {
    "candles_with_profile": lambda place: {"axes": plot.panels(place)},
    "order_flow": lambda place: {"axes": place.subplots(3, sharex=True)},
    "open_interest": lambda place: {"axes": place.subplots(3, sharex=True)},
}
NEEDED = {"volume_profile": "price", "coverage": "type", "completeness": "start"}


def of_bitcoin(c):
    return candles(c, exchange=["DEMO_SPOT", "DEMO_PERP"], raw_symbol=None, coin="BTC")


@pytest.fixture(scope="module", params=ASKED)
def case(request, client):
    """A name, and what its function is asked."""
    frames, asked = ASKED[request.param](client)
    return request.param, frames, asked


@pytest.fixture(scope="module")
def figure(case):
    name, frames, asked = case
    return getattr(interactive, name)(*frames, **asked)


def drawn(name, frames, asked, height=5):
    """Return the figure of the static function."""
    place = Figure(figsize=(10, height), dpi=100)
    axes = PLACES.get(name, lambda place: {"ax": place.add_subplot()})(place)
    getattr(plot, name)(*frames, **axes, **asked)
    return place


def values_of(place):
    """Return the values of the marks of a static figure that stand at its data."""
    found = []
    for artist in (artist for ax in place.axes for artist in ax.get_children()):
        if isinstance(artist, Line2D):
            if artist.get_transform() == artist.axes.transData:
                found.append(artist.get_ydata())
        elif isinstance(artist, StepPatch):
            values, _, baseline = artist.get_data()
            found.append(values - (0.0 if baseline is None else baseline))
        elif isinstance(artist, LineCollection):
            found += [segment[:, 1] for segment in artist.get_segments()]
        elif isinstance(artist, AxesImage | QuadMesh):
            values = np.ma.filled(np.ma.asarray(artist.get_array(), float), np.nan)
            if values.size <= MOST_CELLS // 2:
                found.append(values.astype(np.float32))
        elif isinstance(artist, PathCollection):
            found.append(artist.get_offsets()[:, 1])
    return [np.ravel(np.asarray(values, float)) for values in found]


def sent(figure):
    """Return every number of the traces of an interactive figure, in order."""
    numbers = []
    for trace in figure.data:
        for name in ("x", "y", "z", "open", "high", "low", "close", "customdata"):
            array = np.asarray(getattr(trace, name, None))
            if array.dtype.kind == "f" and not (name == "x" and trace.type == "heatmap"):
                numbers.append(array.astype(float).ravel())
    return np.unique(np.concatenate(numbers))


def labels_of(place):
    several = [
        child for ax in place.axes for child in (ax, *ax.child_axes) if not isinstance(child, SecondaryAxis)
    ]
    labels = {axis.get_label_text() for ax in several for axis in (ax.xaxis, ax.yaxis)}
    return labels - {""}


def titles_of(figure):
    layout = figure.to_dict()["layout"]
    axes = [axis for name, axis in layout.items() if re.fullmatch(r"[xy]axis\d*", name)]
    bars = [
        trace.marker.colorbar for trace in figure.data if trace.type == "scatter" and trace.marker.showscale
    ]
    texts = {axis["title"]["text"].replace("<br>", " ") for axis in axes if axis["title"].get("text")}
    return texts | {bar.title.text for bar in bars}


@pytest.mark.slow
def test_the_numbers_the_units_and_the_title_are_those_of_the_static_picture(case, figure):
    place = drawn(*case, figure.layout.height / 100)
    numbers = sent(figure)
    for values in values_of(place):
        known = values[np.isfinite(values) & (values != 0)]
        place_of = np.searchsorted(numbers, known - 1e-9 * np.abs(known))
        assert_allclose(numbers[np.clip(place_of, 0, numbers.size - 1)], known, rtol=2e-9)
    assert titles_of(figure) == labels_of(place)
    title = next((text for ax in place.axes if (text := ax.get_title(loc="left"))), "")
    lines = (figure.layout.title.text, figure.layout.title.subtitle.text)
    assert " · ".join(filter(None, lines)) == title


@pytest.mark.slow
def test_hovering_says_units_and_pages_are_small(case, figure):
    labels = [title.removesuffix("]").partition(" [")[::2] for title in titles_of(figure)]
    units = {unit.removesuffix(", log scale") for name, unit in labels if name != "Time"} - {"", "log scale"}
    templates = [trace.hovertemplate for trace in figure.data if trace.hoverinfo != "skip"]
    assert templates
    for template in templates:
        assert not units or "time blocks" in template or any(unit in template for unit in units), template
    assert len(figure.to_json()) < 700_000


@each_row("name", ASKED)
def test_twins_take_what_the_static_functions_take(name):
    own, static = (inspect.signature(getattr(room, name)).parameters for room in (interactive, plot))
    both = {one for one in static if one not in {"ax", "axes"}}
    assert {one for one in own if one != "dark"} == both
    for one in both:
        assert own[one].default == static[one].default
        assert own[one].kind == static[one].kind


def test_every_static_picture_has_a_twin_or_the_page_says_why_not():
    drawings = {name for name in plot.__all__ if name[0].islower()} - {"interactive"}
    assert drawings - {*interactive.__all__} == {"live", "live_widget", "panels"}
    assert all(f"`{name}`" in interactive.__doc__ for name in ("live", "panels"))
    assert {*ASKED} == {*interactive.__all__}


def test_frames_without_rows_say_no_data(case):
    name, frames, _ = case
    figure = getattr(interactive, name)(*(frame.head(0) for frame in frames))
    assert "no data" in {note.text for note in figure.layout.annotations}
    assert not any(len(trace.y) if trace.y is not None else 0 for trace in figure.data)


def test_errors_are_those_of_the_static_functions(case):
    name, frames, _ = case
    broken = [frame.drop(NEEDED.get(name, "timestamp")) for frame in frames]
    with pytest.raises(MissingColumnError) as static:
        drawn(name, broken, {})
    with pytest.raises(MissingColumnError) as own:
        getattr(interactive, name)(*broken)
    assert str(own.value) == str(static.value)
    if name != "volume_profile":
        with pytest.raises(QueryError, match="timezone"):
            getattr(interactive, name)(*frames, timezone="Mars/Olympus")


# --- subjects ---


def test_hovering_over_a_time_shows_its_values_on_all_panels(client):
    levels = client.volume_profile(interval="1d", **SPOT, **DAYS)
    layout = interactive.candles_with_profile(candles(client), levels).layout
    assert layout.hovermode == "x unified"
    assert layout.xaxis2.title.text.startswith("Volume<br>[")  # the panel is narrow
    assert interactive.volume_profile(levels).layout.hovermode == "closest"


@pytest.mark.slow
def test_a_book_of_many_cells_is_one_image_and_a_grid_of_the_largest(client):
    book = client.book_heatmap(interval="5m", **SPOT, **DAYS)
    static = plot.book_heatmap(book, ax=Figure().add_subplot())
    figure = interactive.book_heatmap(book)
    assert len(figure.layout.images) == 1
    grids = [trace for trace in figure.data if trace.type == "heatmap"]
    assert [grid.name for grid in grids] == ["Bids", "Asks"]
    assert sum(grid.z.size for grid in grids) <= MOST_CELLS
    for grid, image in zip(grids, (static.bids, static.asks), strict=True):
        assert np.nanmax(grid.z) == np.float32(np.nanmax(image.get_array().filled(np.nan)))
        assert "largest of" in grid.hovertemplate
        assert grid.x[0] == "2024-08-07T00:00"
    assert len(figure.to_json()) < 1_000_000


@pytest.mark.slow
def test_dots_of_trades_say_their_amounts(client):
    book = client.book_heatmap(interval="1h", **SPOT, **DAYS)
    trades = client.events("trades", **SPOT, start="2024-08-08", end="2024-08-08T02:00").with_columns(
        coin=pl.lit("BTC"), amount_unit=pl.lit("COIN")
    )
    drawn = plot.book_heatmap(book, trades=trades, ax=Figure().add_subplot())
    (dots,) = [
        trace for trace in interactive.book_heatmap(book, trades=trades).data if "Buys" in str(trace.name)
    ]
    assert_allclose(dots.customdata, drawn.bought)
    assert_allclose(dots.customdata / dots.customdata.max(), (dots.marker.size / dots.marker.size.max()) ** 2)
    assert dots.hovertemplate.endswith("Buys: %{customdata:,.6~r} BTC<extra></extra>")


@pytest.mark.slow
def test_rows_of_a_market_profile_say_their_time_blocks(client):
    levels = client.tpo(session="daily", **SPOT, **DAYS)
    static = plot.market_profile(levels, ax=Figure().add_subplot(), block_minutes=30)
    figure = interactive.market_profile(levels, block_minutes=30)
    (rows,) = [trace for trace in figure.data if trace.type == "bar"]
    assert rows.customdata[:, 0].sum() == len(static.blocks.get_paths())
    lows = {path.vertices[0, 1] for path in static.blocks.get_paths()}
    assert {*rows.customdata[:, 1]} == lows
    assert [len(text) for text in rows.text] == rows.customdata[:, 0].tolist()
    assert "time blocks of 30 min" in rows.hovertemplate
    letters = interactive.market_profile(levels, style="letters", block_minutes=30)
    assert letters.layout.images[0].source != figure.layout.images[0].source


def test_a_footprint_says_what_was_sold_and_bought(client):
    profile = client.volume_profile(interval="15m", **PERP, start="2024-08-08T13:00", end="2024-08-08T14:00")
    (grid,) = [trace for trace in interactive.footprint(profile, row_size=50).data if trace.type == "heatmap"]
    assert np.nansum(grid.customdata[..., 0]) == pytest.approx(profile["sell_volume"].sum())
    assert np.nansum(grid.customdata[..., 1]) == pytest.approx(profile["buy_volume"].sum())
    assert_allclose(grid.z, grid.customdata[..., 1] - grid.customdata[..., 0], atol=1e-12)
    assert grid.x[0] == "2024-08-08T13:00"
    assert (grid.text != "").sum() == np.isfinite(grid.z).sum()


def test_a_footprint_with_a_long_gap_is_refused(client):
    profile = client.volume_profile(interval="15m", **PERP, start="2024-08-08T13:00", end="2024-08-08T14:00")
    later = profile.head(1).with_columns(pl.col("timestamp").dt.offset_by("50y"))
    with pytest.raises(QueryError, match="shorter window"):
        interactive.footprint(pl.concat([profile, later]), row_size=50)


def test_shares_are_said_and_add_up(client):
    figure = interactive.market_share(cross.market_share(of_bitcoin(client), amount="volume"))
    lines = [trace for trace in figure.data if trace.customdata is not None]
    assert len(lines) == 2
    assert_allclose(sum(trace.customdata for trace in lines), 100)


@pytest.mark.slow
def test_many_shares_are_an_image_and_thin_lines():
    parts = [minutes(9_000, exchange=exchange) for exchange in ("X", "Y", "Z")]
    figure = interactive.market_share(cross.market_share(pl.concat(parts), amount="volume"))
    assert len(figure.layout.images) == 1
    assert sum(len(trace.x) for trace in figure.data) <= MOST_POINTS
    assert len(figure.to_json()) < 1_500_000


def test_coverage_says_when_spans_began_and_ended(client):
    held = client.describe(coin="BTC", exchange="DEMO_PERP")
    figure = interactive.coverage(held)
    spans = figure.data[0]
    assert min(spans.customdata[:, 0]) == f"{held['first_timestamp'].min():%Y-%m-%dT%H:%M:%S.%f}"[:-3]
    assert figure.layout.yaxis.ticktext[0] == "book"
    assert [note.text for note in figure.layout.annotations] == ["<b>DEMO_PERP BTC-PERP</b>"]
    assert spans.text[0].startswith("DEMO_PERP BTC-PERP<br>book<br>")


@pytest.mark.slow
def test_prices_at_the_right_have_round_ticks_of_their_own(client):
    """An axis over another takes the places of its ticks from that one, unless it is told not to."""
    candles = client.candles(interval="1h", **PERP, **DAYS)
    figure = interactive.liquidations(client.liquidations(interval="1h", **PERP, **DAYS), candles=candles)
    assert (figure.layout.yaxis2.overlaying, figure.layout.yaxis2.tickmode) == ("y", "auto")


def test_liquidations_of_shorts_are_said_without_a_sign(client):
    figure = interactive.liquidations(client.liquidations(interval="15m", **PERP, **DAYS))
    (shorts,) = [trace for trace in figure.data if trace.name == "Shorts liquidated"]
    assert (shorts.y < 0).all()
    assert_array_equal(shorts.customdata, -shorts.y)
    assert all(not text.startswith("-") for text in figure.layout.yaxis.ticktext)


@pytest.mark.slow
def test_more_bars_than_a_page_shows_are_an_outline():
    sides = [
        minutes(8_000, side=side).select(
            "exchange",
            "raw_symbol",
            "coin",
            "interval",
            "amount_unit",
            "timestamp",
            "side",
            liquidations="volume",
        )
        for side in ("BUY", "SELL")
    ]
    figure = interactive.liquidations(pl.concat(sides))
    assert {trace.type for trace in figure.data} == {"scatter"}
    assert sum(len(trace.x) for trace in figure.data) <= MOST_POINTS
    assert max(figure.data[0].y) == 8


@pytest.mark.slow
def test_the_same_picture_from_pandas_and_from_a_user_s_own_style(hours):
    frame = hours((0, 60, 63, 59, 62, 10), (1, 62, 64, 61, 61.5, 4), (3, 61, 61, 60, 61, 2))
    figure = interactive.candles(frame)
    with mpl.rc_context({"figure.facecolor": "black", "axes.facecolor": "black", "text.color": "red"}):
        assert interactive.candles(frame.to_pandas()).to_json() == figure.to_json()
    assert figure.layout.paper_bgcolor == "#ffffff"
    dark = interactive.candles(frame, dark=True)
    assert dark.layout.paper_bgcolor != "#ffffff"
    assert dark.layout.font.color == _style._DARK.ink


# --- times ---


def test_times_are_those_of_the_zone_and_no_browser_moves_them(hours):
    figure = interactive.candles(
        hours((0, 60, 63, 59, 62, 10), (1, 62, 64, 61, 62, 4)), timezone="Asia/Tokyo"
    )
    assert [list(trace.x) for trace in figure.data] == [["2024-08-08T09:00"], ["2024-08-08T10:00"]]
    assert figure.layout.xaxis.title.text == "Time [Asia/Tokyo]"


def test_a_zone_that_changes_its_offset_says_which_one_is_shown(hours):
    days = [day * 24 for day in range(90)]  # from August to November
    figure = interactive.candles(hours(*((hour, 1, 2, 1, 2, 1) for hour in days)), timezone="Europe/Berlin")
    assert figure.layout.xaxis.title.text == "Time [UTC+02:00, Europe/Berlin at the start]"
    assert figure.data[0].x[-1] == "2024-11-05T02:00"


# --- limits ---


def minutes(number, **columns):
    random = np.random.default_rng(7)
    price = 100 + np.cumsum(random.normal(size=number))
    return pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": "BTCUSDT",
            "coin": "BTC",
            "amount_unit": "COIN",
            "interval": "1m",
            "timestamp": pl.datetime_range(
                START, START + timedelta(minutes=number - 1), "1m", time_unit="ns", eager=True
            ),
            "open": price,
            "high": price + 1,
            "low": price - 1,
            "close": price + random.normal(size=number) / 4,
            "volume": random.integers(1, 9, number).astype(float),
            **columns,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(("number", "interval", "length"), [(5_001, "5m", 5), (30_000, "15m", 15)])
def test_more_candles_than_a_page_shows_are_joined_exactly(number, interval, length):
    frame = minutes(number)
    figure = interactive.candles(frame)
    trace = figure.data[0]
    wanted = frame.group_by_dynamic("timestamp", every=f"{length}m").agg(
        pl.col("open").first(), pl.col("high").max(), pl.col("low").min(), pl.col("close").last()
    )
    assert wanted.height <= MOST_CANDLES
    for name in ("open", "high", "low", "close"):
        assert_array_equal(getattr(trace, name), wanted[name])
    assert figure.layout.title.subtitle.text == f"X BTCUSDT, {interval}, joined from {number:,} rows"
    bars = interactive.volume(frame).data[0]
    assert bars.y.sum() == frame["volume"].sum()
    assert len(figure.to_json()) < 600_000


@pytest.mark.slow
@pytest.mark.parametrize("columns", [["volume"], ["interval"], ["volume", "interval"], ["amount_unit"], []])
def test_candles_of_few_columns_are_joined_too(columns):
    frame = minutes(6_000).drop(columns)
    figure = interactive.candles(frame)
    assert len(figure.data[0].x) == 1_200
    assert figure.data[0].high.max() == frame["high"].max()
    assert figure.layout.yaxis.title.text == drawn("candles", [frame], {}).axes[0].get_ylabel()


@pytest.mark.slow
def test_exactly_as_many_candles_as_a_page_shows_stay_as_they_are():
    figure = interactive.candles(minutes(MOST_CANDLES))
    assert len(figure.data[0].x) == MOST_CANDLES
    assert figure.layout.title.subtitle.text == "X BTCUSDT, 1m"


def test_candles_that_no_interval_joins_are_joined_by_twos():
    frame = minutes(6_000).drop("interval")
    times = pl.Series([START + timedelta(seconds=11 * place) for place in range(6_000)])
    trace = interactive.candles(frame.with_columns(timestamp=times.dt.cast_time_unit("ns"))).data[0]
    assert trace.xperiod == 22_000
    assert len(trace.x) in {3_000, 3_001}
    assert trace.high.max() == frame["high"].max()


def test_both_libraries_show_the_same_joined_candles(ax):
    frame = minutes(30_000)
    trace = interactive.candles(frame).data[0]
    lows, highs = np.array(plot.candles(frame, ax=ax).wicks.get_segments())[:, :, 1].T
    assert_array_equal(trace.low, lows)
    assert_array_equal(trace.high, highs)
    assert ax.get_title(loc="left") == "Candles · X BTCUSDT, 15m, joined from 30,000 rows"


def test_a_long_line_keeps_its_extremes_and_its_gaps():
    random = np.random.default_rng(3)
    x, y = np.arange(200_000.0), random.normal(size=200_000)
    y[[5, 77_777]] = 99, -99
    y[120_000:121_000] = np.nan
    rows = points_to_send(x, y, MOST_POINTS)
    assert rows.size <= MOST_POINTS
    assert (np.diff(rows) > 0).all()
    column = (x / x[-1] * MOST_POINTS / 4).astype(int)
    for place in (0, 1_944, 4_000):
        here, there = y[column == place], y[rows][column[rows] == place]
        assert np.nanmax(here) == np.nanmax(there)
        assert np.nanmin(here) == np.nanmin(there)
    assert np.isnan(y[rows][(x[rows] >= 120_000) & (x[rows] < 121_000)]).all()
    assert points_to_send(x[:100], y[:100], 100).size == 100


def test_a_figure_of_long_lines_stays_small():
    frame = minutes(60_000).with_columns(premium=pl.col("close") / 100 - 1)
    figure = interactive.premium(frame)
    assert sum(len(trace.x) for trace in figure.data) <= MOST_POINTS
    assert max(figure.data[0].y) == (frame["premium"] * 1e4).max()


# --- without plotly ---


@pytest.mark.parametrize("name", ["candles", "premium"])
def test_without_plotly_the_error_names_the_extra(name, monkeypatch, hours):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"plot.interactive.\w+ takes plotly: pip install 'tidytape\[interactive\]'"
    ):
        getattr(interactive, name)(hours((0, 60, 63, 59, 62, 10)))
