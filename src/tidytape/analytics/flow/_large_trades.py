"""What share of the volume large trades make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.flow._sides import buckets, quotient, usable
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, of_one


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
    if above_quantile is None:
        at_least, rule = arguments.positive("at_least", at_least), "at_least"
    elif arguments.share("above_quantile", above_quantile) == 1:
        raise QueryError("above_quantile", got=above_quantile, expected="a number above 0 and below 1")
    else:
        rule = "above_quantile"
    results = ("large_volume", "volume", "large_trades", "trades", "large_trade_share", "threshold")
    table = Table.opened(trades, times=["timestamp"], numbers=[volume])
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
    rows = _large(rows, groups, at_least=at_least, above_quantile=above_quantile)
    rows = rows.with_columns(threshold_rule=nw.lit(rule), **labels).select(
        *keys, nw.col("__time").alias("timestamp"), *results, "threshold_rule"
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
        # A hair less, so that 0.9 of 10 is the ninth although it is 9.000000000000002 in floats elsewhere.
        last = (nw.len().over(*groups).cast(nw.Float64) * (above_quantile * (1 - 1e-15))).ceil()
        is_within = amount.rank("min").over(*groups).cast(nw.Float64) <= last
        rows = rows.with_columns(threshold=nw.when(is_within).then(amount))
        rows = rows.with_columns(threshold.max().over(*groups))
        is_large = amount > threshold
    rows = exact.in_parts(rows.with_columns(__is_large=is_large.fill_null(value=False)), "__amount")
    rows = rows.with_columns(
        *exact.where(nw.col("__is_large"), "__amount", "__large"),
        large_trades=nw.col("__is_large").cast(nw.Int64),
        trades=nw.lit(1, nw.Int64()),
    )
    sums = rows.group_by(*groups).agg(
        exact.summed("__amount", "__large"),
        nw.col("large_trades", "trades").sum(),
        nw.col("__time").min(),
        threshold.max(),
    )
    sums = sums.with_columns(exact.total("__amount"), exact.total("__large"))
    is_known = ~amount.is_null()
    return sums.with_columns(
        # DuckDB sums to larger whole numbers than other engines have.
        nw.col("large_trades", "trades").cast(nw.Int64),
        large_volume=nw.when(is_known).then(nw.col("__large")),
        volume=amount,
        large_trade_share=quotient(nw.col("__large"), amount),
        threshold=nw.when(is_known).then(threshold),
    )
