"""Readers of single values of a query. They turn what a user writes into the form that the service knows.

Each function takes the value and the parameter's name, and raises QueryError with both. So all queries report the same
mistake in the same words.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from tidytape.catalogue import Interval
from tidytape.errors import QueryError, nearest
from tidytape.times import interval_hint

Names = str | Iterable[str] | None
"""One name, several names, or None."""

TimeLike = int | float | str | date | datetime | Any
"""Epoch seconds, a datetime, a date, an ISO 8601 string, or a time of numpy or pandas. Without a zone it is UTC."""

LAST_SECOND = 2**32
"""First second that the service's 32-bit timestamps cannot hold. [s]"""

DURATION = r"^0{0,8}[1-9]\d{0,8}(ms|s|m|h|d)$"
"""Pattern of a duration such as ``8h``; a duration of 0 does not match."""

MOST_DIGITS = 15
"""Largest number of significant digits of a decimal: as many as a double holds exactly."""

PRINTABLE = r"^[^\S\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
"""Pattern of the name of an exchange or a symbol: any text that is not blank and has no control characters."""

MAX_TEXT = 256
"""Largest number of characters of a name."""

TOKEN = r"^[\w.~=+/-]{1,8192}$"
"""Pattern of a resume token, which is opaque: characters of base64 and of signed tokens, and short enough for a URL."""

SMALLEST, LARGEST = "1e-12", "1e12"
"""Bounds that keep a decimal, and a price divided by it, well inside what a double holds exactly."""

_INT64 = 2**63
_INTEGER = re.compile(r"[+-]?\d{1,19}\Z", re.ASCII)
_DECIMAL = re.compile(r"\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?\Z", re.ASCII)
_DATE_DIGITS = re.compile(r"\d{4}(\d{2}){0,2}\Z", re.ASCII)
_FINER_THAN_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)
_DURATION = re.compile(DURATION, re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PRINTABLE = re.compile(PRINTABLE)
_TOKEN = re.compile(TOKEN, re.ASCII)
_SURROGATE = re.compile(r"[\ud800-\udfff]")

E = TypeVar("E", bound=StrEnum)


def choice(value: object, kind: type[E], parameter: str, code: str = "INVALID_PARAMS") -> E:
    """Read a member of an enumeration from its value, its name or its alias, in any case.

    Examples
    --------
    >>> from tidytape.catalogue import Interval
    >>> choice("5m", Interval, parameter="interval")
    <Interval.FIVE_MINUTES: 'FIVE_MINUTES'>
    """
    if isinstance(value, kind):
        return value
    aliases = {member: getattr(member, "alias", member.value) for member in kind}
    spellings = {
        spelling.casefold(): member
        for member, alias in aliases.items()
        for spelling in (alias, member.name, member.value)
    }
    word = value.strip() if isinstance(value, str) else ""
    # Other APIs write a month as "1M"; reading it as a minute would be silently wrong.
    if kind is Interval and re.fullmatch(r"\d+M", word):
        word = ""
    if word.casefold() in spellings:
        return spellings[word.casefold()]
    close, hint = nearest(word, spellings), None
    if kind is Interval and (of_length := interval_hint(value)):
        hint = of_length
    elif close:
        nearest_member = spellings[close]
        is_value = close == nearest_member.value.casefold()
        hint = f"did you mean {nearest_member.value if is_value else aliases[nearest_member]!r}?"
    allowed = [m.value if m.value == alias else f"{m.value} ({alias})" for m, alias in aliases.items()]
    raise QueryError(parameter, got=value, expected="one of " + ", ".join(allowed), hint=hint, code=code)


def text(value: object, parameter: str, code: str = "INVALID_PARAMS") -> str:
    """Read a name, a non-empty printable string; spaces around it are allowed, and are stripped."""
    short = value if isinstance(value, str) and len(value) <= MAX_TEXT else ""
    if not _PRINTABLE.fullmatch(short) or _SURROGATE.search(short):
        raise QueryError(
            parameter,
            got=value,
            expected=f"a non-empty printable string of at most {MAX_TEXT} characters",
            code=code,
        )
    return str(short.strip())


def token(value: object, parameter: str) -> str:
    """Read a resume token, and return it unchanged."""
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise QueryError(parameter, got=value, expected="the token of a batch of a stream, as it came")
    return value


def many(value: object, parameter: str) -> tuple[object, ...]:
    """Read one value or several values into a tuple, in their order."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    if isinstance(value, set | frozenset):
        # The order of a set differs between processes, so sort it.
        return tuple(sorted(value, key=repr))
    try:
        if not isinstance(value, dict):
            return tuple(value)
    except TypeError:  # an array without a dimension has __iter__, but cannot be iterated
        pass
    raise QueryError(parameter, got=value, expected="one value or a list of values")


def flag(value: object, parameter: str) -> bool:
    """Read a bool: ``True``, ``False``, or the words ``true`` and ``false``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().casefold() in {"true", "false", "1", "0"}:
        return value.strip().casefold() in {"true", "1"}
    raise QueryError(parameter, got=value, expected="true or false")


def whole_number(value: object, parameter: str, *, low: int, high: int = _INT64 - 1) -> int:
    """Read an integer between ``low`` and ``high``, both included; a float only if it is whole."""
    number: int | None = None
    if isinstance(value, str):
        number = int(value) if _INTEGER.match(value.strip()) else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    else:
        number = _index(value)
    if number is None or not low <= number <= high:
        raise QueryError(parameter, got=value, expected=f"a whole number from {low} to {high}")
    return number


def _index(value: object) -> int | None:
    """Return an integer as int, numpy's included; None for a bool and for every other value."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def decimal_number(value: object, parameter: str) -> Decimal:
    """Read a positive decimal exactly as it is written: ``0.1`` is one tenth, not the nearest binary fraction."""
    number: Decimal | None = None
    written = value.strip() if isinstance(value, str) else str(_index(value))
    if isinstance(value, Decimal):
        number = value
    elif isinstance(value, float):
        number = Decimal(repr(float(value)))
    elif _DECIMAL.match(written):
        number = Decimal(written)
    if number is None or not number.is_finite() or not Decimal(SMALLEST) <= number <= Decimal(LARGEST):
        raise QueryError(parameter, got=value, expected=f"a number from {SMALLEST} to {LARGEST}")
    number = number.normalize()
    if len(number.as_tuple().digits) > MOST_DIGITS:
        raise QueryError(
            parameter, got=value, expected=f"a number of at most {MOST_DIGITS} significant digits"
        )
    return number


def milliseconds(value: object, parameter: str) -> int:
    """Read a duration: an integer of milliseconds, a timedelta, or a text such as ``8h``. [ms]"""
    count: object = value
    if isinstance(value, timedelta):
        count = value / timedelta(milliseconds=1)
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        number, unit = match[0].removesuffix(match[1]), match[1]
        count = int(number) * _MILLISECONDS[unit]
    # An integer below a second is a number of hours or minutes; the wire has milliseconds as text.
    least, hint = (1, None) if isinstance(value, str | timedelta) else (1_000, f"of hours, write '{value}h'")
    try:
        return whole_number(count, parameter=parameter, low=least)
    except QueryError:
        expected = "a positive duration: milliseconds as an integer, a timedelta, or a string such as '8h'"
        hint = hint if _index(value) else None
        raise QueryError(parameter, got=value, expected=expected, hint=hint) from None


def epoch_seconds(value: TimeLike, parameter: str) -> int:
    """Read a time as whole epoch seconds in UTC; a time without a zone is UTC.

    Examples
    --------
    >>> epoch_seconds("2024-08-08T23:54:00Z", parameter="start")
    1723161240
    >>> epoch_seconds("2024-08-09", parameter="end")
    1723161600
    """
    parsed_time = _parsed_time(value, parameter)
    if isinstance(parsed_time, datetime):
        if parsed_time.tzinfo is None:
            parsed_time = parsed_time.replace(tzinfo=UTC)
        since_epoch = parsed_time - datetime(1970, 1, 1, tzinfo=UTC)
        if since_epoch % timedelta(seconds=1) != timedelta(0) or getattr(value, "nanosecond", 0) != 0:
            raise QueryError(parameter, got=value, expected="a whole second", hint=_SECONDS)
        seconds = since_epoch // timedelta(seconds=1)
    else:
        seconds = parsed_time
    if not 0 <= seconds <= LAST_SECOND:
        hint = None
        if seconds > LAST_SECOND:
            hint = "epoch times are in seconds; this looks like milliseconds or finer"
        raise QueryError(parameter, got=value, expected="a time from 1970-01-01 to 2106-02-07 UTC", hint=hint)
    return seconds


def written_time(second: int) -> str:
    """Return an epoch second as a text of ISO 8601.

    Examples
    --------
    >>> written_time(1723161240)
    '2024-08-08T23:54:00Z'
    """
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


EXPECTED_TIME = "epoch seconds, a datetime, a date or an ISO 8601 string"
"""What an error expects instead of a wrong time."""

_SECONDS = "the service counts in seconds"


def _parsed_time(value: TimeLike, parameter: str) -> int | datetime:
    """Return a time as epoch seconds or as a datetime."""
    if isinstance(value, str):
        return _parsed_text(value, parameter)
    if getattr(getattr(value, "dtype", None), "kind", "") == "M" and getattr(value, "ndim", None) == 0:
        # numpy.datetime64, recognised by its attributes, so that numpy need not be imported here.
        return _numpy_seconds(value, parameter)
    if isinstance(value, datetime) and not _is_nat(value):
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), tzinfo=UTC)
    if isinstance(value, float) and math.isfinite(value):
        if not value.is_integer():
            raise QueryError(parameter, got=value, expected="a whole second", hint=_SECONDS)
        return int(value)
    second = _index(value)
    if second is None:
        raise QueryError(parameter, got=value, expected=EXPECTED_TIME)
    return second


def _is_nat(value: object) -> bool:
    """Return whether the value is NaT, the only timestamp unequal to itself."""
    return bool(value != value)  # noqa: PLR0124


def _parsed_text(value: str, parameter: str) -> int | datetime:
    trimmed = value.strip()
    if _DATE_DIGITS.match(trimmed):
        # The text can be a date or a number of seconds.
        raise QueryError(
            parameter,
            got=value,
            expected=EXPECTED_TIME,
            hint="write a date with dashes, or seconds as a number",
        )
    if _INTEGER.match(trimmed):
        return int(trimmed)
    if _FINER_THAN_MICROSECONDS.search(trimmed):
        raise QueryError(parameter, got=value, expected="a whole second", hint=_SECONDS)
    try:
        return datetime.fromisoformat(trimmed)
    except ValueError:
        raise QueryError(
            parameter, got=value, expected=EXPECTED_TIME, hint="for example '2024-08-09T00:00:00Z'"
        ) from None


def _numpy_seconds(value: Any, parameter: str) -> int:
    if _is_nat(value):
        raise QueryError(parameter, got=value, expected=EXPECTED_TIME)
    seconds = value.astype("datetime64[s]")
    if seconds != value:
        raise QueryError(parameter, got=value, expected="a whole second", hint=_SECONDS)
    return int(seconds.astype("int64"))


def window_hint(seconds: int) -> str:
    """Return the hint of an error that says how long a window may be, in ``seconds``.

    Examples
    --------
    >>> window_hint(900)
    'a window of 900 seconds at most'
    """
    return f"a window of {seconds} seconds at most"


def hinted_window(message: str) -> int | None:
    """Return how long a window may be by the `window_hint` in a message; None if the message has no such hint. [s]

    Examples
    --------
    >>> hinted_window("period: got 799,918 trades, expected ...; " + window_hint(900))
    900
    """
    length = re.search(r"a window of (\d{1,15}) seconds at most", message)
    return int(length[1]) if length else None
