"""Columns of encoded fields: one piece of bytes per row, made for all rows at once.

No row becomes a Python object. Where all pieces of a column are of one length, they are a matrix of bytes; otherwise an
Arrow array of bytes, in which the piece of a field that a row does not have is empty.
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
"""A column: a matrix of uint8, one row of it per row, or an array of large_binary without nulls."""

_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # how the value of a field is written
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
    """Put the pieces of each row one after the other.

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
    """Return a column of these pieces."""
    return pa.array(pieces, pa.large_binary())


def bytes_of(column: Bytes) -> bytes:
    """Return the pieces of all rows, one after the other. [byte]"""
    if isinstance(column, np.ndarray):
        return column.tobytes()
    ends = _offsets(column)
    return bytes(memoryview(column.buffers()[2])[ends[0] : ends[-1]])


def where(column: Bytes, present: NDArray[np.bool_]) -> Bytes:
    """Return a column with empty pieces where a row does not have the field."""
    if present.all():
        return column
    if isinstance(column, np.ndarray):
        return _array(np.append(0, np.cumsum(present * column.shape[1])), column[present])
    return pc.if_else(pa.array(present), column, _EMPTY)


def regrouped(column: Bytes, counts: NDArray[np.int64]) -> Any:
    """Return an array whose pieces are so many pieces of a column each, one after the other; nothing is copied."""
    array, ends = as_array(column), np.append(0, np.cumsum(counts))
    return _array(_offsets(array)[ends], array.buffers()[2])


def message(number: int, content: Bytes) -> Bytes:
    """Return the field of this number whose value is a message, a text or packed numbers."""
    sizes = lengths(content)
    return joined([_tag(number, _SIZED, len(sizes)), _as_varints(sizes), content])


def timestamps(number: int, times: pl.Series) -> Bytes:
    """Return a field of Timestamp messages; no field where a time is null.

    Raises
    ------
    QueryError
        If a time lies outside of 1970 to 2106, which the message has.
    """
    present = times.is_not_null().to_numpy()
    epoch = times.dt.epoch("ns").fill_null(0).to_numpy()
    seconds, rest = epoch // SECOND, epoch % SECOND
    if len(seconds) and not 0 <= seconds.min() <= seconds.max() <= _MOST_SECONDS:
        raise QueryError("timestamp", got=None, expected="times from 1970 to 2106", code="UNSUPPORTED")
    content = joined(
        [
            where(joined([_tag(1, _FIXED32, len(seconds)), _fixed(seconds, "<u4")]), seconds != 0),
            where(joined([_tag(2, _FIXED32, len(seconds)), _fixed(rest, "<u4")]), rest != 0),
        ]
    )
    return where(message(number, content), present)


def doubles(number: int, values: pl.Series) -> Bytes:
    """Return a field of doubles; no field where a value is null."""
    present = values.is_not_null().to_numpy()
    numbers = values.cast(pl.Float64).fill_null(0.0).to_numpy()
    return where(joined([_tag(number, _FIXED64, len(numbers)), _fixed(numbers, "<f8")]), present)


def varints(number: int, values: pl.Series) -> Bytes:
    """Return a field of whole numbers; no field where a value is null."""
    present = values.is_not_null().to_numpy()
    numbers = values.cast(pl.Int64).fill_null(0).to_numpy()
    return where(joined([_tag(number, _VARINT, len(numbers)), _as_varints(numbers)]), present)


def texts(number: int, values: pl.Series) -> Bytes:
    """Return a field of texts; no field where a value is null."""
    present = values.is_not_null().to_numpy()
    array = values.cast(pl.String).fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
    return where(message(number, array.cast(pa.large_string()).view(pa.large_binary())), present)


def packed(number: int, lists: pl.Series) -> Bytes:
    """Return a field of lists of numbers, int32 or double; no field where a list is null or empty."""
    counts = lists.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    flat = lists.drop_nulls().explode(empty_as_null=False)
    if flat.dtype.is_float():
        column: Bytes = _fixed(flat.fill_null(np.nan).to_numpy(), "<f8")
    else:
        column = _as_varints(flat.cast(pl.Int64).to_numpy())
    return _packed(number, regrouped(column, counts))


def packed_levels(number: int, rows: pl.DataFrame, counts: NDArray[np.int64]) -> Bytes:
    """Return a field of flat arrays: the values of so many rows each, row by row; NaN where a value is null."""
    values = np.column_stack([column.fill_null(np.nan).to_numpy() for column in rows.get_columns()])
    return _packed(number, regrouped(_fixed(values, "<f8"), counts))


def _packed(number: int, content: Bytes) -> Bytes:
    return where(message(number, content), lengths(content) > 0)


def _fixed(values: NDArray[Any], dtype: str) -> NDArray[np.uint8]:
    """Return numbers of one length as bytes."""
    matrix = np.ascontiguousarray(values.astype(dtype, copy=False))
    return matrix.view(np.uint8).reshape(len(values), -1 if len(values) else np.dtype(dtype).itemsize)


def _tag(number: int, kind: int, rows: int) -> NDArray[np.uint8]:
    value, tag = number << 3 | kind, bytearray()
    while value > 0x7F:
        tag.append(value & 0x7F | 0x80)
        value >>= 7
    tag.append(value)
    return np.broadcast_to(np.frombuffer(bytes(tag), np.uint8), (rows, len(tag)))


def _as_varints(numbers: NDArray[np.int64]) -> Bytes:
    """Return whole numbers as varints: seven bits a byte, the lowest first; the eighth says that more follow."""
    values = numbers.astype(np.uint64)
    widest = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    shifted = values[:, None] >> (7 * np.arange(widest, dtype=np.uint64))
    following = np.zeros(shifted.shape, bool)
    following[:, :-1] = shifted[:, 1:] != 0
    matrix = (shifted & np.uint64(0x7F)).astype(np.uint8) | (following.astype(np.uint8) << 7)
    needed = np.ones(shifted.shape, bool)
    needed[:, 1:] = shifted[:, 1:] != 0
    if needed.all():
        return matrix
    return _array(np.append(0, np.cumsum(needed.sum(axis=1))), matrix[needed])


def _array(offsets: NDArray[np.int64], values: Any) -> Any:
    data = values if isinstance(values, pa.Buffer) else pa.py_buffer(np.ascontiguousarray(values).reshape(-1))
    ends = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int64))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, [None, ends, data])


def _offsets(array: Any) -> NDArray[np.int64]:
    ends = np.frombuffer(array.buffers()[1], np.int64)
    return ends[array.offset : array.offset + len(array) + 1]
