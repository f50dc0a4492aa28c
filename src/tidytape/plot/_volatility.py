"""Volatility and skew over time, one line per tenor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from narwhals.stable.v2.typing import IntoFrame

from tidytape.catalogue import Tenor
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import missing, read_frame
from tidytape.plot._picture import OnePanel
from tidytape.plot._series import _values, require_same
from tidytape.plot._smile import _shades
from tidytape.plot._tracks import IDENTITY_COLUMNS, Track, Tracks, draw_line, legend_place, set_window, tracks

_MOST = 12  # lines that can be told apart
_TENORS = {tenor.value: tenor for tenor in Tenor}
_RISK_REVERSAL = re.compile(r"rr(\d+)_call_minus_put")


@dataclass(frozen=True, slots=True)
class Volatility(OnePanel):
    """What `volatility` drew."""

    lines: dict[float, Line2D]
    realized: Line2D | None


@dataclass(frozen=True, slots=True)
class Skew(OnePanel):
    """What `skew` drew."""

    lines: dict[float, Line2D]


def volatility(
    frame: IntoFrame,
    /,
    *,
    realized: IntoFrame | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Volatility:
    """Draw implied volatility over time: one line per tenor, dark for the shortest, light for the longest.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        Schema IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG of one market, or as
        `tidytape.analytics.options.constant_maturity` and `tidytape.analytics.options.term_structure` return it, with
        ``days`` [d] in place of ``tenor``. Uses ``timestamp`` [UTC] and ``implied_volatility`` or ``iv_atm`` [%].
    realized : frame, m rows, key timestamp, any order; optional
        Realised volatility to draw beside the implied one, as `tidytape.analytics.options.realized_volatility` returns
        it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Volatility
        The artists. For a frame without a volatility the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``lines`` : dict of float to Line2D. By days to expiry, the implied volatility. [%]
        - ``realized`` : Line2D or None. The realised volatility; None if it was not passed. [%]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame has several markets or intervals, or several rows of one tenor and time; if there are more than 12
        maturities; or if ``timezone`` is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> window = {"interval": "1h", "start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     summary = client.implied_volatility(exchange="DEMO_OPTIONS", raw_symbol="BTC_ATM", **window)
    >>> volatility(summary, ax=Figure().add_subplot()).ax.get_ylabel()
    'Implied volatility [%]'
    """
    summary = read_frame(frame, "frame", ["timestamp"])
    value = next((name for name in ("implied_volatility", "iv_atm") if name in summary.columns), None)
    if value is None:
        raise missing(["implied_volatility"], summary.columns)
    series, by_days = _by_days(summary, value)
    realized_frame = (
        None if realized is None else read_frame(realized, "realized", ["timestamp", "realized_volatility"])
    )
    realized_series = (
        None if realized_frame is None else tracks(realized_frame, "realized", ["realized_volatility"])
    )
    if realized_series is not None and len(realized_series.by_label) > 1:
        raise _several("realized", realized_series)
    if realized_series is not None:
        require_same("coin", "realized", realized_series.shared, series.shared, "the implied ones")
    ax, lines = _drawn(ax, series, by_days, value, timezone)
    style.y_label(ax, "Volatility" if realized_series else "Implied volatility", "%")
    line = None
    if realized_series is not None and realized_frame is not None and realized_series.by_label:
        (track,) = realized_series.by_label.values()
        line = draw_line(
            ax,
            *track.line("realized_volatility"),
            color=style.inside(ax).down,
            linewidth=1.9,
            label=_realized_name(realized_frame, realized_series),
            zorder=2.3,
        )
    _finish(ax, "Volatility", lines, series, [line] if line else [])
    return Volatility(ax, lines, line)


def skew(frame: IntoFrame, /, *, ax: Axes | None = None, timezone: str | tzinfo = "UTC") -> Skew:
    """Draw skew, or risk reversals, over time: one line per tenor, dark for the shortest, light for the longest.

    The axis label says the sign: the service's ``skew`` is the volatility of the put minus that of the call; a risk
    reversal is that of the call minus that of the put.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        Schema SKEW_OPTION_SUMMARY_AGG of one market, or as `tidytape.analytics.options.risk_reversal` and
        `tidytape.analytics.options.term_structure` return it, with ``days`` [d] in place of ``tenor``. Uses
        ``timestamp`` [UTC] and ``skew`` or a column such as ``rr25_call_minus_put`` [vol points].
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Skew
        The artists. For a frame without a skew the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``lines`` : dict of float to Line2D. By days to expiry, the skew or risk reversal. [vol points]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several markets or intervals, several rows of one tenor and time, or risk reversals of several
        deltas; if there are more than 12 maturities; or if ``timezone`` is unknown.

    Examples
    --------
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> options = {"exchange": "DEMO_OPTIONS", "coin": "BTC", "raw_symbol": "BTC_25", "interval": "1h"}
    >>> window = {"start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     summary = pl.concat(client.skew(tenor=tenor, **options, **window) for tenor in ("1w", "1m"))
    >>> skew(summary, ax=Figure().add_subplot()).ax.get_ylabel()
    'Skew, put minus call [vol points]'
    """
    summary = read_frame(frame, "frame", ["timestamp"])
    value = _skew_column(summary.columns)
    series, by_days = _by_days(summary, value)
    ax, lines = _drawn(ax, series, by_days, value, timezone)
    delta = _RISK_REVERSAL.fullmatch(value)
    name = f"{delta[1]}-delta risk reversal, call minus put" if delta else "Skew, put minus call"
    style.y_label(ax, name, "vol points")
    if lines:
        ax.axhline(0, color=style.inside(ax).flat, linewidth=0.9, zorder=1.9)
    _finish(ax, "Risk reversal" if delta else "Skew", lines, series, [])
    return Skew(ax, lines)


def _skew_column(columns: list[str]) -> str:
    if "skew" in columns:
        return "skew"
    reversals = [name for name in columns if _RISK_REVERSAL.fullmatch(name)]
    if len(reversals) > 1:
        raise QueryError(
            "frame", got=", ".join(reversals), expected="one risk reversal", hint="drop the others"
        )
    if not reversals:
        raise missing(["skew"], columns)
    return reversals[0]


def _by_days(frame: nw.DataFrame[Any], value: str) -> tuple[Tracks, dict[float, Track]]:
    """Return the series of one market, and its tracks by days to expiry, in order."""
    length_column = "tenor" if "tenor" in frame.columns else "days"
    if length_column not in frame.columns:
        raise missing([length_column], frame.columns)
    rows = frame.filter(~nw.col(length_column).is_null())
    by_market = tracks(
        rows.unique([*(name for name in IDENTITY_COLUMNS if name in frame.columns), "timestamp"]), "frame", []
    )
    if len(by_market.by_label) > 1:
        raise _several("frame", by_market)
    if length_column == "days" and (number := rows.get_column("days").n_unique()) > _MOST:
        raise QueryError(
            "frame",
            got=f"{number} numbers of days to expiry",
            expected=f"at most {_MOST}",
            hint="tidytape.analytics.options.constant_maturity gives the same ones at every time",
        )
    series = tracks(rows, "frame", [value], by=[*IDENTITY_COLUMNS, length_column])
    by_days = {_days(track.identity[length_column]): track for track in series.by_label.values()}
    is_known = {days: np.isfinite(track.values[value]).any() for days, track in by_days.items()}
    return series, {days: by_days[days] for days in sorted(by_days) if is_known[days]}


def _days(length: str) -> float:
    """Return the days to expiry, from the name of a tenor or a number of days."""
    if length in _TENORS:
        return float(_TENORS[length].days)
    try:
        return float(length)
    except ValueError:
        raise QueryError("frame", got=f"tenor {length}", expected="one of " + ", ".join(_TENORS)) from None


def _several(parameter: str, series: Tracks) -> QueryError:
    return QueryError(
        parameter,
        got=f"{len(series.by_label)} series: {', '.join([*series.by_label][:4])}",
        expected="those of one market",
        hint="filter the frame to one raw_symbol first",
    )


def _drawn(
    ax: Axes | None, series: Tracks, by_days: dict[float, Track], value: str, timezone: str | tzinfo
) -> tuple[Axes, dict[float, Line2D]]:
    ax = style.framed_axes(ax, 9, 4, timezone)
    ax.yaxis.set_major_locator(style.round_ticks(7))
    names = {float(tenor.days): tenor.alias for tenor in Tenor}
    lines = {}
    for (days, track), colour in zip(by_days.items(), _shades(ax, len(by_days)), strict=True):
        label = names.get(days, f"{days:g} d") if "tenor" in track.identity else f"{days:g} d"
        look = {"color": colour, "linewidth": 1.4, "label": label, "zorder": 2.2}
        lines[days] = draw_line(ax, *track.line(value), **look)
    return ax, lines


def _finish(ax: Axes, subject: str, lines: dict[float, Line2D], series: Tracks, others: list[Line2D]) -> None:
    """Write the title, and the legend or "no data"."""
    tenor = [line.get_label() for line in lines.values()] if len(lines) == 1 else []
    style.title(ax, subject, Tracks(series.shared, {}).title(), *map(str, tenor))
    handles = [*lines.values()][::-1] + others
    if not handles:
        style.no_data(ax)
        return
    set_window(ax, series)
    for line in lines.values() if others else ():
        line.set_label(f"implied, {line.get_label()}")
    if len(handles) > 1:
        style.legend(ax, handles, title=None if others else "Time to expiry", place=legend_place(handles))


def _realized_name(frame: nw.DataFrame[Any], realized_series: Tracks) -> str:
    """Return the label of realised volatility, e.g. ``realised, 24 × 1h``."""
    windows = _values(frame, "window") if "window" in frame.columns else []
    if len(windows) != 1:
        return "realised"
    return f"realised, {windows[0]} × {realized_series.interval or 'candles'}"
