"""Term structures of many times as a map: time to the right, days to expiry upward, the value as colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import CenteredNorm
from matplotlib.dates import date2num
from numpy.typing import NDArray

from tidytape.catalogue import Interval, Tenor
from tidytape.plot import _style as style
from tidytape.plot._smile import COLOURS

Floats = NDArray[np.float64]

_MATURITIES = 12  # up to this number of different days to expiry have a row each
_ROWS = 240  # rows of a map with more days to expiry, which are nearly continuous
_GAP = 1.5  # a time that comes later than this number of usual steps leaves a gap


def draw_map(
    ax: Axes,
    curves: Mapping[datetime, Mapping[float, float]],
    name: str,
    unit: str,
    *,
    interval: Interval | None,
    by_tenor: bool,
    timezone: str | tzinfo,
) -> QuadMesh:
    """Draw a map without a title.

    Parameters
    ----------
    ax : Axes
    curves : mapping of datetime to mapping of float to float
        By time and days to expiry, the value; at least one value is known.
    name, unit : str
        Name and unit of the values.
    interval : Interval or None
        How long a value is drawn; if None, until the next time.
    by_tenor : bool
        Whether the days to expiry are those of tenors.
    timezone : str or tzinfo
        Zone of the time axis.
    """
    times = sorted(curves)
    days = np.unique([day for curve in curves.values() for day in curve])
    if by_tenor or len(days) <= _MATURITIES:
        edges = np.exp(borders(np.log(days), alone=0.25))
        values = np.array([[curves[time].get(day, np.nan) for time in times] for day in days])
    else:
        edges = np.geomspace(days[0], days[-1], _ROWS + 1)
        centres = np.sqrt(edges[1:] * edges[:-1])
        values = np.column_stack([_nearest(curves[time], centres) for time in times])
    time_edges, after_gap = _time_edges(times, interval)
    values = np.insert(values[:, : len(times)], after_gap, np.nan, axis=1)
    masked = np.ma.masked_invalid(values)
    has_both_signs = masked.min() < 0 < masked.max()
    palette = style.inside(ax)
    mesh = ax.pcolormesh(
        time_edges,
        edges,
        masked,
        # If there are positive and negative values, two colours tell them apart.
        cmap=style.diverging(ax, palette.up, palette.down, middle_ink=0.2) if has_both_signs else COLOURS,
        norm=CenteredNorm() if has_both_signs else None,
        rasterized=True,  # as vectors, thousands of cells would have visible seams
        zorder=1,
    )
    style.frame_axes(ax, timezone)
    ax.grid(visible=False)
    ax.set_yscale("log")
    ax.set_ylim(edges[0], edges[-1])
    if by_tenor:
        tenors = [tenor for tenor in Tenor if tenor.days in days]
        style.fixed_ticks(ax.yaxis, [tenor.days for tenor in tenors], [tenor.alias for tenor in tenors])
    else:
        style.day_ticks(ax.yaxis, edges[0], edges[-1], float(days[0]))
    style.y_label(ax, "Tenor" if by_tenor else "Time to expiry", "log scale" if by_tenor else "d, log scale")
    style.colour_bar(ax, mesh, name, unit)
    return mesh


def borders(centres: Floats, *, alone: float) -> Floats:
    """Return the borders between centres, and one beyond either end; a single centre has borders ``alone`` away."""
    middles = (centres[1:] + centres[:-1]) / 2 if len(centres) > 1 else centres + alone
    ends = 2 * centres[[0, -1]] - middles[[0, -1]]
    return np.asarray(np.unique([ends[0], *middles, ends[1]]), dtype=np.float64)


def _nearest(curve: Mapping[float, float], days: Floats) -> Floats:
    """Return for each number of days the value of the nearest expiry; NaN before the first and after the last."""
    expiries = np.array(sorted(curve))
    values = np.array([curve[day] for day in expiries])
    # Nearest in the logarithm: the border between two expiries is their geometric mean.
    nearest = values[np.searchsorted(np.sqrt(expiries[1:] * expiries[:-1]), days)]
    return np.where((days >= expiries[0]) & (days <= expiries[-1]), nearest, np.nan)


def _time_edges(times: Sequence[datetime], interval: Interval | None) -> tuple[Floats, NDArray[np.int64]]:
    """Return the edges of the columns [d], and the indexes of the times after gaps; each gap is a column, too."""
    start = np.asarray(date2num(times), dtype=np.float64)  # type: ignore[no-untyped-call]
    steps = np.diff(start)
    usual = interval.seconds / 86_400 if interval else float(np.median(steps)) if steps.size else 1 / 24
    after_gap = np.flatnonzero(steps > (1.001 if interval else _GAP) * usual) + 1
    edges = np.append(np.insert(start, after_gap, start[after_gap - 1] + usual), start[-1] + usual)
    return edges, after_gap
