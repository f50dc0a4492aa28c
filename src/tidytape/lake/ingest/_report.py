"""The result of an ingest: file by file, and as a summary of few lines for any number of files and markets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tidytape.errors import counted
from tidytape.lake._tables import (
    BOOK,
    CME_OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    OPEN_INTEREST,
    OPTION_QUOTES,
    QUOTE_RATES,
    RECORDED_CANDLES,
    TABLES,
    TOKEN_SUPPLY,
    TRADES,
    Table,
)

_ROW_NAMES: Mapping[str, str] = MappingProxyType(
    {
        TRADES.name: "trade",
        BOOK.name: "book level",
        RECORDED_CANDLES.name: "candle",
        OPEN_INTEREST.name: "open interest report",
        FUNDING.name: "funding report",
        LIQUIDATIONS.name: "liquidation",
        OPTION_QUOTES.name: "option quote",
        CME_OPEN_INTEREST.name: "regulated open interest report",
        TOKEN_SUPPLY.name: "token supply report",
        QUOTE_RATES.name: "quote rate",
    }
)


def _rows_of(table: str, count: int) -> str:
    return counted(count, _ROW_NAMES.get(table, f"{table} row"))


def _stored(rows: Iterable[tuple[str, int]]) -> str:
    return ", ".join(_rows_of(table, count) for table, count in rows)


@dataclass(frozen=True, slots=True)
class TableCount:
    """Counts of the rows of one table in a file.

    Attributes
    ----------
    table : str
        Name of the table.
    read : int
        Rows in the file.
    new : int
        Rows that were added to the lake.
    superseded : int
        States that were left out because another state of the same time counts: in a file the last one that was
        received, and at the first and last time of a file the state of the lake.
    replaced : int
        Rows of the lake whose place rows of the file took: the last candle of a market, if the file goes on past it,
        states that lacked a value of the file, and with ``replace`` all states that differ.
    """

    table: str
    read: int = 0
    new: int = 0
    superseded: int = 0
    replaced: int = 0

    def __str__(self) -> str:
        text = _rows_of(self.table, self.read)
        if self.new != self.read:
            text += f", {self.new:,} of them new"
        if self.superseded:
            text += f", {self.superseded:,} superseded"
        return f"{text}, {self.replaced:,} replaced in the lake" if self.replaced else text


class _Counts:
    """The counts of three tables as attributes; `count` returns those of any table."""

    __slots__ = ()

    def count(self, table: Table) -> TableCount:
        """Return the counts of one table; they are zero if no row of it was read."""
        raise NotImplementedError

    @property
    def trades_read(self) -> int:
        """Trades that were read."""
        return self.count(TRADES).read

    @property
    def trades_new(self) -> int:
        """Trades that the lake did not have."""
        return self.count(TRADES).new

    @property
    def book_rows_read(self) -> int:
        """Levels of book events that were read."""
        return self.count(BOOK).read

    @property
    def book_rows_new(self) -> int:
        """Levels of book events that the lake did not have."""
        return self.count(BOOK).new

    @property
    def quotes_read(self) -> int:
        """Quotes of options that were read."""
        return self.count(OPTION_QUOTES).read

    @property
    def quotes_new(self) -> int:
        """Quotes of options that the lake did not have."""
        return self.count(OPTION_QUOTES).new


@dataclass(frozen=True, slots=True)
class Note:
    """What a user should know about rows that were kept.

    Attributes
    ----------
    row : str
        What a row is, e.g. a funding report.
    said : str
        What a user should know about these rows.
    count : int
        Number of rows.
    exchange : str or None
        Their exchange, if it matters.
    """

    row: str
    said: str
    count: int
    exchange: str | None = None

    def __str__(self) -> str:
        of = "" if self.exchange is None else f" of {self.exchange}"
        return f"{counted(self.count, self.row)}{of}, {self.said}"


@dataclass(frozen=True, slots=True)
class FileReport(_Counts):
    """The result of one file.

    Attributes
    ----------
    path : str
        The file.
    already_ingested : bool
        Whether the lake had the file already, read in the same way; then nothing changed.
    lines : int
        Number of lines that are not blank.
    counts : tuple of TableCount
        Counts of its rows by table, without tables of which it has no rows.
    bad_lines : int
        Number of broken lines, which were skipped.
    first_bad_lines : tuple of (int, str)
        The first of them: line number, from 1, and the reason.
    ignored : tuple of (str, int)
        Messages that are not kept: kind, and number.
    time_unit : str or None
        How its times are written, if that is known: ``iso``, ``date``, ``s``, ``ms``, ``us``, ``ns`` or a format.
    notes : tuple of Note
        What a user should know about rows that were kept.
    known_bytes : int
        If the log is followed or replayed: the part of it that an earlier run has put into the lake. [bytes]
    """

    path: str
    already_ingested: bool = False
    lines: int = 0
    counts: tuple[TableCount, ...] = ()
    bad_lines: int = 0
    first_bad_lines: tuple[tuple[int, str], ...] = ()
    ignored: tuple[tuple[str, int], ...] = ()
    time_unit: str | None = None
    notes: tuple[Note, ...] = ()
    known_bytes: int = 0

    def count(self, table: Table) -> TableCount:
        """Return the counts of one table; they are zero if the file has no row of it."""
        return next((count for count in self.counts if count.table == table.name), TableCount(table.name))

    @property
    def without_notes(self) -> str:
        """The result as text, without the notes."""
        nothing = "nothing new" if self.known_bytes else "no events"
        text = f"{self.path}: {', '.join(map(str, self.counts)) or nothing}"
        if self.known_bytes:
            text += f"; {counted(self.known_bytes, 'byte')} went in earlier"
        if self.already_ingested:
            text = f"{self.path}: already in the lake"
        if self.time_unit is not None:
            text += f"; times {'as' if '%' in self.time_unit else 'in'} {self.time_unit}"
        if self.ignored:
            text += "; not kept: " + ", ".join(f"{kind} ({count:,})" for kind, count in self.ignored)
        if self.bad_lines:
            text += f"; {counted(self.bad_lines, 'bad line')} skipped"
            text += "".join(f"\n  line {line}: {reason}" for line, reason in self.first_bad_lines)
        return text

    def __str__(self) -> str:
        return "\n  ".join((self.without_notes, *map(str, self.notes)))


@dataclass(frozen=True, slots=True)
class MarketReport:
    """One market of the files, as the registry has it after the ingest.

    Attributes
    ----------
    exchange, raw_symbol : str
        Its key.
    normalized_symbol, coin, quote_coin, category : str or None
        Its names and class.
    block_size : float or None
        Height of a price row of its profiles. [quote per coin]
    trades : int
        Number of its trades in the lake.
    guessed : bool
        Whether this ingest read its coin and quote from its raw symbol.
    rows : tuple of (str, int)
        Number of its rows in the lake, by the name of each table in which it has rows and, if a file was written, to
        which the files were written.
    factor : float or None
        How many coins one unit is that the exchange trades; None if a unit is a coin.
    """

    exchange: str
    raw_symbol: str
    normalized_symbol: str | None
    coin: str | None
    quote_coin: str | None
    category: str | None
    block_size: float | None
    trades: int
    guessed: bool
    rows: tuple[tuple[str, int], ...] = ()
    factor: float | None = None

    def __str__(self) -> str:
        names = f"{self.normalized_symbol}, coin {self.coin}"
        if self.coin is None:
            names = "no names, coin and quote cannot be read out of the raw symbol"
        text = f"{self.exchange} {self.raw_symbol}: {names}, {self.category or 'class unknown'}"
        if self.block_size is not None:
            text += f", block size {self.block_size:g}"
        if self.factor not in {None, 1.0}:
            text += f", a unit is {self.factor:,.15g} {self.coin}"
        if self.guessed:
            text += " (names guessed from the raw symbol)"
        if stored := _rows_of_market(self):
            text += f"; {_stored(stored)} in the lake"
        if self.coin is None:
            text += (
                f"\n  to name it, ingest its file again with --raw-symbol {self.raw_symbol} --normalized-symbol "
                "COIN-QUOTE; until then exchange and raw symbol select it"
            )
        return text


@dataclass(frozen=True, slots=True)
class IngestReport(_Counts):
    """The result of an ingest.

    Attributes
    ----------
    files : tuple of FileReport
        Files that went into the lake, now or before, in the order of the arguments.
    markets : tuple of MarketReport
        Markets of the files that were read, and markets that the files of earlier ingests may hold, sorted.
    """

    files: tuple[FileReport, ...]
    markets: tuple[MarketReport, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.files, *self.markets)))

    def count(self, table: Table) -> TableCount:
        """Return the counts of one table over all files that were read."""
        counts = [file.count(table) for file in self.files]
        return TableCount(
            table.name,
            read=sum(count.read for count in counts),
            new=sum(count.new for count in counts),
            superseded=sum(count.superseded for count in counts),
            replaced=sum(count.replaced for count in counts),
        )

    @property
    def unnamed(self) -> tuple[tuple[str, str], ...]:
        """The (exchange, raw_symbol) of markets without names: the caller gave none, and no rule can guess them."""
        return tuple((market.exchange, market.raw_symbol) for market in self.markets if market.coin is None)

    @property
    def superseded(self) -> int:
        """Number of states that were left out because another state of the same time counts."""
        return sum(count.superseded for file in self.files for count in file.counts)

    @property
    def replaced(self) -> int:
        """Number of rows of the lake whose place rows of the files took."""
        return sum(count.replaced for file in self.files for count in file.counts)

    @property
    def bad_lines(self) -> int:
        """Number of broken lines, which were skipped."""
        return sum(file.bad_lines for file in self.files)


_FEW = 5
"""Up to this number, each file, and each market, has a line of its own."""

_EXAMPLES = 3


def summary(report: IngestReport) -> str:
    """Return a report as few lines: a line per file and market if they are few, otherwise a line per kind.

    Parameters
    ----------
    report : IngestReport
        The report; ``str(report)`` has a line per file and per market.

    Examples
    --------
    >>> file = FileReport("a.csv", notes=tuple(Note("amount", "taken for coins", n, f"X{n}") for n in (1, 2, 3, 4)))
    >>> print(summary(IngestReport((file,), ())))
    a.csv: no events
      10 amounts of 4 exchanges, taken for coins: X4 (4), X3 (3), X2 (2) and 1 more
    """
    files = report.files if len(report.files) <= _FEW else [_merged(report)]
    lines = [*(file.without_notes for file in files), *_notes(report.files)]
    if len(report.markets) <= _FEW:
        lines += map(str, report.markets)
    else:
        lines += _markets(report.markets)
    return "\n".join(lines)


def _merged(report: IngestReport) -> FileReport:
    """Return the reports of all files as the report of one file."""
    files = report.files
    known = sum(file.already_ingested for file in files)
    units = {file.time_unit for file in files}
    counts = (report.count(table) for table in TABLES.values())
    ignored: Counter[str] = Counter()
    for file in files:
        ignored.update(dict(file.ignored))
    bad = [(line, f"{reason} ({file.path})") for file in files for line, reason in file.first_bad_lines]
    return FileReport(
        counted(len(files), "file") + (f", {known:,} of them already in the lake" if known else ""),
        already_ingested=False,
        counts=tuple(count for count in counts if count.read),
        bad_lines=report.bad_lines,
        first_bad_lines=tuple(bad[:_EXAMPLES]),
        ignored=tuple(sorted(ignored.items())),
        time_unit=units.pop() if len(units) == 1 else None,
        known_bytes=sum(file.known_bytes for file in files),
    )


def _notes(files: Sequence[FileReport]) -> Iterator[str]:
    """Yield the notes of some files, one line per kind of note."""
    exchanges: dict[tuple[str, str], Counter[str | None]] = {}
    for file in files:
        for note in file.notes:
            exchanges.setdefault((note.row, note.said), Counter())[note.exchange] += note.count
    for (row, text), counts in exchanges.items():
        if len(counts) == 1:
            ((exchange, count),) = counts.items()
            yield f"  {Note(row, text, count, exchange)}"
            continue
        names = [f"{exchange} ({count:,})" for exchange, count in counts.most_common()]
        yield f"  {Note(row, text, counts.total(), counted(len(counts), 'exchange'))}: {_some(names)}"


def _markets(markets: Sequence[MarketReport]) -> Iterator[str]:
    """Yield the lines about many markets: their number, and the number of those with guessed, no or unknown facts."""
    rows: Counter[str] = Counter()
    for market in markets:
        rows.update(dict(_rows_of_market(market)))
    stored = f", {_stored(rows.items())} in the lake" if rows else ""
    yield f"{counted(len(markets), 'market')}{stored}: {_some(list(map(_key, markets)))}"
    guessed = [f"{_key(market)} as {market.normalized_symbol}" for market in markets if market.guessed]
    if guessed:
        yield f"  {counted(len(guessed), 'name')} guessed from the raw symbol: {_some(guessed)}"
    unnamed = [_key(market) for market in markets if market.coin is None]
    if unnamed:
        yield (
            f"  {counted(len(unnamed), 'market')} without names, which no rule reads out of the raw symbol: "
            f"{_some(unnamed)}; to name one, ingest its file again with --raw-symbol SYMBOL --normalized-symbol "
            "COIN-QUOTE; until then exchange and raw symbol select it"
        )
    open_class = [_key(market) for market in markets if market.category is None]
    if open_class:
        yield f"  {counted(len(open_class), 'market')} of unknown class: {_some(open_class)}; pass it with --category"


def _rows_of_market(market: MarketReport) -> tuple[tuple[str, int], ...]:
    return market.rows or (((TRADES.name, market.trades),) if market.trades else ())


def _key(market: MarketReport) -> str:
    return f"{market.exchange} {market.raw_symbol}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")
