"""The tolerant lane: a parsed body, value by value, with every spelling proto3 JSON allows.

Slower than the fast lane by a factor of ten, and the one that decides: what it refuses is a `DecodeError`
that says where. Besides the spellings of `_values` it takes

- a documented field under its snake_case or camelCase name,
- a payload directly under ``Point`` where the type has an envelope (the specification says it may change),
- unknown fields of any kind: where kinds differ, nest deeply, or are objects without fields, the column is text:
  strings as they are, other values as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tidytape.catalogue import IDENTITY_FIELDS, DataType, Field, Levels
from tidytape.errors import shown
from tidytape.schema import schema_of
from tidytape.wire import _values
from tidytape.wire._bounds import check_series
from tidytape.wire._faults import Fault, placed, series_name
from tidytape.wire._parse import check_holds, nesting
from tidytape.wire._parts import (
    MOST_NESTING,
    SERIES_FIELDS,
    Levelled,
    Parts,
    has_empty_struct,
    identity_columns,
    unknown_column,
)
from tidytape.wire._unknown import check_unknown, unknown_fields

_MOST_TEXT_NESTING = 500  # Python writes JSON by recursion


def read(document: Any, kind: DataType, *, types: Collection[str] = (), zeros: bool = False) -> Parts:
    """Read a parsed body.

    Parameters
    ----------
    document : object
        What a JSON parser made of the body.
    kind : DataType
        What it holds.
    types : collection of str
        The types that the body may hold beside this one.

    Returns
    -------
    Parts

    Raises
    ------
    DecodeError
        At the first thing that is not the contract, with its place.
    """
    with placed(kind.name):
        if not isinstance(document, dict):
            raise Fault("the body is not a JSON object")
        check_holds(document, "series")
        all_series = array(document.get("series"), "series")
        check_series(len(all_series))
    body = _Body(kind, zeros=zeros)
    for position, series in enumerate(all_series):
        with placed(kind.name, str(position)):
            if not isinstance(series, dict):
                raise Fault("it is not an object")
            identity = series.get("id")
            if not isinstance(identity, dict | None):
                raise Fault("its id is not an object")
            identity = identity or {}
            type_ = identity.get("type")
            if type_ not in (None, kind.name, *types):
                raise Fault(f"it is of type {shown(type_)}, and {kind.name} was asked for")
        if type_ in (None, kind.name):
            body.add(series, identity, series_name(identity, position))
    return body.parts()


def array(value: Any, name: str) -> list[Any]:
    """Return an array; one that is absent is empty, as proto3 leaves out empty arrays."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Fault(f"{name} is not an array")
    return value


class Table:
    """Rows made of JSON objects, as columns: documented ones by kind, unknown ones as they come.

    Parameters
    ----------
    fields : tuple of Field
        The documented ones.
    dtypes : dict of str to polars.DataType
        By column.
    without : iterable of str
        Wire names that are neither.
    zeros : bool
        Whether numbers that every row has are 0 where they are absent.
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
        self._fields = {field.column: field for field in fields}
        self._absent = {field.column: 0.0 if zeros and field.plain else None for field in fields}
        self._dtypes = dtypes
        self._without = frozenset(without)
        self._columns = {field.name: field.column for field in fields}
        self._known: dict[str, list[Any]] = {column: [] for column in self._fields}
        self._unknown: dict[str, dict[int, Any]] = {}

    def add(self, record: dict[str, Any]) -> dict[str, Any]:
        """Add a row and return its documented values by column."""
        row: dict[str, Any] = dict(self._absent)
        for name, value in record.items():
            column = self._columns.get(name)
            if column is None:
                if name in self._without:
                    continue
                column = unknown_column(name)
                if column not in self._fields:
                    if value is not None:
                        self._unknown.setdefault(column, {})[self.rows] = value
                        check_unknown(len(self._unknown))
                    continue
                if self._fields[column].name in record:
                    continue  # the documented spelling is there too, and wins
            try:
                row[column] = _values.read(value, self._fields[column].kind)
            except Fault as fault:
                raise Fault(f"{name}: {fault}") from None
        for column, value in row.items():
            self._known[column].append(value)
        self.rows += 1
        return row

    def frame(self) -> pl.DataFrame:
        """Return all rows as columns."""
        known = [
            _values.column_of(self._fields[column], values, self._dtypes.get(column, pl.String()))
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
            pass  # of several kinds, or an integer beyond 64 bits
    if depth > _MOST_TEXT_NESTING:
        raise Fault(f"{name} nests {depth} deep")
    texts = [value if value is None or isinstance(value, str) else _json(value) for value in column]
    return pl.Series(name, texts, dtype=pl.String)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Body:
    """The tables of a body, filled series by series."""

    def __init__(self, kind: DataType, *, zeros: bool) -> None:
        self.kind = kind
        self.schema = schema_of(kind.name)
        dtypes = self.schema.polars()
        identity = identity_columns(kind)
        # A payload may name what its series leaves open, as the single-venue heatmap names its coin.
        taken = {field.column for field in kind.fields}
        spare = [field for field in IDENTITY_FIELDS if field.column in identity and field.column not in taken]
        self.series = Table(SERIES_FIELDS, dtypes | {"block_size": pl.Float64()}, without=["type"])
        arrays = [levels.name for levels in kind.levels]
        self.points = Table((*kind.fields, *spare), dtypes, without=arrays, zeros=zeros)
        self.counts: list[int] = []
        self.levels = [
            _FlatRows(levels) if levels.flat else _ObjectRows(levels, dtypes, zeros=zeros)
            for levels in kind.levels
        ]

    def add(self, series: dict[str, Any], identity: dict[str, Any], name: str) -> None:
        with placed(self.kind.name, name):
            self.series.add(identity)
            points = array(series.get("points"), "points")
        self.counts.append(len(points))
        for position, point in enumerate(points):
            try:
                self._add_point(point)
            except Fault:
                with placed(self.kind.name, name, position):
                    raise

    def _add_point(self, point: Any) -> None:
        payload = self._payload(point)
        row = self.points.add(payload)
        for column, value in row.items():
            if value is None and column in self.schema.names and not self.schema[column].nullable:
                raise Fault(f"it has no {column}")
        for levels in self.levels:
            levels.add(array(payload.get(levels.name), levels.name))

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
        with placed(self.kind.name):
            return self._parts()

    def _parts(self) -> Parts:
        return Parts(
            self.series.frame(),
            np.asarray(self.counts, dtype=np.int64),
            self.points.frame(),
            tuple(levels.levelled() for levels in self.levels),
        )


class _FlatRows:
    """Levels written as one array of numbers."""

    def __init__(self, levels: Levels) -> None:
        self.name = levels.name
        self._fields = levels.fields
        self._counts: list[int] = []
        self._values: list[float | None] = []

    def add(self, values: list[Any]) -> None:
        stride = len(self._fields)
        count, left = divmod(len(values), stride)
        if left:
            raise Fault(
                f"{self.name} has {len(values)} values, not a multiple of {stride}", length=len(values)
            )
        self._counts.append(count)
        for place, value in enumerate(values):
            field = self._fields[place % stride]
            try:
                self._values.append(_values.read(value, field.kind))
            except Fault as fault:
                raise Fault(f"{self.name}, value {place}: {fault}") from None
            if value is None and field.column == "price":
                raise Fault(f"{self.name}, value {place}: a level without a price")

    def levelled(self) -> Levelled:
        stride = len(self._fields)
        flat = pl.Series(self._values, dtype=pl.Float64)
        columns = {field.column: flat.gather_every(stride, place) for place, field in enumerate(self._fields)}
        return Levelled(np.asarray(self._counts, dtype=np.int64), pl.DataFrame(columns))


class _ObjectRows:
    """Levels written as one object each."""

    def __init__(self, levels: Levels, dtypes: dict[str, pl.DataType], *, zeros: bool) -> None:
        self.name = levels.name
        self._counts: list[int] = []
        self._table = Table(levels.fields, dtypes, zeros=zeros)

    def add(self, values: list[Any]) -> None:
        self._counts.append(len(values))
        for place, value in enumerate(values):
            if not isinstance(value, dict):
                raise Fault(f"{self.name}, level {place} is not an object")
            try:
                self._table.add(value)
            except Fault as fault:
                raise Fault(f"{self.name}, level {place}: {fault}") from None

    def levelled(self) -> Levelled:
        # A price that is left out is 0: proto3 omits zeros, and a level always has a price.
        rows = self._table.frame().with_columns(pl.col("price").fill_null(0.0))
        return Levelled(np.asarray(self._counts, dtype=np.int64), rows)
