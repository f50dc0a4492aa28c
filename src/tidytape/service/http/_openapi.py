"""The OpenAPI document, derived from the query models, the schemas and the catalogue."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from tidytape._version import __version__
from tidytape.catalogue import (
    BLOCK_SIZE_FIELDS,
    COVERAGE,
    DATA_TYPES,
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    DESCRIPTOR_FIELDS,
    ERROR_MEANING,
    ERROR_STATUS,
    IDENTITY_FIELDS,
    LEVEL_VOLUMES,
    LISTS,
    LISTS_OF_A_TYPE,
    MARKET_FIELDS,
    NOTE_FIELDS,
    PREDICTION_MARKET_FIELDS,
    RATE_LIMIT_HEADERS,
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
    StreamEnd,
    Tenor,
    TPOSession,
)
from tidytape.errors import worded
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery, StreamQuery
from tidytape.query._base import CODES, FORMS
from tidytape.query._values import LAST_SECOND
from tidytape.schema import MARKETS, PREDICTION_MARKET_ENTRY, Schema, schema_of, wire_schema
from tidytape.service.answer._markets import DEFAULT_PAGE, LARGEST_PAGE
from tidytape.service.http._gate import LONGEST_TARGET
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._pages import PAGE_ENDS, PAGES
from tidytape.wire._stream import LINES_MIME
from tidytape.wire._tidy import OF_SERIES

Model = type[PointsQuery] | type[StreamQuery] | type[MarketsQuery] | type[MetaQuery]
_OF_A_STREAM = ("start", "end", "token")


def in_markdown(text: str, model: Model) -> str:
    """Return a text of a docstring or an error as Markdown for users of the API.

    Parameters
    ----------
    text : str
        The text. Double backticks surround fields of the model, which become names in a URL, and values.
    model : type
        The query model.

    Examples
    --------
    >>> in_markdown("Only ``start``, or a ``raw_symbol``.", PointsQuery)
    'Only `from`, or a `rawSymbol`.'
    """
    return worded(" ".join(text.split()), lambda name: f"`{model.WIRE.get(name, name)}`")


_SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w, ]*) : .*$", re.MULTILINE)


def parameters(
    model: Model, *, required: tuple[str, ...] = (), narrowed: Mapping[str, Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the parameters of a route that reads ``model`` from its URL.

    Parameters
    ----------
    model : type
        The query model.
    required : tuple of str
        Fields that this route requires, although the query model does not.
    narrowed : mapping of str to mapping, optional
        Limits and defaults that this service adds to the JSON schema of a field.

    Examples
    --------
    >>> from tidytape.query import MarketsQuery
    >>> [parameter["name"] for parameter in parameters(MarketsQuery)][:2]
    ['exchange', 'coin']
    """
    docs = _documented(model)
    if model is StreamQuery:  # its docstring refers to PointsQuery for most fields
        docs = docs | {
            name: text for name, text in _documented(PointsQuery).items() if name not in _OF_A_STREAM
        }
    result_parameters = []
    for field, name in model.WIRE.items():
        model_field = model.model_fields[field]
        on_wire = model.ONLY_ON_WIRE.get(field)
        schema = named((on_wire.form if on_wire else FORMS[field]).schema)
        is_required = model_field.is_required() or field in required
        if field in model.REPEATABLE:
            schema = {"type": "array", "items": schema, **({"minItems": 1} if is_required else {})}
        elif not model_field.is_required() and model_field.default is not None:
            schema = {**schema, "default": model_field.default}
        parameter = {
            "name": name,
            "in": "query",
            "description": on_wire.doc if on_wire else in_markdown(docs.get(field, ""), model),
            "required": is_required,
            "schema": {**schema, **(narrowed or {}).get(field, {})},
        }
        if field in model.REPEATABLE:
            parameter |= {"style": "form", "explode": True}
        result_parameters.append(parameter)
    return result_parameters


def remarks(model: Model) -> str:
    """Return the notes in the docstring of a model, with parameters named as in a URL.

    Examples
    --------
    >>> from tidytape.query import PointsQuery
    >>> remarks(PointsQuery)[:79]
    'Exactly one of `rawSymbol`, `normalizedSymbol` and `coin` selects the markets. '
    """
    return in_markdown(_sections(model).get("Notes", ""), model)


def _documented(model: Model) -> dict[str, str]:
    """Return the documentation of each field of a model; empty under ``python -OO``."""
    _, *parts = _ENTRY.split(_sections(model).get("Parameters", ""))
    fields = zip(parts[::2], parts[1::2], strict=True)
    return {name.strip(): text for names, text in fields for name in names.split(",")}


def _sections(model: Model) -> dict[str, str]:
    summary, *parts = _SECTION.split(inspect.getdoc(model) or "")
    return {"": summary, **dict(zip(parts[::2], parts[1::2], strict=True))}


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
    """Return a reference to a component of the document."""
    return {"$ref": f"#/components/{room}/{name}"}


def camel(name: str) -> str:
    """Return the name of a schema for a name of the catalogue.

    Examples
    --------
    >>> camel("TRADE_AGG"), camel("block-sizes")
    ('TradeAgg', 'BlockSizes')
    """
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


def named(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference if a schema is a named enumeration, otherwise the schema unchanged."""
    name = _NAMED.get(tuple(schema.get("enum", ())))
    return dict(schema) if name is None else ref(name)


def schemas() -> dict[str, Any]:
    """Return every schema by its name."""
    by_name: dict[str, Any] = {
        "Error": _ERROR,
        "Timestamp": _TIMESTAMP,
        "DataType": _enumeration("What a point tells.", DATA_TYPES),
    }
    for name, values in _ENUMERATIONS.items():
        aliases = ", ".join(f"`{getattr(member, 'alias', '')}`" for member in values)
        meaning = in_markdown((values.__doc__ or "").partition("\n")[0], PointsQuery)
        by_name[name] = _enumeration(
            f"{meaning} In a request also in short, in this order: {aliases}.", values
        )
    for data_type in DATA_TYPES.values():
        by_name |= _of_type(data_type)
    by_name["Points"] = _object(
        "What `/v1/points` answers.",
        {
            "series": _array({"oneOf": [ref(f"{camel(name)}Series") for name in DATA_TYPES]}),
            "notes": {**_array(ref("Note")), "description": _NOTES},
        },
    )
    series = by_name["Points"]["properties"]["series"]
    by_name["Batch"] = _object(
        "A line of `/v1/stream`. Whoever applied it and keeps its token has everything up to it, once.",
        {
            "revision": {
                **series,
                "description": "Points that were final, or whose interval was over, and are others now.",
            },
            "final": {
                **series,
                "description": "Points that what their market is known up to has passed; sent once.",
            },
            "update": {**series, "description": "Points whose interval is in progress."},
            "over": {
                "type": "object",
                "additionalProperties": ref("Timestamp"),
                "description": "By data type the start of the last interval that is over: nothing of it, or of an "
                "earlier one, comes after this line but revisions.",
            },
            "token": {"type": "string", "description": "What the stream is resumed with."},
            "end": _object(
                "Why the service ends the stream.",
                {
                    "code": {"type": "string", "enum": list(StreamEnd), "description": "The reason."},
                    "message": {"type": "string", "description": "The same in words."},
                },
            ),
        },
        required=["token"],
    )
    codes = "; ".join(f"`{code}`: {code.meaning}" for code in NoteCode)
    by_name["NoteCode"] = _enumeration(f"What a note says. {codes}.", NoteCode)
    by_name["Note"] = _object(
        _NOTES,
        {field.name: _field(field) | _KINDS_OF_NOTES.get(field.name, {}) for field in NOTE_FIELDS},
        required=["code"],
    )
    by_name["PredictionMarket"] = _entry(
        "A prediction market.", PREDICTION_MARKET_FIELDS, PREDICTION_MARKET_ENTRY
    )
    market = _entry("A market.", MARKET_FIELDS, MARKETS)
    nested_doc = "The prediction markets that it is an outcome of; absent of all other markets."
    market["properties"]["predictionMarkets"] = {**_array(ref("PredictionMarket")), "description": nested_doc}
    by_name["Market"] = market
    by_name["Markets"] = _object(
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
    item_schemas = {name: _ITEMS.get(field, {"type": "string"}) for name, field in LISTS.items()}
    by_name |= {
        camel(name): _object("A list.", {LISTS[name]: _array(item_schema)})
        for name, item_schema in item_schemas.items()
    }
    by_name["Usage"] = _object(
        "The quota of the key.",
        {field.name: {**_field(field), "minimum": 0} for field in USAGE_FIELDS},
    )
    return by_name


# --- points ---------------------------------------------------------------------------------------------------------


def _of_type(data_type: DataType) -> dict[str, Any]:
    """Return the series, the identifier and the payload of a data type."""
    name, schema = camel(data_type.name), wire_schema(data_type.name)
    # A side identifies a series only if the data type has a series per side.
    identity_columns = [column for column in schema.identity if column != "side" or data_type.per_side]
    identity = {"type": {"const": data_type.name, "type": "string", "description": "Data type."}}
    identity |= {field.name: _field(field) for field in IDENTITY_FIELDS if field.column in identity_columns}
    descriptor_columns = {*schema.descriptors, *OF_SERIES}
    identity |= {
        field.name: _field(field) for field in DESCRIPTOR_FIELDS if field.column in descriptor_columns
    }
    payload = {field.name: _field(field) for field in data_type.fields}
    required = [field.name for field in data_type.fields if not schema[field.column].nullable]
    by_name: dict[str, Any] = {}
    for levels in data_type.levels:
        payload[levels.name] = _flat(levels)
        if not levels.flat:
            by_name[f"{name}Level"] = _entry("A price level.", levels.fields, schema_of(data_type.name))
            payload[levels.name] = {**_array(ref(f"{name}Level")), "description": "Price levels, ascending."}
        required.append(levels.name)
    if data_type.group_by is not None:
        payload[COVERAGE.name] = {**_field(COVERAGE), "description": f"Of groups. {_meaning(COVERAGE)}"}
    if data_type.derives_volume:
        payload[LEVEL_VOLUMES.name] = _field(LEVEL_VOLUMES)
    point_schema = ref(f"{name}Payload")
    if data_type.envelope:
        point_schema = _object(None, {data_type.envelope: point_schema})
    selection = in_markdown(data_type.selection, PointsQuery)
    limits = (
        f"at most {data_type.max_points:,} points in one request, from tier {data_type.tier.capitalize()} on"
    )
    return by_name | {
        f"{name}Id": _object("What names the series.", identity, required=["type"]),
        f"{name}Payload": _object(f"{data_type.title}: one point.", payload, required=required),
        f"{name}Series": _object(
            f"{data_type.title}. Selected by {selection}. Weight {data_type.multiplier} per 1,000 points, {limits}.",
            {"id": ref(f"{name}Id"), "points": _array(_object(None, {"Point": point_schema}))},
        ),
    }


def _flat(levels: Levels) -> dict[str, Any]:
    """Return the schema of an array with the values of all levels, level by level."""
    values_of_level = "; ".join(f"`{field.name}`: {_meaning(field)}" for field in levels.fields)
    return {
        **_array({"type": "number", "format": "double"}),
        "description": f"Of each level in turn {values_of_level}",
    }


# --- pieces ---------------------------------------------------------------------------------------------------------


def _object(
    description: str | None, properties: dict[str, Any], *, required: list[str] | None = None
) -> dict[str, Any]:
    """Return the schema of an object; without ``required`` all properties are required."""
    description_entry = {} if description is None else {"description": description}
    return {
        "type": "object",
        **description_entry,
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
    if field.plain:  # every point has it; null means unknown
        return {"anyOf": [_NUMBER, {"type": "null"}], "description": _meaning(field)}
    # A reference may have a description beside it.
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
        "parameter": {"type": "string", "description": "Of a wrong query: the wrong parameter."},
        "got": {
            "type": "string",
            "description": "Its value, as the message quotes it; absent if it was left out.",
        },
        "expected": {
            "type": "string",
            "description": "What it may be. Parameters stand in double backticks.",
        },
        "hint": {"type": "string", "description": "What to do. Parameters stand in double backticks."},
        "retry_after": {
            "type": "integer",
            "minimum": 1,
            "description": "Time after which to try again. [s]",
        },
        "over": {
            "type": "object",
            "additionalProperties": ref("Timestamp"),
            "description": "Of `TOKEN_EXPIRED`: by data type the start of the last interval that was over. Everything "
            "up to its end had been delivered.",
        },
    },
    required=["error", "message"],
)

_WITHOUT_QUOTA = ("INVALID_API_KEY", "UNAVAILABLE")  # there is no key, or the quota may be unreachable
_WITH_RETRY = ("RATE_LIMITED", "UNAVAILABLE")
_MORE_HEADERS = {"METHOD_NOT_ALLOWED": ("Allow",)} | dict.fromkeys(_WITH_RETRY, ("Retry-After",))
_ALWAYS = ("X-Request-Id",)
_OF_A_KEY = (*_ALWAYS, *RATE_LIMIT_HEADERS)
_OF_POINTS = ("ETag", "Vary", PAGE_ENDS)


def headers() -> dict[str, Any]:
    """Return every header by its name."""
    meaning = {field.name: f"{field.doc}. [{field.unit}]" for field in USAGE_FIELDS}
    limits = {
        name: _header(meaning[field], {"type": "integer", "minimum": 0})
        for name, field in RATE_LIMIT_HEADERS.items()
    }
    request_id = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
    return {
        "X-Request-Id": _header("Names the request in the log of the service.", request_id),
        **limits,
        "Retry-After": _header("Time after which to try again. [s]", {"type": "integer", "minimum": 1}),
        "Allow": _header("The methods that there are.", {"type": "string"}),
        "Vary": _header("The headers of a request that change the form of the answer.", {"type": "string"}),
        "ETag": _header(
            "Names the answer, for `If-None-Match`; absent where the window is not over, or the lake is far.",
            {"type": "string", "pattern": '^W/"[0-9a-f]{32}"$'},
            required=False,
        ),
        PAGE_ENDS: _header(
            "The ends of the pages of a window of raw trades, if it has several and the request had "
            f"`Prefer: {PAGES}`; the answer has the trades of the first. [s since 1970]",
            {"type": "string", "pattern": "^[0-9]+(,[0-9]+)+$"},
            required=False,
        ),
    }


def answer(schema: str, *, arrow: bool = False, links: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the response 200 of a route: JSON of a schema, and an Arrow stream if ``arrow`` is true."""
    content: dict[str, Any] = {JSON_MIME: {"schema": ref(schema)}}
    if arrow:
        content |= {ARROW_MIME: {}, ONCE_MIME: {}}  # an Arrow stream has its own schema
    return {
        "description": "What was asked for.",
        "headers": _headers((*_OF_A_KEY, *_OF_POINTS) if arrow else _OF_A_KEY),
        "content": content,
        **({"links": dict(links)} if links else {}),
    }


def known() -> dict[str, Any]:
    """Return the response 304: the caller has the answer already."""
    return {
        "description": "The answer named in `If-None-Match` is still the answer. Nothing is computed, nothing charged.",
        "headers": _headers((*_OF_A_KEY, *_OF_POINTS)),
    }


def refusals(codes: Iterable[str]) -> dict[str, Any]:
    """Return the refusals of a route by status, from the codes that it can answer with."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(ERROR_STATUS[code], []).append(code)
    return {
        str(status): ref(camel(codes_of_status[0]), "responses")
        if len(codes_of_status) == 1
        else _refusal(codes_of_status)
        for status, codes_of_status in sorted(by_status.items())
    }


def shared() -> dict[str, Any]:
    """Return the refusals with a single code, by name."""
    return {camel(code): _refusal([code]) for code in ERROR_STATUS}


def _refusal(codes: list[str]) -> dict[str, Any]:
    # The codes of one status have the same headers, so the first code decides.
    base_headers = _ALWAYS if codes[0] in _WITHOUT_QUOTA else _OF_A_KEY
    more_headers = _MORE_HEADERS.get(codes[0], ())
    required = {"required": ["retry_after"]} if codes[0] in _WITH_RETRY else {}
    schema = {**ref("Error"), "properties": {"error": {"enum": codes}}, **required}
    return {
        "description": " ".join(f"`{code}`: {ERROR_MEANING[code]}." for code in codes),
        "headers": _headers((*base_headers, *more_headers)),
        "content": {JSON_MIME: {"schema": schema}},
    }


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: ref(name, "headers") for name in names}


def _header(description: str, schema: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"description": description, "required": required, "schema": dict(schema)}


_ABOUT = f"""\
Time series of market data: candles, open interest, funding, liquidations, profiles, heatmaps, option summaries and
token supply. Every request is a GET below `/v1/` with a key; other methods are answered 405, other paths 404. A
parameter that is not known here is refused. Path and query are at most {LONGEST_TARGET:,} bytes.

Every answer that refuses has one shape, `Error`. Headers tell the quota of the key on every answer to it. Data weighs,
discovery does not; a request that is refused or fails weighs nothing.
"""

_POINTS = """\
Not everything that each parameter allows goes together. A market is selected in one way; options belong to the data
types that have them; window and interval make no more points than the type allows. What breaks such a rule, or names
what the lake does not hold, is answered 400 or 403 with a code and a message, before it costs anything.
"""

_STREAM = """\
History from `from`, and then what is new, until `period` is over or for good. A line of JSON is a batch; one of a token
alone says that the service is alive. In Arrow, for one data type, each record batch has the column `change`, and
`token`, `over` and `end` in its custom metadata. History weighs as in `/v1/points`, what is live weighs nothing, and a
tier says how many streams a key may hold at once. Without `from` the stream begins with the interval in progress. With
`token` it goes on where another one stopped; the other parameters are the same then, or `from` and `period` are left
out.
"""

_SUMMARIES = {
    "types": "Data types of what there is",
    "exchanges": "Exchanges",
    "categories": "Market classes",
    "coins": "Base assets",
    "symbols": "Exchange-native symbols",
    "normalized-symbols": "Cross-exchange symbols",
    "tenors": "Tenors that option summaries have",
    "block-sizes": "Recommended heights of a row of the order-book heatmap",
}

_LIST = "The filters narrow it; what nothing matches is an empty list. `to` is later than `from`."
_LIST_OF_A_TYPE = "Without `type` the answer is 500, as the contract has it."
_OF_NO_ROUTE = ("INVALID_REQUEST", "NOT_FOUND", "METHOD_NOT_ALLOWED", "HEADERS_TOO_LONG")

_OF_STREAMS_ONLY = ("STREAM_LIMIT_EXCEEDED", "TOKEN_EXPIRED")
_OF_POINTS_ONLY = (
    *_OF_STREAMS_ONLY, "UNSUPPORTED", "TYPE_NOT_PERMITTED", "HISTORY_NOT_PERMITTED", "AGGREGATION_NOT_PERMITTED",
    "POINT_LIMIT_EXCEEDED", "RATE_LIMITED", "TIMEOUT",
)  # fmt: skip


# Links from the first result of an operation to the next request.
_FIRST_MARKET = {
    "exchange": "$response.body#/symbols/0/exchange",
    "rawSymbol": "$response.body#/symbols/0/rawSymbol",
}

_LINKS: dict[str, dict[str, Any]] = {
    "Markets": {
        "PointsOfTheFirst": {"operationId": "getPoints", "parameters": _FIRST_MARKET},
        "NextPage": {
            "operationId": "listMarkets",
            "parameters": {"pageOffset": "$response.body#/nextOffset"},
        },
    },
    "Exchanges": {
        "Markets": {
            "operationId": "listMarkets",
            "parameters": {"exchange": "$response.body#/exchanges/0"},
        },
    },
    "Coins": {
        "Markets": {"operationId": "listMarkets", "parameters": {"coin": "$response.body#/coins/0"}},
    },
}


def document(*, key_header: str) -> dict[str, Any]:
    """Return the description of the service.

    Parameters
    ----------
    key_header : str
        Header that carries the key.

    Returns
    -------
    dict
        OpenAPI 3.1, for `json.dumps`.

    Examples
    --------
    >>> list(document(key_header="X-Service-Key")["paths"])[:3]
    ['/v1/points', '/v1/stream', '/v1/markets']
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Market Data Query Service",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "tags": [
            {"name": "data", "description": "Points of series. They weigh."},
            {"name": "markets", "description": "What can be asked for, in full."},
            {"name": "lists", "description": "What there is, one kind at a time. All take the same filters."},
            {"name": "quota", "description": "What is left to spend."},
        ],
        "security": [{"Key": []}],
        "paths": {path: {"get": operation} for path, operation in _operations().items()},
        "components": {
            "securitySchemes": {
                "Key": {
                    "type": "apiKey",
                    "in": "header",
                    "name": key_header,
                    "description": "The key of an account.",
                }
            },
            "schemas": schemas(),
            "headers": headers(),
            "responses": shared(),
        },
    }


def _operations() -> dict[str, dict[str, Any]]:
    point_parameters = [
        {**parameter, "example": _EXAMPLE[parameter["name"]]} if parameter["name"] in _EXAMPLE else parameter
        for parameter in parameters(PointsQuery, narrowed=_USED_WHERE_LEFT_OUT)
    ]
    points = {
        "operationId": "getPoints",
        "tags": ["data"],
        "summary": "Points of one or more series",
        "description": f"{_POINTS}\n{remarks(PointsQuery)}",
        "parameters": [
            *point_parameters,
            {
                "name": "If-None-Match",
                "in": "header",
                "description": "ETags of answers that the caller has; one that still holds is answered 304.",
                "schema": {"type": "string"},
            },
            {
                "name": "Prefer",
                "in": "header",
                "description": f"`{PAGES}`: of a window with more raw trades than one answer may have, answer the "
                f"first page, and name the ends of all in `{PAGE_ENDS}`. Such a window is refused otherwise.",
                "schema": {"type": "string"},
            },
        ],
        "responses": {
            "200": answer("Points", arrow=True),
            "304": known(),
            **refusals(code for code in ERROR_STATUS if code not in {*_OF_NO_ROUTE, *_OF_STREAMS_ONLY}),
        },
    }
    codes_not_of_streams = {*_OF_NO_ROUTE, "POINT_LIMIT_EXCEEDED", "TIMEOUT"}
    stream = {
        "operationId": "streamPoints",
        "tags": ["data"],
        "summary": "Points of one or more series, history and live",
        "description": f"{_STREAM}\n{_POINTS}\n{remarks(PointsQuery)}",
        "parameters": parameters(StreamQuery, narrowed=_USED_WHERE_LEFT_OUT),
        "responses": {
            "200": {
                "description": "The stream, in chunks.",
                "headers": _headers((*_OF_A_KEY, "Vary")),
                "content": {LINES_MIME: {"schema": ref("Batch")}, ARROW_MIME: {}},
            },
            **refusals(code for code in ERROR_STATUS if code not in codes_not_of_streams),
        },
    }
    page_size = {"page_size": {"maximum": LARGEST_PAGE, "default": DEFAULT_PAGE}}
    markets = _discovery(
        "Markets",
        "markets",
        MarketsQuery,
        parameters(MarketsQuery, narrowed=page_size),
        summary="Markets with their figures of 24 hours",
        description="Pages in a fixed order: by exchange and symbol, or as `sortCriteria.field` says.",
    )
    usage = _discovery(
        "Usage", "quota", None, [], summary="The quota of the key", description="It takes no parameters."
    )
    lists = {
        f"/v1/{name}": _discovery(
            camel(name),
            "lists",
            MetaQuery,
            parameters(MetaQuery, required=("type",) if name in LISTS_OF_A_TYPE else ()),
            summary=_SUMMARIES[name],
            description=_LIST_OF_A_TYPE if name in LISTS_OF_A_TYPE else _LIST,
        )
        for name in LISTS
    }
    return {"/v1/points": points, "/v1/stream": stream, "/v1/markets": markets, **lists, "/v1/usage": usage}


_EXAMPLE = {
    "type": ["TRADE_SIDE_AGNOSTIC_AGG"],
    "exchange": ["X"],
    "coin": ["BTC"],
    "interval": "HOUR",
    "from": 1_723_161_600,
    "period": 86_400,
}

_USED_WHERE_LEFT_OUT: Mapping[str, Mapping[str, Any]] = {
    "funding_interval": {"default": DEFAULT_FUNDING_INTERVAL_MS},
    # Only described, because some clients send every default along, and types that are no market profile refuse it.
    "tpo_block_minutes": {"description": f"{DEFAULT_TPO_BLOCK_MINUTES} where it is left out."},
}


def _discovery(
    schema: str,
    tag: str,
    model: Model | None,
    described: list[dict[str, Any]],
    *,
    summary: str,
    description: str,
) -> dict[str, Any]:
    fields = () if model is None else model.WIRE
    # The route cannot answer codes that belong only to parameters of other routes.
    codes_of_others = {code for field, code in CODES.items() if field not in fields} - {
        code for field, code in CODES.items() if field in fields
    }
    codes = [code for code in ERROR_STATUS if code not in {*_OF_NO_ROUTE, *_OF_POINTS_ONLY, *codes_of_others}]
    verb = "get" if model is None else "list"
    return {
        "operationId": f"{verb}{schema}",
        "tags": [tag],
        "summary": summary,
        "description": description,
        "parameters": described,
        "responses": {"200": answer(schema, links=_LINKS.get(schema)), **refusals(codes)},
    }
