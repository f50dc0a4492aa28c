"""Volume profiles of candles by plain loops and exact fractions: the slow twin of `aggregate.candle_profile`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from math import floor

__all__ = ["profile"]


def profile(
    candles: Iterable[tuple[int, float, float, float, float]], step: int, size: str, *, spreading: str
) -> dict[tuple[int, float], Fraction]:
    """Return the volume by (start of the bucket, low edge of the row), of (time, low, high, close, volume)."""
    found: dict[tuple[int, float], Fraction] = defaultdict(Fraction)
    height = Fraction(size)
    for time, *prices, amount in candles:
        low, high, close, volume = (Fraction(repr(number)) for number in (*prices, amount))
        if spreading == "close":
            shares = {floor(close / height): Fraction(1)}
        elif low == high:
            shares = {floor(low / height): Fraction(1)}
        else:
            shares = {}
            for row in range(floor(low / height), floor(high / height) + 1):
                within = min(high, (row + 1) * height) - max(low, row * height)
                shares[row] = within / (high - low)
        for row, share in shares.items():
            if volume * share:
                found[time // step * step, float(row * height)] += volume * share
    return dict(sorted(found.items()))
