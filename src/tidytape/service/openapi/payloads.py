"""JSON schemas of what the service answers, made from the catalogue's fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from tidytape.catalogue import (
    BLOCK_SIZE_FIELDS,
    COVERAGE,
    DATA_TYPES,
    DESCRIPTOR_FIELDS,
    ERROR_STATUS,
    IDENTITY_FIELDS,
    LISTS,
    MARKET_FIELDS,
    NOTE_FIELDS,
    PREDICTION_MARKET_FIELDS,
    USAGE_FIELDS,
    AmountUnit,
    Category,
    DataType,
    Field,
    GroupBy,
    Interval,
    Levels,
    MarketSortField,
    NoteCode,
    Quote,
    Side,
    SortDirection,
    Tenor,
    TPOSession,
)
from tidytape.query import PointsQuery
from tidytape.query.values import LAST_SECOND
from tidytape.schema import MARKETS, PREDICTION_MARKET_ENTRY, Schema, schema_of
from tidytape.service.openapi.words import in_words

__all__ = ["camel", "named", "ref", "schemas"]

_ENUMERATIONS: dict[str, type[StrEnum]] = {
    "Interval": Interval,
    "Category": Category,
    "Side": Side,
    "Tenor": Tenor,
    "SortDirection": SortDirection,
    "TPOSession": TPOSession,
    "GroupBy": GroupBy,
    "Quote": Quote,
    "MarketSortField": MarketSortField,
}
_NAMED = {tuple(kind): name for name, kind in _ENUMERATIONS.items()} | {tuple(DATA_TYPES): "DataType"}


def ref(name: str, room: str = "schemas") -> dict[str, Any]:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{room}/{name}"}


def camel(name: str) -> str:
    """Return a name of the catalogue as one of a schema.

    Examples
    --------
    >>> camel("TRADE_AGG"), camel("block-sizes")
    ('TradeAgg', 'BlockSizes')
    """
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


def named(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema by reference where it is one of the enumerations that have a name."""
    name = _NAMED.get(tuple(schema.get("enum", ())))
    return dict(schema) if name is None else ref(name)


def schemas() -> dict[str, Any]:
    """Return every schema by its name."""
    found: dict[str, Any] = {
        "Error": _ERROR,
        "Timestamp": _TIMESTAMP,
        "DataType": _enumeration("What a point tells.", DATA_TYPES),
    }
    for name, values in _ENUMERATIONS.items():
        short = ", ".join(f"`{getattr(member, 'alias', '')}`" for member in values)
        meaning = in_words((values.__doc__ or "").partition("\n")[0], PointsQuery)
        found[name] = _enumeration(f"{meaning} In a request also in short, in this order: {short}.", values)
    for kind in DATA_TYPES.values():
        found |= _of_type(kind)
    found["Points"] = _object(
        "What `/v1/points` answers.",
        {
            "series": _array({"oneOf": [ref(f"{camel(name)}Series") for name in DATA_TYPES]}),
            "notes": {**_array(ref("Note")), "description": _NOTES},
        },
    )
    codes = "; ".join(f"`{code}`: {code.meaning}" for code in NoteCode)
    found["NoteCode"] = _enumeration(f"What a note says. {codes}.", NoteCode)
    found["Note"] = _object(
        _NOTES,
        {field.name: _field(field) | _KINDS_OF_NOTES.get(field.name, {}) for field in NOTE_FIELDS},
        required=["code"],
    )
    found["PredictionMarket"] = _entry(
        "A prediction market.", PREDICTION_MARKET_FIELDS, PREDICTION_MARKET_ENTRY
    )
    market = _entry("A market.", MARKET_FIELDS, MARKETS)
    nested = "The prediction markets that it is an outcome of; absent of all other markets."
    market["properties"]["predictionMarkets"] = {**_array(ref("PredictionMarket")), "description": nested}
    found["Market"] = market
    found["Markets"] = _object(
        "A page of markets.",
        {
            "symbols": {**_array(ref("Market")), "description": "The markets."},
            "nextOffset": {
                "type": "integer",
                "format": "int32",
                "description": "`pageOffset` of the next page; after the last page that is empty.",
            },
        },
    )
    items = {name: _ITEMS.get(field, {"type": "string"}) for name, field in LISTS.items()}
    found |= {camel(name): _object("A list.", {LISTS[name]: _array(item)}) for name, item in items.items()}
    found["Usage"] = _object(
        "The quota of the key.",
        {field.name: {**_field(field), "minimum": 0} for field in USAGE_FIELDS},
    )
    return found


# --- points ---------------------------------------------------------------------------------------------------------


def _of_type(kind: DataType) -> dict[str, Any]:
    """Return the series, the identifier and the payload of a data type."""
    name, schema = camel(kind.name), schema_of(kind.name)
    columns = [
        column for column in schema.identity if column != "side" or kind.per_side
    ]  # a row's is no series'
    identity = {"type": {"const": kind.name, "type": "string", "description": "Data type."}}
    identity |= {field.name: _field(field) for field in IDENTITY_FIELDS if field.column in columns}
    described = {*schema.descriptors, "data_until"}
    identity |= {field.name: _field(field) for field in DESCRIPTOR_FIELDS if field.column in described}
    payload = {field.name: _field(field) for field in kind.fields}
    required = [field.name for field in kind.fields if not schema[field.column].nullable]
    found: dict[str, Any] = {}
    for levels in kind.levels:
        payload[levels.name] = _flat(levels)
        if not levels.flat:
            found[f"{name}Level"] = _entry("A price level.", levels.fields, schema)
            payload[levels.name] = {**_array(ref(f"{name}Level")), "description": "Price levels, ascending."}
        required.append(levels.name)
    if kind.group_by is not None:
        payload[COVERAGE.name] = {**_field(COVERAGE), "description": f"Of groups. {_meaning(COVERAGE)}"}
    point = ref(f"{name}Payload")
    if kind.envelope:
        point = _object(None, {kind.envelope: point})
    selected = in_words(kind.selection, PointsQuery, bare=True)
    limits = f"at most {kind.max_points:,} points in one request, from tier {kind.tier.capitalize()} on"
    return found | {
        f"{name}Id": _object("What names the series.", identity, required=["type"]),
        f"{name}Payload": _object(f"{kind.title}: one point.", payload, required=required),
        f"{name}Series": _object(
            f"{kind.title}. Selected by {selected}. Weight {kind.multiplier} per 1,000 points, {limits}.",
            {"id": ref(f"{name}Id"), "points": _array(_object(None, {"Point": point}))},
        ),
    }


def _flat(levels: Levels) -> dict[str, Any]:
    """Return the schema of an array that holds the values of each level one after the other."""
    each = "; ".join(f"`{field.name}`: {_meaning(field)}" for field in levels.fields)
    return {**_array({"type": "number", "format": "double"}), "description": f"Of each level in turn {each}"}


# --- pieces ---------------------------------------------------------------------------------------------------------


def _object(
    description: str | None, properties: dict[str, Any], *, required: list[str] | None = None
) -> dict[str, Any]:
    """Return an object; without ``required`` it always has all of its properties."""
    told = {} if description is None else {"description": description}
    return {
        "type": "object",
        **told,
        "required": list(properties) if required is None else required,
        "properties": properties,
    }


def _array(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


def _entry(description: str, fields: Iterable[Field], schema: Schema) -> dict[str, Any]:
    fields = tuple(fields)
    required = [field.name for field in fields if not schema[field.column].nullable]
    return _object(description, {field.name: _field(field) for field in fields}, required=required)


def _field(field: Field) -> dict[str, Any]:
    if field.plain:  # it is there on every point, and null where it is not known
        return {"anyOf": [_NUMBER, {"type": "null"}], "description": _meaning(field)}
    # A reference may stand beside a description.
    return {**_KINDS_OF_COLUMNS.get(field.column, _KINDS[field.kind]), "description": _meaning(field)}


def _meaning(field: Field) -> str:
    return f"{field.doc}. [{field.unit}]" if field.unit else f"{field.doc}."


def _enumeration(description: str, values: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "enum": [str(value) for value in values], "description": description}


_NUMBER = {"type": "number", "format": "double"}
_KINDS: dict[str, dict[str, Any]] = {
    "double": _NUMBER,
    "int64": {"type": "integer", "format": "int64"},
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "timestamp": ref("Timestamp"),
    "int32[]": _array({"type": "integer", "format": "int32"}),
    "double[]": _array(_NUMBER),
    "string[]": _array({"type": "string"}),
}
_KINDS_OF_COLUMNS = {name.lower(): ref(name) for name in ("Category", "Interval", "Side", "Tenor")} | {
    "amount_unit": {"type": "string", "enum": [unit.value for unit in AmountUnit]}
}
_NOTES = (
    "One for each market that was asked for and has no points in the window, and for each market with points of a "
    "dense type (candles, open interest, funding) that do not reach both ends of it."
)
_KINDS_OF_NOTES = {"code": ref("NoteCode"), "type": ref("DataType"), "types": _array(ref("DataType"))}
_ITEMS: dict[str, dict[str, Any]] = {
    "types": ref("DataType"),
    "categories": ref("Category"),
    "tenors": ref("Tenor"),
    "blockSizes": _object(
        None,
        {
            field.name: _field(field) | ({"exclusiveMinimum": 0} if field.kind == "double" else {})
            for field in BLOCK_SIZE_FIELDS
        },
    ),
}
_TIMESTAMP = _object(
    "A time in UTC.",
    {
        "s": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "maximum": LAST_SECOND,
            "description": "Whole seconds since 1970. [s]",
        },
        "ns": {
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "maximum": 999_999_999,
            "description": "Nanoseconds after that, absent where 0. [ns]",
        },
    },
    required=["s"],
)
_ERROR = _object(
    "What every answer is that is not what was asked for.",
    {
        "error": {"type": "string", "enum": list(ERROR_STATUS), "description": "What kind of error it is."},
        "message": {
            "type": "string",
            "description": "Which parameter, what it got and what it expects; of a failure no more than a request id.",
        },
        "retry_after": {
            "type": "integer",
            "minimum": 1,
            "description": "Time after which to try again. [s]",
        },
    },
    required=["error", "message"],
)
