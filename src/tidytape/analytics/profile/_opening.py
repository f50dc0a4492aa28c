"""A caller's profiles, opened for work: their keys and columns under working names, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._intervals import SESSION_END, knows_length
from tidytape.errors import QueryError
from tidytape.frames.door import are_apart, listed, require
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, of_one, on_blocks

SESSION = "timestamp"
"""Start of a profile's session, beside the identity columns what tells one profile from another."""

TOUCH = "block_id"
"""Block of a touch, in frames of one row per block and level."""

BLOCKS = "tpo_count"
"""Number of the blocks that touched a level; of touches it is counted, and no column."""


@dataclass(frozen=True)
class Profiles(Generic[IntoFrameT]):
    """Profiles, and how they go back.

    Attributes
    ----------
    table : Table
        The caller's frame, with all of its columns.
    names : dict of str to str
        Names of the columns that tell profiles apart: working name to the caller's.
    unsaid : tuple of str
        Those of the caller's columns that no result has.
    """

    table: Table[IntoFrameT]
    names: dict[str, str]
    unsaid: tuple[str, ...] = ()

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

    @property
    def start(self) -> str:
        """Working name of the column that says when a session starts, of profiles that are sessions."""
        return next(key for key, name in self.names.items() if name == SESSION)

    def of_sessions(self) -> Profiles[IntoFrameT]:
        """Return the profiles of the sessions of series: they start at ``timestamp``, and stay with their end."""
        series = [*self.names.values(), SESSION]
        if SESSION_END not in self.table.names or SESSION_END in series:
            return replace(self, names=working_names(series))
        # Of a series no two sessions start at once.
        rows = self.table.rows.with_columns(nw.col(SESSION_END).max().over(*series))
        return replace(
            self,
            table=replace(self.table, rows=rows),
            names=working_names([*series, SESSION_END]),
        )

    def require_number(self, parameter: str, name: str) -> None:
        """Raise unless the caller's frame has a column of numbers of this name, which a parameter says."""
        schema = self.table.schema
        if name == BLOCKS and TOUCH in schema:
            return
        require([name], self.table.names)
        if not schema[name].is_numeric():
            raise QueryError(parameter, got=f"{name}: {schema[name]}", expected="a numeric column")

    def closed(
        self, result: nw.LazyFrame[Any], *, sort: Iterable[str] = (), times: Mapping[str, str] | None = None
    ) -> IntoFrameT:
        """Return ``result``, sorted by the keys and ``sort``, under the caller's names, as the kind he gave."""
        return self.published(result.rename(self.names), sort=sort, times=times)

    def published(
        self,
        result: nw.LazyFrame[Any] | nw.DataFrame[Any],
        *,
        sort: Iterable[str] = (),
        times: Mapping[str, str] | None = None,
    ) -> IntoFrameT:
        """Return what `closed` does, of a result that has the caller's names already."""
        order = [name for name in (*self.names.values(), *sort) if name not in self.unsaid]
        said = result.drop(*self.unsaid) if self.unsaid else result
        return self.table.closed(said, sort=order, times=times)


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
    blocks: bool = False,
    step: Fraction | None = None,
) -> Profiles[IntoFrameT]:
    """Return the caller's profiles.

    Parameters
    ----------
    levels : frame
    by : str, iterable of str or None
        The columns that tell one profile from another; None for the identity columns there are and, of a
        ``session``, ``timestamp``. With ``timestamp`` goes ``period_end``, where the frame has it: without it nobody
        could tell of a result when it is known, and an ``interval`` would seem to say so. So of sessions that lack it
        no result has the ``interval`` either, unless the caller names it.
    results : iterable of str
        Columns that the result will have beside them.
    numbers : mapping of str to str
        Parameters that name a column of numbers, each with the name.
    needed, times : iterable of str
        Columns it must have, and those of them that are opened as times.
    anonymous : bool
        Whether a frame without any of those columns is one series of sessions, instead of none.
    blocks : bool
        Whether the levels must say which time blocks touched them: for the error of other frames.
    step : Fraction, optional
        Height of the rows that the levels are read in. Where the frame has ``block_size``, rows that are no whole
        multiple of it raise on an eager frame; on a lazy one the prices are null, so that no result is known. So do
        levels of several ``block_size`` in one profile, or in one session of it where there is a ``step``, and counts
        of several ``amount_unit``.
    """
    numbers = numbers or {}
    columns = None if by is None else listed(by)
    taken = (*numbers.values(), *results)
    expected = f"at least one name, each once and none of {', '.join(map(repr, taken))}"
    if columns is not None and ((not columns and not anonymous) or not are_apart(columns, taken)):
        raise QueryError("by", got=columns, expected=expected)
    times = tuple(times)
    always = [name for name in numbers.values() if not is_of_blocks(name)]
    required = (*(columns or ()), *always, *needed, *times)
    table = Table.opened(levels, parameter="levels")
    if blocks:
        require(required, table.names, also=["block_ids"])
    table = Table.opened(table, required, times=times, parameter="levels")
    if columns is None:
        columns = table.series(without=taken)
        if session:
            require([SESSION], table.names)
            columns.append(SESSION)
        if not columns and not anonymous:
            raise QueryError("by", got=None, expected=f"{expected}, for the frame has no identity columns")
    has_end = SESSION_END in table.names and SESSION_END not in taken
    if has_end and SESSION in columns and SESSION_END not in columns:
        columns = [*columns, SESSION_END]
    if has_end and SESSION in times and SESSION_END not in times:
        table = Table.opened(table, times=[*times, SESSION_END], parameter="levels")
    table = _of_one_kind(table, columns, numbers, step=step, of_sessions=anonymous)
    unsaid = [
        name for name in ("interval",) if by is None and name in columns and not knows_length(table.names)
    ]
    profiles = Profiles(table, working_names(columns), tuple(unsaid))
    for parameter, name in numbers.items():
        profiles.require_number(parameter, name)
    return profiles


def _of_one_kind(
    table: Table[IntoFrameT],
    columns: list[str],
    numbers: Mapping[str, str],
    *,
    step: Fraction | None,
    of_sessions: bool,
) -> Table[IntoFrameT]:
    """Return levels that make up profiles; see ``step`` of `opened`."""
    price, count = numbers.get("price"), numbers.get("count")
    if price is None or price not in table.names:
        return table
    sessions = [SESSION] if SESSION in table.names and SESSION not in columns else []
    of_units = [*columns, *(sessions if of_sessions else [])]
    of_blocks = [*columns, *(sessions if of_sessions or step is not None else [])]
    if count is not None and not is_of_blocks(count):
        table = of_one(table, AMOUNT_UNIT, of_units, [price], parameter="levels")
    if step is not None and BLOCK_SIZE not in columns:
        table = on_blocks(table, step, price, parameter="row_size")
    return of_one(table, BLOCK_SIZE, of_blocks, [price], parameter="levels")


def is_of_blocks(column: object) -> bool:
    """Return whether a column counts blocks, which touches do without it; what is no name is none of one."""
    return isinstance(column, str) and column == BLOCKS


def working_names(columns: Iterable[str]) -> dict[str, str]:
    """Return working names of columns."""
    return {f"by_{position}": name for position, name in enumerate(columns)}


def holds(condition: nw.Expr, *numbers: str) -> nw.Expr:
    """Return a condition on columns of numbers, null where one of them is."""
    return nw.when(*(~nw.col(name).is_null() for name in numbers)).then(condition)
