"""Lines over time: funding, premiums, volatility and skew."""

from __future__ import annotations

from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _cross, _funding, _volatility
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._canvas import Canvas

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def funding(
    frame: IntoFrame,
    /,
    *,
    open_interest: IntoFrame | None = None,
    funding_interval: str | timedelta | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return funding rates per year, as `tidytape.plot.funding` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.funding`. [1 per funding interval]
    open_interest, funding_interval
        As for `tidytape.plot.funding`.

    Returns
    -------
    plotly.graph_objects.Figure
        Settled rates as solid steps, predicted ones dashed. [% per year]
    """
    canvas = Canvas("funding", timezone, dark=dark)
    drawn = _funding.funding(
        frame, open_interest=open_interest, funding_interval=funding_interval, ax=canvas.ax, timezone=timezone
    )
    for label, line in drawn.predicted.items():
        canvas.entries[line].name = f"{label}, predicted".removeprefix(", ")
    return figure_of(canvas)


def premium(frame: IntoFrame, /, *, timezone: str | tzinfo = "UTC", dark: bool = False) -> Figure:
    """Return the premium of each market over a reference price, as `tidytape.plot.premium` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.premium`. [1]

    Returns
    -------
    plotly.graph_objects.Figure
        One line per market. [bp]
    """
    canvas = Canvas("premium", timezone, dark=dark)
    _cross.premium(frame, ax=canvas.ax, timezone=timezone)
    return figure_of(canvas)


def volatility(
    frame: IntoFrame,
    /,
    *,
    realized: IntoFrame | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return implied volatility over time, as `tidytape.plot.volatility` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        As for `tidytape.plot.volatility`. [%]
    realized : frame, m rows, key timestamp, any order; optional
        As for `tidytape.plot.volatility`. [%]

    Returns
    -------
    plotly.graph_objects.Figure
        One line per tenor, and one of the realised volatility. [%]
    """
    canvas = Canvas("volatility", timezone, dark=dark)
    _volatility.volatility(frame, realized=realized, ax=canvas.ax, timezone=timezone)
    return figure_of(canvas)


def skew(frame: IntoFrame, /, *, timezone: str | tzinfo = "UTC", dark: bool = False) -> Figure:
    """Return skew, or risk reversals, over time, as `tidytape.plot.skew` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        As for `tidytape.plot.skew`. [vol points]

    Returns
    -------
    plotly.graph_objects.Figure
        One line per tenor. [vol points]
    """
    canvas = Canvas("skew", timezone, dark=dark)
    _volatility.skew(frame, ax=canvas.ax, timezone=timezone)
    return figure_of(canvas)
