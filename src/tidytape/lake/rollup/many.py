"""Minutes of many markets in one plan: what is kept in one scan, what is not in another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import RECIPES, Ask, within
from tidytape.lake.rollup.state import current, state_of
from tidytape.times import Span, without

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["minutes_of_many"]


def minutes_of_many(
    lake: Lake, table: str, *, exchange: str, raw_symbols: Iterable[str], start: int, end: int
) -> pl.LazyFrame:
    """Return the minutes of many markets of one exchange, as `tidytape.lake.rollup.minutes` does of one.

    Parameters
    ----------
    lake : Lake
        Where.
    table : str
        Name of a table of minutes without price rows and without a book, e.g. ``"candles_1m"``.
    exchange : str
        Their exchange.
    raw_symbols : iterable of str
        Their symbols.
    start, end : int
        Minutes that start at ``start <= timestamp < end``; both on the minute. [ns since the epoch]

    Returns
    -------
    polars.LazyFrame, one row per key of the table, in no order
        The table's columns.

    Raises
    ------
    LakeError
        If the lake cannot be read.
    """
    recipe = RECIPES[table]
    symbols = list(raw_symbols)
    kept = lake.delta(table) if lake.has_table(table) else None
    if kept is not None:
        kept.read_notes(len(symbols))
    raw = lake.delta(recipe.raw.name)  # opened after the minutes, so no older than what they were made of
    window: Span = (start, end)
    of_kept, of_raw = [], []
    for symbol in symbols:
        instrument = (exchange, symbol)
        state = None if kept is None else state_of(kept, instrument, None)
        good = [] if state is None else current(recipe, raw, instrument, state, window)
        of_kept += [Ask(*instrument, first, last) for first, last in good]
        of_raw += [
            Ask(*instrument, first, last)
            for first, last in without(window, good)
            if _delta.may_hold(raw, instrument, start=first, end=last)
        ]
    parts = []
    if kept is not None and of_kept:
        parts.append(within(_delta.scanned(kept, recipe.table, lake.storage_options), of_kept))
    if of_raw:
        parts.append(recipe.minutes(lake, *of_raw).select(recipe.table.names))
    return pl.concat(parts) if parts else recipe.table.empty().lazy()
