"""The OpenAPI description of a route's query parameters, derived from the query model."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from tidytape.query import MarketsQuery, MetaQuery, PointsQuery

__all__ = ["parameters"]

_REQUIRED = {"type", "start", "end"}
_PRIMITIVES: dict[type, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    str: {"type": "string"},
    Decimal: {"type": "number"},
}


def parameters(model: type[PointsQuery | MarketsQuery | MetaQuery]) -> dict[str, Any]:
    """Return the ``parameters`` of a route that reads ``model`` from its URL.

    Examples
    --------
    >>> [one["name"] for one in parameters(MarketsQuery)["parameters"]][:2]
    ['exchange', 'coin']
    """
    described = []
    for field, wire in model.WIRE.items():
        schema = _schema(model.model_fields[field].annotation)
        described.append(
            {
                "name": wire,
                "in": "query",
                "required": model is PointsQuery and field in _REQUIRED,
                "schema": schema,
            }
        )
    return {"parameters": described}


def _schema(annotation: Any) -> dict[str, Any]:
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        return _schema(next(one for one in get_args(annotation) if one is not type(None)))
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(annotation)[0])}
    if issubclass(annotation, StrEnum):
        return {"type": "string", "enum": [member.value for member in annotation]}
    return _PRIMITIVES[annotation]
