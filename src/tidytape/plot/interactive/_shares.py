"""Shares of markets in a sum."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

import numpy as np
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import html_text
from tidytape.plot import _cross as static
from tidytape.plot import _style as style
from tidytape.plot.interactive._artists import add, figure_of
from tidytape.plot.interactive._canvas import Canvas, colour
from tidytape.plot.interactive._image import add_image
from tidytape.plot.interactive._thin import MOST_POINTS, points_to_send

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def market_share(
    frame: IntoFrame,
    /,
    *,
    amount: str = "",
    most: int = len(style.CYCLE),
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the share of each market in the sum of all markets, as `tidytape.plot.market_share` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.market_share`. [1]
    amount, most
        As for `tidytape.plot.market_share`.

    Returns
    -------
    plotly.graph_objects.Figure
        One area per market. [%]
    """
    canvas = Canvas("market_share", timezone, dark=dark)
    drawn = static.market_share(frame, amount=amount, most=most, ax=canvas.ax, timezone=timezone)
    low = np.zeros(drawn.times.size)
    points = drawn.times.size * len(drawn.tops)
    if points > MOST_POINTS:
        add_image(canvas, drawn.ax, drawn.areas.values())
    for label, high in drawn.tops.items():
        area = drawn.areas[label]
        rows = points_to_send(drawn.times, high, MOST_POINTS // len(drawn.tops))
        # The line at the top of an area shows its share on hovering. The area itself is sent by `figure_of`, or as an
        # image if there are many points.
        add(
            canvas,
            area,
            type="scatter",
            mode="lines",
            line={"width": 1, "color": colour(area.get_facecolor()[0])},
            x=canvas.positions(drawn.ax, drawn.times[rows]),
            y=high[rows] * 100,
            customdata=(high - low)[rows] * 100,
            hovertemplate=f"{canvas.value_text(drawn.ax, 'y', 'customdata')}<extra>{html_text(label)}</extra>",
            name=canvas.name_of(area),
            **({} if points > MOST_POINTS else {"showlegend": False}),
        )
        if points <= MOST_POINTS:
            canvas.done.discard(area)
        low = high
    return figure_of(canvas)
