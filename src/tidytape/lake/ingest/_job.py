"""What one file is to become, and what came of reading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidytape.errors import QueryError
from tidytape.lake.amount_units import AmountUnit
from tidytape.lake.batch import Batch, Spool
from tidytape.lake.ingest._lines import BadLines
from tidytape.lake.ingest.contracts import Contract
from tidytape.lake.ingest.report import Note
from tidytape.lake.table import Table
from tidytape.lake.tables import TABLES


@dataclass(frozen=True, slots=True)
class Job:
    """How to read one file.

    Attributes
    ----------
    path : Path
        The file.
    exchange : str or None
        Venue that all its events are from; None to see from the file, where its layout names it.
    raw_symbol : str or None
        The one instrument to take from it.
    columns : mapping of str to str, or None
        Our column to the file's, for layouts with columns.
    delimiter : str or None
        Between the columns; None to see from the header.
    time_unit : str, mapping of str to str, or None
        How its times are written, a unit or a format, or that of each column; None to see from the values.
    table : str or None
        Name of the table that its rows are for, for layouts with a column map; None is trades.
    coin : str or None
        Base asset of its rows, for tables that have one and files that do not.
    interval : int or None
        Length of its candles, for files that do not tell it. [ns]
    funding_interval : int or None
        Time between settlements of its funding reports that do not state it. [ns]
    layout : str or None
        Name of its layout; None to see from its name and first lines.
    """

    path: Path
    exchange: str | None = None
    raw_symbol: str | None = None
    columns: Mapping[str, str] | None = None
    delimiter: str | None = None
    time_unit: str | Mapping[str, str] | None = None
    table: str | None = None
    coin: str | None = None
    interval: int | None = None
    funding_interval: int | None = None
    layout: str | None = None

    def time_unit_of(self, column: str) -> str | None:
        """Return how the caller said that the times of one of our columns are written, None if it was not said."""
        return self.time_unit if isinstance(self.time_unit, str | None) else self.time_unit.get(column)

    @property
    def venue(self) -> str:
        """The exchange, of a layout whose files do not name it; QueryError if it was not given."""
        if self.exchange is None:
            raise QueryError(
                "exchange",
                got=None,
                expected=f"the venue of {self.path.name}, which does not name it, e.g. BINANCE",
                code="INVALID_EXCHANGE",
            )
        return self.exchange


def _unknown(table: str, exchange: str, raw_symbol: str) -> None:
    """A file that says nothing about its amounts."""


@dataclass(slots=True)
class Parsed:
    """What a file holds.

    Attributes
    ----------
    spool : Spool
        Takes the rows.
    bad : BadLines
        Lines that could not be read.
    lines : int
        Lines that were looked at.
    ignored : dict of str to int
        How many messages of which kind are not kept.
    time_unit : str or None
        How its times are written, where that had to be found out.
    interval : int or None
        Length of its candles, where that had to be found out. [ns]
    amount_unit : callable
        The unit that the file itself says, of a table's name, an exchange and a symbol; None if it says none.
    coins : set of str
        Names of the tables whose amounts the file gives in coin, also where its market counts contracts.
    inverse : set of (str, str)
        Markets, (exchange, raw_symbol), whose messages say that they count contracts of an inverse future.
    contracts : dict of (str, str) to Contract
        What one contract is, for each market that the file describes.
    exchanges : dict of str to str
        What the file calls an exchange, by its name in the lake.
    any_class : bool
        Its venues have markets of any class, so that a trade alone does not tell that it was on a spot market.
    futures : bool
        Its market is certainly no spot market.
    notes : list of Note
        What a reader should know of rows that are kept.
    """

    spool: Spool
    bad: BadLines = field(default_factory=BadLines)
    lines: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    time_unit: str | None = None
    interval: int | None = None
    amount_unit: Callable[[str, str, str], AmountUnit | None] = _unknown
    coins: set[str] = field(default_factory=set)
    inverse: set[tuple[str, str]] = field(default_factory=set)
    contracts: dict[tuple[str, str], Contract] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    any_class: bool = False
    futures: bool = False
    notes: list[Note] = field(default_factory=list)
    _batches: dict[str, Batch] = field(default_factory=dict)

    def batch(self, table: Table) -> Batch:
        """Return the file's events of one table, to be read or added to."""
        return self._batches.setdefault(table.name, Batch(table, self.spool))

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Its events, of each table that it has any of, in the order of the lake's tables."""
        return tuple(batch for name in TABLES if (batch := self._batches.get(name)) and batch.rows)

    def ignore(self, kind: str, count: int = 1) -> None:
        """Count messages that are not kept."""
        self.ignored[kind] = self.ignored.get(kind, 0) + count


Layout = Callable[[Job, Spool, Callable[[int], object]], Parsed]
"""A layout reads a job's file into a spool, and tells how many bytes it took."""
