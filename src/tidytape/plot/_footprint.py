"""Footprints: the volume sold and bought at each price of each candle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import profile as profiles
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._candles import padded_limits
from tidytape.plot._heatmap import require_height
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Bar, Boxes, Facts, Legend, Mark, Panel, Scale, Segments, Texts
from tidytape.plot._series import (
    Identity,
    block_of,
    dates_of,
    levels_per_row,
    market_frame,
    nanoseconds,
    numbers,
    row_of,
    smallest_step,
    sums_by_index,
    width_of,
)
from tidytape.times import DAY

_MOST_ROWS = 100  # largest number of price rows of a footprint without numbers
BODY = 0.94  # width of a rectangle as a share of the interval; the rest is a gap between rectangles
_SMALLEST, _LARGEST = 5.5, 9.0  # font sizes of the numbers [pt]
_LETTER = 0.6  # width of a digit as a share of the font size
_LINE = 1.25  # height of a line of text as a share of the font size
_PADDED = 1.1  # height of the axes as a multiple of the height of all rows
_EXTREME = 0.98  # deltas above this quantile of their absolute values all have the strongest colour


@dataclass(frozen=True, slots=True)
class _PriceRows:
    """One row per interval and price row that traded, in order of time and price."""

    time: NDArray[np.int64]  # [ns]
    row: NDArray[np.int64]
    buy: NDArray[np.float64]
    sell: NDArray[np.float64]

    def other_side(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return for each row the volume sold one row below and that bought one row above; NaN if not traded."""
        below, above = np.full(self.row.size, np.nan), np.full(self.row.size, np.nan)
        are_neighbours = (np.diff(self.time) == 0) & (np.diff(self.row) == 1)
        below[1:][are_neighbours] = self.sell[:-1][are_neighbours]
        above[:-1][are_neighbours] = self.buy[1:][are_neighbours]
        return below, above

    def mean_side_volume(self) -> NDArray[np.float64]:
        """Return for each row the mean volume per side (bought or sold) over all rows of its interval."""
        _, interval_index = np.unique(self.time, return_inverse=True)
        return (np.bincount(interval_index, self.buy + self.sell) / (2 * np.bincount(interval_index)))[
            interval_index
        ]


def footprint(
    profile: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    row_size: float | Decimal | None = None,
    imbalance: float = 3.0,
    quote: str | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw a footprint: the volume sold and bought at each price in each interval, coloured by the delta.

    If there is room, each row says ``sold × bought``. An outline marks the row of each interval with the most volume,
    its point of control. A bar at the right of a row marks a buy imbalance: the row's bought volume is at least
    ``imbalance`` times the volume sold one row below, and no less than the mean volume per side over the rows of its
    interval. A bar at the left marks a sell imbalance: it compares the row's sold volume with the volume bought one row
    above.

    Parameters
    ----------
    profile : frame, n rows, key (timestamp, price), any order
        Schema VOLUME_PROFILE_AGG of one market. Uses ``timestamp`` [UTC], ``price`` [quote per coin], ``buy_volume``
        and ``sell_volume`` [as ``amount_unit`` says]. A level that lacks a value is not drawn.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    row_size : float or Decimal, > 0, optional
        Height of the rows in which levels are added up. By default rows are so high that they can be read, with their
        numbers if there are few intervals. [quote per coin]
    imbalance : float, > 1
        Smallest ratio that is marked, of the volume of a side to that of the other side one row away. [1]
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.
    timezone : str or tzinfo
        Zone of the time axis.

    Returns
    -------
    Drawing
        The artists. For a frame with no volume the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``levels`` : PolyCollection or None. One rectangle per interval and price row that traded, in order of time
          and price; its value is the delta. None without data.
        - ``numbers`` : tuple of Text. ``sold × bought`` of each rectangle; empty where there is no room for them.
        - ``pocs`` : PolyCollection or None. An outline around the row of each interval with the most volume. None
          without data.
        - ``buy_imbalances``, ``sell_imbalances`` : LineCollection or None. Marks at the right and at the left of rows
          with an imbalance; None without data.
        - ``row_height`` : float or None. Height of a row; None without data. [quote per coin]
        - ``sold``, ``bought`` : ndarray. Volume sold and bought in each rectangle. [as ``amount_unit`` says]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets or a row twice, or an argument is not one of those listed.

    Examples
    --------
    >>> import tidytape
    >>> from matplotlib.figure import Figure
    >>> with tidytape.Client.demo() as client:
    ...     quarters = client.volume_profile(
    ...         exchange="DEMO_PERP", raw_symbol="BTC-PERP", interval="15m", start="2024-08-08", end="2024-08-08T02:00"
    ...     )
    >>> drawn = footprint(quarters, row_size=50, ax=Figure(figsize=(9, 5)).add_subplot())
    >>> drawn.row_height, len(drawn.pocs.get_paths())
    (50.0, 8)
    """
    return draw(
        lambda panel: fill_footprint(panel, profile, row_size=row_size, imbalance=imbalance, quote=quote),
        ax,
        (12, 7),
        title=title,
        timezone=timezone,
    )


def fill_footprint(
    panel: Panel,
    profile: IntoFrame,
    *,
    row_size: float | Decimal | None,
    imbalance: float,
    quote: str | None,
) -> Facts:
    """Show a footprint on a panel."""
    require_height("row_size", row_size)
    if not (np.isfinite(imbalance) and imbalance > 1):
        raise QueryError("imbalance", got=imbalance, expected="a finite number above 1")
    columns = ("timestamp", "price", "buy_volume", "sell_volume")
    levels, identity = market_frame(profile, "profile", columns, key=columns[:2])
    levels, time = nanoseconds(levels, "profile")
    values = numbers(levels, "profile", columns[1:])
    has_traded = np.isfinite(np.stack(list(values.values()))).all(axis=0)
    has_traded &= values["buy_volume"] + values["sell_volume"] > 0
    panel.over_time()
    panel.y.kind, panel.y.name, panel.y.unit = "price", "Price", identity.price_unit
    panel.is_unified, panel.is_empty = False, not has_traded.any()
    facts: Facts = dict.fromkeys(("levels", "pocs", "buy_imbalances", "sell_imbalances", "row_height")) | {
        "numbers": ()
    }
    if panel.is_empty:
        panel.title = style.titled("Footprint", identity.title)
        return {**facts, "sold": np.empty(0), "bought": np.empty(0)}
    width = width_of(identity, time) / DAY
    price = values["price"][has_traded]
    starts = dates_of(np.unique(time[has_traded]))
    panel.show_times(float(starts[0]), float(starts[-1]) + width, 0.1 * width)
    step = block_of(levels) or smallest_step(np.unique(price))
    height = (
        float(row_size)
        if row_size is not None
        else step * levels_per_row(np.ptp(price) / step + 1, _most_rows(panel, width))
    )
    keys, key_index = np.unique(
        np.stack([time[has_traded], row_of(price, height)]), axis=1, return_inverse=True
    )
    volumes = (sums_by_index(key_index, values[name][has_traded], keys.shape[1]) for name in columns[2:])
    rows = _PriceRows(*keys, *volumes)
    panel.y.limits = padded_limits(rows.row.min() * height, (rows.row.max() + 1) * height)
    _add_rows(panel, rows, height, width, imbalance=imbalance, identity=identity, quote=quote)
    return {**facts, "row_height": height, "sold": rows.sell, "bought": rows.buy}


def _room(panel: Panel, width: float, height: float = 0.0) -> tuple[float, float]:
    """Return how wide a time is and how high a difference of prices. [pt]"""
    (first, last), (low, high) = panel.x.limits or (0.0, 1.0), panel.y.limits or (0.0, 1.0)
    return width / (last - first) * panel.ground.width, height / (high - low) * panel.ground.height


def _most_rows(panel: Panel, width: float) -> int:
    """Return the largest number of rows: if columns are wide enough for numbers, as many as leave them room."""
    if _room(panel, BODY * width)[0] < _SMALLEST * _LETTER * 9:  # nine letters: "999 × 999"
        return _MOST_ROWS
    return max(int(panel.ground.height / _PADDED / (_SMALLEST * _LINE)), 5)


def _add_rows(
    panel: Panel,
    rows: _PriceRows,
    height: float,
    width: float,
    *,
    imbalance: float,
    identity: Identity,
    quote: str | None,
) -> None:
    colours = panel.colours
    delta = rows.buy - rows.sell
    start, low = dates_of(rows.time), rows.row * height
    middle, half = start + width / 2, BODY * width / 2
    extreme = float(np.quantile(np.abs(delta), _EXTREME)) or 1.0
    middle_ink = 0.22 if panel.ground.is_dark else 0.1
    scale = Scale.of(
        panel.ground.diverging(colours.down, colours.up, middle_ink=middle_ink), -extreme, extreme
    )
    texts, font = _numbers(panel, rows, height, width)
    left_edge, right_edge, top = middle - half, middle + half, low + height
    amount = f",.6~r}} {identity.amounts(quote, style.price_text(height, height))}"
    hover = f"<br>Sold: %{{customdata[0]:{amount}<br>Bought: %{{customdata[1]:{amount}"
    look: dict[str, Any] = {"name": "levels", "edge": panel.ground.face, "width": 0.4, "order": 1.5}
    sides = np.stack([rows.sell, rows.buy])
    levels = panel.add(
        Boxes(
            left_edge,
            right_edge,
            low,
            top,
            values=delta,
            scale=scale,
            texts=texts,
            period=width,
            data=sides,
            hover=hover,
            **look,
        )
    )
    if font:
        inks: Any = [{"color": style.on(tuple(colour[:3]))} for colour in scale.colours(scale.norm(delta))]
        place = {"ha": "center", "va": "center_baseline", "size": font}
        panel.add(Texts(middle, (rows.row + 0.5) * height, texts, place, inks, name="numbers", order=2.6))
    line_scale = min(_room(panel, width)[0] / 40, 1.0)  # marks are thinner if intervals are narrow
    is_poc = _is_poc(rows)
    pocs = Boxes(
        left_edge[is_poc],
        right_edge[is_poc],
        low[is_poc],
        top[is_poc],
        name="pocs",
        label="POC",
        width=max(1.4 * line_scale, 0.6),
        order=2.4,
        hover="",
        edge=colours.poc,
    )
    below, above = rows.other_side()
    mean_side_volume = rows.mean_side_volume()
    has_buy_imbalance = (rows.buy >= imbalance * below) & (rows.buy >= mean_side_volume) & (rows.buy > 0)
    has_sell_imbalance = (rows.sell >= imbalance * above) & (rows.sell >= mean_side_volume) & (rows.sell > 0)
    bar_inset = 0.02 * width  # distance of the bars from the edge of a rectangle
    marks: list[Mark] = [panel.add(pocs)]
    for mask, x, colour, name in (
        (has_buy_imbalance, right_edge - bar_inset, style.CYCLE[2], "Buy"),
        (has_sell_imbalance, left_edge + bar_inset, style.CYCLE[3], "Sell"),
    ):
        ends = x[mask], x[mask], low[mask] + 0.08 * height, low[mask] + 0.92 * height
        bars = Segments(
            *ends,
            name=f"{name.lower()}_imbalances",
            colour=colour,
            order=2.3,
            hover="",
            width=max(2.6 * line_scale, 1.0),
            label=f"{name} imbalance, {imbalance:g}×",
        )
        panel.add(bars)
        marks += [bars] if mask.any() else []
    numbers_note = style.label("sold × bought", identity.amounts(quote)) if font else ""
    unit = style.price_text(height, height)
    panel.title = style.titled("Footprint", identity.title, numbers_note, f"rows of {unit} {identity.quote}")
    panel.bars.append(Bar(levels, scale, "Delta", identity.amounts(quote, unit)))
    panel.legend = Legend(marks, place="above")


def _is_poc(rows: _PriceRows) -> NDArray[np.bool_]:
    """Return whether each row is the point of control of its interval."""
    import polars as pl

    frame = pl.DataFrame({"timestamp": rows.time, "price": rows.row, "volume": rows.buy + rows.sell})
    pocs = profiles.point_of_control(frame, by="timestamp")
    poc_by_time = dict(zip(pocs["timestamp"], pocs["poc"], strict=True))
    return np.array(
        [poc_by_time[time] == row for time, row in zip(rows.time.tolist(), rows.row, strict=True)]
    )


def _numbers(panel: Panel, rows: _PriceRows, height: float, width: float) -> tuple[list[str], float]:
    """Return the volume sold and bought in each rectangle as text, and its font size; 0 without room for all."""
    digits = digits_of(np.concatenate([rows.buy, rows.sell]))
    texts = [
        f"{short(sold, digits)} × {short(bought, digits)}"
        for sold, bought in zip(rows.sell, rows.buy, strict=True)
    ]
    box_width, box_height = _room(panel, BODY * width, height)
    font_size = min(0.92 * box_width / (_LETTER * max(map(len, texts))), box_height / _LINE, _LARGEST)
    return texts, font_size if font_size >= _SMALLEST else 0.0


def digits_of(volume: NDArray[np.float64]) -> int:
    """Return the number of decimals with which a large volume of these has three digits; 0 from 100 on."""
    large = float(np.quantile(volume, 0.9)) or 1.0
    return int(np.clip(2 - np.floor(np.log10(large)), 0, 6)) if large < 100 else 0


def short(volume: float, digits: int) -> str:
    return style.rounded(volume) if volume >= 10_000 else f"{volume:.{digits}f}"
