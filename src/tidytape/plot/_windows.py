"""Checks whether a profile covers the time of the candles beside it."""

from __future__ import annotations

from datetime import tzinfo

import numpy as np
from matplotlib.dates import date2num, num2date

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import read_frame, with_datetimes
from tidytape.plot._series import Identity, VolumeSeries, interval_named

_SECOND = 1 / 86_400  # [d]


def time_of_profile(
    candles: VolumeSeries, profile: object, identity: Identity, timezone: str | tzinfo
) -> str:
    """Return a note with the time of a profile; empty if it is unknown, or the same as that of the candles.

    Raises
    ------
    QueryError
        If candles with a volume lie outside the time of the profile.
    """
    rows, interval = read_frame(profile, "profile"), interval_named(identity.interval)
    traded_starts = candles.start[candles.volume > 0]
    if "timestamp" not in rows.columns or interval is None or not traded_starts.size:
        return ""
    times = with_datetimes(rows, "profile").get_column("timestamp").drop_nulls()
    if not len(times):
        return ""
    ends = np.array([times.dt.timestamp("ns").min(), times.dt.timestamp("ns").max()], dtype="datetime64[ns]")
    first, last = date2num(ends) + np.array([0.0, interval.seconds * _SECOND])  # type: ignore[no-untyped-call]
    zone, name = style.zone(timezone)
    texts = [f"{num2date(date, zone):%Y-%m-%d %H:%M}" for date in (first, last)]  # type: ignore[no-untyped-call]
    period = f"{texts[0]} to {texts[1]} {name}"
    start, end = candles.start[0], candles.start[-1] + candles.width
    if traded_starts[0] < first - _SECOND or traded_starts[-1] + candles.width > last + _SECOND:
        raise QueryError(
            "profile",
            got=f"a profile of {period}",
            expected="one of all the candles that have a volume",
            hint="a first interval that began before start is left out: let start be where an interval of the profile "
            "begins, or leave out the candles that are not in it",
        )
    return f"Profile: {period}" if first < start - _SECOND or last > end + _SECOND else ""
