"""Write files that were read into a lake, one after the other, each completely or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake._batch import Batch
from tidytape.lake._dedupe import written_time
from tidytape.lake._lake import Lake
from tidytape.lake._tables import FUNDING, MARKETS, RECORDED_CANDLES, TABLES, TRADES, Table
from tidytape.lake._writer import Appended, merged_markets
from tidytape.lake.ingest._contracts import in_coin, require_quotes
from tidytape.lake.ingest._conversions import conversions
from tidytape.lake.ingest._factors import factors, per_coin
from tidytape.lake.ingest._fields import in_steps
from tidytape.lake.ingest._layout import Job, Parsed
from tidytape.lake.ingest._market import Market, MarketKey
from tidytape.lake.ingest._option_interest import known_option_interest
from tidytape.lake.ingest._registration import registry_rows
from tidytape.lake.ingest._report import FileReport, IngestReport, MarketReport, Note, TableCount
from tidytape.times import HOUR

_KEY = ["exchange", "raw_symbol"]

_UNITS = ("contract", "contract_size", "factor", "amount_units")
"""Columns of the registry that say how amounts and prices of the files were converted."""

_MOST_STATES = 200_000
"""Number of newest states of a log that are remembered per table. [rows]"""

UNSTATED = (
    "without a funding interval and so not served; to fill it in, put the file in again with funding_interval "
    "(--funding-interval)"
)
"""The note about funding reports without a funding interval."""


class NewestStates:
    """The newest states of a log, by table, so that a later line of the log can replace one of them.

    If a file is read at once, the state that was received last counts, see `tidytape.lake._dedupe`. The same must hold
    if the lines of one time are read in two pieces.
    """

    def __init__(self) -> None:
        self._states: dict[str, pl.DataFrame] = {}

    def settled(self, batch: Batch) -> tuple[Batch, pl.DataFrame | None, int]:
        """Return the batch without overruled states, the earlier states that it replaces, and the number left out.

        Returns
        -------
        Batch
            One state per key; a batch of a table without states is returned as it is.
        polars.DataFrame or None
            States of earlier pieces whose key has another value in the batch.
        int
            Number of states that were left out.
        """
        table = batch.table
        if not table.tells_states or not batch.parts:
            return batch, None, 0
        rows = pl.concat([part.frame() for part in batch], how="diagonal")
        newest = _newest_of_each_key(rows, table)
        before = self._states.get(table.name)
        replaced: pl.DataFrame | None = None
        if before is not None:
            newest = _without_older(newest, before, table)
            replaced = _replaced(before, newest, table)
        settled = Batch(table, batch.spool)
        settled.counted = batch.counted
        settled.add(newest)
        return settled, replaced, rows.height - newest.height

    def add(self, batch: Batch) -> None:
        """Remember the states of a batch."""
        table = batch.table
        if not table.tells_states or not batch.parts:
            return
        received = ["received"] if "received" in table.names else []
        columns = [*table.place, *table.same, *received]
        before = self._states.get(table.name, table.empty().select(columns))
        rows = pl.concat([before, *(part.frame().select(columns) for part in batch)])
        newest = rows.unique(table.key, keep="last", maintain_order=True)
        self._states[table.name] = newest.tail(_MOST_STATES)


def _newest_of_each_key(states: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return the state of each key that was received last, or without receive times the last one of the lines."""
    if "received" in table.names:
        # Nulls come first, so a state with a receive time counts.
        states = states.sort("received", maintain_order=True)
    return states.unique(table.key, keep="last", maintain_order=True)


def _without_older(states: pl.DataFrame, before: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return the states without those that were received earlier than the known state of their key."""
    if "received" not in table.names:
        return states
    received_before = pl.col("received_before")
    is_older = (received_before > pl.col("received")) | (
        received_before.is_not_null() & pl.col("received").is_null()
    )
    older = states.join(before, on=table.key, suffix="_before").filter(is_older).select(table.key)
    return states.join(older, on=table.key, how="anti", maintain_order="left")


def _replaced(before: pl.DataFrame, states: pl.DataFrame, table: Table) -> pl.DataFrame | None:
    """Return the known states whose key has another value in the new ones; None if there are no such states."""
    same_keys = before.join(states.select(table.key), on=table.key, how="semi")
    columns = [*table.place, *table.same]
    changed = same_keys.join(states.select(columns), on=columns, how="anti", nulls_equal=True)
    return changed if changed.height else None


class Writer:
    """Puts the files of one call into a lake.

    Parameters
    ----------
    lake : Lake
        The lake.
    market : Market
        What the caller says about their market.
    replace : bool
        Whether states of the files replace those of the lake that differ.
    """

    def __init__(self, lake: Lake, market: Market, *, replace: bool = False) -> None:
        self._lake = lake
        self._lake_writer = lake.writer()
        self._market = market
        self._replace = replace
        self._files: list[FileReport] = []
        self._seen: set[MarketKey] = set()
        self._guesses: set[MarketKey] = set()
        self._known: list[Job] = []

    def put(self, job: Job, parsed: Parsed | None, source: str, *, names: Collection[str] = ()) -> FileReport:
        """Put the content of a file into the lake; None stands for a file that the lake has already.

        Parameters
        ----------
        job : Job
            The file.
        parsed : Parsed or None
            What it holds.
        source : str
            Its permanent name.
        names : collection of str
            Further ones, to be noted in the same commit.

        Raises
        ------
        QueryError, IngestError
            If it cannot go in; then nothing of it was written. Only if another process writes contradicting rows at
            the same time, one of its tables may have been written.
        LakeError
            If the lake cannot be written.
        """
        path = str(job.path)
        if parsed is None:
            self._known.append(job)
            if names:
                self._lake_writer.register(MARKETS.empty(), sources=names)
            self._files.append(FileReport(path, already_ingested=True))
            return self._files[-1]
        if not self._replace:
            _require_same_intervals(job, parsed, self._lake)
        appended = self._append(parsed, [source, *names])
        already = [appended_to_table.already_ingested for appended_to_table in appended]
        self._files.append(
            FileReport(
                path=path,
                already_ingested=bool(already) and all(already),
                lines=parsed.lines,
                counts=tuple(
                    TableCount(
                        appended_to_table.table,
                        appended_to_table.rows_read,
                        appended_to_table.rows_new,
                        appended_to_table.superseded,
                        appended_to_table.replaced,
                    )
                    for appended_to_table in appended
                ),
                bad_lines=parsed.bad.count,
                first_bad_lines=tuple(parsed.bad.first),
                ignored=tuple(sorted(parsed.ignored.items())),
                time_unit=parsed.time_unit,
                notes=tuple(parsed.notes),
            )
        )
        return self._files[-1]

    def put_piece(
        self, job: Job, parsed: Parsed, *, log: str, mark: int, newest: NewestStates
    ) -> list[Appended]:
        """Put a piece of a log into each of its tables that does not have it yet.

        Parameters
        ----------
        job : Job
            With the piece.
        parsed : Parsed
            The content of the piece.
        log : str
            Name of the log in the notes of the lake.
        mark : int
            Stands for the text before the end of the piece.
        newest : NewestStates
            Newest states of the log before this piece; those of the piece are added.

        Raises
        ------
        QueryError, IngestError
            If it cannot go in. Some of its tables may have been written; the next attempt skips those.
        LakeError
            If the lake cannot be written.
        """
        piece = job.piece
        assert piece is not None
        _require_same_intervals(job, parsed, self._lake)
        units, markets = self._converted(parsed)
        # Before the events, because once the events are noted, this piece is not read again.
        self._register(units, replace=_UNITS)
        self._register(markets, replace=self._market.replaced)
        appended = []
        for parsed_batch in parsed.batches:
            batch, replaced_states, left_out = newest.settled(parsed_batch)
            appended_to_table = self._lake_writer._append_piece(
                batch,
                log=log,
                path=str(job.path),
                mark=mark,
                start=piece.offset,
                end=piece.offset + len(piece.data),
                instead=replaced_states,
            )
            newest.add(batch)
            appended.append(
                replace(
                    appended_to_table,
                    rows_read=appended_to_table.rows_read + left_out,
                    superseded=appended_to_table.superseded + left_out,
                )
            )
        return appended

    def _register(self, markets: pl.DataFrame, *, replace: Collection[str]) -> None:
        """Register markets, but only if that changes the registry: comparing is cheaper than a commit."""
        registered = self._lake.markets()
        if markets.height and not merged_markets(registered, markets, replace=replace).equals(registered):
            self._lake_writer.register(markets, replace=replace)

    def remember(self, parsed: Parsed, newest: NewestStates) -> None:
        """Remember the states of a piece that is already in the lake, without writing."""
        self._converted(parsed)
        for batch in parsed.batches:
            newest.add(newest.settled(batch)[0])

    def _append(self, parsed: Parsed, sources: Sequence[str]) -> list[Appended]:
        units, markets = self._converted(parsed)
        # The first write is all or nothing by itself; the later ones are checked before it.
        for batch in parsed.batches if units.height else parsed.batches[1:]:
            self._lake_writer._require_appendable(batch, replace=self._replace)
        if units.height:
            # Before the events, so that the registry always says how the amounts in the lake were converted.
            self._lake_writer.register(units, replace=_UNITS)
        appended = [
            self._lake_writer.append(batch.table.name, batch, source=sources[0], replace=self._replace)
            for batch in parsed.batches
        ]
        # Last: a source that is noted here is complete. After an interruption before this line the file is read again.
        self._lake_writer.register(markets, replace=self._market.replaced, sources=sources)
        return appended

    def _converted(self, parsed: Parsed) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Convert amounts to coin; return the units to register before the events, and the markets to register."""
        registered = self._lake.markets()
        converted = conversions(parsed, self._market, registered, self._holds_events)
        of_file = factors(parsed, self._market, registered, self._holds_events)
        for batch in parsed.batches:
            batch.kind = batch.kind or parsed.kind
            in_coin(batch, converted.contracts.get(batch.table.name, {}))
            per_coin(batch, of_file.by_market)
            if batch.table is RECORDED_CANDLES:
                batch.change(in_steps)
            if batch.table is not TRADES:  # their amount in the quote is computed, not read
                require_quotes(batch)
        known_option_interest(parsed, self._market)
        markets, guesses = registry_rows(
            parsed, self._market, registered, factors=of_file.by_market, earlier=self._seen
        )
        self._lake_writer._require_writable(*(batch.table for batch in parsed.batches), MARKETS)
        self._seen.update(markets.select(_KEY).iter_rows())
        self._guesses |= guesses
        return merged_markets(converted.registry, of_file.registry), markets

    def _holds_events(self, market: MarketKey, tables: Collection[Table]) -> bool:
        exchange, raw_symbol = market
        return any(
            self._lake.scan(table.name, exchange=exchange, raw_symbol=raw_symbol).head(1).collect().height
            for table in tables
        )

    def report(self) -> IngestReport:
        """Return the report of the files so far."""
        return IngestReport(tuple(self._files), self._markets())

    def _markets(self) -> tuple[MarketReport, ...]:
        names = [*_KEY, "normalized_symbol", "coin", "quote_coin", "category", "block_size", "factor"]
        rows = self._lake.markets().sort(_KEY).select(names)
        concerned = [key for key in rows.select(_KEY).unique().iter_rows() if self._concerned(*key)]
        written = {count.table for file in self._files for count in file.counts}
        counts = {
            name: self._counts(table, concerned)
            for name, table in TABLES.items()
            if table.partitions == tuple(_KEY)  # the rows of other tables are not of registered markets
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
                            if count and name in (written or of_market)
                        ),
                    )
                )
        return tuple(reports)

    def _counts(self, table: Table, markets: list[MarketKey]) -> dict[MarketKey, int]:
        """Return the number of rows in a table of the lake, by market, in one scan."""
        if not markets:
            return {}
        exchanges, symbols = zip(*markets, strict=True)
        rows = self._lake.scan(table.name, exchange=exchanges, raw_symbol=symbols)
        counts = rows.group_by(_KEY).agg(pl.len()).collect(engine="streaming")
        return {(exchange, symbol): count for exchange, symbol, count in counts.iter_rows()}

    def _concerned(self, exchange: str, raw_symbol: str) -> bool:
        # A known file is not read again, so it may have any market of the exchange that the caller names.
        return (exchange, raw_symbol) in self._seen or any(
            job.exchange == exchange and job.raw_symbol in {None, raw_symbol} for job in self._known
        )


# A funding rate is per funding interval, so the service does not use a report without an interval, see
# `tidytape.aggregate.funding`. An interval that the file states holds, whatever the caller says.


def fill_funding_intervals(job: Job, parsed: Parsed) -> None:
    """Fill in the caller's funding interval, or note the number of reports without an interval."""
    batch = parsed.batch(FUNDING)
    if job.market.funding_nanoseconds is not None:
        batch.change(partial(_filled, interval=job.market.funding_nanoseconds))
        return
    count = sum(part.frame()["funding_interval"].null_count() for part in batch)
    if count:
        parsed.notes.append(Note("funding report", UNSTATED, count))


def _require_same_intervals(job: Job, parsed: Parsed, lake: Lake) -> None:
    """Raise IngestError if the lake has a report with another funding interval than the caller's.

    Without this error the service would go on to use the other interval. A missing interval is filled in.
    """
    if job.market.funding_nanoseconds is None:
        return
    for part in parsed.batch(FUNDING):
        exchanges, symbols = (list(names) for names in zip(*part.markets, strict=True))
        stored_reports = lake.scan(
            FUNDING.name, exchange=exchanges, raw_symbol=symbols, start=part.first, end=part.last + 1
        )
        reports = part.frame().lazy().select(*FUNDING.key, new_interval="funding_interval")
        other = pl.col("new_interval") != pl.col("funding_interval")
        wrong = stored_reports.join(reports, on=list(FUNDING.key)).filter(other).sort(FUNDING.key).collect()
        if wrong.height:
            row = wrong.row(0, named=True)
            raise IngestError(
                f"{job.path}: {counted(wrong.height, 'funding report')} of it in the lake with "
                f"{row['funding_interval'] / HOUR:g} h as funding interval, e.g. {row['exchange']} "
                f"{row['raw_symbol']} at {written_time(row['timestamp'])}; ``replace=True`` lets the file's count",
                path=str(job.path),
            )


def _filled(reports: pl.DataFrame, *, interval: int) -> pl.DataFrame:
    return reports.with_columns(pl.col("funding_interval").fill_null(interval))
