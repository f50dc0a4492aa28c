"""One number for a frame: equal for equal names, kinds, values and order, next year too and in any library's hands."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["fingerprint"]


def fingerprint(frame: pl.DataFrame) -> str:
    """Return the SHA-256 of what a frame says.

    Of each column in turn its name, kind and length, which of its values are null, and the others: numbers as
    little-endian bytes, times as nanoseconds since the epoch, text as lengths and UTF-8, lists as lengths and their
    values. How a library holds or writes them has no part in it, and neither has ``is_final``, which says when a frame
    was fetched and not what it says.

    Parameters
    ----------
    frame : polars.DataFrame

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> import polars as pl
    >>> one, other = pl.DataFrame({"a": [1, None]}), pl.DataFrame({"a": [None, 1]})
    >>> fingerprint(one) == fingerprint(one.clone()), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    told = hashlib.sha256()
    for column in frame:
        if column.name == "is_final":
            continue
        told.update(f"{column.name}\0".encode())
        _tell(column.alias(""), told.update)  # polars would read a name such as "^x$" as a pattern
    return told.hexdigest()


def _tell(column: pl.Series, update: Callable[[bytes], None]) -> None:
    import polars as pl

    dtype = column.dtype
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column, dtype = column.cast(pl.String), pl.String()
    if isinstance(dtype, pl.Datetime):
        column = column.dt.cast_time_unit("ns").dt.epoch("ns")
        kind = f"time {dtype.time_zone}"
    else:
        kind = str(dtype)
    update(f"{kind}\0{len(column)}\0".encode())
    update(column.is_null().cast(pl.UInt8).to_numpy().tobytes())
    present = column.drop_nulls()
    if isinstance(dtype, pl.List):
        update(_little(present.list.len().cast(pl.Int64)))
        inner = present.explode(empty_as_null=False) if len(present) else present.explode()
        _tell(inner if len(present) else pl.Series(dtype=dtype.inner), update)
    elif isinstance(dtype, pl.String):
        update(_little(present.str.len_bytes().cast(pl.Int64)))
        update("".join(present.to_list()).encode())
    elif isinstance(dtype, pl.Boolean):
        update(present.cast(pl.UInt8).to_numpy().tobytes())
    elif dtype.is_numeric() or isinstance(dtype, pl.Datetime):
        update(_little(present))
    else:
        update(repr(present.to_list()).encode())


def _little(numbers: pl.Series) -> bytes:
    array = numbers.to_numpy()
    return (array if sys.byteorder == "little" else array.byteswap()).tobytes()
