"""Files: those that the log names are there, hold what it says, and run in time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape.errors import counted
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene._subject import Found, Subject

__all__ = ["broken", "misdescribed", "unsorted"]


def broken(subject: Subject) -> Iterator[Found]:
    """Files that are missing, cannot be read to the end, or hold another number of rows than the log says."""
    store = _log.store_of(subject.lake, subject.table)
    faults = []
    for path, rows in subject.files.select("path", "rows").iter_rows():
        try:
            file = pq.ParquetFile(path, filesystem=store, page_checksum_verification=True)
            held = file.metadata.num_rows
            # All of it: no other check looks at every column, and a page can be told to be damaged only here.
            for _ in file.iter_batches(batch_size=2**16):
                pass
        except (OSError, pa.ArrowException) as error:
            faults.append(f"{path}: {_reason(error)}")
            continue
        if rows is not None and held != rows:
            faults.append(f"{path}: holds {counted(held, 'row')}, the log says {rows}")
    if faults:
        yield len(faults), faults[0]


def misdescribed(subject: Subject) -> Iterator[Found]:
    """Files of which the log says other times than they hold, or none: readers skip files by what it says."""
    store = _log.store_of(subject.lake, subject.table)
    faults = []
    for path, first, last in subject.files.select("path", "first", "last").iter_rows():
        ends: list[int] = []
        for batch in pq.ParquetFile(path, filesystem=store).iter_batches(
            columns=["timestamp"], batch_size=2**20
        ):
            times = pl.Series(batch.column(0), dtype=pl.Int64).drop_nulls().to_numpy()
            ends += [int(times.min()), int(times.max())] if len(times) else []
        if ends and (first is None or last is None or min(ends) < first or max(ends) > last):
            faults.append(f"{path}: holds {min(ends)} to {max(ends)}, the log says {first} to {last}")
    if faults:
        yield len(faults), faults[0]


def unsorted(subject: Subject) -> Iterator[Found]:
    """Files whose rows do not rise in time, so that a reader cannot skip by it."""
    store = _log.store_of(subject.lake, subject.table)
    faults = []
    for path in subject.files["path"]:
        previous = None
        # By row groups: a file may be larger than memory.
        for batch in pq.ParquetFile(path, filesystem=store).iter_batches(
            columns=["timestamp"], batch_size=2**20
        ):
            times = pl.Series(batch.column(0), dtype=pl.Int64).drop_nulls()
            if times.is_empty():
                continue
            if not times.is_sorted() or (previous is not None and times[0] < previous):
                faults.append(path)
                break
            previous = times[-1]
    if faults:
        yield len(faults), f"{faults[0]}; compact --everything puts them in order"


def _reason(error: BaseException) -> str:
    return "is missing" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())[:200]
