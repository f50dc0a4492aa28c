"""Tidy frames as Arrow IPC streams, so that a client and a service of tidytape need not write values as text.

Any Arrow implementation can read the streams. The columns are those of the schema; identity columns are dictionaries,
times are ``timestamp[ns, UTC]``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc

from tidytape.errors import DecodeError, shown
from tidytape.schema import LEVELS, Columns, Schema, wire_schema
from tidytape.schema import data_type as facts_of
from tidytape.wire._faults import Fault, check_bytes, check_cells, check_unknown, placed
from tidytape.wire._notes import ARROW_KEY, Note, write_notes
from tidytape.wire._sessions import IN_PROGRESS, older_schema, travelling, unnested
from tidytape.wire._tidy import DATA_UNTIL, with_finality, with_known

ARROW_MIME = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow IPC stream."""

_TYPE = b"tidytape.type"
"""The key of the data type in the metadata of a stream."""

_LARGE = 10_000  # rows from which on `_table` looks for columns of a single category

ARROW_BEGIN, ARROW_END = b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"
"""The first and the last bytes of a stream."""


def to_arrow(frame: pl.DataFrame, data_type: str, notes: Sequence[Note] | None = None) -> bytes:
    """Write a tidy frame as an Arrow IPC stream.

    Parameters
    ----------
    frame : polars.DataFrame, n rows
        A tidy frame.
    data_type : str
        Data type of the frame. The metadata of the stream has it under ``tidytape.type``.
    notes : sequence of Note, optional
        Notes about markets whose points do not fill the window. The metadata has them under ``tidytape.notes``.

    Returns
    -------
    bytes
        One schema and one record batch, uncompressed. [byte]

    Examples
    --------
    >>> frame = wire_schema("TRADE").empty()
    >>> from_arrow(to_arrow(frame, "TRADE"), "TRADE").equals(frame)
    True
    """
    table = _table(frame.drop(IN_PROGRESS, strict=False).rechunk())
    metadata = {_TYPE: data_type} | ({} if notes is None else {ARROW_KEY: write_notes(notes)})
    table = table.replace_schema_metadata(metadata)
    # Write twice. The first time only measures: letting the stream grow takes eight times as long.
    size_counter = pa.MockOutputStream()
    _write(table, size_counter)
    stream = pa.allocate_buffer(size_counter.size())
    _write(table, pa.FixedSizeBufferWriter(stream))
    return bytes(stream)


def _table(frame: pl.DataFrame) -> pa.Table:
    """Return a table with the classic layout of strings, which every reader knows, instead of polars' string views."""
    oldest = pl.CompatLevel.oldest()
    if frame.height < _LARGE:
        return frame.to_arrow(compat_level=oldest)

    def array(column: pl.Series) -> pa.Array:
        physical = column.to_physical()
        if column.dtype == pl.Categorical and not column.null_count() and physical.min() == physical.max():
            # Convert a column of one category here: polars takes longer for it than for all columns of numbers.
            words = column.head(1).to_arrow(compat_level=oldest)
            return pa.DictionaryArray.from_arrays(np.zeros(len(column), np.uint32), words.dictionary)
        return column.to_arrow(compat_level=oldest)

    return pa.Table.from_arrays([array(column) for column in frame.get_columns()], names=frame.columns)


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def from_arrow(body: bytes, data_type: str) -> pl.DataFrame:
    """Read a tidy frame from an Arrow IPC stream.

    Parameters
    ----------
    body : bytes
        A stream from `to_arrow`, or from another writer; the metadata may name the data type. [byte]
    data_type : str
        The data type that the stream must have.

    Returns
    -------
    polars.DataFrame, one row per point or per level, key and units as ``wire_schema(data_type)``
        The schema's columns first, then other columns. A column that the stream lacks is null, if the schema allows it.

    Raises
    ------
    QueryError
        If the catalogue has no such type.
    DecodeError
        If the body is not a complete and valid Arrow stream of this data type, its columns are not the schema's, or it
        has more than 256 other columns or a column of structs.

    Notes
    -----
    The columns are checked before any row is read.

    Examples
    --------
    >>> from_arrow(b"{}", "TRADE")
    Traceback (most recent call last):
    ...
    tidytape.errors.DecodeError: the body is not an Arrow stream: ...
    """
    facts_of(data_type)  # raises QueryError for an unknown data type
    if not body.endswith(ARROW_END):
        # Arrow does not require an end, so a stream that was cut between two batches would read as a shorter frame.
        raise DecodeError("the body is not an Arrow stream: it has no end", data_type=data_type)
    with placed(data_type):
        try:
            frame = _read(body, data_type)
        except _NOT_ARROW as error:
            raise DecodeError(f"the body is not an Arrow stream: {error}", data_type=data_type) from None
        schema = _schema_of(frame.columns, data_type)
        for column in schema.columns:
            if not column.nullable and frame[column.name].null_count():
                raise Fault(f"column {column.name} has nulls")
        frame = schema.conform(frame)
        if LEVELS in schema.names and unnested(frame)[0]["price"].null_count():
            raise Fault("a level has no price")
        frame = travelling(frame, data_type)
    return with_finality(with_known(frame), data_type)


def _schema_of(sent_names: Collection[str], name: str) -> Schema:
    """Return the schema of a stream with these columns: that of today, or of older releases."""
    return wire_schema(name) if LEVELS in sent_names else older_schema(name)


_NOT_ARROW = (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, TypeError)


def _read(body: bytes, name: str) -> pl.DataFrame:
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        # Services of old releases do not name the type; then the columns alone say whether it is this one.
        sent_type = (reader.schema.metadata or {}).get(_TYPE, name.encode())
        if sent_type != name.encode():
            raise Fault(f"the stream is of type {shown(sent_type.decode('utf-8', 'replace'))}")
        sent_schema = reader.schema.remove_metadata()
        plain_schema = _plain_schema(sent_schema, name)
        batches, rows, byte_count = [], 0, 0
        for batch in reader:
            # A dictionary that batches share counts once per batch, because a cast copies it.
            rows, byte_count = rows + batch.num_rows, byte_count + batch.nbytes
            check_cells(rows, len(plain_schema), len(body))
            check_bytes(byte_count, len(body))
            batches.append(batch)
        # Equal schemas may differ in the metadata of fields, which may tell polars to read other dtypes: drop it.
        table = pa.Table.from_batches(batches, plain_schema if plain_schema == sent_schema else sent_schema)
    # Check offsets, UTF-8 and dictionary indices, because polars does not.
    table.validate()
    for column in table.columns:
        _check_values(column)
    frame = pl.from_arrow(table if plain_schema == sent_schema else table.cast(plain_schema))
    assert isinstance(frame, pl.DataFrame)  # a table gives a frame
    return frame


@lru_cache(64)
def _plain_schema(sent: Any, name: str) -> Any:
    """Return the schema that polars reads from a stream; raise Fault if its columns are not those of the data type.

    The answers of a service have few schemas, so the cache checks each schema once.
    """
    schema = _schema_of(sent.names, name)
    check_unknown(len({*sent.names} - {*schema.names, DATA_UNTIL}))
    plain = pa.schema(
        [pa.field(field.name, _plain_type(field.type, of_levels=field.name == LEVELS)) for field in sent]
    )
    frame = pl.from_arrow(plain.empty_table())
    assert isinstance(frame, pl.DataFrame)  # a table gives a frame
    _check_dtypes(frame, schema)
    if LEVELS in schema.names:
        levels = Columns(name, schema[LEVELS].inner, (), "one row per level")
        _check_dtypes(unnested(frame)[0], levels)
        check_unknown(len({*plain.field(LEVELS).type.value_type.names} - {*levels.names}))
    return plain


def _check_values(column: Any) -> None:
    """Validate a column in full, as pyarrow does, but validate dictionaries ten times as fast."""
    if not pa.types.is_dictionary(column.type):
        column.validate(full=True)
        return
    for chunk in column.chunks:
        chunk.dictionary.validate(full=True)
        chunk.indices.validate(full=True)
        bounds = pa.compute.min_max(chunk.indices)
        first, last, size = bounds["min"].as_py(), bounds["max"].as_py(), len(chunk.dictionary)
        if last is not None and not 0 <= first <= last < size:
            raise pa.ArrowInvalid(f"a dictionary of {size} has no values {first} to {last}")


def _plain_type(dtype: Any, *, of_levels: bool = False) -> Any:
    """Return the Arrow type that polars reads for a column; raise an error if a tidy frame cannot have it."""
    kinds = pa.types
    if kinds.is_dictionary(dtype) and _plain_type(dtype.value_type) in (pa.string(), pa.large_string()):
        return pa.dictionary(pa.uint32(), pa.large_string())
    if kinds.is_list(dtype) or kinds.is_large_list(dtype):
        inner = dtype.value_type
        if _is_flat(inner):
            return pa.large_list(inner)
        if of_levels and kinds.is_struct(inner):
            return pa.large_list(pa.struct([(field.name, _plain_type(field.type)) for field in inner]))
    if _is_flat(dtype) or kinds.is_null(dtype) or (kinds.is_timestamp(dtype) and dtype.tz in (None, "UTC")):
        return dtype
    raise pa.ArrowTypeError(f"a column of {dtype}")


def _is_flat(dtype: Any) -> bool:
    kinds = pa.types
    tests = (kinds.is_boolean, kinds.is_integer, kinds.is_floating, kinds.is_string, kinds.is_large_string)
    return any(test(dtype) for test in (*tests, kinds.is_date))


def _check_dtypes(frame: pl.DataFrame, schema: Columns) -> None:
    """Raise Fault if columns are absent or have another dtype: a cast could turn other values into numbers."""
    dtypes, sent = schema.polars(), frame.schema
    for column in schema.columns:
        if column.name not in sent and not column.nullable:
            raise Fault(f"the stream has no column {column.name}")
    for name, expected in {DATA_UNTIL: pl.Datetime("ns", "UTC"), **dtypes}.items():
        dtype = sent.get(name, expected)
        if name == LEVELS and isinstance(dtype, pl.List):
            continue  # its fields are checked one by one
        as_text = expected == pl.Categorical and dtype in {pl.String, pl.Categorical, pl.Enum}
        if dtype != expected and not as_text:
            raise Fault(f"column {name} is {dtype}, not {expected}")
