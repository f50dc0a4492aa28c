"""The fast lane: a plain body goes from bytes to columns without a Python object per value.

pyarrow reads the JSON with the schema of the data type. List offsets flatten its result into three tables: the levels
of all points, the points of all series, the series. This lane forgives nothing: it returns None for an unusual body,
and the tolerant lane then reads the same body and decides. So only the tolerant lane accepts spellings and raises
errors.

pyarrow reads several documents on all cores, but a body is one document. So this lane cuts a long body between points:
it closes the open brackets before a cut and opens them again after it. A cut in the wrong place is harmless: it leaves
a piece that is no document, or has a field twice or too many, and pyarrow refuses that.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.json

from tidytape.catalogue import COVERAGE, NOTE_FIELDS, DataType, Field, Kind, Levels
from tidytape.schema import schema_of
from tidytape.times import SECOND
from tidytape.wire._faults import check_series
from tidytape.wire.tidy import (
    MOST_NESTING,
    SERIES_FIELDS,
    Counts,
    Levelled,
    Parts,
    has_empty_struct,
    unknown_column,
)

_TIMESTAMP = pa.struct([("s", pa.int64()), ("ns", pa.int64())])
_TYPES: dict[Kind, Any] = {
    "double": pa.float64(),
    "int64": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": _TIMESTAMP,
    "int32[]": pa.list_(pa.int32()),
    "double[]": pa.list_(pa.float64()),
    "string[]": pa.list_(pa.string()),
}
# These seconds fit with any nanoseconds; the tolerant lane is exact about the last second of int64.
_SECONDS = 9_223_372_036 - 1
_MOST_BYTES = 2**31 - 2  # pyarrow counts the bytes of a block in 32 bits
PIECE = 2**19
"""Least length of a piece: small enough for a piece per core, long enough to be worth it. [byte]"""
_BETWEEN = (b',{"Point"', b', {"Point"')
_CLOSE = b"]}]}"
_REOPEN = b'{"series":[{"id":{},"points":['


class _Unusual(Exception):  # noqa: N818 - a signal between functions of this module, never seen outside
    """The body is one that only the tolerant lane reads."""


def read(body: bytes, kind: DataType, *, unknown: bool, types: Collection[str] = ()) -> Parts | None:
    """Read a body into columns.

    Parameters
    ----------
    body : bytes
        JSON in valid UTF-8. With ``unknown`` the caller must have checked that it nests only a few levels deep,
        because pyarrow reads unknown fields recursively.
    kind : DataType
        The data type to read.
    unknown : bool
        Whether to read fields that the catalogue does not know; otherwise a body with one is left to the tolerant
        lane.
    types : collection of str
        Other data types that the body may hold; their series are skipped.

    Returns
    -------
    Parts or None
        None if the body is unusual, so that the tolerant lane must read it.

    Raises
    ------
    Fault
        If there are too many series.
    """
    try:
        parts = _parts(_document(body, kind, unknown=unknown), kind, types)
    except (_Unusual, pa.ArrowException):
        return None
    # pyarrow accepts some words that are not JSON, and reads numbers beyond a double as infinity: both are unusual.
    return None if b"-NaN" in body or _infinite(parts) else parts


def _document(body: bytes, kind: DataType, *, unknown: bool) -> Any:
    """Return the body as a table with one row per piece; a body with unknown fields is one piece."""
    # pyarrow 26 crashes on a null pointer if the body is `null`, so the body must at least begin like an object.
    if not body[:64].lstrip(b" \t\r\n").startswith(b"{") or len(body) > _MOST_BYTES:
        raise _Unusual
    schema = pa.schema(document_type(kind))
    # Each piece would infer its own schema for unknown fields.
    lines = [memoryview(body)] if unknown else pieces(body)
    table = _read_json(lines, schema, unknown=unknown)
    as_text = pa.schema([field.with_type(_without_times(field.type)) for field in table.schema])
    if unknown and as_text != table.schema:
        # pyarrow infers times from unknown strings that look like times; read those as strings.
        table = _read_json(lines, as_text, unknown=unknown)
    if table.num_rows != len(lines):  # several documents, or none
        raise _Unusual
    return table


def pieces(body: bytes) -> list[memoryview]:
    """Cut a body between points into pieces of one line each; the comma at a cut is in neither piece."""
    view = memoryview(body)
    between = next((between for between in _BETWEEN if between in body), None)
    if between is None or b"\n" in body.rstrip() or b"\r" in body:
        return [view]
    cut = []
    start = 0
    while (comma := body.find(between, start + PIECE)) > 0:
        cut.append(view[start:comma])
        start = comma + 1
    return [*cut, view[start:]]


def _read_json(lines: list[memoryview], schema: Any, *, unknown: bool) -> Any:
    text = lines[0] if len(lines) == 1 else (_CLOSE + b"\n" + _REOPEN).join(lines)
    longest = max(map(len, lines)) + len(_REOPEN) + len(_CLOSE) + 1
    return pyarrow.json.read_json(
        pa.BufferReader(text),
        read_options=pyarrow.json.ReadOptions(block_size=longest),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if unknown else "error"
        ),
    )


def _without_times(dtype: Any, depth: int = 0) -> Any:
    if depth > MOST_NESTING:
        raise _Unusual
    if pa.types.is_timestamp(dtype):
        return pa.string()
    if pa.types.is_list(dtype):
        return pa.list_(_without_times(dtype.value_type, depth + 1))
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_without_times(field.type, depth + 1)) for field in dtype])
    return dtype


# --- the schema of a body -----------------------------------------------------------------------------------


def _types(fields: tuple[Field, ...]) -> dict[str, Any]:
    # A mapping has no duplicate names, which would crash pyarrow, too.
    return {field.name: _TYPES[field.kind] for field in fields}


@cache
def document_type(kind: DataType) -> Any:
    """Return the type of a body as the specification has it, with the notes of our service."""
    fields = kind.fields if kind.group_by is None else (*kind.fields, COVERAGE)
    arrays = {
        levels.name: pa.list_(pa.float64() if levels.flat else pa.struct(_types(levels.fields)))
        for levels in kind.levels
    }
    payload = pa.struct(_types(fields) | arrays)
    point = pa.struct({kind.envelope: payload}) if kind.envelope else payload
    identity = pa.struct({"type": pa.string()} | _types(SERIES_FIELDS))
    series = pa.struct({"id": identity, "points": pa.list_(pa.struct({"Point": point}))})
    return pa.struct([("series", pa.list_(series)), ("notes", pa.list_(pa.struct(_types(NOTE_FIELDS))))])


# --- from nested arrays to tables ---------------------------------------------------------------------------


def _parts(table: Any, kind: DataType, types: Collection[str]) -> Parts:
    if table.num_columns > 1 and table["series"].null_count:
        raise _Unusual  # an object with other fields and no series
    identity, counts, points = _series(table["series"])
    named = pl.Series(identity.flatten()[0], dtype=pl.String)
    wanted = ((named == kind.name) | named.is_null()).to_numpy()
    if not wanted.all():
        if not named.drop_nulls().is_in([kind.name, *types]).all():
            raise _Unusual
        points = points.filter(pa.array(np.repeat(wanted, counts)))
        identity, counts = identity.filter(pa.array(wanted)), counts[wanted]
    _all_present(points)
    payload = points.field("Point")
    _all_present(payload)
    if kind.envelope:
        payload = payload.field(kind.envelope)
        _all_present(payload)
    arrays = {levels.name for levels in kind.levels}
    return Parts(
        _table(identity, SERIES_FIELDS, kind, without={"type"}),
        counts,
        _table(payload, kind.fields, kind, without=arrays),
        tuple(_levelled(payload.field(levels.name), levels, kind) for levels in kind.levels),
    )


def _series(pieces: Any) -> tuple[Any, Counts, Any]:
    """Return the identity of each series, how many points it has, and the points of all series."""
    in_piece, series = _unnested(pieces.combine_chunks())
    check_series(len(series) - len(in_piece) + 1)  # without those that continue one
    _all_present(series)
    identity = series.field("id")
    counts, points = _unnested(series.field("points"))
    if len(in_piece) > 1:
        # The first series of a piece continues the last series of the piece before.
        begins = np.ones(len(counts), dtype=np.bool_)
        begins[in_piece.cumsum()[:-1]] = False
        identity = identity.filter(pa.array(begins))
        counts = np.add.reduceat(counts, begins.nonzero()[0])
    return identity, counts, points


def _all_present(array: Any) -> None:
    if array.null_count:
        raise _Unusual


def _unnested(array: Any) -> tuple[Counts, Any]:
    """Return the length of each list, 0 where it is null, and the values of all lists one after the other."""
    lengths = pl.Series(pa.compute.list_value_length(array), dtype=pl.Int64)
    return lengths.fill_null(0).to_numpy(), array.flatten()


def _infinite(parts: Parts) -> bool:
    tables = [parts.points, *(levels.rows for levels in parts.levels)]
    return any(_any_infinite(column) for table in tables for column in table.get_columns())


def _any_infinite(column: pl.Series) -> bool:
    column = column.alias("values")  # methods of a series read a name such as "^x$" as a pattern
    if isinstance(column.dtype, pl.List):
        return _any_infinite(column.explode())
    return column.dtype.is_float() and bool(column.is_infinite().any())


def _table(array: Any, fields: tuple[Field, ...], kind: DataType, *, without: set[str]) -> pl.DataFrame:
    """Return the fields of an array of structs as columns."""
    documented = {field.name: field for field in fields}
    schema = schema_of(kind.name)
    columns: dict[str, pl.Series] = {}
    # flatten() hands a struct's own nulls down to its fields.
    for name, values in zip((field.name for field in array.type), array.flatten(), strict=True):
        if name in without:
            continue
        field = documented.get(name)
        column = field.column if field else unknown_column(name)
        if column in columns or (field is None and column in schema.names):
            raise _Unusual  # two spellings of one column
        if field is None and has_empty_struct(values.type):
            raise _Unusual
        if field and field not in SERIES_FIELDS and not schema[column].nullable:
            _all_present(values)
        columns[column] = _time(values) if field and field.kind == "timestamp" else pl.Series(column, values)
    return pl.DataFrame(columns)


def _time(array: Any) -> pl.Series:
    seconds, nanoseconds = (pl.Series(values, dtype=pl.Int64).fill_null(0) for values in array.flatten()[:2])
    if not (seconds.is_between(-_SECONDS, _SECONDS).all() and nanoseconds.is_between(0, 999_999_999).all()):
        raise _Unusual
    total = seconds * SECOND + nanoseconds
    if array.null_count:
        total = total.set(~pl.Series(array.is_valid()), None)
    return total.cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")


def _levelled(array: Any, levels: Levels, kind: DataType) -> Levelled:
    counts, values = _unnested(array)
    if not levels.flat:
        _all_present(values)
        rows = _table(values, levels.fields, kind, without=set())
    else:
        stride = len(levels.fields)
        if (counts % stride).any():
            raise _Unusual
        counts = counts // stride
        flat = pl.Series(values, dtype=pl.Float64)
        columns = {
            field.column: flat.gather_every(stride, place) for place, field in enumerate(levels.fields)
        }
        rows = pl.DataFrame(columns)
        if rows["price"].null_count():
            raise _Unusual
    return Levelled(np.asarray(counts), rows)
