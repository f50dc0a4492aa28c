"""A figure of Plotly in the making, beside the axes of matplotlib that the static function draws on.

A twin of a static function lets it draw on axes that nobody sees, and sends what it drew: the prices, titles, units,
colours and names of both are the same because there is one source of them.
"""

from __future__ import annotations

import html
import re
from datetime import tzinfo
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import QuadMesh
from matplotlib.colorbar import Colorbar
from matplotlib.colors import to_hex, to_rgba
from matplotlib.dates import AutoDateLocator
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from tidytape.plot import _style as style
from tidytape.plot.interactive._plotly import graph_objects
from tidytape.plot.interactive._times import Clock

Floats = NDArray[np.float64]

_WIDTH, _HEIGHT = (
    10.0,
    4.8,
)  # [in], of a figure of 100 dpi: where marks have room, as a static function sees it
_DPI = 100
_FACES = {False: "#ffffff", True: "#15191d"}
_GAP = 0.035  # between panels, of the height
_FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
_LABEL = re.compile(r"(?s)(.*?)(?: \[([^\]]*)\](.*))?")


class Canvas:
    """Axes of matplotlib to draw on, and the traces and the layout that become a figure of Plotly.

    Parameters
    ----------
    name : str
        Of the function that draws, for the error where Plotly is not installed.
    timezone : str or tzinfo
        Zone of times.
    dark : bool
        Whether the face is dark.
    height : float
        At 100 dpi. [in]
    """

    def __init__(
        self, name: str, timezone: str | tzinfo, *, dark: bool = False, height: float = _HEIGHT
    ) -> None:
        self._go = graph_objects(f"plot.interactive.{name}")
        self._timezone, self._face, self.height = timezone, _FACES[dark], height
        self.place = Figure(figsize=(_WIDTH, height), dpi=_DPI, facecolor=self._face)
        self._ids: dict[Axes, tuple[str, str]] = {}  # numbers of the axes of x and y
        self._domains: dict[str, tuple[float, float]] = {}  # by axis, such as "y2"
        self._names: dict[Artist, str] = {}
        self._over: dict[Axes, Axes] = {}
        self._unlisted: set[Artist] = set()
        self._fixed: set[Axes] = set()
        self._hover_names: dict[Artist, str] = {}
        self._silent: set[Artist] = set()
        self._groups: dict[Artist, str] = {}
        self.traces: list[tuple[float, dict[str, Any]]] = []
        self.layout: dict[str, Any] = {"images": [], "shapes": [], "annotations": []}
        self.done: set[Artist] = set()
        self.subtitle = ""
        self.has_dots = False

    # --- axes ---

    @cached_property
    def ax(self) -> Axes:
        """The only axes."""
        return self.stack(1)[0]

    def stack(self, *heights: float) -> list[Axes]:
        """Return axes above each other, which share their time."""
        several = list(
            self.place.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False).flat
        )
        unit = (1 - _GAP * (len(heights) - 1)) / sum(heights)
        top = 1.0
        for ax, height in zip(several, heights, strict=True):
            self.add_axes(ax, (0.0, 1.0), (max(top - height * unit, 0.0), top))
            top -= height * unit + _GAP
        return several

    def add_axes(self, ax: Axes, across: tuple[float, float], up: tuple[float, float]) -> None:
        """Place axes: ``across`` and ``up`` are shares of the width and of the height."""
        ax.set_facecolor(self._face)
        x = next((ids[0] for own, ids in self._ids.items() if own.get_shared_x_axes().joined(own, ax)), None)
        y = next((ids[1] for own, ids in self._ids.items() if own.get_shared_y_axes().joined(own, ax)), None)
        if x is None:
            x = self._next("x")
            self._domains[x] = across
        if y is None:
            y = self._next("y")
            self._domains[y] = up
        self._ids[ax] = x, y

    def add_twin(self, ax: Axes, below: Axes) -> None:
        """Place axes over others, with the same times and a scale of their own at the right."""
        y = self._next("y")
        self._ids[ax] = self._ids[below][0], y
        self._over[ax] = below

    def _next(self, letter: str) -> str:
        place = 0 if letter == "x" else 1
        number = len({ids[place] for ids in self._ids.values()}) + 1
        return letter if number == 1 else f"{letter}{number}"

    @cached_property
    def clock(self) -> Clock:
        """The clock of the times."""
        several = [ax for ax in self._ids if is_time(ax.xaxis)]
        ends = [several[0].get_xlim()] if several else [(0.0, 0.0)]
        return Clock.of(self._timezone, *ends[0])

    def positions(self, ax: Axes, x: Floats) -> Any:
        """Return positions on the axis of x as Plotly has them: times are text."""
        return self.clock.texts(np.asarray(x, float)) if is_time(ax.xaxis) else np.asarray(x, float)

    @property
    def axes(self) -> list[Axes]:
        """All axes, in the order in which they were placed."""
        return list(self._ids)

    # --- what is drawn ---

    def add(self, ax: Axes, *, order: float = 1.0, **trace: Any) -> None:
        """Add a trace; those of a higher order lie over the others."""
        x, y = self._ids[ax]
        self.traces.append((order, {"xaxis": x, "yaxis": y, "showlegend": False, **trace}))

    def add_key(self, ax: Axes, artist: Artist, fill: Any) -> None:
        """Let the legend list an area that is part of an image."""
        self.add(
            ax,
            type="scatter",
            mode="markers",
            x=[None],
            y=[None],
            marker={"symbol": "square", "size": 12, "color": colour(fill)},
            hoverinfo="skip",
            name=self.name_of(artist),
            showlegend=True,
            legendrank=self.rank(artist),
        )

    def refs(self, ax: Axes) -> tuple[str, str]:
        """Return the names of the axes of x and y."""
        return self._ids[ax]

    def name(self, artist: Artist, name: str, *, listed: bool = True) -> None:
        """Give what was drawn another name, with which the legend lists it or not."""
        self._names[artist] = name
        if not listed:
            self._unlisted.add(artist)

    def group(self, artist: Artist, name: str) -> None:
        """Let a click on the legend hide what was drawn with all others of a group."""
        self._groups[artist] = name

    def group_of(self, artist: Artist) -> str | None:
        """Return the group of what was drawn."""
        return self._groups.get(artist)

    def without_hover(self, artist: Artist) -> None:
        """Let hovering pass over what was drawn."""
        self._silent.add(artist)

    def is_silent(self, artist: Artist) -> bool:
        """Return whether hovering passes over what was drawn."""
        return artist in self._silent

    def amount_unit(self, ax: Axes) -> str:
        """Return the unit of amounts that the bar of colours beside axes names."""
        bars = [
            bar for child in ax.child_axes if isinstance(bar := getattr(child, "_colorbar", None), Colorbar)
        ]
        return named(bars[0].ax.get_ylabel())[1] if bars else ""

    def unlist(self, artist: Artist) -> None:
        """Leave what was drawn out of the legend."""
        self._unlisted.add(artist)

    def fix_ticks(self, ax: Axes) -> None:
        """Keep the ticks upward where the static picture has them: their texts are not their values."""
        self._fixed.add(ax)

    def name_of(self, artist: Artist) -> str:
        """Return the name of what was drawn; empty without one."""
        own = self._names.get(artist, str(artist.get_label()))
        return "" if own.startswith("_") else html.escape(own, quote=False)

    def rank(self, artist: Artist) -> int:
        """Return the place of what was drawn in the legend."""
        label = str(artist.get_label())
        return 1000 + (self._listed.index(label) if label in self._listed else len(self._listed))

    def hover_name(self, artist: Artist, name: str) -> None:
        """Give what was drawn a shorter name for hovering."""
        self._hover_names[artist] = name

    def hover_name_of(self, artist: Artist) -> str:
        """Return the name of what was drawn for hovering; empty without one."""
        return html.escape(self._hover_names.get(artist, ""), quote=False) or self.name_of(artist)

    def is_listed(self, artist: Artist) -> bool:
        """Return whether the legend lists what was drawn, or it has another name here than there."""
        if artist in self._unlisted:
            return False
        return artist in self._names or str(artist.get_label()) in self._listed

    @cached_property
    def _listed(self) -> list[str]:
        legends = (ax.get_legend() for ax in self.place.axes)
        return [text.get_text() for legend in legends if legend for text in legend.get_texts()]

    def unit(self, ax: Axes, letter: str) -> tuple[str, str]:
        """Return what an axis measures, and its unit."""
        name, unit = named((ax.xaxis if letter == "x" else ax.yaxis).get_label_text())
        return name, unit.removesuffix("log scale").removesuffix(", ")

    def shown(self, ax: Axes, letter: str = "y", place: str = "") -> str:
        """Return the text of hovering for a value: the number and its unit.

        Parameters
        ----------
        ax : Axes
        letter : {"x", "y"}
            The axis that the value belongs to.
        place : str
            Where Plotly finds the value, if it is not the position.
        """
        name, unit = self.unit(ax, letter)
        if is_time(ax.xaxis if letter == "x" else ax.yaxis):
            return "%{x|%Y-%m-%d %H:%M}"
        return f"%{{{place or letter}:,.{8 if name == 'Price' else 6}~r}} {unit}".rstrip()

    def position(self, ax: Axes, letter: str) -> str:
        """Return the text of hovering for a position: what it is, the number and its unit."""
        text = self.shown(ax, letter)
        return text if text.startswith("%{x|") else f"{self.unit(ax, letter)[0]}: {text}"

    @cached_property
    def is_unified(self) -> bool:
        """Whether hovering shows all values of a time at once."""
        drawn = (artist for ax in self._ids for artist in ax.get_children())
        has_colours = any(isinstance(artist, AxesImage | QuadMesh) for artist in drawn)
        return not has_colours and any(is_time(ax.xaxis) for ax in self._ids)

    # --- the figure ---

    def finished(self, **layout: Any) -> Any:
        """Return the figure of what was drawn; ``layout`` goes before what was read off the axes."""
        first = next(iter(self._ids))
        around, inside = style.around(first), style.inside(first)
        legend = next((one for one in (ax.get_legend() for ax in self.place.axes) if one), None)
        legend_title = legend.get_title().get_text() if legend else ""
        titles = [ax.get_title(loc="left") for ax in self._ids]
        # Two lines have room beside the buttons, and on a telephone.
        subject, _, of = titles[0].partition(style.OF)
        lines = [html.escape(line, quote=False) for line in (of, self.subtitle) if line]
        for ax, title in list(zip(self._ids, titles, strict=True))[1:]:
            if title:
                self._note(ax, title)
        for ax in self._ids:
            if any(text.get_text() == "no data" for text in ax.texts):
                self._note(ax, "no data", middle=True)
        whole = {
            "template": None,
            "height": round(self.height * _DPI),
            "paper_bgcolor": self._face,
            "plot_bgcolor": self._face,
            "font": {"family": _FONT, "size": 12, "color": around.ink},
            "margin": {"l": 70, "r": 24, "t": 52 + 17 * len(lines), "b": 56},
            "title": {
                "text": html.escape(subject, quote=False),
                "font": {"size": 15, "weight": 600},
                "x": 0.01,
                "xanchor": "left",
                "y": 1,
                "yanchor": "top",
                "pad": {"t": 14},
                "subtitle": {"text": "<br>".join(lines), "font": {"size": 12}},
            },
            "hovermode": "x unified" if self.is_unified else "closest",
            "hoverlabel": {
                "bgcolor": self._face,
                "bordercolor": around.quiet,
                "font": {"color": around.ink, "family": _FONT},
            },
            "hoversubplots": "axis",
            "bargap": 0,
            "barmode": "overlay",
            "dragmode": "zoom",
            "modebar": {"remove": ["select2d", "lasso2d"]},
            "legend": {
                "orientation": "h",
                "itemsizing": "constant" if self.has_dots else "trace",
                "x": 0,
                "y": 0,
                "yref": "container",
                "yanchor": "bottom",
                "title": {
                    "text": html.escape(legend_title, quote=False).replace("\n", "<br>"),
                    "side": "top",
                },
            },
        }
        whole |= self._axes(inside, around)
        traces = [trace for _, trace in sorted(self.traces, key=lambda one: one[0])]
        return self._go.Figure(data=traces, layout=whole | self.layout | layout)

    def _note(self, ax: Axes, text: str, *, middle: bool = False) -> None:
        x, y = self._ids[ax]
        place = {"x": 0.5, "y": 0.5} if middle else {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
        note = {
            "text": html.escape(text, quote=False),
            "showarrow": False,
            "font": {"size": 15 if middle else 12},
        }
        self.layout["annotations"].append({"xref": f"{x} domain", "yref": f"{y} domain", **note, **place})

    def _axes(self, inside: style.Palette, around: style.Palette) -> dict[str, Any]:
        found: dict[str, Any] = {}
        bottom = {ids[0]: ids[1] for ids in self._ids.values() if ids[1] in self._domains}
        for ax, (x, y) in self._ids.items():
            look = {
                "gridcolor": inside.grid,
                "linecolor": around.quiet,
                "showline": True,
                "zeroline": False,
                "automargin": True,
                "title": {"standoff": 8, "font": {"size": 12}},
            }
            empty = any(text.get_text() == "no data" for text in ax.texts)
            across = look | self._axis(ax.xaxis) | {"anchor": bottom.get(x, y), "domain": self._domains[x]}
            upward = look | self._axis(ax.yaxis)
            if ax in self._over:
                below = self._ids[self._over[ax]][1]
                upward |= {"overlaying": below, "side": "right", "showgrid": False, "tickmode": "auto"}
            else:
                upward |= {"anchor": x, "domain": self._domains[y]}
            for key, axis in ((x, across), (y, upward)):
                if empty:
                    axis |= {"showticklabels": False, "showgrid": False}
                full = f"{key[0]}axis{key[1:]}"
                # Of axes that are shared the one with a name says what they are.
                if full not in found or not found[full]["title"].get("text"):
                    found[full] = axis
        return found

    def _axis(self, axis: Axis) -> dict[str, Any]:
        ax = axis.axes
        label = axis.get_label_text()
        low, high = ax.get_xlim() if axis is ax.xaxis else ax.get_ylim()
        lines = axis.get_gridlines()
        found: dict[str, Any] = {
            "title": {"text": html.escape(label, quote=False), "standoff": 8},
            "showgrid": bool(lines and lines[0].get_visible()),
        }
        if is_time(axis):
            name = self.clock.name
            label = re.sub(r"\[[^\]]*\]", lambda _: f"[{name}]", label, count=1)
            found["title"]["text"] = html.escape(label, quote=False)
            return found | {
                "type": "date",
                "rangeslider": {"visible": False},
                "range": self.clock.texts(np.array([low, high])),
                "hoverformat": "%Y-%m-%d %H:%M",
            }
        locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
        if axis.get_scale() == "log":
            found |= {"type": "log", "range": np.log10([low, high]).tolist(), "minorloglabels": "none"}
        else:
            found |= {"range": [low, high], "exponentformat": "B", "separatethousands": True}
        if ax in self._fixed and axis is ax.yaxis:
            ticks = [float(tick) for tick in axis.get_majorticklocs()]
            found |= {"tickmode": "array", "tickvals": ticks, "ticktext": [formatter(tick) for tick in ticks]}
        elif isinstance(locator, FixedLocator):
            found |= {"tickmode": "array", "tickvals": [float(tick) for tick in axis.get_majorticklocs()]}
            if isinstance(formatter, FixedFormatter):
                found["ticktext"] = [html.escape(text).replace("\n", "<br>") for text in formatter.seq]
        elif isinstance(formatter, style.Grouped):
            found["tickformat"] = ",.10~r"  # prices in full: no power of ten to add in one's head
        return found


def is_time(axis: Axis) -> bool:
    """Return whether an axis is one of times."""
    return isinstance(axis.get_major_locator(), AutoDateLocator)


def named(label: str) -> tuple[str, str]:
    """Return what a label names, and its unit.

    Examples
    --------
    >>> named("Price [USDT per BTC]"), named("Strike")
    (('Price', 'USDT per BTC'), ('Strike', ''))
    """
    match = _LABEL.fullmatch(label)
    return (match[1], match[2] or "") if match else (label, "")


def colour(of: Any, alpha: float | None = None) -> str:
    """Return a colour of matplotlib as text."""
    red, green, blue, own = to_rgba(of)
    seen = own if alpha is None else own * alpha
    if seen >= 1:
        return to_hex((red, green, blue))
    return f"rgba({round(red * 255)},{round(green * 255)},{round(blue * 255)},{seen:.3g})"
