"""Read a lake: rows, markets, versions and files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import quote

import polars as pl
from deltalake import DeltaTable

from tidytape._forks import refuse_fork
from tidytape.errors import LakeError, QueryError, did_you_mean
from tidytape.lake import _delta
from tidytape.lake._delta import Facts
from tidytape.lake._predictions import latest
from tidytape.lake._tables import (
    HEATMAP_EXCHANGE,
    MARKETS,
    MINUTES_OF,
    PREDICTION_MARKETS,
    TABLES,
    TRADES,
    Table,
)

_VERSIONS = 4
"""Versions of a table whose frames are shared by queries."""

_KIND_NAME = "kind-name:"


class LakeReader(ABC):
    """A reader of a lake: a `Lake`, or a lake at one moment, as `Lake.now` and `Lake.at` return it.

    It has no method that writes. Functions that only read take a `LakeReader`, functions that write take a `Lake`.

    Parameters
    ----------
    path : str or Path
        Where the lake is: a local folder, or a URL that Delta Lake can read, e.g. ``s3://bucket/lake``.
    storage_options : mapping of str to str, optional
        What an object store needs, e.g. its region.

    Attributes
    ----------
    path : str
        Its address.
    storage_options : dict of str to str, or None
        As given.
    """

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None) -> None:
        refuse_fork()
        self.path = _delta.root_of(path)
        self.storage_options = _delta.as_dict(storage_options)
        self._tables: dict[str, _delta.Opened] = {}
        self._frames: dict[str, deque[tuple[_delta.Opened, pl.LazyFrame]]] = {}

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
            Keep only the rows of these; all rows where left out.
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
        definition = definition_of(table)
        delta = self._find(definition)
        is_bounded = all(bound is not None for bound in (exchange, raw_symbol, start, end))
        if delta is not None and is_bounded:
            frame = self._scan_version(delta, definition)
        else:
            frame = _delta.scanned(delta, definition, self.storage_options)
        return frame.filter(*conditions({"exchange": exchange, "raw_symbol": raw_symbol}, start, end))

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

    def heatmap_exchange(self) -> str | None:
        """Return the exchange of liquidation heatmaps whose query names none; None if the lake names none either."""
        markets = self.delta(MARKETS.name)
        exchange: str | None = markets.cached("configuration", lambda: markets.metadata().configuration).get(
            HEATMAP_EXCHANGE
        )
        return exchange

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
        deltas = {name: self._find(table) for name, table in TABLES.items()}
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
        delta = self._find(definition_of(table))
        return [] if delta is None else _delta.partitions(delta)

    def extent(self, table: str, *partition: str) -> tuple[int, int] | tuple[None, None]:
        """Return the first and the last timestamp of a market from the table's log, without reading rows.

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
        delta = self._find(definition_of(table))
        if delta is None:
            return None, None
        files = _delta.files(delta, partition)
        firsts = [file.first for file in files if file.first is not None]
        lasts = [file.last for file in files if file.last is not None]
        return (min(firsts), max(lasts)) if firsts and lasts else (None, None)

    def closed_at(self, exchange: str, symbol: str) -> int | None:
        """Return the last event of a market when `LakeWriter.close_recording` closed it; None if nobody closed it.

        Parameters
        ----------
        exchange, symbol : str
            The market, or the exchange and the coin of an option chain.

        Returns
        -------
        int or None
            [ns since the epoch]

        Raises
        ------
        LakeError
            If the registry cannot be opened.
        """
        return self.delta(MARKETS.name).transaction_version(closing_note(exchange, symbol))

    def extents(self, table: str) -> pl.DataFrame:
        """Return the first and the last timestamp of every market of a table from the table's log.

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
        definition = definition_of(table)
        delta = self._find(definition)
        if delta is None:
            dtypes = dict.fromkeys(definition.partitions, pl.String)
            return pl.DataFrame(schema=dtypes | dict.fromkeys(("first", "last"), pl.Int64))
        return _delta.extents(delta)

    def has_source(self, table: str, source: str) -> bool:
        """Return whether a source was appended to a table, or registered with its markets, before.

        Parameters
        ----------
        table : str
            Name of a table.
        source : str
            Name of the source, as it was passed to `LakeWriter.append` or `LakeWriter.register`.

        Returns
        -------
        bool

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        delta = self._find(definition_of(table))
        return delta is not None and delta.transaction_version(source_note(source)) is not None

    @abstractmethod
    def delta(self, table: str) -> _delta.Opened:
        """Return a table in the version that this reader reads, as a Delta table that other tools can read.

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

    @abstractmethod
    def now(self) -> LakeReader:
        """Return the lake as it is now, to be read only; a moment returns itself.

        The reader looks each table up once, when the table is first asked for, and keeps the version that is the newest
        then. So all reads for one answer agree, and an object store is asked once per table.

        Returns
        -------
        LakeReader
            Its methods raise LakeError where a table cannot be opened.

        Examples
        --------
        >>> import tempfile
        >>> from tidytape.lake import Lake
        >>> moment = Lake.create(tempfile.mkdtemp()).now()
        >>> moment.version() == moment.now().version()
        True
        """

    @abstractmethod
    def at(self, versions: Mapping[str, int]) -> LakeReader:
        """Return the lake as it was, to be read only.

        Parameters
        ----------
        versions : mapping of str to int
            The version of each table of events to read, as `version` returns it. Other tables count as absent, except
            the registries, which are read in their newest version. So no stored minutes are read; answers are the same
            without them.

        Returns
        -------
        LakeReader
            Its methods raise LakeError where a version, or a file of it, was removed.

        Examples
        --------
        >>> import tempfile
        >>> from tidytape.lake import Lake
        >>> lake = Lake.create(tempfile.mkdtemp())
        >>> lake.at({"trades": 0}).extent("trades", "X", "BTC")
        (None, None)
        """

    @abstractmethod
    def has_table(self, table: str) -> bool:
        """Return whether the lake has a table; tables of minutes come with a rollup."""

    def uri(self, table: str) -> str:
        """Return the address of a table."""
        return f"{self.path}/{table}"

    def _reading(self) -> AbstractContextManager[None]:
        """Turn what the libraries below raise when files are gone or damaged, or a store is silent, into LakeError."""
        return _delta.failing("read the lake", self.path, self.storage_options)

    def _files(self, table: str, *partition: str) -> list[Facts]:
        """Return the log entries of the files in one partition; no row is read.

        Parameters
        ----------
        table : str
            Name of a table, rollups included.
        *partition : str
            Values of the table's partition columns, e.g. ``"BINANCE", "BTCUSDT"``.

        Returns
        -------
        list of (rows, first, last, low, high, bytes, path, sideless)
            Number of rows, first and last timestamp [ns since the epoch], lowest and highest price [quote per coin],
            size and path of each file, and how many rows have no side; None for what the log does not say. Empty if
            there is no such table yet.

        Raises
        ------
        LakeError
            If the table cannot be opened.
        """
        return _delta.files(self.delta(table), partition) if self.has_table(table) else []

    def _highest(self, table: str, column: str) -> pl.DataFrame:
        """Return the highest value of a column in every market of a table, from the log and without reading rows.

        Parameters
        ----------
        table : str
            Name of an event table.
        column : str
            Name of a column of numbers, e.g. ``"price"``.

        Returns
        -------
        polars.DataFrame, one row per partition with a value, sorted
            The table's partition columns, and ``highest``. If another tool wrote a file and the log does not say its
            highest value, the rows are read.

        Raises
        ------
        QueryError
            If there is no such table.
        LakeError
            If it cannot be opened.
        """
        definition = definition_of(table)
        partition_columns = list(definition.partitions)
        delta = self._find(definition)
        highest_values = None if delta is None else _delta.highest(delta, column)
        if highest_values is None:
            rows = self.scan(table).group_by(partition_columns).agg(highest=pl.col(column).max())
            highest_values = rows.collect(engine="streaming")
        return (
            highest_values.drop_nulls("highest").select(*partition_columns, "highest").sort(partition_columns)
        )

    def _lost(self) -> tuple[str, ...]:
        """Return the tables that the lake has lost. Reading them raises an error.

        An older lake may lack some tables. But every lake has trades, and a lake with minutes has the events that they
        are computed from.

        Returns
        -------
        tuple of str
            Their names.

        Raises
        ------
        LakeError
            If the lake cannot be looked at.
        """
        return tuple(name for name in TABLES if not self.has_table(name) and self._is_lost_if_absent(name))

    def _log_end(self, table: str, log: str) -> list[int]:
        """Return up to where the events of a log are in a table [bytes], and the mark of the text before; or zeros."""
        delta = self._find(definition_of(table))
        return [(delta and delta.transaction_version(name)) or 0 for name in log_notes(log, 0, 0)]

    def _scan_version(self, delta: _delta.Opened, table: Table) -> pl.LazyFrame:
        """Return the rows of an open version of a table, to be filtered by market and time.

        All queries of a version share one frame. polars lists the files of a frame once, with the statistics of the
        columns that its first query filters by; that takes as long as reading a thousand minutes. The frames are stored
        here and not in the open version, because a frame refers to its version in a way that Python's garbage collector
        does not see: it could never free the two.
        """
        frames = self._frames.setdefault(table.name, deque(maxlen=_VERSIONS))
        for version, frame in tuple(frames):
            if version is delta:
                return frame
        frame = _delta.scanned(delta, table, self.storage_options)
        frames.append((delta, frame))
        return frame

    def _registry(self, table: Table) -> pl.DataFrame:
        """Return a registry, read once per version."""
        with _delta.failing("read the table", self.uri(table.name), self.storage_options):
            delta = self._find(table)
            if delta is None:
                return table.empty()
            return delta.cached("registry", lambda: rows_of_registry(delta, table, self.storage_options))

    def _find(self, table: Table) -> _delta.Opened | None:
        """Return a table in the version that this reader reads; None if the lake is older than the table."""
        refuse_fork()
        if self.has_table(table.name):
            return self.delta(table.name)
        self._require_lake()  # raise an error for a lake that was removed, instead of returning no events
        if self._is_lost_if_absent(table.name):
            raise LakeError(f"table {table.name!r} is gone: restore its folder", path=self.uri(table.name))
        return None

    def _is_lost_if_absent(self, table: str) -> bool:
        """Return whether a lake without this table has lost it; otherwise the lake is older than the table."""
        return table == TRADES.name or (table in MINUTES_OF and self.has_table(MINUTES_OF[table]))

    def _require_lake(self) -> None:
        if not _delta.exists(self.uri(MARKETS.name), self.storage_options):
            raise LakeError(
                f"no lake at {self.path}: {self._contents()}; 'tidytape ingest' makes one of recorded files, 'tidytape "
                "demo' a simulated one, and Lake.create(path) an empty one",
                path=self.path,
            )

    def _contents(self) -> str:
        if "://" in self.path:
            return "nothing to open there"
        if not os.path.lexists(self.path):
            return "nothing is there"
        return "a folder of something else" if Path(self.path).is_dir() else "a file is there"


def rows_of_registry(delta: DeltaTable, table: Table, options: Mapping[str, str] | None) -> pl.DataFrame:
    """Return the rows of a registry."""
    return _delta.scanned(delta, table, options).collect().sort(table.key)


def definition_of(name: str) -> Table:
    """Return the definition of a table by its name; raise QueryError if there is no such table."""
    try:
        return TABLES[name]
    except KeyError:
        raise QueryError(
            "table",
            got=name,
            expected="one of " + ", ".join(TABLES),
            hint=did_you_mean(name, TABLES),
        ) from None


def conditions(
    names: Mapping[str, str | Iterable[str] | None], start: int | None, end: int | None
) -> list[pl.Expr]:
    """Return the filters that keep some values of columns, and a half-open span of time."""
    filters = []
    for name, values in names.items():
        if isinstance(values, str):
            filters.append(pl.col(name) == values)
        elif values is not None:
            filters.append(pl.col(name).is_in(sorted(set(values))))
    if start is not None:
        filters.append(pl.col("timestamp") >= start)
    if end is not None:
        filters.append(pl.col("timestamp") < end)
    return filters


def source_note(name: str) -> str:
    """Return the name of the note that says that a source was added."""
    return f"source:{name}"


def kind_note(market: Iterable[str]) -> str:
    """Return the name of the note with the number of the kind of a market's events, which is a hash of the kind."""
    return f"kind:{'/'.join(quote(name, safe='') for name in market)}"


def kind_name_note(kind: str) -> str:
    """Return the name of the note that says which kind has a number."""
    return f"{_KIND_NAME}{kind}"


def kind_of(delta: _delta.Opened, number: int) -> str:
    """Return the kind that has a number in the notes of a table."""
    names = (name for name, noted in delta.all_notes().items() if noted == number)
    return next(
        (name.removeprefix(_KIND_NAME) for name in names if name.startswith(_KIND_NAME)), "another kind"
    )


def closing_note(exchange: str, symbol: str) -> str:
    """Return the name of the note with the last event of a market whose recording is over. [ns]"""
    return f"closed:{quote(exchange, safe='')}/{quote(symbol, safe='')}"


def log_notes(name: str, end: int, mark: int) -> dict[str, int]:
    """Return the notes that say up to where a log was added [bytes], and which text is before that place."""
    return {f"log:{name}": end, f"mark:{name}": mark}
