"""What share of the volume large trades make."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.flow._sides import quotient, usable
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start, length_of
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, of_one
from tidytape.times import SECOND, interval_of


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
    rule = "at_least" if above_quantile is None else "above_quantile"
    results = ("large_volume", "volume", "large_trades", "trades", "large_trade_share")
    table = Table.opened(trades, times=["timestamp"], numbers=[volume])
    keys = [
        name
        for name in table.series(by, without=["timestamp", *results, "threshold", "threshold_rule"])
        if by is not None or name != "side"
    ]
    table = of_one(table, AMOUNT_UNIT, keys, [volume], parameter="trades")
    time, labels = nw.col("timestamp"), dict[str, nw.Expr]()
    if interval is not None:
        wanted = interval_of(interval)
        time = bucket_start(time, wanted)
        labels = {"interval": nw.lit(str(wanted))} if "interval" in keys else {}
    groups = [name for name in keys if name not in labels]
    known = usable(nw.col(volume))
    if interval is not None and "interval" in table.names and "id" not in table.names:
        # As of `sides`: what was summed over more than is asked for cannot be told apart again.
        known = known & (length_of(nw.col("interval")) <= interval_of(interval).seconds * SECOND)
    rows = (
        table.rows.filter(~nw.col("timestamp").is_null())
        .with_columns(__bucket=time if interval is not None else nw.lit(0, nw.Int64()), __time=time)
        .with_columns(__volume=nw.when(known).then(nw.col(volume)))
    )
    groups.append("__bucket")
    amount = nw.col("__volume")
    if at_least is not None:
        rows = rows.with_columns(__threshold=nw.lit(arguments.positive("at_least", at_least)))
        is_large = amount >= nw.col("__threshold")
    else:
        quantile = arguments.share("above_quantile", above_quantile)
        if quantile == 1:
            raise QueryError("above_quantile", got=above_quantile, expected="a number above 0 and below 1")
        rows = rows.with_columns(
            __rank=amount.rank("min").over(groups).cast(nw.Float64),
            __count=nw.len().over(groups).cast(nw.Float64),
        )
        # A hair less, so that 0.9 of 10 is the ninth although it is 9.000000000000002 in floats elsewhere.
        within = nw.col("__rank") <= (nw.col("__count") * (quantile * (1 - 1e-15))).ceil()
        rows = rows.with_columns(__threshold=nw.when(within).then(amount)).with_columns(
            __threshold=nw.col("__threshold").max().over(groups)
        )
        is_large = amount > nw.col("__threshold")
    large = "__large"
    rows = (
        rows.with_columns(__is_large=is_large.fill_null(value=False))
        .pipe(exact.in_parts, "__volume")
        .with_columns(
            *exact.where(nw.col("__is_large"), "__volume", large),
            __large_trades=nw.col("__is_large").cast(nw.Int64),
            __trades=nw.lit(1, nw.Int64()),
        )
        .group_by(groups)
        .agg(
            exact.summed("__volume", large),
            nw.col("__large_trades", "__trades").sum(),
            nw.col("__time").min(),
            nw.col("__threshold").max(),
        )
        .with_columns(exact.total("__volume"), exact.total(large))
    )
    is_known = ~amount.is_null()
    rows = rows.select(
        *(labels[name].alias(name) if name in labels else nw.col(name) for name in keys),
        nw.col("__time").alias("timestamp"),
        nw.when(is_known).then(nw.col(large)).alias("large_volume"),
        amount.alias("volume"),
        # DuckDB sums to larger whole numbers than other engines have.
        nw.col("__large_trades").cast(nw.Int64).alias("large_trades"),
        nw.col("__trades").cast(nw.Int64).alias("trades"),
        quotient(nw.col(large), amount).alias("large_trade_share"),
        nw.when(is_known).then(nw.col("__threshold")).alias("threshold"),
        nw.lit(rule).alias("threshold_rule"),
    )
    return table.with_words(dict.fromkeys(labels)).closed(rows, sort=[*keys, "timestamp"])
