"""Markets of one coin beside each other: premiums over a reference, and shares of a sum."""

from __future__ import annotations

from datetime import tzinfo

import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Area, Facts, Legend, Line, Panel, Rule
from tidytape.plot._series import values_of
from tidytape.plot._tracks import Floats, Tracks, from_above, legend_place, line_of, show_window, tracks
from tidytape.sessions import Session


def premium(
    frame: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw the premium of each market over a reference price, one line per market.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As `tidytape.analytics.cross.premium` returns it. Uses ``timestamp`` [UTC], ``premium`` [1] and, for the label,
        ``reference_rule``. A market whose premium is always 0, such as the reference itself, has no line.
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
        The artists. For a frame without a premium the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``lines`` : dict of str to Line2D. By market, the line of its premium; NaN for missing intervals. [bp]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several intervals, or a market several rows of one time; or if ``timezone`` is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> from tidytape.analytics import cross
    >>> window = {"coin": "BTC", "interval": "1h", "start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     apart = cross.premium(client.candles(exchange=["DEMO_SPOT", "DEMO_PERP"], **window))
    >>> premium(apart, ax=Figure().add_subplot()).ax.get_ylabel()
    'Premium over the median [bp]'
    """
    return draw(
        lambda panel: fill_premium(panel, frame),
        ax,
        (9, 4),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_premium(panel: Panel, frame: IntoFrame) -> Facts:
    """Show premiums on a panel."""
    premiums = read_frame(panel.hours.inside(frame), "frame", ["timestamp", "premium"])
    series = tracks(premiums, "frame", ["premium"])
    panel.over_time()
    rules = values_of(premiums, "reference_rule") if "reference_rule" in premiums.columns else []
    panel.y.name, panel.y.unit, panel.y.bins = f"Premium over {_reference(rules)}", "bp", 7
    panel.title = style.titled("Premium", series.title())
    lines: list[Line] = []
    for label, track in series.by_label.items():
        times, values = track.line("premium")
        if np.nan_to_num(values).any():
            look = panel.ground.look(len(lines))
            lines.append(
                line_of(
                    times, values * 1e4, name="lines", key=label, label=label, width=1.2, order=2.2, **look
                )
            )
            panel.add(lines[-1])
    panel.is_empty = not any(np.isfinite(track.values["premium"]).any() for track in series.by_label.values())
    if not panel.is_empty:
        panel.add(Rule(0.0, colour=panel.colours.flat, width=0.9, order=1.9))
        show_window(panel, series)
    if len(lines) > 1:
        panel.legend = Legend(from_above(lines), place=legend_place(lines))
    return {"lines": {}}


def _reference(rules: list[str]) -> str:
    """Return the name of the reference price, e.g. ``the median`` or ``A BTCUSDT``."""
    if len(rules) != 1:
        return "the reference"
    if "=" not in rules[0]:
        return f"the {rules[0]}"
    return " ".join(part.partition("=")[2] for part in rules[0].split(", "))


def market_share(
    frame: IntoFrame,
    /,
    *,
    amount: str = "",
    most: int = len(style.CYCLE),
    title: str | None = None,
    ax: Axes | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw the share of each market in the sum of all markets, stacked, the largest at the bottom.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, timestamp), any order
        As `tidytape.analytics.cross.market_share` returns it. Uses ``timestamp`` [UTC], ``share`` [1] and ``total``. A
        market without a row in an interval has a share of 0 in it; an interval whose shares are unknown is a gap.
    amount : str, optional
        Name, for the label, of the amount that is shared, e.g. ``"volume"``.
    most : int, > 0
        How many markets have an area of their own; the areas of the smaller ones are added up.
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
        The artists, and the share of each market over the whole time. The legend lists these shares in the order of the
        areas. For a frame without a share the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``areas`` : dict of str to PolyCollection. By market, from the lowest area to the highest.
        - ``shares`` : dict of str to float. By market, its share in the sum over the whole time. [1]
        - ``times`` : ndarray. Both ends of each interval. [matplotlib dates, d]
        - ``tops`` : dict of str to ndarray. By market, the upper edge of its area at each of the times; NaN in gaps.
          [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several intervals, or a market several rows of one time; if it has one time and no interval, so
        that the width of the picture is not known; if ``most`` is no number above 0; or if ``timezone`` is unknown.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from tidytape import Client
    >>> from tidytape.analytics import cross
    >>> window = {"coin": "BTC", "interval": "1h", "start": "2024-08-07", "end": "2024-08-08"}
    >>> with Client.demo() as client:
    ...     candles = client.candles(exchange=["DEMO_SPOT", "DEMO_PERP"], **window)
    >>> shares = cross.market_share(candles, amount="volume")
    >>> drawn = market_share(shares, amount="volume", ax=Figure().add_subplot())
    >>> drawn.ax.get_ylabel(), round(sum(drawn.shares.values()), 9)
    ('Share of volume [%]', 1.0)
    """
    return draw(
        lambda panel: fill_market_share(panel, frame, amount=amount, most=most),
        ax,
        (9, 4),
        title=title,
        timezone=timezone,
        session=session,
    )


def fill_market_share(panel: Panel, frame: IntoFrame, *, amount: str, most: int) -> Facts:
    """Show shares of a sum on a panel."""
    if type(most) is not int or most < 1:
        raise QueryError("most", got=most, expected="a whole number above 0")
    series = tracks(panel.hours.inside(frame), "frame", ["share", "total"])
    if (
        not series.shared.interval
        and len({time for track in series.by_label.values() for time in track.start}) == 1
    ):
        expected = "a column ``interval``, or several times, which show how long a share counts"
        raise QueryError("frame", got="one time and no interval", expected=expected)
    times, stacked, shares = _stacked(series, most)
    panel.over_time()
    panel.y.name, panel.y.unit = f"Share of {amount}" if amount else "Share", "%"
    panel.y.fixed = {float(share): str(share) for share in (0, 25, 50, 75, 100)}
    panel.title = style.titled("Market share", series.title())
    panel.is_empty = not shares
    facts = {"areas": {}, "shares": shares, "times": times, "tops": dict(zip(shares, stacked, strict=False))}
    if not shares:
        return facts
    low = np.where(np.isnan(stacked[0]), np.nan, 0.0)
    # A market has the same colour as in other pictures. The sum of the small markets is in no other picture: draw it
    # in the neutral colour.
    colours = {label: panel.ground.look(index)["colour"] for index, label in enumerate(series.by_label)}
    for label, high in zip(shares, stacked, strict=True):
        panel.add(
            Area(
                times,
                low * 100,
                high * 100,
                name="areas",
                key=label,
                label=f"{label}, {shares[label]:.1%}" if label else "",
                hover_name=label,
                colour=colours.get(label, panel.colours.volume),
                edge=panel.ground.face,
                width=0.6,
                alpha=0.9,
            )
        )
        low = high
    show_window(panel, series)
    panel.y.limits = (0.0, 100.0)
    if len(shares) > 1:
        panel.legend = Legend(panel.marks[::-1], title="Share over the window", place="beside")
    return facts


def _stacked(series: Tracks, most: int) -> tuple[Floats, Floats, dict[str, float]]:
    """Return times, the upper edge of each area at these times, and the share of each area over the whole time."""
    is_known = {
        label: np.isfinite(track.values["share"]) & np.isfinite(track.values["total"])
        for label, track in series.by_label.items()
    }
    totals: dict[float, float] = {}
    ends: dict[float, float] = {}
    for label, track in series.by_label.items():
        ends |= dict(zip(track.start.tolist(), track.end.tolist(), strict=True))
        rows = is_known[label]
        totals |= dict(zip(track.start[rows].tolist(), track.values["total"][rows].tolist(), strict=True))
    if not totals:
        return np.empty(0), np.empty((0, 0)), {}
    starts = np.array(sorted(ends))
    total = np.array([totals.get(start, np.nan) for start in starts])
    shares_over_time = {}
    for label, track in series.by_label.items():
        share = np.where(np.isnan(total), np.nan, 0.0)
        rows = is_known[label]
        share[np.searchsorted(starts, track.start[rows])] = track.values["share"][rows]
        shares_over_time[label] = share
    total_sum = np.nansum(total)
    mean_share = {
        label: float(np.nansum(share * total) / total_sum) for label, share in shares_over_time.items()
    }
    ranking = sorted(mean_share, key=lambda label: -mean_share[label])
    largest, smaller = ranking[:most], ranking[most:]
    if len(smaller) == 1:  # "1 others" would take as much room as the market itself
        largest, smaller = ranking, []
    areas = [shares_over_time[label] for label in largest]
    shares = {label: mean_share[label] for label in largest}
    if smaller:
        areas.append(np.sum([shares_over_time[label] for label in smaller], axis=0))
        shares[f"{len(smaller)} others"] = sum(mean_share[label] for label in smaller)
    # An area is not drawn in steps, so each interval gives two times: its start and its end. NaN breaks the area at a
    # gap.
    stacked = np.repeat(np.cumsum(areas, axis=0), 2, axis=1)
    end = np.array([ends[start] for start in starts])
    times = np.column_stack([starts, end]).ravel()
    after_gap = 2 * (np.flatnonzero(starts[1:] - end[:-1] > 1e-3 * (end[0] - starts[0])) + 1)
    return (
        np.insert(times, after_gap, times[after_gap - 1]),
        np.insert(stacked, after_gap, np.nan, axis=1),
        shares,
    )
