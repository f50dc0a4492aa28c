"""Readers of JSON values, which accept every spelling that proto3 JSON allows.

Accepted are int64 and doubles as strings, doubles as ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, a timestamp whose
``s`` or ``ns`` is left out because it is 0, and null for an absent value. A value of any other kind is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from tidytape.catalogue import Kind
from tidytape.errors import shown
from tidytape.times import SECOND
from tidytape.wire._faults import Fault

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)
EXACT = 2.0**53
"""The largest number up to which a double holds every integer."""


def read_value(value: Any, kind: Kind) -> Any:
    """Convert a JSON value to a Python value of a kind: an int of nanoseconds for a timestamp, None for None.

    Raises
    ------
    Fault
        If the value is not of this kind, or out of range.

    Examples
    --------
    >>> read_value("1.5", "double"), read_value({"s": "60"}, "timestamp"), read_value(None, "bool")
    (1.5, 60000000000, None)
    """
    return None if value is None else _READERS[kind](value)


def written_time(ns: int) -> dict[str, int]:
    """Return a time [ns since the epoch] as it is written in JSON, the inverse of `read_value`.

    Examples
    --------
    >>> written_time(60_000_000_001), written_time(0)
    ({'s': 60, 'ns': 1}, {'s': 0})
    """
    seconds, nanoseconds = divmod(ns, SECOND)
    return {"s": seconds, "ns": nanoseconds} if nanoseconds else {"s": seconds}


def array(value: Any, name: str) -> list[Any]:
    """Return an array; an empty array if it is absent, because proto3 leaves out empty arrays."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Fault(f"{name} is not an array")
    return value


def each(values: Iterable[Any], read: Callable[[Any], Any], name: str) -> list[Any]:
    """Return what a reader returns for each value; a Fault says which value failed: ``name`` and its position."""
    read_values: list[Any] = []
    try:
        read_values.extend(map(read, values))
    except Fault as fault:
        raise Fault(f"{name} {len(read_values)}: {fault}", length=fault.length) from None
    return read_values


def _double(value: Any) -> float:
    # Most values are floats. Compare types exactly: a bool of Python is an int, but a bool of JSON is not a number.
    if type(value) is float:
        return value
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if type(value) is int or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise Fault(f"{_shown(value)} is too large for a double")
        return number
    raise Fault(f"{_shown(value)} is no number")


def _integer(value: Any, within: range = INT64) -> int:
    if type(value) is float and value.is_integer() and abs(value) <= EXACT:
        value = int(value)  # proto3 JSON may write 1.0 or 1e3
    elif isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is not int:
        raise Fault(f"{_shown(value)} is no integer")
    if value not in within:
        raise Fault(f"{_shown(value)} does not fit into {within.stop.bit_length()} bits")
    return value


def _reader_of(python_type: type, fault: str) -> Callable[[Any], Any]:
    """Return a reader that accepts only values of one type; ``fault`` says what any other value is."""

    def read_type(value: Any) -> Any:
        if isinstance(value, python_type):
            return value
        raise Fault(f"{_shown(value)} is {fault}")

    return read_type


def _timestamp(value: Any) -> int:
    if not isinstance(value, dict):
        raise Fault(f"{_shown(value)} is no timestamp; it takes an object with s and ns")
    seconds = read_value(value.get("s"), "int64") or 0
    nanoseconds = read_value(value.get("ns"), "int64") or 0
    if not 0 <= nanoseconds <= 999_999_999:
        raise Fault(f"ns is {nanoseconds}, outside 0 to 999999999")
    total: int = seconds * SECOND + nanoseconds
    if total not in INT64:
        raise Fault(f"s is {seconds}, outside what int64 nanoseconds hold")
    return total


def _list_of(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """Return a reader of arrays, whose members ``read`` reads."""

    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Fault(f"{_shown(value)} is no array")
        return [None if member is None else read(member) for member in value]

    return read_list


_string = _reader_of(str, "no string")
_READERS: dict[Kind, Callable[[Any], Any]] = {
    "double": _double,
    "int64": _integer,
    "string": _string,
    "bool": _reader_of(bool, "neither true nor false"),
    "timestamp": _timestamp,
    "int32[]": _list_of(lambda item: _integer(item, _INT32)),
    "double[]": _list_of(_double),
    "string[]": _list_of(_string),
}


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return shown(value, 60)
