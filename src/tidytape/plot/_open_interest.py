"""Open interest over time; with candles also which positions were opened or closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame

from tidytape.analytics import cross
from tidytape.analytics.flow import oi_price_quadrant
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import add_candles
from tidytape.plot._frame import read_frame
from tidytape.plot._matplotlib import Drawing, draw_on
from tidytape.plot._model import Axis, Facts, Legend, Line, Mark, Panel, Rule, Steps
from tidytape.plot._series import candle_series
from tidytape.plot._tracks import Tracks, from_above, legend_place, line_of, show_window, tracks
from tidytape.sessions import Session

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


def open_interest(
    frame: IntoFrame,
    /,
    *,
    candles: IntoFrame | None = None,
    price_band: float = 0.0,
    oi_band: float = 0.0,
    by: str | Iterable[str] | None = None,
    title: str | None = None,
    axes: Axes | Sequence[Axes] | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
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
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    axes : matplotlib.axes.Axes, or sequence of three; optional
        Where to draw: one axes without candles; with candles three, from the top down. A new figure otherwise.
    session : Session, optional
        When the market trades; closed time is left out then, as in `candles`.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
        The artists. For a frame without open interest the picture says "no data".

        - ``axes`` : tuple of Axes. The axes drawn on: one without candles; with candles those of the price, the open
          interest and its change.
        - ``lines`` : dict of str to Line2D. By market, its open interest as a line of steps.
        - ``total`` : Line2D or None. The sum of several markets of one coin; None otherwise.
        - ``wicks``, ``bodies`` : LineCollection and PolyCollection, or None. The candles, as in `candles`; None without
          candles.
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
    interest = read_frame(frame, "frame", ["timestamp", "close"])
    heights = HEIGHTS if candles is not None else (1.0,)
    expected = "3, with candles" if candles is not None else "one, without candles"
    places = style.stacked_axes(axes, heights, expected, size=(9, 7 if candles is not None else 4))
    return draw_on(
        lambda *panels: fill_open_interest(
            panels, interest.to_native(), candles, price_band=price_band, oi_band=oi_band, by=by
        ),
        places,
        title=title,
        is_new=axes is None,
        timezone=timezone,
        session=session,
    )


def fill_open_interest(
    panels: Sequence[Panel],
    frame: IntoFrame,
    candles: IntoFrame | None,
    *,
    price_band: float,
    oi_band: float,
    by: str | Iterable[str] | None,
) -> Facts:
    """Show open interest on a panel; with candles on three."""
    hours = panels[0].hours
    interest = read_frame(hours.inside(frame), "frame", ["timestamp", "close"])
    series = tracks(interest, "frame", ["close"])
    facts: Facts = {"lines": {}, "total": None, "changes": {}, "wicks": None, "bodies": None}
    if candles is None:
        _add_lines(panels[0], series, _total(interest, series))
        return facts

    if len(series.by_label) > 1:
        raise QueryError(
            "frame",
            got=f"{len(series.by_label)} markets",
            expected="one, if there are candles",
            hint="filter the frame to one market first",
        )
    candle_frame = read_frame(hours.inside(candles, "candles"), "candles", ["timestamp", "close"])
    prices = candle_series(candle_frame, "candles")
    quadrants = oi_price_quadrant(
        interest.to_native(), candle_frame.to_native(), by=by, price_band=price_band, oi_band=oi_band
    )
    top, middle, bottom = panels
    shown = add_candles(top, prices)
    top.title = style.titled("Price and open interest", shown.title)
    _add_lines(middle, series, None)
    middle.title = series.title() if series.title() != prices.identity.title else ""
    _add_changes(bottom, nw.from_native(quadrants, eager_only=True))
    if series.bounds():
        for panel in panels:
            show_window(panel, series)
    return facts


def _total(frame: nw.DataFrame[Any], series: Tracks) -> Tracks | None:
    """Return the sum over several markets of one coin; None for one market or several coins."""
    if len(series.by_label) < 2 or not series.shared.coin:
        return None
    summed = nw.from_native(cross.total(frame.to_native(), amount="close", carry=_CARRY), eager_only=True)
    total = tracks(summed, "frame", ["close"])
    return total if len(total.by_label) == 1 else None


def _add_lines(panel: Panel, series: Tracks, total: Tracks | None) -> None:
    panel.over_time()
    panel.y = Axis("Open interest", series.shared.amounts(None), "amount", bins=5)
    panel.title = style.titled("Open interest", series.title())
    lines = []
    is_one = len(series.by_label) == 1
    for index, (label, track) in enumerate(series.by_label.items()):
        # A single line has the colour of text, because beside candles the other colours have a meaning.
        look = {"colour": panel.colours.ink} if is_one else panel.ground.look(index)
        line = line_of(
            *track.steps("close"),
            is_stepped=True,
            name="lines",
            key=label,
            label=label,
            **look,
            width=1.4,
            order=2.2,
        )
        lines.append(panel.add(line))
    for track in () if total is None else total.by_label.values():
        line = Line(
            *track.steps("close"),
            is_stepped=True,
            name="total",
            label="sum",
            width=2.0,
            order=2.3,
            colour=panel.colours.ink,
        )
        lines.append(panel.add(line))
    panel.is_empty = not any(np.isfinite(track.values["close"]).any() for track in series.by_label.values())
    if panel.is_empty:
        return
    show_window(panel, series)
    if len(series.by_label) > 1:
        panel.y.low = 0.0
        known = [line for line in lines if np.isfinite(line.y).any()]
        panel.legend = Legend(from_above(known), place=legend_place(known))


def _add_changes(panel: Panel, quadrants: nw.DataFrame[Any]) -> None:
    panel.over_time()
    panel.y.name, panel.y.unit, panel.y.bins = "OI change", "%", 4
    track = next(iter(tracks(quadrants, "candles", ["open_interest_change"]).by_label.values()), None)
    quadrant_names = quadrants.sort("timestamp").get_column("quadrant")
    known_count = len(quadrant_names) - quadrant_names.null_count()
    if track is None or not known_count:
        panel.is_empty = True
        return
    # Draw all bars of a colour as one artist: thousands of artists would take seconds to draw.
    times, values = track.steps("open_interest_change")
    interval_index = np.searchsorted(track.start, times[:-1], side="right") - 1
    entries: list[Mark] = []
    for quadrant, (colour, meaning) in _QUADRANTS.items():
        has_quadrant = np.array([name == quadrant for name in quadrant_names.to_list()])
        if has_quadrant.any():
            share = has_quadrant.sum() / known_count
            changes = np.where(has_quadrant[interval_index], values[:-1] * 100, np.nan)
            entries.append(
                panel.add(
                    Steps(
                        times,
                        changes,
                        name="changes",
                        key=quadrant,
                        width=0,
                        label=f"{meaning} ({share:.0%})",
                        colour=getattr(panel.colours, colour),
                        hover_name=meaning.partition(":")[0],
                    )
                )
            )
    panel.add(Rule(0.0, colour=panel.colours.flat, width=0.9, order=2.1))
    # The long entries have room side by side only below the axes.
    columns = 2 if panel.ground.figure_width > _WIDE else 1
    panel.legend = Legend(entries, place="below", columns=columns)
