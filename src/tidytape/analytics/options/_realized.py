"""Realised volatility of candles."""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of, positive, whole
from tidytape.frames.buckets import length_of
from tidytape.frames.joined import LATEST
from tidytape.frames.ordered import with_neighbour
from tidytape.frames.table import Table
from tidytape.times import DAY, SECOND, interval_of

_PRICES = ("open", "high", "low", "close")
_RESULTS = ("realized_volatility", "estimator", "window")
ESTIMATORS = ("close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang")

Estimator = Literal["close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"]


def realized_volatility(
    frame: IntoFrameT,
    /,
    *,
    window: int,
    estimator: Estimator = "close_to_close",
    interval: str | None = None,
    days_per_year: float = 365.0,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Realised volatility of the last candles, per year.

    With :math:`o = \ln(O_i / C_{i-1})`, :math:`c = \ln(C_i / O_i)`, :math:`u = \ln(H_i / O_i)`,
    :math:`d = \ln(L_i / O_i)` over the last :math:`n` candles, and :math:`V` the sample variance (divided by
    :math:`n - 1`), the variance of one candle is

    .. math::

        \sigma^2_\mathrm{close} &= V(o + c) \\
        \sigma^2_\mathrm{parkinson} &= \frac{1}{4 n \ln 2} \sum (u - d)^2 \\
        \sigma^2_\mathrm{garman\ klass} &= \frac1n \sum \left[\tfrac12 (u - d)^2 - (2 \ln 2 - 1) c^2\right] \\
        \sigma^2_\mathrm{rogers\ satchell} &= \frac1n \sum [u (u - c) + d (d - c)] \\
        \sigma^2_\mathrm{yang\ zhang} &= V(o) + k V(c) + (1 - k) \sigma^2_\mathrm{rogers\ satchell}, \qquad
            k = \frac{0.34}{1.34 + (n + 1) / (n - 1)}

    and the volatility :math:`100 \sqrt{\sigma^2 D / \Delta}` with :math:`D` days a year and candles of
    :math:`\Delta` days.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp), any order
        Candles. Uses ``timestamp``, ``close`` and, except for ``close_to_close``, ``open``, ``high``, ``low`` [price].
    window : int, >= 2
        How many candles, the row's own the last. ``close_to_close`` and ``yang_zhang`` also need the close before them.
    estimator : {"close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"}
        How. The middle three see nothing between a close and the next open, and ``parkinson`` and ``garman_klass`` take
        the drift for zero.
    interval : str, optional
        Length of a candle, e.g. ``"1h"``; that in column ``interval`` otherwise.
    days_per_year : float, > 0
        D. [d]
    by : str or iterable of str, optional
        The columns that tell one series from another; the identity columns that there are otherwise.

    Returns
    -------
    frame, n rows, key (series, timestamp), sorted by it, of the kind of ``frame``
        ``by``, ``timestamp``, and

        - ``realized_volatility`` : float64, null before there are enough candles, and where one is missing, is
          there twice, or has a price that is null or not above zero. Known when the row's candle ends. [%]
        - ``estimator`` : str, ``window`` : int64, the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent, ``interval`` among them where it is not given.
    QueryError
        If an argument is none of what it may be.

    See Also
    --------
    volatility_risk_premium : Implied volatility less this.

    Notes
    -----
    A return from one candle to the next counts only if the next begins where it ends: a gap is no return, so a window
    with one in it has no volatility. Fill gaps first, with `tidytape.aggregate.gapfill`, if that is what they mean.

    References
    ----------
    .. [1] M. Parkinson, "The extreme value method for estimating the variance of the rate of return", J. Business 53
       (1980), eq. 5.
    .. [2] M. B. Garman and M. J. Klass, "On the estimation of security price volatilities from historical data",
       J. Business 53 (1980), the practical form of eq. 20.
    .. [3] L. C. G. Rogers and S. E. Satchell, "Estimating variance from high, low and closing prices", Ann. Appl.
       Probab. 1 (1991).
    .. [4] D. Yang and Q. Zhang, "Drift-independent volatility estimation based on high, low, open, and close prices",
       J. Business 73 (2000), eq. 7 and 8.

    Examples
    --------
    >>> from datetime import UTC, datetime, timedelta
    >>> import polars as pl
    >>> days = [datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day) for day in range(4)]
    >>> frame = pl.DataFrame({"timestamp": days, "close": [100.0, 102.0, 101.0, 103.0]})
    >>> realized_volatility(frame, window=3, interval="1d")["realized_volatility"].round(2).to_list()
    [None, None, None, 32.6]
    """
    one_of("estimator", estimator, ESTIMATORS)
    window = whole("window", window, least=2)
    per_year = positive("days_per_year", days_per_year) * DAY
    prices = ("close",) if estimator == "close_to_close" else _PRICES
    needed = [] if interval is not None else ["interval"]
    table = Table.opened(frame, needed, times=["timestamp"], numbers=prices)
    series = table.series(by, without=("timestamp", *_PRICES, *_RESULTS))
    length = (
        length_of(nw.col("interval")) if interval is None else nw.lit(interval_of(interval).seconds * SECOND)
    )
    # A window needs a partition on every engine.
    time = nw.col("timestamp").fill_null(LATEST)
    rows = table.rows.with_columns(__one=nw.lit(1), __time=time, __at=time, __length=length).with_columns(
        _above_zero(name) for name in prices
    )
    keys = ["__one", *series]

    rows = with_neighbour(rows, "__at", name="__at_before", over=keys, order=["__time"])
    before = nw.col("close").shift(1).over(*keys, order_by="__time")
    since = nw.col("__at") - nw.col("__at_before")
    rows = rows.with_columns(__before=before, __since=since).with_columns(
        __follows=nw.when(nw.col("__since") == nw.col("__length"), nw.col("__length") > 0)
        .then(1.0)
        .otherwise(0.0),
        **_terms(estimator),
    )
    # Of one-candle terms the oldest candle is window - 1 back; returns begin at the close before it.
    reach = window if estimator in _RETURNS else window - 1
    rows = rows.with_columns(
        nw.col("__follows").rolling_sum(reach).over(*keys, order_by="__time"),
        *(
            (nw.col(name).rolling_mean(window) if kind == "mean" else nw.col(name).rolling_var(window)).over(
                *keys, order_by="__time"
            )
            for name, kind in _PARTS[estimator]
        ),
    )
    length = nw.col("__length")
    variance = _combined(estimator, window)
    # Rounding may leave a variance of zero a little below.
    variance = nw.when(nw.col("__follows") == reach).then(
        nw.when(variance > 0).then(variance).otherwise(variance * 0.0)
    )
    result = rows.select(
        *series,
        "timestamp",
        realized_volatility=(variance * (per_year / length)).sqrt() * 100.0,
        estimator=nw.lit(estimator),
        window=nw.lit(window, nw.Int64),
    )
    return table.closed(result, sort=[*series, "timestamp"])


# What each estimator takes of the candles of its window: means of terms, or their sample variances.
_PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "close_to_close": (("__close_to_close", "variance"),),
    "parkinson": (("__parkinson", "mean"),),
    "garman_klass": (("__garman_klass", "mean"),),
    "rogers_satchell": (("__rogers_satchell", "mean"),),
    "yang_zhang": (
        ("__overnight", "variance"),
        ("__open_to_close", "variance"),
        ("__rogers_satchell", "mean"),
    ),
}

_RETURNS = ("close_to_close", "yang_zhang")
"""Estimators of returns from the close before."""


def _above_zero(name: str) -> nw.Expr:
    price = nw.col(name)
    return nw.when((price > 0) & price.is_finite()).then(price).alias(name)


def _terms(estimator: str) -> dict[str, nw.Expr]:
    def ratio(over: str, under: str) -> nw.Expr:
        return (nw.col(over) / nw.col(under)).log()

    if estimator == "close_to_close":
        return {"__close_to_close": ratio("close", "__before")}
    up, down, close = ratio("high", "open"), ratio("low", "open"), ratio("close", "open")
    # A range is of its candle, and says nothing of one whose close is not known.
    spread = nw.when(~nw.col("close").is_null()).then((up - down) * (up - down))
    terms = {
        "__overnight": ratio("open", "__before"),
        "__open_to_close": close,
        "__parkinson": spread / (4 * log(2)),
        "__garman_klass": (up - down) * (up - down) * 0.5 - close * close * (2 * log(2) - 1),
        "__rogers_satchell": up * (up - close) + down * (down - close),
    }
    return {name: terms[name] for name, _ in _PARTS[estimator]}


def _combined(estimator: str, window: int) -> nw.Expr:
    if estimator != "yang_zhang":
        return nw.col(_PARTS[estimator][0][0])
    k = 0.34 / (1.34 + (window + 1) / (window - 1))
    return nw.col("__overnight") + nw.col("__open_to_close") * k + nw.col("__rogers_satchell") * (1 - k)
