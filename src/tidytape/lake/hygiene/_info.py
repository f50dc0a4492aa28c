"""Rows, files, bytes and times of a lake's tables and markets, from the logs, and the heartbeats of its followers."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tidytape.errors import QueryError, did_you_mean
from tidytape.lake import _delta
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._parquet import filesystem
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import TABLES, Table
from tidytape.lake.rollup import ROLLUP_TABLES

_EVERY = {**TABLES, **ROLLUP_TABLES}
_NAMES = ("exchange", "raw_symbol", "coin")
_IN_CONTRACTS = ("trades", "book", "candles", "open_interest", "liquidations", "cme_open_interest")
"""Tables whose amounts a contract converts to coin."""

_TIME = pl.Datetime("ns", "UTC")
_TOTALS = (
    pl.col("rows").sum(),
    pl.len().cast(pl.Int64).alias("files"),
    pl.col("bytes").sum(),
    pl.col("first").min().cast(_TIME),
    pl.col("last").max().cast(_TIME),
)

_HEARTBEATS = "recorders"
HEARTBEAT: Mapping[str, pl.DataType] = {
    "log": pl.String(),
    "host": pl.String(),
    "beat": pl.Datetime("us", "UTC"),
    "last_line": pl.Datetime("us", "UTC"),
    "lag": pl.Float64(),
    "lines": pl.Int64(),
    "rows": pl.Int64(),
    "bad_lines": pl.Int64(),
    "missing": pl.Int64(),
}
"""The columns of `recorders`."""


def tables_of(lake: LakeReader, names: Iterable[str] | None) -> list[Table]:
    """Return the tables that a lake has, raw events first: an older lake lacks some, a rollup makes those of minutes.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.
    names : iterable of str, optional
        Names of tables; all where left out.

    Raises
    ------
    QueryError
        If there is no such table.
    """
    return [_EVERY[name] for name in chosen("table", names, _EVERY) if lake.has_table(name)]


def chosen(parameter: str, names: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """Return the names in the order of ``known``, or all known names; raise QueryError for an unknown name."""
    known = list(known)
    names = known if names is None else list(names)
    for name in names:
        if name not in known:
            raise QueryError(
                parameter,
                got=name,
                expected="one of " + ", ".join(known),
                hint=did_you_mean(name, known),
            )
    return [name for name in known if name in names]


def info(lake: LakeReader) -> pl.DataFrame:
    """Return rows, files, bytes and times of each table of a lake.

    It reads only the tables' logs, so it takes no longer on a large lake. It reads a table only if another tool wrote
    one of its files without noting counts or times.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.

    Returns
    -------
    polars.DataFrame, one row per table
        - ``table`` : name
        - ``rows``, ``files``, ``markets`` : int64, how many; ``markets`` is null for a table without partitions
        - ``bytes`` : int64, of the files of the newest version [bytes]
        - ``first``, ``last`` : time of the first and the last row, null where there is none [UTC, ns]
        - ``version`` : int64, version of the table

    Raises
    ------
    LakeError
        If a table cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> info(Lake.create(tempfile.mkdtemp())).select("table", "rows", "files").row(0)
    ('trades', 0, 0)
    """
    return pl.concat(_info_of(lake, table) for table in tables_of(lake, None))


def _info_of(lake: LakeReader, table: Table) -> pl.DataFrame:
    files = files_of(lake, table)
    market_count = files.select(table.partitions).n_unique() if table.partitions else None
    return files.select(*_TOTALS).select(
        pl.lit(table.name).alias("table"),
        "rows",
        "files",
        pl.lit(market_count, pl.Int64).alias("markets"),
        "bytes",
        "first",
        "last",
        pl.lit(lake.delta(table.name).version(), pl.Int64).alias("version"),
    )


def markets(lake: LakeReader) -> pl.DataFrame:
    """Return rows, files, bytes and times of each market of each table of a lake.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.

    Returns
    -------
    polars.DataFrame, one row per table and market, sorted by them
        - ``table`` : name
        - ``exchange``, ``raw_symbol`` : the market; of option quotes ``exchange`` and ``coin``; null if the table
          is not partitioned by it
        - ``rows``, ``files`` : int64, how many
        - ``bytes`` : int64 [bytes]
        - ``first``, ``last`` : time of the first and the last row [UTC, ns]
        - ``recorded_in`` : the unit of the amounts in the files, before they were converted to coins, as the caller or
          the layout stated it: ``coin``, ``quote``, or the contract, e.g. ``INVERSE 100``; null if no unit was stated
        - ``session`` : when the market trades, as `tidytape.Session` writes it; null if that was not stated

    Raises
    ------
    LakeError
        If a table cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> markets(Lake.create(tempfile.mkdtemp())).height
    0
    """
    totals = []
    for table in tables_of(lake, None):
        if table.partitions:
            absent_columns = [
                pl.lit(None, pl.String).alias(name) for name in _NAMES if name not in table.partitions
            ]
            market_totals = (
                files_of(lake, table).with_columns(absent_columns).group_by(_NAMES).agg(*_TOTALS).sort(_NAMES)
            )
            totals.append(market_totals.select(pl.lit(table.name).alias("table"), pl.all()))
    return _with_facts(pl.concat(totals), lake.markets())


def _with_facts(totals: pl.DataFrame, markets: pl.DataFrame) -> pl.DataFrame:
    """Add the unit of the amounts in the files, by table or else by the market's contract, and the market's session."""
    size = pl.col("contract_size").cast(pl.String).str.strip_suffix(".0")
    units = markets.select(
        "exchange", "raw_symbol", "amount_units", "session", __contract=pl.format("{} {}", "contract", size)
    ).unique(["exchange", "raw_symbol"])
    unit_of_table = pl.col("amount_units").str.extract(pl.format("(?:^|,){}=([a-z]+)", "table"), 1)
    stated_unit = pl.when(unit_of_table != CountedUnit.CONTRACTS.value).then(unit_of_table)
    contract = pl.when(pl.col("table").is_in(_IN_CONTRACTS)).then("__contract")
    joined = totals.join(units, on=["exchange", "raw_symbol"], how="left", maintain_order="left")
    recorded_in = pl.coalesce(stated_unit, contract).alias("recorded_in")
    return joined.select(*totals.columns, recorded_in, "session")


def files_of(lake: LakeReader, table: Table) -> pl.DataFrame:
    """Return the files of a table from its log, with rows and times even if another tool did not note them.

    For such files it counts the rows of each market, and the first file of the market gets the numbers of all its
    files, so that sums are right.
    """
    delta = lake.delta(table.name)
    files = _delta.file_log(delta)
    has_time = "timestamp" in table.names
    needed_columns = ["rows", *(["first", "last"] if has_time else [])]
    is_unknown = pl.any_horizontal(pl.col(needed_columns).is_null()) & pl.col("rows").ne_missing(0)
    if files.filter(is_unknown).is_empty():
        return files
    key_columns = table.partitions or ["__all"]
    time = pl.col("timestamp") if has_time else pl.lit(None, pl.Int64)
    counts = (
        _delta.scanned(delta, table, lake.storage_options)
        .with_columns(__all=pl.lit(0))
        .group_by(key_columns)
        .agg(rows=pl.len().cast(pl.Int64), first=time.min(), last=time.max())
        .collect()
    )
    is_first = pl.int_range(pl.len()).over(key_columns) == 0
    return (
        files.drop("rows", "first", "last")
        .with_columns(__all=pl.lit(0))
        .join(counts, on=key_columns, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.when(is_first).then(name).alias(name) for name in ("rows", "first", "last"))
        .select(files.columns)
    )


def beat(lake: LakeReader, path: Path, facts: Mapping[str, Any] | None) -> None:
    """Write the heartbeat of a followed log, or delete it if there are no facts: its follower ended as it should.

    A heartbeat that cannot be written grows old, which is what it is for.
    """
    log, host = str(path.absolute()), socket.gethostname()
    name = f"{_HEARTBEATS}/{hashlib.sha256(f'{host}:{log}'.encode()).hexdigest()[:16]}.parquet"
    store = filesystem(lake.path, lake.storage_options)
    with suppress(OSError):
        if facts is None:
            store.delete_file(name)
        else:
            heartbeat = pl.DataFrame([{"log": log, "host": host, **facts}], schema=HEARTBEAT)
            pq.write_table(heartbeat.to_arrow(), f"{name}.new", filesystem=store)
            store.move(f"{name}.new", name)


def recorders(lake: LakeReader) -> pl.DataFrame:
    """Return the heartbeats of the logs that are followed into a lake, or that were until their follower died.

    A follower writes one every five seconds, and deletes it when it is stopped.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.

    Returns
    -------
    polars.DataFrame, one row per followed path, sorted by log
        - ``log``, ``host`` : path of the log, and the machine of its follower
        - ``beat`` : time of the heartbeat; if it is old, the follower hangs or was killed [UTC, us]
        - ``last_line`` : when the follower last found new text in the log, null if it never did [UTC, us]
        - ``lag`` : how long the lake has lacked lines of the log that the follower has read [s]
        - ``lines``, ``rows``, ``bad_lines`` : int64, how many lines it put in since it began, rows of them that were
          new, and broken lines that it left out
        - ``missing`` : int64, how often lines could not be found, see `tidytape.lake.record.follow`

    Raises
    ------
    OSError
        If the lake cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake import Lake
    >>> recorders(Lake.create(tempfile.mkdtemp())).height
    0
    """
    store = filesystem(lake.path, lake.storage_options)
    entries = store.get_file_info(pyarrow.fs.FileSelector(_HEARTBEATS, allow_not_found=True))
    heartbeats = [pl.DataFrame(schema=HEARTBEAT)]
    for entry in entries:
        # A follower may delete its heartbeat meanwhile, and a full disk leaves a broken file: the others count.
        with suppress(OSError, pa.ArrowException, pl.exceptions.PolarsError):
            if entry.base_name.endswith(".parquet"):
                rows = pq.read_table(store.open_input_file(entry.path))
                heartbeats.append(pl.DataFrame(rows).match_to_schema(HEARTBEAT))
    return pl.concat(heartbeats).sort("log", "host")
