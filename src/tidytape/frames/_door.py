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
from tidytape.frames._dialects import Frame, in_sql
from tidytape.frames._sources import missing

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_EXACT: Final = 2**53
"""Up to this number, a float can hold every integer exactly."""

_ROW: Final = "__row"

_OWN_VALUES: Final = "category"
"""Stands for a categorical type whose categories are the values that the column has."""


class _Original(NamedTuple):
    """A column's type in the caller's frame; a column of a result gets it if its polars type is still ``inside``."""

    inside: pl.DataType
    type: Any
    """A type of pandas or pyarrow, or `_OWN_VALUES`."""
    column: Any = None
    """The caller's column, if polars cannot hold it; a result then takes its values from it by row number."""


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
    originals : mapping of str to _Original
        How to convert each column back; empty for polars frames, which need no conversion.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"word": pd.Categorical(["b", None]), "day": pd.period_range("2024-08-08", periods=2)})
    >>> door = Door.of(frame)
    >>> door.outside
    {'day': 'period[D]'}
    >>> door.restored(door.frame.reverse())["day"].astype(str).to_list()
    ['2024-08-09', '2024-08-08']
    """

    native: IntoFrameT
    frame: pl.DataFrame = field(repr=False)
    originals: Mapping[str, _Original] = field(repr=False)

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
        frame: Any = native
        columns, originals = {}, {}
        for name in frame.columns if is_pandas else frame.column_names:
            column = frame[name]
            series = _from_pandas(column, as_text=as_text) if is_pandas else _from_arrow(column)
            inside = pl.DataFrame({_ROW: np.arange(len(column))}).to_struct() if series is None else series
            type_ = column.dtype if is_pandas else column.type
            columns[name] = inside
            originals[name] = _Original(_plain(inside.dtype), type_, column if series is None else None)
        return cls(native, pl.DataFrame(columns), originals)

    @property
    def outside(self) -> dict[str, str]:
        """Columns that polars cannot hold, with their types."""
        return {
            name: str(original.type)
            for name, original in self.originals.items()
            if original.column is not None
        }

    def with_counts(self, names: Iterable[str]) -> Door[IntoFrameT]:
        """Return the door with float columns cast to int64, if they have nulls and all their other values are integers.

        pandas keeps integers with nulls as floats, because numpy integers have no null. Columns with values beyond
        2**53 stay floats, because there a float may stand for several integers.
        """
        import polars as pl

        if not self.originals:
            return self
        columns = [self.frame[name] for name in names]
        with_nulls = [column for column in columns if column.dtype == pl.Float64 and column.null_count()]
        counts = [(column, column.cast(pl.Int64, strict=False)) for column in with_nulls]
        integers = [
            count
            for column, count in counts
            if count.cast(pl.Float64).equals(column) and (count.abs() <= _EXACT).all()
        ]
        return replace(self, frame=self.frame.with_columns(integers)) if integers else self

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
        originals, caller_columns = dict(self.originals), (of or self).originals
        for name, like in names.items():
            if like is not None and like in caller_columns:
                originals[name] = caller_columns[like]
            elif like is None and name in originals and _is_category(originals[name].type):
                originals[name] = originals[name]._replace(type=_OWN_VALUES)
        return replace(self, originals=originals)

    def restored(self, frame: pl.DataFrame, *, like_rows: bool = False) -> IntoFrameT:
        """Convert a polars frame to the kind of the caller's frame.

        Parameters
        ----------
        frame : polars DataFrame
        like_rows : bool
            Whether the rows of ``frame`` are the caller's rows in the caller's order; a pandas frame then keeps its
            index.
        """
        native: Any = self.native
        if nw.dependencies.is_polars_dataframe(native):
            return cast("IntoFrameT", frame)
        if not nw.dependencies.is_pandas_dataframe(native):
            import pyarrow as pa

            arrays = {column.name: _to_arrow(column, self._original(column)) for column in frame}
            return cast("IntoFrameT", pa.table(arrays))
        import pandas as pd

        index = native.index if like_rows else pd.RangeIndex(len(frame))
        columns: dict[str, Any] = {}
        for column in frame:
            name = column.name
            is_same = like_rows and name in self.frame and column.equals(self.frame[name])
            columns[name] = native[name].copy() if is_same else _to_pandas(column, self._original(column))
            if isinstance(columns[name], pd.Series):
                columns[name].index = index
        return cast("IntoFrameT", pd.DataFrame(columns, index=index, copy=False))

    def _original(self, column: pl.Series) -> _Original | None:
        """Return the caller's type of a column; None if the caller has no column with its name and polars type."""
        original = self.originals.get(column.name)
        return original if original is not None and original.inside == _plain(column.dtype) else None


def _plain(dtype: pl.DataType) -> pl.DataType:
    """Return a polars type, with String for categoricals and enums."""
    import polars as pl

    return pl.String() if isinstance(dtype, pl.Categorical | pl.Enum) else dtype


def _is_category(type_: Any) -> bool:
    """Return whether a type of pandas or pyarrow is categorical."""
    type_ = getattr(type_, "pyarrow_dtype", type_)
    return hasattr(type_, "categories") or hasattr(type_, "index_type")


def _from_pandas(column: pd.Series[Any], *, as_text: bool) -> pl.Series | None:
    """Convert a pandas column to polars, with null for NaN; return None if polars cannot hold it."""
    import polars as pl
    import pyarrow as pa

    dtype: Any = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8:
        return pl.Series(np.ascontiguousarray(column, dtype.newbyteorder("=")), nan_to_null=True)
    try:
        values = pa.array(column, from_pandas=True)
    # The class of pyarrow's error depends on the type and on the value.
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        return None
    # A column of dicts would become structs, and come back with the union of all keys in every dict.
    if dtype == np.dtype(object) and (pa.types.is_struct(values.type) or pa.types.is_map(values.type)):
        return None
    if not isinstance(values, pa.DictionaryArray):
        series = _from_arrow(values)
        return series.fill_nan(None) if series is not None and series.dtype.is_float() else series
    categories = _from_arrow(values.dictionary)
    if categories is None:
        return None
    if categories.is_empty():
        categories = categories.cast(pl.String)
    if categories.dtype == pl.String and not as_text:
        categories = categories.cast(pl.Enum(categories))
    return categories.gather(pl.Series(values.indices))


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


def _to_pandas(column: pl.Series, original: _Original | None) -> Any:
    """Return the values of a column in the caller's type, or in a numpy type if the caller has no such column.

    The values are an array; only objects are a series, because pandas would guess a type for an array of objects.
    Integers and booleans with nulls get a nullable pandas type in place of a numpy type, which has no null.
    """
    import pandas as pd
    import polars as pl

    if original is not None and original.column is not None:
        rows = column.struct.field(_ROW)
        has_null = bool(rows.null_count())
        objects = original.column.array.take(rows.fill_null(-1).to_numpy(), allow_fill=has_null)
        return pd.Series(objects, dtype=None if has_null else original.type)
    dtype = None if original is None else original.type
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(_to_arrow(column, original))
    if isinstance(dtype, pd.CategoricalDtype) and _plain(column.dtype) == pl.String:
        enums = column.cast(pl.Enum(dtype.categories.to_list()), strict=False)
        if enums.null_count() == column.null_count():
            codes = enums.to_physical().cast(pl.Int64).fill_null(-1)
            return pd.Categorical.from_codes(codes.to_numpy(), dtype=dtype, validate=False)
        dtype = _OWN_VALUES  # some value is not among the caller's categories
    if dtype == np.dtype(object):
        return pd.Series(column.to_list(), dtype=object)
    is_integral = column.dtype == pl.Boolean or column.dtype.is_integer()
    values: Any
    if is_integral and column.null_count():
        nullable: Any = pd.api.types.pandas_dtype(str(column.dtype).replace("Boolean", "boolean"))
        values = nullable.__from_arrow__(column.to_arrow())
        dtype = None if isinstance(dtype, np.dtype) else dtype
    else:
        has_numpy_type = is_integral or column.dtype.is_float()
        values = column.to_numpy(writable=True) if has_numpy_type else column.to_pandas().array
    if dtype is None or values.dtype == dtype:
        return values
    series: Any = pd.Series(values)
    return series.astype(dtype).array


def _to_arrow(column: pl.Series, original: _Original | None) -> Any:
    """Return the values of a column in the caller's type, or in polars' own type if the caller has no such column."""
    import polars as pl
    import pyarrow as pa

    if original is None:
        return column.to_arrow()
    if original.column is not None:
        return original.column.take(column.struct.field(_ROW).to_arrow())
    if original.type == _OWN_VALUES:
        return column.cast(pl.Categorical()).to_arrow()
    values = (column if column.dtype == original.inside else column.cast(original.inside)).to_arrow()
    type_ = getattr(original.type, "pyarrow_dtype", original.type)
    if not pa.types.is_dictionary(type_):
        return values.cast(type_, safe=False)
    encoded = values.dictionary_encode()
    indices, dictionary = encoded.indices.cast(type_.index_type), encoded.dictionary.cast(type_.value_type)
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=type_.ordered)


MARKET = ("exchange", "raw_symbol")
"""Columns that name one market."""

OHLC: Final = ("open", "high", "low", "close")
"""Columns of four prices, or of four amounts of a stock, in the course of an interval."""

BUCKET = "__bucket"
"""Working name of the bucket start, while ``timestamp`` is still the event's own time."""

READABLE: Final = "numbers, texts, flags or times"
"""What a column must hold to be read."""


def wrapped(
    native: Any,
    *,
    parameter: str = "frame",
    kinds: str = "a frame, eager or lazy, of an engine Narwhals knows",
) -> Frame:
    """Wrap a native frame with Narwhals; raise QueryError if it is not a frame, or if a column name is not allowed."""
    kind = f"{type(native).__module__}.{type(native).__qualname__}"
    try:
        frame: Frame = nw.from_native(native)
    except TypeError:
        raise QueryError(parameter, got=kind, expected=kinds, hint=frame_of(native)) from None
    except DuplicateError:
        raise _name_error(parameter, "two columns of one name") from None
    engine = frame.implementation
    if isinstance(frame, nw.DataFrame) and not (
        engine.is_polars() or engine.is_pandas() or engine.is_pyarrow()
    ):
        raise QueryError(parameter, got=f"a frame of {engine.value}", expected=kinds)
    # Ask the SQL engine itself for its columns: if several columns of DuckDB have one name, Narwhals shows only the
    # last.
    is_in_sql = isinstance(frame, nw.LazyFrame) and in_sql(frame)
    names = list(native.columns if is_in_sql else frame.columns)
    for index, name in enumerate(names):
        if name in names[:index] or not isinstance(name, str) or _is_forbidden(name):
            raise _name_error(parameter, f"{'two columns' if name in names[:index] else 'a column'} {name!r}")
    return frame


def frame_of(value: object) -> str | None:
    """Return how a frame is made of a value that is none; None if it is not known."""
    return {
        "Series": "pass the whole frame, not one column of it",
        "FetchQuery": "pass client.fetch(query).frame",
        "Fetched": "pass its frame, fetched.frame",
    }.get(type(value).__name__)


def _is_forbidden(name: str) -> bool:
    """Return whether a name is not allowed: working columns have such names, or polars would read it as a pattern."""
    # Names such as __index_level_0__ are allowed: pandas writes its index under them.
    is_working = name.startswith("__") and not name.endswith("__")
    return is_working or name == "*" or (name.startswith("^") and name.endswith("$"))


def _name_error(parameter: str, description: str) -> QueryError:
    """Return the error for a column name that is not allowed."""
    expected = "columns of which each has a text as its name, and none like '__name', '^name$' or '*'"
    return QueryError(
        parameter,
        got=description,
        expected=expected,
        hint="rename or drop them; of columns of several levels keep one, or join the levels to one text",
    )


def require(
    names: Iterable[Any], available: Sequence[str], *, also: Iterable[str] = (), native: Any = None
) -> None:
    """Raise MissingColumnError unless ``available`` has all these columns.

    The error suggests functions that return a frame with these columns and with ``also``, which are not checked. If one
    of the columns is in the index of ``native``, a pandas frame, the error suggests making the index a column.
    """
    names = list(names)
    # A name that is not a string cannot be a column, and may not be hashable.
    if non_strings := [name for name in names if not isinstance(name, str)]:
        raise MissingColumnError(non_strings, available=available)
    if missing_names := [name for name in dict.fromkeys(names) if name not in available]:
        if index_names := [name for name in missing_names if name in _index_names(native)]:
            raise MissingColumnError(
                index_names,
                available=available,
                hint=f"{index_names[0]!r} is in the index: frame.reset_index() makes it a column",
                has_nearest=False,
            )
        raise missing(missing_names, needed=[*names, *also], available=available)


def _index_names(native: Any) -> Sequence[Any]:
    """Return the names of the levels of a pandas frame's index."""
    return tuple(native.index.names) if nw.dependencies.is_pandas_dataframe(native) else ()


def are_apart(names: Sequence[Any], others: Iterable[Any]) -> bool:
    """Return whether names are unique and none is among the others; names that are not strings are ignored."""
    texts = [name for name in names if isinstance(name, str)]
    return len(set(texts)) == len(texts) and not any(
        name in texts for name in others if isinstance(name, str)
    )


def as_list(argument: Any) -> list[Any]:
    """Return an argument as a list: the values of an iterable, or the argument alone; a string is one value."""
    try:
        return [argument] if isinstance(argument, str | bytes) else list(argument)
    except TypeError:
        return [argument]
