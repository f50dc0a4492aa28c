"""Candles and their volume over time."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.plot import _style as style
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Axis, Candles, Facts, Panel, Steps
from tidytape.plot._series import CandleSeries, VolumeSeries, candle_series, volume_series
from tidytape.sessions import Session


def candles(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw candles, or open interest as candles: a wick from low to high, a body between open and close.

    A candle is as wide as its interval, which starts at ``timestamp``. It is blue if it closed higher than it
    opened, vermillion if lower, and grey if it closed where it opened.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        Schema TRADE_SIDE_AGNOSTIC_AGG of one market, one side of TRADE_AGG, or OPEN_INTEREST_AGG. Uses ``timestamp``
        [UTC], ``open``, ``high``, ``low`` and ``close`` [quote per coin; of open interest as ``amount_unit`` says];
        identity columns, if present, give title, units and interval. A row that lacks a price is a gap.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    session : Session, optional
        When the market trades. The axis then leaves out closed time, with a line at each break. Values outside of the
        sessions are left out, and the title says how many.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
        The artists, one line and one rectangle per candle. For a frame without candles the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``wicks`` : LineCollection. One line per candle, from low to high.
        - ``bodies`` : PolyCollection. One rectangle per candle, between open and close, coloured by direction.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets, or ``timezone`` is unknown.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> frame = pl.DataFrame({
    ...     "normalized_symbol": "BTC-USDT", "timestamp": [datetime(2024, 8, 8, h, tzinfo=UTC) for h in (0, 1)],
    ...     "open": [60.0, 62.0], "high": [63.0, 64.0], "low": [59.0, 61.0], "close": [62.0, 61.5],
    ... })
    >>> drawn = candles(frame, ax=Figure().add_subplot())
    >>> len(drawn.bodies.get_paths()), drawn.ax.get_ylabel()
    (2, 'Price [USDT per BTC]')
    """
    return draw(
        lambda panel: fill_candles(panel, frame),
        ax,
        (12, 6),
        title=title,
        timezone=timezone,
        session=session,
    )


def volume(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    quote: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw the traded volume of each interval.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        As for `candles`. Uses ``timestamp`` [UTC] and ``volume`` [as ``amount_unit`` says]. A row that lacks its volume
        is a gap.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    session : Session, optional
        When the market trades. The axis then leaves out closed time, with a line at each break. Values outside of the
        sessions are left out, and the title says how many.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
        The artist. For a frame with no volume the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``steps`` : StepPatch. The volume of each interval; NaN where there is none.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets, or ``timezone`` is unknown.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> times = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1, 3)]
    >>> frame = pl.DataFrame({"coin": "BTC", "amount_unit": "COIN", "timestamp": times, "volume": [5.0, 7.0, 2.0]})
    >>> drawn = volume(frame, ax=Figure().add_subplot())
    >>> drawn.steps.get_data().values, drawn.ax.get_ylabel()
    (array([ 5.,  7., nan,  2.]), 'Volume [BTC]')
    """
    return draw(
        lambda panel: fill_volume(panel, frame, quote=quote),
        ax,
        (12, 3),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_candles(panel: Panel, frame: IntoFrame) -> Facts:
    """Show candles on a panel."""
    series = add_candles(panel, candle_series(panel.hours.inside(frame), "frame"))
    panel.title = style.titled("Open interest" if series.is_open_interest else "Candles", series.title)
    return {}


def fill_volume(panel: Panel, frame: IntoFrame, *, quote: str | None) -> Facts:
    """Show volumes on a panel."""
    series = add_volume(panel, volume_series(panel.hours.inside(frame), "frame"), quote=quote)
    panel.title = style.titled("Volume", series.title)
    return {}


def add_candles(panel: Panel, series: CandleSeries) -> CandleSeries:
    """Add candles without a title; return those that are shown."""
    series = series.joined()
    panel.over_time()
    y, palette = panel.y, panel.colours
    y.kind, y.name, y.unit = "price", "Price", series.identity.price_unit
    if series.is_open_interest:
        y.kind, y.name, y.unit, y.bins = "amount", "Open interest", series.identity.amounts(None), 8
    prices = (series.open, series.high, series.low, series.close)
    colours = (palette.up, palette.down, palette.flat)
    panel.add(Candles(series.start, series.width, *prices, name="candles", colour=colours))
    panel.is_empty = not series.start.size
    if series.start.size:
        show_intervals(panel, series.start, series.width)
        y.limits = padded_limits(series.low.min(), series.high.max())
    return series


def add_volume(panel: Panel, series: VolumeSeries, *, quote: str | None) -> VolumeSeries:
    """Add volumes without a title; return those that are shown."""
    series = series.joined()
    panel.over_time()
    panel.y = Axis("Volume", series.identity.amounts(quote), "amount", bins=4)
    edges, values = step_line(series.start, series.width, series.volume)
    # Draw one outline instead of a bar per interval: thousands of bars thinner than a pixel would show moiré.
    panel.add(Steps(edges, values, has_zeros=True, name="steps", colour=panel.colours.volume, width=0.5))
    panel.is_empty = not series.start.size
    if series.start.size:
        show_intervals(panel, series.start, series.width)
        panel.y.limits = (0.0, float(series.volume.max()) * 1.06 or 1.0)
    return series


def show_intervals(panel: Panel, start: NDArray[np.float64], width: float) -> None:
    """Show every interval, with a small margin."""
    first, last = float(start[0]), float(start[-1]) + width
    panel.show_times(first, last, 0.01 * (last - first) + (width if start.size < 10 else 0))


def padded_limits(low: float, high: float) -> tuple[float, float]:
    """Return axis limits with a margin; if ``low`` equals ``high``, a small range around the price."""
    pad = 0.04 * (high - low) or 0.001 * abs(high) or 1.0
    return float(low - pad), float(high + pad)


def step_line(
    start: NDArray[np.float64], width: float, values: NDArray[np.float64], gap: float = np.nan
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the edges and values of a step line over intervals of one width; each gap is one step of value ``gap``."""
    if not start.size:
        return np.array([0.0, 1.0]), np.array([np.nan])
    end = start + width
    # Matplotlib dates are rounded, so an end and the next start may differ by some nanoseconds without a gap.
    after_gap = np.flatnonzero(start[1:] - end[:-1] > 1e-3 * width) + 1
    edges = np.append(np.insert(start, after_gap, end[after_gap - 1]), end[-1])
    return edges, np.insert(values, after_gap, gap)
