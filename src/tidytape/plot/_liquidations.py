"""Liquidations over time, and over time and price."""

from __future__ import annotations

from dataclasses import replace
from datetime import tzinfo
from decimal import Decimal

import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame

from tidytape.catalogue import Side
from tidytape.plot import _style as style
from tidytape.plot._candles import padded_limits, show_intervals, step_line
from tidytape.plot._heatmap import (
    add_price,
    cells_of,
    require_height,
    require_prices,
    scale_of,
    show_grid,
)
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Axis, Bar, Facts, Legend, Line, Mark, Panel, Rule, Scale, Steps
from tidytape.plot._series import (
    CandleSeries,
    Identity,
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
    width_of,
)
from tidytape.sessions import Session
from tidytape.times import DAY

_MOST_ROWS = 60  # fewer than for a book: liquidations are sparse, and thin rows would not be visible


def liquidations(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    quote: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw the liquidated volume of each interval: longs above zero, shorts below.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side), any order
        Schema LIQUIDATION_AGG of one market or group. Uses ``timestamp`` [UTC], ``side`` (BUY: longs were liquidated)
        and ``liquidations`` [as ``amount_unit`` says]. A side without a row had no liquidations.
    candles : frame, m rows, key timestamp; optional
        Candles of the same coin, whose ``close`` is drawn as a line with an axis at the right. [quote per coin]
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    session : Session, optional
        When the market trades; closed time is left out then, as in `candles`.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
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
    return draw(
        lambda panel: fill_liquidations(panel, frame, candles, quote=quote),
        ax,
        (12, 5),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_liquidations(
    panel: Panel, frame: IntoFrame, candles: IntoFrame | None, *, quote: str | None
) -> Facts:
    """Show liquidated volumes on a panel."""
    rows, identity = market_frame(
        panel.hours.inside(frame), "frame", ("timestamp", "side", "liquidations"), key=("timestamp", "side")
    )
    rows, time = nanoseconds(rows, "frame")
    amount = numbers(rows, "frame", ("liquidations",))["liquidations"]
    is_long = is_side(rows, "frame", Side.BUY)
    is_known = np.isfinite(amount) & (amount >= 0)
    closes, other_market = _closes(panel.hours.inside(candles, "candles"), identity)
    panel.over_time()
    y, colours = panel.y, panel.colours
    y.kind, y.name, y.unit, y.bins = "amount", "Liquidations", identity.amounts(quote), 6
    y.is_signed = False
    panel.title = style.titled("Liquidations", identity.title, other_market)
    facts = dict.fromkeys(("longs", "shorts", "price_ax", "price"))
    panel.is_empty = not is_known.any()
    if panel.is_empty:
        return facts
    width = width_of(identity, time) / DAY
    times, time_index = np.unique(time[is_known], return_inverse=True)
    starts = dates_of(times)
    entries: list[Mark] = []
    for is_on_side, sign, colour, name in (
        (is_long, 1, colours.down, "Longs liquidated"),
        (~is_long, -1, colours.up, "Shorts liquidated"),
    ):
        sums = sums_by_index(time_index, np.where(is_on_side[is_known], amount[is_known], 0.0), times.size)
        edges, values = step_line(starts, width, sign * sums, gap=0.0)
        entries.append(
            panel.add(
                Steps(
                    edges,
                    values,
                    name=name.partition(" ")[0].lower(),
                    label=name,
                    colour=colour,
                    width=0.5,
                    data=np.abs(values),
                )
            )
        )
    panel.add(Rule(0.0, colour=colours.flat, width=0.8, order=2.1))
    largest = float(amount[is_known].max()) or 1.0
    y.limits = (-1.08 * largest, 1.08 * largest)
    show_intervals(panel, starts, width)
    if closes is not None and closes.start.size:
        entries.append(_add_price_beside(panel, closes))
    panel.legend = Legend(entries, place="above")
    return facts


def liquidation_heatmap(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw the liquidated volume by time and price: stronger colours for more, on a logarithmic scale.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, price), any order
        Schema VENUEX_LIQUIDATION_AGG of one coin. Uses ``timestamp`` [UTC], ``price`` [quote per coin], the low edge of
        its block, and ``liquidations`` [as ``amount_unit`` says].
    candles : frame, m rows, key timestamp; optional
        Candles of the same coin, whose ``close`` is drawn as a line. [quote per coin]
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
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
    Drawing
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
    return draw(
        lambda panel: fill_liquidation_heatmap(
            panel, frame, candles, block_size=block_size, prices=prices, quote=quote
        ),
        ax,
        (12, 6),
        title=title,
        timezone=timezone,
    )


def fill_liquidation_heatmap(
    panel: Panel,
    frame: IntoFrame,
    candles: IntoFrame | None,
    *,
    block_size: Decimal | float | None,
    prices: tuple[float, float] | None,
    quote: str | None,
) -> Facts:
    """Show liquidated volumes by time and price on a panel."""
    require_height("block_size", block_size)
    require_prices(prices)
    rows, identity = market_frame(
        frame, "frame", ("timestamp", "price", "liquidations"), key=("timestamp", "price")
    )
    rows, time = nanoseconds(rows, "frame")
    values = numbers(rows, "frame", ("price", "liquidations"))
    price, amount = values["price"], values["liquidations"]
    closes, other_market = _closes(candles, identity)
    width = width_of(identity, time)
    is_shown = np.isfinite(price) & np.isfinite(amount) & (amount > 0)
    if prices is not None:
        is_shown &= (price >= prices[0]) & (price <= prices[1])
    height = None if block_size is None else float(block_size)
    # Prefer the block size to the smallest difference between prices: sparse levels may all be further apart.
    cells = cells_of(
        time[is_shown], width, price[is_shown], height, step=block_of(rows) or 0.0, most=_MOST_ROWS
    )
    # The candles know the unit of prices; a heatmap of all markets of a coin does not.
    with_quote = identity if closes is None else replace(closes.identity, amount_unit=identity.amount_unit)
    show_grid(panel, cells, with_quote.price_unit)
    panel.title = style.titled("Liquidations by price", identity.title, other_market)
    facts = {"image": None, "block_size": None if cells is None else cells.height, "price": None}
    if cells is None:
        return facts
    amount = amount[is_shown]
    scale = Scale(panel.ground.shades(panel.colours.value_area_edge, faint=0.55), scale_of(amount))
    image = panel.add(cells.image(amount, np.ones(amount.size, bool), scale, name="image"))
    unit = with_quote.amounts(quote, style.price_text(cells.height, cells.height))
    panel.bars.append(Bar(image, scale, "Liquidations", unit))
    if closes is not None and closes.start.size:
        edges, steps = step_line(closes.start, closes.width, closes.close)
        lines = add_price(panel, edges, steps, "Close", artist="price", colour=panel.colours.volume)
        panel.x.limits = min(float(edges[0]), cells.extent[0]), max(float(edges[-1]), cells.extent[1])
        ends = [*cells.extent[2:], *steps[np.isfinite(steps)]]
        if prices is None:
            panel.y.limits = padded_limits(min(ends), max(ends))
        panel.legend = Legend(lines, place="above")
    return facts


def _closes(candles: IntoFrame | None, identity: Identity) -> tuple[CandleSeries | None, str]:
    """Return the candles, and a note if they are of another market; raise if they are of another coin."""
    if candles is None:
        return None, ""
    closes = candle_series(candles, "candles")
    require_same("coin", "candles", closes.identity, identity, "the liquidations")
    return closes, other_market_note("close", closes.identity, identity)


def _add_price_beside(panel: Panel, closes: CandleSeries) -> Line:
    """Add closing prices behind the bars, which matter more, with a vertical axis at the right."""
    edges, steps = step_line(closes.start, closes.width, closes.close)
    limits = padded_limits(np.nanmin(steps), np.nanmax(steps))
    behind = Panel(
        panel.ground,
        panel.hours,
        x=panel.x,
        y=Axis("Price", closes.identity.price_unit, "price", limits=limits),
    )
    line = Line(
        (edges[1:] + edges[:-1]) / 2,
        steps,
        period=closes.width,
        name="price",
        label="Close, right",
        colour=panel.colours.volume,
    )
    panel.twin = behind
    low, high = panel.x.limits or (0.0, 0.0)
    if edges[0] < low or edges[-1] > high:
        panel.show_times(min(float(edges[0]), low), max(float(edges[-1]), high))
    return behind.add(line)
