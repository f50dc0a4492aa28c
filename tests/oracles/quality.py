"""Findings in the closes of one series, by plain loops: the slow twins of `tidytape.analytics.quality`."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, median

__all__ = ["crossed", "far_prices", "far_rates", "frozen", "gaps", "outliers", "unit_jumps"]


def gaps(times: list[int], step: int) -> list[tuple[int, int, int]]:
    """Return (start, end, missing) of the runs of buckets without a time."""
    buckets = sorted({time // step for time in times})
    return [
        ((left + 1) * step, right * step, right - left - 1)
        for left, right in pairwise(buckets)
        if right - left > 1
    ]


def frozen(values: list[float | None], limit: int) -> set[int]:
    """Return the rows of runs of ``limit`` or more that are equal to the row before."""
    found: set[int] = set()
    run: list[int] = []
    for row, value in enumerate(values):
        if row and value is not None and value == values[row - 1]:
            run.append(row)
        else:
            run = []
        if len(run) >= limit:
            found.update(run)
    return found


def unit_jumps(values: list[float], factor: float) -> set[int]:
    """Return the rows from which on five values are all ``factor`` times the five before, or a part of them."""
    found = set()
    for row in range(5, len(values) - 4):
        before, after = values[row - 5 : row], values[row : row + 5]
        up = min(before) > 0 and min(after) >= max(before) * factor
        down = min(after) > 0 and max(after) * factor <= min(before)
        if up or down:
            found.add(row)
    return found


def outliers(values: list[float], limit: float) -> set[int]:
    """Return the rows whose move is too far, but for the way back from the row before."""
    logs = [math.log(value) if value > 0 else None for value in values]
    moves = [
        None if left is None or right is None else right - left
        for left, right in zip([None, *logs], logs, strict=False)
    ]
    known = [move for move in moves if move is not None]
    found = {row for row, value in enumerate(values) if value <= 0 < median(values)}
    if len(known) < 20:
        return found
    usual = median(known)
    off = [abs(move - usual) for move in known]
    deviation = 1.4826 * median(off) if median(off) > 0 else 1.2533 * fmean(off)
    for row, move in enumerate(moves):
        if move is None or abs(move - usual) <= limit * deviation:
            continue
        before = moves[row - 1]
        is_back = (
            before is not None
            and abs(before - usual) > limit * deviation
            and abs(logs[row] - logs[row - 2] - usual - usual) <= limit * deviation
        )
        if not is_back:
            found.add(row)
    return found


def far(offs: list[float], limit: float) -> set[int]:
    """Return the places of the distances that are too far."""
    if len(offs) < 20:
        return set()
    deviation = 1.4826 * median(offs) if median(offs) > 0 else 1.2533 * fmean(offs)
    return {place for place, off in enumerate(offs) if off > limit * deviation}


def far_rates(values: list[float], limit: float) -> set[int]:
    """Return the rows whose rate is too far from the median."""
    return far([abs(value - median(values)) for value in values], limit)


def far_prices(trades: list[tuple[int, float]], limit: float) -> set[int]:
    """Return the rows of (time [s], price) whose price is too far from the median of the hour."""
    hours: dict[int, list[float]] = {}
    for time, price in trades:
        hours.setdefault(time // 3600, []).append(math.log(price))
    return far([abs(math.log(price) - median(hours[time // 3600])) for time, price in trades], limit)


def crossed(rows: list[tuple[int, str, float, float]]) -> set[int]:
    """Return the rows of (time, side, price, size) that are beyond the best price of the other side."""
    found = set()
    for row, (time, side, price, size) in enumerate(rows):
        others = [p for t, s, p, q in rows if t == time and s != side and q > 0]
        if size > 0 and any(price > other if side == "BID" else price < other for other in others):
            found.add(row)
    return found
