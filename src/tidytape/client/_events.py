"""Events of the lake of a local client, such as option chains: the raw rows from which the service computes points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tidytape.errors import QueryError, did_you_mean
from tidytape.query._values import Names, TimeLike, epoch_seconds, many, text, written_time
from tidytape.schema import Column, Schema
from tidytape.times import SECOND

if TYPE_CHECKING:
    import polars as pl

    from tidytape.lake import LakeReader


_FILTERS = ("exchange", "raw_symbol", "coin")


@dataclass(frozen=True)
class EventsQuery:
    """A query for rows of one table of a lake.

    Attributes
    ----------
    table : str
        Name of the table.
    names : tuple of (str, tuple of str)
        The columns to filter by, and the values to keep.
    start, end : int or None
        The window, half-open. [s since the epoch]
    """

    table: str
    names: tuple[tuple[str, tuple[str, ...]], ...]
    start: int | None
    end: int | None

    @classmethod
    def of(cls, table: str, *, start: TimeLike | None, end: TimeLike | None, **filters: Names) -> EventsQuery:
        """Return the query that the arguments of ``client.events`` describe; raise QueryError if one is wrong."""
        from tidytape.lake import TABLES

        if table not in TABLES:
            hint = did_you_mean(str(table), TABLES)
            raise QueryError("table", got=table, expected=f"one of {', '.join(TABLES)}", hint=hint)
        names = []
        for name in _FILTERS:
            if filters[name] is None:
                continue
            values = tuple(text(value, name) for value in many(filters[name], name))
            if name not in TABLES[table].names:
                filter_columns = [column for column in _FILTERS if column in TABLES[table].names]
                raise QueryError(
                    name,
                    got=filters[name] if isinstance(filters[name], str) else list(values),
                    expected=f"nothing, because table {table} has no column {name}",
                    hint=f"filter it by {' or '.join([*filter_columns, 'time'])}",
                )
            names.append((name, values))
        first, last = (
            None if time is None else epoch_seconds(time, parameter)
            for time, parameter in ((start, "start"), (end, "end"))
        )
        if first is not None and last is not None and first >= last:
            raise QueryError("end", got=written_time(last), expected=f"a time after {written_time(first)}")
        return cls(table, tuple(names), first, last)

    def to_params(self) -> list[tuple[str, str]]:
        """Return the query as pairs of name and value; equal queries have equal pairs."""
        times = [("from", self.start), ("to", self.end)]
        return [
            ("table", self.table),
            *((name, value) for name, values in self.names for value in values),
            *((name, str(time)) for name, time in times if time is not None),
        ]

    @cached_property
    def schema(self) -> Schema:
        """The schema of the frame: the schema of the table, but with timestamps in UTC instead of nanoseconds."""
        from tidytape.lake import TABLES

        table = TABLES[self.table]
        return Schema(table.name, tuple(map(_tidy, table.columns)), table.key, table.rows)

    def read(self, lake: LakeReader) -> pl.DataFrame:
        """Return the rows in the table's order; the same version of a lake gives the same order."""
        import polars as pl

        from tidytape.lake import TABLES

        first, last = (None if time is None else time * SECOND for time in (self.start, self.end))
        filters = {name: list(values) for name, values in self.names}
        coin_filters = [pl.col("coin").is_in(filters.pop("coin"))] if "coin" in filters else []
        rows = lake.scan(self.table, start=first, end=last, **filters).filter(*coin_filters)
        order = TABLES[self.table].order
        # Rows that are equal in the table's order are sorted by its key.
        sort_columns = [*order, *(name for name in TABLES[self.table].key if name not in order)]
        return self.schema.conform(rows.sort(sort_columns, nulls_last=False).collect(engine="streaming"))


def _tidy(column: Column) -> Column:
    if not column.unit.startswith("ns since the epoch"):
        return column
    return Column(column.name, "timestamp", "UTC", column.doc, column.nullable, column.signed)
