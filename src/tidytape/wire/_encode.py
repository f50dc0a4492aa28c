"""Tidy frame to JSON body, the inverse of `tidytape.wire._decode.decode`.

Each row of the frame becomes one text, and each text begins with what separates the row from the one before: a comma,
the head of a new point, or the head of a new series. So the body is the texts of all rows, one after the other. One
polars expression writes them, on all cores in slices of the frame, and no value becomes a Python object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from tidytape.catalogue import COVERAGE, LEVEL_VOLUMES, DataType, Field, Interval
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import LEVELS, Schema, wire_schema
from tidytape.schema import data_type as facts_of
from tidytape.wire._notes import Note, write_notes
from tidytape.wire._sessions import IN_PROGRESS, regrouped, unnested
from tidytape.wire._text import Piece, join, member, value
from tidytape.wire._tidy import DATA_UNTIL, OF_SERIES, SERIES_FIELDS, identity_columns
from tidytape.wire._values import written_time

_INTERVALS = {interval.alias: interval.value for interval in Interval}
_SLICE = 16_384  # rows that a core writes at a time: their text stays in its cache

# Names of working columns. PART has the index of the array of levels that a row belongs to.
_SERIES, _POINT, PART, _BEFORE, _LEAD, _ROW = (
    f"tidytape.wire.{name}" for name in ("series", "point", "part", "before", "lead", "row")
)
MORE_FIELDS = (COVERAGE, LEVEL_VOLUMES)
"""The fields that some points have in addition to those of their data type."""


def encode(frame: pl.DataFrame, data_type: str) -> bytes:
    """Encode a tidy frame as the body of ``/v1/points``.

    Parameters
    ----------
    frame : polars.DataFrame, one row per point or per level, schema ``wire_schema(data_type)``
        Identity as String or Categorical. A column of the schema that the frame lacks counts as null. Columns that the
        schema does not know are written into the payload under their name. Of a market profile `nested` makes the frame
        from levels and sessions.
    data_type : str
        Name of the data type.

    Returns
    -------
    bytes
        JSON in UTF-8; ``{"series":[]}`` for no rows. Series are in the order in which they first appear. So are the
        points of a data type with levels within their series, and the levels within their point, bids before asks: the
        rows of a series or a point need not lie together. A null number that every point should have is written as
        null. Other null fields, and ``ns`` if it is 0, are left out. [byte]

    Raises
    ------
    QueryError
        If the catalogue has no such type, or a row lacks its timestamp, price or book side.
    MissingColumnError
        If the frame has no column ``timestamp``, ``price`` or book ``side`` although the schema requires it.
    DecodeError
        If a column cannot be cast to the schema's dtype.

    Notes
    -----
    A field of a point that repeats on the rows of its levels is written as in the first of these rows. The derived
    ``volume`` of a volume profile is on the wire only in points with a level that has a volume and lacks a side.
    ``is_final`` is not on the wire: the reader derives it from the column ``data_until`` [UTC], which is written. So is
    the column ``session``.

    Examples
    --------
    >>> frame = pl.DataFrame({"exchange": ["X"], "timestamp": [60_000_000_000], "skew": [1.5]})
    >>> encode(frame, "SKEW_OPTION_SUMMARY_AGG")
    b'{"series":[{"id":{"type":"SKEW_OPTION_SUMMARY_AGG","exchange":"X"},"points":[{"Point":{"timestamp":...
    """
    return encode_all([(data_type, frame)])


def encode_all(frames: Sequence[tuple[str, pl.DataFrame]], notes: Sequence[Note] | None = None) -> bytes:
    """Encode frames of several data types as one body.

    Parameters
    ----------
    frames : sequence of (str, polars.DataFrame)
        Data type and tidy frame; their series follow one another.
    notes : sequence of Note, optional
        Notes about markets whose points do not fill the window; the body has them beside the series.

    Returns
    -------
    bytes
        As `encode` returns it. [byte]

    Raises
    ------
    QueryError, MissingColumnError, DecodeError
        As for `encode`.

    Examples
    --------
    >>> encode_all([]), encode_all([("TRADE", wire_schema("TRADE").empty())])
    (b'{"series":[]}', b'{"series":[]}')
    """
    chunks: list[Any] = []
    for name, frame in frames:
        if frame.height:
            chunks += [b"," if chunks else b"", *_series(frame, facts_of(name))]
    return _body(chunks, notes)


@dataclass(frozen=True, slots=True)
class PointTexts:
    """Points of one series as JSON, each with a comma before it.

    Attributes
    ----------
    text : bytes
        The texts one after the other.
    bounds : array of int64, one more than points
        Where each text begins, and where the last one ends.
    """

    text: bytes
    bounds: NDArray[np.int64]

    def part(self, first: int, last: int) -> memoryview:
        """Return the text of the points from number ``first`` to ``last``, exclusive."""
        return memoryview(self.text)[self.bounds[first] : self.bounds[last]]

    def copy(self, first: int, last: int) -> PointTexts:
        """Return a copy of the points from number ``first`` to ``last``, exclusive."""
        bounds = self.bounds[first : last + 1]
        return PointTexts(bytes(self.part(first, last)), bounds - bounds[0])

    @property
    def size(self) -> int:
        """The memory of text and bounds. [byte]"""
        return len(self.text) + self.bounds.nbytes


def point_texts(frame: pl.DataFrame, data_type: str) -> PointTexts:
    """Return the points of one series as JSON; `encode_series` puts them into bodies.

    Parameters
    ----------
    frame : polars.DataFrame, one row per point or per level
        As for `encode`, with one series of a data type that has at most one array of levels.
    data_type : str
        Name of the data type.

    Returns
    -------
    PointTexts

    Raises
    ------
    QueryError, MissingColumnError, DecodeError
        As for `encode`.

    Examples
    --------
    >>> frame = pl.DataFrame({"timestamp": [60_000_000_000], "skew": [1.5]})
    >>> texts = point_texts(frame, "SKEW_OPTION_SUMMARY_AGG")
    >>> encode_series("SKEW_OPTION_SUMMARY_AGG", [({"exchange": "X"}, [texts.part(0, 1)])])
    b'{"series":[{"id":{"type":"SKEW_OPTION_SUMMARY_AGG","exchange":"X"},"points":[{"Point":{"timestamp":...
    """
    facts = facts_of(data_type)
    if frame.is_empty():
        return PointTexts(b"", np.zeros(1, np.int64))
    rows = ordered(checked(frame, wire_schema(data_type)), facts)
    texts, tail = _row_texts(rows, facts)
    lengths = [np.asarray(part.str.len_bytes(), dtype=np.int64) for part in texts]
    starts = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    # The text of the first row begins with the head of the series. The first row of each later point begins with the
    # brackets that close the point before.
    head_length = len(_series_heads(rows.frame.head(1), facts).item().encode())
    end = tail.removesuffix("]}").encode()
    point_starts = starts[rows.new_point.arg_true().to_numpy()] if facts.level_rows else starts[:-1]
    bounds = np.append(point_starts, starts[-1]) + (len(end) - head_length + 1)
    bounds[0] = 0
    joined = b"".join(map(_bytes_of, texts))
    return PointTexts(b"".join([b",", memoryview(joined)[head_length:], end]), bounds)


def encode_series(
    data_type: str,
    series: Iterable[tuple[Mapping[str, Any], Iterable[memoryview]]],
    notes: Sequence[Note] | None = None,
) -> bytes:
    """Return the body that `encode_all` returns, from series whose points are text already.

    Parameters
    ----------
    data_type : str
    series : iterable of (mapping of str to object, iterable of memoryview)
        For each series its identity and descriptors by column, with times in ns since the epoch; and parts of its
        `PointTexts`, each with at least one point.
    notes : sequence of Note, optional
        As for `encode_all`.

    Returns
    -------
    bytes
        As `encode` returns it. [byte]

    Examples
    --------
    >>> encode_series("SKEW_OPTION_SUMMARY_AGG", [])
    b'{"series":[]}'
    """
    chunks: list[Any] = []
    for identity, (first, *others) in series:
        chunks += [b"," if chunks else b"", _head(facts_of(data_type), identity), first[1:], *others, b"]}"]
    return _body(chunks, notes)


def _body(chunks: Iterable[Any], notes: Sequence[Note] | None) -> bytes:
    notes_text = b"" if notes is None else b',"notes":' + write_notes(notes)
    return b"".join([b'{"series":[', *chunks, b"]", notes_text, b"}"])


def _series(frame: pl.DataFrame, data_type: DataType) -> list[Any]:
    """Return the text of all series of a frame with rows, in pieces."""
    texts, tail = _row_texts(ordered(checked(frame, wire_schema(data_type.name)), data_type), data_type)
    return [*map(_bytes_of, texts), tail.encode()]


def _row_texts(rows: WireRows, data_type: DataType) -> tuple[list[pl.Series], str]:
    """Return the text of each row, on all cores in slices of the frame, and the text after the last."""
    leads, tail = _leads(rows, data_type)
    frame = rows.frame.with_columns(leads.alias(_LEAD))
    if data_type.has_sessions:
        frame = frame.with_columns(_level_texts(frame, data_type))
    if data_type.level_rows:
        pieces = _level_pieces(frame, data_type)
    else:
        pieces = [*_point_pieces(frame, data_type), _point_tail(data_type)]
    return _written_rows(frame, join(pl.col(_LEAD), *pieces)), tail


def _written_rows(frame: pl.DataFrame, row: pl.Expr) -> list[pl.Series]:
    """Return the text of each row."""
    if frame.height <= _SLICE:  # planning a query takes longer than writing a small answer
        return [frame.select(row).to_series()]
    slices = [frame.lazy().slice(start, _SLICE).select(row) for start in range(0, frame.height, _SLICE)]
    return [part.to_series() for part in pl.collect_all(slices)]


def _level_texts(frame: pl.DataFrame, data_type: DataType) -> pl.Series:
    """Return the text of all levels of each session, with a comma before each level but the first."""
    levels, counts = unnested(frame)
    (declared,) = data_type.levels
    known = {field.column for field in declared.fields}
    unknown = [piece for name in levels.columns if name not in known for piece in member(name, levels[name])]
    texts = _written_rows(levels, join("{", *_members(levels, declared.fields), *unknown, "}"))
    lists = regrouped(pl.concat(texts), counts).alias(LEVELS).to_frame()
    return lists.select(pl.col(LEVELS).list.join(",")).to_series()


def _bytes_of(texts: pl.Series) -> Any:
    """Return the texts of a series one after the other, which is how Arrow's classic layout stores them."""
    offsets, values = texts.to_arrow(compat_level=pl.CompatLevel.oldest()).buffers()[1:]
    ends = memoryview(offsets).cast("q")
    return memoryview(values)[ends[0] : ends[len(texts)]]


# --- rows in the order of the wire --------------------------------------------------------------------------


def checked(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return a frame in the dtypes of its schema; raise an error if a required column is absent or has nulls."""
    required = [column.name for column in schema.columns if not column.nullable]
    absent = [name for name in required if name not in frame.columns]
    if absent:
        raise MissingColumnError(absent, available=frame.columns)
    frame = schema.conform(frame)
    for name in required:
        if frame[name].null_count():
            raise QueryError(name, got=None, expected=f"a value on every row of {schema.name}")
    return frame


@dataclass(frozen=True, slots=True)
class WireRows:
    """Rows in the order of the wire, and whether each is the first of a series, and of a point."""

    frame: pl.DataFrame
    new_series: pl.Series
    new_point: pl.Series


def ordered(frame: pl.DataFrame, data_type: DataType) -> WireRows:
    """Bring the rows of each series and of each point together; add the number of each row's array of levels."""
    keys = series_columns(frame, data_type)
    frame, new_series = _grouped(frame, keys)
    if not data_type.level_rows:
        return WireRows(frame, new_series, new_series)
    frame, new_point = _grouped(frame, (*keys, "timestamp"))  # series stay where they are
    part_by_side = {
        levels.book_side: part for part, levels in enumerate(data_type.levels) if levels.book_side
    }
    if not part_by_side:
        frame = _with_volumes(frame, new_point) if data_type.derives_volume else frame
        return WireRows(frame.with_columns(pl.lit(0).alias(PART)), new_series, new_point)
    part = pl.col("side").cast(pl.String).replace_strict(part_by_side, default=None, return_dtype=pl.Int64)
    frame = frame.with_columns(part.alias(PART), new_point.cum_sum().alias(_POINT))
    if frame[PART].null_count():
        unknown_side = frame.filter(pl.col(PART).is_null())["side"][0]
        raise QueryError("side", got=unknown_side, expected=f"one of {', '.join(part_by_side)}")
    if not frame.select((pl.col(_POINT) * len(part_by_side) + pl.col(PART)).is_sorted()).item():
        frame = frame.sort(_POINT, PART, maintain_order=True)
    return WireRows(frame.drop(_POINT), new_series, new_point)


def _with_volumes(frame: pl.DataFrame, new_point: pl.Series) -> pl.DataFrame:
    """Add to the first row of each point the volumes of its levels, if one of them has a volume and lacks a side."""
    volume, sides = pl.col("volume"), pl.col("buy_volume", "sell_volume")
    lacks_side = volume.is_not_null() & pl.any_horizontal(sides.is_null())
    if not frame.select(lacks_side.any()).item():
        return frame
    points = frame.group_by(new_point.cum_sum().alias(_POINT), maintain_order=True).agg(
        volume.alias(LEVEL_VOLUMES.column), lacks_side.any().alias(PART)
    )
    volumes = points.select(pl.when(PART).then(LEVEL_VOLUMES.column), new_point.arg_true().alias(_ROW))
    return frame.with_row_index(_ROW).join(volumes, on=_ROW, how="left", maintain_order="left").drop(_ROW)


def series_columns(frame: pl.DataFrame, data_type: DataType) -> tuple[str, ...]:
    """Return the columns that are written once per series: its identity and its descriptors."""
    names = {*identity_columns(data_type), *wire_schema(data_type.name).descriptors, *OF_SERIES}
    return tuple(
        field.column for field in SERIES_FIELDS if field.column in names and field.column in frame.columns
    )


def _changes(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Return whether each row differs from the row before; the first row counts as different."""
    values = [pl.col(key).to_physical() for key in keys]
    first = pl.int_range(pl.len()) == 0
    return frame.select(
        pl.any_horizontal(first, *(value.ne_missing(value.shift(1)) for value in values))
    ).to_series()


def _grouped(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Bring rows of equal keys together, in the order in which the keys first appear; mark the first row of each."""
    changes = _changes(frame, keys)
    if changes.sum() == 1:
        return frame, changes
    runs = frame.filter(changes).select(keys)
    groups = runs.unique(maintain_order=True)
    if groups.height == runs.height:
        return frame, changes
    group = runs.join(
        groups.with_row_index(_SERIES), on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )[_SERIES]
    frame = (
        frame.with_columns(group.gather(changes.cum_sum() - 1))
        .sort(_SERIES, maintain_order=True)
        .drop(_SERIES)
    )
    return frame, _changes(frame, keys)


# --- what separates rows ------------------------------------------------------------------------------------


def _leads(rows: WireRows, data_type: DataType) -> tuple[pl.Series, str]:
    """Return the text before each row, and the text after the last row."""
    frame, new_point = rows.frame, rows.new_point
    heads = _spread(_series_heads(frame.filter(rows.new_series), data_type), rows.new_series)
    if not data_type.level_rows:
        return heads, "]}"
    part_before = frame[PART].shift(1)
    begins_array = new_point | part_before.ne_missing(frame[PART])
    last_part = frame[PART][-1]
    frame = frame.with_columns(
        new_point.alias(_POINT), part_before.alias(_BEFORE), heads.alias(_SERIES)
    ).filter(begins_array)
    count = len(data_type.levels)
    end_texts = {part: _between(data_type, part, count) for part in range(count)}
    begin_texts = {part: _between(data_type, -1, part) for part in range(count)}
    switch_texts = {
        old * count + new: _between(data_type, old, new) for old in range(count) for new in range(old, count)
    }
    point = join(
        pl.col(_BEFORE).replace_strict(end_texts, default=None, return_dtype=pl.String),
        pl.col(_SERIES),
        *_point_pieces(frame, data_type),
        pl.col(PART).replace_strict(begin_texts, return_dtype=pl.String),
    )
    switch = (pl.col(_BEFORE) * count + pl.col(PART)).replace_strict(
        switch_texts, default=None, return_dtype=pl.String
    )
    leads = frame.select(pl.when(_POINT).then(point).otherwise(switch)).to_series()
    return _spread(leads, begins_array), end_texts[last_part] + "]}"


def _spread(texts: pl.Series, is_marked: pl.Series) -> pl.Series:
    """Return the texts on the marked rows, in their order, and a comma on all other rows."""
    return pl.Series([","]).new_from_index(0, len(is_marked)).scatter(is_marked.arg_true(), texts)


def _series_heads(series: pl.DataFrame, data_type: DataType) -> pl.Series:
    """Return the text that begins each series; from the second on it also ends the series before."""
    columns = series_columns(series, data_type)
    times = [pl.col(name).dt.epoch("ns") for name in columns if series.schema[name].is_temporal()]
    # There are few series, and writing one in Python takes less time than an expression per field.
    rows = series.select(columns).with_columns(times).iter_rows(named=True)
    heads = [("]}," if number else "") + _head(data_type, row).decode() for number, row in enumerate(rows)]
    return pl.Series(heads, dtype=pl.String)


def _head(data_type: DataType, series: Mapping[str, Any]) -> bytes:
    """Return the beginning of a series, up to its points."""
    identity = {"type": data_type.name}
    for field in SERIES_FIELDS:
        if (field_value := series.get(field.column)) is not None:
            identity[field.name] = _written(field_value, field.column)
    return b'{"id":' + orjson.dumps(identity) + b',"points":['


def _written(field_value: Any, column: str) -> Any:
    """Return a value of a series' head as it is written in JSON; times are ns since the epoch."""
    if column == "interval":
        return _INTERVALS.get(field_value, field_value)
    if column == DATA_UNTIL:
        return written_time(field_value)
    if isinstance(field_value, float) and not math.isfinite(field_value):
        return "NaN" if math.isnan(field_value) else "Infinity" if field_value > 0 else "-Infinity"
    return field_value


def _between(data_type: DataType, old: int, new: int) -> str:
    """Return the text between the last level of array ``old`` and the first level of array ``new``.

    Arrays between the two are empty. ``old`` is -1 at the beginning of a point, ``new`` is the number of arrays at its
    end.
    """
    closing = "]" if old >= 0 else ""
    skipped = "".join(f',"{levels.name}":[]' for levels in data_type.levels[old + 1 : new])
    opening = f',"{data_type.levels[new].name}":[' if new < len(data_type.levels) else _point_tail(data_type)
    return closing + skipped + opening


# --- rows ---------------------------------------------------------------------------------------------------


def _point_pieces(frame: pl.DataFrame, data_type: DataType) -> list[Piece]:
    """Return the pieces of a point up to the end of its scalar fields."""
    envelope = f'"{data_type.envelope}":{{' if data_type.envelope else ""
    pieces = [f'{{"Point":{{{envelope}', *_members(frame, data_type.fields)]
    for field in MORE_FIELDS:
        pieces += member(field.name, frame[field.column]) if field.column in frame.columns else []
    pieces += _unknown_pieces(frame, data_type)
    return (
        [*pieces, f',"{data_type.levels[0].name}":[', pl.col(LEVELS), "]"]
        if data_type.has_sessions
        else pieces
    )


def _point_tail(data_type: DataType) -> str:
    return "}}}" if data_type.envelope else "}}"


def _level_pieces(frame: pl.DataFrame, data_type: DataType) -> list[Piece]:
    fields = data_type.levels[0].fields
    # In a flat array the position of a value says which field it is, so a null is written.
    first, *others = (_or_null(frame[field.column]) for field in fields)
    return [first, *(piece for number in others for piece in (",", number))]


def _members(frame: pl.DataFrame, fields: Sequence[Field]) -> list[Piece]:
    """Return the pieces of an object's fields; the first field is never null."""
    first, *others = fields
    pieces: list[Piece] = [f'"{first.name}":', *value(frame[first.column])]
    for field in others:
        pieces += member(field.name, frame[field.column], null=field.plain)
    return pieces


def _or_null(column: pl.Series) -> pl.Expr:
    (number,) = value(column)  # flat arrays hold numbers, which are one piece
    assert isinstance(number, pl.Expr)
    return number.fill_null("null") if column.null_count() else number


def _unknown_pieces(frame: pl.DataFrame, data_type: DataType) -> list[Piece]:
    more = {field.column for field in MORE_FIELDS}
    known = {
        *wire_schema(data_type.name).names,
        *more,
        *OF_SERIES,
        IN_PROGRESS,
        PART,
        _POINT,
        _BEFORE,
        _SERIES,
        _LEAD,
    }
    return [piece for name in frame.columns if name not in known for piece in member(name, frame[name])]
