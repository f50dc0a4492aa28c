"""Reports to funding rates: open, high, low and close of the rate and of the predicted rate per interval."""

from __future__ import annotations

from datetime import timedelta

import narwhals.stable.v2 as nw

from tidytape.aggregate._reports import by_bucket, number, ohlc
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.table import Rows, tabular
from tidytape.query import values
from tidytape.times import MILLISECOND, interval_of

_RATES = ("rate", "predicted_rate")
_OWN = "funding_interval"


@tabular([*INSTRUMENT, "timestamp", *_RATES, _OWN], sort=[*INSTRUMENT, "timestamp"])
def funding(
    reports: Rows,
    /,
    *,
    interval: str,
    funding_interval: int | str | timedelta = DEFAULT_FUNDING_INTERVAL_MS,
    unstated: int | str | timedelta | None = None,
) -> Rows:
    r"""First, highest, lowest and last funding rate reported in each interval, all over one funding interval.

    Each rate is first brought to the asked funding interval, linearly:

    .. math:: f = f_\mathrm{own} \cdot T_\mathrm{asked} / T_\mathrm{own}

    Nulls are passed over, the rate's and the predicted rate's each for itself. A rate whose own funding interval is
    unknown is left out, because no unit is guessed: name it with ``unstated`` if you know it. Of two reports of one
    time the smaller rate counts as the earlier, whatever the order of the rows.

    A predicted rate is the one expected at the *next* settlement: it was known in this interval, its settlement lies
    ahead.

    Parameters
    ----------
    reports : frame, n rows, in any order
        Columns ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns since the epoch], ``rate`` and ``predicted_rate``
        [1 per own funding interval; positive: longs pay shorts], ``funding_interval``, the own one [ns].
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    funding_interval : int, str or timedelta, > 0
        T asked: milliseconds, or ``"8h"``. [ms]
    unstated : int, str or timedelta, > 0, optional
        T own of reports whose funding interval is null or not positive. [ms]

    Returns
    -------
    frame, one row per instrument and bucket with a rate; of the same kind as ``reports``
        ``exchange``, ``raw_symbol``, ``timestamp`` int64, start of the bucket [ns], ``rate_open``, ``rate_high``,
        ``rate_low``, ``rate_close``, ``predicted_open``, ``predicted_high``, ``predicted_low``, ``predicted_close``
        [1 per asked funding interval], null where the bucket has none. Sorted by (exchange, raw_symbol, timestamp)
        where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an interval is unknown or no positive duration.

    Examples
    --------
    >>> import polars as pl
    >>> reports = pl.DataFrame(
    ...     {
    ...         "exchange": "BINANCE",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [10, 20],
    ...         "rate": [0.0001, 0.0002],
    ...         "predicted_rate": [None, 0.0003],
    ...         "funding_interval": 4 * 3_600_000_000_000,
    ...     }
    ... )
    >>> points = funding(reports, interval="1h", funding_interval="8h")
    >>> points.select("rate_open", "rate_close", "predicted_open").rows()
    [(0.0002, 0.0004, 0.0006)]
    """
    asked = _nanoseconds(funding_interval, "funding_interval")
    own = nw.when(nw.col(_OWN) > 0).then(nw.col(_OWN))
    if unstated is not None:
        own = own.fill_null(_nanoseconds(unstated, "unstated"))
    # The ratio first: of two equal intervals it is 1, and the rate stays what it is.
    rates = (
        reports.with_columns(number(name) for name in (_OWN, *_RATES))
        .with_columns((asked / own).alias(_OWN))
        .with_columns(nw.col(*_RATES) * nw.col(_OWN))
    )
    wanted = ohlc("rate", "rate_") | ohlc("predicted_rate", "predicted_")
    return by_bucket(rates, interval_of(interval), INSTRUMENT, wanted)


def _nanoseconds(duration: int | str | timedelta, parameter: str) -> float:
    return float(values.milliseconds(duration, parameter=parameter) * MILLISECOND)
