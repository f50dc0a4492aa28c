"""Delta Lake, as little of it as the lake needs: open, create, read and commit one table."""

from __future__ import annotations

import json
import os
import re
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
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidytape.errors import LakeError
from tidytape.lake import _object_store
from tidytape.lake.batch import Batch
from tidytape.lake.table import Table

__all__ = [
    "commit",
    "create",
    "exists",
    "failing",
    "opened",
    "replace",
    "retrying",
    "rewritten",
    "root_of",
    "scanned",
]

_DELTA = {"string": "string", "float64": "double", "int64": "long", "bool": "boolean"}

# Small enough that a reader can skip most of a file by time, large enough to compress and scan well.
_WRITER = WriterProperties(compression="ZSTD", max_row_group_size=262_144)

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


class _Table(DeltaTable):
    """A table whose local files are named as they are on disk."""

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
    schema = Schema(
        [
            Field(
                column.name,
                PrimitiveType(_DELTA[column.dtype]),
                nullable=column.nullable,
                metadata={"comment": column.doc, "unit": column.unit},
            )
            for column in table.columns
        ]
    )
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


def opened(uri: str, options: Options) -> DeltaTable:
    """Return the newest version of the table."""
    with failing("open the table", uri, options):
        return _Table(uri, storage_options=_dict(options))


def scanned(delta: DeltaTable, table: Table, options: Options) -> pl.LazyFrame:
    """Return a lazy frame of one version of the table, columns in the documented order."""
    return pl.scan_delta(delta, storage_options=_object_store.for_polars(options)).select(table.names)


def commit(delta: DeltaTable, batch: Batch, *, source: str) -> None:
    """Append the rows and note their source in one commit, against the version that ``delta`` holds.

    The version of each instrument is counted up in the same commit. Of two commits that began at the same version and
    touch the same instrument, the second fails: it has not seen the rows of the first.
    """
    counted = [Transaction(name, (delta.transaction_version(name) or 0) + 1) for name in _counters(batch)]
    schema = batch.table.empty().to_arrow().schema
    chunks = (chunk for part in batch for chunk in part.frame().to_arrow().cast(schema).to_batches())
    write_deltalake(
        delta,
        pa.RecordBatchReader.from_batches(schema, chunks),
        mode="append",
        writer_properties=_WRITER,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(source, 1), *counted], custom_metadata={SPANS: _spans(batch)}
        ),
    )


def replace(delta: DeltaTable, frame: pl.DataFrame, *, sources: Iterable[str] = ()) -> None:
    """Put ``frame`` in the place of the whole table, and note its sources in the same commit.

    Fails if another did so since ``delta`` was opened.
    """
    count = (delta.transaction_version("replaced") or 0) + 1
    notes = [Transaction(source, 1) for source in sources]
    write_deltalake(
        delta,
        frame.to_arrow(),
        mode="overwrite",
        writer_properties=_WRITER,
        commit_properties=CommitProperties(app_transactions=[Transaction("replaced", count), *notes]),
    )


def rewritten(
    delta: DeltaTable, table: Table, values: Mapping[str, str | None], files: Sequence[AddAction]
) -> None:
    """Put files of the same rows in the place of those of one partition, against the version that ``delta`` holds.

    The instrument's count goes up as if it were appended to, so whoever writes to it at the same time is noticed; the
    span of the commit says that no row is new.
    """
    counter = _counter(values.values())
    delta.create_write_transaction(
        list(files),
        "overwrite",
        delta.schema(),
        partition_by=list(table.partitions),
        partition_filters=[(name, "=", value or "") for name, value in values.items()] or None,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(counter, (delta.transaction_version(counter) or 0) + 1)],
            custom_metadata={SPANS: "[]"},
        ),
    )


def retrying(uri: str, attempt: Callable[[DeltaTable], T], options: Options) -> T:
    """Call ``attempt`` with the newest version of a table, again with a newer one each time it loses a race."""
    with failing("write to the table", uri, options):
        return Retrying(
            retry=retry_if_exception_type(CommitFailedError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=_WAIT,
            reraise=True,
        )(lambda: attempt(opened(uri, options)))


def _spans(batch: Batch) -> str:
    """First and last timestamp of the new rows of each instrument, so that what depends on them can be made anew."""
    spans: dict[tuple[str, ...], tuple[int, int]] = {}
    for part in batch:
        for names in part.instruments:
            first, last = spans.get(names, (part.first, part.last))
            spans[names] = min(first, part.first), max(last, part.last)
    return json.dumps([[*names, *span] for names, span in sorted(spans.items())])


def _counters(batch: Batch) -> list[str]:
    return [_counter(values) for values in batch.instruments]


def _counter(values: Iterable[str | None]) -> str:
    return "instrument:" + "/".join(map(str, values))


def _dict(options: Options) -> dict[str, str] | None:
    return dict(options) if options else None
