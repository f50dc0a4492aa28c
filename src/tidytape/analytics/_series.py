"""The one series that some functions take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.errors import QueryError
from tidytape.frames.table import Table

__all__ = ["one_series"]


def one_series(
    table: Table[Any], names: Iterable[str], *, words: Mapping[str, Iterable[str]] | None = None
) -> dict[str, Any]:
    """Return what some columns of a frame say in every row.

    Parameters
    ----------
    table : Table
        The frame.
    names : iterable of str
        The columns that name its series.
    words : mapping of str to iterable of str, optional
        Columns that may say one of a few words, or be null.

    Returns
    -------
    dict of str to object
        By column; None of a frame without rows.

    Raises
    ------
    QueryError
        If a column says more than one thing, or another word.
    """
    names = list(names)
    whose: dict[str, Any] = dict.fromkeys(names)
    for row in table.rows.select(*names).head(1).collect().iter_rows(named=True) if names else ():
        whose = row
    # Asked of all rows at once: no table of what there is, and none of it is sorted.
    strange = {
        name: ~nw.col(name).is_null() if value is None else (nw.col(name) != value) | nw.col(name).is_null()
        for name, value in whose.items()
    }
    expected = dict.fromkeys(names, "one series")
    for name, known in (words or {}).items():
        strange[name] = reduce(and_, (nw.col(name) != word for word in known), ~nw.col(name).is_null())
        expected[name] = " or ".join(known)
    if strange:
        found = table.rows.select(
            **{name: is_strange.any() for name, is_strange in strange.items()}
        ).collect()
        for name, is_there in zip(strange, found.row(0), strict=True):
            if is_there:
                got = f"something else in column {name}"
                raise QueryError("frame", got=got, expected=expected[name], hint="filter it first")
    return whose
