"""Writing files that were read, one after the other, each as a whole or not at all."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake.ingest._markets import Instrument, conversions, known_option_interest, registry_rows
from tidytape.lake.ingest.contracts import in_coin, require_quotes
from tidytape.lake.ingest.layout import Job, Parsed
from tidytape.lake.ingest.market import Market
from tidytape.lake.ingest.report import FileReport, IngestReport, MarketReport, Note, TableCount
from tidytape.lake.store import Appended, Lake
from tidytape.lake.tables import FUNDING, MARKETS, REGISTRIES, TABLES, TRADES, Table
from tidytape.times import HOUR

_KEY = ["exchange", "raw_symbol"]

UNSTATED = (
    "without a funding interval and so not served; funding_interval (--funding-interval), said when a file first goes "
    "in, fills it in"
)
"""What is noted of reports without one."""


class Writer:
    """Puts the files of one call into a lake.

    Parameters
    ----------
    lake : Lake
        Where they go.
    market : Market
        What the caller says of their market.
    """

    def __init__(self, lake: Lake, market: Market) -> None:
        self._lake = lake
        self._market = market
        self._files: list[FileReport] = []
        self._instruments: set[Instrument] = set()
        self._guesses: set[Instrument] = set()
        self._known: list[Job] = []

    def put(self, job: Job, parsed: Parsed | None, source: str) -> None:
        """Put what was read of a file in; None stands for a file that went in before.

        Raises
        ------
        QueryError, IngestError
            If it cannot go in; then nothing of it did. Only where another process puts in what contradicts it at the
            same time may one of its tables have been written.
        LakeError
            If the lake cannot be written.
        """
        path = str(job.path)
        if parsed is None:
            self._known.append(job)
            self._files.append(FileReport(path, already_ingested=True))
            return
        _require_fillable(job, parsed, self._lake)
        appended = self._append(parsed, source)
        already = [one.already_ingested for one in appended]
        self._files.append(
            FileReport(
                path=path,
                already_ingested=bool(already) and all(already),
                lines=parsed.lines,
                counts=tuple(
                    TableCount(one.table, one.rows_read, one.rows_new, one.superseded) for one in appended
                ),
                bad_lines=parsed.bad.count,
                first_bad_lines=tuple(parsed.bad.first),
                ignored=tuple(sorted(parsed.ignored.items())),
                time_unit=parsed.time_unit,
                notes=tuple(parsed.notes),
            )
        )

    def _append(self, parsed: Parsed, source: str) -> list[Appended]:
        registered = self._lake.markets()
        found = conversions(parsed, self._market, registered, self._holds_events)
        stated = found.registry
        for batch in parsed.batches:
            in_coin(batch, found.contracts.get(batch.table.name, {}))
            if batch.table is not TRADES:  # whose amount in the quote is computed, never read
                require_quotes(batch)
        known_option_interest(parsed, self._market)
        markets, guesses = registry_rows(parsed, self._market, registered, earlier=self._instruments)
        self._lake.require_writable(*(batch.table for batch in parsed.batches), MARKETS)
        # An append is all or nothing by itself, so only what follows the first write is checked before.
        for batch in parsed.batches if stated.height else parsed.batches[1:]:
            self._lake.check(batch)
        if stated.height:
            # Before the events, so that amounts never lie there without a word on what they were made from.
            self._lake.register(stated, replace=["contract", "contract_size", "amount_units"])
        appended = [self._lake.append(batch.table.name, batch, source=source) for batch in parsed.batches]
        # Last, so that a source that is noted here is there as a whole. Whoever dies before reads the file again.
        self._lake.register(markets, replace=self._market.replaced, sources=[source])
        self._instruments.update(markets.select(_KEY).iter_rows())
        self._guesses |= guesses
        return appended

    def _holds_events(self, instrument: Instrument, tables: Collection[Table]) -> bool:
        exchange, raw_symbol = instrument
        return any(
            self._lake.scan(table.name, exchange=exchange, raw_symbol=raw_symbol).head(1).collect().height
            for table in tables
        )

    def report(self) -> IngestReport:
        """Return what was done."""
        return IngestReport(tuple(self._files), self._markets())

    def _markets(self) -> tuple[MarketReport, ...]:
        names = [*_KEY, "normalized_symbol", "coin", "quote_coin", "category", "block_size"]
        rows = self._lake.markets().sort(_KEY).select(names)
        concerned = [key for key in rows.select(_KEY).unique().iter_rows() if self._concerned(*key)]
        written = {count.table for file in self._files for count in file.counts}
        counts = {
            name: self._counts(table, concerned)
            for name, table in TABLES.items()
            if table not in REGISTRIES and set(_KEY) <= set(table.names)
            if name in written or not written or table is TRADES
        }
        reports = []
        for row in rows.iter_rows(named=True):
            key = row["exchange"], row["raw_symbol"]
            if self._concerned(*key):
                of_market = {name: counts_of_table.get(key, 0) for name, counts_of_table in counts.items()}
                reports.append(
                    MarketReport(
                        **row,
                        trades=of_market[TRADES.name],
                        guessed=key in self._guesses,
                        rows=tuple(
                            (name, count)
                            for name, count in of_market.items()
                            if (name in written if written else count)
                        ),
                    )
                )
        return tuple(reports)

    def _counts(self, table: Table, markets: list[Instrument]) -> dict[Instrument, int]:
        """How many rows of a table the lake has of some markets, in one scan."""
        if not markets:
            return {}
        exchanges, symbols = zip(*markets, strict=True)
        rows = self._lake.scan(table.name, exchange=exchanges, raw_symbol=symbols)
        counts = rows.group_by(_KEY).agg(pl.len()).collect(engine="streaming")
        return {(exchange, symbol): count for exchange, symbol, count in counts.iter_rows()}

    def _concerned(self, exchange: str, raw_symbol: str) -> bool:
        # A file that went in before was not read again, so it may be of any instrument of the venue it was said to be.
        return (exchange, raw_symbol) in self._instruments or any(
            job.exchange == exchange and job.raw_symbol in {None, raw_symbol} for job in self._known
        )


# A funding rate is one per funding interval, so a report that states none is never served, see
# `tidytape.aggregate.funding`. An interval that is stated holds, whatever the caller says.


def stated(job: Job, parsed: Parsed) -> None:
    """Fill in the funding interval that the caller says, or note how many reports have none."""
    batch = parsed.batch(FUNDING)
    if job.market.funding_nanoseconds is not None:
        batch.change(partial(_filled, interval=job.market.funding_nanoseconds))
        return
    count = sum(part.frame()["funding_interval"].null_count() for part in batch)
    if count:
        parsed.notes.append(Note("funding report", UNSTATED, count))


def _require_fillable(job: Job, parsed: Parsed, lake: Lake) -> None:
    """Raise IngestError where the lake has a report with another funding interval, or none, than the caller says.

    What is in a lake stays as it is: without this the report would silently stay unserved, or be served over another.
    """
    if job.market.funding_nanoseconds is None:
        return
    for part in parsed.batch(FUNDING):
        exchanges, symbols = (list(names) for names in zip(*part.instruments, strict=True))
        there = lake.scan(
            FUNDING.name, exchange=exchanges, raw_symbol=symbols, start=part.first, end=part.last + 1
        )
        ours = part.frame().lazy().select(*FUNDING.key, said="funding_interval")
        other = pl.col("said").ne_missing(pl.col("funding_interval"))
        wrong = there.join(ours, on=list(FUNDING.key)).filter(other).sort(FUNDING.key).collect()
        if wrong.height:
            row = wrong.row(0, named=True)
            stored = "no" if row["funding_interval"] is None else f"{row['funding_interval'] / HOUR:g} h as"
            raise IngestError(
                f"{job.path}: {counted(wrong.height, 'funding report')} of it in the lake with {stored} funding "
                f"interval, e.g. {row['exchange']} {row['raw_symbol']} at {row['timestamp']}; what is in a lake stays "
                "as it is, so put the files into a new one",
                path=str(job.path),
            )


def _filled(reports: pl.DataFrame, *, interval: int) -> pl.DataFrame:
    return reports.with_columns(pl.col("funding_interval").fill_null(interval))
