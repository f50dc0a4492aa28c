"""Sends many marks as one image, with an invisible grid that shows their values on hovering."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from tidytape.plot.interactive._canvas import Canvas, colour, colour_bars, is_time, split_label

Floats = NDArray[np.float64]

MOST_CELLS = 20_000  # cells of all grids of a figure together
_DPI = 200  # resolution of an image: twice that of the figure, so that users can zoom in
_COLOURS = 33  # number of colours of a scale
_DAY = 86_400_000  # [ms]


def add_image(canvas: Canvas, ax: Axes, artists: Collection[Artist]) -> None:
    """Add artists as one image behind everything else."""
    canvas.done |= set(artists)
    x, y = canvas.axis_names[ax]
    (x_low, x_high), (y_low, y_high) = (_ends(axis) for axis in (ax.xaxis, ax.yaxis))
    is_date = is_time(ax.xaxis)
    canvas.layout["images"].append(
        {
            "source": "data:image/png;base64," + base64.b64encode(_png(ax, set(artists))).decode(),
            "xref": x,
            "yref": y,
            "x": canvas.clock.texts(np.array([x_low]))[0] if is_date else x_low,
            "y": y_high,
            "sizex": (x_high - x_low) * (_DAY if is_date else 1),
            "sizey": y_high - y_low,
            "sizing": "stretch",
            "layer": "below",
        }
    )


def _ends(axis: Any) -> tuple[float, float]:
    """Return the ends of an axis; the ends of a logarithmic axis as exponents of ten."""
    low, high = axis.get_view_interval()
    return (
        (float(np.log10(low)), float(np.log10(high)))
        if axis.get_scale() == "log"
        else (float(low), float(high))
    )


def _png(ax: Axes, artists: set[Artist]) -> bytes:
    """Return an image that shows only these artists, and fills their axes."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    everything = {*ax.get_children(), *(other for other in figure.axes if other is not ax)} - {ax}
    visibility = {artist: artist.get_visible() for artist in everything}
    position, has_axis = ax.get_position(), ax.axison
    for artist in everything:
        artist.set_visible(artist in artists)
    ax.set_position((0, 0, 1, 1))
    ax.set_axis_off()
    file = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(
        file,
        dpi=_DPI,
        format="png",
        transparent=True,
        metadata={"Software": None},
        pil_kwargs={"optimize": True},
    )
    ax.set_position(position)
    if has_axis:
        ax.set_axis_on()
    for artist, was_visible in visibility.items():
        artist.set_visible(was_visible)
    return file.getvalue()


def add_grid(canvas: Canvas, mappable: AxesImage | QuadMesh, *, most: int = MOST_CELLS) -> None:
    """Add an invisible grid that shows the value below the mouse.

    If there are more cells than ``most``, neighbouring cells of an image are merged to one with the largest of their
    amounts. A mesh is smooth, so of its neighbouring cells only the middle one is sent.
    """
    ax, bar = mappable.axes, mappable.colorbar
    assert isinstance(ax, Axes)
    is_image = isinstance(mappable, AxesImage)
    x, y, values = _grid(mappable)
    rows_per_cell, columns_per_cell = _merge_factors(values.shape, most, step=1 if is_image else 2)
    (rows, columns), name = values.shape, split_label(bar.ax.get_ylabel())[0] if bar else ""
    values = (
        largest(values, rows_per_cell, columns_per_cell)
        if is_image
        else values[_middles(rows, rows_per_cell)][:, _middles(columns, columns_per_cell)]
    )
    merge_note = (
        f", largest of {rows_per_cell} × {columns_per_cell}"
        if is_image and rows_per_cell * columns_per_cell > 1
        else ""
    )
    unit = split_label(bar.ax.get_ylabel())[1] if bar else ""
    canvas.add(
        ax,
        type="heatmap",
        **_columns(canvas, ax, x, columns_per_cell, is_even=is_image),
        y=y[[*range(0, rows, rows_per_cell), rows]],
        z=values.astype(np.float32),
        opacity=0,
        showscale=False,
        hoverongaps=False,
        name=name,
        hovertemplate=f"{canvas.position_text(ax, 'x')}<br>{canvas.position_text(ax, 'y')}"
        f"<br>{name}{merge_note}: %{{z:,.5~r}} {unit}<extra></extra>",
    )


def _columns(
    canvas: Canvas, ax: Axes, borders: Floats, columns_per_cell: int, *, is_even: bool
) -> dict[str, Any]:
    """Return where the columns are: their borders or, if they are equal intervals, their starts and length.

    Hovering shows the start of an interval.
    """
    columns = borders.size - 1
    if not (is_even and is_time(ax.xaxis)):
        return {"x": canvas.positions(ax, borders[[*range(0, columns, columns_per_cell), columns]])}
    width = np.rint((borders[-1] - borders[0]) / columns * _DAY) * columns_per_cell
    starts = canvas.positions(ax, borders[:-1:columns_per_cell])
    return {"x": starts, "xperiod": float(width), "xperiodalignment": "middle"}


def _middles(number: int, step: int) -> NDArray[np.int64]:
    """Return the index of the middle cell of every ``step`` cells."""
    return np.minimum(np.arange(0, number, step) + step // 2, number - 1)


def _grid(mappable: AxesImage | QuadMesh) -> tuple[Floats, Floats, Floats]:
    """Return the borders of columns and of rows, and the values between them."""
    values: Floats = np.ma.filled(np.ma.asarray(mappable.get_array(), float), np.nan)
    if isinstance(mappable, AxesImage):
        x_low, x_high, y_low, y_high = mappable.get_extent()
        rows, columns = values.shape
        return np.linspace(x_low, x_high, columns + 1), np.linspace(y_low, y_high, rows + 1), values
    corners = np.asarray(mappable.get_coordinates(), float)
    return corners[0, :, 0], corners[:, 0, 1], values.reshape(corners.shape[0] - 1, corners.shape[1] - 1)


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


def add_colour_bars(canvas: Canvas, ax: Axes) -> None:
    """Add the bars that explain the colours on axes, as in the static picture."""
    bars = colour_bars(ax)
    for place, bar in enumerate(bars):
        low, high = float(bar.norm.vmin or 0.0), float(bar.norm.vmax or 1.0)
        spread = np.geomspace if isinstance(bar.norm, LogNorm) else np.linspace
        values = np.asarray(spread(low, high, _COLOURS), float)
        ticks = [float(tick) for tick in bar.get_ticks()]
        texts = [bar.ax.yaxis.get_major_formatter()(tick, 0) for tick in ticks]
        scale = np.log10 if isinstance(bar.norm, LogNorm) else np.asarray
        first, last = float(scale(low)), float(scale(high))
        shares = np.linspace(0, 1, _COLOURS)
        colours = [colour(shade) for shade in bar.cmap(bar.norm(values))]
        look = {
            "thickness": 12,
            "outlinewidth": 0,
            "x": 1.01,
            "len": 1 / len(bars) - 0.02,
            "y": (place + 0.5) / len(bars),
            "yanchor": "middle",
            "tickvals": [float(scale(tick)) for tick in ticks],
            "ticktext": texts,
            "title": {"text": bar.ax.get_ylabel(), "side": "right", "font": {"size": 11}},
        }
        # In Plotly a colour bar belongs to a trace: add one without points.
        canvas.add(
            ax,
            type="scatter",
            mode="markers",
            x=[None],
            y=[None],
            hoverinfo="skip",
            marker={
                "color": [first],
                "cmin": first,
                "cmax": last,
                "colorscale": [[float(share), text] for share, text in zip(shares, colours, strict=True)],
                "showscale": True,
                "colorbar": look,
            },
        )
