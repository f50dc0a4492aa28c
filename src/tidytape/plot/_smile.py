"""Volatility by strike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Literal

import matplotlib as mpl
import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import opened, timed

_EXPIRES = time(8, tzinfo=UTC)
_COLOURS = "viridis"
_BRIGHTEST = 0.85  # of the colours on white: yellow is hard to see there
_DARKEST = 0.3  # of the colours on black: violet is hard to see there
_LISTED = 12  # expiries that a legend lists; of more, every second one and so on

_AXES = {"moneyness": ("Log-moneyness ln(K/F)", "1"), "strike": ("Strike", "quote per coin")}


@dataclass(frozen=True, slots=True)
class Smile:
    """What `smile` drew.

    Attributes
    ----------
    ax : matplotlib.axes.Axes
        Where.
    quotes : dict of datetime to matplotlib.lines.Line2D
        By expiry in UTC, the out-of-the-money quotes as dots.
    curves : dict of datetime to matplotlib.lines.Line2D
        By expiry in UTC, what was given as ``curves``.
    """

    ax: Axes
    quotes: dict[datetime, Line2D]
    curves: dict[datetime, Line2D]


def smile(
    chain: IntoFrame,
    /,
    *,
    curves: IntoFrame | None = None,
    x: Literal["moneyness", "strike"] = "moneyness",
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Smile:
    """Draw the volatilities of a chain by strike, one colour per expiry, from dark, the first, to light, the last.

    Parameters
    ----------
    chain : frame, n rows, one per (expiry, strike, option_type), any order
        One chain, of one series and time: the lake's ``option_quotes``, or a frame with ``timestamp``, ``expiry``,
        ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin] and ``implied_volatility`` [%]. Shown
        are the out-of-the-money options, puts below their forward and calls from it on. Times are datetimes or
        int64 nanoseconds since the epoch; an ``expiry`` that is a date is 08:00 UTC of it.
    curves : frame, n rows, one per (expiry, moneyness), any order; optional
        Curves to draw beside the quotes, as `tidytape.analytics.options.smile` returns them, of the same chain.
    x : {"moneyness", "strike"}
        What is right: ln(K/F) or K.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the times in title and legend.

    Returns
    -------
    Smile
        The artists. A frame with no quotes says "no data".

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
    """
    zone, zone_name = style.zone(timezone)  # before a figure is made for nothing
    if x not in _AXES:
        raise QueryError("x", got=x, expected="one of " + ", ".join(_AXES))
    quotes = _opened(
        chain, "chain", ("timestamp", "expiry", "option_type", "strike", "forward", "implied_volatility")
    )
    title, now = _title(quotes, "chain", zone, zone_name)
    dots = _dots(quotes, x)
    lines: _Places = {}
    if curves is not None:
        given = _opened(curves, "curves", ("timestamp", "expiry", x, "implied_volatility"))
        # Of `curves` the title is that of the chain, or they are of another.
        if (other := _title(given, "curves", zone, zone_name)[0]) not in {title, ""}:
            raise QueryError("curves", got=f"those of {other}", expected=f"those of {title}")
        lines = _by_expiry(given, given[x].to_numpy(), given["implied_volatility"].to_numpy())

    ax = ax or style.new_axes(9, 5)
    style.frame_axes(ax)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]))
    if x == "strike":
        style.price_axis(ax.xaxis, "")
    style.x_label(ax, *_AXES[x])
    style.y_label(ax, "Implied volatility", "%")
    style.title(ax, title)
    expiries = sorted({**dots, **lines})
    colours = dict(zip(expiries, _shades(ax, len(expiries)), strict=True))
    drawn: dict[str, dict[datetime, Line2D]] = {"dots": {}, "lines": {}}
    for expiry in expiries:
        if expiry in dots:
            (drawn["dots"][expiry],) = ax.plot(
                *dots[expiry], color=colours[expiry], linestyle="none", marker="o", markersize=3, zorder=2.2
            )
        if expiry in lines:
            (drawn["lines"][expiry],) = ax.plot(
                *lines[expiry], color=colours[expiry], linewidth=1.2, zorder=2.1
            )
    if not expiries:
        style.no_data(ax)
    else:
        _legend(ax, drawn["lines"] | drawn["dots"], now, zone, zone_name)
    return Smile(ax, drawn["dots"], drawn["lines"])


_Places = dict[datetime, tuple[list[float], list[float]]]


def _opened(frame: object, parameter: str, needed: tuple[str, ...]) -> nw.DataFrame[Any]:
    frame = timed(opened(frame, parameter, needed), parameter)
    if "expiry" in needed and frame.schema["expiry"] != nw.Date:
        frame = timed(frame, parameter, "expiry")
    return frame


def _title(
    frame: nw.DataFrame[Any], parameter: str, zone: tzinfo, zone_name: str
) -> tuple[str, datetime | None]:
    """Return what a chain is called, and its time; QueryError if there are several."""
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


def _dots(quotes: nw.DataFrame[Any], x: str) -> _Places:
    """Return the out-of-the-money quotes of each expiry."""
    strike, forward, volatility = (
        quotes[name].cast(nw.Float64).to_numpy().astype(float)
        for name in ("strike", "forward", "implied_volatility")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        moneyness = np.log(strike / forward)
    kind = quotes["option_type"].cast(nw.String).to_list()
    shown = np.array(
        [name == ("CALL" if place >= 0 else "PUT") for name, place in zip(kind, moneyness, strict=True)], bool
    )
    volatility = np.where(shown & np.isfinite(moneyness) & (volatility > 0), volatility, np.nan)
    return _by_expiry(quotes, moneyness if x == "moneyness" else strike, volatility, gaps=False)


def _by_expiry(frame: nw.DataFrame[Any], x: Any, y: Any, *, gaps: bool = True) -> _Places:
    """Return x in order and y of each expiry, of which some y is known; those that are not, as gaps or not at all."""
    rows: dict[datetime, list[tuple[float, float]]] = {}
    for expiry, right, up in zip(frame["expiry"].to_list(), x, y, strict=True):
        if expiry is not None and np.isfinite(right) and (gaps or np.isfinite(up)):
            rows.setdefault(_utc(expiry), []).append((float(right), float(up)))
    ordered = {expiry: sorted(places) for expiry, places in rows.items()}
    return {
        expiry: ([right for right, _ in places], [up for _, up in places])
        for expiry, places in ordered.items()
        if any(np.isfinite(up) for _, up in places)
    }


def _utc(moment: date) -> datetime:
    """Return a time in UTC; a date is the time of the day at which options expire."""
    if not isinstance(moment, datetime):
        return datetime.combine(moment, _EXPIRES)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _colours() -> Colormap:
    return mpl.colormaps[_COLOURS]


def _shades(ax: Axes, number: int) -> list[Any]:
    ends = (_DARKEST, 1.0) if style.is_dark(ax) else (0.0, _BRIGHTEST)
    return [_colours()(share) for share in np.linspace(*ends, max(number, 1))][:number]


def _legend(
    ax: Axes, lines: dict[datetime, Line2D], now: datetime | None, zone: tzinfo, zone_name: str
) -> None:
    """List the expiries, with how far they are."""
    step = -(-len(lines) // _LISTED)
    for expiry in sorted(lines)[::step]:
        left = "" if now is None else f" ({(expiry - now) / timedelta(days=1):.3g} d)"
        lines[expiry].set_label(f"{expiry.astimezone(zone):%Y-%m-%d}{left}")
    # Beside the axes: smiles leave no corner free.
    style.legend(ax, title=f"Expiry [{zone_name}]", place="beside")
