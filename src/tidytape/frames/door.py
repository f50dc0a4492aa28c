"""The one door for eager frames: pandas and pyarrow frames become polars frames, and results are converted back.

Behind this module every eager frame is polars; no other module knows pandas or pyarrow. docs/reference/pandas.md has
the policy as a table. This module also checks what every frame must have: column names that are unique strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, cast

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.sources import missing

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_EXACT: Final = 2**53
"""Up to here a float can be any whole number."""

_ROW: Final = "__row"


class _Own(NamedTuple):
    """How to convert a column back to the caller's type; it applies while the column still has its polars type."""

    inside: pl.DataType
    type: Any
    """A type of pandas or pyarrow; None for a new category."""
    column: Any = None
    """The caller's column, if polars cannot hold it; rows are then taken from it by their numbers."""


@dataclass(frozen=True)
class Door(Generic[IntoFrameT]):
    """A caller's eager frame, its polars version, and how to convert results back.

    Attributes
    ----------
    native : frame of polars, pandas or pyarrow
        The caller's frame.
    frame : polars DataFrame
        The same columns and rows. Categories become their values, and times with a zone become UTC. A column that
        polars cannot hold is replaced by a struct that holds the number of the row.
    own : mapping of str to _Own
        How to convert each column back; empty for polars frames, which need no conversion.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"word": pd.Categorical(["b", None]), "day": pd.period_range("2024-08-08", periods=2)})
    >>> door = Door.of(frame)
    >>> door.outside
    {'day': 'period[D]'}
    >>> door.back(door.frame.reverse())["day"].astype(str).to_list()
    ['2024-08-09', '2024-08-08']
    """

    native: IntoFrameT
    frame: pl.DataFrame = field(repr=False)
    own: Mapping[str, _Own] = field(repr=False)

    @classmethod
    def of(cls, native: IntoFrameT, *, as_text: bool = True) -> Door[IntoFrameT]:
        """Convert a frame of polars, pandas or pyarrow whose column names are strings.

        Parameters
        ----------
        native : frame
        as_text : bool
            Whether categories of pandas become text, which can be joined with other text; else they become enums,
            which compare faster.
        """
        import polars as pl

        if nw.dependencies.is_polars_dataframe(native):
            return cls(native, native, {})
        is_pandas = nw.dependencies.is_pandas_dataframe(native)
        given: Any = native
        columns, own = {}, {}
        for name in given.columns if is_pandas else given.column_names:
            column = given[name]
            inside = _from_pandas(column, as_text=as_text) if is_pandas else _from_arrow(column)
            is_outside = inside is None
            if inside is None:
                inside = pl.Series(_ROW, np.arange(len(column))).to_frame().to_struct()
            type_ = column.dtype if is_pandas else column.type
            columns[name] = inside
            own[name] = _Own(_plain(inside.dtype), type_, column if is_outside else None)
        return cls(native, pl.DataFrame(columns), own)

    @property
    def outside(self) -> dict[str, str]:
        """Columns that polars cannot hold, with their types."""
        return {name: str(own.type) for name, own in self.own.items() if own.column is not None}

    def with_counts(self, names: Iterable[str]) -> Door[IntoFrameT]:
        """Return the door with float columns that have nulls as int64, if all their other values are integers.

        pandas keeps integers with nulls as floats, because numpy integers have no null. Columns with values beyond
        2**53 stay floats, because there a float may stand for several integers.
        """
        import polars as pl

        floats = [self.frame[name] for name in names if self.own and self.frame[name].dtype == pl.Float64]
        lacking = [column for column in floats if column.null_count()]
        counts = [(column, column.cast(pl.Int64, strict=False)) for column in lacking]
        whole = [
            count
            for column, count in counts
            if count.cast(pl.Float64).equals(column) and (count.abs() <= _EXACT).all()
        ]
        return replace(self, frame=self.frame.with_columns(whole)) if whole else self

    def like(self, names: Mapping[str, str | None], *, of: Door[Any] | None = None) -> Door[IntoFrameT]:
        """Return a door that converts columns of a result back to the types of other columns.

        Parameters
        ----------
        names : mapping of str to str or None
            For each column of a result, the caller's column whose type it gets. None for a column of categories that
            gets new categories, made of its own values.
        of : Door, optional
            The door of the frame that has these caller's columns, if it is not this one.
        """
        own, known = dict(self.own), (of or self).own
        for name, like in names.items():
            if like is not None and like in known:
                own[name] = known[like]
            elif like is None and name in own and _is_category(own[name].type):
                own[name] = own[name]._replace(type=None)
        return replace(self, own=own)

    def back(self, frame: pl.DataFrame, *, like_rows: bool = False) -> IntoFrameT:
        """Convert a polars frame to the kind of the caller's frame.

        Parameters
        ----------
        frame : polars DataFrame
        like_rows : bool
            Whether its rows are the caller's rows in the caller's order; a pandas frame then keeps its index.
        """
        if nw.dependencies.is_polars_dataframe(self.native):
            return cast("IntoFrameT", frame)
        if not nw.dependencies.is_pandas_dataframe(self.native):
            import pyarrow as pa

            return cast("IntoFrameT", pa.table({column.name: self._as_arrow(column) for column in frame}))
        import pandas as pd

        index = self.native.index if like_rows else pd.RangeIndex(len(frame))
        columns = {column.name: self._as_pandas(column, like_rows=like_rows) for column in frame}
        for column in columns.values():
            column.index = index
        return cast("IntoFrameT", pd.DataFrame(columns, index=index, copy=False))

    def _as_pandas(self, column: pl.Series, *, like_rows: bool) -> pd.Series[Any]:
        import pandas as pd

        own = self._own(column)
        if own is None:
            return _to_pandas(column)
        if like_rows and column.name in self.frame.columns and column.equals(self.frame[column.name]):
            return cast("pd.Series[Any]", cast("Any", self.native)[column.name].copy())
        if own.column is not None:
            rows = column.struct.field(_ROW)
            missing = bool(rows.null_count())
            taken = own.column.array.take(rows.fill_null(-1).to_numpy(), allow_fill=missing)
            return pd.Series(taken, dtype=None if missing else own.type)
        return _to_pandas_type(column, own.type)

    def _as_arrow(self, column: pl.Series) -> Any:
        own = self._own(column)
        if own is None:
            return column.to_arrow()
        if own.column is not None:
            return own.column.take(column.struct.field(_ROW).to_arrow())
        return _to_arrow_type(column, own.type)

    def _own(self, column: pl.Series) -> _Own | None:
        """Return how to convert a column back, or None if the caller had no column of its name and polars type."""
        own = self.own.get(column.name)
        return own if own is not None and own.inside == _plain(column.dtype) else None


def comes_in(value: Any) -> bool:
    """Return whether a value is a pandas or pyarrow frame, which is converted to polars."""
    return nw.dependencies.is_pandas_dataframe(value) or nw.dependencies.is_pyarrow_table(value)


def _plain(dtype: pl.DataType) -> pl.DataType:
    """Return a polars type, with String for categoricals and enums."""
    import polars as pl

    return pl.String() if isinstance(dtype, pl.Categorical | pl.Enum) else dtype


def _is_category(type_: Any) -> bool:
    """Return whether a type of pandas or pyarrow is categorical."""
    type_ = getattr(type_, "pyarrow_dtype", type_)
    return hasattr(type_, "categories") or hasattr(type_, "index_type")


def _from_pandas(column: pd.Series[Any], *, as_text: bool = True) -> pl.Series | None:
    """Convert a pandas column to polars, with null for NaN; return None if polars cannot hold it."""
    import pandas as pd
    import polars as pl

    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categories = _from_pandas(pd.Series(dtype.categories))
        if categories is None:
            return None
        if categories.is_empty():
            categories = categories.cast(pl.String)
        if categories.dtype == pl.String and not as_text:
            categories = categories.cast(pl.Enum(categories))
        codes = column.cat.codes.to_numpy()
        # pandas codes a null as -1, which becomes null when polars casts it to UInt32. numpy casts faster but has no
        # null, so it casts only where there is none.
        has_null = codes.min(initial=0) < 0
        numbers = pl.Series(codes if has_null else codes.astype(np.uint32)).cast(pl.UInt32, strict=False)
        return categories.gather(numbers)
    if isinstance(dtype, pd.DatetimeTZDtype):
        instants = _from_pandas(column.dt.tz_convert(None))
        return None if instants is None else instants.dt.replace_time_zone("UTC")
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        if dtype.itemsize > 8:
            return None
        values = column.to_numpy()
        if dtype.kind in "mM" and "[s]" in dtype.str:
            values = values.astype(dtype.str.replace("[s]", "[ms]"))
        return pl.Series(np.ascontiguousarray(values, values.dtype.newbyteorder("=")), nan_to_null=True)
    return _of_arrow_memory(column)


def _of_arrow_memory(column: pd.Series[Any]) -> pl.Series | None:
    """Convert a pandas column of text, objects or a nullable type through pyarrow; None if polars cannot hold it."""
    import pyarrow as pa

    try:
        values = pa.array(column, from_pandas=True)
    # The class of pyarrow's error depends on the type and on the value.
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        return None
    # A column of dicts would become structs, and come back with the union of all keys in every dict.
    if column.dtype == np.dtype(object) and (pa.types.is_struct(values.type) or pa.types.is_map(values.type)):
        return None
    found = _from_arrow(values)
    return found.fill_nan(None) if found is not None and found.dtype.is_float() else found


def _from_arrow(column: Any) -> pl.Series | None:
    """Convert a pyarrow column to polars; return None if polars cannot hold it."""
    import polars as pl
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        return None
    # polars knows time zones by name only, not by offset.
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    try:
        return cast("pl.Series", pl.from_arrow(column))
    except pl.exceptions.PolarsError:
        return None


def _to_pandas(column: pl.Series) -> pd.Series[Any]:
    """Return a pandas column of a numpy type; integers and booleans with nulls get a nullable pandas type."""
    import pandas as pd
    import polars as pl

    is_flag = column.dtype == pl.Boolean
    if column.null_count() and (is_flag or column.dtype.is_integer()):
        nulls, zero = column.is_null().to_numpy(writable=True), False if is_flag else 0
        nullable: Any = pd.arrays.BooleanArray if is_flag else pd.arrays.IntegerArray
        return pd.Series(nullable(column.fill_null(zero).to_numpy(writable=True), nulls))
    if is_flag or column.dtype.is_integer() or column.dtype.is_float():
        return pd.Series(column.to_numpy(writable=True))
    return column.to_pandas()


def _to_pandas_type(column: pl.Series, dtype: Any) -> pd.Series[Any]:
    """Return a column in a pandas type; with None, as a categorical of its own values."""
    import pandas as pd
    import polars as pl

    if isinstance(dtype, pd.ArrowDtype):
        return pd.Series(pd.arrays.ArrowExtensionArray(_to_arrow_type(column, dtype.pyarrow_dtype)))
    if isinstance(dtype, pd.CategoricalDtype) and _plain(column.dtype) == pl.String:
        codes = column.cast(pl.Enum(dtype.categories.to_list()), strict=False)
        if codes.null_count() == column.null_count():
            codes = codes.to_physical().cast(pl.Int64).fill_null(-1)
            return pd.Series(pd.Categorical.from_codes(codes.to_numpy(), dtype=dtype))
        dtype = None  # a value is not among the caller's categories
    if dtype is None:
        return column.cast(pl.String).to_pandas().astype("category")
    if isinstance(dtype, pd.DatetimeTZDtype):
        instants = pd.Series(column.dt.replace_time_zone(None).to_numpy(writable=True))
        return instants.dt.tz_localize("UTC").astype(dtype)
    if dtype == np.dtype(object):
        return pd.Series(column.to_list(), dtype=object)
    values = _to_pandas(column)
    # numpy integers and booleans have no null.
    has_none = isinstance(dtype, np.dtype) and dtype.kind in "biu" and column.null_count()
    return values if has_none else values.astype(dtype)


def _to_arrow_type(column: pl.Series, type_: Any) -> Any:
    """Return a column in a pyarrow type; with None, as a dictionary of its own values."""
    import polars as pl
    import pyarrow as pa

    if type_ is None:
        return column.cast(pl.Categorical()).to_arrow()
    values = (
        column.cast(pl.String) if isinstance(column.dtype, pl.Categorical | pl.Enum) else column
    ).to_arrow()
    if not pa.types.is_dictionary(type_):
        return values.cast(type_, safe=False)
    coded = values.dictionary_encode()
    indices, words = coded.indices.cast(type_.index_type), coded.dictionary.cast(type_.value_type)
    return pa.DictionaryArray.from_arrays(indices, words, ordered=type_.ordered)


INSTRUMENT = ("exchange", "raw_symbol")
"""Columns that name one instrument."""

BUCKET = "__bucket"
"""Working name of the bucket start, while ``timestamp`` is still the event's own time."""

READABLE: Final = "numbers, texts, flags or times"
"""What a column must hold to be read."""

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


def wrapped(
    native: Any,
    *,
    parameter: str = "frame",
    kinds: str = "a frame, eager or lazy, of an engine Narwhals knows",
) -> Frame:
    """Wrap a native frame with Narwhals; raise QueryError if it is no frame, or if a column name is not allowed."""
    try:
        frame: Frame = nw.from_native(native)
    except TypeError:
        kind = f"{type(native).__module__}.{type(native).__qualname__}"
        raise QueryError(parameter, got=kind, expected=kinds) from None
    except DuplicateError:
        raise _name_error(parameter, "two columns of one name") from None
    engine = frame.implementation
    if isinstance(frame, nw.DataFrame) and not (engine.is_polars() or comes_in(native)):
        raise QueryError(parameter, got=f"a frame of {engine.value}", expected=kinds)
    # SQL engines list their own columns, because of duplicate names in DuckDB Narwhals shows only the last.
    names = list(native.columns if in_sql(frame) else frame.columns)
    if strange := [name for name in names if not isinstance(name, str)]:
        raise _name_error(parameter, f"a column {strange[0]!r}")
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise _name_error(parameter, f"two columns {twice!r}")
    if odd := next(filter(_is_odd, names), None):
        raise _name_error(parameter, f"a column {odd!r}")
    return frame


def in_sql(frame: Frame) -> bool:
    """Return whether a frame belongs to an SQL engine: DuckDB or Spark."""
    return frame.implementation.is_duckdb() or frame.implementation.is_spark_like()


def _is_odd(name: str) -> bool:
    """Return whether a name could be that of a working column, or polars would read it as a pattern."""
    is_working = name.startswith("__") and not name.endswith(
        "__"
    )  # pandas writes its index as __index_level_0__
    return is_working or name == "*" or (name.startswith("^") and name.endswith("$"))


def _name_error(parameter: str, got: str) -> QueryError:
    """Return the error for a column name that is not allowed."""
    expected = "columns of which each has a text as its name, and none like '__name', '^name$' or '*'"
    hint = "rename or drop them; of columns of several levels keep one, or join the levels to one text"
    return QueryError(parameter, got=got, expected=expected, hint=hint)


def require(names: Iterable[Any], available: Sequence[str], *, also: Iterable[str] = ()) -> None:
    """Raise MissingColumnError unless ``available`` has all these columns.

    The error suggests functions that return a frame with these columns and with ``also``, which are not checked.
    """
    names = list(names)
    # A name that is not a string cannot be a column, and may not be hashable.
    if strange := [name for name in names if not isinstance(name, str)]:
        raise MissingColumnError(strange, available=available)
    if absent := [name for name in dict.fromkeys(names) if name not in available]:
        raise missing(absent, needed=[*names, *also], available=available)


def are_apart(names: Sequence[Any], taken: Iterable[Any]) -> bool:
    """Return whether names are unique and none is taken; names that are not strings are ignored."""
    texts = [name for name in names if isinstance(name, str)]
    return len(set(texts)) == len(texts) and not any(name in texts for name in taken if isinstance(name, str))


def listed(got: Any) -> list[Any]:
    """Return one column name, or several, as a list; other values go into the list unchecked."""
    try:
        return [got] if isinstance(got, str | bytes) else list(got)
    except TypeError:
        return [got]
