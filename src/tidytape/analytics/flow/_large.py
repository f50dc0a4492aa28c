"""Large trades, and runs of liquidations that add up to much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import inf
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.flow._sides import LIQUIDATIONS, amount_of, buckets, quotient, usable
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, of_one
from tidytape.times import SECOND

_OF_CASCADES = (
    "start",
    "end",
    "liquidations",
    "count",
    "largest",
    "largest_at",
    "is_lower_bound",
    "threshold",
    "gap",
    "smallest",
)


def large_trade_share(
    trades: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    at_least: float | None = None,
    above_quantile: float | None = None,
    interval: str | timedelta | None = None,
    volume: str = "amount",
) -> IntoFrameT:
    r"""Large-trade share: the share of the volume that trades of a size or more make.

    .. math:: s = \frac{\sum_{i:\, v_i \ge v^*} v_i}{\sum_i v_i}

    or, of a quantile, the sum over :math:`v_i > v_{(k)}`, the :math:`k = \lceil q n \rceil`-th smallest of
    :math:`n` amounts.

    Parameters
    ----------
    trades : frame, n rows, in any order
        Schema TRADE (``client.trades``): ``timestamp``, and ``amount`` [coin].
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, the identity columns that there are, but for
        ``side``. Null is a value.
    at_least : float, > 0, optional
        The size from which a trade is large. [as ``volume``]
    above_quantile : float, 0 < q < 1, optional
        Or the quantile of the bucket's own amounts that a large trade is above: 0.99 for the largest hundredth. One of
        both is given.
    interval : str or timedelta, optional
        Name, alias or length of an interval, e.g. ``"1h"``, to say it of each; without it, of all trades of a series
        together.
    volume : str
        Column of the amounts, e.g. ``quote_amount``.

    Returns
    -------
    frame, one row per ``by``, or per (by, timestamp) with ``interval``; sorted by them, of the kind of ``trades``
        ``by``, and

        - ``timestamp`` : time, start of the interval; without ``interval``, of the first trade.
        - ``large_volume``, ``volume`` : float64. [as ``volume``]
        - ``large_trades``, ``trades`` : int64. [trades]
        - ``large_trade_share`` : float64, null where nothing was traded. [1]
        - ``threshold`` : float64, the size that decided. [as ``volume``]
        - ``threshold_rule`` : str, ``at_least`` or ``above_quantile``.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If not exactly one of both thresholds is given, or it is none; if the interval is unknown, a time has no zone,
        or amounts are no numbers. Or if an eager frame has several ``amount_unit`` in one series; of a lazy frame such
        amounts are unknown.

    Notes
    -----
    Where an amount is null, not finite or below zero, or a row sums up more than ``interval``, volumes, threshold and
    share of that row are null: it might have been the largest. A trade without a time is left out. Of amounts that are
    all equal none is above a quantile.

    An order that is filled in parts is several trades, so shares are lower than those of orders. A quantile is that of
    the row's own trades, so no row depends on a later one.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> trades = pl.DataFrame({"timestamp": datetime(2024, 8, 8, tzinfo=UTC), "amount": [1.0, 2.0, 3.0, 10.0]})
    >>> large_trade_share(trades, at_least=3).select("large_volume", "volume", "large_trade_share").row(0)
    (13.0, 16.0, 0.8125)
    >>> large_trade_share(trades, above_quantile=0.75).select("large_trade_share", "threshold").row(0)
    (0.625, 3.0)
    """
    if (at_least is None) == (above_quantile is None):
        raise QueryError(
            "at_least", got=(at_least, above_quantile), expected="one of at_least and above_quantile"
        )
    rule = "at_least" if above_quantile is None else "above_quantile"
    if above_quantile is None:
        at_least = arguments.positive("at_least", at_least)
    elif arguments.share("above_quantile", above_quantile) == 1:
        raise QueryError("above_quantile", got=above_quantile, expected="a number above 0 and below 1")
    results = ("large_volume", "volume", "large_trades", "trades", "large_trade_share", "threshold")
    table = OpenTable.of(trades, times=["timestamp"], numbers=[volume])
    keys = table.series(by, without=["timestamp", *results, "threshold_rule"])
    keys = [name for name in keys if by is not None or name != "side"]
    table = of_one(table, AMOUNT_UNIT, keys, [volume], parameter="trades")
    start, fits, labels = buckets(table, keys, interval)
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(
        __amount=nw.when(usable(nw.col(volume)), fits).then(nw.col(volume)),
        __bucket=nw.lit(0, nw.Int64()) if interval is None else start,
        __time=start,
    )
    groups = [*(name for name in keys if name not in labels), "__bucket"]
    rows = (
        _large(rows, groups, at_least=at_least, above_quantile=above_quantile)
        .with_columns(threshold_rule=nw.lit(rule), **labels)
        .select(*keys, nw.col("__time").alias("timestamp"), *results, "threshold_rule")
    )
    return table.with_words(dict.fromkeys(labels)).closed(rows, sort=[*keys, "timestamp"])


def _large(
    rows: nw.LazyFrame[Any], groups: Sequence[str], *, at_least: float | None, above_quantile: float | None
) -> nw.LazyFrame[Any]:
    """Return one row per group with the share of its ``__amount`` that large trades make."""
    amount, threshold = nw.col("__amount"), nw.col("threshold")
    if above_quantile is None:
        rows = rows.with_columns(threshold=nw.lit(at_least))
        is_large = amount >= threshold
    else:
        # Slightly less than the quantile, because a float product may exceed the whole number that it should be.
        last = (nw.len().over(*groups).cast(nw.Float64) * (above_quantile * (1 - 1e-15))).ceil()
        is_within = amount.rank("min").over(*groups).cast(nw.Float64) <= last
        rows = rows.with_columns(threshold=nw.when(is_within).then(amount)).with_columns(
            threshold.max().over(*groups)
        )
        is_large = amount > threshold
    rows = exact.in_parts(
        rows.with_columns(__is_large=is_large.fill_null(value=False)), "__amount"
    ).with_columns(
        *exact.where(nw.col("__is_large"), "__amount", "__large"),
        large_trades=nw.col("__is_large").cast(nw.Int64),
        trades=nw.lit(1, nw.Int64()),
    )
    sums = (
        rows.group_by(*groups)
        .agg(
            exact.summed("__amount", "__large"),
            nw.col("large_trades", "trades").sum(),
            nw.col("__time").min(),
            threshold.max(),
        )
        .with_columns(exact.total("__amount"), exact.total("__large"))
    )
    is_known = ~amount.is_null()
    return sums.with_columns(
        # DuckDB's sums of integers have 128 bits.
        nw.col("large_trades", "trades").cast(nw.Int64),
        large_volume=nw.when(is_known).then(nw.col("__large")),
        volume=amount,
        large_trade_share=quotient(nw.col("__large"), amount),
        threshold=nw.when(is_known).then(threshold),
    )


def liquidation_cascades(
    frame: IntoFrameT,
    /,
    *,
    threshold: float,
    gap: str | timedelta,
    by: str | Iterable[str] | None = None,
    smallest: float | None = None,
    liquidations: str | None = None,
    sampled: bool = True,
) -> IntoFrameT:
    r"""Liquidation cascades: runs of liquidations that follow each other closely and add up to much.

    A run goes on while the next liquidation comes at most ``gap`` after the one before it; it is a cascade if
    :math:`\sum_i L_i \ge` ``threshold``.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Schema LIQUIDATION_AGG (``client.liquidations``): ``timestamp``, ``side`` of the position (BUY = longs were
        liquidated), ``liquidations`` [coin, or USD if so asked]. Or single liquidations, with ``amount`` [coin].
    threshold : float, > 0
        The least that a cascade adds up to. [as in ``frame``]
    gap : str or timedelta
        The longest pause in a run, e.g. ``"1m"`` or ``"30s"``; of intervals, from start to start: ``"5m"`` joins
        neighbours of five minutes.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, the identity columns that there are, ``side`` among
        them: longs and shorts cascade apart. Null is a value.
    smallest : float, > 0, optional
        Rows of less count for nothing. [as in ``frame``]
    liquidations : str, optional
        Column of the amounts; without it ``liquidations``, or else ``amount``.
    sampled : bool
        Whether the feed shows some liquidations only, as those of exchanges do.

    Returns
    -------
    frame, one row per cascade, sorted by ``by`` and ``start``, of the kind of ``frame``
        ``by``, and

        - ``start``, ``end`` : time, of the first and of the last row; of intervals, their starts.
        - ``liquidations`` : float64, the sum, null where an amount of the run is unknown. [as in ``frame``]
        - ``count`` : int64. [rows]
        - ``largest`` : float64, the largest row, null as ``liquidations``. [as in ``frame``]
        - ``largest_at`` : time, of the first row as large, null as ``liquidations``.
        - ``is_lower_bound`` : bool, the argument ``sampled``: whether there were these at least.
        - ``threshold``, ``smallest`` [as in ``frame``], ``gap`` [s] : float64, the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is none of those, a time has no zone, or amounts are no numbers. Or if an eager frame has several
        ``amount_unit`` in one series; of a lazy frame such amounts are unknown.

    Notes
    -----
    Recorded feeds are sampled (many show the largest liquidation of a second and no other), so totals are lower bounds,
    and a cascade that was not shown is not found.

    An amount that is null, not finite or below zero is unknown. It takes part in its run, and the run stays in the
    result whatever else adds up in it, because it may be a cascade: ``liquidations`` is null there. Rows of zero, of
    less than ``smallest`` or without a time are left out.

    The last cascade may go on: its end is known once ``gap`` has passed after it.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> minutes = [datetime(2024, 8, 8, 12, minute, tzinfo=UTC) for minute in (0, 1, 2, 9)]
    >>> frame = pl.DataFrame({"timestamp": minutes, "side": "BUY", "liquidations": [2.0, 5.0, 1.0, 9.0]})
    >>> cascades = liquidation_cascades(frame, threshold=8, gap="1m")
    >>> cascades.select("side", "liquidations", "count", "largest").rows()
    [('BUY', 8.0, 3, 5.0), ('BUY', 9.0, 1, 9.0)]
    """
    threshold = arguments.positive("threshold", threshold)
    least = 0.0 if smallest is None else arguments.positive("smallest", smallest)
    pause = arguments.length("gap", gap)
    table = OpenTable.of(frame)
    name = amount_of(table, liquidations, LIQUIDATIONS)
    table = OpenTable.of(table, times=["timestamp"], numbers=[name])
    keys = table.series(by, without=["timestamp", *_OF_CASCADES])
    table = of_one(table, AMOUNT_UNIT, keys, [name])
    amount, time, largest = nw.col("__amount"), nw.col("__time"), nw.col("__largest")
    rows = table.rows.select(
        *keys, __amount=nw.when(usable(nw.col(name))).then(nw.col(name)), __time=nw.col("timestamp")
    ).filter(~time.is_null(), amount.is_null() | ((amount > 0) & (amount >= least)))
    # Rows of one time have no order, so they become one row. An unknown amount may be the largest.
    rows = (
        exact.in_parts(rows, "__amount")
        .with_columns(__largest=amount.fill_null(inf))
        .group_by(*keys, "__time")
        .agg(exact.summed("__amount"), nw.len().alias("__count"), largest.max())
    )
    is_start = time - time.shift(1).over(*keys, order_by="__time") > pause
    rows = rows.with_columns(__run=is_start.fill_null(value=False).cast(nw.Int64)).with_columns(
        nw.col("__run").cum_sum().over(*keys, order_by="__time")
    )
    run = [*keys, "__run"]
    runs = (
        rows.with_columns(__largest_at=nw.when(largest == largest.max().over(*run)).then(time))
        .group_by(run)
        .agg(
            exact.summed("__amount"),
            nw.col("__largest_at").min(),
            largest.max(),
            nw.col("__count").sum(),
            time.min().alias("start"),
            time.max().alias("end"),
        )
        .with_columns(exact.total("__amount"))
        .filter((amount >= threshold) | amount.is_null())
    )
    is_known = ~amount.is_null()
    cascades = runs.select(
        *keys,
        "start",
        "end",
        liquidations=amount,
        count=nw.col("__count").cast(nw.Int64),
        largest=nw.when(is_known).then(largest),
        largest_at=nw.when(is_known).then(nw.col("__largest_at")),
        is_lower_bound=nw.lit(arguments.flag("sampled", sampled)),
        threshold=nw.lit(threshold),
        gap=nw.lit(pause / SECOND),
        smallest=nw.lit(least),
    )
    return table.closed(
        cascades, sort=[*keys, "start"], times=dict.fromkeys(("start", "end", "largest_at"), "timestamp")
    )
