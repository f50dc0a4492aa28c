"""Categories as plain text, and back, on every engine.

Categories of two frames do not meet, those of pandas are sorted by when each was first seen or as somebody said, and
an Enum takes no other word. So inside, words are text, which engines sort, join and compare alike. At the doors they
are what the caller has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.frames.times import quoted, replaced

__all__ = ["categories_of", "categorised", "worded"]


_TEXTS = {"string", "large_string", "string_view"}
_SHARED = "Categorical"  # as polars calls its own; those of a caller's Categories have their names behind


def categories_of(frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> dict[str, Any]:
    """Return the columns of words that a frame keeps as categories, each with its type in the engine."""
    names = [
        name for name, dtype in frame.collect_schema().items() if isinstance(dtype, nw.Categorical | nw.Enum)
    ]
    if not names:
        return {}
    native, engine = frame.to_native(), frame.implementation
    if engine.is_polars():
        types = native.collect_schema()
    elif engine.is_pandas():
        types = native.dtypes
    elif engine.is_duckdb():
        types = dict(zip(native.columns, native.types, strict=True))
    else:
        types = {field.name: field.type for field in native.schema}
    return {name: types[name] for name in names if _is_of_text(types[name])}


def _is_of_text(dtype: Any) -> bool:
    """Return whether categories are words: those of pandas and arrow may be anything."""
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    if (value := getattr(dtype, "value_type", None)) is not None:
        return str(value) in _TEXTS
    kind = getattr(getattr(dtype, "categories", None), "inferred_type", "string")
    return kind in {"string", "empty"}


def _has(dtype: Any, words: Any) -> bool:
    """Return whether a type of pandas has all these words."""
    categories = getattr(dtype, "categories", None)
    return categories is None or bool(words.dropna().isin(categories).all())


def worded(rows: nw.LazyFrame[Any], categories: Mapping[str, Any]) -> nw.LazyFrame[Any]:
    """Return the rows with these columns of categories as text, but for those of polars, which all frames share.

    They sort, join and compare as text does, and group faster.
    """
    names = [name for name, dtype in categories.items() if str(dtype) != _SHARED]
    if not names:
        return rows
    if rows.implementation.is_pandas():
        native = rows.collect().to_native()
        opened: nw.LazyFrame[Any] = nw.from_native(
            native.assign(**{name: _texts(native[name]) for name in names})
        ).lazy()
        return opened
    return rows.with_columns(nw.col(*names).cast(nw.String))


def _texts(column: Any) -> Any:
    """Return a column of pandas as text; by its codes, which is ten times as fast as its words one by one."""
    if not hasattr(column.dtype, "categories"):
        return column.astype("str")
    return column.cat.categories.astype("str").take(
        column.cat.codes, allow_fill=True, fill_value=float("nan")
    )


def categorised(frame: Any, categories: Mapping[str, Any]) -> Any:
    """Return the frame with columns of text as these categories, of the engine it lives in now; undoes `worded`.

    A type that is None is one of whatever words there are, where the engine has such; DuckDB leaves them text.
    """
    schema, engine = frame.collect_schema(), frame.implementation
    texts = {name: dtype for name, dtype in categories.items() if schema.get(name) == nw.String}
    loose = [name for name, dtype in texts.items() if dtype is None]
    if loose and not engine.is_duckdb():
        frame = frame.with_columns(nw.col(*loose).cast(nw.Categorical))
    fixed = {name: dtype for name, dtype in texts.items() if dtype is not None}
    if not fixed:
        return frame
    if engine.is_duckdb():
        in_sql = {name: f"{quoted(name)}::{dtype}" for name, dtype in fixed.items()}
        return replaced(frame, in_sql)
    native = frame.to_native()
    if engine.is_polars():
        native = native.cast(fixed)
    elif engine.is_pandas():
        # Which makes a word that is none of the categories null.
        strange = {name for name, dtype in fixed.items() if not _has(dtype, native[name])}
        native = native.astype(fixed | dict.fromkeys(strange, "category"))
    else:
        schema = native.schema
        for name, dtype in fixed.items():
            at = schema.get_field_index(name)
            schema = schema.set(at, schema.field(at).with_type(dtype))
        native = native.cast(schema).unify_dictionaries()
    return nw.from_native(native)
