"""Delta Lake, as little of it as the lake needs: open, create, read and commit one table."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import polars as pl
import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidytape.errors import LakeError
from tidytape.lake import _object_store
from tidytape.lake._columns import (
    absent,
    arrow_types,
    field_of,
    require_readable,
    require_rewritable,
    require_writable,
)
from tidytape.lake._notes import all_notes
from tidytape.lake._parquet import filed, filesystem, removed, written
from tidytape.lake.batch import Batch
from tidytape.lake.table import ROW_GROUP, Table

_WRITER = WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP)

# What Delta Lake calls the commits that leave a table's rows as they are.
_SAME_ROWS = {"CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMN"}

_FRESH = 60.0  # seconds

_ROOM = 2**18
"""Room that a commit and its log take beside the rows. [bytes]"""

_MANY_NOTES = 32
"""From so many notes on it is quicker to read the whole log than to look each of them up."""

_ATTEMPTS = 30
_WAIT = wait_random_exponential(multiplier=0.02, max=2)

# What the libraries below misread in a local path, each of them tried: delta-rs takes an escape for what it stands for
# and a backslash for a slash, and stops at brackets, ^ and |; polars takes a folder with = for a column.
_MISREAD = re.compile(
    r"%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f\ud800-\udfff\[\]^|=]" + (r"|\\" if os.sep == "/" else "")
)

SPANS = "tidytape.spans"
"""What a commit says of its rows: ``[[*partition values, first, last], …]`` as JSON, times in ns since the epoch."""

Options = Mapping[str, str] | None
T = TypeVar("T")


class Opened(DeltaTable):
    """A table whose local files are named as they are on disk.

    A lake keeps its tables open and asks the same of them at every query, so what the log of a version says is read
    once: delta-rs takes milliseconds to list a hundred files, and half of one to find a note.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.opened_at = time.monotonic()
        self.log: str | None = None
        """Folder of the log of a local table."""
        if self.table_uri.startswith("file://"):
            self.log = unquote(self.table_uri.removeprefix("file://")).rstrip("/") + "/_delta_log"
        self._said: tuple[int, dict[Any, Any]] = -1, {}

    def once(self, what: Any, read: Callable[[], T]) -> T:
        """Return what ``read`` returned when it was first asked for at this version."""
        version = self.version()
        if self._said[0] != version:
            self._said = version, {}
        _, said = self._said
        if what not in said:
            said[what] = read()
        return said[what]  # type: ignore[no-any-return]

    def get_add_actions(self, flatten: bool = False) -> Any:  # noqa: FBT001, FBT002 - as delta-rs has it
        """Return what the log says of the files."""
        return self.once(("files", flatten), lambda: super(Opened, self).get_add_actions(flatten))

    def transaction_version(self, app_id: str) -> int | None:
        """Return what a note says."""
        if self.version() == 0:
            return None  # the commit that made the table notes nothing
        if self._said[0] == self.version() and (notes := self._said[1].get("notes")) is not None:
            return notes.get(app_id)  # type: ignore[no-any-return]
        return self.once(("note", app_id), lambda: super(Opened, self).transaction_version(app_id))

    def read_notes(self, wanted: int) -> None:
        """Prepare for so many notes to be asked for: of many, all that there are are read at once."""
        if self.version() > 0 and wanted >= _MANY_NOTES:
            store = filesystem(self.table_uri, self._storage_options)
            self.once("notes", lambda: all_notes(store, self.version()))

    def file_uris(self, *filters: Any, **more: Any) -> list[str]:
        """Return the addresses of the files: delta-rs escapes the folders above a local table, polars does not."""
        uris = super().file_uris(*filters, **more)
        if not self.table_uri.startswith("file://"):
            return uris
        root = self.table_uri.removeprefix("file://")
        return [unquote(root) + uri.removeprefix(root) for uri in uris]


def root_of(path: str | Path) -> str:
    """Return a lake's address: a URL as it is, a local path absolute, neither with a slash at the end.

    Raises
    ------
    LakeError
        If it is a local path that cannot be read back.
    """
    text = str(path)
    if "://" in text and urlsplit(text).username is not None:
        raise LakeError("a lake's address holds no credentials: they belong into the environment")
    root = text.rstrip("/") if "://" in text else str(Path(text).expanduser().absolute())
    local = unquote(urlsplit(root).path) if root.startswith("file://") else root
    if "://" not in local and sys.getfilesystemencoding() != "utf-8" and not local.isascii():
        raise LakeError(
            f"a lake cannot be at {root!a}: this Python reads paths as {sys.getfilesystemencoding()}; start it with "
            "PYTHONUTF8=1",
            path=root,
        )
    if "://" not in local and (misread := _MISREAD.search(local)):
        raise LakeError(
            f"a lake cannot be at {root!r}: {misread[0]!r} in a path is read as something else", path=root
        )
    return root


@contextmanager
def failing(what: str, uri: str, options: Options = None) -> Iterator[None]:
    """Turn what the libraries below raise, a panic of their Rust included, into LakeError."""
    try:
        yield
    except (DeltaError, OSError, pl.exceptions.PolarsError) as error:
        said = _object_store.explained(error, uri, options)
        raise LakeError(f"cannot {what} at {uri}: {said}", path=uri) from _object_store.cause(error, options)
    except BaseException as error:
        # No Exception, and of another type in every library, none of which can be imported from all.
        if type(error).__name__ != "PanicException":
            raise
        said = _object_store.explained(error, uri, options)
        raise LakeError(f"cannot {what} at {uri}: {said}", path=uri) from _object_store.cause(error, options)


def exists(uri: str, options: Options) -> bool:
    """Whether there is a Delta table at ``uri``."""
    knock = _object_store.knocking(options) if "://" in uri else _dict(options)
    with failing("look for a lake", uri, options):
        return DeltaTable.is_deltatable(uri, storage_options=knock)


def create(uri: str, table: Table, options: Options) -> None:
    """Create the table unless it is there, its documentation in its comments."""
    schema = Schema([field_of(column) for column in table.columns])
    try:
        with failing(f"create table {table.name!r}", uri, options):
            DeltaTable.create(
                uri,
                schema,
                mode="ignore",
                partition_by=list(table.partitions),
                name=table.name,
                description=table.rows,
                storage_options=_dict(options),
            )
    except LakeError:
        if not exists(uri, options):  # another process may have been faster
            raise


def is_old(delta: Opened) -> bool:
    """Whether an opened table may have a newer version.

    Of a local table a look for the next commit tells. It could have been made and cleaned away since, and of object
    stores nothing short of opening tells, so what was opened long ago is old in any case.
    """
    if delta.log is None or time.monotonic() - delta.opened_at > _FRESH:
        return True
    # No Path: it takes four times as long, and one answer looks some twenty times.
    return os.path.exists(f"{delta.log}/{delta.version() + 1:020}.json")  # noqa: PTH110


def opened(uri: str, options: Options) -> Opened:
    """Return the newest version of the table."""
    with failing("open the table", uri, options):
        return Opened(uri, storage_options=_dict(options))


def scanned(delta: DeltaTable | None, table: Table, options: Options, *, every: bool = False) -> pl.LazyFrame:
    """Return a lazy frame of one version of the table, columns in the documented order.

    A table that is not there has no rows, and a column that may be null and is not there is null: an older version
    of this library made the lake. Columns that this release does not know follow where ``every`` column is wanted, to
    be written again.
    """
    if delta is None:
        return table.empty().lazy()
    require_readable(delta, table)
    dtypes = table.polars()
    nulls = [pl.lit(None, dtypes[column.name]).alias(column.name) for column in absent(delta, table)]
    names = [*table.names, *(arrow_types(delta, table) if every else [])]
    return (
        pl.scan_delta(delta, storage_options=_object_store.for_polars(options))
        .with_columns(nulls)
        .select(names)
    )


def commit(delta: Opened, batch: Batch, *, source: str, options: Options) -> None:
    """Append the rows and note their source in one commit, against the version that ``delta`` holds.

    The version of each instrument is counted up in the same commit. Of two commits that began at the same version and
    touch the same instrument, the second fails: it has not seen the rows of the first.
    """
    _widen(delta, batch.table)
    counted = _counters(delta, batch.instruments)
    files = filesystem(delta.table_uri, _dict(options))
    actions = written(batch.parts, batch.table, files)
    try:
        delta.create_write_transaction(
            list(actions),
            "append",
            delta.schema(),
            partition_by=list(batch.table.partitions),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(source, 1), *counted], custom_metadata={SPANS: _spans(batch)}
            ),
        )
    except CommitFailedError:
        removed(actions, files)  # only here is it known that nothing of them was committed
        raise


def replace(delta: DeltaTable, table: Table, frame: pl.DataFrame, *, sources: Iterable[str] = ()) -> None:
    """Put ``frame`` in the place of the whole table, and note its sources in the same commit.

    Fails if another did so since ``delta`` was opened.
    """
    _widen(delta, table)
    _require_room(delta, frame.estimated_size())
    notes = [Transaction(source, 1) for source in sources]
    write_deltalake(
        delta,
        _whole(delta, table, frame),
        mode="overwrite",
        writer_properties=_WRITER,
        commit_properties=CommitProperties(app_transactions=[_counted(delta, "replaced"), *notes]),
    )


def replace_spans(
    delta: Opened,
    table: Table,
    rows: pl.DataFrame,
    names: tuple[str, ...],
    spans: Iterable[tuple[int, int]],
    *,
    notes: list[Transaction],
) -> None:
    """Put ``rows`` in the place of those of one partition and some half-open spans of time, with notes, in one commit.

    Of two commits that note the same at once, the second fails.
    """
    require_writable(delta, table)
    spans = list(spans)
    # Files that hold other times too are written anew.
    there = [file for file in files(delta, names) if any(file.may_hold(*span) for span in spans)]
    _require_room(delta, rows.estimated_size() + sum(file.bytes for file in there))
    here = [f"{column} = '{_escaped(name)}'" for column, name in zip(table.partitions, names, strict=True)]
    times = [f"(timestamp >= {first} AND timestamp < {last})" for first, last in spans]
    write_deltalake(
        delta,
        _whole(delta, table, rows),
        mode="overwrite",
        predicate=" AND ".join([*here, f"({' OR '.join(times)})"]),
        writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=table.row_group),
        # Counted as an instrument that is written to, so that a compaction at the same time is noticed.
        commit_properties=CommitProperties(app_transactions=[*notes, _counted(delta, _counter(names))]),
    )


def append_spans(
    delta: Opened,
    table: Table,
    rows: pl.DataFrame,
    partitions: Iterable[tuple[str, ...]],
    *,
    notes: list[Transaction],
    options: Options,
) -> None:
    """Add rows of some partitions, in the table's order, with notes, in one commit.

    For spans of time of which a partition has no row yet. Of two commits that note the same at once, the second fails.
    """
    require_writable(delta, table)
    counted = _counters(delta, list(partitions))
    store = filesystem(delta.table_uri, _dict(options))
    actions: list[AddAction] = []
    try:
        for names, part in rows.partition_by(table.partitions, as_dict=True, maintain_order=True).items():
            values = dict(zip(table.partitions, names, strict=True))
            actions += filed([part], values, table, store)
    except BaseException:
        removed(actions, store)
        raise
    try:
        delta.create_write_transaction(
            list(actions),
            "append",
            delta.schema(),
            partition_by=list(table.partitions),
            commit_properties=CommitProperties(app_transactions=[*notes, *counted]),
        )
    except CommitFailedError:
        removed(actions, store)  # only here is it known that nothing of them was committed
        raise


def _require_room(delta: DeltaTable, size: float) -> None:
    """Raise OSError if the disk of a local table certainly has no room for so many bytes.

    The writer of delta-rs panics where the disk is full, and prints that before it raises an error.
    """
    if delta.table_uri.startswith("file://"):
        folder = unquote(delta.table_uri.removeprefix("file://"))
        if shutil.disk_usage(folder).free < size + _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)


def _whole(delta: DeltaTable, table: Table, frame: pl.DataFrame) -> pa.Table:
    """The rows with every stored column, null where the frame does not have it."""
    rows = frame.to_arrow()
    known = table.empty().to_arrow().schema
    types = {**{field.name: field.type for field in known}, **arrow_types(delta, table)}
    columns = {
        name: rows[name].cast(dtype) if name in rows.column_names else pa.nulls(rows.num_rows, dtype)
        for name, dtype in types.items()
    }
    return pa.table(columns)


def noted(delta: DeltaTable, notes: list[Transaction]) -> None:
    """Commit notes alone."""
    delta.create_write_transaction(
        [],
        "append",
        delta.schema(),
        partition_by=delta.metadata().partition_columns,
        commit_properties=CommitProperties(app_transactions=notes, custom_metadata={SPANS: "[]"}),
    )


def spans_since(delta: Opened, version: int) -> dict[tuple[str, ...], list[tuple[int, int]]] | None:
    """Return what the commits after a version said of their rows, by partition, see `SPANS`.

    None if that is not known of a commit.
    """
    newer = delta.version() - version
    if newer <= 0:
        return {}
    # Asked for every instrument of a rollup.
    return delta.once(("spans", version), lambda: _said(delta, version, newer))


def _said(delta: DeltaTable, version: int, newer: int) -> dict[tuple[str, ...], list[tuple[int, int]]] | None:
    commits = delta.history(newer)
    if len(commits) < newer or any(commit["version"] <= version for commit in commits):
        return None  # the log was cleaned up
    spans: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for commit in commits:
        if SPANS in commit:
            for *names, first, last in json.loads(commit[SPANS]):
                spans.setdefault(tuple(names), []).append((first, last))
        elif commit["operation"] not in _SAME_ROWS:
            return None
    return spans


class Facts(NamedTuple):
    """What the log says of a file: how many rows, their timestamps and prices; None where it does not say."""

    rows: int | None
    first: int | None
    last: int | None
    low: float | None = None
    high: float | None = None
    bytes: int = 0

    def may_hold(self, start: int, end: int) -> bool:
        """Whether it may hold rows of a span of time; one whose times the log does not say may."""
        return not (
            (self.last is not None and self.last < start) or (self.first is not None and self.first >= end)
        )


def files(delta: Opened, names: tuple[str, ...]) -> list[Facts]:
    """Return what the log says of the files of one partition."""
    return delta.once("by partition", lambda: _by_partition(delta)).get(names, [])


def _by_partition(delta: Opened) -> dict[tuple[str, ...], list[Facts]]:
    # Asked for thousands of instruments one after the other, so these are no frames.
    by_partition: dict[tuple[str, ...], list[Facts]] = {}
    added = delta.once("added", lambda: _added(delta))
    for *names, rows, first, last, low, high, size in added.iter_rows():
        by_partition.setdefault(tuple(names), []).append(Facts(rows, first, last, low, high, size))
    return by_partition


def may_hold(delta: Opened, names: tuple[str, ...], *, start: int, end: int) -> bool:
    """Whether files of one partition may hold rows of a span of time; one whose times the log does not say may."""
    return any(file.may_hold(start, end) for file in files(delta, names))


def partitions(delta: Opened) -> list[tuple[str, ...]]:
    """Return the partitions that have files, sorted."""
    added = delta.once("added", lambda: _added(delta))
    columns = [name for name in added.columns if name.startswith("partition.")]
    return sorted(added.select(columns).unique().iter_rows())


def extents(delta: Opened) -> pl.DataFrame:
    """Return the ``first`` and ``last`` timestamp of every partition that has files, sorted, as the log says."""
    return delta.once("extents", lambda: _extents(delta))


def _extents(delta: Opened) -> pl.DataFrame:
    names = delta.metadata().partition_columns
    return (
        delta.once("added", lambda: _added(delta))
        .rename({f"partition.{name}": name for name in names})
        .group_by(names)
        .agg(pl.col("first").min(), pl.col("last").max())
        .drop_nulls()
        .sort(names)
    )


def highest(delta: Opened, column: str) -> pl.DataFrame | None:
    """Return the ``highest`` value of a column in every partition, as the log says; None where it does not tell."""
    names = delta.metadata().partition_columns
    added = pl.DataFrame(delta.get_add_actions(flatten=True))
    most = f"max.{column}"
    if (
        most not in added.columns
        or added.filter(pl.col("num_records").ne_missing(0), pl.col(most).is_null()).height
    ):
        return None
    return added.group_by([pl.col(f"partition.{name}").alias(name) for name in names]).agg(
        pl.col(most).max().alias("highest")
    )


def _added(delta: DeltaTable) -> pl.DataFrame:
    schema = delta.metadata().partition_columns
    added = pl.DataFrame(delta.get_add_actions(flatten=True))
    if added.is_empty():
        names: dict[str, type[pl.DataType]] = dict.fromkeys(
            (f"partition.{name}" for name in schema), pl.String
        )
        numbers: dict[str, type[pl.DataType]] = {
            "rows": pl.Int64,
            "first": pl.Int64,
            "last": pl.Int64,
            "low": pl.Float64,
            "high": pl.Float64,
            "bytes": pl.Int64,
        }
        return pl.DataFrame(schema=names | numbers)
    low, high = (
        pl.col(name) if name in added.columns else pl.lit(None, pl.Float64)
        for name in ("min.price", "max.price")
    )
    return added.select(
        *(f"partition.{name}" for name in schema),
        pl.col("num_records").alias("rows"),
        pl.col("min.timestamp").alias("first"),
        pl.col("max.timestamp").alias("last"),
        low.alias("low"),
        high.alias("high"),
        pl.col("size_bytes").alias("bytes"),
    ).filter(pl.col("rows").ne_missing(0))  # others may not say how many


def rewritten(delta: DeltaTable, table: Table, values: Mapping[str, str], files: Sequence[AddAction]) -> None:
    """Put files of the same rows in the place of those of one partition, against the version that ``delta`` holds.

    The instrument's count goes up as if it were appended to, so whoever writes to it at the same time is noticed; the
    span of the commit says that no row is new.
    """
    require_rewritable(delta, table)
    delta.create_write_transaction(
        list(files),
        "overwrite",
        delta.schema(),
        partition_by=list(table.partitions),
        partition_filters=[(name, "=", value) for name, value in values.items()] or None,
        commit_properties=CommitProperties(
            app_transactions=[_counted(delta, _counter(values.values()))],
            custom_metadata={SPANS: "[]"},
        ),
    )


def retrying(uri: str, attempt: Callable[[Opened], T], options: Options, *, known: Opened | None = None) -> T:
    """Call ``attempt`` with the newest version of a table, again with a newer one each time it loses a race.

    What is ``known``, if given, is what the first attempt is made with. It is changed by what it commits.
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

    These are commits of their own. Then ``delta`` may stand after the commits of others whose rows were not looked at,
    so what was to be written counts as a lost race: `retrying` looks again.
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
    """First and last timestamp of the new rows of each instrument, so that what depends on them can be made anew."""
    spans: dict[tuple[str, ...], tuple[int, int]] = {}
    for part in batch:
        for names in part.instruments:
            first, last = spans.get(names, (part.first, part.last))
            spans[names] = min(first, part.first), max(last, part.last)
    return json.dumps([[*names, *span] for names, span in sorted(spans.items())])


def _escaped(text: str) -> str:
    return text.replace("'", "''")


def _counter(values: Iterable[str]) -> str:
    return "instrument:" + "/".join(values)


def _counted(delta: DeltaTable, name: str) -> Transaction:
    return Transaction(name, (delta.transaction_version(name) or 0) + 1)


def _counters(delta: Opened, partitions: Sequence[tuple[str, ...]]) -> list[Transaction]:
    delta.read_notes(len(partitions))
    return [_counted(delta, _counter(names)) for names in partitions]


def _dict(options: Options) -> dict[str, str] | None:
    return dict(options) if options else None
