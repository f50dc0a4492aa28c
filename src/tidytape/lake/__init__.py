"""The lake: raw events and markets as Delta Lake tables.

A lake is a folder, local or in an object store, with one Delta table per folder below it::

    lake/
    ├── trades/    one row per trade                          partitions exchange, raw_symbol
    ├── book/      one row per level of an update or snapshot  partitions exchange, raw_symbol
    ├── …          every other type of event, see `TABLES`
    ├── candles_1m/, …   one-minute rows, if a rollup made them, see `tidytape.lake.rollup`
    ├── prediction_markets/  reports of prediction markets
    └── markets/   one row per market

Times are int64 nanoseconds since the Unix epoch in UTC, because Delta Lake itself keeps microseconds. `TABLES` has
every column with dtype, unit and meaning, and each table's key; the same text is in the tables as column comments.
Spark, DuckDB, Trino, Daft and Dask read the tables as they are.

A commit is all or nothing. The commit that adds rows notes their source. So a source is added only once, even if it is
offered again or a process dies halfway. Overlapping sources add each row once, by its key; a row that contradicts
another row of the same key is an error. Several processes may write at the same time.

Reading and writing are two types. A `LakeReader` has no method that writes: a `Lake` is one, and `Lake.now` and
`Lake.at` return one that reads the lake at one moment. `Lake.writer` returns a `LakeWriter`, which appends rows and
registers markets. `tidytape.lake.ingest` puts files and frames in, and `tidytape.lake.hygiene` says what is in a lake,
checks it, and keeps it small.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tidytape.lake._batch import Batch, Spool
from tidytape.lake._lake import Lake
from tidytape.lake._predictions import outcome_markets
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import BOOK, MARKETS, PREDICTION_MARKETS, TABLES, TRADES, Table
from tidytape.lake._writer import Appended, LakeWriter
from tidytape.schema import Column

if TYPE_CHECKING:
    from tidytape.lake import hygiene, ingest, record, rollup
else:

    def __getattr__(name):
        # Loaded on first use, because reading a lake needs none of them.
        if name in {"hygiene", "ingest", "record", "rollup"}:
            return import_module(f"tidytape.lake.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BOOK",
    "MARKETS",
    "PREDICTION_MARKETS",
    "TABLES",
    "TRADES",
    "Appended",
    "Batch",
    "Column",
    "Lake",
    "LakeReader",
    "LakeWriter",
    "Spool",
    "Table",
    "hygiene",
    "ingest",
    "outcome_markets",
    "record",
    "rollup",
]
