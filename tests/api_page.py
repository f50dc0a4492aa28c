"""The page of the API in the reference, made of the OpenAPI document: ``python tests/api_page.py`` rewrites it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tidytape.catalogue import ERROR_MEANING, ERROR_STATUS
from tidytape.service import KEY_HEADER
from tidytape.service.http._openapi import camel, document

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"

Document = Mapping[str, Any]

_TITLE = """\
# The API, route by route

This page is the service's own description in words. A service has it at `/openapi.json`, and `tidytape openapi` prints
it without one, to generate clients from. What the numbers mean, and what was decided where the contract is silent, is
said [of the service](service.md).
"""
_POINTS = """\
`{"series": [{"id": {...}, "points": [{"Point": {...}}, ...]}, ...]}`: one series per unique identifier, and in each \
point the payload of its data type. A field that is not known is absent, but for those that are **always** there. \
Beside `series` stand `notes`, a list that may be empty: see [Note](#note). In Arrow the same JSON list is metadata of \
the schema, under the key `tidytape.notes`."""


def reference_page(described: Document) -> str:
    """Return the reference page of an OpenAPI document.

    Parameters
    ----------
    described : mapping
        As `tidytape.service.http._openapi.document` returns it.

    Returns
    -------
    str
        Markdown.
    """
    components = described["components"]
    schemas = components["schemas"]
    parts = [_TITLE.strip(), described["info"]["description"].strip()]
    parts.append(f"The key is sent in the header `{components['securitySchemes']['Key']['name']}`.")
    for tag in described["tags"]:
        parts += [f"## {tag['name'].capitalize()}", tag["description"]]
        routes = [(path, methods["get"]) for path, methods in described["paths"].items()]
        routes = [(path, operation) for path, operation in routes if tag["name"] in operation["tags"]]
        for _, alike in groupby(routes, key=lambda route: [one["name"] for one in route[1]["parameters"]]):
            parts += _routes(dict(alike), components)
    by_status = sorted(ERROR_STATUS, key=lambda code: ERROR_STATUS[code])
    errors = [(ERROR_STATUS[code], f"`{code}`", f"{ERROR_MEANING[code]}.") for code in by_status]
    parts += ["## Errors", _object(schemas["Error"]), _table("status code meaning", errors)]
    headers = components["headers"].items()
    rows = [(f"`{name}`", _kind(header["schema"]), header["description"]) for name, header in headers]
    parts += [
        "## Headers",
        "Of answers; every answer has the first five.",
        _table("header takes meaning", rows),
    ]
    parts += ["## What points are", _POINTS, *_data_types(schemas)]
    parts += ["## What else is answered", *_other_schemas(schemas)]
    return "\n\n".join(parts) + "\n"


def _routes(routes: Mapping[str, Document], components: Document) -> Iterator[str]:
    """Yield the routes that take the same parameters, and those parameters once."""
    for path, operation in routes.items():
        yield f"### `GET {path}`"
        yield f"{operation['summary']}: answers with {_answer(operation, components['schemas'])}."
        examples = [(one["name"], one["example"]) for one in operation["parameters"] if "example" in one]
        if examples:
            yield f"```text\nGET {path}?{urlencode(examples, doseq=True)}\n```"
    operations = list(routes.values())
    yield from dict.fromkeys(operation["description"].strip() for operation in operations)
    alike = zip(*(operation["parameters"] for operation in operations), strict=True)
    rows = [_parameter(routes, parameters) for parameters in alike]
    if rows:
        yield _table("parameter takes meaning", rows)
    yield from dict.fromkeys(_refusals(operation, components["responses"]) for operation in operations)


def _parameter(paths: Iterable[str], parameters: Sequence[Document]) -> tuple[str, str, str]:
    """Return the row of a parameter that several routes take."""
    first, schema = parameters[0], parameters[0]["schema"]
    name = f"`{first['name']}`" if first["in"] == "query" else f"`{first['name']}`, a {first['in']}"
    takes = f"{_kind(schema['items'])}; repeatable" if schema.get("type") == "array" else _kind(schema)
    meaning = [first["description"], schema.get("description", "")]
    needing = [f"`{path}`" for path, one in zip(paths, parameters, strict=True) if one.get("required")]
    if needing:
        which = "" if len(needing) == len(parameters) else " by " + " and ".join(needing)
        meaning.append(f"**Needed**{which}.")
    return name, takes, " ".join(filter(None, meaning))


def _answer(operation: Document, schemas: Document) -> str:
    """Return in words what a route answers with."""
    answers = []
    for mime, media in operation["responses"]["200"]["content"].items():
        if not media:
            answers.append(f"the same in `{mime}`")
            continue
        name = _target(media["schema"])
        properties = schemas[name]["properties"]
        field, schema = next(iter(properties.items()))
        if name == "Points":
            answers.append("[points](#what-points-are)")
        elif _is_list(schemas[name]):
            answers.append(f"`{field}`, a {_kind(schema)}")
        else:
            answers.append(_kind(media["schema"]))
    return ", or ".join(answers)


def _refusals(operation: Document, responses: Document) -> str:
    """Return the codes with which a route refuses, by status."""
    refusals = []
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            whole = responses[_target(response)] if "$ref" in response else response
            (media,) = whole["content"].values()
            codes = ", ".join(f"`{code}`" for code in media["schema"]["properties"]["error"]["enum"])
            refusals.append(f"{status} {codes}")
    return f"[Refused](#errors) with {'; '.join(refusals)}."


def _data_types(schemas: Document) -> Iterator[str]:
    """Yield each data type's identifier and payload."""
    for name in schemas["DataType"]["enum"]:
        kind = camel(name)
        identity = ", ".join(f"`{field}`" for field in schemas[f"{kind}Id"]["properties"])
        yield f"### `{name}`"
        yield f"{schemas[f'{kind}Series']['description']} Identifier: {identity}."
        yield _object(schemas[f"{kind}Payload"])
        if f"{kind}Level" in schemas:
            yield f"### {kind}Level"
            yield _object(schemas[f"{kind}Level"])


def _other_schemas(schemas: Document) -> Iterator[str]:
    """Yield every other object and enumeration; the routes show the lists."""
    data_types = tuple(camel(name) for name in schemas["DataType"]["enum"])
    for name, schema in schemas.items():
        if name in {"Error", "Points"} or name.startswith(data_types) or _is_list(schema):
            continue
        yield f"### {name}"
        yield schema["description"]
        if "properties" in schema:
            yield _object(schema)
        else:
            yield ", ".join(f"`{value}`" for value in schema["enum"])


def _object(schema: Document) -> str:
    rows = []
    for name, field in schema["properties"].items():
        always = " **Always.**" if name in schema["required"] else ""
        rows.append((f"`{name}`", _kind(field), field.get("description", "") + always))
    return _table("field is meaning", rows)


def _is_list(schema: Document) -> bool:
    """Return whether an object is one list and nothing else."""
    properties = list(schema.get("properties", {}).values())
    return len(properties) == 1 and properties[0].get("type") == "array"


def _kind(schema: Document) -> str:
    """Return in words which values a schema allows."""
    if "oneOf" in schema:
        return "series of a data type"
    if "$ref" in schema:
        words = f"[{_target(schema)}](#{_target(schema).lower()})"
    elif "anyOf" in schema:
        words = ", or ".join(_kind(one) for one in schema["anyOf"])
    elif "enum" in schema:
        words = "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    elif "items" in schema:
        words = f"list of {_kind(schema['items'])}"
    elif "additionalProperties" in schema:
        words = f"object of {_kind(schema['additionalProperties'])}, by data type"
    elif "properties" in schema:
        words = "objects of " + ", ".join(f"`{name}`" for name in schema["properties"])
    elif "maxLength" in schema:
        words = f"printable text, {schema['minLength']} to {schema['maxLength']} characters"
    elif "pattern" in schema:
        words = f"text, `{schema['pattern']}`"
    else:
        words = _WORDS[schema["type"]] + _bounds(schema)
    if "default" in schema:
        default = schema["default"]
        words += f"; `{str(default).lower() if isinstance(default, bool) else default}` if left out"
    return words


_WORDS = {
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "null": "null",
    "number": "number",
    "string": "text",
}


def _bounds(schema: Document) -> str:
    """Return the bounds of a number; the largest whole number of 64 bits is none."""
    low, high = schema.get("minimum"), schema.get("maximum", 2**63)
    if low is None:
        return ""
    if high >= 2**63 - 1:
        return f" from {low:,}"
    return f" from {low:,} to {high:,}" if schema["type"] == "integer" else f" from {low} to {high:g}"


def _target(schema: Document) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _table(columns: str, rows: Iterable[Sequence[object]]) -> str:
    head = columns.split()
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


if __name__ == "__main__":
    PAGE.write_text(reference_page(document(key_header=KEY_HEADER)), "utf-8")
