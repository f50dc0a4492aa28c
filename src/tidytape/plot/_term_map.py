"""Term structures of many times as a map: time to the right, days to expiry upward, the value as colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import matplotlib as mpl
import numpy as np
from matplotlib.dates import date2num
from numpy.typing import NDArray

from tidytape.catalogue import Interval, Tenor
from tidytape.plot import _style as style
from tidytape.plot._model import Bar, Grid, Panel, Scale
from tidytape.plot._smile import COLOURS
from tidytape.plot._tracks import Floats

_MATURITIES = 12  # up to this number of different days to expiry have a row each
_ROWS = 240  # rows of a map with more days to expiry, which are nearly continuous
_GAP = 1.5  # a time that comes later than this number of usual steps leaves a gap


def add_map(
    panel: Panel,
    curves: Mapping[datetime, Mapping[float, float]],
    name: str,
    unit: str,
    *,
    interval: Interval | None,
    by_tenor: bool,
) -> None:
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
    low, high, palette = float(np.nanmin(values)), float(np.nanmax(values)), panel.colours
    scale = Scale.of(mpl.colormaps[COLOURS], low, high)
    if low < 0 < high:  # two colours tell positive and negative values apart
        colours = panel.ground.diverging(palette.up, palette.down, middle_ink=0.2)
        scale = Scale.of(colours, -max(-low, high), max(-low, high))
    panel.over_time()
    panel.x.limits = (float(time_edges[0]), float(time_edges[-1]))
    mesh = panel.add(Grid(time_edges, edges, values, scale, is_even=False, name="mesh", order=1))
    panel.y.is_log, panel.y.limits = True, (float(edges[0]), float(edges[-1]))
    if by_tenor:
        panel.y.name, panel.y.unit = "Tenor", "log scale"
        panel.y.fixed = {float(tenor.days): tenor.alias for tenor in Tenor if tenor.days in days}
    else:
        panel.y.name, panel.y.unit = "Time to expiry", "d, log scale"
        panel.y.fixed = style.day_ticks(float(edges[0]), float(edges[-1]), float(days[0]))
    panel.x.has_grid = panel.y.has_grid = panel.is_unified = False
    panel.bars.append(Bar(mesh, scale, name, unit))


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
