"""Liquidations over time, and over time and price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from narwhals.stable.v2.typing import IntoFrame

from tidytape.catalogue import Side
from tidytape.plot import _style as style
from tidytape.plot._candles import padded_limits, set_time_limits, step_line
from tidytape.plot._heatmap import (
    cells_of,
    draw_cells,
    draw_price,
    require_height,
    require_prices,
    scale_of,
    width_of,
)
from tidytape.plot._picture import OnePanel
from tidytape.plot._series import (
    CandleSeries,
    block_of,
    candle_series,
    dates_of,
    is_side,
    market_frame,
    nanoseconds,
    numbers,
    other_market_note,
    require_same,
    sums_by_index,
)
from tidytape.times import DAY

_MOST_ROWS = 60  # fewer than for a book: liquidations are sparse, and thin rows would not be visible


@dataclass(frozen=True, slots=True)
class Liquidations(OnePanel):
    """What `liquidations` drew."""

    longs: StepPatch | None
    shorts: StepPatch | None
    price_ax: Axes | None = None
    price: Line2D | None = None


@dataclass(frozen=True, slots=True)
class LiquidationHeatmap(OnePanel):
    """What `liquidation_heatmap` drew."""

    image: AxesImage | None
    block_size: float | None
    price: StepPatch | None = None


def liquidations(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    ax: Axes | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Liquidations:
    """Draw the liquidated volume of each interval: longs above zero, shorts below.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side), any order
        Schema LIQUIDATION_AGG of one market or group. Uses ``timestamp`` [UTC], ``side`` (BUY: longs were liquidated)
        and ``liquidations`` [as ``amount_unit`` says]. A side without a row had no liquidations.
    candles : frame, m rows, key timestamp; optional
        Candles of the same coin, whose ``close`` is drawn as a line with an axis at the right. [quote per coin]
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Liquidations
        The artists. For a frame with no liquidations the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``longs``, ``shorts`` : StepPatch or None. Volume of each interval: longs above zero, shorts below. None
          without data.
        - ``price_ax`` : Axes or None. Axis of the price, at the right; None without candles.
        - ``price`` : Line2D or None. Closing prices; None without candles.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame holds several markets or a row twice, or ``timezone`` is unknown.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> market = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", "start": "2024-08-08", "end": "2024-08-09"}
    >>> with tidytape.Client.demo() as client:
    ...     hours = client.liquidations(interval="1h", **market)
    >>> drawn = liquidations(hours, ax=Figure().add_subplot())
    >>> drawn.ax.get_ylabel()
    'Liquidations [BTC]'
    """
    rows, identity = market_frame(
        frame, "frame", ("timestamp", "side", "liquidations"), key=("timestamp", "side")
    )
    rows, time = nanoseconds(rows, "frame")
    amount = numbers(rows, "frame", ("liquidations",))["liquidations"]
    is_long = is_side(rows, "frame", Side.BUY)
    is_known = np.isfinite(amount) & (amount >= 0)
    closes = None if candles is None else candle_series(candles, "candles")
    if closes is not None:
        require_same("coin", "candles", closes.identity, identity, "the liquidations")
    ax = style.framed_axes(ax, 12, 5, timezone)
    style.amount_axis(ax.yaxis, identity.amounts(quote), bins=6, name="Liquidations")
    other_market = "" if closes is None else other_market_note("close", closes.identity, identity)
    style.title(ax, "Liquidations", identity.title, other_market)
    if not is_known.any():
        style.no_data(ax)
        return Liquidations(ax, None, None)

    width, colours = width_of(identity, time), style.inside(ax)
    times, time_index = np.unique(time[is_known], return_inverse=True)
    starts = dates_of(times)
    drawn = []
    looks = ((is_long, 1, colours.down, "Longs liquidated"), (~is_long, -1, colours.up, "Shorts liquidated"))
    for is_on_side, sign, colour, name in looks:
        sums = sums_by_index(time_index, np.where(is_on_side[is_known], amount[is_known], 0.0), times.size)
        edges, values = step_line(starts, width / DAY, sign * sums, gap=0.0)
        drawn.append(ax.stairs(values, edges, fill=True, color=colour, linewidth=0.5, zorder=2, label=name))
    longs, shorts = drawn
    ax.axhline(0, color=colours.flat, linewidth=0.8, zorder=2.1)
    largest = amount[is_known].max() or 1.0
    ax.set_ylim(-1.08 * largest, 1.08 * largest)
    ax.yaxis.set_major_formatter(lambda value, _: style.short(abs(value)))
    set_time_limits(ax, starts, width / DAY)
    if closes is None or not closes.start.size:
        style.legend(ax, drawn, place="above")
        return Liquidations(ax, longs, shorts)
    price_ax, price = _price_beside(ax, closes)
    style.legend(ax, [*drawn, price], place="above")
    return Liquidations(ax, longs, shorts, price_ax, price)


def liquidation_heatmap(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    ax: Axes | None = None,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> LiquidationHeatmap:
    """Draw the liquidated volume by time and price: stronger colours for more, on a logarithmic scale.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, price), any order
        Schema VENUEX_LIQUIDATION_AGG of one coin. Uses ``timestamp`` [UTC], ``price`` [quote per coin], the low edge of
        its block, and ``liquidations`` [as ``amount_unit`` says].
    candles : frame, m rows, key timestamp; optional
        Candles of the same coin, whose ``close`` is drawn as a line. [quote per coin]
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    block_size : float or Decimal, > 0, optional
        Height of the rows in which volumes are added up. By default a row is one level, or several levels if there
        would be more than 60 rows. [quote per coin]
    prices : (float, float), optional
        Lowest and highest price to show; by default all with liquidations, and those of the candles. [quote per coin]
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    LiquidationHeatmap
        The artists. For a frame with no liquidations the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``image`` : AxesImage or None. Volume by price row, ascending, and time column; NaN where nothing was
          liquidated. None without data.
        - ``block_size`` : float or None. Height of a drawn row; None without data. [quote per coin]
        - ``price`` : StepPatch or None. Closing prices; None without candles.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame holds several coins or a row twice, its timestamps are not datetimes or too uneven for columns of one
        width, or an argument is not as listed.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> with tidytape.Client.demo() as client:
    ...     quarters = client.liquidation_heatmap(
    ...         exchange="DEMO_PERP", coin="BTC", interval="15m", start="2024-08-08", end="2024-08-09"
    ...     )
    >>> drawn = liquidation_heatmap(quarters, ax=Figure().add_subplot())
    >>> drawn.image.get_array().shape[1] > 90
    True
    """
    require_height("block_size", block_size)
    require_prices(prices)
    rows, identity = market_frame(
        frame, "frame", ("timestamp", "price", "liquidations"), key=("timestamp", "price")
    )
    rows, time = nanoseconds(rows, "frame")
    values = numbers(rows, "frame", ("price", "liquidations"))
    price, amount = values["price"], values["liquidations"]
    closes = None if candles is None else candle_series(candles, "candles")
    if closes is not None:
        require_same("coin", "candles", closes.identity, identity, "the liquidations")
    width = width_of(identity, time)
    is_shown = np.isfinite(price) & np.isfinite(amount) & (amount > 0)
    if prices is not None:
        is_shown &= (price >= prices[0]) & (price <= prices[1])
    height = None if block_size is None else float(block_size)
    # Prefer the block size to the smallest difference between prices: sparse levels may all be further apart.
    cells = cells_of(
        time[is_shown], width, price[is_shown], height, step=block_of(rows) or 0.0, most=_MOST_ROWS
    )
    ax = style.framed_axes(ax, 12, 6, timezone)
    # The candles know the unit of prices; a heatmap of all markets of a coin does not.
    with_quote = identity if closes is None else replace(closes.identity, amount_unit=identity.amount_unit)
    style.price_axis(ax.yaxis, with_quote.price_unit)
    other_market = "" if closes is None else other_market_note("close", closes.identity, identity)
    style.title(ax, "Liquidations by price", identity.title, other_market)
    if cells is None:
        style.no_data(ax)
        return LiquidationHeatmap(ax, None, None)

    amount = amount[is_shown]
    image = draw_cells(
        ax,
        cells,
        amount,
        np.ones(amount.size, bool),
        norm=scale_of(amount),
        colours=style.shades(ax, style.inside(ax).value_area_edge, faint=0.55),
    )
    ax.set(xlim=cells.extent[:2], ylim=cells.extent[2:])
    unit = with_quote.amounts(quote, style.price_text(cells.height, cells.height))
    style.colour_bar(ax, image, "Liquidations", unit)
    line = None
    if closes is not None and closes.start.size:
        edges, steps = step_line(closes.start, closes.width, closes.close)
        line = draw_price(ax, edges, steps, "Close", colour=style.inside(ax).volume)
        ax.set_xlim(min(edges[0], cells.extent[0]), max(edges[-1], cells.extent[1]))
        ends = [*cells.extent[2:], *steps[np.isfinite(steps)]]
        if prices is None:
            ax.set_ylim(*padded_limits(min(ends), max(ends)))
        style.legend(ax, [line] if line else [], place="above")
    return LiquidationHeatmap(ax, image, cells.height, line)


def _price_beside(ax: Axes, closes: CandleSeries) -> tuple[Axes, Line2D]:
    """Draw closing prices on a second pair of axes in the place of ``ax``, with their ticks at the right."""
    price_ax = ax.twinx()
    # Draw the price behind the bars, which matter more.
    price_ax.patch.set(visible=True, facecolor=ax.get_facecolor())
    ax.patch.set_visible(False)
    ax.set_zorder(price_ax.get_zorder() + 1)
    style.frame_axes(price_ax)
    price_ax.grid(visible=False)
    price_ax.spines["right"].set_visible(True)
    style.price_axis(price_ax.yaxis, closes.identity.price_unit)
    edges, steps = step_line(closes.start, closes.width, closes.close)
    low, high = ax.get_xlim()
    middle = (edges[1:] + edges[:-1]) / 2
    (line,) = price_ax.plot(middle, steps, color=style.inside(ax).volume, linewidth=1.0, label="Close, right")
    price_ax.set_ylim(*padded_limits(np.nanmin(steps), np.nanmax(steps)))
    if edges[0] < low or edges[-1] > high:
        style.show_times(ax, min(edges[0], low), max(edges[-1], high))
    return price_ax, line
