"""Files: those that the log names are there, hold what it says, and run in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tidytape.errors import counted
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene._subject import Found, Subject


def broken(subject: Subject) -> Iterator[Found]:
    """Files that are missing, cannot be read to the end, or hold another number of rows than the log says."""
    faults = [file.fault for file in subject.once("files", lambda: _read(subject)) if file.fault]
    if faults:
        yield len(faults), faults[0]


def misdescribed(subject: Subject) -> Iterator[Found]:
    """Files of which the log says other times than they hold, or none: readers skip files by what it says."""
    faults = []
    for file in subject.once("files", lambda: _read(subject)):
        first, last = file.said
        if file.held is not None and (
            first is None or last is None or file.held[0] < first or file.held[1] > last
        ):
            faults.append(
                f"{file.path}: holds {file.held[0]} to {file.held[1]}, the log says {first} to {last}"
            )
    if faults:
        yield len(faults), faults[0]


def unsorted(subject: Subject) -> Iterator[Found]:
    """Files whose rows do not rise in time, so that a reader cannot skip by it."""
    faults = [file.path for file in subject.once("files", lambda: _read(subject)) if not file.rises]
    if faults:
        yield len(faults), f"{faults[0]}; compact --everything puts them in order"


@dataclass(frozen=True, slots=True)
class _File:
    """What was found in a file, and what the log says of it.

    Attributes
    ----------
    path : str
        The file.
    fault : str
        Why it cannot be read, or that it holds another number of rows than the log says; empty where neither.
    said : tuple of int or None
        First and last timestamp by the log. [ns]
    held : tuple of int, or None
        First and last timestamp that it holds; None where it holds none. [ns]
    rises : bool
        Whether its rows rise in time.
    """

    path: str
    fault: str
    said: tuple[int | None, int | None]
    held: tuple[int, int] | None
    rises: bool


def _read(subject: Subject) -> list[_File]:
    """Read every file to its end, once for all checks of files."""
    store = _log.store_of(subject.lake, subject.table)
    columns = subject.files.select("path", "rows", "first", "last")
    return [
        _read_file(store, path, rows, (first, last), timed="timestamp" in subject.table.names)
        for path, rows, first, last in columns.iter_rows()
    ]


def _read_file(
    store: pyarrow.fs.FileSystem,
    path: str,
    rows: int | None,
    said: tuple[int | None, int | None],
    *,
    timed: bool,
) -> _File:
    fault, rises = "", True
    low: int | None = None
    high: int | None = None
    try:
        file = pq.ParquetFile(path, filesystem=store, page_checksum_verification=True)
        count = file.metadata.num_rows
        # All of it: no other check looks at every column, and a page can be told to be damaged only here. By parts: a
        # file may be larger than memory.
        for batch in file.iter_batches(batch_size=2**16):
            times = (
                pl.Series(batch.column("timestamp"), dtype=pl.Int64).drop_nulls() if timed else pl.Series()
            )
            if times.is_empty():
                continue
            rises = rises and times.is_sorted() and (high is None or times[0] >= high)
            least, most = int(times.min()), int(times.max())  # type: ignore[arg-type]  # polars types any value
            low = least if low is None else min(low, least)
            high = most if high is None else max(high, most)
    except (OSError, pa.ArrowException) as error:
        return _File(path, f"{path}: {_reason(error)}", said, None, rises=True)
    if rows is not None and count != rows:
        fault = f"{path}: holds {counted(count, 'row')}, the log says {rows}"
    return _File(path, fault, said, None if low is None or high is None else (low, high), rises)


def _reason(error: BaseException) -> str:
    return "is missing" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())[:200]
