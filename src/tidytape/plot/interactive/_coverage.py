"""The times of the data, and how complete they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.errors import html_text
from tidytape.plot import _completeness, _coverage
from tidytape.plot import _style as style
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._canvas import Canvas, colour
from tidytape.plot.interactive._times import milliseconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_LINE = 0.22  # height of a line of text [in]
_AROUND = 1.8  # height of title, axis and legend together [in]


def coverage(frame: IntoFrame, /, *, timezone: str | tzinfo = "UTC", dark: bool = False) -> Figure:
    """Return the times and gaps of the data, as `tidytape.plot.coverage` draws them.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, coin, type), any order
        As for `tidytape.plot.coverage`.

    Returns
    -------
    plotly.graph_objects.Figure
        One row per market and table of events. Hovering says when a span or a gap began and ended.
    """
    canvas = Canvas("coverage", timezone, dark=dark)
    drawn = _coverage.coverage(frame, ax=canvas.ax, timezone=timezone)
    canvas.is_unified = False
    palette = style.inside(drawn.ax)
    # The name of a market has a line of its own, so that the names of its tables are short.
    line_by_row, market_by_line = _lines([market for market, _ in drawn.rows])
    for spans, name, shade, edge in (
        (drawn.spans, "held", palette.buy, 0.0),
        (drawn.gaps, "gap", palette.down, 1.5),
    ):
        if spans is not None:
            row, start, end = _spans(spans)
            texts = ["<br>".join([*map(html_text, drawn.rows[index]), drawn.notes[index]]) for index in row]
            _add_spans(
                canvas, drawn.ax, line_by_row[row], start, end, name=name, shade=shade, texts=texts, edge=edge
            )
            canvas.done.add(spans)
    canvas.layout["annotations"] += [
        {
            "x": 0, "xref": "x domain", "xanchor": "left", "y": line, "yref": "y", "yshift": -3,
            "text": f"<b>{html_text(market)}</b>", "showarrow": False,
        }
        for line, market in market_by_line.items()
    ]  # fmt: skip
    return _figure_of(
        canvas,
        line_by_row,
        [table for _, table in drawn.rows],
        len(line_by_row) + len(market_by_line),
    )


def completeness(frame: IntoFrame, /, *, timezone: str | tzinfo = "UTC", dark: bool = False) -> Figure:
    """Return how complete series are as a calendar, as `tidytape.plot.completeness` draws it.

    Parameters
    ----------
    frame : frame, n rows, key (series, start), any order
        As for `tidytape.plot.completeness`. [1]

    Returns
    -------
    plotly.graph_objects.Figure
        One row per series. Hovering says the share of each day or hour. [%]
    """
    canvas = Canvas("completeness", timezone, dark=dark)
    drawn = _completeness.completeness(frame, ax=canvas.ax, timezone=timezone)
    canvas.is_unified = False
    if drawn.spans is not None:
        row, start, end = _spans(drawn.spans)
        share = np.asarray(drawn.spans.get_array(), float)
        classes = np.asarray(drawn.spans.norm(share)).astype(int)
        for number in np.unique(classes):
            is_in_class = classes == number
            texts = [
                f"{drawn.rows[index]}<br>Complete: {value * 100:.4g} %"
                for index, value in zip(row[is_in_class], share[is_in_class], strict=True)
            ]
            _add_spans(
                canvas, drawn.ax, row[is_in_class], start[is_in_class], end[is_in_class], texts=texts,
                name=_completeness.CLASSES[number][-1], shade=drawn.spans.get_cmap()(int(number)),
            )  # fmt: skip
        canvas.done.add(drawn.spans)
    pairs = zip(drawn.rows, drawn.notes or [""] * len(drawn.rows), strict=True)
    labels = [
        ", ".join(filter(None, (html_text(name).replace(" ", "<br>", 1), note))) for name, note in pairs
    ]
    return _figure_of(canvas, np.arange(len(labels)), labels, len(labels) * 1.4)


Floats = NDArray[np.float64]


def _spans(boxes: PolyCollection) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the row, the start and the end of each rectangle."""
    corners = np.array([np.asarray(path.vertices)[:4] for path in boxes.get_paths()])
    row = np.rint(corners[:, :, 1].mean(axis=1)).astype(np.int64)
    return row, corners[:, 0, 0], corners[:, 1, 0]


def _add_spans(
    canvas: Canvas,
    ax: Axes,
    row: NDArray[np.int64],
    start: Floats,
    end: Floats,
    *,
    name: str,
    shade: Any,
    texts: Sequence[str],
    edge: float = 0.0,
) -> None:
    """Add a bar per span, as one trace that the legend lists."""
    canvas.add(
        ax,
        type="bar",
        orientation="h",
        base=canvas.positions(ax, start),
        x=milliseconds(end - start),
        y=row,
        width=0.7,
        # The edge shows a span that is thinner than a pixel as a line.
        marker={"color": colour(shade), "line": {"width": edge, "color": colour(shade)}},
        customdata=np.stack([canvas.positions(ax, start), canvas.positions(ax, end)], axis=1),
        text=list(texts),
        textposition="none",
        hovertemplate="%{text}<br>%{customdata[0]|%Y-%m-%d %H:%M} to %{customdata[1]|%Y-%m-%d %H:%M}"
        f"<extra>{name}</extra>",
        name=name,
        showlegend=True,
    )


def _lines(groups: Sequence[str]) -> tuple[NDArray[np.int64], dict[int, str]]:
    """Return the line of each row, and by line the name of each group, which is above its rows."""
    line_by_row: list[int] = []
    group_by_line: dict[int, str] = {}
    for row, group in enumerate(groups):
        if row == 0 or group != groups[row - 1]:
            group_by_line[row + len(group_by_line)] = group
        line_by_row.append(row + len(group_by_line))
    return np.array(line_by_row, dtype=np.int64), group_by_line


def _figure_of(canvas: Canvas, lines: NDArray[np.int64], labels: Sequence[str], number: float) -> Any:
    """Return the figure, as high as a number of lines needs, with a label at each of these lines."""
    canvas.height = _LINE * number + _AROUND
    figure = figure_of(canvas)
    if len(lines):
        figure.update_yaxes(tickmode="array", tickvals=lines.tolist(), ticktext=list(labels))
        figure.update_yaxes(range=[int(lines[-1]) + 0.6, -0.6], ticks="")
    return figure
