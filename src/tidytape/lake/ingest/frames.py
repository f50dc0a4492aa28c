"""Frames of polars and pandas into a lake, by the checks, reports and rules of repeated rows that files have."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from tidytape.errors import QueryError
from tidytape.lake.batch import Spool
from tidytape.lake.ingest._write import Writer, stated
from tidytape.lake.ingest.layout import Job, Parsed, Progress
from tidytape.lake.ingest.mapped import Mapped, Rows, known_columns
from tidytape.lake.ingest.market import Market
from tidytape.lake.ingest.report import IngestReport
from tidytape.lake.ingest.run import require_good, source_of
from tidytape.lake.store import Lake

__all__ = ["write"]

_NAME = Path("frame")
"""What reports and errors call it."""

_ROWS = 250_000
"""Rows that are checked at once."""


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
    rows = _polars(frame)
    layout = _Frame(rows=rows, table=table, columns=columns, time_unit=time_unit, interval=interval)
    layout.require_used(market)
    job = Job(_NAME, market, layout)
    content = io.BytesIO()
    rows.write_ipc(content)
    writer = Writer(lake, market)
    with Spool() as spool:
        parsed = layout.read(job, spool, lambda _: None)
        require_good(parsed, job, skip_bad=skip_bad)
        stated(job, parsed)
        digest = hashlib.sha256(content.getbuffer()).hexdigest()
        writer.put(job, parsed, source_of(digest, job, layout, skip_bad=skip_bad))
    return writer.report()


@dataclass(frozen=True, kw_only=True)
class _Frame(Mapped):
    """The rows of a frame, with a map of their columns."""

    name = "frame"

    rows: pl.DataFrame

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read the frame; a column of our name in capitals, such as Open, is ours as well."""
        parsed = Parsed(spool)
        data = self.rows.to_arrow()
        columns = dict(self.columns or {})
        taken = {*columns.values(), *data.column_names}
        for name in data.column_names:
            ours = name.lower()
            if ours in known_columns(self.of) and ours not in taken and name not in columns.values():
                columns.setdefault(ours, name)
        rows = Rows.of_arrow(replace(self, columns=columns), job, data.schema, parsed)
        for ours in self.time_columns:
            if ours in rows.mapped and self.time_of(ours) is None:
                _require_zoned(data.schema.field(rows.mapped[ours]))
        for start in range(0, data.num_rows, _ROWS):
            rows.take_arrow(data.slice(start, _ROWS))
        rows.finish()
        return parsed


def _polars(frame: Any) -> pl.DataFrame:
    """The frame as polars has it: an index of times is a column, and names have one level."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if not isinstance(frame, pd.DataFrame):
        raise QueryError("frame", got=type(frame).__name__, expected="an eager frame of polars or pandas")
    columns = frame.columns.get_level_values(0)
    if columns.has_duplicates:
        raise QueryError(
            "frame",
            got="columns that are called alike",
            expected="one market; of several tickers take each, frame.xs(ticker, axis=1, level=1)",
        )
    flat = frame.set_axis([str(name) for name in columns], axis=1)
    if isinstance(frame.index, pd.DatetimeIndex):
        flat = flat.rename_axis("timestamp").reset_index()
    return pl.from_pandas(flat)


def _require_zoned(column: pa.Field) -> None:
    """Raise QueryError where times are numbers or text, and nothing says how they are written."""
    if not pa.types.is_timestamp(column.type):
        raise QueryError(
            "time_unit",
            got=None,
            expected=f"how the times of {column.name} are written, e.g. ms: they are {column.type}, whose unit is not "
            "guessed",
        )
