"""Reports to open interest: open, high, low and close per interval."""

from __future__ import annotations

from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._reports import by_bucket, number, ohlc
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.table import Table
from tidytape.times import interval_of

__all__ = ["open_interest"]


def open_interest(reports: IntoFrameT, /, *, interval: str) -> IntoFrameT:
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
    bucket = interval_of(interval)
    table = Table.opened(reports, [*INSTRUMENT, "amount"], times=["timestamp"])
    points = by_bucket(table.rows.with_columns(number("amount")), bucket, INSTRUMENT, ohlc("amount"))
    return table.closed(points, sort=[*INSTRUMENT, "timestamp"])
