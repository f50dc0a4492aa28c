"""A caller's profiles, opened for work: their keys and columns under working names, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.doors import are_apart, listed
from tidytape.frames.table import Table

__all__ = ["SESSION", "Profiles", "holds", "opened"]

SESSION = "timestamp"
"""Start of a profile's session, beside the identity columns what tells one profile from another."""


@dataclass(frozen=True)
class Profiles(Generic[IntoFrameT]):
    """Profiles, and how they go back.

    Attributes
    ----------
    table : Table
        The caller's frame, with all of its columns.
    names : dict of str to str
        Names of the columns that tell profiles apart: working name to the caller's.
    """

    table: Table[IntoFrameT]
    names: dict[str, str]

    @property
    def keys(self) -> list[str]:
        """Working names of the columns that tell profiles apart: no column of a result can be called so."""
        return list(self.names)

    def rows(self, columns: Mapping[str, str | nw.Expr], *, numbers: Iterable[str] = ()) -> nw.LazyFrame[Any]:
        """Return the keys and some columns under working names; ``numbers`` as float64."""
        keys = {key: nw.col(name) for key, name in self.names.items()}
        others = {name: nw.col(of) if isinstance(of, str) else of for name, of in columns.items()}
        others |= {name: others[name].cast(nw.Float64) for name in numbers}
        return self.table.rows.select(**keys, **others)

    def of_sessions(self) -> Profiles[IntoFrameT]:
        """Return the profiles of the sessions of series: ``timestamp`` is the last of their keys."""
        return Profiles(self.table, {**self.names, f"by_{len(self.names)}": SESSION})

    def require_number(self, parameter: str, name: str) -> None:
        """Raise unless the caller's frame has a column of numbers of this name, which a parameter says."""
        schema = self.table.schema
        if name not in schema:
            raise MissingColumnError([name], available=self.table.names)
        if not schema[name].is_numeric():
            raise QueryError(parameter, got=f"{name}: {schema[name]}", expected="a numeric column")

    def closed(
        self, result: nw.LazyFrame[Any], *, sort: Iterable[str] = (), times: Mapping[str, str] | None = None
    ) -> IntoFrameT:
        """Return ``result``, sorted by the keys and ``sort``, under the caller's names, as the kind he gave."""
        order = [*self.names.values(), *sort]
        return self.table.closed(result.rename(self.names), sort=order, times=times)


def opened(
    levels: IntoFrameT,
    by: str | Iterable[str] | None,
    *,
    results: Iterable[str],
    numbers: Mapping[str, str] | None = None,
    needed: Iterable[str] = (),
    times: Iterable[str] = (),
    session: bool = True,
    anonymous: bool = False,
) -> Profiles[IntoFrameT]:
    """Return the caller's profiles.

    Parameters
    ----------
    levels : frame
    by : str, iterable of str or None
        The columns that tell one profile from another; None for the identity columns there are and, of a
        ``session``, ``timestamp``.
    results : iterable of str
        Columns that the result will have beside them.
    numbers : mapping of str to str
        Parameters that name a column of numbers, each with the name.
    needed, times : iterable of str
        Columns it must have, and those of them that are opened as times.
    anonymous : bool
        Whether a frame without any of those columns is one profile, instead of none.
    """
    numbers = numbers or {}
    columns = None if by is None else listed(by)
    taken = (*numbers.values(), *results)
    expected = f"at least one name, each once and none of {', '.join(map(repr, taken))}"
    if columns is not None and ((not columns and not anonymous) or not are_apart(columns, taken)):
        raise QueryError("by", got=columns, expected=expected)
    table = Table.opened(
        levels, (*(columns or ()), *numbers.values(), *needed, *times), times=times, parameter="levels"
    )
    if columns is None:
        columns = table.series(without=taken)
        if session:
            if SESSION not in table.names:
                raise MissingColumnError([SESSION], available=table.names)
            columns.append(SESSION)
        if not columns and not anonymous:
            raise QueryError("by", got=None, expected=f"{expected}, for the frame has no identity columns")
    profiles = Profiles(table, {f"by_{position}": name for position, name in enumerate(columns)})
    for parameter, name in numbers.items():
        profiles.require_number(parameter, name)
    return profiles


def holds(condition: nw.Expr, *numbers: str) -> nw.Expr:
    """Return a condition on columns of numbers, null where one of them is: of pandas' it would be false."""
    return nw.when(*(~nw.col(name).is_null() for name in numbers)).then(condition)
