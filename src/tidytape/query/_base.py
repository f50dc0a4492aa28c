"""What every query shares: frozen, strict about names, one error for every mistake, URL parameters both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
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
from tidytape.errors import QueryError, nearest
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

_MOST_RESULTS = 2**31 - 1


class Query(BaseModel):
    """The base of the queries; see the module."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    WIRE: ClassVar[dict[str, str]] = {}
    """Name on the wire of each field; the one place that says so."""

    REPEATABLE: ClassVar[frozenset[str]] = frozenset()
    """Fields that may be given more than once on the wire."""

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
            return _READERS[name](value, name)
        # None is "not given", in every field.
        field = cls.model_fields[name]
        if field.is_required():
            raise QueryError(
                name, got=None, expected="a value; it is required", code=CODES.get(name, "INVALID_PARAMS")
            )
        return field.default

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
            Naming the parameter as it is spelled on the wire.
        """
        fields = cls._collected(params)
        try:
            return cls(**cls._from_wire(fields))
        except QueryError as error:
            raise respelled(error, cls.WIRE) from None

    def to_params(self) -> list[tuple[str, str]]:
        """Return the URL parameters of this query, defaults left out, in a fixed order.

        Returns
        -------
        list of (str, str)
        """
        params: list[tuple[str, str]] = []
        for field, wire in self.WIRE.items():
            value = getattr(self, field)
            if value is None or value == type(self).model_fields[field].default:
                continue
            several = value if isinstance(value, tuple) else (value,)
            params += [(wire, _written(one)) for one in several]
        return params

    @classmethod
    def _from_wire(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Turn the fields as sent into the fields of the model; a query whose wire form differs says how."""
        return fields

    @classmethod
    def _collected(cls, params: Iterable[tuple[str, str]]) -> dict[str, Any]:
        by_wire = {wire: field for field, wire in cls.WIRE.items()}
        fields: dict[str, Any] = {}
        for wire, value in params:
            if wire not in by_wire:
                raise _unknown(wire, value, by_wire)
            field = by_wire[wire]
            if field in cls.REPEATABLE:
                fields.setdefault(field, []).append(value)
            elif field in fields:
                raise QueryError(wire, got=[fields[field], value], expected="to be given once")
            else:
                fields[field] = value
        return fields


def respelled(error: QueryError, names: Mapping[str, str]) -> QueryError:
    """Return the same error with every parameter named as its reader writes it.

    Parameters
    ----------
    error : QueryError
        The error.
    names : mapping of str to str
        A name as the error has it, to the name as its reader has it.

    Returns
    -------
    QueryError
    """
    renamed = {ours: theirs for ours, theirs in names.items() if ours != theirs}
    # Whole names only; one inside a dotted name is part of another parameter.
    pattern = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, renamed))})(?![\w.])")

    def spelled(text: str) -> str:
        return pattern.sub(lambda match: renamed[match[1]], text)

    return QueryError(
        renamed.get(error.parameter, error.parameter),
        got=error.got,
        expected=spelled(error.expected),
        hint=None if error.hint is None else spelled(error.hint),
        code=error.code,
        status=error.status,
    )


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _unknown(name: str, value: object, known: Iterable[str]) -> QueryError:
    names = list(known)
    close = nearest(name, names)
    return QueryError(
        name,
        got=value,
        expected="no such parameter here",
        hint=f"did you mean {close!r}?" if close else "known: " + ", ".join(names),
    )


def _query_error(error: ValidationError, model: type[BaseModel]) -> QueryError:
    """Turn the first finding of pydantic into the one error users see."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, QueryError):
        return cause
    name = str(first["loc"][0]) if first["loc"] else model.__name__
    if first["type"] == "extra_forbidden":
        return _unknown(name, first["input"], model.model_fields)
    return QueryError(name, got=first["input"], expected=first["msg"])


# --- how each field is read; a name means the same in every query ---

_Reader = Callable[[object, str], object]


def _names(value: object, name: str) -> tuple[str, ...]:
    code = CODES.get(name, "INVALID_PARAMS")
    texts = (values.text(one, parameter=name, code=code) for one in values.many(value, parameter=name))
    return tuple(dict.fromkeys(texts))


def _types(value: object, name: str) -> tuple[str, ...]:
    # Known types may be written in any case; unknown ones are let through as they are: services add types.
    return tuple(
        dict.fromkeys(one.upper() if one.upper() in DATA_TYPES else one for one in _names(value, name))
    )


def _categories(value: object, name: str) -> tuple[Category, ...]:
    given = values.many(value, parameter=name)
    return tuple(dict.fromkeys(values.choice(one, Category, parameter=name) for one in given))


def _with(read: Callable[..., object], /, **options: Any) -> _Reader:
    return lambda value, name: read(value, parameter=name, **options)


def _one_of(kind: type[StrEnum]) -> _Reader:
    return lambda value, name: values.choice(
        value, kind, parameter=name, code=CODES.get(name, "INVALID_PARAMS")
    )


def _block_minutes(value: object, *, parameter: str) -> int:
    try:
        minutes = values.whole_number(value, parameter=parameter, low=1)
    except QueryError:
        minutes = 0
    if minutes not in TPO_BLOCK_MINUTES:
        raise QueryError(parameter, got=value, expected="one of " + ", ".join(map(str, TPO_BLOCK_MINUTES)))
    return minutes


_READERS: dict[str, _Reader] = {
    "type": _types,
    "exchange": _names,
    "raw_symbol": _names,
    "coin": _names,
    "normalized_symbol": _names,
    "event": _names,
    "category": _categories,
    "token_name": _with(values.text),
    "symbol_filter": _with(values.text),
    "interval": _one_of(Interval),
    "tenor": _one_of(Tenor),
    "side": _one_of(Side),
    "sort_direction": _one_of(SortDirection),
    "sort_field": _one_of(MarketSortField),
    "quote": _one_of(Quote),
    "group_by": _one_of(GroupBy),
    "tpo_session": _one_of(TPOSession),
    "start": _with(values.epoch_seconds),
    "end": _with(values.epoch_seconds),
    "funding_interval": _with(values.milliseconds),
    "tpo_block_minutes": _with(_block_minutes),
    "block_size": _with(values.decimal_number),
    "max_depth": _with(values.whole_number, low=1),
    "page_size": _with(values.whole_number, low=1, high=_MOST_RESULTS),
    "page_offset": _with(values.whole_number, low=0, high=_MOST_RESULTS),
    "gapfill": _with(values.flag),
    "distinct": _with(values.flag),
}
