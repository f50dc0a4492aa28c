"""JSON body to tidy frame.

A body goes through three files: this one, `_columnar` (bytes to columns) and `_tidy` (columns to the frame). `_flat`
reads the numbers of long flat arrays for `_columnar`. If `_columnar` cannot read the body, `_spelling` rewrites it
first. `_faults` has the bounds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import polars as pl

from tidytape.schema import data_type as facts_of
from tidytape.wire import _columnar
from tidytape.wire._faults import check_containers, check_utf8, parsed, placed
from tidytape.wire._spelling import respelled
from tidytape.wire._tidy import with_finality

Absent = Literal["null", "zero"]
"""What stands for a number that a point lacks although every point should have it: null, or 0."""

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
        The data type to read. A series without a type counts as this type.
    among : collection of str, optional
        The data types that the body may have, if the query has several. Series of the others are skipped. By default
        the body may have only ``data_type``.
    absent : {"null", "zero"}
        What it means if a point lacks a number that every point should have: null, or 0 for a service that leaves out
        zeros as proto3 does. Optional numbers, such as open interest and predicted rates, and numbers that are sent as
        null are null in both cases.

    Returns
    -------
    polars.DataFrame, one row per point or per level, key and units as ``schema_of(data_type)``
        In the order of the body: series, points, levels; in a book, bids before asks. The schema's columns come first.

        A field of a point never replaces a field of its series' identity. It fills the field if the series lacks it; if
        the two differ, it is the column ``point_…``.

        An unknown field of a payload, a level or a series identifier is a column after them, under
        ``column_name(field)``; if that name is taken, under ``series_…``, ``point_…`` or ``level_…``. Numbers, strings
        and booleans stay as they are. Values of different kinds, arrays and objects become text: strings as they are,
        other values as JSON. A field whose values are all null has no column. Unknown fields elsewhere are not kept. A
        body may have up to 256 different unknown fields.

        If the service sent ``dataUntil``, ``is_final`` follows from it, and there is a column ``data_until`` [UTC]. An
        unknown amount unit is null, and ``series_amount_unit`` has it as the service sent it. If the service sent when
        markets trade, there is a column ``session``, null for the others.

    Raises
    ------
    QueryError
        If the catalogue has no such type.
    DecodeError
        If the body breaks the contract, has series of a type that it may not have, or would become a frame out of
        proportion to its length. ``series``, ``point`` and ``length`` of the error say where, if that is known.

    Notes
    -----
    The body is read as proto3 JSON: absent or null fields are null, absent or null arrays are empty, numbers may be
    strings, ``s`` and ``ns`` of a timestamp default to 0, and so does the price of a level that is an object. So
    ``{}`` is an empty result; an object with other fields and no ``series`` is refused. A point without levels gives
    no row. If a key comes twice, the last one counts. The bare words ``NaN``, ``Infinity`` and ``-Infinity``, which
    some writers use, are read as numbers.

    Examples
    --------
    >>> body = b'''{"series": [{"id": {"type": "VOLUME_PROFILE_AGG", "exchange": "X", "rawSymbol": "BTCUSDT"},
    ...     "points": [{"Point": {"timestamp": {"s": 60}, "profile": [100, 1.5, 2, 101, 0, 3]}}]}]}'''
    >>> decode(body, "VOLUME_PROFILE_AGG").select("price", "buy_volume", "sell_volume", "volume").rows()
    [(100.0, 1.5, 2.0, 3.5), (101.0, 0.0, 3.0, 3.0)]
    """
    facts = facts_of(data_type)
    types, zeros = {data_type, *(among or ())}, absent == "zero"
    check_utf8(body, data_type)
    with placed(data_type) as place:
        check_containers(body)
        # Try the fast reader, then again with the types of the unknown fields, then respell the document.
        # With zeros, an absent number is 0 and a number that is sent as null is null. The fast reader cannot tell them
        # apart.
        is_columnar = not (zeros and b"null" in body)
        parts = _columnar.read(body, facts, types=types) if is_columnar else None
        if parts is None:
            document = parsed(body, data_type)
            unknown = _columnar.unknown_of_points(document, facts, len(body)) if is_columnar else {}
            parts = _columnar.read(body, facts, types=types, unknown=unknown) if unknown else None
        if parts is None:
            document = respelled(document, facts, place, types=types, zeros=zeros)
            parts = _columnar.read_spelled(document, facts, len(body))
        elif zeros:
            parts = parts.with_zeros(facts)
        parts.check(facts, len(body))
    return with_finality(parts.frame(facts), data_type)
