"""Volatilities of fitted curves: along a smile, and between the smiles of two expiries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import flag, is_number, whole
from tidytape.analytics._smile import Frame
from tidytape.analytics.options._maturity import at_maturities, maturities, single
from tidytape.analytics.options._svi import PARAMETERS
from tidytape.errors import QueryError
from tidytape.frames.door import listed
from tidytape.frames.numbers import crossed
from tidytape.frames.table import Table


def smile(
    fits: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    moneyness: float | Iterable[float] | None = None,
    steps: int = 50,
    wings: bool = False,
) -> IntoFrameT:
    r"""Volatilities along each fitted smile.

    .. math:: \sigma(k) = \sqrt{w(k) / T}, \qquad w(k) = a + b \left( \rho (k - m) + \sqrt{(k - m)^2 + \sigma^2} \right)

    Parameters
    ----------
    fits : frame, n rows, one per (by, timestamp, expiry), any order
        As `svi` returns them. Uses ``timestamp``, ``expiry``, ``days`` [d], ``forward`` [quote per coin]; ``a``, ``b``,
        ``rho``, ``m`` and ``sigma``, of total variance [1]; ``lowest`` and ``highest``, the log-moneyness fitted. [1]
    by : str or iterable of str, optional
        Columns that tell one series from another; otherwise the identity columns that there are.
    moneyness : float or iterable of float, optional
        Where, as ln(K/F); otherwise evenly over the range of each fit. [1]
    steps : int
        How many even steps, if so.
    wings : bool
        Whether to follow the curve beyond the quotes it was fitted to; null there otherwise.

    Returns
    -------
    frame, one row per (by, timestamp, expiry, moneyness), sorted by these, of the kind of ``fits``
        - ``days`` : float64. [d]
        - ``moneyness`` : float64, ln(K/F). [1]
        - ``strike`` : float64. [quote per coin]
        - ``implied_volatility`` : float64, null without a fit or time, where total variance is negative, and outside of
          the range. [%]
        - ``rmse`` : float64, if ``fits`` has it: how far the curve is from its quotes. [vol points]

    Raises
    ------
    MissingColumnError
        If ``fits`` lacks a column.
    QueryError
        If ``moneyness`` or ``steps`` is no such number, a column is not numeric, or ``fits`` is no frame.

    References
    ----------
    .. [1] J. Gatheral and A. Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       eq. 3.1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> fits = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 6, 4, 8, tzinfo=UTC),
    ...         "days": 91.25, "forward": 100.0, "a": [0.04], "b": 0.1, "rho": -0.5, "m": 0.0, "sigma": 0.2,
    ...         "lowest": -0.4, "highest": 0.3,
    ...     }
    ... )
    >>> smile(fits, moneyness=[-0.2, 0, 0.5]).select("moneyness", pl.col("implied_volatility").round(3)).rows()
    [(-0.2, 55.959), (0.0, 48.99), (0.5, None)]
    """
    steps, wings = whole("steps", steps, most=10_000), flag("wings", wings)
    places = None if moneyness is None else _places(moneyness)
    table = _opened(fits, times=["timestamp", "expiry"], numbers=["forward"])
    keys = [*table.series(by, without=_RESERVED), "timestamp", "expiry"]
    if places is None:
        lowest, highest = nw.col("lowest"), nw.col("highest")
        rows = crossed(table.rows, "__share", [step / steps for step in range(steps + 1)])
        rows = rows.with_columns(moneyness=lowest + (highest - lowest) * nw.col("__share"))
    else:
        rows = crossed(table.rows.drop("moneyness", strict=False), "moneyness", places)
    # A step of the range itself can lie outside by rounding only.
    rows = _with_variance(rows, wings=wings or places is None)
    result = rows.select(
        *keys,
        "days",
        "moneyness",
        strike=nw.col("forward") * nw.col("moneyness").exp(),
        implied_volatility=_volatility(),
        **{name: nw.col(name) for name in _quality(table)},
    )
    return table.closed(result, sort=[*keys, "moneyness"])


def surface(
    fits: IntoFrameT,
    /,
    *,
    days: float | str | Iterable[float | str],
    moneyness: float | Iterable[float],
    by: str | Iterable[str] | None = None,
    wings: bool = False,
) -> IntoFrameT:
    r"""Volatilities between the smiles of expiries, linear in total variance at the same log-moneyness.

    .. math:: w(k, \tau) = w_1(k) + (w_2(k) - w_1(k)) \frac{\tau - T_1}{T_2 - T_1}, \qquad T_1 \le \tau < T_2

    A fit that failed, or that is there twice, is not passed over, and nothing is extrapolated in time.

    Parameters
    ----------
    fits : frame, n rows, one per (by, timestamp, days), any order
        As for `smile`, but for ``expiry`` and ``forward``.
    days : float, str, or iterable of these, > 0
        The maturities, in days [d] or as tenors, e.g. ``"1m"``, which has 30.
    moneyness : float or iterable of float
        Where, as ln(K/F). [1]
    by : str or iterable of str, optional
        Columns that tell one series from another; otherwise the identity columns that there are.
    wings : bool
        Whether to follow the curves beyond the quotes they were fitted to; null there otherwise.

    Returns
    -------
    frame, one row per (by, timestamp, days, moneyness), sorted by these, of the kind of ``fits``
        - ``implied_volatility`` : float64, null where a curve around it has no value. [%]
        - ``rmse`` : float64, if ``fits`` has it: the larger one of the curves around it. [vol points]

    Raises
    ------
    MissingColumnError
        If ``fits`` lacks a column.
    QueryError
        If ``days`` or ``moneyness`` are no such numbers, a column is not numeric, or ``fits`` is no frame.

    See Also
    --------
    smile : The volatilities of each expiry itself.

    References
    ----------
    .. [1] J. Gatheral and A. Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       lemma 2.1: there is no calendar arbitrage where total variance rises at every k.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> fits = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "days": [28.0, 56.0],
    ...         "a": [0.36 * 28 / 365, 0.3364 * 56 / 365], "b": 0.0, "rho": 0.0, "m": 0.0, "sigma": 1.0,
    ...         "lowest": -0.4, "highest": 0.3,
    ...     }
    ... )
    >>> surface(fits, days=30, moneyness=0)["implied_volatility"].round(4).item()
    59.7372
    """
    wanted, places, wings = maturities(days), _places(moneyness), flag("wings", wings)
    table = _opened(fits, times=["timestamp"], numbers=[])
    chain = [*table.series(by, without=_RESERVED), "timestamp"]
    curves = single(table.rows.drop("moneyness", strict=False), [*chain, "days"], ["a"])
    variances = _with_variance(crossed(curves, "moneyness", places), wings=wings)
    keys, quality = [*chain, "moneyness"], _quality(table)
    result = at_maturities(variances, keys, wanted, ["__variance"], worst=quality)
    result = result.select(*chain, "days", "moneyness", _volatility().alias("implied_volatility"), *quality)
    return table.closed(result, sort=[*chain, "days", "moneyness"])


_RANGE = ("lowest", "highest")
_RMSE = "rmse"
_RESERVED = (
    "timestamp", "expiry", "days", "forward", "moneyness", "strike", "implied_volatility", _RMSE, *PARAMETERS,
    *_RANGE,
)  # fmt: skip


def _opened(fits: IntoFrameT, *, times: Iterable[str], numbers: Iterable[str]) -> Table[IntoFrameT]:
    table = Table.opened(fits, parameter="fits")
    numbers = ["days", *numbers, *PARAMETERS, *_RANGE, *_quality(table)]
    return Table.opened(table, times=times, numbers=numbers, parameter="fits")


def _quality(table: Table[Any]) -> list[str]:
    """Return the name of the column with the error of the fit, in a list that is empty where the frame has none."""
    return [_RMSE] if _RMSE in table.names else []


def _places(moneyness: object) -> list[float]:
    several = listed(moneyness)
    if not several or not all(is_number(place) for place in several):
        raise QueryError("moneyness", got=moneyness, expected="finite numbers, ln(K/F)")
    return list(dict.fromkeys(float(place) for place in several))


def _with_variance(curves: Frame, *, wings: bool) -> Frame:
    """Add ``__variance``, the total variance of each curve at ``moneyness``; null where it is not positive.

    Without ``wings`` it is null outside the range that the curve was fitted to, too.
    """
    a, b, rho, m, sigma = map(nw.col, PARAMETERS)
    place = nw.col("moneyness")
    x = place - m
    variance = a + b * (rho * x + (x * x + sigma * sigma).sqrt())
    within = (place >= nw.col("lowest")) & (place <= nw.col("highest"))
    return curves.with_columns(__variance=nw.when(variance > 0, *([] if wings else [within])).then(variance))


def _volatility() -> nw.Expr:
    """Return the volatility of ``__variance`` over ``days``. [%]"""
    days = nw.col("days")
    years = nw.when(days > 0).then(days / 365.0)
    return (nw.col("__variance") / years).sqrt() * 100.0
