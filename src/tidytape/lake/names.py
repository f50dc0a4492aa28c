"""Names of venues and instruments: what can be stored, and asked for again."""

from __future__ import annotations

from urllib.parse import quote

import polars as pl

from tidytape.errors import QueryError
from tidytape.query import values

__all__ = ["is_storable", "storable", "unstorable"]

_NOBODY = "__HIVE_DEFAULT_PARTITION__"
_LONGEST = 255 - len("raw_symbol=")
"""What a folder's name leaves to the value in it. [bytes]"""


def storable(value: object, *, parameter: str, code: str = "INVALID_PARAMS") -> str:
    """Read a name that is to be a folder of the lake: what a query takes, trimmed, and not longer than a folder's name.

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
    if name == _NOBODY:
        raise QueryError(parameter, got=value, expected="a name, and this one stands for none", code=code)
    if len(quote(name, safe="")) > _LONGEST:
        expected = (
            f"a name of at most {_LONGEST} bytes, each other than A-Z a-z 0-9 _ . - ~ counted three times"
        )
        raise QueryError(parameter, got=value, expected=expected, code=code)
    return name


def unstorable(names: pl.Series) -> pl.Series:
    """Return those of some names, each once, that cannot be stored as they stand."""
    return (
        names.drop_nulls()
        .unique()
        .map_elements(lambda name: None if is_storable(name) else name, return_dtype=pl.String)
        .drop_nulls()
    )


def is_storable(name: str) -> bool:
    r"""Whether a name can be stored as it stands.

    Examples
    --------
    >>> is_storable("BTC/USDT"), is_storable(" BTC"), is_storable("B\tTC"), is_storable("é" * 200)
    (True, False, False, False)
    """
    try:
        return storable(name, parameter="name") == name
    except QueryError:
        return False
