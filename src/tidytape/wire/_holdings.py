"""The markets and data types of a service, with their times and gaps, as JSON."""

from __future__ import annotations

from typing import Any

import orjson
import polars as pl

from tidytape.catalogue import Kind
from tidytape.schema import HOLDING_FIELDS, HOLDINGS, Column
from tidytape.wire._faults import Fault, placed
from tidytape.wire._lists import decode_list
from tidytape.wire._values import each, read_value, written_time

_KINDS: dict[str, Kind] = {
    "string": "string",
    "int64": "int64",
    "timestamp": "timestamp",
    "duration": "int64",  # nanoseconds
}


def _name(column: str) -> str:
    first_word, *other_words = column.split("_")
    return first_word + "".join(word.capitalize() for word in other_words)


_NAMES = {column.name: _name(column.name) for column in HOLDINGS.columns}


def encode_holdings(frame: pl.DataFrame) -> bytes:
    """Encode the frame of ``Client.describe()``.

    Parameters
    ----------
    frame : polars.DataFrame, schema `HOLDINGS`

    Returns
    -------
    bytes
        JSON in UTF-8: ``{"holdings": [...]}``, one object per row; durations in nanoseconds, null fields left out.

    Examples
    --------
    >>> encode_holdings(HOLDINGS.conform(pl.DataFrame({"type": ["TRADE"], "rows": [3]})))
    b'{"holdings":[{"type":"TRADE","rows":3}]}'
    """
    plain = frame.with_columns(
        pl.col(column.name).cast(pl.List(pl.Int64) if column.dtype.startswith("list") else pl.Int64)
        for column in HOLDINGS.columns
        if column.dtype in {"timestamp", "duration", "list[timestamp]"}
    )
    entries = [
        {_NAMES[column.name]: _written(row[column.name], column) for column in HOLDING_FIELDS}
        for row in plain.iter_rows(named=True)
    ]
    without_nulls = [{name: value for name, value in entry.items() if value is not None} for entry in entries]
    return orjson.dumps({"holdings": without_nulls})


def _written(value: Any, column: Column) -> Any:
    if value is None:
        return None
    if column.dtype == "list[timestamp]":
        return [written_time(time) for time in value]
    return written_time(value) if column.dtype == "timestamp" else value


def decode_holdings(body: bytes) -> pl.DataFrame:
    """Decode a body that `encode_holdings` wrote.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8. [byte]

    Returns
    -------
    polars.DataFrame, one row per entry, schema `HOLDINGS`
        In the order of the body. Unknown fields are left out, and absent fields are null.

    Raises
    ------
    DecodeError
        If the body does not have the list, or a value has a wrong kind.

    Examples
    --------
    >>> decode_holdings(b'{"holdings": [{"type": "TRADE", "firstTimestamp": {"s": 60}}]}')["first_timestamp"][0].minute
    1
    """
    with placed(HOLDINGS.name):
        rows = each(decode_list(body, ["holdings"]), _read, "entry")
    columns = [
        pl.Series(name, [row[position] for row in rows], dtype=dtype)
        for position, (name, dtype) in enumerate(HOLDINGS.polars().items())
    ]
    return pl.DataFrame(columns)


def _read(entry: Any) -> tuple[Any, ...]:
    if not isinstance(entry, dict) or entry.get("type") is None:
        raise Fault("it is no object with a type")
    return tuple(_read_field(entry.get(_NAMES[column.name]), column) for column in HOLDINGS.columns)


def _read_field(value: Any, column: Column) -> Any:
    try:
        if column.dtype != "list[timestamp]":
            return read_value(value, _KINDS[column.dtype])
        if value is None:
            return None
        if not isinstance(value, list):
            raise Fault("it is no array")
        return [read_value(time, "timestamp") for time in value]
    except Fault as fault:
        raise Fault(f"{_NAMES[column.name]}: {fault}") from None
