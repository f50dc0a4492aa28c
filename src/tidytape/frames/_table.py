"""A caller's frame, opened for work: lazy, each column read as what it is. Closing converts results back.

Numbers are float64 then, times and lengths of time int64 nanoseconds, sides, option types, intervals and units their
canonical words, and categories text. `tidytape.frames._kinds` says what a column is and what is refused.

Categories of two frames cannot be compared or joined, and an Enum takes no new words. So inside, categories are text,
which all engines sort, join and compare alike. A closed result is of the kind of the caller's frame, with the caller's
categories and types of time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import DESCRIPTOR_FIELDS, IDENTITY_FIELDS
from tidytape.errors import QueryError
from tidytape.frames._dialects import Frame, dialect_of, in_sql
from tidytape.frames._door import READABLE, Door, are_apart, as_list, require, wrapped
from tidytape.frames._kinds import EVERYWHERE, KINDS, WORDS, Column, Kind, words_of
from tidytape.frames._rows import with_all
from tidytape.frames._sorted import in_order
from tidytape.frames._times import Clock, clock_of, counted, dated, length_of
from tidytape.schema import ordered

if TYPE_CHECKING:
    import polars as pl

P = ParamSpec("P")

Rows = nw.LazyFrame[Any]
"""Rows to work on, on polars, DuckDB or Spark."""

# polars' type whose categories all frames share; the name of a type with a pl.Categories of its own is longer.
_SHARED = "Categorical"


def categories_of(frame: Frame, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the categorical columns of a frame, each with its type in the engine."""
    names = [name for name, dtype in schema.items() if isinstance(dtype, nw.Categorical | nw.Enum)]
    if not names:
        return {}
    dialect, native = dialect_of(frame), frame.to_native()
    types = native.collect_schema() if dialect is None else dialect.types(native)
    return {name: types[name] for name in names}


def with_categories_as_text(rows: nw.LazyFrame[Any], categories: Mapping[str, Any]) -> nw.LazyFrame[Any]:
    """Return the rows with these categorical columns as text, except for polars' Categorical.

    All frames share the categories of that type. It sorts, joins and compares as text does, and groups faster.
    """
    names = [name for name, dtype in categories.items() if str(dtype) != _SHARED]
    if not names:
        return rows
    return rows.with_columns(nw.col(*names).cast(nw.String))


def with_text_as_categories(frame: Any, categories: Mapping[str, Any]) -> Any:
    """Return the frame with columns of text as these categories; undoes `with_categories_as_text`.

    If a type is None, polars makes new categories of the texts in the column; DuckDB leaves the column as text.
    """
    if not categories:
        return frame
    schema, dialect = frame.collect_schema(), dialect_of(frame)
    texts = {name: dtype for name, dtype in categories.items() if schema.get(name) == nw.String}
    without_type = [name for name, dtype in texts.items() if dtype is None]
    if without_type and dialect is None:
        frame = frame.with_columns(nw.col(*without_type).cast(nw.Categorical))
    with_type = {name: dtype for name, dtype in texts.items() if dtype is not None}
    if not with_type:
        return frame
    if dialect is not None:
        return dialect.replaced(
            frame, {name: f"CAST({dialect.quoted(name)} AS {dtype})" for name, dtype in with_type.items()}
        )
    return nw.from_native(frame.to_native().cast(with_type))


IDENTITY = tuple(field.column for field in IDENTITY_FIELDS)
"""Columns that say which series a row belongs to."""

_NAMES_OF_SERIES = ("normalized_symbol", "coin", "category", "interval")
"""Columns of the identity that a key has only because they name its market, or its points, once more."""

_KNOWN_COLUMNS = ("timestamp", *IDENTITY, *(field.column for field in DESCRIPTOR_FIELDS))
"""Columns that functions read wherever a frame has them."""

_KINDS = "a frame of polars, pandas, pyarrow, DuckDB or Spark"


@dataclass(frozen=True)
class OpenTable(Generic[IntoFrameT]):
    """A caller's frame, and the rows of it to work on.

    Attributes
    ----------
    rows : narwhals LazyFrame
        All columns of the frame, on polars, DuckDB or Spark. Times are int64 nanoseconds since the epoch, and
        categories text. Window functions need ``over(..., order_by=...)``, because SQL engines keep no order of rows.
    native : frame
        The caller's frame.
    engine : narwhals Implementation
        The engine of that frame.
    kinds : mapping of str to Kind
        What each column is that was read so far.
    clocks : mapping of str to Clock
        How the frame writes times and lengths of time, for each such column that was read.
    categories : mapping of str to type
        The engine's types of the frame's categorical columns.
    door : Door or None
        The door through which an eager frame came in; None for a lazy one.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> table = OpenTable.of(pl.DataFrame({"timestamp": [datetime(1970, 1, 1, 1, tzinfo=UTC)]}), ["timestamp"])
    >>> table.rows.collect()["timestamp"].to_list()
    [3600000000000]
    >>> later = table.rows.select(until=nw.col("timestamp") + 1_000_000_000)
    >>> table.closed(later, times={"until": "timestamp"})["until"].to_list()
    [datetime.datetime(1970, 1, 1, 1, 0, 1, tzinfo=zoneinfo.ZoneInfo(key='UTC'))]
    """

    rows: nw.LazyFrame[Any]
    native: IntoFrameT
    engine: nw.Implementation
    kinds: Mapping[str, Kind] = field(repr=False)
    clocks: Mapping[str, Clock] = field(repr=False)
    categories: Mapping[str, Any] = field(repr=False)
    door: Door[IntoFrameT] | None = field(repr=False)

    @classmethod
    def of(
        cls,
        native: IntoFrameT | OpenTable[IntoFrameT],
        needed: Iterable[str] = (),
        *,
        numbers: Iterable[str] = (),
        times: Iterable[str] = (),
        optional: Iterable[str] = (),
        kinds: Mapping[str, Kind | None] | None = None,
        also: Iterable[str] = (),
        parameter: str = "frame",
        as_text: bool = True,
    ) -> OpenTable[IntoFrameT]:
        """Open a frame: check its columns, and read each as what it is.

        The name of a column says what it is, see `KINDS`; the arguments say what differs.

        Parameters
        ----------
        native : frame or OpenTable
            Eager or lazy, of any engine; or a frame that is open already, to read more of its columns.
        needed : iterable of str
            Columns it must have.
        numbers, times : iterable of str
            Columns it must have, of numbers and of times, whatever their names.
        optional : iterable of str
            Columns that it may have, which are then read too.
        kinds : mapping of str to Kind or None, optional
            What columns are that their names do not tell, such as ``side``; None leaves one as it is.
        also : iterable of str
            More columns that the caller will use. They are not checked; the hint of a MissingColumnError names calls
            that return them too.
        parameter : str
            The caller's name of the frame, for the message of an error.
        as_text : bool
            Whether categories become text. They need not if they are only compared with literals.

        Raises
        ------
        MissingColumnError
            If a column is absent.
        QueryError
            If ``native`` is not a frame, the names of its columns are not allowed (an SQL engine's must be in lower
            case), or a column cannot be read as what it is.
        """
        table = native if isinstance(native, OpenTable) else cls._opened(native, parameter, as_text=as_text)
        needed, numbers, times = (*needed, *numbers, *times), tuple(numbers), tuple(times)
        names = (
            table.frame.collect_schema().names()
        )  # of a frame in memory, quicker than the names of its plan
        require(needed, names, also=also, native=table.native)
        columns = (*needed, *(name for name in (*optional, *EVERYWHERE) if name in names))
        _refuse_outside(table.door, [*columns, *_KNOWN_COLUMNS], parameter)
        of_arguments = dict.fromkeys(numbers, Kind.NUMBER) | dict.fromkeys(times, Kind.TIME)
        own_kinds = {**KINDS, **of_arguments, **(kinds or {}), **dict.fromkeys(table.kinds)}
        new_kinds = {name: kind for name in columns if (kind := own_kinds.get(name)) is not None}
        return table._read(new_kinds, parameter) if new_kinds else table

    @classmethod
    def _opened(cls, native: IntoFrameT, parameter: str, *, as_text: bool) -> OpenTable[IntoFrameT]:
        """Open a frame of which no column is read yet."""
        frame = wrapped(native, parameter=parameter, kinds=_KINDS)
        door = Door.of(native, as_text=as_text) if isinstance(frame, nw.DataFrame) else None
        frame, engine = frame if door is None else nw.from_native(door.frame), frame.implementation
        schema = frame.collect_schema()
        # SQL ignores case: a caller's column Total would be read in place of a column total that a function adds.
        if door is None and in_sql(frame) and (cased := [name for name in schema if name != name.lower()]):
            expected = "names in lower case, for its engine does not tell them from others"
            raise QueryError(parameter, got=f"a column {cased[0]!r}", expected=expected, hint="rename it")
        categories = categories_of(frame, schema)
        # The engine can optimise a lazy query.
        rows = with_categories_as_text(frame.lazy(), categories if as_text else {})
        # If the door converts columns back, it restores the caller's categories too.
        door_restores = door is not None and door.originals
        return cls(rows, native, engine, {}, {}, {} if door_restores else categories, door)

    def _read(self, kinds: Mapping[str, Kind], parameter: str) -> OpenTable[IntoFrameT]:
        """Return the table with these columns read as their kinds."""
        times = [name for name, kind in kinds.items() if kind in {Kind.TIME, Kind.LENGTH}]
        door = None if self.door is None else self.door.with_counts(times)
        frame: Frame = nw.from_native(self.native if door is None else door.frame)
        schema = frame.collect_schema()
        types = schema if door is self.door else self.frame.collect_schema()
        clocks: dict[str, Clock] = {}
        readings: list[nw.Expr] = []
        words: dict[str, str | None] = {}
        for name, kind in kinds.items():
            values = None if door is None else door.frame[name]
            if kind is Kind.TIME:
                clocks[name] = clock_of(frame, name, schema[name], values=values, engine=self.engine.value)
            elif isinstance(dtype := schema[name], nw.Duration):
                clocks[name] = Clock(dtype.time_unit, is_length=True)
            if kind is not Kind.TIME or clocks[name].is_nanoseconds:
                reading = Column(name, kind, types[name], values, self.engine.value, parameter).read()
                readings += [] if reading is None else [reading]
                words |= {name: None} if reading is not None and kind in WORDS else {}
        rows = counted(self.rows, clocks)
        rows = with_all(rows, readings)
        table = replace(
            self, rows=rows, kinds={**self.kinds, **kinds}, clocks={**self.clocks, **clocks}, door=door
        )
        return table.with_text_columns(words) if words else table

    @property
    def frame(self) -> Frame:
        """The caller's frame, on polars if it is eager."""
        frame: Frame = nw.from_native(self.native if self.door is None else self.door.frame)
        return frame

    @property
    def is_eager(self) -> bool:
        """Whether the caller's frame is in memory."""
        return self.door is not None

    def same_nulls(self, names: Sequence[str]) -> dict[str, str]:
        """Return for each name the first that is null in the same rows; in a lazy frame, the name itself."""
        if not self.is_eager:
            return {name: name for name in names}
        nulls = self.rows.select(nw.col(*names).is_null()).collect()
        return {name: next(other for other in names if (nulls[other] == nulls[name]).all()) for name in names}

    def with_text_columns(
        self, words: Mapping[str, str | None], *, of: OpenTable[Any] | None = None
    ) -> OpenTable[IntoFrameT]:
        """Return the table for results that have new columns of text, or other texts in a column of the frame.

        Parameters
        ----------
        words : mapping of str to str or None
            For each column of a result, the column of the frame whose type it gets. None for a column of the frame that
            has other texts in the result, which may not be among its categories: it gets new categories.
        of : OpenTable, optional
            The table of the frame with these columns, if it is not this one.
        """
        categories, caller_types = dict(self.categories), (of or self).categories
        for name, like in words.items():
            if like is None and name in categories:
                categories[name] = None
            elif like is not None and like in caller_types:
                categories[name] = caller_types[like]
        door = None if self.door is None else self.door.like(words, of=None if of is None else of.door)
        return replace(self, categories=categories, door=door)

    @cached_property
    def lengths(self) -> nw.Expr:
        """Length of each row's ``interval``, which was read; 0 for null. [ns]"""
        words = [] if self.door is None else words_of(self.door.frame["interval"])
        return length_of(nw.col("interval"), words)

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """Names and types of the columns, in order; the engine is asked once."""
        return self.rows.collect_schema()

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema)

    def series_columns(
        self, by: str | Iterable[str] | None = None, *, without: Iterable[str] = ()
    ) -> list[str]:
        """Return the columns that tell one series from another: ``by``, or by default the frame's identity columns.

        Raises
        ------
        MissingColumnError
            If a column of ``by`` is absent.
        QueryError
            If ``by`` names a column twice or one of ``without``.
        """
        present = self.names
        left_out = tuple(without)
        if by is None:
            return [name for name in IDENTITY if name in present and name not in left_out]
        columns = as_list(by)
        if not are_apart(columns, left_out):
            expected = f"names, each once and none of {', '.join(map(repr, left_out))}"
            raise QueryError("by", got=columns, expected=expected)
        require(columns, present)
        _refuse_outside(self.door, columns, "by")
        if in_sql(self.rows) and (dotted := [name for name in columns if "." in name]):
            expected = "names without a dot, which SQL takes for a column of a table"
            raise QueryError("by", got=dotted[0], expected=expected, hint="rename it")
        return columns

    def collected(self, why: str) -> nw.DataFrame[Any]:
        """Return the rows in memory, for a computation that SQL engines cannot do.

        Parameters
        ----------
        why : str
            Why they cannot, e.g. ``"a fit is a loop"``.

        Raises
        ------
        QueryError
            If the frame belongs to DuckDB or Spark, because the caller must decide to collect its rows.
        """
        if dialect := dialect_of(self.rows):
            raise QueryError(
                "frame",
                got=f"a frame of {self.engine.value}",
                expected="a frame of polars, pandas or pyarrow",
                hint=f"{why}: collect it first, e.g. with {dialect.collect_call}",
            )
        return self.rows.collect()

    def closed(
        self,
        result: nw.LazyFrame[Any] | nw.DataFrame[Any],
        *,
        sort: Sequence[str] = (),
        times: Mapping[str, str] | None = None,
        like_rows: bool = False,
        in_parts: bool = False,
        main: Sequence[str] = (),
    ) -> IntoFrameT:
        """Return a result as a frame of the caller's kind, with the caller's types of time and categories.

        Its columns are in the order of `tidytape.schema.ordered`. If they are the frame's columns and no others, they
        keep the frame's order.

        Parameters
        ----------
        result : narwhals LazyFrame, or DataFrame made of `collected` rows
        sort : sequence of str
            Columns to sort by, where rows have an order.
        times : mapping of str to str, optional
            New columns of nanoseconds, each with the column whose type of time it takes.
        like_rows : bool
            Whether the rows are the frame's rows, in its order; a pandas frame then keeps its index.
        in_parts : bool
            Whether polars computes an eager result in parts, which takes less memory.
        main : sequence of str
            The results that a user came for, at most four, the most wanted last; those that are there come last.
        """
        engine = "streaming" if in_parts else "auto"
        if sort and self.door is not None:
            collected = result.lazy().collect("polars", engine=engine)
            result = nw.from_native(in_order(collected.to_native(), sort))
        elif sort:
            result = result.sort(*sort)
        clocks = {**self.clocks} | {name: self.clocks[like] for name, like in (times or {}).items()}
        clocks = {name: clock for name, clock in clocks.items() if not clock.is_nanoseconds}
        if clocks:
            names = result.collect_schema().names()
            clocks = {name: clock for name, clock in clocks.items() if name in names}
            result = dated(result.lazy(), clocks)
        rows = with_text_as_categories(result.lazy(), self.categories)
        if self.door is None:
            return cast("IntoFrameT", self._arranged(rows, sort, main).to_native())
        collected = self._arranged(rows.collect("polars", engine=engine), sort, main)
        return self.door.like(times or {}).restored(collected.to_native(), like_rows=like_rows)

    def _arranged(self, result: Any, sort: Sequence[str], main: Sequence[str]) -> Any:
        """Return a result with its columns in their order."""
        names, own_names = result.collect_schema().names(), self.frame.collect_schema().names()
        if set(names) == set(own_names):
            return result.select(own_names)
        key = [name for name in sort if name not in _NAMES_OF_SERIES]
        return result.select(ordered(names, key=key, main=main))


class Tabular(Protocol[P]):
    """A public function that `tabular` makes of a core."""

    core: Callable[Concatenate[Rows, P], Rows]

    def __call__(self, frame: IntoFrameT, /, *args: P.args, **kwargs: P.kwargs) -> IntoFrameT:
        """Open the frame, call the core with its rows, and close the result."""


def tabular(
    needed: Sequence[str] | Callable[..., Sequence[str]],
    *,
    kinds: Mapping[str, Kind | None] | Callable[..., Mapping[str, Kind | None]] | None = None,
    optional: Sequence[str] = (),
    check: Callable[..., OpenTable[Any]] | None = None,
    new_times: Mapping[str, str] | None = None,
    sort: Sequence[str] = (),
    in_parts: bool = False,
    main: Sequence[str] | Callable[..., Sequence[str]] = (),
) -> Callable[[Callable[Concatenate[Rows, P], Rows]], Tabular[P]]:
    """Make a public function of a core: it opens the caller's frame, calls the core and closes the result.

    ``function.core`` is the core itself, for callers such as the service, whose rows are lazy and have known columns.

    Parameters
    ----------
    needed : iterable of str, or function
        Columns that the frame must have; or a function that returns them for the keyword arguments of a call. Each is
        read as what its name says.
    kinds, optional
        As in `OpenTable.of`; ``kinds`` may be a function of the keyword arguments too.
    check : function, optional
        A function of the `OpenTable` and of the keyword arguments of a call that raises QueryError, and returns the
        table to go on with.
    new_times, sort, in_parts, main
        As ``times``, ``sort``, ``in_parts`` and ``main`` of `OpenTable.closed`; ``main`` may be a function of the
        keyword arguments too.

    Examples
    --------
    >>> import polars as pl
    >>> @tabular(["price"])
    ... def doubled(trades: Rows, /) -> Rows:
    ...     return trades.with_columns(nw.col("price") * 2)
    >>> doubled(pl.DataFrame({"price": [1.5]}))["price"].to_list()
    [3.0]
    """

    def tabulate(core: Callable[Concatenate[Rows, P], Rows]) -> Tabular[P]:
        def function(frame: IntoFrameT, /, *args: P.args, **kwargs: P.kwargs) -> IntoFrameT:
            signature.bind(frame, *args, **kwargs)  # raises TypeError before anything is read
            columns = needed(**kwargs) if callable(needed) else needed
            own_kinds = kinds(**kwargs) if callable(kinds) else kinds
            table = OpenTable.of(frame, columns, kinds=own_kinds, optional=optional)
            if check is not None:
                table = check(table, **kwargs)
            return table.closed(
                core(table.rows, *args, **kwargs),
                sort=sort,
                times=new_times,
                in_parts=in_parts,
                main=main(**kwargs) if callable(main) else main,
            )

        signature = inspect.signature(core)
        first, *others = signature.parameters.values()
        parameters = [first.replace(annotation="IntoFrameT"), *others]
        public = cast("Any", update_wrapper(cast("Any", function), core))
        public.__signature__ = signature.replace(parameters=parameters, return_annotation="IntoFrameT")
        public.core = core
        return cast("Tabular[P]", public)

    return tabulate


def planned(
    core: Callable[Concatenate[Rows, P], Rows], rows: pl.LazyFrame, *args: P.args, **kwargs: P.kwargs
) -> pl.LazyFrame:
    """Return the result of a core for rows of the lake; their columns are known, so nothing is checked."""
    result: pl.LazyFrame = core(nw.from_native(rows), *args, **kwargs).to_native()
    return result


def _refuse_outside(door: Door[Any] | None, names: Iterable[str], parameter: str) -> None:
    """Raise QueryError if polars cannot hold one of the columns."""
    outside = {} if door is None else door.outside
    if name := next((name for name in names if name in outside), None):
        raise QueryError(parameter, got=f"{name}: {outside[name]}", expected=f"{READABLE} in column {name}")
