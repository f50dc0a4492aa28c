"""Candles, their volume and their profile, on shared axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import Decimal
from typing import Literal, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from narwhals.stable.v2.typing import IntoFrame

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import Candles, Volume, draw_candles, draw_volume, padded
from tidytape.plot._picture import Picture
from tidytape.plot._profile import Profile, Rules, draw_profile, mark, profile_rows
from tidytape.plot._series import Whose, candle_series, require_same, volume_series
from tidytape.plot._windows import time_of_profile

# Shares of width and height. The profile needs room for a few ticks, the volume for its label.
_WIDTHS = (4.2, 1.0)
_HEIGHTS = (3.3, 1.0)
_MARGIN = 0.09  # [in]


class Panels(NamedTuple):
    """The axes of `candles_with_profile`."""

    price: Axes
    profile: Axes
    volume: Axes
    key: Axes | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CandlesWithProfile(Picture):
    """What `candles_with_profile` drew."""

    axes: Panels
    candles: Candles
    volume: Volume
    profile: Profile
    value_area: Rectangle | None
    lines: dict[str, Line2D]

    def __repr__(self) -> str:
        # A notebook shows it under the picture.
        drawn = self.profile
        return f"CandlesWithProfile(poc={drawn.poc}, val={drawn.val}, vah={drawn.vah})"


def panels(figure: Figure | SubFigure | None = None) -> Panels:
    """Lay out the axes of `candles_with_profile`.

    Parameters
    ----------
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where; a new figure of 14 by 8 inches otherwise, which pyplot shows with the others. A figure that is still
        empty and has no layout engine gets matplotlib's constrained one.

    Returns
    -------
    Panels
        Four axes: time is shared downward and price sideways.

        - ``price`` : Axes. Candles.
        - ``profile`` : Axes. Volume by price, beside them; shares their price axis.
        - ``volume`` : Axes. Volume over time, below them; shares their time axis.
        - ``key`` : Axes or None. Free corner for the legend; without it the legend is in ``profile``.

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
    axes: Panels | Sequence[Axes] | None = None,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> CandlesWithProfile:
    """Draw candles with their volume below, and the volume profile, POC and value area beside them.

    Parameters
    ----------
    candles : frame, n rows, key timestamp, any order
        As for `candles`, with ``volume``.
    profile : frame, m rows, key (timestamp, price), any order
        As for `volume_profile`. It may be another market's of the same coin and quote, or that of several exchanges
        together; the legend then says whose. It is of all the candles that have a volume; where it is of a longer time,
        the legend says which.
    axes : what `panels` returns, or sequence of three matplotlib.axes.Axes; optional
        Where to draw: axes of price, profile and volume; share theirs if they are to move together. Those of
        `panels` in a new figure otherwise.
    share, rule, tie, stop, row_size
        As for `volume_profile`.
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    CandlesWithProfile
        The artists, their axes and their figure. A panel without data says "no data".

        - ``axes`` : Panels. The axes drawn on, as `panels` returns them.
        - ``candles`` : Candles. Artists of the candles, as `candles` returns them.
        - ``volume`` : Volume. Artist of the volume, as `volume` returns it.
        - ``profile`` : Profile. Artists of the profile, and its prices, as `volume_profile` returns them.
        - ``value_area`` : Rectangle or None. The value area behind the candles.
        - ``lines`` : dict of str to Line2D. ``"POC"``, ``"VAH"`` and ``"VAL"`` across the candles.

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
    bars, volumes = candle_series(candles, "candles"), volume_series(candles, "candles")
    rows = profile_rows(profile, "profile", Rules(share, rule, tie, stop, row_size))
    require_same("normalized_symbol", "profile", rows.levels.whose, bars.whose, "the candles")
    # An empty frame does not name its market, but the other frame does.
    whose = bars.whose if bars.start.size else rows.levels.whose
    bars, volumes = replace(bars, whose=whose), replace(volumes, whose=whose)
    rows = rows if rows.area else replace(rows, levels=replace(rows.levels, whose=whose))
    style.zone(timezone)
    when = time_of_profile(volumes, profile, rows.levels.whose, timezone)
    axes = panels() if axes is None else axes
    axes = (
        axes
        if isinstance(axes, Panels)
        else Panels(*style.several_axes(axes, 3, "three: price, profile, volume; or panels()"))
    )

    drawn_candles = draw_candles(axes.price, bars, timezone)
    drawn_volume = draw_volume(axes.volume, volumes, timezone, quote=quote)
    if bars.start.size:
        style.same_times(axes.volume, axes.price)
    drawn_profile = draw_profile(axes.profile, rows, quote=quote)
    prices = np.concatenate([bars.low, bars.high, drawn_profile.steps[0].get_data()[1] if rows.area else []])
    for ax in (axes.price, axes.profile) if prices.size else ():
        ax.set_ylim(*padded(prices.min(), prices.max()))
    shade, lines = mark(axes.price, rows.area) if rows.area else (None, {})

    # Label each shared axis once. The profile has its labels on top, because the legend is below it.
    axes.price.tick_params(labelbottom=bool(bars.start.size and not volumes.start.size))
    axes.price.set_xlabel("")
    axes.profile.tick_params(left=False, labelleft=bool(rows.area and not bars.start.size))
    axes.profile.xaxis.set_label_position("top")
    axes.profile.tick_params(bottom=False, labelbottom=False, top=bool(rows.area), labeltop=bool(rows.area))
    # Align the label to the right: in a narrow window it is wider than the panel.
    axes.profile.xaxis.label.set(x=1.0, ha="right")
    axes.price.xaxis.offsetText.set_visible(False)
    merged = f"profile of {rows.levels.merged} added up" if rows.area and rows.levels.merged else ""
    style.title(axes.price, "Candles and volume profile", whose.title, merged)
    _legend(axes, drawn_profile, bars.whose, rows.levels.whose, when)
    cast(Figure | SubFigure, axes.price.get_figure()).align_ylabels([axes.price, axes.volume])
    return CandlesWithProfile(axes, drawn_candles, drawn_volume, drawn_profile, shade, lines)


def _legend(axes: Panels, profile: Profile, candles: Whose, whose: Whose, when: str) -> None:
    if profile.row_height is None:
        return
    other = whose.name if candles.name and whose.name != candles.name else ""
    title = "\n".join(filter(None, (other, when, profile.note))) or None
    if axes.key is None:
        style.legend(axes.profile, profile.handles, title=title)
    else:
        style.legend(axes.key, profile.handles, title=title, place="corner")
