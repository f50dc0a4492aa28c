"""Names of exchanges and markets: which can be stored, and queried again."""

from __future__ import annotations

from urllib.parse import quote

import polars as pl

from tidytape.errors import QueryError
from tidytape.query import values

__all__ = ["is_storable", "storable", "unstorable"]

_NULL = "__HIVE_DEFAULT_PARTITION__"
_LONGEST = 255 - len("raw_symbol=")
"""Longest value that fits into a folder's name. [bytes]"""


def storable(value: object, *, parameter: str, code: str = "INVALID_PARAMS") -> str:
    """Read the name of a folder of the lake: trimmed, valid in a query, and no longer than a folder's name can be.

    Raises
    ------
    QueryError
        If it is no such name.

    Examples
    --------
    >>> storable(" BTC/USDT ", parameter="raw_symbol")
    'BTC/USDT'
    """
    name = values.text(value, parameter=parameter, code=code)
    if name == _NULL:
        raise QueryError(parameter, got=value, expected="a name, and this one stands for none", code=code)
    if len(quote(name, safe="")) > _LONGEST:
        expected = (
            f"a name of at most {_LONGEST} bytes, each other than A-Z a-z 0-9 _ . - ~ counted three times"
        )
        raise QueryError(parameter, got=value, expected=expected, code=code)
    return name


def unstorable(names: pl.Series) -> pl.Series:
    """Return the names that cannot be stored as they are, each once."""
    return (
        names.drop_nulls()
        .unique()
        .map_elements(lambda name: None if is_storable(name) else name, return_dtype=pl.String)
        .drop_nulls()
    )


def is_storable(name: str) -> bool:
    r"""Return whether a name can be stored as it is.

    Examples
    --------
    >>> is_storable("BTC/USDT"), is_storable(" BTC"), is_storable("B\tTC"), is_storable("é" * 200)
    (True, False, False, False)
    """
    try:
        return storable(name, parameter="name") == name
    except QueryError:
        return False
