"""Reports of a state per interval: open interest, also of CME futures, and funding rates; and sums of last reports.

A state (open interest, a funding rate, a market cap) holds until it is reported again. A null, NaN or infinite value is
no report. Two reports at one time are ordered by value, the smaller first, so that results never depend on the order of
the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.frames._door import BUCKET, MARKET
from tidytape.frames._rows import first, last
from tidytape.frames._table import Rows, tabular
from tidytape.frames._times import bucket_start
from tidytape.query import _values as values
from tidytape.schema import schema_of
from tidytape.times import DAY, MILLISECOND, AnyInterval, frame_interval

CARRY: Final = DAY
"""How long a report holds if no other follows. [ns]"""

_NAME = "__name"
_VALUE = "__value"
_MOST: Final = 9e15  # floats above it skip integers; the sum of 1,000 such values fits into int64
_PARTS: Final = 1e12  # sums count in units of 1e-12


def number(name: str) -> nw.Expr:
    """Return a column as float64, null where it is not finite."""
    value = nw.col(name).cast(nw.Float64())
    return nw.when(value.is_finite()).then(value).alias(name)


def ohlc(column: str, prefix: str = "") -> dict[str, tuple[str, str]]:
    """Return the open, high, low and close of a column, in the form that `by_bucket` takes.

    Examples
    --------
    >>> ohlc("rate", "rate_")["rate_open"]
    ('rate', 'first')
    """
    picks = {"open": "first", "high": "max", "low": "min", "close": "last"}
    return {prefix + name: (column, pick) for name, pick in picks.items()}


def by_bucket(
    frame: Rows,
    interval: AnyInterval,
    groups: Sequence[str],
    results: Mapping[str, tuple[str, str]],
) -> Rows:
    """Return the first, largest, smallest or last report of each group and bucket.

    Parameters
    ----------
    frame : frame, n rows, in any order
        The columns of ``groups``, ``timestamp`` int64 [ns since the epoch], and the reported ones, all of one dtype.
    interval : AnyInterval
        Length of a bucket.
    groups : sequence of str
        Columns that name the object of a report, such as a market.
    results : mapping of str to (str, str)
        For each new column, the column it comes from, and first, max, min or last. Nulls are skipped.

    Returns
    -------
    frame, one row per group and bucket where some column is not null, in no order
        ``groups``, ``timestamp`` int64, start of the bucket [ns], and the new columns.
    """
    sources = list(dict.fromkeys(source for source, _ in results.values()))
    picks = sorted({pick for _, pick in results.values()})
    keys = [*groups, BUCKET]
    rows = frame.with_columns(bucket_start(nw.col("timestamp"), interval).alias(BUCKET))
    # Make the frame long, so that each column skips its own nulls. Narwhals' `unpivot` does this, but runs on DuckDB's
    # default connection, while the frame may belong to another.
    cells = [
        rows.filter(~nw.col(source).is_null()).select(
            *keys, "timestamp", nw.lit(source).alias(_NAME), nw.col(source).alias(_VALUE)
        )
        for source in sources
    ]
    value, order = nw.col(_VALUE), ("timestamp", _VALUE)
    aggregations = {
        "first": first(rows, _VALUE, order),
        "max": value.max(),
        "min": value.min(),
        "last": last(rows, _VALUE, order),
    }
    return (
        nw.concat(cells)
        .group_by(*keys, _NAME)
        .agg(aggregations[pick].alias(pick) for pick in picks)
        .with_columns(
            nw.when(nw.col(_NAME) == source).then(nw.col(pick)).alias(name)
            for name, (source, pick) in results.items()
        )
        .group_by(*keys)
        .agg(nw.col(name).max() for name in results)
        .select(*groups, nw.col(BUCKET).alias("timestamp"), *results)
    )


def latest(frame: Rows, interval: AnyInterval, keys: Sequence[str], value: str) -> Rows:
    """Return the last report of each key and bucket, at the time of the report.

    Parameters
    ----------
    frame : frame, n rows, in any order
        ``keys``, ``timestamp`` int64 [ns since the epoch] and the ``value`` float64, whose nulls are skipped.
    interval : AnyInterval
        Length of a bucket.
    keys : sequence of str
        Columns that name the object of a report, such as a market.
    value : str
        The column that is reported.

    Returns
    -------
    frame, one row per key and bucket with a report, in no order
        ``keys``, ``timestamp`` int64, of the report [ns], and ``value``.
    """
    return (
        frame.filter(nw.col(value).abs() < _MOST)
        .with_columns(bucket_start(nw.col("timestamp"), interval).alias(BUCKET))
        .group_by(*keys, BUCKET)
        .agg(last(frame, value, ("timestamp", value)), nw.col("timestamp").max())
        .select(*keys, "timestamp", value)
    )


def known_sum(
    reports: Rows,
    moments: Rows,
    *,
    all_reports: Rows,
    groups: Sequence[str],
    members: Sequence[str],
    value: str,
    until: nw.Expr,
) -> Rows:
    """Return, at given moments of each group, the sum of the last reports of its members.

    Each report adds its value to the sum at its own time; the value is subtracted when the member reports again or the
    report lapses. So the sum at a moment is a running sum. Sums count in integer units of 1e-12, so they are exact, and
    subtracting leaves no rounding error behind. The sum is unknown if a member has a report that still holds, but no
    value that still holds.

    Parameters
    ----------
    reports : frame, n rows, in any order
        ``groups``, ``members``, ``timestamp`` int64 [ns], one row per member and time, and the ``value``, below 9e15.
    moments : frame, m rows, in any order
        ``groups`` and ``timestamp`` int64 [ns], each once.
    all_reports : frame, k rows, in any order
        Every report, with or without a value: ``groups``, ``members`` and ``timestamp``, one row per member and time.
    groups, members : sequence of str
        Columns that name a group, and a member inside it.
    value : str
        The column to sum.
    until : expression, int64
        When a report lapses if no other follows: the first time at which it no longer holds. [ns]

    Returns
    -------
    frame, m rows, in no order
        ``groups``, ``timestamp``, ``value``, the sum, null unless all members with a report have a value, and ``count``
        float64, how many members have a value.
    """
    zero, unit = nw.lit(0, nw.Int64()), nw.lit(1, nw.Int64())
    integer, key = nw.col(value).floor(), [*groups, "timestamp"]
    amounts = {
        "whole": integer.cast(nw.Int64()),
        "parts": ((nw.col(value) - integer) * _PARTS + 0.5).floor().cast(nw.Int64()),
        "count": unit,
        "seen": zero,
    }
    # Each member has two kinds of rows: ``count`` is 1 while a value of it holds, ``seen`` is 1 while any report of it
    # holds.
    states = nw.concat(
        [
            reports.select(*key, *members, **amounts),
            all_reports.select(*key, *members, **dict.fromkeys(amounts, zero) | {"seen": unit}),
        ]
    )
    next_time = nw.col("timestamp").shift(-1).over(*groups, *members, "count", order_by="timestamp")
    states = states.with_columns(nw.min_horizontal(until, next_time).alias("until"))
    changes = nw.concat(
        [
            moments.select(*key, **dict.fromkeys(amounts, zero), asked=unit),
            states.select(*key, *amounts, asked=zero),
            states.select(
                *groups,
                nw.col("until").alias("timestamp"),
                *(-nw.col(name) for name in amounts),
                asked=zero,
            ),
        ]
    )
    sums = changes.with_columns(nw.col(*amounts).cum_sum().over(*groups, order_by=["timestamp", "asked"]))
    is_known = (nw.col("count") > 0) & (nw.col("count") == nw.col("seen"))
    # Divide by a column: for a constant polars multiplies by the rounded reciprocal.
    total = nw.col("whole") + nw.col("parts") / (nw.col("count") * 0.0 + _PARTS)
    return (
        sums.filter(nw.col("asked") == 1)
        .with_columns(nw.col(*amounts).cast(nw.Float64()))
        .select(*key, nw.when(is_known).then(total).alias(value), "count")
    )


@tabular([*MARKET, "timestamp", "amount"], sort=[*MARKET, "timestamp"])
def open_interest(reports: Rows, /, *, interval: str) -> Rows:
    """First, highest, lowest and last open interest reported in each interval.

    Only reports inside an interval count: nothing is carried into it, and an interval without a report has no row. If
    two reports have the same time, the smaller counts as the earlier, whatever the order of the rows. An amount that is
    null, NaN or infinite is no report.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or with a zone, ``amount``
        [coin].
    interval : str
        Name or alias of an interval, e.g. ``"MINUTE"`` or ``"1m"``. Buckets are aligned to the Unix epoch in UTC,
        weeks to Monday.

    Returns
    -------
    frame, one row per market and bucket with a report; of the same kind as ``reports``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``reports``, start of the bucket, ``open``, ``high``, ``low``,
        ``close`` [coin]. Sorted by (exchange, raw_symbol, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> reports = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 30, start + 10, start + 20],
    ...         "amount": [81_000.0, 80_000.0, 79_500.5],
    ...     }
    ... )
    >>> open_interest(reports, interval="1m").select("open", "high", "low", "close").rows()
    [(80000.0, 81000.0, 79500.5, 81000.0)]
    """
    return by_bucket(reports.with_columns(number("amount")), frame_interval(interval), MARKET, ohlc("amount"))


_REPORTED = ("amount", "usd_amount", "price")


@tabular(
    [*MARKET, "timestamp", *_REPORTED],
    sort=[*MARKET, "timestamp"],
    main=schema_of("CME_OPEN_INTEREST_AGG").names[-4:],
)
def cme_open_interest(reports: Rows, /, *, interval: str) -> Rows:
    """First, highest, lowest and last open interest, its value in USD and the price, as reported in each interval.

    Nulls are ignored, separately for each of the three. Nothing is carried into an interval, and an interval without a
    report has no row. If two reports have the same time, the smaller value counts as the earlier, whatever the order of
    the rows.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or with a zone, ``amount``
        [coin], ``usd_amount`` [USD], ``price`` [quote per coin].
    interval : str
        Name or alias of an interval, e.g. ``"DAY"`` or ``"1d"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.

    Returns
    -------
    frame, one row per market and bucket with a report; of the same kind as ``reports``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``reports``, start of the bucket, ``open``, ``high``, ``low``,
        ``close`` [coin], ``value_open``, ``value_high``, ``value_low``, ``value_close`` [USD], ``price_open``,
        ``price_high``, ``price_low``, ``price_close`` [quote per coin], null where the bucket has none. Sorted by
        (exchange, raw_symbol, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> reports = pl.DataFrame(
    ...     {
    ...         "exchange": "CME",
    ...         "raw_symbol": "BTCZ4",
    ...         "timestamp": [start + 10, start + 20],
    ...         "amount": [150_000.0, 151_000.0],
    ...         "usd_amount": [9.0e9, None],
    ...         "price": [60_000.0, 60_500.0],
    ...     }
    ... )
    >>> cme_open_interest(reports, interval="1d").select("close", "value_close", "price_close").rows()
    [(151000.0, 9000000000.0, 60500.0)]
    """
    numbers = reports.with_columns(number(name) for name in _REPORTED)
    return by_bucket(
        numbers,
        frame_interval(interval),
        MARKET,
        ohlc("amount") | ohlc("usd_amount", "value_") | ohlc("price", "price_"),
    )


_INTERVAL: Final = "funding_interval"


@tabular(
    [*MARKET, "timestamp", "rate", "predicted_rate", _INTERVAL],
    sort=[*MARKET, "timestamp"],
    main=schema_of("FUNDING_RATE_AGG").names[-4:],
)
def funding(
    reports: Rows,
    /,
    *,
    interval: str,
    funding_interval: int | str | timedelta = DEFAULT_FUNDING_INTERVAL_MS,
    unstated: int | str | timedelta | None = None,
) -> Rows:
    r"""Return the first, highest, lowest and last funding rate of each interval, scaled to one common funding interval.

    Each rate is first scaled linearly to the funding interval that the caller asks for:

    .. math:: f = f_\mathrm{own} \cdot T_\mathrm{asked} / T_\mathrm{own}

    Nulls are ignored, separately for the rate and for the predicted rate. A rate whose own funding interval is unknown
    is left out, because no unit is guessed: name it with ``unstated`` if you know it. If two reports have the same
    time, the smaller rate counts as the earlier one, whatever the order of the rows.

    A predicted rate is the rate expected at the *next* settlement: the prediction was known in this interval, but the
    settlement lies ahead.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch] or with a zone, ``rate`` and
        ``predicted_rate`` [1 per own funding interval; positive: longs pay shorts], and ``funding_interval``, the own
        funding interval [ns].
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    funding_interval : int, str or timedelta, > 0
        The funding interval asked for, in milliseconds, or as ``"8h"``. [ms]
    unstated : int, str or timedelta, > 0, optional
        The own funding interval of reports in which it is null or not positive. [ms]

    Returns
    -------
    frame, one row per market and bucket with a rate; of the same kind as ``reports``
        ``exchange``, ``raw_symbol``, ``timestamp`` as in ``reports``, start of the bucket, ``rate_open``,
        ``rate_high``, ``rate_low``, ``rate_close``, ``predicted_open``, ``predicted_high``, ``predicted_low``,
        ``predicted_close`` [1 per asked funding interval], null where the bucket has none. Sorted by (exchange,
        raw_symbol, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an interval is unknown or not a positive duration.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> reports = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + 10, start + 20],
    ...         "rate": [0.0001, 0.0002],
    ...         "predicted_rate": [None, 0.0003],
    ...         "funding_interval": 4 * 3_600_000_000_000,
    ...     }
    ... )
    >>> points = funding(reports, interval="1h", funding_interval="8h")
    >>> points.select("rate_open", "rate_close", "predicted_open").rows()
    [(0.0002, 0.0004, 0.0006)]
    """
    length = values.milliseconds(funding_interval, parameter="funding_interval") * MILLISECOND
    rate_interval = nw.when(nw.col(_INTERVAL) > 0).then(nw.col(_INTERVAL))
    if unstated is not None:
        rate_interval = rate_interval.fill_null(
            float(values.milliseconds(unstated, parameter="unstated") * MILLISECOND)
        )
    # Divide the intervals first: if they are equal the ratio is exactly 1, and the rate does not change.
    rates = (
        reports.with_columns(number(name) for name in (_INTERVAL, "rate", "predicted_rate"))
        .with_columns((float(length) / rate_interval).alias(_INTERVAL))
        .with_columns(nw.col("rate", "predicted_rate") * nw.col(_INTERVAL))
    )
    return by_bucket(
        rates, frame_interval(interval), MARKET, ohlc("rate", "rate_") | ohlc("predicted_rate", "predicted_")
    )
