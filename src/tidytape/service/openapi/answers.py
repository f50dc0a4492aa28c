"""The responses of a route: what is answered, every refusal with its codes, and the headers of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidytape import wire
from tidytape.catalogue import ERROR_MEANING, ERROR_STATUS, RATE_LIMIT_HEADERS, USAGE_FIELDS
from tidytape.service.openapi.payloads import camel, ref

__all__ = ["answer", "headers", "known", "refusals", "shared"]

_WITHOUT_QUOTA = ("INVALID_API_KEY", "UNAVAILABLE")  # of no key, or when nothing may be there to ask for it
_WITH_RETRY = ("RATE_LIMITED", "UNAVAILABLE")
_MORE_HEADERS = {"METHOD_NOT_ALLOWED": ("Allow",)} | dict.fromkeys(_WITH_RETRY, ("Retry-After",))

_ALWAYS = ("X-Request-Id",)
_OF_A_KEY = (*_ALWAYS, *RATE_LIMIT_HEADERS)
_OF_POINTS = ("ETag", "Vary")


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
    }


def answer(schema: str, *, arrow: bool = False, links: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the response 200 of a route that answers by a schema, in JSON and perhaps in Arrow."""
    content: dict[str, Any] = {wire.JSON_MIME: {"schema": ref(schema)}}
    if arrow:
        content[wire.ARROW_MIME] = {}  # no JSON, so no schema: the frame tells its own
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
    """Return the responses that refuse, by status, of a route that can answer with some codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(ERROR_STATUS[code], []).append(code)
    return {
        str(status): ref(camel(of_status[0]), "responses") if len(of_status) == 1 else _refusal(of_status)
        for status, of_status in sorted(by_status.items())
    }


def shared() -> dict[str, Any]:
    """Return the refusals that are of one code, by their name."""
    return {camel(code): _refusal([code]) for code in ERROR_STATUS}


def _refusal(codes: list[str]) -> dict[str, Any]:
    of_key = _ALWAYS if codes[0] in _WITHOUT_QUOTA else _OF_A_KEY
    more = _MORE_HEADERS.get(codes[0], ())
    told = {"required": ["retry_after"]} if codes[0] in _WITH_RETRY else {}
    schema = {**ref("Error"), "properties": {"error": {"enum": codes}}, **told}
    return {
        "description": " ".join(f"`{code}`: {ERROR_MEANING[code]}." for code in codes),
        "headers": _headers((*of_key, *more)),
        "content": {wire.JSON_MIME: {"schema": schema}},
    }


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: ref(name, "headers") for name in names}


def _header(description: str, schema: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"description": description, "required": required, "schema": dict(schema)}
