"""What a table of a lake is: its columns with units, its key and how it is partitioned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import polars as pl

from tidytape.errors import IngestError, MissingColumnError

__all__ = ["ROW_GROUP", "Column", "Dtype", "Table"]

ROW_GROUP = 262_144
"""Small enough that a reader can skip most of a file by time, large enough to compress and scan well. [rows]"""

Dtype = Literal["string", "float64", "int64", "bool", "strings", "floats"]

_POLARS: Mapping[Dtype, pl.DataType] = MappingProxyType(
    {
        "string": pl.String(),
        "float64": pl.Float64(),
        "int64": pl.Int64(),
        "bool": pl.Boolean(),
        "strings": pl.List(pl.String()),
        "floats": pl.List(pl.Float64()),
    }
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        snake_case, never with the unit in it.
    dtype : {"string", "float64", "int64", "bool", "strings", "floats"}
        Type of the values; the last two are lists.
    unit : str
        Unit of the values, empty where they have none.
    doc : str
        Meaning in a few words.
    nullable : bool
        Whether a row may lack it.
    """

    name: str
    dtype: Dtype
    unit: str
    doc: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table of a lake.

    Attributes
    ----------
    name : str
        Folder below the lake.
    rows : str
        What one row is.
    columns : tuple of Column
        In the order of the frame.
    key : tuple of str
        Columns that together name a row once. A row with a null among them is nobody's duplicate.
    same : tuple of str
        Columns in which two rows of one key must agree; where they do not, one of the sources is wrong.
    partitions : tuple of str
        Columns that are folders.
    order : tuple of str
        Order of the rows inside a file, so that a reader can skip by time.
    identity : str, optional
        Column of the key that tells the events of one instrument apart. A file whose range of it lies elsewhere holds
        no repeated row.
    row_group : int
        Most rows of a row group, the least that a reader reads: less where an answer takes a small part of a file.
        [rows]
    """

    name: str
    rows: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    same: tuple[str, ...]
    partitions: tuple[str, ...]
    order: tuple[str, ...]
    identity: str = ""
    row_group: int = ROW_GROUP

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise MissingColumnError([name], available=self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def tells_states(self) -> bool:
        """Whether a row tells how things stood at its time, instead of something that happened once."""
        return self.identity == "timestamp"

    def polars(self) -> dict[str, pl.DataType]:
        """Return the polars dtype of every column, in order."""
        return {column.name: _POLARS[column.dtype] for column in self.columns}

    def empty(self) -> pl.DataFrame:
        """Return the frame with no rows: all columns, all dtypes.

        Examples
        --------
        >>> from tidytape.lake import TABLES
        >>> TABLES["trades"].empty().shape
        (0, 10)
        """
        return pl.DataFrame(schema=self.polars())

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return ``frame`` with exactly the table's columns and dtypes; absent nullable columns become null.

        Parameters
        ----------
        frame : polars.DataFrame, n rows
            More columns are dropped.

        Returns
        -------
        polars.DataFrame, n rows, same order

        Raises
        ------
        MissingColumnError
            If a column that may not be null is absent.
        IngestError
            If a value does not fit its dtype, or is null where it may not be.
        """
        missing = [c.name for c in self.columns if not c.nullable and c.name not in frame.columns]
        if missing:
            raise MissingColumnError(missing, available=frame.columns)
        dtypes = self.polars()
        try:
            whole = frame.select(
                pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
                for name, dtype in dtypes.items()
            )
        except pl.exceptions.PolarsError as error:
            raise IngestError(f"{self.name}: a column does not have its dtype: {error}") from error
        for column in self.columns:
            if not column.nullable and whole[column.name].null_count():
                raise IngestError(f"{self.name}: null in column {column.name!r}, which may not be null")
        return whole
