"""The query parameters of a route, derived from the query model that reads them, its documentation included."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from tidytape.query._base import READERS
from tidytape.service.openapi.payloads import named
from tidytape.service.openapi.words import Model, in_words

__all__ = ["parameters", "remarks"]

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
        Fields that this route needs, beside those that the model does.
    narrowed : mapping of str to mapping, optional
        What this service adds to the JSON schema of a field: a limit or a default of its own.

    Examples
    --------
    >>> from tidytape.query import MarketsQuery
    >>> [one["name"] for one in parameters(MarketsQuery)][:2]
    ['exchange', 'coin']
    """
    docs = _documented(model)
    described = []
    for field, wire in model.WIRE.items():
        facts = model.model_fields[field]
        on_wire = model.ONLY_ON_WIRE.get(field)
        schema = named((on_wire.reader if on_wire else READERS[field]).schema)
        needed = facts.is_required() or field in required
        if field in model.REPEATABLE:
            schema = {"type": "array", "items": schema, **({"minItems": 1} if needed else {})}
        elif not facts.is_required() and facts.default is not None:
            schema = {**schema, "default": facts.default}
        one = {
            "name": wire,
            "in": "query",
            "description": on_wire.doc if on_wire else in_words(docs.get(field, ""), model),
            "required": needed,
            "schema": {**schema, **(narrowed or {}).get(field, {})},
        }
        if field in model.REPEATABLE:
            one |= {"style": "form", "explode": True}
        described.append(one)
    return described


def remarks(model: Model) -> str:
    """Return the notes of a model, parameters named as in a URL.

    Examples
    --------
    >>> from tidytape.query import PointsQuery
    >>> remarks(PointsQuery)[:70]
    'Instruments are picked by exactly one of `rawSymbol`, `normalizedSymbo'
    """
    return in_words(_sections(model).get("Notes", ""), model)


def _documented(model: Model) -> dict[str, str]:
    """Return what a model's documentation says of each field; nothing where Python left documentation out."""
    _, *parts = _ENTRY.split(_sections(model).get("Parameters", ""))
    fields = zip(parts[::2], parts[1::2], strict=True)
    return {name.strip(): text for names, text in fields for name in names.split(",")}


def _sections(model: Model) -> dict[str, str]:
    summary, *parts = _SECTION.split(inspect.getdoc(model) or "")
    return {"": summary, **dict(zip(parts[::2], parts[1::2], strict=True))}
