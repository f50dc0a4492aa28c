"""Candles of days that start when a market opens: the lake has them on the dates of their sessions."""

from __future__ import annotations

from datetime import date, datetime, time
from zoneinfo import ZoneInfo

import polars as pl

from tidytape.frames._trading import sessions_near
from tidytape.sessions import Session
from tidytape.times import DAY, SECOND

_REACH = 2**63 // DAY * DAY - 366 * DAY
"""Times farther from the epoch are no times of a market, and sessions near them may have no dates. [ns]"""


def on_session_dates(candles: pl.DataFrame, session: Session) -> pl.DataFrame:
    """Move candles of days to the dates of their sessions, from 00:00 UTC, as the service has days.

    A candle moves if it starts at the open of a session, or at midnight of the session's date in its zone. All others
    stay, and so does one that starts at 00:00 UTC: its time is a date already.

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
    >>> on_session_dates(candles, stocks)["timestamp"].cast(pl.Datetime("ns")).dt.strftime("%d %H:%M").to_list()
    ['08 00:00', '09 00:00', '10 04:00']
    """
    start = pl.col("timestamp")
    may_move = (pl.col("interval") == DAY) & (start % DAY != 0) & start.is_between(-_REACH, _REACH)
    starts = candles.filter(may_move)["timestamp"]
    if starts.is_empty():
        return candles
    dates: dict[int, int] = {}
    zone = ZoneInfo(session.zone)
    for times in sessions_near(session, starts.min(), starts.max()):  # type: ignore[arg-type]  # of integers
        day = times.session_date
        midnight = int(datetime.combine(day, time(), zone).timestamp()) * SECOND
        dates |= dict.fromkeys((times.open, midnight), (day - date(1970, 1, 1)).days * DAY)
    return candles.with_columns(timestamp=pl.when(may_move).then(start.replace(dates)).otherwise(start))
