"""Funding, open interest, several markets, options, and what data there are."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Literal

from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import (
    _completeness,
    _coverage,
    _cross,
    _funding,
    _open_interest,
    _smile,
    _surface,
    _term_structure,
    _volatility,
)
from tidytape.plot import _style as style
from tidytape.plot._plotly import figure, stacked
from tidytape.sessions import Session

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def funding(
    frame: IntoFrame,
    /,
    *,
    open_interest: IntoFrame | None = None,
    funding_interval: str | timedelta | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return funding rates per year, as `tidytape.plot.funding` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.funding`. [1 per funding interval]
    open_interest, funding_interval
        As for `tidytape.plot.funding`.

    Returns
    -------
    plotly.graph_objects.Figure
        Settled rates as solid steps, predicted ones dashed. [% per year]
    """
    return figure(
        "funding",
        lambda panel: _funding.fill_funding(panel, frame, open_interest, funding_interval=funding_interval),
        dark=dark,
        title=title,
        timezone=timezone,
    )


def open_interest(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    price_band: float = 0.0,
    oi_band: float = 0.0,
    by: str | Iterable[str] | None = None,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return open interest, and with candles also which positions were opened or closed.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.open_interest`. [as ``amount_unit`` says]
    candles : frame of the same kind, m rows, key timestamp, any order; optional
        As for `tidytape.plot.open_interest`. [quote per coin]
    price_band, oi_band, by
        As for `tidytape.plot.open_interest`.
    session
        As for `tidytape.plot.open_interest`.

    Returns
    -------
    plotly.graph_objects.Figure
        One panel, or three with candles. If there are more than 5,000 candles, the candles and the open interest have
        the finest interval that fits; the title then says so.
    """
    return figure(
        "open_interest",
        lambda *panels: _open_interest.fill_open_interest(
            panels, frame, candles, price_band=price_band, oi_band=oi_band, by=by
        ),
        height=4.8 if candles is None else 7.2,
        places=stacked((1.0,) if candles is None else _open_interest.HEIGHTS),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def premium(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return the premium of each market over a reference price, as `tidytape.plot.premium` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.premium`. [1]
    session
        As for `tidytape.plot.premium`.

    Returns
    -------
    plotly.graph_objects.Figure
        One line per market. [bp]
    """
    return figure(
        "premium",
        lambda panel: _cross.fill_premium(panel, frame),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def market_share(
    frame: IntoFrame,
    /,
    *,
    amount: str = "",
    most: int = len(style.CYCLE),
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return the share of each market in the sum of all markets, as `tidytape.plot.market_share` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As for `tidytape.plot.market_share`. [1]
    amount, most
        As for `tidytape.plot.market_share`.
    session
        As for `tidytape.plot.market_share`.

    Returns
    -------
    plotly.graph_objects.Figure
        One area per market. [%]
    """
    return figure(
        "market_share",
        lambda panel: _cross.fill_market_share(panel, frame, amount=amount, most=most),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def volatility(
    frame: IntoFrame,
    /,
    *,
    realized: IntoFrame | None = None,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return implied volatility over time, as `tidytape.plot.volatility` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        As for `tidytape.plot.volatility`. [%]
    realized : frame, m rows, key timestamp, any order; optional
        As for `tidytape.plot.volatility`. [%]
    session
        As for `tidytape.plot.volatility`.

    Returns
    -------
    plotly.graph_objects.Figure
        One line per tenor, and one of the realised volatility. [%]
    """
    return figure(
        "volatility",
        lambda panel: _volatility.fill_volatility(panel, frame, realized),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def skew(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
    dark: bool = False,
) -> Figure:
    """Return skew, or risk reversals, over time, as `tidytape.plot.skew` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        As for `tidytape.plot.skew`. [vol points]
    session
        As for `tidytape.plot.skew`.

    Returns
    -------
    plotly.graph_objects.Figure
        One line per tenor. [vol points]
    """
    return figure(
        "skew",
        lambda panel: _volatility.fill_skew(panel, frame),
        dark=dark,
        title=title,
        timezone=timezone,
        session=session,
    )


def smile(
    chain: IntoFrame,
    /,
    *,
    curves: IntoFrame | None = None,
    x: Literal["moneyness", "deviation", "strike"] = "moneyness",
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return the volatilities of a chain by strike, as `tidytape.plot.smile` draws them.

    Parameters
    ----------
    chain : frame, n rows, one per (expiry, strike, option_type), any order
        As for `tidytape.plot.smile`. [quote per coin; volatilities in %]
    curves, x
        As for `tidytape.plot.smile`.

    Returns
    -------
    plotly.graph_objects.Figure
        Quotes as dots, the range from bid to ask as lines, and curves. A click on an expiry in the legend hides all
        marks of that expiry.
    """
    return figure(
        "smile",
        lambda panel: _smile.fill_smile(panel, chain, curves, x=x, timezone=timezone),
        height=5.4,
        dark=dark,
        title=title,
        timezone=timezone,
    )


def surface(
    frame: IntoFrame,
    /,
    *,
    y: Literal["moneyness", "deviation"] | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return a surface of volatilities, as `tidytape.plot.surface` draws it.

    Parameters
    ----------
    frame : frame, n rows, one per expiry or one per (days, moneyness), any order
        As for `tidytape.plot.surface`. [d; 1; %]
    y : {"moneyness", "deviation"}, optional
        As for `tidytape.plot.surface`.

    Returns
    -------
    plotly.graph_objects.Figure
        The surface is one image. Hovering shows the volatility; if there are more than 20,000 cells, that of some
        cells.
    """
    return figure(
        "surface",
        lambda panel: _surface.fill_surface(panel, frame, y=y, timezone=timezone),
        height=5.4,
        dark=dark,
        title=title,
        timezone=timezone,
    )


def term_structure(
    frame: IntoFrame,
    /,
    *,
    value: Literal["implied_volatility", "skew"] | None = None,
    as_map: bool | None = None,
    title: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return volatility or skew by tenor or by days to expiry, as `tidytape.plot.term_structure` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, tenor, timestamp), any order
        As for `tidytape.plot.term_structure`. [%; vol points]
    value, as_map
        As for `tidytape.plot.term_structure`.

    Returns
    -------
    plotly.graph_objects.Figure
        Curves, or a map as one image.
    """
    return figure(
        "term_structure",
        lambda panel: _term_structure.fill_term_structure(
            panel, frame, value=value, as_map=as_map, timezone=timezone
        ),
        height=5.4,
        dark=dark,
        title=title,
        timezone=timezone,
    )


def coverage(
    frame: IntoFrame, /, *, title: str | None = None, timezone: str | tzinfo = "UTC", dark: bool = False
) -> Figure:
    """Return the times and gaps of the data, as `tidytape.plot.coverage` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, coin, type), any order
        As for `tidytape.plot.coverage`.

    Returns
    -------
    plotly.graph_objects.Figure
        One row per market and table of events. Hovering says when a span or a gap began and ended.
    """
    return figure(
        "coverage",
        lambda panel: _coverage.fill_coverage(panel, _coverage.read_coverage(frame), timezone=timezone),
        dark=dark,
        title=title,
        timezone=timezone,
    )


def completeness(
    frame: IntoFrame, /, *, title: str | None = None, timezone: str | tzinfo = "UTC", dark: bool = False
) -> Figure:
    """Return how complete series are as a calendar, as `tidytape.plot.completeness` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (series, start), any order
        As for `tidytape.plot.completeness`. [1]

    Returns
    -------
    plotly.graph_objects.Figure
        One row per series. Hovering says the share of each day or hour. [%]
    """
    return figure(
        "completeness",
        lambda panel: _completeness.fill_completeness(panel, *_completeness.read_completeness(frame)),
        dark=dark,
        title=title,
        timezone=timezone,
    )
