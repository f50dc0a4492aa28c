"""Depth in plain loops, over (timestamp, side, price, size) rows of one series."""

from __future__ import annotations

from fractions import Fraction
from math import floor, gcd, lcm, nan


def exact(number):
    """Return the decimal that a number's shortest spelling says."""
    return Fraction(str(number))


def matrix(rows, *, block_size=None, step=None):
    """Return (bids, asks, times, prices), each side a list of lines; cells NaN outside what was sent of a time."""
    if block_size is None:
        prices = sorted({exact(price) for _, _, price, _ in rows})
        below = lcm(*(price.denominator for price in prices))
        steps = [int((price - prices[0]) * below) for price in prices]
        block, origin = Fraction(gcd(*steps) or 1, below), prices[0]
    else:
        block, origin = exact(block_size), Fraction(0)
    placed = [(time, side, floor((exact(price) - origin) / block), size) for time, side, price, size in rows]
    low, high = min(row for _, _, row, _ in placed), max(row for _, _, row, _ in placed)
    seen = sorted({time for time, *_ in rows})
    times = seen if step is None else list(range(seen[0], seen[-1] + 1, step))
    sides = {"BID": [], "ASK": []}
    for time in times:
        sent = [row for at, _, row, _ in placed if at == time]
        for side, lines in sides.items():
            line = []
            for row in range(low, high + 1):
                inside = bool(sent) and min(sent) <= row <= max(sent)
                here = [size for at, of, at_row, size in placed if (at, of, at_row) == (time, side, row)]
                line.append(sum(here) if inside else nan)
            lines.append(line)
    return sides["BID"], sides["ASK"], times, [float(origin + block * row) for row in range(low, high + 1)]
