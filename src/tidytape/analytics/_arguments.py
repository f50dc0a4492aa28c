"""Checks of arguments that the functions of analytics share, with one error message each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from math import inf, isfinite
from numbers import Integral, Real
from typing import Literal, TypeGuard, get_args

import numpy as np

from tidytape.errors import QueryError, nearest
from tidytape.frames._door import as_list
from tidytape.frames._kinds import Kind
from tidytape.query import _values as values
from tidytape.times import INTERVALS, SECOND, interval_hint


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; a boolean is not."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return False
    try:
        return isfinite(float(value))
    except (OverflowError, ValueError):  # too large for a float, or a decimal that signals
        return False


def number(parameter: str, argument: object, *, least: float | None = None) -> float:
    """Return a finite number, at least ``least`` if given; raise QueryError for anything else."""
    more = "" if least is None else f", {least:g} or more"
    return _between(parameter, argument, f"a finite number{more}", least=-inf if least is None else least)


def _between(
    parameter: str,
    argument: object,
    expected: str,
    *,
    least: float = -inf,
    above: float = -inf,
    most: float = inf,
    hint: str | None = None,
) -> float:
    """Return a finite number within the limits; raise QueryError, which says ``expected``, for anything else."""
    if not is_number(argument) or not least <= argument <= most or not float(argument) > above:
        raise QueryError(parameter, got=argument, expected=expected, hint=hint)
    return float(argument)


_NO_TIME = frozenset({"0ms", "0s", "0m", "0h", "0d"})


def nanoseconds(parameter: str, argument: object) -> int:
    """Convert a timedelta of 0 or more, or a text such as ``8h`` or ``0s``, to nanoseconds; refuse anything else."""
    if isinstance(argument, str):
        return 0 if argument.strip() in _NO_TIME else duration(parameter, argument)
    if not isinstance(argument, timedelta) or argument < timedelta():
        raise QueryError(parameter, got=argument, expected="a timedelta, 0 or more, or a string such as '8h'")
    return _in_reach(parameter, argument, argument // timedelta(microseconds=1) * 1_000)


def _in_reach(parameter: str, argument: object, length: int) -> int:
    """Return a length [ns]; raise QueryError if a time plus this length would overflow an int64."""
    if length > 2**61:
        raise QueryError(parameter, got=argument, expected="at most 73 years")
    return length


def one_of(parameter: str, argument: object, choices: Iterable[str]) -> None:
    """Raise QueryError unless the argument is one of the choices; the hint names the nearest choice."""
    choices = tuple(choices)
    if not isinstance(argument, str) or argument not in choices:
        close = nearest(argument, choices) if isinstance(argument, str) else None
        hint = f"did you mean {close!r}?" if close else None
        raise QueryError(
            parameter, got=argument, expected=f"one of {', '.join(map(repr, choices))}", hint=hint
        )


VolatilityUnit = Literal["percent", "decimal"]
"""The unit of a column of volatilities: 45.0 is 45 percent, 0.45 as decimal."""


def volatility_kind(unit: VolatilityUnit | None) -> Kind:
    """Return what a column of volatilities is; raise QueryError for a unit that is none."""
    if unit is None:
        return Kind.VOLATILITY
    one_of("volatility_unit", unit, get_args(VolatilityUnit))
    return Kind.NUMBER if unit == "percent" else Kind.DECIMAL_VOLATILITY


def positive(parameter: str, argument: object) -> float:
    """Return a finite number above 0; raise QueryError if it is anything else."""
    return _between(parameter, argument, "a finite number above 0", above=0)


def share(parameter: str, argument: object) -> float:
    """Return a number above 0 and at most 1; raise QueryError if it is anything else."""
    hint = (
        f"{argument} percent is {float(argument) / 100:g}"
        if is_number(argument) and 1 < argument <= 100
        else None
    )
    return _between(parameter, argument, "a number above 0 and at most 1", above=0, most=1, hint=hint)


def integer(parameter: str, argument: object, *, least: int = 1, most: int = 1_000_000_000) -> int:
    """Return a whole number from ``least`` to ``most``; raise QueryError if it is anything else."""
    if isinstance(argument, bool) or not isinstance(argument, Integral) or not least <= int(argument) <= most:
        raise QueryError(parameter, got=argument, expected=f"a whole number from {least} to {most}")
    return int(argument)


def flag(parameter: str, argument: object) -> bool:
    """Return a boolean of Python or numpy as bool; raise QueryError for anything else."""
    if not isinstance(argument, bool | np.bool):
        raise QueryError(parameter, got=argument, expected="True or False")
    return bool(argument)


def duration(parameter: str, argument: object) -> int:
    """Convert a timedelta or a text such as ``8h`` to nanoseconds; raise QueryError for anything else.

    A number without a unit is refused: a caller might mean 8 hours where a query would read 8 milliseconds.
    """
    has_unit = isinstance(argument, timedelta) or (
        isinstance(argument, str) and argument.strip()[-1:].isalpha()
    )
    unit = f"{argument}h" if isinstance(argument, int) and not isinstance(argument, bool) else "8h"
    hint = interval_hint(argument) if has_unit else f"of hours, write {unit!r}"
    expected = "a positive duration with its unit: a timedelta, or a string such as '8h'"
    try:
        milliseconds = values.milliseconds(argument if has_unit else None, parameter=parameter)
    except QueryError:
        raise QueryError(parameter, got=argument, expected=expected, hint=hint) from None
    return _in_reach(parameter, argument, milliseconds * 1_000_000)


def length(parameter: str, argument: object) -> int:
    """Convert the name of an interval, or a duration, to nanoseconds; raise QueryError for anything else.

    Examples
    --------
    >>> length("session", "1w") // SECOND, length("session", "8h") // SECOND
    (604800, 28800)
    """
    interval = INTERVALS.get(argument) if isinstance(argument, str) else None
    return duration(parameter, argument) if interval is None else interval.seconds * SECOND


def column(parameter: str, argument: object, *, reserved: Iterable[str] = ()) -> str:
    """Return the name of a column; raise QueryError if the name is not a string, or is in ``reserved``."""
    if not isinstance(argument, str):
        raise QueryError(parameter, got=argument, expected="the name of a column")
    return columns(parameter, argument, reserved=reserved)[0]


def columns(parameter: str, argument: str | Iterable[str], *, reserved: Iterable[str] = ()) -> list[str]:
    """Return column names as a list; raise QueryError if the list is empty, repeats a name or has a reserved name."""
    names = as_list(argument)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise QueryError(parameter, got=argument, expected="names of columns, at least one, each once")
    if not set(names).isdisjoint(reserved := tuple(reserved)):
        raise QueryError(
            parameter,
            got=argument,
            expected=f"none of {', '.join(map(repr, reserved))}, which are columns of the result",
        )
    return names
