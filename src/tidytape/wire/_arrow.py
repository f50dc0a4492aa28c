"""Tidy frames as Arrow IPC streams, so that a client and a service of tidytape need not write values as text.

Any Arrow implementation can read the streams. The columns are those of the schema; identity columns are dictionaries,
times are ``timestamp[ns, UTC]``. Between a client and a service of tidytape a column with the same value on every row
travels once, see `tidytape.wire._constants`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc

from tidytape.errors import DecodeError, shown
from tidytape.schema import LEVELS, Columns, Schema, wire_schema
from tidytape.schema import data_type as facts_of
from tidytape.wire._constants import (
    CATEGORY,
    CONSTANTS_KEY,
    TIME,
    Constant,
    constant_of,
    read_constants,
    write_constants,
)
from tidytape.wire._faults import Fault, check_bytes, check_cells, check_unknown, placed
from tidytape.wire._notes import ARROW_KEY, Note, write_notes
from tidytape.wire._sessions import IN_PROGRESS, older_schema, reserved_names, travelling, unnested
from tidytape.wire._tidy import DATA_UNTIL, OF_SERIES, SESSION, newest_final, with_finality, with_known

ARROW_MIME = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow IPC stream."""

ONCE_MIME = f"{ARROW_MIME};constants=once"
"""The media type of a stream in which a column with the same value on every row travels once."""

_TYPE = b"tidytape.type"
"""The key of the data type in the metadata of a stream."""

VERSION_KEY, VERSION = b"tidytape.version", b"2"
"""The key of the version of the format in the metadata of a stream, and the version that this release writes."""

_LARGE = 10_000  # rows from which on `_array` looks for columns of a single category

ARROW_BEGIN, ARROW_END = b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"
"""The first and the last bytes of a stream."""


def to_arrow(
    frame: pl.DataFrame,
    data_type: str,
    notes: Sequence[Note] | None = None,
    *,
    constants_once: bool = False,
) -> bytes:
    """Write a tidy frame as an Arrow IPC stream.

    Parameters
    ----------
    frame : polars.DataFrame, n rows
        A tidy frame.
    data_type : str
        Data type of the frame. The metadata of the stream has it under ``tidytape.type``.
    notes : sequence of Note, optional
        Notes about markets whose points do not fill the window. The metadata has them under ``tidytape.notes``.
    constants_once : bool
        Write a column with the same value on every row into the metadata, under ``tidytape.constants``. `from_arrow`
        restores it; other readers do not. If False, every column is on every row, and any Arrow reader can read it.

    Returns
    -------
    bytes
        One schema and one record batch, uncompressed. The metadata has the version of the format under
        ``tidytape.version``. [byte]

    Examples
    --------
    >>> frame = wire_schema("TRADE").empty()
    >>> from_arrow(to_arrow(frame, "TRADE"), "TRADE").equals(frame)
    True
    """
    arrays = {
        column.name: _array(column) for column in frame.rechunk().get_columns() if column.name != IN_PROGRESS
    }
    constants = _constants_of(arrays) if constants_once and frame.height else {}
    sent = {name: array for name, array in arrays.items() if name not in constants}
    batch = pa.RecordBatch.from_arrays([*sent.values()], names=[*sent])
    head = _head(batch, data_type, notes, _placed(constants, arrays))
    return b"".join([head, batch.serialize(), ARROW_END])


def _placed(constants: Mapping[str, Constant], names: Iterable[str]) -> dict[str, tuple[int, Constant]]:
    """Return constants with their places among the columns of a stream, in this order."""
    return {name: (place, constants[name]) for place, name in enumerate(names) if name in constants}


def _constants_of(arrays: Mapping[str, Any]) -> dict[str, Constant]:
    """Return the columns with the same value on every row; never the times, which say how many rows there are."""
    return {
        name: constant
        for name, array in arrays.items()
        if name != "timestamp" and (constant := constant_of(array)) is not None
    }


def _array(column: pl.Series) -> Any:
    """Return a column with the classic layout of strings, which every reader knows, instead of polars' string views."""
    if column.dtype == pl.Categorical and len(column) >= _LARGE and not column.null_count():
        physical = column.to_physical()
        # Convert a column of one category here: polars takes longer for it than for all columns of numbers.
        if physical.min() == physical.max():
            return Constant(column[0], CATEGORY).array(pa.array(np.zeros(len(column), np.uint32)))
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())


def encode_batches(
    data_type: str,
    batches: Sequence[Any],
    known: Mapping[str, Any],
    notes: Sequence[Note] | None = None,
    *,
    first: int,
    last: int,
    constants_once: bool = False,
) -> bytes:
    """Return the stream that `to_arrow` returns, from record batches of the points of one market.

    Parameters
    ----------
    data_type : str
    batches : sequence of pyarrow.RecordBatch
        Columns that differ from point to point, at least one row of each.
    known : dict of str to object
        The other columns except ``is_final``, which every row has in common; times in ns since the epoch.
    first, last : int
        Time of the oldest and of the newest point. [ns since the epoch]
    notes, constants_once
        As for `to_arrow`.

    Returns
    -------
    bytes
        As `to_arrow` returns it. [byte]
    """
    points = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    arrays = dict(zip(points.schema.names, points.columns, strict=True))
    common = tuple(known.items())
    columns = _order(data_type, is_stated=known[SESSION] is not None)
    constants = dict(_known_constants(columns, common))
    is_final = _finality(arrays["timestamp"], known, first, last)
    (constants if isinstance(is_final, Constant) else arrays)["is_final"] = is_final
    if constants_once:
        constants |= _constants_of(arrays)
        order = [name for name in columns if name not in constants]
    else:
        zeros = pa.array(np.zeros(points.num_rows, np.uint32))
        arrays |= {name: constant.array(zeros) for name, constant in constants.items()}
        order = [*columns]
    batch = points
    if order != points.schema.names:
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in order], names=order)
    words = tuple(arrays["side"].dictionary.to_pylist()) if "side" in arrays else ()
    # Text tells 0.0 from -0.0.
    others = tuple((name, repr(constants[name].value)) for name in constants if name not in known)
    key = data_type, constants_once, common, others, words, *order, None if notes is None else tuple(notes)
    head = _HEADS.get(key)
    if head is None:
        constants_sent = _placed(constants, columns) if constants_once else {}
        head = _head(batch, data_type, notes, constants_sent)
        if len(_HEADS) >= _MOST_HEADS:
            _HEADS.clear()
        _HEADS[key] = head
    return b"".join([head, batch.serialize(), ARROW_END])


def _finality(times: Any, known: Mapping[str, Any], first: int, last: int) -> Any:
    """Return the column ``is_final`` of points, an array or a Constant."""
    until = known[DATA_UNTIL]
    if until is None:
        return Constant(None, pa.bool_())
    newest = int(newest_final(known["interval"], until))
    if first <= newest < last:
        return pa.array(times.view(pa.int64()).to_numpy() <= newest)
    return Constant(last <= newest, pa.bool_())


_HEADS: dict[Hashable, bytes] = {}
"""Beginnings of streams, which the answers of a market share. Making one takes longer than the rest of a small one."""

_MOST_HEADS = 256


@lru_cache(256)
def _known_constants(columns: tuple[str, ...], known: tuple[tuple[str, Any], ...]) -> dict[str, Constant]:
    """Return the columns that all points of a market have in common."""
    types = {"block_size": pa.float64(), DATA_UNTIL: TIME}
    return {name: Constant(value, types.get(name, CATEGORY)) for name, value in known if name in columns}


@cache
def _order(data_type: str, *, is_stated: bool) -> tuple[str, ...]:
    """Return the columns of points in the order of a stream; the session of a market only if that is stated."""
    return (*wire_schema(data_type).names, *(OF_SERIES if is_stated else (DATA_UNTIL,)))


def _head(
    batch: pa.RecordBatch,
    data_type: str,
    notes: Sequence[Note] | None,
    constants: Mapping[str, tuple[int, Constant]],
) -> bytes:
    """Return the messages of a stream before its record batch: the schema and the dictionaries.

    The record batch is a message of its own. A writer would write it twice, the first time only to measure it: letting
    the stream grow takes longer.
    """
    metadata = {_TYPE: data_type, VERSION_KEY: VERSION}
    if notes is not None:
        metadata[ARROW_KEY] = write_notes(notes)
    if constants:
        metadata[CONSTANTS_KEY] = write_constants(constants)
    empty, sink = batch.slice(0, 0).replace_schema_metadata(metadata), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, empty.schema) as writer:
        writer.write_batch(empty)
    return bytes(memoryview(sink.getvalue())[: -empty.serialize().size - len(ARROW_END)])


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
        If the body is not a complete and valid Arrow stream of this data type, its version is newer than this release
        of tidytape, its columns are not the schema's, or it has more than 256 other columns or a column of structs.

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


def _read(body: bytes, data_type: str) -> pl.DataFrame:
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        metadata = reader.schema.metadata or {}
        _check_version(metadata.get(VERSION_KEY))
        sent_type = metadata.get(_TYPE, b"")
        is_of_first_release = _TYPE not in metadata and {*reader.schema.names} == _first_columns(data_type)
        if sent_type != data_type.encode() and not is_of_first_release:
            raise Fault(f"the stream is of type {shown(sent_type.decode('utf-8', 'replace'))}")
        sent_schema = reader.schema.remove_metadata()
        constants = read_constants(metadata.get(CONSTANTS_KEY, b"{}"))
        fields = list(sent_schema)
        for name, (place, value) in constants.items():
            fields[place:place] = [pa.field(name, value.type)]  # unlike `insert`, it takes any integer
        whole_schema = _plain_schema(pa.schema(fields), data_type)
        plain_schema = pa.schema([field for field in whole_schema if field.name not in constants])
        constant_size = sum(value.nbytes for _, value in constants.values())
        batches, rows, level_count, byte_count = [], 0, 0, 0
        for batch in reader:
            batch.validate()
            rows, level_count = rows + batch.num_rows, level_count + _level_count(batch)
            check_cells(max(rows, level_count), len(whole_schema), len(body))
            # Check offsets, UTF-8 and dictionary indices: polars does not, and pyarrow 26 crashes if it counts the
            # bytes behind wrong offsets.
            for column in batch.columns:
                _check_values(column)
            # A dictionary that batches share counts once per batch, because a cast copies it.
            byte_count += batch.nbytes + batch.num_rows * constant_size
            check_bytes(byte_count, len(body))
            batches.append(batch)
        # Equal schemas may differ in the metadata of fields, which may tell polars to read other dtypes: drop it.
        table = pa.Table.from_batches(batches, plain_schema if plain_schema == sent_schema else sent_schema)
    frame = pl.from_arrow(table if plain_schema == sent_schema else table.cast(plain_schema))
    assert isinstance(frame, pl.DataFrame)  # a table gives a frame
    if not constants:
        return frame
    restored = {
        name: pl.Series(name, value).new_from_index(0, rows) for name, (_, value) in constants.items()
    }
    return pl.DataFrame([restored[name] if name in restored else frame[name] for name in whole_schema.names])


@cache
def _first_columns(name: str) -> set[str]:
    """Return the columns that services of the first releases send, which did not name the type of a stream."""
    schema = older_schema(name)
    return {*schema.names} - {*schema.descriptors}


def _level_count(batch: Any) -> int:
    return len(batch.column(LEVELS).values) if LEVELS in batch.schema.names else 0


def _check_version(sent: bytes | None) -> None:
    """Raise Fault if this release cannot read the version of a stream; a stream of the first version may have none."""
    if sent not in {None, b"1", VERSION}:
        raise Fault(
            f"the stream has version {shown(str(sent, 'utf-8', 'replace'), 20)} of the format, and this release of "
            f"tidytape reads up to version {VERSION.decode()}; update tidytape: ``pip install --upgrade tidytape``"
        )


@lru_cache(64)
def _plain_schema(sent: Any, name: str) -> Any:
    """Return the schema that polars reads from a stream; raise Fault if its columns are not those of the data type.

    The answers of a service have few schemas, so the cache checks each schema once.
    """
    schema = _schema_of(sent.names, name)
    if IN_PROGRESS in sent.names:
        raise Fault(f"the stream has a column {IN_PROGRESS}, which only a client has")
    check_unknown(len({*sent.names} - {*schema.names, *OF_SERIES}))
    plain = pa.schema(
        [pa.field(field.name, _plain_type(field.type, of_levels=field.name == LEVELS)) for field in sent]
    )
    frame = pl.from_arrow(plain.empty_table())
    assert isinstance(frame, pl.DataFrame)  # a table gives a frame
    _check_dtypes(frame, schema)
    if LEVELS in schema.names:
        levels = Columns(name, schema[LEVELS].inner, (), "one row per level")
        _check_dtypes(unnested(frame)[0], levels)
        sent_names = {*plain.field(LEVELS).type.value_type.names}
        check_unknown(len(sent_names - {*levels.names}))
        if taken_names := sent_names & {*reserved_names(name), *OF_SERIES}:
            raise Fault(
                f"levels have {shown(', '.join(sorted(taken_names)))}, which levels do not have on the way"
            )
    return plain


def _check_values(column: Any) -> None:
    """Validate an array in full, as pyarrow does, but validate dictionaries ten times as fast."""
    if not pa.types.is_dictionary(column.type):
        column.validate(full=True)
        return
    column.dictionary.validate(full=True)
    column.indices.validate(full=True)
    import pyarrow.compute as pc  # only here, so that the client loads quickly

    bounds = pc.min_max(column.indices)
    first, last, size = bounds["min"].as_py(), bounds["max"].as_py(), len(column.dictionary)
    if last is not None and not 0 <= first <= last < size:
        raise pa.ArrowInvalid(f"a dictionary of {size} has no values {first} to {last}")


def _plain_type(dtype: Any, *, of_levels: bool = False) -> Any:
    """Return the Arrow type that polars reads for a column; raise an error if a tidy frame cannot have it."""
    kinds = pa.types
    if kinds.is_dictionary(dtype) and _plain_type(dtype.value_type) in (pa.string(), pa.large_string()):
        return pa.dictionary(pa.uint32(), pa.large_string())
    if kinds.is_list(dtype) or kinds.is_large_list(dtype):
        dtype.value_field.name.encode()  # raises ValueError for a name that is not UTF-8, on which polars panics
        inner = dtype.value_type
        if _is_flat(inner):
            return pa.large_list(inner)
        if of_levels and kinds.is_struct(inner) and len({*inner.names}) == inner.num_fields:
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
    for name, expected in {DATA_UNTIL: pl.Datetime("ns", "UTC"), SESSION: pl.Categorical(), **dtypes}.items():
        dtype = sent.get(name, expected)
        if name == LEVELS and isinstance(dtype, pl.List):
            continue  # its fields are checked one by one
        as_text = expected == pl.Categorical and dtype in {pl.String, pl.Categorical, pl.Enum}
        if dtype != expected and not as_text:
            raise Fault(f"column {name} is {dtype}, not {expected}")
