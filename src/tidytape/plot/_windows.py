"""Checks whether candles and the profile beside them cover the same time."""

from __future__ import annotations

from datetime import tzinfo

import numpy as np
from matplotlib.dates import date2num, num2date

from tidytape.errors import QueryError
from tidytape.plot import _style as style
from tidytape.plot._frame import opened, timed
from tidytape.plot._series import VolumeSeries, Whose, interval_named

_SECOND = 1 / 86_400  # [d]


def time_of_profile(candles: VolumeSeries, profile: object, whose: Whose, timezone: str | tzinfo) -> str:
    """Return the note about the time of a profile beside candles; empty if both cover the same time.

    Raises
    ------
    QueryError
        If candles with a volume lie outside the time of the profile.
    """
    rows, interval = opened(profile, "profile"), interval_named(whose.interval)
    traded = candles.start[candles.volume > 0]
    if "timestamp" not in rows.columns or interval is None or not traded.size:
        return ""
    times = timed(rows, "profile").get_column("timestamp").drop_nulls()
    if not len(times):
        return ""
    ends = np.array([times.dt.timestamp("ns").min(), times.dt.timestamp("ns").max()], dtype="datetime64[ns]")
    first, last = date2num(ends) + np.array([0.0, interval.seconds * _SECOND])  # type: ignore[no-untyped-call]
    where, name = style.zone(timezone)
    written = [f"{num2date(moment, where):%Y-%m-%d %H:%M}" for moment in (first, last)]  # type: ignore[no-untyped-call]
    period = f"{written[0]} to {written[1]} {name}"
    start, end = candles.start[0], candles.start[-1] + candles.width
    if traded[0] < first - _SECOND or traded[-1] + candles.width > last + _SECOND:
        raise QueryError(
            "profile",
            got=f"a profile of {period}",
            expected="one of all the candles that have a volume",
            hint="a first interval that began before start is left out: let start be where an interval of the profile "
            "begins, or leave out the candles that are not in it",
        )
    return f"Profile: {period}" if first < start - _SECOND or last > end + _SECOND else ""
