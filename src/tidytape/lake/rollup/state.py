"""Up to where the minutes of a market are stored, and which of them later events changed.

Three notes per market are in the Delta log of the table of minutes, in the commit that wrote the rows: the version of
the raw table they were made of, the first minute that is not stored yet, and the block size. So rows and notes agree,
whenever a process dies.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import quote

from deltalake import DeltaTable, Transaction

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import SKEW, Recipe
from tidytape.times import MINUTE, Span, union, without

__all__ = [
    "WHOLE",
    "State",
    "changed_since",
    "current",
    "edition",
    "is_lost",
    "noted",
    "stale",
    "state_of",
]


_LAST = 2**63 - 1

WHOLE = "whole"
"""Name of the note up to which edition of the events a rollup saw to every market."""

_VERSIONS = 2**40
"""More versions than a table ever has: what a note has room for beside the mark of a table."""


@dataclass(frozen=True, slots=True)
class State:
    """Up to where the minutes of one market are stored, and of which events they were made.

    Attributes
    ----------
    version : int
        Version of the raw table that they were made of, see `edition`.
    until : int
        Minutes that start before it are stored. [ns since the epoch]
    """

    version: int
    until: int

    def notes(self, market: tuple[str, str], block_size: Decimal | None) -> list[Transaction]:
        """Return the notes that hold the state."""
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
    # A rollup that saw to every market found this one good, without writing to it.
    whole = delta.transaction_version(WHOLE) or 0
    return State(max(version, whole) if whole // _VERSIONS == version // _VERSIONS else version, until)


def noted(delta: DeltaTable, market: tuple[str, str]) -> tuple[State, Decimal | None] | None:
    """Return the state of a market and its block size; None if no rollup has noted them."""
    bits = delta.transaction_version(_name("rows", market))
    size = None if not bits else Decimal(repr(struct.unpack(">d", struct.pack(">q", bits))[0]))
    state = state_of(delta, market, size)
    return None if state is None else (state, size)


def edition(raw: _delta.Opened) -> int:
    """Return a table's version with a mark of the table itself, because a table that is made anew counts from 0."""
    mark = raw.once("mark", lambda: zlib.crc32(str(raw.metadata().id).encode()) % 2**23)
    return mark * _VERSIONS + raw.version()


def is_lost(raw: _delta.Opened, state: State) -> bool:
    """Return whether a raw table is older than the minutes that were made of it: it has lost commits."""
    newest = edition(raw)
    return newest < state.version and newest // _VERSIONS == state.version // _VERSIONS


def changed_since(raw: _delta.Opened, seen: int) -> set[tuple[str, ...]] | None:
    """Return the markets that commits after an edition of a raw table wrote to; None if that is not known."""
    spans = _since(raw, seen)
    return None if spans is None else set(spans)


def stale(recipe: Recipe, raw: _delta.Opened, market: tuple[str, str], state: State) -> list[Span]:
    """Return the minutes before ``state.until`` that depend on events newer than the state, sorted and apart."""
    spans = _since(raw, state.version)
    if spans is None:  # the log does not say what happened since
        return [(-(2**63), state.until)]
    # A snapshot of a book may bear a later time than the updates that it came before.
    early = SKEW if recipe.lasts else 0
    touched = [
        (
            (first - early) // MINUTE * MINUTE,
            state.until if recipe.lasts else last // MINUTE * MINUTE + MINUTE,
        )
        for first, last in spans.get(market, ())
    ]
    return union((first, min(last, state.until)) for first, last in touched if first < state.until)


def current(
    recipe: Recipe, raw: _delta.Opened, market: tuple[str, str], state: State, window: Span
) -> list[Span]:
    """Return the spans of a window whose stored minutes are still those of the raw events.

    ``raw`` is opened after the minutes, so that it is no older than what they were made of.
    """
    return without(window, [*stale(recipe, raw, market, state), (state.until, _LAST)])


def _since(raw: _delta.Opened, seen: int) -> dict[tuple[str, ...], list[Span]] | None:
    newer = edition(raw) - seen
    of_this = 0 <= newer <= raw.version()
    return _delta.spans_since(raw, raw.version() - newer) if of_this else None


def _name(what: str, market: tuple[str, str]) -> str:
    # Quoted, because names may hold slashes: A/B of C is not A of B/C.
    return f"{what}:{'/'.join(quote(name, safe='') for name in market)}"


def _bits(block_size: Decimal | None) -> int:
    """The float nearest to a block size as a whole number, which is all that a note can hold; 0 for none."""
    return 0 if block_size is None else struct.unpack(">q", struct.pack(">d", float(block_size)))[0]
