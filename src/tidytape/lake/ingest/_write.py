"""Writing files that were read, one after the other, each as a whole or not at all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake._batch import Batch
from tidytape.lake._lake import Lake
from tidytape.lake._tables import FUNDING, MARKETS, REGISTRIES, TABLES, TRADES, Table
from tidytape.lake._writer import Appended, merged_markets
from tidytape.lake.ingest._contracts import in_coin, require_quotes
from tidytape.lake.ingest._layout import Job, Parsed
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._markets import MarketName, conversions, known_option_interest, registry_rows
from tidytape.lake.ingest._report import FileReport, IngestReport, MarketReport, Note, TableCount
from tidytape.times import HOUR

_KEY = ["exchange", "raw_symbol"]

_MOST_STATES = 200_000
"""States of a log that are remembered per table. [rows]"""

UNSTATED = (
    "without a funding interval and so not served; funding_interval (--funding-interval), said when a file first goes "
    "in, fills it in"
)
"""What is noted of reports without one."""


class Given:
    """The newest states that a log gave, by table, so that a later line of it can take the place of one.

    In a file that is read at once the state that was received last counts, see `tidytape.lake._dedupe`; so it must be
    where the lines of one time are read in two pieces.
    """

    def __init__(self) -> None:
        self._states: dict[str, pl.DataFrame] = {}

    def settled(self, batch: Batch) -> tuple[Batch, pl.DataFrame | None, int]:
        """Return the batch without states that an earlier piece overtook, the states that it overtakes, and a count.

        Returns
        -------
        Batch
            Of states, one per key; the same batch of other tables.
        polars.DataFrame or None
            States that were given before, with another value than the batch has.
        int
            How many states were left out.
        """
        table = batch.table
        if not table.tells_states or not batch.parts:
            return batch, None, 0
        rows = pl.concat([part.frame() for part in batch], how="diagonal")
        count = rows.height
        time = ["received"] if "received" in table.names else []
        if time:
            rows = rows.sort(*time, maintain_order=True)  # nulls first: what has a time of receipt holds
        rows = rows.unique(table.key, keep="last", maintain_order=True)
        before = self._states.get(table.name)
        overtaken: pl.DataFrame | None = None
        if before is not None:
            is_older = pl.lit(value=False)
            if time:
                is_older = (pl.col("received_before") > pl.col("received")) | (
                    pl.col("received_before").is_not_null() & pl.col("received").is_null()
                )
            older = rows.join(before, on=table.key, suffix="_before").filter(is_older).select(table.key)
            rows = rows.join(older, on=table.key, how="anti", maintain_order="left")
            changed = before.join(rows.select(table.key), on=table.key, how="semi").join(
                rows.select(*table.key, *table.same),
                on=[*table.key, *table.same],
                how="anti",
                nulls_equal=True,
            )
            overtaken = changed if changed.height else None
        settled = Batch(table, batch.spool)
        settled.counted = batch.counted
        settled.add(rows)
        return settled, overtaken, count - rows.height

    def add(self, batch: Batch) -> None:
        """Remember the states of a batch."""
        table = batch.table
        if not table.tells_states or not batch.parts:
            return
        received = ["received"] if "received" in table.names else []
        columns = [*table.key, *table.same, *received]
        before = self._states.get(table.name, table.empty().select(columns))
        rows = pl.concat([before, *(part.frame().select(columns) for part in batch)])
        newest = rows.unique(table.key, keep="last", maintain_order=True)
        self._states[table.name] = newest.tail(_MOST_STATES)


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
        self._lake_writer = lake.writer()
        self._market = market
        self._files: list[FileReport] = []
        self._seen: set[MarketName] = set()
        self._guesses: set[MarketName] = set()
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

    def put_piece(self, job: Job, parsed: Parsed, *, log: str, given: Given) -> list[Appended]:
        """Put a piece of a log in, into each table that has not got it yet.

        Parameters
        ----------
        job : Job
            With the piece.
        parsed : Parsed
            What was read of it.
        log : str
            What names the log.
        given : Given
            Newest states that the log gave before; those of the piece are added.

        Raises
        ------
        QueryError, IngestError
            If it cannot go in. Some of its tables may have been written: the next attempt passes over those.
        LakeError
            If the lake cannot be written.
        """
        piece = job.piece
        assert piece is not None
        _require_fillable(job, parsed, self._lake)
        stated_rows, markets = self._converted(parsed)
        # Before the events, because they are not read again once they are noted.
        self._register(stated_rows, replace=["contract", "contract_size", "amount_units"])
        self._register(markets, replace=self._market.replaced)
        appended = []
        for batch in parsed.batches:
            rows, instead, overtaken = given.settled(batch)
            one = self._lake_writer._append_piece(
                rows, log=log, start=piece.offset, end=piece.offset + len(piece.data), instead=instead
            )
            given.add(rows)
            appended.append(
                replace(one, rows_read=one.rows_read + overtaken, superseded=one.superseded + overtaken)
            )
        return appended

    def _register(self, markets: pl.DataFrame, *, replace: Collection[str]) -> None:
        """Register markets if that changes anything; to know it costs no more than a look for a newer version."""
        registered = self._lake.markets()
        if markets.height and not merged_markets(registered, markets, replace=replace).equals(registered):
            self._lake_writer.register(markets, replace=replace)

    def remembered(self, parsed: Parsed, given: Given) -> None:
        """Take what a piece gave before, which is in the lake, without writing anything."""
        self._converted(parsed)
        for batch in parsed.batches:
            given.add(given.settled(batch)[0])

    def _append(self, parsed: Parsed, source: str) -> list[Appended]:
        stated, markets = self._converted(parsed)
        # An append is all or nothing by itself, so only what follows the first write is checked before.
        for batch in parsed.batches if stated.height else parsed.batches[1:]:
            self._lake_writer._require_appendable(batch)
        if stated.height:
            # Before the events, so that amounts never lie there without a word on what they were made from.
            self._lake_writer.register(stated, replace=["contract", "contract_size", "amount_units"])
        appended = [
            self._lake_writer.append(batch.table.name, batch, source=source) for batch in parsed.batches
        ]
        # Last, so that a source that is noted here is there as a whole. Whoever dies before reads the file again.
        self._lake_writer.register(markets, replace=self._market.replaced, sources=[source])
        return appended

    def _converted(self, parsed: Parsed) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Convert amounts to coin; return what to register of contracts before the events, and of the markets."""
        registered = self._lake.markets()
        found = conversions(parsed, self._market, registered, self._holds_events)
        stated = found.registry
        for batch in parsed.batches:
            in_coin(batch, found.contracts.get(batch.table.name, {}))
            if batch.table is not TRADES:  # whose amount in the quote is computed, never read
                require_quotes(batch)
        known_option_interest(parsed, self._market)
        markets, guesses = registry_rows(parsed, self._market, registered, earlier=self._seen)
        self._lake_writer._require_writable(*(batch.table for batch in parsed.batches), MARKETS)
        self._seen.update(markets.select(_KEY).iter_rows())
        self._guesses |= guesses
        return stated, markets

    def _holds_events(self, market: MarketName, tables: Collection[Table]) -> bool:
        exchange, raw_symbol = market
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

    def _counts(self, table: Table, markets: list[MarketName]) -> dict[MarketName, int]:
        """How many rows of a table the lake has of some markets, in one scan."""
        if not markets:
            return {}
        exchanges, symbols = zip(*markets, strict=True)
        rows = self._lake.scan(table.name, exchange=exchanges, raw_symbol=symbols)
        counts = rows.group_by(_KEY).agg(pl.len()).collect(engine="streaming")
        return {(exchange, symbol): count for exchange, symbol, count in counts.iter_rows()}

    def _concerned(self, exchange: str, raw_symbol: str) -> bool:
        # A file that went in before is not read again, so it may be of any market of the exchange that was named.
        return (exchange, raw_symbol) in self._seen or any(
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
        exchanges, symbols = (list(names) for names in zip(*part.markets, strict=True))
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
