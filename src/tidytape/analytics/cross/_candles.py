"""Candles of several markets as one."""

from __future__ import annotations

from collections.abc import Iterable

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._series import MARKET, MIXED, TIMES, markets, twice
from tidytape.frames.joined import COVERAGE, IDLE, traded, with_coverage
from tidytape.frames.joined import consolidated as one_candle

_PRICES = ("open", "high", "low", "close")
_TIMES = ("first_timestamp", "last_timestamp")


def consolidated(frame: IntoFrameT, /, *, by: str | Iterable[str] | None = None) -> IntoFrameT:
    r"""One candle of the candles of all markets, as if they were one.

    Volumes are summed, high and low are the extremes, the open is of the market that traded first and the close of the
    one that traded last. Of markets that traded at the same moment, the first by (exchange, raw_symbol) opens and the
    last closes. Where it is not known when one of several markets traded first (last), as of recorded candles, the open
    (close) is null. A candle that only fills a gap counts where no market traded. A sum of which one volume is unknown
    is unknown; high and low are known all the same.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Candles of single markets: ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` and the times of
        the first and the last trade. Prices in terms of one quote; volumes in one unit, which is USD if it is to be
        what the service says of the group.
    by : str or iterable of str, optional
        Columns that tell one candle from another; the identity columns that are not of one market, such as ``coin``.

    Returns
    -------
    frame, one row per by and timestamp, sorted so, of the kind of ``frame``
        ``by``, ``timestamp``, ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [as in ``frame``],
        ``first_timestamp``, ``last_timestamp``, ``venues`` : int64, markets that traded, and ``coverage`` : float64,
        share of the candles whose volume is known [1]. Where a market is there twice, prices and volume are null, and
        the others are as if one of its candles were there, any that traded. Where ``amount_unit`` says several units
        in one series, volume and ``coverage`` are null, and the prices are known all the same.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``: it has several rows per market then. Or if prices or
        volumes are no numbers, or a time has no zone.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {
    ...         "exchange": ["A", "B"],
    ...         "raw_symbol": "X",
    ...         "timestamp": [0, 0],
    ...         "open": [10.0, 10.5],
    ...         "high": [12.0, 11.0],
    ...         "low": [9.0, 10.0],
    ...         "close": [11.0, 10.0],
    ...         "volume": [0.1, 0.2],
    ...         "first_timestamp": [5, 4],
    ...         "last_timestamp": [50, 40],
    ...     }
    ... )
    >>> consolidated(candles).select("open", "high", "low", "close", "volume", "venues").row(0)
    (10.5, 12.0, 9.0, 11.0, 0.3, 2)
    """
    results = ["venues", COVERAGE]
    table, rows, series = markets(frame, by, [*_PRICES, "volume"], times=_TIMES, results=results)
    keys, key = [*series, "timestamp"], [*series, *MARKET, "timestamp"]
    rows = traded(twice(rows, series, of_amounts=True), key).unique(subset=key, keep="any")
    rows = with_coverage(rows, ["volume"])
    is_again = (nw.col(TIMES) > 1).cast(nw.Float64())
    rows = rows.with_columns(venues=1.0 - nw.col(IDLE), __again=is_again.max().over(*keys))
    amounts = ["volume", "venues", "__again", MIXED, COVERAGE]
    candles = one_candle(rows, keys, [*_PRICES, *_TIMES, *amounts], members=MARKET)
    once, of_one_unit = nw.col("__again") == 0, nw.col(MIXED) == 0
    result = candles.select(
        *keys,
        *(nw.when(once).then(nw.col(name)).alias(name) for name in _PRICES),
        nw.when(once, of_one_unit).then(nw.col("volume")).alias("volume"),
        *_TIMES,
        nw.col("venues").cast(nw.Int64()),
        nw.when(of_one_unit).then(nw.col(COVERAGE)).alias(COVERAGE),
    )
    return table.closed(result, sort=keys)
