"""Candles of days that start when a market opens: the lake has them on the dates of their sessions."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

import polars as pl

from tidytape.frames._trading import sessions_near
from tidytape.lake._dedupe import written_time
from tidytape.sessions import Session, SessionTimes
from tidytape.times import DAY, SECOND

_REACH = 2**63 // DAY * DAY - 366 * DAY
"""Times farther from the epoch are no times of a market, and sessions near them may have no dates. [ns]"""
_START = pl.col("timestamp")
_IS_OFF = (pl.col("interval") == DAY) & (_START % DAY != 0) & _START.is_between(-_REACH, _REACH)
"""Whether a candle of a day starts at another time than 00:00 UTC."""


def on_utc_days(candles: pl.DataFrame, session: Session) -> pl.DataFrame:
    """Move each candle of a day to 00:00 UTC of its session's date, where the service has a day begin.

    A candle moves if it starts at the open of a session, or at midnight of the session's date in its zone, and the
    session closes by the end of this date in UTC. All others stay, and so does one that starts at 00:00 UTC: its time
    is a date already.

    Parameters
    ----------
    candles : polars.DataFrame, one row per candle
        ``timestamp`` and ``interval`` [ns].
    session : Session

    Returns
    -------
    polars.DataFrame, same rows, in the same order

    Raises
    ------
    TidytapeError
        If the session has a calendar, which needs the extra ``calendars``, and that is not installed.

    Examples
    --------
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> starts = [datetime(2024, 8, 8, 13, 30), datetime(2024, 8, 9, 4), datetime(2024, 8, 10, 4)]
    >>> candles = pl.DataFrame({"timestamp": pl.Series(starts).dt.epoch("ns"), "interval": DAY})
    >>> on_utc_days(candles, stocks)["timestamp"].cast(pl.Datetime("ns")).dt.strftime("%d %H:%M").to_list()
    ['08 00:00', '09 00:00', '10 04:00']
    """
    starts = candles.filter(_IS_OFF)["timestamp"]
    if starts.is_empty():
        return candles
    dates: dict[int, int] = {}
    for times in sessions_near(session, starts.min(), starts.max()):  # type: ignore[arg-type]  # of integers
        # The service knows a candle of a day at the end of the day: it must not hold what came later.
        if times.close <= times.date_start + DAY:
            dates |= dict.fromkeys(_starts(times, session), times.date_start)
    return candles.with_columns(timestamp=pl.when(_IS_OFF).then(_START.replace(dates)).otherwise(_START))


def with_allowed_starts(candles: pl.DataFrame, session: Session) -> pl.DataFrame:
    """Add to the ``reason`` of each candle of a day that `on_utc_days` did not move when such a candle may start.

    Examples
    --------
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> candles = pl.DataFrame({"timestamp": [1_723_125_600 * SECOND], "interval": [DAY], "reason": ["no start"]})
    >>> print(with_allowed_starts(candles, stocks)["reason"].item())
    no candle of its length starts at 2024-08-08T14:00:00Z: that of the nearest session, of 2024-08-08, starts at its \
open, 2024-08-08T13:30:00Z, or at midnight in America/New_York, 2024-08-08T04:00:00Z, or at 00:00 UTC of its date
    """
    starts = candles.filter(_IS_OFF)["timestamp"].head(100)  # a report shows fewer
    reason = _START.replace_strict(
        {start: _reason(start, session) for start in starts}, default=None, return_dtype=pl.String
    )
    return candles.with_columns(pl.coalesce(pl.when(_IS_OFF).then(reason), "reason").alias("reason"))


def _reason(start: int, session: Session) -> str | None:
    """Return why no candle of a day starts at a time, and when one does; None far from all sessions."""
    nearby = sessions_near(session, start, start, days=30)
    if not nearby:
        return None
    times = min(nearby, key=lambda times: (start not in _starts(times, session), abs(times.open - start)))
    opens, closes, midnight = map(written_time, (times.open, times.close, _starts(times, session)[1]))
    return f"no candle of its length starts at {written_time(start)}: " + (
        f"that of the nearest session, of {times.session_date}, starts at its open, {opens}, or at midnight in "
        f"{session.zone}, {midnight}, or at 00:00 UTC of its date"
        if times.close <= times.date_start + DAY
        else f"the session of {times.session_date} closes at {closes}, after the end of this date in UTC, when the "
        "lake's candle of a day counts as known; ingest minutes or hours, or state the regular hours"
    )


def _starts(times: SessionTimes, session: Session) -> tuple[int, int]:
    """Return the open of a session, and midnight of its date in its zone. [ns since the epoch]"""
    midnight = datetime.combine(times.session_date, time(), ZoneInfo(session.zone))
    return times.open, int(midnight.timestamp()) * SECOND
