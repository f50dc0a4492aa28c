"""The tables that are looked after: raw events, registries and minutes."""

from __future__ import annotations

from collections.abc import Iterable

from tidytape.errors import QueryError, did_you_mean
from tidytape.lake.rollup import ROLLUP_TABLES
from tidytape.lake.store import Lake
from tidytape.lake.table import Table
from tidytape.lake.tables import TABLES

_EVERY = {**TABLES, **ROLLUP_TABLES}


def tables(lake: Lake, wanted: Iterable[str] | None) -> list[Table]:
    """Return the tables that a lake has, raw events first: an older one lacks some, minutes come with a rollup.

    Parameters
    ----------
    lake : Lake
        Which one.
    wanted : iterable of str, optional
        Names of tables; all where left out.

    Raises
    ------
    QueryError
        If there is no such table.
    """
    return [_EVERY[name] for name in chosen("table", wanted, _EVERY) if lake.has_table(name)]


def chosen(parameter: str, wanted: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """Return what is wanted of what is known, in its order; QueryError for what is not known."""
    every = list(known)
    names = every if wanted is None else list(wanted)
    for name in names:
        if name not in every:
            raise QueryError(
                parameter,
                got=name,
                expected="one of " + ", ".join(every),
                hint=did_you_mean(name, every),
            )
    return [name for name in every if name in names]
