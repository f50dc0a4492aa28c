"""One rate over another interval: linear, per year, compounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import Duration, finite
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.errors import QueryError
from tidytape.frames.table import Table
from tidytape.schema import schema_of
from tidytape.times import DAY

OWN = "funding_interval"
"""The column that says which interval a rate is over. [ns]"""


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
    r"""Funding rates brought to another funding interval, linearly.

    .. math:: f_\mathrm{to} = f \, T_\mathrm{to} / T_\mathrm{own}

    This is how venues quote, not what is earned by leaving the payments in: see ``apy`` of `annualized` for that.

    Parameters
    ----------
    frame : frame, n rows
        Schema ``FUNDING_RATE_AGG``, or any frame with rates. [1 per own funding interval]
    to : str or timedelta, > 0
        The interval wanted, e.g. ``"1h"``.
    rates : str or iterable of str, optional
        Columns of the rates. Those of ``FUNDING_RATE_AGG``, ``rate`` and ``predicted_rate`` that there are.
    funding_interval : str or timedelta, > 0, optional
        The interval that all the rates are over. Needed, and only allowed, if the frame has no column
        ``funding_interval``. [ns in the column]

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        The rates over ``to``, null where the rate is not finite or its own interval is not known and positive;
        ``funding_interval`` : int64, which is ``to`` [ns].

    Raises
    ------
    MissingColumnError
        If a column of ``rates`` is absent.
    QueryError
        If an interval is no positive duration, or the interval of the rates is not said, or said twice, or there is no
        column of rates.

    References
    ----------
    .. [1] A rate per interval is proportional to its length: funding is paid on the notional, not on what was paid.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame({"exchange": ["A", "B"], "rate_close": [0.0001, -0.0004]})
    >>> normalized(points, to="1h", funding_interval="8h").rows()
    [('A', 1.25e-05, 3600000000000), ('B', -5e-05, 3600000000000)]
    """
    wanted = arguments.duration("to", to)
    table = Table.opened(frame)
    names = table.names
    if rates is None:
        columns = [name for name in _RATES if name in names]
        if not columns:
            raise QueryError("rates", got=names, expected=f"a frame with some of {', '.join(_RATES)}")
    else:
        columns = arguments.columns("rates", rates)
    table = Table.opened(table, numbers=columns)
    ratio = float(wanted) / own_interval(table, funding_interval)
    scaled = [(finite(name) * ratio).alias(name) for name in columns]
    return table.closed(
        table.rows.with_columns(*scaled, nw.lit(wanted, nw.Int64()).alias(OWN)), like_rows=True
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
        T, that the rate is over. Needed, and only allowed, if the frame has no column ``funding_interval``.
        [ns in the column]
    days_per_year : float, > 0
        D. [d]

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        Adds ``apr`` : float64, what a position of constant value pays in a year [1 per year]; and ``apy`` : float64,
        what it pays if every payment is added to it [1 per year], null where the rate is -1 or below. Both null where
        the rate is not finite or its interval is not known and positive.

    Raises
    ------
    MissingColumnError
        If ``rate`` is absent.
    QueryError
        If the interval of the rate is not said, or said twice, or a number is not positive.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame({"rate_close": [0.0001]})
    >>> annualized(points, funding_interval="8h").select(pl.col("apr", "apy").round(6)).row(0)
    (0.1095, 0.115714)
    """
    days = arguments.positive("days_per_year", days_per_year)
    table = Table.opened(frame, numbers=[rate])
    times = days * DAY / own_interval(table, funding_interval)
    value = finite(rate)
    # log(1 + f) and exp(y) - 1 to the last digit, although 1 + f drops digits of f: what is dropped is divided out [1].
    # [1] W. Kahan: HP-15C Advanced Functions Handbook, 1982, appendix.
    one_more = value + 1.0
    grown = nw.when(one_more > 0).then(one_more).log()
    growth = nw.when(one_more != 1.0).then(grown * value / (one_more - 1.0)).otherwise(value) * times
    factor = growth.exp()
    small = nw.when(factor != 1.0).then((factor - 1.0) * growth / factor.log()).otherwise(growth)
    apy = nw.when(growth.abs() < 1.0).then(small).otherwise(factor - 1.0)
    return table.closed(table.rows.with_columns(apr=value * times, apy=apy), like_rows=True)


def own_interval(table: Table[Any], given: Duration | None) -> Any:
    """Return the interval that rates are over [ns]: the number given, or the expression of the column that says it.

    Raises
    ------
    QueryError
        If neither says it, or both do.
    """
    stated = OWN in table.names
    if stated and given is not None:
        raise QueryError(OWN, got=given, expected=f"nothing: the frame's column {OWN} says it")
    if given is not None:
        return float(arguments.duration(OWN, given))
    if stated:
        if not (dtype := table.rows.collect_schema()[OWN]).is_numeric():
            raise QueryError(OWN, got=f"{OWN}: {dtype}", expected=f"nanoseconds in column {OWN}")
        own = nw.col(OWN).cast(nw.Float64())
        return nw.when((own > 0) & own.is_finite()).then(own)
    hours = DEFAULT_FUNDING_INTERVAL_MS // 3_600_000
    raise QueryError(
        OWN,
        got=None,
        expected=f"the interval that the rates are over, e.g. '{hours}h', or a column {OWN} [ns]",
        hint=f"the client brings rates to {hours}h unless it is told otherwise",
    )
