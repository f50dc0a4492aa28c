"""Candles and their volume over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import StepPatch
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.plot import _style as style
from tidytape.plot._picture import OnePanel
from tidytape.plot._series import CandleSeries, VolumeSeries, candle_series, volume_series

BODY = 0.72  # width of a body as a share of the interval; the rest is a gap between bodies


@dataclass(frozen=True, slots=True)
class Candles(OnePanel):
    """What `candles` drew."""

    wicks: LineCollection
    bodies: PolyCollection


@dataclass(frozen=True, slots=True)
class Volume(OnePanel):
    """What `volume` drew."""

    steps: StepPatch


def candles(frame: IntoFrame, /, *, ax: Axes | None = None, timezone: str | tzinfo = "UTC") -> Candles:
    """Draw candles, or open interest as candles: a wick from low to high, a body between open and close.

    A candle is as wide as its interval, which starts at ``timestamp``. It is blue if it closed higher than it
    opened, vermillion if lower, and grey if it closed where it opened.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        Schema TRADE_SIDE_AGNOSTIC_AGG of one market, one side of TRADE_AGG, or OPEN_INTEREST_AGG. Uses ``timestamp``
        [UTC], ``open``, ``high``, ``low`` and ``close`` [quote per coin; of open interest as ``amount_unit`` says];
        identity columns, if present, give title, units and interval. A row that lacks a price is a gap.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Candles
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
    series = candle_series(frame, "frame")
    ax = style.one_axes(ax, 12, 6, timezone)
    drawn = draw_candles(ax, series, timezone)
    style.title(ax, "Open interest" if series.is_open_interest else "Candles", series.identity.title)
    return drawn


def volume(
    frame: IntoFrame,
    /,
    *,
    ax: Axes | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Volume:
    """Draw the traded volume of each interval.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        As for `candles`. Uses ``timestamp`` [UTC] and ``volume`` [as ``amount_unit`` says]. A row that lacks its volume
        is a gap.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Volume
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
    series = volume_series(frame, "frame")
    ax = style.one_axes(ax, 12, 3, timezone)
    drawn = draw_volume(ax, series, timezone, quote=quote)
    style.title(ax, "Volume", series.identity.title)
    return drawn


def draw_candles(ax: Axes, series: CandleSeries, timezone: str | tzinfo) -> Candles:
    """Draw candles without a title."""
    middle = series.start + series.width / 2
    wicks = np.stack([_points(middle, series.low), _points(middle, series.high)], axis=1)
    left_edge, right_edge = (middle + sign * series.width * BODY / 2 for sign in (-1, 1))
    corners = [
        (left_edge, series.open),
        (left_edge, series.close),
        (right_edge, series.close),
        (right_edge, series.open),
    ]
    bodies = np.stack([_points(x, y) for x, y in corners], axis=1)
    direction = np.sign(series.close - series.open).astype(int)
    palette = style.inside(ax)
    colours = np.array([palette.flat, palette.up, palette.down])[direction]

    # Draw all candles as two artists; one artist per candle would be slow. The edge shows a body of height 0 as a line.
    drawn = Candles(
        ax,
        LineCollection(list(wicks), colors=list(colours), linewidths=0.9, capstyle="butt", zorder=2.1),
        PolyCollection(
            list(bodies), facecolors=list(colours), edgecolors=list(colours), linewidths=0.7, zorder=2.2
        ),
    )
    ax.add_collection(drawn.wicks)
    ax.add_collection(drawn.bodies)
    style.frame_axes(ax, timezone)
    if series.is_open_interest:
        style.amount_axis(ax.yaxis, series.identity.amounts(None), bins=8, name="Open interest")
    else:
        style.price_axis(ax.yaxis, series.identity.price_unit)
    if series.start.size:
        set_time_limits(ax, series.start, series.width)
        ax.set_ylim(*padded_limits(series.low.min(), series.high.max()))
    else:
        style.no_data(ax)
    return drawn


def draw_volume(ax: Axes, series: VolumeSeries, timezone: str | tzinfo, *, quote: str | None) -> Volume:
    """Draw volumes without a title."""
    edges, values = step_line(series.start, series.width, series.volume)
    # Draw one outline instead of a bar per interval: thousands of bars thinner than a pixel would show moiré. The edge
    # of the outline keeps narrow peaks visible.
    drawn = Volume(
        ax, ax.stairs(values, edges, fill=True, color=style.inside(ax).volume, linewidth=0.5, zorder=2)
    )
    style.frame_axes(ax, timezone)
    style.amount_axis(ax.yaxis, series.identity.amounts(quote), bins=4)
    if series.start.size:
        set_time_limits(ax, series.start, series.width)
        ax.set_ylim(0, series.volume.max() * 1.06 or 1)
    else:
        style.no_data(ax)
    return drawn


def set_time_limits(ax: Axes, start: NDArray[np.float64], width: float) -> None:
    """Show every interval, with a small margin."""
    first, last = start[0], start[-1] + width
    style.show_times(ax, first, last, pad=0.01 * (last - first) + (width if start.size < 10 else 0))


def padded_limits(low: float, high: float) -> tuple[float, float]:
    """Return axis limits with a margin; if ``low`` equals ``high``, a small range around the price."""
    pad = 0.04 * (high - low) or 0.001 * abs(high) or 1.0
    return low - pad, high + pad


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([x, y], axis=1)


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
