"""One order book: the size that rests up to each price, and the cost of a market order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import depth as books
from tidytape.catalogue import AmountUnit, BookSide, Side
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Axis, Facts, Legend, Line, Mark, Panel, Rule, Steps
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
_DISTANCE = "<br>Distance from the mid: %{customdata:,.4~r} bps"


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
    title: str | None = None,
    ax: Axes | None = None,
    at: TimeLike | None = None,
    bps: float | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw the depth of a book: the size from the mid up to each price, bids at the left, asks at the right.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG of one market. Uses ``timestamp`` [UTC], ``side`` (BID or ASK), ``price`` [quote
        per coin] and ``size`` [as ``amount_unit`` says]. If ``block_size`` says how high a level is, the level is drawn
        at its middle, otherwise at its price. Rows that lack a value, and sizes that are not above 0, do not count.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
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
    Drawing
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
    return draw(
        lambda panel: fill_depth(panel, book, at=at, bps=bps, quote=quote, timezone=timezone),
        ax,
        (9, 5),
        title=title,
        timezone=timezone,
    )


def fill_depth(
    panel: Panel,
    book: IntoFrame,
    *,
    at: TimeLike | None,
    bps: float | None,
    quote: str | None,
    timezone: str | tzinfo,
) -> Facts:
    """Show the depth of a book on a panel."""
    if bps is not None and not (np.isfinite(bps) and bps > 0):
        raise QueryError("bps", got=bps, expected="a finite number above 0, or None")
    snapshot = _read(book, at)
    colours = panel.colours
    panel.x = x = Axis("Price", snapshot.identity.price_unit, "price")
    panel.y = y = Axis("Resting up to the price", snapshot.identity.amounts(quote), "amount", bins=6)
    panel.title = style.titled("Order book", snapshot.title(timezone))
    facts = {"bids": None, "asks": None, "mid": None}
    panel.is_empty = not any(price.size for price, _ in snapshot.levels.values())
    if panel.is_empty:
        return facts

    low, high = _limits(snapshot, bps)
    entries: list[Mark] = []
    highest = 0.0
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
        steps = Steps(
            edges,
            values,
            name=f"{side.value.lower()}s",
            label=f"{side.value.title()}s",
            colour=(*to_rgb(colour), 0.3),
            edge=colour,
            width=1.3,
            is_outline=True,
        )
        if snapshot.mid is not None:
            steps.data, steps.hover = (edges / snapshot.mid - 1) * 1e4, _DISTANCE
        entries.append(panel.add(steps))
    if snapshot.mid is not None:
        panel.mid = snapshot.mid
        text = f"Mid {style.price_text(snapshot.mid, snapshot.step / 2)}"
        look: dict[str, Any] = {"colour": colours.poc, "width": 1.1, "dashes": (0, (4, 3)), "order": 2.2}
        entries.append(panel.add(Rule(snapshot.mid, is_upright=True, name="mid", label=text, **look)))
    x.limits, y.limits = (low, high), (0.0, highest * 1.06 or 1.0)
    # The legend has room between the two sides, where the curves are low.
    panel.legend = Legend(entries, loc="upper center")
    return facts


def slippage(
    book: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    at: TimeLike | None = None,
    size: Iterable[float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw the cost of a market order against a book, by order size, for buys and for sells.

    The cost is the average price minus the mid, as in `tidytape.analytics.depth.slippage`, without fees. A
    line ends at the size that the book in the frame can fill.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        As for `depth`.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
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
    Drawing
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
    return draw(
        lambda panel: fill_slippage(panel, book, at=at, size=size, quote=quote, timezone=timezone),
        ax,
        (9, 5),
        title=title,
        timezone=timezone,
    )


def fill_slippage(
    panel: Panel,
    book: IntoFrame,
    *,
    at: TimeLike | None,
    size: Iterable[float] | None,
    quote: str | None,
    timezone: str | tzinfo,
) -> Facts:
    """Show the cost of market orders on a panel."""
    snapshot = _read(book, at)
    curve = _curve(snapshot, None if size is None else list(size))
    panel.title = style.titled("Slippage", snapshot.title(timezone))
    unit = snapshot.identity.amounts(quote)
    panel.x.name, panel.x.unit = "Order size", f"{unit}, log scale" if unit else "log scale"
    panel.y.name, panel.y.unit, panel.y.bins = "Slippage", "bp", 7
    lines = []
    for side, colour in ((Side.BUY, panel.colours.up), (Side.SELL, panel.colours.down)):
        sizes, cost = curve[side]
        if np.isfinite(cost).any():
            name, is_short = f"{side.value.lower()}s", size is not None and sizes.size <= 12
            line = Line(
                sizes,
                cost,
                marker="o" if is_short else None,
                size=4,
                name=name,
                label=name.title(),
                colour=colour,
                width=1.6,
                order=2.2,
            )
            lines.append(panel.add(line))
    panel.is_empty = not lines
    if lines:
        panel.x.is_log = True
        panel.y.low = float(min(0.0, *(np.nanmin(line.y) for line in lines)))
        panel.legend = Legend(lines)
    return {"buys": None, "sells": None}


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
