"""Bodies of the discovery endpoints: a page of markets, and plain lists.

They are small, so they are read value by value, in every spelling that `_values` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tidytape.catalogue import BLOCK_SIZE_FIELDS, LISTS, MARKET_FIELDS, PREDICTION_MARKET_FIELDS, Field
from tidytape.errors import DecodeError
from tidytape.schema import BLOCK_SIZES, MARKETS, column_name
from tidytape.wire._columnar import table_of
from tidytape.wire._encode import checked
from tidytape.wire._faults import Fault, check_holds, parsed, placed
from tidytape.wire._spelling import Spelling
from tidytape.wire._text import Piece, join, member
from tidytape.wire._values import array, each, read_value

_NESTED = "prediction_markets"
_NESTED_WIRE = "predictionMarkets"
_ROW = "\0row"  # no column of a body has a zero byte in its name


def decode_list(body: bytes, names: Sequence[str]) -> list[Any]:
    """Decode the body of a list endpoint such as ``/v1/coins``.

    The specification does not show these bodies, so three shapes are accepted: an object with one of the named fields,
    a bare array, and an object that has exactly one array and no error.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8. [byte]
    names : sequence of str
        Names of the field that may have the list, the likeliest first, e.g. ``["coins"]``.

    Returns
    -------
    list
        The elements as they are: strings, or dicts for block sizes. Empty for ``{}`` and for a named field that is
        null, because proto3 leaves out empty arrays.

    Raises
    ------
    DecodeError
        If the body is not JSON, or has none of the shapes.

    Examples
    --------
    >>> decode_list(b'{"coins": ["BTC", "ETH"]}', ["coins"])
    ['BTC', 'ETH']
    >>> decode_list(b'["BTC"]', ["coins"]), decode_list(b'{"data": ["BTC"], "page": 1}', ["coins"])
    (['BTC'], ['BTC'])
    """
    document = parsed(body)
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        for name in names:
            elements = document.get(name)
            if isinstance(elements, list):
                return elements
            if name in document and elements is None:
                return []
        arrays = [value for value in document.values() if isinstance(value, list)]
        if len(arrays) == 1 and not document.keys() & {"error", "errors"}:
            return arrays[0]
        if not document:
            return []
    raise DecodeError(f"the body has no list {' or '.join(map(repr, names))}, and is not one")


def decode_names(body: bytes, name: str) -> list[str]:
    """Decode the body of a list endpoint whose elements are names.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8, in any of the shapes `decode_list` takes. [byte]
    name : str
        Name of the endpoint, one of `tidytape.catalogue.LISTS`.

    Returns
    -------
    list of str
        In the order of the body.

    Raises
    ------
    DecodeError
        If the body breaks the contract, or an element is no string.

    Examples
    --------
    >>> decode_names(b'{"rawSymbols": ["BTCUSDT"]}', "symbols")
    ['BTCUSDT']
    """
    with placed(name):
        return each(decode_list(body, _fields(name)), _name, "element")


def _name(element: Any) -> str:
    if element is None:
        raise Fault("it is null")
    return str(read_value(element, "string"))


def decode_block_sizes(body: bytes) -> pl.DataFrame:
    """Decode the body of ``/v1/block-sizes``.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8, in any of the shapes `decode_list` takes, of objects or of plain numbers. [byte]

    Returns
    -------
    polars.DataFrame, one row per element, schema `BLOCK_SIZES`
        In the order of the body. A plain number has no exchange and no symbol. Unknown fields come after the schema's.

    Raises
    ------
    DecodeError
        If the body breaks the contract.

    Examples
    --------
    >>> decode_block_sizes(b'{"blockSizes": [{"exchange": "X", "rawSymbol": "BTCUSDT", "blockSize": 2.5}]}').rows()
    [('X', 'BTCUSDT', 2.5)]
    """
    spelling = Spelling(BLOCK_SIZE_FIELDS, required=["block_size"])
    elements = decode_list(body, _fields("block-sizes"))
    with placed(BLOCK_SIZES.name):
        objects = (element if isinstance(element, dict) else {"blockSize": element} for element in elements)
        return BLOCK_SIZES.conform(table_of(each(objects, spelling, "element"), BLOCK_SIZE_FIELDS, len(body)))


def _fields(name: str) -> list[str]:
    """Return the names of the field that may have a list: its name in the contract, and the name of the endpoint."""
    return list(dict.fromkeys([LISTS[name], column_name(LISTS[name]), name]))


def decode_markets(body: bytes) -> tuple[pl.DataFrame, int | None]:
    """Decode a page of ``/v1/markets``.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8. [byte]

    Returns
    -------
    frame : polars.DataFrame, one row per market, key (exchange, raw_symbol, tenor), schema `MARKETS`
        In the order of the body. Unknown fields come after the schema's, as in `decode`. If a market has prediction
        markets, there is a column ``prediction_markets``, a list of structs with the columns of
        `PREDICTION_MARKET_ENTRY`.
    next_offset : int or None
        ``nextOffset``; None if it is absent.

    Raises
    ------
    DecodeError
        If the body breaks the contract.

    Examples
    --------
    >>> page = b'{"symbols": [{"exchange": "X", "rawSymbol": "BTCUSDT", "lastPrice": 6}], "nextOffset": 1}'
    >>> frame, next_offset = decode_markets(page)
    >>> frame.select("exchange", "raw_symbol", "last_price").rows(), next_offset
    ([('X', 'BTCUSDT', 6.0)], 1)
    """
    document = parsed(body, MARKETS.name)
    with placed(MARKETS.name):
        if not isinstance(document, dict):
            raise Fault("the body is not a JSON object")
        check_holds(document, "symbols", others=["nextOffset"])
        page = _PAGE({"nextOffset": document.get("nextOffset")})
        entries = each(array(document.get("symbols"), "symbols"), _market, "entry")
        frame = table_of([market for market, _ in entries], MARKET_FIELDS, len(body))
        prediction_markets = [prediction_market for _, nested in entries for prediction_market in nested]
        if prediction_markets:
            table = table_of(prediction_markets, PREDICTION_MARKET_FIELDS, len(body))
            market_rows = np.repeat(
                np.arange(len(entries), dtype=np.uint32), [len(nested) for _, nested in entries]
            )
            rows = table.select(pl.struct(pl.all()).alias(_NESTED), pl.Series(_ROW, market_rows))
            lists = rows.group_by(_ROW, maintain_order=True).agg(_NESTED)
            frame = (
                frame.with_row_index(_ROW).join(lists, on=_ROW, how="left", maintain_order="left").drop(_ROW)
            )
    return frame, page["nextOffset"]


_PAGE = Spelling([Field("nextOffset", "next_offset", "int64", "1", "Where the next page begins")])
_MARKET = Spelling(MARKET_FIELDS, elsewhere={_NESTED_WIRE, _NESTED}, required=["exchange", "raw_symbol"])
_PREDICTION_MARKET = Spelling(PREDICTION_MARKET_FIELDS, required=["slug"])


def _market(entry: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a market, and its prediction markets."""
    market = _MARKET(entry)  # raises Fault unless the entry is an object
    nested = array(entry.get(_NESTED_WIRE, entry.get(_NESTED)), _NESTED_WIRE)
    return market, each(nested, _PREDICTION_MARKET, _NESTED_WIRE)


def encode_markets(frame: pl.DataFrame, next_offset: int | None) -> bytes:
    """Encode a page of ``/v1/markets``, the inverse of `decode_markets`.

    Parameters
    ----------
    frame : polars.DataFrame, one row per market, schema `MARKETS`
        May have a column ``prediction_markets`` as `decode_markets` returns it. A column of the schema that the frame
        lacks counts as null. Other columns are written under their name.
    next_offset : int or None
        ``nextOffset``; left out if it is None.

    Returns
    -------
    bytes
        JSON in UTF-8; null fields are left out. [byte]

    Raises
    ------
    MissingColumnError
        If the frame has no ``exchange`` or no ``raw_symbol``.
    QueryError
        If an exchange or a raw symbol is null.
    DecodeError
        If a column cannot be cast to the schema's dtype.

    Examples
    --------
    >>> encode_markets(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["BTCUSDT"]}), 1).decode()
    '{"symbols":[{"exchange":"X","rawSymbol":"BTCUSDT"}],"nextOffset":1}'
    """
    frame, columns = checked(frame, MARKETS), [field.column for field in MARKET_FIELDS]
    entries = ",".join(_objects(frame.select(*columns, pl.exclude(columns)), MARKET_FIELDS))
    offset = "" if next_offset is None else f',"nextOffset":{next_offset}'
    return f'{{"symbols":[{entries}]{offset}}}'.encode()


def _objects(frame: pl.DataFrame, fields: tuple[Field, ...]) -> pl.Series:
    """Return each row as the text of a JSON object."""
    names = {field.column: field.name for field in fields}
    pieces: list[Piece] = []
    for column in frame.get_columns():
        if column.name != _NESTED:
            pieces += member(names.get(column.name, column.name), column)
        elif column.null_count() < len(column):
            frame = frame.with_columns(_arrays(column))
            pieces.append(pl.concat_str([pl.lit(f',"{_NESTED_WIRE}":'), pl.col(_NESTED)]))
    # Every member begins with a comma: drop the first comma.
    return frame.select(join("{", join("", *pieces).str.slice(1), "}")).to_series()


def _arrays(column: pl.Series) -> pl.Series:
    """Return each list of prediction markets as the text of a JSON array; for a null or empty list it is null."""
    frame = column.to_frame().with_row_index(_ROW)
    rows = frame.explode(_NESTED).drop_nulls(_NESTED)
    texts = _objects(rows.select(_NESTED).unnest(_NESTED), PREDICTION_MARKET_FIELDS)
    arrays = (
        pl.DataFrame([rows[_ROW], texts.alias(_NESTED)])
        .group_by(_ROW, maintain_order=True)
        .agg(join("[", pl.col(_NESTED).str.join(","), "]"))
    )
    joined = frame.select(_ROW).join(arrays, on=_ROW, how="left", maintain_order="left")
    return joined.to_series(1).alias(_NESTED)
