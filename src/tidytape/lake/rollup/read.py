"""Minutes as they are now: kept ones where they are made and still true, raw events for all others."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import RECIPES, SKEW, Ask, Recipe
from tidytape.lake.rollup.state import current, state_of
from tidytape.times import Span, without

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["Sources", "minutes", "sources"]


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
    read = sources(
        lake,
        table,
        exchange=exchange,
        raw_symbol=raw_symbol,
        start=start,
        end=end,
        block_size=block_size,
        made_at=made_at,
    )
    parts = []
    if read.table is not None and read.kept:
        rows = lake.scan_version(read.table, recipe.table)
        time = pl.col("timestamp")
        parts = [
            rows.filter(
                pl.col("exchange") == exchange,
                pl.col("raw_symbol") == raw_symbol,
                time >= first,
                time < last,
            )
            for first, last in read.kept
        ]
    names = recipe.table.names
    parts += [
        recipe.minutes(lake, Ask(exchange, raw_symbol, first, last, read.block_size)).select(names)
        for first, last in read.holes
    ]
    if not parts:
        return recipe.table.empty().lazy()
    return pl.concat(parts) if len(parts) != 1 else parts[0]


@dataclass(frozen=True, slots=True)
class Sources:
    """From where the minutes of a market are read.

    Attributes
    ----------
    table : Opened or None
        The table of kept minutes.
    kept : list of Span
        Spans whose kept minutes are true.
    raw : str
        Name of the table of raw events.
    holes : list of Span
        Spans whose minutes are computed from raw events.
    block_size : Decimal or None
        Height of the price rows, where they have any. [quote per coin]
    """

    table: _delta.Opened | None
    kept: list[Span]
    raw: str
    holes: list[Span]
    block_size: Decimal | None


def sources(
    lake: Lake,
    table: str,
    *,
    exchange: str,
    raw_symbol: str,
    start: int,
    end: int,
    block_size: Decimal | None = None,
    made_at: Decimal | None = None,
) -> Sources:
    """Return from where `minutes` reads what it returns for the same arguments."""
    recipe = RECIPES[table]
    size = block_size if recipe.has_rows else None
    if recipe.has_rows and block_size and made_at and not block_size % made_at:
        size = made_at
    instrument = (exchange, raw_symbol)
    kept = lake.delta(table) if lake.has_table(table) else None
    state = None if kept is None else state_of(kept, instrument, size)
    wanted: Span = (start, end)
    good: list[Span] = []
    if kept is not None and state is not None and state.until > start:
        good = current(recipe, lake.delta(recipe.raw.name), instrument, state, wanted)
    holes = [one for one in without(wanted, good) if _has_events(lake, recipe, instrument, one)]
    return Sources(kept, good, recipe.raw.name, holes, size)


def _has_events(lake: Lake, recipe: Recipe, instrument: tuple[str, str], span: Span) -> bool:
    """Whether raw events may make minutes of a span: to plan for none of them costs more than most answers."""
    since = -(2**63) if recipe.lasts else span[0]
    return lake.may_hold(recipe.raw.name, *instrument, start=since, end=span[1] + SKEW * recipe.lasts)
