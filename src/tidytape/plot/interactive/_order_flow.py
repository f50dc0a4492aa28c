"""Price, delta and cumulative volume delta, on shared time."""

from __future__ import annotations

from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Literal

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _order_flow as static
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._candles import add_candles
from tidytape.plot.interactive._canvas import Canvas
from tidytape.plot.interactive._coarser import coarse_interval, coarser
from tidytape.sessions import Session

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def order_flow(
    candles: IntoFrame,
    sides: IntoFrame,
    /,
    *,
    anchor: Literal["none", "session"] = "none",
    session: Session | str | timedelta | None = None,
    period: str | timedelta | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return candles, delta and cumulative volume delta, as `tidytape.plot.order_flow` draws them.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `tidytape.plot.candles`. [quote per coin]
    sides : frame, m rows, any order
        As for `tidytape.plot.order_flow`. [as ``amount_unit`` says]
    anchor, session, period, quote
        As for `tidytape.plot.order_flow`.

    Returns
    -------
    plotly.graph_objects.Figure
        Three panels that zoom together. If there are more than 5,000 candles, candles and delta have the finest
        interval that fits; the title then says so.
    """
    canvas = Canvas("order_flow", timezone, dark=dark, height=7.0)
    axes = static.FlowPanels(*canvas.stack(*static.HEIGHTS))
    interval = coarse_interval(canvas, candles, "candles")
    drawn = static.order_flow(
        coarser(candles, "candles", interval), sides, axes=axes, anchor=anchor, session=session, period=period,
        quote=quote, timezone=timezone,
    )  # fmt: skip
    add_candles(canvas, drawn.candles)
    return figure_of(canvas)
