"""Candles in the form that backtesting libraries take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import one_series
from tidytape.analytics.pit._known import WHEN, known
from tidytape.errors import QueryError
from tidytape.frames._door import as_list
from tidytape.frames._table import IDENTITY, OpenTable

if TYPE_CHECKING:
    import pandas as pd


_CANDLE = ("open", "high", "low", "close", "volume")


def to_backtesting(candles: IntoFrame, /, *, columns: str | Iterable[str] = ()) -> pd.DataFrame:
    """Convert candles of one series to the data of backtesting.py: ``Backtest(to_backtesting(candles), Strategy)``.

    Parameters
    ----------
    candles : frame, n rows, key (timestamp), any order
        Schema TRADE_SIDE_AGNOSTIC_AGG of one series. Uses ``timestamp``, and ``open``, ``high``, ``low``, ``close``
        [quote per coin] and ``volume`` [coin; USD if fetched in USD].
    columns : str or iterable of str
        More columns to keep unchanged. A strategy reads them as ``self.data.<name>`` in its ``next``.

    Returns
    -------
    pandas.DataFrame, n rows
        Columns ``Open``, ``High``, ``Low``, ``Close``, ``Volume``, float64, and ``columns``. The index is the start of
        the candle, ascending, in UTC.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several series, or several rows at one time, or ``columns`` repeats a name or has a name of the
        result.

    Notes
    -----
    The time of a row is the start of its candle. The library calls ``next`` when the candle is complete, and fills the
    orders of that call at the open of the next row, unless ``trade_on_close=True``. So nothing looks ahead. To give a
    strategy other data, join them to the candles with `asof_join` on the candles' ``known_at``, and name them in
    ``columns``.

    The candle of an interval in progress will still change: leave it out with ``as_of(candles, now)``.

    References
    ----------
    .. [1] backtesting.py, "API reference", class ``Backtest``: the columns and the index of ``data``.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (12, 13)],
    ...     "open": [1.0, 2.0], "high": [3.0, 3.0], "low": [1.0, 2.0], "close": [2.0, 3.0], "volume": [9.0, 8.0],
    ... })
    >>> to_backtesting(candles).loc["2024-08-08 13:00", "Close"].item()
    3.0
    """
    names = {name: name.title() for name in _CANDLE}
    more_columns = as_list(columns)
    if more_columns:
        arguments.columns("columns", more_columns, reserved=("timestamp", *names, *names.values()))
    table = OpenTable.of(candles, more_columns, times=["timestamp"], numbers=_CANDLE)
    one_series(table, table.series_columns())
    return _by_time(table.rows, more=more_columns).rename(columns=names)


def to_vectorbt(
    candles: IntoFrame, /, *, by: str | Iterable[str] = "raw_symbol", columns: str | Iterable[str] = ()
) -> pd.DataFrame:
    """Convert candles of several series to vectorbt's wide form: ``Portfolio.from_signals(frame["Close"], …)``.

    Parameters
    ----------
    candles : frame, n rows, key (by, timestamp), any order
        Schema TRADE_SIDE_AGNOSTIC_AGG. Uses ``timestamp``, and ``open``, ``high``, ``low``, ``close`` [quote per coin]
        and ``volume`` [coin; USD if fetched in USD].
    by : str or iterable of str
        Columns that tell series apart, at least one.
    columns : str or iterable of str
        More columns to keep unchanged: ``frame["rate_close"]`` has a column per series, as ``frame["Close"]`` does.

    Returns
    -------
    pandas.DataFrame, one row per time
        Columns ``(field, *by)`` with the fields ``Open``, ``High``, ``Low``, ``Close``, ``Volume`` and ``columns``:
        ``frame["Close"]`` has a column per series. Candles are float64, and NaN where a series has no candle. The index
        is the start of the candle, ascending, in UTC.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a series has several rows at one time, as if ``by`` does not tell two exchanges apart, or ``columns`` repeats
        a name or has a name of the result.

    Notes
    -----
    The time of a row is the start of its candle, but the row holds the close, which is known one interval later.
    vectorbt fills a signal at the price of the same row. So move a signal that is computed from a row's close to the
    next row, ``signal.shift(1)``, and fill it at ``frame["Open"]``; otherwise it trades at a price of the past.

    The candle of an interval in progress will still change: leave it out with ``as_of(candles, now)``.

    References
    ----------
    .. [1] vectorbt, "API", ``Portfolio.from_signals``: a column per series.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame({
    ...     "raw_symbol": ["BTCUSDT", "ETHUSDT"], "timestamp": datetime(2024, 8, 8, tzinfo=UTC),
    ...     "open": 1.0, "high": 2.0, "low": 1.0, "close": [1.5, 2.0], "volume": 9.0,
    ... })
    >>> to_vectorbt(candles)["Close"].iloc[0].to_dict()
    {'BTCUSDT': 1.5, 'ETHUSDT': 2.0}
    """
    names = {name: name.title() for name in _CANDLE}
    more_columns = as_list(columns)
    if more_columns:
        arguments.columns(
            "columns", more_columns, reserved=("timestamp", *names, *names.values(), *as_list(by))
        )
    table = OpenTable.of(candles, more_columns, times=["timestamp"], numbers=_CANDLE)
    series_columns = table.series_columns(by, without=["timestamp", *_CANDLE, *more_columns])
    if not series_columns:
        raise QueryError("by", got=by, expected="at least one column")
    others = [name for name in IDENTITY if name in table.names and name not in (*series_columns, "interval")]
    hint = f"tell the series apart, by={[*series_columns, *others]}" if others else None
    rows = _by_time(table.rows, series_columns, more=more_columns, hint=hint)
    wide_candles = cast("pd.DataFrame", rows.rename(columns=names).unstack(series_columns))
    return wide_candles.rename_axis(columns=["field", *series_columns])


def to_nautilus(candles: IntoFrame, /, *, interval: str | None = None) -> pd.DataFrame:
    """Convert candles of one series to the data of NautilusTrader's ``BarDataWrangler(…).process``.

    Parameters
    ----------
    candles : frame, n rows, key (timestamp), any order
        Schema TRADE_SIDE_AGNOSTIC_AGG of one series. Uses ``timestamp``, and ``open``, ``high``, ``low``, ``close``
        [quote per coin] and ``volume`` [coin].
    interval : str, optional
        Name or alias of the interval; by default the column ``interval`` of each row.

    Returns
    -------
    pandas.DataFrame, n rows
        Columns ``open``, ``high``, ``low``, ``close``, ``volume``, float64, in this order. The index ``timestamp`` is
        the time at which each candle is **complete**, ascending, in UTC.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has several series, several rows at one time, or a candle with an unknown interval.

    Notes
    -----
    NautilusTrader shows a bar to a strategy at the bar's ``ts_init``, which must be the close of the bar [1]_. The
    wrangler takes ``ts_init`` from the index. So the index is the close, and ``ts_init_delta`` stays 0: with the start
    of the bar, a strategy would see it one interval too early.

    References
    ----------
    .. [1] NautilusTrader, "Bar-based execution", "Bar timestamp convention".

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, 12, tzinfo=UTC)], "interval": "HOUR",
    ...     "open": 1.0, "high": 2.0, "low": 1.0, "close": 1.5, "volume": 9.0,
    ... })
    >>> to_nautilus(candles).index[0].isoformat()
    '2024-08-08T13:00:00+00:00'
    """
    table = OpenTable.of(candles, ["timestamp"], numbers=_CANDLE)
    table, rows, _ = known(table, rule="interval", interval=interval)
    one_series(table, table.series_columns())
    return _by_time(rows.select(nw.col(*_CANDLE).cast(nw.Float64), timestamp=nw.col(WHEN)))


def _by_time(
    rows: nw.LazyFrame[Any],
    series_columns: Sequence[str] = (),
    *,
    more: Iterable[str] = (),
    hint: str | None = None,
) -> pd.DataFrame:
    """Return candles as a pandas frame indexed by time and series, ascending, with ``more`` columns after the prices.

    Raises
    ------
    QueryError
        If a time is null, or a series has it twice.
    """
    key = ["timestamp", *series_columns]
    candles = rows.select(*key, *_CANDLE, *more).sort(*key).collect()
    if candles.select(*key).is_duplicated().any() or candles["timestamp"].is_null().any():
        raise QueryError(
            "candles", got="a time twice, or none", expected="each time once in a series", hint=hint
        )
    times = nw.col("timestamp").cast(nw.Datetime("ns", "UTC"))
    # Categories become text: a caller could add no column to a pandas frame whose column names are categories.
    categories = [name for name in series_columns if candles.schema[name] in (nw.Categorical, nw.Enum)]
    return (
        candles.with_columns(times, *[nw.col(name).cast(nw.String) for name in categories])
        .to_pandas()
        .set_index(key)
    )
