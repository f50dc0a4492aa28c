"""Open a caller's frame as profiles with working names for keys, and give results the caller's names again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Generic, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import is_number
from tidytape.analytics._series import SESSION_END, knows_length
from tidytape.errors import QueryError
from tidytape.frames._door import are_apart, as_list, require
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, require_blocks, require_one_unit

SESSION: Final = "timestamp"
"""Column of the start of a profile's session; with the identity columns it tells one profile from another."""

TOUCH: Final = "block_id"
"""Column of the time block of a touch, in frames of one row per block and level."""

BLOCKS: Final = "tpo_count"
"""Column of the number of blocks that touched a level. Frames of touches do not need it, because they are counted."""

LIST: Final = "block_ids"
"""Column of the list of the blocks that touched a level."""

COUNTED: Final = {"blocks": BLOCKS, "first": "first_touch_block", "last": "last_touch_block"}
"""Columns of the number, the first and the last of the blocks that touched a level, by their working names."""

_FINEST: Final = 10**40


@dataclass(frozen=True)
class Profiles(Generic[IntoFrameT]):
    """Profiles of a caller's frame, with the names that results get back.

    Attributes
    ----------
    table : OpenTable
        The caller's frame, with all of its columns.
    names : dict of str to str
        The columns that tell profiles apart: the caller's name by working name. If profiles are the sessions of series,
        there are ``start`` and perhaps ``end``. The other working names differ from all columns of results.
    price : str
        The caller's column of prices.
    step : Fraction or None
        Height of the price rows; None if each price is a row.
    hidden : tuple of str
        The columns of ``names`` that results leave out.
    """

    table: OpenTable[IntoFrameT]
    names: dict[str, str]
    price: str
    step: Fraction | None
    hidden: tuple[str, ...] = ()

    @property
    def keys(self) -> list[str]:
        """Working names of the columns that tell profiles apart."""
        return list(self.names)

    @property
    def series_columns(self) -> list[str]:
        """Working names of the columns that tell series apart, if profiles are the sessions of series."""
        return self.keys[: self.keys.index("start")]

    @property
    def of_touches(self) -> bool:
        """Whether the frame has one row per level and block that touched it."""
        return TOUCH in self.table.names

    @property
    def lists_blocks(self) -> bool:
        """Whether the frame names each block that touched its levels."""
        return self.of_touches or LIST in self.table.names

    @property
    def has_blocks(self) -> bool:
        """Whether the frame says which blocks touched its levels."""
        return self.lists_blocks or set(COUNTED.values()) <= set(self.table.names)

    def rows(self, columns: Mapping[str, str | nw.Expr], *, numbers: Iterable[str] = ()) -> nw.LazyFrame[Any]:
        """Return the keys, ``price`` and some columns under working names; the price and ``numbers`` as float64."""
        sources = {**self.names, "price": self.price, **columns}
        values = {name: nw.col(of) if isinstance(of, str) else of for name, of in sources.items()}
        values |= {name: values[name].cast(nw.Float64) for name in ("price", *numbers)}
        return self.table.rows.select(**values)

    def require_number(self, parameter: str, name: str) -> None:
        """Raise QueryError unless the column that a parameter names is numeric."""
        if name == BLOCKS and self.of_touches:
            return
        require([name], self.table.names)
        if not (dtype := self.table.schema[name]).is_numeric():
            raise QueryError(parameter, got=f"{name}: {dtype}", expected="a numeric column")

    def closed(
        self,
        result: nw.LazyFrame[Any],
        *,
        sort: Iterable[str] = (),
        times: Mapping[str, str] | None = None,
        main: Sequence[str] = (),
    ) -> IntoFrameT:
        """Return a result as the caller's kind of frame, under the caller's names, sorted by the keys and ``sort``."""
        order = [name for name in (*self.names.values(), *sort) if name not in self.hidden]
        renamed = result.rename(self.names)
        if self.hidden:
            renamed = renamed.drop(*self.hidden)
        return self.table.closed(renamed, sort=order, times=times, main=main)


def opened(
    levels: IntoFrameT | OpenTable[IntoFrameT],
    by: str | Iterable[str] | None,
    *,
    results: Iterable[str],
    numbers: Mapping[str, str],
    row_size: object = None,
    of: Literal["profiles", "series", "composites"] = "profiles",
    times: Iterable[str] = (),
    blocks: bool = False,
) -> Profiles[IntoFrameT]:
    """Open the caller's frame as profiles.

    An eager frame is refused if its ``block_size`` does not divide ``row_size``, or if a profile has several values of
    ``amount_unit`` or ``block_size``; with a ``row_size``, sessions of one profile may differ in ``block_size``. A lazy
    frame gets null prices there instead, so that its results are null.

    Parameters
    ----------
    levels : frame or OpenTable
    by : str, iterable of str or None
        Columns that tell profiles apart, or series of them. None for the identity columns and, for profiles,
        ``timestamp``. ``period_end`` is kept beside ``timestamp``, because it says when a result is known. Without it,
        results leave out the ``interval`` of sessions with time blocks, which is not their length, unless the caller
        names it.
    results : iterable of str
        Other columns of the result.
    numbers : mapping of str to str
        The names of columns of numbers, by argument: ``price`` and, if it is used, ``count``.
    row_size : float, Decimal or None
        Height of the price rows.
    of : {"profiles", "series", "composites"}
        What ``by`` tells apart: profiles; series of sessions, where each session is a profile and ``by`` may be empty;
        or composites of sessions.
    times : iterable of str
        Columns to open as times; for series always ``timestamp``.
    blocks : bool
        Whether levels must say which time blocks touched them; other frames are refused.
    """
    step = None
    if row_size is not None:
        if not is_number(row_size) or not row_size > 0:
            raise QueryError("row_size", got=row_size, expected="a finite number above 0, or None")
        step = Fraction(str(row_size))  # exact, from the shortest decimal: 0.1 is a tenth
        if step.denominator > _FINEST:
            raise QueryError("row_size", got=row_size, expected="at most 40 decimal places, or None")
    reserved, of_series = [*numbers.values(), *results], of == "series"
    by_default = [SESSION] if by is None and of == "profiles" else []
    needed = by_default if by is None else as_list(by)
    expected = f"at least one name, each once and none of {', '.join(map(repr, reserved))}"
    if by is not None and not (are_apart(needed, reserved) and (needed or of_series)):
        raise QueryError("by", got=needed, expected=expected)
    times = [SESSION] if of_series else list(times)
    table = OpenTable.of(
        levels,
        needed,
        numbers=[name for name in numbers.values() if not is_of_blocks(name)],
        times=times,
        kinds=dict.fromkeys(
            name for name in needed if isinstance(name, str) and name not in (*times, *by_default)
        ),  # keys may be called anything
        optional=[SESSION_END]
        if SESSION in (*times, *by_default) and are_apart([SESSION_END], reserved)
        else [],
        also=["block_ids"] if blocks else [],
        parameter="levels",
    )
    columns = [*table.series_columns(without=reserved), *by_default] if by is None else needed
    if not columns and not of_series:
        raise QueryError("by", got=by, expected=f"{expected}, for the frame has no identity columns")
    if SESSION in columns and SESSION_END in table.names and SESSION_END not in (*columns, *reserved):
        columns = [*columns, SESSION_END]
    table = _of_one_kind(table, columns, numbers, step=step, of_series=of_series)
    is_hidden = by is None and "interval" in columns and not knows_length(table.names)
    names = working_names(columns)
    if of_series:
        names["start"] = SESSION
        if SESSION_END in table.names and SESSION_END not in columns:
            # The sessions of a series differ in their start, so one end per start is enough.
            table = replace(
                table, rows=table.rows.with_columns(nw.col(SESSION_END).max().over(*names.values()))
            )
            names["end"] = SESSION_END
    profiles = Profiles(table, names, numbers["price"], step, ("interval",) if is_hidden else ())
    for parameter, name in numbers.items():
        profiles.require_number(parameter, name)
    if blocks and not profiles.has_blocks:
        raise QueryError(
            "levels",
            got=f"columns {', '.join(table.names)}",
            expected="levels that say which blocks touched them: "
            f"{LIST!r}, {TOUCH!r}, or {', '.join(map(repr, COUNTED.values()))}",
            hint="a volume profile has no blocks",
        )
    return profiles


def _of_one_kind(
    table: OpenTable[IntoFrameT],
    columns: list[str],
    numbers: Mapping[str, str],
    *,
    step: Fraction | None,
    of_series: bool,
) -> OpenTable[IntoFrameT]:
    """Check that each profile has one amount unit and one block size, which must divide ``step``."""
    price = numbers["price"]
    sessions = [*columns, SESSION] if SESSION in table.names and SESSION not in columns else columns
    if not is_of_blocks(numbers.get("count", BLOCKS)):
        table = require_one_unit(
            table, AMOUNT_UNIT, sessions if of_series else columns, [price], parameter="levels"
        )
    if step is not None and BLOCK_SIZE not in columns:
        table = require_blocks(table, step, price, parameter="row_size")
    one_size_keys = sessions if of_series or step is not None else columns
    return require_one_unit(table, BLOCK_SIZE, one_size_keys, [price], parameter="levels")


def is_of_blocks(column: object) -> bool:
    """Return whether a name, which need not be a string, is that of the column that counts blocks."""
    return isinstance(column, str) and column == BLOCKS


def working_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the names of columns by working names."""
    return {f"by_{position}": name for position, name in enumerate(columns)}


def holds(condition: nw.Expr, *numbers: str) -> nw.Expr:
    """Return a condition on columns of numbers, null if one of the numbers is null."""
    return nw.when(*(~nw.col(name).is_null() for name in numbers)).then(condition)
