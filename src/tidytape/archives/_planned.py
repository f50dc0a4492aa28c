"""One file of a plan: what it covers, where it lies, and whether its rows are those that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidytape.errors import IngestError
from tidytape.lake.ingest import Market
from tidytape.lake.ingest._layout import Parsed
from tidytape.query._values import written_time
from tidytape.times import SECOND

_SLACK = timedelta(minutes=10)
"""Longest time before and after a file's own at which it may have rows, such as the midnight that ends a day."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of an archive.

    Attributes
    ----------
    start, end : datetime
        The time that it covers, half-open.
    exchange, symbol : str
        Its market.
    data : str
        Its kind of data.
    path : str
        Its path in the archive.
    name : str
        What it is called on this machine.
    market : Market
        What it does not say.
    """

    start: datetime
    end: datetime
    exchange: str
    symbol: str
    data: str
    path: str
    name: str
    market: Market

    def require(self, parsed: Parsed) -> None:
        """Raise IngestError if rows are of another market or time than the file's.

        Files that name their exchange are not checked: those of a vendor may hold a group of markets, and have the rows
        that arrived in their time.
        """
        if self.market.exchange is None:
            return
        first, last = (int(time.timestamp()) * SECOND for time in (self.start - _SLACK, self.end + _SLACK))
        for batch in parsed.batches:
            symbols = {symbol for _, symbol, *_ in batch.markets} - {self.symbol}
            if symbols:
                raise IngestError(f"its rows are of {min(symbols)}, not of {self.symbol}")
            begins, ends = min(part.first for part in batch), max(part.last for part in batch)
            if begins < first or ends > last:
                times = " to ".join(written_time(time // SECOND) for time in (begins, ends))
                raise IngestError(f"its rows are of another time: {times}")
