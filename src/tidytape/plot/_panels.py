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
from tidytape.plot._candles import Candles, Volume, draw_candles, draw_volume, padded_limits
from tidytape.plot._picture import Picture
from tidytape.plot._profile import Profile, Rules, draw_profile, mark, profile_rows
from tidytape.plot._series import Identity, candle_series, require_same, volume_series
from tidytape.plot._windows import time_of_profile

_WIDTHS = (4.2, 1.0)  # of the candles and the profile, which needs room for a few ticks
_HEIGHTS = (3.3, 1.0)  # of the candles and the volume, which needs room for its label
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
        As for `volume_profile`. It may be of another market with the same coin and quote, or of several exchanges
        together; the legend then names them. It must cover all candles that have a volume; if it covers a longer time,
        the legend says which.
    axes : what `panels` returns, or sequence of three matplotlib.axes.Axes; optional
        Where to draw: the axes of price, profile and volume. Let them share their axes to move together. By default
        those of `panels` in a new figure.
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
    require_same("normalized_symbol", "profile", rows.levels.identity, bars.identity, "the candles")
    # An empty frame of candles does not name its market, so ask the profile.
    identity = bars.identity if bars.start.size else rows.levels.identity
    bars, volumes = replace(bars, identity=identity), replace(volumes, identity=identity)
    rows = rows if rows.area else replace(rows, levels=replace(rows.levels, identity=identity))
    style.zone(timezone)
    time_note = time_of_profile(volumes, profile, rows.levels.identity, timezone)
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
        ax.set_ylim(*padded_limits(prices.min(), prices.max()))
    shade, lines = mark(axes.price, rows.area) if rows.area else (None, {})

    # Label a shared axis on one of its panels only. The profile is labelled on top, because the legend is below it.
    axes.price.tick_params(labelbottom=bool(bars.start.size and not volumes.start.size))
    axes.price.set_xlabel("")
    axes.profile.tick_params(left=False, labelleft=bool(rows.area and not bars.start.size))
    axes.profile.xaxis.set_label_position("top")
    axes.profile.tick_params(bottom=False, labelbottom=False, top=bool(rows.area), labeltop=bool(rows.area))
    # Align the label to the right, because in a narrow window it is wider than the panel.
    axes.profile.xaxis.label.set(x=1.0, ha="right")
    axes.price.xaxis.offsetText.set_visible(False)
    merged_note = f"profile of {rows.levels.merged} added up" if rows.area and rows.levels.merged else ""
    style.title(axes.price, "Candles and volume profile", identity.title, merged_note)
    _legend(axes, drawn_profile, bars.identity, rows.levels.identity, time_note)
    cast(Figure | SubFigure, axes.price.get_figure()).align_ylabels([axes.price, axes.volume])
    return CandlesWithProfile(axes, drawn_candles, drawn_volume, drawn_profile, shade, lines)


def _legend(axes: Panels, profile: Profile, candles: Identity, of_profile: Identity, time_note: str) -> None:
    if profile.row_height is None:
        return
    other_market = of_profile.name if candles.name and of_profile.name != candles.name else ""
    title = "\n".join(filter(None, (other_market, time_note, profile.note))) or None
    if axes.key is None:
        style.legend(axes.profile, profile.handles, title=title)
    else:
        style.legend(axes.key, profile.handles, title=title, place="corner")
