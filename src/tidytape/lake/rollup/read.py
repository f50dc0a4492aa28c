"""Minutes as they are now: kept ones where they are made and still true, raw events for all others."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import RECIPES, SKEW, Ask, Recipe
from tidytape.lake.rollup.state import Span, stale, state_of, union, without

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["minutes"]

_LAST = 2**63 - 1


def minutes(
    lake: Lake,
    table: str,
    *,
    exchange: str,
    raw_symbol: str,
    start: int,
    end: int,
    block_size: Decimal | None = None,
    made_at: Decimal | None = None,
) -> pl.LazyFrame:
    """Return the minutes of one instrument, whether a rollup ran or not.

    What is kept is read; what is newer, or was changed by events that came late, is computed from raw events. So the
    answer never depends on whether, or up to where, a rollup ran.

    Parameters
    ----------
    lake : Lake
        Where.
    table : str
        Name of a table of minutes, e.g. ``"candles_1m"``.
    exchange, raw_symbol : str
        The instrument.
    start, end : int
        Minutes that start at ``start <= timestamp < end``; both on the minute. [ns since the epoch]
    block_size : Decimal, optional
        Height of the price rows wanted, for tables that have them. [quote per coin]
    made_at : Decimal, optional
        Height of the price rows that a rollup keeps: the market's block size. Its rows are read where ``block_size``
        is a whole multiple of it, and are then of this height. [quote per coin]

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
    size = block_size
    if recipe.has_rows and block_size and made_at and not block_size % made_at:
        size = made_at
    instrument = (exchange, raw_symbol)
    kept = lake.delta(table) if lake.has_table(table) else None
    state = None if kept is None else state_of(kept, instrument, size)
    wanted: Span = (start, end)
    if kept is None or state is None or state.until <= start:
        parts, holes = [], [wanted]
    else:
        # Opened after the minutes, so that it is no older than what they were made of.
        raw = lake.delta(recipe.raw.name)
        holes = union([*stale(recipe, raw, instrument, state), (state.until, _LAST)])
        good = without(wanted, holes)
        rows = _delta.scanned(kept, recipe.table, lake.storage_options)
        time = pl.col("timestamp")
        parts = [
            rows.filter(
                pl.col("exchange") == exchange,
                pl.col("raw_symbol") == raw_symbol,
                time >= first,
                time < last,
            )
            for first, last in good
        ]
        holes = without(wanted, good)
    names = recipe.table.names
    parts += [
        recipe.minutes(lake, Ask(exchange, raw_symbol, first, last, size)).select(names)
        for first, last in holes
        if _has_events(lake, recipe, instrument, (first, last))
    ]
    if not parts:
        return recipe.table.empty().lazy()
    return pl.concat(parts) if len(parts) != 1 else parts[0]


def _has_events(lake: Lake, recipe: Recipe, instrument: tuple[str, str], span: Span) -> bool:
    """Whether raw events may make minutes of a span: to plan for none of them costs more than most answers."""
    since = -(2**63) if recipe.lasts else span[0]
    return lake.may_hold(recipe.raw.name, *instrument, start=since, end=span[1] + SKEW * recipe.lasts)
