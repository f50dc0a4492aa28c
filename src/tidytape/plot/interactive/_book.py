"""Order books: resting size over time and price, and the depth and slippage of one book."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _depth, _heatmap
from tidytape.plot.interactive._artists import add_dots, add_steps, figure_of
from tidytape.plot.interactive._canvas import Canvas
from tidytape.query._values import TimeLike

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def book_heatmap(
    frame: IntoFrame,
    /,
    *,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    trades: IntoFrame | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the resting sizes of a book, its mid and trades, as `tidytape.plot.book_heatmap` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side, price), any order
        As for `tidytape.plot.book_heatmap`. [quote per coin; sizes as ``amount_unit`` says]
    block_size, prices, trades, quote
        As for `tidytape.plot.book_heatmap`.

    Returns
    -------
    plotly.graph_objects.Figure
        The book is one image. Hovering shows sizes; if there are more than 20,000 cells, the largest size of
        neighbouring cells.
    """
    canvas = Canvas("book_heatmap", timezone, dark=dark, height=5.6)
    drawn = _heatmap.book_heatmap(
        frame,
        block_size=block_size,
        prices=prices,
        trades=trades,
        quote=quote,
        ax=canvas.ax,
        timezone=timezone,
    )
    for dots, amounts in ((drawn.buys, drawn.bought), (drawn.sells, drawn.sold)):
        if dots is not None:
            add_dots(canvas, dots, amounts=amounts)
    return figure_of(canvas)


def depth(
    book: IntoFrame,
    /,
    *,
    at: TimeLike | None = None,
    bps: float | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the size of a book up to each price, as `tidytape.plot.depth` draws it.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        As for `tidytape.plot.depth`. [quote per coin; sizes as ``amount_unit`` says]
    at, bps, quote
        As for `tidytape.plot.depth`.

    Returns
    -------
    plotly.graph_objects.Figure
        Hovering shows the price, its distance from the mid [bps], and the size.
    """
    canvas = Canvas("depth", timezone, dark=dark)
    drawn = _depth.depth(book, at=at, bps=bps, quote=quote, ax=canvas.ax, timezone=timezone)
    mid = None if drawn.mid is None else float(np.ravel(drawn.mid.get_xdata())[0])
    for steps in (drawn.bids, drawn.asks):
        if steps is not None:
            add_steps(canvas, steps, is_filled=True, origin=mid)
    return figure_of(canvas)


def slippage(
    book: IntoFrame,
    /,
    *,
    at: TimeLike | None = None,
    size: Iterable[float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the cost of a market order by its size, as `tidytape.plot.slippage` draws it.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        As for `tidytape.plot.slippage`. [quote per coin; sizes as ``amount_unit`` says]
    at, size, quote
        As for `tidytape.plot.slippage`.

    Returns
    -------
    plotly.graph_objects.Figure
        One line for buys and one for sells. [bps]
    """
    canvas = Canvas("slippage", timezone, dark=dark)
    _depth.slippage(book, at=at, size=size, quote=quote, ax=canvas.ax, timezone=timezone)
    return figure_of(canvas)
