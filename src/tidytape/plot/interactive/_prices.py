"""Prices, volumes and books."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import (
    _candles,
    _depth,
    _footprint,
    _heatmap,
    _liquidations,
    _market_profile,
    _order_flow,
    _panels,
    _profile,
)
from tidytape.plot._plotly import Place, figure, stacked
from tidytape.query._values import TimeLike
from tidytape.sessions import Session

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Widths and heights of the candles, the profile and the volume as shares of the figure.
_PROFILE: tuple[Place, ...] = (
    ("x", "y", (0.0, 0.79), (0.26, 1.0)),
    ("x2", "y", (0.805, 1.0), (0.26, 1.0)),
    ("x", "y2", (0.0, 0.79), (0.0, 0.23)),
)


def candles(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return candles, as `tidytape.plot.candles` draws them.

    Hovering shows open, high, low and close.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        As for `tidytape.plot.candles`. [quote per coin]
    session
        As for `tidytape.plot.candles`.

    Returns
    -------
    plotly.graph_objects.Figure
        One candle per row. If there are more than 5,000 rows, candles of the finest interval that fits; the title then
        says so.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> frame = pl.DataFrame({
    ...     "normalized_symbol": "BTC-USDT", "timestamp": [datetime(2024, 8, 8, h, tzinfo=UTC) for h in (0, 1)],
    ...     "open": [60.0, 62.0], "high": [63.0, 64.0], "low": [59.0, 61.0], "close": [62.0, 61.5],
    ... })
    >>> figure = candles(frame)
    >>> figure.layout.yaxis.title.text, sum(len(trace.x) for trace in figure.data)
    ('Price [USDT per BTC]', 2)
    """
    return figure(
        "candles",
        lambda panel: _candles.fill_candles(panel, frame),
        height=5.4,
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def volume(
    frame: IntoFrame,
    /,
    *,
    quote: str | None = None,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return the traded volume of each interval, as `tidytape.plot.volume` draws it.

    Parameters
    ----------
    frame : frame, n rows, key timestamp, any order
        As for `tidytape.plot.volume`. [as ``amount_unit`` says]
    quote : str, optional
        As for `tidytape.plot.volume`.
    session
        As for `tidytape.plot.volume`.

    Returns
    -------
    plotly.graph_objects.Figure
        One bar per row. If there are more than 5,000 rows, bars of the finest interval that fits; the title then says
        so.
    """
    return figure(
        "volume",
        lambda panel: _candles.fill_volume(panel, frame, quote=quote),
        height=3.4,
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def volume_profile(
    profile: IntoFrame,
    /,
    *,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
    title: str | None = None,
    dark: bool = False,
) -> Figure:
    """Return the volume at each price, with POC and value area, as `tidytape.plot.volume_profile` draws them.

    Parameters
    ----------
    profile : frame, n rows, key (timestamp, price), any order
        As for `tidytape.plot.volume_profile`. [quote per coin; volumes as ``amount_unit`` says]
    share, rule, tie, stop, row_size, quote
        As for `tidytape.plot.volume_profile`.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    return figure(
        "volume_profile",
        lambda panel: _profile.fill_volume_profile(
            panel, profile, rules=_profile.Rules(share, rule, tie, stop, row_size), quote=quote
        ),
        height=6.4,
        dark=dark,
        title=title,
    )


def candles_with_profile(
    candles: IntoFrame,
    profile: IntoFrame,
    /,
    *,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return candles, volume and volume profile, as `tidytape.plot.candles_with_profile` draws them.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `tidytape.plot.candles`, with ``volume``. [quote per coin]
    profile : frame, m rows, key (timestamp, price), any order
        As for `tidytape.plot.candles_with_profile`.
    share, rule, tie, stop, row_size, quote
        As for `tidytape.plot.volume_profile`.
    session
        As for `tidytape.plot.candles_with_profile`.

    Returns
    -------
    plotly.graph_objects.Figure
        Panels that zoom together. If there are more than 5,000 candles, they have the finest interval that fits; the
        title then says so.
    """
    return figure(
        "candles_with_profile",
        lambda *panels: _panels.fill_candles_with_profile(
            panels, candles, profile, rules=_profile.Rules(share, rule, tie, stop, row_size), quote=quote
        ),
        height=6.4,
        places=_PROFILE,
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def market_profile(
    levels: IntoFrame,
    /,
    *,
    style: Literal["blocks", "letters"] = "blocks",
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    block_minutes: float | None = None,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return market profiles, the sessions side by side, as `tidytape.plot.market_profile` draws them.

    Parameters
    ----------
    levels : frame, n rows, one per (timestamp, price), or per (timestamp, block_id, price), any order
        As for `tidytape.plot.market_profile`. [quote per coin]
    style, share, rule, tie, stop, row_size, block_minutes, session
        As for `tidytape.plot.market_profile`.

    Returns
    -------
    plotly.graph_objects.Figure
        Blocks or letters are one image. Hovering over a row shows how many time blocks touched it, and their letters.
    """
    return figure(
        "market_profile",
        lambda panel: _market_profile.fill_market_profile(
            panel,
            levels,
            style=style,
            rules=_profile.Rules(share, rule, tie, stop, row_size),
            block_minutes=block_minutes,
        ),
        height=6.4,
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def footprint(
    profile: IntoFrame,
    /,
    *,
    row_size: float | Decimal | None = None,
    imbalance: float = 3.0,
    quote: str | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return a footprint, as `tidytape.plot.footprint` draws it.

    Parameters
    ----------
    profile : frame, n rows, key (timestamp, price), any order
        As for `tidytape.plot.footprint`. [quote per coin; volumes as ``amount_unit`` says]
    row_size, imbalance, quote
        As for `tidytape.plot.footprint`.

    Returns
    -------
    plotly.graph_objects.Figure
        Numbers ``sold × bought`` appear in rows that are large enough, also while you zoom in. A footprint of more
        than 20,000 rows is refused, because nobody could read it. It is also refused if its gaps are so long that the
        grid of all its rows and intervals has more than 200,000 cells.
    """
    return figure(
        "footprint",
        lambda panel: _footprint.fill_footprint(
            panel, profile, row_size=row_size, imbalance=imbalance, quote=quote
        ),
        height=6.4,
        dark=dark,
        title=title,
        timezone=timezone,
    )


def order_flow(
    candles: IntoFrame,
    sides: IntoFrame,
    /,
    *,
    anchor: Literal["none", "session"] = "none",
    session: Session | str | timedelta | None = None,
    period: str | timedelta | None = None,
    quote: str | None = None,
    title: str | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return candles, delta and cumulative volume delta, as `tidytape.plot.order_flow` draws them.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `tidytape.plot.candles`. [quote per coin]
    sides : frame, m rows, any order
        As for `tidytape.plot.order_flow`. [as ``amount_unit`` says]
    anchor, session, period, quote
        As for `tidytape.plot.order_flow`.

    Returns
    -------
    plotly.graph_objects.Figure
        Three panels that zoom together. If there are more than 5,000 candles, candles and delta have the finest
        interval that fits; the title then says so.
    """
    return figure(
        "order_flow",
        lambda *panels: _order_flow.fill_order_flow(
            panels, candles, sides, start_of_sum=(anchor, session, period), quote=quote
        ),
        height=7.0,
        places=stacked(_order_flow.HEIGHTS),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session if isinstance(session, Session) else None,  # not a length
    )


def liquidations(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    quote: str | None = None,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return the liquidated volume of each interval, as `tidytape.plot.liquidations` draws it.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side), any order
        As for `tidytape.plot.liquidations`. [as ``amount_unit`` says]
    candles : frame, m rows, key timestamp; optional
        Candles of the same coin, whose ``close`` is drawn as a line with an axis at the right. [quote per coin]
    quote : str, optional
        As for `tidytape.plot.liquidations`.
    session
        As for `tidytape.plot.liquidations`.

    Returns
    -------
    plotly.graph_objects.Figure
        Longs above zero, shorts below.
    """
    return figure(
        "liquidations",
        lambda panel: _liquidations.fill_liquidations(panel, frame, candles, quote=quote),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def liquidation_heatmap(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    quote: str | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the liquidated volume by time and price, as `tidytape.plot.liquidation_heatmap` draws it.

    Most exchanges publish only a sample of their liquidations, so volumes are lower bounds.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, price), any order
        As for `tidytape.plot.liquidation_heatmap`. [quote per coin; volumes as ``amount_unit`` says]
    candles, block_size, prices, quote
        As for `tidytape.plot.liquidation_heatmap`.

    Returns
    -------
    plotly.graph_objects.Figure
        The volumes are one image. Hovering shows a volume; if there are more than 20,000 cells, the largest volume of
        neighbouring cells.
    """
    return figure(
        "liquidation_heatmap",
        lambda panel: _liquidations.fill_liquidation_heatmap(
            panel, frame, candles, block_size=block_size, prices=prices, quote=quote
        ),
        height=5.6,
        dark=dark,
        title=title,
        timezone=timezone,
    )


def book_heatmap(
    frame: IntoFrame,
    /,
    *,
    block_size: Decimal | float | None = None,
    prices: tuple[float, float] | None = None,
    trades: IntoFrame | None = None,
    quote: str | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the resting sizes of a book, its mid and trades, as `tidytape.plot.book_heatmap` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (timestamp, side, price), any order
        As for `tidytape.plot.book_heatmap`. [quote per coin; sizes as ``amount_unit`` says]
    block_size, prices, trades, quote
        As for `tidytape.plot.book_heatmap`.

    Returns
    -------
    plotly.graph_objects.Figure
        The book is one image. Hovering shows sizes; if there are more than 20,000 cells, the largest size of
        neighbouring cells.
    """
    return figure(
        "book_heatmap",
        lambda panel: _heatmap.fill_book_heatmap(
            panel, frame, trades, block_size=block_size, prices=prices, quote=quote
        ),
        height=5.6,
        dark=dark,
        title=title,
        timezone=timezone,
    )


def depth(
    book: IntoFrame,
    /,
    *,
    at: TimeLike | None = None,
    bps: float | None = None,
    quote: str | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the size of a book up to each price, as `tidytape.plot.depth` draws it.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        As for `tidytape.plot.depth`. [quote per coin; sizes as ``amount_unit`` says]
    at, bps, quote
        As for `tidytape.plot.depth`.

    Returns
    -------
    plotly.graph_objects.Figure
        Hovering shows the price, its distance from the mid [bps], and the size.
    """
    return figure(
        "depth",
        lambda panel: _depth.fill_depth(panel, book, at=at, bps=bps, quote=quote, timezone=timezone),
        dark=dark,
        title=title,
        timezone=timezone,
    )


def slippage(
    book: IntoFrame,
    /,
    *,
    at: TimeLike | None = None,
    size: Iterable[float] | None = None,
    quote: str | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the cost of a market order by its size, as `tidytape.plot.slippage` draws it.

    Parameters
    ----------
    book : frame, n rows, key (timestamp, side, price), any order
        As for `tidytape.plot.slippage`. [quote per coin; sizes as ``amount_unit`` says]
    at, size, quote
        As for `tidytape.plot.slippage`.

    Returns
    -------
    plotly.graph_objects.Figure
        One line for buys and one for sells. [bps]
    """
    return figure(
        "slippage",
        lambda panel: _depth.fill_slippage(panel, book, at=at, size=size, quote=quote, timezone=timezone),
        dark=dark,
        title=title,
        timezone=timezone,
    )
