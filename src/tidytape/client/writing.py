"""A Parquet file that is written part by part."""

from __future__ import annotations

import secrets
from pathlib import Path
from types import TracebackType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape import wire
from tidytape.errors import DecodeError, QueryError

__all__ = ["ParquetFile"]


_SUFFIXES = (".parquet", ".pq")


class ParquetFile:
    """A context manager that writes frames of one schema, with which they are read again.

    Only a whole file gets the name asked for.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    QueryError
        If it is a folder, or lies in none, or its name is that of another kind of file.

    Attributes
    ----------
    rows : int
        How many were written.
    """

    def __init__(self, path: Path) -> None:
        self.rows = 0
        if path.is_dir() or not path.parent.is_dir():
            raise QueryError("path", got=str(path), expected="a file in a folder that exists")
        if path.suffix.lower() not in _SUFFIXES:
            raise QueryError(
                "path", got=str(path), expected="a name that ends in .parquet; it is written as Parquet"
            )
        self._path = path
        # Of its own, for somebody else may write to the same file.
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._writer: pq.ParquetWriter | None = None
        self._columns: dict[str, pl.DataType] = {}

    def write(self, frame: pl.DataFrame) -> None:
        """Write the rows of one frame.

        Raises
        ------
        DecodeError
            If it has a column that the first frame had not, or had of another kind: what the service sends changed; or
            one that no file can hold.
        """
        if self._writer is None:
            self._columns = dict(frame.schema)
            try:
                self._writer = pq.ParquetWriter(self._part, frame.to_arrow().schema, compression="zstd")
            except pa.ArrowException as error:  # e.g. an object that is always empty
                raise DecodeError(
                    f"the service sent a field that no Parquet file can hold: {error}"
                ) from None
        new = [name for name in frame.columns if name not in self._columns]
        if new:
            raise DecodeError(
                f"column {new[0]} is in a later answer and not in the first; a file has one schema"
            )
        rows = pl.DataFrame([_column(frame, name, dtype) for name, dtype in self._columns.items()])
        self._writer.write_table(rows.to_arrow())
        self.rows += frame.height

    def __enter__(self) -> ParquetFile:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the file its name, or remove what there is of it."""
        if self._writer is not None:
            self._writer.close()
        if error is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)


def _column(frame: pl.DataFrame, name: str, dtype: pl.DataType) -> pl.Series:
    """Return a column as the dtype it has in the file; one that the frame has not is null."""
    if name not in frame.columns:
        return pl.repeat(None, frame.height, dtype=dtype, eager=True).alias(name)
    column = wire.fitted(frame[name], dtype)
    if column is None:
        raise DecodeError(
            f"column {name} is {frame.schema[name]} in a later answer and {dtype} in the first; a file has one schema"
        )
    return column
