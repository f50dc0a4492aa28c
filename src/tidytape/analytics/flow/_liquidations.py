"""Longs liquidated against shorts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import flag
from tidytape.analytics.flow._sides import quotient, sides

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
        is_lower_bound=nw.lit(flag("sampled", sampled)),
    )
    return table.closed(rows, sort=[*keys, "timestamp"])
