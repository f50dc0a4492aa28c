"""A table of a lake: its columns with units, its key and its partitions."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidytape.errors import IngestError, MissingColumnError
from tidytape.schema import Columns

__all__ = ["ROW_GROUP", "Table"]

ROW_GROUP = 262_144
"""Small enough that a reader can skip most of a file by time, large enough to compress and scan well. [rows]"""


@dataclass(frozen=True, slots=True)
class Table(Columns):
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
        Columns that together identify a row. A row with a null among them duplicates no other.
    same : tuple of str
        Columns in which two rows of one key must agree; if they do not, one of the sources is wrong.
    partitions : tuple of str
        Columns that are folders.
    order : tuple of str
        Order of the rows inside a file, so that a reader can skip by time.
    identity : str, optional
        Column of the key that tells the events of one market apart. A file whose range of it lies elsewhere holds no
        repeated row.
    row_group : int
        Most rows of a row group, which a reader reads as a whole: fewer where an answer takes a small part of a file.
        [rows]
    """

    same: tuple[str, ...]
    partitions: tuple[str, ...]
    order: tuple[str, ...]
    identity: str = ""
    row_group: int = ROW_GROUP

    @property
    def tells_states(self) -> bool:
        """Whether a row is a report of a state, instead of an event that happened once."""
        return self.identity == "timestamp"

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
