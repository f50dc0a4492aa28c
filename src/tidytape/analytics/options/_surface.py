"""What fitted curves say: volatilities along a smile, and between the smiles of expiries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import flag, is_number, whole
from tidytape.analytics.options._maturity import maturities
from tidytape.analytics.options._structures import single
from tidytape.analytics.options._svi_fit import PARAMETERS
from tidytape.errors import QueryError
from tidytape.frames.door import listed
from tidytape.frames.numbers import crossed
from tidytape.frames.ordered import interpolated, next_of, with_next
from tidytape.frames.table import Table

_RANGE = ("lowest", "highest")


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
    keys = table.series(by, without=_RESERVED)
    if places is None:
        rows = crossed(table.rows, "__share", [step / steps for step in range(steps + 1)])
        lowest, highest = nw.col("lowest"), nw.col("highest")
        rows = rows.with_columns(moneyness=lowest + (highest - lowest) * nw.col("__share"))
        within = ~nw.col("moneyness").is_null()
    else:
        rows = crossed(table.rows.drop("moneyness", strict=False), "moneyness", places)
        within = nw.lit(value=True) if wings else _within()
    rows = rows.with_columns(__variance=nw.when(within).then(_variance()))
    volatility = _volatility(nw.col("__variance"), nw.col("days")).alias("implied_volatility")
    strike = (nw.col("forward") * nw.col("moneyness").exp()).alias("strike")
    chain = [*keys, "timestamp", "expiry"]
    result = rows.select(*chain, "days", "moneyness", strike, volatility, *_quality(table))
    return table.closed(result, sort=[*chain, "moneyness"])


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
    life = nw.col("days")
    known = table.rows.filter(life.is_finite() & (life > 0)).drop("moneyness", strict=False)
    known = single(known, [*chain, "days"], ["a"])
    quality = _quality(table)
    names = [*PARAMETERS, *_RANGE, *quality]
    expiries = with_next(known, ("days", *names), over=chain, order_by=("days",))
    rows = crossed(crossed(expiries, "__length", wanted), "moneyness", places)
    length = nw.col("__length")
    here, there = (nw.lit(value=True), nw.lit(value=True)) if wings else (_within(), _within(next_of))
    rows = rows.with_columns(
        nw.when(here).then(_variance()).alias("__variance"),
        nw.when(there).then(_variance(next_of)).alias(next_of("__variance")),
    )
    # Every expiry meets every maturity, and has an answer if it is the last before it.
    volatility = _volatility(interpolated(length, "days", "__variance"), length)
    result = (
        rows.with_columns(implied_volatility=volatility)
        .with_columns(
            nw.when(~nw.col("implied_volatility").is_null())
            .then(
                nw.when(nw.col(next_of(name)) > nw.col(name), life < length)
                .then(nw.col(next_of(name)))
                .otherwise(nw.col(name))
            )
            .alias(name)
            for name in quality
        )
        .group_by(*chain, "__length", "moneyness")
        .agg(nw.col("implied_volatility", *quality).max())
        .select(*chain, length.alias("days"), "moneyness", "implied_volatility", *quality)
    )
    return table.closed(result, sort=[*chain, "days", "moneyness"])


_RMSE = "rmse"

_RESERVED = (
    "timestamp", "expiry", "days", "forward", "moneyness", "strike", "implied_volatility", _RMSE, *PARAMETERS,
    *_RANGE,
)  # fmt: skip


def _opened(fits: IntoFrameT, *, times: Iterable[str], numbers: Iterable[str]) -> Table[IntoFrameT]:
    needed = ["days", *numbers, *PARAMETERS, *_RANGE]
    table = Table.opened(fits, parameter="fits")
    quality = _quality(table)
    return Table.opened(table, times=times, numbers=[*needed, *quality], parameter="fits")


def _quality(table: Table[Any]) -> list[str]:
    """Return the name of the column with the error of the fit, in a list that is empty where the frame has none."""
    return [_RMSE] if _RMSE in table.names else []


def _places(moneyness: object) -> list[float]:
    several = listed(moneyness)
    if not several or not all(is_number(place) for place in several):
        raise QueryError("moneyness", got=moneyness, expected="finite numbers, ln(K/F)")
    return list(dict.fromkeys(float(place) for place in several))


def _variance(of: Callable[[str], str] = str) -> nw.Expr:
    """Total variance of a curve; null where it is not positive."""
    a, b, rho, m, sigma = (nw.col(of(name)) for name in PARAMETERS)
    x = nw.col("moneyness") - m
    value = a + b * (rho * x + (x * x + sigma * sigma).sqrt())
    return nw.when(value > 0).then(value)


def _within(of: Callable[[str], str] = str) -> nw.Expr:
    place = nw.col("moneyness")
    return (place >= nw.col(of("lowest"))) & (place <= nw.col(of("highest")))


def _volatility(variance: nw.Expr, days: nw.Expr) -> nw.Expr:
    years = nw.when(days > 0).then(days / 365.0)
    return (variance / years).sqrt() * 100.0
