"""The bounds of a body, and errors that name the place of a fault in it.

Code that reads a value knows what is wrong with it, and its caller knows the place of the value. So that code raises a
`Fault` without a place, and `placed` turns the `Fault` into a `DecodeError` with the place.

A few bytes can ask for much memory: ``{},`` is a series with all its columns, and each unknown field is a column of
every row. The bounds here lie above what a service of the contract sends. They are checked before memory is taken.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from tidytape.errors import DecodeError, shown

_LONGEST = 200  # characters of the name of a series


class Fault(Exception):  # noqa: N818 - it never leaves this package
    """A body violates the contract; `placed` adds the series and the point.

    ``length`` is the length of the array that is too short or too long.
    """

    def __init__(self, message: str, *, length: int | None = None) -> None:
        super().__init__(message)
        self.length = length


@dataclass
class Place:
    """The position of a reader in a body: the name of the series, and the number of the point in it."""

    series: str | None = None
    point: int | None = None


@contextmanager
def placed(data_type: str) -> Iterator[Place]:
    """Turn a Fault of a reader into a DecodeError with the place, which the reader keeps up to date."""
    place = Place()
    try:
        yield place
    except Fault as fault:
        where = data_type
        if place.series is not None:
            where += f", series {place.series}"
        if place.point is not None:
            where += f", point {place.point}"
        raise DecodeError(
            f"{where}: {fault}",
            data_type=data_type,
            series=place.series,
            point=place.point,
            length=fault.length,
        ) from None


def series_name(identity: dict[str, Any], position: int) -> str:
    """Return the identity of a series as text; its position if it has no identity.

    Examples
    --------
    >>> series_name({"type": "TRADE", "exchange": "X", "rawSymbol": "BTCUSDT", "side": None}, 0)
    'exchange=X, rawSymbol=BTCUSDT'
    """
    text = ", ".join(
        f"{name}={value}" for name, value in identity.items() if name != "type" and isinstance(value, str)
    )
    return (text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…") or str(position)


MOST_CELLS = 2**29
"""The largest number of cells, rows times columns, of a frame."""

_FREE_CELLS = 2**24
# The 7 bytes of the shortest level, "55,1,0,", make 15 cells.
_CELLS_PER_BYTE = 2.2
_BYTES_PER_BYTE = 20
_FREE_CONTAINERS = 2**20
_BYTES_PER_CONTAINER = 8


def check_containers(body: bytes) -> None:
    """Raise Fault if a body is mostly brackets: a parser makes an object for each, which takes many times its bytes."""
    # `body.count` takes four times as long.
    text = np.frombuffer(body, np.uint8)
    number = sum(int(np.count_nonzero(text == ord(bracket))) for bracket in "{[")
    if number > _FREE_CONTAINERS and number * _BYTES_PER_CONTAINER > len(body):
        raise Fault(f"there are {number} objects and arrays in {len(body)} bytes, so next to nothing in each")


def check_cells(rows: int, columns: int, size: int) -> None:
    """Raise Fault if a frame has more cells than the values of a body of ``size`` can fill. [byte]

    Examples
    --------
    >>> check_cells(1000, 20, 50_000)
    >>> check_cells(10**9, 20, 10**10)
    Traceback (most recent call last):
    ...
    tidytape.wire._faults.Fault: there would be 1000000000 rows of 20 columns, and a frame takes 536870912 cells
    """
    most = min(MOST_CELLS, max(_FREE_CELLS, int(_CELLS_PER_BYTE * size)))
    if rows * columns > most:
        raise Fault(f"there would be {rows} rows of {columns} columns, and a frame takes {most} cells")


def check_bytes(byte_count: int, size: int) -> None:
    """Raise Fault if arrays take more memory than the values of a body of ``size`` can need. [byte]"""
    most = max(8 * _FREE_CELLS, _BYTES_PER_BYTE * size)
    if byte_count > most:
        raise Fault(f"it would hold {byte_count} bytes, and of {size} bytes a frame takes {most}")


MOST_UNKNOWN = 256
"""The largest number of different unknown fields of series, of points, and of levels."""


def check_unknown(number: int) -> None:
    """Raise Fault if there are more unknown fields than a frame takes."""
    if number > MOST_UNKNOWN:
        raise Fault(f"there are {number} different unknown fields, and a frame takes {MOST_UNKNOWN}")


_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def check_utf8(body: bytes, data_type: str | None = None) -> None:
    """Raise DecodeError unless the body is UTF-8, which columnar readers do not check."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the body is not UTF-8 at byte {error.start}", data_type=data_type) from None


def parsed(body: bytes, data_type: str | None = None) -> Any:
    """Parse a body strictly, but accept the bare words NaN, Infinity and -Infinity.

    Raises
    ------
    DecodeError
        If it is not one JSON document in UTF-8, nests deeper than 1,024, has a number that is too large for a double,
        or is mostly brackets.

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
        json_error = error
    document = _parsed_with_words(body)
    if document is None:
        raise DecodeError(f"the body is not JSON: {json_error}", data_type=data_type)
    return document


def check_holds(document: Any, name: str, *, others: Collection[str] = ()) -> None:
    """Raise Fault if an object lacks the field ``name``, which has the data, but has fields that are not ``others``.

    An empty object is an empty answer, because proto3 leaves out empty arrays. An object with other fields is something
    else, such as an error that was sent as an answer.
    """
    if isinstance(document, dict) and name not in document and document.keys() - {*others}:
        raise Fault(f"the body has no {name}, but {shown(', '.join(sorted(document)))}")


def _parsed_with_words(body: bytes) -> Any:
    """Parse a body with NaN or Infinity, which Python writes by default; None if the body is not valid even so."""
    # Python accepts half a surrogate pair, which no column can hold.
    if (b"NaN" not in body and b"Infinity" not in body) or _HALF_PAIR.search(body):
        return None
    try:
        return json.loads(body.decode(), parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a double")
    return number
