"""Option summaries by tenor, and volatility and skew by days to expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from narwhals.stable.v2.typing import IntoFrame

from tidytape.catalogue import Interval, Tenor
from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import missing, read_frame, with_datetimes
from tidytape.plot._matplotlib import Drawing, draw
from tidytape.plot._model import Axis, Facts, Legend, Line, Mark, Panel, Rule
from tidytape.plot._series import interval_named, values_of
from tidytape.plot._term_map import add_map
from tidytape.plot._tracks import DAYS_BY_TENOR, days_of
from tidytape.schema import schema_of

_VALUES = {
    name: schema_of(f"{name.upper()}_OPTION_SUMMARY_AGG")[name] for name in ("implied_volatility", "skew")
}
_PALEST = 0.35  # on white, the first time of a symbol has this share of the symbol's colour
_DIMMEST = 0.55  # the same on black
# A legend lists up to this number of times of a symbol; of more times a map is drawn by default.
_MOST_TIMES = 6


def term_structure(
    frame: IntoFrame,
    /,
    *,
    value: Literal["implied_volatility", "skew"] | None = None,
    as_map: bool | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    timezone: str | tzinfo = "UTC",
) -> Drawing:
    """Draw implied volatility or skew by tenor or by days to expiry: curves of a few times, or a map of many times.

    The axis of days is logarithmic. Each symbol has a colour, pale for its first time and full for its last. A missing
    tenor, or an expiry without a value, is a gap in the curve.

    A map has time to the right, days upward and the value as colour. Nothing is interpolated: each cell has the value
    of the expiry that is nearest in the logarithm of days, and nothing is drawn below the first expiry or above the
    last.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, tenor, timestamp), any order
        Schema IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG or SKEW_OPTION_SUMMARY_AGG, or as
        `tidytape.analytics.options.term_structure` returns it, with ``days`` [d] in place of ``tenor``. Uses
        ``timestamp`` (datetimes, or int64 nanoseconds since the epoch) and ``implied_volatility`` [%] or ``skew`` [vol
        points]; identity columns, if present, name the lines. Past expiries are left out.
    value : {"implied_volatility", "skew"}, optional
        The column to draw; by default the one of the two that the frame has.
    as_map : bool, optional
        Whether to draw a map, which takes one symbol. By default a map is drawn if the frame has one symbol and more
        than 6 times.
    title : str, optional
        The title, in place of the picture's own; an empty text shows none.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure otherwise.
    timezone : str or tzinfo
        Zone of the times in title and legend.

    Returns
    -------
    Drawing
        The artists. For a frame with no values the picture says "no data".

        - ``ax`` : Axes. The axes drawn on.
        - ``lines`` : dict of (str, datetime) to Line2D. By symbol and time, in order, a line of the values by days to
          expiry; NaN for a missing value between two others. Empty if a map was drawn.
        - ``mesh`` : QuadMesh or None. The map: the value by days to expiry, ascending, and time; masked where it is
          unknown.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``frame`` is not a frame; if it has both values and ``value`` is left out; if it has an unknown tenor,
        several rows of one symbol, time and tenor, or, for a map, several symbols; or if ``timezone`` is unknown.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> from matplotlib.figure import Figure
    >>> frame = pl.DataFrame({
    ...     "raw_symbol": "BTC_ATM", "tenor": ["ONE_W", "ONE_M"], "timestamp": datetime(2026, 3, 5, tzinfo=UTC),
    ...     "implied_volatility": [54.7, 52.3],
    ... })
    >>> drawn = term_structure(frame, ax=Figure().add_subplot())
    >>> [line.get_xydata().tolist() for line in drawn.lines.values()], drawn.ax.get_ylabel()
    ([[[7.0, 54.7], [30.0, 52.3]]], 'Implied volatility [%]')
    """
    return draw(
        lambda panel: fill_term_structure(panel, frame, value=value, as_map=as_map, timezone=timezone),
        ax,
        (9, 5),
        title=title,
        timezone=timezone,
    )


def fill_term_structure(
    panel: Panel,
    frame: IntoFrame,
    *,
    value: Literal["implied_volatility", "skew"] | None,
    as_map: bool | None,
    timezone: str | tzinfo,
) -> Facts:
    """Show curves, or a map, on a panel."""
    rows = read_frame(frame, "frame")
    value_column = _value_column(value, rows)
    curves = _curves(rows, value_column)
    symbols = sorted({symbol for symbol, _ in curves})
    is_map = len(symbols) == 1 and len(curves) > _MOST_TIMES if as_map is None else as_map
    if is_map and len(symbols) > 1:
        raise QueryError(
            "frame",
            got=f"{len(symbols)} symbols: {', '.join(symbols[:4])}",
            expected="one, for a map",
            hint="filter the frame to one symbol, or draw curves with as_map=False",
        )
    by_tenor = "tenor" in rows.columns
    unit = _VALUES[value_column].unit
    name = "Skew, put minus call" if value_column == "skew" else "Implied volatility"
    exchange, interval = _only(rows, "exchange"), interval_named(_only(rows, "interval"))
    panel.title = style.titled(
        "Term structure of skew" if value_column == "skew" else "Term structure",
        _title(exchange, interval, curves, timezone),
    )
    facts: Facts = {"lines": {}, "mesh": None}
    if is_map and curves:
        by_time = {time: curve for (_, time), curve in curves.items()}
        add_map(panel, by_time, name, unit, interval=interval, by_tenor=by_tenor)
        return facts

    panel.x = Axis("Tenor" if by_tenor else "Time to expiry", "d, log scale", is_log=True)
    # A tick at each tenor has its short name above its number of days.
    panel.x.fixed = {float(tenor.days): f"{tenor.alias}\n{tenor.days}" for tenor in Tenor}
    panel.y.name, panel.y.unit, panel.y.bins = name, unit, 8
    days = [day for curve in curves.values() for day in curve]
    ends = list(DAYS_BY_TENOR.values()) if by_tenor or not days else days
    panel.x.limits = (min(ends) / 1.25, max(ends) * 1.25)
    panel.is_empty = not curves
    _add_curves(panel, curves, timezone)
    if value_column == "skew" and curves:
        panel.add(Rule(0.0, colour=panel.colours.flat, width=0.8, order=1.5))
    return facts


Curves = dict[tuple[str, datetime], dict[float, float]]


def _value_column(value: str | None, frame: nw.DataFrame[Any]) -> str:
    """Return the column to draw; raise if the frame lacks a column, or if the choice is not clear."""
    if value is not None and value not in _VALUES:
        raise QueryError("value", got=value, expected="one of " + ", ".join(_VALUES))
    present = [name for name in _VALUES if name in frame.columns]
    if value is None and len(present) > 1:
        raise QueryError(
            "value", got=None, expected="one of " + ", ".join(present), hint="the frame has both"
        )
    if value is None and not present:
        raise missing(["implied_volatility"], frame.columns)
    value_column = value or present[0]
    length_column = "days" if "days" in frame.columns and "tenor" not in frame.columns else "tenor"
    if absent := [name for name in (length_column, "timestamp", value_column) if name not in frame.columns]:
        raise missing(absent, frame.columns)
    return value_column


def _curves(frame: nw.DataFrame[Any], value: str) -> Curves:
    """Return the curve of each symbol and time, in order: by days to expiry, the value."""
    frame = with_datetimes(frame, "frame")
    by_tenor = "tenor" in frame.columns
    symbol_column = "raw_symbol" if by_tenor or "coin" not in frame.columns else "coin"
    # An exchange that all rows share is in the title instead of in the names.
    name_columns = [name for name in ("exchange", symbol_column) if name in frame.columns]
    if _only(frame, "exchange"):
        name_columns.remove("exchange")
    length_column = "tenor" if by_tenor else "days"
    points = frame.filter(*(~nw.col(name).is_null() for name in (length_column, "timestamp")))
    curves: Curves = {}
    for row in points.select(*name_columns, length_column, "timestamp", value).iter_rows(named=True):
        days, time = days_of(row[length_column]), row["timestamp"]
        has_value = row[value] is not None and np.isfinite(row[value])
        # Skip a tenor without a value: the tenors that lack one are filled in below.
        if days <= 0 or (by_tenor and not has_value):
            continue
        symbol = " ".join(str(row[name]) for name in name_columns if row[name] is not None)
        utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        curve = curves.setdefault((symbol, utc), {})
        if days in curve:
            raise QueryError(
                "frame",
                got=f"several rows of {symbol} {row[length_column]} at {utc.isoformat()}",
                expected=f"one row per symbol, time and {'tenor' if by_tenor else 'days'}",
                hint="filter the frame to one interval first",
            )
        curve[days] = row[value] if has_value else np.nan
    if by_tenor:
        # A tenor without a value is a gap in the line if there are values on both sides of it.
        for curve in curves.values():
            between = (days for days in DAYS_BY_TENOR.values() if min(curve) <= days <= max(curve))
            curve |= {days: curve.get(days, np.nan) for days in between}
    drawable = {key: curve for key, curve in curves.items() if not all(map(np.isnan, curve.values()))}
    return {key: dict(sorted(curve.items())) for key, curve in sorted(drawable.items())}


def _add_curves(panel: Panel, curves: Curves, timezone: str | tzinfo) -> None:
    """Add a line per curve; its text names its symbol if there are several, and its time if there are several."""
    symbols, times = sorted({symbol for symbol, _ in curves}), sorted({time for _, time in curves})
    zone, zone_name = style.zone(timezone)
    text = _times(times, zone)
    entries: list[Mark] = []
    for index, symbol in enumerate(symbols):
        keys = [key for key in curves if key[0] == symbol]
        colours = _shades(panel.ground, style.CYCLE[index % len(style.CYCLE)], len(keys))
        shown = keys if len(keys) <= _MOST_TIMES else [keys[0], keys[-1]]
        for key, colour in zip(keys, colours, strict=True):
            curve, hover_name = (
                curves[key],
                f"{symbol} {key[1].astimezone(zone):%Y-%m-%d %H:%M} {zone_name}".strip(),
            )
            line = Line(
                np.array([*curve]),
                np.array([*curve.values()]),
                name="lines",
                key=key,
                marker="o",
                size=4,
                colour=colour,
                width=1.6,
                order=2.2,
                hover_name=hover_name,
            )
            panel.add(line)
            if key in shown:
                parts = (symbol if len(symbols) > 1 else "", text[key[1]] if len(times) > 1 else "")
                line.label = " ".join(filter(None, parts))
                entries.append(line)
    if len(curves) > 1:
        panel.legend = Legend(entries, title=f"Time [{zone_name}]" if len(times) > 1 else None)


def _shades(ground: style.Ground, colour: str, number: int) -> list[tuple[float, ...]]:
    """Return shades of a colour, from a pale one to the colour itself."""
    first, full = _PALEST, np.array(to_rgb(colour))
    if ground.is_dark:
        first, full = _DIMMEST, full + 0.25 * (1 - full)
    strength = np.linspace(first, 1, number) if number > 1 else np.ones(1)
    return [ground.mixed(tuple(full), share) for share in strength]


def _title(exchange: str, interval: Interval | None, curves: Curves, timezone: str | tzinfo) -> str:
    """Return what all values share, e.g. ``DERIBIT BTC_ATM, 1h, 2026-03-05 04:00 UTC`` or ``..., 48 times``."""
    symbols, times = sorted({symbol for symbol, _ in curves}), sorted({time for _, time in curves})
    zone, zone_name = style.zone(timezone)
    time_text = f"{len(times)} times" if len(times) > _MOST_TIMES else ""
    if len(times) == 1:
        time_text = f"{_times(times, zone)[times[0]]} {zone_name}"
    name = f"{exchange} {symbols[0] if len(symbols) == 1 else ''}".strip()
    return ", ".join(filter(None, [name, interval.alias if interval else "", time_text]))


def _times(times: Sequence[datetime], zone: tzinfo) -> dict[datetime, str]:
    are_whole_minutes = all(time.second == time.microsecond == 0 for time in times)
    return {
        time: time.astimezone(zone).strftime("%Y-%m-%d %H:%M" if are_whole_minutes else "%Y-%m-%d %H:%M:%S")
        for time in times
    }


def _only(frame: nw.DataFrame[Any], name: str) -> str:
    """Return the value of a column; empty if it has several values or no value."""
    values = values_of(frame, name) if name in frame.columns else []
    return values[0] if len(values) == 1 else ""
