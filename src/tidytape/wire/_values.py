"""One JSON value of a documented field, with everything proto3 JSON may write for it.

int64 and doubles may come as strings, doubles as ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; a timestamp
leaves out ``s`` or ``ns`` where they are 0; null is a value that is absent. Anything else of another kind is
refused: a value is never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import polars as pl

from tidytape.catalogue import Field, Kind
from tidytape.times import SECOND
from tidytape.wire._faults import Fault

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_EXACT = 2.0**53  # integers up to here survive as a double


def read(value: Any, kind: Kind) -> Any:
    """Return the value as Python holds it, None where it is absent; a timestamp in nanoseconds.

    Raises
    ------
    Fault
        If it is of another kind, or out of range.
    """
    return None if value is None else _READERS[kind](value)


def _double(value: Any) -> float:
    # Most values are floats already; a bool is an int to Python and no number to JSON.
    if type(value) is float:
        return value
    if type(value) is int:
        return _finite(value)
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        if _NUMBER.fullmatch(value):
            return _finite(value)
    raise Fault(f"{_shown(value)} is no number")


def _finite(value: int | str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise Fault(f"{_shown(value)} is too large for a double")
    return number


def _integer(value: Any, within: range = _INT64) -> int:
    if type(value) is float and value.is_integer() and abs(value) <= _EXACT:
        value = int(value)  # proto3 JSON may write 1.0 or 1e3
    elif isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is not int:
        raise Fault(f"{_shown(value)} is no integer")
    if value not in within:
        raise Fault(f"{_shown(value)} does not fit into {within.stop.bit_length()} bits")
    return value


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Fault(f"{_shown(value)} is no string")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Fault(f"{_shown(value)} is neither true nor false")


def _timestamp(value: Any) -> int:
    if not isinstance(value, dict):
        raise Fault(f"{_shown(value)} is no timestamp; it takes an object with s and ns")
    seconds = read(value.get("s"), "int64") or 0
    nanoseconds = read(value.get("ns"), "int64") or 0
    if not 0 <= nanoseconds <= 999_999_999:
        raise Fault(f"ns is {nanoseconds}, outside 0 to 999999999")
    total: int = seconds * SECOND + nanoseconds
    if total not in _INT64:
        raise Fault(f"s is {seconds}, outside what int64 nanoseconds hold")
    return total


def _list_of(kind: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Fault(f"{_shown(value)} is no array")
        return [None if item is None else kind(item) for item in value]

    return read_list


_READERS: dict[Kind, Callable[[Any], Any]] = {
    "double": _double,
    "int64": _integer,
    "string": _string,
    "bool": _bool,
    "timestamp": _timestamp,
    "int32[]": _list_of(lambda item: _integer(item, _INT32)),
    "double[]": _list_of(_double),
    "string[]": _list_of(_string),
}


def column_of(field: Field, values: list[Any], dtype: pl.DataType) -> pl.Series:
    """Return values that `read` gave as a column."""
    if field.kind == "timestamp":
        return (
            pl.Series(field.column, values, dtype=pl.Int64)
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC")
        )
    return pl.Series(field.column, values, dtype=pl.String() if dtype == pl.Categorical else dtype)


def _shown(value: Any) -> str:
    text = (
        repr(value)
        if not isinstance(value, list | dict)
        else f"an {'array' if isinstance(value, list) else 'object'}"
    )
    return text if len(text) <= 60 else text[:59] + "…"
