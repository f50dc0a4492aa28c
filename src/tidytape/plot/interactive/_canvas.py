"""Hidden axes of matplotlib, and the Plotly figure that is made from them.

An interactive function calls the static function of the same name with hidden axes. `_artists` then makes a Plotly
trace of each artist on these axes, and `Canvas.figure` makes the layout from their titles, axes and legends. So both
pictures have the same numbers, titles, units and colours, which only the static function defines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
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

from tidytape.errors import html_text
from tidytape.plot import _style as style
from tidytape.plot.interactive._plotly import graph_objects
from tidytape.plot.interactive._times import Clock

Floats = NDArray[np.float64]

# Size of the hidden figure: from it, a static function computes how much room its marks have.
_WIDTH, _HEIGHT = 10.0, 4.8  # [in]
_DPI = 100
_FACES = {False: "#ffffff", True: "#15191d"}  # background by ``dark``
_GAP = 0.035  # distance between panels as a share of the height
_FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
# An axis label: a name and, in brackets, a unit.
_LABEL = re.compile(r"(?s)(.*?)(?: \[([^\]]*)\](.*))?")


@dataclass(slots=True)
class Entry:
    """How the figure names an artist in legend and hovering.

    Attributes
    ----------
    name : str or None
        Name of its trace; None stands for the label of the artist.
    is_listed : bool
        Whether the legend may list it.
    hover_name : str
        A shorter name for hovering; empty stands for ``name``.
    has_hover : bool
        Whether hovering over it shows something.
    group : str or None
        Name of its group: a click on an entry of the legend hides all artists of a group.
    """

    name: str | None = None
    is_listed: bool = True
    hover_name: str = ""
    has_hover: bool = True
    group: str | None = None


class Canvas:
    """Hidden axes of matplotlib to draw on, and the traces and the layout of the Plotly figure.

    Parameters
    ----------
    name : str
        Name of the interactive function, for the error if Plotly is not installed.
    timezone : str or tzinfo
        Zone of times.
    dark : bool
        Whether the background is dark.
    height : float
        Height of the figure. [in, at 100 dpi]

    Attributes
    ----------
    hidden : matplotlib.figure.Figure
        The figure of the hidden axes.
    axis_names : dict of Axes to (str, str)
        Plotly's names of the x and the y axis of axes, such as ``x`` and ``y2``, in the order in which they were added.
    entries : dict of Artist to Entry
        How the figure names an artist; by default by its label.
    traces : list of (float, dict)
        Each trace with its order: a trace of a higher order is drawn over the others.
    layout : dict
        Images, shapes and annotations of the layout.
    done : set of Artist
        The artists that have a trace, or need none.
    subtitle : str
        Text below the title.
    has_dots : bool
        Whether there are dots, which then all have the same size in the legend.
    """

    def __init__(
        self, name: str, timezone: str | tzinfo, *, dark: bool = False, height: float = _HEIGHT
    ) -> None:
        self._go = graph_objects(f"plot.interactive.{name}")
        self._timezone, self._face, self.height = timezone, _FACES[dark], height
        self.hidden = Figure(figsize=(_WIDTH, height), dpi=_DPI, facecolor=self._face)
        self.axis_names: dict[Axes, tuple[str, str]] = {}
        self._domains: dict[str, tuple[float, float]] = {}  # by name of an axis: its share of the figure
        self._twins: dict[Axes, Axes] = {}  # axes over other axes, to these
        self._fixed_ticks: set[Axes] = set()  # axes that keep the vertical ticks of the static picture
        self.entries: defaultdict[Artist, Entry] = defaultdict(Entry)
        self.traces: list[tuple[float, dict[str, Any]]] = []
        self.layout: dict[str, Any] = {"images": [], "shapes": [], "annotations": []}
        self.done: set[Artist] = set()
        self.subtitle = ""
        self.has_dots = False

    # --- axes ---

    @cached_property
    def ax(self) -> Axes:
        """The axes of a figure with one panel."""
        return self.stack(1)[0]

    def stack(self, *heights: float) -> list[Axes]:
        """Return new axes, from the top down, which share the time axis; ``heights`` are relative."""
        panels = list(
            self.hidden.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False).flat
        )
        unit = (1 - _GAP * (len(heights) - 1)) / sum(heights)
        top = 1.0
        for ax, height in zip(panels, heights, strict=True):
            self.add_axes(ax, (0.0, 1.0), (max(top - height * unit, 0.0), top))
            top -= height * unit + _GAP
        return panels

    def add_axes(self, ax: Axes, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        """Place axes in the figure: from one share of its width to another, and from one share of its height."""
        ax.set_facecolor(self._face)
        named_axes = self.axis_names.items()
        shared_x = (names[0] for other, names in named_axes if other.get_shared_x_axes().joined(other, ax))
        shared_y = (names[1] for other, names in named_axes if other.get_shared_y_axes().joined(other, ax))
        x, y = next(shared_x, self._next("x")), next(shared_y, self._next("y"))
        self._domains.setdefault(x, x_range)
        self._domains.setdefault(y, y_range)
        self.axis_names[ax] = x, y

    def add_twin(self, ax: Axes, below: Axes) -> None:
        """Place axes over other axes, with the same times and a vertical axis of their own at the right."""
        self.axis_names[ax] = self.axis_names[below][0], self._next("y")
        self._twins[ax] = below

    def _next(self, letter: str) -> str:
        """Return the name of the next axis: x, x2, x3, ..."""
        index = 0 if letter == "x" else 1
        number = len({names[index] for names in self.axis_names.values()}) + 1
        return letter if number == 1 else f"{letter}{number}"

    def fix_ticks(self, ax: Axes) -> None:
        """Keep the vertical ticks of the static picture, because their texts differ from their values."""
        self._fixed_ticks.add(ax)

    @cached_property
    def clock(self) -> Clock:
        """The clock that writes the times of this figure."""
        ends = next((ax.get_xlim() for ax in self.axis_names if is_time(ax.xaxis)), (0.0, 0.0))
        return Clock.of(self._timezone, *ends)

    def positions(self, ax: Axes, x: Floats) -> Any:
        """Return horizontal positions as Plotly takes them: times as text."""
        return self.clock.texts(np.asarray(x, float)) if is_time(ax.xaxis) else np.asarray(x, float)

    # --- traces ---

    def add(self, ax: Axes, *, order: float = 1.0, **trace: Any) -> None:
        """Add a trace; traces of a higher order are drawn over the others."""
        x, y = self.axis_names[ax]
        self.traces.append((order, {"xaxis": x, "yaxis": y, "showlegend": False, **trace}))

    def add_key(self, ax: Axes, artist: Artist, fill: Any) -> None:
        """List an artist in the legend that has no trace, because it is part of an image."""
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

    # --- names of artists ---

    def name_of(self, artist: Artist) -> str:
        """Return the name of an artist; empty if it has none."""
        name = self.entries[artist].name
        name = str(artist.get_label()) if name is None else name
        return "" if name.startswith("_") else html_text(name)

    def hover_name_of(self, artist: Artist) -> str:
        """Return the name of an artist on hovering; empty if it has none."""
        return html_text(self.entries[artist].hover_name) or self.name_of(artist)

    def is_listed(self, artist: Artist) -> bool:
        """Return whether the legend lists an artist: if the static legend lists it, or its entry gives it a name."""
        entry = self.entries[artist]
        return entry.is_listed and (entry.name is not None or str(artist.get_label()) in self._legend_texts)

    def rank(self, artist: Artist) -> int:
        """Return the rank of an artist in the legend: its position in the static one, from 1000 on."""
        label, texts = str(artist.get_label()), self._legend_texts
        return 1000 + (texts.index(label) if label in texts else len(texts))

    @cached_property
    def _legend_texts(self) -> list[str]:
        legends = (ax.get_legend() for ax in self.hidden.axes)
        return [text.get_text() for legend in legends if legend for text in legend.get_texts()]

    # --- texts of hovering ---

    def measure(self, ax: Axes, letter: str) -> tuple[str, str]:
        """Return the name and the unit of what the x or the y axis measures."""
        name, unit = split_label((ax.xaxis if letter == "x" else ax.yaxis).get_label_text())
        return name, unit.removesuffix("log scale").removesuffix(", ")

    def value_text(self, ax: Axes, letter: str = "y", key: str = "") -> str:
        """Return the hover template of a value: the number and its unit.

        Parameters
        ----------
        ax : Axes
        letter : {"x", "y"}
            The axis that measures the value.
        key : str
            Where Plotly finds the value, such as ``customdata``; by default it is the position.
        """
        name, unit = self.measure(ax, letter)
        if is_time(ax.xaxis if letter == "x" else ax.yaxis):
            return "%{x|%Y-%m-%d %H:%M}"
        return f"%{{{key or letter}:,.{8 if name == 'Price' else 6}~r}} {unit}".rstrip()

    def position_text(self, ax: Axes, letter: str) -> str:
        """Return the hover template of a position: the name of the axis, the number and its unit."""
        text = self.value_text(ax, letter)
        return text if text.startswith("%{x|") else f"{self.measure(ax, letter)[0]}: {text}"

    @cached_property
    def is_unified(self) -> bool:
        """Whether hovering shows all values of a time at once: if an axis shows times, and there is no heatmap."""
        artists = (artist for ax in self.axis_names for artist in ax.get_children())
        has_heatmap = any(isinstance(artist, AxesImage | QuadMesh) for artist in artists)
        return not has_heatmap and any(is_time(ax.xaxis) for ax in self.axis_names)

    # --- the figure ---

    def figure(self) -> Any:
        """Return the Plotly figure."""
        titles = {ax: ax.get_title(loc="left") for ax in self.axis_names}
        # Write subject and market on two lines, which leaves room for the buttons, and fits on a telephone.
        subject, _, market = next(iter(titles.values())).partition(style.OF)
        for number, (ax, title) in enumerate(titles.items()):
            if number and title:
                self._annotate(ax, title, size=12, x=0, y=1, xanchor="left", yanchor="bottom")
        for ax in titles:
            if _is_empty(ax):
                self._annotate(ax, "no data", size=15, x=0.5, y=0.5)
        layout = self._page(subject, [line for line in (market, self.subtitle) if line]) | self._axes()
        traces = [trace for _, trace in sorted(self.traces, key=lambda pair: pair[0])]
        return self._go.Figure(data=traces, layout=layout | self.layout)

    def _annotate(self, ax: Axes, text: str, *, size: float, **place: Any) -> None:
        x, y = self.axis_names[ax]
        self.layout["annotations"].append(
            {
                "xref": f"{x} domain",
                "yref": f"{y} domain",
                "text": html_text(text),
                "showarrow": False,
                "font": {"size": size},
                **place,
            }
        )

    def _page(self, subject: str, lines: list[str]) -> dict[str, Any]:
        """Return the layout of everything but the axes: title, legend, colours and buttons."""
        around = style.around(next(iter(self.axis_names)))
        legend = next((legend for ax in self.hidden.axes if (legend := ax.get_legend())), None)
        legend_title = legend.get_title().get_text() if legend else ""
        return {
            "template": None,
            "height": round(self.height * _DPI),
            "paper_bgcolor": self._face,
            "plot_bgcolor": self._face,
            "font": {"family": _FONT, "size": 12, "color": around.ink},
            "margin": {"l": 70, "r": 24, "t": 52 + 17 * len(lines), "b": 56},
            "title": {
                "text": html_text(subject),
                "font": {"size": 15, "weight": 600},
                "x": 0.01,
                "xanchor": "left",
                "y": 1,
                "yanchor": "top",
                "pad": {"t": 14},
                "subtitle": {
                    "text": "<br>".join(html_text(line) for line in lines),
                    "font": {"size": 12},
                },
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
                    "text": html_text(legend_title).replace("\n", "<br>"),
                    "side": "top",
                },
            },
        }

    def _axes(self) -> dict[str, Any]:
        """Return the layout of each axis, by its key such as ``yaxis2``."""
        layout: dict[str, Any] = {}
        first = next(iter(self.axis_names))
        look = {
            "gridcolor": style.inside(first).grid,
            "linecolor": style.around(first).quiet,
            "showline": True,
            "zeroline": False,
            "automargin": True,
        }
        # A shared x axis is drawn below the lowest of its panels.
        lowest = {x: y for x, y in self.axis_names.values() if y in self._domains}
        for ax, (x, y) in self.axis_names.items():
            x_axis = look | self._axis(ax.xaxis) | {"anchor": lowest.get(x, y), "domain": self._domains[x]}
            y_axis = look | self._axis(ax.yaxis)
            if ax in self._twins:
                _, y_below = self.axis_names[self._twins[ax]]
                y_axis |= {"overlaying": y_below, "side": "right", "showgrid": False, "tickmode": "auto"}
            else:
                y_axis |= {"anchor": x, "domain": self._domains[y]}
            for name, axis in ((x, x_axis), (y, y_axis)):
                if _is_empty(ax):
                    axis |= {"showticklabels": False, "showgrid": False}
                key = f"{name[0]}axis{name[1:]}"
                # Panels that share an axis give it one layout: keep that of the panel that labels it.
                if key not in layout or not layout[key]["title"].get("text"):
                    layout[key] = axis
        return layout

    def _axis(self, axis: Axis) -> dict[str, Any]:
        """Return the layout of an axis: its title, range and ticks."""
        ax = axis.axes
        low, high = ax.get_xlim() if axis is ax.xaxis else ax.get_ylim()
        gridlines, label = axis.get_gridlines(), axis.get_label_text()
        if is_time(axis):
            label = re.sub(r"\[[^\]]*\]", lambda _: f"[{self.clock.name}]", label, count=1)
        layout: dict[str, Any] = {
            "title": {"text": html_text(label), "standoff": 8},
            "showgrid": bool(gridlines and gridlines[0].get_visible()),
        }
        if is_time(axis):
            return layout | {
                "type": "date",
                "rangeslider": {"visible": False},
                "range": self.clock.texts(np.array([low, high])),
                "hoverformat": "%Y-%m-%d %H:%M",
            }
        locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
        if axis.get_scale() == "log":
            layout |= {"type": "log", "range": np.log10([low, high]).tolist(), "minorloglabels": "none"}
        else:
            layout |= {"range": [low, high], "exponentformat": "B", "separatethousands": True}
        if ax in self._fixed_ticks and axis is ax.yaxis:
            ticks = [float(tick) for tick in axis.get_majorticklocs()]
            layout |= {
                "tickmode": "array",
                "tickvals": ticks,
                "ticktext": [formatter(tick) for tick in ticks],
            }
        elif isinstance(locator, FixedLocator):
            layout |= {"tickmode": "array", "tickvals": [float(tick) for tick in axis.get_majorticklocs()]}
            if isinstance(formatter, FixedFormatter):
                layout["ticktext"] = [html_text(text).replace("\n", "<br>") for text in formatter.seq]
        elif isinstance(formatter, style.Grouped):
            layout["tickformat"] = ",.10~r"  # prices in full, without a power of ten
        return layout


def _is_empty(ax: Axes) -> bool:
    """Return whether axes say "no data"."""
    return any(text.get_text() == "no data" for text in ax.texts)


def colour_bars(ax: Axes) -> list[Colorbar]:
    """Return the bars that explain the colours on axes."""
    bars = (getattr(child, "_colorbar", None) for child in ax.child_axes)
    return [bar for bar in bars if isinstance(bar, Colorbar)]


def is_time(axis: Axis) -> bool:
    """Return whether an axis shows times."""
    return isinstance(axis.get_major_locator(), AutoDateLocator)


def split_label(label: str) -> tuple[str, str]:
    """Return the name and the unit of an axis label.

    Examples
    --------
    >>> split_label("Price [USDT per BTC]"), split_label("Strike")
    (('Price', 'USDT per BTC'), ('Strike', ''))
    """
    match = _LABEL.fullmatch(label)
    return (match[1], match[2] or "") if match else (label, "")


def colour(matplotlib_colour: Any, alpha: float | None = None) -> str:
    """Return a colour of matplotlib as Plotly takes it; ``alpha`` multiplies its opacity."""
    red, green, blue, opacity = to_rgba(matplotlib_colour)
    opacity *= 1.0 if alpha is None else alpha
    if opacity >= 1:
        return to_hex((red, green, blue))
    return f"rgba({round(red * 255)},{round(green * 255)},{round(blue * 255)},{opacity:.3g})"
