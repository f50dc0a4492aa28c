"""Draws the model of a picture as a figure of Plotly: a trace per mark, and one image of marks that are too fine."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, to_hex, to_rgb, to_rgba
from numpy.typing import NDArray

from tidytape.errors import QueryError, html_text
from tidytape.plot import _model as model
from tidytape.plot import _style as style
from tidytape.plot._clock import Clock, milliseconds
from tidytape.plot._closed import Hours
from tidytape.plot._matplotlib import png
from tidytape.plot._thin import MOST_POINTS, points_to_send
from tidytape.sessions import Session

Floats = NDArray[np.float64]

MOST_BARS = 5_000  # steps with more bars are sent as one outline
MOST_CELLS = 20_000  # cells of all grids of a figure together
_MOST_GRID_CELLS = 10 * MOST_CELLS  # of a footprint, most of whose cells may be empty
_WIDTH = 10.0  # of an image, and of the figure for which the room of marks is computed [in]
_DPI = 100
_IMAGE_DPI = 200  # twice the resolution of the figure, so that users can zoom in
_FACES = {False: "#ffffff", True: "#15191d"}  # background by ``dark``
_SHARES = (0.775, 0.77)  # width and height of axes as shares of those of the figure
_NARROW = 0.3  # share of the figure's width
_GAP = 0.035  # distance between panels as a share of the height
_FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
_COLOURS = 33  # number of colours of a scale
_POINT = 1.2  # pixels per point, for the width of lines
_DOT = 4 / 3  # pixels per point, for the diameter of dots
_DAY = 86_400_000  # [ms]
_ROW, _AROUND = 0.22, 1.8  # height of a named row, and of title, axis and legend together [in]
_INVISIBLE = "rgba(0,0,0,0)"

Place = tuple[str, str, tuple[float, float], tuple[float, float]]
"""Names of the axes of a panel, and the shares of the figure's width and height from which to which it reaches."""
ONE: tuple[Place, ...] = (("x", "y", (0.0, 1.0), (0.0, 1.0)),)


def stacked(heights: Sequence[float]) -> tuple[Place, ...]:
    """Return the places of panels from the top down, which share the time axis; ``heights`` are relative."""
    unit, top, places = (1 - _GAP * (len(heights) - 1)) / sum(heights), 1.0, []
    for number, height in enumerate(heights, start=1):
        name = "y" if number == 1 else f"y{number}"
        places.append(("x", name, (0.0, 1.0), (max(top - height * unit, 0.0), top)))
        top -= height * unit + _GAP
    return tuple(places)


def graph_objects(function: str) -> ModuleType:
    """Return ``plotly.graph_objects``; raise ModuleNotFoundError with the command that installs it."""
    try:
        import plotly.graph_objects
    except ModuleNotFoundError as error:
        message = f"{function} takes plotly: pip install 'tidytape[interactive]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    graph: ModuleType = plotly.graph_objects
    return graph


def figure(
    name: str,
    fill: model.Fill,
    *,
    dark: bool,
    title: str | None,
    timezone: str | tzinfo | None = None,
    session: Session | None = None,
    height: float = 4.8,
    places: Sequence[Place] = ONE,
) -> Any:
    """Return a picture as a figure of Plotly.

    Parameters
    ----------
    name : str
        Name of the public function.
    fill : callable
        Fills the panels that it is called with, one per place.
    dark : bool
        Whether the background is dark.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    timezone : str or tzinfo, optional
        Zone of the time axis; by default that of the session, or UTC.
    session : Session, optional
        When the market trades, if closed time is left out.
    height : float
        Of the figure. [in]
    places : sequence of Place
        Where the panels are.
    """
    go = graph_objects(f"plot.interactive.{name}")
    hours = Hours.of(timezone, session)
    face = to_rgb(_FACES[dark])
    size = (_WIDTH * 72 * _SHARES[0], height * 72 * _SHARES[1], _WIDTH * 72)
    panels = [model.Panel(style.Ground(face, face, *size), hours) for _ in places]
    fill(*panels)
    hours.show(panels)
    if title is not None:
        panels[0].title = title
    return _Page(panels, places, height, _FACES[dark], hours.zone).figure(go)


class _Page:
    """The traces and the layout of a figure."""

    def __init__(
        self,
        panels: Sequence[model.Panel],
        places: Sequence[Place],
        height: float,
        face: str,
        timezone: str | tzinfo,
    ) -> None:
        self.panels, self.places, self.height, self.face = panels, places, height, face
        self.traces: list[tuple[float, dict[str, Any]]] = []
        self.layout: dict[str, Any] = {"images": [], "shapes": [], "annotations": []}
        times = [panel for panel in panels if panel.x.kind == "time"]
        self.is_unified = bool(times) and all(panel.is_unified for panel in panels)
        limits = next((panel.x.limits for panel in times if panel.x.limits), (0.0, 0.0))
        self.clock = Clock.of(timezone, *limits)
        legend = next((panel.legend for panel in panels if panel.legend), None)
        self.legend_title = legend.title if legend else ""
        self.has_dots = False

    def figure(self, go: ModuleType) -> Any:
        """Return the figure."""
        axes: dict[str, Any] = {}
        for panel, (x, y, x_range, y_range) in zip(self.panels, self.places, strict=True):
            # A shared horizontal axis is below the lowest of its panels.
            lowest = [place[1] for place in self.places if place[0] == x][-1]
            drawn = _Drawn(self, panel, x, y)
            x_axis = drawn.axis("x") | {"anchor": lowest, "domain": x_range}
            if x_range[1] - x_range[0] < _NARROW:  # there the label needs two lines
                label = x_axis["title"]["text"].replace(" [", "<br>[")
                x_axis |= {"title": {"text": label, "font": {"size": 11}}, "nticks": 4, "tickangle": 0}
            self._add_axis(axes, x, x_axis, panel)
            self._add_axis(axes, y, drawn.axis("y") | {"anchor": x, "domain": y_range}, panel)
            drawn.add_marks()
            if panel.twin is not None:
                twin = _Drawn(self, panel.twin, x, f"y{len(self.places) + 1}", panel.legend)
                look = {"overlaying": y, "side": "right", "showgrid": False}
                # Else Plotly puts the ticks where the other axis has them, whatever numbers those are.
                self._add_axis(axes, twin.y, {"tickmode": "auto"} | twin.axis("y") | look, panel)
                twin.add_marks()
            if panel is not self.panels[0] and panel.title:
                drawn.annotate(panel.title, 12, x=0, y=1, xanchor="left", yanchor="bottom")
            if panel.is_empty:
                drawn.annotate("no data", 15, x=0.5, y=0.5)
            for row_axis in drawn.row_axis():
                axes["yaxis"] |= row_axis
        # Write subject and market on two lines, which leaves room for the buttons, and fits on a telephone.
        subject, _, market = self.panels[0].title.partition(style.OF)
        page = self._layout(subject, market)
        traces = [trace for _, trace in sorted(self.traces, key=lambda pair: pair[0])]
        return go.Figure(data=traces, layout=page | axes | self.layout)

    def _add_axis(self, axes: dict[str, Any], name: str, axis: dict[str, Any], panel: model.Panel) -> None:
        look = {
            "gridcolor": panel.colours.grid,
            "linecolor": panel.ground.around.quiet,
            "showline": True,
            "zeroline": False,
            "automargin": True,
        }
        if panel.is_empty:
            axis |= {"showticklabels": False, "showgrid": False}
        key = f"{name[0]}axis{name[1:]}"
        # Panels that share an axis give it one layout: that of the first panel that labels it.
        if key not in axes or not axes[key]["title"]["text"]:
            axes[key] = look | axis

    def _layout(self, subject: str, market: str) -> dict[str, Any]:
        """Return the layout of everything but the axes: title, legend, colours and buttons."""
        around = self.panels[0].ground.around
        return {
            "template": None,
            "height": round(self.height * _DPI),
            "paper_bgcolor": self.face,
            "plot_bgcolor": self.face,
            "font": {"family": _FONT, "size": 12, "color": around.ink},
            "margin": {"l": 70, "r": 24, "t": 52 + 17 * bool(market), "b": 56},
            "title": {
                "text": html_text(subject),
                "font": {"size": 15, "weight": 600},
                "x": 0.01,
                "xanchor": "left",
                "y": 1,
                "yanchor": "top",
                "pad": {"t": 14},
                "subtitle": {"text": html_text(market), "font": {"size": 12}},
            },
            "hovermode": "x unified" if self.is_unified else "closest",
            "hoverlabel": {
                "bgcolor": self.face,
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
                "title": {"text": html_text(self.legend_title or "").replace("\n", "<br>"), "side": "top"},
            },
        }


class _Drawn:
    """The traces of one panel, whose axes have these names in the figure."""

    def __init__(
        self, page: _Page, panel: model.Panel, x: str, y: str, legend: model.Legend | None = None
    ) -> None:
        self.page, self.panel, self.x, self.y = page, panel, x, y
        legend = legend or panel.legend
        self.listed = list(legend.marks) if legend else []
        self.has_times = panel.x.kind == "time"

    # --- the panel ---

    def add_marks(self) -> None:
        """Add a trace per mark, and one image of those that are too fine."""
        marks = sorted(self.panel.marks, key=lambda mark: mark.order)
        points = sum(mark.x.size for mark in marks if isinstance(mark, model.Area))
        fine = [
            mark
            for mark in marks
            if mark.in_image
            or isinstance(mark, model.Grid | model.Contours)
            or (isinstance(mark, model.Area) and points > MOST_POINTS)
        ]
        if fine:
            self._add_image(fine)
        for mark in marks:
            add = _ADD.get(type(mark))
            if add is not None:
                add(self, mark)
        for bar in self.panel.bars:
            self._add_bar(bar)

    def annotate(self, text: str, size: float, **place: Any) -> None:
        """Write a text at a place of the panel."""
        annotation = {"xref": f"{self.x} domain", "yref": f"{self.y} domain", "showarrow": False, **place}
        self.page.layout["annotations"].append(annotation | {"text": html_text(text), "font": {"size": size}})

    def axis(self, letter: str) -> dict[str, Any]:
        """Return the layout of an axis: its title, range and ticks."""
        about = self._about(letter)
        name = style.label(
            about.name, self.page.clock.name if about.kind == "time" and about.unit else about.unit
        )
        title: dict[str, Any] = {
            "text": html_text(", ".join(filter(None, (name, about.note)))),
            "standoff": 8,
        }
        layout: dict[str, Any] = {"title": title, "showgrid": about.has_grid}
        if about.kind == "time":
            limits = np.array(about.limits or (0.0, 1.0))
            if about.runs is not None:
                begins, ends = about.runs[0][1:], about.runs[1][:-1]
                # A break hides its first moment: let the end of a session be before it.
                breaks = np.stack([ends + 1 / _DAY, begins], axis=1)[begins > ends]
                layout["rangebreaks"] = [{"bounds": self.page.clock.texts(pair)} for pair in breaks]
                layout |= {
                    "tickmode": "array",
                    "tickvals": self.page.clock.texts(np.array([*(about.fixed or ())])),
                }
                layout["ticktext"] = [text.replace("\n", "<br>") for text in (about.fixed or {}).values()]
            return layout | {
                "type": "date",
                "rangeslider": {"visible": False},
                "range": self.page.clock.texts(limits),
                "hoverformat": "%Y-%m-%d %H:%M",
            }
        if about.is_log:
            layout |= {"type": "log", "minorloglabels": "none"}
        else:
            layout |= {"exponentformat": "B", "separatethousands": True}
        if about.limits is not None:
            layout["range"] = np.log10(about.limits).tolist() if about.is_log else list(about.limits)
        else:
            rules = (mark for mark in self.panel.marks if isinstance(mark, model.Rule))
            shown = [mark.at for mark in rules if mark.is_upright == (letter == "x")]
            shown = [*shown, *([about.low] if about.low is not None else [])]
            layout |= {"autorangeoptions": {"include": shown}} if shown else {}
        if about.fixed is not None:
            texts = [html_text(text).replace("\n", "<br>") for text in about.fixed.values()]
            layout |= {"tickmode": "array", "tickvals": list(about.fixed), "ticktext": texts}
        elif not about.is_signed and about.limits is not None:
            ticks = [float(tick) for tick in style.round_ticks(about.bins or 6).tick_values(*about.limits)]
            texts = [style.short(abs(tick)) for tick in ticks]
            layout |= {"tickmode": "array", "tickvals": ticks, "ticktext": texts}
        elif about.kind == "price":
            layout["tickformat"] = ",.10~r"  # prices in full, without a power of ten
        return layout

    def row_axis(self) -> list[dict[str, Any]]:
        """Return the layout of an axis of named rows, if the panel has names; the figure is as high as they need."""
        rows = [mark for mark in self.panel.marks if isinstance(mark, model.Rows)]
        for mark in rows:
            lines, groups = _lines(mark.groups)
            page = self.page
            page.height = _ROW * (len(lines) + len(groups)) + _AROUND
            labels = [html_text(name) for name in mark.names]
            if not groups:
                pairs = zip(labels, mark.notes, strict=True)
                labels = [
                    ", ".join(filter(None, (name.replace(" ", "<br>", 1), note))) for name, note in pairs
                ]
                page.height = _ROW * 1.4 * len(labels) + _AROUND
            # The name of a group has a line of its own, so that the names of its rows are short.
            page.layout["annotations"] += [
                {
                    "x": 0, "xref": "x domain", "xanchor": "left", "y": line, "yref": "y", "yshift": -3,
                    "text": f"<b>{html_text(group)}</b>", "showarrow": False,
                }
                for line, group in groups.items()
            ]  # fmt: skip
            ticks = {"tickmode": "array", "tickvals": lines.tolist(), "ticktext": labels, "ticks": ""}
            return [ticks | {"range": [int(lines[-1]) + 0.6, -0.6]}]
        return []

    # --- texts ---

    def _about(self, letter: str) -> model.Axis:
        return self.panel.x if letter == "x" else self.panel.y

    def value_text(self, letter: str, key: str = "") -> str:
        """Return the hover template of a value: the number and its unit; of a time, the time."""
        name, unit = self._about(letter).measure
        if self._about(letter).kind == "time":
            return "%{x|%Y-%m-%d %H:%M}"
        return f"%{{{key or letter}:,.{8 if name == 'Price' else 6}~r}} {unit}".rstrip()

    def position_text(self, letter: str) -> str:
        """Return the hover template of a position: the name of the axis, the number and its unit."""
        text = self.value_text(letter)
        return text if text.startswith("%{x|") else f"{self._about(letter).name}: {text}"

    def hover_text(self, mark: model.Mark) -> str:
        """Return the hover template: the value and, unless hovering shows all values of a time, the position."""
        name = html_text(mark.hover_name or mark.label or self.panel.y.name)
        if self.page.is_unified and self.has_times:
            return f"{self.value_text('y')}{mark.hover or ''}<extra>{name}</extra>"
        position = f"{self.position_text('x')}<br>{self.position_text('y')}"
        return f"{position}{mark.hover or ''}<extra>{name}</extra>"

    # --- traces ---

    def positions(self, x: Any) -> Any:
        """Return horizontal positions as Plotly takes them: times as text."""
        return self.page.clock.texts(np.asarray(x, float)) if self.has_times else np.asarray(x, float)

    def add(self, mark: model.Mark, **trace: Any) -> None:
        """Add a trace of a mark; the legend lists it if the static one does, or if it is extra."""
        if mark.hover == "":
            trace |= {"hoverinfo": "skip", "hovertemplate": None}
        name = trace.setdefault("name", html_text(mark.label or mark.hover_name))
        look = {
            "xaxis": self.x,
            "yaxis": self.y,
            "showlegend": bool(name) and (mark in self.listed or mark.is_extra),
            "legendrank": self._rank(mark),
            "legendgroup": mark.group,
        }
        self.page.traces.append((mark.order, look | trace))

    def _rank(self, mark: model.Mark) -> int:
        return 1000 + (self.listed.index(mark) if mark in self.listed else len(self.listed))

    def add_line(self, mark: model.Line) -> None:
        """Add a line, or its dots; if it has too many points, only the extremes in each column of pixels."""
        x, y = np.asarray(mark.x, float), np.asarray(mark.y, float)
        if (np.diff(x) >= 0).all():
            rows = points_to_send(x, y, MOST_POINTS // self._line_count)
            x, y = x[rows], y[rows]
        has_line = mark.dashes != "none"
        # Markers at some points only are added below.
        modes = {
            "lines": has_line,
            "markers": not has_line or (mark.marker is not None and mark.marked is None),
        }
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "+".join(mode for mode, is_on in modes.items() if is_on),
            "line": _line(mark) | {"shape": "hv" if mark.is_stepped else "linear"},
            "marker": {"color": _colour(mark.colour), "size": mark.size * _POINT + 1},
            "hovertemplate": self.hover_text(mark),
        }
        if mark.period:
            # The points are the middles of intervals; hovering shows their starts.
            trace |= {"xperiod": float(milliseconds(np.array(mark.period))), "xperiodalignment": "middle"}
            x = x - mark.period / 2
        self.add(mark, x=self.positions(x), y=y, **trace)
        # A line does not show a single value between two gaps, so add a dot.
        is_gap = np.pad(np.isnan(y), 1, constant_values=True)
        rows = np.flatnonzero(~is_gap[1:-1] & is_gap[:-2] & is_gap[2:])
        if mark.marked is not None and rows.size:
            dots = trace | {"mode": "markers", "showlegend": False}
            self.add(mark, x=self.positions(x[rows]), y=y[rows], **dots)

    @cached_property
    def _line_count(self) -> int:
        """The number of lines and outlines of the panel, which share the points that a figure may have."""
        return max(sum(isinstance(mark, model.Line | model.Steps) for mark in self.panel.marks), 1)

    def add_rule(self, mark: model.Rule) -> None:
        """Add a line across the panel, at a value such as zero, a price or a time."""
        across, along = ("y", "x") if mark.is_upright else ("x", "y")
        names = {"x": self.x, "y": self.y}
        ends = {f"{across}0": 0, f"{across}1": 1, f"{across}ref": f"{names[across]} domain"}
        at = self.positions([mark.at])[0] if mark.is_upright else mark.at
        ends |= {f"{along}0": at, f"{along}1": at, f"{along}ref": names[along]}
        self._add_shape(mark, type="line", line=_line(mark), **ends)

    def add_band(self, mark: model.Band) -> None:
        """Add a shaded range of the vertical axis, such as a value area."""
        ends = {"x0": 0, "x1": 1, "xref": f"{self.x} domain", "y0": mark.low, "y1": mark.high, "yref": self.y}
        self._add_shape(mark, type="rect", line={"width": 0}, fillcolor=_colour(mark.colour), **ends)

    def _add_shape(self, mark: model.Mark, **shape: Any) -> None:
        is_listed = mark in self.listed
        look = {
            # Bars and candles have the order 2.
            "layer": "above" if mark.order > 2 and shape["type"] == "line" else "below",
            "name": html_text(mark.label),
            "showlegend": is_listed,
            "legendrank": self._rank(mark),
        }
        self.page.layout["shapes"].append(look | shape)

    def add_steps(self, mark: model.Steps) -> None:
        """Add steps as an outline or, if they are filled and few, as bars."""
        is_known = np.isfinite(mark.values)
        is_filled = mark.base is not None
        if is_filled and not mark.is_outline and is_known.sum() <= MOST_BARS:
            self._add_bars(mark)
        elif is_known.any():
            self._add_outline(mark, is_filled=is_filled)

    def _add_outline(self, mark: model.Steps, *, is_filled: bool) -> None:
        x, y = np.asarray(mark.edges, float), np.append(mark.values, mark.values[-1:]).astype(float)
        # Plotly does not draw a step up to an unknown value: end the last one before a gap with a point of its own.
        last = np.flatnonzero(np.isfinite(y[:-1]) & np.isnan(y[1:]))
        x, y = np.insert(x, last + 1, x[last + 1]), np.insert(y, last + 1, y[last])
        rows = points_to_send(x, y, MOST_POINTS // self._line_count)
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "line": {"shape": "hv", "color": _colour(mark.edge or mark.colour), "width": _width(mark)},
            "hovertemplate": self.hover_text(mark),
        }
        if is_filled:
            trace |= {"fill": "tozeroy", "fillcolor": _colour(mark.colour)}
        if mark.data is not None:
            data = np.append(mark.data, mark.data[-1:])
            trace["customdata"] = np.insert(data, last + 1, data[last])[rows]
            if mark.hover is None:  # the data are the values without their sign
                trace["hovertemplate"] = trace["hovertemplate"].replace("%{y:", "%{customdata:")
        self.add(mark, x=self.positions(x[rows]), y=y[rows], **trace)

    def _add_bars(self, mark: model.Steps) -> None:
        """Add steps as bars, each from its base."""
        values, base = mark.values, np.broadcast_to(np.asarray(mark.base, float), mark.values.shape)
        is_drawn = np.isfinite(values) & (mark.has_zeros | (values != base))
        if not is_drawn.any():
            return
        start, width = mark.edges[:-1][is_drawn], np.diff(mark.edges)[is_drawn]
        length = (values - base)[is_drawn]
        length_axis, position_axis = ("y", "x") if mark.is_upright else ("x", "y")
        has_times = mark.is_upright and self.has_times
        width = milliseconds(width) if has_times else width
        is_even = bool((width == width[0]).all())
        text = self.value_text(length_axis, "customdata")
        if not mark.is_upright:
            text = f"{self.position_text('y')}<br>{self.panel.x.name}: {text}"
        name = html_text(mark.label or self._about(length_axis).name)
        self.add(
            mark,
            type="bar",
            orientation="v" if mark.is_upright else "h",
            **{position_axis: self.positions(start) if mark.is_upright else start, length_axis: length},
            base=base[is_drawn],
            width=float(width[0]) if is_even else width,
            # With ``xperiod``, hovering anywhere over the interval of a bar finds the bar.
            **(
                {"xperiod": float(width[0]), "xperiodalignment": "middle"}
                if has_times and is_even
                else {"offset": 0}
            ),
            customdata=length if mark.data is None else mark.data[is_drawn],
            marker={"color": _colour(mark.colour), "line": {"width": 0}},
            hovertemplate=f"{text}<extra>{html_text(mark.hover_name) or name}</extra>",
            name=name,
        )

    def add_candles(self, mark: model.Candles) -> None:
        """Add candles as two traces: candles that rose or fell, and candles that closed where they opened."""
        up, down, flat = mark.colour
        name, unit = self.panel.y.measure
        values = "<br>".join(f"{part.title()} %{{{part}:,.8~r}}" for part in ("open", "high", "low", "close"))
        is_flat = mark.open == mark.close
        for mask, rising, falling in ((~is_flat, up, down), (is_flat, flat, flat)):
            if not mask.any():
                continue
            directions: dict[str, Any] = {
                direction: {"line": {"color": shade, "width": 1}, "fillcolor": shade}
                for direction, shade in (("increasing", rising), ("decreasing", falling))
            }
            self.add(
                mark,
                type="candlestick",
                x=self.positions(mark.start[mask]),
                open=mark.open[mask],
                high=mark.high[mask],
                low=mark.low[mask],
                close=mark.close[mask],
                # Plotly draws a candle over its interval, which begins at its timestamp.
                xperiod=float(milliseconds(np.array(mark.length))),
                xperiodalignment="middle",
                whiskerwidth=0,
                hovertemplate=f"{values} {unit}<extra>{name}</extra>",
                name=name,
                **directions,
            )

    def add_segments(self, mark: model.Segments) -> None:
        """Add separate lines as one trace."""
        self._add_path(mark, (mark.x0, mark.x1), (mark.y0, mark.y1), mode="lines", line=_line(mark))

    def add_boxes(self, mark: model.Boxes) -> None:
        """Add rectangles of a single colour as one trace; of those in an image only the key of the legend."""
        if mark.scale is not None and mark.period:
            self._add_text_grid(mark, mark.scale)
        elif mark.texts:
            self._add_spans(mark)
        elif mark.in_image and mark in self.listed:
            marker = {"symbol": "square", "size": 12, "color": _colour(mark.colour)}
            self.add(
                mark, type="scatter", mode="markers", x=[None], y=[None], marker=marker, hoverinfo="skip"
            )
        elif not mark.in_image:
            x, y = (
                (mark.x0, mark.x0, mark.x1, mark.x1, mark.x0),
                (mark.y0, mark.y1, mark.y1, mark.y0, mark.y0),
            )
            line = {"color": _colour(mark.edge or mark.colour), "width": mark.width}
            fill = _INVISIBLE if mark.colour is None else _colour(mark.colour)
            self._add_path(mark, x, y, mode="lines", fill="toself", fillcolor=fill, line=line)

    def _add_path(self, mark: model.Mark, x: Sequence[Any], y: Sequence[Any], **trace: Any) -> None:
        """Add a path through several points per part, with a gap between parts."""
        if len(x[0]):
            xs, ys = (
                np.stack([*values, np.full(len(values[0]), np.nan)], axis=1).ravel() for values in (x, y)
            )
            trace |= {"type": "scatter", "hovertemplate": self.hover_text(mark)}
            self.add(mark, x=self.positions(xs), y=ys, **trace)

    def add_area(self, mark: model.Area) -> None:
        """Add an area, and the line above it, on which hovering shows the height."""
        areas = [other for other in self.panel.marks if isinstance(other, model.Area)]
        is_image = sum(area.x.size for area in areas) > MOST_POINTS
        if not is_image:
            x, y = _outlines(mark)
            line = {"color": _colour(mark.edge), "width": mark.width}
            fill = {"fill": "toself", "fillcolor": _colour(mark.colour, mark.alpha)}
            path = {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip", **fill}
            self.add(mark, x=self.positions(x), y=y, **path)
        rows = points_to_send(mark.x, mark.high, MOST_POINTS // len(areas))
        self.add(
            mark,
            type="scatter",
            mode="lines",
            line={"width": 1, "color": _colour(mark.colour, mark.alpha)},
            x=self.positions(mark.x[rows]),
            y=mark.high[rows],
            customdata=(mark.high - mark.low)[rows],
            hovertemplate=f"{self.value_text('y', 'customdata')}<extra>{html_text(mark.hover_name)}</extra>",
            **({} if is_image else {"showlegend": False}),
        )

    def add_dots(self, mark: model.Dots) -> None:
        """Add dots as one trace; hovering also shows the amounts, which the areas of the dots stand for."""
        self.page.has_dots = True
        position = f"{self.position_text('x')}<br>{self.position_text('y')}"
        amount = f"<br>{mark.hover_name}: %{{customdata:,.6~r}} {mark.unit}".rstrip()
        edge = {"width": mark.width, "color": _colour(mark.edge, mark.alpha)}
        size = np.sqrt(mark.areas) * _DOT
        self.add(
            mark,
            type="scatter",
            mode="markers",
            x=self.positions(mark.x),
            y=mark.y,
            marker={"color": _colour(mark.colour, mark.alpha), "size": size, "line": edge},
            customdata=mark.data,
            hovertemplate=f"{position}{amount}<extra></extra>",
        )

    def _add_spans(self, mark: model.Boxes) -> None:
        """Add a bar per span, as one trace per class of colours, which the legend lists."""
        rows = next(other for other in self.panel.marks if isinstance(other, model.Rows))
        row = _lines(rows.groups)[0][np.rint((mark.y0 + mark.y1) / 2).astype(int)]
        classes, scale = np.zeros(row.size, int), mark.scale
        if scale is not None:
            classes = np.asarray(scale.norm(np.asarray(mark.values))).astype(int)
        times = "%{customdata[0]|%Y-%m-%d %H:%M} to %{customdata[1]|%Y-%m-%d %H:%M}"
        for number in np.unique(classes):
            part = classes == number
            start, end, text = mark.x0[part], mark.x1[part], np.array(mark.texts, dtype=object)[part]
            shade = _colour(mark.colour if scale is None else scale.colours(int(number)))
            name = mark.label or mark.classes[number]
            # The edge shows a gap that is thinner than a pixel as a line.
            edge = 1.5 if mark.name == "gaps" else 0.0
            self.add(
                mark,
                type="bar",
                orientation="h",
                base=self.positions(start),
                x=milliseconds(end - start),
                y=row[part],
                width=0.7,
                marker={"color": shade, "line": {"width": edge, "color": shade}},
                customdata=np.stack([self.positions(start), self.positions(end)], axis=1),
                text=list(text),
                textposition="none",
                hovertemplate=f"%{{text}}<br>{times}<extra>{name}</extra>",
                name=name,
                showlegend=True,
            )

    def add_regions(self, mark: model.Regions) -> None:
        """Add invisible bars."""
        price = f"{self.panel.y.name}: {self.value_text('y', 'customdata[1]')}"
        self.add(
            mark,
            type="bar",
            orientation="h",
            base=self.positions(mark.x),
            x=milliseconds(mark.lengths),
            y=mark.y,
            width=mark.height,
            marker={"opacity": 0},
            customdata=mark.data,
            text=list(mark.texts),
            textposition="none",
            hovertemplate=f"{price}{mark.hover}<extra></extra>",
        )

    # --- grids ---

    def _add_text_grid(self, mark: model.Boxes, scale: model.Scale) -> None:
        """Add rectangles with texts, in rows of one height and in intervals, as a heatmap with text."""
        hint, most = "show a shorter window, or let row_size be larger", f"at most {MOST_CELLS:,}"
        if mark.x0.size > MOST_CELLS:
            raise QueryError("profile", got=f"{mark.x0.size:,} rows", expected=most, hint=hint)
        starts, height = (mark.x0 + mark.x1 - mark.period) / 2, float(np.median(mark.y1 - mark.y0))
        column = np.rint((starts - starts.min()) / mark.period).astype(np.int64)
        row = np.rint(mark.y0 / height).astype(np.int64)
        lowest, shape = int(row.min()), (int(np.ptp(row)) + 1, int(column.max()) + 1)
        if shape[0] * shape[1] > _MOST_GRID_CELLS:
            raise QueryError(
                "profile",
                got=f"{shape[0]:,} levels by {shape[1]:,} intervals from the first row to the last",
                expected=f"a grid of at most {_MOST_GRID_CELLS:,}",
                hint=hint,
            )

        def matrix(values: Any, empty: Any = np.nan) -> NDArray[Any]:
            grid = np.full(shape, empty, dtype=object if empty == "" else float)
            grid[row - lowest, column] = values
            return grid

        bar = next(bar for bar in self.panel.bars if bar.mark is mark)
        self.add(
            mark,
            type="heatmap",
            x=self.positions(starts.min() + mark.period * np.arange(shape[1])),
            xperiod=float(milliseconds(np.array(mark.period))),
            xperiodalignment="middle",
            y=(lowest + 0.5 + np.arange(shape[0])) * height,
            z=matrix(mark.values),
            zmin=scale.norm.vmin,
            zmax=scale.norm.vmax,
            colorscale=_colour_scale(scale.colours(np.linspace(0, 1, _COLOURS))),
            showscale=False,
            hoverongaps=False,
            xgap=2,
            ygap=0.5,
            customdata=np.stack([matrix(values) for values in (*mark.data, mark.y0)], axis=-1),
            text=matrix(mark.texts, ""),
            texttemplate="%{text}",
            textfont={"color": self.panel.colours.poc} if self.panel.ground.is_dark else None,
            name=bar.name,
            hovertemplate=f"{self.position_text('x')}<br>{self.panel.y.name}: from "
            f"{self.value_text('y', 'customdata[2]')}{mark.hover}"
            f"<br>{bar.name}: %{{z:,.6~r}} {bar.unit}<extra></extra>",
        )

    def _add_image(self, marks: Sequence[model.Mark]) -> None:
        """Add marks as one image behind everything else."""
        panel = self.panel
        image = png(panel, marks, (_WIDTH, self.page.height), _IMAGE_DPI)
        (x_low, x_high), (y_low, y_high) = (
            np.log10(axis.limits or (1, 10)) if axis.is_log else axis.limits or (0.0, 1.0)
            for axis in (panel.x, panel.y)
        )
        self.page.layout["images"].append(
            {
                "source": "data:image/png;base64," + base64.b64encode(image).decode(),
                "xref": self.x,
                "yref": self.y,
                "x": self.page.clock.texts(np.array([x_low]))[0] if self.has_times else x_low,
                "y": y_high,
                "sizex": panel.x.shown * _DAY if self.has_times else x_high - x_low,
                "sizey": y_high - y_low,
                "sizing": "stretch",
                "layer": "below",
            }
        )

    def add_grid(self, mark: model.Grid) -> None:
        """Add an invisible grid that shows the value below the mouse.

        If there are too many cells, neighbouring cells of even ones are merged to one with the largest of their
        amounts. Uneven ones are smooth, so of neighbouring cells only the middle one is sent.
        """
        values = np.asarray(mark.values)
        (rows, columns), is_even = values.shape, mark.is_even
        grids = sum(isinstance(other, model.Grid) for other in self.panel.marks)
        per_row, per_column = _merge_factors(values.shape, MOST_CELLS // grids, step=1 if is_even else 2)
        bar = next(bar for bar in self.panel.bars if bar.mark is mark)
        values = (
            largest(values, per_row, per_column)
            if is_even
            else values[_middles(rows, per_row)][:, _middles(columns, per_column)]
        )
        merged = f", largest of {per_row} × {per_column}" if is_even and per_row * per_column > 1 else ""
        borders = mark.x[[*range(0, columns, per_column), columns]]
        place: dict[str, Any] = {"x": self.positions(borders)}
        if is_even and self.has_times:  # hovering shows the start of an interval
            width = np.rint((mark.x[-1] - mark.x[0]) / columns * _DAY) * per_column
            place = {"x": self.positions(mark.x[:-1:per_column])}
            place |= {"xperiod": float(width), "xperiodalignment": "middle"}
        self.add(
            mark,
            type="heatmap",
            **place,
            y=mark.y[[*range(0, rows, per_row), rows]],
            z=values.astype(np.float32),
            opacity=0,
            showscale=False,
            hoverongaps=False,
            name=bar.name,
            hovertemplate=f"{self.position_text('x')}<br>{self.position_text('y')}"
            f"<br>{bar.name}{merged}: %{{z:,.5~r}} {bar.unit}<extra></extra>",
        )

    def _add_bar(self, bar: model.Bar) -> None:
        """Add a bar that explains colours."""
        place, number = bar.part
        norm = bar.scale.norm
        low, high, is_log = float(norm.vmin or 0.0), float(norm.vmax or 1.0), isinstance(norm, LogNorm)
        values = (np.geomspace if is_log else np.linspace)(low, high, _COLOURS)
        ticks = style.bar_ticks(low, high, is_log=is_log)
        scale = np.log10 if is_log else np.asarray
        look = {
            "thickness": 12,
            "outlinewidth": 0,
            "x": 1.01,
            "len": 1 / number - 0.02,
            "y": (place + 0.5) / number,
            "yanchor": "middle",
            "tickvals": [float(scale(tick)) for tick in ticks],
            "ticktext": [style.short(tick) for tick in ticks],
            "title": {"text": style.label(bar.name, bar.unit), "side": "right", "font": {"size": 11}},
        }
        colours = _colour_scale(bar.scale.colours(norm(values)))
        marker = {"color": [float(scale(low))], "cmin": float(scale(low)), "cmax": float(scale(high))}
        marker |= {"colorscale": colours, "showscale": True, "colorbar": look}
        # In Plotly a colour bar belongs to a trace: add one without points.
        key = model.Mark(order=1.0)
        self.add(key, type="scatter", mode="markers", x=[None], y=[None], hoverinfo="skip", marker=marker)


_ADD: dict[type, Callable[[_Drawn, Any], None]] = {
    model.Line: _Drawn.add_line,
    model.Rule: _Drawn.add_rule,
    model.Band: _Drawn.add_band,
    model.Steps: _Drawn.add_steps,
    model.Candles: _Drawn.add_candles,
    model.Segments: _Drawn.add_segments,
    model.Boxes: _Drawn.add_boxes,
    model.Area: _Drawn.add_area,
    model.Dots: _Drawn.add_dots,
    model.Regions: _Drawn.add_regions,
    model.Grid: _Drawn.add_grid,
}
"""How to add each kind of mark; texts and contours are in an image, and rows are part of an axis."""


def _colour(matplotlib_colour: Any, alpha: float | None = None) -> str:
    """Return a colour of matplotlib as Plotly takes it; ``alpha`` multiplies its opacity."""
    red, green, blue, opacity = to_rgba(matplotlib_colour)
    opacity *= 1.0 if alpha is None else alpha
    if opacity >= 1:
        return to_hex((red, green, blue))
    return f"rgba({round(red * 255)},{round(green * 255)},{round(blue * 255)},{opacity:.3g})"


def _colour_scale(colours: Any) -> list[list[Any]]:
    return [
        [float(share), _colour(shade)]
        for share, shade in zip(np.linspace(0, 1, _COLOURS), colours, strict=True)
    ]


def _width(mark: model.Mark) -> float:
    return round(mark.width * _POINT, 2)


def _line(mark: model.Mark) -> dict[str, Any]:
    """Return the look of a line; dashes are solid, dotted or dashed."""
    dash = "dot" if mark.dashes == ":" else "solid" if isinstance(mark.dashes, str) else "dash"
    return {"color": _colour(mark.colour, mark.alpha), "width": _width(mark), "dash": dash}


def _outlines(area: model.Area) -> tuple[Floats, Floats]:
    """Return the outline of each part of an area between gaps, one after another, with a NaN between two."""
    is_known = np.isfinite(area.high)
    starts = np.flatnonzero(np.diff(is_known.astype(int), prepend=0) == 1)
    ends = np.flatnonzero(np.diff(is_known.astype(int), append=0) == -1) + 1
    x: list[Any] = []
    y: list[Any] = []
    for part in map(slice, starts.tolist(), ends.tolist()):
        x += [area.x[part], area.x[part][::-1], [np.nan]]
        y += [area.high[part], area.low[part][::-1], [np.nan]]
    return np.concatenate(x), np.concatenate(y)


def _lines(groups: Sequence[str]) -> tuple[NDArray[np.int64], dict[int, str]]:
    """Return the line of each row, and by line the name of each group, which is above its rows."""
    line_by_row: list[int] = []
    group_by_line: dict[int, str] = {}
    for row, group in enumerate(groups):
        if group and (row == 0 or group != groups[row - 1]):
            group_by_line[row + len(group_by_line)] = group
        line_by_row.append(row + len(group_by_line))
    return np.array(line_by_row, dtype=np.int64), group_by_line


def _middles(number: int, step: int) -> NDArray[np.int64]:
    """Return the index of the middle cell of every ``step`` cells."""
    return np.minimum(np.arange(0, number, step) + step // 2, number - 1)


def _merge_factors(shape: tuple[int, ...], most: int, *, step: int) -> tuple[int, int]:
    """Return how many rows and columns to merge to one cell, so that at most ``most`` cells are left.

    Both are 1, 1 + ``step``, 1 + 2 ``step`` and so on: with a step of 2 they are odd, and there is a middle cell.
    """
    rows, columns = shape
    rows_per_cell = columns_per_cell = 1
    while -(-rows // rows_per_cell) * -(-columns // columns_per_cell) > most:
        # Merge along the axis with more cells, so that both stay fine enough to point at.
        if rows / rows_per_cell * 3 > columns / columns_per_cell:
            rows_per_cell += step
        else:
            columns_per_cell += step
    return rows_per_cell, columns_per_cell


def largest(values: Floats, rows_per_cell: int, columns_per_cell: int) -> Floats:
    """Return the largest value of every ``rows_per_cell`` rows and ``columns_per_cell`` columns; NaN if all are NaN.

    Examples
    --------
    >>> largest(np.array([[1.0, np.nan, 3.0], [4.0, 2.0, np.nan]]), 2, 2).tolist()
    [[4.0, 3.0]]
    """
    rows, columns = values.shape
    upward = np.fmax.reduceat(values, np.arange(0, rows, rows_per_cell), axis=0)
    return np.asarray(np.fmax.reduceat(upward, np.arange(0, columns, columns_per_cell), axis=1))
