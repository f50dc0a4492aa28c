"""Columns of an Arrow stream with the same value on every row. They travel once, as JSON in the metadata of the schema.

The JSON is an object with an entry per column, in the order of the columns: the place of the column among all columns
of the stream, its Arrow type (``category`` for a dictionary of strings), and its value. Times are ns since the epoch.
Columns of other types, and numbers that JSON does not have, travel as columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import Any

import orjson
import pyarrow as pa

from tidytape.wire._faults import Fault

CONSTANTS_KEY = b"tidytape.constants"
"""The key of the constant columns in the metadata of an Arrow schema."""

CATEGORY, TIME = pa.dictionary(pa.uint32(), pa.large_string()), pa.timestamp("ns", "UTC")
"""The Arrow types of categories and of times."""

_INTEGERS = [pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
_NUMBERS = [*_INTEGERS, pa.float32(), pa.float64()]
_TYPES = {"category": CATEGORY} | {
    str(dtype): dtype for dtype in (pa.null(), pa.bool_(), *_NUMBERS, pa.large_string(), TIME)
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


@dataclass(frozen=True, slots=True)
class Constant:
    """A column with the same value on every row.

    Attributes
    ----------
    value : bool, int, float, str or None
        None for null; a time in ns since the epoch.
    dtype : pyarrow.DataType
    """

    value: Any
    dtype: Any

    def array(self, zeros: Any) -> Any:
        """Return the column as Arrow; ``zeros``, a 0 for each row [uint32], serves all constants of an answer."""
        if self.value is None:
            return pa.nulls(len(zeros), self.dtype)
        if self.dtype == CATEGORY:
            return pa.DictionaryArray.from_arrays(zeros, _words(self.value), safe=False)
        return pa.repeat(pa.scalar(self.value, self.dtype), len(zeros))


@lru_cache(1_024)
def _words(word: str) -> Any:
    """Return a dictionary of one word. The answers of a service have few, and each takes longer than its column."""
    return pa.array([word], pa.large_string())


def constant_of(column: Any) -> Constant | None:
    """Return the value that all rows of a column have; None if they differ, or if JSON cannot hold the value.

    The column has at least one row.
    Values are compared bit by bit: 0.0 and -0.0 differ.

    Examples
    --------
    >>> constant_of(pa.array([1, 1])).value, constant_of(pa.array([0.0, -0.0])), constant_of(pa.array([1, None]))
    (1, None, None)
    """
    first = column[0]
    if not first.equals(column[-1]):  # most columns differ there, and looking at all rows takes longer
        return None
    dtype = column.type
    if dtype not in _NAMES:
        return None
    if column.null_count:
        return Constant(None, dtype) if column.null_count == len(column) else None
    if pa.types.is_floating(dtype):
        column = column.view(pa.int64() if dtype.bit_width == 64 else pa.int32())
    import pyarrow.compute as pc  # only here, so that the client loads quickly

    bounds = pc.min_max(column.indices if dtype == CATEGORY else column)
    value = first.value if dtype == TIME else first.as_py()
    if not bounds["min"].equals(bounds["max"]) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return Constant(value, dtype)


def write_constants(constants: Mapping[str, tuple[int, Constant]]) -> bytes:
    """Write constant columns, each with its place, as JSON.

    Examples
    --------
    >>> write_constants({"exchange": (1, Constant("X", CATEGORY))})
    b'{"exchange":{"place":1,"type":"category","value":"X"}}'
    """
    return orjson.dumps(
        {
            name: {"place": place, "type": _NAMES[constant.dtype], "value": constant.value}
            for name, (place, constant) in constants.items()
        }
    )


def read_constants(text: bytes) -> dict[str, tuple[int, Any]]:
    """Read constant columns: for each its place and an Arrow array of one row.

    Raises
    ------
    Fault
        If the text is not what `write_constants` writes, or a value is not of its type.

    Examples
    --------
    >>> read_constants(b'{"block_size":{"place":8,"type":"double","value":null}}')["block_size"][1].null_count
    1
    """
    try:
        entries = orjson.loads(text).items()
        return {
            name: (index(entry["place"]), _array(entry["value"], _TYPES[entry["type"]]))
            for name, entry in entries
        }
    # ValueError and TypeError are also what pyarrow raises for a value of another type.
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Fault(f"the constant columns of the stream cannot be read: {error}") from None


def _array(value: Any, dtype: Any) -> Any:
    """Return an Arrow array of one row. pyarrow cuts off the digits of a fraction where it needs an integer."""
    if isinstance(value, float) and dtype in {TIME, *_INTEGERS}:
        raise TypeError(f"{value} is not an integer")
    return pa.array([value], dtype)
