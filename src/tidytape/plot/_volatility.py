"""Volatility and skew over time, one line per tenor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame

from tidytape.catalogue import Tenor
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import missing, read_frame
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Axis, Facts, Legend, Line, Panel, Rule
from tidytape.plot._series import require_same, values_of
from tidytape.plot._smile import shades
from tidytape.plot._tracks import (
    IDENTITY_COLUMNS,
    Track,
    Tracks,
    days_of,
    legend_place,
    line_of,
    show_window,
    tracks,
)
from tidytape.sessions import Session

_MOST = 12  # lines that can be told apart
_RISK_REVERSAL = re.compile(r"rr(\d+)_call_minus_put")


def volatility(
    frame: IntoFrame,
    /,
    *,
    realized: IntoFrame | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
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
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    session : Session, optional
        When the market trades; closed time is left out then, as in `candles`.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
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
    return draw(
        lambda panel: fill_volatility(panel, frame, realized),
        ax,
        (9, 4),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_volatility(panel: Panel, frame: IntoFrame, realized: IntoFrame | None) -> Facts:
    """Show volatilities on a panel."""
    summary = read_frame(panel.hours.inside(frame), "frame", ["timestamp"])
    value = next((name for name in ("implied_volatility", "iv_atm") if name in summary.columns), None)
    if value is None:
        raise missing(["implied_volatility"], summary.columns)
    series, by_days = _by_days(summary, value)
    others: list[Line] = []
    if realized is not None:
        realized_frame = read_frame(
            panel.hours.inside(realized, "realized"), "realized", ["timestamp", "realized_volatility"]
        )
        realized_series = tracks(realized_frame, "realized", ["realized_volatility"])
        if len(realized_series.by_label) > 1:
            raise _several("realized", realized_series)
        require_same("coin", "realized", realized_series.shared, series.shared, "the implied ones")
        others = [
            line_of(
                *track.line("realized_volatility"),
                name="realized",
                width=1.9,
                order=2.3,
                colour=panel.colours.down,
                label=_realized_name(realized_frame, realized_series),
            )
            for track in realized_series.by_label.values()
        ]
    panel.y = Axis("Implied volatility" if realized is None else "Volatility", "%", bins=7)
    _add_lines(panel, "Volatility", series, by_days, value, others=others)
    return {"lines": {}, "realized": None}


def skew(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw skew, or risk reversals, over time: one line per tenor, dark for the shortest, light for the longest.

    The axis label says the sign: the service's ``skew`` is the volatility of the put minus that of the call; a risk
    reversal is that of the call minus that of the put.

    Parameters
    ----------
    frame : frame, n rows, key (tenor, timestamp), any order
        Schema SKEW_OPTION_SUMMARY_AGG of one market, or as `tidytape.analytics.options.risk_reversal` and
        `tidytape.analytics.options.term_structure` return it, with ``days`` [d] in place of ``tenor``. Uses
        ``timestamp`` [UTC] and ``skew`` or a column such as ``rr25_call_minus_put`` [vol points].
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    session : Session, optional
        When the market trades; closed time is left out then, as in `candles`.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
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
    return draw(
        lambda panel: fill_skew(panel, frame),
        ax,
        (9, 4),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_skew(panel: Panel, frame: IntoFrame) -> Facts:
    """Show skews, or risk reversals, on a panel."""
    summary = read_frame(panel.hours.inside(frame), "frame", ["timestamp"])
    value = _skew_column(summary.columns)
    series, by_days = _by_days(summary, value)
    delta = _RISK_REVERSAL.fullmatch(value)
    name = f"{delta[1]}-delta risk reversal, call minus put" if delta else "Skew, put minus call"
    panel.y = Axis(name, "vol points", bins=7)
    _add_lines(panel, "Risk reversal" if delta else "Skew", series, by_days, value)
    if by_days:
        panel.add(Rule(0.0, colour=panel.colours.flat, width=0.9, order=1.9))
    return {"lines": {}}


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
    by_days = {days_of(track.identity[length_column]): track for track in series.by_label.values()}
    is_known = {days: np.isfinite(track.values[value]).any() for days, track in by_days.items()}
    return series, {days: by_days[days] for days in sorted(by_days) if is_known[days]}


def _several(parameter: str, series: Tracks) -> QueryError:
    return QueryError(
        parameter,
        got=f"{len(series.by_label)} series: {', '.join([*series.by_label][:4])}",
        expected="those of one market",
        hint="filter the frame to one raw_symbol first",
    )


def _add_lines(
    panel: Panel,
    subject: str,
    series: Tracks,
    by_days: dict[float, Track],
    value: str,
    *,
    others: Sequence[Line] = (),
) -> None:
    """Fill the panel with one line of volatility per time to expiry, and with ``others``, such as the realised one."""
    panel.over_time()
    names = {float(tenor.days): tenor.alias for tenor in Tenor}
    lines = []
    for (days, track), colour in zip(by_days.items(), shades(panel.ground, len(by_days)), strict=True):
        label = names.get(days, f"{days:g} d") if "tenor" in track.identity else f"{days:g} d"
        line = line_of(
            *track.line(value), name="lines", key=days, label=label, width=1.4, order=2.2, colour=colour
        )
        lines.append(panel.add(line))
    tenor = [line.label for line in lines] if len(lines) == 1 else []
    panel.title = style.titled(subject, Tracks(series.shared, {}).title(), *tenor)
    handles = [*lines[::-1], *(panel.add(line) for line in others)]
    panel.is_empty = not handles
    if panel.is_empty:
        return
    show_window(panel, series)
    for line in lines if others else ():
        line.label = f"implied, {line.label}"
    if len(handles) > 1:
        title = None if others else "Time to expiry"
        panel.legend = Legend(handles, title=title, place=legend_place(handles))


def _realized_name(frame: nw.DataFrame[Any], realized_series: Tracks) -> str:
    """Return the label of realised volatility, e.g. ``realised, 24 × 1h``."""
    windows = values_of(frame, "window") if "window" in frame.columns else []
    if len(windows) != 1:
        return "realised"
    return f"realised, {windows[0]} × {realized_series.interval or 'candles'}"
