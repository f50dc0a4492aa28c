"""Market profiles as they travel, one row per session with its levels in a column, and the two tidy frames of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidytape.catalogue import COVERAGE, DESCRIPTOR_FIELDS
from tidytape.errors import DecodeError, QueryError, counted
from tidytape.schema import LEVELS, LISTS, TPO_SESSIONS, Schema, data_type, schema_of, wire_schema
from tidytape.times import MINUTE

IN_PROGRESS = "tidytape.block_in_progress"
"""Column of a frame as it travels: the number of the time block in progress, if the session is known to have one."""

_SESSION = ("exchange", "raw_symbol", "coin", "timestamp")
"""Columns that identify a session, of a market or of a group."""


def nested(levels: pl.DataFrame, sessions: pl.DataFrame, name: str = "TPO_AGG") -> pl.DataFrame:
    """Return levels and sessions as one frame: one row per session, with its levels in a column.

    Parameters
    ----------
    levels : polars.DataFrame, one row per session and price, schema ``schema_of(name)``
        In any order. Flags of levels and columns that repeat a column of the sessions are left out.
    sessions : polars.DataFrame, one row per session, schema `TPO_SESSIONS`
    name : str
        The data type.

    Returns
    -------
    polars.DataFrame, one row per session, key and units as ``wire_schema(name)``
        In the order of the sessions; the levels of a session in their order. A session without levels has none.

    Raises
    ------
    QueryError
        If a session comes twice, or a level is of no session.

    Examples
    --------
    >>> sessions = pl.DataFrame({"timestamp": [0], "poc_price": [1.0]})
    >>> frame = nested(pl.DataFrame({"timestamp": [0, 0], "price": [1.0, 2.0]}), sessions)
    >>> [level["price"] for level in frame["levels"][0]]
    [1.0, 2.0]
    """
    key = [column for column in _SESSION if column in levels.columns and column in sessions.columns]
    if sessions.select(key).is_duplicated().any():
        raise QueryError("sessions", got="a session that comes twice", expected="one row per session")
    aside = {*sessions.columns, *schema_of(name).descriptors, *LISTS, "is_in_progress"}
    aside -= {column.name for column in wire_schema(name)[LEVELS].inner}
    in_levels = [column for column in levels.columns if column not in aside]
    levels_of_sessions = levels.group_by(key, maintain_order=True).agg(pl.struct(in_levels).alias(LEVELS))
    strays = levels_of_sessions.join(sessions, on=key, how="anti", nulls_equal=True).height
    if strays:
        got = f"levels of {counted(strays, 'session')} that it lacks"
        raise QueryError("sessions", got=got, expected="a session for each level")
    frame = sessions.join(levels_of_sessions, on=key, how="left", nulls_equal=True, maintain_order="left")
    frame = wire_schema(name, grouped=COVERAGE.column in frame.columns).conform(frame)
    return frame.with_columns(pl.col(LEVELS).fill_null(pl.lit([], frame.schema[LEVELS])))


def levels_of(frame: pl.DataFrame, name: str = "TPO_AGG") -> pl.DataFrame:
    """Return the levels of market profiles as they travel.

    Parameters
    ----------
    frame : polars.DataFrame, one row per session, schema ``wire_schema(name)``
    name : str
        The data type.

    Returns
    -------
    polars.DataFrame, one row per session and price, key and units as ``schema_of(name)``
        In the order of the sessions, then of their levels. ``is_single_print``, ``is_poor_high`` and ``is_poor_low``
        are null where the list of the session is unknown. Unknown fields of levels come last.

    Examples
    --------
    >>> frame = nested(
    ...     pl.DataFrame({"timestamp": [0, 0], "price": [1.0, 2.0], "volume": [3.0, 4.0]}),
    ...     pl.DataFrame({"timestamp": [0], "single_prints": [[2.0]]}),
    ... )
    >>> levels_of(frame).select("price", "is_single_print", "volume").rows()
    [(1.0, False, 3.0), (2.0, True, 4.0)]
    """
    schema = schema_of(name, grouped=COVERAGE.column in frame.columns)
    rows, counts = unnested(frame)
    session = owners(counts)
    names = ("timestamp", *schema.identity, *schema.descriptors, COVERAGE.column)
    columns = frame.select(column for column in names if column in frame.columns)[session]
    flags = [_marked(frame[prices], session, rows["price"]).alias(flag) for flag, prices in LISTS.items()]
    levels = pl.concat([columns, rows, pl.DataFrame(flags)], how="horizontal")
    unknown = pl.Series([None], dtype=pl.Int64).new_from_index(0, frame.height)
    block = frame[IN_PROGRESS] if IN_PROGRESS in frame.columns else unknown
    touched = pl.col("last_touch_block") >= block.gather(session)
    in_progress = pl.when("is_final").then(pl.lit(value=False)).otherwise(touched)
    return schema.conform(levels.with_columns(is_in_progress=in_progress))


def sessions_of(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the sessions of market profiles as they travel.

    Parameters
    ----------
    frame : polars.DataFrame, one row per session, schema ``wire_schema("TPO_AGG")``

    Returns
    -------
    polars.DataFrame, one row per session, key and units as `TPO_SESSIONS`
        In the same order. Unknown fields of sessions come last.

    Examples
    --------
    >>> sessions = pl.DataFrame({"timestamp": [0], "poc_price": [1.0]})
    >>> frame = nested(pl.DataFrame({"timestamp": [0, 0], "price": [1.0, 2.0]}), sessions)
    >>> sessions_of(frame).select("timestamp", "poc_price").height
    1
    """
    schema = TPO_SESSIONS.with_coverage() if COVERAGE.column in frame.columns else TPO_SESSIONS
    return schema.conform(frame.drop(LEVELS, IN_PROGRESS, strict=False))


@cache
def reserved_names(name: str) -> frozenset[str]:
    """Return the names that an unknown field of a level may not have, because columns of ours have them."""
    travelling_columns = wire_schema(name, grouped=True)
    in_levels = (column.name for column in travelling_columns[LEVELS].inner)
    names = {*schema_of(name, grouped=True).names, *travelling_columns.names, IN_PROGRESS}
    return frozenset(names.difference(in_levels))


@cache
def older_schema(name: str) -> Schema:
    """Return the schema in which older releases send a data type: the facts of a session on each of its levels."""
    schema = wire_schema(name)
    columns = [column for outer in schema.columns for column in (outer.inner or (outer,))]
    return schema if columns == [*schema.columns] else replace(schema, columns=tuple(columns))


def travelling(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return a frame of an older release, which has the facts of a session on each of its levels, as frames travel now.

    A frame of another data type, or one that travels as now, stays as it is.

    Raises
    ------
    DecodeError
        If a session has different facts on its levels.
    """
    if not data_type(name).has_sessions or LEVELS in frame.columns or "price" not in frame.columns:
        return frame
    known = {*wire_schema(name, grouped=True).names, *(field.column for field in DESCRIPTOR_FIELDS)}
    sessions = frame.select(column for column in frame.columns if column in known).unique(maintain_order=True)
    in_levels = (column for column in frame.columns if column not in known)
    key = [column for column in _SESSION if column in frame.columns]
    if repeated := int(sessions.select(key).is_duplicated().sum()):
        text = f"{name}: {counted(repeated, 'session')} came twice with different values"
        raise DecodeError(text, data_type=name)
    return nested(frame.select(*key, *in_levels), sessions, name)


def block_in_progress(until: pl.Expr) -> pl.Expr:
    """Return the number of the time block that contains ``until``, of each session that is not known to be final."""
    since_start = until.dt.epoch("ns") - pl.col("timestamp").dt.epoch("ns")
    length = pl.col("block_size_minutes") * MINUTE
    block = pl.when(length > 0).then(since_start // length)
    return pl.when(~pl.col("is_final").fill_null(value=False)).then(block).alias(IN_PROGRESS)


def row_count(frame: pl.DataFrame) -> int:
    """Return the number of rows of a frame as it travels; of market profiles the number of their levels."""
    return int(frame[LEVELS].list.len().sum()) if LEVELS in frame.columns else frame.height


def rows_before(frame: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return how many rows, or levels, stand before each row, and after the last."""
    if LEVELS not in frame.columns:
        return np.arange(frame.height + 1)
    return np.concatenate([np.zeros(1, np.int64), lengths(frame[LEVELS]).cumsum()])


def lengths(lists: pl.Series) -> npt.NDArray[np.int64]:
    """Return how many values each list of a column has, 0 for null."""
    # Rename the column: list methods look it up by name, and would read a name such as "^open$" as a pattern.
    return lists.alias("lists").list.len().fill_null(0).cast(pl.Int64).to_numpy()


def unnested(frame: pl.DataFrame) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
    """Return the levels of all sessions, one after the other, and how many each session has."""
    return frame[LEVELS].explode(empty_as_null=False, keep_nulls=False).struct.unnest(), lengths(
        frame[LEVELS]
    )


def regrouped(rows: pl.Series, counts: npt.NDArray[np.int64]) -> pl.Series:
    """Return a list per session of what belongs to its levels, the inverse of `unnested`; ``counts`` says how many."""
    ends = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
    rows_in_arrow = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    return pl.Series(rows.name, pa.LargeListArray.from_arrays(pa.array(ends), rows_in_arrow))


def owners(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return the position of the owner of each row; ``counts`` says how many rows each owner has."""
    return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)


def _marked(lists: pl.Series, session: npt.NDArray[np.uint32], prices: pl.Series) -> pl.Series:
    """Return for each level whether the list of its session has its price; null if the list is."""
    sessions = np.arange(len(lists), dtype=np.uint32)
    listed = pl.DataFrame({"session": sessions, "price": lists}).explode(
        "price", empty_as_null=False, keep_nulls=False
    )
    listed = listed.unique().with_columns(mark=pl.lit(value=True))
    rows = pl.DataFrame({"session": session, "price": prices})
    rows = rows.join(listed, on=["session", "price"], how="left", maintain_order="left")
    marks = rows["mark"].fill_null(value=False)
    if not lists.null_count():
        return marks
    is_known = lists.is_not_null().gather(session)
    return pl.select(pl.when(is_known).then(marks)).to_series()
