"""Resting size over time and price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.catalogue import BookSide, Side
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Bar, Dots, Facts, Grid, Legend, Mark, Panel, Scale, Steps
from tidytape.plot._series import (
    Identity,
    block_of,
    dates_of,
    is_side,
    levels_per_row,
    market_frame,
    nanoseconds,
    numbers,
    other_market_note,
    require_same,
    row_of,
    smallest_step,
    width_of,
)

_MOST_ROWS = 400  # a screen cannot show more, so levels are added up to fewer rows
_MOST_COLUMNS = 50_000
_MOST_CELLS = 2**25  # as float64 they take a quarter of a gibibyte
_SHOWN_SHARE = 0.8  # share of the resting size that is in the picture, if it is near enough to the mid
_LEAST_ROWS = 20  # levels on either side of the mid that are always near enough, even if the mid hardly moves
_LARGEST = 110.0  # area of the largest dot of trades [pt²]
_MOST_DOTS = 300
_DOT_ROWS = 90  # trades are added up to dots in a grid with this many rows


@dataclass(frozen=True, slots=True)
class Cells:
    """The grid of a heatmap, and the column and row of each value in it."""

    column: NDArray[np.int64]
    row: NDArray[np.int64]
    shape: tuple[int, int]
    extent: tuple[float, float, float, float]  # [matplotlib dates, d], [quote per coin]
    height: float
    start: int  # of the first column [ns]
    width: int  # of a column [ns]

    @property
    def edges(self) -> NDArray[np.float64]:
        """Times between the columns. [matplotlib dates, d]"""
        return np.linspace(*self.extent[:2], self.shape[1] + 1)

    def image(self, values: NDArray[np.float64], mask: NDArray[np.bool_], scale: Scale, *, name: str) -> Grid:
        """Return a mark with the sum of the values in each cell; only values whose ``mask`` is true count."""
        rows, columns = self.shape
        cell_index = self.row[mask] * columns + self.column[mask]
        sums = np.bincount(cell_index, values[mask], minlength=rows * columns).astype(np.float32)
        sums[sums == 0] = np.nan  # a cell without a size
        prices = np.linspace(*self.extent[2:], rows + 1)
        return Grid(self.edges, prices, sums.reshape(rows, columns), scale, name=name, order=1)

    def over_columns(self, time: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one value per column from values at times [ns]; NaN for a column without a value."""
        by_column, column = np.full(self.shape[1], np.nan), (time - self.start) // self.width
        is_inside = (column >= 0) & (column < by_column.size)
        by_column[column[is_inside]] = values[is_inside]
        return by_column


@dataclass(frozen=True, slots=True)
class _Priced:
    """Sizes of books, or trades, that can be drawn."""

    identity: Identity
    width: int  # length of the interval [ns]
    block: float  # height of a level; 0 if it is unknown
    time: NDArray[np.int64]  # [ns]
    is_first: NDArray[np.bool_]  # whether a bid, or a buy
    price: NDArray[np.float64]
    size: NDArray[np.float64]

    def mids(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the times [ns], and the mid at each: halfway between the middles of the best bid and the best ask."""
        times, time_index = np.unique(self.time, return_inverse=True)
        bid, ask = np.full(times.size, -np.inf), np.full(times.size, np.inf)
        np.maximum.at(bid, time_index[self.is_first], self.price[self.is_first])
        np.minimum.at(ask, time_index[~self.is_first], self.price[~self.is_first])
        mid = np.where(np.isfinite(bid) & np.isfinite(ask), (bid + ask) / 2 + self.block / 2, np.nan)
        return times, mid


def book_heatmap(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    trades: IntoFrame | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw the resting sizes of a book: bids in blues, asks in vermillions, stronger colours for larger sizes.

    The scale of colours is logarithmic. A line shows the mid, and dots show trades.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one market. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price`` [quote
        per coin], the low edge of the level, and ``size`` [as ``amount_unit`` says]. A book is drawn over the interval
        that starts at its ``timestamp``; a missing timestamp is a gap. Rows that lack a value, and sizes that are not
        above 0, are not drawn.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    block_size : float or Decimal, > 0, optional
        Height of the rows in which sizes are added up. By default a row is one level, or several levels if there would
        be more than 400 rows. [quote per coin]
    prices : (float, float), optional
        Lowest and highest price to show. By default, the prices around the mid with four fifths of the size; but none
        further from the mid than the mid itself moved, or than twenty levels if that is more.
        [quote per coin]
    trades : frame, m rows, any order; optional
        Trades of the same market, drawn over the book: ``timestamp`` [UTC], ``side`` (BUY or SELL), ``price`` [quote
        per coin] and ``amount`` [as ``amount_unit`` says]. Trades of one column and side at neighbouring prices are one
        dot, whose area shows their amount. Only the 300 largest dots are drawn.
    quote : str, optional
        Unit of the sizes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Drawing
        The artists. Both sides share one scale, from the 20th percentile of the sizes shown to the 99.9th. For a frame
        with nothing to show the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``bids``, ``asks`` : AxesImage or None. Size by price row, ascending, and time column; NaN where nothing
          rests. None without data.
        - ``block_size`` : float or None. Height of a drawn row; None without data. [quote per coin]
        - ``mid`` : StepPatch or None. Middle between the best bid and the best ask of each column; NaN where a side is
          empty. None where no column has both.
        - ``buys``, ``sells`` : PathCollection or None. Trades as dots, by the side of the aggressor; None without
          trades of that side.
        - ``bought``, ``sold`` : ndarray or None. Amount of each dot. [as ``amount_unit`` of the trades says]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets or a row twice, its timestamps are not datetimes or too uneven for columns of
        one width, or an argument is not as listed.

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
    return draw(
        lambda panel: fill_book_heatmap(
            panel, frame, trades, block_size=block_size, prices=prices, quote=quote
        ),
        ax,
        (12, 6),
        title=title,
        timezone=timezone,
    )


def fill_book_heatmap(
    panel: Panel,
    frame: IntoFrame,
    trades: IntoFrame | None,
    *,
    block_size: Decimal | float | None,
    prices: tuple[float, float] | None,
    quote: str | None,
) -> Facts:
    """Show resting sizes on a panel."""
    require_height("block_size", block_size)
    require_prices(prices)
    books = _read(frame, "frame", "size", BookSide.BID, key=("timestamp", "side", "price"))
    dots = None if trades is None else _read(trades, "trades", "amount", Side.BUY)
    if dots is not None:
        require_same("normalized_symbol", "trades", dots.identity, books.identity, "the book")
    if prices is None:
        prices = _prices(books)
    is_shown = (books.price >= prices[0]) & (books.price <= prices[1])
    price, size = books.price[is_shown], books.size[is_shown]
    cells = cells_of(
        books.time[is_shown], books.width, price, None if block_size is None else float(block_size)
    )
    show_grid(panel, cells, books.identity.price_unit)
    other_market = other_market_note("trades", dots.identity, books.identity) if dots else ""
    panel.title = style.titled("Order book", books.identity.title, other_market)
    facts = dict.fromkeys(("bids", "asks", "block_size", "mid", "buys", "sells", "bought", "sold"))
    if cells is None:
        return facts
    panel.x.has_grid = panel.y.has_grid = False
    is_bid, norm = books.is_first[is_shown], scale_of(size)
    unit = books.identity.amounts(quote, style.price_text(cells.height, cells.height))
    sides = ((is_bid, panel.colours.up, "Bids"), (~is_bid, panel.colours.down, "Asks"))
    for index, (mask, colour, name) in enumerate(sides):
        scale = Scale(panel.ground.shades(colour), norm)
        image = panel.add(cells.image(size, mask, scale, name=name.lower()))
        panel.bars.append(Bar(image, scale, name, unit, (index, 2)))
    entries: list[Mark] = [*add_price(panel, cells.edges, cells.over_columns(*books.mids()), "Mid")]
    if dots:
        traded = _add_trades(panel, cells, dots, quote)
        facts |= {{"buys": "bought", "sells": "sold"}[mark.name]: mark.data for mark in traded}
        entries += traded
    if entries:
        panel.legend = Legend(entries, place="above")
    return facts | {"block_size": cells.height}


def require_height(parameter: str, height: Decimal | float | None) -> None:
    """Raise QueryError for a height that is not a finite number above 0."""
    if height is not None and not (np.isfinite(float(height)) and height > 0):
        raise QueryError(parameter, got=height, expected="a finite number above 0, or None")


def require_prices(prices: tuple[float, float] | None) -> None:
    """Raise QueryError unless the first price is below the second."""
    if prices is not None and not prices[0] < prices[1]:
        raise QueryError("prices", got=prices, expected="a lower and a higher price")


def _read(
    frame: IntoFrame, parameter: str, amount: str, side: BookSide | Side, *, key: tuple[str, ...] = ()
) -> _Priced:
    """Read amounts by time, side and price; a row that lacks one of them does not count."""
    columns = ("timestamp", "side", "price", amount)
    rows, identity = market_frame(frame, parameter, columns, key=key, without=("side",))
    rows, time = nanoseconds(rows, parameter)
    price, amounts = numbers(rows, parameter, ("price", amount)).values()
    is_first, is_known = (
        is_side(rows, parameter, side),
        np.isfinite(price) & np.isfinite(amounts) & (amounts > 0),
    )
    return _Priced(
        identity,
        width_of(identity, time),
        block_of(rows) or 0.0,
        time[is_known],
        is_first[is_known],
        price[is_known],
        amounts[is_known],
    )


def _prices(books: _Priced) -> tuple[float, float]:
    """Return the lowest and the highest price to show, between which most of the size rests."""
    if not books.price.size:
        return -np.inf, np.inf
    times, mid = books.mids()
    if np.isfinite(mid).any():
        centre = mid[np.searchsorted(times, books.time)]
    else:
        # No book has both sides: take the best price for the mid.
        best = (books.price.max() if books.is_first.all() else books.price.min()) + books.block / 2
        mid, centre = np.array([best]), np.full(books.time.size, best)
    distance = np.abs(books.price + books.block / 2 - centre)
    is_known = np.isfinite(distance)
    order = np.argsort(distance[is_known])
    cumulative = np.cumsum(books.size[is_known][order])
    reach = distance[is_known][order][np.searchsorted(cumulative, _SHOWN_SHARE * cumulative[-1])]
    low, high = float(np.nanmin(mid)), float(np.nanmax(mid))
    step = books.block or smallest_step(np.unique(books.price))
    # Add one level, so that the outermost level is shown in full.
    reach = min(float(reach), max(high - low, _LEAST_ROWS * step)) + step
    return low - reach, high + reach


def show_grid(panel: Panel, cells: Cells | None, price_unit: str) -> None:
    """Let a panel show times and prices, those of the cells if there are some."""
    panel.over_time()
    panel.y.kind, panel.y.name, panel.y.unit = "price", "Price", price_unit
    panel.is_unified, panel.is_empty = cells is None, cells is None
    if cells is not None:
        panel.x.limits, panel.y.limits = cells.extent[:2], cells.extent[2:]


def add_price(
    panel: Panel,
    edges: NDArray[np.float64],
    values: NDArray[np.float64],
    name: str,
    *,
    artist: str = "mid",
    colour: str = "",
) -> list[Steps]:
    """Add a price as a line over a heatmap; add nothing if no value is known."""
    if not np.isfinite(values).any():
        return []
    return [
        panel.add(
            Steps(
                edges,
                values,
                base=None,
                has_halo=True,
                name=artist,
                label=name,
                width=1.2,
                order=2.5,
                colour=colour or panel.colours.poc,
            )
        )
    ]


def cells_of(
    time: NDArray[np.int64],
    width: int,
    price: NDArray[np.float64],
    block_size: float | None,
    *,
    step: float = 0.0,
    most: int = _MOST_ROWS,
) -> Cells | None:
    """Return the cell of each value; None if there are no values.

    Without ``block_size`` a row is as high as ``step``, or as the smallest difference between prices if ``step`` is 0,
    or a multiple of it, so that there are at most ``most`` rows.
    """
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
        step = step or smallest_step(levels)
        height = step * levels_per_row((levels[-1] - levels[0]) / step + 1, most)
    row = row_of(price, height)
    lowest = int(row.min())
    rows = int(row.max()) - lowest + 1
    if rows * columns > _MOST_CELLS:
        raise QueryError(
            "block_size",
            got=height,
            expected=f"rows of which {columns:,} columns have at most {_MOST_CELLS:,} cells",
            hint="make the rows higher, or show fewer prices",
        )
    start_date, end_date = dates_of(np.array([start, start + columns * width]))
    return Cells(
        (time - start) // width,
        row - lowest,
        (rows, columns),
        (float(start_date), float(end_date), lowest * height, (lowest + rows) * height),
        height,
        start,
        width,
    )


def scale_of(values: NDArray[np.float64]) -> LogNorm:
    """Return a logarithmic scale of colours that a few tiny or huge values do not stretch."""
    # The cells of an image are float32: values below its smallest number become 0, which has no logarithm.
    low, high = np.maximum(np.quantile(values, [0.2, 0.999]), np.finfo(np.float32).tiny)
    return LogNorm(low, max(high, low * 1.01))


def _add_trades(panel: Panel, cells: Cells, trades: _Priced, quote: str | None) -> list[Dots]:
    """Add one dot per column, row of `_DOT_ROWS` and side, at the mean time and price of its trades; buys first."""
    low, high = cells.extent[2:]
    column = (trades.time - cells.start) // cells.width
    row = np.floor((trades.price - low) / (high - low) * _DOT_ROWS).astype(np.int64)
    is_inside = (column >= 0) & (column < cells.shape[1]) & (row >= 0) & (row < _DOT_ROWS)
    dates = dates_of(trades.time)
    dots = {}
    for side, is_on_side in ((Side.BUY, trades.is_first), (Side.SELL, ~trades.is_first)):
        is_drawn = is_inside & is_on_side
        _, dot_index = np.unique(column[is_drawn] * _DOT_ROWS + row[is_drawn], return_inverse=True)
        amount = np.bincount(dot_index, trades.size[is_drawn])
        time, price = (
            np.bincount(dot_index, trades.size[is_drawn] * values[is_drawn]) / amount
            for values in (dates, trades.price)
        )
        dots[side] = time, price, amount
    largest = np.sort(np.concatenate([amount for *_, amount in dots.values()]))[-_MOST_DOTS:]  # of both sides
    unit = trades.identity.amounts(quote)
    marks = []
    for (side, (time, price, amount)), colour in zip(dots.items(), style.CYCLE[2:4], strict=True):
        is_large = amount >= largest[0] if largest.size else amount > 0
        if is_large.any():
            name = f"{side.value.title()}s"
            marks.append(
                panel.add(
                    Dots(
                        time[is_large],
                        price[is_large],
                        _LARGEST * amount[is_large] / largest[-1],
                        unit,
                        data=amount[is_large].astype(np.float64),
                        name=name.lower(),
                        hover_name=name,
                        label=f"{name}, up to {style.rounded(amount.max())} {unit}".rstrip(),
                        colour=colour,
                        edge=panel.ground.face,
                        width=0.5,
                        alpha=0.85,
                        order=2.7,
                    )
                )
            )
    return marks
