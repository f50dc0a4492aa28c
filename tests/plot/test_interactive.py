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
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch

import tidytape
from tidytape import plot
from tidytape.analytics import cross, options
from tidytape.errors import MissingColumnError, QueryError
from tidytape.plot import _style
from tidytape.plot.interactive._coarser import MOST_CANDLES
from tidytape.plot.interactive._thin import MOST_POINTS, kept

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


# What each function is asked: positional frames and options. ``axes`` says how many axes the static one takes.

ASKED: dict[str, Any] = {
    "candles": lambda c: ((c.candles(interval="1h", **SPOT, **DAYS),), {}),
    "volume": lambda c: ((c.candles(interval="1h", **SPOT, **DAYS),), {}),
    "volume_profile": lambda c: ((c.volume_profile(interval="1d", **SPOT, **DAYS),), {}),
    "candles_with_profile": lambda c: (
        (c.candles(interval="1h", **SPOT, **DAYS), c.volume_profile(interval="1d", **SPOT, **DAYS)),
        {},
    ),
    "order_flow": lambda c: (
        (
            c.candles(interval="1h", **PERP, **DAYS),
            c.candles(interval="1h", by_side=True, **PERP, **DAYS),
        ),
        {},
    ),
    "funding": lambda c: (
        (c.funding(exchange="DEMO_PERP", coin="BTC", interval="1h", **DAYS),),
        {"open_interest": c.open_interest(exchange="DEMO_PERP", coin="BTC", interval="1h", **DAYS)},
    ),
    "open_interest": lambda c: (
        (c.open_interest(interval="1h", **PERP, **DAYS),),
        {"candles": c.candles(interval="1h", **PERP, **DAYS)},
    ),
    "premium": lambda c: (
        (cross.premium(c.candles(exchange=["DEMO_SPOT", "DEMO_PERP"], coin="BTC", interval="1h", **DAYS)),),
        {},
    ),
    "volatility": lambda c: (
        (c.implied_volatility(exchange="DEMO_OPTIONS", raw_symbol="BTC_ATM", interval="1h", **DAYS),),
        {"realized": options.realized_volatility(c.candles(interval="1h", **SPOT, **DAYS), window=24)},
    ),
    "skew": lambda c: (
        (
            c.skew(
                tenor="1w", exchange="DEMO_OPTIONS", coin="BTC", raw_symbol="BTC_25", interval="1h", **DAYS
            ),
        ),
        {},
    ),
    "liquidations": lambda c: (
        (c.liquidations(interval="1h", **PERP, **DAYS),),
        {"candles": c.candles(interval="1h", **PERP, **DAYS)},
    ),
}
PLACES: dict[str, Any] = {
    "candles_with_profile": lambda place: {"axes": plot.panels(place)},
    "order_flow": lambda place: {"axes": place.subplots(3, sharex=True)},
    "open_interest": lambda place: {"axes": place.subplots(3, sharex=True)},
}


def drawn(name, frames, asked):
    """Return the figure of the static function."""
    place = Figure(figsize=(10, 5), dpi=100)
    axes = PLACES.get(name, lambda place: {"ax": place.add_subplot()})(place)
    getattr(plot, name)(*frames, **axes, **asked)
    return place


def values_of(place):
    """Return the values of every mark of a static figure that stands at its data."""
    found = []
    for ax in place.axes:
        if any(hasattr(other, "_colorbar") and other is ax for other in place.axes):
            continue
        for artist in ax.get_children():
            if isinstance(artist, Line2D):
                if artist.get_transform() == ax.transData:
                    found.append(np.asarray(artist.get_ydata(), float))
            elif isinstance(artist, StepPatch):
                values, _, baseline = artist.get_data()
                found.append(values - (0.0 if baseline is None else baseline))
            elif isinstance(artist, LineCollection):
                found += [segment[:, 1] for segment in artist.get_segments()]
            elif isinstance(artist, PolyCollection):
                found += [path.vertices[:4, 1] for path in artist.get_paths()]
            elif isinstance(artist, PathCollection):
                found.append(np.asarray(artist.get_offsets(), float)[:, 1])
    return found


def sent(figure):
    """Return every number of the traces of an interactive figure."""
    numbers = []
    for trace in figure.data:
        for name in ("x", "y", "z", "open", "high", "low", "close", "customdata"):
            values = getattr(trace, name, None)
            if values is None or (name == "x" and trace.type != "bar"):
                continue
            array = np.asarray(values)
            if array.dtype.kind == "f":
                numbers.append(array.ravel())
    return np.unique(np.concatenate(numbers)) if numbers else np.empty(0)


def labels_of(place):
    return {
        axis.get_label_text() for ax in place.axes for axis in (ax.xaxis, ax.yaxis) if axis.get_label_text()
    }


def titles_of(figure):
    layout = figure.to_dict()["layout"]
    return {
        axis["title"]["text"].replace("<br>", " ")
        for name, axis in layout.items()
        if re.fullmatch(r"[xy]axis\d*", name) and axis["title"].get("text")
    }


@pytest.mark.parametrize("name", ASKED)
def test_the_numbers_the_units_and_the_title_are_those_of_the_static_picture(name, client):
    frames, asked = ASKED[name](client)
    place = drawn(name, frames, asked)
    figure = getattr(interactive, name)(*frames, **asked)
    numbers = sent(figure)
    for values in values_of(place):
        known = values[np.isfinite(values) & (values != 0)]
        nearest = numbers[
            np.clip(np.searchsorted(numbers, known - 1e-9 * np.abs(known)), 0, numbers.size - 1)
        ]
        np.testing.assert_allclose(nearest, known, rtol=1e-9)
    assert titles_of(figure) == labels_of(place)
    assert figure.layout.title.text == next(title for ax in place.axes if (title := ax.get_title(loc="left")))


@pytest.mark.parametrize("name", ASKED)
def test_hovering_says_units_and_pages_are_small(name, client):
    frames, asked = ASKED[name](client)
    figure = getattr(interactive, name)(*frames, **asked)
    units = {match[1] for title in titles_of(figure) if (match := re.search(r"\[([^,\]]+).*\]", title))}
    for trace in figure.data:
        if trace.hoverinfo != "skip":
            assert any(unit in trace.hovertemplate for unit in units - {"UTC"}), trace.hovertemplate
    assert len(figure.to_json()) < 1_000_000


@pytest.mark.parametrize("name", ASKED)
def test_twins_take_what_the_static_functions_take(name):
    own, static = (inspect.signature(getattr(room, name)).parameters for room in (interactive, plot))
    both = {one for one in static if one not in {"ax", "axes"}}
    assert {one for one in own if one != "dark"} == both
    for one in both:
        assert own[one].default == static[one].default
        assert own[one].kind == static[one].kind


@pytest.mark.parametrize("name", ASKED)
def test_frames_without_rows_say_no_data(name, client):
    frames, _ = ASKED[name](client)
    empty = [frame.head(0) for frame in frames]
    figure = getattr(interactive, name)(*empty)
    assert "no data" in {note.text for note in figure.layout.annotations}
    assert not any(len(trace.y) if trace.y is not None else 0 for trace in figure.data)


@pytest.mark.parametrize("name", ASKED)
def test_errors_are_those_of_the_static_functions(name, client):
    frames, _ = ASKED[name](client)
    broken = [frame.drop("timestamp" if name != "volume_profile" else "price") for frame in frames]
    with pytest.raises(MissingColumnError) as static:
        drawn(name, broken, {})
    with pytest.raises(MissingColumnError) as own:
        getattr(interactive, name)(*broken)
    assert str(own.value) == str(static.value)


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
        np.testing.assert_array_equal(getattr(trace, name), wanted[name])
    assert figure.layout.title.text == f"X BTCUSDT, {interval}"
    assert f"{number:,}" in figure.layout.title.subtitle.text
    bars = interactive.volume(frame).data[0]
    assert bars.y.sum() == frame["volume"].sum()
    assert len(figure.to_json()) < 600_000


@pytest.mark.parametrize("columns", [["volume"], ["interval"], ["volume", "interval"], ["amount_unit"], []])
def test_candles_of_few_columns_are_joined_too(columns):
    frame = minutes(6_000).drop(columns)
    figure = interactive.candles(frame)
    assert len(figure.data[0].x) == 1_200
    assert figure.data[0].high.max() == frame["high"].max()
    assert figure.layout.yaxis.title.text == drawn("candles", [frame], {}).axes[0].get_ylabel()


def test_exactly_as_many_candles_as_a_page_shows_stay_as_they_are():
    figure = interactive.candles(minutes(MOST_CANDLES))
    assert len(figure.data[0].x) == MOST_CANDLES
    assert not figure.layout.title.subtitle.text


def test_candles_that_no_interval_joins_are_refused():
    frame = minutes(6_000).drop("interval")
    times = pl.Series([START + timedelta(seconds=11 * place) for place in range(6_000)])
    with pytest.raises(QueryError, match="at most 5,000"):
        interactive.candles(frame.with_columns(timestamp=times.dt.cast_time_unit("ns")))


def test_a_long_line_keeps_its_extremes_and_its_gaps():
    random = np.random.default_rng(3)
    x, y = np.arange(200_000.0), random.normal(size=200_000)
    y[[5, 77_777]] = 99, -99
    y[120_000:121_000] = np.nan
    rows = kept(x, y, MOST_POINTS)
    assert rows.size <= MOST_POINTS
    assert (np.diff(rows) > 0).all()
    column = (x / x[-1] * MOST_POINTS / 4).astype(int)
    for place in (0, 1_944, 4_000):
        here, there = y[column == place], y[rows][column[rows] == place]
        assert np.nanmax(here) == np.nanmax(there)
        assert np.nanmin(here) == np.nanmin(there)
    assert np.isnan(y[rows][(x[rows] >= 120_000) & (x[rows] < 121_000)]).all()
    assert kept(x[:100], y[:100], 100).size == 100


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
