"""Volatilities at maturities between expiries, and the steps that both kinds of term structure share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import is_number, number, one_of
from tidytape.analytics._series import IS_REPEATED, repeated, row_columns
from tidytape.analytics._smile import is_above_zero
from tidytape.catalogue import Tenor
from tidytape.errors import QueryError
from tidytape.frames._door import as_list, require
from tidytape.frames._rows import crossed, interpolated, next_of, with_next
from tidytape.frames._table import OpenTable, Rows
from tidytape.query._values import TimeLike, choice, epoch_seconds
from tidytape.times import SECOND

VALUES = ("implied_volatility", "skew")
"""Values of a term structure."""

_RULES = ("atm", "delta")


def constant_maturity(
    points: IntoFrameT,
    /,
    *,
    days: float | str | Iterable[float | str],
    by: str | Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Volatilities at constant maturities, linear in total variance between expiries.

    .. math::

        w_i = \sigma_i^2 T_i, \qquad
        \sigma(\tau)^2 \tau = w_1 + (w_2 - w_1) \frac{\tau - T_1}{T_2 - T_1}, \qquad T_1 \le \tau < T_2

    Each point's variance is interpolated separately, so a risk reversal at a constant maturity is
    ``risk_reversal(constant_maturity(points, days=30))``. Nothing is extrapolated. If an expiry lacks a point,
    maturities next to it lack the point, too: the expiries beyond are not used instead.

    Parameters
    ----------
    points : frame, n rows, one per (by, timestamp, days), any order
        As `delta_points` or `atm_volatility` return them. Uses ``timestamp``, ``days`` [d] and the columns of
        volatilities [%].
    days : float, str, or iterable of these, > 0
        The maturities, in days [d] or as tenors, e.g. ``"1m"`` for 30 days.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame, and ``moneyness`` or
        ``strike`` if ``points`` have one.
    columns : iterable of str, optional
        The columns of volatilities; by default those named ``iv_…``.

    Returns
    -------
    frame, one row per (by, timestamp, days), sorted by these, of the kind of ``points``
        The rules ``atm`` and ``delta``, if ``points`` has them; and the columns of volatilities, null if the maturity
        lies outside the expiries, or if the expiry before or after lacks the point or appears twice. [%]

    Raises
    ------
    MissingColumnError
        If ``points`` lacks a column, or has no volatilities.
    QueryError
        If ``days`` are neither numbers above 0 nor tenors, a column is not numeric, or ``points`` is not a frame.

    References
    ----------
    .. [1] Cboe, "Volatility Index Methodology: Cboe Volatility Index", 2023: the variances of two expiries,
       weighted by time to 30 days.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> now = datetime(2026, 3, 5, tzinfo=UTC)
    >>> points = pl.DataFrame({"timestamp": now, "days": [28.0, 56.0], "iv_atm": [60.0, 58.0]})
    >>> constant_maturity(points, days=30).select("days", pl.col("iv_atm").round(4)).row(0)
    (30.0, 59.7372)
    """
    target_days = maturities(days)
    table = OpenTable.of(points, ["timestamp", "days"], parameter="points")
    if columns is None:
        names = [name for name in table.names if name.startswith("iv_")]
        require(names or ["iv_atm"], table.names)
    else:
        names = arguments.columns("columns", columns)
    table = OpenTable.of(table, ["timestamp"], numbers=["days", *names], parameter="points")
    chain = [*series_of(table, by, without=names), "timestamp"]
    life = nw.col("days")
    variances = single(table.rows, [*chain, "days"], names).with_columns(
        # A square hides the sign, so only positive numbers are squared.
        nw.when(nw.col(name) > 0).then(nw.col(name) ** 2 * life).alias(name)
        for name in names
    )
    result = at_maturities(variances, chain, target_days, names).with_columns(
        (nw.col(name) / life).sqrt().alias(name) for name in names
    )
    return table.closed(result, sort=[*chain, "days"], main=["days", *names])


def at_maturities(
    rows: Rows,
    keys: Sequence[str],
    target_days: Iterable[float],
    values: Sequence[str],
    worst: Sequence[str] = (),
) -> Rows:
    """Return values at maturities, linear between the rows of the same keys before and after each maturity.

    Parameters
    ----------
    rows : frame, n rows
        ``keys``, ``days`` [d], ``values``; rows whose ``days`` are not above 0 are left out.
    keys : sequence of str
        Columns that name a series and time.
    target_days : iterable of float
        The maturities. [d]
    values : sequence of str
        Columns that are interpolated.
    worst : sequence of str
        Columns that get the larger value of the two rows, if the first of ``values`` is known.

    Returns
    -------
    frame, one row per keys and maturity
        ``keys``, ``days`` and the columns, null if the maturity does not lie between two rows.
    """
    days, length = nw.col("days"), nw.col("__length")
    pairs = with_next(
        rows.filter(is_above_zero(days)), ("days", *values, *worst), over=keys, order_by=("days",)
    )
    is_known = ~interpolated(length, "days", values[0]).is_null()
    following = {name: nw.col(next_of(name)) for name in worst}
    # If the maturity is that of a row, the row's own value counts.
    larger = {
        name: nw.when(other > nw.col(name), days < length).then(other).otherwise(nw.col(name))
        for name, other in following.items()
    }
    # Pair each row with each maturity; the pair has a value if the maturity lies between the row and the next one.
    return (
        crossed(pairs, "__length", target_days)
        .with_columns(
            *(interpolated(length, "days", name).alias(name) for name in values),
            **{name: nw.when(is_known).then(value) for name, value in larger.items()},
        )
        .group_by(*keys, "__length")
        .agg(nw.col(*values, *worst).max())
        .select(*keys, length.alias("days"), *values, *worst)
    )


def single(rows: Rows, key: Sequence[str], names: Iterable[str]) -> Rows:
    """Return the rows, with null for the values if several rows have the key, because none is the right one."""
    is_single = nw.col(IS_REPEATED) == 0
    return repeated(rows, key).with_columns(
        nw.when(is_single).then(nw.col(name)).alias(name) for name in names
    )


def last_before(rows: Rows, at: TimeLike | None, series_columns: Sequence[str]) -> Rows:
    """Return the rows of each series' last time at or before ``at``; all rows if ``at`` is None."""
    if at is None:
        return rows
    rows = rows.filter(nw.col("timestamp") <= epoch_seconds(at, parameter="at") * SECOND)
    newest = nw.col("timestamp").max()
    return rows.filter(nw.col("timestamp") == (newest.over(*series_columns) if series_columns else newest))


SLOPED: Final = ("short", "long", "slope", "structure")
"""Results of a slope."""


def sloped(
    rows: Rows,
    keys: Sequence[str],
    value: str,
    *,
    along: str,
    short: float | str,
    long: float | str,
    flat: float,
) -> Rows:
    """Return one row per keys: the values at two maturities, their difference, and the shape of the structure.

    Parameters
    ----------
    rows : frame
        ``keys``, ``value`` and ``along``.
    keys : sequence of str
        Columns that name a series and time.
    value : str
        The value of the term structure.
    along : {"days", "tenor"}
        Column of the maturities.
    short, long : float or str
        The two maturities, in the unit of ``along``.
    flat : float
        The structure is flat if the size of its slope is at most this.
    """
    flat = number("flat", flat, least=0)
    ends = single(rows, [*keys, along], [value]).with_columns(
        nw.when(nw.col(along) == maturity).then(nw.col(value)).alias(name)
        for name, maturity in (("short", short), ("long", long))
    )
    slope = nw.col("slope")
    shape = (
        nw.when(slope > flat)
        .then(nw.lit("contango"))
        .when(slope < -flat)
        .then(nw.lit("backwardation"))
        .when(slope.is_finite())
        .then(nw.lit("flat"))
    )
    argument_columns = {f"short_{along}": short, f"long_{along}": long, "flat_within": flat}
    return (
        ends.group_by(*keys)
        .agg(nw.col("short", "long").max())
        .with_columns(slope=nw.col("long") - nw.col("short"))
        .with_columns(
            structure=shape, **{name: nw.lit(argument) for name, argument in argument_columns.items()}
        )
    )


def maturities(days: object) -> list[float]:
    """Return maturities in days, without repeats; raise QueryError if there are none, or one is invalid."""
    maturity_list = as_list(days)
    if not maturity_list:
        raise QueryError("days", got=days, expected="at least one number of days")
    return list(dict.fromkeys(in_days("days", day) for day in maturity_list))


def in_days(parameter: str, maturity: object) -> float:
    """Return a maturity, given as a number of days or a tenor, in days; raise QueryError for anything else. [d]"""
    if isinstance(maturity, str):
        return float(choice(maturity, Tenor, parameter=parameter).days)
    if not is_number(maturity) or not maturity > 0:
        raise QueryError(parameter, got=maturity, expected="a number of days above 0, or a tenor, e.g. '1m'")
    return float(maturity)


def series_of(table: OpenTable[Any], by: str | Iterable[str] | None, *, without: Iterable[str]) -> list[str]:
    """Return the columns that tell series of points apart, and the rules that made the points.

    By default these are the identity columns, and others that tell points of one time and maturity apart, such as
    ``moneyness``.
    """
    left_out = ("tenor", "timestamp", "days", *without)
    if by is None:
        return row_columns(table, without=("expiry", *left_out))
    keys = table.series_columns(by, without=left_out)
    return [*keys, *(name for name in _RULES if name in table.names and name not in keys)]


def value_of(value: str | None, names: list[str]) -> str:
    """Return the name of the value column: the caller's choice, or the only one of ``VALUES`` that the frame has.

    Raises
    ------
    MissingColumnError
        If the caller names no value and the frame has neither column.
    QueryError
        If ``value`` is not one of ``VALUES``, or if the caller names no value and the frame has both columns.
    """
    if value is not None:
        one_of("value", value, VALUES)
        return value
    present = [name for name in VALUES if name in names]
    if len(present) > 1:
        raise QueryError(
            "value", got=None, expected=f"one of {', '.join(present)}", hint="the frame has both"
        )
    require(present or VALUES[:1], names)
    return present[0]
