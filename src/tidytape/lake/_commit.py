"""Commit to one Delta table: rows with the note of their source, minutes with the notes of their state.

Every commit counts up a note of each market that it writes to. If two commits begin at the same version and write to
the same market, the second one fails, because it has not seen the rows of the first. `retrying` then tries again.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidytape.lake._batch import Batch, Part
from tidytape.lake._delta import (
    SPANS,
    Facts,
    Opened,
    Options,
    Partition,
    absent,
    failing,
    field_of,
    files,
    names_of,
    opened,
    partitions_by_path,
    require_writable,
)
from tidytape.lake._parquet import filesystem, remove, write_parts, write_sorted
from tidytape.lake._quotes import with_products
from tidytape.lake._tables import Table
from tidytape.times import MILLISECOND

_ROOM = 2**18
"""Room on the disk that a commit and its log take beside the rows. [bytes]"""

_ATTEMPTS = 30
_WAIT = wait_random_exponential(multiplier=0.02, max=2)

T = TypeVar("T")


def commit(
    delta: Opened,
    batch: Batch,
    *,
    notes: Mapping[str, int],
    options: Options,
    instead: pl.DataFrame | None = None,
) -> None:
    """Append the rows of a batch to the version that ``delta`` has open, and note where they come from.

    Parameters
    ----------
    delta : Opened
        The table.
    batch : Batch
        The rows.
    notes : mapping of str to int
        The numbers of the notes, by name.
    options : mapping of str to str, or None
        What an object store needs.
    instead : polars.DataFrame, optional
        Keys and partitions of stored rows that are removed: the batch's rows of the same keys take their place.
    """
    _widen(delta, batch.table)
    transactions = [*(Transaction(*note) for note in notes.items()), *_counts(delta, batch.markets)]
    store = filesystem(delta.table_uri, options)
    actions = write_parts(batch.parts, delta, batch.table, store)
    removed: list[RemoveAction] = []
    if instead is not None and instead.height:
        other_rows, removed = _without(delta, batch, instead, options)
        actions += write_parts(other_rows.parts, delta, batch.table, store)
    _commit_files(
        delta, batch.table, actions, store, notes=transactions, spans=_spans(batch), removed=removed
    )


def _without(
    delta: Opened, batch: Batch, keys: pl.DataFrame, options: Options
) -> tuple[Batch, list[RemoveAction]]:
    """Return the other rows of the files that have rows with some keys, and the actions that remove these files."""
    table, times = batch.table, keys["timestamp"]
    span = int(times.min()), int(times.max()) + 1  # type: ignore[arg-type]  # polars types any value
    markets = keys.select(table.partitions).unique().rows() if table.partitions else [()]
    other_rows, removed_files = Batch(table, batch.spool), []
    for names in markets:  # one after the other, so that the rows of all are never in memory
        touched_files = [file for file in files(delta, names) if file.may_hold(*span)]
        rows = rows_of(delta, table, touched_files, options)
        other_rows.add(rows.join(keys, on=keys.columns, how="anti"))
        removed_files += touched_files
    return other_rows, removals(delta, removed_files, is_change=True)


def rows_of(delta: Opened, table: Table, stored_files: Sequence[Facts], options: Options) -> pl.DataFrame:
    """Return the rows of some files of a table."""
    store = filesystem(delta.table_uri, options)
    dtypes = table.polars()
    frames = [table.empty()]
    partitions = partitions_by_path(delta)
    for file in stored_files:
        with store.open_input_file(file.path) as opened_file:
            rows_in_file = with_products(pl.DataFrame(pq.read_table(opened_file)), table, names_of(delta))
        partition_values = dict(zip(table.partitions, partitions[file.path], strict=True))
        columns = [
            pl.lit(partition_values[name], dtypes[name]).alias(name) if name in partition_values
            else pl.col(name).cast(dtypes[name]) if name in rows_in_file.columns
            else pl.lit(None, dtypes[name]).alias(name)
            for name in table.names
        ]  # fmt: skip
        frames.append(rows_in_file.select(columns))
    return pl.concat(frames)


def removals(delta: Opened, stored_files: Sequence[Facts], *, is_change: bool) -> list[RemoveAction]:
    """Return the actions that remove files; ``is_change`` is false if the same commit writes their rows again."""
    actions = pl.DataFrame(delta.get_add_actions())
    # The log escapes paths as in a URL.
    path_in_log = {unquote(path): path for path in actions["path"]}
    columns = delta.metadata().partition_columns
    partitions = partitions_by_path(delta)
    return [
        RemoveAction(
            path_in_log[file.path],
            is_change,
            time.time_ns() // MILLISECOND,
            file.bytes,
            dict(zip(columns, partitions[file.path], strict=True)),
        )
        for file in stored_files
    ]


def merge(
    delta: Opened, table: Table, names: Partition, stored_files: Sequence[Facts], *, options: Options
) -> None:
    """Put the rows of some files of one partition into one file, in the order of the table.

    It counts up the market's note, as `rewrite` does, so a commit that removes one of the files at the same time fails.
    """
    _widen(delta, table)
    rows = rows_of(delta, table, stored_files, options).sort(table.order)
    store = filesystem(delta.table_uri, options)
    partition_values = dict(zip(table.partitions, names, strict=True))
    actions = write_sorted([rows], partition_values, delta, table, store, target=math.inf)
    notes = [_counted_up(delta, _counter(names))]
    removed = removals(delta, stored_files, is_change=False)
    _commit_files(delta, table, actions, store, notes=notes, spans="[]", removed=removed)


def add_minutes(
    delta: Opened,
    table: Table,
    rows: pl.DataFrame,
    markets: Sequence[Partition],
    *,
    notes: list[Transaction],
    options: Options,
) -> None:
    """Append minutes and commit notes with them; the markets have no minutes in these spans yet."""
    _widen(delta, table)
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
    removed: Sequence[RemoveAction] = (),
) -> None:
    """Commit new files in place of all files of the partition ``replacing``, or of the files that ``removed`` names."""
    try:
        delta.create_write_transaction(
            [*actions, *removed],
            "append" if replacing is None else "overwrite",
            delta.schema(),
            partition_by=list(table.partitions),
            partition_filters=[(name, "=", value) for name, value in (replacing or {}).items()] or None,
            commit_properties=CommitProperties(
                app_transactions=notes, custom_metadata=None if spans is None else {SPANS: spans}
            ),
        )
    except CommitFailedError:
        remove(actions, store)  # not after other errors, because then the files may be committed
        raise


def replace(delta: DeltaTable, table: Table, rows: pl.DataFrame, *, sources: Iterable[str] = ()) -> None:
    """Replace all rows of a table, and note the sources of the new rows."""
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
    """Replace the minutes of one market in some half-open spans, and commit notes with them."""
    _widen(delta, table)
    spans = list(spans)
    # Delta Lake writes the other rows of these files anew.
    touched_files = [file for file in files(delta, market) if any(file.may_hold(*span) for span in spans)]
    literals = (name.replace("'", "''") for name in market)
    conditions = [f"{column} = '{name}'" for column, name in zip(table.partitions, literals, strict=True)]
    span_conditions = [f"(timestamp >= {first} AND timestamp < {last})" for first, last in spans]
    _overwrite(
        delta,
        table,
        rows,
        # The market's note is counted up, so that a compaction at the same time fails and is tried again.
        notes=[*notes, _counted_up(delta, _counter(market))],
        size=rows.estimated_size() + sum(file.bytes for file in touched_files),
        predicate=" AND ".join([*conditions, f"({' OR '.join(span_conditions)})"]),
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
    schema = pa.schema(delta.schema().to_arrow())
    write_deltalake(
        delta,
        rows.select(schema.names).to_arrow().cast(schema),
        mode="overwrite",
        predicate=predicate,
        writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=table.row_group),
        commit_properties=CommitProperties(app_transactions=notes),
    )


def _require_room(delta: DeltaTable, size: float) -> None:
    """Raise OSError if the disk of a local table certainly has no room for ``size`` bytes.

    On a full disk the writer of delta-rs panics, and prints that before it raises an error.
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
    """Put the rows of one partition into new files of about ``target`` bytes, in place of its old files.

    It counts up the market's note as if it added rows, so another commit to the market at the same time fails. The
    spans of the commit say that no row is new.
    """
    _widen(delta, table)
    store = filesystem(delta.table_uri, options)
    actions = write_sorted(frames, partition, delta, table, store, target=target)
    notes = [_counted_up(delta, _counter(partition.values()))]
    _commit_files(delta, table, actions, store, notes=notes, spans="[]", replacing=partition)


def retrying(uri: str, attempt: Callable[[Opened], T], options: Options, *, known: Opened | None = None) -> T:
    """Call ``attempt`` with the newest version of a table, and again with a newer one each time it loses a race.

    The first attempt gets the open table ``known``, if there is one; a commit moves it on to the new version.
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
    """Refuse a table that this release cannot write; add to an older table the columns and nulls that it lacks.

    Adding them takes commits, and another process may commit rows in between. So it counts as a lost race, and
    `retrying` compares the batch with all rows again.
    """
    require_writable(delta, table)
    absent_columns = absent(delta, table)
    required_names = {field.name for field in delta.schema().fields if not field.nullable}
    nullable_names = [
        column.name for column in table.columns if column.nullable and column.name in required_names
    ]
    if not absent_columns and not nullable_names:
        return
    if absent_columns:
        delta.alter.add_columns([field_of(column) for column in absent_columns])
    for name in nullable_names:
        delta.alter.drop_column_not_null(name)
    raise CommitFailedError(f"table {table.name!r} has another schema since it was opened")


def _spans(batch: Batch) -> str:
    """Return the first and last timestamp of each market's new rows as JSON; a rollup computes these minutes anew."""
    spans: dict[Partition, tuple[int, int]] = {}
    for part in batch:
        for names in part.markets:
            first, last = spans.get(names, (part.first, part.last))
            spans[names] = min(first, part.first), max(last, part.last)
    return json.dumps([[*names, *span] for names, span in sorted(spans.items())])


def _counter(values: Iterable[str]) -> str:
    # Existing lakes have this word in their logs, and all versions of tidytape must count in the same note.
    return "instrument:" + "/".join(values)


def _counted_up(delta: DeltaTable, name: str) -> Transaction:
    return Transaction(name, (delta.transaction_version(name) or 0) + 1)


def _counts(delta: Opened, partitions: Sequence[Partition]) -> list[Transaction]:
    delta.read_notes(len(partitions))
    return [_counted_up(delta, _counter(names)) for names in partitions]
