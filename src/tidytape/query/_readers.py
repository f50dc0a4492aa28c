"""How each field of a query is read, and how its values are written; a name means the same in every query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

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
from tidytape.errors import QueryError
from tidytape.query import values

CODES = {
    "type": "INVALID_TYPE",
    "exchange": "INVALID_EXCHANGE",
    "raw_symbol": "INVALID_SYMBOL",
    "coin": "INVALID_SYMBOL",
    "normalized_symbol": "INVALID_SYMBOL",
    "interval": "INVALID_INTERVAL",
}
"""The service's error code for a wrong value of a parameter, where it is not INVALID_PARAMS."""

_INT64 = 2**63 - 1
_INT32 = 2**31 - 1

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """How a value is read.

    Attributes
    ----------
    read : callable
        Takes the value and the parameter's name, and returns the one form that a query holds.
    schema : mapping
        JSON schema of one value as a URL has it. What is read besides (short forms, any case) is not in it.
    """

    read: Callable[[object, str], object]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a field is on the wire: how its value is read, and what it means."""

    reader: Reader
    doc: str


def whole(*, low: int, high: int = _INT64) -> Reader:
    """Return the reader of whole numbers, both bounds included."""
    size = "int32" if high <= _INT32 else "int64"
    return Reader(
        lambda value, name: values.whole_number(value, parameter=name, low=low, high=high),
        {"type": "integer", "format": size, "minimum": low, "maximum": high},
    )


def _code(name: str) -> str:
    return CODES.get(name, "INVALID_PARAMS")


def _texts(value: object, name: str) -> tuple[str, ...]:
    texts = (values.text(one, parameter=name, code=_code(name)) for one in values.many(value, parameter=name))
    return tuple(dict.fromkeys(texts))


def _types(value: object, name: str) -> tuple[str, ...]:
    # Known types may be written in any case; unknown ones are let through as they are: services add types.
    return tuple(
        dict.fromkeys(one.upper() if one.upper() in DATA_TYPES else one for one in _texts(value, name))
    )


def _categories(value: object, name: str) -> tuple[Category, ...]:
    given = values.many(value, parameter=name)
    return tuple(dict.fromkeys(values.choice(one, Category, parameter=name) for one in given))


def _one_of(kind: type[StrEnum]) -> Reader:
    return Reader(
        lambda value, name: values.choice(value, kind, parameter=name, code=_code(name)),
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


_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": values.MAX_TEXT, "pattern": values.PRINTABLE}
_NAMES = Reader(_texts, _TEXT)
_NAME = Reader(lambda value, name: values.text(value, parameter=name), _TEXT)
_FLAG = Reader(lambda value, name: values.flag(value, parameter=name), {"type": "boolean"})
_MOMENT = Reader(
    lambda value, name: values.epoch_seconds(value, parameter=name),
    {"type": "integer", "format": "int64", "minimum": 0, "maximum": values.LAST_SECOND},
)
_DURATION = Reader(
    lambda value, name: values.milliseconds(value, parameter=name),
    {
        "anyOf": [
            {"type": "integer", "format": "int64", "minimum": 1, "maximum": _INT64},
            {"type": "string", "pattern": values.DURATION},
        ]
    },
)
_DECIMAL = Reader(
    lambda value, name: values.decimal_number(value, parameter=name),
    {
        "type": "number",
        "minimum": float(values.SMALLEST),
        "maximum": float(values.LARGEST),
        "description": f"At most {values.MOST_DIGITS} significant digits.",  # which JSON schema cannot say
    },
)

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "type": Reader(_types, {"type": "string", "enum": list(DATA_TYPES)}),
        "exchange": _NAMES,
        "raw_symbol": _NAMES,
        "coin": _NAMES,
        "normalized_symbol": _NAMES,
        "event": _NAMES,
        "category": Reader(_categories, _one_of(Category).schema),
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
        "start": _MOMENT,
        "end": _MOMENT,
        "funding_interval": _DURATION,
        "tpo_block_minutes": Reader(_block_minutes, {"type": "integer", "enum": list(TPO_BLOCK_MINUTES)}),
        "block_size": _DECIMAL,
        "max_depth": whole(low=1),
        "page_size": whole(low=1, high=_INT32),
        "page_offset": whole(low=0, high=_INT32),
        "gapfill": _FLAG,
        "distinct": _FLAG,
    }
)
"""The reader of every field."""
