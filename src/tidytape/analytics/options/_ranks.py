"""Percentiles on arrays, for frames that are in memory.

The same as `_relative` says as expressions, which compare a row with each one of its window. Here the window costs
nothing: values are taken as whole ranks, and told apart bit by bit from the highest, those without the bit before those
with it. Where a stretch of rows begins and ends among either, the counts so far say, of all rows at once.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.frames.ordered import starts_run

Ints = NDArray[np.int64]


def with_percentile(
    rows: nw.DataFrame[Any], keys: list[str], *, window: int, least: int
) -> nw.DataFrame[Any]:
    """Add ``percentile`` to rows of series, with ``__time`` and ``__value``, as `percentile` defines it."""
    ordered = rows.with_row_index("__row").select(*keys, "__time", "__value", "__row").sort(*keys, "__time")
    value = ordered["__value"].to_numpy().astype(np.float64)
    here = np.arange(len(value))
    first = np.maximum.accumulate(np.where(starts_run(ordered, keys), here, 0))
    known = ~np.isnan(value)
    so_far = np.append(0, np.cumsum(known))
    start, end = so_far[np.maximum(first, here - window)], so_far[here]
    told = known & (end - start >= least)
    start, end = start[told], end[told]

    _, ranks = np.unique(value[known], return_inverse=True)
    own = ranks[told[known]]
    lower, upper = below(ranks, start, end, own), below(ranks, start, end, own + 1)
    share = np.full(len(value), np.nan)
    place = ordered["__row"].to_numpy().astype(np.int64)[told]
    share[place] = (lower + 0.5 * (upper - lower)) / (end - start) * 100.0
    column = nw.new_series("percentile", share, nw.Float64, backend="polars")
    return rows.with_columns(column.fill_nan(None))


def below(ranks: Ints, start: Ints, end: Ints, limit: Ints) -> Ints:
    """Return how many of ``ranks[start:end]`` are less than ``limit``, for each start, end and limit.

    Examples
    --------
    >>> below(np.array([3, 0, 2, 0]), np.array([0, 1]), np.array([4, 3]), np.array([3, 1])).tolist()
    [3, 1]
    """
    found = np.zeros(len(limit), np.int64)
    highest = max(ranks.max(initial=0), limit.max(initial=0))
    for bit in reversed(range(int(highest).bit_length())):
        is_low = ranks >> bit & 1 == 0
        lows = np.append(0, np.cumsum(is_low))
        low_start, low_end = lows[start], lows[end]
        # Of ranks that are alike so far, those without a bit that the limit has are less.
        has_bit = limit >> bit & 1 == 1
        found += np.where(has_bit, low_end - low_start, 0)
        start = np.where(has_bit, lows[-1] + start - low_start, low_start)
        end = np.where(has_bit, lows[-1] + end - low_end, low_end)
        ranks = np.concatenate([ranks[is_low], ranks[~is_low]])
    return found
