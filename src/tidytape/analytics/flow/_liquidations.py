"""Longs liquidated against shorts, and runs of liquidations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from math import inf

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.flow._sides import quotient, sides, usable
from tidytape.frames import exact
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, of_one
from tidytape.times import SECOND

LIQUIDATIONS = ("liquidations", "amount")
"""What amounts are called: in answers, and in recorded events."""


def liquidation_imbalance(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    liquidations: str | None = None,
    sampled: bool = True,
) -> IntoFrameT:
    r"""Liquidation imbalance: longs liquidated less shorts, as a share of both.

    .. math:: i_t = \frac{L^\mathrm{long}_t - L^\mathrm{short}_t}{L^\mathrm{long}_t + L^\mathrm{short}_t}

    Parameters
    ----------
    frame : frame, n rows, in any order
        Schema LIQUIDATION_AGG (``client.liquidations``): ``timestamp``, ``side`` of the position (BUY = longs were
        liquidated), ``liquidations`` [coin, or USD if so asked]. Or single liquidations, with ``amount`` [coin]; of
        recorded ones, whose side is that of the order, turn the side first.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, the identity columns that there are, but for
        ``side``. Null is a value.
    interval : str or timedelta, optional
        Name, alias or length of an interval to sum over; buckets are aligned to the Unix epoch in UTC, weeks to Monday.
        Without it each ``timestamp`` is one of its own.
    liquidations : str, optional
        Column of the amounts; without it ``liquidations``, or else ``amount``.
    sampled : bool
        Whether the feed shows some liquidations only, as those of venues do.

    Returns
    -------
    frame, one row per (by, timestamp) with a row of either side, sorted by them, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``long_liquidations``, ``short_liquidations`` : float64; a side without a row has none. [as in ``frame``]
        - ``liquidation_imbalance`` : float64, −1 (shorts alone) to 1 (longs alone), null where there are none. [1]
        - ``is_lower_bound`` : bool, the argument ``sampled``: whether there were these at least.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, a time has no zone, amounts are no numbers, or ``by`` names ``side`` or a result. Or
        if an eager frame has several ``amount_unit`` in one series; of a lazy frame the results are null there.

    Notes
    -----
    Recorded feeds are sampled (many show the largest liquidation of a second and no other), so totals are lower bounds,
    and the imbalance is that of what was shown. A frame of one side alone is a frame in which the other side was not
    liquidated, so fetch both sides. A time without a row need not be one without liquidations.

    Where an amount is null, not finite or below zero, or a side is neither BUY nor SELL, the results of that time are
    null. A row without a time is left out.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    >>> frame = pl.DataFrame({"timestamp": [noon] * 2, "side": ["BUY", "SELL"], "liquidations": [3.0, 1.0]})
    >>> liquidation_imbalance(frame).select("long_liquidations", "liquidation_imbalance", "is_lower_bound").row(0)
    (3.0, 0.5, True)
    """
    names = ("long_liquidations", "short_liquidations")
    table, rows, keys = sides(
        frame,
        by=by,
        interval=interval,
        amount=liquidations,
        candidates=LIQUIDATIONS,
        names=names,
        results=("liquidation_imbalance", "is_lower_bound"),
    )
    longs, shorts = (nw.col(name) for name in names)
    rows = rows.with_columns(
        liquidation_imbalance=quotient(longs - shorts, longs + shorts),
        is_lower_bound=nw.lit(arguments.flag("sampled", sampled)),
    )
    return table.closed(rows, sort=[*keys, "timestamp"])


_RESULTS = (
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
        Whether the feed shows some liquidations only, as those of venues do.

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
    table = Table.opened(frame, times=["timestamp"])
    name = liquidations
    if name is None:
        name = next((name for name in LIQUIDATIONS if name in table.names), LIQUIDATIONS[0])
    table = Table.opened(table, times=["timestamp"], numbers=[name])
    keys = table.series(by, without=["timestamp", *_RESULTS])
    table = of_one(table, AMOUNT_UNIT, keys, [name])
    amount, time, largest = nw.col("__amount"), nw.col("__time"), nw.col("__largest")
    known = nw.when(usable(nw.col(name))).then(nw.col(name))
    rows = table.rows.select(*keys, __amount=known, __time=nw.col("timestamp"))
    rows = rows.filter(~time.is_null(), amount.is_null() | ((amount > 0) & (amount >= least)))
    # One row per time, so that rows of one time have no order to be given. An unknown amount may be the largest.
    rows = exact.in_parts(rows, "__amount").with_columns(__largest=amount.fill_null(inf))
    rows = rows.group_by(*keys, "__time").agg(
        exact.summed("__amount"), nw.len().alias("__count"), largest.max()
    )
    is_start = time - time.shift(1).over(*keys, order_by="__time") > pause
    rows = rows.with_columns(__run=is_start.fill_null(value=False).cast(nw.Int64))
    rows = rows.with_columns(nw.col("__run").cum_sum().over(*keys, order_by="__time"))
    run = [*keys, "__run"]
    is_largest = largest == largest.max().over(*run)
    runs = (
        rows.with_columns(__largest_at=nw.when(is_largest).then(time))
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
    times = dict.fromkeys(("start", "end", "largest_at"), "timestamp")
    return table.closed(cascades, sort=[*keys, "start"], times=times)
