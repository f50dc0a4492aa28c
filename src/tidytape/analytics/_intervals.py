"""How long the intervals and sessions of a frame's rows are, when they end, and when contracts expire."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import Any, Final, cast

import narwhals.stable.v2 as nw

from tidytape.analytics import _arguments as arguments
from tidytape.errors import QueryError
from tidytape.frames.buckets import length_of
from tidytape.frames.table import Table
from tidytape.times import HOUR


def length(table: Table[Any], given: str | timedelta | None) -> Any:
    """Return the length of each row's interval: ``given``, or from the column ``interval``. [ns]

    Raises
    ------
    QueryError
        If there is neither a length nor the column, or both.
    """
    if given is None and "interval" in table.names:
        known = length_of(nw.col("interval"))
        return nw.when(known > 0).then(known)
    if given is None:
        raise QueryError("interval", got=None, expected="the length of the rows' intervals, e.g. '1h'")
    if "interval" in table.names:
        raise QueryError("interval", got=given, expected="nothing: the frame's column interval says it")
    return arguments.duration("interval", given)


def ends(table: Table[Any], given: str | timedelta | None) -> nw.Expr:
    """Return the end of each row's interval, or its ``timestamp`` if there is no length and no ``interval``. [ns]"""
    start = nw.col("timestamp")
    says_none = given is None and "interval" not in table.names
    return start if says_none else start + cast("nw.Expr", length(table, given))


SESSION_END: Final = "period_end"
"""Column that says when a session ends."""

_OF_BLOCKS: Final = frozenset(
    {"block_ids", "block_id", "block_size_minutes", "tpo_count", "first_touch_block"}
)


def knows_length(names: Collection[str]) -> bool:
    """Return whether these columns tell how long a row lasts: its ``interval``, or until `SESSION_END`.

    A session of time blocks does not last its ``interval``: a session of a week may have the interval of a day.

    Examples
    --------
    >>> knows_length(["timestamp", "interval", "price", "volume"])
    True
    >>> knows_length(["timestamp", "interval", "price", "tpo_count"])
    False
    """
    return SESSION_END in names or _OF_BLOCKS.isdisjoint(names)


EXPIRES: Final = 8 * HOUR
"""Time of the day at which a contract expires if its expiry is only a date: 08:00 UTC. [ns]"""


def is_day(moment: object) -> bool:
    """Return whether a moment is a date without a time of the day.

    Examples
    --------
    >>> is_day("2024-08-30"), is_day(date(2024, 8, 30)), is_day("2024-08-30T08:00Z"), is_day(1724976000)
    (True, True, False, False)
    """
    if not isinstance(moment, str):
        return isinstance(moment, date) and not isinstance(moment, datetime)
    try:
        date.fromisoformat(moment.strip())
    except ValueError:
        return False
    return True
