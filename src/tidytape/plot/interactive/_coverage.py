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
from tidytape.plot.interactive._artists import finished
from tidytape.plot.interactive._canvas import Canvas, colour
from tidytape.plot.interactive._times import milliseconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_LINE = 0.22  # height of a line of text [in]
_AROUND = 1.8  # height of title, axis and legend [in]


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
    # A market has a line of its own, so that its tables need short names only.
    at, markets = _lines([market for market, _ in drawn.rows])
    for spans, name, shade, edge in (
        (drawn.spans, "held", palette.buy, 0.0),
        (drawn.gaps, "gap", palette.down, 1.5),
    ):
        if spans is not None:
            row, start, end = _spans(spans)
            texts = ["<br>".join([*map(html_text, drawn.rows[place]), drawn.notes[place]]) for place in row]
            _add_spans(canvas, drawn.ax, at[row], start, end, name=name, shade=shade, texts=texts, edge=edge)
            canvas.done.add(spans)
    canvas.layout["annotations"] += [
        {
            "x": 0, "xref": "x domain", "xanchor": "left", "y": line, "yref": "y", "yshift": -3,
            "text": f"<b>{html_text(market)}</b>", "showarrow": False,
        }
        for line, market in markets.items()
    ]  # fmt: skip
    return _finished(canvas, at, [table for _, table in drawn.rows], len(at) + len(markets))


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
            in_class = classes == number
            texts = [
                f"{drawn.rows[place]}<br>Complete: {value * 100:.4g} %"
                for place, value in zip(row[in_class], share[in_class], strict=True)
            ]
            _add_spans(
                canvas, drawn.ax, row[in_class], start[in_class], end[in_class], texts=texts,
                name=_completeness.CLASSES[number][-1], shade=drawn.spans.get_cmap()(int(number)),
            )  # fmt: skip
        canvas.done.add(drawn.spans)
    pairs = zip(drawn.rows, drawn.notes or [""] * len(drawn.rows), strict=True)
    labels = [
        ", ".join(filter(None, (html_text(name).replace(" ", "<br>", 1), note))) for name, note in pairs
    ]
    return _finished(canvas, np.arange(len(labels)), labels, len(labels) * 1.4)


Floats = NDArray[np.float64]


def _spans(boxes: PolyCollection) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the row, the start and the end of rectangles."""
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
    """Return the line of each row, and the line and name of each group, which stands above its rows."""
    at: list[int] = []
    names: dict[int, str] = {}
    for row, group in enumerate(groups):
        if row == 0 or group != groups[row - 1]:
            names[row + len(names)] = group
        at.append(row + len(names))
    return np.array(at, dtype=np.int64), names


def _finished(canvas: Canvas, at: NDArray[np.int64], labels: Sequence[str], lines: float) -> Any:
    canvas.height = _LINE * lines + _AROUND
    figure = finished(canvas)
    if len(at):
        figure.update_yaxes(tickmode="array", tickvals=at.tolist(), ticktext=list(labels))
        figure.update_yaxes(range=[int(at[-1]) + 0.6, -0.6], ticks="")
    return figure
