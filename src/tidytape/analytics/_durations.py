"""How long an interval, a session or a pause is, as a caller says it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.frames.buckets import SECOND, interval_of
from tidytape.query.values import milliseconds

__all__ = ["nanoseconds"]

_NAMES: Final = frozenset(name for interval in Interval for name in (interval.value, interval.alias))


def nanoseconds(value: object, *, parameter: str = "interval") -> int:
    """Read a length: a name or alias of the catalogue's intervals, or any other duration. [ns]

    Examples
    --------
    >>> nanoseconds("1w") // SECOND, nanoseconds("8h") // SECOND, nanoseconds(timedelta(seconds=5)) // SECOND
    (604800, 28800, 5)
    """
    try:
        if isinstance(value, str) and value in _NAMES:
            return interval_of(value).seconds * SECOND
        if isinstance(value, str | timedelta):
            return milliseconds(value, parameter=parameter) * 1_000_000
    except QueryError:
        pass
    expected = "an interval such as '1h' or '1w', or a duration such as '8h' or a timedelta"
    raise QueryError(parameter, got=value, expected=expected)
