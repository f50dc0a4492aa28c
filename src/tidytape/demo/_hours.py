"""The trading hours and activity of markets, and the outages of exchanges."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from tidytape.demo._market import OUTAGES, START_NS
from tidytape.demo._noise import Booleans, Floats, generator
from tidytape.times import DAY, SECOND

SECONDS = DAY // SECOND
"""Seconds of a day. [s]"""

MINUTES = SECONDS // 60
"""Minutes of a day. [min]"""

_NEW_YORK = ZoneInfo("America/New_York")
_FRIDAY, _SATURDAY, _SUNDAY = 4, 5, 6

# Activity at 0, 2, 4, ... 24 h UTC, relative to the usual: quiet nights, a busy overlap of Europe and America.
_COIN_ACTIVITY = np.array([0.9, 0.8, 0.65, 0.6, 0.8, 1.0, 1.2, 1.7, 1.75, 1.3, 1.0, 0.95, 0.9])
_WEEKEND = 0.6  # activity of a weekend relative to weekdays, for markets that always trade
# The same for metals and currencies, at 0, 2, 4, ... 24 h of New York's clock: London opens at 3, America at 8.
_BANK_ACTIVITY = np.array([0.7, 0.8, 1.3, 1.5, 2.2, 2.0, 1.3, 0.8, 0.7, 0.5, 0.6, 0.7, 0.7])

_OPEN, _CLOSE = 9.5, 16.0  # trading hours of the stock exchange, by New York's clock [h]
_EVENING = 17.0  # end of the trading day of metals and currencies, by New York's clock [h]


def activity(hours: str, day: int) -> Floats:
    """Return the activity of a market in each second of a day, relative to the usual; 0 while it is closed.

    Parameters
    ----------
    hours : {"always", "stocks", "metals", "fx"}
        Coins always trade. Stocks trade from 9:30 to 16:00 in New York from Monday to Friday, currencies from Sunday
        17:00 to Friday 17:00. Metals trade as currencies do, but pause for an hour at 17:00.
    day : int
        Days since the market began.

    Returns
    -------
    array, one value per second [1]
    """
    midnight = datetime.fromtimestamp(START_NS // SECOND, ZoneInfo("UTC")) + timedelta(days=day)
    hour = np.arange(SECONDS) / 3600.0
    if hours == "always":
        is_weekend = midnight.weekday() >= _SATURDAY
        busy: Floats = np.interp(hour, np.arange(13) * 2.0, _COIN_ACTIVITY) * (
            _WEEKEND if is_weekend else 1.0
        )
        return busy
    # Clocks change on Sundays, at 6:00 or 7:00 UTC, while these markets are closed; in the evening they open again.
    noon = (midnight + timedelta(hours=12)).astimezone(_NEW_YORK)
    clock = hour + (noon.utcoffset() or timedelta()) / timedelta(hours=1)
    weekday = np.where(clock < 0, midnight.weekday() - 1, midnight.weekday()) % 7
    clock = clock % 24.0
    if hours == "stocks":
        elapsed_share = (clock - _OPEN) / (_CLOSE - _OPEN)  # of the trading day
        is_open = (elapsed_share >= 0) & (elapsed_share < 1) & (weekday <= _FRIDAY)
        return np.where(is_open, 3.0 + 5.0 * (2.0 * elapsed_share - 1.0) ** 2, 0.0)  # busiest at both ends
    is_open = (
        (weekday < _FRIDAY)
        | ((weekday == _FRIDAY) & (clock < _EVENING))
        | ((weekday == _SUNDAY) & (clock >= _EVENING))
    )
    if hours == "metals":
        is_open &= (clock < _EVENING) | (clock >= _EVENING + 1)
    return np.where(is_open, np.interp(clock, np.arange(13) * 2.0, _BANK_ACTIVITY), 0.0)


def silent(exchange: str, day: int, seed: int) -> Booleans:
    """Return for each minute of a day whether the exchange has an outage, so that none of its data are recorded.

    Parameters
    ----------
    exchange : str
        Name of the exchange.
    day : int
        Days since the market began.
    seed : int
        Seed of the market.

    Returns
    -------
    array of bool, one value per minute
    """
    spans = [
        (outage.minute, outage.minutes)
        for outage in OUTAGES
        if (outage.exchange, outage.day) == (exchange, day)
    ]
    if day > max(outage.day for outage in OUTAGES):
        draws = generator(seed, day, f"outage {exchange}")
        if draws.random() < 0.06:
            spans = [(int(draws.integers(MINUTES - 60)), int(np.clip(2 + draws.exponential(12), 2, 60)))]
    minute = np.arange(MINUTES)
    is_in_span = [(minute >= first) & (minute < first + length) for first, length in spans]
    return np.logical_or.reduce(is_in_span) if is_in_span else np.zeros(MINUTES, dtype=bool)
