"""The same tidy frame as an Arrow IPC stream: between two tidytapes nothing has to be written as text.

The stream is plain Arrow: any Arrow implementation reads it. Identity columns are dictionaries, times are
``timestamp[ns, UTC]``, and the columns are the schema's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc

from tidytape.catalogue import DATA_TYPES
from tidytape.errors import DecodeError, shown
from tidytape.schema import Schema, schema_of
from tidytape.schema import data_type as kind_of
from tidytape.wire._faults import Fault, check_unknown, placed
from tidytape.wire.notes import ARROW_KEY, Note, write_notes
from tidytape.wire.tidy import DATA_UNTIL, with_finality, with_known

__all__ = ["ARROW_BEGIN", "ARROW_END", "ARROW_MIME", "from_arrow", "to_arrow"]

ARROW_MIME = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow IPC stream."""

_TYPE = b"tidytape.type"
"""Where the metadata of a stream names the data type."""

ARROW_BEGIN, ARROW_END = b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"
"""The first bytes of a stream, and its last."""


def to_arrow(frame: pl.DataFrame, data_type: str, notes: Sequence[Note] | None = None) -> bytes:
    """Write a tidy frame as an Arrow IPC stream.

    Parameters
    ----------
    frame : polars.DataFrame, n rows
        A tidy frame.
    data_type : str
        Its type. The metadata of the stream names it under ``tidytape.type``.
    notes : sequence of Note, optional
        What the metadata say of markets whose points do not fill the window, under ``tidytape.notes``.

    Returns
    -------
    bytes
        One schema and one record batch, uncompressed. [byte]

    Examples
    --------
    >>> frame = schema_of("TRADE").empty()
    >>> from_arrow(to_arrow(frame, "TRADE"), "TRADE").equals(frame)
    True
    """
    # The classic layout of strings, which every reader knows; polars' own views are newer.
    table = frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    metadata = {_TYPE: data_type} | ({} if notes is None else {ARROW_KEY: write_notes(notes)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


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
        The schema's columns first, others after them. A column that may be null and is absent is null, if the
        metadata names the type.

    Raises
    ------
    QueryError
        If the catalogue has no such type.
    DecodeError
        If the body is not a whole and valid Arrow stream, is of another type, its columns are not the schema's, it has
        more than 256 beside them, or it is compressed.

    Notes
    -----
    The columns are looked at before any row is. A stream whose metadata does not name its type is of the type whose
    columns it has: all of the payload, and none that only other types have. Compressed buffers are refused: Arrow would
    allocate what they claim to hold, which is without bound; a stream can be compressed as a whole where it is carried,
    as HTTP does.

    Examples
    --------
    >>> from_arrow(b"{}", "TRADE")
    Traceback (most recent call last):
    ...
    tidytape.errors.DecodeError: the body is not an Arrow stream: ...
    """
    kind_of(data_type)
    if not body.endswith(ARROW_END):
        # Arrow lets a stream simply stop, so one cut between two batches would read as a shorter frame.
        raise DecodeError("the body is not an Arrow stream: it has no end", data_type=data_type)
    schema = schema_of(data_type)
    with placed(data_type):
        try:
            frame = _read(body, schema)
        except _NOT_ARROW as error:
            message = f"the body is not an Arrow stream: {error}"
            raise DecodeError(message, data_type=data_type) from None
        for column in schema.columns:
            if not column.nullable and frame[column.name].null_count():
                raise Fault(f"column {column.name} has nulls")
    return with_finality(with_known(schema.conform(frame)), data_type)


_NOT_ARROW = (pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError, TypeError, struct.error)


def _read(body: bytes, schema: Schema) -> pl.DataFrame:
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        _check_type(reader.schema, schema.name)
        known = {*schema.names, DATA_UNTIL}
        unknown = [field for field in reader.schema if field.name not in known]
        check_unknown(sum(1 + _inner_fields(field.type) for field in unknown))
        plain = pa.schema([_plain(field) for field in reader.schema])
        _check_dtypes(pl.from_arrow(plain.empty_table()), schema)
        _check_uncompressed(body)
        table = pa.Table.from_batches(_within(len(body), reader), reader.schema)
    # Offsets, UTF-8 and dictionary indices: polars would trust them.
    table.validate()
    for column in table.columns:
        _check_values(column)
    frame = pl.from_arrow(table.cast(plain))
    assert isinstance(frame, pl.DataFrame)  # a table gives a frame
    return frame


def _check_type(schema: Any, data_type: str) -> None:
    """Raise Fault if the stream is of another type."""
    named = (schema.metadata or {}).get(_TYPE)
    if named is not None:
        if named != data_type.encode():
            raise Fault(f"the stream is of type {shown(named.decode('utf-8', 'replace'))}")
        return
    kind, names = kind_of(data_type), set(schema.names)
    payload = {
        field.column for fields in (kind.fields, *(one.fields for one in kind.levels)) for field in fields
    }
    if kind.per_side:
        payload.add("side")
    others = [schema_of(other) for other in DATA_TYPES]
    of_others = {name for other in others for name in other.names if name not in other.descriptors}
    of_others -= {*schema_of(data_type).names}
    for verb, columns in (("lacks", payload - names), ("has", of_others & names)):
        if columns:
            raise Fault(
                f"the stream does not name its type, and {verb} {', '.join(sorted(columns))}, unlike {data_type}"
            )


_MOST_SHARED = 8
"""Most bytes that all batches may hold together, as a multiple of the body: each batch counts the dictionaries. [1]"""


def _within(size: int, batches: Any) -> list[Any]:
    """Return the batches, if they hold no more than their bytes can carry.

    Columns can share bytes in the body, but copies of them do not. Values of the null type take no bytes in the body,
    so a list could claim any number of them: each counts as one byte.
    """
    kept = []
    together = nulls = 0
    for batch in batches:
        if batch.nbytes > size:
            raise pa.ArrowInvalid(f"a batch of {batch.nbytes} bytes in a body of {size}")
        together += batch.nbytes
        if together > _MOST_SHARED * size:
            raise pa.ArrowInvalid(f"batches of {together} bytes in a body of {size}")
        nulls += sum(map(_nulls, batch.columns))
        if nulls > size:
            raise pa.ArrowInvalid(f"{nulls} nulls of no type in a body of {size} bytes")
        kept.append(batch)
    return kept


def _nulls(array: Any) -> int:
    """Count the values of the type that has nothing but nulls, those inside lists and structs included."""
    dtype = array.type
    if pa.types.is_null(dtype):
        return len(array)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _nulls(array.values)
    if pa.types.is_struct(dtype):
        return sum(_nulls(array.field(place)) for place in range(dtype.num_fields))
    return 0


def _check_values(column: Any) -> None:
    """Validate a column in full, as pyarrow does, but ten times as fast where it is a dictionary."""
    if not pa.types.is_dictionary(column.type):
        column.validate(full=True)
        return
    for chunk in column.chunks:
        chunk.dictionary.validate(full=True)
        chunk.indices.validate(full=True)
        used = pa.compute.min_max(chunk.indices)
        first, last, size = used["min"].as_py(), used["max"].as_py(), len(chunk.dictionary)
        if last is not None and not 0 <= first <= last < size:
            raise pa.ArrowInvalid(f"a dictionary of {size} has no values {first} to {last}")


def _inner_fields(dtype: Any) -> int:
    # Arrow bounds how deep a type nests. The element of a list is no field of its own.
    named = pa.types.is_struct(dtype)
    return sum(named + _inner_fields(dtype.field(place).type) for place in range(dtype.num_fields))


_DICTIONARY, _BATCH = 2, 3  # of the union MessageHeader


def _check_uncompressed(body: bytes) -> None:
    """Refuse compressed buffers, which pyarrow does not tell of before it has decompressed them.

    Message{version, header_type, header, …}, DictionaryBatch{id, data, …} and RecordBatch{length, nodes, buffers,
    compression, …} are flatbuffers, of which pyarrow has checked the structure: Message.fbs of the Arrow format.
    """
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
        data = message.metadata.to_pybytes()
        root = _target(data, 0)
        type_, header = _slot(data, root, 1), _slot(data, root, 2)
        if type_ is None or header is None:
            continue
        (kind,) = struct.unpack_from("<B", data, type_)
        if kind not in {_DICTIONARY, _BATCH}:
            continue
        table = _target(data, header)
        if kind == _DICTIONARY:
            inner = _slot(data, table, 1)
            if inner is None:
                continue
            table = _target(data, inner)
        if _slot(data, table, 3) is not None:
            raise pa.ArrowInvalid("its buffers are compressed, which is not accepted")


def _target(data: bytes, at: int) -> int:
    """Return the position that a reference in a flatbuffer points to."""
    return int(struct.unpack_from("<I", data, at)[0]) + at


def _slot(data: bytes, table: int, number: int) -> int | None:
    """Return the position of a field of a table in a flatbuffer, None if the field is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, vtable)
    place = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", data, vtable + place) if place < size else (0,)
    return table + offset if offset else None


def _plain(field: Any) -> Any:
    """Return a field without its metadata, which polars would follow; raise if a tidy frame cannot have its type."""
    # Reading the name also checks it: pyarrow raises if it is not UTF-8.
    return pa.field(field.name, _plain_type(field.type))


def _plain_type(dtype: Any) -> Any:
    kinds = pa.types
    if kinds.is_list(dtype) or kinds.is_large_list(dtype):
        return pa.large_list(_plain(dtype.value_field))
    # A struct of no fields has values without bytes, and the JSON lanes never give one.
    if kinds.is_struct(dtype) and dtype.num_fields:
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


def _check_dtypes(frame: Any, schema: Schema) -> None:
    """Raise Fault if columns are absent or have another dtype: a cast could make numbers of other values."""
    dtypes, sent = schema.polars(), frame.schema
    for column in schema.columns:
        if column.name not in sent and not column.nullable:
            raise Fault(f"the stream has no column {column.name}")
    for name, wanted in {DATA_UNTIL: dtypes["timestamp"], **dtypes}.items():
        got = sent.get(name, wanted)
        as_text = wanted == pl.Categorical and got in {pl.String, pl.Categorical, pl.Enum}
        if got != wanted and not as_text:
            raise Fault(f"column {name} is {got}, not {wanted}")
