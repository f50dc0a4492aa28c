"""Body to columns, without a Python object per value.

pyarrow turns a body into nested arrays, with the schema of the data type. `read` does so from the bytes of the body, if
every value is spelled as in the contract. For any other body `read` returns None; `_spelling` then either raises an
error or rewrites the values for `read_spelled`. So only `_spelling` knows other spellings. The offsets of the lists
flatten the nested arrays into three tables: the series, the points of all series, and the levels of all points.

pyarrow reads several documents on all cores, but a body is one document. So this module cuts a long body between
points: it closes the open brackets before a cut and opens them again after it. A cut in the wrong place is harmless:
the piece is then not a document, or has a repeated or unknown field, and pyarrow refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.json

from tidytape.catalogue import NOTE_FIELDS, DataType, Field, Kind, Levels
from tidytape.schema import wire_schema
from tidytape.times import SECOND
from tidytape.wire import _flat
from tidytape.wire._faults import Fault
from tidytape.wire._spelling import Types, payload_fields, unknown_column, unknown_types
from tidytape.wire._tidy import SERIES_FIELDS, Counts, Levelled, Parts

_TYPES: dict[Kind, Any] = {
    "double": pa.float64(),
    "int64": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.struct([("s", pa.int64()), ("ns", pa.int64())]),
    "int32[]": pa.list_(pa.int32()),
    "double[]": pa.list_(pa.float64()),
    "string[]": pa.list_(pa.string()),
}
_MOST_BYTES = 2**31 - 2  # pyarrow counts the bytes of a block in 32 bits
PIECE = 2**19
"""Least length of a piece: short enough that each core gets one, long enough to be worth a cut. [byte]"""
_POINT_BEGINS = (b',{"Point"', b', {"Point"')
_CLOSE = b"]}]}"
_REOPEN = b'{"series":[{"id":{},"points":['
_NO_TEXTS: Mapping[str, pl.Series] = MappingProxyType({})


class _Unusual(Exception):  # noqa: N818 - a signal that never leaves this module
    """Raised for a body that only `_spelling` can read."""


def read(
    body: bytes, data_type: DataType, *, types: Collection[str] = (), unknown: Types | None = None
) -> Parts | None:
    """Read a body in which every value is spelled as in the contract.

    Parameters
    ----------
    body : bytes
        JSON in valid UTF-8.
    data_type : DataType
        The data type to read.
    types : collection of str
        Other data types that the body may have; their series are skipped.
    unknown : dict of str to Arrow type, optional
        Unknown fields that the points may have, see `unknown_of_points`.

    Returns
    -------
    Parts or None
        None if the body has another spelling, another unknown field or a fault.
    """
    type_ = document_type(data_type, tuple((unknown or {}).items()))
    is_long = PIECE <= len(body) <= _MOST_BYTES
    emptied_body, texts = _flat.cut(
        body, [levels.name for levels in data_type.levels if levels.flat and is_long]
    )
    parts = _read(emptied_body, type_, data_type, types, texts) if texts else None
    return parts or _read(body, type_, data_type, types, {})


def _read(
    body: bytes, type_: Any, data_type: DataType, types: Collection[str], texts: Mapping[str, pl.Series]
) -> Parts | None:
    """Read a body; ``texts`` are the contents that were cut out of its arrays, by name. None if the body is unusual."""
    try:
        parts = _parts(_document(body, type_), data_type, types, texts)
    except (_Unusual, pa.ArrowException):
        return None
    return None if _is_misread(parts, body) else parts


def unknown_of_points(document: Any, data_type: DataType, size: int) -> Types:
    """Return the unknown fields of the points of a parsed body; ``size`` is the length of the body. [byte]

    A field that a service adds is mostly a number, a string or a boolean. With its type `read` can read the bytes of
    the body, in half the time of `_spelling`.

    Returns
    -------
    dict of str to Arrow type
        Empty if `_spelling` has to read the body: the document has a fault, a name is another spelling of a documented
        field, or two names give the same column.
    """
    try:
        payloads = _payloads(document, data_type)
        names = set(chain.from_iterable(payloads)) - _documented_names(data_type)
        columns = {unknown_column(name) for name in names}
        known_columns = {
            *wire_schema(data_type.name).names,
            *(field.column for field in payload_fields(data_type)),
        }
        are_distinct = len(columns) == len(names) and columns.isdisjoint(known_columns)
        return unknown_types(payloads, _documented_names(data_type), size) if are_distinct else {}
    except (Fault, AttributeError, LookupError, TypeError):
        return {}


def read_spelled(document: dict[str, Any], data_type: DataType, size: int) -> Parts:
    """Read a document that `_spelling.respelled` returned; ``size`` is the length of its body. [byte]

    Raises
    ------
    Fault
        If it has more unknown fields than a frame takes, or more values than an array of Arrow.
    """
    payloads = _payloads(document, data_type)
    unknown = {
        "id": unknown_types([series["id"] for series in document["series"]], _types(SERIES_FIELDS), size),
        "Point": unknown_types(payloads, _documented_names(data_type), size),
    }
    for levels in data_type.levels:
        if not levels.flat:
            objects = [level for payload in payloads for level in payload[levels.name]]
            unknown[levels.name] = unknown_types(objects, _types(levels.fields), size)
    try:
        return _parts(pa.array([document["series"]], pa.list_(_series_type(data_type, unknown))), data_type)
    except pa.ArrowException as error:
        raise Fault(str(error)) from None


def table_of(records: list[dict[str, Any]], fields: Sequence[Field], size: int) -> pl.DataFrame:
    """Return a table of records from a `Spelling`, unknown fields last; ``size`` is the length of the body. [byte]"""
    types = _types(fields)
    return _table(pa.array(records, pa.struct(types | unknown_types(records, types, size))), fields)


def _document(body: bytes, type_: Any) -> Any:
    """Return the series of a body of this type, one list per piece of the body."""
    lines = pieces(body)
    longest = max(map(len, lines)) + len(_REOPEN) + len(_CLOSE) + 1
    # pyarrow 26 crashes if the body is `null`, so make sure that it begins like an object.
    if longest > _MOST_BYTES or not body[:64].lstrip(b" \t\r\n").startswith(b"{"):
        raise _Unusual
    table = pyarrow.json.read_json(
        pa.BufferReader(lines[0] if len(lines) == 1 else (_CLOSE + b"\n" + _REOPEN).join(lines)),
        read_options=pyarrow.json.ReadOptions(block_size=longest),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(type_), unexpected_field_behavior="error"
        ),
    )
    # If the rows are not one per piece, the body is not exactly one document; or it has no series.
    if table.num_rows != len(lines) or table["series"].null_count:
        raise _Unusual
    return table["series"].combine_chunks()


def pieces(body: bytes) -> list[memoryview]:
    """Cut a body between points into pieces, each on one line; the comma at a cut is in neither piece."""
    view = memoryview(body)
    point_begin = next((begin for begin in _POINT_BEGINS if begin in body), None)
    if point_begin is None or b"\n" in body.rstrip() or b"\r" in body:
        return [view]
    complete_pieces = []
    start = 0
    while (comma := body.find(point_begin, start + PIECE)) > 0:
        complete_pieces.append(view[start:comma])
        start = comma + 1
    return [*complete_pieces, view[start:]]


# --- the schema of a body -----------------------------------------------------------------------------------


def _types(fields: Sequence[Field]) -> Types:
    # A struct with two fields of one name would crash pyarrow; a dict has each name once.
    return {field.name: _TYPES[field.kind] for field in fields}


def _documented_names(data_type: DataType) -> set[str]:
    """Return the names of the documented fields of a payload, and of its arrays of levels."""
    return {*_types(payload_fields(data_type)), *(levels.name for levels in data_type.levels)}


def _payloads(document: Any, data_type: DataType) -> list[dict[str, Any]]:
    points = [point["Point"] for series in document["series"] for point in series["points"]]
    return [point[data_type.envelope] for point in points] if data_type.envelope else points


def _series_type(data_type: DataType, unknown: dict[str, Types]) -> Any:
    """Return the Arrow type of a series; ``unknown`` has unknown fields of ``id``, ``Point`` and arrays of levels."""
    arrays = {
        levels.name: pa.list_(
            pa.float64() if levels.flat else pa.struct(_types(levels.fields) | unknown.get(levels.name, {}))
        )
        for levels in data_type.levels
    }
    payload = pa.struct(_types(payload_fields(data_type)) | unknown.get("Point", {}) | arrays)
    point = pa.struct({data_type.envelope: payload}) if data_type.envelope else payload
    identity = pa.struct({"type": pa.string()} | _types(SERIES_FIELDS) | unknown.get("id", {}))
    return pa.struct([("id", identity), ("points", pa.list_(pa.struct({"Point": point})))])


@lru_cache(256)
def document_type(data_type: DataType, unknown: tuple[tuple[str, Any], ...] = ()) -> Any:
    """Return the Arrow type of a body: its series, with ``unknown`` fields of points, and the notes of our service."""
    return pa.struct(
        [
            ("series", pa.list_(_series_type(data_type, {"Point": dict(unknown)}))),
            ("notes", pa.list_(pa.struct(_types(NOTE_FIELDS)))),
        ]
    )


# --- from nested arrays to tables ---------------------------------------------------------------------------


def _parts(
    pieces: Any, data_type: DataType, types: Collection[str] = (), texts: Mapping[str, pl.Series] = _NO_TEXTS
) -> Parts:
    """Return the tables of a body from the series of its pieces and the texts that were cut out of its flat arrays."""
    identity, counts, points = _series(pieces)
    sent_types = pl.Series(identity.flatten()[0], dtype=pl.String)
    is_of_type = ((sent_types == data_type.name) | sent_types.is_null()).to_numpy()
    if not is_of_type.all():
        if not sent_types.drop_nulls().is_in([data_type.name, *types]).all():
            raise _Unusual
        if texts:  # the texts are those of all series, also of the series to skip
            raise _Unusual
        points = points.filter(pa.array(np.repeat(is_of_type, counts)))
        identity, counts = identity.filter(pa.array(is_of_type)), counts[is_of_type]
    _require_present(points)
    payload = points.field("Point")
    _require_present(payload)
    if data_type.envelope:
        payload = payload.field(data_type.envelope)
        _require_present(payload)
    columns = wire_schema(data_type.name).columns
    required = {column.name for outer in columns for column in (outer, *outer.inner) if not column.nullable}
    return Parts(
        _table(identity, SERIES_FIELDS, without={"type"}),
        counts,
        _table(
            payload, data_type.fields, without={levels.name for levels in data_type.levels}, required=required
        ),
        tuple(
            _levelled(_filled(payload.field(levels.name), texts.get(levels.name)), levels, required)
            for levels in data_type.levels
        ),
    )


def _series(pieces: Any) -> tuple[Any, Counts, Any]:
    """Return the identity of each series, how many points it has, and the points of all series."""
    series_per_piece, series = _unnested(pieces)
    _require_present(series)
    identity = series.field("id")
    counts, points = _unnested(series.field("points"))
    if len(series_per_piece) > 1:
        # The first series of a piece continues the last series of the piece before.
        is_new = np.ones(len(counts), dtype=np.bool_)
        is_new[series_per_piece.cumsum()[:-1]] = False
        identity = identity.filter(pa.array(is_new))
        counts = np.add.reduceat(counts, is_new.nonzero()[0])
    return identity, counts, points


def _require_present(array: Any) -> None:
    """Raise _Unusual if a value of an array is null."""
    if array.null_count:
        raise _Unusual


def _unnested(array: Any) -> tuple[Counts, Any]:
    """Return the length of each list, 0 if it is null, and the values of all lists one after the other."""
    import pyarrow.compute as pc  # only here, so that the client loads quickly

    return _int64(pc.list_value_length(array)), array.flatten()


def _int64(array: Any) -> Counts:
    """Return integers, with 0 for null. It does not start the engine of polars, which takes long for few values."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(array, 0)).astype(np.int64)


def _is_misread(parts: Parts, body: bytes) -> bool:
    """Return whether pyarrow may have accepted an invalid number.

    It reads a number that is too large for a double as infinity, and -NaN as NaN.
    """
    tables = (parts.series, parts.points, *(part.rows for part in parts.levels))
    nonfinite = [
        values for table in tables for values in map(_numbers, table.get_columns()) if not _is_finite(values)
    ]
    return bool(nonfinite) and (b"-NaN" in body or any(values.is_infinite().any() for values in nonfinite))


def _numbers(column: pl.Series) -> pl.Series:
    column = column.alias("values")  # list methods would read a name such as "^x$" as a pattern
    return column.explode() if isinstance(column.dtype, pl.List) else column


def _is_finite(values: pl.Series) -> bool:
    # The sum is finite only if all values are.
    return not values.dtype.is_float() or math.isfinite(values.sum())


def _table(
    array: Any, fields: Sequence[Field], *, without: Collection[str] = (), required: Collection[str] = ()
) -> pl.DataFrame:
    """Return the fields of an array of structs as columns."""
    documented = {field.name: field for field in fields}
    columns: dict[str, pl.Series] = {}
    # flatten() makes the fields of a null struct null.
    for name, values in zip((field.name for field in array.type), array.flatten(), strict=True):
        if name in without:
            continue
        field = documented.get(name)
        column = field.column if field else unknown_column(name)
        if field and column in required:
            _require_present(values)
        columns[column] = _time(values) if field and field.kind == "timestamp" else pl.Series(column, values)
    return pl.DataFrame(columns)


def _time(array: Any) -> pl.Series:
    seconds, nanoseconds = map(_int64, array.flatten())
    total = seconds * SECOND + nanoseconds
    if (total // SECOND != seconds).any():  # an overflow of 64 bits, or nanoseconds of a second or more
        raise _Unusual
    times = pa.array(total, mask=~np.asarray(array.is_valid())) if array.null_count else pa.array(total)
    return pl.Series(times.view(pa.timestamp("ns", "UTC")))


def _filled(arrays: Any, texts: pl.Series | None) -> Any:
    """Put the numbers of ``texts`` back into the arrays that they were cut out of; without texts return the arrays."""
    if texts is None:
        return arrays
    # `cut` may have missed some of these arrays, or taken others.
    if len(arrays.flatten()) or len(arrays) - arrays.null_count != len(texts):
        raise _Unusual
    numbers = _flat.numbers(texts)
    if numbers is None:
        raise _Unusual
    present = np.asarray(arrays.is_valid())
    return numbers.take(pa.array(present.cumsum() - 1, mask=~present)) if arrays.null_count else numbers


def _levelled(array: Any, levels: Levels, required: Collection[str]) -> Levelled:
    """Return the number of levels of each point, and the table of all levels, from an array of lists."""
    counts, values = _unnested(array)
    if not levels.flat:
        _require_present(values)
        rows = _table(values, levels.fields, required=required)
    else:
        stride = len(levels.fields)
        if (counts % stride).any():
            raise _Unusual
        counts = counts // stride
        rows = pl.DataFrame({"values": pl.Series(values, dtype=pl.Float64)}).select(
            pl.col("values").gather_every(stride, offset).alias(field.column)
            for offset, field in enumerate(levels.fields)
        )
        if rows["price"].null_count():
            raise _Unusual
    return Levelled(np.asarray(counts), rows)
