"""Read the minutes of a market: stored ones if no later event changed them; others are computed from raw events.

Three notes per market are in the Delta log of the table of minutes, in the commit that wrote the rows: the version of
the raw table that the minutes were computed from, the first minute that is not stored yet, and the block size. So rows
and notes agree, even if a process dies.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

import polars as pl
from deltalake import DeltaTable, Transaction

from tidytape.lake import _delta
from tidytape.lake.rollup import _hot as hot
from tidytape.lake.rollup._recipes import RECIPES, SKEW, Ask, Recipe, within
from tidytape.times import MINUTE, Span, union, without

if TYPE_CHECKING:
    from tidytape.lake._reader import LakeReader


_LAST = 2**63 - 1

WHOLE = "whole"
"""Name of the note with the `edition` of the raw table for which a rollup finished every market."""

_VERSIONS = 2**40
"""More versions than a table ever has; the rest of a note's 64 bits has room for the mark of the table."""


@dataclass(frozen=True, slots=True)
class State:
    """Up to which time the minutes of one market are stored, and the version of the events that they come from.

    Attributes
    ----------
    version : int
        `edition` of the raw table that the minutes were computed from.
    until : int
        Minutes that start before this time are stored. [ns since the epoch]
    """

    version: int
    until: int

    def notes(self, market: tuple[str, str], block_size: Decimal | None) -> list[Transaction]:
        """Return the state as notes."""
        numbers = {"version": self.version, "until": self.until, "rows": _bits(block_size)}
        return [Transaction(_name(what, market), number) for what, number in numbers.items()]


def state_of(delta: DeltaTable, market: tuple[str, str], block_size: Decimal | None) -> State | None:
    """Return the state of a market; None if the table has no minutes of this block size.

    The block size is None for a table without levels.
    """
    version, until = (delta.transaction_version(_name(what, market)) for what in ("version", "until"))
    if version is None or until is None:
        return None
    if block_size is not None and delta.transaction_version(_name("rows", market)) != _bits(block_size):
        return None
    # A rollup that finished every market also confirms the minutes that it did not rewrite, so they are valid up to its
    # edition. That must be an edition of the same raw table: the quotients are the marks of the tables, see `edition`.
    finished_edition = delta.transaction_version(WHOLE) or 0
    return State(
        max(version, finished_edition) if finished_edition // _VERSIONS == version // _VERSIONS else version,
        until,
    )


def noted(delta: DeltaTable, market: tuple[str, str]) -> tuple[State, Decimal | None] | None:
    """Return the state of a market and its block size; None if no rollup noted them."""
    bits = delta.transaction_version(_name("rows", market))
    block_size = None if not bits else Decimal(repr(struct.unpack(">d", struct.pack(">q", bits))[0]))
    state = state_of(delta, market, block_size)
    return None if state is None else (state, block_size)


def edition(raw: _delta.Opened) -> int:
    """Return a table's version with a mark of the table, because a table that is made anew counts from 0 again."""
    mark = raw.cached("mark", lambda: zlib.crc32(str(raw.metadata().id).encode()) % 2**23)
    return mark * _VERSIONS + raw.version()


def is_lost(raw: _delta.Opened, state: State) -> bool:
    """Return whether a raw table lost commits: it is older than the minutes that were computed from it."""
    newest_edition = edition(raw)
    return newest_edition < state.version and newest_edition // _VERSIONS == state.version // _VERSIONS


def changed_since(raw: _delta.Opened, since: int) -> set[tuple[str, ...]] | None:
    """Return the markets that commits after an edition of a raw table wrote to; None if the log does not say it."""
    spans = _spans_since(raw, since)
    return None if spans is None else set(spans)


def stale(recipe: Recipe, raw: _delta.Opened, market: tuple[str, str], state: State) -> list[Span]:
    """Return the spans before ``state.until`` that depend on events newer than the state, sorted and disjoint."""
    spans = _spans_since(raw, state.version)
    if spans is None:  # the log does not say what was added since
        return [(-(2**63), state.until)]
    # A snapshot of a book may have a later timestamp than the updates that follow it.
    skew = SKEW if recipe.lasts else 0
    changed_spans = [
        (
            (first - skew) // MINUTE * MINUTE,
            state.until if recipe.lasts else last // MINUTE * MINUTE + MINUTE,
        )
        for first, last in spans.get(market, ())
    ]
    return union((first, min(last, state.until)) for first, last in changed_spans if first < state.until)


def current(
    recipe: Recipe, raw: _delta.Opened, market: tuple[str, str], state: State, window: Span
) -> list[Span]:
    """Return the spans of a window whose stored minutes are still valid.

    ``raw`` must be opened after the minutes, so that it is no older than the events that they were computed from.
    """
    return without(window, [*stale(recipe, raw, market, state), (state.until, _LAST)])


def _spans_since(raw: _delta.Opened, since: int) -> dict[tuple[str, ...], list[Span]] | None:
    """Return the spans of rows that commits after an edition added, by market; None if the log does not say it."""
    commits = edition(raw) - since
    is_same_table = 0 <= commits <= raw.version()
    return _delta.spans_since(raw, raw.version() - commits) if is_same_table else None


def _name(what: str, market: tuple[str, str]) -> str:
    # Quoted, because a name may have a slash: market B of exchange A/C is not market C/B of A.
    return f"{what}:{'/'.join(quote(name, safe='') for name in market)}"


def _bits(block_size: Decimal | None) -> int:
    """Return the bits of a block size's float as an integer, because a note is an integer; 0 for None."""
    return 0 if block_size is None else struct.unpack(">q", struct.pack(">d", float(block_size)))[0]


def minutes(
    lake: LakeReader,
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

    Stored minutes are read. Newer minutes, and minutes that late events changed, are computed from raw events. So the
    answer never depends on a rollup.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.
    table : str
        Name of a table of minutes, e.g. ``"candles_1m"``.
    exchange, raw_symbol : str
        The market.
    start, end : int
        Minutes that start at ``start <= timestamp < end``; both on the minute. [ns since the epoch]
    block_size : Decimal, optional
        Height of the levels to return, for tables that have levels. [quote per coin]
    made_at : Decimal, optional
        Height of the levels in the stored minutes: the market's block size. If ``block_size`` is a multiple of it,
        stored minutes are read, and the levels of the answer have this height. [quote per coin]

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
    origin = sources(
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
    if origin.table is not None and origin.kept:
        rows = lake._scan_version(origin.table, recipe.table)
        asks = [Ask(exchange, raw_symbol, *span) for span in origin.kept]
        parts = [hot.stored_minutes(origin.table, rows, ask) for ask in asks]
    for first, last in origin.holes:
        ask = Ask(exchange, raw_symbol, first, last, origin.block_size)
        parts.append(recipe.minutes(lake, ask).select(recipe.table.names))
    if len(parts) == 1:
        return parts[0]
    return pl.concat(parts) if parts else recipe.table.empty().lazy()


def minutes_of_many(
    lake: LakeReader, table: str, *, exchange: str, raw_symbols: Iterable[str], start: int, end: int
) -> pl.LazyFrame:
    """Return the minutes of many markets of one exchange, as `tidytape.lake.rollup.minutes` does for one market.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.
    table : str
        Name of a table of minutes without levels, e.g. ``"candles_1m"``.
    exchange : str
        The exchange of the markets.
    raw_symbols : iterable of str
        The symbols of the markets.
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
    table_of_minutes = lake.delta(table) if lake.has_table(table) else None
    if table_of_minutes is not None:
        table_of_minutes.read_notes(len(symbols))
    raw = lake._find(
        recipe.raw
    )  # opened after the minutes, so no older than the events they were computed from
    asks_of_stored, asks_of_raw = [], []
    for symbol in symbols:
        stored_spans, holes = _spans(
            recipe, table_of_minutes, raw, market=(exchange, symbol), window=(start, end), size=None
        )
        asks_of_stored += [Ask(exchange, symbol, *span) for span in stored_spans]
        asks_of_raw += [Ask(exchange, symbol, *span) for span in holes]
    parts = []
    if table_of_minutes is not None and asks_of_stored:
        parts.append(
            within(_delta.scanned(table_of_minutes, recipe.table, lake.storage_options), asks_of_stored)
        )
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
        Spans whose stored minutes are still valid.
    raw : str
        Name of the table of raw events.
    holes : list of Span
        Spans whose minutes are computed from raw events.
    block_size : Decimal or None
        Height of the levels; None if the minutes have no levels. [quote per coin]
    """

    table: _delta.Opened | None
    kept: list[Span]
    raw: str
    holes: list[Span]
    block_size: Decimal | None


def sources(
    lake: LakeReader,
    table: str,
    *,
    exchange: str,
    raw_symbol: str,
    start: int,
    end: int,
    block_size: Decimal | None = None,
    made_at: Decimal | None = None,
) -> Sources:
    """Return where `minutes` gets the minutes from, for the same arguments."""
    recipe = RECIPES[table]
    level_height = block_size if recipe.has_levels else None
    if recipe.has_levels and block_size and made_at and not block_size % made_at:
        level_height = made_at  # levels of this height can be added up to those of ``block_size``
    table_of_minutes = lake.delta(table) if lake.has_table(table) else None
    raw = lake._find(
        recipe.raw
    )  # opened after the minutes, so no older than the events they were computed from
    stored_spans, holes = _spans(
        recipe, table_of_minutes, raw, market=(exchange, raw_symbol), window=(start, end), size=level_height
    )
    return Sources(table_of_minutes, stored_spans, recipe.raw.name, holes, level_height)


def _spans(
    recipe: Recipe,
    stored: _delta.Opened | None,
    raw: _delta.Opened | None,
    *,
    market: tuple[str, str],
    window: Span,
    size: Decimal | None,
) -> tuple[list[Span], list[Span]]:
    """Return the spans of a window whose stored minutes are valid, and the spans to compute from raw events."""
    state = None if stored is None else state_of(stored, market, size)
    stored_spans: list[Span] = []
    if raw is not None and state is not None and state.until > window[0]:
        stored_spans = current(recipe, raw, market, state, window)
    # A span without events is left out, because a plan for it costs more than most answers. Minutes of a book also
    # depend on all events before them, and on a snapshot whose timestamp may be up to `SKEW` later.
    skew = SKEW if recipe.lasts else 0
    holes = [
        (first, last)
        for first, last in without(window, stored_spans)
        if raw is not None
        and _delta.may_hold(raw, market, start=-(2**63) if recipe.lasts else first, end=last + skew)
    ]
    return stored_spans, holes
