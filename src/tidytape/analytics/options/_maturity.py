"""Volatilities at constant maturities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import is_number
from tidytape.analytics._series import of_rows
from tidytape.analytics.options._structures import single
from tidytape.catalogue import Tenor
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.door import listed, require
from tidytape.frames.numbers import crossed
from tidytape.frames.ordered import interpolated, with_next
from tidytape.frames.table import Table
from tidytape.query.values import choice

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

    Each point's variance is interpolated by itself, so a risk reversal at a constant maturity is
    ``risk_reversal(constant_maturity(points, days=30))``. Nothing is extrapolated, and an expiry that lacks a point is
    not passed over.

    Parameters
    ----------
    points : frame, n rows, one per (by, timestamp, days), any order
        As `delta_points` or `atm_volatility` return them. Uses ``timestamp``, ``days`` [d] and the columns of
        volatilities [%].
    days : float, str, or iterable of these, > 0
        The maturities, in days [d] or as tenors, e.g. ``"1m"``, which has 30.
    by : str or iterable of str, optional
        Columns that tell one series from another; otherwise the identity columns that there are, and ``moneyness`` or
        ``strike`` if ``points`` have one.
    columns : iterable of str, optional
        The columns of volatilities; otherwise those named ``iv_…``.

    Returns
    -------
    frame, one row per (by, timestamp, days), sorted by these, of the kind of ``points``
        The rules ``atm`` and ``delta``, if ``points`` has them; and the columns of volatilities, null where a maturity
        lies outside of the expiries, or one around it lacks the point or is there twice. [%]

    Raises
    ------
    MissingColumnError
        If ``points`` lacks a column, or has no volatilities.
    QueryError
        If ``days`` are neither numbers above 0 nor tenors, a column is not numeric, or ``points`` is no frame.

    References
    ----------
    .. [1] D. Reiswich and U. Wystup, "FX volatility smile construction", CPQF working paper 20, 2010, section 1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> now = datetime(2026, 3, 5, tzinfo=UTC)
    >>> points = pl.DataFrame({"timestamp": now, "days": [28.0, 56.0], "iv_atm": [60.0, 58.0]})
    >>> constant_maturity(points, days=30).select("days", pl.col("iv_atm").round(4)).row(0)
    (30.0, 59.7372)
    """
    wanted = maturities(days)
    table = Table.opened(points, ["days"], times=["timestamp"], parameter="points")
    names = _named(table, columns)
    table = Table.opened(table, times=["timestamp"], numbers=["days", *names], parameter="points")
    chain = [*series_of(table, by, without=names), "timestamp"]

    life, length = nw.col("days"), nw.col("__length")
    known = single(table.rows.filter(life.is_finite() & (life > 0)), [*chain, "days"], names)
    variance = known.with_columns(
        # A square hides a sign, so what is no volatility stays unknown.
        nw.when(nw.col(name) > 0).then(nw.col(name) ** 2 * life).alias(name)
        for name in names
    )
    expiries = with_next(variance, ("days", *names), over=chain, order_by=("days",))
    # Every expiry meets every maturity, and has an answer if it is the last before it.
    result = (
        crossed(expiries, "__length", wanted)
        .with_columns((interpolated(length, "days", name) / length).sqrt().alias(name) for name in names)
        .group_by(*chain, "__length")
        .agg(nw.col(name).max() for name in names)
        .select(*chain, nw.col("__length").alias("days"), *names)
    )
    return table.closed(result, sort=[*chain, "days"])


def maturities(days: object) -> list[float]:
    """Return maturities in days, each once; QueryError if one is none, or there is none."""
    several = listed(days)
    if not several:
        raise QueryError("days", got=days, expected="at least one number of days")
    return list(dict.fromkeys(in_days("days", day) for day in several))


def in_days(parameter: str, maturity: object) -> float:
    """Return a maturity, a number of days or a tenor, in days; QueryError if it is neither. [d]"""
    if isinstance(maturity, str):
        return float(choice(maturity, Tenor, parameter=parameter).days)
    if not is_number(maturity) or not maturity > 0:
        raise QueryError(parameter, got=maturity, expected="a number of days above 0, or a tenor, e.g. '1m'")
    return float(maturity)


def series_of(table: Table[Any], by: str | Iterable[str] | None, *, without: Iterable[str]) -> list[str]:
    """Return the columns that tell series of points apart, and the rules that made the points.

    Without ``by`` these are the identity columns and whatever else tells points of one time and maturity apart, such as
    ``moneyness``.
    """
    left_out = ("tenor", "timestamp", "days", *without)
    if by is None:
        return of_rows(table, without=("expiry", *left_out))
    keys = table.series(by, without=left_out)
    return [*keys, *(name for name in _RULES if name in table.names and name not in keys)]


def _named(table: Table[Any], columns: Iterable[str] | None) -> list[str]:
    """Return the columns of volatilities."""
    if columns is not None:
        names = listed(columns)
        require(names, table.names)
        return list(dict.fromkeys(names))
    names = [name for name in table.names if name.startswith("iv_")]
    if not names:
        raise MissingColumnError(["iv_atm"], available=table.names)
    return names
