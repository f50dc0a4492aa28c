"""Writing data files in the order they are given, and what the log has to say of them.

Delta's own writer takes the batches of a stream in turns, so that a file of more than one is not in their order
(measured with deltalake 1.6.6). Readers skip by time only where it is.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

__all__ = ["write"]

_GROUP = 262_144
"""Rows of a row group, as everywhere in the lake."""


def write(
    frames: Iterable[pl.DataFrame],
    store: pyarrow.fs.FileSystem,
    folder: str,
    values: Mapping[str, str | None],
    *,
    target: int,
) -> list[AddAction]:
    """Write rows to new files, and return what makes them part of a table.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        The rows, in order.
    store : FileSystem
        Of the table.
    folder : str
        Below the table's own.
    values : mapping of str to str
        The partition's, columns that are not written.
    target : int
        A file that has reached this size is the last but one. [bytes]

    Returns
    -------
    list of AddAction, one per file
    """
    done: list[AddAction] = []
    file: _File | None = None
    for frame in frames:
        for group in frame.drop(values.keys()).iter_slices(_GROUP):
            file = file or _File(store, folder)
            file.write(group)
            if file.size >= target:
                done.append(file.closed(values))
                file = None
    if file is not None:
        done.append(file.closed(values))
    return done


class _File:
    """One file that is being written."""

    def __init__(self, store: pyarrow.fs.FileSystem, folder: str) -> None:
        name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        self._path = f"{folder}/{name}" if folder else name
        self._sink = store.open_output_stream(self._path)
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._nulls: dict[str, int] = {}
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}
        self._unknown: set[str] = set()

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def write(self, group: pl.DataFrame) -> None:
        table = group.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression="zstd", store_schema=False)
        self._writer.write_table(table, row_group_size=_GROUP)
        self._rows += group.height
        for column in group:
            name = column.name
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count()
            if column.dtype == pl.Boolean or column.null_count() == column.len():
                continue
            low, high = column.min(), column.max()
            if column.dtype.is_float() and not column.is_finite().all():
                self._unknown.add(name)  # a NaN is neither below nor above
                continue
            self._low[name] = low if name not in self._low else min(self._low[name], low)
            self._high[name] = high if name not in self._high else max(self._high[name], high)

    def closed(self, values: Mapping[str, str | None]) -> AddAction:
        if self._writer is not None:
            self._writer.close()
        size = self.size
        self._sink.close()
        stats = {
            "numRecords": self._rows,
            "minValues": {name: value for name, value in self._low.items() if name not in self._unknown},
            "maxValues": {name: value for name, value in self._high.items() if name not in self._unknown},
            "nullCount": self._nulls,
        }
        # The rows are the same as before, only elsewhere.
        return AddAction(
            path=self._path,
            size=size,
            partition_values=values,
            modification_time=math.floor(time.time() * 1000),
            data_change=False,
            stats=json.dumps(stats),
        )
