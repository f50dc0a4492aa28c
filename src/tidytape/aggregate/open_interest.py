"""Reports to open interest per interval: of a market, and of regulated futures with value and price."""

from __future__ import annotations

from tidytape.aggregate._reports import by_bucket, number, ohlc
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.table import Rows, tabular
from tidytape.times import interval_of


@tabular([*INSTRUMENT, "timestamp", "amount"], sort=[*INSTRUMENT, "timestamp"])
def open_interest(reports: Rows, /, *, interval: str) -> Rows:
    """First, highest, lowest and last open interest reported in each interval.

    Only what was reported inside an interval counts: nothing is carried into it, and an interval without a report has
    no row. Of two reports of one time the smaller counts as the earlier, whatever the order of the rows. An amount that
    is null, not a number or infinite is no report.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch], ``amount`` [coin].
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC,
        weeks to Monday.

    Returns
    -------
    frame, one row per instrument and bucket with a report; of the same kind as ``reports``
        ``exchange``, ``raw_symbol``, ``timestamp`` int64, start of the bucket [ns], ``open``, ``high``, ``low``,
        ``close`` [coin]. Sorted by (exchange, raw_symbol, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    Examples
    --------
    >>> import polars as pl
    >>> reports = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [30, 10, 20],
    ...         "amount": [81_000.0, 80_000.0, 79_500.5],
    ...     }
    ... )
    >>> open_interest(reports, interval="1m").select("open", "high", "low", "close").rows()
    [(80000.0, 81000.0, 79500.5, 81000.0)]
    """
    numbers = reports.with_columns(number("amount"))
    return by_bucket(numbers, interval_of(interval), INSTRUMENT, ohlc("amount"))


_WANTED = ohlc("amount") | ohlc("usd_amount", "value_") | ohlc("price", "price_")
_REPORTED = ("amount", "usd_amount", "price")


@tabular([*INSTRUMENT, "timestamp", *_REPORTED], sort=[*INSTRUMENT, "timestamp"])
def cme_open_interest(reports: Rows, /, *, interval: str) -> Rows:
    """First, highest, lowest and last open interest, its value and the price reported in each interval.

    Each of the three passes over its own nulls. Nothing is carried into an interval, and one without a report has no
    row. Of two reports of one time the smaller value counts as the earlier, whatever the order of the rows.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch], ``amount`` [coin],
        ``usd_amount`` [USD], ``price`` [quote per coin].
    interval : str
        Name or alias of an interval, e.g. ``"DAY"`` or ``"1d"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.

    Returns
    -------
    frame, one row per instrument and bucket with a report; of the same kind as ``reports``
        ``exchange``, ``raw_symbol``, ``timestamp`` int64, start of the bucket [ns], ``open``, ``high``, ``low``,
        ``close`` [coin], ``value_open``, ``value_high``, ``value_low``, ``value_close`` [USD], ``price_open``,
        ``price_high``, ``price_low``, ``price_close`` [quote per coin], null where the bucket has none. Sorted by
        (exchange, raw_symbol, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    Examples
    --------
    >>> import polars as pl
    >>> reports = pl.DataFrame(
    ...     {
    ...         "exchange": "CME",
    ...         "raw_symbol": "BTCZ4",
    ...         "timestamp": [10, 20],
    ...         "amount": [150_000.0, 151_000.0],
    ...         "usd_amount": [9.0e9, None],
    ...         "price": [60_000.0, 60_500.0],
    ...     }
    ... )
    >>> cme_open_interest(reports, interval="1d").select("close", "value_close", "price_close").rows()
    [(151000.0, 9000000000.0, 60500.0)]
    """
    numbers = reports.with_columns(number(name) for name in _REPORTED)
    return by_bucket(numbers, interval_of(interval), INSTRUMENT, _WANTED)
