"""Candles, their volume and their profile, on shared axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from decimal import Decimal
from typing import Literal, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import date2num, num2date
from matplotlib.figure import Figure, FigureBase, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import add_candles, add_volume, padded_limits
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw_on
from tidytape.plot._model import Facts, Legend, Panel, Steps
from tidytape.plot._profile import Rules, add_area, add_profile, profile_rows
from tidytape.plot._series import (
    Identity,
    VolumeSeries,
    candle_series,
    interval_named,
    require_same,
    volume_series,
)
from tidytape.sessions import Session

_WIDTHS = (4.2, 1.0)  # of the candles and the profile, which needs room for a few ticks
_HEIGHTS = (3.3, 1.0)  # of the candles and the volume, which needs room for its label
_MARGIN = 0.09  # [in]
_SECOND = 1 / 86_400  # [d]


class Panels(NamedTuple):
    """The axes of `candles_with_profile`."""

    price: Axes
    profile: Axes
    volume: Axes
    key: Axes | None = None


def panels(figure: Figure | SubFigure | None = None) -> Panels:
    """Lay out the axes of `candles_with_profile`.

    Parameters
    ----------
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to lay them out; by default a new figure of 14 by 8 inches, which pyplot shows with its other figures. An
        empty figure without a layout engine gets matplotlib's constrained one.

    Returns
    -------
    Panels
        Four axes:

        - ``price`` : Axes. Candles.
        - ``profile`` : Axes. Volume by price, beside the candles; shares their price axis.
        - ``volume`` : Axes. Volume over time, below the candles; shares their time axis.
        - ``key`` : Axes or None. Empty axes in the corner, for the legend; if None, the legend is in ``profile``.

    Examples
    --------
    >>> from matplotlib.figure import Figure, FigureBase
    >>> axes = panels(Figure(figsize=(7, 9)))
    >>> axes.price.get_shared_y_axes().joined(axes.price, axes.profile)
    True
    """
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(14, 8))
    if not isinstance(figure, FigureBase):
        raise QueryError("figure", got=type(figure).__name__, expected="a matplotlib figure, or None")
    if isinstance(figure, Figure) and figure.get_layout_engine() is None and not figure.axes:
        figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=_MARGIN, h_pad=_MARGIN, wspace=0, hspace=0))
    grid = figure.add_gridspec(2, 2, width_ratios=_WIDTHS, height_ratios=_HEIGHTS)
    price = figure.add_subplot(grid[0, 0])
    profile = figure.add_subplot(grid[0, 1], sharey=price)
    volume = figure.add_subplot(grid[1, 0], sharex=price)
    key = figure.add_subplot(grid[1, 1])
    key.set_axis_off()
    return Panels(price, profile, volume, key)


def candles_with_profile(
    candles: IntoFrame,
    profile: IntoFrame,
    /,
    *,
    title: str | None = None,
    axes: Panels | Sequence[Axes] | None = None,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
    session: Session | None = None,
    timezone: str | tzinfo | None = None,
) -> Drawing:
    """Draw candles with their volume below, and the volume profile, POC and value area beside them.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `candles`, with ``volume``.
    profile : frame, m rows, key (timestamp, price), any order
        As for `volume_profile`. It may be of another market with the same coin and quote, or of several exchanges
        together; the legend then names them. It must cover all candles that have a volume; if it covers a longer time,
        the legend says which.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    axes : what `panels` returns, or sequence of three matplotlib.axes.Axes; optional
        Where to draw: the axes of price, profile and volume. Let them share their axes to move together. By default
        those of `panels` in a new figure.
    share, rule, tie, stop, row_size
        As for `volume_profile`.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    session : Session, optional
        When the market trades; closed time is left out then, as in `candles`.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.

    Returns
    -------
    Drawing
        The artists, their axes and their figure. A panel without data says "no data".

        - ``axes`` : Panels. The axes drawn on, as `panels` returns them.
        - ``wicks``, ``bodies`` : LineCollection, PolyCollection. The candles, as in `candles`.
        - ``steps`` : StepPatch. The volume over time, as in `volume`.
        - ``value_area`` : Rectangle or None. The value area behind the candles.
        - ``lines`` : dict of str to Line2D. ``"POC"``, ``"VAH"`` and ``"VAL"`` across the candles.
        - ``value_area_beside``, ``lines_beside`` : Rectangle, dict of str to Line2D. The same on the profile.
        - ``buy``, ``sell``, ``volume``, ``poc``, ``vah``, ``val``, ``share``, ``row_height``, ``note`` : As in
          `volume_profile`.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a frame holds several markets or a row twice, the two differ in ``normalized_symbol``, candles with a volume
        lie outside the time of the profile, or an argument is not one of those listed.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure, FigureBase
    >>> whose = {"exchange": "X", "raw_symbol": "BTCUSDT", "normalized_symbol": "BTC-USDT"}
    >>> bars = pl.DataFrame({
    ...     **whose, "timestamp": [datetime(2024, 8, 8, h, tzinfo=UTC) for h in (0, 1)], "open": [60.0, 62.0],
    ...     "high": [63.0, 64.0], "low": [59.0, 61.0], "close": [62.0, 61.5], "volume": [10.0, 4.0],
    ... })
    >>> levels = pl.DataFrame({
    ...     **whose, "price": [60.0, 61.0, 62.0, 63.0], "buy_volume": [1.0, 4.0, 2.0, 0.0],
    ...     "sell_volume": [1.0, 2.0, 3.0, 1.0],
    ... })
    >>> drawn = candles_with_profile(bars, levels, axes=panels(Figure()))
    >>> drawn.lines["POC"].get_label(), drawn.axes.price.get_title(loc="left")
    ('POC 61', 'Candles and volume profile · X BTCUSDT')
    """
    places = panels() if axes is None else axes
    if not isinstance(places, Panels):
        places = Panels(*style.several_axes(places, 3, "three: price, profile, volume; or panels()"))
    drawn = draw_on(
        lambda *several: fill_candles_with_profile(
            several, candles, profile, rules=Rules(share, rule, tie, stop, row_size), quote=quote
        ),
        places[:3],
        title=title,
        is_new=axes is None,
        key=places.key,
        timezone=timezone,
        session=session,
    )
    _label_once(places, *(not panel.is_empty for panel in drawn.model.panels))
    return replace(drawn, axes=cast("tuple[Axes, ...]", places))


def fill_candles_with_profile(
    several: Sequence[Panel],
    candles: IntoFrame,
    profile: IntoFrame,
    *,
    rules: Rules,
    quote: str | None,
) -> Facts:
    """Show candles, a volume profile and volumes on three panels."""
    price, profile_panel, volume_panel = several
    hours = price.hours
    traded = hours.inside(candles, "candles")
    bars, volumes = candle_series(traded, "candles"), volume_series(traded, "candles")
    rows = profile_rows(profile, "profile", rules)
    require_same("normalized_symbol", "profile", rows.levels.identity, bars.identity, "the candles")
    # An empty frame of candles does not name its market, so ask the profile.
    identity = bars.identity if bars.start.size else rows.levels.identity
    named, volumes = replace(bars, identity=identity), replace(volumes, identity=identity)
    rows = rows if rows.area else replace(rows, levels=replace(rows.levels, identity=identity))
    # A candle of a day that is moved to the date of its session may reach over the end of the profile.
    all_volumes = volume_series(candles, "candles")
    time_note = _time_of_profile(all_volumes, profile, rows.levels.identity, hours.zone)
    shown = add_candles(price, named)
    add_volume(volume_panel, volumes, quote=quote)
    if bars.start.size:
        volume_panel.x.window, volume_panel.x.limits = price.x.window, price.x.limits
    marks, facts = add_profile(profile_panel, rows, quote=quote, suffix="_beside")
    profile_panel.y.name = profile_panel.y.unit = ""
    prices = [
        *bars.low,
        *bars.high,
        *(edge for mark in profile_panel.marks if isinstance(mark, Steps) for edge in mark.edges),
    ]
    if prices:
        price.y.limits = profile_panel.y.limits = padded_limits(min(prices), max(prices))
    if rows.area:
        add_area(price, rows.area)
    merged_note = f"profile of {rows.levels.merged} added up" if rows.area and rows.levels.merged else ""
    price.title = style.titled("Candles and volume profile", shown.title, merged_note)
    if marks:
        whose = rows.levels.identity.name
        other_market = whose if bars.identity.name and whose != bars.identity.name else ""
        note = "\n".join(filter(None, (other_market, time_note, facts["note"]))) or None
        profile_panel.legend = Legend(marks, title=note, place="corner")
    return facts


def _label_once(axes: Panels, has_candles: bool, has_profile: bool, has_volume: bool) -> None:  # noqa: FBT001
    """Label a shared axis on one of its panels only, and the profile on top, because the legend is below it."""
    axes.price.tick_params(labelbottom=has_candles and not has_volume)
    axes.price.set_xlabel("")
    axes.price.xaxis.offsetText.set_visible(False)
    axes.profile.tick_params(left=False, labelleft=has_profile and not has_candles)
    axes.profile.xaxis.set_label_position("top")
    axes.profile.tick_params(bottom=False, labelbottom=False, top=has_profile, labeltop=has_profile)
    # Align the label to the right, because in a narrow window it is wider than the panel.
    axes.profile.xaxis.label.set(x=1.0, ha="right")
    cast(Figure | SubFigure, axes.price.get_figure()).align_ylabels([axes.price, axes.volume])


def _time_of_profile(
    candles: VolumeSeries, profile: object, identity: Identity, timezone: str | tzinfo
) -> str:
    """Return a note with the time of a profile; empty if it is unknown, or the same as that of the candles.

    Raises
    ------
    QueryError
        If candles with a volume lie outside the time of the profile.
    """
    rows, interval = read_frame(profile, "profile"), interval_named(identity.interval)
    traded_starts = candles.start[candles.volume > 0]
    if "timestamp" not in rows.columns or interval is None or not traded_starts.size:
        return ""
    times = with_datetimes(rows, "profile").get_column("timestamp").drop_nulls()
    if not len(times):
        return ""
    ends = np.array([times.dt.timestamp("ns").min(), times.dt.timestamp("ns").max()], dtype="datetime64[ns]")
    first, last = date2num(ends) + np.array([0.0, interval.seconds * _SECOND])  # type: ignore[no-untyped-call]
    zone, name = style.zone(timezone)
    texts = [f"{num2date(date, zone):%Y-%m-%d %H:%M}" for date in (first, last)]  # type: ignore[no-untyped-call]
    period = f"{texts[0]} to {texts[1]} {name}"
    start, end = candles.start[0], candles.start[-1] + candles.width
    if traded_starts[0] < first - _SECOND or traded_starts[-1] + candles.width > last + _SECOND:
        raise QueryError(
            "profile",
            got=f"a profile of {period}",
            expected="one of all the candles that have a volume",
            hint="a first interval that began before start is left out: let start be where an interval of the profile "
            "begins, or leave out the candles that are not in it",
        )
    return f"Profile: {period}" if first < start - _SECOND or last > end + _SECOND else ""
