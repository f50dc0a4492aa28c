"""Traces of Plotly from the artists of a static function: lines, steps, segments, areas and dots."""

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
from tidytape.plot.interactive._image import MOST_CELLS, add_colour_bars, add_grid, add_image
from tidytape.plot.interactive._thin import MOST_POINTS, points_to_send
from tidytape.plot.interactive._times import milliseconds

Floats = NDArray[np.float64]

MOST_BARS = 5_000  # steps with more bars are sent as one outline
_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_POINT = 1.2  # pixels per point, for the width of lines
_DOT = 4 / 3  # pixels per point, for the diameter of dots


def figure_of(canvas: Canvas) -> Any:
    """Add a trace for each artist on the canvas that has none yet, and return the figure."""
    for ax in canvas.axis_names:
        artists = [artist for artist in ax.get_children() if artist not in canvas.done]
        heatmaps = [artist for artist in artists if isinstance(artist, AxesImage | QuadMesh)]
        contours = [artist for artist in artists if isinstance(artist, QuadContourSet)]
        if heatmaps:
            labels = [text for lines in contours for text in lines.labelTexts]
            add_image(canvas, ax, [*heatmaps, *contours, *labels])
        for heatmap in heatmaps:
            add_grid(canvas, heatmap, most=MOST_CELLS // len(heatmaps))
        add_colour_bars(canvas, ax)
        remaining = [artist for artist in artists if artist not in canvas.done]
        for artist in sorted(remaining, key=Artist.get_zorder):
            if isinstance(artist, Line2D) and artist.get_transform() == ax.transData:
                add_line(canvas, artist)
            elif isinstance(artist, Line2D):
                _add_full_line(canvas, ax, artist)
            elif isinstance(artist, StepPatch):
                _add_bars_or_line(canvas, artist)
            elif isinstance(artist, Rectangle) and artist is not ax.patch:
                _add_span(canvas, ax, artist)
            elif isinstance(artist, PolyCollection):
                add_areas(canvas, artist)
            elif isinstance(artist, LineCollection):
                add_segments(canvas, artist)
            elif isinstance(artist, PathCollection):
                add_dots(canvas, artist)
    return canvas.figure()


def hover_text(canvas: Canvas, ax: Axes, artist: Artist) -> str:
    """Return the hover template: the value and, unless hovering shows all values of a time at once, the position."""
    name = canvas.hover_name_of(artist) or canvas.measure(ax, "y")[0]
    if canvas.is_unified and is_time(ax.xaxis):
        return f"{canvas.value_text(ax)}<extra>{name}</extra>"
    return f"{canvas.position_text(ax, 'x')}<br>{canvas.position_text(ax, 'y')}<extra>{name}</extra>"


# --- lines ---


def add_line(canvas: Canvas, line: Line2D, *, width: float = 0.0) -> None:
    """Add a line, or its dots; if it has too many points, only the extremes in each column of pixels.

    With ``width`` the points are the middles of intervals of that length [d], and hovering shows the starts of the
    intervals.
    """
    ax = _axes(line)
    x, y = (np.asarray(values, float) for values in line.get_data())
    if (np.diff(x) >= 0).all():
        rows = points_to_send(x, y, MOST_POINTS // _line_count(ax))
        x, y = x[rows], y[rows]
    markers = line.get_markevery()
    has_line = line.get_linestyle() not in {"None", "none", "", " "}
    has_markers = line.get_marker() not in {None, "None", "none", ""}
    # Markers at some points only (`markevery`) are added below.
    modes = {"lines": has_line, "markers": not has_line or (has_markers and markers is None)}
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "+".join(mode for mode, is_on in modes.items() if is_on),
        "line": {
            "color": colour(line.get_color(), line.get_alpha()),
            "width": round(line.get_linewidth() * _POINT, 2),
            "dash": _DASHES.get(str(line.get_linestyle()), "solid"),
            "shape": "hv" if line.get_drawstyle() == "steps-post" else "linear",
        },
        "marker": {"color": colour(line.get_color()), "size": line.get_markersize() * _POINT + 1},
        "hovertemplate": hover_text(canvas, ax, line),
        "name": canvas.name_of(line),
    }
    if width:
        trace |= {"xperiod": float(milliseconds(np.array(width))), "xperiodalignment": "middle"}
        x = x - width / 2
    add(canvas, line, x=canvas.positions(ax, x), y=y, **trace)
    if markers is not None:
        # A line does not show a single value between two gaps, so add a dot.
        is_gap = np.pad(np.isnan(y), 1, constant_values=True)
        rows = np.flatnonzero(~is_gap[1:-1] & is_gap[:-2] & is_gap[2:])
        if rows.size:
            add(
                canvas,
                line,
                x=canvas.positions(ax, x[rows]),
                y=y[rows],
                **trace | {"mode": "markers", "showlegend": False},
            )


def _line_count(ax: Axes) -> int:
    """Return the number of lines and outlines on the axes, which share the points that a figure may have."""
    return max(sum(isinstance(artist, Line2D | StepPatch) for artist in ax.get_children()), 1)


def _add_full_line(canvas: Canvas, ax: Axes, line: Line2D) -> None:
    """Add a horizontal or vertical line across all of the axes, at a value such as zero, a price or a time."""
    x, y = (np.asarray(values, float) for values in line.get_data())
    x_axis, y_axis = canvas.axis_names[ax]
    is_horizontal = y[0] == y[-1] and line.get_transform() == ax.get_yaxis_transform(which="grid")
    ends = (
        {"x0": 0, "x1": 1, "xref": f"{x_axis} domain", "y0": float(y[0]), "y1": float(y[0]), "yref": y_axis}
        if is_horizontal
        else {
            "y0": 0,
            "y1": 1,
            "yref": f"{y_axis} domain",
            "x0": float(x[0]),
            "x1": float(x[0]),
            "xref": x_axis,
        }
    )
    look = {
        "color": colour(line.get_color(), line.get_alpha()),
        "width": line.get_linewidth() * _POINT,
        "dash": _DASHES.get(str(line.get_linestyle()), "solid"),
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
    """Add a shaded range of the vertical axis, such as a value area."""
    x_axis, y_axis = canvas.axis_names[ax]
    low = rectangle.get_y()
    canvas.layout["shapes"].append(
        {
            "type": "rect",
            "x0": 0,
            "x1": 1,
            "xref": f"{x_axis} domain",
            "y0": low,
            "y1": low + rectangle.get_height(),
            "yref": y_axis,
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": colour(rectangle.get_facecolor()),
            "name": canvas.name_of(rectangle),
            "showlegend": canvas.is_listed(rectangle),
            "legendrank": canvas.rank(rectangle),
        }
    )


# --- steps ---


def _add_bars_or_line(canvas: Canvas, steps: StepPatch) -> None:
    values, _, baseline = steps.get_data()
    if steps.get_fill() and baseline is not None:
        add_filled(canvas, steps)
    elif np.isfinite(values).any():
        add_steps(canvas, steps)


def add_filled(canvas: Canvas, steps: StepPatch, *, with_zeros: bool = False, is_signed: bool = True) -> None:
    """Add filled steps: as bars, or as one outline if there are too many.

    Bars of length 0 are sent only with ``with_zeros``. Without ``is_signed`` hovering shows lengths without their sign.
    """
    values, _, _ = steps.get_data()
    if np.isfinite(values).sum() > MOST_BARS:
        add_steps(canvas, steps, is_filled=True, is_signed=is_signed)
    elif np.isfinite(values).any():
        _add_bars(canvas, steps, with_zeros=with_zeros, is_signed=is_signed)


def add_steps(
    canvas: Canvas,
    steps: StepPatch,
    *,
    is_filled: bool = False,
    is_signed: bool = True,
    origin: float | None = None,
) -> None:
    """Add a line that is horizontal over each interval.

    With an origin, a price on the horizontal axis, hovering also shows the distance from it [bps].
    """
    ax = _axes(steps)
    values, edges, _ = steps.get_data()
    x, y = np.asarray(edges, float), np.append(values, values[-1:]).astype(float)
    rows = points_to_send(x, y, MOST_POINTS // _line_count(ax))
    face, edge = steps.get_facecolor(), steps.get_edgecolor()
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv", "color": colour(edge), "width": round(steps.get_linewidth() * _POINT, 2)},
        "hovertemplate": hover_text(canvas, ax, steps),
        "name": canvas.name_of(steps),
    }
    if is_filled:
        trace |= {"fill": "tozeroy", "fillcolor": colour(face)}
    if not is_signed:
        trace |= {"customdata": np.abs(y[rows])}
        trace["hovertemplate"] = trace["hovertemplate"].replace("%{y:", "%{customdata:")
    if origin:
        trace["customdata"] = (x[rows] / origin - 1) * 1e4
        trace["hovertemplate"] = trace["hovertemplate"].replace(
            "<extra>", "<br>Distance from the mid: %{customdata:,.4~r} bps<extra>"
        )
    add(canvas, steps, x=canvas.positions(ax, x[rows]), y=y[rows], **trace)


def _add_bars(canvas: Canvas, steps: StepPatch, *, with_zeros: bool, is_signed: bool) -> None:
    """Add steps as bars, each from its base."""
    ax = _axes(steps)
    values, edges, baseline = steps.get_data()
    base = np.broadcast_to(np.asarray(baseline, float), values.shape)
    is_drawn = np.isfinite(values) & (with_zeros | (values != base))
    start, width, length = edges[:-1][is_drawn], np.diff(edges)[is_drawn], (values - base)[is_drawn]
    is_upright = steps.orientation == "vertical"
    has_times = is_upright and is_time(ax.xaxis)
    width = milliseconds(width) if has_times else width
    is_even = bool(width.size) and bool((width == width[0]).all())
    positions = canvas.positions(ax, start) if is_upright else start
    length_axis, position_axis = ("y", "x") if is_upright else ("x", "y")
    text = canvas.value_text(ax, length_axis, "customdata")
    if not is_upright:
        text = f"{canvas.position_text(ax, 'y')}<br>{canvas.measure(ax, 'x')[0]}: {text}"
    name = canvas.name_of(steps) or canvas.measure(ax, length_axis)[0]
    add(
        canvas,
        steps,
        type="bar",
        orientation="v" if is_upright else "h",
        **{position_axis: positions, length_axis: length},
        base=base[is_drawn],
        width=_one_if_equal(width),
        # With ``xperiod``, hovering anywhere over the interval of a bar finds the bar.
        **(
            {"xperiod": _one_if_equal(width), "xperiodalignment": "middle"}
            if has_times and is_even
            else {"offset": 0}
        ),
        customdata=length if is_signed else np.abs(length),
        marker={"color": colour(steps.get_facecolor()), "line": {"width": 0}},
        hovertemplate=f"{text}<extra>{canvas.hover_name_of(steps) or name}</extra>",
        name=name,
    )


def _one_if_equal(values: Floats) -> Any:
    """Return the values, or one number if all are equal, which makes the figure smaller."""
    return float(values[0]) if values.size and (values == values[0]).all() else values


# --- collections ---


def add_segments(canvas: Canvas, segments: LineCollection) -> None:
    """Add separate line segments as one trace."""
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
        hovertemplate=hover_text(canvas, ax, segments),
        name=canvas.name_of(segments),
    )


def add_areas(canvas: Canvas, areas: PolyCollection) -> None:
    """Add polygons of a single colour as one trace."""
    ax = _axes(areas)
    outlines = [np.asarray(path.vertices, float) for path in areas.get_paths()]
    parts = [np.vstack([outline, [[np.nan, np.nan]]]) for outline in outlines if outline.size]
    if not parts:
        return
    points = np.concatenate(parts)
    face, edge = (np.atleast_2d(colours) for colours in (areas.get_facecolor(), areas.get_edgecolor()))
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
    """Add dots as one trace; hovering also shows the amounts, which the areas of the dots stand for."""
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
        hovertemplate=_amount_text(canvas, ax, dots) if amounts is not None else hover_text(canvas, ax, dots),
        name=canvas.name_of(dots),
    )


def _amount_text(canvas: Canvas, ax: Axes, dots: PathCollection) -> str:
    """Return the hover template of dots; their unit is read from their name, such as ``Buys, up to 3 BTC``."""
    name, _, largest = canvas.name_of(dots).partition(", ")
    unit = " ".join(largest.split(" ")[3:])
    position = f"{canvas.position_text(ax, 'x')}<br>{canvas.position_text(ax, 'y')}"
    return f"{position}<br>{name}: %{{customdata:,.6~r}} {unit}".rstrip() + "<extra></extra>"


def add(canvas: Canvas, artist: Artist, **trace: Any) -> None:
    """Add the trace of an artist; the legend lists it if the legend of the static picture does."""
    canvas.done.add(artist)
    legend = {
        "showlegend": bool(trace.get("name")) and canvas.is_listed(artist),
        "legendrank": canvas.rank(artist),
        "legendgroup": canvas.entries[artist].group,
    }
    if not canvas.entries[artist].has_hover:
        trace = {**trace, "hoverinfo": "skip", "hovertemplate": None}
    canvas.add(_axes(artist), order=artist.get_zorder(), **legend | trace)


def _axes(artist: Artist) -> Axes:
    ax = artist.axes
    assert isinstance(ax, Axes)
    return ax
