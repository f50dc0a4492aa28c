"""What a table's log says of its files, so that nothing has to be read to know it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import polars as pl
import pyarrow.fs
from deltalake import DeltaTable

from tidytape.lake import _delta
from tidytape.lake._parquet import filesystem
from tidytape.lake.store import Lake
from tidytape.lake.table import Table


def opened(lake: Lake, table: Table) -> _delta.Opened:
    """Return the newest version of a table."""
    return lake.delta(table.name)


def scanned(lake: Lake, delta: DeltaTable, table: Table, *, every: bool = False) -> pl.LazyFrame:
    """Return the rows of that version; with ``every`` column, also those that this release does not know."""
    return _delta.scanned(delta, table, lake.storage_options, every=every)


def files(delta: DeltaTable, table: Table) -> pl.DataFrame:
    """Return the files of one version of a table.

    Returns
    -------
    polars.DataFrame, one row per file, in the order of the log
        ``path``, ``bytes``, ``rows``, the partition columns, ``first`` and ``last`` [ns since the epoch]. What
        a writer did not note is null.
    """
    actions = pl.DataFrame(delta.get_add_actions(flatten=True))
    # The columns of statistics are those that some file has.
    said = {
        "path": ("path", pl.String),
        "bytes": ("size_bytes", pl.Int64),
        "rows": ("num_records", pl.Int64),
        **{name: (f"partition.{name}", pl.String) for name in table.partitions},
        "first": ("min.timestamp", pl.Int64),
        "last": ("max.timestamp", pl.Int64),
    }
    files = actions.select(
        (pl.col(column) if column in actions.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, (column, dtype) in said.items()
    )
    # The log writes paths as URLs do; the store knows them by their own names.
    return files.with_columns(path=pl.Series([unquote(path) for path in files["path"]], dtype=pl.String))


def of_instrument(files: pl.DataFrame, values: Mapping[str, str | None]) -> pl.DataFrame:
    """Return the files of one partition."""
    wanted = [pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in values.items()]
    return files.filter(*wanted) if wanted else files


def store_of(lake: Lake, table: Table) -> pyarrow.fs.FileSystem:
    """Return where the files of a table are, by their paths."""
    return filesystem(lake.uri(table.name), lake.storage_options)


def instrument_name(values: Mapping[str, str | None]) -> str:
    """Return how a partition is called in a report: ``BINANCE BTCUSDT``; empty where a table has none."""
    return " ".join(str(value) for value in values.values())
