"""From bytes to Python objects, strictly: what is not JSON in UTF-8 ends here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import Any

import orjson

from tidytape.errors import DecodeError, shown
from tidytape.wire._bounds import check_containers
from tidytape.wire._faults import Fault

_MOST_NESTING = 1024  # orjson's own limit
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def check_utf8(body: bytes, data_type: str | None = None) -> None:
    """Raise DecodeError unless the body is UTF-8, which columnar readers take on trust."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the body is not UTF-8 at byte {error.start}", data_type=data_type) from None


def parsed(body: bytes, data_type: str | None = None) -> Any:
    """Parse a body strictly, with the bare words NaN, Infinity and -Infinity as the one tolerance.

    Raises
    ------
    DecodeError
        If it is not one JSON document in UTF-8, nests deeper than 1,024, holds a number no double can, or is of
        little but brackets.

    Examples
    --------
    >>> parsed(b'{"coins": ["BTC"]}')
    {'coins': ['BTC']}
    """
    try:
        check_containers(body)
        return orjson.loads(body)
    except Fault as fault:
        raise DecodeError(f"the body: {fault}", data_type=data_type) from None
    except orjson.JSONDecodeError as error:
        refused = error
    document = _parsed_with_words(body)
    if document is None:
        raise DecodeError(f"the body is not JSON: {refused}", data_type=data_type)
    return document


def check_holds(document: Any, name: str, *, beside: Collection[str] = ()) -> None:
    """Raise Fault if an object has other fields, but not the one that holds the data.

    An empty object is an empty answer, since proto3 leaves out empty arrays. One with other fields is something else,
    such as an error that was sent as an answer.
    """
    if isinstance(document, dict) and name not in document and document.keys() - {*beside}:
        raise Fault(f"the body has no {name}, but {shown(', '.join(sorted(document)))}")


def _parsed_with_words(body: bytes) -> Any:
    """Parse a body as Python writes it by default; None where that fails too."""
    if b"NaN" not in body and b"Infinity" not in body:
        return None
    if _HALF_PAIR.search(body):
        return None  # Python would let half a surrogate pair through, and no column can hold it
    try:
        document = json.loads(body.decode(), parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return document if nesting(document) <= _MOST_NESTING else None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a double")
    return number


def nesting(value: Any) -> int:
    """Return how many arrays and objects lie inside one another.

    Examples
    --------
    >>> nesting(1), nesting([]), nesting({"a": [1]})
    (0, 1, 2)
    """
    depth = 0
    layer = [value]
    # Layer by layer, not by recursion: a hostile body decides the depth.
    while layer := [item for item in layer if isinstance(item, dict | list)]:
        depth += 1
        layer = [inner for item in layer for inner in (item.values() if isinstance(item, dict) else item)]
    return depth
