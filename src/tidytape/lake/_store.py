"""The lake itself: open it, read it, append to it, register markets."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl
from deltalake import DeltaTable, Transaction

from tidytape.errors import IngestError, LakeError, MissingColumnError, QueryError, did_you_mean
from tidytape.lake import _commit, _delta
from tidytape.lake._batch import Batch
from tidytape.lake._dedupe import Stored, counted_on, fresh
from tidytape.lake._delta import Facts
from tidytape.lake._predictions import latest
from tidytape.lake._predictions import merged as merged_reports
from tidytape.lake._symbols import is_storable
from tidytape.lake._tables import MARKETS, MINUTES_OF, PREDICTION_MARKETS, REGISTRIES, TABLES, TRADES, Table

if TYPE_CHECKING:
    from tidytape.lake.ingest import IngestReport, Market


_VERSIONS = 4  # of a table, whose frames are shared by queries


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append.

    Attributes
    ----------
    table : str
        Name of the table.
    source : str
        Where the rows came from.
    rows_read : int
        Rows that were offered.
    rows_new : int
        Rows that were added.
    already_ingested : bool
        Whether the source had been appended before, so that its rows were not looked at.
    superseded : int
        Rows of states that were left out because another one of the same time counts `tidytape.lake._dedupe`.
    """

    table: str
    source: str
    rows_read: int
    rows_new: int
    already_ingested: bool = False
    superseded: int = 0

    @property
    def duplicates(self) -> int:
        """Rows that the lake had already, or that came twice."""
        return self.rows_read - self.rows_new - self.superseded


class Lake:
    """A folder of Delta tables of raw events and markets.

    Parameters
    ----------
    path : str or Path
        Where it is: a local folder, or a URL that Delta Lake can read, e.g. ``s3://bucket/lake``.
    storage_options : mapping of str to str, optional
        What an object store needs, e.g. its region.

    Attributes
    ----------
    path : str
        Its address.
    storage_options : dict of str to str, or None
        As given.

    Raises
    ------
    LakeError
        If there is no lake.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> trade = pl.DataFrame(
    ...     {
    ...         "exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"], "id": ["7"], "timestamp": [5], "sequence": [7],
    ...         "side": ["BUY"], "price": [10.0], "amount": [2.0], "quote_amount": [20.0],
    ...     }
    ... )
    >>> lake.append("trades", trade, source="by hand").rows_new
    1
    >>> lake.append("trades", trade, source="by hand").already_ingested
    True
    >>> lake.scan("trades", exchange="BINANCE", start=0, end=10).select("id", "price").collect().rows()
    [('7', 10.0)]
    """

    def __init__(self, path: str | Path, *, storage_options: Mapping[str, str] | None = None) -> None:
        self._begin(path, storage_options)
        self._require_lake()

    @classmethod
    def create(cls, path: str | Path, *, storage_options: Mapping[str, str] | None = None) -> Self:
        """Return the lake at ``path``, made first if there is none.

        Parameters
        ----------
        path : str or Path
            A folder that does not exist, is empty, or is a lake; or a URL.
        storage_options : mapping of str to str, optional
            What an object store needs.

        Returns
        -------
        Lake

        Raises
        ------
        LakeError
            If something else is there, or it cannot be written.
        """
        lake = cls.__new__(cls)
        lake._begin(path, storage_options)
        if "://" not in lake.path:
            lake._refuse_foreign_folder()
        # The registry last: a lake is a lake once it has one.
        for table in sorted(TABLES.values(), key=lambda table: table is MARKETS):
            lake._make(table)
        return lake

    def __repr__(self) -> str:
        return f"Lake({self.path!r})"

    # -- reading -----------------------------------------------------------------------------------------------------

    def scan(
        self,
        table: str,
        *,
        exchange: str | Iterable[str] | None = None,
        raw_symbol: str | Iterable[str] | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> pl.LazyFrame:
        """Return the rows of a table as a lazy frame of its newest version.

        Files of other markets and other times are not opened.

        Parameters
        ----------
        table : str
            Name of a table, e.g. ``"trades"``.
        exchange, raw_symbol : str or iterable of str, optional
            Keep these only.
        start, end : int, optional
            Keep ``start <= timestamp < end``. [ns since the epoch]

        Returns
        -------
        polars.LazyFrame, one row per event, in no order
            The table's columns, see `tidytape.lake.TABLES`.

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        kind = _table(table)
        delta = self.find(kind)
        is_of_one = all(condition is not None for condition in (exchange, raw_symbol, start, end))
        if delta is not None and is_of_one:
            frame = self.scan_version(delta, kind)
        else:
            frame = _delta.scanned(delta, kind, self.storage_options)
        return frame.filter(*_conditions({"exchange": exchange, "raw_symbol": raw_symbol}, start, end))

    def scan_version(self, delta: _delta.Opened, table: Table) -> pl.LazyFrame:
        """Return the rows of an open version of a table, to be filtered by market and time.

        Every query of a version shares one frame. polars lists the files of a frame once, with the statistics of the
        columns that its first query filters by; that takes as long as to read a thousand minutes. The frames lie here
        and not with the version that they hold, for Python could never free the two: polars hides one from it.
        """
        frames = self._frames.setdefault(table.name, deque(maxlen=_VERSIONS))
        for known, frame in tuple(frames):
            if known is delta:
                return frame
        frame = _delta.scanned(delta, table, self.storage_options)
        frames.append((delta, frame))
        return frame

    def markets(self) -> pl.DataFrame:
        """Return the registered markets.

        Returns
        -------
        polars.DataFrame, one row per market, sorted by (exchange, raw_symbol, tenor)
            Columns of `tidytape.lake.MARKETS`. Only the summaries of an option exchange have a tenor, and then several.

        Raises
        ------
        LakeError
            If the table cannot be read.
        """
        return self._registry(MARKETS)

    def prediction_markets(self) -> pl.DataFrame:
        """Return the prediction markets, each value from the newest report that has it.

        Returns
        -------
        polars.DataFrame, one row per prediction market, sorted by (exchange, condition_id)
            Columns of `tidytape.lake.PREDICTION_MARKETS`; ``reported`` is the time of its newest report.

        Raises
        ------
        LakeError
            If the table cannot be read.
        """
        with _delta.failing("read the table", self.uri(PREDICTION_MARKETS.name), self.storage_options):
            return latest(self._registry(PREDICTION_MARKETS))

    def version(self) -> dict[str, int]:
        """Return the version of each table, which changes with every commit.

        Returns
        -------
        dict of str to int
            By table name; -1 where the lake is older than the table.

        Raises
        ------
        LakeError
            If a table cannot be opened.
        """
        deltas = {name: self.find(table) for name, table in TABLES.items()}
        return {name: -1 if delta is None else delta.version() for name, delta in deltas.items()}

    def markets_in(self, table: str) -> list[tuple[str, ...]]:
        """Return the values of a table's partition columns that have rows, sorted, e.g. (exchange, raw_symbol).

        Parameters
        ----------
        table : str
            Name of an event table.

        Returns
        -------
        list of tuple of str

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        delta = self.find(_table(table))
        return [] if delta is None else _delta.partitions(delta)

    def extent(self, table: str, *partition: str) -> tuple[int, int] | tuple[None, None]:
        """Return the first and the last timestamp of a market by the table's log, without reading rows.

        Parameters
        ----------
        table : str
            Name of an event table.
        *partition : str
            Values of the table's partition columns, e.g. ``"BINANCE", "BTCUSDT"``.

        Returns
        -------
        tuple of int, or of None where there are no rows
            [ns since the epoch]

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        delta = self.find(_table(table))
        if delta is None:
            return None, None
        files = _delta.files(delta, partition)
        firsts = [file.first for file in files if file.first is not None]
        lasts = [file.last for file in files if file.last is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else (None, None)

    def extents(self, table: str) -> pl.DataFrame:
        """Return the first and the last timestamp of every market of a table by its log.

        Parameters
        ----------
        table : str
            Name of an event table.

        Returns
        -------
        polars.DataFrame, one row per partition, sorted
            The table's partition columns, ``first`` and ``last`` [ns since the epoch].

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        kind = _table(table)
        delta = self.find(kind)
        if delta is None:
            names = dict.fromkeys(kind.partitions, pl.String)
            return pl.DataFrame(schema=names | dict.fromkeys(("first", "last"), pl.Int64))
        return _delta.extents(delta)

    def files(self, table: str, *partition: str) -> list[Facts]:
        """Return the log entries of the files in one partition; no row is read.

        Parameters
        ----------
        table : str
            Name of a table, rollups included.
        *partition : str
            Values of the table's partition columns, e.g. ``"BINANCE", "BTCUSDT"``.

        Returns
        -------
        list of (rows, first, last, low, high, bytes, path)
            Rows, timestamps [ns since the epoch] and prices [quote per coin] of each file; None where the log does not
            say. Empty where there is no such table yet.

        Raises
        ------
        LakeError
            If the table cannot be opened.
        """
        return _delta.files(self.delta(table), partition) if self.has_table(table) else []

    def highest(self, table: str, column: str) -> pl.DataFrame:
        """Return the highest value that every market of a table ever had, by its log and without reading rows.

        Parameters
        ----------
        table : str
            Name of an event table.
        column : str
            Name of a column of numbers, e.g. ``"price"``.

        Returns
        -------
        polars.DataFrame, one row per partition with a value, sorted
            The table's partition columns, and ``highest``. If the log does not say it of a file, which another tool
            wrote, the rows are read.

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        kind = _table(table)
        names = list(kind.partitions)
        delta = self.find(kind)
        values = None if delta is None else _delta.highest(delta, column)
        if values is None:
            rows = self.scan(table).group_by(names).agg(highest=pl.col(column).max())
            values = rows.collect(engine="streaming")
        return values.drop_nulls("highest").select(*names, "highest").sort(names)

    def delta(self, table: str) -> _delta.Opened:
        """Return the newest version of a table as a Delta table, for tools that read those.

        Parameters
        ----------
        table : str
            Name of a table of the lake, rollups included.

        Returns
        -------
        deltalake.DeltaTable
            To be read only.

        Raises
        ------
        LakeError
            If it is not there or cannot be opened.
        """
        return self._newest(table, time.monotonic())

    def now(self) -> Lake:
        """Return the lake as it is now, to be read only.

        Each table is looked up once, when it is first asked for, in the version that is the newest then. So what is
        read for one answer agrees, and in an object store it costs one look per table.

        Returns
        -------
        Lake
            Its reading methods raise LakeError where a table cannot be opened.

        Examples
        --------
        >>> import tempfile
        >>> moment = Lake.create(tempfile.mkdtemp()).now()
        >>> moment.version() == moment.now().version()
        True
        """
        return _Moment(self)

    def at(self, versions: Mapping[str, int]) -> Lake:
        """Return the lake as it was, to be read only.

        Parameters
        ----------
        versions : mapping of str to int
            A version of each table of events that is to be read, as of `version`. There is no other table beside the
            registries, which are the newest. So no stored minutes are read, and answers are the same without them.

        Returns
        -------
        Lake
            Its reading methods raise LakeError where a version, or a file of it, was removed.

        Examples
        --------
        >>> import tempfile
        >>> lake = Lake.create(tempfile.mkdtemp())
        >>> lake.at({"trades": 0}).extent("trades", "X", "BTC")
        (None, None)
        """
        return _Past(self, versions)

    def has_table(self, table: str) -> bool:
        """Return whether the lake has a table; those of minutes come with a rollup."""
        return table in self._tables or _delta.exists(self.uri(table), self.storage_options)

    def lost(self) -> tuple[str, ...]:
        """Return the tables that the lake has lost. Reading them raises an error.

        An older lake lacks tables, but every lake has trades, and none has minutes without the events they are made of.

        Returns
        -------
        tuple of str
            Their names.

        Raises
        ------
        LakeError
            If the lake cannot be looked at.
        """
        return tuple(name for name in TABLES if not self.has_table(name) and self._had(name))

    def uri(self, table: str) -> str:
        """Return the address of a table."""
        return f"{self.path}/{table}"

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(
        self,
        frame: Any,
        *,
        table: str = TRADES.name,
        market: Market | None = None,
        columns: Mapping[str, str] | None = None,
        time_unit: str | Mapping[str, str] | None = None,
        interval: str | None = None,
        skip_bad: bool = False,
    ) -> IngestReport:
        """Put a frame into the lake, as `tidytape.lake.ingest.ingest` does with a file.

        Values are checked, amounts converted and markets registered; rows that are there already are not added again,
        and a frame that went in before changes nothing. To add rows that have every column of a table, see `append`.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame, one row per event
            Columns of the table, or of the map. A column of the same name in capitals, as ``Open``, is taken too. Of
            pandas an index of times is ``timestamp``, and levels of another index that have names are columns.
        table : str
            What the rows are, the name of one of `tidytape.lake.TABLES`.
        market : tidytape.lake.ingest.Market, optional
            What the frame does not say of its market: exchange and raw symbol, mostly, as
            ``Market(exchange="X", raw_symbol="BTC-USD")``.
        columns : mapping of str to str, optional
            Our columns to the frame's, e.g. ``{"price": "px"}``.
        time_unit : {"iso", "date", "s", "ms", "us", "ns"} or mapping of str to one of them, optional
            How times are written that are whole numbers or text. Those with a zone need none; ``iso`` says that times
            without a zone are in UTC, and ``date`` that dates stand for their first instant in UTC.
        interval : str, optional
            Of candles: how long all of them are, e.g. ``"1h"``; needed where no column ``interval`` tells it.
        skip_bad : bool
            Leave broken rows out and count them, instead of failing. A line of the report is a row, from 1.

        Returns
        -------
        tidytape.lake.ingest.IngestReport

        Raises
        ------
        QueryError
            If an argument cannot be right, a column is missing or could be either of two, a column has values of
            several kinds, the rows are of several exchanges, or a time has neither zone nor unit.
        IngestError
            If a row is broken and ``skip_bad`` is not set, or contradicts the lake.
        LakeError
            If the lake cannot be written.

        Examples
        --------
        Candles as ccxt returns them:

        >>> import polars as pl, tempfile
        >>> from tidytape.lake.ingest import Market
        >>> ohlcv = [[1700000040000, 10.0, 12.0, 9.0, 11.0, 3.5]]
        >>> candles = pl.DataFrame(
        ...     ohlcv, schema=["timestamp", "open", "high", "low", "close", "volume"], orient="row"
        ... )
        >>> lake = Lake.create(tempfile.mkdtemp())
        >>> report = lake.write(
        ...     candles, table="candles", interval="1m", time_unit="ms",
        ...     market=Market(exchange="KRAKEN", raw_symbol="BTC/USD"),
        ... )
        >>> print(report.files[0])
        frame: 1 candle; times in ms
        """
        from tidytape.lake.ingest import _frames as frames
        from tidytape.lake.ingest._market import Market

        return frames.write(
            self,
            frame,
            market or Market(),
            table=table,
            columns=columns,
            time_unit=time_unit,
            interval=interval,
            skip_bad=skip_bad,
        )

    def append(self, table: str, rows: pl.DataFrame | Batch, *, source: str) -> Appended:
        """Add the rows that the table does not have yet, all or none, and note their source in the same commit.

        A source that was appended before changes nothing. A row whose key is in the table already, at whatever time,
        is not added again. Several processes may append to one lake at once.

        Parameters
        ----------
        table : str
            Name of an event table, e.g. ``"trades"``.
        rows : polars.DataFrame or Batch, n rows, in any order
            The table's columns; absent nullable ones are null.
        source : str
            A permanent name of the origin, e.g. ``"sha256:…"`` of a file.

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
            If a value does not fit, an exchange or symbol cannot be a folder, or a row contradicts one of the same key.
        LakeError
            If the table cannot be written.
        """
        kind = _event_table(table)
        batch = rows if isinstance(rows, Batch) else _batch(kind, rows)
        for name in sorted({name for market in batch.markets for name in market}):
            if not is_storable(name):
                raise IngestError(
                    f"{table}: {name[:100]!r} is no name of an exchange or symbol that can be stored"
                )

        self._make(kind)

        def attempt(delta: _delta.Opened) -> Appended:
            if delta.transaction_version(_source(source)) is not None:
                return Appended(table, source, batch.rows, 0, already_ingested=True)
            new, superseded = self._fresh(delta, batch)
            if batch.counted:
                new = counted_on(new, self._between(delta, kind, "timestamp"))
            # Even if nothing is new: then the next time the source need not be read.
            _commit.commit(delta, new, source=_source(source), options=self.storage_options)
            return Appended(table, source, batch.rows, new.rows, superseded=superseded)

        return _commit.retrying(self.uri(table), attempt, self.storage_options)

    def append_piece(
        self, batch: Batch, *, log: str, start: int, end: int, instead: pl.DataFrame | None = None
    ) -> Appended:
        """Append the events of a piece of a log, unless the table has them already.

        The commit notes the end of the piece under the log's name, so a log leaves one note per table.

        Parameters
        ----------
        batch : Batch
            The events.
        log : str
            What names the log.
        start, end : int
            Where the piece begins and ends in the log. [bytes]
        instead : polars.DataFrame, optional
            Rows of states, with the columns of the table's ``key`` and ``same``, that the log gave before. Where the
            table still has one of them, the batch's row of the same key takes its place.

        Returns
        -------
        Appended

        Raises
        ------
        IngestError
            If a row contradicts one of the same key, or another process appends other pieces of the log.
        LakeError
            If the table cannot be written.
        """
        table = batch.table
        self._make(table)

        def attempt(delta: _delta.Opened) -> Appended:
            there = delta.transaction_version(_log(log)) or 0
            if there >= end:
                return Appended(table.name, log, batch.rows, 0, already_ingested=True)
            if there > start:
                raise IngestError(f"{table.name}: another process follows the same log")
            replaced = None if instead is None else self._still_there(delta, table, instead)
            new, superseded = fresh(batch, self._between(delta, table, table.identity, without=replaced))
            if batch.counted:
                new = counted_on(new, self._between(delta, table, "timestamp"))
            _commit.commit(
                delta,
                new,
                source=_log(log),
                number=end,
                options=self.storage_options,
                instead=None if replaced is None else replaced.select(table.key),
            )
            return Appended(table.name, log, batch.rows, new.rows, superseded=superseded)

        return _commit.retrying(
            self.uri(table.name), attempt, self.storage_options, known=self.delta(table.name)
        )

    def log_end(self, table: str, log: str) -> int:
        """Return up to where the events of a log are in a table; 0 if it has none. [bytes]"""
        delta = self.find(_table(table))
        return 0 if delta is None else delta.transaction_version(_log(log)) or 0

    def note_log(self, log: str, end: int) -> None:
        """Note that all tables have the events of a log up to some place. [bytes]

        Raises
        ------
        LakeError
            If the registry cannot be written.
        """

        def attempt(delta: _delta.Opened) -> None:
            if (delta.transaction_version(_log(log)) or 0) < end:
                _commit.note(delta, [Transaction(_log(log), end)])

        _commit.retrying(self.uri(MARKETS.name), attempt, self.storage_options)

    def _still_there(self, delta: _delta.Opened, table: Table, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Return those of some rows that the table has, with the same values."""
        columns = [*table.key, *table.same]
        values = {name: rows[name].unique().to_list() for name in table.partitions}
        first, last = rows["timestamp"].min(), rows["timestamp"].max()
        stored = _delta.scanned(delta, table, self.storage_options).filter(
            pl.col("timestamp").is_between(first, last), *_conditions(values, None, None)
        )
        found = stored.select(columns).join(
            rows.lazy().select(columns), on=columns, how="semi", nulls_equal=True
        )
        kept = found.collect()
        return kept if kept.height else None

    def check(self, batch: Batch) -> None:
        """Raise IngestError if appending the batch would, as the lake is now."""
        with _delta.failing("read the table", self.uri(batch.table.name), self.storage_options):
            self._fresh(self.find(batch.table), batch)

    def require_writable(self, *tables: Table) -> None:
        """Raise LakeError if this release cannot write to one of some tables; one that is not there can be made.

        A writer of several tables calls it before the first commit, so that a lake of a newer release is written to as
        a whole or not at all.
        """
        for table in tables:
            delta = self.find(table)
            if delta is not None:
                _delta.require_writable(delta, table)

    def has_source(self, table: str, source: str) -> bool:
        """Return whether a source was appended to a table, or registered with its markets, before."""
        delta = self.find(_table(table))
        return delta is not None and delta.transaction_version(_source(source)) is not None

    def register(
        self, markets: pl.DataFrame, *, replace: Collection[str] = (), sources: Collection[str] = ()
    ) -> None:
        """Register markets, or add to what is registered.

        What is registered stays, so that a block size never drifts; what is null is filled; ``available_since``
        becomes the earlier of the two.

        Parameters
        ----------
        markets : polars.DataFrame, n rows, key (exchange, raw_symbol, tenor)
            Any columns of `tidytape.lake.MARKETS` beside the key.
        replace : collection of str
            Columns in which the values given here, where not null, replace the registered ones.
        sources : collection of str
            What names the origins, to be noted in the same commit.

        Raises
        ------
        MissingColumnError
            If a key column is absent, or ``replace`` names none of the table's.
        IngestError
            If a value does not fit, a block size is no positive number, or a market is named twice.
        LakeError
            If the table cannot be written.
        """
        new = MARKETS.conform(markets)
        unknown = [name for name in replace if name not in MARKETS.names]
        if unknown:
            raise MissingColumnError(unknown, available=MARKETS.names)
        if new.select(MARKETS.key).is_duplicated().any():
            raise IngestError("markets: a market is named twice")
        size = pl.col("block_size")
        wrong = new.filter(~((size > 0) & size.is_finite()))
        if wrong.height:
            exchange, symbol, got = wrong.select("exchange", "raw_symbol", "block_size").row(0)
            raise IngestError(f"markets: block_size of {exchange} {symbol} is {got!r}, no positive number")

        self._rewrite(MARKETS, lambda before: merged_markets(before, new, replace=replace), sources)

    def register_prediction_markets(self, reports: pl.DataFrame, *, sources: Collection[str] = ()) -> None:
        """Register reports of prediction markets, in any order and however often.

        For each column the newest report that has a value counts; ``available_since`` is the earliest. Of two reports
        of one time the larger value counts as the later.

        Parameters
        ----------
        reports : polars.DataFrame, n rows, in any order
            ``exchange``, ``condition_id``, ``reported``, ``slug``, and any other columns of
            `tidytape.lake.PREDICTION_MARKETS`.
        sources : collection of str
            What names the origins, to be noted in the same commit.

        Raises
        ------
        MissingColumnError
            If one of the four columns is absent.
        IngestError
            If a value does not fit, or one of the four is null.
        LakeError
            If the table cannot be written.
        """
        new = PREDICTION_MARKETS.conform(reports)
        if "slug" not in reports.columns:
            raise MissingColumnError(["slug"], available=reports.columns)
        if new["slug"].null_count():
            raise IngestError("prediction_markets: null in column 'slug' of a report, which may not be null")
        self._rewrite(PREDICTION_MARKETS, lambda before: merged_reports(before, new), sources)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, path: str | Path, storage_options: Mapping[str, str] | None) -> None:
        """Begin with nothing opened or read."""
        self.path = _delta.root_of(path)
        self.storage_options = _delta.as_dict(storage_options)
        self._tables: dict[str, _delta.Opened] = {}
        self._looks: dict[str, threading.Lock] = {}
        self._frames: dict[str, deque[tuple[_delta.Opened, pl.LazyFrame]]] = {}

    def _newest(self, table: str, asked: float) -> _delta.Opened:
        """Return a table in a version that was the newest at some time since it was asked for.

        Who asks while another one looks waits, and looks only if that look began before: many requests share one look.
        """
        with self._looks.setdefault(table, threading.Lock()):
            known, began = self._tables.get(table), time.monotonic()
            if known is not None and known.seen_at >= asked:
                return known
            if known is None or not _delta.is_newest(known, self.storage_options):
                known = _delta.opened(self.uri(table), self.storage_options)
            known.seen_at = began
            self._tables[table] = known
            return known

    def _registry(self, table: Table) -> pl.DataFrame:
        """Return a registry, read once per version."""
        with _delta.failing("read the table", self.uri(table.name), self.storage_options):
            delta = self.find(table)
            if delta is None:
                return table.empty()
            return delta.once("registry", lambda: _registered(delta, table, self.storage_options))

    def find(self, table: Table) -> _delta.Opened | None:
        """Return the newest version of a table, None if the lake is older than the table."""
        if self.has_table(table.name):
            return self.delta(table.name)
        self._require_lake()  # else a lake that was removed would look like one without events
        if self._had(table.name):
            raise LakeError(f"table {table.name!r} is gone: restore its folder", path=self.uri(table.name))
        return None

    def _had(self, table: str) -> bool:
        """Return whether a lake without this table has lost it; an older lake never had some tables."""
        return table == TRADES.name or (table in MINUTES_OF and self.has_table(MINUTES_OF[table]))

    def _require_lake(self) -> None:
        if not _delta.exists(self.uri(MARKETS.name), self.storage_options):
            raise LakeError(
                f"no lake at {self.path}: {self._contents()}; 'tidytape ingest' makes one of recorded files, 'tidytape "
                "demo' a simulated one, and Lake.create(path) an empty one",
                path=self.path,
            )

    def _make(self, table: Table) -> None:
        if not _delta.exists(self.uri(table.name), self.storage_options):
            _delta.create(self.uri(table.name), table, self.storage_options)

    def _rewrite(
        self, table: Table, change: Callable[[pl.DataFrame], pl.DataFrame], sources: Collection[str]
    ) -> None:
        """Replace a registry by ``change`` of it, and note the sources, unless nothing is new."""

        def attempt(delta: DeltaTable) -> None:
            before = _registered(delta, table, self.storage_options)
            after = change(before)
            unnoted = [name for name in map(_source, sources) if delta.transaction_version(name) is None]
            if unnoted or not after.equals(before):
                _commit.replace(delta, table, after, sources=unnoted)

        self._make(table)
        _commit.retrying(self.uri(table.name), attempt, self.storage_options)

    def _fresh(self, delta: DeltaTable | None, batch: Batch) -> tuple[Batch, int]:
        # Not by time: the same trade may come again by another clock. Instead by the range of ids, by which the
        # statistics of files and row groups skip: ids that rise with time, and made-up ones, which begin with it,
        # touch next to nothing of an older tape. For random ids the market's key columns are read whole.
        return fresh(batch, self._between(delta, batch.table, batch.table.identity))

    def _between(
        self, delta: DeltaTable | None, table: Table, column: str, *, without: pl.DataFrame | None = None
    ) -> Stored:
        """Return what looks at the stored rows of some markets between two values of a column, both included."""
        rows = _delta.scanned(delta, table, self.storage_options)
        if without is not None:
            rows = rows.join(without.lazy().select(table.key), on=table.key, how="anti")

        def stored(markets: Collection[tuple[str, ...]], low: Any, high: Any) -> pl.LazyFrame:
            values = dict(zip(table.partitions, zip(*markets, strict=True), strict=True))
            between = pl.col(column).is_between(pl.lit(low), pl.lit(high))
            return rows.filter(between, *_conditions(values, None, None))

        return stored

    def _contents(self) -> str:
        if "://" in self.path:
            return "nothing to open there"
        if not os.path.lexists(self.path):
            return "nothing is there"
        return "a folder of something else" if Path(self.path).is_dir() else "a file is there"

    def _refuse_foreign_folder(self) -> None:
        folder = Path(self.path)
        if not os.path.lexists(folder):
            return
        try:
            # Another process may be making the same lake right now, so its tables may be there.
            foreign = sorted({entry.name for entry in folder.iterdir()} - set(TABLES))
        except OSError as error:
            raise LakeError(f"cannot make a lake at {folder}: {error.strerror}", path=str(folder)) from error
        if foreign and not _delta.exists(self.uri(MARKETS.name), self.storage_options):
            raise LakeError(
                f"will not make a lake at {folder}: the folder holds {foreign[0]!r}", path=str(folder)
            )


class _Moment(Lake):
    """A lake at one moment, see `Lake.now`."""

    def __init__(self, lake: Lake) -> None:
        self._begin(lake.path, lake.storage_options)
        self._lake, self._asked, self._frames = lake, time.monotonic(), lake._frames
        self._absent: set[str] = set()

    def now(self) -> Lake:
        """Return itself."""
        return self

    def delta(self, table: str) -> _delta.Opened:
        """Return the version of a table that was the newest when it was first asked for."""
        if table not in self._tables:
            self._tables[table] = self._lake._newest(table, self._asked)
        return self._tables[table]

    def has_table(self, table: str) -> bool:
        """Return whether the lake had a table when it was first asked for."""
        if table in self._tables:
            return True
        if table not in self._absent and self._lake.has_table(table):
            return True
        self._absent.add(table)
        return False


class _Past(_Moment):
    """A lake as it was, see `Lake.at`."""

    def __init__(self, lake: Lake, versions: Mapping[str, int]) -> None:
        super().__init__(lake)
        self._versions = {name: version for name, version in versions.items() if version >= 0}
        self._lock = threading.Lock()

    def delta(self, table: str) -> _delta.Opened:
        """Return the version of a table that was asked for; of a registry, the newest."""
        if table not in self._versions:
            return super().delta(table)
        with self._lock:
            if table not in self._tables:
                version = self._versions[table]
                self._tables[table] = _delta.opened(self.uri(table), self.storage_options, version=version)
            return self._tables[table]

    def has_table(self, table: str) -> bool:
        """Return whether the lake had a table."""
        is_registry = any(table == registry.name for registry in REGISTRIES)
        return table in self._versions or (is_registry and super().has_table(table))

    def _had(self, table: str) -> bool:
        return False


def _registered(delta: DeltaTable, table: Table, options: Mapping[str, str] | None) -> pl.DataFrame:
    """Return the rows of a registry."""
    return _delta.scanned(delta, table, options).collect().sort(table.key)


def _table(name: str) -> Table:
    try:
        return TABLES[name]
    except KeyError:
        raise QueryError(
            "table",
            got=name,
            expected="one of " + ", ".join(TABLES),
            hint=did_you_mean(name, TABLES),
        ) from None


def _event_table(name: str) -> Table:
    table = _table(name)
    if table in REGISTRIES:
        raise QueryError("table", got=name, expected="a table of events", hint="markets are registered")
    return table


def _batch(table: Table, rows: pl.DataFrame) -> Batch:
    batch = Batch(table)
    batch.add(table.conform(rows))
    return batch


def _source(name: str) -> str:
    return f"source:{name}"


def _log(name: str) -> str:
    return f"log:{name}"


def _conditions(
    names: Mapping[str, str | Iterable[str] | None], start: int | None, end: int | None
) -> list[pl.Expr]:
    conditions = []
    for name, values in names.items():
        if isinstance(values, str):
            conditions.append(pl.col(name) == values)
        elif values is not None:
            conditions.append(pl.col(name).is_in(sorted(set(values))))
    if start is not None:
        conditions.append(pl.col("timestamp") >= start)
    if end is not None:
        conditions.append(pl.col("timestamp") < end)
    return conditions


def merged_markets(
    registered: pl.DataFrame, new: pl.DataFrame, *, replace: Collection[str] = ()
) -> pl.DataFrame:
    """Return the registered markets with new ones merged in.

    A value that is registered stays, so that a block size never drifts; a null is filled; ``replace`` names the
    columns in which the new value counts where it is not null. ``available_since`` becomes the earlier of the two.
    """
    key = list(MARKETS.key)
    both = registered.join(new, on=key, how="full", coalesce=True, suffix="_new", nulls_equal=True)
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
    return both.select(columns).sort(key)
