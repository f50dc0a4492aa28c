"""Volume bought against volume sold, and the sum of it over time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics.flow._anchors import IS_KNOWN, anchored, sessions_of
from tidytape.analytics.flow._sides import has_intervals, quotient, sides
from tidytape.frames import exact
from tidytape.frames.table import Table
from tidytape.query.values import TimeLike

_NAMES = ("buy_volume", "sell_volume")


def bought_and_sold(
    frame: IntoFrameT,
    *,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    volume: str | None,
    results: tuple[str, ...],
) -> tuple[Table[IntoFrameT], nw.LazyFrame[Any], list[str]]:
    """Return the frame, the volume of aggressive buys and of aggressive sells, and the columns that name a series."""
    return sides(
        frame,
        by=by,
        interval=interval,
        amount=volume,
        candidates=("volume", "amount"),
        names=_NAMES,
        results=results,
        need_both=True,
    )


def delta(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Delta: volume of aggressive buys less volume of aggressive sells.

    .. math:: \delta_t = V^\mathrm{buy}_t - V^\mathrm{sell}_t

    Parameters
    ----------
    frame : frame, n rows, in any order
        Candles by side (schema TRADE_AGG, ``client.candles(by_side=True)``): ``timestamp``, ``side``, ``volume``
        [coin, or USD if so asked]. Or raw trades (schema TRADE): ``timestamp``, ``side``, ``amount`` [coin]. Or
        whatever has ``timestamp``, ``buy_volume`` and ``sell_volume``, e.g. a volume profile.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, the identity columns that there are, but for
        ``side``. Null is a value. With ``price`` among them, the delta of each row of a profile (a footprint).
    interval : str or timedelta, optional
        Name, alias or length of an interval to sum over, e.g. ``"1h"``, not shorter than that of candles; one that the
        service has, for results name theirs in ``interval``. Buckets are aligned to the Unix epoch in UTC, weeks to
        Monday. Without it each ``timestamp`` is one of its own.
    volume : str, optional
        Column of the amounts, e.g. ``quote_amount``; without it ``volume``, or else ``amount``.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by them, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``buy_volume``, ``sell_volume`` : float64; a side without a row traded nothing. [as in ``frame``]
        - ``delta`` : float64, positive: more was bought. [as in ``frame``]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, a time has no zone, amounts are no numbers, or ``by`` names ``side`` or a result. Or
        if an eager frame has several ``amount_unit`` in one series, or candles of one side alone (``side="BUY"``); of a
        lazy frame the results are null there.

    See Also
    --------
    cvd : The same, cumulated.
    imbalance : The same, as a share.

    Notes
    -----
    Where an amount is null, not finite or below zero, a side is neither BUY nor SELL, or a candle is longer than
    ``interval``, the results of that bucket are null, and no others. A row without a time lies in no bucket and is left
    out. Sums do not depend on the order of the rows.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    >>> candles = pl.DataFrame({"timestamp": [noon] * 2, "side": ["BUY", "SELL"], "volume": [3.5, 1.25]})
    >>> delta(candles).select("buy_volume", "sell_volume", "delta").row(0)
    (3.5, 1.25, 2.25)
    """
    table, rows, keys = bought_and_sold(frame, by=by, interval=interval, volume=volume, results=("delta",))
    rows = rows.with_columns(delta=nw.col("buy_volume") - nw.col("sell_volume"))
    return table.closed(rows, sort=[*keys, "timestamp"])


def imbalance(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Imbalance: delta as a share of what was traded.

    .. math:: i_t = \frac{V^\mathrm{buy}_t - V^\mathrm{sell}_t}{V^\mathrm{buy}_t + V^\mathrm{sell}_t}

    Parameters
    ----------
    frame, by, interval, volume
        As of `delta`.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by them, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``buy_volume``, ``sell_volume`` : float64. [as in ``frame``]
        - ``imbalance`` : float64, −1 (all was sold) to 1 (all was bought), null where nothing was traded. [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        As of `delta`.

    Notes
    -----
    What is null in `delta` is null here.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    >>> trades = pl.DataFrame({"timestamp": [noon] * 3, "side": ["BUY", "SELL", "BUY"], "amount": [2.0, 1.0, 1.0]})
    >>> imbalance(trades, interval="1h")["imbalance"].item()
    0.5
    """
    results = ("imbalance",)
    table, rows, keys = bought_and_sold(frame, by=by, interval=interval, volume=volume, results=results)
    bought, sold = nw.col("buy_volume"), nw.col("sell_volume")
    rows = rows.with_columns(imbalance=quotient(bought - sold, bought + sold))
    return table.closed(rows, sort=[*keys, "timestamp"])


def cvd(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    anchor: Literal["none", "session"] = "none",
    session: str | timedelta | None = None,
    session_open: TimeLike = None,
    interval: str | timedelta | None = None,
    volume: str | None = None,
) -> IntoFrameT:
    r"""Cumulative volume delta (CVD): the sum of all deltas since an anchor.

    .. math:: C_t = \sum_{a \le s \le t} \left(V^\mathrm{buy}_s - V^\mathrm{sell}_s\right)

    Parameters
    ----------
    frame, by, interval, volume
        As of `delta`; what `delta` returns will do, too.
    anchor : {"none", "session"}
        Where the sum starts: at the first row of each series; or anew at each session's open.
    session : str or timedelta, optional
        Length of a session: an interval such as ``"1d"`` or ``"1w"``, or a duration such as ``"8h"``; ``"1d"`` unless
        given. Only with ``anchor="session"``. For sessions of no fixed length, have them in a column and name it in
        ``by``.
    session_open : moment, optional
        When any one session opens, e.g. ``"2024-08-08T13:30Z"``: others open whole sessions before and after. Epoch
        seconds, a datetime, a date or an ISO 8601 string; what has no zone is UTC. Without it days open at 00:00 UTC
        and weeks on Mondays. Only with ``anchor="session"``.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by them, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``buy_volume``, ``sell_volume``, ``delta`` : float64, as of `delta`. [as in ``frame``]
        - ``cvd`` : float64, the sum up to the end of the interval, that one included. [as in ``frame``]
        - ``anchor`` : str, the argument.
        - ``anchored_at`` : time, the open of the row's session, or the first time of the series.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``anchor``, ``session`` or ``session_open`` is none of those, a session is told without ``anchor="session"``
        or opens within an ``interval``, or as of `delta`.

    Notes
    -----
    The sum is of what was bought and sold, to the last digit: it does not depend on where rows were cut, and where as
    much was sold as bought it is zero.

    Where a delta is unknown, so is every sum that it would be part of: ``cvd`` is null from there to the end of the
    session, or of the series. So it is where a candle of the frame, by its column ``interval``, begins in one session
    and ends in another: of both from there on, for nobody knows how much of it is whose. No row depends on a later one.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {
    ...         "timestamp": [datetime(2024, 8, 8, 22, tzinfo=UTC), datetime(2024, 8, 8, 23, tzinfo=UTC)]
    ...         + [datetime(2024, 8, 9, tzinfo=UTC)],
    ...         "side": ["BUY", "BUY", "SELL"],
    ...         "volume": [3.0, 1.0, 2.0],
    ...     }
    ... )
    >>> cvd(candles)["cvd"].to_list()
    [3.0, 4.0, 2.0]
    >>> cvd(candles, anchor="session", session="1d")["cvd"].to_list()
    [3.0, 4.0, -2.0]
    """
    sessions = sessions_of(anchor, session, session_open, interval)
    results = ("delta", "cvd", "anchor", "anchored_at")
    table, rows, keys = bought_and_sold(frame, by=by, interval=interval, volume=volume, results=results)
    rows = rows.with_columns(delta=nw.col("buy_volume") - nw.col("sell_volume"))
    has_lengths = interval is None and has_intervals(table, keys)
    rows = anchored(rows, keys, sessions, is_known=~nw.col("delta").is_null(), has_lengths=has_lengths)
    # In parts, so that what was bought and is sold again leaves nothing, and earlier anchors change no digit.
    rows = exact.in_parts(rows, "buy_volume", "sell_volume")
    rows = rows.with_columns(exact.difference("buy_volume", "sell_volume", "cvd"))
    rows = rows.with_columns(exact.running("cvd").over(*keys, "anchored_at", order_by="timestamp")).select(
        *keys,
        "timestamp",
        "buy_volume",
        "sell_volume",
        "delta",
        nw.when(nw.col(IS_KNOWN)).then(exact.total("cvd")).alias("cvd"),
        nw.lit(anchor).alias("anchor"),
        "anchored_at",
    )
    return table.closed(rows, sort=[*keys, "timestamp"], times={"anchored_at": "timestamp"})
