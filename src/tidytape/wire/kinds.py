"""Unknown fields whose kind is not the same in every answer.

One body, pages of a list and parts of a window are held to one rule: where the values of a field are of different kinds
it is text, strings as they are and other values as JSON. How a window was cut changes nothing but how a number looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import polars as pl
from polars.datatypes import DataTypeClass

from tidytape.wire import _text

__all__ = ["concatenated", "fitted"]

_DType = pl.DataType | DataTypeClass


def concatenated(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Put decoded frames one below the other; a column of different kinds becomes text.

    Parameters
    ----------
    frames : sequence of polars.DataFrame
        At least one, of one schema; their unknown columns may differ.

    Returns
    -------
    polars.DataFrame, all rows
        Columns that a frame has not are null in its rows.

    Examples
    --------
    >>> frames = [pl.DataFrame({"x": values}) for values in ([1, None], ["a"], [[1, 2]], [{"y": True}])]
    >>> concatenated(frames)["x"].to_list()
    ['1', None, 'a', '[1,2]', '{"y":true}']
    """
    if len(frames) == 1:
        return frames[0]
    dtypes: dict[str, list[pl.DataType]] = {}
    for frame in frames:
        for name, dtype in frame.schema.items():
            if dtype not in dtypes.setdefault(name, []):
                dtypes[name].append(dtype)
    mixed = {
        name for name, found in dtypes.items() if not all(_agree(*pair) for pair in combinations(found, 2))
    }
    alike = [
        frame.with_columns(_as_text(frame[name]) for name in frame.columns if name in mixed)
        for frame in frames
    ]
    return pl.concat(alike, how="diagonal_relaxed")


def fitted(column: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return a column as another dtype, or None where that would change what it says.

    Examples
    --------
    >>> fitted(pl.Series("x", [1]), pl.Float64()).to_list(), fitted(pl.Series("x", [1]), pl.String()).to_list()
    ([1.0], ['1'])
    >>> fitted(pl.Series("x", [0.5]), pl.Int64())
    """
    if column.dtype == dtype:
        return column
    if dtype == pl.String:
        return _as_text(column)
    if not _agree(column.dtype, dtype):
        return None
    empty = pl.DataFrame({column.name: pl.Series(dtype=dtype)})
    whole = pl.concat([empty, column.to_frame()], how="vertical_relaxed")[column.name]
    return whole if whole.dtype == dtype else None


def _agree(first: _DType, second: _DType) -> bool:
    """Return whether values of both can be in one column and still say what they said."""
    if first == second or pl.Null in (first, second):
        return True
    if isinstance(first, pl.List) and isinstance(second, pl.List):
        return _agree(first.inner, second.inner)
    if isinstance(first, pl.Struct) and isinstance(second, pl.Struct):
        others = {field.name: field.dtype for field in second.fields}
        return all(_agree(field.dtype, others.get(field.name, field.dtype)) for field in first.fields)
    if first.is_numeric() and second.is_numeric():
        # There is no integer for both, and a double would round them.
        return not (
            pl.UInt64 in (first, second) and (first.is_signed_integer() or second.is_signed_integer())
        )
    texts = (pl.String, pl.Categorical, pl.Enum)
    return first in texts and second in texts


def _as_text(column: pl.Series) -> pl.Series:
    """Return strings as they are, and other values as JSON."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return column.cast(pl.String)
    pieces = _text.value(column.alias("value"))
    text = pl.concat_str([pl.lit(piece) if isinstance(piece, str) else piece for piece in pieces])
    return column.alias("value").to_frame().select(text).to_series().alias(column.name)
