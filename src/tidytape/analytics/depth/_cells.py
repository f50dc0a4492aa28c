"""Which cell of an array a price and a time fall into, and the sums of sizes in these cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidytape.errors import QueryError

_MOST_CELLS = 2**28  # a gibibyte of float32
_MOST_COUNTS = 2**53  # below this, floats hold every integer

Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Evenly spaced prices ``(first + step * row) / units``, one per row of an array.

    All three are integers, so each price is the float nearest to its decimal. A given price may differ from its row by
    ``noise`` times the largest price.
    """

    first: int
    step: int
    units: int
    noise: float = 0.0

    @classmethod
    def meeting(cls, price: Floats, *, noise: float) -> Ladder | None:
        """Return the ladder with the widest steps that starts at the lowest price and contains all prices.

        Parameters
        ----------
        price : array
        noise : float
            How far prices may be from a decimal, as a share of the largest; 0 if each is the float of a decimal.

        Returns
        -------
        Ladder or None
            None if the prices need more digits than a float holds.
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
        """Return the row of a price, a fraction if the price lies between two rows."""
        return (Fraction(str(price)) * self.units - self.first) / self.step

    def rows(self, price: Floats, *, most: float) -> Integers | None:
        """Return the row of each price, or None if one lies between two rows; ``most`` is the largest price."""
        row = price - self.first / self.units
        row *= self.units / self.step
        np.rint(row, out=row)
        off = self.price(row)
        off -= price
        return row.astype(np.int64) if max(off.max(), -off.min()) <= self.noise * most else None


class Lines:
    """The time axis of an array: one line per time, either every ``step`` or just the times that occur.

    Attributes
    ----------
    times : array, int64, ascending
        The time of each line. [ns]
    """

    def __init__(self, times: Integers, step: int | None) -> None:
        """Take the times of all rows, ascending; raise QueryError if one is no multiple of ``step`` after the first."""
        occurring = times[starts_of(times)]
        self._occurring = self.times = occurring
        self._line: Integers = np.arange(occurring.size)
        if step is not None:
            self._line, off = np.divmod(occurring - occurring[0], step)
            if off.any():
                got, expected = f"times {off.max():,} ns off", f"times whole multiples of {step:,} ns apart"
                raise QueryError("interval", got=got, expected=expected)
            self.times = occurring[0] + step * np.arange(self._line[-1] + 1)

    def of(self, time: Integers) -> Integers:
        """Return the line of each time, its index on the time axis."""
        line: Integers = self._line[np.searchsorted(self._occurring, time)]
        return line


def starts_of(*columns: NDArray[Any]) -> Integers:
    """Return the position at which each run of equal values begins; a run ends where any column changes."""
    changes = np.zeros(columns[0].size - 1, np.bool_)
    for column in columns:
        changes |= column[1:] != column[:-1]
    return np.append(0, np.flatnonzero(changes) + 1)


class Board:
    """Sums of sizes by line (time), side and row (price); the first row has number ``first`` on the ladder.

    Attributes
    ----------
    cells : array, float32, lines × sides × rows
        0 where the line has no size at that price, NaN outside the line's lowest and highest price.
    """

    def __init__(self, shape: tuple[int, int, int], *, first: int, precisely: bool) -> None:
        """Allocate an array; ``precisely`` sums in float64. Raise QueryError if the array is too large."""
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
        """Sum sizes into their cells, from the line of the first size up to ``until``.

        One call gets all sizes of these lines.

        Parameters
        ----------
        until : int
            The line after the last to fill. The lines after that of the last size become NaN.
        start, line, side : array
            For each run of sizes with one line and side: the position of its first size, the line, and the side. Lines
            ascend.
        row, size : array
            The row and the amount of each size, NaN where unknown. A row outside the array is not summed, but widens
            the line's range of prices.
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
        # Only rows that lie outside the range of some line need to be checked for NaN.
        below, above = np.arange(lowest.max()), np.arange(max(0, highest.min() + 1), width)
        np.copyto(filled[..., : below.size], np.nan, where=(below < lowest)[:, None, :])
        np.copyto(filled[..., width - above.size :], np.nan, where=(above > highest)[:, None, :])
        self.cells[end:until] = np.nan
