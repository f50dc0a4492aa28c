"""Volatility over strike and time to expiry."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Literal

import matplotlib as mpl
import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import options
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Bar, Contours, Facts, Grid, Panel, Scale
from tidytape.plot._smile import _AXES, _DEVIATIONS, _FIT, COLOURS, _read_quotes, _title
from tidytape.plot._term_map import borders

Floats = NDArray[np.float64]
# Volatilities that contours may have. [%]
_CONTOURS = np.array(
    [*range(5, 70, 5), *range(70, 100, 10), *range(100, 200, 20), *range(200, 300, 50), 300, 400, 500]
)
_MOST_CONTOURS = 9
_LABELLED = 0.25  # share of the time axis that a contour must cover to get a label
_FINE = 200  # columns and rows of the drawn grid: finer than the eye can see
_WIDE = 2.0  # from this ratio of the highest to the lowest volatility, the scale of colours is logarithmic


def surface(
    frame: IntoFrame,
    /,
    *,
    y: Literal["moneyness", "deviation"] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    r"""Draw a surface of volatilities: days to expiry to the right, log-moneyness upward, the volatility as colour.

    Contours join points of equal volatility. The axis of days is logarithmic. The surface is smooth: along
    log-moneyness fits are evaluated densely, and between the days of the frame total variance is linear,

    .. math:: w(k, \tau) = w_1(k) + (w_2(k) - w_1(k)) \frac{\tau - T_1}{T_2 - T_1}, \qquad w = \sigma^2 \tau

    Nothing is extrapolated: a point is left out if one of its neighbours is unknown or lies outside the range of the
    quotes. If volatilities differ by a factor of 2 or more, the scale of colours is logarithmic.

    Parameters
    ----------
    frame : frame, n rows, one per expiry or one per (days, moneyness), any order
        One surface, of one exchange, coin and time: fits as `tidytape.analytics.options.svi` returns them, or a frame
        as `tidytape.analytics.options.surface` returns it, with ``timestamp``, ``days`` [d], ``moneyness`` ln(K/F) [1]
        and ``implied_volatility`` [%]. If fits have a ``status``, the title says how many are poor.
    y : {"moneyness", "deviation"}, optional
        The vertical axis. "moneyness": ln(K/F). "deviation": ln(K/F) in standard deviations, with σ at the forward, so
        that near expiries have as much room as far ones; the picture shows 5 on either side. By default "deviation"
        for fits and "moneyness" for other frames.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time in the title.

    Returns
    -------
    Drawing
        The artists. For a frame with no volatilities the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``mesh`` : QuadMesh or None. Volatility by log-moneyness, ascending, and days; masked where it is unknown.
          None without data.
        - ``contours`` : QuadContourSet or None. Lines of equal volatility; None without two values of log-moneyness
          and two maturities.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``frame`` is not a frame, or holds several surfaces; if ``y`` is not one of those listed; or if ``timezone``
        is unknown.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       lemma 2.1: total variance that rises in time at every k is free of calendar arbitrage. Linear interpolation in
       time keeps it rising.

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
    return draw(
        lambda panel: fill_surface(panel, frame, y=y, timezone=timezone),
        ax,
        (9, 5),
        title=title,
        timezone=timezone,
    )


def fill_surface(
    panel: Panel, frame: IntoFrame, *, y: Literal["moneyness", "deviation"] | None, timezone: str | tzinfo
) -> Facts:
    """Show a surface of volatilities on a panel."""
    zone, zone_name = style.zone(timezone)
    if y not in {None, "moneyness", "deviation"}:
        raise QueryError("y", got=y, expected="moneyness or deviation")
    rows = read_frame(frame, "frame", ["timestamp"])
    note, y_name = "", y or "moneyness"
    if _FIT.issubset(rows.columns) and "implied_volatility" not in rows.columns:
        note, y_name = _quality(rows), y or "deviation"
        rows = _on_grid(rows)
    rows = _read_quotes(rows.to_native(), "frame", ("timestamp", "days", "moneyness", "implied_volatility"))
    title, _ = _title(rows, "frame", zone, zone_name)
    coarse = _matrix(rows)
    fine = _refined(*coarse)
    # If no value has a known neighbour, show the coarse grid.
    days, moneyness, values = fine if np.isfinite(fine[2]).any() else coarse
    if y_name == "deviation":
        moneyness, values = _in_deviations(days, moneyness, values)
    panel.title = style.titled("Volatility surface", title, note)
    panel.x.name, panel.x.unit = "Time to expiry", "d, log scale"
    panel.y.name, panel.y.unit = _AXES[y_name]
    panel.x.has_grid = panel.y.has_grid = False
    facts = {"mesh": None, "contours": None}
    panel.is_empty = not np.isfinite(values).any()
    if panel.is_empty:
        return facts

    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    is_log = low > 0 and high / low >= _WIDE
    scale = Scale.of(mpl.colormaps[COLOURS], low, high, is_log=is_log)
    day_borders, row_borders = np.exp(borders(np.log(days), alone=0.05)), borders(moneyness, alone=0.05)
    mesh = panel.add(Grid(day_borders, row_borders, values, scale, is_even=False, name="mesh", order=1))
    contour_values = _CONTOURS[(low < _CONTOURS) & (high > _CONTOURS)]
    if min(values.shape) > 1 and len(contour_values):
        contour_values = contour_values[:: -(-len(contour_values) // _MOST_CONTOURS)]
        panel.add(
            Contours(
                days, moneyness, values, contour_values, _LABELLED, name="contours", colour="white", width=0.8
            )
        )
    panel.x.is_log, panel.x.limits = True, (float(day_borders[0]), float(day_borders[-1]))
    panel.y.limits = float(row_borders[0]), float(row_borders[-1])
    panel.x.fixed = style.day_ticks(float(days[0]), float(days[-1]), float(days[0]))
    panel.bars.append(Bar(mesh, scale, "Implied volatility", "%"))
    return facts


def _quality(fits: nw.DataFrame[Any]) -> str:
    """Return as text how many expiries there are, and how many of them have a poor fit."""
    expiries = f"{len(fits)} expiries" if len(fits) > 1 else ""
    poor = (fits["status"] != "ok").sum() if "status" in fits.columns else 0
    poor_fits = f"{poor} poor fits" if poor > 1 else "1 poor fit" if poor else ""
    return ", ".join(filter(None, [expiries, poor_fits]))


def _on_grid(fits: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Evaluate fits at their expiries, over the range of their quotes."""
    usable = fits.filter(*(~nw.col(name).is_null() for name in ("days", "a", "lowest", "highest"))).filter(
        nw.col("days") > 0
    )
    if not len(usable):
        return (
            fits.select("timestamp")
            .head(0)
            .with_columns(nw.lit(0.0).alias(name) for name in ("days", "moneyness", "implied_volatility"))
        )
    lowest, highest, days = (usable[name].to_numpy() for name in ("lowest", "highest", "days"))
    # Make the grid dense around the forward: the width of a smile shrinks with the root of its time to expiry.
    unit = 0.1 * np.sqrt(days.min() / 365)
    first, last = (float(np.arcsinh(end / unit)) for end in (lowest.min(), highest.max()))
    moneyness = np.unique([0.0, *unit * np.sinh(np.linspace(first, last, 2 * _FINE))])
    grid = options.surface(usable.to_native(), days=np.unique(days).tolist(), moneyness=moneyness.tolist())
    return nw.from_native(grid, eager_only=True)


def _refined(days: Floats, moneyness: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a finer grid that contains the points of a grid; total variance is linear between them."""
    variance = (values / 100) ** 2 * days
    if len(days) > 1:
        fine = np.union1d(days, np.geomspace(days[0], days[-1], _FINE))
        variance, days = _along(variance, days, fine), fine
    if len(moneyness) > 1:
        fine = np.union1d(moneyness, np.linspace(moneyness[0], moneyness[-1], _FINE))
        variance, moneyness = _along(variance.T, moneyness, fine).T, fine
    return days, moneyness, 100 * np.sqrt(variance / days)


def _along(values: Floats, points: Floats, fine: Floats) -> Floats:
    """Interpolate the last axis linearly at finer points; NaN if a neighbour on either side is NaN."""
    index_before = np.clip(np.searchsorted(points, fine, side="right") - 1, 0, len(points) - 2)
    share = (fine - points[index_before]) / (points[index_before + 1] - points[index_before])
    earlier, later = values[:, index_before], values[:, index_before + 1]
    # At a point itself take its value, even if the other neighbour is NaN.
    interpolated = np.where(
        share <= 0, earlier, np.where(share >= 1, later, earlier + (later - earlier) * share)
    )
    # Drop single known points between unknown ones: they would have no width.
    is_known = np.pad(np.isfinite(interpolated), ((0, 0), (1, 1)))
    return np.where(is_known[:, :-2] | is_known[:, 2:], interpolated, np.nan)


def _in_deviations(days: Floats, moneyness: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return log-moneyness in standard deviations, and the volatilities there."""
    deviations = np.linspace(-_DEVIATIONS, _DEVIATIONS, _FINE + 1)
    volatilities = np.full((len(deviations), len(days)), np.nan)
    for column, day in enumerate(days):
        is_known = np.isfinite(values[:, column])
        k, variance = moneyness[is_known], (values[is_known, column] / 100) ** 2 * day / 365
        if len(k) and k[0] <= 0 <= k[-1]:
            targets = deviations * np.sqrt(np.interp(0.0, k, variance))
            sampled = np.interp(targets, k, variance, left=np.nan, right=np.nan)
            volatilities[:, column] = 100 * np.sqrt(sampled / (day / 365))
    return deviations, volatilities


def _matrix(frame: nw.DataFrame[Any]) -> tuple[Any, Any, Any]:
    """Return days and log-moneyness in order, and volatility by log-moneyness and days; NaN without a quote."""
    day, k, volatility = (
        frame[name].cast(nw.Float64).to_numpy().astype(float)
        for name in ("days", "moneyness", "implied_volatility")
    )
    is_usable = np.isfinite(k) & np.isfinite(day) & (day > 0)
    days, column = np.unique(day[is_usable], return_inverse=True)
    moneyness, row = np.unique(k[is_usable], return_inverse=True)
    if len(set(zip(row, column, strict=True))) < is_usable.sum():
        raise QueryError(
            "frame", got="several rows of one place and maturity", expected="one row per days and moneyness"
        )
    values = np.full((len(moneyness), len(days)), np.nan)
    values[row, column] = volatility[is_usable]
    return days, moneyness, values
