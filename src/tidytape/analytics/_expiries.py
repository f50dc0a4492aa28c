"""When contracts expire of which a day is known: at 08:00 UTC of it."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from tidytape.times import HOUR

EXPIRES: Final = 8 * HOUR
"""Time of the day. [ns]"""


def is_day(moment: object) -> bool:
    """Return whether a moment is told as a day alone.

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
