"""The statistics of a lake that estimates are made of, from the logs of its tables."""

from __future__ import annotations

import polars as pl

from tidytape.lake import Lake
from tidytape.lake.rollup import sources
from tidytape.lake.store import Facts
from tidytape.service.estimate import rows_within
from tidytape.service.options import Instrument

__all__ = ["LakeStatistics"]


class LakeStatistics:
    """The statistics of a lake as it is now; what they mean says `tidytape.service.estimate.Statistics`.

    Parameters
    ----------
    lake : Lake
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def events(self, table: str, *partition: str) -> list[Facts]:
        """Return what the log says of the files of one partition."""
        return self._lake.files(table, *partition)

    def minutes(self, table: str, one: Instrument, start: int, end: int) -> int:
        """Return about how many rows are read for the minutes of a market."""
        read = sources(
            self._lake,
            table,
            exchange=one.exchange,
            raw_symbol=one.raw_symbol,
            start=start,
            end=end,
            block_size=one.block_size,
            made_at=one.registered_block_size,
        )
        spans = [(table, span) for span in read.kept] + [(read.raw, span) for span in read.holes]
        return sum(
            rows_within(self.events(name, one.exchange, one.raw_symbol), *span) for name, span in spans
        )

    def count_trades(self, one: Instrument, start: int, end: int) -> int:
        """Return how many trades a window holds."""
        count = self._trades(one, start, end).select(pl.len()).collect(engine="streaming").item()
        return int(count)

    def first_trades(self, one: Instrument, start: int, end: int, most: int) -> list[int]:
        """Return the timestamps of the first trades of a window."""
        rows = 0
        files = [
            file for file in self.events("trades", one.exchange, one.raw_symbol) if file.first is not None
        ]
        for file in sorted(files, key=lambda file: file.last or 0):
            if file.first is None or file.last is None or file.first < start:
                continue
            rows += file.rows or 0
            if rows >= most:
                end = min(end, file.last + 1)  # there are enough before it
                break
        times = self._trades(one, start, end).select("timestamp").bottom_k(most, by="timestamp")
        return times.collect(engine="streaming")["timestamp"].to_list()

    def _trades(self, one: Instrument, start: int, end: int) -> pl.LazyFrame:
        return self._lake.scan(
            "trades", exchange=one.exchange, raw_symbol=one.raw_symbol, start=start, end=end
        )
