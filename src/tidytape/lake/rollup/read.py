"""Read minutes: stored ones where they are still true, and all others computed from raw events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import RECIPES, SKEW, Ask, Recipe, within
from tidytape.lake.rollup.state import current, state_of
from tidytape.times import Span, without

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["Sources", "minutes", "minutes_of_many", "sources"]


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
    """Return the minutes of one market, whether a rollup ran or not.

    Stored minutes are read; newer ones, and those that late events changed, are computed from raw events. So the answer
    never depends on whether, or up to where, a rollup ran.

    Parameters
    ----------
    lake : Lake
        Where.
    table : str
        Name of a table of minutes, e.g. ``"candles_1m"``.
    exchange, raw_symbol : str
        The market.
    start, end : int
        Minutes that start at ``start <= timestamp < end``; both on the minute. [ns since the epoch]
    block_size : Decimal, optional
        Height of the levels wanted, for tables that have them. [quote per coin]
    made_at : Decimal, optional
        Height of the levels that a rollup stores: the market's block size. They are read where ``block_size`` is a
        whole multiple of it, and the answer then has this height. [quote per coin]

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
        market = [pl.col("exchange") == exchange, pl.col("raw_symbol") == raw_symbol]
        time = pl.col("timestamp")
        parts = [rows.filter(*market, time >= first, time < last) for first, last in read.kept]
    for first, last in read.holes:
        ask = Ask(exchange, raw_symbol, first, last, read.block_size)
        parts.append(recipe.minutes(lake, ask).select(recipe.table.names))
    if len(parts) == 1:
        return parts[0]
    return pl.concat(parts) if parts else recipe.table.empty().lazy()


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
    stored = lake.delta(table) if lake.has_table(table) else None
    if stored is not None:
        stored.read_notes(len(symbols))
    raw = lake.find(recipe.raw)  # opened after the minutes, so no older than the events they were made of
    asks_of_kept, asks_of_raw = [], []
    for symbol in symbols:
        kept, holes = _spans(recipe, stored, raw, market=(exchange, symbol), window=(start, end), size=None)
        asks_of_kept += [Ask(exchange, symbol, *span) for span in kept]
        asks_of_raw += [Ask(exchange, symbol, *span) for span in holes]
    parts = []
    if stored is not None and asks_of_kept:
        parts.append(within(_delta.scanned(stored, recipe.table, lake.storage_options), asks_of_kept))
    if asks_of_raw:
        parts.append(recipe.minutes(lake, *asks_of_raw).select(recipe.table.names))
    return pl.concat(parts) if parts else recipe.table.empty().lazy()


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the minutes of a market come from.

    Attributes
    ----------
    table : Opened or None
        The table of stored minutes.
    kept : list of Span
        Spans whose stored minutes are true.
    raw : str
        Name of the table of raw events.
    holes : list of Span
        Spans whose minutes are computed from raw events.
    block_size : Decimal or None
        Height of the levels, where they have any. [quote per coin]
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
    """Return where the minutes come from that `minutes` returns for the same arguments."""
    recipe = RECIPES[table]
    size = block_size if recipe.has_rows else None
    if recipe.has_rows and block_size and made_at and not block_size % made_at:
        size = made_at
    stored = lake.delta(table) if lake.has_table(table) else None
    raw = lake.find(recipe.raw)  # opened after the minutes, so no older than the events they were made of
    kept, holes = _spans(recipe, stored, raw, market=(exchange, raw_symbol), window=(start, end), size=size)
    return Sources(stored, kept, recipe.raw.name, holes, size)


def _spans(
    recipe: Recipe,
    stored: _delta.Opened | None,
    raw: _delta.Opened | None,
    *,
    market: tuple[str, str],
    window: Span,
    size: Decimal | None,
) -> tuple[list[Span], list[Span]]:
    """Return the spans of a window whose stored minutes are true, and those that are computed from raw events."""
    state = None if stored is None else state_of(stored, market, size)
    kept: list[Span] = []
    if raw is not None and state is not None and state.until > window[0]:
        kept = current(recipe, raw, market, state, window)
    # A span without events is left out, because to plan for it costs more than most answers. A book has minutes after
    # its events, and its snapshot may bear a later time.
    skew = SKEW if recipe.lasts else 0
    holes = [
        (first, last)
        for first, last in without(window, kept)
        if raw is not None
        and _delta.may_hold(raw, market, start=-(2**63) if recipe.lasts else first, end=last + skew)
    ]
    return kept, holes
