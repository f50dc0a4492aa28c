"""Volume by price, alone and beside candles."""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _panels as panels
from tidytape.plot import _profile as static
from tidytape.plot.interactive._artists import add_filled, figure_of
from tidytape.plot.interactive._candles import add_candles
from tidytape.plot.interactive._canvas import Canvas
from tidytape.plot.interactive._coarser import coarse_interval, coarser

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Width and height of the candles, and gap between panels, as shares of the figure.
_WIDTH, _HEIGHT, _GAP = 0.79, 0.74, 0.015


def volume_profile(
    profile: IntoFrame,
    /,
    *,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
    dark: bool = False,
) -> Figure:
    """Return the volume at each price, with POC and value area, as `tidytape.plot.volume_profile` draws them.

    Parameters
    ----------
    profile : frame, n rows, key (timestamp, price), any order
        As for `tidytape.plot.volume_profile`. [quote per coin; volumes as ``amount_unit`` says]
    share, rule, tie, stop, row_size, quote
        As for `tidytape.plot.volume_profile`.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    canvas = Canvas("volume_profile", "UTC", dark=dark, height=6.4)
    static.volume_profile(
        profile, ax=canvas.ax, share=share, rule=rule, tie=tie, stop=stop, row_size=row_size, quote=quote
    )
    return figure_of(canvas)


def candles_with_profile(
    candles: IntoFrame,
    profile: IntoFrame,
    /,
    *,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return candles, volume and volume profile, as `tidytape.plot.candles_with_profile` draws them.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `tidytape.plot.candles`, with ``volume``. [quote per coin]
    profile : frame, m rows, key (timestamp, price), any order
        As for `tidytape.plot.candles_with_profile`.
    share, rule, tie, stop, row_size, quote
        As for `tidytape.plot.volume_profile`.

    Returns
    -------
    plotly.graph_objects.Figure
        Panels that zoom together. If there are more than 5,000 candles, they have the finest interval that fits; the
        title then says so.
    """
    canvas = Canvas("candles_with_profile", timezone, dark=dark, height=6.4)
    axes = panels.panels(canvas.hidden)
    candle_range, profile_range = (0.0, _WIDTH), (_WIDTH + _GAP, 1.0)
    canvas.add_axes(axes.price, candle_range, (1 - _HEIGHT, 1.0))
    canvas.add_axes(axes.profile, profile_range, (1 - _HEIGHT, 1.0))
    canvas.add_axes(axes.volume, candle_range, (0.0, 1 - _HEIGHT - 2 * _GAP))
    interval = coarse_interval(canvas, candles, "candles")
    drawn = panels.candles_with_profile(
        coarser(candles, "candles", interval), profile, axes=axes, share=share, rule=rule, tie=tie, stop=stop,
        row_size=row_size, quote=quote, timezone=timezone,
    )  # fmt: skip
    add_candles(canvas, drawn.candles)
    add_filled(canvas, drawn.volume.steps, with_zeros=True)
    # The legend lists the lines of the profile, but not the same lines across the candles.
    for artist in (*axes.price.lines, *axes.price.patches):
        canvas.entries[artist].is_listed = False
    name, unit = canvas.measure(axes.profile, "x")
    title = {"text": f"{name}<br>[{unit}]" if unit else name, "font": {"size": 11}}
    return figure_of(canvas).update_layout(xaxis2={"title": title, "nticks": 4, "tickangle": 0})
