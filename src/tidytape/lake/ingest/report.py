"""What an ingest did, file by file."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FileReport", "IngestReport", "MarketReport"]


@dataclass(frozen=True, slots=True)
class FileReport:
    """What came of one file.

    Attributes
    ----------
    path : str
        The file.
    already_ingested : bool
        It went into this lake before, read the same way, so it changed nothing.
    lines : int
        Lines that were not blank.
    trades_read, trades_new : int
        Trades in the file, and those of them that the lake did not have.
    book_rows_read, book_rows_new : int
        Levels of book events in the file, and those that the lake did not have.
    quotes_read, quotes_new : int
        Quotes of options in the file, and those that the lake did not have.
    bad_lines : int
        Lines that were skipped because they are broken.
    first_bad_lines : tuple of (int, str)
        The first of them: line number, from 1, and what is wrong.
    ignored : tuple of (str, int)
        Messages that are not kept, by kind, and how many.
    time_unit : str or None
        How its times are written, where that was found out or given: ``iso``, ``s``, ``ms``, ``us`` or ``ns``.
    """

    path: str
    already_ingested: bool = False
    lines: int = 0
    trades_read: int = 0
    trades_new: int = 0
    book_rows_read: int = 0
    book_rows_new: int = 0
    quotes_read: int = 0
    quotes_new: int = 0
    bad_lines: int = 0
    first_bad_lines: tuple[tuple[int, str], ...] = ()
    ignored: tuple[tuple[str, int], ...] = ()
    time_unit: str | None = None

    def __str__(self) -> str:
        counts = []
        if self.trades_read:
            counts.append(_counted("trade", self.trades_read, self.trades_new))
        if self.book_rows_read:
            counts.append(_counted("book level", self.book_rows_read, self.book_rows_new))
        if self.quotes_read:
            counts.append(_counted("option quote", self.quotes_read, self.quotes_new))
        text = f"{self.path}: {', '.join(counts) or 'no trades'}"
        if self.already_ingested:
            text = f"{self.path}: already in the lake"
        if self.time_unit is not None:
            text += f"; times in {self.time_unit}"
        if self.ignored:
            text += "; not kept: " + ", ".join(f"{count:,} {kind}" for kind, count in self.ignored)
        if self.bad_lines:
            text += f"; {self.bad_lines:,} bad line{'s' * (self.bad_lines != 1)} skipped"
            text += "".join(f"\n  line {line}: {reason}" for line, reason in self.first_bad_lines)
        return text


@dataclass(frozen=True, slots=True)
class MarketReport:
    """One instrument of the files, as it is registered now.

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

    def __str__(self) -> str:
        text = (
            f"{self.exchange} {self.raw_symbol}: {self.normalized_symbol}, coin {self.coin}, {self.category}"
        )
        if self.block_size is not None:
            text += f", block size {self.block_size:g}"
        if self.guessed:
            text += " (names guessed from the raw symbol)"
        return f"{text}; {_counted('trade', self.trades, self.trades)} in the lake"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    files : tuple of FileReport
        In the order they were given.
    markets : tuple of MarketReport
        Instruments of the files that were read, and those that files ingested before may hold, sorted.
    """

    files: tuple[FileReport, ...]
    markets: tuple[MarketReport, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.files, *self.markets)))

    @property
    def trades_read(self) -> int:
        """Trades in the files that were read."""
        return sum(file.trades_read for file in self.files)

    @property
    def trades_new(self) -> int:
        """Trades that the lake did not have."""
        return sum(file.trades_new for file in self.files)

    @property
    def book_rows_read(self) -> int:
        """Levels of book events in the files that were read."""
        return sum(file.book_rows_read for file in self.files)

    @property
    def book_rows_new(self) -> int:
        """Levels of book events that the lake did not have."""
        return sum(file.book_rows_new for file in self.files)

    @property
    def quotes_read(self) -> int:
        """Quotes of options in the files that were read."""
        return sum(file.quotes_read for file in self.files)

    @property
    def quotes_new(self) -> int:
        """Quotes of options that the lake did not have."""
        return sum(file.quotes_new for file in self.files)

    @property
    def bad_lines(self) -> int:
        """Lines that were skipped because they are broken."""
        return sum(file.bad_lines for file in self.files)


def _counted(what: str, read: int, new: int) -> str:
    text = f"{read:,} {what}{'s' * (read != 1)}"
    return text if new == read else f"{text}, {new:,} of them new"
