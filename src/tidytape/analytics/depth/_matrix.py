"""Heatmaps as arrays of time and price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics._arguments import is_number
from tidytape.analytics._series import one_series
from tidytape.analytics.depth._cells import Board, Ladder, Lines, starts_of
from tidytape.catalogue import BookSide
from tidytape.errors import QueryError
from tidytape.frames.buckets import SECOND, interval_of
from tidytape.frames.doors import listed
from tidytape.frames.grid import Grid
from tidytape.frames.table import Table

if TYPE_CHECKING:
    import xarray

__all__ = ["LiquidationMatrix", "Matrix", "liquidation_matrix", "matrix"]

Times = NDArray[np.datetime64]

_AT_ONCE = 2**16
_FEW = 4096


@dataclass(frozen=True, eq=False)
class Matrix:
    """Resting size by time and price.

    Attributes
    ----------
    bids, asks : array, float32, times × prices
        Size of each side. 0 where a book had none, NaN where nothing was sent. [coin; USD if so asked]
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
        0 where there were none, NaN outside the prices sent of a time. [coin; USD if so asked]
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
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one instrument. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price``
        [quote per coin], ``size`` [coin; USD if so asked], and the columns that name the series.
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
        If the frame holds more than one series or another side, times that are no multiple of the interval apart,
        prices of no common step, or more than 2**28 cells; or an argument is not as listed.

    Notes
    -----
    A row without a time or a price is in no cell. A size that is null, not finite or below 0 is not known, and makes
    its cell NaN. Prices are read to twelve digits; sums have the seven of float32, and those of blocks are made in
    float64.

    Each row's cell is computed from its time and price, so the cost is that of some passes over the rows, and no table
    of prices is ever built.

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
        ``liquidations`` [coin; USD if so asked], and the columns that name the series.
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
) -> tuple[NDArray[np.float32], Times, NDArray[np.float64]]:
    """Return sums by time, side and price, with the times and the prices."""
    grid = None if block_size is None else Grid.of(block_size)
    between = None if prices is None else listed(prices)
    if between is not None and not (
        len(between) == 2 and all(map(is_number, between)) and between[0] <= between[1]
    ):
        raise QueryError("prices", got=prices, expected="a lowest and a highest price")
    step = None if interval is None else interval_of(interval).seconds * SECOND
    names = Table.opened(frame).names
    if sides and "liquidations" in names and "size" not in names:
        raise QueryError(
            "frame", got="a heatmap of liquidations", expected="a book", hint="liquidation_matrix takes it"
        )
    table = Table.opened(frame, ["side"] if sides else [], times=["timestamp"], numbers=["price", value])
    whose = one_series(table, table.series(without=["side"]), words={"side": sides} if sides else None)
    if step is None and whose.get("interval") is not None:
        step = interval_of(whose["interval"]).seconds * SECOND

    columns = [nw.col("timestamp"), nw.col("price"), nw.col(value).alias("size")]
    if sides:
        columns.append((nw.col("side") == sides[0]).alias("first_side"))
    rows = table.rows.drop_nulls(["timestamp", "price", *(["side"] if sides else [])])
    if grid is not None:
        rows = rows.filter(nw.col("price").is_finite()).with_columns(row=grid.row(nw.col("price")))
        columns.append(nw.col("row"))
    # Of polars in one piece, which numpy then sees as it is.
    how: dict[str, Any] = {"engine": "in-memory"} if rows.implementation.is_polars() else {}
    found = rows.select(*columns).collect(**how)
    cells = {name: found[name].to_numpy() for name in found.columns}
    if not np.isfinite(cells["price"]).all():
        there = np.isfinite(cells["price"])
        cells = {name: column[there] for name, column in cells.items()}
    if not cells["price"].size:
        return np.zeros((0, len(sides) or 1, 0), np.float32), np.zeros(0, "datetime64[ns]"), np.zeros(0)

    price = cells["price"]
    parts = [
        _Part.of({name: column[at : at + _AT_ONCE] for name, column in cells.items()})
        for at in range(0, price.size, _AT_ONCE)
    ]
    lines = Lines(np.unique(np.concatenate([part.times for part in parts])), step)
    lowest, highest = float(price.min()), float(price.max())
    for ladder in _ladders(price, lowest, highest, grid):
        bottom, top = (
            floor(ladder.row(edge) + Fraction(1, 2) * (grid is None)) for edge in (lowest, highest)
        )
        if between is not None:
            bottom, top = max(bottom, ceil(ladder.row(between[0]))), min(top, floor(ladder.row(between[1])))
        shape = (lines.times.size, len(sides) or 1, max(0, top - bottom + 1))
        board = Board(shape, first=bottom, precisely=grid is not None)
        if _filled(board, parts, lines, ladder, most=max(abs(lowest), abs(highest))):
            row = np.arange(bottom, bottom + shape[2])
            return board.cells(), lines.times.astype("datetime64[ns]"), ladder.price(row)
    got, expected = "prices of no common step", "multiples of one, to twelve digits"
    raise QueryError("frame", got=got, expected=expected, hint="give a block_size")


@dataclass(frozen=True, slots=True)
class _Part:
    """So many rows that what is made of them stays in the processor's cache.

    Attributes
    ----------
    start : array
        Where the runs of one time and side begin.
    times, side : array
        Of each run, its time [ns], and its side: 0 or 1.
    row : array or None
        Of each price, where blocks were asked for.
    price, size : array
        Of each row; sizes NaN where not known.
    """

    start: NDArray[np.int64]
    times: NDArray[np.int64]
    side: NDArray[np.int64]
    row: NDArray[np.int64] | None
    price: NDArray[np.float64]
    size: NDArray[np.float64]

    @classmethod
    def of(cls, cells: dict[str, NDArray[Any]]) -> _Part:
        time, size = cells["timestamp"], cells["size"]
        side = ~cells["first_side"] if "first_side" in cells else np.zeros(time.size, np.bool_)
        if not (size.min() >= 0 and size.max() < inf):
            size = np.where((size >= 0) & (size < inf), size, np.nan)
        start = starts_of(time, side)
        return cls(start, time[start], side[start].astype(np.int64), cells.get("row"), cells["price"], size)


def _ladders(
    price: NDArray[np.float64], lowest: float, highest: float, grid: Grid | None
) -> Iterator[Ladder]:
    """Yield the prices that rows may have, until one of them meets every price."""
    if grid is not None:
        yield Ladder(0, grid.numerator, 10**grid.places)
        return
    # A few prices nearly always say the step of all, and placing the rest shows whether they did.
    yield Ladder.meeting(np.append(price[:_FEW], [lowest, highest]))
    yield Ladder.meeting(price)


def _filled(board: Board, parts: list[_Part], lines: Lines, ladder: Ladder, *, most: float) -> bool:
    """Add all sizes to the board; return whether each had a row."""
    for part in parts:
        row = part.row if part.row is not None else ladder.rows(part.price, most=most)
        if row is None:
            return False
        board.add(part.start, lines.of(part.times), part.side, row, part.size)
    return True


def _dataset(times: Times, prices: NDArray[np.float64], **values: NDArray[np.float32]) -> xarray.Dataset:
    from xarray import Dataset

    dims = ("time", "price")
    return Dataset({name: (dims, array) for name, array in values.items()}, {"time": times, "price": prices})
