"""The look of every picture: colours, labels, and numbers on the axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from math import inf
from typing import Any, Literal, cast
from unicodedata import east_asian_width
from zoneinfo import ZoneInfo

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap, ListedColormap, LogNorm, to_rgb, to_rgba
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateLocator, num2date
from matplotlib.legend import Legend
from matplotlib.patheffects import withStroke
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    NullLocator,
    ScalarFormatter,
)
from matplotlib.transforms import ScaledTranslation

from tidytape.errors import QueryError

CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Colours of several series, from Okabe and Ito's palette, without its black and its yellow.

Black would vanish on a black background, yellow on a white one.
"""

OF = " · "  # separates the subject of a title from the market
# Share of the viridis scale that is used: its yellow is hard to see on white, its violet on black.
_VISIBLE = 0.85
_DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours that are readable on one kind of background.

    ``up``, ``down``, ``buy`` and ``sell`` are from Okabe and Ito's palette, which colour-blind people can tell apart.
    The colours of each pair also differ in lightness.
    """

    ink: str  # text and important lines
    quiet: str  # spines and ticks
    grid: str
    up: str
    down: str
    flat: str
    buy: str
    sell: str
    volume: str
    poc: str
    value_area: str
    value_area_edge: str
    series: tuple[str, ...]  # the lines of a picture with several series, in this order


_LIGHT = Palette(
    ink="#33383d",
    quiet="#a3a9af",
    grid="#e7e9ec",
    up="#0072b2",
    down="#d55e00",
    flat="#5b6167",
    buy="#56a5d2",
    sell="#eb9a5f",
    volume="#8c949c",
    poc="#111111",
    value_area="#e9e1f2",
    value_area_edge="#6a3d8f",
    series=CYCLE,
)
_DARK = Palette(
    ink="#e3e6e9",
    quiet="#747b82",
    grid="#2d3237",
    up="#4aa8e0",
    down="#ee7b2b",
    flat="#aab1b8",
    buy="#2f86b8",
    sell="#c4682a",
    volume="#79818a",
    poc="#ffffff",
    value_area="#33273f",
    value_area_edge="#b996da",
    series=("#2f9ae0", "#f07f2e", "#1dbd90", "#d98fb8", "#9ad4f5", "#f2bd42"),
)
_TITLE, _SMALLEST = 12.0, 8.0  # usual font size of titles, and the smallest in a narrow figure [pt]
_LETTER = 0.56  # usual width of a letter as a share of the font size
_ABOVE = 22.0  # distance between axes and title if a legend is between them [pt]
_ROUND_DAYS = (0.25, 0.5, 1, 2, 3, 7, 14, 30, 60, 90, 180, 365, 730)  # [d]
# Black and white text have equal contrast on a background of this relative luminance: sqrt(1.05 * 0.05) - 0.05.
_EQUAL_CONTRAST = 0.179


@dataclass(frozen=True, slots=True)
class Ground:
    """What is behind a panel, and how large the panel is before a layout engine resizes it.

    Attributes
    ----------
    face, around_face : (float, float, float)
        Visible colours of the axes and of the figure.
    width, height, figure_width : float
        Of the axes, and of the figure or subfigure. [pt]
    """

    face: tuple[float, float, float]
    around_face: tuple[float, float, float]
    width: float = 540.0
    height: float = 260.0
    figure_width: float = 720.0

    @classmethod
    def of(cls, ax: Axes) -> Ground:
        """Return the ground of axes; if they are transparent, the figure shows through."""
        below, box, part = _figure_face(ax), ax.get_window_extent(), cast("Any", ax.get_figure(root=False))
        points = 72 / part.get_figure(root=True).dpi
        face = _over(ax.get_facecolor() if ax.axison else "none", below)
        return cls(face, below, box.width * points, box.height * points, float(part.bbox.width * points))

    @property
    def is_dark(self) -> bool:
        """Whether the face of the axes is dark."""
        return _luminance(self.face) < _EQUAL_CONTRAST

    @property
    def inside(self) -> Palette:
        """The colours for marks inside the axes."""
        return _DARK if self.is_dark else _LIGHT

    @property
    def around(self) -> Palette:
        """The colours for labels, ticks and titles around the axes."""
        return _DARK if _luminance(self.around_face) < _EQUAL_CONTRAST else _LIGHT

    def look(self, index: int) -> dict[str, Any]:
        """Return the colour and the dashes of one of several marks; where a colour comes again, the dashes differ."""
        colours = self.inside.series
        return {
            "colour": colours[index % len(colours)],
            "dashes": _DASHES[index // len(colours) % len(_DASHES)],
            "marker": _MARKERS[index % len(_MARKERS)],
            "size": 4.5,
        }

    def mixed(self, colour: Any, share: float) -> tuple[float, ...]:
        """Return a colour of which a share lies over the face."""
        face = np.array(self.face)
        return tuple((face + share * (np.array(to_rgb(colour)) - face)).tolist())

    def shades(self, colour: str, faint: float = 0.14) -> Colormap:
        """Return a scale of colours from nearly that of the background, over ``colour``, to a stronger one.

        ``colour`` itself is at three quarters of the scale, so that usual sizes stay faint and walls stand out.
        ``faint`` is its share in the first colour of the scale: use more for a picture with few marks.
        """
        pure, strong = (np.array(to_rgb(name)) for name in (colour, self.inside.poc))
        scale: Any = [(0.0, self.mixed(colour, faint)), (0.75, pure), (1.0, pure + 0.8 * (strong - pure))]
        return LinearSegmentedColormap.from_list("shades", scale)

    def diverging(self, low: str, high: str, *, middle_ink: float = 0.06) -> Colormap:
        """Return a scale of colours from ``low`` over nearly that of the background to ``high``.

        ``middle_ink`` is the share of the text colour in the middle: use more if zero must differ from an empty cell.
        """
        middle: Any = self.mixed(self.inside.ink, middle_ink)
        return LinearSegmentedColormap.from_list("diverging", [low, middle, high])

    def ordered(self) -> Colormap:
        """Return a scale of colours for ordered values, without the end that is hard to see on the background."""
        first = 1 - _VISIBLE if self.is_dark else 0.0
        return ListedColormap(mpl.colormaps["viridis"](np.linspace(first, first + _VISIBLE, 256)))

    def halo(self, width: float = 2.5) -> list[Any]:
        """Return path effects that keep a line or text readable over colours: a rim in the colour of the face."""
        return [withStroke(linewidth=width, foreground=self.face)]


def inside(ax: Axes) -> Palette:
    """Return the colours for artists inside axes, on the face of the axes."""
    return Ground.of(ax).inside


def around(ax: Axes) -> Palette:
    """Return the colours for labels, ticks and titles around axes, on the face of the figure."""
    return Ground.of(ax).around


def _figure_face(ax: Axes) -> tuple[float, float, float]:
    """Return the visible colour of the figure behind axes."""
    faces, part = [], ax.get_figure(root=False)
    while part is not None:
        faces.append(part.get_facecolor())
        parent = part.get_figure(root=False)
        part = None if parent is part else parent
    ground = to_rgb("white")
    if not any(to_rgba(colour)[3] for colour in faces):
        # A transparent figure will be shown on a page: assume the colours that the axes and the settings have.
        faces = [ax.get_facecolor(), mpl.rcParams["figure.facecolor"]]
    for colour in reversed(faces):
        ground = _over(colour, ground)
    return ground


def _over(colour: Any, below: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the visible colour of a transparent colour over another."""
    *channels, alpha = to_rgba(colour)
    red, green, blue = (alpha * top + (1 - alpha) * low for top, low in zip(channels, below, strict=True))
    return red, green, blue


def _luminance(colour: tuple[float, ...]) -> float:
    """Return the relative luminance of a colour, as the W3C defines it for contrast ratios."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def on(colour: tuple[float, ...]) -> str:
    """Return black or white, whichever is readable as text on a colour."""
    return (_DARK if _luminance(colour) < _EQUAL_CONTRAST else _LIGHT).poc


def label(name: str, unit: str) -> str:
    """Return an axis label, e.g. ``Price [USDT per BTC]``."""
    return f"{name} [{unit}]" if unit else name


def zone(timezone: str | tzinfo) -> tuple[tzinfo, str]:
    """Return a time zone and its name for labels; raise QueryError if it is unknown."""
    if isinstance(timezone, tzinfo):
        return timezone, str(timezone)
    if timezone == "UTC":
        return UTC, "UTC"  # some machines have no database of time zones, and UTC needs none
    try:
        return ZoneInfo(timezone), timezone
    except (OSError, TypeError, ValueError, LookupError):
        expected = "the name of a time zone, e.g. 'UTC' or 'Europe/Berlin'"
        raise QueryError("timezone", got=timezone, expected=expected) from None


def one_axes(ax: object, width: float, height: float) -> Axes:
    """Return the caller's axes, or the only axes of a new figure of this size, which pyplot shows. [in]

    Raises
    ------
    QueryError
        If ``ax`` is not axes, but e.g. the array of ``plt.subplots(2)``.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    if not isinstance(ax, Axes):
        hint = "pass one of them, such as axes[0]" if hasattr(ax, "__len__") else None
        raise QueryError("ax", got=type(ax).__name__, expected="axes of matplotlib, or None", hint=hint)
    return ax


def several_axes(axes: object, number: int, expected: str) -> tuple[Axes, ...]:
    """Return the caller's axes, one per panel.

    Raises
    ------
    QueryError
        If there are fewer or more than ``number``, or one of them is not axes.
    """
    several = (axes,) if isinstance(axes, Axes) or not isinstance(axes, Iterable) else tuple(axes)
    if not all(isinstance(ax, Axes) for ax in several):
        type_name = next(type(ax).__name__ for ax in several if not isinstance(ax, Axes))
        raise QueryError("axes", got=type_name, expected=expected)
    if len(several) != number:
        raise QueryError("axes", got=f"{len(several)} axes", expected=expected)
    return several


def stacked_axes(
    axes: object, heights: Sequence[float], expected: str, *, size: tuple[float, float]
) -> tuple[Axes, ...]:
    """Return the caller's axes, or those of a new figure of this size, above each other on shared times. [in]"""
    if axes is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(heights), sharex=True, height_ratios=heights, squeeze=False).flat
    return several_axes(axes, len(heights), expected)


def frame_axes(ax: Axes, timezone: str | tzinfo | None = None) -> None:
    """Give axes a quiet frame and a grid behind the data; with a time zone the horizontal axis shows times.

    Raises
    ------
    QueryError
        If the axes are polar, three-dimensional or a map projection.
    """
    if ax.name in {"polar", "3d", "aitoff", "hammer", "lambert", "mollweide"}:
        expected = "axes with a flat x and y, as of Figure().add_subplot()"
        raise QueryError("ax", got=f"{ax.name} axes", expected=expected)
    ax.set_axisbelow(True)
    ax.grid(visible=True, color=inside(ax).grid, linewidth=0.8)
    outer = around(ax)
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(outer.quiet)
    ax.tick_params(labelcolor=outer.ink, labelsize="small", color=outer.quiet)
    if timezone is not None:
        time_axis(ax.xaxis, timezone)


def titled(subject: str, *of: str) -> str:
    """Return a title: the subject, then what it is of, such as market and interval.

    Examples
    --------
    >>> titled("Candles", "X BTCUSDT", "", "1h")
    'Candles · X BTCUSDT, 1h'
    """
    return OF.join(filter(None, (subject, ", ".join(filter(None, of)))))


def columns(text: str) -> int:
    """Return how wide a text is in letters; a Chinese, Japanese or Korean character is as wide as two."""
    return len(text) + sum(east_asian_width(letter) in "WF" for letter in text)


def write_title(ax: Axes, text: str, *, pad: float | None = None) -> None:
    """Write a title, in a smaller font if the figure would cut it off."""
    ground = Ground.of(ax)
    size = min(0.88 * ground.figure_width / (_LETTER * max(columns(text), 1)), _TITLE)
    size = max(size, _SMALLEST)
    # A `$` in the name of a market does not begin a formula, here and in all texts below.
    ax.set_title(text, loc="left", pad=pad, color=ground.around.ink, size=size, parse_math=False)


def fixed_ticks(axis: Axis, positions: Sequence[float], labels: Sequence[str]) -> None:
    """Give an axis ticks at these positions with these texts, and no minor ticks."""
    axis.set_major_locator(FixedLocator(positions))
    axis.set_major_formatter(FixedFormatter(labels))
    axis.set_minor_locator(NullLocator())


def day_ticks(first: float, last: float, otherwise: float) -> dict[float, str]:
    """Return round numbers of days to expiry from ``first`` to ``last``, or ``otherwise``, and their texts."""
    ticks = [day for day in _ROUND_DAYS if first <= day <= last] or [otherwise]
    return {day: f"{day:g}" for day in ticks}


def name_axis(axis: Axis, text: str) -> None:
    """Label an axis."""
    ink = around(axis.axes).ink
    axis.set_label_text(text, color=ink, parse_math=False)
    axis.offsetText.set(color=ink, fontsize="small")


def legend(
    ax: Axes,
    handles: Sequence[Artist] | None = None,
    *,
    title: str | None = None,
    place: Literal["inside", "beside", "above", "below", "corner"] = "inside",
    columns: int | None = None,
) -> Legend:
    """Draw a legend.

    Parameters
    ----------
    ax : Axes
        The axes that the legend explains.
    handles : sequence of Artist, optional
        The artists to list; by default all artists that have a label.
    title : str, optional
        Text above the entries.
    place : {"inside", "beside", "above", "below", "corner"}
        Inside: in the axes, where there is most room. Beside: right of the axes. Above: in a row above the axes. Below:
        under the label of the horizontal axis. Corner: in the upper left corner of axes that have no data.
    columns : int, optional
        Number of entries side by side. By default all entries if the legend is above the axes, and one otherwise.
    """
    artists = list(ax.get_legend_handles_labels()[0] if handles is None else handles)
    placement: dict[str, Any] = {
        "inside": {"framealpha": 0.9, "edgecolor": inside(ax).grid, "facecolor": Ground.of(ax).face},
        "beside": {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False},
        "above": {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "frameon": False, "borderaxespad": 0.1},
        "below": {
            "loc": "upper left",
            "bbox_to_anchor": (0.0, 0.0),
            "bbox_transform": ax.transAxes + _down(ax, 46),  # below the labels of the ticks and of the axis
            "borderaxespad": 0,
            "frameon": False,
        },
        "corner": {
            "loc": "upper left",
            "borderaxespad": 0,
            "borderpad": 0,
            "handlelength": 1.7,
            "frameon": False,
        },
    }[place]
    text = inside(ax).ink if place == "inside" else around(ax).ink
    if place == "above":
        placement |= {"columnspacing": 1.2, "handlelength": 1.4, "handletextpad": 0.5, "borderpad": 0.2}
        write_title(ax, ax.get_title(loc="left"), pad=_ABOVE)
    drawn = ax.legend(
        handles=artists,
        title=title,
        fontsize="small",
        title_fontsize="small",
        alignment="left",
        labelcolor=text,
        ncols=columns or (max(len(artists), 1) if place == "above" else 1),
        **placement,
    )
    drawn.get_title().set_color(text)
    for part in (drawn.get_title(), *drawn.get_texts()):
        part.set_parse_math(False)
    return drawn


def _down(ax: Axes, points: float) -> ScaledTranslation:
    """Return a transformation that moves an artist down."""
    return ScaledTranslation(0, -points / 72, ax.get_figure(root=True).dpi_scale_trans)  # type: ignore[union-attr]


def colour_bar(
    ax: Axes,
    colours: ScalarMappable,
    name: str,
    unit: str = "",
    *,
    part: tuple[int, int] = (0, 1),
) -> Colorbar:
    """Draw a bar that explains colours, right of axes; the axes keep their size, and the bar always has ticks.

    Parameters
    ----------
    ax : Axes
        Axes with the colours.
    colours : ScalarMappable
        The artist that has the colours.
    name, unit : str
        Name and unit of the values.
    part : (int, int)
        Index of the bar, from below, and the number of bars above each other.
    """
    index, number = part
    height = 0.96 if number == 1 else 1 / number - 0.05
    bar_axes = ax.inset_axes((1.015, 0.02 + index * (0.96 - height) / max(number - 1, 1), 0.018, height))
    bar = ax.get_figure(root=True).colorbar(colours, cax=bar_axes)  # type: ignore[union-attr]
    outer = around(ax)
    bar.outline.set_visible(False)
    low, high = (float(end) for end in colours.get_clim())
    bar.ax.yaxis.set_major_locator(
        FixedLocator(bar_ticks(low, high, is_log=isinstance(colours.norm, LogNorm)))
    )
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    bar.ax.tick_params(labelcolor=outer.ink, color=outer.quiet, labelsize="small")
    bar.set_label(label(name, unit), color=outer.ink, fontsize="small", parse_math=False)
    return bar


def bar_ticks(low: float, high: float, *, is_log: bool) -> list[float]:
    """Return two to seven round numbers between ``low`` and ``high``; the two ends if there are no round ones."""
    if is_log:
        powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        for digits in ((1,), (1, 3), (1, 2, 5)):
            ticks = [digit * 10.0**power for power in powers for digit in digits]
            ticks = [tick for tick in ticks if low <= tick <= high]
            if len(ticks) > 2:
                return ticks[:: -(-len(ticks) // 7)]
    linear = round_ticks(5).tick_values(low, high)
    return [float(tick) for tick in linear if low <= tick <= high] or [low, high]


def round_ticks(bins: int) -> MaxNLocator:
    """Return a locator of about ``bins`` ticks at round numbers."""
    return MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10])


def time_axis(axis: Axis, timezone: str | tzinfo) -> None:
    """Show an axis of matplotlib dates as times in a zone, which the label names."""
    tz, name = zone(timezone)
    locator = _Roomy(tz=tz)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(Dates(locator, tz))
    name_axis(axis, label("Time", name))
    axis.label.set(x=0.0, horizontalalignment="left")  # the right end of the axis shows the days


def no_data(ax: Axes) -> None:
    """Write "no data", and hide the ticks, which would be arbitrary."""
    ax.text(
        0.5,
        0.5,
        "no data",
        transform=ax.transAxes,
        ha="center",
        va="center",
        color=inside(ax).ink,
        fontsize="large",
    )
    # Hide the ticks of these axes only: a locator may be shared with axes that have data.
    ax.tick_params(left=False, bottom=False, top=False, labelleft=False, labelbottom=False, labeltop=False)
    ax.grid(visible=False)


def price_text(price: float, step: float | None) -> str:
    """Return a price with as many decimals as ``step``, the height of its rows, has.

    Examples
    --------
    >>> price_text(60123.4, 0.1), price_text(60120.0, 10.0), price_text(0.00001234, 1e-8)
    ('60,123.4', '60,120', '0.00001234')
    """
    if step is None or step <= 0:
        return f"{price:,.10g}"
    decimals = next((n for n in range(12) if abs(round(step, n) - step) <= 1e-6 * step), 12)
    return f"{price:,.{decimals}f}"


def short(value: float) -> str:
    """Return an amount in few characters, with all its digits.

    Examples
    --------
    >>> [short(value) for value in (0, 0.025, 150, 2_500, 1_000_000, 3.2e9)]
    ['0', '0.025', '150', '2.5k', '1M', '3.2bn']
    """
    for size, letter in ((1e12, "tn"), (1e9, "bn"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def rounded(value: float) -> str:
    """Return an amount in few characters, to three digits.

    Examples
    --------
    >>> [rounded(value) for value in (0, 0.0251234, 12.345, 1_234_567)]
    ['0', '0.0251', '12.3', '1.23M']
    """
    return short(float(f"{value:.3g}"))


class _Roomy(AutoDateLocator):
    """Places as many ticks as there is room for side by side."""

    def get_locator(self, dmin: datetime, dmax: datetime) -> DateLocator:
        # `get_tick_space` counts labels of three characters, which is too many for times; but a locator often places
        # fewer ticks than it may, so subtract only two.
        room = self.axis.get_tick_space() - 2 if self.axis else 9
        most = min(max(room, 5), 12)
        self.maxticks = dict.fromkeys(self.maxticks, most)
        # If the axis shows fewer days than this, the ticks are hours.
        self.minticks = min((most - 1) // 2, 4)
        return super().get_locator(dmin, dmax)  # type: ignore[no-any-return, no-untyped-call]


_SECOND = 1 / 86_400
"""[d]"""


class Dates(ConciseDateFormatter):
    """Writes times in few characters, and at the end of the axis the first and the last day that it shows."""

    def __init__(self, locator: DateLocator, zone: tzinfo) -> None:
        zero_formats = ["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]
        super().__init__(locator, tz=zone, zero_formats=zero_formats)  # type: ignore[no-untyped-call]
        self._zone = zone
        self.window = (-inf, inf)
        """Start of the first interval and end of the last one; the axis is wider by a margin. [d]"""

    def get_offset(self) -> str:
        """Return the first and the last day, e.g. ``2024-08-07 to 2024-08-08``."""
        low, high = sorted(self.axis.get_view_interval()) if self.axis else (0.0, 0.0)
        start, end = max(low, self.window[0]), min(high, self.window[1])
        if start >= end:  # the user moved the axis away from the data
            start, end = low, high
        # The end is exclusive: without the subtraction, an end at midnight would name a day that is not shown.
        first, last = (
            num2date(time, tz=self._zone).strftime("%Y-%m-%d")  # type: ignore[no-untyped-call]
            for time in (start, max(start, end - _SECOND))
        )
        return first if first == last else f"{first} to {last}"


class Grouped(ScalarFormatter):
    """Writes numbers without an exponent and with a comma between thousands."""

    def __init__(self) -> None:
        super().__init__(useOffset=False, useMathText=False)
        self.set_scientific(False)

    def __call__(self, x: float, pos: int | None = None) -> str:
        integer, point, decimals = super().__call__(x, pos).partition(".")
        digits = integer.lstrip("-\N{MINUS SIGN}")
        if not digits.isdecimal():
            return integer + point + decimals
        return integer[: len(integer) - len(digits)] + f"{int(digits):,}" + point + decimals
