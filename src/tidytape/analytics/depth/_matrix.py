"""Heatmaps as arrays of time and price."""

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
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, on_blocks
from tidytape.times import SECOND, interval_of

if TYPE_CHECKING:
    import xarray


Times = NDArray[np.datetime64]
Floats = NDArray[np.float64]
Integers = NDArray[np.signedinteger[Any]]

_AT_ONCE = 2**16  # rows, whose arrays stay in a cache
_FEW = 4096
_MOST_CELLS = 2**28  # a gibibyte of float32
_MOST_COUNTS = 2**53  # below this, floats hold every integer
_NOISE = 16 * 2.0**-53  # share of a price by which a computed price may differ from a short decimal


@dataclass(frozen=True, eq=False)
class Matrix:
    """Resting size by time and price.

    Attributes
    ----------
    bids, asks : array, float32, times × prices
        Size of each side. 0 where a book had none, NaN where nothing was sent. [coin; USD if fetched in USD]
    times : array, datetime64[ns], ascending
        Start of the interval of each line, in UTC.
    prices : array, float64, ascending
        Low edge of each row. [quote per coin]
    """

    bids: NDArray[np.float32]
    asks: NDArray[np.float32]
    times: Times
    prices: NDArray[np.float64]

    def to_xarray(self) -> xarray.Dataset:
        """Return the same as a Dataset of ``bids`` and ``asks``, dims ("time", "price"); needs the extra ``xarray``.

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
        0 where there were none, NaN outside the prices sent of a time. [coin; USD if fetched in USD]
    times : array, datetime64[ns], ascending
        Start of the interval of each line, in UTC.
    prices : array, float64, ascending
        Low edge of each row. [quote per coin]
    """

    liquidations: NDArray[np.float32]
    times: Times
    prices: NDArray[np.float64]

    def to_xarray(self) -> xarray.Dataset:
        """Return the same as a Dataset of ``liquidations``, dims ("time", "price"); needs the extra ``xarray``."""
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

    A cell is the sum of the sizes of its time and side in ``[price, next price)``. What was sent of a time reaches from
    its lowest price of either side to its highest: inside, a cell without size is 0; outside, and at a time of which
    nothing was sent, it is NaN.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one market. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price`` [quote
        per coin], ``size`` [coin; USD if fetched in USD], and the columns that name the series.
    block_size : Decimal, int, float or str, > 0, optional
        Height of a row, the decimal it is written as; rows are its integer multiples. Without it, rows are the widest
        that leave the prices apart as they came. [quote per coin]
    interval : str, optional
        Name or alias of the interval between lines; a time of which nothing was sent is a line of NaN. Without it,
        what the column ``interval`` says, and where there is none, lines are the times of the frame, however far apart.
    prices : (float, float), optional
        Lowest and highest price to keep, both included; all by default. A few orders far away make a matrix large.
        [quote per coin]

    Returns
    -------
    Matrix
        Arrays in memory, of a frame of any engine; 0 × 0 of a frame without rows.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds more than one series, ``amount_unit`` or ``block_size``, or another side, an eager frame a
        ``block_size`` of which the argument is no whole multiple, times that are no multiple of the interval apart,
        prices of no common step, or more than 2**28 cells; if prices are beyond 2**53 blocks from zero, where floats do
        not tell one from the next, unless ``prices`` leaves them out; or an argument is not as listed.

    Notes
    -----
    A row without a time, a side or a price that is finite is in no cell. A size that is null, not finite or below 0 is
    not known, and makes its cell NaN. Prices are decimals of up to fifteen digits, or were computed and differ from
    such by some last bits; sums have the seven of float32, and those of blocks are made in float64.

    Each row's cell is computed from its time and price, so the cost is that of some passes over the rows, and no table
    of prices is ever built.

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
    sides = dict(zip(BookSide, values.swapaxes(0, 1), strict=True))
    return Matrix(sides[BookSide.BID], sides[BookSide.ASK], times, levels)


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
        Arrays in memory, of a frame of any engine; 0 × 0 of a frame without rows.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        As `matrix` does.

    Notes
    -----
    As for `matrix`. Feeds of liquidations are sampled, so volumes are lower bounds.

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
    """Return sums by time, side and price, with the times and the prices."""
    grid = None if block_size is None else Grid.of(block_size)
    between = None if prices is None else as_list(prices)
    if between is not None and not (
        len(between) == 2 and all(map(is_number, between)) and between[0] <= between[1]
    ):
        raise QueryError("prices", got=prices, expected="a lowest and a highest price")
    named = ["side"] if sides else []
    try:
        table = OpenTable.of(frame, named, times=["timestamp"], numbers=["price", value], as_text=False)
    except MissingColumnError as missing:
        if "size" not in missing.missing or "liquidations" not in missing.available:
            raise
        raise QueryError(
            "frame", got="a heatmap of liquidations", expected="a book", hint="liquidation_matrix takes it"
        ) from None
    described = [name for name in (AMOUNT_UNIT, BLOCK_SIZE) if name in table.names]
    whose = one_series(table, [*table.series(without=["side"]), *described])
    every = whose.get("interval") if interval is None else interval
    step = None if every is None else interval_of(every).seconds * SECOND
    if grid is not None:
        table = on_blocks(table, Fraction(grid.size), "price", parameter="block_size")
    columns = _columns(table.rows, value, sides, grid)
    if not columns["price"].size:
        return np.zeros((0, len(sides) or 1, 0), np.float32), np.zeros(0, "datetime64[ns]"), np.zeros(0)

    if grid is not None:
        _require_rows(columns["price"], grid, between)
    start, line, times = _runs(columns, step)
    for ladder in _ladders(columns["price"], grid):
        shape = times.size, len(sides) or 1
        if (filled := _cells(shape, columns, ladder, between, start=start, line=line)) is not None:
            cells, levels = filled
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

    With a grid also the ``row`` of each price, which exact decimals decide.
    """
    price = nw.col("price")
    columns = {"timestamp": nw.col("timestamp"), "price": price, "size": nw.col(value)}
    rows = rows.drop_nulls(["timestamp", *(["side"] if sides else [])])
    if sides:
        first, second = (nw.col("side") == side for side in sides)
        number = nw.when(second).then(nw.lit(1, nw.Int8)).otherwise(nw.lit(0, nw.Int8))
        columns |= {"side": number, "is_known": first | second}
    if grid is not None:
        within = nw.when(price.is_finite()).then(price.clip(-grid.furthest, grid.furthest)).otherwise(0.0)
        columns["row"] = grid.row(within)
    # Each column comes in one piece, which numpy reads without a copy. Nulls become NaN.
    how: dict[str, Any] = {} if in_sql(rows) else {"engine": "in-memory"}
    collected = rows.select(**columns).collect(**how)
    if sides and not collected["is_known"].all():
        raise QueryError(
            "frame",
            got="another value in column side",
            expected=" or ".join(BookSide),
            hint="filter it first",
        )
    arrays = {name: collected[name].to_numpy() for name in columns if name != "is_known"}
    arrays.setdefault("side", np.zeros(len(collected), np.int8))
    is_placed = np.isfinite(arrays["price"])
    return arrays if is_placed.all() else {name: array[is_placed] for name, array in arrays.items()}


def _require_rows(price: Floats, grid: Grid, between: list[float] | None) -> None:
    """Raise QueryError if a price is too far from zero to have a row, unless the caller keeps only nearer prices."""
    furthest = max(-float(price.min()), float(price.max()))
    is_near = between is not None and -grid.furthest < between[0] and between[1] < grid.furthest
    if furthest > grid.furthest and not is_near:
        raise QueryError(
            "block_size",
            got=str(grid.size),
            expected=f"blocks of which a price of {furthest!r} is at most 2**53",
            hint="take larger blocks, or only the prices that matter",
        )


def _runs(columns: dict[str, NDArray[Any]], step: int | None) -> tuple[Integers, Integers, Integers]:
    """Return where runs of rows of one time and side start, the line of each run, and the time of each line [ns].

    Lines are ``step`` apart, or are the times that occur; raise QueryError if a time is no multiple of ``step`` after
    the first.
    """
    time, side = columns["timestamp"], columns["side"]
    changes = (time[1:] != time[:-1]) | (side[1:] != side[:-1])
    start = np.append(0, np.flatnonzero(changes) + 1)
    times, line = np.unique(time[start], return_inverse=True)
    if step is not None:
        steps, off = np.divmod(times - times[0], step)
        if off.any():
            raise QueryError(
                "interval",
                got=f"times {off.max():,} ns off",
                expected=f"times whole multiples of {step:,} ns apart",
            )
        line, times = steps[line], times[0] + step * np.arange(steps[-1] + 1)
    return start, line, times


@dataclass(frozen=True, slots=True)
class _Ladder:
    """Evenly spaced prices ``(first + step * row) / units``, one per row of an array.

    Prices that were computed, not read, may differ from these by ``tolerance``.
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
        most = float(np.abs(levels[[0, -1]]).max())
        tolerance = noise * most
        off = (np.abs(levels - np.rint(levels * 10.0**n) / 10.0**n).max() for n in range(22))
        places = next((n for n, furthest in enumerate(off) if furthest <= tolerance), 22)
        if not most * 10.0**places < _MOST_COUNTS:
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
        off = row * self.step
        off += self.first
        off /= self.units
        off -= price
        return row.astype(np.int64) if max(off.max(), -off.min()) <= self.tolerance else None


def _ladders(price: Floats, grid: Grid | None) -> Iterator[_Ladder]:
    """Yield the ladders that may contain all prices, the likeliest first."""
    if grid is not None:
        yield _Ladder(0, grid.numerator, 10**grid.places)
        return
    # The step of a few prices is nearly always that of all, and placing the others shows whether it is.
    few = np.append(price[:_FEW], [price.min(), price.max()])
    for noise, some in product((0.0, _NOISE), (few, price)):
        if (ladder := _Ladder.meeting(some, noise=noise)) is not None:
            yield ladder


def _cells(
    shape: tuple[int, int],
    columns: dict[str, NDArray[Any]],
    ladder: _Ladder,
    between: list[float] | None,
    *,
    start: Integers,
    line: Integers,
) -> tuple[NDArray[np.float32], Floats] | None:
    """Return the sums of the sizes by line (time), side and row (price), and the price of each row.

    Returns
    -------
    arrays or None
        0 between the lowest and the highest price of a line, NaN outside. None if a price is on no row of the ladder.

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
    if between is not None:
        bottom, top = max(bottom, ceil(ladder.row(between[0]))), min(top, floor(ladder.row(between[1])))
    is_cut = low.min() < bottom or high.max() > top
    (lines, sides), width = shape, max(0, top - bottom + 1)
    if lines * sides * width > _MOST_CELLS:
        raise QueryError(
            "frame",
            got=f"{lines:,} times and {width:,} prices",
            expected=f"at most {_MOST_CELLS:,} cells",
            hint="take larger blocks, or only the prices that matter",
        )
    # A cell's number in the flat array is that of its line and side, which a run has in common, and its row.
    cells = np.zeros(
        (lines, sides, width), np.float64 if has_rows else np.float32
    )  # a block adds up many sizes
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
    # Only rows that lie outside the range of some line need to be compared with each.
    below, above = np.arange(bottom, lowest.max()), np.arange(max(bottom, highest.min() + 1), top + 1)
    np.copyto(cells[..., : below.size], np.nan, where=(below < lowest)[:, None, :])
    np.copyto(cells[..., width - above.size :], np.nan, where=(above > highest)[:, None, :])
    return cells.astype(np.float32, copy=False), ladder.price(np.arange(bottom, bottom + width))


def _dataset(times: Times, prices: NDArray[np.float64], **values: NDArray[np.float32]) -> xarray.Dataset:
    from xarray import Dataset

    dims = ("time", "price")
    return Dataset({name: (dims, array) for name, array in values.items()}, {"time": times, "price": prices})
