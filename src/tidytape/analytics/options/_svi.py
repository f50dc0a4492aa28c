"""Fit each smile with a curve of five parameters: raw SVI (stochastic volatility inspired)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from scipy.optimize import least_squares

from tidytape.analytics._arguments import VolatilityUnit, one_of, positive, volatility_kind
from tidytape.analytics._smile import CALL
from tidytape.analytics.options._chain import QUOTED, Chain, Floats, act_365, floats, number_column
from tidytape.frames._rows import starts_run
from tidytape.times import DAY, YEAR

PARAMETERS: Final = ("a", "b", "rho", "m", "sigma")

LEE: Final = 2.0
"""The steepest slope of total variance in a wing, by log-moneyness. [1]"""

_NUMBERS = ("forward", *PARAMETERS, "rmse", "lowest", "highest")
_RESULT = ("days", *_NUMBERS, "quotes", "status")
_TINY = 1e-300


def svi(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    weights: Literal["vega", "equal"] = "vega",
    max_rmse: float = 2.0,
    volatility_unit: VolatilityUnit | None = None,
) -> IntoFrameT:
    r"""Raw SVI curve of each expiry's smile, by least squares.

    .. math:: w(k) = a + b \left( \rho (k - m) + \sqrt{(k - m)^2 + \sigma^2} \right), \qquad k = \ln(K/F)

    which is the total variance :math:`\sigma_\mathrm{IV}^2 T`. The curve is fitted to the volatilities of the
    out-of-the-money options, with total variance nowhere below 0, and slopes of the wings, :math:`b (1 \pm \rho)`, of
    at most 2, which is Lee's bound. Other arbitrage is not excluded; `svi_arbitrage` finds it.

    Parameters
    ----------
    chain : frame, n rows, one per (by, timestamp, expiry, strike, option_type), any order; not of DuckDB or Spark, for
        a fit is a loop
        As for `atm_volatility`.
    by : str or iterable of str, optional
        As for `atm_volatility`.
    weights : {"vega", "equal"}
        The weight of the square of a quote's error in vol points: the quote's vega, or the same for all quotes. With
        vega, an error counts by its effect on the price. So quotes at the money count more than those in the far wings,
        where quoted volatilities hardly follow a curve.
    max_rmse : float, > 0
        The largest ``rmse`` of a fit whose status is ``ok``. [vol points]
    volatility_unit : {"percent", "decimal"}, optional
        As for `atm_volatility`.

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, the median over the quotes that count. [quote per coin]
        - ``a``, ``b``, ``rho``, ``m``, ``sigma`` : float64, the parameters, of total variance; null without a fit. [1]
        - ``rmse`` : float64, root of the mean square error, not weighted. [vol points]
        - ``lowest``, ``highest`` : float64, the range of log-moneyness of the quotes that count. [1]
        - ``quotes`` : int64, how many quotes count.
        - ``status`` : str. ``ok``: the curve was found and its ``rmse`` is at most ``max_rmse``. ``poor_fit``: the
          curve was found, but its ``rmse`` is larger. ``too_few``: the quotes are of fewer than five strikes.
          ``not_converged``: no curve was found. ``mixed``: the chain is of several underlyings, as for `forward`, so no
          quote counts.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``weights`` is unknown, ``max_rmse`` is not above 0, a column has values of another type, or ``chain`` is not
        a frame, or belongs to DuckDB or Spark.

    See Also
    --------
    svi_arbitrage : Arbitrage of the curves.
    smile, surface : The volatilities of the curves.

    Notes
    -----
    ``rmse`` counts every quote alike. A curve weighted by vega may be close to the quotes at the money and far from
    those in the wings. On recorded chains most fits have an ``rmse`` within 0.4 vol points; fits a few hours before
    expiry, or with strikes six standard deviations away, have 3 to 17. Before using a poor fit at the money, compare
    `smile` at ``moneyness=0`` with `atm_volatility`.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       eq. 3.1.
    .. [2] De Marco, S. and Martini, C., "Quasi-explicit calibration of Gatheral's SVI model", Zeliade Systems,
       2009: for given m and σ the curve is linear in the others, whence the first guess.
    .. [3] Lee, R. W., "The moment formula for implied volatility at extreme strikes", Mathematical Finance 14,
       2004.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["PUT", "PUT", "PUT", "CALL", "CALL", "CALL"],
    ...         "strike": [80.0, 90.0, 95.0, 100.0, 110.0, 120.0], "forward": 100.0,
    ...         "implied_volatility": [66.0, 58.0, 55.0, 53.0, 52.0, 55.0],
    ...     }
    ... )
    >>> svi(chain).select("quotes", "status", pl.col("rmse") < 0.5).row(0)
    (6, 'ok', True)
    """
    one_of("weights", weights, ("vega", "equal"))
    max_rmse = positive("max_rmse", max_rmse)
    opened = Chain.opened(
        chain, by, kinds={"implied_volatility": volatility_kind(volatility_unit)}, results=_RESULT
    )
    rows = opened.collected(opened.measured(), "a fit is a loop").sort(*opened.smile)
    starts = np.flatnonzero(starts_run(rows, opened.smile))

    strike, volatility, forward, life, mixed = floats(rows, *QUOTED, "__alive", "__mixed")
    k, deviation = np.log(strike / forward), volatility / 100 * np.sqrt(life / YEAR)
    d1 = deviation / 2 - k / deviation
    is_call = (rows["option_type"] == CALL).fill_null(value=False).to_numpy()
    is_used = np.isfinite(k) & (is_call == (k >= 0))
    with np.errstate(over="ignore"):
        # The square root of vega, without the factor that all quotes of a smile share.
        weight = np.exp(-0.25 * d1 * d1) if weights == "vega" else np.ones(len(k))
    fits, statuses = [], []
    for start, end in pairwise([*starts, len(rows)]):
        used = start + np.flatnonzero(is_used[start:end])
        used = used[np.lexsort((volatility[used], k[used]))]
        with np.errstate(all="ignore"):  # the quotes may not form a smile
            parameters, rmse, status = _fitted(k[used], volatility[used], deviation[used], weight[used])
        median_forward, *ends = (
            (np.median(forward[used]), k[used[0]], k[used[-1]]) if len(used) else (np.nan,) * 3
        )
        fits.append((median_forward, *parameters, rmse, *ends, len(used)))
        statuses.append("mixed" if mixed[start] else "poor_fit" if rmse > max_rmse else status)

    names = [*_NUMBERS, "quotes"]
    numbers = np.array(fits, dtype=float).reshape(len(fits), len(names)).T
    result = (
        rows[starts.tolist()]
        .select(*opened.smile, days=act_365(nw.col("__life"), DAY))
        .with_columns(
            *map(number_column, names, numbers),
            nw.new_series("status", statuses, nw.String, backend="polars"),
        )
        .with_columns(nw.col("quotes").cast(nw.Int64))
    )
    return opened.table.closed(result, sort=opened.smile, main=["forward", "quotes", "rmse", "status"])


def _fitted(
    k: Floats, volatility: Floats, deviation: Floats, weight: Floats
) -> tuple[tuple[float, ...], float, str]:
    """Fit a curve to one smile.

    Parameters
    ----------
    k : array
        Log-moneyness, in order. [1]
    volatility : array
        [vol points]
    deviation : array
        The same volatility as σ√T. [1]
    weight : array
        The square root of the weight of each quote's squared error.

    Returns
    -------
    tuple
        The parameters; the root of the mean square error [vol points]; and how the search ended: ``ok``, ``too_few`` or
        ``not_converged``.
    """
    unknown = (np.nan,) * len(PARAMETERS)
    if len(np.unique(k)) < len(PARAMETERS):
        return unknown, np.nan, "too_few"
    # This factor turns an error of the deviation into an error of the volatility. [vol points]
    points = volatility / deviation
    curve = None
    with suppress(np.linalg.LinAlgError, ValueError):  # quotes that form no smile may overflow
        curve = _searched(k, deviation, weight * points)
    if curve is None or not np.isfinite(curve).all():
        return unknown, np.nan, "not_converged"
    least, left_wing, right_wing, m, sigma = curve
    b = (left_wing + right_wing) / 2
    rho = (right_wing - left_wing) / (left_wing + right_wing) if b > 0 else 0.0
    rmse = float(np.sqrt(np.mean((points * (np.sqrt(_variance(curve, k)) - deviation)) ** 2)))
    return (least - sigma * np.sqrt(left_wing * right_wing), b, rho, m, sigma), rmse, "ok"


def _searched(k: Floats, deviation: Floats, weight: Floats) -> Floats | None:
    """Return the best curve as its least value, the slopes of its wings, m and σ; None if the search does not converge.

    In these five numbers each has its own bounds, and a flat smile does not lead to 0/0.
    """
    span, most = k[-1] - k[0], float((deviation**2).max())
    low = np.array([1e-9 * most, 0.0, 0.0, k[0] - span, 1e-3 * span])
    high = np.array([2 * most, LEE, LEE, k[-1] + span, 10 * span])
    bounds = tuple(np.array([end[3], np.log(end[4])]) for end in (low, high))
    best = _best_curve_of(k, deviation, weight, low[0])
    search = least_squares(
        lambda m_log_sigma: best(*m_log_sigma)[0],
        _guess(k, deviation**2, weight / (2 * deviation), span),
        lambda m_log_sigma: best(*m_log_sigma)[1],
        bounds,
        method="dogbox",
        x_scale=np.array([span, 1.0]),
    )
    curve = best(*search.x)[2]
    if search.success and low[0] < curve[0] <= high[0]:
        return curve

    # If variance is at its lower bound, intercept and wings depend on each other, so search all five numbers together.
    def errors(curve: Floats) -> Floats:
        return weight * (np.sqrt(_variance(curve, k)) - deviation)

    def slopes(curve: Floats) -> Floats:
        scale: Floats = weight / (2 * np.sqrt(_variance(curve, k)))
        return scale[:, None] * _gradient(curve, k)

    inside, bounds_of_five = (
        np.clip(curve, low + 1e-6 * (high - low), high - 1e-6 * (high - low)),
        (low, high),
    )
    search = least_squares(errors, inside, slopes, bounds_of_five, x_scale="jac", max_nfev=300)
    if not search.success:
        # This search creeps along a bound, e.g. if a smile has a kink. The other method ends on the bound.
        search = least_squares(
            errors, search.x, slopes, bounds_of_five, method="dogbox", x_scale="jac", max_nfev=300
        )
    return search.x if search.success else None


def _best_curve_of(
    k: Floats, deviation: Floats, weight: Floats, least: float
) -> Callable[[float, float], tuple[Floats, Floats, Floats]]:
    """Return a function of m and ln σ that gives the errors of the best curve, their slopes in both, and the curve.

    For given m and σ total variance is linear in its intercept and wings, so linear least squares finds these three. A
    search over all five numbers would be slow, because quotes hardly tell a steep wing from a distant m.
    """
    start = deviation

    @lru_cache(maxsize=1)  # a search asks for the errors at m and ln σ, then for their slopes there
    def best(m: float, log_sigma: float) -> tuple[Floats, Floats, Floats]:
        nonlocal start
        sigma = np.exp(log_sigma)
        x, root, basis = _basis(k, m, sigma)
        fitted, solution, free = start, np.zeros(3), [0]
        for _ in range(8):  # Newton's method, because errors are measured in the root of the variance
            scale = weight / (2 * fitted)
            solution, free = _linear(basis * scale[:, None], (2 * deviation - fitted) * fitted * scale)
            solution[0] = max(solution[0], least - sigma * np.sqrt(solution[1] * solution[2]))
            previous, fitted = fitted, np.sqrt(np.maximum(basis @ solution, _TINY))
            if np.max(np.abs(fitted - previous) / fitted) < 1e-9:
                break
        start = fitted
        intercept, left_wing, right_wing = solution
        scale, mean = (weight / (2 * fitted))[:, None], (left_wing + right_wing) / 2
        slopes = scale * np.column_stack(
            [(left_wing - right_wing) / 2 - mean * x / root, mean * sigma**2 / root]
        )
        of_others = scale * basis[:, free]
        slopes -= of_others @ np.linalg.lstsq(of_others, slopes, rcond=None)[0]
        curve = np.array(
            [intercept + sigma * np.sqrt(left_wing * right_wing), left_wing, right_wing, m, sigma]
        )
        return weight * (fitted - deviation), slopes, curve

    return best


def _linear(basis: Floats, target: Floats) -> tuple[Floats, list[int]]:
    """Return intercept, left and right wing by least squares, wings from 0 to `LEE`, and the indices at no bound."""
    best: Floats = np.linalg.lstsq(basis, target, rcond=None)[0].astype(float)
    ends = np.clip(best, 0.0, LEE)
    free, least_error = [0, 1, 2], np.inf
    # Suppose in turn that each wing beyond its bound is at the bound.
    for wing_index in [index for index in (1, 2) if ends[index] != best[index]]:
        other, remainder = 3 - wing_index, target - basis[:, wing_index] * ends[wing_index]
        intercept, wing = np.linalg.lstsq(basis[:, [0, other]], remainder, rcond=None)[0]
        inside = min(max(wing, 0.0), LEE)
        if inside != wing:
            intercept = basis[:, 0] @ (remainder - basis[:, other] * inside) / (basis[:, 0] @ basis[:, 0])
        candidate = np.array([intercept, ends[1], ends[2]])
        candidate[other] = inside
        if (error := float(np.sum((target - basis @ candidate) ** 2))) < least_error:
            best, least_error, free = candidate, error, [0, other] if inside == wing else [0]
    return best, free


def _basis(k: Floats, m: Any, sigma: Any) -> tuple[Floats, Floats, Floats]:
    """Return k - m, the root in the curve's formula, and the factors of intercept, left and right wing."""
    x, root = k - m, np.hypot(k - m, sigma)
    return x, root, np.stack([np.ones_like(x), (root - x) / 2, (root + x) / 2], axis=-1)


def _variance(curve: Floats, k: Floats) -> Floats:
    """Return the total variance of a curve, as `_searched` writes it."""
    least, left_wing, right_wing, m, sigma = curve
    value: Floats = (
        least
        - sigma * np.sqrt(left_wing * right_wing)
        + (right_wing - left_wing) / 2 * (k - m)
        + (left_wing + right_wing) / 2 * np.hypot(k - m, sigma)
    )
    return np.maximum(value, _TINY)


def _gradient(curve: Floats, k: Floats) -> Floats:
    """Return the slopes of `_variance` in the five numbers of the curve."""
    _, left_wing, right_wing, m, sigma = curve
    x, root, basis = _basis(k, m, sigma)
    mean = (left_wing + right_wing) / 2
    return np.column_stack(
        [
            basis[:, 0],
            basis[:, 1] - sigma / 2 * np.sqrt(right_wing / max(left_wing, _TINY)),
            basis[:, 2] - sigma / 2 * np.sqrt(left_wing / max(right_wing, _TINY)),
            -(right_wing - left_wing) / 2 - mean * x / root,
            -np.sqrt(left_wing * right_wing) + mean * sigma / root,
        ]
    )


def _guess(k: Floats, variance: Floats, weight: Floats, span: float) -> Floats:
    """Return the best m and ln σ of a grid, the other numbers by linear least squares."""
    places, widths = np.linspace(k[0] - 0.9 * span, k[-1] + 0.9 * span, 15), span * np.geomspace(0.01, 4, 11)
    m, sigma = (grid.ravel()[:, None] for grid in np.meshgrid(places, widths))
    basis = _basis(k, m, sigma)[2] * weight[:, None]
    intercept_basis, wings = basis[:, :, 0], basis[:, :, 1:]
    slopes = np.clip(np.linalg.pinv(basis) @ (variance * weight), 0, LEE)[:, 1:, None]
    remainder = variance * weight - (wings @ slopes)[:, :, 0]
    remainder -= (
        intercept_basis
        * (np.sum(intercept_basis * remainder, axis=1) / np.sum(intercept_basis * intercept_basis, axis=1))[
            :, None
        ]
    )
    best = np.argmin(np.sum(remainder**2, axis=1))
    return np.array([m[best, 0], np.log(sigma[best, 0])])
