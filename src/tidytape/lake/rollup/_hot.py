"""Stored minutes in memory: complete days of a market, from one version of their table.

A service answers small queries all day, and reading a thousand minutes from a file takes ten times as long as copying
them. The key of a day has the version of the table that it was read from, so a day is never older than the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidytape.lake import _delta
from tidytape.lake._recent import Recent, frame_size
from tidytape.lake.rollup._recipes import Ask, within
from tidytape.times import DAY

_LONGEST = (
    8  # days; a longer window is read from the files, so that it removes no days of other markets from memory
)
_MOST_ROWS = 100_000  # rows of a window; minutes of a book or a profile have a row per level


@dataclass(frozen=True, slots=True)
class _Key:
    """Names a day of a market in one version of a table; ``mark`` differs if the table was made anew at its address."""

    uri: str
    mark: str
    version: int
    market: tuple[str, str]
    day: int


DAYS = Recent[_Key, pl.DataFrame](64 * 2**20)
"""The days that this process has in memory."""


def stored_minutes(stored: _delta.Opened, rows: pl.LazyFrame, ask: Ask) -> pl.LazyFrame:
    """Return the stored minutes of a market; days that are not in memory are read completely and remembered.

    Parameters
    ----------
    stored : Opened
        The table of minutes.
    rows : polars.LazyFrame
        The rows of the table, of all markets and times.
    ask : Ask
        The market and the span.

    Returns
    -------
    polars.LazyFrame, one row per key of the table
    """
    days = range(ask.start // DAY, (ask.end - 1) // DAY + 1)
    start, end = days.start * DAY, days.stop * DAY
    market = ask.exchange, ask.raw_symbol
    files = _delta.files(stored, market)
    if len(days) > _LONGEST or sum((file.rows or 0) * file.share(start, end) for file in files) > _MOST_ROWS:
        return within(rows, [ask])
    mark = str(stored.cached("id", lambda: stored.metadata().id))
    keys = [_Key(stored.table_uri, mark, stored.version(), market, day) for day in days]
    frames = {key: frame for key in keys if (frame := DAYS.get(key)) is not None}
    time = pl.col("timestamp")
    if len(frames) < len(keys):
        read_rows = within(rows, [Ask(*market, start, end)]).collect(engine="streaming")
        frames = {key: read_rows.filter(time >= key.day * DAY, time < (key.day + 1) * DAY) for key in keys}
        for key, frame in frames.items():
            DAYS.put(key, frame, size=frame_size(frame))
    return pl.concat([frames[key] for key in keys]).lazy().filter(time >= ask.start, time < ask.end)
