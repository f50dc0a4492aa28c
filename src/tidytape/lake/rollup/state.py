"""Up to where the minutes of an instrument are made, and which of them are no longer what their events say.

Three numbers per instrument stand in the Delta log of the table of minutes, in the very commit that wrote the rows:
the version of the raw table they were made of, the first minute that is not made yet, and the block size. So rows and
what is said of them cannot part, whenever a process dies.
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
"""Name of the note up to which edition of the events a rollup saw to every instrument."""

_VERSIONS = 2**40
"""More versions than a table ever has: what a note has room for beside the mark of a table."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the minutes of one instrument.

    Attributes
    ----------
    version : int
        Version of the raw table that they were made of, see `edition`.
    until : int
        Minutes that start before it are made. [ns since the epoch]
    """

    version: int
    until: int

    def notes(self, instrument: tuple[str, str], block_size: Decimal | None) -> list[Transaction]:
        """Return it as it stands in the log."""
        said = {"version": self.version, "until": self.until, "rows": _bits(block_size)}
        return [Transaction(_name(what, instrument), value) for what, value in said.items()]


def state_of(delta: DeltaTable, instrument: tuple[str, str], block_size: Decimal | None) -> State | None:
    """Return what a table of minutes says of an instrument; None where it has none of this block size.

    A table without price rows is asked with None.
    """
    version, until = (delta.transaction_version(_name(what, instrument)) for what in ("version", "until"))
    if version is None or until is None:
        return None
    if block_size is not None and delta.transaction_version(_name("rows", instrument)) != _bits(block_size):
        return None
    # A rollup that saw to every instrument found this one good, which need not have been written to.
    whole = delta.transaction_version(WHOLE) or 0
    return State(max(version, whole) if whole // _VERSIONS == version // _VERSIONS else version, until)


def noted(delta: DeltaTable, instrument: tuple[str, str]) -> tuple[State, Decimal | None] | None:
    """Return what a table of minutes says of an instrument, and of which block size; None where nothing."""
    bits = delta.transaction_version(_name("rows", instrument))
    size = None if not bits else Decimal(repr(struct.unpack(">d", struct.pack(">q", bits))[0]))
    state = state_of(delta, instrument, size)
    return None if state is None else (state, size)


def edition(raw: _delta.Opened) -> int:
    """Return a table's version with a mark of the table itself: one that was made anew counts from 0 again."""
    mark = raw.once("mark", lambda: zlib.crc32(str(raw.metadata().id).encode()) % 2**23)
    return mark * _VERSIONS + raw.version()


def is_lost(raw: _delta.Opened, state: State) -> bool:
    """Whether a raw table is older than the minutes that were made of it: commits of it are gone."""
    newest = edition(raw)
    return newest < state.version and newest // _VERSIONS == state.version // _VERSIONS


def changed_since(raw: _delta.Opened, seen: int) -> set[tuple[str, ...]] | None:
    """Return the instruments that commits after an edition of a raw table wrote to; None if that is not known."""
    spans = _since(raw, seen)
    return None if spans is None else set(spans)


def stale(recipe: Recipe, raw: _delta.Opened, instrument: tuple[str, str], state: State) -> list[Span]:
    """Return the minutes before ``state.until`` that depend on events newer than the state, sorted and apart."""
    spans = _since(raw, state.version)
    if spans is None:  # nobody knows what happened since
        return [(-(2**63), state.until)]
    # What lasts is a book: its snapshot may bear a later time than the updates that it came before.
    early = SKEW if recipe.lasts else 0
    touched = [
        (
            (first - early) // MINUTE * MINUTE,
            state.until if recipe.lasts else last // MINUTE * MINUTE + MINUTE,
        )
        for first, last in spans.get(instrument, ())
    ]
    return union((first, min(last, state.until)) for first, last in touched if first < state.until)


def current(
    recipe: Recipe, raw: _delta.Opened, instrument: tuple[str, str], state: State, window: Span
) -> list[Span]:
    """Return the spans of a window whose kept minutes are still those of the raw events.

    ``raw`` is opened after the minutes, so that it is no older than what they were made of.
    """
    return without(window, [*stale(recipe, raw, instrument, state), (state.until, _LAST)])


def _since(raw: _delta.Opened, seen: int) -> dict[tuple[str, ...], list[Span]] | None:
    newer = edition(raw) - seen
    of_this = 0 <= newer <= raw.version()
    return _delta.spans_since(raw, raw.version() - newer) if of_this else None


def _name(what: str, instrument: tuple[str, str]) -> str:
    # Quoted, because names may hold slashes: A/B of C is not A of B/C.
    return f"{what}:{'/'.join(quote(name, safe='') for name in instrument)}"


def _bits(block_size: Decimal | None) -> int:
    """The float nearest to a block size as a whole number, which is all that a note can hold; 0 for none."""
    return 0 if block_size is None else struct.unpack(">q", struct.pack(">d", float(block_size)))[0]
