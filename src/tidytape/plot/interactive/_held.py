"""What is held, and how complete it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.plot import _completeness, _coverage
from tidytape.plot import _style as style
from tidytape.plot.interactive._artists import send
from tidytape.plot.interactive._canvas import Canvas, colour
from tidytape.plot.interactive._times import milliseconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_AROUND = 1.5  # of the rows: title, axis and legend [in]


def coverage(frame: IntoFrame, /, *, timezone: str | tzinfo = "UTC", dark: bool = False) -> Figure:
    """Return what there is, from when to when, and with which gaps, as `tidytape.plot.coverage` draws it.

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
    names = [", ".join(row) for row in drawn.rows]
    for spans, name, of, edge in (
        (drawn.spans, "held", palette.buy, 0.0),
        (drawn.gaps, "gap", palette.down, 1.5),
    ):
        if spans is not None:
            row, start, end = _spans(spans)
            texts = [f"{names[place]}<br>{drawn.notes[place]}" for place in row]
            _add_spans(canvas, drawn.ax, row, start, end, name=name, of=of, texts=texts, edge=edge)
            canvas.done.add(spans)
    return _finished(canvas, names)


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
            own = classes == number
            texts = [
                f"{drawn.rows[place]}<br>Complete: {value * 100:.4g} %"
                for place, value in zip(row[own], share[own], strict=True)
            ]
            _add_spans(
                canvas, drawn.ax, row[own], start[own], end[own], texts=texts,
                name=_completeness.CLASSES[number][2], of=drawn.spans.get_cmap()(int(number)),
            )  # fmt: skip
        canvas.done.add(drawn.spans)
    notes = drawn.notes if any(drawn.notes) else [""] * len(drawn.rows)
    return _finished(canvas, [", ".join(filter(None, pair)) for pair in zip(drawn.rows, notes, strict=True)])


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
    of: Any,
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
        # The edge makes a line of what is thinner than a pixel.
        marker={"color": colour(of), "line": {"width": edge, "color": colour(of)}},
        customdata=np.stack([canvas.positions(ax, start), canvas.positions(ax, end)], axis=1),
        text=list(texts),
        textposition="none",
        hovertemplate="%{text}<br>%{customdata[0]|%Y-%m-%d %H:%M} to %{customdata[1]|%Y-%m-%d %H:%M}"
        f"<extra>{name}</extra>",
        name=name,
        showlegend=True,
    )


def _finished(canvas: Canvas, names: Sequence[str]) -> Any:
    canvas.height = _coverage.ROW * len(names) + _AROUND
    send(canvas)
    figure = canvas.finished()
    if names:
        figure.update_yaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=list(names))
    return figure
