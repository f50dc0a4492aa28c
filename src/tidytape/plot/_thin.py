"""Selects points of a line, so that it looks the same with fewer points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_POINTS = 20_000  # points of all lines of a figure together
_POINTS_PER_COLUMN = 4


def points_to_send(x: Floats, y: Floats, most: int) -> NDArray[np.int64]:
    """Return the indexes of the points of a line to send: of all, or of the extremes in each column of pixels.

    Parameters
    ----------
    x, y : ndarray, n points, ``x`` ascending
        NaN in ``y`` is a gap, which remains a gap.
    most : int
        Largest number of points to send. If there are more, the range of ``x`` is cut into columns of equal width, and
        each column keeps its first point, its lowest, its highest and its first NaN.
    """
    if x.size <= most:
        return np.arange(x.size)
    columns = max(most // _POINTS_PER_COLUMN, 1)
    span = float(x[-1] - x[0]) or 1.0
    column = np.minimum(((x - x[0]) / span * columns).astype(np.int64), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    indexes = [starts]
    for key in (np.where(np.isnan(y), np.inf, y), np.where(np.isnan(y), np.inf, -y), ~np.isnan(y)):
        # Sort within each column by the key; points of equal keys stay in order of time.
        order = np.lexsort((key, column))
        indexes.append(order[starts])
    return np.unique(np.concatenate(indexes))
