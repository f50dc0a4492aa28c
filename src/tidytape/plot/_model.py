"""What a picture shows, before anything draws it: panels with axes, marks, a legend and bars of colours.

A drawing function fills panels; `tidytape.plot._matplotlib` and `tidytape.plot._plotly` draw them. Times are matplotlib
dates [d], and colours are those that are readable on the `Ground` of the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from matplotlib.colors import Colormap, LogNorm, Normalize
from numpy.typing import NDArray

from tidytape.plot import _style as style

if TYPE_CHECKING:
    from tidytape.plot._closed import Hours

Floats = NDArray[np.float64]
Colour = str | tuple[float, ...]
M = TypeVar("M", bound="Mark")


@dataclass(slots=True)
class Axis:
    """An axis: what it measures, its unit, and how it writes its ticks.

    Attributes
    ----------
    kind : {"number", "price", "amount", "time"}
        What it shows: prices have all their digits, amounts few characters.
    window : (float, float), optional
        Start of the first interval and end of the last one; the limits are wider by a margin. [d]
    fixed : mapping of float to str, optional
        The only ticks, and their texts.
    is_signed : bool
        Whether ticks below zero have a sign.
    runs : (array, array), optional
        When open time begins and when it ends; the axis leaves out what is between. [d]
    """

    name: str = ""
    unit: str = ""
    kind: Literal["number", "price", "amount", "time"] = "number"
    note: str = ""
    bins: int | None = None
    limits: tuple[float, float] | None = None
    low: float | None = None
    window: tuple[float, float] | None = None
    fixed: Mapping[float, str] | None = None
    zone: str | tzinfo = "UTC"
    has_grid: bool = True
    is_log: bool = False
    is_signed: bool = True
    runs: tuple[Floats, Floats] | None = None

    @property
    def shown(self) -> float:
        """From the lower limit to the upper one, without closed time; 1 without limits."""
        first, last = self.limits or (0.0, 1.0)
        return (
            last - first - (0.0 if self.runs is None else float(np.sum(self.runs[0][1:] - self.runs[1][:-1])))
        )

    def open_time(self) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
        """Return the functions from times to open time since the first begin, and back; before and after, all is open.

        Without runs of open time both change nothing.
        """
        begins, ends = self.runs or (np.zeros(1), np.zeros(1))
        far = 1e6  # [d]
        # A closed span has a tiny length, so that the way back is a function.
        lengths = np.stack([np.append(0.0, begins[1:] > ends[:-1]) * 1e-9, ends - begins], axis=1).ravel()
        times = np.concatenate(
            [[begins[0] - far], np.stack([begins, ends], axis=1).ravel(), [ends[-1] + far]]
        )
        positions = np.concatenate([[-far], np.cumsum(lengths), [lengths.sum() + far]])
        return (
            lambda time: np.interp(time, times, positions),
            lambda position: np.interp(position, positions, times),
        )

    @property
    def measure(self) -> tuple[str, str]:
        """The name and the unit of values, for hovering."""
        return self.name, self.unit.removesuffix("log scale").removesuffix(", ")


@dataclass(eq=False, kw_only=True)
class Mark:
    """Something drawn on a panel.

    Attributes
    ----------
    name : str
        Name of its artist; with a ``key``, of a dictionary of artists.
    label : str
        Its text in the legend, if the legend lists it.
    width : float
        Of its lines or edges. [pt]
    order : float
        Marks of a higher order are drawn over others.
    hover : str, optional
        Template of Plotly, if hovering shows something else than the value; empty if it shows nothing.
    hover_name : str
        Name on hovering, if it differs from the label.
    data : array, optional
        Values that the template calls ``customdata``.
    group : str, optional
        Marks of one group are shown and hidden together.
    is_extra : bool
        Whether the legend of Plotly lists the mark although the static one does not.
    in_image : bool
        Whether Plotly gets it as part of an image, because it is too fine for traces.
    """

    name: str = ""
    key: Hashable = None
    label: str = ""
    colour: Any = None
    edge: Any = None
    width: float = 1.0
    dashes: Any = "solid"
    alpha: float | None = None
    order: float = 2.0
    hover: str | None = None
    hover_name: str = ""
    data: Any = None
    group: str | None = None
    is_extra: bool = False
    in_image: bool = False


@dataclass(eq=False)
class Line(Mark):
    """Points joined by a line or, with ``is_stepped``, by steps that begin at the points.

    ``marked`` has the indexes of the points that have a marker; None for all. ``shown_at`` moves the times that
    hovering shows from the middles of intervals of this length to their starts. [d]
    """

    x: Floats
    y: Floats
    is_stepped: bool = False
    marker: str | None = None
    size: float = 6.0  # of markers [pt]
    marked: Sequence[int] | None = None
    period: float = 0.0


@dataclass(eq=False)
class Steps(Mark):
    """Values that are constant between edges: an outline, a filled one from its base, or rows (not ``is_upright``)."""

    edges: Floats
    values: Floats
    base: float | Floats | None = 0.0
    is_upright: bool = True
    has_zeros: bool = False
    has_halo: bool = False
    is_outline: bool = False  # also in Plotly, where a filled one has bars otherwise


@dataclass(eq=False)
class Candles(Mark):
    """Candles; ``colour`` has three colours: of rising, falling and flat ones."""

    start: Floats
    length: float  # of the interval [d]
    open: Floats
    high: Floats
    low: Floats
    close: Floats


@dataclass(eq=False)
class Rule(Mark):
    """A line across the panel at a value of the vertical axis or, with ``is_upright``, of the horizontal one."""

    at: float
    is_upright: bool = False


@dataclass(eq=False)
class Band(Mark):
    """A shaded range of the vertical axis."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale of colours, and the values that it covers."""

    colours: Colormap
    norm: Normalize

    @classmethod
    def of(cls, colours: Colormap, low: float, high: float, *, is_log: bool = False) -> Scale:
        """Return a scale from ``low`` to ``high``."""
        return cls(colours, (LogNorm if is_log else Normalize)(low, high))


@dataclass(eq=False)
class Segments(Mark):
    """Separate lines from one point to another."""

    x0: Any
    x1: Any
    y0: Any
    y1: Any


@dataclass(eq=False)
class Boxes(Segments):
    """Rectangles: of one colour, or with a scale of a colour per value. ``edge`` "face" is the colour of each.

    On a panel with named rows they are bars along the rows, e.g. the times of data; ``texts`` are those of hovering,
    and ``classes`` the names of the classes of the scale. With a ``period`` they are rows of one height in intervals
    of this length [d], and ``texts`` are in them.
    """

    values: Floats | None = None
    scale: Scale | None = None
    texts: Sequence[str] = ()
    classes: Sequence[str] = ()
    period: float = 0.0


@dataclass(eq=False)
class Grid(Mark):
    """A grid of values as colours, with the borders of its columns and rows; ``is_even`` if all are equally large."""

    x: Floats
    y: Floats
    values: NDArray[Any]
    scale: Scale
    is_even: bool = True


@dataclass(eq=False)
class Contours(Mark):
    """Lines of equal values of a grid; each gets its value as text where it is as long as ``labelled`` of the axis."""

    x: Floats
    y: Floats
    values: NDArray[Any]
    levels: Floats
    labelled: float


@dataclass(eq=False)
class Dots(Mark):
    """Dots of these areas [pt²]; ``data`` has the amounts that the areas stand for, in ``unit``."""

    x: Floats
    y: Floats
    areas: Floats
    unit: str = ""


@dataclass(eq=False)
class Area(Mark):
    """What is between two lines; hovering over the upper one shows the difference."""

    x: Floats
    low: Floats
    high: Floats


@dataclass(eq=False)
class Texts(Mark):
    """A text per point, in the style of matplotlib; ``looks`` has those that differ from text to text."""

    x: Any
    y: Any
    texts: Sequence[str]
    style: Mapping[str, Any] = field(default_factory=dict)
    looks: Sequence[Mapping[str, Any]] = ()
    is_at_edge: bool = False  # x is a share of the width then


@dataclass(eq=False)
class Rows(Mark):
    """Names of rows, from above: each has a group, a name and a note."""

    groups: Sequence[str]
    names: Sequence[str]
    notes: Sequence[str]


@dataclass(eq=False)
class Regions(Mark):
    """Invisible bars in which hovering shows texts."""

    x: Floats
    lengths: Floats
    y: Floats
    height: float
    texts: Sequence[str]


@dataclass(eq=False)
class Key(Mark):
    """An entry of the static legend that stands for several marks, in the style of a line of matplotlib or a patch."""

    line: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Legend:
    """The marks that a legend lists, and where it is; see `tidytape.plot._style.legend`."""

    marks: Sequence[Mark]
    title: str | None = None
    place: Literal["inside", "beside", "above", "below", "corner"] = "inside"
    columns: int | None = None
    loc: Any = None


@dataclass(slots=True)
class Bar:
    """A bar that explains the colours of a mark; ``part`` is its index from below, and their number."""

    mark: Mark
    scale: Scale
    name: str
    unit: str = ""
    part: tuple[int, int] = (0, 1)


@dataclass(eq=False)
class Panel:
    """One pair of axes and what is on them.

    Attributes
    ----------
    hours : Hours
        The times that the axis shows, if it shows times; one for all panels of a picture.
    title : str
        Subject and market, as `tidytape.plot._style.titled` writes them.
    twin : Panel, optional
        A panel in the same place and with the same times, behind this one, with its vertical axis at the right.
    mid : float, optional
        A price; the upper end of the panel shows the distance from it then. [bp]
    is_unified : bool
        Whether hovering shows all values of a time at once.
    """

    ground: style.Ground
    hours: Hours
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    title: str = ""
    marks: list[Mark] = field(default_factory=list)
    legend: Legend | None = None
    bars: list[Bar] = field(default_factory=list)
    twin: Panel | None = None
    mid: float | None = None
    is_empty: bool = False
    is_unified: bool = True

    def add(self, mark: M) -> M:
        """Add a mark and return it."""
        self.marks.append(mark)
        return mark

    @property
    def colours(self) -> style.Palette:
        """The colours of marks that are readable on the panel."""
        return self.ground.inside

    def over_time(self) -> None:
        """Let the horizontal axis show times."""
        zone = self.hours.zone
        self.x = Axis("Time", style.zone(zone)[1], "time", zone=zone, has_grid=self.x.has_grid)

    def show_times(self, first: float, last: float, pad: float = 0.0, right: float | None = None) -> None:
        """Show the times from the start of the first interval to the end of the last one, with margins. [d]"""
        self.x.window = (first, last)
        self.x.limits = (first - pad, last + (pad if right is None else right))


Facts = Mapping[str, Any]
"""What a drawing also says, by name: numbers, and None or no artists at all where nothing was drawn."""
Fill = Callable[..., Facts]
"""Fills the panels that it is called with."""


@dataclass(frozen=True, slots=True)
class Model:
    """A picture before it is drawn: its panels, from the top down, and its facts."""

    panels: tuple[Panel, ...]
    facts: Facts
