"""Heatmaps as arrays by time and price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics._arguments import is_number
from tidytape.analytics._series import one_series
from tidytape.catalogue import BookSide
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames._dialects import in_sql
from tidytape.frames._door import as_list
from tidytape.frames._grid import Grid
from tidytape.frames._kinds import OF_BOOKS
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, require_blocks
from tidytape.times import frame_interval

if TYPE_CHECKING:
    import xarray


Times = NDArray[np.datetime64]
Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]

_AT_ONCE = 2**16  # rows per part, whose arrays fit into a cache
_FEW = 4096
_MOST_CELLS = 2**28  # a gibibyte of float32
_MOST_COUNTS = 2**53  # up to this, floats hold every integer
_NOISE = 16 * 2.0**-53  # share of a price by which a computed price may differ from its short decimal


@dataclass(frozen=True, eq=False)
class Matrix:
    """Resting size by time and price.

    Attributes
    ----------
    bids, asks : array, float32, times × prices
        Size of each side: 0 where the book is empty, NaN outside the prices of the frame. [coin; USD if fetched in USD]
    times : array, datetime64[ns], ascending
        Start of the interval of each line of the arrays, in UTC.
    prices : array, float64, ascending
        Low edge of each row. [quote per coin]
    """

    bids: NDArray[np.float32]
    asks: NDArray[np.float32]
    times: Times
    prices: NDArray[np.float64]

    def to_xarray(self) -> xarray.Dataset:
        """Return a Dataset with ``bids`` and ``asks``, dims ("time", "price"); needs the extra ``xarray``.

        Examples
        --------
        >>> import numpy as np
        >>> sizes = np.ones((1, 2), np.float32)
        >>> matrix = Matrix(sizes, sizes, np.array(["2024-08-08"], "datetime64[ns]"), np.array([99.0, 99.5]))
        >>> dict(matrix.to_xarray().sizes)
        {'time': 1, 'price': 2}
        """
        return _dataset(self.times, self.prices, bids=self.bids, asks=self.asks)


@dataclass(frozen=True, eq=False)
class LiquidationMatrix:
    """Liquidated volume by time and price.

    Attributes
    ----------
    liquidations : array, float32, times × prices
        0 where nothing was liquidated, NaN outside the range of prices of a time. [coin; USD if fetched in USD]
    times : array, datetime64[ns], ascending
        Start of the interval of each line of the arrays, in UTC.
    prices : array, float64, ascending
        Low edge of each row. [quote per coin]
    """

    liquidations: NDArray[np.float32]
    times: Times
    prices: NDArray[np.float64]

    def to_xarray(self) -> xarray.Dataset:
        """Return a Dataset with ``liquidations``, dims ("time", "price"); needs the extra ``xarray``."""
        return _dataset(self.times, self.prices, liquidations=self.liquidations)


def matrix(
    frame: IntoFrame,
    /,
    *,
    block_size: Decimal | float | str | None = None,
    interval: str | None = None,
    prices: tuple[float, float] | None = None,
) -> Matrix:
    """Order-book heatmap as arrays: bids and asks by time and price.

    A cell is the sum of the sizes of its time and side in ``[price, next price)``. The range of a time reaches from its
    lowest to its highest price of both sides. A cell without size is 0 inside this range, and NaN outside it and at
    times without rows.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one market. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price`` [quote
        per coin], ``size`` [coin; USD if fetched in USD], and the columns that name the series.
    block_size : Decimal, int, float or str, > 0, optional
        Height of a row, read as the decimal it prints as; rows are its integer multiples. By default the largest
        height that keeps all prices of the frame in rows of their own. [quote per coin]
    interval : str, optional
        Name or alias of the interval between lines; a time without rows is a line of NaN. By default the column
        ``interval``; without that column, lines are the times of the frame, at any distance.
    prices : (float, float), optional
        Lowest and highest price to keep, both included; by default all. A few orders far from the mid make a matrix
        large. [quote per coin]

    Returns
    -------
    Matrix
        Arrays in memory, for frames of any engine; 0 × 0 for a frame without rows.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several series, amount units or block sizes, or another side; if the argument is not a whole
        multiple of the ``block_size`` of an eager frame; if times are not whole multiples of the interval apart, prices
        have no common step, or the result would have more than 2**28 cells; if prices are more than 2**53 blocks from
        zero, where floats cannot tell one block from the next, unless ``prices`` leaves them out; or if an argument is
        not as listed.

    Notes
    -----
    A row without a time, a side or a finite price is left out. A size that is null, not finite or below 0 is unknown,
    and makes its cell NaN. Prices must be decimals of up to fifteen digits; computed prices may differ from these in
    the last bits. Sums have the seven digits of float32; with a ``block_size`` they are added in float64.

    The cell of a row is computed from its time and price, which takes a few passes over the rows and no table of
    prices.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> frame = pl.DataFrame({
    ...     "timestamp": datetime(2024, 8, 8, tzinfo=UTC), "side": ["BID", "BID", "ASK"],
    ...     "price": [99.0, 100.0, 100.5], "size": [3.0, 1.0, 2.0],
    ... })
    >>> depth = matrix(frame)
    >>> depth.bids.tolist(), depth.prices.tolist()
    ([[3.0, 0.0, 1.0, 0.0]], [99.0, 99.5, 100.0, 100.5])
    """
    values, times, levels = _arrays(
        frame, "size", tuple(BookSide), block_size=block_size, interval=interval, prices=prices
    )
    values_by_side = dict(zip(BookSide, values.swapaxes(0, 1), strict=True))
    return Matrix(values_by_side[BookSide.BID], values_by_side[BookSide.ASK], times, levels)


def liquidation_matrix(
    frame: IntoFrame,
    /,
    *,
    block_size: Decimal | float | str | None = None,
    interval: str | None = None,
    prices: tuple[float, float] | None = None,
) -> LiquidationMatrix:
    """Liquidation heatmap as an array: liquidated volume by time and price.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, price), any order
        Schema VENUEX_LIQUIDATION_AGG of one coin. Uses ``timestamp`` [UTC], ``price`` [quote per coin],
        ``liquidations`` [coin; USD if fetched in USD], and the columns that name the series.
    block_size, interval, prices
        As for `matrix`.

    Returns
    -------
    LiquidationMatrix
        Arrays in memory, for frames of any engine; 0 × 0 for a frame without rows.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        As in `matrix`.

    Notes
    -----
    The notes of `matrix` apply. Feeds of liquidations are sampled, so volumes are lower bounds.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> frame = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 0, 2)],
    ...     "price": [60_000.0, 60_200.0, 60_100.0], "liquidations": [0.5, 4.0, 0.25],
    ... })
    >>> liquidation_matrix(frame, interval="1h").liquidations.tolist()
    [[0.5, 0.0, 4.0], [nan, nan, nan], [nan, 0.25, nan]]
    """
    values, times, levels = _arrays(
        frame, "liquidations", (), block_size=block_size, interval=interval, prices=prices
    )
    return LiquidationMatrix(values[:, 0], times, levels)


def _arrays(
    frame: IntoFrame,
    value: str,
    sides: tuple[str, ...],
    *,
    block_size: Decimal | float | str | None,
    interval: str | None,
    prices: tuple[float, float] | None,
) -> tuple[NDArray[np.float32], Times, Floats]:
    """Return the sums by time, side and price, the times, and the prices."""
    grid = None if block_size is None else Grid.of(block_size)
    price_range = None if prices is None else as_list(prices)
    if price_range is not None and not (
        len(price_range) == 2 and all(map(is_number, price_range)) and price_range[0] <= price_range[1]
    ):
        raise QueryError("prices", got=prices, expected="a lowest and a highest price")
    needed = ["side"] if sides else []
    try:
        table = OpenTable.of(frame, ["timestamp", "price", value, *needed], kinds=OF_BOOKS, as_text=False)
    except MissingColumnError as missing:
        if "size" not in missing.missing or "liquidations" not in missing.available:
            raise
        raise QueryError(
            "frame", got="a heatmap of liquidations", expected="a book", hint="liquidation_matrix takes it"
        ) from None
    descriptors = [name for name in (AMOUNT_UNIT, BLOCK_SIZE) if name in table.names]
    constants = one_series(table, [*table.series_columns(without=["side"]), *descriptors])
    line_interval = constants.get("interval") if interval is None else interval
    step = None if line_interval is None else frame_interval(line_interval).nanoseconds
    if grid is not None:
        table = require_blocks(table, Fraction(grid.size), "price", parameter="block_size")
    columns = _columns(table.rows, value, sides, grid)
    if not columns["price"].size:
        return np.zeros((0, len(sides) or 1, 0), np.float32), np.zeros(0, "datetime64[ns]"), np.zeros(0)

    if grid is not None:
        _require_rows(columns["price"], grid, price_range)
    start, line, times = _runs(columns, step)
    for ladder in _ladders(columns["price"], grid):
        shape = times.size, len(sides) or 1
        if (result_arrays := _cells(shape, columns, ladder, price_range, start=start, line=line)) is not None:
            cells, levels = result_arrays
            return cells, times.astype("datetime64[ns]"), levels
    raise QueryError(
        "frame",
        got="prices of no common step",
        expected="multiples of one, to fifteen digits",
        hint="give a block_size",
    )


def _columns(
    rows: nw.LazyFrame[Any], value: str, sides: tuple[str, ...], grid: Grid | None
) -> dict[str, NDArray[Any]]:
    """Return ``timestamp``, ``price``, ``size`` and ``side`` (a number) of the rows that have a cell.

    With a grid also the ``row`` of each price, decided on exact decimals.
    """
    price = nw.col("price")
    columns = {"timestamp": nw.col("timestamp"), "price": price, "size": nw.col(value)}
    rows = rows.drop_nulls(["timestamp", *(["side"] if sides else [])])
    if sides:
        columns["side"] = (nw.col("side") == sides[1]).cast(nw.Int8)
    if grid is not None:
        clipped_price = (
            nw.when(price.is_finite()).then(price.clip(-grid.furthest, grid.furthest)).otherwise(0.0)
        )
        columns["row"] = grid.row(clipped_price)
    # Each column comes in one piece, which numpy reads without a copy. Nulls become NaN.
    collect_arguments: dict[str, Any] = {} if in_sql(rows) else {"engine": "in-memory"}
    collected = rows.select(**columns).collect(**collect_arguments)
    arrays = {name: collected[name].to_numpy() for name in columns}
    arrays.setdefault("side", np.zeros(len(collected), np.int8))
    has_price = np.isfinite(arrays["price"])
    return arrays if has_price.all() else {name: array[has_price] for name, array in arrays.items()}


def _require_rows(price: Floats, grid: Grid, price_range: list[float] | None) -> None:
    """Raise QueryError if a price is too far from zero to have a row, unless ``price_range`` leaves it out."""
    furthest = max(-float(price.min()), float(price.max()))
    is_near = price_range is not None and -grid.furthest < price_range[0] and price_range[1] < grid.furthest
    if furthest > grid.furthest and not is_near:
        raise QueryError(
            "block_size",
            got=str(grid.size),
            expected=f"blocks of which a price of {furthest!r} is at most 2**53",
            hint="take larger blocks, or only the prices that matter",
        )


def _runs(columns: dict[str, NDArray[Any]], step: int | None) -> tuple[Integers, Integers, Integers]:
    """Return the start of each run of rows with one time and side, its line, and the time of each line [ns].

    Lines are ``step`` apart, or at the times that occur if ``step`` is None. Raise QueryError if a time is not a
    multiple of ``step`` after the first.
    """
    time, side = columns["timestamp"], columns["side"]
    changes = (time[1:] != time[:-1]) | (side[1:] != side[:-1])
    start = np.append(0, np.flatnonzero(changes) + 1)
    times, line = np.unique(time[start], return_inverse=True)
    if step is not None:
        steps, remainder = np.divmod(times - times[0], step)
        if remainder.any():
            raise QueryError(
                "interval",
                got=f"times {remainder.max():,} ns off",
                expected=f"times whole multiples of {step:,} ns apart",
            )
        line, times = steps[line], times[0] + step * np.arange(steps[-1] + 1)
    return start, line, times


@dataclass(frozen=True, slots=True)
class _Ladder:
    """Evenly spaced prices ``(first + step * row) / units``, one per row of an array.

    Computed prices may differ from these by ``tolerance``.
    """

    first: int
    step: int
    units: int
    tolerance: float = 0.0

    @classmethod
    def meeting(cls, price: Floats, *, noise: float) -> _Ladder | None:
        """Return the ladder with the widest steps that starts at the lowest price and contains all prices.

        Parameters
        ----------
        price : array, float64
        noise : float
            How far a price may lie from the ladder, as a share of the largest price.

        Returns
        -------
        _Ladder or None
            None if no decimals of up to 15 digits fit the prices.
        """
        levels = np.unique(price)
        largest = float(np.abs(levels[[0, -1]]).max())
        tolerance = noise * largest
        errors = (np.abs(levels - np.rint(levels * 10.0**n) / 10.0**n).max() for n in range(22))
        places = next((n for n, error in enumerate(errors) if error <= tolerance), 22)
        if not largest * 10.0**places < _MOST_COUNTS:
            return None
        counts = np.rint(levels * 10.0**places).astype(np.int64)
        return cls(int(counts[0]), int(np.gcd.reduce(np.diff(counts))) or 1, 10**places, tolerance)

    def price(self, row: Integers | Floats) -> Floats:
        """Return the price of each row. [quote per coin]"""
        price: Floats = (self.first + self.step * row) / float(self.units)
        return price

    def row(self, price: float) -> Fraction:
        """Return the row of a price, a fraction if the price lies between two rows."""
        return (Fraction(str(price)) * self.units - self.first) / self.step

    def rows(self, price: Floats) -> Integers | None:
        """Return the row of each price, or None if one lies between two rows."""
        row = price - self.first / self.units
        row *= self.units / self.step
        np.rint(row, out=row)
        error = row * self.step
        error += self.first
        error /= self.units
        error -= price
        return row.astype(np.int64) if max(error.max(), -error.min()) <= self.tolerance else None


def _ladders(price: Floats, grid: Grid | None) -> Iterator[_Ladder]:
    """Yield the ladders that may contain all prices, the likeliest first."""
    if grid is not None:
        yield _Ladder(0, grid.numerator, 10**grid.places)
        return
    # The step of a few prices is nearly always the step of all; computing the rows of the others shows whether it is.
    first_prices = np.append(price[:_FEW], [price.min(), price.max()])
    for noise, sample in product((0.0, _NOISE), (first_prices, price)):
        if (ladder := _Ladder.meeting(sample, noise=noise)) is not None:
            yield ladder


def _cells(
    shape: tuple[int, int],
    columns: dict[str, NDArray[Any]],
    ladder: _Ladder,
    price_range: list[float] | None,
    *,
    start: Integers,
    line: Integers,
) -> tuple[NDArray[np.float32], Floats] | None:
    """Return the sums of the sizes by line (time), side and row (price), and the price of each row.

    Returns
    -------
    arrays or None
        The sums are at least 0 between the lowest and the highest price of a line, and NaN outside. None if a price is
        on no row of the ladder.

    Raises
    ------
    QueryError
        If the array would be too large.
    """
    has_rows = "row" in columns
    place = columns["row" if has_rows else "price"]

    def rows_of(place: NDArray[Any]) -> Integers | None:
        return place if has_rows else ladder.rows(place)

    low, high = (rows_of(end.reduceat(place, start)) for end in (np.minimum, np.maximum))
    if low is None or high is None:
        return None
    bottom, top = int(low.min()), int(high.max())
    if price_range is not None:
        bottom, top = (
            max(bottom, ceil(ladder.row(price_range[0]))),
            min(top, floor(ladder.row(price_range[1]))),
        )
    is_cut = low.min() < bottom or high.max() > top
    (lines, sides), width = shape, max(0, top - bottom + 1)
    if lines * sides * width > _MOST_CELLS:
        raise QueryError(
            "frame",
            got=f"{lines:,} times and {width:,} prices",
            expected=f"at most {_MOST_CELLS:,} cells",
            hint="take larger blocks, or only the prices that matter",
        )
    # The index of a cell in the flat array is the first cell of its line and side, which is the same for a whole run,
    # plus its row.
    cells = np.zeros(
        (lines, sides, width), np.float64 if has_rows else np.float32
    )  # a block may add up many sizes
    first_cell = (line * sides + columns["side"][start]) * width - bottom
    ends = np.append(start, place.size)
    cuts = np.unique(np.searchsorted(ends, [*range(0, place.size, _AT_ONCE), place.size]))
    for first, end in pairwise(cuts):
        part = slice(ends[first], ends[end])
        row, size = rows_of(place[part]), columns["size"][part]
        if row is None:
            return None
        if not (size.min() >= 0 and size.max() < inf):
            size = np.where((size >= 0) & (size < inf), size, np.nan)
        cell = row + np.repeat(first_cell[first:end], np.diff(ends[first : end + 1]))
        if is_cut:
            is_inside = (row >= bottom) & (row <= top)
            cell, size = cell[is_inside], size[is_inside]
        np.add.at(cells.reshape(-1), cell, size.astype(cells.dtype, copy=False))

    lowest, highest = np.full((lines, 1), top + 1), np.full((lines, 1), bottom - 1)
    np.minimum.at(lowest[:, 0], line, low)
    np.maximum.at(highest[:, 0], line, high)
    # Only rows outside the range of some line must be compared with the range of every line.
    below, above = np.arange(bottom, lowest.max()), np.arange(max(bottom, highest.min() + 1), top + 1)
    np.copyto(cells[..., : below.size], np.nan, where=(below < lowest)[:, None, :])
    np.copyto(cells[..., width - above.size :], np.nan, where=(above > highest)[:, None, :])
    return cells.astype(np.float32, copy=False), ladder.price(np.arange(bottom, bottom + width))


def _dataset(times: Times, prices: NDArray[np.float64], **values: NDArray[np.float32]) -> xarray.Dataset:
    from xarray import Dataset

    dims = ("time", "price")
    return Dataset({name: (dims, array) for name, array in values.items()}, {"time": times, "price": prices})
