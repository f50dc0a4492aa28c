"""Encode a tidy frame as protocol buffers, as `tidytape.wire.encode` encodes it as JSON.

The numbers of fields are read from the definition, and the fields of each data type from `tidytape.catalogue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tidytape.catalogue import NOTE_FIELDS, Change, DataType, Field, Interval, Kind
from tidytape.schema import data_type as kind_of
from tidytape.schema import wire_schema
from tidytape.service.proto import _columns as columns
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.service.proto._columns import Bytes
from tidytape.times import SECOND
from tidytape.wire._encode import MORE_FIELDS, PART, checked, ordered, series_columns
from tidytape.wire._notes import Note
from tidytape.wire._sessions import unnested
from tidytape.wire._stream import Batch
from tidytape.wire._tidy import SERIES_FIELDS

_SERIES = pb.PointResponse.DESCRIPTOR.fields_by_name["series"].number
_CHANGES = {change: pb.PointBatch.DESCRIPTOR.fields_by_name[change.value].number for change in Change}
_ID, _POINTS = (pb.Series.DESCRIPTOR.fields_by_name[name].number for name in ("id", "points"))
_INTERVALS = {interval.alias: interval.value for interval in Interval}


def encode_all(frames: Sequence[tuple[str, pl.DataFrame]], notes: Iterable[Note] = ()) -> bytes:
    """Encode frames of several data types as one PointResponse.

    Parameters
    ----------
    frames : sequence of (str, polars.DataFrame)
        Data type and tidy frame, see `tidytape.wire._encode.encode_all`; their series follow one another.
    notes : iterable of Note
        What the answer says about markets whose points do not fill the window.

    Returns
    -------
    bytes
        A PointResponse.

    Raises
    ------
    QueryError, MissingColumnError, DecodeError
        See `tidytape.wire.encode`; also if a time lies outside of the years 1970 to 2106.

    Examples
    --------
    >>> frame = pl.DataFrame({"exchange": ["X"], "timestamp": [60_000_000_000], "skew": [1.5]})
    >>> body = encode_all([("SKEW_OPTION_SUMMARY_AGG", frame)])
    >>> point = pb.PointResponse.FromString(body).series[0].points[0]
    >>> point.skew_option_summary_agg.timestamp.seconds, point.skew_option_summary_agg.skew
    (60, 1.5)
    """
    parts = [encode_series(frame, name, number=_SERIES) for name, frame in frames]
    return b"".join([*parts, pb.PointResponse(notes=map(_note, notes)).SerializeToString()])


def encode_batch(batch: Batch) -> bytes:
    """Encode a batch of a stream as a PointBatch without its token and end, which `batch_end` encodes.

    Readers of the same points share the result: two messages, one after the other, are read as one message.

    Raises
    ------
    QueryError, MissingColumnError, DecodeError
        See `encode_all`.

    Examples
    --------
    >>> batch = Batch(over={"TRADE_AGG": 60_000_000_000}, token="a")
    >>> pb.PointBatch.FromString(encode_batch(batch) + batch_end(batch)).over["TRADE_AGG"].seconds
    60
    """
    parts = [
        encode_series(frame, name, number=_CHANGES[change]) for (name, change), frame in batch.frames.items()
    ]
    over = {name: _timestamp(start) for name, start in batch.over.items()}
    return b"".join([*parts, pb.PointBatch(over=over).SerializeToString()])


def batch_end(batch: Batch) -> bytes:
    """Encode the token and the end of a batch."""
    end = None if batch.end is None else pb.PointBatch.End(code=batch.end[0], message=batch.end[1])
    return bytes(pb.PointBatch(token=batch.token, end=end).SerializeToString())


def encode_series(frame: pl.DataFrame, data_type: str, *, number: int) -> bytes:
    """Encode a tidy frame as repeated Series of a message.

    Parameters
    ----------
    frame : polars.DataFrame, one row per point or per level
        See `tidytape.wire.encode`.
    data_type : str
        Name of the data type.
    number : int
        Number of the field in which the message has its series.

    Returns
    -------
    bytes
        The fields of a message. Such messages, one after the other, are read as one message.

    Raises
    ------
    QueryError, MissingColumnError, DecodeError
        As of `encode_all`.
    """
    if frame.is_empty():
        return b""
    definition = kind_of(data_type)
    rows = ordered(checked(frame, wire_schema(data_type)), definition)
    frame, is_first = rows.frame, rows.new_series
    series_rows = frame.filter(is_first).select(series_columns(frame, definition))
    series_rows = series_rows.with_columns(pl.selectors.temporal().dt.epoch("ns"))
    ids = columns.of_bytes([_id(definition, row) for row in series_rows.iter_rows(named=True)])
    if definition.level_rows:
        is_first = is_first.filter(rows.new_point)
    starts = is_first.arg_true().to_numpy().astype(np.int64)
    points = columns.message(_POINTS, _points(frame, definition, rows.new_point))
    points_of_series = columns.regrouped(points, np.diff(starts, append=len(is_first)))
    series = columns.message(number, columns.joined([columns.message(_ID, ids), points_of_series]))
    return columns.bytes_of(series)


def _points(frame: pl.DataFrame, data_type: DataType, new_point: pl.Series) -> Bytes:
    """Return the message Point of each point as a column."""
    member = pb.Point.DESCRIPTOR.fields_by_name[data_type.name.lower()]
    payload = member.message_type.fields_by_name
    points = frame.filter(new_point) if data_type.level_rows else frame
    parts = _fields(points, data_type.fields, payload)
    if data_type.has_sessions:
        (levels,), (rows, counts) = data_type.levels, unnested(frame)
        field = payload[levels.name]
        level_messages = columns.joined(_fields(rows, levels.fields, field.message_type.fields_by_name))
        parts.append(columns.regrouped(columns.message(field.number, level_messages), counts))
    elif data_type.levels:
        point_index, point_count = np.asarray(new_point.cum_sum(), dtype=np.int64) - 1, points.height
        for index, levels in enumerate(data_type.levels):
            number, is_level = payload[levels.name].number, (frame[PART] == index).to_numpy()
            counts = np.bincount(point_index[is_level], minlength=point_count)
            rows = frame.filter(is_level)
            rows = rows.select(field.column for field in levels.fields)
            parts.append(columns.packed_levels(number, rows, counts))
    parts += _fields(points, [field for field in MORE_FIELDS if field.column in frame.columns], payload)
    return columns.message(member.number, columns.joined(parts))


def _fields(rows: pl.DataFrame, fields: Iterable[Field], numbers: Mapping[str, Any]) -> list[Bytes]:
    """Return the fields of a message, one column per field."""
    return [_WRITERS[field.kind](numbers[field.name].number, rows[field.column]) for field in fields]


_WRITERS: Mapping[Kind, Callable[[int, pl.Series], Bytes]] = {
    "double": columns.doubles,
    "int64": columns.varints,
    "string": columns.texts,
    "timestamp": columns.timestamps,
    "int32[]": columns.packed,
    "double[]": columns.packed,
}


def _id(data_type: DataType, row: Mapping[str, Any]) -> bytes:
    """Return the message SeriesId, which identifies and describes a series; times in ``row`` are ns since the epoch."""
    values = {field.name: row.get(field.column) for field in SERIES_FIELDS}
    return bytes(pb.SeriesId(type=data_type.name, **_values(values, SERIES_FIELDS)).SerializeToString())


def _note(note: Note) -> pb.Note:
    values = {field.name: getattr(note, field.column) for field in NOTE_FIELDS}
    return pb.Note(**_values(values, NOTE_FIELDS))


def _values(values: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, Any]:
    """Return the fields of a message that are not null."""
    present = {name: value for name, value in values.items() if value is not None}
    for name in (field.name for field in fields if field.kind == "timestamp" and field.name in present):
        present[name] = _timestamp(present[name])
    if "interval" in present:
        present["interval"] = _INTERVALS.get(present["interval"], present["interval"])
    return present


def _timestamp(time: int) -> pb.Timestamp:
    """Return the message of a time in ns since the epoch."""
    return pb.Timestamp(seconds=time // SECOND, nanoseconds=time % SECOND)
