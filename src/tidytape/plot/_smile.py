"""Volatility by strike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Literal

import matplotlib as mpl
import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import options
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import padded
from tidytape.plot._frame import opened, timed
from tidytape.plot._picture import OnePanel

Floats = NDArray[np.float64]

_EXPIRES = time(8, tzinfo=UTC)
COLOURS = "viridis"
_BRIGHTEST = 0.85  # last share of the colours that is used on white: yellow is hard to see there
_DARKEST = 0.3  # first share of the colours that is used on black: violet is hard to see there
_LISTED = 12  # expiries that a legend lists; of more expiries it lists every second, every third and so on

_AXES = {
    "moneyness": ("Log-moneyness ln(K/F)", "1"),
    "deviation": ("Log-moneyness ln(K/F) / (σ√T)", "standard deviations"),
    "strike": ("Strike", "quote per coin"),
}
_FIT = {"a", "b", "rho", "m", "sigma"}
_DEVIATIONS = 5.0  # standard deviations that are in view on either side
_STEPS = 200  # points of a fitted curve
_SPREAD = ("bid_iv", "ask_iv")


@dataclass(frozen=True, slots=True)
class Smile(OnePanel):
    """What `smile` drew."""

    quotes: dict[datetime, Line2D]
    curves: dict[datetime, Line2D]
    spreads: dict[datetime, LineCollection]


def smile(
    chain: IntoFrame,
    /,
    *,
    curves: IntoFrame | None = None,
    x: Literal["moneyness", "deviation", "strike"] = "moneyness",
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Smile:
    """Draw the volatilities of a chain by strike, one colour per expiry, from dark, the first, to light, the last.

    Parameters
    ----------
    chain : frame, n rows, one per (expiry, strike, option_type), any order
        One chain, of one series and time: the lake's ``option_quotes``, or a frame with ``timestamp``, ``expiry``,
        ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin] and ``implied_volatility`` [%]. Shown
        are the out-of-the-money options, puts below their forward and calls from it on, and, where the chain has
        ``bid_iv`` and ``ask_iv`` [%], a line from one to the other. Times are datetimes or int64 nanoseconds since the
        epoch; an ``expiry`` that is a date is 08:00 UTC of it.
    curves : frame, n rows, one per (expiry, moneyness) or one per expiry, any order; optional
        Curves to draw beside the quotes, of the same chain: as `tidytape.analytics.options.smile` returns them, or fits
        as `tidytape.analytics.options.svi` does.
    x : {"moneyness", "deviation", "strike"}
        What is right: ln(K/F); the same in standard deviations, with σ of the quote nearest to the forward, so that
        smiles of a day and of a year are as wide, of which 5 either side are in view; or K.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the times in title and legend.

    Returns
    -------
    Smile
        The artists. A frame with no quotes says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``quotes`` : dict of datetime to Line2D. By expiry in UTC, the out-of-the-money quotes as dots, which a thin
          line joins where no curve does.
        - ``curves`` : dict of datetime to Line2D. By expiry in UTC, the curve of the argument ``curves``.
        - ``spreads`` : dict of datetime to LineCollection. By expiry in UTC, a line from bid to ask at each quote that
          has both.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame is none or holds several chains, or an argument is not as listed.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["PUT", "CALL", "CALL"], "strike": [90.0, 90.0, 110.0], "forward": 100.0,
    ...         "implied_volatility": [60.0, 61.0, 50.0],
    ...     }
    ... )
    >>> drawn = smile(chain, x="strike", ax=Figure().add_subplot())
    >>> [line.get_xydata().tolist() for line in drawn.quotes.values()]
    [[[90.0, 60.0], [110.0, 50.0]]]

    The demo's chain with its fit:

    >>> from tidytape import Client
    >>> from tidytape.analytics import options
    >>> with Client.demo() as client:
    ...     quotes = client.events("option_quotes", coin="BTC", start="2024-08-08", end="2024-08-08T00:01")
    >>> chain = quotes.filter(pl.col("timestamp") == pl.col("timestamp").max())
    >>> drawn = smile(chain, curves=options.svi(chain), ax=Figure().add_subplot())
    >>> drawn.ax.get_ylabel()
    'Implied volatility [%]'
    """
    zone, zone_name = style.zone(timezone)  # refuse an unknown zone before a figure is made
    if x not in _AXES:
        raise QueryError("x", got=x, expected="one of " + ", ".join(_AXES))
    quotes = _opened(
        chain, "chain", ("timestamp", "expiry", "option_type", "strike", "forward", "implied_volatility")
    )
    title, now = _title(quotes, "chain", zone, zone_name)
    place = "strike" if x == "strike" else "moneyness"
    dots = _dots(quotes, place)
    lines: _Smiles = {}
    if curves is not None:
        curve_rows = _fitted(curves, place)
        # A curve with another title is of another chain.
        if (other := _title(curve_rows, "curves", zone, zone_name)[0]) not in {title, ""}:
            raise QueryError("curves", got=f"those of {other}", expected=f"those of {title}")
        lines = _by_expiry(curve_rows, [_floats(curve_rows, name) for name in (place, "implied_volatility")])
    if x == "deviation":
        scales = _deviations(lines | dots, now)
        dots, lines = _scaled(dots, scales), _scaled(lines, scales)

    ax = style.framed_axes(ax, 9, 5)
    if x == "strike":
        style.price_axis(ax.xaxis, "")
    style.x_label(ax, *_AXES[x])
    style.y_label(ax, "Implied volatility", "%", bins=8)
    expiries = sorted({**dots, **lines})
    style.title(ax, "Volatility smile", title, f"{len(expiries)} expiries" if len(expiries) > 1 else "")
    drawn = Smile(ax, {}, {}, {})
    for expiry, colour in zip(expiries, _shades(ax, len(expiries)), strict=True):
        if expiry in dots:
            place_of, volatility, bid, ask = dots[expiry]
            (drawn.quotes[expiry],) = ax.plot(
                place_of,
                volatility,
                color=colour,
                linestyle="none" if expiry in lines else "solid",  # a curve joins these dots
                linewidth=0.7,
                marker="o",
                markersize=3,
                zorder=2.2,
            )
            both = np.isfinite(bid) & np.isfinite(ask)
            if both.any():
                ends = np.array([[place_of, bid], [place_of, ask]]).transpose(2, 0, 1)[both]
                spread = LineCollection(list(ends), colors=[colour], linewidths=1.6, alpha=0.5, zorder=2.0)
                drawn.spreads[expiry] = spread
                ax.add_collection(spread)
        if expiry in lines:
            (drawn.curves[expiry],) = ax.plot(*lines[expiry], color=colour, linewidth=1.2, zorder=2.1)
    if not expiries:
        style.no_data(ax)
    else:
        if x == "deviation":
            _set_view(ax, [*dots.values(), *lines.values()])
        _legend(drawn, now, zone, zone_name)
    return drawn


_Smiles = dict[datetime, Floats]
"""For each expiry an array with rows: places in order, volatilities and, for quotes, bids and asks."""


def _opened(frame: object, parameter: str, needed: tuple[str, ...]) -> nw.DataFrame[Any]:
    frame = timed(opened(frame, parameter, needed), parameter)
    if "expiry" in needed and frame.schema["expiry"] != nw.Date:
        frame = timed(frame, parameter, "expiry")
    return frame


def _title(
    frame: nw.DataFrame[Any], parameter: str, zone: tzinfo, zone_name: str
) -> tuple[str, datetime | None]:
    """Return the name and the time of a chain; raise QueryError if the frame has several."""
    named = [name for name in ("exchange", "coin", "timestamp") if name in frame.columns]
    chains = frame.select(*named).drop_nulls("timestamp").unique()
    if len(chains) > 1:
        raise QueryError(
            parameter,
            got=f"{len(chains)} chains",
            expected="one, of one exchange, coin and timestamp",
            hint="filter the frame to one of them first",
        )
    if not len(chains):
        return "", None
    *whose, moment = chains.row(0)
    now = _utc(moment)
    text = now.astimezone(zone).strftime("%Y-%m-%d %H:%M")
    return ", ".join(
        filter(None, [" ".join(str(name) for name in whose if name), f"{text} {zone_name}"])
    ), now


def _fitted(curves: object, place: str) -> nw.DataFrame[Any]:
    """Return the rows of curves; fits are evaluated first."""
    frame = opened(curves, "curves")
    if _FIT.issubset(frame.columns) and "implied_volatility" not in frame.columns:
        curves = options.smile(frame.to_native(), steps=_STEPS)
    return _opened(curves, "curves", ("timestamp", "expiry", place, "implied_volatility"))


def _floats(frame: nw.DataFrame[Any], name: str) -> Floats:
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    return frame[name].cast(nw.Float64).to_numpy().astype(np.float64)


def _dots(quotes: nw.DataFrame[Any], place: str) -> _Smiles:
    """Return the out-of-the-money quotes of each expiry."""
    names = ("strike", "forward", "implied_volatility", *_SPREAD)
    strike, forward, volatility, bid, ask = (_floats(quotes, name) for name in names)
    with np.errstate(divide="ignore", invalid="ignore"):
        moneyness = np.log(strike / forward)
    kind = quotes["option_type"].cast(nw.String).to_list()
    shown = np.array(
        [name == ("CALL" if money >= 0 else "PUT") for name, money in zip(kind, moneyness, strict=True)], bool
    )
    volatility = np.where(shown & np.isfinite(moneyness) & (volatility > 0), volatility, np.nan)
    places = moneyness if place == "moneyness" else strike
    return _by_expiry(quotes, [places, volatility, bid, ask], gaps=False)


def _by_expiry(frame: nw.DataFrame[Any], columns: list[Floats], *, gaps: bool = True) -> _Smiles:
    """Return the smile of each expiry that has a known volatility; unknown volatilities are gaps, or left out."""
    places, volatility = columns[:2]
    rows_by_expiry: dict[datetime, list[int]] = {}
    for row, expiry in enumerate(frame["expiry"].to_list()):
        if expiry is not None and np.isfinite(places[row]) and (gaps or np.isfinite(volatility[row])):
            rows_by_expiry.setdefault(_utc(expiry), []).append(row)
    smiles = {}
    for expiry, rows in rows_by_expiry.items():
        smile = np.array(columns)[:, rows]
        if np.isfinite(smile[1]).any():
            smiles[expiry] = smile[:, np.argsort(smile[0], kind="stable")]
    return smiles


def _deviations(smiles: _Smiles, now: datetime | None) -> dict[datetime, float]:
    """Return for each expiry the standard deviation of ln(K/F), from the volatility nearest to the forward."""
    deviations = {}
    for expiry, (moneyness, volatility, *_) in smiles.items():
        years = 0.0 if now is None else (expiry - now) / timedelta(days=365)
        known = np.isfinite(volatility)
        nearest = volatility[known][np.argmin(np.abs(moneyness[known]))]
        if years > 0:
            deviations[expiry] = float(nearest / 100 * np.sqrt(years))
    return deviations


def _set_view(ax: Axes, smiles: list[Floats]) -> None:
    """Show the quotes within some deviations: strikes further out would squeeze them."""
    places, volatility = np.hstack([smile[:2] for smile in smiles])
    in_view = (np.abs(places) <= _DEVIATIONS) & np.isfinite(volatility)
    if in_view.any():
        low, high = volatility[in_view].min(), volatility[in_view].max()
        ax.set_xlim(max(-_DEVIATIONS, places.min() - 0.2), min(_DEVIATIONS, places.max() + 0.2))
        ax.set_ylim(*padded(low, high))


def _scaled(smiles: _Smiles, scales: dict[datetime, float]) -> _Smiles:
    return {
        expiry: np.vstack([smile[:1] / scales[expiry], smile[1:]])
        for expiry, smile in smiles.items()
        if expiry in scales
    }


def _utc(moment: date) -> datetime:
    """Return a time in UTC; a date becomes the time of day at which options expire."""
    if not isinstance(moment, datetime):
        return datetime.combine(moment, _EXPIRES)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _shades(ax: Axes, number: int) -> list[Any]:
    ends = (_DARKEST, 1.0) if style.is_dark(ax) else (0.0, _BRIGHTEST)
    return [mpl.colormaps[COLOURS](share) for share in np.linspace(*ends, max(number, 1))][:number]


def _legend(drawn: Smile, now: datetime | None, zone: tzinfo, zone_name: str) -> None:
    """List the expiries with their days to expiry, and explain dots and lines."""
    ax, lines = drawn.ax, drawn.curves | drawn.quotes
    named = sorted(lines)[:: -(-len(lines) // _LISTED)]
    for expiry in named:
        days_left = "" if now is None else f" ({(expiry - now) / timedelta(days=1):.3g} d)"
        lines[expiry].set_label(f"{expiry.astimezone(zone):%Y-%m-%d}{days_left}")
    ink = style.around(ax).ink
    what: list[tuple[Any, dict[str, Any], str]] = [
        (drawn.quotes, {"marker": "o", "markersize": 3, "linestyle": "none"}, "mark"),
        (drawn.spreads, {"marker": "|", "markersize": 9, "linestyle": "none", "alpha": 0.6}, "bid to ask"),
        (drawn.curves, {"linewidth": 1.2}, "curve"),
    ]
    keys = [Line2D([], [], color=ink, label=name, **look) for shown, look, name in what if shown]
    handles = [lines[expiry] for expiry in named] + (keys if len(keys) > 1 else [])
    # Beside the axes: smiles leave no corner free.
    style.legend(ax, handles, title=f"Expiry [{zone_name}]", place="beside")
