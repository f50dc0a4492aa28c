"""Open interest over time; with candles also which positions were opened or closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from narwhals.stable.v2.typing import IntoFrame

from tidytape.analytics import cross
from tidytape.analytics.flow import oi_price_quadrant
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import Candles, draw_candles
from tidytape.plot._frame import read_frame
from tidytape.plot._picture import Picture
from tidytape.plot._series import candle_series
from tidytape.plot._tracks import Tracks, legend_place, set_window, tracks

HEIGHTS = (3.0, 1.8, 1.6)  # of the panels, from the top
_CARRY = "24h"  # how long the service uses a report of open interest

_WIDE = 500.0  # a figure wider than this has room for two legend entries side by side [pt]

# The colour shows the direction of the price: strong if positions were opened, pale if they were closed.
_QUADRANTS = {
    "new_longs": ("up", "new longs: price up, OI up"),
    "short_covering": ("buy", "short covering: price up, OI down"),
    "new_shorts": ("down", "new shorts: price down, OI up"),
    "long_unwinding": ("sell", "long unwinding: price down, OI down"),
    "flat": ("volume", "flat: within the dead band"),
}


@dataclass(frozen=True, slots=True)
class OpenInterest(Picture):
    """What `open_interest` drew."""

    axes: tuple[Axes, ...]
    lines: dict[str, Line2D]
    total: Line2D | None
    candles: Candles | None
    changes: dict[str, StepPatch]


def open_interest(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    price_band: float = 0.0,
    oi_band: float = 0.0,
    by: str | Iterable[str] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
    timezone: str | tzinfo = "UTC",
) -> OpenInterest:
    """Draw open interest over time; with candles also the price, and which positions were opened or closed.

    With candles there are three axes: the candles, the open interest, and its change in each interval, coloured by
    `tidytape.analytics.flow.oi_price_quadrant`: blue if the price rose and vermillion if it fell, strong if positions
    were opened and pale if they were closed. The legend says what each colour means, and which share of the intervals
    has it. Without candles the frame may have several markets: the picture has a line for each, and their sum if they
    have one coin.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        Schema OPEN_INTEREST_AGG of one interval. Uses ``timestamp`` [UTC] and ``close`` [as ``amount_unit`` says]. With
        candles it must be of one market and in coin, because open interest in USD moves with the price.
    candles : frame of the same kind, m rows, key timestamp, any order; optional
        Schema TRADE_SIDE_AGNOSTIC_AGG of the same market and interval.
    price_band, oi_band : float, >= 0
        Relative changes up to these are ``flat``. [1]
    by : str or iterable of str, optional
        Columns on which the two frames are matched, as in `tidytape.analytics.flow.oi_price_quadrant`: ``"coin"`` for
        candles of another market of the same coin.
    axes : matplotlib.axes.Axes, or sequence of three; optional
        Where to draw: one axes without candles; with candles three, from the top down. A new figure otherwise.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    OpenInterest
        The artists. For a frame without open interest the picture says "no data".

        - ``axes`` : tuple of Axes. The axes drawn on: one without candles; with candles those of the price, the open
          interest and its change.
        - ``lines`` : dict of str to Line2D. By market, its open interest as a line of steps.
        - ``total`` : Line2D or None. The sum of several markets of one coin; None otherwise.
        - ``candles`` : Candles or None. Artists of the candles, as `candles` returns them; None without candles.
        - ``changes`` : dict of str to StepPatch. By quadrant, the relative change of the open interest in the intervals
          of that quadrant, NaN in the others. [%]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several intervals or units, or a market several rows of one time; with candles, if either frame
        has several markets or the open interest is in USD; if ``axes`` has another number of axes; or if ``timezone``
        is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> window = {"raw_symbol": "BTC-PERP", "interval": "1h", "start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     interest = client.open_interest(exchange="DEMO_PERP", **window)
    ...     candles = client.candles(exchange="DEMO_PERP", **window)
    >>> drawn = open_interest(interest, candles=candles, axes=Figure().subplots(3))
    >>> drawn.axes[1].get_ylabel(), sorted(drawn.changes)[:2]
    ('Open interest [BTC]', ['long_unwinding', 'new_longs'])
    """
    style.zone(timezone)  # refuse an unknown zone before a figure is made
    interest = read_frame(frame, "frame", ["timestamp", "close"])
    series = tracks(interest, "frame", ["close"])
    if candles is None:
        (ax,) = style.stacked_axes(axes, (1,), "one, without candles", size=(9, 4))
        lines, total = _draw_lines(ax, series, _total(interest, series))
        _finish(ax, series, timezone)
        return OpenInterest((ax,), lines, total, None, {})

    if len(series.by_label) > 1:
        raise QueryError(
            "frame",
            got=f"{len(series.by_label)} markets",
            expected="one, if there are candles",
            hint="filter the frame to one market first",
        )
    candle_frame = read_frame(candles, "candles", ["timestamp", "close"])
    prices = candle_series(candle_frame, "candles")
    quadrants = oi_price_quadrant(
        interest.to_native(), candle_frame.to_native(), by=by, price_band=price_band, oi_band=oi_band
    )
    top, middle, bottom = style.stacked_axes(axes, HEIGHTS, "3, with candles", size=(9, 7))
    drawn = draw_candles(top, prices, timezone)
    style.title(top, "Price and open interest", prices.identity.title)
    lines, _ = _draw_lines(middle, series, None)
    _finish(middle, series, timezone)
    changes = _draw_changes(bottom, nw.from_native(quadrants, eager_only=True), timezone)
    if series.bounds():
        for ax in (top, middle, bottom):
            set_window(ax, series)
    for ax in (top, middle):
        if ax.get_shared_x_axes().joined(ax, bottom):
            ax.tick_params(labelbottom=False)
            ax.set_xlabel("")
            ax.xaxis.get_offset_text().set_visible(False)
    style.title(middle, "", series.title() if series.title() != prices.identity.title else "")
    return OpenInterest((top, middle, bottom), lines, None, drawn, changes)


def _total(frame: nw.DataFrame[Any], series: Tracks) -> Tracks | None:
    """Return the sum over several markets of one coin; None for one market or several coins."""
    if len(series.by_label) < 2 or not series.shared.coin:
        return None
    summed = nw.from_native(cross.total(frame.to_native(), amount="close", carry=_CARRY), eager_only=True)
    total = tracks(summed, "frame", ["close"])
    return total if len(total.by_label) == 1 else None


def _draw_lines(ax: Axes, series: Tracks, total: Tracks | None) -> tuple[dict[str, Line2D], Line2D | None]:
    lines: dict[str, Line2D] = {}
    for index, (label, track) in enumerate(series.by_label.items()):
        # A single line has the colour of text, because beside candles the other colours have a meaning.
        look = style.look(ax, index) if len(series.by_label) > 1 else {"color": style.inside(ax).ink}
        (lines[label],) = ax.plot(
            *track.steps("close"), drawstyle="steps-post", linewidth=1.4, label=label, zorder=2.2, **look
        )
        if len(series.by_label) > 1:
            style.mark_end(lines[label])
    if total is None:
        return lines, None
    (track,) = total.by_label.values()
    (line,) = ax.plot(
        *track.steps("close"),
        drawstyle="steps-post",
        color=style.inside(ax).ink,
        linewidth=2.0,
        label="sum",
        zorder=2.3,
    )
    return lines, line


def _finish(ax: Axes, series: Tracks, timezone: str | tzinfo) -> None:
    style.frame_axes(ax, timezone)
    style.amount_axis(ax.yaxis, series.shared.amounts(None), bins=5, name="Open interest")
    style.title(ax, "Open interest", series.title())
    if not any(np.isfinite(track.values["close"]).any() for track in series.by_label.values()):
        style.no_data(ax)
        return
    set_window(ax, series)
    if len(series.by_label) > 1:
        ax.set_ylim(bottom=0)
        handles = [line for line in ax.lines if np.isfinite(np.asarray(line.get_ydata(), float)).any()]
        style.legend(ax, style.from_above(handles), place=legend_place(handles))


def _draw_changes(ax: Axes, quadrants: nw.DataFrame[Any], timezone: str | tzinfo) -> dict[str, StepPatch]:
    style.frame_axes(ax, timezone)
    style.y_label(ax, "OI change", "%", bins=4)
    track = next(iter(tracks(quadrants, "candles", ["open_interest_change"]).by_label.values()), None)
    quadrant_names = quadrants.sort("timestamp").get_column("quadrant")
    known_count = len(quadrant_names) - quadrant_names.null_count()
    if track is None or not known_count:
        style.no_data(ax)
        return {}
    # Draw all bars of a colour as one artist: thousands of artists would take seconds to draw.
    times, values = track.steps("open_interest_change")
    interval_index = np.searchsorted(track.start, times[:-1], side="right") - 1
    drawn = {}
    for quadrant, (colour, meaning) in _QUADRANTS.items():
        has_quadrant = np.array([name == quadrant for name in quadrant_names.to_list()])
        if has_quadrant.any():
            share = has_quadrant.sum() / known_count
            drawn[quadrant] = ax.stairs(
                np.where(has_quadrant[interval_index], values[:-1] * 100, np.nan),
                times,
                fill=True,
                color=getattr(style.inside(ax), colour),
                label=f"{meaning} ({share:.0%})",
                zorder=2,
            )
    ax.axhline(0, color=style.inside(ax).flat, linewidth=0.9, zorder=2.1)
    # The long entries have room side by side only below the axes.
    style.legend(ax, [*drawn.values()], place="below", columns=2 if style.width_of(ax) > _WIDE else 1)
    return drawn
