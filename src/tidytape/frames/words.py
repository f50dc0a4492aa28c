"""Categories as plain text, and back, on every engine.

Categories of two frames do not meet, and an Enum takes no other word. So inside, words are text, which engines sort,
join and compare alike. The results have the caller's categories again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.frames.times import quoted, replaced

__all__ = ["categories_of", "categorised", "worded"]


_SHARED = "Categorical"  # as polars calls its own; those of a caller's Categories have their names behind


def categories_of(frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> dict[str, Any]:
    """Return the columns of words that a frame keeps as categories, each with its type in the engine."""
    names = [
        name for name, dtype in frame.collect_schema().items() if isinstance(dtype, nw.Categorical | nw.Enum)
    ]
    if not names:
        return {}
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        types = dict(zip(native.columns, native.types, strict=True))
    else:
        types = native.collect_schema()
    return {name: types[name] for name in names}


def worded(rows: nw.LazyFrame[Any], categories: Mapping[str, Any]) -> nw.LazyFrame[Any]:
    """Return the rows with these columns of categories as text, but for those of polars, which all frames share.

    They sort, join and compare as text does, and group faster.
    """
    names = [name for name, dtype in categories.items() if str(dtype) != _SHARED]
    if not names:
        return rows
    return rows.with_columns(nw.col(*names).cast(nw.String))


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
    return nw.from_native(frame.to_native().cast(fixed))
