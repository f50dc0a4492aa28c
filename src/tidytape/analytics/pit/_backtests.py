"""Candles as the frames that libraries of backtests take."""

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
    """Candles of one series as the data of backtesting.py: ``Backtest(to_backtesting(candles), Strategy)``.

    Parameters
    ----------
    candles : frame, n rows, key (timestamp), any order
        Schema TRADE_SIDE_AGNOSTIC_AGG of one series. Uses ``timestamp``, and ``open``, ``high``, ``low``, ``close``
        [quote per coin] and ``volume`` [coin; USD if so asked].
    columns : str or iterable of str
        More columns to keep, as they are: a strategy sees them as ``self.data.<name>``, at the row's ``next``.

    Returns
    -------
    pandas.DataFrame, n rows
        Columns ``Open``, ``High``, ``Low``, ``Close``, ``Volume``, float64, by time of opening, ascending, in UTC; and
        ``columns``. Needs the extra ``pandas``, of any engine's frame.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds more than one series, or a time twice, or ``columns`` has a name twice or one of the result.

    Notes
    -----
    A row is stamped with the start of its candle, and the library calls ``next`` when the candle is complete: orders of
    that call are filled at the open of the next row, unless ``trade_on_close=True``. So nothing looks ahead. What else
    a strategy is to see goes in by `asof_join` of the candles' ``known_at`` with the facts, and from there by
    ``columns``.

    The candle of an interval in progress is not what it will be: leave it out with ``as_of(candles, now)``.

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
    more = as_list(columns)
    if more:
        arguments.columns("columns", more, reserved=("timestamp", *names, *names.values()))
    table = OpenTable.of(candles, more, times=["timestamp"], numbers=_CANDLE)
    one_series(table, table.series())
    return _by_time(table.rows, more=more).rename(columns=names)


def to_vectorbt(
    candles: IntoFrame, /, *, by: str | Iterable[str] = "raw_symbol", columns: str | Iterable[str] = ()
) -> pd.DataFrame:
    """Candles of several series side by side, as vectorbt takes them: ``Portfolio.from_signals(frame["Close"], …)``.

    Parameters
    ----------
    candles : frame, n rows, key (by, timestamp), any order
        Schema TRADE_SIDE_AGNOSTIC_AGG. Uses ``timestamp``, and ``open``, ``high``, ``low``, ``close`` [quote per coin]
        and ``volume`` [coin; USD if so asked].
    by : str or iterable of str
        The columns that tell series apart, one of them at least.
    columns : str or iterable of str
        More columns to keep, as they are: ``frame["rate_close"]`` has a column per series, as ``frame["Close"]`` does.

    Returns
    -------
    pandas.DataFrame, one row per time
        Columns ``(field, *by)`` with the fields ``Open``, ``High``, ``Low``, ``Close``, ``Volume`` and ``columns``:
        ``frame["Close"]`` has a column per series. Candles are float64; NaN where a series has no candle; by time of
        opening, ascending, in UTC. Needs the extra ``pandas``, of any engine's frame.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a series has a time twice, as two exchanges' of one symbol have, or ``columns`` has a name twice or one of
        the result.

    Notes
    -----
    A row is stamped with the start of its candle and holds its close, which is known an interval later. vectorbt fills
    a signal at the price of the same row: a signal made of a row's close belongs in the next row, ``signal.shift(1)``,
    filled at ``frame["Open"]``, or what is bought is bought at a price that was not known yet to be had.

    The candle of an interval in progress is not what it will be: leave it out with ``as_of(candles, now)``.

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
    more = as_list(columns)
    if more:
        arguments.columns("columns", more, reserved=("timestamp", *names, *names.values(), *as_list(by)))
    table = OpenTable.of(candles, more, times=["timestamp"], numbers=_CANDLE)
    series = table.series(by, without=["timestamp", *_CANDLE, *more])
    if not series:
        raise QueryError("by", got=by, expected="at least one column")
    others = [name for name in IDENTITY if name in table.names and name not in (*series, "interval")]
    hint = f"tell the series apart, by={[*series, *others]}" if others else None
    rows = _by_time(table.rows, series, more=more, hint=hint)
    wide = cast("pd.DataFrame", rows.rename(columns=names).unstack(series))
    return wide.rename_axis(columns=["field", *series])


def to_nautilus(candles: IntoFrame, /, *, interval: str | None = None) -> pd.DataFrame:
    """Candles of one series as the data of NautilusTrader's ``BarDataWrangler(bar_type, instrument).process(…)``.

    Parameters
    ----------
    candles : frame, n rows, key (timestamp), any order
        Schema TRADE_SIDE_AGNOSTIC_AGG of one series. Uses ``timestamp``, and ``open``, ``high``, ``low``, ``close``
        [quote per coin] and ``volume`` [coin].
    interval : str, optional
        Name or alias of the interval; what the column ``interval`` says in each row, unless said.

    Returns
    -------
    pandas.DataFrame, n rows
        Columns ``open``, ``high``, ``low``, ``close``, ``volume``, float64, in this order, by ``timestamp``: the time
        at which each candle is **complete**, ascending, in UTC. Needs the extra ``pandas``, of any engine's frame.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame holds more than one series, a time twice, or a candle whose interval is not known.

    Notes
    -----
    That engine shows a bar to a strategy at the bar's ``ts_init`` and demands that this be the bar's close [1]_. The
    wrangler makes it of the index, so the index is the close, and ``ts_init_delta`` stays 0: stamped with its start, a
    bar would be shown an interval too early.

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
    table = OpenTable.of(candles, times=["timestamp"], numbers=_CANDLE)
    table, rows, _ = known(table, rule="interval", interval=interval)
    one_series(table, table.series())
    return _by_time(rows.select(nw.col(*_CANDLE).cast(nw.Float64), timestamp=nw.col(WHEN)))


def _by_time(
    rows: nw.LazyFrame[Any],
    series: Sequence[str] = (),
    *,
    more: Iterable[str] = (),
    hint: str | None = None,
) -> pd.DataFrame:
    """Return candles as a pandas frame by time and series, ascending, with more columns behind.

    Raises
    ------
    QueryError
        If a time is null, or there twice.
    """
    key = ["timestamp", *series]
    candles = rows.select(*key, *_CANDLE, *more).sort(*key).collect()
    if candles.select(*key).is_duplicated().any() or candles["timestamp"].is_null().any():
        raise QueryError(
            "candles", got="a time twice, or none", expected="each time once in a series", hint=hint
        )
    times = nw.col("timestamp").cast(nw.Datetime("ns", "UTC"))
    # Words become text on every engine: a pandas level of categories takes no new names, so no column could be added.
    words = [name for name in series if candles.schema[name] in (nw.Categorical, nw.Enum)]
    return (
        candles.with_columns(times, *[nw.col(name).cast(nw.String) for name in words])
        .to_pandas()
        .set_index(key)
    )
