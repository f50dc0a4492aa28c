"""Options: volatility by strike and by time to expiry."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Literal

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _smile, _surface, _term_structure
from tidytape.plot import _style as style
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._canvas import Canvas, Entry

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def smile(
    chain: IntoFrame,
    /,
    *,
    curves: IntoFrame | None = None,
    x: Literal["moneyness", "deviation", "strike"] = "moneyness",
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the volatilities of a chain by strike, as `tidytape.plot.smile` draws them.

    Parameters
    ----------
    chain : frame, n rows, one per (expiry, strike, option_type), any order
        As for `tidytape.plot.smile`. [quote per coin; volatilities in %]
    curves, x
        As for `tidytape.plot.smile`.

    Returns
    -------
    plotly.graph_objects.Figure
        Quotes as dots, the range from bid to ask as lines, and curves. A click on an expiry in the legend hides all
        marks of that expiry.
    """
    canvas = Canvas("smile", timezone, dark=dark, height=5.4)
    drawn = _smile.smile(chain, curves=curves, x=x, ax=canvas.ax, timezone=timezone)
    zone, _ = style.zone(timezone)
    for expiry in sorted({**drawn.quotes, **drawn.curves}):
        date = f"{expiry.astimezone(zone):%Y-%m-%d}"
        parts = [(drawn.quotes.get(expiry), ""), (drawn.spreads.get(expiry), ", bid to ask")]
        parts += [(drawn.curves.get(expiry), ", curve")]
        for artist, name in parts:
            if artist is None:
                continue
            canvas.entries[artist].group = f"{expiry:%Y-%m-%d %H:%M}"
            if not canvas.is_listed(artist):
                canvas.entries[artist].name, canvas.entries[artist].is_listed = date + name, False
    return figure_of(canvas)


def surface(
    frame: IntoFrame,
    /,
    *,
    y: Literal["moneyness", "deviation"] | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return a surface of volatilities, as `tidytape.plot.surface` draws it.

    Parameters
    ----------
    frame : frame, n rows, one per expiry or one per (days, moneyness), any order
        As for `tidytape.plot.surface`. [d; 1; %]
    y : {"moneyness", "deviation"}, optional
        As for `tidytape.plot.surface`.

    Returns
    -------
    plotly.graph_objects.Figure
        The surface is one image. Hovering shows the volatility; if there are more than 20,000 cells, that of some
        cells.
    """
    canvas = Canvas("surface", timezone, dark=dark, height=5.4)
    _surface.surface(frame, y=y, ax=canvas.ax, timezone=timezone)
    return figure_of(canvas)


def term_structure(
    frame: IntoFrame,
    /,
    *,
    value: Literal["implied_volatility", "skew"] | None = None,
    as_map: bool | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return volatility or skew by tenor or by days to expiry, as `tidytape.plot.term_structure` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, tenor, timestamp), any order
        As for `tidytape.plot.term_structure`. [%; vol points]
    value, as_map
        As for `tidytape.plot.term_structure`.

    Returns
    -------
    plotly.graph_objects.Figure
        Curves, or a map as one image.
    """
    canvas = Canvas("term_structure", timezone, dark=dark, height=5.4)
    drawn = _term_structure.term_structure(frame, value=value, as_map=as_map, ax=canvas.ax, timezone=timezone)
    zone, zone_name = style.zone(timezone)
    for (symbol, time), line in drawn.lines.items():
        text = f"{symbol} {time.astimezone(zone):%Y-%m-%d %H:%M} {zone_name}".strip()
        canvas.entries[line] = Entry(text, is_listed=canvas.is_listed(line))
    return figure_of(canvas)
