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
from tidytape.plot._candles import padded, set_time_limits, spaced
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
    added,
    block_of,
    candle_series,
    dates_of,
    is_side,
    market_frame,
    nanoseconds,
    numbers,
    of_another,
    require_same,
)
from tidytape.times import DAY

_MOST_ROWS = 60  # fewer than of a book: liquidations are sparse, and thin rows would not be visible


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

    Feeds of liquidations are sampled by most exchanges, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side), any order
        Schema LIQUIDATION_AGG of one market or group. Uses ``timestamp`` [UTC], ``side`` (BUY: longs were liquidated)
        and ``liquidations`` [as ``amount_unit`` says]. A side without a row had none.
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
        The artists. A frame with no liquidations says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``longs``, ``shorts`` : StepPatch or None. Volume of each interval: longs above zero, shorts below. None where
          there is no data.
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
    rows, whose = market_frame(
        frame, "frame", ("timestamp", "side", "liquidations"), key=("timestamp", "side")
    )
    rows, time = nanoseconds(rows, "frame")
    amount = numbers(rows, "frame", ("liquidations",))["liquidations"]
    is_long = is_side(rows, "frame", Side.BUY)
    known = np.isfinite(amount) & (amount >= 0)
    closes = None if candles is None else candle_series(candles, "candles")
    if closes is not None:
        require_same("coin", "candles", closes.whose, whose, "the liquidations")
    ax = style.framed_axes(ax, 12, 5, timezone)
    style.amount_axis(ax.yaxis, whose.amounts(quote), bins=6, name="Liquidations")
    another = "" if closes is None else of_another("close", closes.whose, whose)
    style.title(ax, "Liquidations", whose.title, another)
    if not known.any():
        style.no_data(ax)
        return Liquidations(ax, None, None)

    width, colours = width_of(whose, time), style.inside(ax)
    times, place = np.unique(time[known], return_inverse=True)
    starts = dates_of(times)
    drawn = []
    looks = ((is_long, 1, colours.down, "Longs liquidated"), (~is_long, -1, colours.up, "Shorts liquidated"))
    for chosen, sign, colour, name in looks:
        sums = added(place, np.where(chosen[known], amount[known], 0.0), times.size)
        edges, values = spaced(starts, width / DAY, sign * sums, gap=0.0)
        drawn.append(ax.stairs(values, edges, fill=True, color=colour, linewidth=0.5, zorder=2, label=name))
    longs, shorts = drawn
    ax.axhline(0, color=colours.flat, linewidth=0.8, zorder=2.1)
    most = amount[known].max() or 1.0
    ax.set_ylim(-1.08 * most, 1.08 * most)
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

    Feeds of liquidations are sampled by most exchanges, so volumes are lower bounds.

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
        Volumes are added up in rows of this height; without it in the blocks they came in, or several of them where
        they would be more than 60 rows. [quote per coin]
    prices : (float, float), optional
        Lowest and highest price to show; without it, all that have liquidations, and those of the candles.
        [quote per coin]
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    LiquidationHeatmap
        The artists. A frame with no liquidations says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``image`` : AxesImage or None. Volume by price row, ascending, and time column; NaN where nothing was
          liquidated. None where there is no data.
        - ``block_size`` : float or None. Height of a row drawn; None where there is no data. [quote per coin]
        - ``price`` : StepPatch or None. Closing prices; None without candles.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame holds several coins or a row twice, its timestamps are no datetimes or too uneven for columns of one
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
    rows, whose = market_frame(
        frame, "frame", ("timestamp", "price", "liquidations"), key=("timestamp", "price")
    )
    rows, time = nanoseconds(rows, "frame")
    values = numbers(rows, "frame", ("price", "liquidations"))
    price, amount = values["price"], values["liquidations"]
    closes = None if candles is None else candle_series(candles, "candles")
    if closes is not None:
        require_same("coin", "candles", closes.whose, whose, "the liquidations")
    width = width_of(whose, time)
    shown = np.isfinite(price) & np.isfinite(amount) & (amount > 0)
    if prices is not None:
        shown &= (price >= prices[0]) & (price <= prices[1])
    height = None if block_size is None else float(block_size)
    # Use the block size if it is known: sparse levels may be further apart than one block.
    cells = cells_of(time[shown], width, price[shown], height, step=block_of(rows) or 0.0, most=_MOST_ROWS)
    ax = style.framed_axes(ax, 12, 6, timezone)
    # The candles know the unit of prices; a heatmap of all markets of a coin does not.
    priced = whose if closes is None else replace(closes.whose, amount_unit=whose.amount_unit)
    style.price_axis(ax.yaxis, priced.price_unit)
    another = "" if closes is None else of_another("close", closes.whose, whose)
    style.title(ax, "Liquidations by price", whose.title, another)
    if cells is None:
        style.no_data(ax)
        return LiquidationHeatmap(ax, None, None)

    amount = amount[shown]
    image = draw_cells(
        ax,
        cells,
        amount,
        np.ones(amount.size, bool),
        norm=scale_of(amount),
        colours=style.shades(ax, style.inside(ax).value_area_edge, faint=0.55),
    )
    ax.set(xlim=cells.extent[:2], ylim=cells.extent[2:])
    unit = priced.amounts(quote, style.price_text(cells.height, cells.height))
    style.colour_bar(ax, image, "Liquidations", unit)
    line = None
    if closes is not None and closes.start.size:
        edges, steps = spaced(closes.start, closes.width, closes.close)
        line = draw_price(ax, edges, steps, "Close", colour=style.inside(ax).volume)
        ax.set_xlim(min(edges[0], cells.extent[0]), max(edges[-1], cells.extent[1]))
        ends = [*cells.extent[2:], *steps[np.isfinite(steps)]]
        if prices is None:
            ax.set_ylim(*padded(min(ends), max(ends)))
        style.legend(ax, [line] if line else [], place="above")
    return LiquidationHeatmap(ax, image, cells.height, line)


def _price_beside(ax: Axes, closes: CandleSeries) -> tuple[Axes, Line2D]:
    """Draw closing prices on axes of their own over ``ax``, with their ticks at the right."""
    price_ax = ax.twinx()
    # Draw the price below the bars, which matter more.
    price_ax.patch.set(visible=True, facecolor=ax.get_facecolor())
    ax.patch.set_visible(False)
    ax.set_zorder(price_ax.get_zorder() + 1)
    style.frame_axes(price_ax)
    price_ax.grid(visible=False)
    price_ax.spines["right"].set_visible(True)
    style.price_axis(price_ax.yaxis, closes.whose.price_unit)
    edges, steps = spaced(closes.start, closes.width, closes.close)
    shown = ax.get_xlim()
    middle = (edges[1:] + edges[:-1]) / 2
    (line,) = price_ax.plot(middle, steps, color=style.inside(ax).volume, linewidth=1.0, label="Close, right")
    price_ax.set_ylim(*padded(np.nanmin(steps), np.nanmax(steps)))
    if edges[0] < shown[0] or edges[-1] > shown[1]:
        style.show_times(ax, min(edges[0], shown[0]), max(edges[-1], shown[1]))
    return price_ax, line
