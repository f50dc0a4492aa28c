"""Payments when funding settles, and how far the predicted rates were off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import IS_REPEATED, Duration, finite, length, repeated
from tidytape.analytics.funding._changes import warn_if_settled_between
from tidytape.analytics.funding._rates import OWN, own_interval
from tidytape.errors import QueryError
from tidytape.frames._joined import joined
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.times import SECOND

_PAID = ("payment", "accrued", "missed", "coverage")
_ERRORS = ("known_at", "predicted_known_at", "predicted", "settled", "error")


def accrued(
    frame: IntoFrameT,
    /,
    *,
    settled_every: Duration | None = None,
    anchor: TimeLike = 0,
    by: str | Iterable[str] | None = None,
    rate: str = "rate_close",
    position: float | str = 1.0,
    price: str | None = None,
    funding_interval: Duration | None = None,
    interval: Duration | None = None,
) -> IntoFrameT:
    r"""Funding that a position has received minus what it has paid, summed over settlements.

    .. math:: A_n = \sum_{k \le n} p_k, \qquad p_k = -Q_k P_k f_k \, T_\mathrm{settled} / T_\mathrm{own}

    If a rate is positive, longs pay shorts, so a long position loses.

    Parameters
    ----------
    frame : frame, n rows, key (by, timestamp), any order
        Points of a rate with ``timestamp``. The row that starts with a settlement has the settled rate; rows between
        two settlements repeat it and are not counted.
    settled_every : str or timedelta, or "row", optional
        Time between settlements of the market, e.g. ``"8h"``: only rows with the ``timestamp`` of a settlement count.
        It differs between markets; see Notes. Without it, the column ``funding_interval`` [ns] of each row says how
        long before its settlement the last one was, and its rate is paid unscaled; so the market may change its
        interval. ``"row"``: each row *is* a settlement, and its rate is paid unscaled. That is right for a history of
        settlements, but wrong for points of a fixed interval.
    anchor : time
        The time of a settlement; the others are whole multiples of ``settled_every`` away.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.
    rate : str
        Column of the settled rate. [1 per funding interval]
    position : float or str
        Q, above 0 if long, below 0 if short: a number, or the column of the position at each settlement. [USD; coin if
        ``price`` is given]
    price : str, optional
        Column of P, the price of the position at the settlement; by default P is 1. [quote per coin]
    funding_interval : str or timedelta, > 0, optional
        The interval that the rates are paid for. Needed, and only allowed, if the frame has no column
        ``funding_interval`` [ns in the column]; not with ``"row"``, and not without ``settled_every``.
    interval : str or timedelta, > 0, optional
        Length of the rows' intervals, at most ``settled_every``: a longer row ends with another settlement's rate. Only
        allowed if the frame has no column ``interval``. Without either, rows have no length. ``"row"`` ignores it.

    Returns
    -------
    frame, one row per settlement, sorted by (by, timestamp), of the kind of ``frame``
        The frame's columns, and

        - ``payment`` : float64, received at this settlement; paid if below 0. Null if rate, position or price is not
          finite, if the row appears twice, or if its ``interval`` is longer than ``settled_every`` or not the name of
          an interval. If the column ``funding_interval`` of a series changes, rows in which it is not ``settled_every``
          contradict it, and their payment is null too. [as ``position`` times ``price``]
        - ``accrued`` : float64, sum of the payments so far; null from the first unknown payment on. [the same]
        - ``missed`` : int64, how many settlements of the series so far have an unknown payment, because the row is
          absent or the payment null; settlements within a row longer than ``settled_every`` count too.
        - ``coverage`` : float64, share of the settlements so far with a known payment. [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a duration or a number is invalid; if the interval of the rates is given neither by the argument nor by the
        column, or by both; or if the interval of the rows is given by both, or is longer than ``settled_every``.

    Warns
    -----
    SettlementWarning
        If the rate of an eager frame changes between two of the settlements that ``settled_every`` and ``anchor`` say:
        the market settles more often or at other times, or the rate is one that is still to settle.

    Notes
    -----
    The warning compares rows that start at or after one settlement and end at or before the next. Without it
    ``settled_every`` may still be wrong: rates may stay the same over a settlement, or the frame may have no row
    between two settlements. A time that is too short also gives no warning. It pays the rate of one settlement in
    several parts, and their sum is the payment if the frame has all of these rows.

    References
    ----------
    .. [1] BitMEX, "Perpetual Contracts Guide", "Funding": position value times funding rate, at each settlement.

    Examples
    --------
    A long of 1,000 USD over three settlements of an 8-hour rate.

    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> hours = pl.DataFrame({"timestamp": [start + hour * 3_600_000_000_000 for hour in range(24)]})
    >>> points = hours.with_columns(rate_close=pl.Series([0.0001] * 8 + [0.0003] * 8 + [-0.0002] * 8))
    >>> paid = accrued(points, settled_every="8h", funding_interval="8h", position=1000.0)
    >>> paid.select(pl.col("payment", "accrued").round(6), "missed", "coverage").rows()
    [(-0.1, -0.1, 0, 1.0), (-0.3, -0.4, 0, 1.0), (0.2, -0.2, 0, 1.0)]
    """
    every = None if settled_every is None else _pause(settled_every)
    if not isinstance(position, str) and not arguments.is_number(position):
        raise QueryError("position", got=position, expected="a finite number, or a column")
    factors = [position] if price is None else [position, price]
    columns = [rate, *(factor for factor in factors if factor is price or isinstance(factor, str))]
    table = OpenTable.of(frame, ["timestamp"], numbers=columns, optional=["funding_interval"])
    series_columns = table.series_columns(by, without=["timestamp", *_PAID, *columns])
    is_within, more_settlements = _lengths(table, interval, every)
    if settled_every is not None and every is not None and table.is_eager:
        warn_if_settled_between(table, series_columns, rate, settled_every, anchor=anchor, interval=interval)
    paid, step = finite(rate), nw.col(OWN)
    if settled_every is None:
        if OWN not in table.names:
            expected = f"the time between settlements, e.g. '8h', or a column {OWN} [ns] that says it"
            raise QueryError("settled_every", got=None, expected=expected)
        step = own_interval(table, funding_interval).cast(nw.Int64())
        has_length = "interval" in table.names or interval is not None
        is_within = length(table, interval) <= step if has_length else ~step.is_null()
    elif every is not None:
        paid = paid * (float(every) / own_interval(table, funding_interval))
        if OWN in table.names:
            least, largest = (within(bound, series_columns) for bound in (step.min(), step.max()))
            is_within = is_within & ((step == every) | (least == largest))
    elif funding_interval is not None:
        raise QueryError(
            "funding_interval", got=funding_interval, expected="nothing, if each row is paid as it is"
        )
    for factor in factors:
        paid = paid * (finite(factor) if isinstance(factor, str) else float(factor))
    rows = (
        repeated(
            _settled(table.rows, step if settled_every is None else every, anchor),
            [*series_columns, "timestamp"],
        )
        .with_columns(payment=nw.when(is_within, nw.col(IS_REPEATED) == 0).then(paid * -1.0))
        .with_columns(
            __payment=nw.col("payment").fill_null(0.0),
            __known=(~nw.col("payment").is_null()).cast(nw.Int64()),
            __due=nw.lit(1) if settled_every is not None else _due(step, series_columns),
            __first=within(nw.col("timestamp").min(), series_columns),
        )
    )
    rows = rows.with_columns(
        nw.col("__payment", "__known", "__due").cum_sum().over(*series_columns, order_by="timestamp")
    )
    due = nw.col("__due")
    if every is not None:
        # Spark divides integers as floats. The quotient is a whole number, so rounding it is exact.
        steps = (nw.col("timestamp") - nw.col("__first")).cast(nw.Float64()) / float(every)
        due = (steps + 1.5).floor().cast(nw.Int64()) + more_settlements
    missed = (due - nw.col("__known")).cast(nw.Int64())
    result = rows.with_columns(
        accrued=nw.when(missed == 0).then(nw.col("__payment")),
        missed=missed,
        coverage=nw.col("__known").cast(nw.Float64()) / due.cast(nw.Float64()),
    ).select(*dict.fromkeys([*table.names, *_PAID]))
    main = ["coverage", "missed", "payment", "accrued"]
    return table.closed(result, sort=[*series_columns, "timestamp"], main=main)


def predicted_error(
    frame: IntoFrameT,
    /,
    *,
    settled_every: Duration,
    anchor: TimeLike = 0,
    interval: Duration | None = None,
    lead: Duration | None = None,
    by: str | Iterable[str] | None = None,
    rate: str = "rate_close",
    predicted: str = "predicted_close",
) -> IntoFrameT:
    r"""How far the rate predicted before each settlement was from the rate that settled.

    .. math:: e_k = \hat f_{k-1} - f_k

    with the predicted rate at the close of the interval before the settlement, which was known when the settlement
    came. The prediction in the settlement's own row came later and is for the next settlement.

    Parameters
    ----------
    frame : frame, n rows, key (by, timestamp), any order
        Schema ``FUNDING_RATE_AGG``: ``timestamp``, start of the interval, a rate and a predicted rate, both over the
        same funding interval.
    settled_every : str or timedelta, or "row"
        Time between settlements of the market, e.g. ``"8h"``. ``"row"``: a settlement at the start of each row's
        interval.
    anchor : time
        The time of a settlement; the others are whole multiples of ``settled_every`` away.
    interval : str or timedelta, > 0, optional
        Length of the rows' intervals. Needed, and only allowed, if the frame has no column ``interval``.
    lead : str or timedelta, > 0, optional
        The least time between the prediction and the settlement, e.g. ``"1h"``; by default 0. Predictions are known at
        ends of intervals, so ``"30m"`` means an hour if rows are hours.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.
    rate, predicted : str
        Columns of the rate and the predicted rate. [1 per funding interval]

    Returns
    -------
    frame, one row per settlement, sorted by (by, timestamp), of the kind of ``frame``
        ``by``, ``timestamp`` of the settlement, and

        - ``known_at`` : when the error was known: at the settlement, ``timestamp``. `tidytape.analytics.pit` uses it.
        - ``predicted_known_at`` : when the prediction was known, ``timestamp`` minus ``lead`` in whole intervals.
        - ``predicted`` : float64, null unless exactly one row has an interval that ended at ``predicted_known_at``.
        - ``settled`` : float64, the rate of the row that starts with the settlement; null if that row appears twice, or
          if it is longer than ``settled_every`` or of unknown length, because it may then end with another settlement's
          rate.
        - ``error`` : float64, predicted minus settled. [1 per funding interval]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a duration is invalid; or if the interval of the rows is given neither by the argument nor by the column, or
        by both, or is longer than ``settled_every``.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> eight_hours = 28_800_000_000_000
    >>> points = pl.DataFrame(
    ...     {
    ...         "timestamp": [start, start + eight_hours, start + 2 * eight_hours],
    ...         "rate_close": [0.0001, 0.0002, 0.0004],
    ...         "predicted_close": [0.00025, 0.0003, 0.0005],
    ...     }
    ... )
    >>> errors = predicted_error(points, settled_every="8h", interval="8h")
    >>> errors["error"].round(8).to_list()
    [None, 5e-05, -0.0001]
    """
    table = OpenTable.of(frame, ["timestamp"], numbers=[rate, predicted])
    series_columns = table.series_columns(by, without=["timestamp", *_ERRORS, rate, predicted])
    lead_time = 0 if lead is None else arguments.duration("lead", lead)
    every = _pause(settled_every)
    row_length = length(table, interval)
    is_within, _ = _lengths(table, interval, every)
    key = [*series_columns, "timestamp"]
    settled = repeated(_settled(table.rows, every, anchor), key).unique(subset=key, keep="any")
    # Join on the time at which the prediction was known instead of shifting rows: then a gap gives null, not an older
    # prediction.
    prediction_lead: Any = nw.lit(lead_time, nw.Int64)
    if lead_time:
        latest = nw.lit(lead_time - 1, nw.Int64) + row_length
        prediction_lead = nw.coalesce(latest - latest % row_length, prediction_lead)
    forecasts = (
        table.rows.select(
            *series_columns,
            (nw.col("timestamp") + row_length).alias("__predicted_at"),
            finite(predicted).alias("__predicted"),
        )
        .filter(~nw.col("__predicted_at").is_null())
        .group_by(*series_columns, "__predicted_at")
        .agg(nw.col("__predicted").max(), nw.len().alias("__forecasts"))
    )
    settled = settled.with_columns(__predicted_at=nw.col("timestamp") - prediction_lead)
    result = (
        joined(settled, forecasts, on=[*series_columns, "__predicted_at"])
        .select(
            *series_columns,
            "timestamp",
            known_at=nw.col("timestamp"),
            predicted_known_at=nw.col("__predicted_at"),
            predicted=nw.when(nw.col("__forecasts") == 1).then(nw.col("__predicted")),
            settled=nw.when(is_within, nw.col(IS_REPEATED) == 0).then(finite(rate)),
        )
        .with_columns(error=nw.col("predicted") - nw.col("settled"))
    )
    return table.closed(
        result, sort=key, times=dict.fromkeys(("known_at", "predicted_known_at"), "timestamp")
    )


def _lengths(table: OpenTable[Any], interval: Duration | None, every: int | None) -> tuple[nw.Expr, nw.Expr]:
    """Return whether a row is no longer than ``every``, and how many settlements it contains after its start.

    Raises
    ------
    QueryError
        If ``interval`` is longer than the time between settlements, or the frame has such a column, too.
    """
    any_length = nw.lit(value=True), nw.lit(0)
    if interval is None and "interval" not in table.names:
        return any_length
    row_length = length(table, interval)
    if every is None:
        return any_length
    if interval is not None:
        if row_length > every:
            raise QueryError(
                "interval",
                got=interval,
                expected="rows no longer than settled_every: they do not tell every settlement",
            )
        return any_length
    row_length = table.lengths
    settlements_inside = ((row_length - 1).cast(nw.Float64()) / float(every)).floor().cast(nw.Int64())
    return (row_length > 0) & (row_length <= every), nw.when(row_length > every).then(
        settlements_inside
    ).otherwise(nw.lit(0))


def _pause(settled_every: Duration) -> int | None:
    """Return the time from one settlement to the next [ns]; None if each row is a settlement."""
    if isinstance(settled_every, str) and settled_every == "row":
        return None
    return arguments.duration("settled_every", settled_every)


def _due(step: nw.Expr, series_columns: list[str]) -> nw.Expr:
    """Return how many settlements are due since the row before, if the last of them came ``step`` [ns] earlier."""
    since = nw.col("timestamp") - nw.col("timestamp").shift(1).over(*series_columns, order_by="timestamp")
    settlements = (since.cast(nw.Float64()) / step.cast(nw.Float64())).ceil()
    return nw.when(~settlements.is_null()).then(settlements).otherwise(1.0).cast(nw.Int64())


def _settled(rows: nw.LazyFrame[Any], every: int | nw.Expr | None, anchor: TimeLike) -> nw.LazyFrame[Any]:
    """Return the rows at times of settlements; all rows that have a time if each row is a settlement.

    Rows whose time between settlements is unknown may be settlements.
    """
    rows = rows.filter(~nw.col("timestamp").is_null())
    if every is None:
        return rows
    since = nw.col("timestamp") - epoch_seconds(anchor, parameter="anchor") * SECOND
    return rows.filter((since % every == 0).fill_null(value=True))
