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
    """Return the length of each row's interval, as given or as the column ``interval`` says. [ns]

    Raises
    ------
    QueryError
        If neither says it, or both do.
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
    """Return when each row's interval ends; of a frame that says no length, its time itself. [ns]"""
    start = nw.col("timestamp")
    says_none = given is None and "interval" not in table.names
    return start if says_none else start + cast("nw.Expr", length(table, given))


SESSION_END: Final = "period_end"
"""Column that says when a session ends."""

_OF_BLOCKS: Final = frozenset(
    {"block_ids", "block_id", "block_size_minutes", "tpo_count", "first_touch_block"}
)


def knows_length(names: Collection[str]) -> bool:
    """Return whether rows with these columns, if they have an interval, last as long as it or say when they end.

    Sessions of blocks have an interval that is not their length: a week's may be a day.

    Examples
    --------
    >>> knows_length(["timestamp", "interval", "price", "volume"])
    True
    >>> knows_length(["timestamp", "interval", "price", "tpo_count"])
    False
    """
    return SESSION_END in names or _OF_BLOCKS.isdisjoint(names)


EXPIRES: Final = 8 * HOUR
"""Time of the day at which a contract expires whose expiry is a date: 08:00 UTC. [ns]"""


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
