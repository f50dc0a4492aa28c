"""Draws the model of a picture on axes of matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as TickAxis
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tidytape._other_clients import unknown_name
from tidytape.plot import _model as model
from tidytape.plot import _style as style
from tidytape.plot._closed import Hours
from tidytape.plot._fonts import use_wide_fonts
from tidytape.sessions import Session

BODY = 0.72  # width of the body of a candle as a share of the interval; the rest is a gap between bodies
_LETTER = 5.0  # usual width of a letter of the name of a row [pt]
_LINE = 9.0  # height that the name of a row needs [pt]
_FACTS = (bool, int, float, str)


@dataclass(frozen=True, repr=False)
class Drawing:
    """What a drawing function drew.

    Every artist, and every number that the picture also says, is an attribute, too: "Returns" of the function names
    them.

    Attributes
    ----------
    axes : tuple of Axes
        The axes drawn on, from the top down.
    artists : mapping of str
        The artists by name: one each, or a dictionary of several.
    model : Model
        What the picture shows, as numbers.
    """

    axes: tuple[Axes, ...]
    artists: Mapping[str, Any]
    model: model.Model

    @property
    def ax(self) -> Axes:
        """The axes; the uppermost of several."""
        return self.axes[0]

    @property
    def figure(self) -> Figure:
        """The figure, e.g. to change its size."""
        return cast("Figure", self.ax.get_figure(root=True))

    def save(self, path: Any, **options: Any) -> None:
        """Write the figure to a file, whose name says the format; options are those of ``Figure.savefig``.

        Parameters
        ----------
        path : str, Path or file
            Where to write.
        **options
            As of ``matplotlib.figure.Figure.savefig``, e.g. ``dpi=200``.
        """
        self.figure.savefig(path, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in {"axes", "artists", "model"}:  # a copy that is not yet filled
            raise AttributeError(name)
        for values in (self.artists, self.model.facts):
            if name in values:
                return values[name]
        part = next((key for key in ("ax", "figure") if hasattr(getattr(self, key), name)), None)
        names = [*self.artists, *self.model.facts, "ax", "axes", "figure", "save"]
        raise unknown_name(self, name, names, instead=part and f"drawn.{part}.{name}, of what is drawn")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.artists, *self.model.facts]

    def __repr__(self) -> str:
        # A notebook shows it under the picture.
        facts = [f"{name}={value!r}" for name, value in self.model.facts.items() if isinstance(value, _FACTS)]
        return f"Drawing({', '.join([repr(self.model.panels[0].title), *facts])})"


def draw(
    fill: model.Fill,
    ax: object,
    size: tuple[float, float],
    *,
    title: str | None,
    timezone: str | tzinfo | None = None,
    session: Session | None = None,
) -> Drawing:
    """Draw a picture of one panel on the caller's axes, or on those of a new figure of this size. [in]"""
    return draw_on(
        fill, (style.one_axes(ax, *size),), title=title, is_new=ax is None, timezone=timezone, session=session
    )


def draw_on(
    fill: model.Fill,
    axes: Sequence[Axes],
    *,
    title: str | None,
    is_new: bool,
    key: Axes | None = None,
    timezone: str | tzinfo | None = None,
    session: Session | None = None,
) -> Drawing:
    """Draw a picture on axes, one per panel; if there is nothing to draw because of an error, drop a new figure.

    Parameters
    ----------
    fill : callable
        Fills the panels that it is called with, and returns facts.
    axes : sequence of Axes
        The axes, from the top down.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    is_new : bool
        Whether the figure was made for this picture.
    key : Axes, optional
        Empty axes for the legend.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.
    session : Session, optional
        When the market trades, if closed time is left out.
    """
    try:
        hours = Hours.of(timezone, session)
        panels = tuple(model.Panel(style.Ground.of(ax), hours) for ax in axes)
        facts = fill(*panels)
        hours.show(panels)
    except BaseException:
        if is_new:
            import matplotlib.pyplot as plt

            plt.close(axes[0].figure)  # type: ignore[arg-type]  # a new figure is no part of another one
        raise
    if title is not None:
        panels[0].title = title
    artists: dict[str, Any] = {}
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(ax, panel, artists, key)
    for ax in axes[:-1]:
        if ax.get_shared_x_axes().joined(ax, axes[-1]):  # times are written below the lowest panel
            ax.tick_params(labelbottom=False)
            ax.set_xlabel("")
            ax.xaxis.get_offset_text().set_visible(False)
    use_wide_fonts([*axes, *([] if key is None else [key])])
    return Drawing(tuple(axes), artists, model.Model(panels, facts))


def _draw_panel(ax: Axes, panel: model.Panel, artists: dict[str, Any], key: Axes | None) -> None:
    behind = None if panel.twin is None else _axes_behind(ax, panel.twin)
    _set_up_axes(ax, panel)
    drawn: dict[int, Any] = {}
    pairs = [(ax, mark) for mark in panel.marks]
    if behind is not None and panel.twin is not None:
        pairs += [(behind, mark) for mark in panel.twin.marks]
        artists["price_ax"] = behind
    for on, mark in pairs:
        parts = draw_mark(on, mark)
        drawn[id(mark)] = next(iter(parts.values()), None)
        for name, artist in parts.items():
            if mark.key is None:
                artists[name] = artist
            else:
                artists.setdefault(name, {})[mark.key] = artist
    _set_limits(ax, panel)
    if behind is not None and panel.twin is not None:
        _set_limits(behind, panel.twin)
    if panel.mid is not None:
        _distance_axis(ax, panel.mid)
    if panel.is_empty:
        style.no_data(ax)
    style.write_title(ax, panel.title)
    for bar in panel.bars:
        colours = ScalarMappable(bar.scale.norm, bar.scale.colours)
        style.colour_bar(ax, colours, bar.name, bar.unit, part=bar.part)
    if panel.legend is not None:
        legend = panel.legend
        on = key if key is not None and legend.place == "corner" else ax
        handles = [_handle(mark) if isinstance(mark, model.Key) else drawn[id(mark)] for mark in legend.marks]
        box = style.legend(on, handles, title=legend.title, place=legend.place, columns=legend.columns)
        if legend.loc:
            box.set_loc(legend.loc)


def png(panel: model.Panel, marks: Sequence[model.Mark], size: tuple[float, float], dpi: int) -> bytes:
    """Return an image that shows only these marks of a panel, and fills its axes; ``size`` is in inches."""
    figure = Figure(figsize=size)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    for letter, axis in (("x", panel.x), ("y", panel.y)):
        if axis.is_log:
            ax.set(**{f"{letter}scale": "log"})
    if panel.x.runs is not None:
        ax.set_xscale("function", functions=panel.x.open_time())
    for mark in marks:
        draw_mark(ax, mark)
    _set_limits(ax, panel)
    file = io.BytesIO()
    figure.savefig(
        file,
        dpi=dpi,
        format="png",
        transparent=True,
        metadata={"Software": None},
        pil_kwargs={"optimize": True},
    )
    return file.getvalue()


# --- axes ---


def _set_up_axes(ax: Axes, panel: model.Panel) -> None:
    style.frame_axes(ax, panel.x.zone if panel.x.kind == "time" else None)
    for axis, about in ((ax.xaxis, panel.x), (ax.yaxis, panel.y)):
        if not about.has_grid:
            axis.grid(visible=False)
        _set_up_axis(axis, about)


def _set_up_axis(axis: TickAxis, about: model.Axis) -> None:
    ax, letter = axis.axes, cast("Any", axis).axis_name
    name = style.label(about.name, about.unit)
    if about.runs is not None:
        ax.set_xscale("function", functions=about.open_time())
    if about.is_log:
        ax.set(**{f"{letter}scale": "log"})
        axis.set_major_locator(LogLocator(numticks=8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: style.short(value)))
        axis.set_minor_formatter(NullFormatter())
        ax.tick_params(which="minor", color=style.around(ax).quiet)
    elif about.bins is not None:
        axis.set_major_locator(style.round_ticks(about.bins))
    if about.fixed is not None:
        style.fixed_ticks(axis, list(about.fixed), list(about.fixed.values()))
    if about.kind == "price":
        axis.set_major_locator(style.round_ticks(8))
        axis.set_major_formatter(style.Grouped())
    elif about.kind == "amount":
        size = float if about.is_signed else abs
        axis.set_major_formatter(FuncFormatter(lambda value, _: style.short(size(value))))
    if about.kind == "time":
        axis.set_label_text(", ".join(filter(None, (name, about.note))))
        if about.window is not None and about.runs is None:
            cast("style.Dates", axis.get_major_formatter()).window = about.window
    else:
        style.name_axis(axis, name)


def _set_limits(ax: Axes, panel: model.Panel) -> None:
    if panel.x.limits is not None:
        ax.set_xlim(*panel.x.limits)
    if panel.y.limits is not None:
        ax.set_ylim(*panel.y.limits)
    if panel.y.low is not None:
        ax.set_ylim(bottom=panel.y.low)


def _axes_behind(ax: Axes, panel: model.Panel) -> Axes:
    """Return a second pair of axes in the place of ``ax``, behind it, with their ticks at the right."""
    behind = ax.twinx()
    behind.patch.set(visible=True, facecolor=ax.get_facecolor())
    ax.patch.set_visible(False)
    ax.set_zorder(behind.get_zorder() + 1)
    style.frame_axes(behind)
    behind.grid(visible=False)
    behind.spines["right"].set_visible(True)
    _set_up_axis(behind.yaxis, panel.y)
    return behind


def _distance_axis(ax: Axes, mid: float) -> None:
    """Add an axis at the top that shows the distance of each price from the mid."""
    functions = (lambda price: (price / mid - 1) * 1e4, lambda distance: mid * (1 + distance / 1e4))
    top = ax.secondary_xaxis("top", functions=functions)
    outer = style.around(ax)
    top.spines["top"].set_visible(False)
    top.tick_params(labelcolor=outer.ink, color=outer.quiet, labelsize="small")
    top.xaxis.set_major_locator(style.round_ticks(8))
    top.set_xlabel(style.label("Distance from the mid", "bp"), color=outer.ink, fontsize="small")


# --- marks ---


def draw_mark(ax: Axes, mark: model.Mark) -> dict[str, Any]:  # noqa: PLR0912 - a case per kind of mark
    """Draw a mark, and return its artists by name."""
    look: dict[str, Any] = {"zorder": mark.order} | ({"label": mark.label} if mark.label else {})
    lines: dict[str, Any] = look | {"linestyle": mark.dashes, "linewidth": mark.width}
    artist: Any = None
    match mark:
        case model.Line():
            lines |= {"drawstyle": "steps-post"} if mark.is_stepped else {}
            lines |= {"marker": mark.marker, "markersize": mark.size, "markevery": mark.marked}
            (artist,) = ax.plot(mark.x, mark.y, color=mark.colour, alpha=mark.alpha, **lines)
        case model.Steps():
            is_filled = mark.base is not None
            artist = ax.stairs(
                mark.values,
                mark.edges,
                baseline=mark.base,
                fill=is_filled,
                orientation="vertical" if mark.is_upright else "horizontal",
                path_effects=style.Ground.of(ax).halo(2.6) if mark.has_halo else None,
                linewidth=mark.width,
                edgecolor=mark.edge if is_filled else mark.colour,
                facecolor=mark.colour if is_filled else "none",
                **look,
            )
        case model.Candles():
            return _draw_candles(ax, mark)
        case model.Rule():
            across = ax.axvline if mark.is_upright else ax.axhline
            artist = across(mark.at, color=mark.colour, **lines)
        case model.Band():
            artist = ax.axhspan(mark.low, mark.high, color=mark.colour, linewidth=mark.width, **look)
        case model.Boxes():
            artist = _draw_boxes(ax, mark)
        case model.Segments():
            ends = np.array([[mark.x0, mark.y0], [mark.x1, mark.y1]], dtype=float).transpose(2, 0, 1)
            lines |= {"linewidths": lines.pop("linewidth"), "linestyles": [lines.pop("linestyle")]}
            artist = LineCollection(
                list(ends), colors=[mark.colour], alpha=mark.alpha, capstyle="butt", **lines
            )
            ax.add_collection(artist)
        case model.Grid():
            artist = _draw_cells(ax, mark)
        case model.Contours():
            artist = _draw_contours(ax, mark)
        case model.Dots():
            artist = ax.scatter(
                mark.x, mark.y, s=mark.areas, color=mark.colour, edgecolors=[mark.edge], linewidths=mark.width,
                alpha=mark.alpha, **look,
            )  # fmt: skip
        case model.Area():
            artist = ax.fill_between(
                mark.x, mark.low, mark.high, facecolor=mark.colour, edgecolor=mark.edge, linewidth=mark.width,
                alpha=mark.alpha, **look,
            )  # fmt: skip
        case model.Texts():
            artist = tuple(
                _write(ax, mark, at, text, mark.looks[row] if mark.looks else {})
                for row, (*at, text) in enumerate(zip(mark.x, mark.y, mark.texts, strict=True))
            )
        case model.Rows():
            label_rows(ax, mark.groups, mark.names, mark.notes)
    return {} if artist is None or not mark.name else {mark.name: artist}


def _handle(key: model.Key) -> Any:
    """Return an artist for a legend that stands for several marks."""
    if key.line is None:
        return Patch(color=key.colour, label=key.label)
    return Line2D([], [], color=key.colour, label=key.label, **key.line)


def _draw_boxes(ax: Axes, mark: model.Boxes) -> PolyCollection:
    colours: dict[str, Any] = {"facecolors": "none" if mark.colour is None else mark.colour}
    if mark.scale is not None:
        colours = {"cmap": mark.scale.colours, "norm": mark.scale.norm, "array": mark.values}
    edge = mark.colour if mark.edge is None else mark.edge
    corners = [[mark.x0, mark.x0, mark.x1, mark.x1], [mark.y0, mark.y1, mark.y1, mark.y0]]
    boxes = PolyCollection(
        list(np.array(corners, dtype=float).transpose(2, 1, 0)),
        edgecolors=edge if isinstance(edge, str) else [edge],
        linewidths=mark.width,
        label=mark.label or None,
        zorder=mark.order,
        **colours,
    )
    ax.add_collection(boxes)
    return boxes


def _draw_candles(ax: Axes, mark: model.Candles) -> dict[str, Any]:
    """Draw all candles as two artists; one artist per candle would be slow."""
    middle = mark.start + mark.length / 2
    left_edge, right_edge = (middle + sign * mark.length * BODY / 2 for sign in (-1, 1))
    corners = (
        (left_edge, mark.open),
        (left_edge, mark.close),
        (right_edge, mark.close),
        (right_edge, mark.open),
    )
    up, down, flat = mark.colour
    shades = np.array([flat, up, down])[np.sign(mark.close - mark.open).astype(int)].tolist()
    wicks = np.array([[middle, mark.low], [middle, mark.high]]).transpose(2, 0, 1)
    bodies = np.array(corners).transpose(2, 0, 1)
    artists = {
        "wicks": LineCollection(list(wicks), colors=shades, linewidths=0.9, capstyle="butt", zorder=2.1),
        # The edge shows a body of height 0 as a line.
        "bodies": PolyCollection(
            list(bodies), facecolors=shades, edgecolors=shades, linewidths=0.7, zorder=2.2
        ),
    }
    for artist in artists.values():
        ax.add_collection(artist)
    return artists


def _draw_cells(ax: Axes, mark: model.Grid) -> Any:
    look: dict[str, Any] = {"cmap": mark.scale.colours, "norm": mark.scale.norm, "zorder": mark.order}
    if mark.is_even:
        extent = (mark.x[0], mark.x[-1], mark.y[0], mark.y[-1])
        # Smoothing would blur one interval into the next.
        look |= {"aspect": "auto", "origin": "lower", "interpolation": "nearest"}
        return ax.imshow(mark.values, extent=extent, **look)
    # As vectors, thousands of cells would have visible seams.
    return ax.pcolormesh(mark.x, mark.y, np.ma.masked_invalid(mark.values), rasterized=True, **look)


def _draw_contours(ax: Axes, mark: model.Contours) -> Any:
    values = np.ma.masked_invalid(mark.values)
    lines = ax.contour(
        mark.x,
        mark.y,
        values,
        levels=mark.levels,
        colors=mark.colour,
        linewidths=mark.width,
        zorder=mark.order,
    )
    shortest = mark.labelled * np.log(mark.x[-1] / mark.x[0])
    segments = [line for of_level in lines.allsegs for line in of_level if len(line)]
    long = (line for line in segments if np.ptp(np.log(line[:, 0])) >= shortest)
    middles = [(float(x), float(y)) for x, y in (line[len(line) // 2] for line in long)]
    ax.clabel(lines, fontsize="small", fmt="%g", manual=middles)
    return lines


def _write(ax: Axes, mark: model.Texts, at: Any, text: str, look: Mapping[str, Any]) -> Any:
    options: dict[str, Any] = {"color": mark.colour, "zorder": mark.order, **mark.style, **look}
    if not mark.is_at_edge:
        return ax.text(at[0], at[1], text, clip_on=True, **options)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    return ax.annotate(text, at, xytext=(-2, 2), ha="right", va="bottom", **place, **options)


def label_rows(ax: Axes, groups: Sequence[str], names: Sequence[str], notes: Sequence[str]) -> None:
    """Label each row, from above, with its name and note, and the first row of each group with the group's name."""
    number = len(names)
    starts = [row for row in range(number) if row == 0 or groups[row] != groups[row - 1]]
    ground = style.Ground.of(ax)
    has_room = ground.height / number >= _LINE
    ticks = list(range(number)) if has_room else starts
    labels = names if has_room else groups
    style.fixed_ticks(ax.yaxis, ticks, [labels[row] for row in ticks])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(number - 0.4, -0.6)
    for row in starts[1:]:
        ax.axhline(row - 0.5, color=ground.inside.grid, linewidth=0.8, zorder=1)
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    look: dict[str, Any] = {
        "va": "center",
        "fontsize": "small",
        "color": ground.around.ink,
        "parse_math": False,
    }
    transform = ax.get_yaxis_transform()
    if has_room and len(starts) > 1:
        offset = -_LETTER * max(map(style.columns, names)) - 14  # left of the names of the rows [pt]
        place: dict[str, Any] = {
            "xycoords": transform,
            "textcoords": "offset points",
            "annotation_clip": False,
        }
        for row in starts:
            ax.annotate(groups[row], (0, row), xytext=(offset, 0), ha="right", **place, **look)
    for row in ticks if has_room else ():
        ax.text(1.01, row, notes[row], transform=transform, **look)
