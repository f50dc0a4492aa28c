"""One order book: the size that rests up to each price, and the cost of a market order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import depth as books
from tidytape.catalogue import AmountUnit, BookSide, Side
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._picture import OnePanel
from tidytape.plot._series import (
    Identity,
    block_of,
    interval_named,
    is_side,
    market_frame,
    nanoseconds,
    numbers,
    smallest_step,
)
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import SECOND

_FURTHEST = 100.0  # without an argument, the picture shows prices up to this distance from the mid [bps]
_SIZES = 30  # order sizes of a curve
_SMALLEST = 1e-3  # smallest order size, as a share of the size of the larger side near the mid


@dataclass(frozen=True, slots=True)
class Depth(OnePanel):
    """What `depth` drew."""

    bids: StepPatch | None
    asks: StepPatch | None
    mid: Line2D | None


@dataclass(frozen=True, slots=True)
class Slippage(OnePanel):
    """What `slippage` drew."""

    buys: Line2D | None
    sells: Line2D | None


@dataclass(frozen=True, slots=True)
class _Book:
    """One book: the middle price and the size of each level, from the best level on."""

    identity: Identity
    frame: nw.DataFrame[Any]  # the rows of the book
    time: int | None  # [ns]
    block: float  # height of a level; 0 if it is unknown
    step: float  # price difference between two neighbouring levels
    levels: dict[BookSide, tuple[NDArray[np.float64], NDArray[np.float64]]]

    @property
    def mid(self) -> float | None:
        best = [price[0] for price, _ in self.levels.values() if price.size]
        return float(np.mean(best)) if len(best) == 2 else None

    def title(self, timezone: str | tzinfo) -> str:
        """Return the market and the time of the book."""
        if self.time is None:
            return self.identity.title
        zone, name = style.zone(timezone)
        when = datetime.fromtimestamp(self.time // SECOND, UTC).astimezone(zone)
        interval = interval_named(self.identity.interval)
        length = f", {interval.alias}" if interval else ""
        clock = "%H:%M:%S" if when.second else "%H:%M"
        return ", ".join(filter(None, (self.identity.name, f"{when:%Y-%m-%d {clock}} {name}{length}")))


def depth(
    book: IntoFrame,
    /,
    *,
    ax: Axes | None = None,
    at: TimeLike | None = None,
    bps: float | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Depth:
    """Draw the depth of a book: the size from the mid up to each price, bids at the left, asks at the right.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one market. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price`` [quote
        per coin] and ``size`` [as ``amount_unit`` says]. If ``block_size`` says how high a level is, the level is drawn
        at its middle, otherwise at its price. Rows that lack a value, and sizes that are not above 0, do not count.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    at : epoch seconds, datetime, date or ISO 8601 string, optional
        The last book at or before this time is drawn; without it the last one there is.
    bps : float, > 0, optional
        Distance from the mid that is shown; by default as far as both sides reach, and at most 100. [bps]
    quote : str, optional
        Unit of the sizes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time in the title.

    Returns
    -------
    Depth
        The artists. For a frame without a book the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``bids``, ``asks`` : StepPatch or None. Size from the best price up to each price; None for a side that is
          empty.
        - ``mid`` : Line2D or None. A line at the mid; None where a side is empty.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets or a row twice, or an argument is not as listed.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> with tidytape.Client.demo() as client:
    ...     book = client.book_heatmap(
    ...         exchange="DEMO_PERP", raw_symbol="BTC-PERP", interval="1h", start="2024-08-08", end="2024-08-09"
    ...     )
    >>> drawn = depth(book, at="2024-08-08T12:00", ax=Figure().add_subplot())
    >>> drawn.ax.get_xlabel(), drawn.ax.get_ylabel()
    ('Price [USDT per BTC]', 'Resting up to the price [BTC]')
    """
    style.zone(timezone)  # refuse an unknown zone before a figure is made
    if bps is not None and not (np.isfinite(bps) and bps > 0):
        raise QueryError("bps", got=bps, expected="a finite number above 0, or None")
    snapshot = _read(book, at)
    ax = style.framed_axes(ax, 9, 5)
    style.price_axis(ax.xaxis, snapshot.identity.price_unit)
    style.amount_axis(ax.yaxis, snapshot.identity.amounts(quote), bins=6, name="Resting up to the price")
    style.title(ax, "Order book", snapshot.title(timezone))
    if not any(price.size for price, _ in snapshot.levels.values()):
        style.no_data(ax)
        return Depth(ax, None, None, None)

    low, high = _limits(snapshot, bps)
    colours, patches, highest = style.inside(ax), {}, 0.0
    for side, colour in ((BookSide.BID, colours.up), (BookSide.ASK, colours.down)):
        price, size = snapshot.levels[side]
        if not price.size:
            continue
        total = np.cumsum(size)
        highest = max(highest, total[(price >= low) & (price <= high)].max(initial=0.0))
        # Draw the last level one step wide; without an end it would have no width.
        end = price[-1] + np.sign(price[-1] - price[0] or (1 if side is BookSide.ASK else -1)) * snapshot.step
        edges, values = np.append(price, end), total
        if side is BookSide.BID:
            edges, values = edges[::-1], values[::-1]
        patches[side] = ax.stairs(
            values,
            edges,
            fill=True,
            facecolor=(*style.rgb(colour), 0.3),
            edgecolor=colour,
            linewidth=1.3,
            zorder=2,
            label=f"{side.value.title()}s",
        )
    line = None
    if snapshot.mid is not None:
        text = f"Mid {style.price_text(snapshot.mid, snapshot.step / 2)}"
        line = ax.axvline(
            snapshot.mid, color=colours.poc, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2.2, label=text
        )
        _distance_axis(ax, snapshot.mid)
    ax.set_xlim(low, high)
    ax.set_ylim(0, highest * 1.06 or 1)
    # The legend has room between the two sides, where the curves are low.
    style.legend(ax, [*patches.values(), *([line] if line else [])]).set_loc("upper center")
    return Depth(ax, patches.get(BookSide.BID), patches.get(BookSide.ASK), line)


def slippage(
    book: IntoFrame,
    /,
    *,
    ax: Axes | None = None,
    at: TimeLike | None = None,
    size: Iterable[float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Slippage:
    """Draw the cost of a market order against a book, by order size, for buys and for sells.

    The cost is the average price minus the mid, as in `tidytape.analytics.depth.slippage`, without fees. A
    line ends at the size that the book in the frame can fill.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        As for `depth`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    at : epoch seconds, datetime, date or ISO 8601 string, optional
        The last book at or before this time is drawn; without it the last one there is.
    size : iterable of float, > 0, optional
        The order sizes; by default some thirty, the largest of which is all that rests within 100 bps of the mid on the
        larger side. [as ``amount_unit`` says]
    quote : str, optional
        Unit of the sizes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time in the title.

    Returns
    -------
    Slippage
        The artists. For a frame without a book, or with a side that is empty, the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``buys``, ``sells`` : Line2D or None. Cost by order size; NaN where it is unknown. None if no cost of the side
          is known.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets or a row twice, or an argument is not as listed.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> with tidytape.Client.demo() as client:
    ...     book = client.book_heatmap(
    ...         exchange="DEMO_PERP", raw_symbol="BTC-PERP", interval="1h", start="2024-08-08", end="2024-08-09"
    ...     )
    >>> drawn = slippage(book, size=[1, 10, 100], ax=Figure().add_subplot())
    >>> drawn.ax.get_xlabel(), drawn.ax.get_ylabel()
    ('Order size [BTC, log scale]', 'Slippage [bp]')
    """
    style.zone(timezone)
    snapshot = _read(book, at)
    curve = _curve(snapshot, None if size is None else list(size))
    ax = style.framed_axes(ax, 9, 5)
    style.title(ax, "Slippage", snapshot.title(timezone))
    unit = snapshot.identity.amounts(quote)
    style.x_label(ax, "Order size", f"{unit}, log scale" if unit else "log scale")
    style.y_label(ax, "Slippage", "bp", bins=7)
    colours, lines = style.inside(ax), {}
    for side, colour in ((Side.BUY, colours.up), (Side.SELL, colours.down)):
        sizes, cost = curve[side]
        if not np.isfinite(cost).any():
            continue
        (lines[side],) = ax.plot(
            sizes,
            cost,
            color=colour,
            linewidth=1.6,
            marker="o" if size is not None and sizes.size <= 12 else None,
            markersize=4,
            zorder=2.2,
            label=f"{side.value.title()}s",
        )
    if not lines:
        style.no_data(ax)
        return Slippage(ax, None, None)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(numticks=8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(which="minor", color=style.around(ax).quiet)
    ax.set_ylim(bottom=min(0.0, *(np.nanmin(line.get_ydata()) for line in lines.values())))
    style.legend(ax, list(lines.values()))
    return Slippage(ax, lines.get(Side.BUY), lines.get(Side.SELL))


def _read(frame: IntoFrame, at: TimeLike | None) -> _Book:
    """Read the last book at or before a time; without a time the last book of the frame."""
    columns = ("timestamp", "side", "price", "size")
    rows, identity = market_frame(frame, "book", columns, key=columns[:3])
    rows, time = nanoseconds(rows, "book")
    if at is not None:
        time = time[time <= epoch_seconds(at, "at") * SECOND]
    last = int(time.max()) if time.size else None
    is_last = rows.get_column("timestamp").dt.timestamp("ns") == (-1 if last is None else last)
    rows = rows.filter(is_last)
    block = block_of(rows) or 0.0
    values = numbers(rows, "book", ("price", "size"))
    is_bid = is_side(rows, "book", BookSide.BID)
    is_known = np.isfinite(values["price"]) & np.isfinite(values["size"]) & (values["size"] > 0)
    levels = {}
    for side, is_on_side, sign in ((BookSide.BID, is_bid, -1), (BookSide.ASK, ~is_bid, 1)):
        price, size = (values[name][is_known & is_on_side] for name in ("price", "size"))
        order = np.argsort(sign * price, kind="stable")
        levels[side] = price[order] + block / 2, size[order]
    return _Book(
        identity, rows, last, block, block or smallest_step(np.unique(values["price"][is_known])), levels
    )


def _limits(book: _Book, bps: float | None) -> tuple[float, float]:
    """Return the lowest and the highest price to show."""
    furthest = [price[-1] for price, _ in book.levels.values() if price.size]
    if book.mid is None:  # one side is empty: show the other one
        price = next(price for price, _ in book.levels.values() if price.size)
        return float(price.min() - book.step), float(price.max() + book.step)
    if bps is None:
        reach = (
            min(*(abs(price - book.mid) for price in furthest), abs(book.mid) * _FURTHEST / 1e4) + book.step
        )
    else:
        reach = abs(book.mid) * bps / 1e4
    return book.mid - reach, book.mid + reach


def _distance_axis(ax: Axes, mid: float) -> None:
    """Add an axis at the top that shows the distance of each price from the mid."""

    def to_distance(price: Any) -> Any:
        return (price / mid - 1) * 1e4

    def to_price(distance: Any) -> Any:
        return mid * (1 + distance / 1e4)

    top = ax.secondary_xaxis("top", functions=(to_distance, to_price))
    outer = style.around(ax)
    top.spines["top"].set_visible(False)
    top.tick_params(labelcolor=outer.ink, color=outer.quiet, labelsize="small")
    top.xaxis.set_major_locator(style.round_ticks(8))
    top.set_xlabel(style.label("Distance from the mid", "bp"), color=outer.ink, fontsize="small")


def _curve(
    book: _Book, size: list[float] | None
) -> dict[Side, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return, by side, the order sizes and the slippage of each [bp]."""
    order_sizes = _usual_sizes(book) if size is None else size
    amount: Any = "quote" if book.identity.amount_unit == AmountUnit.USD else "coin"
    costs = books.slippage(book.frame.to_native(), size=order_sizes, amount=amount)
    rows = cast("nw.DataFrame[Any]", nw.from_native(costs))
    sides = rows.get_column("side").cast(nw.String).to_numpy()
    values = numbers(rows, "book", ("size", "slippage"))
    sizes, cost = values["size"], values["slippage"]
    return {side: (sizes[sides == side.value], cost[sides == side.value]) for side in Side}


def _usual_sizes(book: _Book) -> list[float]:
    """Return order sizes, up to the total size that the larger side has near the mid."""
    if book.mid is None:
        return [1.0]
    near = abs(book.mid) * _FURTHEST / 1e4
    totals = [float(size[np.abs(price - book.mid) <= near].sum()) for price, size in book.levels.values()]
    largest = max(totals) or 1.0
    # Include the total of each side, so that its line ends where the side ends.
    ends = {total for total in totals if total > largest * _SMALLEST}
    return sorted(ends.union(np.geomspace(largest * _SMALLEST, largest, _SIZES).tolist()))
