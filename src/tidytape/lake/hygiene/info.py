"""What is in a lake, by its logs."""

from __future__ import annotations

import polars as pl
from deltalake import DeltaTable

from tidytape.lake.amount_units import AmountUnit
from tidytape.lake.hygiene import _log
from tidytape.lake.hygiene._tables import tables
from tidytape.lake.store import Lake
from tidytape.lake.table import Table
from tidytape.lake.tables import (
    BOOK,
    CME_OPEN_INTEREST,
    LIQUIDATIONS,
    OPEN_INTEREST,
    RECORDED_CANDLES,
    TRADES,
)

__all__ = ["info", "instruments"]

_TIME = pl.Datetime("ns", "UTC")


def info(lake: Lake) -> pl.DataFrame:
    """Return what each table of a lake holds.

    Read from the tables' logs alone, so it takes no longer on a large lake. Only where a file was written by another
    tool that noted no counts or times, the table is read.

    Parameters
    ----------
    lake : Lake
        Which one.

    Returns
    -------
    polars.DataFrame, one row per table
        - ``table`` : name
        - ``rows``, ``files``, ``instruments`` : int64, how many; of a table without partitions ``instruments`` is null
        - ``bytes`` : int64, of the files of the newest version [bytes]
        - ``first``, ``last`` : time of the first and the last row, null where there is none [UTC, ns]
        - ``version`` : int64, of the table

    Raises
    ------
    LakeError
        If a table cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> info(Lake.create(tempfile.mkdtemp())).select("table", "rows", "files").row(0)
    ('trades', 0, 0)
    """
    return pl.concat(_of_table(lake, table) for table in tables(lake, None))


def instruments(lake: Lake) -> pl.DataFrame:
    """Return what each table of a lake holds of each instrument.

    Parameters
    ----------
    lake : Lake
        Which one.

    Returns
    -------
    polars.DataFrame, one row per table and instrument, sorted by them
        - ``table`` : name
        - ``exchange``, ``raw_symbol`` : the instrument; of option quotes ``exchange`` and ``coin``; null where the
          table does not tell by it
        - ``rows``, ``files`` : int64, how many
        - ``bytes`` : int64 [bytes]
        - ``first``, ``last`` : time of the first and the last row [UTC, ns]
        - ``recorded_in`` : what the amounts of the files counted before they became coins, as it was said or known when
          they went in: ``coin``, ``quote``, or the contract, e.g. ``INVERSE 100``; null where nothing was said

    Raises
    ------
    LakeError
        If a table cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> instruments(Lake.create(tempfile.mkdtemp())).height
    0
    """
    names = ("exchange", "raw_symbol", "coin")
    found = []
    for table in tables(lake, None):
        if not table.partitions:
            continue
        files = _whole(lake, table)[1]
        found.append(
            files.with_columns(
                pl.lit(None, pl.String).alias(name) for name in names if name not in files.columns
            )
            .group_by(names)
            .agg(*_TOTALS)
            .select(pl.lit(table.name).alias("table"), *names, *_TOTAL_NAMES)
            .sort(names)
        )
    return _with_units(pl.concat(found), lake.markets())


def _with_units(found: pl.DataFrame, markets: pl.DataFrame) -> pl.DataFrame:
    """Add what the amounts of the files counted: by table, else by the market's contract."""
    said = markets.select(
        "exchange",
        "raw_symbol",
        "amount_units",
        __contract=pl.format(
            "{} {}", "contract", pl.col("contract_size").cast(pl.String).str.strip_suffix(".0")
        ),
    ).unique(["exchange", "raw_symbol"])
    unit = pl.format("(?:^|,){}=([a-z]+)", "table")
    by_table = pl.col("amount_units").str.extract(unit, 1)
    contract = pl.when(pl.col("table").is_in(_CONTRACTED)).then("__contract")
    other = pl.when(by_table != AmountUnit.CONTRACTS.value).then(by_table)
    recorded_in = pl.coalesce(other, contract)
    joined = found.join(said, on=["exchange", "raw_symbol"], how="left", maintain_order="left")
    return joined.with_columns(recorded_in=recorded_in).drop("amount_units", "__contract")


_CONTRACTED = tuple(
    table.name for table in (TRADES, BOOK, RECORDED_CANDLES, OPEN_INTEREST, LIQUIDATIONS, CME_OPEN_INTEREST)
)
_TOTALS = (
    pl.col("rows").sum(),
    pl.len().cast(pl.Int64).alias("files"),
    pl.col("bytes").sum(),
    pl.col("first").min().cast(_TIME),
    pl.col("last").max().cast(_TIME),
)
_TOTAL_NAMES = ("rows", "files", "bytes", "first", "last")


def _of_table(lake: Lake, table: Table) -> pl.DataFrame:
    delta, files = _whole(lake, table)
    parts = files.select(table.partitions).n_unique() if table.partitions else None
    return files.select(*_TOTALS).select(
        pl.lit(table.name).alias("table"),
        "rows",
        "files",
        pl.lit(parts, pl.Int64).alias("instruments"),
        "bytes",
        "first",
        "last",
        pl.lit(delta.version(), pl.Int64).alias("version"),
    )


def _whole(lake: Lake, table: Table) -> tuple[DeltaTable, pl.DataFrame]:
    """The table and its files, with counts and times of all of them."""
    delta = _log.opened(lake, table)
    files = _log.files(delta, table)
    has_time = "timestamp" in table.names
    needed = ["rows", *(["first", "last"] if has_time else [])]
    unknown = files.filter(pl.any_horizontal(pl.col(needed).is_null()) & pl.col("rows").ne_missing(0))
    if unknown.is_empty():
        return delta, files
    time = pl.col("timestamp") if has_time else pl.lit(None, pl.Int64)
    counted = (
        _log.scanned(lake, delta, table)
        .group_by(table.partitions or pl.lit(0).alias("__all"))
        .agg(rows=pl.len().cast(pl.Int64), first=time.min(), last=time.max())
        .collect()
    )
    return delta, _counted(files, counted, table)


def _counted(files: pl.DataFrame, counted: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Files with the counts and times of their instrument on the first file of each, so that sums are right."""
    key = list(table.partitions)
    bare = files.drop("rows", "first", "last")
    first_of = bare.with_columns(__place=pl.int_range(pl.len()).over(key) if key else pl.int_range(pl.len()))
    joined = (
        first_of.join(counted, on=key, how="left", nulls_equal=True)
        if key
        else first_of.join(counted.drop("__all"), how="cross")
    )
    only = pl.col("__place") == 0
    return joined.with_columns(
        pl.when(only).then(name).alias(name) for name in ("rows", "first", "last")
    ).select(files.columns)
