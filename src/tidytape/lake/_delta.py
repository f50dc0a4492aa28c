"""Open, create and read one Delta table: its rows, the facts of its log about its files, and its notes.

A note is a Delta transaction: a name with a number, in the commit that it belongs to. Notes say which source a commit
added, and up to which time the minutes of a market are stored.

An older release stored fewer columns: an absent column that may be null reads as null. A newer release stored more:
this release reads the columns that it knows. Before it writes anything, it refuses, with the name of the column or
format, a table with an unknown column, a known column of another dtype, or a format that this release does not write.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError
from deltalake.schema import ArrayType, PrimitiveType

from tidytape._forks import refuse_fork
from tidytape.errors import LakeError
from tidytape.lake import _object_store
from tidytape.lake._parquet import filesystem
from tidytape.lake._quotes import leaves_out, with_products
from tidytape.lake._tables import Table
from tidytape.schema import Column, Dtype

# Delta Lake's names of the commits that leave a table's rows as they are.
_SAME_ROWS = {
    "CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMN", "CHANGE COLUMN",
}  # fmt: skip

_FRESH = 60.0  # seconds; a table that was opened earlier counts as older than the newest version

_MANY_NOTES = 16
"""From this number of notes on, it is quicker to read the whole log than to look up each note."""

# The libraries below misread these in a local path (each was tried): delta-rs decodes an escape, takes a backslash for
# a slash, and stops at brackets, ^ and |; polars takes a folder with = for a column.
_MISREAD = re.compile(
    r"%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f\ud800-\udfff\[\]^|=]" + (r"|\\" if os.sep == "/" else "")
)

SPANS = "tidytape.spans"
"""A commit states the spans of its rows under this name: ``[[*partition values, first, last], …]`` as JSON. [ns]"""

_DTYPES: Mapping[Dtype, PrimitiveType | ArrayType] = {
    "string": PrimitiveType("string"),
    "float64": PrimitiveType("double"),
    "int64": PrimitiveType("long"),
    "bool": PrimitiveType("boolean"),
    "list[string]": ArrayType(PrimitiveType("string")),
    "list[float64]": ArrayType(PrimitiveType("double")),
}

_WRITER = 2  # writer version of new tables, in Delta's protocol; from version 7 on a table lists its features instead
_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", "v2Checkpoint"})
"""Features of a table that do not change how this release writes its files."""

Options = Mapping[str, str] | None
Partition = tuple[str, ...]
T = TypeVar("T")


class Opened(DeltaTable):
    """An open table that remembers what it has read from the log of its version.

    Every query asks a table for its files and notes, but delta-rs takes milliseconds to list a hundred files, and half
    a millisecond to find a note.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        self.opened_at = self.seen_at = time.monotonic()
        """When it was opened, and when the last look began that showed it to be the newest. [s, monotonic]"""
        super().__init__(*args, **more)
        self.log: str | None = None
        """Folder of the log of a local table."""
        if self.table_uri.startswith("file://"):
            self.log = unquote(self.table_uri.removeprefix("file://")).rstrip("/") + "/_delta_log"
        self.commit = self.commit_file()
        """Identity of the file of its newest commit, see `commit_file`."""
        self._cache: tuple[int, dict[Any, Any]] = -1, {}

    def commit_file(self) -> tuple[int, int] | None:
        """Return the identity of the file of this version's commit; None if the file is gone or not local."""
        try:
            status = None if self.log is None else os.stat(f"{self.log}/{self.version():020}.json")  # noqa: PTH116 - a Path takes four times as long
        except OSError:
            return None
        return None if status is None else (status.st_ino, status.st_mtime_ns)

    def move_on(self) -> None:
        """Go on to the newest version; the notes that were looked up stay known, with the changes of later commits."""
        opened_at, (version, known) = time.monotonic(), self._cache
        is_known = version == self.version()
        self.update_incremental()
        self.opened_at, self.commit = opened_at, self.commit_file()
        if not is_known:
            return
        store = self._cache[1].get("store") or filesystem(self.table_uri, self._storage_options)
        try:
            changes = _notes_of_commits(store, version + 1, self.version())
        except (OSError, ValueError, KeyError):
            return  # the notes are looked up again
        notes: dict[Any, Any] = {
            key: changes.get(key[1], number)
            for key, number in known.items()
            if isinstance(key, tuple) and key[0] == "note"
        }
        if "notes" in known and known["notes"] is not None:
            notes["notes"] = known["notes"] | changes
        self._cache = self.version(), {**notes, "store": store}

    def cached(self, key: Any, read: Callable[[], T]) -> T:
        """Return the result of ``read``; it is called once per key and version."""
        version = self.version()
        if self._cache[0] != version:
            self._cache = version, {}
        results = self._cache[1]
        if key not in results:
            results[key] = read()
        return results[key]  # type: ignore[no-any-return]

    def get_add_actions(self, flatten: bool = False) -> Any:  # noqa: FBT001, FBT002 - as delta-rs has it
        """Return the entries of the files in the log."""
        return self.cached(("files", flatten), lambda: super(Opened, self).get_add_actions(flatten))

    def transaction_version(self, app_id: str) -> int | None:
        """Return the number of a note in the log of the table; None if there is no such note."""
        if self.version() == 0:
            return None  # the commit that made the table has no notes
        if self._cache[0] == self.version() and (notes := self._cache[1].get("notes")) is not None:
            return notes.get(app_id)  # type: ignore[no-any-return]
        return self.cached(("note", app_id), lambda: super(Opened, self).transaction_version(app_id))

    def read_notes(self, count: int) -> None:
        """Read all notes at once if the notes of many markets are about to be looked up."""
        if self.version() > 0 and count >= _MANY_NOTES:
            self.all_notes()

    def all_notes(self) -> dict[str, int]:
        """Return the newest number of each note; none if the log has another layout, see `all_notes`."""
        store = filesystem(self.table_uri, self._storage_options)
        return self.cached("notes", lambda: all_notes(store, self.version())) or {}

    def file_uris(self, *filters: Any, **more: Any) -> list[str]:
        """Return the addresses of the files without the escapes that delta-rs puts into the path of a local table."""
        uris = super().file_uris(*filters, **more)
        if not self.table_uri.startswith("file://"):
            return uris
        root = self.table_uri.removeprefix("file://")
        return [unquote(root) + uri.removeprefix(root) for uri in uris]


# -- opening -------------------------------------------------------------------------------------------------------


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
def failing(action: str, uri: str, options: Options = None) -> Iterator[None]:
    """Turn the errors of the libraries below, a panic of their Rust included, into LakeError."""
    try:
        yield
    except BaseException as error:
        # A Rust panic is a BaseException whose class differs per library, so match it by name.
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and not isinstance(error, DeltaError | OSError | pl.exceptions.PolarsError):
            raise
        reason = _object_store.explained(error, uri, options)
        cause = _object_store.cause(error, options)
        raise LakeError(f"cannot {action} at {uri}: {reason}", path=uri) from cause


def exists(uri: str, options: Options) -> bool:
    """Return whether there is a Delta table at ``uri``."""
    impatient = _object_store.impatient(options) if "://" in uri else as_dict(options)
    with failing("look for a lake", uri, options):
        return DeltaTable.is_deltatable(uri, storage_options=impatient)


def create(uri: str, table: Table, options: Options) -> None:
    """Create the table unless it exists, with its documentation as comments."""
    refuse_fork()
    if exists(uri, options):
        return
    schema = Schema([field_of(column) for column in table.stored])
    try:
        with failing(f"create table {table.name!r}", uri, options):
            DeltaTable.create(
                uri,
                schema,
                mode="ignore",
                partition_by=list(table.partitions),
                name=table.name,
                description=table.rows,
                storage_options=as_dict(options),
            )
    except LakeError:
        if not exists(uri, options):  # another process may have been faster
            raise


def is_newest(delta: Opened, options: Options) -> bool:
    """Return whether an open table is the newest version: whether there is no next commit.

    A later commit may have been cleaned away, so a table that was opened long ago counts as older. So does a local
    table whose commit is no longer the same file: the table was removed, or another one was made in its place.
    """
    if time.monotonic() - delta.opened_at > _FRESH:
        return False
    commit = f"{delta.version() + 1:020}.json"
    if delta.log is not None:
        is_next = os.access(f"{delta.log}/{commit}", os.F_OK)  # in half the time of `os.path.exists`
        return not is_next and delta.commit_file() == delta.commit
    with failing("open the table", delta.table_uri, options):
        store = delta.cached("store", lambda: filesystem(delta.table_uri, options))
        return bool(store.get_file_info(f"_delta_log/{commit}").type == pyarrow.fs.FileType.NotFound)


def newest(delta: Opened, options: Options) -> Opened:
    """Return the newest version of a table that is open for writing; the open table is moved on to it if it can be."""
    if is_newest(delta, options):
        return delta
    if time.monotonic() - delta.opened_at > _FRESH or delta.commit_file() != delta.commit:
        return opened(delta.table_uri, options)
    with failing("open the table", delta.table_uri, options):
        delta.move_on()
    return delta


def opened(uri: str, options: Options, *, version: int | None = None) -> Opened:
    """Return a version of the table, the newest by default."""
    with failing("open the table", uri, options):
        return Opened(uri, version, storage_options=as_dict(options))


def scanned(delta: DeltaTable | None, table: Table, options: Options) -> pl.LazyFrame:
    """Return a lazy frame of one version of the table, with the columns in the documented order.

    If an older release made the lake, a table that does not exist has no rows, and a nullable column that is not stored
    is null.
    """
    if delta is None:
        return table.empty().lazy()
    require_readable(delta, table)
    dtypes = table.polars()
    nulls = [pl.lit(None, dtypes[column.name]).alias(column.name) for column in absent(delta, table)]
    frame = pl.scan_delta(delta, storage_options=_object_store.for_polars(options))
    return with_products(frame, table, names_of(delta)).with_columns(nulls).select(table.names)


def scanned_files(delta: Opened, table: Table, paths: Sequence[str], options: Options) -> pl.LazyFrame:
    """Return a lazy frame of some files of a version, as `scanned` does of all.

    Parameters
    ----------
    delta, table, options
        The table.
    paths : sequence of str
        One or more paths, as `file_log` has them.
    """
    require_readable(delta, table)
    dtypes = {**table.polars(), **dict.fromkeys([table.stated.name] if table.stated else [], pl.Float64())}
    if delta.table_uri.startswith("file://"):
        root = unquote(delta.table_uri.removeprefix("file://")).rstrip("/")
        uris = [f"{root}/{path}" for path in paths]
    else:
        uris = [f"{delta.table_uri.rstrip('/')}/{quote(path, safe='/=')}" for path in paths]
    frame = pl.scan_parquet(
        uris,
        schema={
            column.name: dtypes[column.name]
            for column in known(delta, table)
            if column.name not in table.partitions
        },
        hive_schema={name: dtypes[name] for name in table.partitions} or None,
        hive_partitioning=bool(table.partitions),
        try_parse_hive_dates=False,
        glob=False,
        missing_columns="insert",  # a file of an older release lacks columns
        extra_columns="ignore",
        storage_options=_object_store.for_polars({**(delta._storage_options or {}), **(options or {})}),
    )
    return with_products(frame, table, names_of(delta)).select(table.names)


def as_dict(options: Options) -> dict[str, str] | None:
    """Return the storage options as delta-rs takes them."""
    return dict(options) if options else None


# -- the columns that are stored -------------------------------------------------------------------------------------


def field_of(column: Column) -> Field:
    """Return a column as Delta Lake describes it."""
    return Field(
        column.name,
        _DTYPES[column.dtype],
        nullable=column.nullable,
        metadata={"comment": column.doc, "unit": column.unit},
    )


def known(delta: DeltaTable, table: Table) -> tuple[Column, ...]:
    """Return the columns that this release stores in a table: an older one goes on storing all amounts in the quote."""
    if table.stated is None:
        return table.columns
    return table.stored if leaves_out(table, names_of(delta)) else table.columns


def names_of(delta: DeltaTable) -> list[str]:
    """Return the names of the columns that are stored."""
    return [field.name for field in delta.schema().fields]


def absent(delta: DeltaTable, table: Table) -> list[Column]:
    """Return the columns of a table that are not stored."""
    stored_names = names_of(delta)
    return [column for column in known(delta, table) if column.name not in stored_names]


def unknown(delta: DeltaTable, table: Table) -> list[str]:
    """Return the stored columns that this release does not know."""
    known_names = {column.name for column in known(delta, table)}
    return [name for name in names_of(delta) if name not in known_names]


def require_readable(delta: DeltaTable, table: Table) -> None:
    """Raise LakeError if a column has an unexpected dtype, or is absent and may not be null."""
    stored_dtypes = {field.name: field.type for field in delta.schema().fields}
    for column in known(delta, table):
        if column.name not in stored_dtypes and not column.nullable:
            raise _refused(delta, table, f"has no column {column.name!r}: not a table of this library")
    for column in known(delta, table):
        dtype, expected = stored_dtypes.get(column.name), _DTYPES[column.dtype]
        if dtype is not None and _comparable(dtype) != _comparable(expected):
            raise _refused(
                delta,
                table,
                f"column {column.name!r} is {_name(dtype)}, this release expects {_name(expected)}; "
                "a newer release of tidytape may read it",
            )


def require_writable(delta: DeltaTable, table: Table) -> None:
    """Raise LakeError if this release cannot write to a table, or put its rows into other files, without loss.

    It raises if `require_readable` does, if the table has a format that this release does not write, or if it has a
    column that this release does not know.
    """
    require_readable(delta, table)
    protocol = delta.protocol()
    features = sorted(set(protocol.writer_features or []) - _FEATURES)
    if features or (protocol.min_writer_version > _WRITER and protocol.writer_features is None):
        format_name = features[0] if features else f"writer version {protocol.min_writer_version}"
        raise _refused(delta, table, f"has the format {format_name!r}, which this release does not write")
    for name in unknown(delta, table):
        raise _refused(
            delta,
            table,
            f"column {name!r} is not known to this release, which reads the table and does not write to it; a newer "
            "release of tidytape can",
        )


def _comparable(dtype: object) -> object:
    # Two list types with the same elements differ if only one allows nulls inside; this release reads both.
    return ("list", dtype.element_type) if isinstance(dtype, ArrayType) else dtype


def _name(dtype: object) -> str:
    return str(getattr(dtype, "type", dtype))


def _refused(delta: DeltaTable, table: Table, reason: str) -> LakeError:
    return LakeError(f"table {table.name!r}: {reason}", path=delta.table_uri)


# -- what the log says -----------------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """The log's facts about a file: rows, bounds of timestamp and price, bytes, path, and how many rows have no side.

    A fact that the log does not say is None.
    """

    rows: int | None
    first: int | None
    last: int | None
    low: float | None = None
    high: float | None = None
    bytes: int = 0
    path: str = ""
    sideless: int | None = None

    def may_hold(self, start: int, end: int) -> bool:
        """Return whether the file may have rows in a span; true if the log does not say its times."""
        return not (
            (self.last is not None and self.last < start) or (self.first is not None and self.first >= end)
        )

    def share(self, start: int, end: int) -> float:
        """Return the share of the file's time that lies in a span; 1 if the log does not say its times."""
        if self.first is None or self.last is None:
            return 1.0
        time_inside = min(self.last + 1, end) - max(self.first, start)
        return max(0, time_inside) / (self.last + 1 - self.first)


def file_log(delta: Opened) -> pl.DataFrame:
    """Return the files of a version from its log, with their rows, times and partitions.

    Returns
    -------
    polars.DataFrame, one row per file, in the order of the log
        The partition columns, ``rows``, ``first`` and ``last`` timestamp [ns since the epoch], ``low`` and ``high``
        price, ``bytes``, ``path``, and ``sideless``, rows without a side. Facts that a writer did not note are null.
    """
    return delta.cached("file log", lambda: _file_log(delta))


def _file_log(delta: DeltaTable) -> pl.DataFrame:
    log_columns: dict[str, tuple[str, type[pl.DataType]]] = {
        **{name: (f"partition.{name}", pl.String) for name in delta.metadata().partition_columns},
        "rows": ("num_records", pl.Int64),
        "first": ("min.timestamp", pl.Int64),
        "last": ("max.timestamp", pl.Int64),
        "low": ("min.price", pl.Float64),
        "high": ("max.price", pl.Float64),
        "bytes": ("size_bytes", pl.Int64),
        "path": ("path", pl.String),
        "sideless": ("null_count.side", pl.Int64),
    }
    actions = pl.DataFrame(delta.get_add_actions(flatten=True))
    # The log has a column of statistics only if some file has them.
    files = actions.select(
        (pl.col(column) if column in actions.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, (column, dtype) in log_columns.items()
    )
    # The log escapes paths as in a URL; the store has them without escapes.
    return files.with_columns(path=pl.Series([unquote(path) for path in files["path"]], dtype=pl.String))


def files_between(delta: Opened, column: str, ranges: pl.DataFrame) -> list[str]:
    """Return the paths of the files that may have rows in some ranges of a column, see `file_log`.

    Parameters
    ----------
    delta : Opened
        The table.
    column : str
        Name of the column.
    ranges : polars.DataFrame, one row per partition
        The partition columns, ``low`` and ``high``, ends included.
    """
    names = delta.metadata().partition_columns
    bounds = delta.cached(("bounds", column), lambda: _bounds(delta, column))
    files = bounds.join(ranges, on=names) if names else bounds.join(ranges, how="cross")
    is_outside = (pl.col("lowest") > pl.col("high")) | (pl.col("highest") < pl.col("low"))
    # A bound is null if the log does not state it, so the file may have such rows.
    return [unquote(path) for path in files.filter(~is_outside.fill_null(value=False))["path"]]


def _bounds(delta: Opened, column: str) -> pl.DataFrame:
    """Return the path, the partition, and the lowest and highest value of a column, of each file with rows."""
    actions = pl.DataFrame(delta.get_add_actions(flatten=True))
    bounds = {"lowest": f"min.{column}", "highest": f"max.{column}"}
    return actions.filter(pl.col("num_records").ne_missing(0)).select(
        "path",
        *(pl.col(f"partition.{name}").alias(name) for name in delta.metadata().partition_columns),
        *(
            pl.col(found).alias(name) if found in actions.columns else pl.lit(None).alias(name)
            for name, found in bounds.items()
        ),
    )


def _with_rows(delta: Opened) -> pl.DataFrame:
    return file_log(delta).filter(pl.col("rows").ne_missing(0))  # null if the log does not say the number


def files(delta: Opened, names: Partition) -> list[Facts]:
    """Return the files with rows of one partition from the log."""
    return delta.cached("by partition", lambda: _by_partition(delta)).get(names, [])


def _by_partition(delta: Opened) -> dict[Partition, list[Facts]]:
    # A dict and not a frame, because thousands of markets are looked up one by one.
    by_partition: dict[Partition, list[Facts]] = {}
    facts = len(Facts._fields)
    for row in _with_rows(delta).iter_rows():
        by_partition.setdefault(row[:-facts], []).append(Facts(*row[-facts:]))
    return by_partition


def partitions_by_path(delta: Opened) -> dict[str, Partition]:
    """Return the partition of each file, by its path."""
    names = delta.metadata().partition_columns
    return {path: tuple(values) for path, *values in file_log(delta).select("path", *names).iter_rows()}


def may_hold(delta: Opened, names: Partition, *, start: int, end: int) -> bool:
    """Return whether files of one partition may have rows in a span."""
    return any(file.may_hold(start, end) for file in files(delta, names))


def partitions(delta: Opened) -> list[Partition]:
    """Return the partitions that have rows, sorted."""
    names = delta.metadata().partition_columns
    return _with_rows(delta).select(names).unique().sort(names).rows() if names else []


def extents(delta: Opened) -> pl.DataFrame:
    """Return the ``first`` and ``last`` timestamp of every partition that has rows, sorted."""
    return delta.cached("extents", lambda: _extents(delta))


def _extents(delta: Opened) -> pl.DataFrame:
    names = delta.metadata().partition_columns
    bounds = _with_rows(delta).group_by(names).agg(pl.col("first").min(), pl.col("last").max())
    return bounds.drop_nulls().sort(names)


def highest(delta: Opened, column: str) -> pl.DataFrame | None:
    """Return the ``highest`` value of a column by partition; None if the log lacks the value of a file."""
    partition_columns = delta.metadata().partition_columns
    actions = pl.DataFrame(delta.get_add_actions(flatten=True))
    highest_column = f"max.{column}"
    if (
        highest_column not in actions.columns
        or actions.filter(pl.col("num_records").ne_missing(0), pl.col(highest_column).is_null()).height
    ):
        return None
    partitions = [pl.col(f"partition.{name}").alias(name) for name in partition_columns]
    return actions.group_by(partitions).agg(highest=pl.col(highest_column).max())


def spans_since(delta: Opened, version: int) -> dict[Partition, list[tuple[int, int]]] | None:
    """Return the spans of the rows that the commits after a version added, by partition, see `SPANS`.

    None if a commit does not state its spans.
    """
    if delta.version() <= version:
        return {}
    # Cached, because a rollup asks again for every market.
    return delta.cached(("spans", version), lambda: _spans_of(delta, version))


def _spans_of(delta: Opened, version: int) -> dict[Partition, list[tuple[int, int]]] | None:
    # This reads the commits itself, because `history` of delta-rs gives them wrong versions if the open version is not
    # the newest.
    store = delta.cached("store", lambda: filesystem(delta.table_uri, delta._storage_options))
    spans: dict[Partition, list[tuple[int, int]]] = {}
    for number in range(version + 1, delta.version() + 1):
        commit = _commit_info(store, number)
        if commit is None:
            return None  # the log was cleaned up
        if SPANS in commit:
            for *names, first, last in json.loads(commit[SPANS]):
                spans.setdefault(tuple(names), []).append((first, last))
        elif commit.get("operation") not in _SAME_ROWS:
            return None
    return spans


def _commit_info(store: pyarrow.fs.FileSystem, version: int) -> dict[str, Any] | None:
    """Return the entry ``commitInfo`` of a commit; None if the commit has none or is no longer in the log."""
    try:
        with store.open_input_stream(f"_delta_log/{version:020}.json") as file:
            lines = file.readall().splitlines()
    except FileNotFoundError:
        return None
    return next((entry["commitInfo"] for line in lines if "commitInfo" in (entry := json.loads(line))), None)


# -- notes -----------------------------------------------------------------------------------------------------------


def all_notes(files: pyarrow.fs.FileSystem, version: int) -> dict[str, int] | None:
    """Return the newest number of each note in the log of a table, up to a version.

    delta-rs cannot list all notes, and takes 6 ms to look one up if the log has 8,000 of them: for 2,000 markets with
    three notes each the look-ups took 26 s.

    Returns
    -------
    dict of str to int, or None
        None if the log has another layout than that of delta-rs: at most one checkpoint, which is one Parquet file, and
        commits of JSON after it.
    """
    try:
        checkpoint = _newest_checkpoint(files, version)
        notes = {} if checkpoint is None else _notes_of_checkpoint(files, checkpoint)
        return notes | _notes_of_commits(files, 0 if checkpoint is None else checkpoint + 1, version)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None


def _notes_of_commits(files: pyarrow.fs.FileSystem, first: int, last: int) -> dict[str, int]:
    """Return the newest number of each note of some commits, ends included."""
    notes: dict[str, int] = {}
    for number in range(first, last + 1):
        with files.open_input_file(f"_delta_log/{number:020}.json") as file:
            lines = file.read().splitlines()
        # Parse only these lines: most others describe files and take long to parse.
        actions = (json.loads(line) for line in lines if b'"txn"' in line)
        notes |= {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}
    return notes


def has_checkpoint(delta: Opened) -> bool:
    """Return whether there is a checkpoint of an open version; False if the log has another layout."""
    try:
        store = filesystem(delta.table_uri, delta._storage_options)
        return _newest_checkpoint(store, delta.version()) == delta.version()
    except (OSError, ValueError, KeyError):
        return False


def _newest_checkpoint(files: pyarrow.fs.FileSystem, version: int) -> int | None:
    """Return the version of the checkpoint to begin with; None to begin with the first commit."""
    pointer = "_delta_log/_last_checkpoint"
    if files.get_file_info(pointer).type == pyarrow.fs.FileType.NotFound:
        return None
    with files.open_input_file(pointer) as file:
        facts = json.loads(file.read())
    if facts.get("parts") is not None or facts.get("v2Checkpoint") is not None:
        raise ValueError("a checkpoint of several files")
    newest = int(facts["version"])
    return newest if newest <= version else None


def _notes_of_checkpoint(files: pyarrow.fs.FileSystem, version: int) -> dict[str, int]:
    path = f"_delta_log/{version:020}.checkpoint.parquet"
    table = pq.read_table(path, columns=["txn"], filesystem=files)
    notes = table.column("txn").drop_null().combine_chunks()
    # Read by column, because a dict per note takes six times as long.
    names, numbers = notes.field("appId").to_pylist(), notes.field("version").to_pylist()
    return {name: number for name, number in zip(names, numbers, strict=True) if name is not None}
