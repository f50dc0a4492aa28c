"""A parsed body in one spelling: of all that proto3 JSON allows, what the contract writes.

`spelled` walks a body value by value. It is ten times slower than `_columnar` alone, so `decode` asks it only where
`_columnar` cannot read the body as it is. Its verdict is final: where it refuses a value, it raises a `Fault`, and the
place that it was given says where. It accepts

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

from tidytape.catalogue import COVERAGE, IDENTITY_FIELDS, DataType, Field, Levels
from tidytape.errors import shown
from tidytape.schema import column_name, schema_of
from tidytape.wire._faults import Fault, Place, check_cells, check_holds, check_unknown, series_name
from tidytape.wire._tidy import SERIES_FIELDS, identity_columns
from tidytape.wire._values import EXACT, array, each, read_value, written_time

Types = dict[str, Any]
"""Fields by name, with their types of Arrow."""


@lru_cache(1024)
def unknown_column(name: str) -> str:
    """Return the column of a field the catalogue does not know."""
    # A zero byte would end the name in C libraries, and polars replaces an empty name by the column's position.
    return column_name(name).replace("\0", "\ufffd") or "_"


def payload_fields(kind: DataType) -> tuple[Field, ...]:
    """Return the documented fields of a payload; groups of exchanges may say their coverage."""
    return kind.fields if kind.group_by is None else (*kind.fields, COVERAGE)


@dataclass(frozen=True)
class Spelling:
    """How objects of one kind are written.

    Attributes
    ----------
    fields : sequence of Field
        The documented fields.
    elsewhere : collection of str
        Names that are left out: other code reads them.
    required : collection of str
        Columns of the fields without which an object is refused.
    zeros : bool
        Whether a number that is absent is 0 in the fields that every object has (`Field.plain`), and not null.
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
        """Return an object with its documented fields under their names, and unknown ones under their columns'."""
        if not isinstance(record, dict):
            raise Fault("it is not an object")
        spelled = dict(self._absent)
        for name, value in record.items():
            if name in self.elsewhere:
                continue
            field = self._known.get(name) or self._known.get(column := unknown_column(name))
            if field is None:
                spelled[column] = value
            elif name == field.name or field.name not in record:  # the documented name counts before another
                try:
                    read = read_value(value, field.kind)
                except Fault as fault:
                    raise Fault(f"{name}: {fault}") from None
                is_time = field.kind == "timestamp" and read is not None
                spelled[field.name] = written_time(read) if is_time else read
        for column in self.required:
            if spelled.get(self._known[column].name) is None:
                raise Fault(f"it has no {column}")
        return spelled


def spelled(
    document: Any, kind: DataType, place: Place, *, types: Collection[str] = (), zeros: bool = False
) -> dict[str, Any]:
    """Return a parsed body in the contract's own spelling.

    Parameters
    ----------
    document : object
        The body, as a JSON parser returned it.
    kind : DataType
        The data type to read.
    place : Place
        Is kept at the value that is read.
    types : collection of str
        Other data types that the body may hold; their series are left out.
    zeros : bool
        Whether an absent number becomes 0 in the fields that every point has (`Field.plain`), and not null.

    Raises
    ------
    Fault
        At the first value that breaks the contract.
    """
    if not isinstance(document, dict):
        raise Fault("the body is not a JSON object")
    check_holds(document, "series")
    schema = schema_of(kind.name)
    # A payload may carry an identity field that its series lacks: the heatmap of one exchange names its coin there.
    own = {field.column for field in kind.fields}
    spare = [
        field
        for field in IDENTITY_FIELDS
        if field.column in identity_columns(kind) and field.column not in own
    ]
    required = [field.column for field in kind.fields if not schema[field.column].nullable]
    arrays = {levels.name for levels in kind.levels}
    identity = Spelling(SERIES_FIELDS, elsewhere=["type"])
    payload = Spelling((*payload_fields(kind), *spare), elsewhere=arrays, required=required, zeros=zeros)
    objects = {levels.name: Spelling(levels.fields, zeros=zeros) for levels in kind.levels}
    kept = []
    for position, series in enumerate(array(document.get("series"), "series")):
        place.series, place.point = str(position), None
        told = _identity(series)
        type_ = told.get("type")
        if type_ not in (None, kind.name, *types):
            raise Fault(f"it is of type {shown(type_)}, and {kind.name} was asked for")
        if type_ not in (None, kind.name):
            continue
        place.series = series_name(told, position)
        id_ = identity(told)
        points = []
        for number, point in enumerate(array(series.get("points"), "points")):
            place.point = number
            found = _payload(point, kind)
            row = payload(found)
            for levels in kind.levels:
                values = array(found.get(levels.name), levels.name)
                row[levels.name] = _levels(values, levels, objects[levels.name])
            points.append({"Point": {kind.envelope: row} if kind.envelope else row})
        kept.append({"id": id_, "points": points})
    place.series = place.point = None
    return {"series": kept}


def _identity(series: Any) -> dict[str, Any]:
    if not isinstance(series, dict):
        raise Fault("it is not an object")
    identity = series.get("id")
    if not isinstance(identity, dict | None):
        raise Fault("its id is not an object")
    return identity or {}


def _payload(point: Any, kind: DataType) -> dict[str, Any]:
    payload = point.get("Point") if isinstance(point, dict) else None
    if not isinstance(payload, dict):
        raise Fault("it is not an object with its payload under the key Point")
    if kind.envelope and kind.envelope in payload:
        payload = payload[kind.envelope]
        if not isinstance(payload, dict):
            raise Fault(f"its {kind.envelope} is not an object")
    return payload


def _levels(values: list[Any], levels: Levels, spelling: Spelling) -> list[Any]:
    """Return the levels of a point: their values one after the other, or an object per level."""
    if not levels.flat:
        objects = each(values, spelling, f"{levels.name}, level")
        for level in objects:
            if level.get("price") is None:
                level["price"] = 0.0  # proto3 omits zeros, and a level always has a price
        return objects
    stride = len(levels.fields)
    if len(values) % stride:
        message = f"{levels.name} has {len(values)} values, not a multiple of {stride}"
        raise Fault(message, length=len(values))
    numbers = each(values, lambda value: read_value(value, "double"), f"{levels.name}, value")
    if None in numbers[::stride]:
        place = numbers[::stride].index(None) * stride
        raise Fault(f"{levels.name}, value {place}: a level without a price")
    return numbers


def unknown_types(objects: list[dict[str, Any]], known: Collection[str], size: int) -> Types:
    """Return the types of the fields that objects have beside the known ones; null throughout is no field.

    Numbers, strings and booleans stay what they are. Where the values of a field are of several kinds, or are arrays
    or objects, they become text in the objects themselves: strings as they are, other values as JSON.

    Parameters
    ----------
    objects : list of dict
        They may have different fields.
    known : collection of str
        The fields that count as known.
    size : int
        Length of the body that they come from. [byte]

    Raises
    ------
    Fault
        If there are more than a frame takes, or a value nests deeper than can be written.

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
        values = [value for one in objects if (value := one.get(name)) is not None]
        if values:
            types[name] = _type_of(values)
        if values and types[name] is None:
            types[name] = pa.string()
            for one in objects:
                if not isinstance(one.get(name), str | None):
                    one[name] = _text(name, one[name])
    return types


_TYPES = {
    frozenset([str]): pa.string(),
    frozenset([bool]): pa.bool_(),
    frozenset([int]): pa.int64(),
    frozenset([float]): pa.float64(),
    frozenset([int, float]): pa.float64(),
}


def _type_of(values: list[Any]) -> Any:
    """Return the type of Arrow that holds all values unchanged; None where there is none."""
    kinds = frozenset(map(type, values))
    integers = [value for value in values if type(value) is int]
    least, most = (-(2**63), 2**63 - 1) if kinds == {int} else (-EXACT, EXACT)
    fits = all(least <= value <= most for value in integers)
    return _TYPES.get(kinds) if fits else None


def _text(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise Fault(f"{name} nests too deep") from None
