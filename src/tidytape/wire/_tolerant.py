"""The tolerant lane: it reads a parsed body value by value, in every spelling that proto3 JSON allows.

It is ten times slower than the fast lane, and its verdict is final: where it refuses a value, it raises a `DecodeError`
that names the place. It accepts

- int64 and doubles as strings, doubles as ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, a timestamp whose ``s`` or
  ``ns`` is left out because it is 0, and null for an absent value. It refuses a value of any other kind,
- a documented field under its snake_case or camelCase name,
- a payload directly under ``Point`` where the type has an envelope (the specification says it may change),
- unknown fields of any kind. Where the values of one differ in kind, nest deeply or are objects without fields, the
  column is text: it holds strings as they are, and other values as JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tidytape.catalogue import IDENTITY_FIELDS, DataType, Field, Kind, Levels
from tidytape.errors import shown
from tidytape.schema import schema_of
from tidytape.times import SECOND
from tidytape.wire._faults import (
    Fault,
    check_holds,
    check_series,
    check_unknown,
    nesting,
    placed,
    series_name,
    unknown_fields,
    within,
)
from tidytape.wire.tidy import (
    MOST_NESTING,
    SERIES_FIELDS,
    Levelled,
    Parts,
    has_empty_struct,
    identity_columns,
    unknown_column,
)

_MOST_TEXT_NESTING = 500  # Python writes JSON recursively


def read(document: Any, kind: DataType, *, types: Collection[str] = (), zeros: bool = False) -> Parts:
    """Read a parsed body.

    Parameters
    ----------
    document : object
        The body, as a JSON parser returned it.
    kind : DataType
        The data type to read.
    types : collection of str
        Other data types that the body may hold; their series are skipped.
    zeros : bool
        Whether an absent number becomes 0 in the fields that every point has (`Field.plain`), and not null.

    Returns
    -------
    Parts

    Raises
    ------
    DecodeError
        At the first value that breaks the contract; it names the place.
    """
    with placed(kind.name) as place:
        if not isinstance(document, dict):
            raise Fault("the body is not a JSON object")
        check_holds(document, "series")
        all_series = array(document.get("series"), "series")
        check_series(len(all_series))
        body = _Body(kind, zeros=zeros)
        for position, series in enumerate(all_series):
            place.series, place.point = str(position), None
            identity = _identity(series)
            type_ = identity.get("type")
            if type_ not in (None, kind.name, *types):
                raise Fault(f"it is of type {shown(type_)}, and {kind.name} was asked for")
            if type_ in (None, kind.name):
                place.series = series_name(identity, position)
                body.series.add(identity)
                points = array(series.get("points"), "points")
                body.counts.append(len(points))
                for number, point in enumerate(points):
                    place.point = number
                    body.add_point(point)
        place.series = place.point = None
        return body.parts()


def _identity(series: Any) -> dict[str, Any]:
    if not isinstance(series, dict):
        raise Fault("it is not an object")
    identity = series.get("id")
    if not isinstance(identity, dict | None):
        raise Fault("its id is not an object")
    return identity or {}


class _Body:
    """The tables of a body, filled point by point."""

    def __init__(self, kind: DataType, *, zeros: bool) -> None:
        self.kind = kind
        schema = schema_of(kind.name)
        dtypes = schema.polars()
        identity = identity_columns(kind)
        # A payload may carry an identity field that its series lacks: the heatmap of one exchange names its coin there.
        taken = {field.column for field in kind.fields}
        spare = [field for field in IDENTITY_FIELDS if field.column in identity and field.column not in taken]
        self.series = Table(SERIES_FIELDS, dtypes | {"block_size": pl.Float64()}, without=["type"])
        arrays = [levels.name for levels in kind.levels]
        self.points = Table((*kind.fields, *spare), dtypes, without=arrays, zeros=zeros)
        self.counts: list[int] = []
        self.levels = [Table(levels.fields, dtypes, zeros=zeros) for levels in kind.levels]
        self.level_counts: list[list[int]] = [[] for _ in kind.levels]
        self._required = {column.name for column in schema.columns if not column.nullable}

    def add_point(self, point: Any) -> None:
        """Add a point and its levels."""
        payload = self._payload(point)
        row = self.points.add(payload)
        for column, value in row.items():
            if value is None and column in self._required:
                raise Fault(f"it has no {column}")
        for levels, table, counts in zip(self.kind.levels, self.levels, self.level_counts, strict=True):
            before = table.rows
            add = _add_numbers if levels.flat else _add_objects
            add(table, array(payload.get(levels.name), levels.name), levels)
            counts.append(table.rows - before)

    def _payload(self, point: Any) -> dict[str, Any]:
        payload = point.get("Point") if isinstance(point, dict) else None
        if not isinstance(payload, dict):
            raise Fault("it is not an object with its payload under the key Point")
        if self.kind.envelope and self.kind.envelope in payload:
            payload = payload[self.kind.envelope]
            if not isinstance(payload, dict):
                raise Fault(f"its {self.kind.envelope} is not an object")
        return payload

    def parts(self) -> Parts:
        # An absent price is 0: proto3 omits zeros, and a level always has a price.
        levels = tuple(
            Levelled(np.asarray(counts, np.int64), table.frame().with_columns(pl.col("price").fill_null(0.0)))
            for counts, table in zip(self.level_counts, self.levels, strict=True)
        )
        return Parts(self.series.frame(), np.asarray(self.counts, np.int64), self.points.frame(), levels)


def _add_numbers(table: Table, values: list[Any], levels: Levels) -> None:
    """Add levels that are written as one array of numbers."""
    stride = len(levels.fields)
    if len(values) % stride:
        message = f"{levels.name} has {len(values)} values, not a multiple of {stride}"
        raise Fault(message, length=len(values))
    try:
        table.extend(values)
    except Fault:
        for place, value in enumerate(values):
            with within(f"{levels.name}, value {place}"):
                read_value(value, levels.fields[place % stride].kind)
        raise
    if None in values[::stride]:
        place = values[::stride].index(None) * stride
        raise Fault(f"{levels.name}, value {place}: a level without a price")


def _add_objects(table: Table, values: list[Any], levels: Levels) -> None:
    """Add levels that are written as one object each."""
    for position, level in enumerate(values):
        try:
            if not isinstance(level, dict):
                raise Fault("it is not an object")
            table.add(level)
        except Fault as fault:
            raise Fault(f"{levels.name}, level {position}: {fault}") from None


def array(value: Any, name: str) -> list[Any]:
    """Return an array, empty where it is absent, because proto3 omits empty arrays."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Fault(f"{name} is not an array")
    return value


class Table:
    """Rows read from JSON objects and collected as columns; unknown fields become columns as they are sent.

    Parameters
    ----------
    fields : tuple of Field
        The documented fields.
    dtypes : dict of str to polars.DataType
        Type of each column.
    without : iterable of str
        Wire names that are skipped.
    zeros : bool
        Whether an absent number becomes 0 in the fields that every row has (`Field.plain`), and not null.
    """

    def __init__(
        self,
        fields: tuple[Field, ...],
        dtypes: dict[str, pl.DataType],
        *,
        without: Any = (),
        zeros: bool = False,
    ) -> None:
        self.rows = 0
        self._fields = {field.name: field for field in fields}
        self._by_column = {field.column: field for field in fields}
        self._absent = {field.column: 0.0 if zeros and field.plain else None for field in fields}
        self._dtypes = dtypes
        self._without = frozenset(without)
        self._known: dict[str, list[Any]] = {column: [] for column in self._by_column}
        self._unknown: dict[str, dict[int, Any]] = {}

    def add(self, record: dict[str, Any]) -> dict[str, Any]:
        """Add a row and return its documented values by column."""
        row: dict[str, Any] = dict(self._absent)
        for name, value in record.items():
            field = self._fields.get(name)
            if field is None:
                if name in self._without:
                    continue
                column = unknown_column(name)
                field = self._by_column.get(column)
                if field is None:
                    if value is not None:
                        self._unknown.setdefault(column, {})[self.rows] = value
                        check_unknown(len(self._unknown))
                    continue
                if field.name in record:
                    continue  # the record also has the documented spelling, which wins
            if value is None:
                row[field.column] = None
                continue
            try:
                row[field.column] = _READERS[field.kind](value)
            except Fault as fault:
                raise Fault(f"{name}: {fault}") from None
        for column, value in row.items():
            self._known[column].append(value)
        self.rows += 1
        return row

    def extend(self, values: list[Any]) -> None:
        """Add rows that are written as one array: the values of each row, one row after the other."""
        stride = len(self._fields)
        for place, field in enumerate(self._fields.values()):
            self._known[field.column] += [read_value(value, field.kind) for value in values[place::stride]]
        self.rows += len(values) // stride

    def frame(self) -> pl.DataFrame:
        """Return all rows as columns."""
        known = [
            column_of(self._by_column[column], values, self._dtypes.get(column, pl.String()))
            for column, values in self._known.items()
        ]
        check_unknown(sum(1 + unknown_fields(values.values()) for values in self._unknown.values()))
        unknown = [_as_it_came(name, values, self.rows) for name, values in self._unknown.items()]
        return pl.DataFrame(known + unknown)


def _as_it_came(name: str, values: dict[int, Any], rows: int) -> pl.Series:
    column = [values.get(row) for row in range(rows)]
    depth = max(map(nesting, values.values()))
    if depth <= MOST_NESTING:
        try:
            array_ = pa.array(column)
            if not has_empty_struct(array_.type):
                return pl.Series(name, array_)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass  # values of several kinds, or an integer beyond 64 bits
    if depth > _MOST_TEXT_NESTING:
        raise Fault(f"{name} nests {depth} deep")
    texts = [value if value is None or isinstance(value, str) else _json(value) for value in column]
    return pl.Series(name, texts, dtype=pl.String)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_EXACT = 2.0**53  # a double holds every integer up to here


def read_value(value: Any, kind: Kind) -> Any:
    """Convert a JSON value to a Python value of a kind: an int of nanoseconds for a timestamp, None for None.

    Raises
    ------
    Fault
        If the value is not of this kind, or out of range.
    """
    return None if value is None else _READERS[kind](value)


def _double(value: Any) -> float:
    # Most values are floats already. Types are compared exactly because a Python bool is an int, but no JSON number.
    if type(value) is float:
        return value
    if type(value) is int:
        return _finite(value)
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        if _NUMBER.fullmatch(value):
            return _finite(value)
    raise Fault(f"{_shown(value)} is no number")


def _finite(value: int | str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise Fault(f"{_shown(value)} is too large for a double")
    return number


def _integer(value: Any, within: range = _INT64) -> int:
    if type(value) is float and value.is_integer() and abs(value) <= _EXACT:
        value = int(value)  # proto3 JSON may write 1.0 or 1e3
    elif isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is not int:
        raise Fault(f"{_shown(value)} is no integer")
    if value not in within:
        raise Fault(f"{_shown(value)} does not fit into {within.stop.bit_length()} bits")
    return value


def _only(kind: type, otherwise: str) -> Callable[[Any], Any]:
    def read_only(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise Fault(f"{_shown(value)} is {otherwise}")

    return read_only


def _timestamp(value: Any) -> int:
    if not isinstance(value, dict):
        raise Fault(f"{_shown(value)} is no timestamp; it takes an object with s and ns")
    seconds = read_value(value.get("s"), "int64") or 0
    nanoseconds = read_value(value.get("ns"), "int64") or 0
    if not 0 <= nanoseconds <= 999_999_999:
        raise Fault(f"ns is {nanoseconds}, outside 0 to 999999999")
    total: int = seconds * SECOND + nanoseconds
    if total not in _INT64:
        raise Fault(f"s is {seconds}, outside what int64 nanoseconds hold")
    return total


def _list_of(kind: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Fault(f"{_shown(value)} is no array")
        return [None if item is None else kind(item) for item in value]

    return read_list


_string = _only(str, "no string")
_READERS: dict[Kind, Callable[[Any], Any]] = {
    "double": _double,
    "int64": _integer,
    "string": _string,
    "bool": _only(bool, "neither true nor false"),
    "timestamp": _timestamp,
    "int32[]": _list_of(lambda item: _integer(item, _INT32)),
    "double[]": _list_of(_double),
    "string[]": _list_of(_string),
}


def column_of(field: Field, values: list[Any], dtype: pl.DataType) -> pl.Series:
    """Return the column of a field, from values that `read_value` returned."""
    if field.kind == "timestamp":
        return (
            pl.Series(field.column, values, dtype=pl.Int64)
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC")
        )
    return pl.Series(field.column, values, dtype=pl.String() if dtype == pl.Categorical else dtype)


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return shown(value, 60)
