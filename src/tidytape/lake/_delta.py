"""Delta Lake, as little of it as the lake needs: open, create, read and commit one table."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import polars as pl
import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import ArrayType, PrimitiveType
from deltalake.transaction import AddAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidytape.errors import LakeError
from tidytape.lake import _object_store
from tidytape.lake._parquet import filesystem, removed, written
from tidytape.lake.batch import Batch
from tidytape.lake.table import ROW_GROUP, Column, Dtype, Table

__all__ = [
    "Opened",
    "commit",
    "create",
    "exists",
    "extents",
    "failing",
    "files",
    "highest",
    "is_old",
    "noted",
    "opened",
    "partitions",
    "replace",
    "replace_spans",
    "retrying",
    "rewritten",
    "root_of",
    "scanned",
    "spans_since",
]

_DELTA: Mapping[Dtype, PrimitiveType | ArrayType] = {
    "string": PrimitiveType("string"),
    "float64": PrimitiveType("double"),
    "int64": PrimitiveType("long"),
    "bool": PrimitiveType("boolean"),
    "strings": ArrayType(PrimitiveType("string")),
    "floats": ArrayType(PrimitiveType("double")),
}

_WRITER = WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP)

# What Delta Lake calls the commits that leave a table's rows as they are.
_SAME_ROWS = {"CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMN"}

_FRESH = 60.0  # seconds

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
        return self.once(("note", app_id), lambda: super(Opened, self).transaction_version(app_id))

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
    schema = Schema([_field(column) for column in table.columns])
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
    if delta.table_uri.startswith("file://"):
        log = Path(unquote(delta.table_uri.removeprefix("file://"))) / "_delta_log"
        return (
            time.monotonic() - delta.opened_at > _FRESH or (log / f"{delta.version() + 1:020}.json").exists()
        )
    return True


def opened(uri: str, options: Options) -> Opened:
    """Return the newest version of the table."""
    with failing("open the table", uri, options):
        return Opened(uri, storage_options=_dict(options))


def scanned(delta: DeltaTable | None, table: Table, options: Options) -> pl.LazyFrame:
    """Return a lazy frame of one version of the table, columns in the documented order.

    A table that is not there has no rows, and a column that may be null and is not there is null: an older version
    of this library made the lake.
    """
    if delta is None:
        return table.empty().lazy()
    absent = _absent(delta, table)
    if required := [column.name for column in absent if not column.nullable]:
        raise LakeError(
            f"table {table.name!r} has no column {required[0]!r}: not a table of this library",
            path=delta.table_uri,
        )
    dtypes = table.polars()
    nulls = [pl.lit(None, dtypes[column.name]).alias(column.name) for column in absent]
    return (
        pl.scan_delta(delta, storage_options=_object_store.for_polars(options))
        .with_columns(nulls)
        .select(table.names)
    )


def commit(delta: DeltaTable, batch: Batch, *, source: str, options: Options) -> None:
    """Append the rows and note their source in one commit, against the version that ``delta`` holds.

    The version of each instrument is counted up in the same commit. Of two commits that began at the same version and
    touch the same instrument, the second fails: it has not seen the rows of the first.
    """
    _widen(delta, batch.table)
    counted = [_counted(delta, _counter(values)) for values in batch.instruments]
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
    notes = [Transaction(source, 1) for source in sources]
    write_deltalake(
        delta,
        frame.to_arrow(),
        mode="overwrite",
        writer_properties=_WRITER,
        commit_properties=CommitProperties(app_transactions=[_counted(delta, "replaced"), *notes]),
    )


def replace_spans(
    delta: DeltaTable,
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
    here = [f"{column} = '{_escaped(name)}'" for column, name in zip(table.partitions, names, strict=True)]
    times = [f"(timestamp >= {first} AND timestamp < {last})" for first, last in spans]
    write_deltalake(
        delta,
        rows.to_arrow().cast(table.empty().to_arrow().schema),
        mode="overwrite",
        predicate=" AND ".join([*here, f"({' OR '.join(times)})"]),
        writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=table.row_group),
        # Counted as an instrument that is written to, so that a compaction at the same time is noticed.
        commit_properties=CommitProperties(app_transactions=[*notes, _counted(delta, _counter(names))]),
    )


def noted(delta: DeltaTable, notes: list[Transaction]) -> None:
    """Commit notes alone."""
    delta.create_write_transaction(
        [],
        "append",
        delta.schema(),
        partition_by=delta.metadata().partition_columns,
        commit_properties=CommitProperties(app_transactions=notes, custom_metadata={SPANS: "[]"}),
    )


def spans_since(delta: Opened, version: int) -> list[list[Any]] | None:
    """Return what the commits after a version said of their rows, see `SPANS`; None if that is not known of one."""
    newer = delta.version() - version
    if newer <= 0:
        return []
    # Asked for every instrument of a rollup.
    return delta.once(("spans", version), lambda: _said(delta, version, newer))


def _said(delta: DeltaTable, version: int, newer: int) -> list[list[Any]] | None:
    commits = delta.history(newer)
    if len(commits) < newer or any(commit["version"] <= version for commit in commits):
        return None  # the log was cleaned up
    spans = []
    for commit in commits:
        if SPANS in commit:
            spans += json.loads(commit[SPANS])
        elif commit["operation"] not in _SAME_ROWS:
            return None
    return spans


def files(delta: Opened, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the files of one partition: ``rows``, and ``first`` and ``last`` timestamp, as the log says."""
    added = delta.once("added", lambda: _added(delta))
    partitions = [name for name in added.columns if name.startswith("partition.")]
    here = [pl.col(column) == name for column, name in zip(partitions, names, strict=True)]
    return added.filter(*here).select("rows", "first", "last")


def may_hold(delta: Opened, names: tuple[str, ...], *, start: int, end: int) -> bool:
    """Whether files of one partition may hold rows of a span of time; one whose times the log does not say may."""
    outside = (pl.col("last") < start) | (pl.col("first") >= end)
    return not files(delta, names).filter(~outside.fill_null(value=False)).is_empty()


def partitions(delta: Opened) -> list[tuple[str, ...]]:
    """Return the partitions that have files, sorted."""
    added = delta.once("added", lambda: _added(delta))
    columns = [name for name in added.columns if name.startswith("partition.")]
    return sorted(added.select(columns).unique().iter_rows())


def extents(delta: Opened) -> pl.DataFrame:
    """Return the ``first`` and ``last`` timestamp of every partition that has files, sorted, as the log says."""
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
    added = pl.DataFrame(pa.table(delta.get_add_actions(flatten=True)))
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
    added = pl.DataFrame(pa.table(delta.get_add_actions(flatten=True)))
    if added.is_empty():
        empty = dict.fromkeys((f"partition.{name}" for name in schema), pl.String) | dict.fromkeys(
            ("rows", "first", "last"), pl.Int64
        )
        return pl.DataFrame(schema=empty)
    return added.select(
        *(f"partition.{name}" for name in schema),
        pl.col("num_records").alias("rows"),
        pl.col("min.timestamp").alias("first"),
        pl.col("max.timestamp").alias("last"),
    ).filter(pl.col("rows").ne_missing(0))  # others may not say how many


def rewritten(delta: DeltaTable, table: Table, values: Mapping[str, str], files: Sequence[AddAction]) -> None:
    """Put files of the same rows in the place of those of one partition, against the version that ``delta`` holds.

    The instrument's count goes up as if it were appended to, so whoever writes to it at the same time is noticed; the
    span of the commit says that no row is new.
    """
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


def retrying(
    uri: str, attempt: Callable[[DeltaTable], T], options: Options, *, known: DeltaTable | None = None
) -> T:
    """Call ``attempt`` with the newest version of a table, again with a newer one each time it loses a race.

    What is ``known``, if given, is what the first attempt is made with. It is changed by what it commits.
    """
    first = iter([] if known is None else [known])
    with failing("write to the table", uri, options):
        return Retrying(
            retry=retry_if_exception_type(CommitFailedError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=_WAIT,
            reraise=True,
        )(lambda: attempt(next(first, None) or opened(uri, options)))


def _widen(delta: DeltaTable, table: Table) -> None:
    """Give an older table the columns it lacks, in a commit of its own.

    Then ``delta`` may stand after the commits of others whose rows were not looked at, so what was to be written
    counts as a lost race: `retrying` looks again.
    """
    absent = _absent(delta, table)
    if not absent:
        return
    delta.alter.add_columns([_field(column) for column in absent])
    raise CommitFailedError(f"table {table.name!r} has new columns since it was opened")


def _absent(delta: DeltaTable, table: Table) -> list[Column]:
    there = {field.name for field in delta.schema().fields}
    return [column for column in table.columns if column.name not in there]


def _field(column: Column) -> Field:
    return Field(
        column.name,
        _DELTA[column.dtype],
        nullable=column.nullable,
        metadata={"comment": column.doc, "unit": column.unit},
    )


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


def _dict(options: Options) -> dict[str, str] | None:
    return dict(options) if options else None
