"""What every query shares: frozen, strict about names, one error for every mistake, URL parameters both ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from tidytape.errors import QueryError, nearest
from tidytape.query._readers import CODES, READERS, Parameter


class Query(BaseModel):
    """The base of the queries; see the module."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    WIRE: ClassVar[dict[str, str]] = {}
    """Name on the wire of each field; the one place that says so."""

    REPEATABLE: ClassVar[frozenset[str]] = frozenset()
    """Fields that may be given more than once on the wire."""

    ONLY_ON_WIRE: ClassVar[Mapping[str, Parameter]] = {}
    """What a field is on the wire, where it is something else than in Python."""

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
            return READERS[name].read(value, name)
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
            for name, parameter in cls.ONLY_ON_WIRE.items():
                if name in fields:
                    fields[name] = parameter.reader.read(fields[name], name)
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
