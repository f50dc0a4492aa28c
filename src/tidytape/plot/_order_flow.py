"""Price, delta and cumulative volume delta, on shared time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import Any, Literal, NamedTuple, cast

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import flow
from tidytape.plot import _style as style
from tidytape.plot._candles import Candles, draw_candles, set_time_limits, step_line
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._picture import Picture
from tidytape.plot._series import (
    CandleSeries,
    Identity,
    candle_series,
    dates_of,
    interval_named,
    market_frame,
    numbers,
    other_market_note,
    require_same,
)
from tidytape.sessions import Session
from tidytape.times import DAY, SECOND

HEIGHTS = (2.4, 1.0, 1.3)  # of the panels, from the top


class FlowPanels(NamedTuple):
    """The axes of `order_flow`, from the top down."""

    price: Axes
    delta: Axes
    cvd: Axes


@dataclass(frozen=True, slots=True)
class OrderFlow(Picture):
    """What `order_flow` drew."""

    axes: FlowPanels
    candles: Candles
    more_bought: StepPatch
    more_sold: StepPatch
    cvd: StepPatch


def order_flow(
    candles: IntoFrame,
    sides: IntoFrame,
    /,
    *,
    axes: FlowPanels | Sequence[Axes] | None = None,
    anchor: Literal["none", "session"] = "none",
    session: Session | str | timedelta | None = None,
    period: str | timedelta | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> OrderFlow:
    """Draw candles, and below them the delta of each interval and the cumulative volume delta (CVD).

    Delta is the volume that aggressors bought minus the volume that they sold.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `candles`.
    sides : frame, m rows, any order
        A frame that `tidytape.analytics.flow.delta` takes, of the same market: candles by side
        (``client.candles(by_side=True)``), trades, or any frame with ``timestamp``, ``buy_volume`` and ``sell_volume``.
        Its volumes are summed over the intervals of the candles. [as ``amount_unit`` says]
    axes : sequence of three matplotlib.axes.Axes, optional
        Where to draw: the axes of price, delta and CVD. Let them share their x axis (``sharex=True``) to move together.
        By default those of a new figure.
    anchor, session, period
        Where the sum of the CVD starts anew, as in `tidytape.analytics.flow.cvd`.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    OrderFlow
        The artists. A panel without data says "no data".

        - ``axes`` : tuple of three Axes. ``axes.price`` has the candles, ``axes.delta`` the delta of each interval, and
          ``axes.cvd`` the CVD.
        - ``candles`` : Candles. Artists of the candles, as `candles` returns them.
        - ``more_bought``, ``more_sold`` : StepPatch. Delta of the intervals in which more was bought, and in which more
          was sold; 0 in the other intervals, NaN if it is unknown.
        - ``cvd`` : StepPatch. Cumulative volume delta at the end of each interval; NaN if it is unknown.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame holds several markets or a row twice, the two differ in ``normalized_symbol``, or an argument is not
        one of those listed.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> market = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", "start": "2024-08-08", "end": "2024-08-09"}
    >>> with tidytape.Client.demo() as client:
    ...     hours = client.candles(interval="1h", **market)
    ...     sides = client.candles(interval="1h", by_side=True, **market)
    >>> drawn = order_flow(hours, sides, axes=Figure().subplots(3, sharex=True))
    >>> [ax.get_ylabel() for ax in drawn.axes]
    ['Price [USDT per BTC]', 'Delta [BTC]', 'CVD [BTC]']
    """
    bars = candle_series(candles, "candles")
    side_flow = _read(sides, bars, anchor, session, period)
    style.zone(timezone)  # refuse an unknown zone before a figure is made
    layout = FlowPanels(*style.stacked_axes(axes, HEIGHTS, "three: price, delta, CVD", size=(12, 8)))

    drawn = draw_candles(layout.price, bars, timezone)
    # An empty frame of candles does not name its market, so ask the other frame.
    identity = bars.identity if bars.start.size else side_flow.identity
    style.title(
        layout.price, "Order flow", identity.title, other_market_note("flow", side_flow.identity, identity)
    )
    more_bought, more_sold = _draw_delta(layout.delta, side_flow, timezone, quote)
    line = _draw_cvd(layout.cvd, side_flow, timezone, quote)
    starts = np.concatenate([bars.start, side_flow.start])
    if starts.size:
        for ax in layout:
            set_time_limits(ax, np.sort(starts), bars.width if bars.start.size else side_flow.width)
    for ax in layout[:2]:
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
        ax.xaxis.offsetText.set_visible(False)
    cast("Figure", layout.price.get_figure()).align_ylabels(list(layout))
    return OrderFlow(layout, drawn, more_bought, more_sold, line)


@dataclass(frozen=True, slots=True)
class _Flow:
    """Deltas and their cumulative sums, in order of time; NaN if unknown."""

    identity: Identity
    start: NDArray[np.float64]  # [matplotlib dates, d]
    width: float  # [d]
    delta: NDArray[np.float64]
    cvd: NDArray[np.float64]


def _key(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the key columns that a frame of trades (with ``id``) or of volumes (with ``side``, ``price``) has."""
    names = [name for name in (("id",) if "amount" in columns else ("side", "price")) if name in columns]
    return ("timestamp", *names) if names else ()


def _read(
    frame: IntoFrame,
    candles: CandleSeries,
    anchor: Literal["none", "session"],
    session: Session | str | timedelta | None,
    period: str | timedelta | None,
) -> _Flow:
    sides = read_frame(frame, "sides", ["timestamp"])
    sides, identity = market_frame(sides, "sides", ("timestamp",), key=_key(sides.columns), without=("side",))
    require_same("normalized_symbol", "sides", identity, candles.identity, "the candles")
    interval = interval_named(candles.identity.interval) or interval_named(identity.interval)
    sums = flow.cvd(
        sides.to_native(),
        interval=interval.alias if interval else None,
        anchor=anchor,
        session=session,
        period=period,
    )
    rows = with_datetimes(cast("nw.DataFrame[Any]", nw.from_native(sums)), "sides").sort("timestamp")
    time = rows.get_column("timestamp").dt.timestamp("ns").to_numpy().astype(np.int64)
    values = numbers(rows, "sides", ("delta", "cvd"))
    steps = np.diff(np.unique(time))
    width = (
        interval.seconds * SECOND / DAY if interval else steps.min() / DAY if steps.size else candles.width
    )
    return _Flow(identity, dates_of(time), float(width), values["delta"], values["cvd"])


def _draw_delta(
    ax: Axes, side_flow: _Flow, timezone: str | tzinfo, quote: str | None
) -> tuple[StepPatch, StepPatch]:
    colours = style.inside(ax)
    edges, values = step_line(side_flow.start, side_flow.width, side_flow.delta)
    more_bought, more_sold = (
        ax.stairs(
            np.where(np.isnan(values), np.nan, one_sign),
            edges,
            fill=True,
            color=colour,
            linewidth=0.5,
            zorder=2,
            label=name,
        )
        for one_sign, colour, name in (
            (np.maximum(values, 0), colours.up, "More bought"),
            (np.minimum(values, 0), colours.down, "More sold"),
        )
    )
    _finish(ax, values, timezone, "Delta", side_flow.identity.amounts(quote))
    return more_bought, more_sold


def _draw_cvd(ax: Axes, side_flow: _Flow, timezone: str | tzinfo, quote: str | None) -> StepPatch:
    edges, values = step_line(side_flow.start, side_flow.width, side_flow.cvd)
    line = ax.stairs(
        values, edges, baseline=None, color=style.inside(ax).ink, linewidth=1.3, zorder=2.2, label="CVD"
    )
    _finish(ax, values, timezone, "CVD", side_flow.identity.amounts(quote))
    return line


def _finish(ax: Axes, values: NDArray[np.float64], timezone: str | tzinfo, name: str, unit: str) -> None:
    style.frame_axes(ax, timezone)
    style.amount_axis(ax.yaxis, unit, bins=4, name=name)
    known = values[np.isfinite(values)]
    if not known.size:
        style.no_data(ax)
        return
    ax.axhline(0, color=style.inside(ax).flat, linewidth=0.8, zorder=2.1)
    low, high = min(known.min(), 0.0), max(known.max(), 0.0)
    pad = 0.07 * (high - low) or 1.0
    ax.set_ylim(low - pad, high + pad)
