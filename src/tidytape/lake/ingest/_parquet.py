"""Parquet files of one's own, with a map of their columns."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape.errors import IngestError
from tidytape.lake._batch import Spool
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows

_ROWS = 250_000
"""Rows of a file that are read at once."""


@dataclass(frozen=True, kw_only=True)
class Parquet(Mapped):
    """Parquet files, with a map of their columns.

    A line is a row, counted from 1. Timestamps that say that they are in UTC, or in a zone, are taken; those that do
    not are refused, unless ``time_unit="iso"`` says that they are meant in UTC. Numbers are read in ``time_unit`` where
    they are times.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.

    Examples
    --------
    >>> Parquet(time_unit="iso").time_unit
    'iso'
    """

    name = "parquet"

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool)
        size = job.path.stat().st_size if job.path.is_file() else 0
        try:
            with pq.ParquetFile(job.path) as file:
                rows = MappedRows.of_arrow(self, job, file.schema_arrow, parsed)
                batches = file.iter_batches(batch_size=_ROWS, columns=rows.used)
                for batch in batches:
                    rows.take_arrow(batch)
                    progress(size * batch.num_rows // max(file.metadata.num_rows, 1))
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise IngestError(
                f"{job.path}: no Parquet file that can be read: {error}", path=str(job.path)
            ) from error
        rows.finish()
        return parsed
