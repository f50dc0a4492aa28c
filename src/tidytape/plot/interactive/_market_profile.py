"""Market profiles of several sessions."""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import numpy as np
from narwhals.stable.v2.typing import IntoFrame

from tidytape.plot import _market_profile as static
from tidytape.plot._profile import Rules
from tidytape.plot.interactive._artists import figure_of
from tidytape.plot.interactive._canvas import Canvas
from tidytape.plot.interactive._image import add_image
from tidytape.plot.interactive._times import milliseconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def market_profile(
    levels: IntoFrame,
    /,
    *,
    style: Literal["blocks", "letters"] = "blocks",
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    block_minutes: float | None = None,
    timezone: str | tzinfo = "UTC",
    dark: bool = False,
) -> Figure:
    """Return market profiles, the sessions side by side, as `tidytape.plot.market_profile` draws them.

    Parameters
    ----------
    levels : frame, n rows, one per (timestamp, price), or per (timestamp, block_id, price), any order
        As for `tidytape.plot.market_profile`. [quote per coin]
    style, share, rule, tie, stop, row_size, block_minutes
        As for `tidytape.plot.market_profile`.

    Returns
    -------
    plotly.graph_objects.Figure
        Blocks or letters are one image. Hovering over a row shows how many time blocks touched it, and their letters.
    """
    canvas = Canvas("market_profile", timezone, dark=dark, height=6.4)
    profile = static.sessions_of(levels, Rules(share, rule, tie, stop, row_size), style, block_minutes)
    drawn = static.draw_sessions(canvas.ax, profile, style, timezone)
    canvas.is_unified = False
    if profile.sessions:
        marks = [drawn.value_areas, drawn.single_prints, *([drawn.blocks] if drawn.blocks else drawn.letters)]
        add_image(canvas, drawn.ax, marks)
        for areas in (drawn.value_areas, drawn.single_prints):
            if areas.get_paths():
                canvas.add_key(drawn.ax, areas, areas.get_facecolor()[0])
        _add_rows(canvas, profile)
    return figure_of(canvas)


def _add_rows(canvas: Canvas, profile: static.Sessions) -> None:
    """Add an invisible bar per row; hovering over it shows the time blocks that touched the row."""
    unit = static.unit_of(profile)
    starts, rows, letters = [], [], []
    for session in profile.sessions:
        starts += [session.start + static.LEFT * (session.end - session.start)] * len(session.touches)
        rows += [*session.touches]
        letters += [
            "".join(static.letter_of(block) for block in blocks) for blocks in session.touches.values()
        ]
    price, _ = canvas.measure(canvas.ax, "y")
    number = np.array([len(text) for text in letters])
    canvas.add(
        canvas.ax,
        type="bar",
        orientation="h",
        base=canvas.positions(canvas.ax, np.array(starts)),
        x=milliseconds(number * unit),
        y=(np.array(rows) + 0.5) * profile.height,
        width=profile.height,
        marker={"opacity": 0},
        customdata=np.stack([number, np.array(rows) * profile.height], axis=1),
        text=letters,
        textposition="none",
        hovertemplate=f"{price}: {canvas.value_text(canvas.ax, 'y', 'customdata[1]')}"
        f"<br>%{{customdata[0]}} time blocks of {profile.minutes:g} min<br>%{{text}}<extra></extra>",
        name="Time blocks",
    )
