"""Heatmaps as arrays of time and price."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
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
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.door import in_sql, listed
from tidytape.frames.grid import Grid
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, on_blocks
from tidytape.times import SECOND, interval_of

if TYPE_CHECKING:
    import xarray


Times = NDArray[np.datetime64]

_AT_ONCE = 2**18  # rows: fewer, and threads wait for each other more than they work
_THREADS = 4  # more would wait for each other
_FEW = 4096
_NOISE = 16 * 2.0**-53  # of prices that were computed, and are the floats of no decimals


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
    try:
        table = Table.opened(
            frame,
            ["side"] if sides else [],
            times=["timestamp"],
            numbers=["price", value],
            as_text=False,
        )
    except MissingColumnError as missing:
        if "size" not in missing.missing or "liquidations" not in missing.available:
            raise
        raise QueryError(
            "frame", got="a heatmap of liquidations", expected="a book", hint="liquidation_matrix takes it"
        ) from None
    described = [name for name in (AMOUNT_UNIT, BLOCK_SIZE) if name in table.names]
    whose = one_series(table, [*table.series(without=["side"]), *described])
    if grid is not None:
        table = on_blocks(table, Fraction(grid.size), "price", parameter="block_size")
    if step is None and whose.get("interval") is not None:
        step = interval_of(whose["interval"]).seconds * SECOND

    columns = [nw.col("timestamp"), nw.col("price"), nw.col(value).alias("size")]
    if sides:
        first, second = ((nw.col("side") == side).cast(nw.Int8) for side in sides)
        columns.append((second - first).alias("side"))
    # A price that is null becomes NaN, which is not finite.
    rows = table.rows.drop_nulls(["timestamp", *(["side"] if sides else [])])
    if grid is not None:
        within = nw.col("price").clip(-grid.furthest, grid.furthest)
        rows = rows.filter(nw.col("price").is_finite()).with_columns(row=grid.row(within))
        columns.append(nw.col("row"))
    # From polars in one piece, which numpy then reads without a copy.
    how: dict[str, Any] = {} if in_sql(rows) else {"engine": "in-memory"}
    found = rows.select(*columns).collect(**how)
    cells = {name: found[name].to_numpy() for name in found.columns}
    # Threads share no cell: all rows of a time are in one part.
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="tidytape-matrix") as pool:
        parts = _parts(cells, pool)
        if not parts:
            return np.zeros((0, len(sides) or 1, 0), np.float32), np.zeros(0, "datetime64[ns]"), np.zeros(0)
        lines = Lines(np.concatenate([part.times for part in parts]), step)
        untils = [*(int(lines.of(part.times[:1])[0]) for part in parts[1:]), lines.times.size]
        lowest, highest = min(part.lowest for part in parts), max(part.highest for part in parts)
        if grid is not None and max(-lowest, highest) > grid.furthest:
            lowest, highest = _within(lowest, highest, grid, prices)
        for ladder in _ladders(parts, lowest, highest, grid):
            bottom, top = (
                floor(ladder.row(edge) + Fraction(1, 2) * (grid is None)) for edge in (lowest, highest)
            )
            if between is not None:
                bottom, top = (
                    max(bottom, ceil(ladder.row(between[0]))),
                    min(top, floor(ladder.row(between[1]))),
                )
            shape = (lines.times.size, len(sides) or 1, max(0, top - bottom + 1))
            board = Board(shape, first=bottom, precisely=grid is not None)
            filled = partial(_filled, board, lines, ladder, most=max(abs(lowest), abs(highest)))
            if all(pool.map(filled, parts, untils)):
                row = np.arange(bottom, bottom + shape[2])
                return board.cells, lines.times.astype("datetime64[ns]"), ladder.price(row)
    got, expected = "prices of no common step", "multiples of one, to fifteen digits"
    raise QueryError("frame", got=got, expected=expected, hint="give a block_size")


def _parts(cells: dict[str, NDArray[Any]], pool: Executor) -> list[_Part]:
    """Return the rows that have a place in the order of time, cut between times."""
    time = cells["timestamp"]
    # Of times in order, the first row of every one that a cut would part.
    cuts = np.unique([0, *np.searchsorted(time, time[::_AT_ONCE]), time.size])
    some = ({name: column[begin:end] for name, column in cells.items()} for begin, end in pairwise(cuts))
    parts = [part for part in pool.map(_Part.of, some) if part is not None]
    if all((part.times[1:] >= part.times[:-1]).all() for part in parts) and all(
        before.times[-1] < after.times[0] for before, after in pairwise(parts)
    ):
        return parts
    order = np.argsort(time, kind="stable")
    return _parts({name: column[order] for name, column in cells.items()}, pool)


@dataclass(frozen=True, slots=True)
class _Part:
    """All rows of some times, for one thread at a time.

    Attributes
    ----------
    start : array
        Where the runs of one time and side begin.
    times, side : array
        Of each run, its time [ns], ascending, and its side: 0 or 1.
    row : array or None
        Of each price, where blocks were asked for.
    price, size : array
        Of each row; sizes NaN where not known.
    lowest, highest : float
        Of all prices. [quote per coin]
    """

    start: NDArray[np.int64]
    times: NDArray[np.int64]
    side: NDArray[np.int64]
    row: NDArray[np.int64] | None
    price: NDArray[np.float64]
    size: NDArray[np.float64]
    lowest: float
    highest: float

    @classmethod
    def of(cls, cells: dict[str, NDArray[Any]]) -> _Part | None:
        """Return the rows that have a place; None if there are none."""
        if "side" in cells and not cells["side"].all():
            got, expected = "something else in column side", " or ".join(BookSide)
            raise QueryError("frame", got=got, expected=expected, hint="filter it first")
        lowest, highest = cells["price"].min(), cells["price"].max()
        if not (lowest > -inf and highest < inf):
            there = np.isfinite(cells["price"])
            if not there.any():
                return None
            return cls.of({name: column[there] for name, column in cells.items()})
        time, size = cells["timestamp"], cells["size"]
        side = cells["side"] > 0 if "side" in cells else np.zeros(time.size, np.bool_)
        if not (size.min() >= 0 and size.max() < inf):
            size = np.where((size >= 0) & (size < inf), size, np.nan)
        start = starts_of(time, side)
        return cls(
            start,
            time[start],
            side[start].astype(np.int64),
            cells.get("row"),
            cells["price"],
            size,
            float(lowest),
            float(highest),
        )


def _within(
    lowest: float, highest: float, grid: Grid, prices: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the ends of prices that have a row; QueryError if those that have none are asked for."""
    if prices is None or prices[0] <= -grid.furthest or prices[1] >= grid.furthest:
        raise QueryError(
            "block_size",
            got=str(grid.size),
            expected=f"blocks of which a price of {max(-lowest, highest)!r} is at most 2**53",
            hint="take larger blocks, or only the prices that matter",
        )
    return max(lowest, -grid.furthest), min(highest, grid.furthest)


def _ladders(parts: list[_Part], lowest: float, highest: float, grid: Grid | None) -> Iterator[Ladder]:
    """Yield the prices that rows may have, until one of them meets every price."""
    if grid is not None:
        yield Ladder(0, grid.numerator, 10**grid.places)
        return
    # A few prices nearly always say the step of all, and placing the rest shows whether they did.
    some = np.append(parts[0].price[:_FEW], [lowest, highest])
    for noise in (0.0, _NOISE):
        if (ladder := Ladder.meeting(some, noise=noise)) is not None:
            yield ladder
        if (
            ladder := Ladder.meeting(np.concatenate([part.price for part in parts]), noise=noise)
        ) is not None:
            yield ladder


def _filled(board: Board, lines: Lines, ladder: Ladder, part: _Part, until: int, *, most: float) -> bool:
    """Fill the lines of a part and those without rows after them; return whether each price had a row."""
    row = part.row if part.row is not None else ladder.rows(part.price, most=most)
    if row is None:
        return False
    board.fill(until, start=part.start, line=lines.of(part.times), side=part.side, row=row, size=part.size)
    return True


def _dataset(times: Times, prices: NDArray[np.float64], **values: NDArray[np.float32]) -> xarray.Dataset:
    from xarray import Dataset

    dims = ("time", "price")
    return Dataset({name: (dims, array) for name, array in values.items()}, {"time": times, "price": prices})
