"""Put frames of polars and pandas into a lake, with the checks, reports and rules for repeated rows of files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from tidytape.errors import QueryError
from tidytape.frames._door import READABLE
from tidytape.lake._batch import Spool
from tidytape.lake._store import Lake
from tidytape.lake.ingest._columns import known_columns
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._market import Market, require_market
from tidytape.lake.ingest._report import IngestReport
from tidytape.lake.ingest._run import require_good, source_of
from tidytape.lake.ingest._write import Writer, fill_funding_intervals

_NAME = Path("frame")
"""What reports and errors call a frame."""

_ROWS = 250_000
"""Number of rows that are checked at once."""


def write(
    lake: Lake,
    frame: Any,
    market: Market,
    *,
    table: str,
    columns: Mapping[str, str] | None,
    time_unit: str | Mapping[str, str] | None,
    interval: str | None,
    skip_bad: bool,
) -> IngestReport:
    """Put a frame into a lake, see `tidytape.lake.Lake.write`."""
    require_market(market)
    layout = _Frame(table=table, columns=columns, time_unit=time_unit, interval=interval)
    rows = _polars(frame, layout)
    layout = replace(layout, rows=rows)
    layout.require_used(market)
    job = Job(_NAME, market, layout)
    content = io.BytesIO()
    rows.write_ipc(content)
    writer = Writer(lake, market)
    with Spool() as spool:
        parsed = layout.read(job, spool, lambda _: None)
        require_good(parsed, job, skip_bad=skip_bad)
        fill_funding_intervals(job, parsed)
        digest = hashlib.sha256(content.getbuffer()).hexdigest()
        writer.put(job, parsed, source_of(digest, job, layout, skip_bad=skip_bad))
    return writer.report()


@dataclass(frozen=True, kw_only=True)
class _Frame(Mapped):
    """The rows of a frame, with a map of their columns."""

    name = "frame"

    rows: pl.DataFrame = field(default_factory=pl.DataFrame)

    def may_read(self, name: str) -> bool:
        """Return whether a column may be one of ours, by the map or by its name."""
        return name in (self.columns or {}).values() or name.lower() in known_columns(self.of)

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read the frame; a column of our name in capitals, such as Open, counts as ours."""
        parsed = Parsed(spool)
        data = self.rows.to_arrow()
        columns = dict(self.columns or {})
        names_in_use = {*columns.values(), *data.column_names}
        for name in data.column_names:
            column = name.lower()
            if (
                column in known_columns(self.of)
                and column not in names_in_use
                and name not in columns.values()
            ):
                if column in columns and column not in (self.columns or {}):
                    two = f"columns {columns[column]} and {name}"
                    raise QueryError(
                        "frame", got=two, expected=f"one for {column}, or columns to say which it is"
                    )
                columns.setdefault(column, name)
        rows = MappedRows.of_arrow(replace(self, columns=columns), job, data.schema, parsed)
        for column in self.time_columns:
            if column in rows.mapped and self.time_of(column) is None:
                _require_zoned(data.schema.field(rows.mapped[column]))
        try:
            for start in range(0, data.num_rows, _ROWS):
                rows.take_arrow(data.slice(start, _ROWS))
        except pl.exceptions.PolarsError as error:  # e.g. durations, or bytes that are not text
            reason = str(error).partition("\n")[0]
            raise QueryError("frame", got=reason, expected=f"columns of {READABLE}") from None
        rows.finish()
        return parsed


def _polars(frame: Any, layout: _Frame) -> pl.DataFrame:
    """Return a frame as one of polars: named levels of the index, and an index of times, become columns.

    Columns that polars cannot hold are left out; QueryError if such a column may be ours.
    """
    if isinstance(frame, pl.DataFrame):
        columns: dict[str, Any] = frame.to_dict()
    elif isinstance(frame, pd.DataFrame):
        flat = _flat(frame)
        columns = {name: flat[name] for name in flat.columns}
    else:
        raise QueryError("frame", got=type(frame).__name__, expected="an eager frame of polars or pandas")
    series = {name: _as_series(column) for name, column in columns.items()}
    for name, column in series.items():
        if column is None and layout.may_read(name):
            dtype_of_column = f"{columns[name].dtype} in column {name}"
            raise QueryError("frame", got=dtype_of_column, expected=f"one kind of {READABLE}")
    return pl.DataFrame({name: column for name, column in series.items() if column is not None})


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of pandas whose index is among its columns, and whose columns have names of one level."""
    names = [str(name) for name in frame.columns.get_level_values(0)]
    if len(set(names)) < len(names):
        raise QueryError(
            "frame",
            got="columns that are called alike",
            expected="one market; of several tickers take each, frame.xs(ticker, axis=1, level=1)",
        )
    index = frame.index.rename("timestamp") if isinstance(frame.index, pd.DatetimeIndex) else frame.index
    levels = [level for level, name in enumerate(index.names) if name is not None]
    for name in (str(index.names[level]) for level in levels):
        if name in names:
            hint = "frame.reset_index(drop=True) leaves the index out"
            raise QueryError("frame", got=f"{name} in the index and in a column", expected="one", hint=hint)
        names.append(name)
    flat = frame.set_axis(names[: frame.shape[1]], axis=1)
    for level in levels:
        flat[str(index.names[level])] = index.get_level_values(level)
    return flat


def _as_series(column: Any) -> pl.Series | None:
    """Return a column as a series of polars that Arrow can hold, or None."""
    try:
        series = column if isinstance(column, pl.Series) else pl.from_pandas(column)
        if series.dtype == pl.Object:
            return None
        series.to_arrow()
    except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return None
    return series


def _require_zoned(column: pa.Field) -> None:
    """Raise QueryError if times are numbers or text, and the caller does not say how they are written."""
    if not pa.types.is_timestamp(column.type):
        raise QueryError(
            "time_unit",
            got=None,
            expected=f"how the times of {column.name} are written, e.g. ms: they are {column.type}, whose unit is not "
            "guessed",
        )
