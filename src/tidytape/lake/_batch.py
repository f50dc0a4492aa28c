"""A batch: the rows of one table from one source, in parts, so that a file larger than memory can be one commit."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from tidytape.lake._tables import Table

IN_MEMORY = 256 * 2**20
"""Rows beyond this size wait on disk. [bytes]"""


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a batch, with their bounds.

    Attributes
    ----------
    markets : frozenset of tuple of str
        Values of the table's partition columns: (exchange, raw_symbol), or for option quotes (exchange, coin).
    first, last : int
        Their smallest and largest timestamp. [ns]
    low, high : str or int, or None
        Smallest and largest value of the table's ``identity``; None if all are null.
    rows : int
        Number of rows.
    content : polars.DataFrame or Path
        The rows, or the file with them.
    constants : tuple of (str, str)
        Columns that ``content`` lacks, because all rows have one value: the market, if there is only one.
    columns : tuple of str
        All columns.
    changes : tuple of callable
        Functions that are applied to the rows, one after the other, whenever they are read. They keep the markets,
        the timestamps, the identities and the number of rows.
    rises : bool
        Whether all rows are of one market and each identity is above the one before, so that no two are the same event.
    """

    markets: frozenset[tuple[str, ...]]
    first: int
    last: int
    low: Any
    high: Any
    rows: int
    content: pl.DataFrame | Path
    constants: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    changes: tuple[Callable[[pl.DataFrame], pl.DataFrame], ...] = ()
    rises: bool = False

    def frame(self) -> pl.DataFrame:
        """Return the rows."""
        rows = self.content if isinstance(self.content, pl.DataFrame) else pl.read_ipc(self.content)
        if self.constants:
            values = (pl.lit(value).alias(name) for name, value in self.constants)
            rows = rows.with_columns(values).select(self.columns)
        for change in self.changes:
            rows = change(rows)
        return rows

    def changed(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Part:
        """Return the part with another change, which is applied when the rows are read."""
        return replace(self, changes=(*self.changes, change))

    def meets(self, other: Part) -> bool:
        """Return whether two parts could have the same row."""
        return (
            self.low is not None
            and other.low is not None
            and self.low <= other.high
            and other.low <= self.high
            and not self.markets.isdisjoint(other.markets)
        )


class Spool:
    """A temporary folder for frames that do not fit into memory, made when it is first needed.

    Parameters
    ----------
    limit : float
        Memory to fill before the disk. [bytes]
    """

    def __init__(self, limit: float = IN_MEMORY) -> None:
        self._free = limit
        self._folder: Path | None = None
        self._files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def hold(self, frame: pl.DataFrame) -> pl.DataFrame | Path:
        """Return the frame if there is room for it, else the file that it was written to."""
        size = frame.estimated_size()
        if size <= self._free:
            self._free -= size
            return frame
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tidytape-"))
        self._files += 1
        path = self._folder / f"{self._files}.arrow"
        # Not compressed: that takes a quarter of the room, and five times the work of an ingest's four readings.
        frame.write_ipc(path)
        return path


class Batch:
    """Rows of one table, in parts.

    Parameters
    ----------
    table : Table
        The table of the rows.
    spool : Spool, optional
        Holds the parts that do not fit into memory; without one they stay in memory.

    Attributes
    ----------
    parts : list of Part
        The rows.
    counted : bool
        Whether ``sequence`` is a line number, which orders the trades of one file only. An append then shifts the
        numbers past those of the lake's rows, see `tidytape.lake._dedupe.counted_on`.
    kind : str or None
        What the events are in their source, e.g. ``aggTrades``, if a market must not have events of another kind: the
        same events would have other ids there, and count twice. Only tables with ids have kinds.
    """

    def __init__(self, table: Table, spool: Spool | None = None) -> None:
        self.table = table
        self.spool = spool
        self.parts: list[Part] = []
        self.counted = False
        self.kind: str | None = None

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def markets(self) -> list[tuple[str, ...]]:
        """Values of the table's partition columns, sorted."""
        return sorted({market for part in self.parts for market in part.markets})

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows; the frame must conform to the table.

        Parameters
        ----------
        frame : polars.DataFrame, n rows
            An empty frame adds nothing. A column that the table does not have is not stored, but the functions of
            `change` may use it.
        """
        if frame.is_empty():
            return
        time, identity = frame["timestamp"], frame[self.table.identity]
        partitions = self.table.partitions
        # A table without partition columns is one partition.
        markets = frozenset(frame.select(partitions).unique().iter_rows() if partitions else [()])
        constants = tuple(zip(partitions, *markets, strict=True)) if len(markets) == 1 else ()
        content = frame.drop(name for name, _ in constants)
        self.parts.append(
            Part(
                markets=markets,
                first=time.min(),  # type: ignore[arg-type]  # polars types every value it might hold
                last=time.max(),  # type: ignore[arg-type]
                low=identity.min(),
                high=identity.max(),
                rows=frame.height,
                content=self.spool.hold(content) if self.spool else content,
                constants=constants,
                columns=tuple(frame.columns),
                rises=len(markets) == 1 and _rises(identity),
            )
        )

    def change(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Change every row of the batch, see `Part.changes`."""
        self.parts = [part.changed(change) for part in self.parts]


def _rises(identities: pl.Series) -> bool:
    """Return whether no identity is null and each is above the one before; of two texts the longer one is above."""
    identity = pl.col(identities.name)
    is_above = identity > identity.shift()
    if identities.dtype == pl.String:
        length = identity.str.len_bytes()
        is_above = (length > length.shift()) | ((length == length.shift()) & is_above)
    return bool(identities.to_frame().select(is_above.slice(1).fill_null(value=False).all()).item())
