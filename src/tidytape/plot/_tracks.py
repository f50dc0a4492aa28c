"""Reads the values of several series over time, with the identity of each series and what all series share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.catalogue import Tenor
from tidytape.errors import QueryError
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._model import Line, Mark, Panel
from tidytape.plot._series import Identity, dates_of, interval_named, values_of
from tidytape.plot._series import numbers as numbers_of
from tidytape.schema import schema_of
from tidytape.times import DAY, MINUTE, SECOND

Floats = NDArray[np.float64]

IDENTITY_COLUMNS = schema_of("TRADE_AGG").identity
_MARKET_COLUMNS = ("exchange", "raw_symbol")
_SHORT_LEGEND = 3  # a legend with up to this number of entries has room inside the axes
_LATE = 1.5  # a value that comes later than this number of usual steps leaves a gap
_ROUNDING = 1e-3  # a shorter gap, as a share of the interval, is none: matplotlib dates are rounded
DAYS_BY_TENOR = {tenor.value: float(tenor.days) for tenor in Tenor}


@dataclass(frozen=True, slots=True)
class Track:
    """Values of one series in order of time; each belongs to the interval from ``start`` to ``end``."""

    identity: Mapping[str, str]
    start: Floats  # [matplotlib dates, d]
    end: Floats  # [matplotlib dates, d]
    values: Mapping[str, Floats]

    def line(self, name: str) -> tuple[Floats, Floats]:
        """Return times and values of a line, with one NaN for each gap between intervals."""
        width = self.end[:-1] - self.start[:-1]
        after_gap = np.flatnonzero(self.start[1:] - self.end[:-1] > _ROUNDING * width) + 1
        times = np.insert(self.start, after_gap, self.end[after_gap - 1])
        return times, np.insert(self.values[name], after_gap, np.nan)

    def steps(self, name: str) -> tuple[Floats, Floats]:
        """Return times and values of a line that is horizontal over each interval, for drawing as ``steps-post``."""
        times, values = self.line(name)
        if not times.size:
            return times, values
        return np.append(times, self.end[-1]), np.append(values, values[-1])


@dataclass(frozen=True, slots=True)
class Tracks:
    """Several series: their tracks by label, in order, and the identity that all series share."""

    shared: Identity
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
        """Return when the first interval starts and the last one ends [d]; None without values."""
        spans = [(track.start[0], track.end[-1]) for track in self.by_label.values() if track.start.size]
        return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def tracks(
    frame: object,
    parameter: str,
    names: Iterable[str],
    *,
    optional: Iterable[str] = (),
    by: Iterable[str] = IDENTITY_COLUMNS,
) -> Tracks:
    """Read the values of each series of a frame.

    Parameters
    ----------
    frame : frame, one row per series and ``timestamp``
    parameter : str
        What the caller calls the frame.
    names, optional : iterable of str
        Columns of numbers; an absent ``optional`` one becomes all NaN.
    by : iterable of str
        Columns that tell the series apart; the frame may lack some of them.

    Raises
    ------
    MissingColumnError
        If a column of ``names`` or ``timestamp`` is absent.
    QueryError
        If a column has another type, the frame has several intervals or units, or a series has a time twice.
    """
    points = with_datetimes(read_frame(frame, parameter, ["timestamp", *names]), parameter)
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
    rows_by_identity: dict[tuple[str | None, ...], list[int]] = {}
    for row, identity in enumerate(zip(*columns, strict=True) if keys else [()] * len(points)):
        rows_by_identity.setdefault(identity, []).append(row)
    by_label = {}
    identities = sorted(rows_by_identity, key=lambda identity: tuple(value or "" for value in identity))
    for identity, label in zip(identities, labels(keys, identities), strict=True):
        rows = np.array(rows_by_identity[identity])
        if (np.diff(time[rows]) == 0).any():
            raise QueryError(
                parameter,
                got=f"several rows of {label or 'one series'} at one time",
                expected="one row per series and timestamp",
                hint="filter the frame to one value of each column that tells rows apart",
            )
        start = dates_of(time[rows])
        by_label[label] = Track(
            {name: value for name, value in zip(keys, identity, strict=True) if value is not None},
            start,
            _ends(start, width / DAY, is_interval=bool(interval_named(shared.interval))),
            {name: values[rows] for name, values in numbers.items()},
        )
    return Tracks(shared, by_label)


def show_window(panel: Panel, *several: Tracks) -> None:
    """Show every interval of these series, with a small margin."""
    bounds = [span for series in several if (span := series.bounds())]
    if bounds:
        first, last = min(start for start, _ in bounds), max(end for _, end in bounds)
        panel.show_times(first, last, 0.01 * (last - first))


def line_of(
    x: Floats, y: Floats, *, marker: str | None = None, is_stepped: bool = False, **look: Any
) -> Line:
    """Return a line with gaps, in which a single value between two gaps is a dot.

    With a marker the last value has one, too: it tells lines apart in a print without colours.
    """
    is_known = np.pad(np.isfinite(y), 1)
    is_lone = is_known[1:-1] & ~is_known[:-2] & ~is_known[2:] & (not is_stepped)
    marked = {
        *np.flatnonzero(is_lone).tolist(),
        *(np.flatnonzero(is_known[1:-1])[-1:].tolist() if marker else ()),
    }
    if marked:
        look = (
            {"marker": "o", "size": 3}
            | ({"marker": marker} if marker else {})
            | look
            | {"marked": sorted(marked)}
        )
    return Line(x, y, is_stepped=is_stepped, **look)


def from_above(lines: Iterable[Line]) -> list[Line]:
    """Return lines sorted by their last values, the highest first, as they end beside a legend."""
    return sorted(lines, key=lambda line: float(line.y[np.isfinite(line.y)][-1:].sum()), reverse=True)


def legend_place(handles: Sequence[Mark]) -> Literal["inside", "beside"]:
    """Return where to put a legend: beside the axes if it is so long that inside it would hide lines."""
    return "inside" if len(handles) <= _SHORT_LEGEND else "beside"


def days_of(length: object) -> float:
    """Return the days to expiry, from a number of days or the name of a tenor."""
    try:
        return DAYS_BY_TENOR[str(length)] if str(length) in DAYS_BY_TENOR else float(str(length))
    except ValueError:
        expected = "one of " + ", ".join(DAYS_BY_TENOR)
        raise QueryError("frame", got=f"tenor {length}", expected=expected) from None


def dates(times: nw.Series[Any]) -> Floats:
    """Return times as matplotlib dates; NaN for null. [d]"""
    number = dates_of(times.dt.timestamp("ns").fill_null(0).to_numpy().astype(np.int64))
    return np.where(times.is_null().to_numpy(), np.nan, number)


def _shared(frame: nw.DataFrame[Any], parameter: str, keys: list[str]) -> Identity:
    """Return the identity that all rows share; raise if they have several intervals or units."""
    names = {*keys, "interval", "amount_unit"} & {*IDENTITY_COLUMNS, "amount_unit"} & {*frame.columns}
    values = {name: values_of(frame, name) for name in names}
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
    return Identity(
        **{name: column_values[0] for name, column_values in values.items() if len(column_values) == 1}
    )


def labels(keys: Sequence[str], identities: Sequence[tuple[str | None, ...]]) -> list[str]:
    """Return the shortest names that tell series apart; a single series gets the name of its market."""
    varying = [index for index in range(len(keys)) if len({identity[index] for identity in identities}) > 1]
    market = [index for index in varying if keys[index] in _MARKET_COLUMNS]
    is_enough = len({tuple(identity[index] for index in market) for identity in identities}) == len(
        identities
    )
    used = market if market and is_enough else varying
    if len(identities) == 1:
        used = [index for index in range(len(keys)) if keys[index] in _MARKET_COLUMNS]
    return [" ".join(identity[index] or "null" for index in used) for identity in identities]


def _width(time: NDArray[np.int64], name: str) -> float:
    """Return the length of the interval of this name; without a known name the median time between rows. [ns]"""
    if interval := interval_named(name):
        return float(interval.seconds * SECOND)
    steps = np.diff(np.unique(time))
    return float(np.median(steps)) if steps.size else float(MINUTE)


def _ends(start: Floats, width: float, *, is_interval: bool) -> Floats:
    """Return the end of the time of each value [d]: the end of its interval or, without intervals, the next value."""
    end = start + width
    if is_interval:
        return end
    following = np.append(start[1:], np.inf)
    return np.where(following - start <= _LATE * width, following, end)
