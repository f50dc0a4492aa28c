"""`audit` counts the findings of a frame; `examples` returns rows that a finding is about."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import integer, one_of
from tidytape.analytics.quality._checks import ABSENT, CHECKS, flag, opened, thresholds, with_flags
from tidytape.sessions import Session


def audit(
    frame: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    session: Session | None = None,
    checks: str | Iterable[str] | None = None,
    outlier: float = 20.0,
    frozen: int = 12,
    stale: int = 3,
    unit_jump: float = 8.0,
) -> IntoFrameT:
    r"""Audit: everything that looks wrong in a frame.

    ===================== ======== ===============================================================================
    finding               severity rows
    ===================== ======== ===============================================================================
    ``missing_time``      error    without a time
    ``duplicate``         error    with the same series, time and key as another row
    ``infinite_value``    error    with an infinite number
    ``inconsistent_ohlc`` error    with an open, close or low above the high, or below the low
    ``negative_amount``   error    with an amount below zero: volume, open interest, size, liquidations, …
    ``quote_mismatch``    error    whose quote amount is not the amount times a price from low to high, if the sums of
                                   the series disagree too: an amount may count contracts, or another coin
    ``unknown_side``      error    with a ``side`` that is none of BUY, SELL, BID, ASK and null, an unknown side
    ``crossed_book``      warning  of a book: bids above the lowest ask of their time, and asks below the highest bid
    ``unknown_interval``  warning  whose ``interval`` names no interval, so other checks of intervals skip them
    ``misaligned``        warning  whose time is not the start of an interval
    ``missing_bucket``    warning  counts intervals without a row within a series; in candles, nothing may have traded
    ``stale``             warning  counts intervals from a series' end to the latest row, if more than ``stale``
    ``unknown_value``     warning  with a null or NaN in a column in which the series has numbers
    ``frozen_price``      warning  with open, high, low and close equal to the close before, ``frozen`` times or more
    ``frozen_interest``   warning  with the same of open interest
    ``frozen_rate``       warning  with funding and predicted rate equal to those before, ``frozen`` times and a day
    ``outlier``           warning  whose move, or rate, is more than ``outlier`` robust standard deviations from usual
    ``unit_jump``         warning  whose value and next four are all ``unit_jump`` times the five before, or a part
    ``unordered``         notice   that come after a later row of their series in the frame
    ===================== ======== ===============================================================================

    An outlier is a row whose move :math:`r_t = \ln(x_t / x_{t-1})` lies far from the median,

    .. math:: |r_t - \tilde r| > k \cdot 1.4826 \cdot \mathrm{median}_s |r_s - \tilde r|

    where :math:`k` is ``outlier``. Neither the move back after a single outlier nor a unit jump is an outlier. If more
    than half of the moves equal the median, 1.2533 times the mean deviation replaces 1.4826 times the median deviation.
    A value of zero or less in a mostly positive series is an outlier, too.

    Funding rates return to their usual value, and trades move by ticks. For these the value itself is compared, not its
    move: :math:`|x_t - \tilde x|` replaces :math:`|r_t - \tilde r|`. For rates, :math:`\tilde x` is the median of the
    series; for trades, :math:`x` is the logarithm of the price, and :math:`\tilde x` its median in the hour (UTC).

    Parameters
    ----------
    frame : frame, n rows, in any order
        Any schema, e.g. candles, open interest, funding, trades, liquidations. Needs only ``timestamp``.
    by : str or iterable of str, optional
        The columns that tell one series from another; by default the identity columns of the frame. Null counts as a
        value.
    interval : str or timedelta, optional
        Length of the rows' intervals; by default the column ``interval`` of each row. Sessions of a market profile need
        the argument.
    session : Session, optional
        When the market trades: ``missing_bucket`` and ``stale`` count only intervals in which it does, as
        `tidytape.analytics.quality.gaps` does, and a row of a day or longer that belongs to a session is not
        ``misaligned``. By default it trades all day.
    checks : str or iterable of str, optional
        Findings to look for; by default all that the columns allow. Raw trades have no intervals to check. For
        liquidations ``missing_bucket`` and ``stale`` must be named, because an interval without liquidations has no
        row.
    outlier : float, > 0
        How many robust standard deviations a usual move may be. The largest hourly moves of a liquid coin in two years
        reach 15, and minutes of important news reach 50. [1]
    frozen : int, > 0
        From how many rows without a move on the price counts as frozen. [rows]
    stale : int, > 0
        By how many intervals a series may end before the latest interval of the frame. [intervals]
    unit_jump : float, > 1
        From which factor on a change of level counts as a change of unit. [1]

    Returns
    -------
    frame, one row per (by, finding) with a finding; sorted by these, of the kind of ``frame``
        ``by``, and

        - ``finding``, ``severity`` : str.
        - ``count`` : int64. [rows; of ``missing_bucket`` and ``stale`` intervals]
        - ``first``, ``last`` : time of the first and the last of these rows, or the start of these intervals; null for
          rows without a time.

    Raises
    ------
    MissingColumnError
        If ``timestamp`` or a column of ``by`` is absent.
    QueryError
        If a time has no zone, an argument is not as listed, or a named check does not apply. A bad value never raises
        an error.

    See Also
    --------
    examples : The rows of a finding.
    gaps : The missing intervals, run by run.

    Notes
    -----
    Rows of lazy frames, of DuckDB and of Spark have no order, so they are not checked for ``unordered``; if ``checks``
    names it, the frame is refused. The order of the rows changes no other finding. Rows in falling order of time are
    unordered.

    ``id`` tells rows of one time apart; trades and liquidations without an ``id`` are told apart by ``price`` and
    ``amount``, and levels by ``price``. A row with a null there is no duplicate.

    The audit looks for outliers and unit jumps in closes, implied volatility and market value; for unit jumps also in
    volume and supply; for outliers also in the closes of funding rates and in prices of trades; for frozen prices in
    candles, and for the same in open interest and funding. A rate stays the same between two settlements, so it counts
    as frozen only after a day. Fewer than 20 moves or values give no outlier, and the five rows at either end of a
    series give no unit jump. A trade that is the only one of its hour equals the median, so it is no outlier.

    A book whose best bid equals its best ask is not crossed: one price block may hold both. A book of several exchanges
    may be crossed without an error. Orders of size 0 are ignored. NaN counts as null. A column that is null throughout
    a series is not checked in that series.

    References
    ----------
    .. [1] Iglewicz, B. and Hoaglin, D. C., "How to Detect and Handle Outliers", 1993: the modified z-score.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1, 5)]
    >>> frame = pl.DataFrame({"timestamp": hours, "interval": "HOUR", "volume": [1.0, -2.0, 3.0]})
    >>> audit(frame).select("finding", "severity", "count").rows()
    [('missing_bucket', 'warning', 3), ('negative_amount', 'error', 1)]
    """
    limits = thresholds(outlier=outlier, frozen=frozen, stale=stale, unit_jump=unit_jump)
    results = ("finding", "severity", "count", "first", "last")
    subject = opened(
        frame, by=by, interval=interval, checks=checks, limits=limits, session=session, without=results
    )
    names = {measure: [f"__{measure}_{check}" for check in subject.checks] for measure in _MEASURES}
    # One pass over the rows: each check has three columns, which become one row per finding after the aggregation.
    measures = [
        nw.when(nw.col(flag(check))).then(nw.col(column)).alias(f"__{measure}_{check}")
        for check in subject.checks
        for measure, column in zip(
            _MEASURES, ABSENT.get(check, ("__one", "__moment", "__moment")), strict=True
        )
    ]
    # Several rows may share the last interval of a series, but their lag counts once: hence the maximum.
    counts = [
        nw.col(name).max() if name == "__count_stale" else nw.col(name).sum() for name in names["count"]
    ]
    by_series = (
        with_flags(subject)
        .with_columns(__one=nw.lit(1, nw.Int64()), __moment=nw.when("__timed").then("__time"))
        .select(*subject.by, *measures, __all=nw.lit(0))
        .group_by(*subject.by, "__all")
        .agg(*counts, nw.col(*names["first"]).min(), nw.col(*names["last"]).max())
    )
    one_row = subject.table.rows.head(1)
    labels = nw.concat(
        [one_row.select(finding=nw.lit(check), severity=nw.lit(CHECKS[check])) for check in subject.checks]
    )
    by_finding = {
        measure: nw.coalesce(
            *(
                nw.when(nw.col("finding") == check).then(nw.col(f"__{measure}_{check}"))
                for check in subject.checks
            )
        )
        for measure in _MEASURES
    }
    findings = (
        by_series.join(labels, how="cross")
        .with_columns(**by_finding)
        .filter(nw.col("count") > 0)
        .with_columns(nw.col("count").cast(nw.Int64))
    )
    time_columns = {"first": "timestamp", "last": "timestamp"}
    return subject.table.closed(
        findings.select(*subject.by, *results), sort=[*subject.by, "finding"], times=time_columns
    )


_MEASURES: Final = ("count", "first", "last")
"""Columns of a finding that are aggregated from the rows with its flag."""


def examples(
    frame: IntoFrameT,
    /,
    *,
    finding: str,
    rows: int = 3,
    by: str | Iterable[str] | None = None,
    interval: str | timedelta | None = None,
    session: Session | None = None,
    outlier: float = 20.0,
    frozen: int = 12,
    stale: int = 3,
    unit_jump: float = 8.0,
) -> IntoFrameT:
    """Examples of a finding: the first rows of each series that have the finding.

    Parameters
    ----------
    frame, by, interval, session, outlier, frozen, stale, unit_jump
        As in `audit`.
    finding : str
        The finding, a name from the table of `audit`.
    rows : int, > 0
        The largest number of rows per series. [rows]

    Returns
    -------
    frame, at most ``rows`` rows per ``by``, the earliest first; of the kind of ``frame``
        The columns of ``frame``. For ``missing_bucket`` these are the rows before gaps, for ``stale`` the last row of a
        series.

    Raises
    ------
    MissingColumnError, QueryError
        As in `audit`; also if the finding is unknown or does not apply.

    Notes
    -----
    The order of rows with the same time does not depend on the order of the frame, unless all their numbers are equal.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in range(4)]
    >>> frame = pl.DataFrame({"timestamp": hours, "volume": [1.0, -2.0, 3.0, -4.0]})
    >>> examples(frame, finding="negative_amount", rows=1)["volume"].to_list()
    [-2.0]
    """
    one_of("finding", finding, CHECKS)
    limits = thresholds(outlier=outlier, frozen=frozen, stale=stale, unit_jump=unit_jump)
    row_limit = integer("rows", rows)
    subject = opened(frame, by=by, interval=interval, checks=finding, limits=limits, session=session)
    order = ["__time", *subject.columns["key"], *subject.numbers]
    example_rows = (
        with_flags(subject)
        .filter(nw.col(flag(finding)))
        # Engines disagree on whether nulls sort first or last.
        .with_columns(*(nw.col(name).fill_null(0.0) for name in subject.numbers), __one=nw.lit(1, nw.Int64()))
        .with_columns(__number=nw.col("__one").cum_sum().over(*subject.by, order_by=order))
        .filter(nw.col("__number") <= row_limit)
        .sort(*subject.by, "__number")
    )
    return subject.table.closed(example_rows.select(subject.table.names))
