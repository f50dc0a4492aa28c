"""Rows of (time, side, price) to the cells of an array, by index arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidytape.errors import QueryError

__all__ = ["Ladder", "Stretches", "lines_of", "rows_of", "sums"]

_MOST_CELLS = 2**28  # a gibibyte of float32
_AT_ONCE = 2**16  # rows, whose working arrays then stay in the processor's cache
_FEW = 4096

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Evenly spaced prices, ``(first + step * row) / units``: all three whole, so each is the float of its decimal."""

    first: int
    step: int
    units: int

    def price(self, row: Integers) -> Floats:
        """Return the price of each row. [quote per coin]"""
        price: Floats = (self.first + self.step * row) / float(self.units)
        return price

    def row(self, price: float) -> Fraction:
        """Return the row of a price, a fraction where it lies between two."""
        return (Fraction(str(price)) * self.units - self.first) / self.step


def rows_of(price: Floats) -> tuple[Ladder, Integers]:
    """Return the widest ladder that meets each of some prices, at least one and all finite, and their rows.

    Raises
    ------
    QueryError
        If there is none: the prices are no multiples of anything, to twelve digits.
    """
    # A few prices nearly always say the step of all, and placing the rest shows whether they did.
    lowest, highest = float(price.min()), float(price.max())
    for sample in (np.append(price[:_FEW], [lowest, highest]), price):
        ladder = _widest(sample)
        rows = _placed(ladder, price, most=max(abs(lowest), abs(highest)))
        if rows is not None:
            return ladder, rows
    raise QueryError(
        "frame",
        got="prices of no common step",
        expected="multiples of one, to twelve digits",
        hint="give a block_size",
    )


def _widest(price: Floats) -> Ladder:
    levels = np.unique(price)
    noise = 1e-12 * float(np.abs(levels[[0, -1]]).max())
    places = 0
    while places < 22 and np.abs(levels - np.rint(levels * 10.0**places) / 10.0**places).max() > noise:
        places += 1
    counts = np.rint(levels * 10.0**places).astype(np.int64)
    return Ladder(int(counts[0]), int(np.gcd.reduce(np.diff(counts))) or 1, 10**places)


def _placed(ladder: Ladder, price: Floats, *, most: float) -> Integers | None:
    """Return the row of each price; None where one lies between two rows."""
    first, per_step = ladder.first / ladder.units, ladder.units / ladder.step
    noise = 1e-6 + 2e-12 * per_step * most
    rows: Integers = np.empty(price.size, np.int32 if 2 * most * per_step < 2**31 else np.int64)
    for at in range(0, price.size, _AT_ONCE):
        exact = price[at : at + _AT_ONCE] - first
        exact *= per_step
        nearest = np.rint(exact)
        rows[at : at + _AT_ONCE] = nearest
        exact -= nearest
        if max(exact.max(), -exact.min()) > noise:
            return None
    return rows


def lines_of(time: Integers, step: int | None) -> tuple[Integers, Integers]:
    """Return the times of the lines, each ``step`` or just those there are, and the line of each time. [ns]

    Raises
    ------
    QueryError
        If times are not a multiple of ``step`` apart.
    """
    if step is None:
        times, line = np.unique(time, return_inverse=True)
        return times, line
    first = time.min()
    line, off = np.divmod(time - first, step)
    if off.any():
        raise QueryError(
            "interval",
            got=f"times {off.max():,} ns off",
            expected=f"times whole multiples of {step:,} ns apart",
        )
    return first + step * np.arange(line.max() + 1), line


@dataclass(frozen=True, slots=True)
class Stretches:
    """Runs of rows that share a time and a side, one after the other.

    Attributes
    ----------
    start : array, ascending
        The first row of each.
    line, side : array
        Line of its time, number of its side.
    """

    start: Integers
    line: Integers
    side: Integers


def sums(
    stretches: Stretches, row: Integers, size: Floats, *, shape: tuple[int, int, int], first: int
) -> NDArray[np.float32]:
    """Return sizes added up by line, side and row of price.

    Parameters
    ----------
    stretches : Stretches
        The line and side of each size.
    row : array, one per size
        Row of its price. One outside the array is left out.
    size : array
        NaN where it is not known.
    shape : (int, int, int)
        Numbers of lines, sides and rows of price.
    first : int
        Row of price that the array begins with.

    Returns
    -------
    array, float32
        0 where there is no size; NaN in rows of price below the lowest or above the highest of a line.

    Raises
    ------
    QueryError
        If the array would be larger than a gibibyte.
    """
    lines, sides, width = shape
    count = lines * sides * width
    if count > _MOST_CELLS:
        raise QueryError(
            "frame",
            got=f"{lines:,} times and {width:,} prices",
            expected=f"at most {_MOST_CELLS:,} cells",
            hint="take larger blocks, or only the prices that matter",
        )
    values = np.zeros(count, np.float32)
    last = -1
    for place, chosen in _places(stretches, row, shape, first):
        if place[0] <= last or not (place[1:] > place[:-1]).all():
            break  # in no order, or several sizes of a cell
        values[place] = size[chosen].astype(np.float32)
        last = place[-1]
    else:
        return _within(values.reshape(shape), stretches, row, first)
    total = np.zeros(count)
    for place, chosen in _places(stretches, row, shape, first):
        np.add.at(total, place, size[chosen])
    return _within(total.astype(np.float32).reshape(shape), stretches, row, first)


def _places(
    stretches: Stretches, row: Integers, shape: tuple[int, int, int], first: int
) -> Iterator[tuple[Integers, Any]]:
    """Yield the places of sizes in the flat array, and which sizes these are; some at a time."""
    _, sides, width = shape
    is_whole = first <= row.min() and row.max() < first + width
    start, length = stretches.start, np.diff(stretches.start, append=row.size)
    base = (stretches.line * sides + stretches.side) * width - first
    from_ = 0
    while from_ < start.size:
        till = max(from_ + 1, int(np.searchsorted(start, start[from_] + _AT_ONCE)))
        chosen: Any = slice(start[from_], start[till - 1] + length[till - 1])
        part = row[chosen]
        place = np.repeat(base[from_:till], length[from_:till])
        place += part
        if not is_whole:
            inside = (part >= first) & (part < first + width)
            place, chosen = place[inside], np.arange(chosen.start, chosen.stop)[inside]
        if place.size:
            yield place, chosen
        from_ = till


def _within(
    values: NDArray[np.float32], stretches: Stretches, row: Integers, first: int
) -> NDArray[np.float32]:
    """Return the values, NaN outside the rows of price that were sent for a line."""
    lines, _, width = values.shape
    low, high = np.full(lines, width, row.dtype), np.full(lines, -1, row.dtype)
    np.minimum.at(low, stretches.line, np.minimum.reduceat(row, stretches.start) - first)
    np.maximum.at(high, stretches.line, np.maximum.reduceat(row, stretches.start) - first)
    at = np.arange(width, dtype=row.dtype)
    outside = (at < low[:, None]) | (at > high[:, None])
    np.copyto(values, np.float32(np.nan), where=outside[:, None, :])
    return values
