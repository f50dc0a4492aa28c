"""Frames without lists, for files and programs that have no lists: CSV, spreadsheets, databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import polars as pl

from tidytape.errors import QueryError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrameT


_EXPECTED = "a frame of polars, pandas or pyarrow"


def flat(frame: IntoFrameT, /) -> IntoFrameT:
    """Return a frame whose lists and times are text, for a CSV file, a spreadsheet or a database.

    A list becomes JSON: ``[0.1,0.2]``, ``["Yes","No"]``, ``[]`` for an empty list. A null list is null. Each number of
    a list is the shortest decimal that reads as the same number; NaN and infinite numbers in a list become null.
    A time becomes ISO 8601 in UTC, with as many digits as it needs: ``2024-08-08T00:00:00Z``. A time without a zone has
    no ``Z``, except in a list, where pandas keeps no zone. A duration becomes ISO 8601: ``PT1H30M``. Other columns stay
    as they are.

    Parameters
    ----------
    frame : frame, n rows
        Any frame of polars, eager or lazy, pandas or pyarrow, such as one of a client or of the analytics.

    Returns
    -------
    frame, n rows, same columns, order and kind as ``frame``
        Without columns of lists, structs, times or durations.

    Raises
    ------
    QueryError
        If ``frame`` is no such frame, or a column has a name that is not allowed.

    Examples
    --------
    >>> import polars as pl
    >>> from datetime import UTC, datetime
    >>> frame = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, tzinfo=UTC)] * 3, "poor_highs": [[59_000.5, 0.1], [], None],
    ... })
    >>> print(flat(frame).write_csv(), end="")
    timestamp,poor_highs
    2024-08-08T00:00:00Z,"[59000.5,0.1]"
    2024-08-08T00:00:00Z,[]
    2024-08-08T00:00:00Z,
    """
    import narwhals.stable.v2 as nw  # only here, so that the client loads quickly

    from tidytape.frames._door import Door, wrapped

    rows = wrapped(frame, kinds=_EXPECTED)
    if isinstance(frame, pl.LazyFrame):
        return cast("IntoFrameT", frame.with_columns(_texts(frame.collect_schema())))
    if isinstance(rows, nw.LazyFrame):
        engine = f"a frame of {rows.implementation.value}"
        raise QueryError("frame", got=engine, expected=_EXPECTED, hint="fetch its rows first")
    door = Door.of(frame)
    inside = {name: dtype for name, dtype in door.frame.schema.items() if name not in door.outside}
    return door.restored(door.frame.with_columns(_texts(inside)), like_rows=True)


def with_text_times(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with times, also those in lists, and durations as text in ISO 8601."""
    return frame.with_columns(_text_times(frame.schema))


def _texts(schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return the columns that a flat frame has as text."""
    times = {column.meta.output_name(): column for column in _text_times(schema)}
    nested = [name for name, dtype in schema.items() if dtype.is_nested()]
    lists = {name: _as_json(times.get(name, pl.col(name))).alias(name) for name in nested}
    return [*(times | lists).values()]


def _text_times(schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return the columns of times and durations as text; a list of times becomes a list of texts."""
    columns = []
    for name, dtype in schema.items():
        if isinstance(dtype, pl.Datetime):
            columns.append(_as_iso(pl.col(name), zone="" if dtype.time_zone is None else "Z"))
        elif isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Datetime):
            columns.append(pl.col(name).list.eval(_as_iso(pl.element())))
        elif isinstance(dtype, pl.Duration):
            columns.append(pl.col(name).dt.to_string("iso"))
    return columns


def _as_iso(times: pl.Expr, zone: str = "Z") -> pl.Expr:
    """Return times in ISO 8601, with nanoseconds if these are not 0."""
    return times.dt.convert_time_zone("UTC").dt.to_string(f"%Y-%m-%dT%H:%M:%S%.f{zone}")


def _as_json(lists: pl.Expr) -> pl.Expr:
    """Return lists, or structs, as JSON."""
    # Only a struct can be encoded as JSON: wrap a list as {"":[1,2]}, and cut off what is around it.
    before_list = '{"":'
    text = pl.struct(lists.alias("")).struct.json_encode().str.slice(len(before_list)).str.head(-1)
    return pl.when(lists.is_not_null()).then(text)
