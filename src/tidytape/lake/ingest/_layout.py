"""The base class of layouts, the job that a layout reads, and the `Parsed` that it returns.

A new format needs a module with a subclass of `Layout`, a line in `tidytape.lake.ingest._layouts`, and a test. The
command of ``tidytape ingest``, the recognition and the tables of the guide follow from the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from tidytape.errors import QueryError
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._batch import Batch, Spool
from tidytape.lake._tables import TABLES, TRADES, Table
from tidytape.lake.ingest._contracts import Contract
from tidytape.lake.ingest._lines import BadLines, Piece
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import Note

Progress = Callable[[int], object]
"""Called with the number of bytes that were read."""


_EVENTS = "events"
_REMEMBERED = 100_000
"""Most events of a log that are remembered, the newest ones, to number identical events. [rows]"""


class Layout(ABC):
    """A format of files. Subclasses with options are frozen dataclasses.

    The first line of a subclass's docstring is the help of its command and its entry in the guide.

    Attributes
    ----------
    name : str
        Its name on the command line, in reports, and in the sources that a lake notes.
    needs_exchange : bool
        Whether the caller must name the exchange, because the files never do.
    names_exchange : bool
        Whether the files name their exchange, or can only be from one exchange.
    default_exchange : str or None
        The exchange, if all files of the layout are from one.
    market_options : tuple of str
        The attributes of `Market` that mean something to these files.
    follows : bool
        Whether a file can be read piece by piece while it grows: its rows are lines, in the order of time. If
        ``job.piece`` is set, such a layout reads this piece instead of the file.
    header_lines : int
        Number of lines before the first row; files with the same columns have the same lines there.
    amounts : mapping of str to str
        For each table with amounts that the files can fill: what decides the unit of the amounts, in words.
    """

    name: ClassVar[str]
    needs_exchange: ClassVar[bool] = False
    names_exchange: ClassVar[bool] = False
    default_exchange: ClassVar[str | None] = None
    market_options: ClassVar[tuple[str, ...]] = tuple(attribute.name for attribute in fields(Market))
    follows: ClassVar[bool] = False
    header_lines: ClassVar[int] = 0
    amounts: ClassVar[Mapping[str, str]]

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file has this layout, by its name and the beginning of its text."""
        return False

    @abstractmethod
    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file.

        Parameters
        ----------
        job : Job
            The file, and what the caller says of its market.
        spool : Spool
            Takes the rows.
        progress : callable
            Called with the number of bytes read.

        Raises
        ------
        QueryError
            If the caller must say more, e.g. name the exchange.
        IngestError
            If the file cannot be read, or has another layout.
        """

    @property
    def files(self) -> str:
        """What an error calls files of this layout."""
        return f"{self.name} files"

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read, as values that JSON can hold."""
        return {}

    def told_by_name(self, job: Job) -> str:
        """Return what the name of a file tells of its market, which is part of what the lake notes of the file."""
        return ""

    def require_used(self, market: Market) -> None:
        """Raise QueryError if the caller states a fact about the market that these files do not use."""
        if market.funding_interval is not None and "funding_interval" not in self.market_options:
            raise nothing_to_choose("funding_interval", market.funding_interval, self.files)


def nothing_to_choose(parameter: str, argument: object, files: str) -> QueryError:
    """Return the error of an option that some files do not use."""
    return QueryError(parameter, got=argument, expected=f"nothing, {files} have none to choose")


@dataclass(frozen=True, slots=True)
class Job:
    """One file to be read.

    Attributes
    ----------
    path : Path
        The file.
    market : Market
        What the caller says about its market.
    layout : Layout or None
        The format of the file; None to recognise it by the name and first lines.
    piece : Piece or None
        The lines to read; None for the whole file.
    """

    path: Path
    market: Market = Market()
    layout: Layout | None = None
    piece: Piece | None = None

    @property
    def exchange(self) -> str | None:
        """The exchange of all rows that the caller names; None if the caller names none."""
        return self.market.exchange

    @property
    def raw_symbol(self) -> str | None:
        """The symbol of the only market to take from the file; None to take all."""
        return self.market.raw_symbol

    def of(self, **attributes: str | None) -> Job:
        """Return the job with some attributes of its market replaced."""
        return replace(self, market=replace(self.market, **attributes))

    @property
    def known_exchange(self) -> str:
        """The exchange of a file that does not name it; QueryError if the caller does not name it either."""
        if self.exchange is None:
            raise QueryError(
                "exchange",
                got=None,
                expected=f"the exchange of {self.path.name}, which does not name it, e.g. BINANCE",
                hint='``market=Market(exchange="BINANCE")`` says it',
                code="INVALID_EXCHANGE",
            )
        return self.exchange


def _unknown(table: str, exchange: str, raw_symbol: str) -> None:
    """Return None: the file says nothing about its amounts."""


@dataclass(slots=True)
class Parsed:
    """What was read from a file.

    Attributes
    ----------
    spool : Spool
        Takes the rows.
    bad : BadLines
        Lines that could not be read.
    lines : int
        Number of lines that were read.
    ignored : dict of str to int
        Number of messages that are not kept, by kind.
    time_unit : str or None
        How the file's times are written, once that is known.
    interval : int or None
        Length of the file's candles, if the layout recognises it. [ns]
    amount_unit : callable
        Takes the name of a table, an exchange and a symbol, and returns the unit that the file shows, or None.
    coins : set of str
        Names of the tables whose amounts are in coin in the file, even if its market counts contracts.
    inverse : set of (str, str)
        Markets, (exchange, raw_symbol), whose messages or symbols show that they count contracts of an inverse future.
    contracts : dict of (str, str) to Contract
        What one contract is, for each market for which the file says it.
    markets : dict of (str, str) to Market
        What the file says about its markets: names and category. What the caller says takes precedence.
    exchanges : dict of str to str
        The file's name of an exchange, by its name in the lake.
    is_described : bool
        Whether the kind of the file says for certain what its amounts count.
    any_class : bool
        Whether the file may hold markets of any class, so that a market with trades need not be a spot market.
    futures : bool
        Whether the file's markets are certainly not spot markets.
    notes : list of Note
        What a user must know about rows that are kept.
    kind : str or None
        The `Batch.kind` of the file's events.
    piece : Piece or None
        The lines that were read, if the file is a log that grows.
    waits : bool
        Whether these lines of a log cannot be read without later lines.
    """

    spool: Spool
    bad: BadLines = field(default_factory=BadLines)
    lines: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    time_unit: str | None = None
    interval: int | None = None
    amount_unit: Callable[[str, str, str], CountedUnit | None] = _unknown
    coins: set[str] = field(default_factory=set)
    inverse: set[tuple[str, str]] = field(default_factory=set)
    contracts: dict[tuple[str, str], Contract] = field(default_factory=dict)
    markets: dict[tuple[str, str], Market] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    is_described: bool = False
    any_class: bool = False
    futures: bool = False
    notes: list[Note] = field(default_factory=list)
    kind: str | None = None
    piece: Piece | None = None
    waits: bool = False
    _batches: dict[str, Batch] = field(default_factory=dict)

    def batch(self, table: Table) -> Batch:
        """Return the file's events of one table, to be read or added to."""
        return self._batches.setdefault(table.name, Batch(table, self.spool))

    def before(self, table: Table) -> Batch:
        """Return the file's events of one table so far, including those of earlier pieces of a log."""
        batch = self.batch(table)
        if self.piece is None:
            return batch
        # The entry makes `remember` keep the newest events of the table.
        earlier = self.piece.memory.setdefault(_EVENTS, {}).setdefault(table.name, table.empty())
        all_events = Batch(table)
        all_events.add(earlier)
        all_events.parts += batch.parts
        return all_events

    def remember(self) -> None:
        """Keep the newest events of the tables for which `before` was called."""
        if self.piece is None:
            return
        remembered = self.piece.memory.get(_EVENTS, {})
        for name in remembered:
            frames = [part.frame() for part in self.batch(TABLES[name])]
            remembered[name] = pl.concat([remembered[name], *frames], how="diagonal").tail(_REMEMBERED)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The file's events by table, without empty tables, in the order of the lake's tables."""
        return tuple(batch for name in TABLES if (batch := self._batches.get(name)) and batch.rows)

    @property
    def market_keys(self) -> set[tuple[str, str]]:
        """The markets, (exchange, raw_symbol), of the file's events in all tables."""
        return {
            (name[0], name[1])
            for batch in self.batches
            if batch.table.partitions == TRADES.partitions
            for name in batch.markets
        }

    def ignore(self, kind: str, count: int = 1) -> None:
        """Count messages that are not kept; a count of 0 adds no kind."""
        if count:
            self.ignored[kind] = self.ignored.get(kind, 0) + count

    def only(self, rows: pl.DataFrame, raw_symbol: str | None, *, others: str) -> pl.DataFrame:
        """Return the rows of one market and count the others; without a symbol, return all rows."""
        if raw_symbol is None:
            return rows
        of_market = rows.filter(pl.col("raw_symbol") == raw_symbol)
        self.ignore(others, rows.height - of_market.height)
        return of_market
