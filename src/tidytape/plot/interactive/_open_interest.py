"""Open interest over time; with candles also which positions were opened or closed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import TYPE_CHECKING

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _open_interest as static
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._candles import add_candles
from tidytape.plot.interactive._canvas import Canvas
from tidytape.plot.interactive._coarser import coarse_interval, coarser

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def open_interest(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    price_band: float = 0.0,
    oi_band: float = 0.0,
    by: str | Iterable[str] | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return open interest, and with candles also which positions were opened or closed.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.open_interest`. [as ``amount_unit`` says]
    candles : frame of the same kind, m rows, key timestamp, any order; optional
        As for `tidytape.plot.open_interest`. [quote per coin]
    price_band, oi_band, by
        As for `tidytape.plot.open_interest`.

    Returns
    -------
    plotly.graph_objects.Figure
        One panel, or three with candles. If there are more than 5,000 candles, the candles and the open interest have
        the finest interval that fits; the title then says so.
    """
    if candles is None:
        canvas = Canvas("open_interest", timezone, dark=dark)
        static.open_interest(frame, axes=canvas.ax, timezone=timezone)
    else:
        canvas = Canvas("open_interest", timezone, dark=dark, height=7.2)
        interval = coarse_interval(canvas, candles, "candles")
        drawn = static.open_interest(
            coarser(frame, "frame", interval),
            candles=coarser(candles, "candles", interval),
            price_band=price_band,
            oi_band=oi_band,
            by=by,
            axes=canvas.stack(*static.HEIGHTS),
            timezone=timezone,
        )
        for steps in drawn.changes.values():
            canvas.entries[steps].hover_name = str(steps.get_label()).partition(":")[0]
        if drawn.candles is not None:
            add_candles(canvas, drawn.candles)
    return figure_of(canvas)
