"""Fewer points for a line that looks the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_POINTS = 20_000  # points of all lines of a figure
_POINTS_OF_A_COLUMN = 4


def points_to_send(x: Floats, y: Floats, most: int) -> NDArray[np.int64]:
    """Return the positions of the points of a line to send: all, or the extremes of each column of pixels.

    Parameters
    ----------
    x, y : ndarray, n points, ``x`` ascending
        NaN in ``y`` is a gap, and stays one.
    most : int
        How many points may be sent. If there are more, the range of ``x`` is cut into columns of one width, and each
        keeps its first point, its lowest, its highest and the first of its gaps.
    """
    if x.size <= most:
        return np.arange(x.size)
    number = max(most // _POINTS_OF_A_COLUMN, 1)
    span = float(x[-1] - x[0]) or 1.0
    column = np.minimum(((x - x[0]) / span * number).astype(np.int64), number - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    chosen = [starts]
    for key in (np.where(np.isnan(y), np.inf, y), np.where(np.isnan(y), np.inf, -y), ~np.isnan(y)):
        # Sort within each column by the key; points of equal keys stay in order of time.
        order = np.lexsort((key, column))
        chosen.append(order[starts])
    return np.unique(np.concatenate(chosen))
