"""What a layout is, what it is asked to read, and what it returns.

A new format is a module with a subclass of `Layout`, its line in `tidytape.lake.ingest._layouts`, and its test. The
commands of ``tidytape ingest``, recognition and the tables of the guide derive from the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from tidytape.errors import QueryError
from tidytape.lake._amount_units import AmountUnit
from tidytape.lake._batch import Batch, Spool
from tidytape.lake._tables import TABLES, Table
from tidytape.lake.ingest._contracts import Contract
from tidytape.lake.ingest._lines import BadLines, Piece
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import Note

Progress = Callable[[int], object]
"""Called with the number of bytes that were read."""


_EVENTS = "events"
_REMEMBERED = 100_000
"""Events of a log that are remembered, to number identical ones. [rows]"""


class Layout(ABC):
    """A format of files. Subclasses with options are frozen dataclasses.

    The first line of a subclass's docstring is the help of its command and its entry in the guide.

    Attributes
    ----------
    name : str
        What the command line, reports and noted sources call it.
    needs_exchange : bool
        Whether the files never say which exchange they are from, so the caller has to.
    names_exchange : bool
        Whether the files say which exchange they are from, or can only be from one.
    default_exchange : str or None
        The exchange of a layout that only one has.
    market_options : tuple of str
        The attributes of `Market` that mean something to these files.
    follows : bool
        Whether a file can be read piece by piece while it grows: its rows are lines, in the order of time. Such a
        layout reads ``job.piece`` where there is one.
    header_lines : int
        Lines before the first row, which files of the same columns share.
    amounts : mapping of str to str
        What decides the unit of the amounts, by the name of each table that files can fill and that has amounts.
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
        """Return whether a file is written so, by its name and the beginning of its text."""
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
            If the caller has to say more, e.g. the exchange.
        IngestError
            If the file cannot be read, or is none of this layout.
        """

    @property
    def files(self) -> str:
        """What an error calls files of this layout."""
        return f"{self.name} files"

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read; JSON can hold them."""
        return {}

    def require_used(self, market: Market) -> None:
        """Raise QueryError if the caller says of the market what these files have no place for."""
        if market.funding_interval is not None and "funding_interval" not in self.market_options:
            raise nothing_to_choose("funding_interval", market.funding_interval, self.files)


def nothing_to_choose(parameter: str, got: object, files: str) -> QueryError:
    """Return the error of an option that means nothing to some files."""
    return QueryError(parameter, got=got, expected=f"nothing, {files} have none to choose")


@dataclass(frozen=True, slots=True)
class Job:
    """One file to be read.

    Attributes
    ----------
    path : Path
        The file.
    market : Market
        What the caller says of its market.
    layout : Layout or None
        How it is written; None to see from its name and first lines.
    piece : Piece or None
        The lines of it to be read; None for all of them.
    """

    path: Path
    market: Market = Market()
    layout: Layout | None = None
    piece: Piece | None = None

    @property
    def exchange(self) -> str | None:
        """The exchange of all its rows; None to see from the file."""
        return self.market.exchange

    @property
    def raw_symbol(self) -> str | None:
        """The one market to take from it."""
        return self.market.raw_symbol

    def of(self, **said: str | None) -> Job:
        """Return the job with more said of the market."""
        return replace(self, market=replace(self.market, **said))

    @property
    def known_exchange(self) -> str:
        """The exchange, of a file that does not name it; QueryError if the caller did not say it."""
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
        Its exchanges have markets of any class, so that a trade alone does not tell that it was on a spot market.
    futures : bool
        Its market is certainly no spot market.
    notes : list of Note
        What a reader should know of rows that are kept.
    piece : Piece or None
        The lines that were read of a log that grows.
    waits : bool
        These lines of a log cannot be read without later ones.
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
    piece: Piece | None = None
    waits: bool = False
    _batches: dict[str, Batch] = field(default_factory=dict)

    def batch(self, table: Table) -> Batch:
        """Return the file's events of one table, to be read or added to."""
        return self._batches.setdefault(table.name, Batch(table, self.spool))

    def before(self, table: Table) -> Batch:
        """Return the file's events of one table so far, those of earlier pieces of a log included."""
        batch = self.batch(table)
        if self.piece is None:
            return batch
        # From now on the newest events of this table are remembered, see `remember`.
        earlier = self.piece.memory.setdefault(_EVENTS, {}).setdefault(table.name, table.empty())
        every = Batch(table)
        every.add(earlier)
        every.parts += batch.parts
        return every

    def remember(self) -> None:
        """Keep the newest events of the tables that `before` was asked for."""
        if self.piece is None:
            return
        kept = self.piece.memory.get(_EVENTS, {})
        for name in kept:
            frames = [part.frame() for part in self.batch(TABLES[name])]
            kept[name] = pl.concat([kept[name], *frames], how="diagonal").tail(_REMEMBERED)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Its events, of each table that it has any of, in the order of the lake's tables."""
        return tuple(batch for name in TABLES if (batch := self._batches.get(name)) and batch.rows)

    def ignore(self, kind: str, count: int = 1) -> None:
        """Count messages that are not kept, if there are any."""
        if count:
            self.ignored[kind] = self.ignored.get(kind, 0) + count

    def only(self, rows: pl.DataFrame, raw_symbol: str | None, *, others: str) -> pl.DataFrame:
        """Return the rows of one market, all if none is named, and count the ``others``."""
        if raw_symbol is None:
            return rows
        kept = rows.filter(pl.col("raw_symbol") == raw_symbol)
        self.ignore(others, rows.height - kept.height)
        return kept
