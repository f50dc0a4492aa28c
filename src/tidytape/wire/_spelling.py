"""A parsed body in one spelling: proto3 JSON allows several for each value, and the contract writes one of them.

`respelled` walks a body value by value. It is ten times slower than `_columnar` alone, so `decode` calls it only if
`_columnar` cannot read the body as it is. If it refuses a value too, it raises a `Fault`; the caller's `Place` then
says where the value is. It accepts

- every spelling of a value that `_values` knows,
- a documented field under its snake_case or camelCase name,
- a payload directly under ``Point`` where the type has an envelope (the specification says it may change),
- unknown fields of any kind.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import pyarrow as pa

from tidytape.catalogue import COVERAGE, IDENTITY_FIELDS, LEVEL_VOLUMES, DataType, Field, Levels
from tidytape.errors import shown
from tidytape.schema import column_name, wire_schema
from tidytape.wire._faults import Fault, Place, check_cells, check_holds, check_unknown, series_name
from tidytape.wire._tidy import SERIES_FIELDS, identity_columns
from tidytape.wire._values import EXACT, array, each, read_value, written_time

Types = dict[str, Any]
"""Arrow types by the names of fields."""


@lru_cache(1024)
def unknown_column(name: str) -> str:
    """Return the name of the column for a field that the catalogue does not list."""
    # C libraries end a name at a zero byte, and polars replaces an empty name by the position of the column.
    return column_name(name).replace("\0", "\ufffd") or "_"


def payload_fields(data_type: DataType) -> tuple[Field, ...]:
    """Return the documented fields of a payload, and those that it has of a group or of trades without a side."""
    more = {COVERAGE: data_type.group_by is not None, LEVEL_VOLUMES: data_type.derives_volume}
    return (*data_type.fields, *(field for field, may_have in more.items() if may_have))


@dataclass(frozen=True)
class Spelling:
    """Brings objects with the same documented fields into the spelling of the contract.

    Attributes
    ----------
    fields : sequence of Field
        The documented fields.
    elsewhere : collection of str
        Names of fields to leave out, because other code reads them.
    required : collection of str
        Columns of the fields that every object must have.
    zeros : bool
        Whether an absent number that every object should have (`Field.plain`) is 0 instead of null.
    """

    fields: Sequence[Field]
    elsewhere: Collection[str] = ()
    required: Collection[str] = ()
    zeros: bool = False

    @cached_property
    def _known(self) -> dict[str, Field]:
        return {field.column: field for field in self.fields} | {field.name: field for field in self.fields}

    @cached_property
    def _absent(self) -> dict[str, Any]:
        return {field.name: 0.0 for field in self.fields if self.zeros and field.plain}

    def __call__(self, record: Any) -> dict[str, Any]:
        """Return an object with documented fields under their names, and unknown fields under names of columns."""
        if not isinstance(record, dict):
            raise Fault("it is not an object")
        respelled = dict(self._absent)
        for name, value in record.items():
            if name in self.elsewhere:
                continue
            field = self._known.get(name) or self._known.get(column := unknown_column(name))
            if field is None:
                respelled[column] = value
            # If a field comes under both spellings, the documented name counts.
            elif name == field.name or field.name not in record:
                try:
                    parsed_value = read_value(value, field.kind)
                except Fault as fault:
                    raise Fault(f"{name}: {fault}") from None
                is_time = field.kind == "timestamp" and parsed_value is not None
                respelled[field.name] = written_time(parsed_value) if is_time else parsed_value
        for column in self.required:
            if respelled.get(self._known[column].name) is None:
                raise Fault(f"it has no {column}")
        return respelled


def respelled(
    document: Any, data_type: DataType, place: Place, *, types: Collection[str] = (), zeros: bool = False
) -> dict[str, Any]:
    """Return a parsed body in the contract's own spelling.

    Parameters
    ----------
    document : object
        The body, as a JSON parser returned it.
    data_type : DataType
        The data type to read.
    place : Place
        Updated to the series and the point that are being read.
    types : collection of str
        Other data types that the body may have; their series are left out.
    zeros : bool
        Whether an absent number that every point should have (`Field.plain`) becomes 0 instead of null.

    Raises
    ------
    Fault
        At the first value that breaks the contract.
    """
    if not isinstance(document, dict):
        raise Fault("the body is not a JSON object")
    check_holds(document, "series")
    schema = wire_schema(data_type.name)
    # A payload may have an identity field that its series lacks: the heatmap of one exchange names its coin there.
    payload_columns = {field.column for field in data_type.fields}
    extra_fields = [
        field
        for field in IDENTITY_FIELDS
        if field.column in identity_columns(data_type) and field.column not in payload_columns
    ]
    required = [field.column for field in data_type.fields if not schema[field.column].nullable]
    levels = {part.name: Spelling(part.fields, zeros=zeros) for part in data_type.levels}
    identity = Spelling(SERIES_FIELDS, elsewhere=["type"])
    payload = Spelling(
        (*payload_fields(data_type), *extra_fields), elsewhere=levels, required=required, zeros=zeros
    )
    spelled_series = []
    for position, series in enumerate(array(document.get("series"), "series")):
        place.series, place.point = str(position), None
        sent_identity = _identity(series)
        type_ = sent_identity.get("type")
        if type_ not in (None, data_type.name, *types):
            raise Fault(f"it is of type {shown(type_)}, and {data_type.name} was asked for")
        if type_ not in (None, data_type.name):
            continue
        place.series = series_name(sent_identity, position)
        id_ = identity(sent_identity)
        points = []
        for number, point in enumerate(array(series.get("points"), "points")):
            place.point = number
            points.append(_point(point, data_type, payload, levels))
        spelled_series.append({"id": id_, "points": points})
    place.series = place.point = None
    return {"series": spelled_series}


def _point(
    point: Any, data_type: DataType, payload: Spelling, spellings: dict[str, Spelling]
) -> dict[str, Any]:
    """Return a point in the contract's spelling; ``spellings`` has the spelling of each array of levels by its name."""
    sent_payload = _payload(point, data_type)
    record = payload(sent_payload)
    for levels in data_type.levels:
        values = array(sent_payload.get(levels.name), levels.name)
        record[levels.name] = _levels(values, levels, spellings[levels.name])
    return {"Point": {data_type.envelope: record} if data_type.envelope else record}


def _identity(series: Any) -> dict[str, Any]:
    if not isinstance(series, dict):
        raise Fault("it is not an object")
    identity = series.get("id")
    if not isinstance(identity, dict | None):
        raise Fault("its id is not an object")
    return identity or {}


def _payload(point: Any, data_type: DataType) -> dict[str, Any]:
    payload = point.get("Point") if isinstance(point, dict) else None
    if not isinstance(payload, dict):
        raise Fault("it is not an object with its payload under the key Point")
    if data_type.envelope and data_type.envelope in payload:
        payload = payload[data_type.envelope]
        if not isinstance(payload, dict):
            raise Fault(f"its {data_type.envelope} is not an object")
    return payload


def _levels(values: list[Any], levels: Levels, spelling: Spelling) -> list[Any]:
    """Return the levels of a point: a flat list of their numbers, or an object per level."""
    if not levels.flat:
        objects = each(values, spelling, f"{levels.name}, level")
        for level in objects:
            if level.get("price") is None:
                level["price"] = 0.0  # every level has a price, and proto3 leaves out zeros
        return objects
    stride = len(levels.fields)
    if len(values) % stride:
        raise Fault(f"{levels.name} has {len(values)} values, not a multiple of {stride}", length=len(values))
    numbers = each(values, lambda value: read_value(value, "double"), f"{levels.name}, value")
    if None in numbers[::stride]:
        place = numbers[::stride].index(None) * stride
        raise Fault(f"{levels.name}, value {place}: a level without a price")
    return numbers


def unknown_types(objects: list[dict[str, Any]], known: Collection[str], size: int) -> Types:
    """Return the types of the unknown fields of objects, without fields that are null in all objects.

    Fields of numbers, strings or booleans stay as they are. If a field has values of several kinds, or arrays or
    objects, the function replaces its values in ``objects`` by text: strings as they are, other values as JSON.

    Parameters
    ----------
    objects : list of dict
        The objects, which may have different fields. The function changes their values as said above.
    known : collection of str
        Names of the known fields.
    size : int
        Length of the body of the objects. [byte]

    Raises
    ------
    Fault
        If there are more unknown fields than a frame takes, or a value nests too deep to be written.

    Examples
    --------
    >>> levels = [{"price": 1.0, "live": True}, {"price": 2.0, "x": [1]}, {"x": "a"}]
    >>> unknown_types(levels, {"price"}, 100), levels[1:]
    ({'live': DataType(bool), 'x': DataType(string)}, [{'price': 2.0, 'x': '[1]'}, {'x': 'a'}])
    """
    names = [name for name in dict.fromkeys(chain.from_iterable(objects)) if name not in known]
    check_unknown(len(names))
    check_cells(len(objects), len(names), size)
    types: Types = {}
    for name in names:
        values = [value for record in objects if (value := record.get(name)) is not None]
        if values:
            types[name] = _type_of(values)
        if values and types[name] is None:
            types[name] = pa.string()
            for record in objects:
                if not isinstance(record.get(name), str | None):
                    record[name] = _text(name, record[name])
    return types


_TYPES = {
    frozenset([str]): pa.string(),
    frozenset([bool]): pa.bool_(),
    frozenset([int]): pa.int64(),
    frozenset([float]): pa.float64(),
    frozenset([int, float]): pa.float64(),
}


def _type_of(values: list[Any]) -> Any:
    """Return the Arrow type that holds all values unchanged; None if there is no such type."""
    kinds = frozenset(map(type, values))
    integers = [value for value in values if type(value) is int]
    least, most = (-(2**63), 2**63 - 1) if kinds == {int} else (-EXACT, EXACT)
    return _TYPES.get(kinds) if all(least <= value <= most for value in integers) else None


def _text(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise Fault(f"{name} nests too deep") from None
