"""SQL of DuckDB and Spark, for what Narwhals cannot express: times, and types such as DuckDB's enums.

Every frame to work on belongs to polars or to an SQL engine, DuckDB or Spark. `dialect_of` alone asks which of them it
is; polars needs no dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.times import DAY, SECOND

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
"""A frame of Narwhals, eager or lazy."""

REACH: Final = 2**63 - 1
"""The largest int64."""


class _DuckDB:
    """DuckDB's SQL. Methods that take a column return an SQL expression."""

    collect_call = ".pl()"
    """What a user writes behind a frame to get its rows in memory."""

    def quoted(self, column: str) -> str:
        """Return the name of a column as the engine's SQL writes it."""
        return '"' + column.replace('"', '""') + '"'

    def types(self, native: Any) -> Mapping[str, Any]:
        """Return the engine's own type of each column."""
        return dict(zip(native.columns, native.types, strict=True))

    def instant_type(self, native: Any, column: str, dtype: Any) -> str | None:
        """Return the engine's type of a column of times with a zone; None for a column of anything else.

        ``dtype`` is the type of the column to Narwhals, which does not know all of DuckDB's types.
        """
        type_ = str(self.types(native)[column])
        return type_ if type_ in {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"} else None

    def nanoseconds(self, column: str, instant_type: str) -> str:
        """Return times with a zone as nanoseconds since the epoch, null where they do not fit into int64."""
        count, limit = f"epoch_ns({self.quoted(column)})", REACH // SECOND
        if instant_type == "TIMESTAMPTZ_NS":
            return count
        # `epoch` returns seconds as floats, for every time that is not infinite.
        return f"CASE WHEN epoch({self.quoted(column)}) BETWEEN -{limit} AND {limit} THEN {count} END"

    def instants(self, column: str, instant_type: str) -> str:
        """Return nanoseconds since the epoch as times with a zone."""
        # Without AT TIME ZONE the cast would read the time in the connection's zone.
        return f"(make_timestamp_ns({self.quoted(column)}) AT TIME ZONE 'UTC')::{instant_type}"

    def midnights(self, column: str) -> str:
        """Return dates as nanoseconds since the epoch, at their start in UTC; null where they do not fit into int64."""
        name = self.quoted(column)
        days = f"({name} - DATE '1970-01-01')"
        # An infinite date has no number of days.
        return f"CASE WHEN isfinite({name}) THEN {_within_reach(days, DAY)} END"

    def dates(self, column: str) -> str:
        """Return SQL for the dates whose starts in UTC are nanoseconds since the epoch."""
        return f"DATE '1970-01-01' + CAST({self.quoted(column)} // {DAY} AS INTEGER)"

    def replaced(self, frame: nw.LazyFrame[Any], columns: Mapping[str, str]) -> nw.LazyFrame[Any]:
        """Return the frame with some of its columns replaced by SQL expressions."""
        expressions = ", ".join(f"{sql} AS {self.quoted(name)}" for name, sql in columns.items())
        rows: nw.LazyFrame[Any] = nw.from_native(frame.to_native().project(f"* REPLACE ({expressions})"))
        return rows

    def can_join(self, first: Any, second: Any) -> bool:
        """Return whether two native frames can be joined; no row is read."""
        try:
            first.project("1 AS one").union(second.project("1 AS one"))
        except Exception as error:
            # DuckDB may not be installed, so its error class cannot be imported here.
            if "connection" not in str(error):
                raise
            return False
        return True


class _Spark:
    """Spark's SQL, with the same methods."""

    collect_call = ".toPandas()"

    def quoted(self, column: str) -> str:
        return f"`{column}`"

    def types(self, native: Any) -> Mapping[str, Any]:
        return dict(native.dtypes)

    def instant_type(self, native: Any, column: str, dtype: Any) -> str | None:
        return "TIMESTAMP" if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None else None

    def nanoseconds(self, column: str, instant_type: str) -> str:
        return _within_reach(f"unix_micros(`{column}`)", 1_000)

    def instants(self, column: str, instant_type: str) -> str:
        return f"timestamp_micros(`{column}` div 1000)"

    def midnights(self, column: str) -> str:
        return _within_reach(f"CAST(unix_date(`{column}`) AS BIGINT)", DAY)

    def dates(self, column: str) -> str:
        return f"date_add(DATE '1970-01-01', CAST(`{column}` div {DAY} AS INT))"

    def replaced(self, frame: nw.LazyFrame[Any], columns: Mapping[str, str]) -> nw.LazyFrame[Any]:
        expressions = [
            f"{columns[name]} AS `{name}`" if name in columns else f"`{name}`"
            for name in frame.collect_schema().names()
        ]
        rows: nw.LazyFrame[Any] = nw.from_native(frame.to_native().selectExpr(*expressions))
        return rows

    def can_join(self, first: Any, second: Any) -> bool:
        return True


Dialect = _DuckDB | _Spark

_DUCKDB: Final = _DuckDB()
_SPARK: Final = _Spark()


def dialect_of(frame: Frame) -> Dialect | None:
    """Return the dialect of a frame's SQL engine; None for a frame of polars."""
    if frame.implementation.is_duckdb():
        return _DUCKDB
    return _SPARK if frame.implementation.is_spark_like() else None


def in_sql(frame: Frame) -> bool:
    """Return whether a frame belongs to an SQL engine: DuckDB or Spark."""
    return dialect_of(frame) is not None


def _within_reach(count: str, unit: int) -> str:
    """Return SQL that converts a count of units to nanoseconds, null where they do not fit into int64."""
    limit = REACH // unit
    return f"CASE WHEN {count} BETWEEN -{limit} AND {limit} THEN {count} * {unit} END"
