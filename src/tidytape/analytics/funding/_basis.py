"""A future over spot, and what it pays to hold both until it expires."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._intervals import EXPIRES, ends, is_day
from tidytape.analytics._series import Duration, finite
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.table import Table
from tidytape.frames.times import counted_beside, midnights
from tidytape.query.values import TimeLike, epoch_seconds
from tidytape.times import DAY, SECOND


def basis(
    frame: IntoFrameT,
    /,
    *,
    future: str = "future",
    spot: str = "spot",
    expiry: TimeLike | None = None,
    interval: Duration | None = None,
) -> IntoFrameT:
    r"""Basis of a future: how much dearer it is than spot, and that per year.

    .. math:: b = (F - S) / S, \qquad b_\mathrm{year} = b \cdot 365 / d

    with d days from the prices to the expiry.

    Parameters
    ----------
    frame : frame, n rows
        Both prices of the same moment beside each other: join one to the other first.
    future, spot : str
        Columns of F and S. [quote per coin]
    expiry : str or time, optional
        The column that holds when the future expires, or the time itself; what is a date is 08:00 UTC of it. A
        perpetual has none, and its basis no year.
    interval : str or timedelta, > 0, optional
        Length of the candles whose closes the prices are: they are of its end. Only allowed if the frame has no column
        ``interval``, which says it; without either the prices are of ``timestamp`` itself.

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
        If prices are no numbers, or a time has no zone, or a duration is none.

    Examples
    --------
    >>> import polars as pl
    >>> day = 86_400_000_000_000
    >>> prices = pl.DataFrame({"timestamp": [0], "future": [61_200.0], "spot": [60_000.0], "expiry": [73 * day]})
    >>> basis(prices, expiry="expiry").select(pl.col("basis", "days", "basis_annualized").round(6)).row(0)
    (0.02, 73.0, 0.1)
    """
    table, rows = _priced(frame, future, spot, expiry, interval)
    return table.closed(rows, like_rows=True)


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
    r"""What buying spot and selling the future earns until the future expires, and what the reverse does.

    .. math::

       n = b - k - r d / 365, \qquad n_\mathrm{reverse} = -b - k + r d / 365

    with the basis b, costs k, a rate r and d days. The future converges to spot, so what is earned is known beforehand.

    Parameters
    ----------
    frame : frame, n rows
        Both prices of the same moment beside each other: join one to the other first.
    expiry : str or time
        The column that holds when the future expires, or the time itself; what is a date is 08:00 UTC of it.
    future, spot : str
        Columns of F and S. [quote per coin]
    costs : float, >= 0
        k, of all that is traded, in and out, as a share of S. [1]
    financing : float
        r, that the money for the spot costs; of the reverse, that its proceeds earn, less what the borrowed coin costs.
        Simple. [1 per year]
    interval : str or timedelta, > 0, optional
        As in `basis`.

    Returns
    -------
    frame, n rows, same order and kind as ``frame``
        Adds what `basis` does, ``costs`` [1], ``financing`` [1 per year], and

        - ``carry`` : float64, earned by the better of the two trades after costs and financing, per value of spot; null
          where ``basis_annualized`` is. [1]
        - ``carry_annualized`` : float64, the same per year of 365 days, simple. [1 per year]
        - ``trade`` : ``cash_and_carry`` or ``reverse``, which is the better; ``none`` if neither earns anything.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If prices or an argument are no numbers, costs are below 0, a time has no zone, or a duration is none.

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
    over = nw.col("basis") - nw.col("days") * (financing / 365.0)
    # Costs are paid either way; what is left of the basis decides which way.
    carry = nw.when(~nw.col("basis_annualized").is_null()).then(over.abs() - costs)
    rows = rows.with_columns(costs=nw.lit(costs), financing=nw.lit(financing), carry=carry)
    way = nw.when(over > 0).then(nw.lit("cash_and_carry")).otherwise(nw.lit("reverse"))
    rows = rows.with_columns(
        carry_annualized=nw.col("carry") * 365.0 / nw.col("days"),
        trade=nw.when(nw.col("carry") > 0)
        .then(way)
        .otherwise(nw.when(nw.col("carry") <= 0).then(nw.lit("none"))),
    )
    return table.closed(rows, like_rows=True)


def _priced(
    frame: IntoFrameT, future: str, spot: str, expiry: TimeLike | None, interval: Duration | None
) -> tuple[Table[IntoFrameT], nw.LazyFrame[Any]]:
    """Return the frame opened, and its rows with the columns that `basis` adds."""
    table = Table.opened(frame)
    schema, names = table.schema, table.names
    column = expiry if isinstance(expiry, str) and expiry in names else None
    table = Table.opened(table, times=[] if expiry is None else ["timestamp"], numbers=[future, spot])
    rows = table.rows
    dear = nw.when(nw.col(spot) > 0).then(finite(future) / finite(spot) - 1.0)
    if expiry is None:
        return table, rows.with_columns(basis=dear)
    if column and schema[column] == nw.Date:
        rows = midnights(rows.with_columns(__expiry=nw.col(column)), "__expiry")
        rows = rows.with_columns(nw.col("__expiry") + EXPIRES)
    elif column:  # beside itself: what expires beyond the reach of nanoseconds comes back as it is
        rows = counted_beside(rows, column, "__expiry")
    at: Any = nw.col("__expiry") if column else _moment(expiry, names)
    days = (at - ends(table, interval)).cast(nw.Float64()) / float(DAY)
    left = nw.when(days > 0).then(days)
    rows = rows.with_columns(basis=dear, days=days, basis_annualized=dear * 365.0 / left)
    return table, rows.drop("__expiry", strict=False)


def _moment(expiry: TimeLike, names: list[str]) -> int:
    if isinstance(expiry, str) and expiry.isidentifier():  # no time is written so
        raise MissingColumnError([expiry], available=names)
    start = epoch_seconds(expiry, parameter="expiry") * SECOND
    return start + EXPIRES if is_day(expiry) else start
