"""Liquidations over time, and over time and price."""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _liquidations as static
from tidytape.plot.interactive._artists import add_filled, add_line, figure_of
from tidytape.plot.interactive._canvas import Canvas

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def liquidations(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the liquidated volume of each interval, as `tidytape.plot.liquidations` draws it.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side), any order
        As for `tidytape.plot.liquidations`. [as ``amount_unit`` says]
    candles : frame, m rows, key timestamp; optional
        Candles of the same coin, whose ``close`` is drawn as a line with an axis at the right. [quote per coin]
    quote : str, optional
        As for `tidytape.plot.liquidations`.

    Returns
    -------
    plotly.graph_objects.Figure
        Longs above zero, shorts below.
    """
    canvas = Canvas("liquidations", timezone, dark=dark)
    drawn = static.liquidations(frame, candles=candles, ax=canvas.ax, quote=quote, timezone=timezone)
    for steps in (drawn.longs, drawn.shorts):
        if steps is not None:
            add_filled(canvas, steps, is_signed=False)
    if drawn.price_ax is not None and drawn.price is not None:
        canvas.add_twin(drawn.price_ax, canvas.ax)
        middles = np.asarray(drawn.price.get_xdata(), float)
        add_line(canvas, drawn.price, width=float(np.diff(middles).min(initial=1.0)))
    canvas.fix_ticks(canvas.ax)  # they show shorts, which are below zero, without a sign
    return figure_of(canvas)


def liquidation_heatmap(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the liquidated volume by time and price, as `tidytape.plot.liquidation_heatmap` draws it.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, price), any order
        As for `tidytape.plot.liquidation_heatmap`. [quote per coin; volumes as ``amount_unit`` says]
    candles, block_size, prices, quote
        As for `tidytape.plot.liquidation_heatmap`.

    Returns
    -------
    plotly.graph_objects.Figure
        The volumes are one image. Hovering shows a volume; if there are more than 20,000 cells, the largest volume of
        neighbouring cells.
    """
    canvas = Canvas("liquidation_heatmap", timezone, dark=dark, height=5.6)
    static.liquidation_heatmap(
        frame,
        candles=candles,
        block_size=block_size,
        prices=prices,
        quote=quote,
        ax=canvas.ax,
        timezone=timezone,
    )
    return figure_of(canvas)
