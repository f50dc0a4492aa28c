"""Compacting: many small files to few, in the order of time.

The rows of an instrument are written anew in the table's order, and replace its files in one commit, which fails where
another wrote to the instrument meanwhile, or compacted it; then it is tried again. Other instruments do not matter.

Delta's own ``optimize`` is not used, for what it was measured to do (deltalake 1.6.6):

- ``compact`` and ``z_order`` do not notice each other. Two that begin at one version both succeed, and every row is
  there twice, without an error. They leave out the transactions that would tell.
- ``compact`` merges files batch by batch as they arrive, so that the row groups of the merged file span nearly all of
  its time, even where the files were appended one after the other: eight files of 100,000 rows became four row groups,
  one of which runs from the first row to the last. A query of one hour would then read everything.

All of an instrument is rewritten, hence only where it has at least twice the files it needs: a tape that grows by small
files is so rewritten about as often as it doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from tqdm.auto import tqdm

from tidytape.errors import LakeError, QueryError, counted
from tidytape.lake import _delta
from tidytape.lake._columns import arrow_types, require_rewritable
from tidytape.lake._parquet import filed, removed
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene._spans import spans
from tidytape.lake.hygiene._tables import tables as kept
from tidytape.lake.store import Lake
from tidytape.lake.table import Table
from tidytape.times import MINUTE

__all__ = ["Compacted", "compact"]

TARGET = 128 * 2**20
"""Size that files are to have. [bytes]"""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting one instrument did.

    Attributes
    ----------
    table : str
        Name of the table.
    instrument : str
        The values of the table's partition columns; empty where there are none.
    files_before, files_after : int
        How many files its rows were in, and are in.
    bytes_before, bytes_after : int
        How large they were, and are. [bytes]
    """

    table: str
    instrument: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        where = f"{self.table} {self.instrument}".rstrip()
        return (
            f"{where}: {self.files_before:,} -> {counted(self.files_after, 'file')}, "
            f"{self.bytes_before:,} -> {counted(self.bytes_after, 'byte')}"
        )


def compact(
    lake: Lake,
    *,
    tables: Iterable[str] | None = None,
    target: int = TARGET,
    everything: bool = False,
    progress: bool | None = None,
) -> tuple[Compacted, ...]:
    """Put the rows of each instrument into few files, in the order of time.

    The rows stay the same, columns that this release does not know included, and so does what the lake knows of its
    sources. One commit per instrument; others may write
    at the same time. The old files stay for those who read them until `vacuum` deletes them.

    Parameters
    ----------
    lake : Lake
        Which one.
    tables : iterable of str, optional
        Names of tables; all where left out.
    target : int
        Size that files are to have. [bytes]
    everything : bool
        Rewrite every instrument, also one that has few files: puts the rows of files that `check` calls unordered in
        the order of time.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    tuple of Compacted
        What was rewritten.

    Raises
    ------
    QueryError
        If there is no such table, or the target is no size.
    LakeError
        If a table cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> compact(Lake.create(tempfile.mkdtemp()))
    ()
    """
    if target < 1:
        raise QueryError("target", got=target, expected="a number of bytes above 0")
    work: list[tuple[Table, dict[str, str], pl.DataFrame]] = []
    chosen = [table for table in kept(lake, tables) if "timestamp" in table.names]  # a registry is one file
    for table in chosen:  # all of them before the first commit
        require_rewritable(lake.delta(table.name), table)
    for table in chosen:
        work.extend(
            (table, values, files) for values, files in _worth_it(lake, table, target, everything=everything)
        )
    total = sum(int(files["bytes"].sum()) for _, _, files in work)
    done = []
    with tqdm(
        total=total, unit="B", unit_scale=True, disable=None if progress is None else not progress
    ) as bar:
        for table, values, files in work:
            instrument = _log.instrument_name(values)
            bar.set_description(f"{table.name} {instrument}".rstrip())
            _rewrite(lake, table, values, target)
            after = _log.of_instrument(_log.files(_log.opened(lake, table), table), values)
            done.append(
                Compacted(
                    table.name,
                    instrument,
                    files.height,
                    after.height,
                    int(files["bytes"].sum()),
                    int(after["bytes"].sum()),
                )
            )
            bar.update(int(files["bytes"].sum()))
    return tuple(done)


def _worth_it(
    lake: Lake, table: Table, target: int, *, everything: bool
) -> list[tuple[dict[str, str], pl.DataFrame]]:
    """The instruments of a table that have more files than they need, with these."""
    files = _log.files(_log.opened(lake, table), table)
    names = list(table.partitions)
    found = []
    for values in files.select(names).unique().sort(names).iter_rows(named=True) if names else [{}]:
        mine = _log.of_instrument(files, values)
        needed = -(-int(mine["bytes"].sum()) // target)
        if None in values.values():
            continue  # of nobody: none of ours, and not to be named in a condition
        if mine.height and (everything or mine.height >= 2 * max(needed, 1)):
            found.append((values, mine))
    return found


def _rewrite(lake: Lake, table: Table, values: Mapping[str, str], target: int) -> None:
    def attempt(delta: DeltaTable) -> None:
        files = _log.of_instrument(_log.files(delta, table), values)
        if files.is_empty():
            return
        rows = _log.scanned(lake, delta, table, every=True)
        mine = rows.filter(*(pl.col(name) == value for name, value in values.items())) if values else rows
        expected = int(mine.select(pl.len()).collect(engine="streaming").item())
        store = _log.store_of(lake, table)
        others = arrow_types(delta, table)
        frames = _in_order(mine, table, expected)
        new = filed(frames, values, table, store, target=target, new=False, others=others)
        try:
            _delta.rewritten(delta, table, values, new)
        except CommitFailedError:
            removed(new, store)  # only here is it known that nothing of them was committed
            raise

    _delta.retrying(f"{lake.path}/{table.name}", attempt, lake.storage_options)


def _in_order(rows: pl.LazyFrame, table: Table, expected: int) -> Iterator[pl.DataFrame]:
    """The rows in the order of the table, a span of time at a time; LakeError where that would leave some out."""
    minute = (pl.col("timestamp") // MINUTE).alias("minute")
    counts = rows.group_by(minute).agg(rows=pl.len()).drop_nulls().sort("minute").collect(engine="streaming")
    written = 0
    for first, last in spans(counts):
        span = rows.filter(pl.col("timestamp").is_between(first * MINUTE, (last + 1) * MINUTE, closed="left"))
        frame = span.collect(engine="streaming").sort(table.order)
        written += frame.height
        yield frame
    if written != expected:
        raise LakeError(
            f"will not compact {table.name}: {expected - written} of {counted(expected, 'row')} without a time; see "
            "what check says"
        )
