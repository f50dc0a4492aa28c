"""Funding rates of each market over time, and their mean weighted by open interest."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame

from tidytape.analytics import cross
from tidytape.analytics.funding import annualized
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Facts, Key, Legend, Line, Mark, Panel, Rule
from tidytape.plot._series import require_once
from tidytape.plot._tracks import _LATE, Track, Tracks, from_above, legend_place, line_of, show_window, tracks

_DASHES = (0, (3, 2))
_ALL = 1 - 1e-9  # from this coverage on all open interest counts as covered: the rest is rounding


def funding(
    frame: IntoFrame,
    /,
    *,
    open_interest: IntoFrame | None = None,
    funding_interval: str | timedelta | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw funding rates per year: settled ones as solid steps, predicted ones dashed, one colour per market.

    Rates are annualised as `tidytape.analytics.funding.annualized` does without compounding. Above zero longs pay
    shorts. An interval without a rate is a gap.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        Schema FUNDING_RATE_AGG of one interval. Uses ``timestamp`` [UTC], ``rate_close`` and, if present,
        ``predicted_close`` [1 per funding interval].
    open_interest : frame of the same kind, key (exchange, raw_symbol, timestamp), any order; optional
        Schema OPEN_INTEREST_AGG in USD, or in coin if all markets have one coin. The picture then also shows the mean
        that `tidytape.analytics.cross.oi_weighted` returns, if there are several markets. If the mean does not always
        cover all open interest, the legend says which share it covers at least.
    funding_interval : str or timedelta, optional
        Interval that all rates refer to. By default the frame's column ``funding_interval`` says it [ns]; without the
        column it is 8 hours, to which the client converts rates unless you ask for something else. The title says
        which interval was used.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Drawing
        The artists. For a frame without a rate the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``settled`` : dict of str to Line2D. By market, the settled rate as a line of steps. [% per year]
        - ``predicted`` : dict of str to Line2D. The same of the predicted rates, for markets that have them.
          [% per year]
        - ``means`` : dict of str to Line2D. The mean by open interest: one line, or one per coin with the coin as key.
          Empty without open interest. [% per year]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several intervals, or a market several rows of one time; if ``funding_interval`` is given and
        the frame has such a column too; if open interest is in coin and of several coins; or if ``timezone`` is
        unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> window = {"coin": "BTC", "interval": "1h", "start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     drawn = funding(client.funding(exchange="DEMO_PERP", **window), ax=Figure().add_subplot())
    >>> drawn.ax.get_ylabel()
    'Funding rate [% per year]'
    """
    return draw(
        lambda panel: fill_funding(panel, frame, open_interest, funding_interval=funding_interval),
        ax,
        (9, 4),
        title=title,
        timezone=timezone,
    )


def fill_funding(
    panel: Panel,
    frame: IntoFrame,
    open_interest: IntoFrame | None,
    *,
    funding_interval: str | timedelta | None,
) -> Facts:
    """Show funding rates on a panel."""
    funding_rates = read_frame(frame, "frame", ["timestamp", "rate_close"])
    rate_interval = funding_interval
    if rate_interval is None and "funding_interval" not in funding_rates.columns:
        rate_interval = timedelta(milliseconds=DEFAULT_FUNDING_INTERVAL_MS)
    rates = _annualized(funding_rates, rate_interval)
    series = tracks(rates, "frame", ["settled"], optional=["predicted"])
    means, least_coverage = (Tracks(series.shared, {}), None)
    if open_interest is not None and len(series.by_label) > 1:
        means, least_coverage = _means(rates, read_frame(open_interest, "open_interest"))
    panel.over_time()
    panel.y.name, panel.y.unit, panel.y.bins = "Funding rate", "% per year", 7
    panel.title = style.titled("Funding", series.title(), _interval_text(rate_interval))
    facts: Facts = {"settled": {}, "predicted": {}, "means": {}}
    settled: list[Line] = []
    predicted: list[Line] = []
    alone: list[Line] = []  # predicted rates of markets without a settled one
    for index, (label, track) in enumerate(series.by_label.items()):
        look = panel.ground.look(index)
        has_settled = bool(np.isfinite(track.values["settled"]).any())
        if has_settled:
            steps = _held(track).steps("settled")
            line = line_of(
                *steps, is_stepped=True, name="settled", key=label, label=label, width=1.5, order=2.2, **look
            )
            settled.append(panel.add(line))
        if np.isfinite(track.values["predicted"]).any():
            # Predicted rates change so often that steps would hide the settled rates, so draw them without steps.
            text = f"{label}, predicted".removeprefix(", ")
            line = line_of(
                *track.line("predicted"),
                name="predicted",
                key=label,
                label=text,
                is_extra=True,
                colour=look["colour"],
                dashes=_DASHES,
                width=0.9,
                alpha=0.65,
                order=2.1,
            )
            predicted.append(panel.add(line))
            if not has_settled:
                alone.append(line)
    panel.is_empty = not settled and not predicted
    if panel.is_empty:
        return facts
    coverage_note = (
        ""
        if least_coverage is None or least_coverage > _ALL
        else f",\n{_percent(least_coverage)} or more of it"
    )
    mean_lines = []
    for label, track in means.by_label.items():
        text = f"mean by open interest{f' {label}' if label else ''}{coverage_note}"
        line = Line(
            *track.steps("settled"),
            is_stepped=True,
            name="means",
            key=label,
            label=text,
            colour=panel.colours.ink,
            width=2.2,
            order=2.3,
        )
        mean_lines.append(panel.add(line))
    panel.add(Rule(0.0, colour=panel.colours.flat, width=0.9, order=1.9))
    show_window(panel, series)
    handles: list[Mark] = [*from_above([*settled, *alone])]
    if predicted and settled:
        look = {"linewidth": 1.0, "linestyle": _DASHES}
        handles.append(Key(colour=panel.colours.ink, line=look, label="predicted"))
    handles += mean_lines
    if len(handles) > 1:
        panel.legend = Legend(handles, place=legend_place(handles))
    return facts


def _held(track: Track) -> Track:
    """Let a rate hold until the next one where rates come less often than intervals, as settled rates do."""
    steps = np.diff(track.start)
    if not steps.size:
        return track
    usual = np.median(steps)
    lengths = np.append(np.where(steps <= _LATE * usual, steps, usual), usual)
    return replace(track, end=np.maximum(track.end, track.start + lengths))


def _annualized(rates: nw.DataFrame[Any], rate_interval: str | timedelta | None) -> nw.DataFrame[Any]:
    """Add ``settled`` and, if the frame has predicted rates, ``predicted``. [% per year]"""
    columns = {"settled": "rate_close", "predicted": "predicted_close"}
    for name, rate in columns.items():
        if rate in rates.columns:
            per_year = nw.from_native(
                annualized(rates.to_native(), rate=rate, funding_interval=rate_interval), eager_only=True
            )
            # The column fits the frame, because `annualized` keeps the rows and their order.
            rates = rates.with_columns((per_year.get_column("apr") * 100).alias(name))
    return rates


def _means(rates: nw.DataFrame[Any], interest: nw.DataFrame[Any]) -> tuple[Tracks, float | None]:
    """Return the means by open interest, and their lowest coverage: the share of open interest that has a rate."""
    units, coins = (
        interest.get_column(name).unique().drop_nulls().to_list() if name in interest.columns else []
        for name in ("amount_unit", "coin")
    )
    if "COIN" in {str(unit) for unit in units} and len(coins) > 1:
        raise QueryError(
            "open_interest",
            got=f"open interest in coin of {len(coins)} coins",
            expected="open interest in USD, or of one coin",
            hint="fetch it with quote='USD', or filter both frames to one coin",
        )
    require_once(interest, "open_interest", ("exchange", "raw_symbol", "timestamp"))
    mean = cross.oi_weighted(rates.to_native(), interest.to_native(), rate="settled")
    means = nw.from_native(mean, eager_only=True)
    coverage = means.get_column("coverage").drop_nulls()
    return tracks(means, "open_interest", ["settled"]), float(coverage.min()) if len(coverage) else None


def _interval_text(rate_interval: str | timedelta | None) -> str:
    if rate_interval is None:
        return ""
    if not isinstance(rate_interval, timedelta):
        return f"from rates per {rate_interval}"
    hours = rate_interval / timedelta(hours=1)
    return f"from rates per {hours:g}h"


def _percent(share: float) -> str:
    return f"{np.floor(share * 1000) / 10:g}%"
