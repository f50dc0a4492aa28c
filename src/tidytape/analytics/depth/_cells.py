"""Prices, times and sizes to the cells of an array, by index arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidytape.errors import QueryError

_MOST_CELLS = 2**28  # a gibibyte of float32
_MOST_COUNTS = 2**53  # so that floats tell one from the next

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
        """Take all times there are, in order; QueryError if they are no multiple of ``step`` apart."""
        there = there[starts_of(there)]
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
    """Sums by line, side and row of price, from row number ``first`` on.

    Attributes
    ----------
    cells : array, float32, lines × sides × rows
        0 where there is none, NaN outside the rows of price that were sent of a line.
    """

    def __init__(self, shape: tuple[int, int, int], *, first: int, precisely: bool) -> None:
        """Take the numbers of lines, sides and rows, and whether to add in float64; QueryError if that is too large."""
        lines, sides, width = shape
        if lines * sides * width > _MOST_CELLS:
            raise QueryError(
                "frame",
                got=f"{lines:,} times and {width:,} prices",
                expected=f"at most {_MOST_CELLS:,} cells",
                hint="take larger blocks, or only the prices that matter",
            )
        self.cells = np.zeros(shape, np.float32)
        self._first, self._sum = first, np.float64 if precisely else np.float32

    def fill(
        self, until: int, *, start: Integers, line: Integers, side: Integers, row: Integers, size: Floats
    ) -> None:
        """Fill the lines from that of some sizes on with their sums; no other sizes are of these lines.

        Parameters
        ----------
        until : int
            The line after the last to fill. A line without sizes is NaN.
        start, line, side : array
            First size of each run of one line and side, and which; lines ascending.
        row, size : array
            Of each size; NaN where it is not known. A row that is outside counts for what was sent of its line.
        """
        _, sides, width = self.cells.shape
        begin, end = int(line[0]), int(line[-1]) + 1
        filled, line = self.cells[begin:end], line - begin
        low, high = (bound.reduceat(row, start) - self._first for bound in (np.minimum, np.maximum))
        place = np.repeat((line * sides + side) * width - self._first, np.diff(start, append=row.size))
        place += row
        if low.min() < 0 or high.max() >= width:
            inside = (row >= self._first) & (row < self._first + width)
            place, size = place[inside], size[inside]
        sums = filled.astype(self._sum, copy=False)
        np.add.at(sums.reshape(-1), place, size.astype(self._sum, copy=False))
        filled[...] = sums

        lowest, highest = np.full((end - begin, 1), width), np.full((end - begin, 1), -1)
        np.minimum.at(lowest[:, 0], line, low)
        np.maximum.at(highest[:, 0], line, high)
        # Only rows that some of these lines lack are looked at.
        below, above = np.arange(lowest.max()), np.arange(max(0, highest.min() + 1), width)
        np.copyto(filled[..., : below.size], np.nan, where=(below < lowest)[:, None, :])
        np.copyto(filled[..., width - above.size :], np.nan, where=(above > highest)[:, None, :])
        self.cells[end:until] = np.nan
