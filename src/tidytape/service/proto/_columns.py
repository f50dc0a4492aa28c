"""Columns of encoded fields: one piece of bytes per row, encoded for all rows at once.

No row becomes a Python object. If all pieces of a column have the same length, the column is a matrix of bytes.
Otherwise it is an Arrow array of bytes, and the piece of a row without the field is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidytape.errors import QueryError
from tidytape.times import SECOND

Bytes = Any
"""A column: a matrix of uint8 with one row per row of the frame, or an array of large_binary without nulls."""

_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # wire types: how the value of a field is written
_MOST_SECONDS = 2**32 - 1
_EMPTY = pa.scalar(b"", pa.large_binary())


def lengths(column: Bytes) -> NDArray[np.int64]:
    """Return the length of each piece. [byte]"""
    if isinstance(column, np.ndarray):
        return np.full(len(column), column.shape[1], np.int64)
    return np.diff(_offsets(column))


def as_array(column: Bytes) -> Any:
    """Return a column as an Arrow array."""
    if not isinstance(column, np.ndarray):
        return column
    return _array(np.arange(len(column) + 1, dtype=np.int64) * column.shape[1], column)


def joined(columns: Sequence[Bytes]) -> Bytes:
    """Join the pieces of each row, in the order of the columns.

    Examples
    --------
    >>> joined([np.array([[1], [2]], np.uint8), np.array([[3, 4], [5, 6]], np.uint8)]).tolist()
    [[1, 3, 4], [2, 5, 6]]
    """
    merged: list[list[Bytes]] = []
    for column in columns:
        if merged and isinstance(column, np.ndarray) and isinstance(merged[-1][0], np.ndarray):
            merged[-1].append(column)
        else:
            merged.append([column])
    parts = [np.hstack(group) if len(group) > 1 else group[0] for group in merged]
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*map(as_array, parts), _EMPTY)


def of_bytes(pieces: Sequence[bytes]) -> Bytes:
    """Return a column with these pieces."""
    return pa.array(pieces, pa.large_binary())


def bytes_of(column: Bytes) -> bytes:
    """Return the pieces of all rows, one after the other."""
    if isinstance(column, np.ndarray):
        return column.tobytes()
    ends = _offsets(column)
    return bytes(memoryview(column.buffers()[2])[ends[0] : ends[-1]])


def where(column: Bytes, has_field: NDArray[np.bool_]) -> Bytes:
    """Return a column with an empty piece for each row that does not have the field."""
    if has_field.all():
        return column
    if isinstance(column, np.ndarray):
        return _array(np.append(0, np.cumsum(has_field * column.shape[1])), column[has_field])
    return pc.if_else(pa.array(has_field), column, _EMPTY)


def regrouped(column: Bytes, counts: NDArray[np.int64]) -> Any:
    """Return an array whose pieces join ``counts`` neighbouring pieces of a column each; nothing is copied."""
    array, ends = as_array(column), np.append(0, np.cumsum(counts))
    return _array(_offsets(array)[ends], array.buffers()[2])


def message(number: int, content: Bytes) -> Bytes:
    """Return a field whose value is a message, a text or packed numbers; ``number`` is the number of the field."""
    sizes = lengths(content)
    return joined([_tag(number, _SIZED, len(sizes)), _as_varints(sizes), content])


def timestamps(number: int, times: pl.Series) -> Bytes:
    """Return a field of Timestamp messages; a row with a null has no field.

    Raises
    ------
    QueryError
        If a time lies outside of the years 1970 to 2106, which the message can hold.
    """
    has_value = times.is_not_null().to_numpy()
    epoch = times.dt.epoch("ns").fill_null(0).to_numpy()
    seconds, nanoseconds = epoch // SECOND, epoch % SECOND
    if len(seconds) and not 0 <= seconds.min() <= seconds.max() <= _MOST_SECONDS:
        raise QueryError("timestamp", got=None, expected="times from 1970 to 2106", code="UNSUPPORTED")
    content = joined(
        [
            where(joined([_tag(1, _FIXED32, len(seconds)), _fixed(seconds, "<u4")]), seconds != 0),
            where(joined([_tag(2, _FIXED32, len(seconds)), _fixed(nanoseconds, "<u4")]), nanoseconds != 0),
        ]
    )
    return where(message(number, content), has_value)


def doubles(number: int, values: pl.Series) -> Bytes:
    """Return a field of doubles; a row with a null has no field."""
    has_value = values.is_not_null().to_numpy()
    numbers = values.cast(pl.Float64).fill_null(0.0).to_numpy()
    return where(joined([_tag(number, _FIXED64, len(numbers)), _fixed(numbers, "<f8")]), has_value)


def varints(number: int, values: pl.Series) -> Bytes:
    """Return a field of whole numbers; a row with a null has no field."""
    has_value = values.is_not_null().to_numpy()
    numbers = values.cast(pl.Int64).fill_null(0).to_numpy()
    return where(joined([_tag(number, _VARINT, len(numbers)), _as_varints(numbers)]), has_value)


def texts(number: int, values: pl.Series) -> Bytes:
    """Return a field of texts; a row with a null has no field."""
    has_value = values.is_not_null().to_numpy()
    array = values.cast(pl.String).fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
    return where(message(number, array.cast(pa.large_string()).view(pa.large_binary())), has_value)


def packed(number: int, lists: pl.Series) -> Bytes:
    """Return a field of lists of numbers, int32 or double; a row with a null or an empty list has no field."""
    counts = lists.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    numbers = lists.drop_nulls().explode(empty_as_null=False)
    if numbers.dtype.is_float():
        column: Bytes = _fixed(numbers.fill_null(np.nan).to_numpy(), "<f8")
    else:
        column = _as_varints(numbers.cast(pl.Int64).to_numpy())
    return _packed(number, regrouped(column, counts))


def packed_levels(number: int, rows: pl.DataFrame, counts: NDArray[np.int64]) -> Bytes:
    """Return a field of flat arrays, each with the values of ``counts`` rows, row by row; NaN stands for null."""
    values = np.column_stack([column.fill_null(np.nan).to_numpy() for column in rows.get_columns()])
    return _packed(number, regrouped(_fixed(values, "<f8"), counts))


def _packed(number: int, content: Bytes) -> Bytes:
    return where(message(number, content), lengths(content) > 0)


def _fixed(values: NDArray[Any], dtype: str) -> NDArray[np.uint8]:
    """Return numbers of a fixed length as bytes."""
    matrix = np.ascontiguousarray(values.astype(dtype, copy=False))
    return matrix.view(np.uint8).reshape(len(values), -1 if len(values) else np.dtype(dtype).itemsize)


def _tag(number: int, kind: int, rows: int) -> NDArray[np.uint8]:
    """Return the tag of a field, number and wire type as a varint, once per row."""
    value, tag = number << 3 | kind, bytearray()
    while value > 0x7F:
        tag.append(value & 0x7F | 0x80)
        value >>= 7
    tag.append(value)
    return np.broadcast_to(np.frombuffer(bytes(tag), np.uint8), (rows, len(tag)))


def _as_varints(numbers: NDArray[np.int64]) -> Bytes:
    """Return whole numbers as varints: seven bits per byte, lowest first; the eighth bit says that more follow."""
    values = numbers.astype(np.uint64)
    most_bytes = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    groups = values[:, None] >> (7 * np.arange(most_bytes, dtype=np.uint64))
    has_more = np.zeros(groups.shape, bool)
    has_more[:, :-1] = groups[:, 1:] != 0
    matrix = (groups & np.uint64(0x7F)).astype(np.uint8) | (has_more.astype(np.uint8) << 7)
    is_needed = np.ones(groups.shape, bool)
    is_needed[:, 1:] = groups[:, 1:] != 0
    if is_needed.all():
        return matrix
    return _array(np.append(0, np.cumsum(is_needed.sum(axis=1))), matrix[is_needed])


def _array(offsets: NDArray[np.int64], values: Any) -> Any:
    data = values if isinstance(values, pa.Buffer) else pa.py_buffer(np.ascontiguousarray(values).reshape(-1))
    ends = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int64))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, [None, ends, data])


def _offsets(array: Any) -> NDArray[np.int64]:
    ends = np.frombuffer(array.buffers()[1], np.int64)
    return ends[array.offset : array.offset + len(array) + 1]
