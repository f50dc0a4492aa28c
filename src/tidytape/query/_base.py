"""The base of every query: it reads the fields, makes the errors, and converts to and from URL parameters.

A name means the same in every query, so each field has one form. Queries are frozen and strict about names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from tidytape.catalogue import (
    DATA_TYPES,
    TPO_BLOCK_MINUTES,
    Category,
    GroupBy,
    Interval,
    MarketSortField,
    Quote,
    Side,
    SortDirection,
    Tenor,
    TPOSession,
)
from tidytape.errors import QueryError, did_you_mean
from tidytape.query import _values as values

CODES = {
    "type": "INVALID_TYPE",
    "exchange": "INVALID_EXCHANGE",
    "raw_symbol": "INVALID_SYMBOL",
    "coin": "INVALID_SYMBOL",
    "normalized_symbol": "INVALID_SYMBOL",
    "interval": "INVALID_INTERVAL",
}
"""The service's error code for a wrong value of a parameter, where it is not INVALID_PARAMS."""

ROUTES = {"client.markets()": "/v1/markets"}
"""The HTTP route of each call of the client that a hint may name."""

_INT64 = 2**63 - 1
_INT32 = 2**31 - 1

JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueForm:
    """The form of a value: how to read it, and its JSON schema.

    Attributes
    ----------
    read : callable
        Takes the value and the parameter's name, and returns the value that a query holds.
    schema : mapping
        JSON schema of one value in a URL. ``read`` also takes short forms, and upper or lower case.
    """

    read: Callable[[object, str], object]
    schema: JsonSchema


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field on the wire: the form of its value, and its meaning."""

    form: ValueForm
    doc: str


def whole_numbers(*, low: int, high: int = _INT64) -> ValueForm:
    """Return the form of whole numbers, both bounds included."""
    size = "int32" if high <= _INT32 else "int64"
    return ValueForm(
        lambda value, name: values.whole_number(value, parameter=name, low=low, high=high),
        {"type": "integer", "format": size, "minimum": low, "maximum": high},
    )


def code_of(name: str) -> str:
    """Return the service's error code for a wrong value of a parameter."""
    return CODES.get(name, "INVALID_PARAMS")


def _texts(value: object, name: str) -> tuple[str, ...]:
    texts = (values.text(text, name, code=code_of(name)) for text in values.many(value, name))
    return tuple(dict.fromkeys(texts))


def _types(value: object, name: str) -> tuple[str, ...]:
    # A known type may have any case. An unknown type passes unchanged, because services add types.
    texts = _texts(value, name)
    return tuple(dict.fromkeys(text.upper() if text.upper() in DATA_TYPES else text for text in texts))


def _categories(value: object, name: str) -> tuple[Category, ...]:
    words = values.many(value, name)
    return tuple(dict.fromkeys(values.choice(word, Category, parameter=name) for word in words))


def _one_of(kind: type[StrEnum]) -> ValueForm:
    return ValueForm(
        lambda value, name: values.choice(value, kind, parameter=name, code=code_of(name)),
        {"type": "string", "enum": [member.value for member in kind]},
    )


def _block_minutes(value: object, name: str) -> int:
    try:
        minutes = values.whole_number(value, parameter=name, low=1)
    except QueryError:
        minutes = 0
    if minutes not in TPO_BLOCK_MINUTES:
        raise QueryError(name, got=value, expected="one of " + ", ".join(map(str, TPO_BLOCK_MINUTES)))
    return minutes


_TEXT: JsonSchema = {
    "type": "string",
    "minLength": 1,
    "maxLength": values.MAX_TEXT,
    "pattern": values.PRINTABLE,
}
_NAMES = ValueForm(_texts, _TEXT)
_NAME = ValueForm(values.text, _TEXT)
_TOKEN = ValueForm(values.token, {"type": "string", "pattern": values.TOKEN})
_FLAG = ValueForm(values.flag, {"type": "boolean"})
_TIME = ValueForm(
    values.epoch_seconds,
    {"type": "integer", "format": "int64", "minimum": 0, "maximum": values.LAST_SECOND},
)
_DURATION = ValueForm(
    values.milliseconds,
    {
        "anyOf": [
            {"type": "integer", "format": "int64", "minimum": 1, "maximum": _INT64},
            {"type": "string", "pattern": values.DURATION},
        ]
    },
)
_DECIMAL = ValueForm(
    values.decimal_number,
    {
        "type": "number",
        "minimum": float(values.SMALLEST),
        "maximum": float(values.LARGEST),
        "description": f"At most {values.MOST_DIGITS} significant digits.",  # JSON schema has no keyword for it
    },
)

FORMS: Mapping[str, ValueForm] = MappingProxyType(
    {
        "type": ValueForm(_types, {"type": "string", "enum": list(DATA_TYPES)}),
        "exchange": _NAMES,
        "raw_symbol": _NAMES,
        "coin": _NAMES,
        "normalized_symbol": _NAMES,
        "event": _NAMES,
        "category": ValueForm(_categories, _one_of(Category).schema),
        "token_name": _NAME,
        "symbol_filter": _NAME,
        "interval": _one_of(Interval),
        "tenor": _one_of(Tenor),
        "side": _one_of(Side),
        "sort_direction": _one_of(SortDirection),
        "sort_field": _one_of(MarketSortField),
        "quote": _one_of(Quote),
        "group_by": _one_of(GroupBy),
        "tpo_session": _one_of(TPOSession),
        "start": _TIME,
        "end": _TIME,
        "funding_interval": _DURATION,
        "tpo_block_minutes": ValueForm(_block_minutes, {"type": "integer", "enum": list(TPO_BLOCK_MINUTES)}),
        "block_size": _DECIMAL,
        "max_depth": whole_numbers(low=1),
        "page_size": whole_numbers(low=1, high=_INT32),
        "page_offset": whole_numbers(low=0, high=_INT32),
        "gapfill": _FLAG,
        "distinct": _FLAG,
        "token": _TOKEN,
    }
)
"""The form of every field."""


class Query(BaseModel):
    """The base of the queries; see the module."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    WIRE: ClassVar[dict[str, str]] = {}
    """The name of each field on the wire; no other place has these names."""

    REPEATABLE: ClassVar[frozenset[str]] = frozenset()
    """Fields that a URL may have more than once."""

    ONLY_ON_WIRE: ClassVar[Mapping[str, Parameter]] = {}
    """The form and the meaning on the wire of fields that differ from those in Python."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _query_error(error, type(self)) from None

    @field_validator("*", mode="before")
    @classmethod
    def _read(cls, value: object, info: ValidationInfo) -> object:
        name = info.field_name or ""
        if value is not None:
            return FORMS[name].read(value, name)
        # In every field None means that the caller left it out.
        field = cls.model_fields[name]
        if field.is_required():
            raise QueryError(name, got=None, expected="a value; it is required", code=code_of(name))
        return field.default

    def _require_window(self, start: int, end: int) -> None:
        """Raise QueryError unless the window ends after it starts."""
        if end <= start:
            expected = f"a time after ``start`` ({values.written_time(start)})"
            raise QueryError("end", got=values.written_time(end), expected=expected)

    @classmethod
    def from_params(cls, params: Iterable[tuple[str, str]]) -> Self:
        """Read URL parameters.

        Parameters
        ----------
        params : iterable of (str, str)
            Decoded names and values, in any order.

        Returns
        -------
        query

        Raises
        ------
        QueryError
            If a parameter is wrong; the error names it as the wire does.
        """
        fields = cls._collected(params)
        with cls.named_as_on_wire():
            for name, parameter in cls.ONLY_ON_WIRE.items():
                if name in fields:
                    fields[name] = parameter.form.read(fields[name], name)
            return cls(**cls._from_wire(fields))

    @classmethod
    @contextmanager
    def named_as_on_wire(cls) -> Iterator[None]:
        """Return a context that gives the parameters in its errors their names on the wire."""
        try:
            yield
        except QueryError as error:
            raise error.renamed({**cls.WIRE, **ROUTES}) from None

    def to_params(self) -> list[tuple[str, str]]:
        """Return the URL parameters of this query in a fixed order, without fields that have their default.

        Returns
        -------
        list of (str, str)
        """
        params: list[tuple[str, str]] = []
        for field, wire in self.WIRE.items():
            value = getattr(self, field)
            if value is None or value == type(self).model_fields[field].default:
                continue
            members = value if isinstance(value, tuple) else (value,)
            params += [(wire, _written(member)) for member in members]
        return params

    @classmethod
    def _from_wire(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Turn the fields of a URL into the fields of the model; a query with another form on the wire overrides it."""
        return fields

    @classmethod
    def _collected(cls, params: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Return the values of URL parameters by field; fields that a URL may repeat have a list of values."""
        by_wire = {wire: field for field, wire in cls.WIRE.items()}
        fields: dict[str, Any] = {}
        for wire, value in params:
            if wire not in by_wire:
                raise _unknown_parameter(wire, value, by_wire)
            field = by_wire[wire]
            if field in cls.REPEATABLE:
                fields.setdefault(field, []).append(value)
            elif field in fields:
                raise QueryError(wire, got=[fields[field], value], expected="to be given once")
            else:
                fields[field] = value
        return fields


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _unknown_parameter(name: str, value: object, known: Iterable[str]) -> QueryError:
    names = list(known)
    return QueryError(
        name,
        got=value,
        expected="no such parameter here",
        hint=did_you_mean(name, names) or f"known: {', '.join(names)}",
    )


def _query_error(error: ValidationError, model: type[Query]) -> QueryError:
    """Return the QueryError for the first mistake that pydantic has found."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, QueryError):
        return cause
    name = str(first["loc"][0]) if first["loc"] else model.__name__
    if first["type"] == "extra_forbidden":
        return _unknown_parameter(name, first["input"], model.WIRE)
    return QueryError(name, got=first["input"], expected=first["msg"])
