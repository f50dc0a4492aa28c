"""Funding rates over another interval and per year, and the premium of futures over spot until they expire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import EXPIRES, Duration, ends, finite, is_day
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames._table import OpenTable
from tidytape.frames._times import midnights, with_counted
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.schema import schema_of
from tidytape.times import DAY, SECOND

OWN = "funding_interval"
"""Column of the interval that a rate is paid for. [ns]"""


_RATES = (
    *(name for name in schema_of("FUNDING_RATE_AGG").names if name.startswith(("rate_", "predicted_"))),
    *("rate", "predicted_rate"),
)


def normalized(
    frame: IntoFrameT,
    /,
    *,
    to: Duration,
    rates: str | Iterable[str] | None = None,
    funding_interval: Duration | None = None,
) -> IntoFrameT:
    r"""Funding rates converted to another funding interval, in proportion.

    .. math:: f_\mathrm{to} = f \, T_\mathrm{to} / T_\mathrm{own}

    Exchanges quote rates in this way. For compounded payments see ``apy`` of `annualized`.

    Parameters
    ----------
    frame : frame, n rows
        Schema ``FUNDING_RATE_AGG``, or any frame with rates. [1 per own funding interval]
    to : str or timedelta, > 0
        The new interval, e.g. ``"1h"``.
    rates : str or iterable of str, optional
        Columns of the rates. By default the frame's columns among those of ``FUNDING_RATE_AGG``, ``rate`` and
        ``predicted_rate``.
    funding_interval : str or timedelta, > 0, optional
        The interval that all rates are paid for. Needed, and only allowed, if the frame has no column
        ``funding_interval``. [ns in the column]

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        The rates over ``to``, null if the rate is not finite or its own interval is unknown or not positive;
        ``funding_interval`` : int64, the interval ``to`` [ns].

    Raises
    ------
    MissingColumnError
        If a column of ``rates`` is absent.
    QueryError
        If an interval is not a positive duration, if the interval of the rates is given neither by the argument nor by
        the column, or by both, or if the frame has no column of rates.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame({"exchange": ["A", "B"], "rate_close": [0.0001, -0.0004]})
    >>> normalized(points, to="1h", funding_interval="8h").rows()
    [('A', 3600000000000, 1.25e-05), ('B', 3600000000000, -5e-05)]
    """
    new_interval = arguments.duration("to", to)
    table = OpenTable.of(frame)
    names = table.names
    if rates is None:
        columns = [name for name in _RATES if name in names]
        if not columns:
            raise QueryError("rates", got=names, expected=f"a frame with some of {', '.join(_RATES)}")
    else:
        columns = arguments.columns("rates", rates)
    table = OpenTable.of(table, numbers=columns, optional=[OWN])
    ratio = float(new_interval) / own_interval(table, funding_interval)
    scaled = [(finite(name) * ratio).alias(name) for name in columns]
    return table.closed(
        table.rows.with_columns(*scaled, nw.lit(new_interval, nw.Int64()).alias(OWN)),
        like_rows=True,
        main=[name for name in names if name in columns],
    )


def annualized(
    frame: IntoFrameT,
    /,
    *,
    rate: str = "rate_close",
    funding_interval: Duration | None = None,
    days_per_year: float = 365.0,
) -> IntoFrameT:
    r"""Funding rates per year: simple, and compounded.

    .. math::

       \mathrm{apr} = f N, \qquad \mathrm{apy} = (1 + f)^N - 1, \qquad N = D / T

    with N settlements in a year of D days. 0.01% per 8 hours is an apr of 10.95%; 0.00125% per hour is an apy of
    11.57%.

    Parameters
    ----------
    frame : frame, n rows
        Schema ``FUNDING_RATE_AGG``, or any frame with a rate.
    rate : str
        Column of the rate. [1 per funding interval]
    funding_interval : str or timedelta, > 0, optional
        T, the interval that the rate is paid for. Needed, and only allowed, if the frame has no column
        ``funding_interval``. [ns in the column]
    days_per_year : float, > 0
        D. [d]

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        Adds ``apr`` : float64, what a position of constant value pays in a year [1 per year]; and ``apy`` : float64,
        what it pays if every payment is added to it [1 per year], null if the rate is -1 or below. Both are null if the
        rate is not finite or its interval is unknown or not positive.

    Raises
    ------
    MissingColumnError
        If ``rate`` is absent.
    QueryError
        If the interval of the rate is given neither by the argument nor by the column, or by both, or if a number is
        not positive.

    References
    ----------
    .. [1] Hull, J. C., "Options, Futures, and Other Derivatives", 10th edition, 2018, chapter 4, on compounding.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame({"rate_close": [0.0001]})
    >>> annualized(points, funding_interval="8h").select(pl.col("apr", "apy").round(6)).row(0)
    (0.1095, 0.115714)
    """
    days = arguments.positive("days_per_year", days_per_year)
    table = OpenTable.of(frame, numbers=[rate], optional=[OWN])
    times = days * DAY / own_interval(table, funding_interval)
    value = finite(rate)
    # Compute log(1 + f) and exp(y) - 1 to the last digit: 1 + f drops digits of f, and the quotient makes up for them
    # [1]. [1] W. Kahan: HP-15C Advanced Functions Handbook, 1982, appendix.
    base = value + 1.0
    log_factor = nw.when(base > 0).then(base).log()
    growth = nw.when(base != 1.0).then(log_factor * value / (base - 1.0)).otherwise(value) * times
    factor = growth.exp()
    apy_of_small = nw.when(factor != 1.0).then((factor - 1.0) * growth / factor.log()).otherwise(growth)
    apy = nw.when(growth.abs() < 1.0).then(apy_of_small).otherwise(factor - 1.0)
    return table.closed(
        table.rows.with_columns(apr=value * times, apy=apy), like_rows=True, main=[rate, "apr", "apy"]
    )


def own_interval(table: OpenTable[Any], funding_interval: Duration | None) -> Any:
    """Return the interval that rates are paid for: the argument, or an expression of the frame's column. [ns]

    Raises
    ------
    QueryError
        If neither the argument nor the column gives the interval, or both do.
    """
    has_column = OWN in table.names
    if has_column and funding_interval is not None:
        raise QueryError(OWN, got=funding_interval, expected=f"nothing: the frame's column {OWN} says it")
    if funding_interval is not None:
        return float(arguments.duration(OWN, funding_interval))
    if has_column:
        interval = nw.col(OWN).cast(nw.Float64())
        return nw.when((interval > 0) & interval.is_finite()).then(interval)
    hours = DEFAULT_FUNDING_INTERVAL_MS // 3_600_000
    raise QueryError(
        OWN,
        got=None,
        expected=f"the interval that the rates are over, e.g. '{hours}h', or a column {OWN} [ns]",
        hint=f"the client brings rates to {hours}h unless it is told otherwise",
    )


def basis(
    frame: IntoFrameT,
    /,
    *,
    future: str = "future",
    spot: str = "spot",
    expiry: TimeLike | None = None,
    interval: Duration | None = None,
) -> IntoFrameT:
    r"""Basis of a future: its premium over spot, as a share and per year.

    .. math:: b = (F - S) / S, \qquad b_\mathrm{year} = b \cdot 365 / d

    with d days from the time of the prices to the expiry.

    Parameters
    ----------
    frame : frame, n rows
        Each row has both prices at one time: join the two frames first.
    future, spot : str
        Columns of F and S. [quote per coin]
    expiry : str or time, optional
        Column of the expiry of the future, or the time itself; a date means 08:00 UTC of that day. Leave it out for a
        perpetual, whose basis has no yearly value.
    interval : str or timedelta, > 0, optional
        Length of the candles, if the prices are closes of candles: closes are prices of the end of the interval. Only
        allowed if the frame has no column ``interval``. Without either, the prices are of ``timestamp``.

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        Adds ``basis`` : float64, above 0 if the future is dearer, null where a price is not finite or S is not positive
        [1]. With ``expiry`` also ``days`` : float64 [d], and ``basis_annualized`` : float64, simple, null where no time
        is left [1 per year].

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If prices are not numbers, or a time has no zone, or a duration is invalid.

    References
    ----------
    .. [1] Hull, J. C., "Options, Futures, and Other Derivatives", 10th edition, 2018, chapter 3, on basis risk,
       where the basis is spot minus future.

    Examples
    --------
    >>> import polars as pl
    >>> day = 86_400_000_000_000
    >>> prices = pl.DataFrame({"timestamp": [0], "future": [61_200.0], "spot": [60_000.0], "expiry": [73 * day]})
    >>> basis(prices, expiry="expiry").select(pl.col("basis", "days", "basis_annualized").round(6)).row(0)
    (0.02, 73.0, 0.1)
    """
    table, rows = _priced(frame, future, spot, expiry, interval)
    return table.closed(rows, like_rows=True, main=["days", "basis", "basis_annualized"])


def cash_and_carry(
    frame: IntoFrameT,
    /,
    *,
    expiry: TimeLike,
    future: str = "future",
    spot: str = "spot",
    costs: float = 0.0,
    financing: float = 0.0,
    interval: Duration | None = None,
) -> IntoFrameT:
    r"""Return of buying spot and selling the future until it expires, and of the reverse.

    .. math::

       n = b - k - r d / 365, \qquad n_\mathrm{reverse} = -b - k + r d / 365

    with the basis b, costs k, a rate r and d days. At expiry the future equals spot, so the return is known
    beforehand.

    Parameters
    ----------
    frame : frame, n rows
        Each row has both prices at one time: join the two frames first.
    expiry : str or time
        Column of the expiry of the future, or the time itself; a date means 08:00 UTC of that day.
    future, spot : str
        Columns of F and S. [quote per coin]
    costs : float, >= 0
        k, the costs of all trades, to open and to close, as a share of S. [1]
    financing : float
        r, the interest on the money that buys spot; of the reverse trade, the interest that the proceeds earn, minus
        the cost of borrowing the coin. Simple. [1 per year]
    interval : str or timedelta, > 0, optional
        As in `basis`.

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        Adds what `basis` does, ``costs`` [1], ``financing`` [1 per year], and

        - ``carry`` : float64, the return of the better trade after costs and financing, as a share of the value of
          spot; null where ``basis_annualized`` is. [1]
        - ``carry_annualized`` : float64, the same per year of 365 days, simple. [1 per year]
        - ``trade`` : the better trade, ``cash_and_carry`` or ``reverse``; ``none`` if neither has a positive return.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If prices or an argument are not numbers, costs are below 0, a time has no zone, or a duration is invalid.

    References
    ----------
    .. [1] Hull, J. C., "Options, Futures, and Other Derivatives", 10th edition, 2018, chapter 5, on forward prices
       and arbitrage.

    Examples
    --------
    >>> import polars as pl
    >>> day = 86_400_000_000_000
    >>> prices = pl.DataFrame({"timestamp": [0], "future": [61_200.0], "spot": [60_000.0], "expiry": [73 * day]})
    >>> trade = cash_and_carry(prices, expiry="expiry", costs=0.002, financing=0.05)
    >>> trade.select(pl.col("carry", "carry_annualized").round(6), "trade").row(0)
    (0.008, 0.04, 'cash_and_carry')
    """
    costs = arguments.number("costs", costs, least=0)
    financing = arguments.number("financing", financing)
    if expiry is None:
        raise QueryError("expiry", got=None, expected="a time, or the column that holds it")
    table, rows = _priced(frame, future, spot, expiry, interval)
    excess = nw.col("basis") - nw.col("days") * (financing / 365.0)
    # Both trades pay the same costs; the sign of the basis minus financing decides which trade is better.
    carry = nw.when(~nw.col("basis_annualized").is_null()).then(excess.abs() - costs)
    better_trade = nw.when(excess > 0).then(nw.lit("cash_and_carry")).otherwise(nw.lit("reverse"))
    rows = rows.with_columns(
        costs=nw.lit(costs),
        financing=nw.lit(financing),
        carry=carry,
        carry_annualized=carry * 365.0 / nw.col("days"),
        trade=nw.when(carry > 0).then(better_trade).otherwise(nw.when(carry <= 0).then(nw.lit("none"))),
    )
    return table.closed(rows, like_rows=True, main=["basis_annualized", "carry", "carry_annualized", "trade"])


def _priced(
    frame: IntoFrameT, future: str, spot: str, expiry: TimeLike | None, interval: Duration | None
) -> tuple[OpenTable[IntoFrameT], nw.LazyFrame[Any]]:
    """Return the frame opened, and its rows with the columns that `basis` adds."""
    table = OpenTable.of(frame)
    schema, names = table.schema, table.names
    column = expiry if isinstance(expiry, str) and expiry in names else None
    table = OpenTable.of(table, times=[] if expiry is None else ["timestamp"], numbers=[future, spot])
    rows = table.rows
    basis_share = nw.when(nw.col(spot) > 0).then(finite(future) / finite(spot) - 1.0)
    if expiry is None:
        return table, rows.with_columns(basis=basis_share)
    if column and schema[column] == nw.Date:
        rows = midnights(rows.with_columns(__expiry=nw.col(column)), "__expiry").with_columns(
            nw.col("__expiry") + EXPIRES
        )
    elif (
        column
    ):  # a column of its own: the caller's expiry stays unchanged, even if it does not fit into int64
        rows = with_counted(rows, column, "__expiry")
    expiry_time: Any = nw.col("__expiry") if column else _moment(expiry, names)
    days = (expiry_time - ends(table, interval)).cast(nw.Float64()) / float(DAY)
    days_left = nw.when(days > 0).then(days)
    rows = rows.with_columns(basis=basis_share, days=days, basis_annualized=basis_share * 365.0 / days_left)
    return table, rows.drop("__expiry", strict=False)


def _moment(expiry: TimeLike, names: list[str]) -> int:
    if isinstance(expiry, str) and expiry.isidentifier():  # a time is never an identifier
        raise MissingColumnError([expiry], available=names)
    start = epoch_seconds(expiry, parameter="expiry") * SECOND
    return start + EXPIRES if is_day(expiry) else start
