"""Volume by price, with the point of control and the value area."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from tidytape.analytics import profile as profiles
from tidytape.plot import _style as style
from tidytape.plot._candles import padded_limits
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Band, Facts, Legend, Mark, Panel, Rule, Steps
from tidytape.plot._series import Levels, levels, levels_per_row, row_of, smallest_step, sums_by_index

_LOOKS = {
    "buy_volume": ("buy", "Buy volume"),
    "sell_volume": ("sell", "Sell volume"),
    "volume": ("volume", "Volume"),
}
_MOST_ROWS = 200  # with more rows, each would be lower than three pixels, and the picture would flicker


@dataclass(frozen=True, slots=True)
class Rules:
    """The arguments that decide the value area; see `tidytape.analytics.profile.value_area`."""

    share: float
    rule: Literal["two_row", "one_row"]
    tie: Literal["up", "down"]
    stop: Literal["reach", "exceed"]
    row_size: float | Decimal | None


@dataclass(frozen=True, slots=True)
class Area:
    """Point of control and value area, and the height of the rows from which they were computed."""

    poc: float | None
    vah: float | None
    val: float | None
    share: float | None
    step: float  # height of the rows [quote per coin]


@dataclass(frozen=True, slots=True)
class ProfileRows:
    """A profile that can be drawn: its levels, and their value area; None for an empty profile."""

    levels: Levels
    area: Area | None


def volume_profile(
    profile: IntoFrame,
    /,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    row_size: float | Decimal | None = None,
    quote: str | None = None,
) -> Drawing:
    """Draw the volume traded at each price, with the point of control (POC) and the value area (VAL to VAH).

    Buys and sells are stacked, if the profile tells them apart. A row reaches from its price, its low edge, to the
    price of the next row. The lines are at the prices that ``poc``, ``vah`` and ``val`` say, and the shade covers the
    rows of the value area.

    Parameters
    ----------
    profile : frame, n rows, key (timestamp, price), any order
        Schema VOLUME_PROFILE_AGG of one market. Uses ``price`` [quote per coin], ``buy_volume`` and ``sell_volume``
        [as ``amount_unit`` says], or ``volume`` if it has neither, such as a profile of candles. Levels of one price
        are added up over all timestamps, and the title says over how many. A level that lacks a value does not count.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    share, rule, tie, stop
        As in `tidytape.analytics.profile.value_area`.
    row_size : float or Decimal, > 0, optional
        Height of the rows in which levels are added up before everything else. Fine levels say little about where the
        volume lies: if levels are one tick high, the POC may be one large trade. By default the levels are not added
        up; if there are too many to see, the rows have 2, 5, 10, … levels. The unit of the volume says how high a row
        is, and POC and value area are those of these rows, as `tidytape.analytics.profile.value_area` with the same
        ``row_size`` returns them. If you ask for more rows than one can see, several are drawn as one, and the legend
        says how high those of the prices are. [quote per coin]
    quote : str, optional
        Unit of the volumes of a frame that does not say it in ``amount_unit``, e.g. ``"USD"``.

    Returns
    -------
    Drawing
        The artists and the prices. For a frame with no volume the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``buy``, ``sell`` : StepPatch or None. Volume of each drawn row: sells begin where buys end. None if the frame
          does not tell them apart.
        - ``value_area`` : Rectangle or None. The rows of the value area; None if the profile has none.
        - ``lines`` : dict of str to Line2D. ``"POC"``, ``"VAH"`` and ``"VAL"``; empty if the profile has none.
        - ``poc``, ``vah``, ``val`` : float or None. The prices of the lines: low edges of their rows. [quote per coin]
        - ``share`` : float or None. Share of the volume inside the value area. [1]
        - ``row_height`` : float or None. Height of a drawn row; None for an empty profile. [quote per coin]
        - ``note`` : str. The height of the rows from which the prices were computed, if several of them are drawn as
          one; empty otherwise.
        - ``volume`` : StepPatch or None. Volume of each drawn row, if the frame does not tell buys and sells apart.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds several markets or a row twice, or an argument is not one of those listed.

    Examples
    --------
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> frame = pl.DataFrame({
    ...     "price": [10.0, 11.0, 12.0, 13.0, 14.0], "buy_volume": [1.0, 2.0, 5.0, 1.0, 0.0],
    ...     "sell_volume": [0.0, 2.0, 5.0, 3.0, 1.0],
    ... })
    >>> drawn = volume_profile(frame, ax=Figure().add_subplot())
    >>> drawn.val, drawn.poc, drawn.vah, drawn.share
    (12.0, 12.0, 14.0, 0.75)
    """
    return draw(
        lambda panel: fill_volume_profile(
            panel, profile, rules=Rules(share, rule, tie, stop, row_size), quote=quote
        ),
        ax,
        (6, 8),
        title=title,
    )


def fill_volume_profile(panel: Panel, profile: IntoFrame, *, rules: Rules, quote: str | None) -> Facts:
    """Show a volume profile on a panel."""
    rows = profile_rows(profile, "profile", rules)
    marks, facts = add_profile(panel, rows, quote=quote)
    panel.title = style.titled("Volume profile", rows.levels.title)
    if facts["poc"] is not None:
        panel.legend = Legend(marks, title=facts["note"] or None)
    return facts


def profile_rows(profile: object, parameter: str, rules: Rules) -> ProfileRows:
    """Read a profile, add up its levels in rows of the rules' size, and compute its value area."""
    profile_levels = levels(profile, parameter)
    # Apply the rules to no levels, which refuses a wrong argument even for an empty frame, and before it is used.
    _value_area(profile_levels, rules, slice(0))
    step, price = smallest_step(profile_levels.price), profile_levels.price
    if not price.size:
        return ProfileRows(profile_levels, None)
    if rules.row_size is None and (number := levels_per_row(np.ptp(price) / step + 1, _MOST_ROWS)) > 1:
        rules = replace(rules, row_size=float(f"{step * number:.6g}"))
    if rules.row_size is not None:
        step = float(rules.row_size)
        profile_levels = _in_rows(profile_levels, step)
    poc, vah, val, share = _value_area(profile_levels, rules)[0]
    return ProfileRows(profile_levels, Area(poc, vah, val, share, step))


def add_profile(
    panel: Panel, rows: ProfileRows, *, quote: str | None, suffix: str = ""
) -> tuple[list[Mark], Facts]:
    """Add a profile without a title; return the marks of a legend and the facts."""
    identity, area = rows.levels.identity, rows.area
    x, y = panel.x, panel.y
    x.kind, x.name, x.bins, x.unit = "amount", "Volume", 4, identity.amounts(quote)
    y.kind, y.name, y.unit = "price", "Price", identity.price_unit
    facts: Facts = dict.fromkeys(
        ("buy", "sell", "volume", "value_area", "poc", "vah", "val", "share", "row_height")
    ) | {"lines": {}, "note": ""}
    panel.is_empty = area is None
    if area is None:
        return [], facts
    edges, volumes = _drawn_rows(rows.levels, area.step)
    row_height = float(edges[1] - edges[0])
    x.unit = identity.amounts(quote, style.price_text(row_height, row_height))
    # Draw one outline per colour instead of a bar per row: bars would show seams, and thin bars moiré.
    base, entries = np.zeros(edges.size - 1), []
    for name, volume in volumes.items():
        role, text = _LOOKS[name]
        colour = getattr(panel.colours, role)
        entries.append(
            panel.add(
                Steps(
                    edges,
                    base + volume,
                    base,
                    is_upright=False,
                    name=role,
                    label=text,
                    colour=colour,
                    width=0,
                    order=1.0,
                )
            )
        )
        base = base + volume
    x.limits = (0.0, float(base.max()) * 1.06 or 1.0)
    y.limits = padded_limits(float(edges[0]), float(edges[-1]))
    marks = add_area(panel, area, suffix=suffix)
    # If several rows of the value area are drawn as one, the POC may not be in the longest drawn row; a note says why.
    row_note = f"area: rows of {style.price_text(area.step, area.step)} {identity.quote}"
    note = "" if np.isclose(row_height, area.step) else row_note
    prices = {"poc": area.poc, "vah": area.vah, "val": area.val, "share": area.share}
    return [*marks, *entries], {**facts, **prices, "row_height": row_height, "note": note}


def add_area(panel: Panel, area: Area, *, suffix: str = "") -> list[Mark]:
    """Shade the value area, and add lines at its prices; return them from the highest line, then the shade."""
    if area.poc is None or area.vah is None or area.val is None or area.share is None:
        return []
    name, look = f"Value area, {area.share * 100:.3g}%", panel.colours
    shade = Band(
        area.val,
        area.vah + area.step,
        name=f"value_area{suffix}",
        label=name,
        width=0,
        order=0.4,
        colour=look.value_area,
    )
    panel.add(shade)
    marks: list[Mark] = []
    for short, price, colour, dashes, width in (
        ("VAH", area.vah, look.value_area_edge, (0, (6, 2)), 1.2),
        ("POC", area.poc, look.poc, "solid", 1.3),
        ("VAL", area.val, look.value_area_edge, ":", 1.5),
    ):
        text = f"{short} {style.price_text(price, area.step)}"
        marks.append(
            panel.add(
                Rule(
                    price,
                    name=f"lines{suffix}",
                    key=short,
                    label=text,
                    colour=colour,
                    width=width,
                    order=2.3,
                    dashes=dashes,
                )
            )
        )
    return [*marks, shade]


def _value_area(profile_levels: Levels, rules: Rules, part: slice = slice(None)) -> list[tuple[Any, ...]]:
    """Return a list with one row (poc, vah, val, share); an empty list if there are no levels."""
    import polars as pl

    frame = pl.DataFrame({"price": profile_levels.price[part], "volume": profile_levels.total[part]})
    areas = profiles.value_area(
        frame.with_columns(profile=0, block_size=pl.lit(profile_levels.block_size, pl.Float64)),
        by="profile",
        share=rules.share,
        rule=rules.rule,
        tie=rules.tie,
        stop=rules.stop,
        row_size=rules.row_size,
    )
    return areas.select("poc", "vah", "val", "value_area_share").rows()


def _in_rows(profile_levels: Levels, step: float) -> Levels:
    row, row_index = np.unique(row_of(profile_levels.price, step), return_inverse=True)
    volumes = {
        name: sums_by_index(row_index, volume, row.size) for name, volume in profile_levels.volumes.items()
    }
    return replace(profile_levels, price=row * np.float64(step), volumes=volumes)


def _drawn_rows(
    profile_levels: Levels, step: float
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return edges and volumes of rows without gaps between them; a row has 1, 2, 5, 10, 20, ... levels."""
    number = levels_per_row((profile_levels.price[-1] - profile_levels.price[0]) / step + 1, _MOST_ROWS + 1)
    row_height = step * number
    if number == 1:
        # Count rows from the lowest level, whose price need not be a multiple of the step.
        first = profile_levels.price[0]
        row_index = np.rint((profile_levels.price - first) / step).astype(np.int64)
    else:
        row = row_of(profile_levels.price, row_height)
        first, row_index = row[0] * row_height, row - row[0]
    size = int(row_index[-1]) + 1
    volumes = {
        name: sums_by_index(row_index, volume, size) for name, volume in profile_levels.volumes.items()
    }
    return first + np.arange(size + 1) * row_height, volumes
