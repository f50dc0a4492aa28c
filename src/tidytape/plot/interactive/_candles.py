"""Candles and their volume over time."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _candles as static
from tidytape.plot import _style as style
from tidytape.plot.interactive._artists import add_filled, figure_of
from tidytape.plot.interactive._canvas import Canvas, colour
from tidytape.plot.interactive._coarser import coarse_interval, coarser
from tidytape.plot.interactive._times import milliseconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def candles(frame: IntoFrame, /, *, timezone: str | tzinfo = "UTC", dark: bool = False) -> Figure:
    """Return candles, as `tidytape.plot.candles` draws them.

    Hovering shows open, high, low and close.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        As for `tidytape.plot.candles`. [quote per coin]

    Returns
    -------
    plotly.graph_objects.Figure
        One candle per row. If there are more than 5,000 rows, candles of the finest interval that fits; the title then
        says so.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> frame = pl.DataFrame({
    ...     "normalized_symbol": "BTC-USDT", "timestamp": [datetime(2024, 8, 8, h, tzinfo=UTC) for h in (0, 1)],
    ...     "open": [60.0, 62.0], "high": [63.0, 64.0], "low": [59.0, 61.0], "close": [62.0, 61.5],
    ... })
    >>> figure = candles(frame)
    >>> figure.layout.yaxis.title.text, sum(len(trace.x) for trace in figure.data)
    ('Price [USDT per BTC]', 2)
    """
    canvas = Canvas("candles", timezone, dark=dark, height=5.4)
    interval = coarse_interval(canvas, frame, "frame")
    drawn = static.candles(coarser(frame, "frame", interval), ax=canvas.ax, timezone=timezone)
    add_candles(canvas, drawn)
    return canvas.figure()


def volume(
    frame: IntoFrame,
    /,
    *,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the traded volume of each interval, as `tidytape.plot.volume` draws it.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        As for `tidytape.plot.volume`. [as ``amount_unit`` says]
    quote : str, optional
        As for `tidytape.plot.volume`.

    Returns
    -------
    plotly.graph_objects.Figure
        One bar per row. If there are more than 5,000 rows, bars of the finest interval that fits; the title then says
        so.
    """
    canvas = Canvas("volume", timezone, dark=dark, height=3.4)
    interval = coarse_interval(canvas, frame, "frame")
    drawn = static.volume(coarser(frame, "frame", interval), ax=canvas.ax, quote=quote, timezone=timezone)
    add_filled(canvas, drawn.steps, with_zeros=True)
    return figure_of(canvas)


def add_candles(canvas: Canvas, drawn: static.Candles) -> None:
    """Add candles as two traces: candles that rose or fell, and candles that closed where they opened."""
    canvas.done |= {drawn.wicks, drawn.bodies}
    if not drawn.bodies.get_paths():
        return
    wicks = np.array(drawn.wicks.get_segments())
    bodies = np.array([path.vertices for path in drawn.bodies.get_paths()])
    open_price, close_price = bodies[:, 0, 1], bodies[:, 1, 1]
    low, high = wicks[:, 0, 1], wicks[:, 1, 1]
    width = np.median(bodies[:, 2, 0] - bodies[:, 0, 0]) / static.BODY
    start = wicks[:, 0, 0] - width / 2
    ax, palette = drawn.ax, style.inside(drawn.ax)
    name = canvas.measure(ax, "y")[0]
    values = "<br>".join(f"{part.title()} %{{{part}:,.8~r}}" for part in ("open", "high", "low", "close"))
    text = f"{values} {canvas.measure(ax, 'y')[1]}<extra>{name}</extra>"
    is_flat = open_price == close_price
    for mask, up, down in ((~is_flat, palette.up, palette.down), (is_flat, palette.flat, palette.flat)):
        if not mask.any():
            continue
        directions: dict[str, Any] = {
            direction: {"line": {"color": colour(shade), "width": 1}, "fillcolor": colour(shade)}
            for direction, shade in (("increasing", up), ("decreasing", down))
        }
        canvas.add(
            ax,
            type="candlestick",
            x=canvas.positions(ax, start[mask]),
            open=open_price[mask],
            high=high[mask],
            low=low[mask],
            close=close_price[mask],
            # Plotly draws a candle over its interval, which begins at its timestamp.
            xperiod=float(milliseconds(np.array(width))),
            xperiodalignment="middle",
            whiskerwidth=0,
            hovertemplate=text,
            name=name,
            **directions,
        )
