"""Up to where the minutes of an instrument are made, and which of them are no longer what their events say.

Three numbers per instrument stand in the Delta log of the table of minutes, in the very commit that wrote the rows:
the version of the raw table they were made of, the first minute that is not made yet, and the block size. So rows and
what is said of them cannot part, whenever a process dies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from deltalake import DeltaTable, Transaction

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import MINUTE, Recipe

__all__ = ["Span", "State", "noted", "stale", "state_of", "union", "without"]

Span = tuple[int, int]
"""Half-open, in whole minutes. [ns since the epoch]"""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the minutes of one instrument.

    Attributes
    ----------
    version : int
        Version of the raw table that they were made of.
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
    """Return what a table of minutes says of an instrument; None where it has none of this block size."""
    version, until, rows = (
        delta.transaction_version(_name(what, instrument)) for what in ("version", "until", "rows")
    )
    if version is None or until is None or rows != _bits(block_size):
        return None
    return State(version, until)


def noted(delta: DeltaTable, instrument: tuple[str, str]) -> tuple[State, Decimal | None] | None:
    """Return what a table of minutes says of an instrument, and of which block size; None where nothing."""
    bits = delta.transaction_version(_name("rows", instrument))
    size = None if not bits else Decimal(repr(struct.unpack(">d", struct.pack(">q", bits))[0]))
    state = state_of(delta, instrument, size)
    return None if state is None else (state, size)


def stale(recipe: Recipe, raw: DeltaTable, instrument: tuple[str, str], state: State) -> list[Span]:
    """Return the minutes before ``state.until`` that depend on events newer than the state, sorted and apart."""
    spans = _delta.spans_since(raw, state.version)
    if spans is None:  # nobody knows what happened since
        return [(-(2**63), state.until)]
    touched = [
        (first // MINUTE * MINUTE, state.until if recipe.lasts else last // MINUTE * MINUTE + MINUTE)
        for *names, first, last in spans
        if tuple(names) == instrument
    ]
    return union((first, min(last, state.until)) for first, last in touched if first < state.until)


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the same time in as few spans as can be, sorted.

    Examples
    --------
    >>> union([(5, 9), (0, 2), (2, 3), (6, 7)])
    [(0, 3), (5, 9)]
    """
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        elif first < last:
            joined.append((first, last))
    return joined


def without(span: Span, holes: Iterable[Span]) -> list[Span]:
    """Return what is left of a span between holes, which are sorted and apart.

    Examples
    --------
    >>> without((0, 10), [(-5, 1), (4, 6), (9, 12)])
    [(1, 4), (6, 9)]
    """
    left, (at, end) = [], span
    for first, last in holes:
        if at < min(first, end):
            left.append((at, min(first, end)))
        at = max(at, last)
    return [*left, (at, end)] if at < end else left


def _name(what: str, instrument: tuple[str, str]) -> str:
    return f"{what}:{'/'.join(instrument)}"


def _bits(block_size: Decimal | None) -> int:
    """The float nearest to a block size as a whole number, which is all that a note can hold; 0 for none."""
    return 0 if block_size is None else struct.unpack(">q", struct.pack(">d", float(block_size)))[0]
