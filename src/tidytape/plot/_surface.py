"""Volatility over strike and time to expiry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.contour import QuadContourSet
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._smile import _AXES, _colours, _opened, _title

_TICKS = (0.25, 0.5, 1, 2, 3, 7, 14, 30, 60, 90, 180, 365, 730)  # [d]


@dataclass(frozen=True, slots=True)
class Surface:
    """What `surface` drew.

    Attributes
    ----------
    ax : matplotlib.axes.Axes
        Where.
    mesh : matplotlib.collections.QuadMesh or None
        Volatility by log-moneyness, ascending, and days; masked where there is none. None where there is no data.
    contours : matplotlib.contour.QuadContourSet or None
        Lines of equal volatility; None where there are not two places and two maturities.
    """

    ax: Axes
    mesh: QuadMesh | None
    contours: QuadContourSet | None


def surface(frame: IntoFrame, /, *, ax: Axes | None = None, timezone: str | tzinfo = "UTC") -> Surface:
    """Draw a surface of volatilities as colours, over days to expiry and log-moneyness, with lines of equal volatility.

    The axis of days is logarithmic. Where there is no volatility nothing is drawn.

    Parameters
    ----------
    frame : frame, n rows, one per (days, moneyness), any order
        One surface, of one series and time, as `tidytape.analytics.options.surface` returns it: ``timestamp``,
        ``days`` [d], ``moneyness`` ln(K/F) [1] and ``implied_volatility`` [%].
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time in the title.

    Returns
    -------
    Surface
        The artists. A frame with no volatilities says "no data".

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame is none, or holds several surfaces; or if ``timezone`` is unknown.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> frame = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "days": [7.0, 7.0, 30.0, 30.0],
    ...         "moneyness": [-0.1, 0.1, -0.1, 0.1], "implied_volatility": [60.0, 52.0, 56.0, 50.0],
    ...     }
    ... )
    >>> surface(frame, ax=Figure().add_subplot()).mesh.get_array().tolist()
    [[60.0, 56.0], [52.0, 50.0]]
    """
    zone, zone_name = style.zone(timezone)  # before a figure is made for nothing
    given = _opened(frame, "frame", ("timestamp", "days", "moneyness", "implied_volatility"))
    title, _ = _title(given, "frame", zone, zone_name)
    days, places, values = _matrix(given)
    ax = ax or style.new_axes(9, 5)
    style.frame_axes(ax)
    ax.grid(visible=False)
    style.title(ax, title)
    style.x_label(ax, "Time to expiry", "d, log scale")
    style.y_label(ax, *_AXES["moneyness"])
    if not np.isfinite(values).any():
        style.no_data(ax)
        return Surface(ax, None, None)
    ax.set_xscale("log")
    known = np.ma.masked_invalid(values)
    mesh = ax.pcolormesh(_edges(np.log(days), np.exp), _edges(places), known, cmap=_colours(), zorder=1)
    contours = None
    if min(known.shape) > 1:
        levels = MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]).tick_values(known.min(), known.max())
        contours = ax.contour(days, places, known, levels=levels, colors="white", linewidths=0.8, zorder=2)
        ax.clabel(contours, fontsize="small", fmt="%g")
    ticks = [day for day in _TICKS if days[0] <= day <= days[-1]] or [float(days[0])]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{day:g}" for day in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    style.colour_bar(ax, mesh, "Implied volatility", "%")
    return Surface(ax, mesh, contours)


def _matrix(frame: nw.DataFrame[Any]) -> tuple[Any, Any, Any]:
    """Return days and log-moneyness in order, and volatility by log-moneyness and days; NaN where there is none."""
    day, place, volatility = (
        frame[name].cast(nw.Float64).to_numpy().astype(float)
        for name in ("days", "moneyness", "implied_volatility")
    )
    good = np.isfinite(place) & np.isfinite(day) & (day > 0)
    days, column = np.unique(day[good], return_inverse=True)
    places, row = np.unique(place[good], return_inverse=True)
    if len(set(zip(row, column, strict=True))) < good.sum():
        raise QueryError(
            "frame", got="several rows of one place and maturity", expected="one row per days and moneyness"
        )
    values = np.full((len(places), len(days)), np.nan)
    values[row, column] = volatility[good]
    return days, places, values


def _edges(centres: Any, scale: Any = np.asarray) -> Any:
    """Return the borders between centres, and one beyond either end."""
    if len(centres) == 1:
        return scale(centres[0] + np.array([-0.05, 0.05]))
    middles = (centres[1:] + centres[:-1]) / 2
    ends = 2 * centres[0] - middles[0], 2 * centres[-1] - middles[-1]
    return scale(np.concatenate([[ends[0]], middles, [ends[1]]]))
