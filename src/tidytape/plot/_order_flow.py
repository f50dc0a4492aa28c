"""Price, delta and cumulative volume delta, on shared time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from typing import Any, Literal, NamedTuple, cast

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import flow
from tidytape.plot import _style as style
from tidytape.plot._candles import add_candles, show_intervals, step_line
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw_on
from tidytape.plot._model import Facts, Panel, Rule, Steps
from tidytape.plot._series import (
    Bars,
    CandleSeries,
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


def order_flow(
    candles: IntoFrame,
    sides: IntoFrame,
    /,
    *,
    title: str | None = None,
    axes: FlowPanels | Sequence[Axes] | None = None,
    anchor: Literal["none", "session"] = "none",
    session: Session | str | timedelta | None = None,
    period: str | timedelta | None = None,
    quote: str | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
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
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    axes : sequence of three matplotlib.axes.Axes, optional
        Where to draw: the axes of price, delta and CVD. Let them share their x axis (``sharex=True``) to move together.
        By default those of a new figure.
    anchor, session, period
        Where the sum of the CVD starts anew, as in `tidytape.analytics.flow.cvd`. With a `Session` closed time is left
        out, as in `candles`; its volumes are in no sum then, also with ``anchor="none"``.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
        The artists. A panel without data says "no data".

        - ``axes`` : tuple of three Axes. ``axes.price`` has the candles, ``axes.delta`` the delta of each interval, and
          ``axes.cvd`` the CVD.
        - ``wicks``, ``bodies`` : LineCollection, PolyCollection. The candles, as in `candles`.
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
    places = FlowPanels(*style.stacked_axes(axes, HEIGHTS, "three: price, delta, CVD", size=(12, 8)))
    drawn = draw_on(
        lambda *panels: fill_order_flow(
            panels, candles, sides, start_of_sum=(anchor, session, period), quote=quote
        ),
        places,
        title=title,
        is_new=axes is None,
        timezone=timezone,
        session=session if isinstance(session, Session) else None,  # not a length
    )
    cast("Figure", places.price.get_figure()).align_ylabels(list(places))
    return replace(drawn, axes=places)


Anchor = tuple[Literal["none", "session"], Session | str | timedelta | None, str | timedelta | None]
"""Anchor, session and period of a sum."""


def fill_order_flow(
    panels: Sequence[Panel],
    candles: IntoFrame,
    sides: IntoFrame,
    *,
    start_of_sum: Anchor,
    quote: str | None,
) -> Facts:
    """Show candles, delta and CVD on three panels."""
    price, delta, cvd = panels
    bars = candle_series(price.hours.inside(candles, "candles"), "candles")
    side_flow = _read(price.hours.inside(sides, "sides"), bars, *start_of_sum)
    shown = add_candles(price, bars)
    # An empty frame of candles does not name its market, so ask the other frame.
    identity = bars.identity if bars.start.size else side_flow.identity
    market = shown.title if bars.start.size else identity.title
    price.title = style.titled("Order flow", market, other_market_note("flow", side_flow.identity, identity))
    edges, values = step_line(side_flow.start, side_flow.width, side_flow.delta)
    for part, colour, name in (
        (np.maximum(values, 0), panels[1].colours.up, "More bought"),
        (np.minimum(values, 0), panels[1].colours.down, "More sold"),
    ):
        delta.add(
            Steps(
                edges,
                np.where(np.isnan(values), np.nan, part),
                label=name,
                colour=colour,
                width=0.5,
                name=name.lower().replace(" ", "_"),
            )
        )
    _finish(delta, values, "Delta", side_flow.identity.amounts(quote))
    edges, values = step_line(side_flow.start, side_flow.width, side_flow.cvd)
    cvd.add(Steps(edges, values, None, name="cvd", label="CVD", colour=cvd.colours.ink, width=1.3, order=2.2))
    _finish(cvd, values, "CVD", side_flow.identity.amounts(quote))
    starts = np.sort(np.concatenate([bars.start, side_flow.start]))
    for panel in panels if starts.size else ():
        show_intervals(panel, starts, bars.width if bars.start.size else side_flow.width)
    return {}


@dataclass(frozen=True, slots=True)
class _Flow(Bars):
    """Deltas and their cumulative sums; NaN if unknown."""

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
        session=None if anchor == "none" and isinstance(session, Session) else session,
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


def _finish(panel: Panel, values: NDArray[np.float64], name: str, unit: str) -> None:
    panel.over_time()
    panel.y.kind, panel.y.name, panel.y.unit, panel.y.bins = "amount", name, unit, 4
    known = values[np.isfinite(values)]
    panel.is_empty = not known.size
    if known.size:
        panel.add(Rule(0.0, colour=panel.colours.flat, width=0.8, order=2.1))
        low, high = min(float(known.min()), 0.0), max(float(known.max()), 0.0)
        pad = 0.07 * (high - low) or 1.0
        panel.y.limits = (low - pad, high + pad)
