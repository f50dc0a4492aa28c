"""The one series that some functions take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.errors import QueryError
from tidytape.frames.table import Table

_NULLS = "__nulls_"


def one_series(table: Table[Any], names: Iterable[str]) -> dict[str, Any]:
    """Return what some columns of a frame say in every row.

    Parameters
    ----------
    table : Table
        The frame.
    names : iterable of str
        The columns that name its series.

    Returns
    -------
    dict of str to object
        By column; None of a frame without rows.

    Raises
    ------
    QueryError
        If a column says more than one thing.
    """
    names = list(names)
    whose: dict[str, Any] = dict.fromkeys(names)
    for row in table.rows.select(*names).head(1).collect().iter_rows(named=True) if names else ():
        whose = row
    said = {name: value for name, value in whose.items() if value is not None}
    # Asked of all rows at once: no table of what there is, and none of it is sorted.
    same = {name: (nw.col(name) == value).all() for name, value in said.items()}
    same |= {name: nw.col(name).is_null().all() for name in names if name not in said}
    nulls = [nw.col(*said).is_null().any().name.prefix(_NULLS)] if said else []
    for row in table.rows.select(*nulls, **same).collect().iter_rows(named=True) if same else ():
        for name in names:
            if row[name] is False or row.get(_NULLS + name):
                got = f"something else in column {name}"
                raise QueryError("frame", got=got, expected="one series", hint="filter it first")
    return whose
