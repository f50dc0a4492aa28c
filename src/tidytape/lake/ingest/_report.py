"""What an ingest did, file by file, and in few lines however many files, exchanges and markets there were."""

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
    """How many rows of one table a file has.

    Attributes
    ----------
    table : str
        Name of the table.
    read : int
        Rows in the file.
    new : int
        Those of them that were added.
    superseded : int
        States that were left out because another one of the same time holds, see `tidytape.lake._dedupe`.
    """

    table: str
    read: int = 0
    new: int = 0
    superseded: int = 0

    def __str__(self) -> str:
        text = _rows_of(self.table, self.read)
        if self.new != self.read:
            text += f", {self.new:,} of them new"
        return f"{text}, {self.superseded:,} superseded" if self.superseded else text


class _Counts:
    """What is known of every table, by the names it had when there were three."""

    __slots__ = ()

    def count(self, table: Table) -> TableCount:
        """Return the counts of one table, zero where nothing of it was read."""
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
    """What to know of rows that were kept.

    Attributes
    ----------
    row : str
        What one of them is called.
    said : str
        What is to be known.
    count : int
        How many there are.
    exchange : str or None
        Where they are from, if it matters.
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
    """What came of one file.

    Attributes
    ----------
    path : str
        The file.
    already_ingested : bool
        It went into this lake before, read the same way, so it changed nothing.
    lines : int
        Lines that were not blank.
    counts : tuple of TableCount
        Its rows, of each table that it has any of.
    bad_lines : int
        Lines that were skipped because they are broken.
    first_bad_lines : tuple of (int, str)
        The first of them: line number, from 1, and what is wrong.
    ignored : tuple of (str, int)
        Messages that are not kept, by kind, and how many.
    time_unit : str or None
        How its times are written, where that was found out or given: ``iso``, ``date``, ``s``, ``ms``,
        ``us``, ``ns`` or a format.
    notes : tuple of Note
        What to know of rows that were kept.
    known_bytes : int
        Of a log that is followed or replayed: how much of its beginning an earlier run has put in. [bytes]
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
        """Return the counts of one table, zero where the file has nothing of it."""
        return next((count for count in self.counts if count.table == table.name), TableCount(table.name))

    @property
    def without_notes(self) -> str:
        """What came of it but for its notes."""
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
    """One market of the files, as it is registered now.

    Attributes
    ----------
    exchange, raw_symbol : str
        Its key.
    normalized_symbol, coin, quote_coin, category : str or None
        What it stands for.
    block_size : float or None
        Height of a price row of its profiles. [quote per coin]
    trades : int
        Trades of it in the lake now.
    guessed : bool
        Its coin and quote were read out of its raw symbol just now.
    rows : tuple of (str, int)
        Rows of it in the lake now, by the name of each table that the files were written to; of each table that has
        any where no file was written.
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

    def __str__(self) -> str:
        names = f"{self.normalized_symbol}, coin {self.coin}"
        if self.coin is None:
            names = "no names, coin and quote cannot be read out of the raw symbol"
        text = f"{self.exchange} {self.raw_symbol}: {names}, {self.category or 'class unknown'}"
        if self.block_size is not None:
            text += f", block size {self.block_size:g}"
        if self.guessed:
            text += " (names guessed from the raw symbol)"
        text = f"{text}; {_stored(self.rows or [(TRADES.name, self.trades)])} in the lake"
        if self.coin is None:
            text += (
                f"\n  to name it, ingest its file again with --raw-symbol {self.raw_symbol} --normalized-symbol "
                "COIN-QUOTE; until then exchange and raw symbol select it"
            )
        return text


@dataclass(frozen=True, slots=True)
class IngestReport(_Counts):
    """What an ingest did.

    Attributes
    ----------
    files : tuple of FileReport
        Those that went in, or had before, in the order they were given.
    markets : tuple of MarketReport
        Markets of the files that were read, and those that files ingested before may hold, sorted.
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
        )

    @property
    def unnamed(self) -> tuple[tuple[str, str], ...]:
        """The (exchange, raw_symbol) of markets that have no names: nobody said them and no rule can tell."""
        return tuple((market.exchange, market.raw_symbol) for market in self.markets if market.coin is None)

    @property
    def superseded(self) -> int:
        """States that were left out because another one of the same time holds."""
        return sum(count.superseded for file in self.files for count in file.counts)

    @property
    def bad_lines(self) -> int:
        """Lines that were skipped because they are broken."""
        return sum(file.bad_lines for file in self.files)


_FEW = 5
"""Most files, and most markets, that have a line each."""

_EXAMPLES = 3


def summary(report: IngestReport) -> str:
    """Return a report as a few lines: what there is little of one by one, what there is much of by its kind.

    Parameters
    ----------
    report : IngestReport
        What ``str(report)`` tells file by file and market by market.

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
    """All files as if they were one."""
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
    """What is to be known of the rows of some files, a line for each kind of it."""
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
    """Many markets: how many, and of how many the same is to be known."""
    rows: Counter[str] = Counter()
    for market in markets:
        rows.update(dict(market.rows or [(TRADES.name, market.trades)]))
    yield f"{counted(len(markets), 'market')}, {_stored(rows.items())} in the lake: {_some(list(map(_key, markets)))}"
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


def _key(market: MarketReport) -> str:
    return f"{market.exchange} {market.raw_symbol}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")
