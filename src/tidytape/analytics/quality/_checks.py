"""The checks there are: a new one is a line here, and what it means in `_flags`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tidytape.analytics._arguments import one_of, positive, whole
from tidytape.errors import QueryError
from tidytape.frames.door import listed


@dataclass(frozen=True)
class Check:
    """One thing that may be wrong.

    Attributes
    ----------
    name : str
        What a finding of it is called.
    severity : {"error", "warning", "notice"}
        It cannot be right; it may be; it is, and some programs trip over it.
    meaning : str
        What the rows of a finding have in common.
    """

    name: str
    severity: Literal["error", "warning", "notice"]
    meaning: str


_ALL = (
    Check("missing_time", "error", "a row without a time"),
    Check("duplicate", "error", "rows of one series, time and name"),
    Check("infinite_value", "error", "an infinite number"),
    Check("inconsistent_ohlc", "error", "an open, close or low above the high, or below the low"),
    Check("negative_amount", "error", "a volume, amount or open interest below zero"),
    Check("quote_mismatch", "error", "an amount in the quote that is not the amount in coin times a price"),
    Check("unknown_side", "error", "a side that is none"),
    Check("crossed_book", "warning", "bids above an ask of their time, and asks below a bid"),
    Check("unknown_interval", "warning", "an interval that is none"),
    Check("misaligned", "warning", "a time at which no interval starts"),
    Check("missing_bucket", "warning", "intervals between two rows that have none"),
    Check("stale", "warning", "a series that ends long before the others"),
    Check("unknown_value", "warning", "a null or NaN where the series has numbers"),
    Check("frozen_price", "warning", "rows on which no price moves, many in a row"),
    Check("unit_jump", "warning", "numbers that are suddenly of another size, and stay so"),
    Check(
        "outlier",
        "warning",
        "a move far beyond the usual ones, or a rate or traded price far from the usual ones",
    ),
    Check("unordered", "notice", "a row after a later one of its series"),
)
CHECKS: Final = {check.name: check for check in _ALL}
"""Every check by its name, in the order they are made: an outlier is none where a unit jump is."""


@dataclass(frozen=True)
class Limits:
    """From when on something is found."""

    outlier: float
    frozen: int
    stale: int
    unit_jump: float

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        positive("outlier", self.outlier)
        whole("frozen", self.frozen)
        whole("stale", self.stale)
        if not positive("unit_jump", self.unit_jump) > 1:
            raise QueryError("unit_jump", got=self.unit_jump, expected="a finite number above 1")


def chosen(checks: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the names of checks that a caller asks for, in their order; None for all that apply."""
    if checks is None:
        return None
    names = listed(checks)
    if not names:
        raise QueryError("checks", got=checks, expected="one check or more, or None for all that apply")
    for name in names:
        one_of("checks", name, CHECKS)
    return tuple(name for name in CHECKS if name in names)
