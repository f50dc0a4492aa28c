"""Checks of arguments that the functions of analytics share, with one error message each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from math import inf, isfinite
from numbers import Integral, Real
from typing import TypeGuard

import numpy as np

from tidytape.errors import QueryError, nearest
from tidytape.frames._door import as_list
from tidytape.query import _values as values
from tidytape.times import INTERVALS, SECOND


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number, and no boolean."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return False
    try:
        return isfinite(float(value))
    except (OverflowError, ValueError):  # too large for a float, or a decimal that signals
        return False


def number(parameter: str, got: object, *, least: float | None = None) -> float:
    """Return a finite number of at least ``least``, if that is given; raise QueryError for anything else."""
    more = "" if least is None else f", {least:g} or more"
    return _between(parameter, got, f"a finite number{more}", least=-inf if least is None else least)


def _between(
    parameter: str, got: object, expected: str, *, least: float = -inf, above: float = -inf, most: float = inf
) -> float:
    """Return a finite number between two limits; raise QueryError, with what is expected, for anything else."""
    if not is_number(got) or not least <= got <= most or not float(got) > above:
        raise QueryError(parameter, got=got, expected=expected)
    return float(got)


def nanoseconds(parameter: str, got: object) -> int:
    """Convert a timedelta of at least 0, or a text such as ``8h``, to nanoseconds; else raise QueryError."""
    if isinstance(got, str):
        return duration(parameter, got)
    if not isinstance(got, timedelta) or got < timedelta():
        raise QueryError(parameter, got=got, expected="a timedelta, 0 or more, or a string such as '8h'")
    return _in_reach(parameter, got, got // timedelta(microseconds=1) * 1_000)


def _in_reach(parameter: str, got: object, length: int) -> int:
    """Return a length [ns]; raise QueryError if a time plus this length would overflow an int64."""
    if length > 2**61:
        raise QueryError(parameter, got=got, expected="at most 73 years")
    return length


def one_of(parameter: str, got: object, known: Iterable[str]) -> None:
    """Raise QueryError unless the value is one of the known values; the hint names the nearest of them."""
    known = tuple(known)
    if not isinstance(got, str) or got not in known:
        close = nearest(got, known) if isinstance(got, str) else None
        hint = f"did you mean {close!r}?" if close else None
        raise QueryError(parameter, got=got, expected=f"one of {', '.join(map(repr, known))}", hint=hint)


def positive(parameter: str, got: object) -> float:
    """Return a finite number above 0; raise QueryError if it is anything else."""
    return _between(parameter, got, "a finite number above 0", above=0)


def share(parameter: str, got: object) -> float:
    """Return a number above 0 and at most 1; raise QueryError if it is anything else."""
    return _between(parameter, got, "a number above 0 and at most 1", above=0, most=1)


def whole(parameter: str, got: object, *, least: int = 1, most: int = 1_000_000_000) -> int:
    """Return a whole number from ``least`` to ``most``; raise QueryError if it is anything else."""
    if isinstance(got, bool) or not isinstance(got, Integral) or not least <= int(got) <= most:
        raise QueryError(parameter, got=got, expected=f"a whole number from {least} to {most}")
    return int(got)


def flag(parameter: str, got: object) -> bool:
    """Return a boolean, numpy's too; raise QueryError if it is anything else."""
    if not isinstance(got, bool | np.bool):
        raise QueryError(parameter, got=got, expected="True or False")
    return bool(got)


def duration(parameter: str, got: object) -> int:
    """Convert a timedelta or a text such as ``8h`` to nanoseconds; raise QueryError for anything else.

    A bare number is refused: a caller might mean 8 hours, where a query would read 8 milliseconds.
    """
    if not isinstance(got, str | timedelta) or (isinstance(got, str) and not got.strip()[-1:].isalpha()):
        unit = f"{got}h" if isinstance(got, int) and not isinstance(got, bool) else "8h"
        raise QueryError(
            parameter,
            got=got,
            expected="a positive duration with its unit: a timedelta, or a string such as '8h'",
            hint=f"of hours, write {unit!r}",
        )
    return _in_reach(parameter, got, values.milliseconds(got, parameter=parameter) * 1_000_000)


def length(parameter: str, got: object) -> int:
    """Convert the name of an interval, or a duration, to nanoseconds; raise QueryError for anything else.

    Examples
    --------
    >>> length("session", "1w") // SECOND, length("session", "8h") // SECOND
    (604800, 28800)
    """
    known = INTERVALS.get(got) if isinstance(got, str) else None
    return duration(parameter, got) if known is None else known.seconds * SECOND


def column(parameter: str, got: object, *, taken: Iterable[str] = ()) -> str:
    """Return the name of a column; raise QueryError if it is not a string, or if the result has such a column."""
    if not isinstance(got, str):
        raise QueryError(parameter, got=got, expected="the name of a column")
    return columns(parameter, got, taken=taken)[0]


def columns(parameter: str, got: str | Iterable[str], *, taken: Iterable[str] = ()) -> list[str]:
    """Return column names as a list; raise QueryError if it is empty, repeats a name, or has one in ``taken``."""
    names = as_list(got)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise QueryError(parameter, got=got, expected="names of columns, at least one, each once")
    if not set(names).isdisjoint(results := tuple(taken)):
        expected = f"none of {', '.join(map(repr, results))}, which are columns of the result"
        raise QueryError(parameter, got=got, expected=expected)
    return names
