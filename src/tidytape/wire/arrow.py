"""The same tidy frame as an Arrow IPC stream: between two tidytapes nothing has to be written as text.

The stream is plain Arrow: any Arrow implementation reads it. Identity columns are dictionaries, times are
``timestamp[ns, UTC]``, and the columns are the schema's.
"""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.ipc

from tidytape.errors import DecodeError
from tidytape.schema import data_type as kind_of
from tidytape.schema import schema_of

__all__ = ["ARROW_MIME", "from_arrow", "to_arrow"]

ARROW_MIME = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow IPC stream."""

_END = b"\xff\xff\xff\xff\0\0\0\0"


def to_arrow(frame: pl.DataFrame) -> bytes:
    """Write a tidy frame as an Arrow IPC stream.

    Parameters
    ----------
    frame : polars.DataFrame, n rows
        A tidy frame of any data type.

    Returns
    -------
    bytes
        One schema and one record batch, uncompressed. [byte]

    Examples
    --------
    >>> frame = schema_of("TRADE").empty()
    >>> from_arrow(to_arrow(frame), "TRADE").equals(frame)
    True
    """
    sink = io.BytesIO()
    # The classic layout of strings, which every reader knows; polars' own views are newer.
    frame.rechunk().write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    return sink.getvalue()


def from_arrow(body: bytes, data_type: str) -> pl.DataFrame:
    """Read a tidy frame from an Arrow IPC stream.

    Parameters
    ----------
    body : bytes
        What `to_arrow` or another Arrow writer gave. [byte]
    data_type : str
        The type it must hold.

    Returns
    -------
    polars.DataFrame, one row per point or per level, key and units as ``schema_of(data_type)``
        The schema's columns first, others after them. A column that may be null and is absent is null.

    Raises
    ------
    QueryError
        If the catalogue has no such type.
    DecodeError
        If the body is not a whole and valid Arrow stream, or its columns are not the schema's.

    Examples
    --------
    >>> from_arrow(b"{}", "TRADE")
    Traceback (most recent call last):
    ...
    tidytape.errors.DecodeError: the body is not an Arrow stream: ...
    """
    kind_of(data_type)
    frame = _read(body, data_type)
    _check(frame, data_type)
    return schema_of(data_type).conform(frame)


def _read(body: bytes, data_type: str) -> pl.DataFrame:
    if not body.endswith(_END):
        # Arrow lets a stream simply stop, so one cut between two batches would read as a shorter frame.
        raise DecodeError("the body is not an Arrow stream: it has no end", data_type=data_type)
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            table = reader.read_all()
        # Offsets, UTF-8 and dictionary indices: polars would trust them.
        table.validate(full=True)
        table = table.cast(pa.schema([_plain(field) for field in table.schema]))
        frame = pl.from_arrow(table)
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, TypeError) as error:
        raise DecodeError(f"the body is not an Arrow stream: {error}", data_type=data_type) from None
    assert isinstance(frame, pl.DataFrame)  # a table gives a frame
    return frame


def _plain(field: Any) -> Any:
    """Return a field without metadata, which polars would trust too, if its type is one of a tidy frame."""
    # Reading the name is a check: it raises where it is not UTF-8.
    return pa.field(field.name, _plain_type(field.type))


def _plain_type(dtype: Any) -> Any:
    kinds = pa.types
    if kinds.is_list(dtype) or kinds.is_large_list(dtype):
        return pa.large_list(_plain(dtype.value_field))
    if kinds.is_struct(dtype):
        return pa.struct([_plain(field) for field in dtype])
    if kinds.is_dictionary(dtype):
        if not (kinds.is_string(dtype.value_type) or kinds.is_large_string(dtype.value_type)):
            raise pa.ArrowTypeError(f"a dictionary of {dtype.value_type}")
        return pa.dictionary(pa.uint32(), pa.large_string())
    if kinds.is_timestamp(dtype) and dtype.tz in (None, "UTC"):
        return dtype
    if any(test(dtype) for test in _FLAT):
        return dtype
    raise pa.ArrowTypeError(f"a column of {dtype}")


_FLAT = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_null,
)


def _check(frame: pl.DataFrame, data_type: str) -> None:
    """Refuse columns of another dtype: a cast would make numbers of what are none."""
    for column in schema_of(data_type).columns:
        wanted = schema_of(data_type).polars()[column.name]
        if column.name not in frame.columns:
            if not column.nullable:
                raise DecodeError(f"{data_type}: the stream has no column {column.name}", data_type=data_type)
            continue
        got = frame.schema[column.name]
        as_text = column.dtype == "category" and got in {pl.String, pl.Categorical, pl.Enum}
        if got != wanted and not as_text:
            raise DecodeError(
                f"{data_type}: column {column.name} is {got}, not {wanted}", data_type=data_type
            )
        if not column.nullable and frame[column.name].null_count():
            raise DecodeError(f"{data_type}: column {column.name} has nulls", data_type=data_type)
