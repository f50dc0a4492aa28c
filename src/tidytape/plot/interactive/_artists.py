"""From what a static function drew to traces of Plotly: lines, steps, segments, areas and dots."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.contour import QuadContourSet
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from numpy.typing import NDArray

from tidytape.plot.interactive._canvas import Canvas, colour, is_time
from tidytape.plot.interactive._image import MOST_CELLS, add_grid, add_image, bars_of_colours
from tidytape.plot.interactive._thin import MOST_POINTS, kept
from tidytape.plot.interactive._times import milliseconds

Floats = NDArray[np.float64]

MOST_BARS = 5_000
_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_IN_IMAGES = (AxesImage, QuadMesh, QuadContourSet)
_POINT = 1.2  # pixels per point of a line's width
_DOT = 4 / 3  # and of a dot


def send(canvas: Canvas) -> None:
    """Add a trace of everything that stands on the axes of a canvas and was not added before."""
    for ax in canvas.axes:
        left = [artist for artist in ax.get_children() if artist not in canvas.done]
        layers = [one for one in left if isinstance(one, AxesImage | QuadMesh)]
        if layers:
            add_image(
                canvas, ax, [one for one in left if isinstance(one, _IN_IMAGES) or _is_label(one, left)]
            )
        for layer in layers:
            add_grid(canvas, layer, most=MOST_CELLS // len(layers))
        bars_of_colours(canvas, ax)
        left = [artist for artist in left if artist not in canvas.done]
        for artist in sorted(left, key=lambda one: one.get_zorder()):
            if isinstance(artist, Line2D):
                _send_line(canvas, ax, artist)
            elif isinstance(artist, StepPatch):
                _send_steps(canvas, artist)
            elif isinstance(artist, Rectangle) and artist is not ax.patch:
                _add_span(canvas, ax, artist)
            elif isinstance(artist, PolyCollection):
                add_areas(canvas, artist)
            elif isinstance(artist, LineCollection):
                add_segments(canvas, artist)
            elif isinstance(artist, PathCollection):
                add_dots(canvas, artist)


def _is_label(artist: Artist, several: list[Artist]) -> bool:
    """Return whether a text stands on a line of equal values."""
    return any(isinstance(one, QuadContourSet) and artist in one.labelTexts for one in several)


def hover(canvas: Canvas, ax: Axes, artist: Artist) -> str:
    """Return the text of hovering: the value, and the position where not all values of a time are shown at once."""
    name = canvas.hover_name_of(artist) or canvas.unit(ax, "y")[0]
    if canvas.is_unified and is_time(ax.xaxis):
        return f"{canvas.shown(ax)}<extra>{name}</extra>"
    return f"{canvas.position(ax, 'x')}<br>{canvas.position(ax, 'y')}<extra>{name}</extra>"


# --- lines ---


def _send_line(canvas: Canvas, ax: Axes, line: Line2D) -> None:
    if line.get_transform() == ax.transData:
        add_line(canvas, line)
    else:
        _add_level(canvas, ax, line)


def add_line(canvas: Canvas, line: Line2D, *, width: float = 0.0) -> None:
    """Add a line, or dots; with too many points its extremes in each column of pixels.

    With ``width`` its points stand in the middle of intervals of that length [d], and hovering names their starts.
    """
    ax = _axes(line)
    x, y = (np.asarray(values, float) for values in line.get_data())
    if (np.diff(x) >= 0).all():
        rows = kept(x, y, MOST_POINTS // _number(ax))
        x, y = x[rows], y[rows]
    alone = line.get_markevery()
    has_line = line.get_linestyle() not in {"None", "none", "", " "}
    has_markers = line.get_marker() not in {None, "None", "none", ""}
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers"
        if has_line and has_markers and alone is None
        else "lines"
        if has_line
        else "markers",
        "line": {
            "color": colour(line.get_color(), line.get_alpha()),
            "width": round(line.get_linewidth() * _POINT, 2),
            "dash": _DASHES.get(str(line.get_linestyle()), "solid"),
            "shape": "hv" if line.get_drawstyle() == "steps-post" else "linear",
        },
        "marker": {"color": colour(line.get_color()), "size": line.get_markersize() * _POINT + 1},
        "hovertemplate": hover(canvas, ax, line),
        "name": canvas.name_of(line),
    }
    if width:
        trace |= {"xperiod": float(milliseconds(np.array(width))), "xperiodalignment": "middle"}
        x = x - width / 2
    add(canvas, line, x=canvas.positions(ax, x), y=y, **trace)
    if alone is not None:
        # A value between two gaps is a dot.
        gap = np.pad(np.isnan(y), 1, constant_values=True)
        rows = np.flatnonzero(~gap[1:-1] & gap[:-2] & gap[2:])
        if rows.size:
            add(
                canvas,
                line,
                x=canvas.positions(ax, x[rows]),
                y=y[rows],
                **trace | {"mode": "markers", "showlegend": False},
            )


def _number(ax: Axes) -> int:
    """Return how many lines share the points that a figure may have."""
    return max(sum(isinstance(artist, Line2D | StepPatch) for artist in ax.get_children()), 1)


def _add_level(canvas: Canvas, ax: Axes, line: Line2D) -> None:
    """Add a line across the axes, such as zero, or a price."""
    (x, y), (across, up) = (np.asarray(values, float) for values in line.get_data()), canvas.refs(ax)
    is_level = y[0] == y[-1] and line.get_transform() == ax.get_yaxis_transform(which="grid")
    ends = (
        {"x0": 0, "x1": 1, "xref": f"{across} domain", "y0": float(y[0]), "y1": float(y[0]), "yref": up}
        if is_level
        else {"y0": 0, "y1": 1, "yref": f"{up} domain", "x0": float(x[0]), "x1": float(x[0]), "xref": across}
    )
    dash = _DASHES.get(str(line.get_linestyle()), "solid")
    look = {
        "color": colour(line.get_color(), line.get_alpha()),
        "width": line.get_linewidth() * _POINT,
        "dash": dash,
    }
    canvas.layout["shapes"].append(
        {
            "type": "line",
            "line": look,
            "layer": "above" if canvas.is_listed(line) else "below",
            "name": canvas.name_of(line),
            "showlegend": canvas.is_listed(line),
            "legendrank": canvas.rank(line),
            **ends,
        }
    )


def _add_span(canvas: Canvas, ax: Axes, rectangle: Rectangle) -> None:
    """Add a shade across the axes, such as a value area."""
    across, up = canvas.refs(ax)
    low = rectangle.get_y()
    canvas.layout["shapes"].append(
        {
            "type": "rect",
            "x0": 0,
            "x1": 1,
            "xref": f"{across} domain",
            "y0": low,
            "y1": low + rectangle.get_height(),
            "yref": up,
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": colour(rectangle.get_facecolor()),
            "name": canvas.name_of(rectangle),
            "showlegend": canvas.is_listed(rectangle),
            "legendrank": canvas.rank(rectangle),
        }
    )


# --- steps ---


def _send_steps(canvas: Canvas, steps: StepPatch) -> None:
    values, _, baseline = steps.get_data()
    if steps.get_fill() and baseline is not None:
        add_filled(canvas, steps)
    elif np.isfinite(values).any():
        add_steps(canvas, steps)


def add_filled(canvas: Canvas, steps: StepPatch, *, zeros: bool = False, signed: bool = True) -> None:
    """Add steps that are filled: as bars, or as an outline where there are too many.

    Steps of no length are sent only with ``zeros``; without ``signed`` hovering says how long they are either way.
    """
    values, _, _ = steps.get_data()
    if np.isfinite(values).sum() > MOST_BARS:
        add_steps(canvas, steps, is_filled=True, signed=signed)
    elif np.isfinite(values).any():
        _add_bars(canvas, steps, zeros=zeros, signed=signed)


def add_steps(
    canvas: Canvas,
    steps: StepPatch,
    *,
    is_filled: bool = False,
    signed: bool = True,
    origin: float | None = None,
) -> None:
    """Add a line that stays level over each interval; with an origin, hovering says the distance from it. [bps]"""
    ax = _axes(steps)
    values, edges, _ = steps.get_data()
    x, y = np.asarray(edges, float), np.append(values, values[-1:]).astype(float)
    rows = kept(x, y, MOST_POINTS // _number(ax))
    face, edge = steps.get_facecolor(), steps.get_edgecolor()
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv", "color": colour(edge), "width": round(steps.get_linewidth() * _POINT, 2)},
        "hovertemplate": hover(canvas, ax, steps),
        "name": canvas.name_of(steps),
    }
    if is_filled:
        trace |= {"fill": "tozeroy", "fillcolor": colour(face)}
    if not signed:
        trace |= {"customdata": np.abs(y[rows])}
        trace["hovertemplate"] = trace["hovertemplate"].replace("%{y:", "%{customdata:")
    if origin:
        trace["customdata"] = (x[rows] / origin - 1) * 1e4
        trace["hovertemplate"] = hover(canvas, ax, steps).replace(
            "<extra>", "<br>Distance from the mid: %{customdata:,.4~r} bps<extra>"
        )
    add(canvas, steps, x=canvas.positions(ax, x[rows]), y=y[rows], **trace)


def _add_bars(canvas: Canvas, steps: StepPatch, *, zeros: bool, signed: bool) -> None:
    """Add a bar per step from its base."""
    ax = _axes(steps)
    values, edges, baseline = steps.get_data()
    base = np.broadcast_to(np.asarray(baseline, float), values.shape)
    known = np.isfinite(values) & (zeros | (values != base))
    start, width, length = edges[:-1][known], np.diff(edges)[known], (values - base)[known]
    is_upright = steps.orientation == "vertical"
    times = is_upright and is_time(ax.xaxis)
    width = milliseconds(width) if times else width
    is_even = bool(width.size) and bool((width == width[0]).all())
    places = canvas.positions(ax, start) if is_upright else start
    along, across = ("y", "x") if is_upright else ("x", "y")
    text = canvas.shown(ax, along, "customdata")
    if not is_upright:
        text = f"{canvas.position(ax, 'y')}<br>{canvas.unit(ax, 'x')[0]}: {text}"
    name = canvas.name_of(steps) or canvas.unit(ax, along)[0]
    said = canvas.hover_name_of(steps) or name
    add(
        canvas,
        steps,
        type="bar",
        orientation="v" if is_upright else "h",
        **{across: places, along: length},
        base=base[known],
        width=_one(width),
        # Bars of one width stand over their intervals, and hovering finds the one below the mouse.
        **({"xperiod": _one(width), "xperiodalignment": "middle"} if times and is_even else {"offset": 0}),
        customdata=length if signed else np.abs(length),
        marker={"color": colour(steps.get_facecolor()), "line": {"width": 0}},
        hovertemplate=f"{text}<extra>{said}</extra>",
        name=name,
    )


def _one(values: Floats) -> Any:
    """Return the one value that all are, or all."""
    return float(values[0]) if values.size and (values == values[0]).all() else values


# --- collections ---


def add_segments(canvas: Canvas, segments: LineCollection) -> None:
    """Add lines that begin and end, as one trace."""
    ax = _axes(segments)
    parts = [np.vstack([part, [[np.nan, np.nan]]]) for part in segments.get_segments() if len(part)]
    if not parts:
        return
    points = np.concatenate(parts)
    (pattern, *_), alpha = cast("Any", segments.get_linestyle()), segments.get_alpha()
    add(
        canvas,
        segments,
        type="scatter",
        mode="lines",
        x=canvas.positions(ax, points[:, 0]),
        y=points[:, 1],
        line={
            "color": colour(segments.get_colors()[0], alpha),
            "width": round(float(np.ravel(segments.get_linewidth())[0]) * _POINT, 2),
            "dash": "solid" if pattern[1] is None else "dash",
        },
        hovertemplate=hover(canvas, ax, segments),
        name=canvas.name_of(segments),
    )


def add_areas(canvas: Canvas, areas: PolyCollection) -> None:
    """Add polygons of one colour, as one trace."""
    ax = _axes(areas)
    outlines = [np.asarray(path.vertices, float) for path in areas.get_paths()]
    parts = [np.vstack([outline, [[np.nan, np.nan]]]) for outline in outlines if outline.size]
    if not parts:
        return
    points = np.concatenate(parts)
    face, edge = (np.atleast_2d(of) for of in (areas.get_facecolor(), areas.get_edgecolor()))
    add(
        canvas,
        areas,
        type="scatter",
        mode="lines",
        fill="toself",
        x=canvas.positions(ax, points[:, 0]),
        y=points[:, 1],
        fillcolor=colour(face[0]) if face.size else "rgba(0,0,0,0)",
        line={
            "color": colour(edge[0]) if edge.size else "rgba(0,0,0,0)",
            "width": float(np.ravel(areas.get_linewidth())[0]),
        },
        hoverinfo="skip",
        name=canvas.name_of(areas),
    )


def add_dots(canvas: Canvas, dots: PathCollection, *, amounts: Floats | None = None) -> None:
    """Add dots whose areas are amounts."""
    ax = _axes(dots)
    points = np.asarray(dots.get_offsets(), float)
    canvas.has_dots = True
    add(
        canvas,
        dots,
        type="scatter",
        mode="markers",
        x=canvas.positions(ax, points[:, 0]),
        y=points[:, 1],
        marker={
            "color": colour(dots.get_facecolor()[0]),
            "size": np.sqrt(np.asarray(dots.get_sizes(), float)) * _DOT,
            "line": {"width": 0.5, "color": colour(dots.get_edgecolor()[0])},
        },
        customdata=amounts,
        hovertemplate=_dot(canvas, ax, dots) if amounts is not None else hover(canvas, ax, dots),
        name=canvas.name_of(dots),
    )


def _dot(canvas: Canvas, ax: Axes, dots: PathCollection) -> str:
    # The name ends with the unit of the amounts: Buys, up to 3 BTC.
    name, _, largest = canvas.name_of(dots).partition(", ")
    unit = " ".join(largest.split(" ")[3:])
    where = f"{canvas.position(ax, 'x')}<br>{canvas.position(ax, 'y')}"
    return f"{where}<br>{name}: %{{customdata:,.6~r}} {unit}".rstrip() + "<extra></extra>"


def add(canvas: Canvas, artist: Artist, **trace: Any) -> None:
    """Add the trace of what was drawn; the legend lists it where that of the static picture does."""
    canvas.done.add(artist)
    listed = {
        "showlegend": bool(trace.get("name")) and canvas.is_listed(artist),
        "legendrank": canvas.rank(artist),
        "legendgroup": canvas.group_of(artist),
    }
    if canvas.is_silent(artist):
        trace = {**trace, "hoverinfo": "skip", "hovertemplate": None}
    canvas.add(_axes(artist), order=artist.get_zorder(), **listed | trace)


def _axes(artist: Artist) -> Axes:
    ax = artist.axes
    assert isinstance(ax, Axes)
    return ax
