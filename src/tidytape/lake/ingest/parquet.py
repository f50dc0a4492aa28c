"""Parquet files with a column map, for any table of the lake; trades unless another is named.

The map says which column of the file is which of ours, as for `csv`. A line is a row, counted from 1. Timestamps that
say that they are in UTC, or in a zone, are taken; those that do not are refused, unless ``time_unit="iso"`` says that
they are meant in UTC. Numbers are read in ``time_unit`` where they are times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape.errors import IngestError, QueryError
from tidytape.lake.batch import Spool
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._mapped import reader
from tidytape.lake.ingest._time import DATE, ISO

__all__ = ["parse"]

ROWS = 250_000
"""Rows that are read at once."""


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file, its ``table``, ``columns`` and ``time_unit``.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    QueryError
        If the map names a column that is not there, a needed one is not mapped, no venue or no instrument is named, or
        a timestamp has no zone and ``time_unit`` is not ``iso``.
    IngestError
        If the file cannot be read.
    """
    parsed = Parsed(spool)
    size = job.path.stat().st_size if job.path.is_file() else 0
    read = 0
    try:
        with pq.ParquetFile(job.path) as file:
            # Only what is flat: nothing of ours is a list or a struct.
            names = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
            schema = file.schema_arrow
            rows = reader(job, names, parsed)
            used = set(rows.mapped.values())
            _refuse_naive(job, {ours: schema.field(name) for ours, name in rows.mapped.items()})
            for batch in file.iter_batches(batch_size=ROWS, columns=[name for name in names if name in used]):
                frame = pl.DataFrame(batch)
                rows.take(_texts(frame, names, read))
                read += frame.height
                progress(size * frame.height // max(file.metadata.num_rows, 1))
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(job.path, error) from error
    rows.finish()
    return parsed


def _refuse_naive(job: Job, fields: Mapping[str, pa.Field]) -> None:
    for ours, field in fields.items():
        unit = job.time_unit_of(ours)
        if unit == ISO:
            continue
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            raise QueryError(
                "time_unit",
                got=unit,
                expected=f"iso, to say that {field.name} of {job.path.name}, which has no time zone, is meant in UTC",
            )
        if pa.types.is_date(field.type) and unit != DATE:
            raise QueryError(
                "time_unit",
                got=unit,
                expected=f"date, to say that {field.name} of {job.path.name}, a date, is meant as its first instant",
            )


def _texts(frame: pl.DataFrame, names: list[str], before: int) -> pl.DataFrame:
    """All columns as text, in order; those that are not read are null."""
    columns = []
    for name in names:
        if name not in frame.columns:
            columns.append(pl.lit(None, pl.String).alias(name))
            continue
        dtype = frame.schema[name]
        column = pl.col(name)
        if isinstance(dtype, pl.Datetime):
            utc = (
                column.dt.convert_time_zone("UTC") if dtype.time_zone else column.dt.replace_time_zone("UTC")
            )
            columns.append(utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(name))
        else:
            columns.append(column.cast(pl.String).alias(name))
    line = pl.int_range(before + 1, before + frame.height + 1, dtype=pl.Int64).alias("line")
    return frame.select(line, *columns)


def _unreadable(path: Path, error: Exception) -> IngestError:
    return IngestError(f"{path}: no Parquet file that can be read: {error}", path=str(path))
