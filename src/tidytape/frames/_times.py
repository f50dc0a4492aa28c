"""Times as whole nanoseconds since the epoch, and back, on every engine.

Engines agree on whole numbers and on little else about time: DuckDB has times with and without nanoseconds that do not
compare, Spark cannot tell how long is between two, and a time that one truncates the other refuses. So inside, a time
is what the lake stores: int64 nanoseconds since the epoch, in UTC. At the doors it is what the caller has. A time that
these do not reach, before 1677-09-21 or after 2262-04-11, is not known inside: it is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.times import DAY, MICROSECOND, MILLISECOND, MONDAY, SECOND

_NANOSECONDS: Final = {"ns": 1, "us": MICROSECOND, "ms": MILLISECOND, "s": SECOND}
_REACH: Final = 2**63 - 1

Frame = nw.LazyFrame[Any]


@dataclass(frozen=True)
class Clock:
    """How a column of the caller says time: as whole nanoseconds, or as instants of one unit and zone."""

    unit: Any = None
    zone: Any = None
    native: str | None = None
    """Name of the type in the engine's own SQL, where the engine is asked in it."""

    @property
    def counts(self) -> bool:
        """Whether the column is int64 nanoseconds already."""
        return self.unit is None and self.native is None


def clock_of(frame: nw.DataFrame[Any] | nw.LazyFrame[Any], column: str, dtype: Any) -> Clock:
    """Return how a column, which is of this type to Narwhals, says time.

    Raises
    ------
    QueryError
        If it holds times without a zone, or anything that is no time.
    """
    expected = "int64 nanoseconds since the epoch, or times with a zone"
    if dtype.is_signed_integer():
        return Clock()
    if frame.implementation.is_duckdb():
        relation = frame.to_native()
        native = str(dict(zip(relation.columns, relation.types, strict=True))[column])
        if native in {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}:
            return Clock(native=native)
    elif isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        spark = "TIMESTAMP" if frame.implementation.is_spark_like() else None
        return Clock(dtype.time_unit, dtype.time_zone, spark)
    hint = None
    if isinstance(dtype, nw.Datetime) or str(dtype) == "Unknown":
        hint = "say which zone they are of, e.g. with replace_time_zone('UTC') or tz_localize('UTC')"
    elif dtype in {nw.String, nw.Object, nw.Categorical}:
        hint = "text becomes times with pd.to_datetime(…, utc=True), or .str.to_datetime(time_zone='UTC') of polars"
    elif dtype.is_float():
        hint = (
            "floats hold every 256th nanosecond only: keep them as int64, where one is null as pandas' Int64"
        )
    raise QueryError(column, got=f"{column}: {dtype}", expected=expected, hint=hint)


def counted(frame: Frame, clocks: dict[str, Clock]) -> Frame:
    """Return the frame with these columns as int64 nanoseconds; what is null, or out of their reach, is null."""
    clocks = {name: clock for name, clock in clocks.items() if not clock.counts}
    if not clocks:
        return frame
    if frame.implementation.is_duckdb():
        return replaced(frame, {name: _counted_in_duckdb(name, clock) for name, clock in clocks.items()})
    if frame.implementation.is_spark_like():
        return _selected(frame, {name: _within_in_sql(f"unix_micros(`{name}`)", 1_000) for name in clocks})
    return frame.with_columns(
        nw.col(name).dt.timestamp("ns").cast(nw.Int64)
        if clock.unit == "ns"
        else _within(nw.col(name).dt.timestamp(clock.unit).cast(nw.Int64), _NANOSECONDS[clock.unit])
        for name, clock in clocks.items()
    )


def _within(count: nw.Expr, unit: int) -> nw.Expr:
    """Return a count of some unit in nanoseconds, null where int64 does not reach."""
    most = _REACH // unit
    return nw.when((count >= -most) & (count <= most)).then(count * unit)


def _within_in_sql(count: str, unit: int) -> str:
    most = _REACH // unit
    return f"CASE WHEN {count} BETWEEN -{most} AND {most} THEN {count} * {unit} END"


def _counted_in_duckdb(column: str, clock: Clock) -> str:
    count, most = f"epoch_ns({quoted(column)})", _REACH // _NANOSECONDS["s"]
    if clock.native == "TIMESTAMPTZ_NS":
        return count
    # Seconds are floats, and there of any time but infinite ones.
    return f"CASE WHEN epoch({quoted(column)}) BETWEEN -{most} AND {most} THEN {count} END"


def counted_beside(frame: Frame, column: str, name: str) -> Frame:
    """Return the frame with a column of times as int64 nanoseconds in another one, and the column as it is.

    Raises
    ------
    QueryError
        As of `clock_of`.
    """
    return counted(
        frame.with_columns(nw.col(column).alias(name)),
        {name: clock_of(frame, column, frame.collect_schema()[column])},
    )


def dated(frame: Frame, clocks: dict[str, Clock]) -> Frame:
    """Return the frame with these columns of int64 nanoseconds as times again; undoes `counted`."""
    clocks = {name: clock for name, clock in clocks.items() if not clock.counts}
    if not clocks:
        return frame
    if frame.implementation.is_duckdb():
        return replaced(
            frame,
            {
                # By way of text of no zone there would be one of the connection in between.
                name: f"(make_timestamp_ns({quoted(name)}) AT TIME ZONE 'UTC')::{clock.native}"
                for name, clock in clocks.items()
            },
        )
    if frame.implementation.is_spark_like():
        return _selected(frame, {name: f"timestamp_micros(`{name}` div 1000)" for name in clocks})
    return frame.with_columns(
        (nw.col(name) // _NANOSECONDS[clock.unit]).cast(nw.Datetime(clock.unit, clock.zone)).alias(name)
        for name, clock in clocks.items()
    )


def midnights(frame: Frame, column: str) -> Frame:
    """Return the frame with a column of dates as int64 nanoseconds, null out of reach: each day's start in UTC."""
    if frame.implementation.is_duckdb():
        days = f"({quoted(column)} - DATE '1970-01-01')"
        # What is infinite is no number of days.
        return replaced(
            frame, {column: f"CASE WHEN isfinite({quoted(column)}) THEN {_within_in_sql(days, DAY)} END"}
        )
    if frame.implementation.is_spark_like():
        return _selected(frame, {column: _within_in_sql(f"CAST(unix_date(`{column}`) AS BIGINT)", DAY)})
    return frame.with_columns(
        _within(nw.col(column).dt.timestamp("ms").cast(nw.Int64), _NANOSECONDS["ms"]).alias(column)
    )


def quoted(name: str) -> str:
    """Return a name as DuckDB's SQL says it."""
    return '"' + name.replace('"', '""') + '"'


def replaced(frame: Frame, columns: dict[str, str]) -> Frame:
    """Return a frame of DuckDB with columns replaced by what SQL says."""
    said = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    opened: Frame = nw.from_native(frame.to_native().project(f"* REPLACE ({said})"))
    return opened


def _selected(frame: Frame, columns: dict[str, str]) -> Frame:
    selected = [
        f"{columns[name]} AS `{name}`" if name in columns else f"`{name}`"
        for name in frame.collect_schema().names()
    ]
    opened: Frame = nw.from_native(frame.to_native().selectExpr(*selected))
    return opened


def bucket_start(timestamp: nw.Expr, interval: Interval) -> nw.Expr:
    """Start of the bucket that a time lies in, aligned to the Unix epoch in UTC, weeks to Monday.

    Parameters
    ----------
    timestamp : expression, int64
        Epoch time. [ns]
    interval : Interval
        Length of a bucket.

    Returns
    -------
    expression, int64
        Epoch time. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"timestamp": [59_999_999_999, 60_000_000_000, -1]}))
    >>> frame.select(bucket_start(nw.col("timestamp"), Interval.MINUTE)).to_native()["timestamp"].to_list()
    [0, 60000000000, -60000000000]
    """
    step, offset = interval.seconds * SECOND, interval.offset * SECOND
    # What is left over comes off. The quotient would not do: Spark divides as floats, which skip nanoseconds today.
    if offset == 0:
        return timestamp - timestamp % step
    return timestamp - (timestamp - offset) % step


def length_of(interval: nw.Expr) -> nw.Expr:
    """Return how long the intervals of a column of names or aliases are; 0 where it is none. [ns]"""
    name = interval.cast(nw.String)
    length: nw.Expr = nw.lit(0, nw.Int64())
    for known in Interval:
        is_known = (name == known.value) | (name == known.alias)
        length = nw.when(is_known).then(nw.lit(known.seconds * SECOND, nw.Int64())).otherwise(length)
    return length


def bucket_by(timestamp: nw.Expr, length: nw.Expr | int, *, origin: int = MONDAY) -> nw.Expr:
    """Start of the bucket that a time lies in, of buckets that are counted from a moment, before it too.

    Parameters
    ----------
    timestamp : expression, int64
        Epoch time. [ns]
    length : expression or int, above 0
        Length of a bucket. [ns]
    origin : int
        Where one bucket starts. [ns]

    Returns
    -------
    expression, int64
        Epoch time. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"timestamp": [7, -1]}))
    >>> frame.select(bucket_by(nw.col("timestamp"), 5, origin=1)).to_native()["timestamp"].to_list()
    [6, -4]
    """
    # Twice, because engines disagree on what is left of a number below zero.
    return timestamp - ((timestamp - origin) % length + length) % length
