"""Resting size over time and price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.dates import date2num
from matplotlib.image import AxesImage
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.catalogue import BookSide, Interval
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import timed
from tidytape.plot._series import (
    Instrument,
    interval_named,
    market_frame,
    numbers,
    row_of,
    smallest_step,
    together,
)
from tidytape.times import SECOND

_MOST_ROWS = 400  # that a screen shows as rows; more are added up
_MOST_COLUMNS = 50_000
_NEAR = 0.1  # of the price, up and down: what is shown unless asked otherwise


@dataclass(frozen=True, slots=True)
class BookHeatmap:
    """What `book_heatmap` drew.

    Attributes
    ----------
    ax : matplotlib.axes.Axes
        Where.
    bids, asks : matplotlib.image.AxesImage or None
        Size by price row, ascending, and time column; NaN where nothing rests. None where there is no data.
    block_size : float or None
        Height of a row drawn; None where there is no data. [quote per coin]
    """

    ax: Axes
    bids: AxesImage | None
    asks: AxesImage | None
    block_size: float | None


@dataclass(frozen=True, slots=True)
class _Cells:
    """Where each size is drawn, and the grid."""

    column: NDArray[np.int64]
    row: NDArray[np.int64]
    shape: tuple[int, int]
    extent: tuple[float, float, float, float]  # [matplotlib dates, d], [quote per coin]
    height: float


def book_heatmap(
    frame: IntoFrame,
    /,
    *,
    ax: Axes | None = None,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> BookHeatmap:
    """Draw how much rested where: bids in blues, asks in vermillions, the stronger the more, on a logarithmic scale.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one instrument. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price``
        [quote per coin], the low edge of its block, and ``size`` [as ``amount_unit`` says]. A book stands over the
        interval from its ``timestamp`` on; a timestamp that is not there is a gap. Rows that lack a value, and sizes
        that are not above 0, are not drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    block_size : float or Decimal, > 0, optional
        Sizes are added up in rows of this height; without it in the blocks they came in, or several of them where
        they would be more than 400 rows. [quote per coin]
    prices : (float, float), optional
        Lowest and highest price to show; without it, those within a tenth of the prices between bids and asks.
        [quote per coin]
    quote : str, optional
        Unit of the sizes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    BookHeatmap
        The artists. Both sides share one scale, from the 20th percentile of the sizes shown to the 99.9th. A frame with
        nothing to show says "no data".

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several instruments, its timestamps are no datetimes or too uneven for columns of one width,
        or an argument is not as listed.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> frame = pl.DataFrame({
    ...     "coin": "BTC", "timestamp": datetime(2024, 8, 8, tzinfo=UTC), "side": ["BID", "BID", "ASK"],
    ...     "price": [99.0, 99.5, 100.0], "size": [3.0, 1.0, 2.0],
    ... })
    >>> drawn = book_heatmap(frame, ax=Figure().add_subplot())
    >>> drawn.bids.get_array().tolist(), drawn.block_size
    ([[3.0], [1.0], [None]], 0.5)
    """
    style.zone(timezone)  # before a figure is made for nothing
    if block_size is not None and not (np.isfinite(float(block_size)) and block_size > 0):
        raise QueryError("block_size", got=block_size, expected="a finite number above 0, or None")
    if prices is not None and not prices[0] < prices[1]:
        raise QueryError("prices", got=prices, expected="a lower and a higher price")
    time, width, bid, price, size, instrument = _read(frame, prices)
    cells = _cells(time, width, price, None if block_size is None else float(block_size))
    ax = ax or style.new_axes(12, 6)
    style.frame_axes(ax)
    style.time_axis(ax.xaxis, timezone)
    style.price_axis(ax.yaxis, instrument.price_unit)
    style.title(ax, instrument.title)
    if cells is None:
        style.no_data(ax)
        return BookHeatmap(ax, None, None, None)

    low, high = np.quantile(size, [0.2, 0.999])
    images, look = {}, style.inside(ax)
    colours = {BookSide.BID: look.up, BookSide.ASK: look.down}
    for side, chosen in ((BookSide.BID, bid), (BookSide.ASK, ~bid)):
        matrix = _matrix(cells, chosen, size)
        images[side] = ax.imshow(
            matrix,
            cmap=style.shades(ax, colours[side]),
            norm=LogNorm(low, max(high, low * 1.01)),
            origin="lower",
            extent=cells.extent,
            aspect="auto",
            interpolation="nearest",  # smoothing would blur one interval's book into the next
            zorder=1,
        )
    ax.grid(visible=False)
    ax.set(xlim=cells.extent[:2], ylim=cells.extent[2:])
    unit = instrument.amounts(quote, style.price_text(cells.height, cells.height))
    for place, side in enumerate(images):
        style.colour_bar(ax, images[side], f"{side.value.title()}s", unit, part=(place, 2))
    return BookHeatmap(ax, images[BookSide.BID], images[BookSide.ASK], cells.height)


def _read(
    frame: IntoFrame, prices: tuple[float, float] | None
) -> tuple[NDArray[np.int64], int, NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64], Instrument]:
    """Return time [ns], length of the interval [ns], whether a bid, price and size of what is shown, and whose."""
    columns = ("timestamp", "side", "price", "size")
    opened, instrument = market_frame(frame, "frame", columns, without=("side",))
    opened = timed(opened, "frame").filter(~nw.col("timestamp").is_null())
    time = opened.get_column("timestamp").dt.timestamp("ns").to_numpy().astype(np.int64)
    interval, steps = interval_named(instrument.interval), np.diff(np.unique(time))
    width = (interval or Interval.MINUTE).seconds * SECOND
    if interval is None and steps.size:
        width = int(steps.min())
    values = numbers(opened, "frame", ("price", "size"))
    price, size = values["price"], values["size"]
    bid = (opened.get_column("side").cast(nw.String) == BookSide.BID.value).to_numpy().astype(bool)
    shown = np.isfinite(price) & np.isfinite(size) & (size > 0)
    if prices is None:
        # Both around the mid: best bids are the highest of their time, best asks the lowest.
        inner = [
            edge(price[shown & at]) for edge, at in ((np.max, bid), (np.min, ~bid)) if (shown & at).any()
        ]
        prices = (min(inner) * (1 - _NEAR), max(inner) * (1 + _NEAR)) if inner else (-np.inf, np.inf)
    shown &= (price >= prices[0]) & (price <= prices[1])
    return time[shown], width, bid[shown], price[shown], size[shown], instrument


def _cells(
    time: NDArray[np.int64], width: int, price: NDArray[np.float64], block_size: float | None
) -> _Cells | None:
    """Return the cell of each size by index arithmetic; None without any."""
    if not time.size:
        return None
    start = int(time.min())
    columns = (int(time.max()) - start) // width + 1
    if columns > _MOST_COLUMNS:
        raise QueryError(
            "frame",
            got=f"timestamps {width:,} ns apart over {columns:,} times that",
            expected=f"even steps, at most {_MOST_COLUMNS:,} of them",
            hint="take books at even instants",
        )
    height = block_size
    if height is None:
        levels = np.unique(price)
        step = smallest_step(levels)
        height = step * together((levels[-1] - levels[0]) / step + 1, _MOST_ROWS)
    row = row_of(price, height)
    lowest = int(row.min())
    rows = int(row.max()) - lowest + 1
    left, right = date2num(np.array([start, start + columns * width]).astype("datetime64[ns]"))  # type: ignore[no-untyped-call]
    return _Cells(
        (time - start) // width,
        row - lowest,
        (rows, columns),
        (float(left), float(right), lowest * height, (lowest + rows) * height),
        height,
    )


def _matrix(cells: _Cells, chosen: NDArray[np.bool_], size: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the sums of the chosen sizes, price by time; NaN where there is none."""
    rows, columns = cells.shape
    flat = cells.row[chosen] * columns + cells.column[chosen]
    sums = np.bincount(flat, size[chosen], minlength=rows * columns).astype(np.float32)
    sums[sums == 0] = np.nan
    return sums.reshape(rows, columns)
