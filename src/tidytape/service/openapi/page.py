"""The OpenAPI document as a page for people: Markdown, each fact once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tidytape.catalogue import ERROR_MEANING, ERROR_STATUS
from tidytape.service.openapi.payloads import camel

__all__ = ["page"]

Document = Mapping[str, Any]
Route = tuple[str, Document]

_TITLE = """\
# The API, route by route

This page is the service's own description in words. A service has it at `/openapi.json`, and `tidytape openapi` prints
it without one, to generate clients from; with `--markdown` it prints this page. What the numbers mean, and what was
decided where the contract is silent, is said [of the service](service.md).
"""


def page(document: Document) -> str:
    """Return the reference page of an OpenAPI document.

    Parameters
    ----------
    document : mapping
        As `tidytape.service.openapi.document` makes it.

    Returns
    -------
    str
        Markdown.
    """
    components = document["components"]
    operations = [(path, ways["get"]) for path, ways in document["paths"].items()]
    parts = [_TITLE.strip(), document["info"]["description"].strip()]
    parts.append(f"The key is sent in the header `{components['securitySchemes']['Key']['name']}`.")
    for tag in document["tags"]:
        routes = [(path, operation) for path, operation in operations if tag["name"] in operation["tags"]]
        parts += [f"## {tag['name'].capitalize()}", tag["description"], *_routes(routes, components)]
    parts += ["## Errors", *_object(components["schemas"]["Error"]), *_errors()]
    parts += ["## Headers", "Of answers; every answer has the first five.", *_headers(components["headers"])]
    parts += ["## What points are", *_data_types(components["schemas"])]
    parts += ["## What else is answered", *_others(components["schemas"])]
    return "\n\n".join(parts) + "\n"


# --- routes ---------------------------------------------------------------------------------------------------------


def _routes(routes: Sequence[Route], components: Document) -> Iterable[str]:
    """Tell of the routes of a tag; those that take the same are told together."""
    alike: dict[tuple[str, ...], list[Route]] = {}
    for path, operation in routes:
        alike.setdefault(tuple(one["name"] for one in operation["parameters"]), []).append((path, operation))
    for members in alike.values():
        if len(members) > 1:
            rows = [(f"`GET {path}`", _answered(one, components), one["summary"]) for path, one in members]
            yield from _table(("route", "answers with", "which are"), rows)
        else:
            path, operation = members[0]
            yield f"### `GET {path}`"
            yield f"{operation['summary']}: answers with {_answered(operation, components)}."
            yield from _example(path, operation)
        yield from dict.fromkeys(one["description"].strip() for _, one in members)
        yield from _parameters(members)
        yield from dict.fromkeys(_refusals(one, components) for _, one in members)


def _parameters(members: Sequence[Route]) -> Iterable[str]:
    rows = []
    for one in members[0][1]["parameters"]:
        needing = [path for path, operation in members if _needs(operation, one["name"])]
        needed = [f"**Needed**{_by(needing, members)}."] if needing else []
        name = f"`{one['name']}`" + ("" if one["in"] == "query" else f", a {one['in']}")
        schema = one["schema"]
        takes = f"{_kind(schema['items'])}; repeatable" if schema.get("type") == "array" else _kind(schema)
        rows.append((name, takes, " ".join([one["description"], *_more(schema), *needed])))
    return _table(("parameter", "takes", "meaning"), rows) if rows else ()


def _example(path: str, operation: Document) -> Iterable[str]:
    asked = [(one["name"], one["example"]) for one in operation["parameters"] if "example" in one]
    if asked:
        yield f"```text\nGET {path}?{urlencode(asked, doseq=True)}\n```"


def _more(schema: Document) -> Sequence[str]:
    return [schema["description"]] if "description" in schema else []


def _needs(operation: Document, name: str) -> bool:
    return any(one["name"] == name and one.get("required", False) for one in operation["parameters"])


def _by(needing: Sequence[str], members: Sequence[Route]) -> str:
    """Return which routes need something, where not all that are told together do."""
    return "" if len(needing) == len(members) else " by " + " and ".join(f"`{path}`" for path in needing)


def _answered(operation: Document, components: Document) -> str:
    content = operation["responses"]["200"]["content"]
    said = []
    for kind, media in content.items():
        if not media:
            said.append(f"the same in `{kind}`")
        elif _target(media["schema"]) == "Points":
            said.append("[points](#what-points-are)")
        else:
            said.append(_listed(components["schemas"][_target(media["schema"])]) or _kind(media["schema"]))
    return ", or ".join(said)


def _refusals(operation: Document, components: Document) -> str:
    told = []
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            whole = components["responses"][_target(response)] if "$ref" in response else response
            (media,) = whole["content"].values()
            codes = ", ".join(f"`{code}`" for code in media["schema"]["properties"]["error"]["enum"])
            told.append(f"{status} {codes}")
    return f"[Refused](#errors) with {'; '.join(told)}."


def _errors() -> Iterable[str]:
    rows = [(str(status), f"`{code}`", f"{ERROR_MEANING[code]}.") for code, status in ERROR_STATUS.items()]
    return _table(("status", "code", "meaning"), sorted(rows, key=lambda row: row[0]))


def _headers(headers: Document) -> Iterable[str]:
    rows = [(f"`{name}`", _kind(one["schema"]), one["description"]) for name, one in headers.items()]
    return _table(("header", "takes", "meaning"), rows)


# --- schemas --------------------------------------------------------------------------------------------------------


def _data_types(schemas: Document) -> Iterable[str]:
    """Tell of what `/v1/points` answers: the envelope, and each data type's identifier and payload."""
    yield (
        '`{"series": [{"id": {...}, "points": [{"Point": {...}}, ...]}, ...]}`: one series per unique identifier, and '
        "in each point the payload of its data type. A field that is not known is absent, but for those that are "
        "**always** there. Beside `series` stand `notes`, a list that may be empty: see [Note](#note). In Arrow the "
        "same JSON list is metadata of the schema, under the key `tidytape.notes`."
    )
    seen: dict[str, str] = {}
    for name in schemas["DataType"]["enum"]:
        kind = camel(name)
        payload = schemas[f"{kind}Payload"]
        identity = ", ".join(f"`{field}`" for field in schemas[f"{kind}Id"]["properties"])
        yield f"### `{name}`"
        yield f"{schemas[f'{kind}Series']['description']} Identifier: {identity}."
        twin = seen.setdefault(repr(payload["properties"]), name)
        if twin != name:
            yield f"The payload is that of `{twin}`."
            continue
        yield from _object(payload)
        if f"{kind}Level" in schemas:
            yield f"### {kind}Level"
            yield from _object(schemas[f"{kind}Level"])


def _others(schemas: Document) -> Iterable[str]:
    """Tell of every other object and enumeration; lists are told of where they are asked for."""
    types = tuple(camel(name) for name in schemas["DataType"]["enum"])
    for name, schema in schemas.items():
        if name in {"Error", "Points"} or name.startswith(types) or _listed(schema):
            continue
        yield f"### {name}"
        yield schema["description"]
        if "properties" in schema:
            yield from _object(schema)
        else:
            yield ", ".join(f"`{value}`" for value in schema["enum"])


def _object(schema: Document) -> Iterable[str]:
    rows = [
        (f"`{name}`", _kind(one), one.get("description", "") + _always(name in schema["required"]))
        for name, one in schema["properties"].items()
    ]
    return _table(("field", "is", "meaning"), rows)


def _always(needed: bool) -> str:  # noqa: FBT001 - the only argument
    return " **Always.**" if needed else ""


def _listed(schema: Document) -> str | None:
    """Return what an object that is just one list is, None of any other."""
    found = schema.get("properties", {})
    (name, one), *more = found.items() or [("", {})]
    return f"`{name}`, a {_kind(one)}" if one.get("type") == "array" and not more else None


def _kind(schema: Document) -> str:
    """Return in words which values a schema allows."""
    if "$ref" in schema:
        target = _target(schema)
        said = f"[{target}](#{target.lower()})"
    elif "anyOf" in schema:
        said = ", or ".join(_kind(one) for one in schema["anyOf"])
    elif "enum" in schema:
        said = "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    else:
        said = _WORDS[schema["type"]](schema)
    return said + (f"; `{_written(schema['default'])}` if left out" if "default" in schema else "")


def _text(schema: Document) -> str:
    if "maxLength" in schema:
        return f"printable text, {schema['minLength']} to {schema['maxLength']} characters"
    return f"text, `{schema['pattern']}`" if "pattern" in schema else "text"


def _number(schema: Document) -> str:
    kind = "whole number" if schema["type"] == "integer" else "number"
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is None or high >= _LARGEST:
        return kind if low is None else f"{kind} from {low:,}"
    return (
        f"{kind} from {low:,} to {high:,}"
        if schema["type"] == "integer"
        else f"{kind} from {low} to {high:g}"
    )


_LARGEST = 2**63 - 1
_WORDS: Mapping[str, Callable[[Document], str]] = {
    "array": lambda schema: f"list of {_kind(schema['items'])}",
    "boolean": lambda schema: "`true` or `false`",
    "integer": _number,
    "null": lambda schema: "null",
    "number": _number,
    "object": lambda schema: "objects of " + ", ".join(f"`{name}`" for name in schema["properties"]),
    "string": _text,
}


# --- Markdown -------------------------------------------------------------------------------------------------------


def _target(schema: Document) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    lines = [head, ["---"] * len(head), *rows]
    yield "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
