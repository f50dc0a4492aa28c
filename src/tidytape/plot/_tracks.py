"""Values of several series over time, the identity of each series, and the values that all series share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import opened, timed
from tidytape.plot._series import Whose, _values, dates_of, interval_named
from tidytape.plot._series import numbers as numbers_of
from tidytape.schema import schema_of
from tidytape.times import DAY, MINUTE, SECOND

Floats = NDArray[np.float64]

IDENTITY = schema_of("TRADE_AGG").identity
_NAMES = ("exchange", "raw_symbol")  # of a market
_SHORT = 3  # a legend with so many entries has room inside the axes
_LATE = 1.5  # a value that comes later than so many usual steps leaves a gap
_ROUNDING = 1e-3  # share of an interval: dates of matplotlib are rounded to some nanoseconds


@dataclass(frozen=True, slots=True)
class Track:
    """Values of one series in order of time, each of the interval from ``start`` to ``end``."""

    whose: Mapping[str, str]
    start: Floats  # [matplotlib dates, d]
    end: Floats  # [matplotlib dates, d]
    values: Mapping[str, Floats]

    def line(self, name: str) -> tuple[Floats, Floats]:
        """Return times and values of a line, with a NaN where intervals are missing."""
        width = self.end[:-1] - self.start[:-1]
        after = np.flatnonzero(self.start[1:] - self.end[:-1] > _ROUNDING * width) + 1
        times = np.insert(self.start, after, self.end[after - 1])
        return times, np.insert(self.values[name], after, np.nan)

    def steps(self, name: str) -> tuple[Floats, Floats]:
        """Return times and values of a line that stays level over each interval, drawn as ``steps-post``."""
        times, values = self.line(name)
        if not times.size:
            return times, values
        return np.append(times, self.end[-1]), np.append(values, values[-1])


@dataclass(frozen=True, slots=True)
class Tracks:
    """Several series: the tracks by label, in order, and the values of the identity columns that they share."""

    shared: Whose
    by_label: dict[str, Track]

    @property
    def interval(self) -> str:
        """The short name of the interval, e.g. ``1h``."""
        interval = interval_named(self.shared.interval)
        return interval.alias if interval else self.shared.interval

    def title(self) -> str:
        """Return the title: what the series share, and their number, e.g. ``BTC, 3 markets, 1h``."""
        several = f"{len(self.by_label)} markets" if len(self.by_label) > 1 else ""
        return ", ".join(filter(None, (self.shared.name, several, self.interval)))

    def bounds(self) -> tuple[float, float] | None:
        """Return when the first interval starts and the last one ends."""
        some = [track for track in self.by_label.values() if track.start.size]
        return (min(track.start[0] for track in some), max(track.end[-1] for track in some)) if some else None


def tracks(
    frame: object,
    parameter: str,
    names: Iterable[str],
    *,
    optional: Iterable[str] = (),
    by: Iterable[str] = IDENTITY,
) -> Tracks:
    """Read the values of each series of a frame.

    Parameters
    ----------
    frame : frame, one row per series and ``timestamp``
    parameter : str
        What the caller calls the frame.
    names, optional : iterable of str
        Columns of numbers; the ``optional`` ones that are absent are all NaN.
    by : iterable of str
        Columns that tell the series apart, where the frame has them.

    Raises
    ------
    MissingColumnError
        If a column of ``names`` or ``timestamp`` is absent.
    QueryError
        If a column holds something else, the frame has several intervals, or a series has a time twice.
    """
    points = timed(opened(frame, parameter, ["timestamp", *names]), parameter)
    points = points.filter(~nw.col("timestamp").is_null()).sort("timestamp")
    present = [*names, *(name for name in optional if name in points.columns)]
    keys = [name for name in by if name in points.columns]
    shared = _shared(points, parameter, keys)
    numbers = numbers_of(points, parameter, tuple(present))
    numbers |= {name: np.full(len(points), np.nan) for name in optional if name not in present}
    numbers = {name: np.where(np.isfinite(values), values, np.nan) for name, values in numbers.items()}
    time = points.get_column("timestamp").dt.timestamp("ns").to_numpy().astype(np.int64)
    width = _width(time, shared.interval)

    columns = [[None if value is None else str(value) for value in points.get_column(name)] for name in keys]
    rows_of: dict[tuple[str | None, ...], list[int]] = {}
    for row, whose in enumerate(zip(*columns, strict=True) if keys else [()] * len(points)):
        rows_of.setdefault(whose, []).append(row)
    by_label = {}
    order = sorted(rows_of, key=lambda whose: tuple(value or "" for value in whose))
    for whose, label in zip(order, labels(keys, order), strict=True):
        rows = np.array(rows_of[whose])
        if (np.diff(time[rows]) == 0).any():
            raise QueryError(
                parameter,
                got=f"several rows of {label or 'one series'} at one time",
                expected="one row per series and timestamp",
                hint="filter the frame to one value of each column that tells rows apart",
            )
        start = dates_of(time[rows])
        by_label[label] = Track(
            {name: value for name, value in zip(keys, whose, strict=True) if value is not None},
            start,
            _ends(start, width / DAY, is_interval=bool(interval_named(shared.interval))),
            {name: values[rows] for name, values in numbers.items()},
        )
    return Tracks(shared, by_label)


def set_window(ax: Axes, *several: Tracks) -> None:
    """Show every interval of some series, with a small margin."""
    bounds = [span for series in several if (span := series.bounds())]
    if bounds:
        first, last = min(start for start, _ in bounds), max(end for _, end in bounds)
        style.show_times(ax, first, last, pad=0.01 * (last - first))


def draw_line(ax: Axes, times: Floats, values: Floats, **look: Any) -> Line2D:
    """Draw a line with gaps; a value between two gaps is a dot."""
    known = np.pad(np.isfinite(values), 1)
    alone = np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:])
    marks: dict[str, Any] = (
        {"marker": "o", "markersize": 3, "markevery": alone.tolist()} if alone.size else {}
    )
    if "marker" in look:
        look["markevery"] = alone.tolist()
    (line,) = ax.plot(times, values, **marks | look)
    return line


def legend_place(handles: Sequence[Artist]) -> Literal["inside", "beside"]:
    """Return where to put a legend: a long one inside would hide the lines."""
    return "inside" if len(handles) <= _SHORT else "beside"


def dates(times: nw.Series[Any]) -> Floats:
    """Return times as dates of matplotlib; NaN for null. [d]"""
    number = dates_of(times.dt.timestamp("ns").fill_null(0).to_numpy().astype(np.int64))
    return np.where(times.is_null().to_numpy(), np.nan, number)


def _shared(frame: nw.DataFrame[Any], parameter: str, keys: list[str]) -> Whose:
    names = {*keys, "interval", "amount_unit"} & {*IDENTITY, "amount_unit"} & {*frame.columns}
    values = {name: _values(frame, name) for name in names}
    for name in ("interval", "amount_unit"):
        if len(values.get(name, ())) > 1:
            raise QueryError(
                parameter,
                got=f"{len(values[name])} values of {name}: {', '.join(values[name][:4])}",
                expected=f"one {name}",
                hint=f"filter the frame to one {name} first",
            )
    if "amount_unit" in values and frame.get_column("amount_unit").null_count():
        del values["amount_unit"]
    return Whose(
        **{name: column_values[0] for name, column_values in values.items() if len(column_values) == 1}
    )


def labels(keys: Sequence[str], identities: Sequence[tuple[str | None, ...]]) -> list[str]:
    """Return the shortest names that tell series apart; a single series gets its full name."""
    varying = [place for place in range(len(keys)) if len({whose[place] for whose in identities}) > 1]
    market = [place for place in varying if keys[place] in _NAMES]
    is_enough = len({tuple(whose[place] for place in market) for whose in identities}) == len(identities)
    places = market if market and is_enough else varying
    if len(identities) == 1:
        places = [place for place in range(len(keys)) if keys[place] in _NAMES]
    return [" ".join(whose[place] or "null" for place in places) for whose in identities]


def _width(time: NDArray[np.int64], name: str) -> float:
    """Return the length of the intervals: that of the frame's interval, or the usual time between two rows. [ns]"""
    if interval := interval_named(name):
        return float(interval.seconds * SECOND)
    steps = np.diff(np.unique(time))
    return float(np.median(steps)) if steps.size else float(MINUTE)


def _ends(start: Floats, width: float, *, is_interval: bool) -> Floats:
    """Return until when each value counts: to the end of its interval or, without intervals, to the next value."""
    end = start + width
    if is_interval:
        return end
    following = np.append(start[1:], np.inf)
    return np.where(following - start <= _LATE * width, following, end)
