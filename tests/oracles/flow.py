"""Order flow by plain loops, on rows of numbers: the slow twins of `tidytape.analytics.flow`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

__all__ = ["cascades", "cumulated", "deltas", "large_share", "quadrant"]


def deltas(rows: Iterable[tuple[int, str, float]], step: int = 1) -> dict[int, Fraction]:
    """Return bought less sold by the start of each bucket, of rows (time, side, amount), exactly."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    for time, side, amount in rows:
        found[time // step * step] += Fraction(repr(amount)) * {"BUY": 1, "SELL": -1}[side]
    return dict(sorted(found.items()))


def cumulated(deltas: dict[int, Fraction], session: int | None = None) -> list[Fraction]:
    """Return the running sum in the order of time, anew in each session."""
    found, current, total = [], None, Fraction(0)
    for time, delta in sorted(deltas.items()):
        if session is not None and time // session != current:
            current, total = time // session, Fraction(0)
        total += delta
        found.append(total)
    return found


def cascades(rows: Iterable[tuple[int, float]], threshold: float, gap: int) -> list[tuple]:
    """Return (start, end, sum, rows, largest, its time) of the runs of rows (time, amount) that reach the threshold."""
    runs: list[list[tuple[int, float]]] = []
    for time, amount in sorted(rows):
        if runs and time - runs[-1][-1][0] <= gap:
            runs[-1].append((time, amount))
        else:
            runs.append([(time, amount)])
    found = []
    for run in runs:
        total = float(sum(Fraction(repr(amount)) for _, amount in run))
        if total >= threshold:
            largest = max(amount for _, amount in run)
            when = min(time for time, amount in run if amount == largest)
            found.append((run[0][0], run[-1][0], total, len(run), largest, when))
    return found


def large_share(
    amounts: list[float], *, at_least: float | None, above_quantile: Fraction | None
) -> float | None:
    """Return the share of the sum in the amounts that are large."""
    if above_quantile is None:
        large = [amount for amount in amounts if amount >= at_least]
    else:
        limit = sorted(amounts)[math.ceil(above_quantile * len(amounts)) - 1]
        large = [amount for amount in amounts if amount > limit]
    total = sum(Fraction(repr(amount)) for amount in amounts)
    return float(sum(Fraction(repr(amount)) for amount in large) / total) if total else None


def quadrant(price: float, interest: float, price_band: float, oi_band: float) -> str:
    """Return the word for two relative changes."""
    if abs(price) <= price_band or abs(interest) <= oi_band:
        return "flat"
    if price > 0:
        return "new_longs" if interest > 0 else "short_covering"
    return "new_shorts" if interest > 0 else "long_unwinding"
