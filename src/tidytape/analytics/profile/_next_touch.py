r"""The first later session that touches a price, for sessions that are in memory.

The same as `_naked_pocs` says as a join, which has a row for each pair of sessions; a test holds the two to each other.
Here sessions are halved again and again: at each step prices of the first half of a part meet the ranges of its second
half, and what they meet is the earliest of the ranges that cover a price, in the order of the prices. So no pair is
ever made, and n sessions take about :math:`n \log^2 n` steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def first_touches(series: NDArray[Any], price: Floats, low: Floats, high: Floats) -> Ints:
    """Return the place of the first later session of the same series whose range has a session's price.

    Parameters
    ----------
    series : array, n whole numbers, ascending
        The series of each session; within one they are in the order of time.
    price : array, n
        NaN where a session has none.
    low, high : array, n
        The range of each session, both ends within; NaN where it is not known.

    Returns
    -------
    array, n
        n itself where there is none.

    Examples
    --------
    >>> nan = np.nan
    >>> price, low, high = np.array([[1.0, 5.0, nan, 2.0], [0.0, 4.0, 0.0, 2.0], [1.0, 6.0, 9.0, 3.0]])
    >>> first_touches(np.zeros(4), price, low, high)
    array([2, 2, 4, 4])
    """
    count = len(price)
    place, found = np.arange(count), np.full(count, count)
    levels = np.unique(price[~np.isnan(price)])
    rank, first = np.searchsorted(levels, price), np.searchsorted(levels, low)
    last = np.searchsorted(levels, high, side="right")
    has_price, has_range = ~np.isnan(price), ~np.isnan(low)
    step = 1
    while step < count:
        is_second = (place // step) % 2 == 1
        # Sessions of one part and one series, whose prices are then apart from those of all others.
        is_new = (np.diff(place // (2 * step), prepend=-1) != 0) | (np.diff(series, prepend=-1) != 0)
        base = np.cumsum(is_new) * (len(levels) + 1)
        asked, ranges = np.flatnonzero(has_price & ~is_second), np.flatnonzero(has_range & is_second)
        keys = base[asked] + rank[asked]
        order = np.argsort(keys)
        keys, asked = keys[order], asked[order]
        start, end = (np.searchsorted(keys, base[ranges] + edge[ranges]) for edge in (first, last))
        meets = start < end
        earliest = _least_cover(start[meets], end[meets], ranges[meets], size=len(asked), none=count)
        found[asked] = np.minimum(found[asked], earliest)
        step *= 2
    return found


def _least_cover(start: Ints, end: Ints, value: Ints, *, size: int, none: int) -> Ints:
    """Return the least value of the ranges [start, end) that cover each of the places below ``size``."""
    least = np.full(size, none)
    if not len(start):
        return least
    # A range is two, of a power of two in length, that may overlap; from the longest on each becomes two of half of it.
    power = np.frexp(end - start)[1] - 1
    for exponent in range(int(power.max()), -1, -1):
        mine = power == exponent
        np.minimum.at(least, start[mine], value[mine])
        np.minimum.at(least, end[mine] - 2**exponent, value[mine])
        if exponent:
            half = 2 ** (exponent - 1)
            least[half:] = np.minimum(least[half:], least[:-half].copy())
    return least
