"""Amounts bought and sold per series and time: their difference, and their imbalance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.catalogue import Side
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._table import OpenTable
from tidytape.frames._times import bucket_start, length_of
from tidytape.frames._units import AMOUNT_UNIT, require_one_unit
from tidytape.times import frame_interval

VOLUMES = ("volume", "amount")
"""Usual names of traded amounts: in points, and in raw events."""

LIQUIDATIONS = ("liquidations", "amount")
"""Usual names of liquidated amounts: in points, and in raw events."""


def delta(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Delta: volume of aggressive buys minus volume of aggressive sells.

    .. math:: \delta_t = V^\mathrm{buy}_t - V^\mathrm{sell}_t

    Parameters
    ----------
    frame : frame, n rows, in any order
        Candles by side (schema TRADE_AGG, ``client.candles(by_side=True)``): ``timestamp``, ``side``, ``volume`` [coin;
        USD if fetched in USD]. Or raw trades (schema TRADE): ``timestamp``, ``side``, ``amount`` [coin]. Or whatever
        has ``timestamp``, ``buy_volume`` and ``sell_volume``, e.g. a volume profile.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame except ``side``. Null
        counts as a value. With ``price`` among them, the result has the delta of each level of a profile (a footprint).
    interval : str or timedelta, optional
        Name, alias or length of the intervals to sum over, e.g. ``"1h"``. It must be an interval of the service,
        because the result names it in ``interval``, and no shorter than the candles. Buckets are aligned to the Unix
        epoch in UTC, weeks to Monday. By default each ``timestamp`` has a row of its own.
    volume : str, optional
        Column of the amounts, e.g. ``quote_amount``; without it ``volume``, or else ``amount``.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``buy_volume``, ``sell_volume`` : float64, 0 for a side without a row. [as in ``frame``]
        - ``delta`` : float64, positive if more was bought. [as in ``frame``]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, a time has no zone, amounts are not numbers, or ``by`` names ``side`` or a result.
        Or if an eager frame has several amount units in one series, or only candles of one side (``side="BUY"``); in a
        lazy frame the results are null there.

    See Also
    --------
    cvd : Delta, cumulated.
    imbalance : Delta as a share of the volume.

    Notes
    -----
    If an amount is null, not finite or below zero, if a side is neither BUY nor SELL, or if a candle is longer than
    ``interval``, the results of that bucket alone are null. A row without a time lies in no bucket and is left out.
    Sums do not depend on the order of the rows.

    References
    ----------
    .. [1] Chordia, T., Roll, R. and Subrahmanyam, A., "Order imbalance, liquidity, and market returns", Journal of
       Financial Economics 65 (1), 2002: buys minus sells.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    >>> candles = pl.DataFrame({"timestamp": [noon] * 2, "side": ["BUY", "SELL"], "volume": [3.5, 1.25]})
    >>> delta(candles).select("buy_volume", "sell_volume", "delta").row(0)
    (3.5, 1.25, 2.25)
    """
    table, rows, keys = sides(frame, by=by, interval=interval, amount=volume, results=("delta",))
    rows = rows.with_columns(delta=nw.col("buy_volume") - nw.col("sell_volume"))
    return table.closed(rows, sort=[*keys, "timestamp"], main=["buy_volume", "sell_volume", "delta"])


def imbalance(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Imbalance: delta as a share of the volume.

    .. math:: i_t = \frac{V^\mathrm{buy}_t - V^\mathrm{sell}_t}{V^\mathrm{buy}_t + V^\mathrm{sell}_t}

    Parameters
    ----------
    frame, by, interval, volume
        As in `delta`.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``buy_volume``, ``sell_volume`` : float64. [as in ``frame``]
        - ``imbalance`` : float64, −1 (only sells) to 1 (only buys), null where nothing was traded. [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        As in `delta`.

    Notes
    -----
    Results are null where those of `delta` are.

    References
    ----------
    .. [1] Easley, D., López de Prado, M. M. and O'Hara, M., "Flow toxicity and liquidity in a high-frequency
       world", Review of Financial Studies 25 (5), 2012, there without the sign.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    >>> trades = pl.DataFrame({"timestamp": [noon] * 3, "side": ["BUY", "SELL", "BUY"], "amount": [2.0, 1.0, 1.0]})
    >>> imbalance(trades, interval="1h")["imbalance"].item()
    0.5
    """
    table, rows, keys = sides(frame, by=by, interval=interval, amount=volume, results=("imbalance",))
    bought, sold = nw.col("buy_volume"), nw.col("sell_volume")
    rows = rows.with_columns(imbalance=quotient(bought - sold, bought + sold))
    return table.closed(rows, sort=[*keys, "timestamp"], main=["buy_volume", "sell_volume", "imbalance"])


def liquidation_imbalance(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    liquidations: str | None = None,
    sampled: bool = True,
) -> IntoFrameT:
    r"""Liquidation imbalance: longs liquidated minus shorts, as a share of both.

    .. math:: i_t = \frac{L^\mathrm{long}_t - L^\mathrm{short}_t}{L^\mathrm{long}_t + L^\mathrm{short}_t}

    Parameters
    ----------
    frame : frame, n rows, in any order
        Schema LIQUIDATION_AGG (``client.liquidations``): ``timestamp``, ``side`` of the position (BUY = longs were
        liquidated), ``liquidations`` [coin; USD if fetched in USD]. Or single liquidations, with ``amount`` [coin].
        Recorded ones may have the side of the order; swap BUY and SELL first.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame except ``side``. Null
        counts as a value.
    interval : str or timedelta, optional
        Name, alias or length of the intervals to sum over; buckets are aligned to the Unix epoch in UTC, weeks to
        Monday. By default each ``timestamp`` has a row of its own.
    liquidations : str, optional
        Column of the amounts; without it ``liquidations``, or else ``amount``.
    sampled : bool
        Whether the feed shows some liquidations only, as those of exchanges do.

    Returns
    -------
    frame, one row per (by, timestamp) with a row of either side, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``long_liquidations``, ``short_liquidations`` : float64, 0 for a side without a row. [as in ``frame``]
        - ``liquidation_imbalance`` : float64, −1 (only shorts) to 1 (only longs), null where nothing was liquidated.
          [1]
        - ``is_lower_bound`` : bool, the argument ``sampled``: whether the true amount may be larger.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, a time has no zone, amounts are not numbers, or ``by`` names ``side`` or a result.
        Or if an eager frame has several amount units in one series; in a lazy frame the results are null there.

    Notes
    -----
    Recorded feeds are sampled (many show the largest liquidation of a second and no other), so totals are lower bounds,
    and the imbalance is that of the liquidations shown. If the frame has only one side, the other counts as 0, so fetch
    both sides. A time without a row may still have had liquidations.

    If an amount is null, not finite or below zero, or if a side is neither BUY nor SELL, the results of that time are
    null. A row without a time is left out.

    References
    ----------
    tidytape's own convention; see definitions.

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
        results=("liquidation_imbalance", "is_lower_bound"),
        names=names,
        candidates=LIQUIDATIONS,
        need_both=False,
    )
    longs, shorts = (nw.col(name) for name in names)
    rows = rows.with_columns(
        liquidation_imbalance=quotient(longs - shorts, longs + shorts),
        is_lower_bound=nw.lit(arguments.flag("sampled", sampled)),
    )
    return table.closed(rows, sort=[*keys, "timestamp"], main=[*names, "liquidation_imbalance"])


def sides(
    frame: IntoFrameT,
    *,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    amount: str | None,
    results: Sequence[str],
    names: tuple[str, str] = ("buy_volume", "sell_volume"),
    candidates: Sequence[str] = VOLUMES,
    need_both: bool = True,
) -> tuple[OpenTable[IntoFrameT], nw.LazyFrame[Any], list[str]]:
    """Return the table, one row per (by, timestamp) with the amounts of BUY and of SELL, and the columns of ``by``.

    Both amounts are null where one is unknown.

    Parameters
    ----------
    frame : frame
        With ``timestamp``, and ``side`` with a column of amounts; or with both of ``names``.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns except ``side``.
    interval : str or timedelta, optional
        Interval to sum over; by default each time has a row of its own.
    amount : str, optional
        Column of the amounts; without it the first of ``candidates`` that the frame has.
    results : sequence of str
        Columns that the caller will add.
    names : (str, str)
        Names of the amounts of BUY and of SELL.
    candidates : sequence of str
        Usual names of the column of amounts.
    need_both : bool
        Whether candles of only one side are refused, or unknown in a lazy frame, because they do not tell the volume of
        the other side.
    """
    table = OpenTable.of(frame)
    by_side = amount is not None or not set(names) <= set(table.names)
    if by_side:
        amounts = [amount_of(table, amount, candidates)]
        table = OpenTable.of(table, ["timestamp", "side"], numbers=amounts)
        side, value = nw.col("side"), nw.col(amounts[0])
        is_known = ~side.is_null() & usable(value)
        # Trades of one side mean that the other side traded 0. Candles of one side leave the other side unknown.
        if need_both and has_intervals(table, table.names):
            is_known = is_known & _has_both(table, side)
        bought, sold = (
            nw.when(side == str(known_side)).then(value).otherwise(0.0)
            for known_side in (Side.BUY, Side.SELL)
        )
    else:
        amounts = list(names)
        table = OpenTable.of(table, ["timestamp"], numbers=amounts)
        bought, sold = (nw.col(name) for name in names)
        is_known = usable(bought) & usable(sold)
    keys = table.series_columns(by, without=["side", "timestamp", *names, *results])
    table = require_one_unit(table, AMOUNT_UNIT, keys, amounts)
    known_amounts = (nw.when(is_known).then(amount) for amount in (bought, sold))
    table, rows = summed_by_bucket(table, keys, interval, dict(zip(names, known_amounts, strict=True)))
    return table, rows, keys


def summed_by_bucket(
    table: OpenTable[IntoFrameT],
    keys: Sequence[str],
    interval: str | timedelta | None,
    amounts: Mapping[str, nw.Expr],
) -> tuple[OpenTable[IntoFrameT], nw.LazyFrame[Any]]:
    """Return the table of the results, and the sums of amounts, one row per keys and start of an interval.

    A sum is null where one of its amounts is.
    """
    start, is_within, interval_column = buckets(table, keys, interval)
    # Working names, because the frame may have a column with the name of a sum.
    parts = {f"__of_{name}": nw.when(is_within).then(amount) for name, amount in amounts.items()}
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(**parts, __start=start)
    sums = (
        exact.in_parts(rows, *parts)
        .group_by(*(name for name in keys if name not in interval_column), "__start")
        .agg(exact.summed(*parts))
        .with_columns(
            *(exact.total(part).alias(name) for part, name in zip(parts, amounts, strict=True)),
            **interval_column,
        )
        .select(*keys, nw.col("__start").alias("timestamp"), *amounts)
    )
    return table.with_text_columns(dict.fromkeys(interval_column)), sums


def _has_both(table: OpenTable[Any], side: nw.Expr) -> nw.Expr:
    """Return whether a frame has rows of both sides; raise QueryError if an eager frame has rows of only one."""
    presence = {str(known_side): (side == str(known_side)).any() for known_side in Side}
    if not table.is_eager:
        return nw.all_horizontal(*presence.values(), ignore_nulls=True)
    (has_rows,) = table.rows.select(**presence).collect().iter_rows(named=True)
    if len(present_sides := [known_side for known_side, has_row in has_rows.items() if has_row]) == 1:
        raise QueryError(
            "frame",
            got=f"candles of side {present_sides[0]} alone",
            expected="candles of both sides",
            hint="fetch them with by_side=True, without side",
        )
    return nw.lit(value=True)


def buckets(
    table: OpenTable[Any], keys: Sequence[str], interval: str | timedelta | None
) -> tuple[nw.Expr, nw.Expr, dict[str, nw.Expr]]:
    """Return the start of each row's interval, whether the row lies within it, and the result column ``interval``.

    Without ``interval`` each time is an interval of its own. Results have the column only if ``keys`` has it.
    """
    time = nw.col("timestamp")
    if interval is None:
        return time, nw.lit(value=True), {}
    length = frame_interval(interval)
    # A candle that is longer than the interval cannot be split. A trade has no length.
    is_summed = has_intervals(table, table.names)
    is_within = length_of(nw.col("interval")) <= length.nanoseconds if is_summed else nw.lit(value=True)
    return (
        bucket_start(time, length),
        is_within,
        {"interval": nw.lit(length.alias)} if "interval" in keys else {},
    )


def amount_of(table: OpenTable[Any], column: str | None, candidates: Sequence[str]) -> str:
    """Return the column of amounts: the caller's ``column``, or the first candidate that the frame has."""
    usual = next((name for name in candidates if name in table.names), candidates[0])
    return usual if column is None else column


def has_intervals(table: OpenTable[Any], columns: Sequence[str]) -> bool:
    """Return whether the column ``interval`` is the length of the rows; trades, which have an id, have no length."""
    return "interval" in columns and "id" not in table.names


def usable(value: nw.Expr) -> nw.Expr:
    """Return whether an amount is finite and not below zero; null for null."""
    return value.is_finite() & (value >= 0)


def quotient(over: nw.Expr, under: nw.Expr) -> nw.Expr:
    """Return the quotient ``over / under``, null where ``under`` is not above 0 or the quotient is not finite."""
    share = nw.when(under > 0).then(over / under)
    return nw.when(share.is_finite()).then(share)
