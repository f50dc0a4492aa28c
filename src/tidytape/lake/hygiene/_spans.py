"""Cutting the time of an instrument so that memory holds what is in each piece."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

_AT_ONCE = 4_000_000
"""Rows that are in memory at once."""


def spans(counts: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """Yield spans of whole minutes, ends included, of so many rows as memory holds unless one minute has more.

    Parameters
    ----------
    counts : polars.DataFrame, one row per minute, sorted
        ``minute``, ``rows``.
    """
    first = last = None
    held = 0
    for minute, rows in counts.iter_rows():
        if first is not None and last is not None and held + rows > _AT_ONCE:
            yield first, last
            first, held = None, 0
        first = minute if first is None else first
        last, held = minute, held + rows
    if first is not None and last is not None:
        yield first, last
