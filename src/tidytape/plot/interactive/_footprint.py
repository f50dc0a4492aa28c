"""Footprints: the volume sold and bought at each price of each candle."""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.errors import QueryError
from tidytape.plot import _footprint as static
from tidytape.plot import _style as looks
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._canvas import Canvas, colour, colour_bars, split_label
from tidytape.plot.interactive._image import MOST_CELLS
from tidytape.plot.interactive._times import milliseconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLOURS = 33  # number of colours of the scale
_MOST_GRID_CELLS = 10 * MOST_CELLS  # cells of the grid of all rows and intervals, most of which may be empty


def footprint(
    profile: IntoFrame,
    /,
    *,
    row_size: float | Decimal | None = None,
    imbalance: float = 3.0,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return a footprint, as `tidytape.plot.footprint` draws it.

    Parameters
    ----------
    profile : frame, n rows, key (timestamp, price), any order
        As for `tidytape.plot.footprint`. [quote per coin; volumes as ``amount_unit`` says]
    row_size, imbalance, quote
        As for `tidytape.plot.footprint`.

    Returns
    -------
    plotly.graph_objects.Figure
        Numbers ``sold × bought`` appear in rows that are large enough, also while you zoom in. A footprint of more
        than 20,000 rows is refused, because nobody could read it. It is also refused if its gaps are so long that the
        grid of all its rows and intervals has more than 200,000 cells.
    """
    canvas = Canvas("footprint", timezone, dark=dark, height=6.4)
    drawn = static.footprint(
        profile, row_size=row_size, imbalance=imbalance, quote=quote, ax=canvas.ax, timezone=timezone
    )
    canvas.is_unified = False
    if drawn.levels is not None and drawn.row_height is not None:
        if drawn.sold.size > MOST_CELLS:
            raise QueryError(
                "profile",
                got=f"{drawn.sold.size:,} rows",
                expected=f"at most {MOST_CELLS:,}",
                hint="show a shorter window, or let row_size be larger",
            )
        _add_levels(canvas, drawn, drawn.row_height)
        for marks in (drawn.buy_imbalances, drawn.sell_imbalances, drawn.pocs):
            if marks is not None:
                canvas.entries[marks].has_hover = False
    return figure_of(canvas)


def _add_levels(canvas: Canvas, drawn: static.Footprint, height: float) -> None:
    """Add the rectangles as a heatmap with text."""
    levels, ax = drawn.levels, drawn.ax
    assert levels is not None
    canvas.done.add(levels)
    boxes = np.array([np.asarray(path.vertices)[:4] for path in levels.get_paths()])
    width = float(np.median(boxes[:, 2, 0] - boxes[:, 0, 0])) / static.BODY
    starts = (boxes[:, 2, 0] + boxes[:, 0, 0]) / 2 - width / 2
    column = np.rint((starts - starts.min()) / width).astype(np.int64)
    row = np.rint(boxes[:, 0, 1] / height).astype(np.int64)
    lowest, shape = int(row.min()), (int(np.ptp(row)) + 1, int(column.max()) + 1)
    if shape[0] * shape[1] > _MOST_GRID_CELLS:
        raise QueryError(
            "profile",
            got=f"{shape[0]:,} levels by {shape[1]:,} intervals from the first row to the last",
            expected=f"a grid of at most {_MOST_GRID_CELLS:,}",
            hint="show a shorter window, or let row_size be larger",
        )

    def matrix(values: NDArray[np.float64]) -> NDArray[np.float64]:
        grid = np.full(shape, np.nan)
        grid[row - lowest, column] = values
        return grid

    delta = np.asarray(levels.get_array(), float)
    digits = static.digits_of(np.concatenate([drawn.bought, drawn.sold]))
    texts = np.full(shape, "", dtype=object)
    texts[row - lowest, column] = [
        f"{static.short(sold, digits)} × {static.short(bought, digits)}"
        for sold, bought in zip(drawn.sold, drawn.bought, strict=True)
    ]
    low, high = levels.get_clim()
    shares = np.linspace(0, 1, _COLOURS)
    price, _ = canvas.measure(ax, "y")
    _, unit = split_label(colour_bars(ax)[0].ax.get_ylabel())
    canvas.add(
        ax,
        type="heatmap",
        x=canvas.positions(ax, starts.min() + width * np.arange(shape[1])),
        xperiod=float(milliseconds(np.array(width))),
        xperiodalignment="middle",
        y=(lowest + 0.5 + np.arange(shape[0])) * height,
        z=matrix(delta),
        zmin=low,
        zmax=high,
        colorscale=[
            [float(share), colour(shade)]
            for share, shade in zip(shares, levels.get_cmap()(shares), strict=True)
        ],
        showscale=False,
        hoverongaps=False,
        xgap=2,
        ygap=0.5,
        customdata=np.stack([matrix(drawn.sold), matrix(drawn.bought), matrix(boxes[:, 0, 1])], axis=-1),
        text=texts,
        texttemplate="%{text}",
        textfont={"color": looks.inside(ax).poc} if looks.is_dark(ax) else None,
        name="Delta",
        hovertemplate=f"{canvas.position_text(ax, 'x')}<br>{price}: from {canvas.value_text(ax, 'y', 'customdata[2]')}"
        f"<br>Sold: %{{customdata[0]:,.6~r}} {unit}<br>Bought: %{{customdata[1]:,.6~r}} {unit}"
        f"<br>Delta: %{{z:,.6~r}} {unit}<extra></extra>",
    )
