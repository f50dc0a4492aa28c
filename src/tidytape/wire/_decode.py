"""JSON body to tidy frame.

A body goes through three files: this one, `_columnar` (bytes to columns) and `_tidy` (columns to the frame). `_flat`
reads the numbers of long flat arrays for `_columnar`. If `_columnar` cannot read the body, `_spelling` rewrites it
first. `_faults` has the bounds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import polars as pl

from tidytape.schema import data_type as kind_of
from tidytape.wire import _columnar
from tidytape.wire._faults import check_containers, check_utf8, parsed, placed
from tidytape.wire._spelling import respelled
from tidytape.wire._tidy import with_finality

Absent = Literal["null", "zero"]
"""What a number is that a point leaves out although every point has it."""

JSON_MIME = "application/json"
"""The media type of a JSON body."""


def decode(
    body: bytes,
    data_type: str,
    *,
    among: Collection[str] | None = None,
    absent: Absent = "null",
) -> pl.DataFrame:
    """Decode the body of ``/v1/points``.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8. [byte]
    data_type : str
        The type to read. Series that do not say their type are of this one.
    among : collection of str, optional
        The types that the body may hold, where several were asked for; series of the others are left out. Only
        ``data_type`` if absent.
    absent : {"null", "zero"}
        What a number is that a point leaves out although every point has it: unknown, or 0, as of a service that
        leaves out zeros as proto3 does. Optional numbers, such as open interest and predicted rates, and numbers that
        are written as null are null in both cases.

    Returns
    -------
    polars.DataFrame, one row per point or per level, key and units as ``schema_of(data_type)``
        In the order of the body: series, points, levels; of a book, bids before asks. The schema's columns
        come first. A field of a point never replaces one of its series' identity: it fills in where the series has
        none, and is the column ``point_…`` where it differs. An unknown field of a payload, a level or a series
        identifier follows under ``column_name(field)``: numbers, strings, booleans, lists and structs as they are, and
        nothing where it is null throughout. Where the kinds of its values differ, or they are objects without fields,
        it is text: strings as they are, other values as JSON. Where that name is taken, the column is called
        ``series_…``, ``point_…`` or ``level_…``. Where the service sent ``dataUntil``, ``is_final`` follows from it,
        and ``data_until`` [UTC] is one of the columns after the schema's. An amount unit that is not one of ours is
        null, and ``series_amount_unit`` says it as it was sent. Unknown fields elsewhere are not kept. A body
        may have up to 256 different unknown fields, those inside unknown fields included.

    Raises
    ------
    QueryError
        If the catalogue has no such type.
    DecodeError
        If the body is not what the contract says, has series of another type than those it may hold, or would
        become a frame out of proportion to its length; ``series``, ``point`` and ``length`` say where, if it is known.

    Notes
    -----
    Taken as proto3 JSON has it: absent or null fields are null, absent or null arrays are empty, numbers may be
    strings, ``s`` and ``ns`` of a timestamp default to 0, and so does the price of a level that is an object. So
    ``{}`` is an empty result; an object with other fields and no ``series`` is refused. A point without levels gives
    no row. Of a key given twice the last counts. The bare words ``NaN``, ``Infinity`` and ``-Infinity``, which some
    writers use for numbers, are read as such.

    Examples
    --------
    >>> body = b'''{"series": [{"id": {"type": "VOLUME_PROFILE_AGG", "exchange": "X", "rawSymbol": "BTCUSDT"},
    ...     "points": [{"Point": {"timestamp": {"s": 60}, "profile": [100, 1.5, 2, 101, 0, 3]}}]}]}'''
    >>> decode(body, "VOLUME_PROFILE_AGG").select("price", "buy_volume", "sell_volume", "volume").rows()
    [(100.0, 1.5, 2.0, 3.5), (101.0, 0.0, 3.0, 3.0)]
    """
    kind = kind_of(data_type)
    types, zeros = {data_type, *(among or ())}, absent == "zero"
    check_utf8(body, data_type)
    with placed(data_type) as place:
        check_containers(body)
        # Try the fast reader, then again with the types of the unknown fields, then respell the document.
        # With zeros an absent number is 0 and a null one is null, but columns do not tell them apart.
        columnar = not (zeros and b"null" in body)
        parts = _columnar.read(body, kind, types=types) if columnar else None
        if parts is None:
            document = parsed(body, data_type)
            unknown = _columnar.unknown_of_points(document, kind, len(body)) if columnar else {}
            parts = _columnar.read(body, kind, types=types, unknown=unknown) if unknown else None
        if parts is None:
            document = respelled(document, kind, place, types=types, zeros=zeros)
            parts = _columnar.read_spelled(document, kind, len(body))
        elif zeros:
            parts = parts.with_zeros(kind)
        parts.check(kind, len(body))
    return with_finality(parts.frame(kind), data_type)
