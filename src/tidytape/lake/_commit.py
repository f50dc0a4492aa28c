"""Commit to one Delta table: rows with the note of their source, minutes with the notes of their state.

Every commit counts up a note per market that it writes to. Of two commits that began at the same version and write to
the same market the second fails: it has not seen the rows of the first. `retrying` then tries again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidytape.lake._delta import (
    SPANS,
    Opened,
    Options,
    Partition,
    absent,
    failing,
    field_of,
    files,
    opened,
    require_writable,
)
from tidytape.lake._parquet import filesystem, remove, write_parts, write_sorted
from tidytape.lake.batch import Batch, Part
from tidytape.lake.tables import Table

__all__ = ["add_minutes", "commit", "note", "replace", "replace_minutes", "retrying", "rewrite"]

_ROOM = 2**18
"""Room that a commit and its log take beside the rows. [bytes]"""

_ATTEMPTS = 30
_WAIT = wait_random_exponential(multiplier=0.02, max=2)

T = TypeVar("T")


def commit(delta: Opened, batch: Batch, *, source: str, options: Options) -> None:
    """Append the rows of a batch and note their source, against the version that ``delta`` holds."""
    _widen(delta, batch.table)
    notes = [Transaction(source, 1), *_counts(delta, batch.instruments)]
    store = filesystem(delta.table_uri, options)
    actions = write_parts(batch.parts, delta, batch.table, store)
    _commit_files(delta, batch.table, actions, store, notes=notes, spans=_spans(batch))


def add_minutes(
    delta: Opened,
    table: Table,
    rows: pl.DataFrame,
    markets: Sequence[Partition],
    *,
    notes: list[Transaction],
    options: Options,
) -> None:
    """Append minutes of some markets, which have none in these spans yet, with notes."""
    require_writable(delta, table)
    notes = [*notes, *_counts(delta, markets)]
    store = filesystem(delta.table_uri, options)
    times = rows["timestamp"]
    # polars types every value that a series might hold.
    part = Part(frozenset(markets), times.min(), times.max(), None, None, rows.height, rows)  # type: ignore[arg-type]
    actions = write_parts([part] if rows.height else [], delta, table, store)
    _commit_files(delta, table, actions, store, notes=notes)


def _commit_files(
    delta: DeltaTable,
    table: Table,
    actions: Sequence[AddAction],
    store: pyarrow.fs.FileSystem,
    *,
    notes: list[Transaction],
    spans: str | None = None,
    replacing: Mapping[str, str] | None = None,
) -> None:
    """Commit new files; with ``replacing`` a partition, in place of its old ones."""
    try:
        delta.create_write_transaction(
            list(actions),
            "append" if replacing is None else "overwrite",
            delta.schema(),
            partition_by=list(table.partitions),
            partition_filters=[(name, "=", value) for name, value in (replacing or {}).items()] or None,
            commit_properties=CommitProperties(
                app_transactions=notes, custom_metadata=None if spans is None else {SPANS: spans}
            ),
        )
    except CommitFailedError:
        remove(actions, store)  # after any other error it is not known whether they were committed
        raise


def replace(delta: DeltaTable, table: Table, rows: pl.DataFrame, *, sources: Iterable[str] = ()) -> None:
    """Replace all rows of a table, and note the sources of the new ones."""
    _widen(delta, table)
    notes = [_counted_up(delta, "replaced"), *(Transaction(source, 1) for source in sources)]
    _overwrite(delta, table, rows, notes=notes, size=rows.estimated_size())


def replace_minutes(
    delta: Opened,
    table: Table,
    rows: pl.DataFrame,
    market: Partition,
    spans: Iterable[tuple[int, int]],
    *,
    notes: list[Transaction],
) -> None:
    """Replace the minutes of one market in some half-open spans, with notes."""
    require_writable(delta, table)
    spans = list(spans)
    # Delta Lake writes files anew that hold other times too.
    touched = [file for file in files(delta, market) if any(file.may_hold(*span) for span in spans)]
    literals = (name.replace("'", "''") for name in market)
    conditions = [f"{column} = '{name}'" for column, name in zip(table.partitions, literals, strict=True)]
    times = [f"(timestamp >= {first} AND timestamp < {last})" for first, last in spans]
    _overwrite(
        delta,
        table,
        rows,
        # Counted up, so that a compaction at the same time notices the commit.
        notes=[*notes, _counted_up(delta, _counter(market))],
        size=rows.estimated_size() + sum(file.bytes for file in touched),
        predicate=" AND ".join([*conditions, f"({' OR '.join(times)})"]),
    )


def _overwrite(
    delta: DeltaTable,
    table: Table,
    rows: pl.DataFrame,
    *,
    notes: list[Transaction],
    size: float,
    predicate: str | None = None,
) -> None:
    _require_room(delta, size)
    stored = pa.schema(delta.schema().to_arrow())
    write_deltalake(
        delta,
        rows.select(stored.names).to_arrow().cast(stored),
        mode="overwrite",
        predicate=predicate,
        writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=table.row_group),
        commit_properties=CommitProperties(app_transactions=notes),
    )


def _require_room(delta: DeltaTable, size: float) -> None:
    """Raise OSError if the disk of a local table certainly has no room for so many bytes.

    The writer of delta-rs panics if the disk is full, and prints that before it raises an error.
    """
    if delta.table_uri.startswith("file://"):
        folder = unquote(delta.table_uri.removeprefix("file://"))
        if shutil.disk_usage(folder).free < size + _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)


def note(delta: DeltaTable, notes: list[Transaction]) -> None:
    """Commit notes alone."""
    delta.create_write_transaction(
        [],
        "append",
        delta.schema(),
        partition_by=delta.metadata().partition_columns,
        commit_properties=CommitProperties(app_transactions=notes, custom_metadata={SPANS: "[]"}),
    )


def rewrite(
    delta: Opened,
    table: Table,
    partition: Mapping[str, str],
    frames: Iterable[pl.DataFrame],
    *,
    target: float,
    options: Options,
) -> None:
    """Put the rows of one partition into new files of about ``target`` bytes, in place of its old ones.

    The market's note is counted up as if rows were added, so whoever writes to it at the same time notices; the spans
    of the commit say that no row is new.
    """
    require_writable(delta, table)
    store = filesystem(delta.table_uri, options)
    actions = write_sorted(frames, partition, delta, table, store, target=target)
    notes = [_counted_up(delta, _counter(partition.values()))]
    _commit_files(delta, table, actions, store, notes=notes, spans="[]", replacing=partition)


def retrying(uri: str, attempt: Callable[[Opened], T], options: Options, *, known: Opened | None = None) -> T:
    """Call ``attempt`` with the newest version of a table, again with a newer one each time it loses a race.

    The first attempt takes ``known``, if given, which changes by what the attempt commits.
    """
    first: Iterator[Opened] = iter([] if known is None else [known])
    with failing("write to the table", uri, options):
        return Retrying(
            retry=retry_if_exception_type(CommitFailedError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=_WAIT,
            reraise=True,
        )(lambda: attempt(next(first, None) or opened(uri, options)))


def _widen(delta: DeltaTable, table: Table) -> None:
    """Refuse a table that this release cannot write; give an older one the columns and the nulls it lacks.

    These are commits of their own, after which ``delta`` may stand after commits of others whose rows were not looked
    at. So this counts as a lost race, and `retrying` looks again.
    """
    require_writable(delta, table)
    new = absent(delta, table)
    required = {field.name for field in delta.schema().fields if not field.nullable}
    loosened = [column.name for column in table.columns if column.nullable and column.name in required]
    if not new and not loosened:
        return
    if new:
        delta.alter.add_columns([field_of(column) for column in new])
    for name in loosened:
        delta.alter.drop_column_not_null(name)
    raise CommitFailedError(f"table {table.name!r} has another schema since it was opened")


def _spans(batch: Batch) -> str:
    """Return the first and last timestamp of each market's new rows, so that its minutes can be made anew."""
    spans: dict[Partition, tuple[int, int]] = {}
    for part in batch:
        for names in part.instruments:
            first, last = spans.get(names, (part.first, part.last))
            spans[names] = min(first, part.first), max(last, part.last)
    return json.dumps([[*names, *span] for names, span in sorted(spans.items())])


def _counter(values: Iterable[str]) -> str:
    return "instrument:" + "/".join(values)


def _counted_up(delta: DeltaTable, name: str) -> Transaction:
    return Transaction(name, (delta.transaction_version(name) or 0) + 1)


def _counts(delta: Opened, partitions: Sequence[Partition]) -> list[Transaction]:
    delta.read_notes(len(partitions))
    return [_counted_up(delta, _counter(names)) for names in partitions]
