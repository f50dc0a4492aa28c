"""Write to a lake: append events, register markets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import polars as pl
from deltalake import DeltaTable, Transaction

from tidytape.errors import IngestError, MissingColumnError, QueryError, did_you_mean
from tidytape.lake import _commit, _delta
from tidytape.lake._batch import Batch
from tidytape.lake._dedupe import Fresh, Stored, counted_on, fresh
from tidytape.lake._predictions import merged as merged_reports
from tidytape.lake._reader import (
    closing_note,
    conditions,
    definition_of,
    kind_name_note,
    kind_note,
    kind_of,
    log_notes,
    rows_of_registry,
    source_note,
)
from tidytape.lake._symbols import is_storable, storable
from tidytape.lake._tables import HEATMAP_EXCHANGE, MARKETS, PREDICTION_MARKETS, REGISTRIES, TABLES, Table
from tidytape.query._values import TimeLike, epoch_seconds, written_time
from tidytape.times import SECOND

if TYPE_CHECKING:
    from tidytape.lake._lake import Lake

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append.

    Attributes
    ----------
    table : str
        Name of the table.
    source : str
        Name of the origin of the rows.
    rows_read : int
        Rows that were offered.
    rows_new : int
        Rows that were added.
    already_ingested : bool
        Whether the source had been appended before, so that its rows were not compared.
    superseded : int
        Rows of states that were left out because another row of the same time counts, see `tidytape.lake._dedupe`.
    replaced : int
        Number of rows of the lake that rows of this batch replaced, see `tidytape.lake._dedupe`.
    """

    table: str
    source: str
    rows_read: int
    rows_new: int
    already_ingested: bool = False
    superseded: int = 0
    replaced: int = 0

    @property
    def duplicates(self) -> int:
        """Rows that the lake had already, or that were offered twice."""
        return self.rows_read - self.rows_new - self.superseded - self.replaced


class LakeWriter:
    """Writes to a lake; `Lake.writer` returns it.

    Each method is one commit, all or nothing. Several processes may write to one lake at once.

    Parameters
    ----------
    lake : Lake
        Where it writes.

    Attributes
    ----------
    lake : Lake
        The lake, to read what was written.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> trade = pl.DataFrame(
    ...     {
    ...         "exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"], "id": ["7"], "timestamp": [5], "sequence": [7],
    ...         "side": ["BUY"], "price": [10.0], "amount": [2.0], "quote_amount": [20.0],
    ...     }
    ... )
    >>> lake.writer().append("trades", trade, source="by hand").rows_new
    1
    >>> lake.writer().append("trades", trade, source="by hand").already_ingested
    True
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def __repr__(self) -> str:
        return f"{self.lake!r}.writer()"

    def append(
        self,
        table: str,
        rows: pl.DataFrame | Batch,
        *,
        source: str,
        replace: bool = False,
    ) -> Appended:
        """Add the rows that the table does not have yet, all or none, and note their source in the same commit.

        A source that was appended before changes nothing. A row whose key is in the table already, at whatever time,
        is not added again. A later recording of the last candle of a market replaces it, if later candles follow. A
        value fills a null of a state that is the same otherwise. Several processes may append to one lake at once.

        Parameters
        ----------
        table : str
            Name of an event table, e.g. ``"trades"``.
        rows : polars.DataFrame or Batch, n rows, in any order
            The table's columns; absent nullable ones are null.
        source : str
            A permanent name of the origin, e.g. ``"sha256:…"`` of a file.
        replace : bool
            Whether a state, such as a candle or a funding rate, replaces a state of the lake that differs from it,
            also if the source was appended before.

        Returns
        -------
        Appended

        Raises
        ------
        QueryError
            If there is no such event table.
        MissingColumnError
            If a column is absent.
        IngestError
            If a value does not fit, an exchange or symbol cannot be a folder, a row contradicts one of the same key, or
            a market has events of another kind.
        LakeError
            If the table cannot be written.
        """
        definition = _event_table(table)
        batch = rows if isinstance(rows, Batch) else _batch(definition, rows)
        for name in sorted({name for market in batch.markets for name in market}):
            if not is_storable(name):
                raise IngestError(
                    f"{table}: {name[:100]!r} is no name of an exchange or symbol that can be stored"
                )

        self._make(definition)

        def attempt(delta: _delta.Opened) -> Appended:
            if not replace and delta.transaction_version(source_note(source)) is not None:
                return Appended(table, source, batch.rows, 0, already_ingested=True)
            notes = {source_note(source): 1, **_kind_notes(delta, batch)}
            new = self._new(delta, batch, replace=replace)
            new_rows = new.rows
            if batch.counted:
                new_rows = counted_on(new_rows, self._between(delta, definition, "timestamp"))
            # Commit even if no row is new: the note spares reading the source again.
            _commit.commit(
                delta, new_rows, notes=notes, options=self.lake.storage_options, instead=new.replaced
            )
            replaced = new.replaced.height
            rows_new = new_rows.rows - replaced
            return Appended(table, source, batch.rows, rows_new, superseded=new.superseded, replaced=replaced)

        return self._until_committed(table, attempt)

    def register(
        self, markets: pl.DataFrame, *, replace: Collection[str] = (), sources: Collection[str] = ()
    ) -> None:
        """Register markets, or add values to registered markets.

        A registered value stays, so that a block size never changes. A new value fills a null. ``available_since``
        becomes the earlier of the two.

        Parameters
        ----------
        markets : polars.DataFrame, n rows, key (exchange, raw_symbol, tenor)
            Any columns of `tidytape.lake.MARKETS` beside the key.
        replace : collection of str
            Columns in which a value of ``markets`` replaces the registered one, unless it is null.
        sources : collection of str
            Permanent names of the origins, to be noted in the same commit.

        Raises
        ------
        MissingColumnError
            If a key column is absent, or ``replace`` names a column that the table does not have.
        IngestError
            If a value does not fit, a block size is no positive number, or a market is named twice.
        LakeError
            If the table cannot be written.
        """
        new_markets = MARKETS.conform(markets)
        unknown_columns = [name for name in replace if name not in MARKETS.names]
        if unknown_columns:
            raise MissingColumnError(unknown_columns, available=MARKETS.names)
        if new_markets.select(MARKETS.key).is_duplicated().any():
            raise IngestError("markets: a market is named twice")
        block_size_column = pl.col("block_size")
        invalid_markets = new_markets.filter(~((block_size_column > 0) & block_size_column.is_finite()))
        if invalid_markets.height:
            exchange, symbol, block_size = invalid_markets.select("exchange", "raw_symbol", "block_size").row(
                0
            )
            raise IngestError(
                f"markets: block_size of {exchange} {symbol} is {block_size!r}, no positive number"
            )

        self._rewrite(MARKETS, lambda before: merged_markets(before, new_markets, replace=replace), sources)

    def rename(self, exchange: str, old: str, new: str, *, at: TimeLike, replace: bool = False) -> None:
        """Note that an exchange went on with a market under another symbol, as it did with MATIC, which became POL.

        The events stay where they are: those until then under the old symbol, the others under the new one. The market
        of the new symbol need not be in the lake yet.

        Parameters
        ----------
        exchange : str
            The exchange.
        old : str
            The symbol until then, of a registered market.
        new : str
            The symbol since then.
        at : int, datetime, date or str
            The time of the first event under the new symbol: ISO 8601 or epoch seconds; UTC if it has no zone.
        replace : bool
            Correct the renaming that an earlier call noted for this market.

        Raises
        ------
        QueryError
            If no such market is registered, a symbol cannot be stored, the new symbol is the old one or was renamed to
            it, or the lake has another renaming of the market and ``replace`` is not set.
        LakeError
            If the table cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from tidytape.lake import Lake
        >>> lake = Lake.create(tempfile.mkdtemp())
        >>> lake.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["MATICUSDT"]}))
        >>> lake.writer().rename("X", "MATICUSDT", "POLUSDT", at="2024-09-13T10:00:00Z")
        >>> lake.markets().select("raw_symbol", "renamed_to").rows()
        [('MATICUSDT', 'POLUSDT')]
        """
        renamed_at = epoch_seconds(at, parameter="at") * SECOND
        new = storable(new, parameter="new")
        markets = self.lake.markets().filter(exchange=exchange)
        if old not in markets["raw_symbol"]:
            expected = f"a registered market of {exchange}"
            known = markets["raw_symbol"].to_list()
            raise QueryError("old", got=old, expected=expected, hint=did_you_mean(old, known))
        later_names = dict(markets.select("raw_symbol", "renamed_to").drop_nulls().iter_rows())
        name: str | None = new
        while name is not None and name != old:
            name = later_names.get(name)
        if name == old:
            raise QueryError("new", got=new, expected=f"a symbol that does not lead back to {old}")
        row = {"exchange": exchange, "raw_symbol": old, "renamed_to": new, "renamed_at": renamed_at}
        noted = markets.filter(raw_symbol=old).select("renamed_to", "renamed_at").drop_nulls().rows()
        if noted and noted != [(new, renamed_at)] and not replace:
            earlier_name, earlier_time = noted[0]
            raise QueryError(
                "new",
                got=new,
                expected=f"{earlier_name}, to which {old} was renamed at {written_time(earlier_time // SECOND)}, or "
                "``replace``",
            )
        self.register(pl.DataFrame([row]), replace=["renamed_to", "renamed_at"])

    def name_heatmap_exchange(self, exchange: str) -> None:
        """Name the exchange of liquidation heatmaps whose query names none.

        Parameters
        ----------
        exchange : str
            An exchange whose liquidations the lake has.

        Raises
        ------
        QueryError
            If the lake has no liquidations of it.
        LakeError
            If the table cannot be written.
        """
        exchanges = sorted({name for name, _ in self.lake.markets_in("liquidations")})
        if exchange not in exchanges:
            expected = "an exchange of which the lake has liquidations: " + (", ".join(exchanges) or "none")
            raise QueryError("exchange", got=exchange, expected=expected)

        def attempt(delta: DeltaTable) -> None:
            delta.alter.set_table_properties({HEATMAP_EXCHANGE: exchange}, raise_if_not_exists=False)

        self._until_committed(MARKETS.name, attempt)

    def register_prediction_markets(self, reports: pl.DataFrame, *, sources: Collection[str] = ()) -> None:
        """Register reports of prediction markets, in any order and however often.

        In each column the newest report with a value counts; ``available_since`` is the earliest. Of two reports of one
        time the larger value counts as the newer.

        Parameters
        ----------
        reports : polars.DataFrame, n rows, in any order
            ``exchange``, ``condition_id``, ``reported``, ``slug``, and any other columns of
            `tidytape.lake.PREDICTION_MARKETS`.
        sources : collection of str
            Permanent names of the origins, to be noted in the same commit.

        Raises
        ------
        MissingColumnError
            If one of the four columns is absent.
        IngestError
            If a value does not fit, or one of the four is null.
        LakeError
            If the table cannot be written.
        """
        new_reports = PREDICTION_MARKETS.conform(reports)
        if "slug" not in reports.columns:
            raise MissingColumnError(["slug"], available=reports.columns)
        if new_reports["slug"].null_count():
            raise IngestError("prediction_markets: null in column 'slug' of a report, which may not be null")
        self._rewrite(PREDICTION_MARKETS, lambda before: merged_reports(before, new_reports), sources)

    def close_recording(self, exchange: str, raw_symbol: str | None = None) -> list[tuple[str, int]]:
        """Say that the recording of an exchange, or of one of its markets, is over.

        Until then the last interval of a market may still change, because events may follow. After it the interval is
        final, also if the recording ended in the middle of it. If events of a market follow nevertheless, it counts as
        open again.

        Parameters
        ----------
        exchange : str
            The exchange.
        raw_symbol : str, optional
            Only this market, or the coin of an option chain; by default every market and option chain of the exchange.

        Returns
        -------
        list of (str, int)
            Each symbol that was closed, sorted, and its last event. [ns since the epoch]

        Raises
        ------
        QueryError
            If the lake has no events of the exchange or of the market.
        LakeError
            If the lake cannot be read or written.

        Examples
        --------
        >>> import tempfile
        >>> from tidytape.lake import Lake
        >>> lake = Lake.create(tempfile.mkdtemp())
        >>> trade = {"exchange": "X", "raw_symbol": "BTCUSDT", "id": "7", "timestamp": 5, "sequence": 7}
        >>> amounts = {"side": "BUY", "price": 10.0, "amount": 2.0, "quote_amount": 20.0}
        >>> _ = lake.writer().append("trades", pl.DataFrame([trade | amounts]), source="by hand")
        >>> lake.writer().close_recording("X"), lake.closed_at("X", "BTCUSDT")
        ([('BTCUSDT', 5)], 5)
        """
        last_events: dict[str, int] = {}
        for table in TABLES.values():
            if table in REGISTRIES or len(table.partitions) != 2:
                continue
            for on_exchange, symbol in self.lake.markets_in(table.name):
                if on_exchange == exchange and raw_symbol in (None, symbol):
                    last_event = self.lake.extent(table.name, on_exchange, symbol)[1] or 0
                    last_events[symbol] = max(last_event, last_events.get(symbol, 0))
        if not last_events:
            parameter = "exchange" if raw_symbol is None else "raw_symbol"
            expected = "one of which the lake has events"
            raise QueryError(parameter, got=raw_symbol or exchange, expected=expected)
        notes = [Transaction(closing_note(exchange, symbol), last) for symbol, last in last_events.items()]
        self._until_committed(MARKETS.name, lambda delta: _commit.note(delta, notes))
        return sorted(last_events.items())

    def _append_piece(
        self,
        batch: Batch,
        *,
        log: str,
        path: str,
        mark: int,
        start: int,
        end: int,
        instead: pl.DataFrame | None = None,
    ) -> Appended:
        """Append the events of a piece of a log, unless the table has them already.

        The commit notes the end of the piece under the log's name, so a log leaves one note per table.

        Parameters
        ----------
        batch : Batch
            The events.
        log : str
            A permanent name of the log.
        path : str
            Where it is, for errors.
        mark : int
            Stands for the text before ``end``.
        start, end : int
            Where the piece begins and ends in the log. [bytes]
        instead : polars.DataFrame, optional
            States from an earlier piece of the log, with the columns of the table's ``place`` and ``same``. If the
            table still has such a row, the batch's row of the same key replaces it.

        Returns
        -------
        Appended

        Raises
        ------
        IngestError
            If a row contradicts one of the same key, a market has events of another kind, or another process appends
            other pieces of the log.
        LakeError
            If the table cannot be written.
        """
        table = batch.table
        self._make(table)

        def attempt(delta: _delta.Opened) -> Appended:
            notes = log_notes(log, end, mark)
            appended_until = delta.transaction_version(next(iter(notes))) or 0
            if appended_until >= end:
                return Appended(table.name, log, batch.rows, 0, already_ingested=True)
            if appended_until > start:
                raise IngestError(
                    f"{path}: another process follows this log, and was faster in {table.name}", path=path
                )
            notes |= _kind_notes(delta, batch)
            of_log = None if instead is None else self._still_there(delta, table, instead)
            new = fresh(batch, self._between(delta, table, table.identity, without=of_log))
            new_rows, replaced = new.rows, new.replaced.height
            if batch.counted:
                new_rows = counted_on(new_rows, self._between(delta, table, "timestamp"))
            places = (
                new.replaced
                if of_log is None
                else pl.concat([new.replaced, of_log.select(new.replaced.columns)])
            )
            _commit.commit(delta, new_rows, notes=notes, options=self.lake.storage_options, instead=places)
            rows_new = new_rows.rows - replaced
            return Appended(
                table.name, log, batch.rows, rows_new, superseded=new.superseded, replaced=replaced
            )

        return self._until_committed(table.name, attempt)

    def _note(self, notes: Mapping[str, int]) -> None:
        """Commit notes to the registry.

        Raises
        ------
        LakeError
            If the registry cannot be written.
        """
        transactions = [Transaction(name, number) for name, number in notes.items()]
        self._until_committed(MARKETS.name, lambda delta: _commit.note(delta, transactions))

    def _require_appendable(self, batch: Batch, *, replace: bool) -> None:
        """Raise IngestError if `append` would raise it for this batch now."""
        with _delta.failing("read the table", self.lake.uri(batch.table.name), self.lake.storage_options):
            delta = self.lake._find(batch.table)
            _kind_notes(delta, batch)
            self._new(delta, batch, replace=replace)

    def _require_writable(self, *tables: Table) -> None:
        """Raise LakeError if this release cannot write to one of the tables; an absent table can be made.

        A caller that writes to several tables calls it before the first commit. So in a lake of a newer release it
        writes either to all of these tables or to none.
        """
        for table in tables:
            delta = self.lake._find(table)
            if delta is not None:
                _delta.require_writable(delta, table)

    def _still_there(self, delta: _delta.Opened, table: Table, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Return the rows that the table still has with the same values; None if it has none of them."""
        columns = [*table.place, *table.same]
        partition_values = {name: rows[name].unique().to_list() for name in table.partitions}
        first, last = rows["timestamp"].min(), rows["timestamp"].max()
        stored_rows = _delta.scanned(delta, table, self.lake.storage_options).filter(
            pl.col("timestamp").is_between(first, last), *conditions(partition_values, None, None)
        )
        same_rows = stored_rows.select(columns).join(
            rows.select(columns).lazy(), on=columns, how="semi", nulls_equal=True
        )
        still_there = same_rows.collect()
        return still_there if still_there.height else None

    def _until_committed(self, table: str, attempt: Callable[[_delta.Opened], T]) -> T:
        """Call ``attempt`` with an open table, and again with its newest version whenever another commit came first.

        The table stays open for the next commit. Only one thread has it at a time: if another one moved it on between
        the comparison with the lake and the commit, the commit would not see the rows in between.
        """
        lake = self.lake
        known = lake._open_for_writing.pop(table, None)
        result, used = _commit.retrying(lake.uri(table), attempt, lake.storage_options, known=known)
        lake._open_for_writing[table] = used
        return result

    def _version(self, table: Table) -> int | None:
        """Return the version that the last commit of this process to a table began with; None if there was none."""
        opened_table = self.lake._open_for_writing.get(table.name)
        return None if opened_table is None else opened_table.version()

    def _make(self, table: Table) -> None:
        """Make a table that the lake does not have yet."""
        _delta.create(self.lake.uri(table.name), table, self.lake.storage_options)

    def _rewrite(
        self, table: Table, change: Callable[[pl.DataFrame], pl.DataFrame], sources: Collection[str]
    ) -> None:
        """Replace the rows of a registry by ``change(rows)`` and note the sources; commit only if something is new."""

        def attempt(delta: DeltaTable) -> None:
            rows_before = rows_of_registry(delta, table, self.lake.storage_options)
            rows_after = change(rows_before)
            new_notes = [
                name for name in map(source_note, sources) if delta.transaction_version(name) is None
            ]
            if new_notes or not rows_after.equals(rows_before):
                _commit.replace(delta, table, rows_after, sources=new_notes)

        self._make(table)
        self._until_committed(table.name, attempt)

    def _new(self, delta: _delta.Opened | None, batch: Batch, *, replace: bool) -> Fresh:
        """Return what a batch adds to the table."""
        # Compare by ids and not by times, because another source may give the same trade another time. Only files whose
        # bounds of ids overlap the new ones are read. Ids that rise with time, and made-up ids, which begin with the
        # time, match almost no older file. For random ids the key columns of the whole market are read.
        return fresh(batch, self._between(delta, batch.table, batch.table.identity), replace=replace)

    def _between(
        self, delta: _delta.Opened | None, table: Table, column: str, *, without: pl.DataFrame | None = None
    ) -> Stored:
        """Return a function that scans the files that may have rows of some markets in some ranges of a column.

        The function leaves out the rows that have the keys of ``without``.
        """

        def stored(ranges: pl.DataFrame) -> pl.LazyFrame:
            paths = [] if delta is None else _delta.files_between(delta, column, ranges)
            if delta is None or not paths:
                return table.empty().lazy()
            rows = _delta.scanned_files(delta, table, paths, self.lake.storage_options).filter(
                pl.col(column).is_between(pl.lit(ranges["low"].min()), pl.lit(ranges["high"].max()))
            )
            if without is None:
                return rows
            return rows.join(without.lazy().select(table.key), on=table.key, how="anti")

        return stored


def _kind_notes(delta: _delta.Opened | None, batch: Batch) -> dict[str, int]:
    """Return the notes to add about the kind of a batch's events; IngestError if a market has events of another."""
    kind = batch.kind
    if delta is None or kind is None or batch.table.identity != "id":
        return {}
    number = zlib.crc32(kind.encode())
    delta.read_notes(len(batch.markets))
    noted = {market: delta.transaction_version(kind_note(market)) for market in batch.markets}
    for market, other in noted.items():
        if other not in {None, number}:
            raise IngestError(
                f"{batch.table.name}: {' '.join(market)} is in the lake as {kind_of(delta, other)}, and these are "
                f"{kind}: the same events under other ids, which would count twice; keep one of the two, or put this "
                "one under another ``exchange`` or into another lake"
            )
    notes = {kind_note(market): number for market, other in noted.items() if other is None}
    if delta.transaction_version(kind_name_note(kind)) is None:
        notes[kind_name_note(kind)] = number
    return notes


def _event_table(name: str) -> Table:
    table = definition_of(name)
    if table in REGISTRIES:
        raise QueryError("table", got=name, expected="a table of events", hint="markets are registered")
    return table


def _batch(table: Table, rows: pl.DataFrame) -> Batch:
    batch = Batch(table)
    batch.add(table.conform(rows))
    return batch


def merged_markets(before: pl.DataFrame, new: pl.DataFrame, *, replace: Collection[str] = ()) -> pl.DataFrame:
    """Return the registered markets ``before`` with new ones merged in.

    A registered value stays, so that a block size never changes, and a new value fills a null. In the columns of
    ``replace`` the new value counts unless it is null. ``available_since`` becomes the earlier of the two.
    """
    key = list(MARKETS.key)
    joined = before.join(new, on=key, how="full", coalesce=True, suffix="_new", nulls_equal=True)
    columns = []
    for name in MARKETS.names:
        if name in key:
            columns.append(pl.col(name))
        elif name == "available_since":
            columns.append(pl.min_horizontal(name, f"{name}_new").alias(name))
        elif name in replace:
            columns.append(pl.coalesce(f"{name}_new", name).alias(name))
        else:
            columns.append(pl.coalesce(name, f"{name}_new"))
    return joined.select(columns).sort(key)
