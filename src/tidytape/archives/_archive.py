"""What describes a public archive: where its files lie, what they hold, and how they are verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum


class Period(StrEnum):
    """The time that one file of an archive covers."""

    DAY = "day"
    MONTH = "month"
    FIRST_DAY = "first day of a month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The files of one kind of data.

    Attributes
    ----------
    data : str
        What a caller asks for, e.g. ``"trades"``.
    path : str
        Path of a file, with the fields ``folder`` (of the `Segment`), ``symbol``, ``interval`` (of candles) and ``day``
        (the first one of the file).
    name : str
        What a fetched file is called, if its name in the archive does not tell what it holds.
    period : Period
        The time that a file covers.
    segments : tuple of str
        The segments that have such files; empty for all.
    intervals : tuple of str
        The lengths of its candles; empty if it has no candles, or those of one length.
    may_count_contracts : bool
        Whether amounts of some markets are numbers of contracts.
    """

    data: str
    path: str
    name: str = ""
    period: Period = Period.DAY
    segments: tuple[str, ...] = ()
    intervals: tuple[str, ...] = ()
    may_count_contracts: bool = True

    def is_of(self, market: str) -> bool:
        """Return whether a segment has such files."""
        return not self.segments or market in self.segments

    def path_of(self, segment: Segment, symbol: str, day: date, interval: str) -> str:
        """Return the path of a file."""
        return self.path.format(folder=segment.folder, symbol=symbol, day=day, interval=interval)

    def name_of(self, segment: Segment, symbol: str, day: date, interval: str) -> str:
        """Return what a fetched file is called."""
        name = self.name.format(folder=segment.folder, symbol=symbol, day=day)
        return name or self.path_of(segment, symbol, day, interval).rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One of the markets of an archive, such as spot: where its files lie, and what holds for all of them.

    Attributes
    ----------
    folder : str
        What the path of its files has as ``folder``.
    exchange : str
        The exchange, as the lake calls it.
    category : str or None
        The class of its markets, if their files and symbols do not show it.
    """

    folder: str
    exchange: str
    category: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Archive:
    """A public archive that needs no key. The files are read as `tidytape.lake.ingest.ingest` recognises them.

    Attributes
    ----------
    name : str
        What a caller calls it.
    host : str
        Its address. The address of a file is ``host/path``.
    segments : mapping of str to Segment
        Its markets, by what a caller calls them.
    kinds : tuple of Kind
        What it has.
    checksum : str
        What follows the address of a file in the address of its SHA-256; empty if there are none.
    hours_ahead : int
        Hours by which the days of its files begin before those of UTC. [h]
    names_exchange : bool
        Whether its files name their exchange.
    sends_parts : bool
        Whether its server tells the length of a file, and sends the rest of one.
    oddities : tuple of str
        What is known to be odd, for the documentation.
    """

    name: str
    host: str
    segments: Mapping[str, Segment]
    kinds: tuple[Kind, ...]
    checksum: str = ""
    hours_ahead: int = 0
    names_exchange: bool = False
    sends_parts: bool = True
    oddities: tuple[str, ...] = ()

    def days(self, period: Period, start: datetime, end: datetime) -> Iterator[date]:
        """Yield the first day of each file that has a part of ``[start, end)``."""
        ahead = timedelta(hours=self.hours_ahead)
        day, last = (start + ahead).date(), (end + ahead - timedelta(microseconds=1)).date()
        if period is Period.MONTH:
            day = day.replace(day=1)
        while day <= last:
            if period is not Period.FIRST_DAY or day.day == 1:
                yield day
            day = _next_month(day) if period is Period.MONTH else day + timedelta(days=1)

    def span(self, period: Period, day: date) -> tuple[datetime, datetime]:
        """Return the time that the file of a day covers, half-open."""
        after = _next_month(day) if period is Period.MONTH else day + timedelta(days=1)
        ahead = timedelta(hours=self.hours_ahead)
        start, end = (datetime.combine(each, datetime.min.time(), UTC) - ahead for each in (day, after))
        return start, end


def _next_month(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1)
