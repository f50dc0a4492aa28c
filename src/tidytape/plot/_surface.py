"""Volatility over strike and time to expiry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.contour import QuadContourSet
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import options
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import opened
from tidytape.plot._picture import OnePanel
from tidytape.plot._smile import _AXES, _DEVIATIONS, _FIT, COLOURS, _opened, _title
from tidytape.plot._term_map import borders

Floats = NDArray[np.float64]

_LEVELS = np.array(
    [
        5,
        10,
        15,
        20,
        25,
        30,
        35,
        40,
        45,
        50,
        55,
        60,
        65,
        70,
        80,
        90,
        100,
        120,
        140,
        160,
        180,
        200,
        250,
        300,
        400,
        500,
    ]
)  # [%]
_MOST_LEVELS = 9  # contours of a picture
_LABELLED = 0.25  # share of the time axis that a contour must cover to get a label
_FINE = 200  # columns and rows of the drawn grid: finer than the eye can see
_WIDE = 2.0  # ratio of the highest to the lowest volatility from which on colours are logarithmic


@dataclass(frozen=True, slots=True)
class Surface(OnePanel):
    """What `surface` drew."""

    mesh: QuadMesh | None
    contours: QuadContourSet | None


def surface(
    frame: IntoFrame,
    /,
    *,
    y: Literal["moneyness", "deviation"] | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Surface:
    r"""Draw a surface of volatilities: days to expiry to the right, log-moneyness upward, the volatility as colour.

    Lines join places of equal volatility. The axis of days is logarithmic. The surface is smooth: fits are followed
    along log-moneyness, and between the days of a frame total variance is linear,

    .. math:: w(k, \tau) = w_1(k) + (w_2(k) - w_1(k)) \frac{\tau - T_1}{T_2 - T_1}, \qquad w = \sigma^2 \tau

    Nothing is extrapolated: a place is left out where one of its neighbours is unknown, or lies outside of the quotes.
    Where volatilities differ by a factor of 2 or more, the scale of colours is logarithmic.

    Parameters
    ----------
    frame : frame, n rows, one per expiry or one per (days, moneyness), any order
        One surface, of one series and time: fits as `tidytape.analytics.options.svi` returns them, or what
        `tidytape.analytics.options.surface` does, ``timestamp``, ``days`` [d], ``moneyness`` ln(K/F) [1] and
        ``implied_volatility`` [%]. The title says how many fits are poor, where the frame has their ``status``.
    y : {"moneyness", "deviation"}, optional
        What is up: ln(K/F); or the same in standard deviations, with σ at the forward, so that near expiries have as
        much room as far ones, of which 5 either side are drawn. ``deviation`` for fits and ``moneyness`` for others
        if left out.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time in the title.

    Returns
    -------
    Surface
        The artists. A frame with no volatilities says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``mesh`` : QuadMesh or None. Volatility by log-moneyness, ascending, and days; masked where there is none.
          None where there is no data.
        - ``contours`` : QuadContourSet or None. Lines of equal volatility; None without two values of log-moneyness
          and two maturities.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame is none, or holds several surfaces; if ``y`` is neither; or if ``timezone`` is unknown.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       lemma 2.1: total variance that rises in time at every k is free of calendar arbitrage, and so is what lies
       between.

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
    >>> drawn = surface(frame, ax=Figure().add_subplot())
    >>> drawn.mesh.get_clim()
    (50.0, 60.0)
    """
    zone, zone_name = style.zone(timezone)  # refuse an unknown zone before a figure is made
    if y not in {None, "moneyness", "deviation"}:
        raise QueryError("y", got=y, expected="moneyness or deviation")
    rows = opened(frame, "frame", ["timestamp"])
    note, y_name = "", y or "moneyness"
    if _FIT.issubset(rows.columns) and "implied_volatility" not in rows.columns:
        note, y_name = _quality(rows), y or "deviation"
        rows = _evaluated(rows)
    rows = _opened(rows.to_native(), "frame", ("timestamp", "days", "moneyness", "implied_volatility"))
    title, _ = _title(rows, "frame", zone, zone_name)
    coarse = _matrix(rows)
    fine = _refined(*coarse)
    # If no value has a known neighbour, show the coarse grid.
    days, places, values = fine if np.isfinite(fine[2]).any() else coarse
    if y_name == "deviation":
        places, values = _in_deviations(days, places, values)
    ax = style.framed_axes(ax, 9, 5)
    ax.grid(visible=False)
    style.title(ax, "Volatility surface", title, note)
    style.x_label(ax, "Time to expiry", "d, log scale")
    style.y_label(ax, *_AXES[y_name])
    if not np.isfinite(values).any():
        style.no_data(ax)
        return Surface(ax, None, None)
    ax.set_xscale("log")
    known = np.ma.masked_invalid(values)
    low, high = float(known.min()), float(known.max())
    mesh = ax.pcolormesh(
        np.exp(borders(np.log(days), alone=0.05)),
        borders(places, alone=0.05),
        known,
        cmap=COLOURS,
        norm=LogNorm(low, high) if low > 0 and high / low >= _WIDE else None,
        rasterized=True,  # as vectors, thousands of places would have visible seams
        zorder=1,
    )
    contours = None
    levels = _LEVELS[(low < _LEVELS) & (high > _LEVELS)]
    if min(known.shape) > 1 and len(levels):
        levels = levels[:: -(-len(levels) // _MOST_LEVELS)]
        contours = ax.contour(days, places, known, levels=levels, colors="white", linewidths=0.8, zorder=2)
        ax.clabel(contours, fontsize="small", fmt="%g", manual=_middles(contours.allsegs, days))
    style.day_ticks(ax.xaxis, days[0], days[-1], float(days[0]))
    style.colour_bar(ax, mesh, "Implied volatility", "%")
    return Surface(ax, mesh, contours)


def _middles(segments: list[list[Floats]], days: Floats) -> list[tuple[float, float]]:
    """Return where to label contours: in the middle of those that are long enough."""
    least = _LABELLED * np.log(days[-1] / days[0])
    long = (part for level in segments for part in level if len(part) and np.ptp(np.log(part[:, 0])) >= least)
    return [(float(x), float(y)) for x, y in (part[len(part) // 2] for part in long)]


def _quality(fits: nw.DataFrame[Any]) -> str:
    """Return as text how many expiries there are, and how many of them have a poor fit."""
    number = len(fits)
    several = f"{number} expiries" if number > 1 else ""
    poor = (fits["status"] != "ok").sum() if "status" in fits.columns else 0
    return ", ".join(
        filter(None, [several, f"{poor} poor fits" if poor > 1 else "1 poor fit" if poor else ""])
    )


def _evaluated(fits: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Evaluate fits at their expiries, over the range of their quotes."""
    known = fits.filter(*(~nw.col(name).is_null() for name in ("days", "a", "lowest", "highest"))).filter(
        nw.col("days") > 0
    )
    if not len(known):
        return (
            fits.select("timestamp")
            .head(0)
            .with_columns(nw.lit(0.0).alias(name) for name in ("days", "moneyness", "implied_volatility"))
        )
    lowest, highest, days = (known[name].to_numpy() for name in ("lowest", "highest", "days"))
    # Dense around the forward: the width of a smile shrinks with the root of its time to expiry.
    unit = 0.1 * np.sqrt(days.min() / 365)
    first, last = (float(np.arcsinh(end / unit)) for end in (lowest.min(), highest.max()))
    moneyness = np.unique([0.0, *unit * np.sinh(np.linspace(first, last, 2 * _FINE))])
    grid = options.surface(known.to_native(), days=np.unique(days).tolist(), moneyness=moneyness.tolist())
    return nw.from_native(grid, eager_only=True)


def _refined(days: Floats, places: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Refine a grid, keeping its points; total variance is linear between them."""
    variance = (values / 100) ** 2 * days
    if len(days) > 1:
        fine = np.union1d(days, np.geomspace(days[0], days[-1], _FINE))
        variance, days = _along(variance, days, fine), fine
    if len(places) > 1:
        fine = np.union1d(places, np.linspace(places[0], places[-1], _FINE))
        variance, places = _along(variance.T, places, fine).T, fine
    return days, places, 100 * np.sqrt(variance / days)


def _along(values: Floats, points: Floats, fine: Floats) -> Floats:
    """Interpolate the last axis linearly at finer points; NaN if a neighbour on either side is NaN."""
    before = np.clip(np.searchsorted(points, fine, side="right") - 1, 0, len(points) - 2)
    share = (fine - points[before]) / (points[before + 1] - points[before])
    near, far = values[:, before], values[:, before + 1]
    interpolated = np.where(share <= 0, near, np.where(share >= 1, far, near + (far - near) * share))
    # Drop single known points between unknown ones: they would have no width.
    known = np.pad(np.isfinite(interpolated), ((0, 0), (1, 1)))
    return np.where(known[:, :-2] | known[:, 2:], interpolated, np.nan)


def _in_deviations(days: Floats, places: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return log-moneyness in standard deviations, and the volatilities there."""
    deviations = np.linspace(-_DEVIATIONS, _DEVIATIONS, _FINE + 1)
    volatilities = np.full((len(deviations), len(days)), np.nan)
    for column, day in enumerate(days):
        known = np.isfinite(values[:, column])
        moneyness, variance = places[known], (values[known, column] / 100) ** 2 * day / 365
        if len(moneyness) and moneyness[0] <= 0 <= moneyness[-1]:
            targets = deviations * np.sqrt(np.interp(0.0, moneyness, variance))
            sampled = np.interp(targets, moneyness, variance, left=np.nan, right=np.nan)
            volatilities[:, column] = 100 * np.sqrt(sampled / (day / 365))
    return deviations, volatilities


def _matrix(frame: nw.DataFrame[Any]) -> tuple[Any, Any, Any]:
    """Return days and log-moneyness in order, and volatility by log-moneyness and days; NaN without a quote."""
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
