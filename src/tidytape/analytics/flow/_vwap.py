"""Volume-weighted average price since an anchor."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics.flow._anchors import IS_KNOWN, anchored, sessions_of
from tidytape.analytics.flow._sides import buckets, has_intervals, quotient, summed_by_bucket, usable
from tidytape.frames import exact
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, counting, of_one
from tidytape.query.values import TimeLike

_RESULTS = ("vwap", "anchor", "anchored_at")


def vwap(
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
    r"""Volume-weighted average price (VWAP) since an anchor.

    .. math:: \mathrm{VWAP}_t = \frac{\sum_{a \le s \le t} P_s V_s}{\sum_{a \le s \le t} V_s}

    where :math:`P` is the price of a trade, or the typical price of a candle, :math:`(H + L + C) / 3`.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Raw trades (schema TRADE): ``timestamp``, ``price`` [quote per coin], ``amount`` [coin]. Or candles, by side or
        not: ``timestamp``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [coin]. With a column ``price``
        that is the price.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, the identity columns that there are, but for
        ``side``. Null is a value.
    anchor, session, session_open
        Where the sums start, as of `cvd`.
    interval : str or timedelta, optional
        Name, alias or length of an interval to have one row for, as of `delta`. Without it each ``timestamp`` has one.
    volume : str, optional
        Column of the amounts; without it ``volume``, or else ``amount``. [coin]

    Returns
    -------
    frame, one row per (by, timestamp), sorted by them, of the kind of ``frame``
        ``by``, ``timestamp`` (start of the interval), and

        - ``volume`` : float64, what was traded in the interval. [coin]
        - ``vwap`` : float64, up to the end of the interval, that one included. [quote per coin]
        - ``anchor`` : str, the argument.
        - ``anchored_at`` : time, the open of the row's session, or the first time of the series.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        As of `cvd`. Or if an eager frame has amounts in USD, which are no weights of a price; of a lazy frame the
        results are null there.

    See Also
    --------
    cvd : What was bought and sold since the same anchor.

    Notes
    -----
    Trades give the exact average; candles are as near to it as the typical price is to their trades. Both sums do not
    depend on the order of the rows.

    Where an amount is null, not finite or below zero, or the price of what was traded is unknown, so is every average
    that it would be part of: ``vwap`` is null from there to the end of the session, or of the series, as in `cvd`. A
    row without volume needs no price. Before anything was traded ``vwap`` is null. No row depends on a later one.

    References
    ----------
    .. [1] Berkowitz, Logue, Noser, "The total cost of transactions on the NYSE", Journal of Finance 43 (1), 1988.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> trades = pl.DataFrame(
    ...     {
    ...         "timestamp": [datetime(2024, 8, 8, 23, tzinfo=UTC), datetime(2024, 8, 9, tzinfo=UTC)],
    ...         "price": [100.0, 104.0],
    ...         "amount": [3.0, 1.0],
    ...     }
    ... )
    >>> vwap(trades)["vwap"].to_list()
    [100.0, 101.0]
    >>> vwap(trades, anchor="session")["vwap"].to_list()
    [100.0, 104.0]
    """
    sessions = sessions_of(anchor, session, session_open, interval)
    table = Table.opened(frame, times=["timestamp"])
    present = table.names
    if volume is None:
        volume = "amount" if "amount" in present and "volume" not in present else "volume"
    prices = ["price"] if "price" in present else ["high", "low", "close"]
    table = Table.opened(table, times=["timestamp"], numbers=[*prices, volume])
    keys = table.series(by, without=["side", "timestamp", "volume", *_RESULTS])
    table = counting(
        table, "COIN", [volume], parameter="frame", expected="amounts in coins", hint="fetch it without quote"
    )
    table = of_one(table, AMOUNT_UNIT, keys, [volume])
    start, fits, labels = buckets(table, keys, interval)

    price = (
        nw.col("price") if "price" in present else (nw.col("high") + nw.col("low") + nw.col("close")) / 3.0
    )
    traded = nw.when(usable(nw.col(volume)) & fits).then(nw.col(volume))
    worth = nw.when(traded == 0).then(0.0).otherwise(traded * price)
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(
        __start=start, __volume=traded, __worth=nw.when(worth.is_finite()).then(worth)
    )
    rows = summed_by_bucket(rows, keys, labels, {"__volume": "volume", "__worth": "__worth"})

    has_lengths = interval is None and has_intervals(table, keys)
    is_known = ~nw.col("volume").is_null() & ~nw.col("__worth").is_null()
    rows = anchored(rows, keys, sessions, is_known=is_known, has_lengths=has_lengths)
    rows = exact.in_parts(rows.with_columns(__volume=nw.col("volume")), "__volume", "__worth").with_columns(
        exact.running("__volume", "__worth").over(*keys, "anchored_at", order_by="timestamp")
    )
    rows = rows.with_columns(exact.total("__volume"), exact.total("__worth")).select(
        *keys,
        "timestamp",
        "volume",
        nw.when(nw.col(IS_KNOWN)).then(quotient(nw.col("__worth"), nw.col("__volume"))).alias("vwap"),
        nw.lit(anchor).alias("anchor"),
        "anchored_at",
    )
    table = table.with_words(dict.fromkeys(labels))
    return table.closed(rows, sort=[*keys, "timestamp"], times={"anchored_at": "timestamp"})
