"""Prices, times and sizes to the cells of an array, by index arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidytape.errors import QueryError

__all__ = ["Board", "Ladder", "Lines", "starts_of"]

_MOST_CELLS = 2**28  # a gibibyte of float32
_MOST_COUNTS = 2**53  # so that floats tell one from the next
_LINES = 32  # at once, whose cells then stay in the processor's cache

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Evenly spaced prices, ``(first + step * row) / units``: all three whole, so each is the float of its decimal.

    Prices may be off by ``noise``, in terms of the largest.
    """

    first: int
    step: int
    units: int
    noise: float = 0.0

    @classmethod
    def meeting(cls, price: Floats, *, noise: float) -> Ladder | None:
        """Return the ladder of the widest steps, from the lowest, that meets some prices.

        Parameters
        ----------
        price : array
        noise : float
            How far from a decimal prices may be, in terms of the largest: 0 of floats of decimals.

        Returns
        -------
        Ladder or None
            None if decimals that floats tell apart do not say the prices.
        """
        levels = np.unique(price)
        most = float(np.abs(levels[[0, -1]]).max())
        places = 0
        while (
            places < 22
            and np.abs(levels - np.rint(levels * 10.0**places) / 10.0**places).max() > noise * most
        ):
            places += 1
        if not most * 10.0**places < _MOST_COUNTS:
            return None
        counts = np.rint(levels * 10.0**places).astype(np.int64)
        return cls(int(counts[0]), int(np.gcd.reduce(np.diff(counts))) or 1, 10**places, noise)

    def price(self, row: Integers | Floats) -> Floats:
        """Return the price of each row. [quote per coin]"""
        price: Floats = (self.first + self.step * row) / float(self.units)
        return price

    def row(self, price: float) -> Fraction:
        """Return the row of a price, a fraction where it lies between two."""
        return (Fraction(str(price)) * self.units - self.first) / self.step

    def rows(self, price: Floats, *, most: float) -> Integers | None:
        """Return the row of each price, none larger than ``most``; None if one lies between two rows."""
        row = price - self.first / self.units
        row *= self.units / self.step
        np.rint(row, out=row)
        off = self.price(row)
        off -= price
        return row.astype(np.int64) if max(off.max(), -off.min()) <= self.noise * most else None


class Lines:
    """The times that are lines of an array: every ``step``, or just those there are.

    Attributes
    ----------
    times : array, int64, ascending
        [ns]
    """

    def __init__(self, there: Integers, step: int | None) -> None:
        """Take all times there are, ascending; QueryError if they are no multiple of ``step`` apart."""
        self._there = self.times = there
        self._line: Integers = np.arange(there.size)
        if step is not None:
            self._line, off = np.divmod(there - there[0], step)
            if off.any():
                got, expected = f"times {off.max():,} ns off", f"times whole multiples of {step:,} ns apart"
                raise QueryError("interval", got=got, expected=expected)
            self.times = there[0] + step * np.arange(self._line[-1] + 1)

    def of(self, time: Integers) -> Integers:
        """Return the line of each time."""
        line: Integers = self._line[np.searchsorted(self._there, time)]
        return line


def starts_of(*columns: NDArray[Any]) -> Integers:
    """Return where the runs begin over which all of some columns say the same."""
    changes = np.zeros(columns[0].size - 1, np.bool_)
    for column in columns:
        changes |= column[1:] != column[:-1]
    return np.append(0, np.flatnonzero(changes) + 1)


class Board:
    """Sums by line, side and row of price, from row number ``first`` on."""

    def __init__(self, shape: tuple[int, int, int], *, first: int, precisely: bool) -> None:
        """Take the numbers of lines, sides and rows, and whether to add in float64; QueryError if that is too large."""
        self._shape, self._first = shape, first
        lines, sides, width = shape
        if lines * sides * width > _MOST_CELLS:
            raise QueryError(
                "frame",
                got=f"{lines:,} times and {width:,} prices",
                expected=f"at most {_MOST_CELLS:,} cells",
                hint="take larger blocks, or only the prices that matter",
            )
        self._sums = np.zeros(lines * sides * width, np.float64 if precisely else np.float32)
        self._lowest, self._highest = np.full(lines, width), np.full(lines, -1)

    def add(self, start: Integers, line: Integers, side: Integers, row: Integers, size: Floats) -> None:
        """Add sizes, NaN where one is not known.

        Parameters
        ----------
        start, line, side : array
            First size of each run of one line and side, and which.
        row, size : array
            Of each size. A row that is outside counts for what was sent of its line.
        """
        _, sides, width = self._shape
        row = row - self._first
        low, high = np.minimum.reduceat(row, start), np.maximum.reduceat(row, start)
        np.minimum.at(self._lowest, line, np.clip(low, -1, width))
        np.maximum.at(self._highest, line, np.clip(high, -1, width))
        place = np.repeat((line * sides + side) * width, np.diff(start, append=row.size))
        place += row
        if low.min() < 0 or high.max() >= width:
            inside = (row >= 0) & (row < width)
            place, size = place[inside], size[inside]
        np.add.at(self._sums, place, size.astype(self._sums.dtype, copy=False))

    def cells(self) -> NDArray[np.float32]:
        """Return the sums: 0 where there is none, NaN outside the rows of price that were sent of a line."""
        cells = self._sums.astype(np.float32, copy=False).reshape(self._shape)
        lines, _, width = self._shape
        row = np.arange(width, dtype=np.int32)
        lowest, highest = (edge.astype(np.int32)[:, None] for edge in (self._lowest, self._highest))
        for at in range(0, lines, _LINES):
            some = slice(at, at + _LINES)
            outside = (row < lowest[some]) | (row > highest[some])
            np.copyto(cells[some], np.float32(np.nan), where=outside[:, None, :])
        return cells
