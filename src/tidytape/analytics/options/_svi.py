"""Smiles as curves of five parameters: stochastic volatility inspired (SVI), raw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from scipy.optimize import least_squares

from tidytape.analytics._arguments import one_of
from tidytape.analytics._smile import CALL, YEAR
from tidytape.analytics.options._black import Floats
from tidytape.analytics.options._chain import QUOTED, Chain, days_of, floats, null_for_nan

__all__ = ["LEE", "PARAMETERS", "svi"]

PARAMETERS: Final = ("a", "b", "rho", "m", "sigma")

LEE: Final = 2.0
"""Steepest that total variance may rise in log-moneyness in a wing."""

_NUMBERS = ("forward", *PARAMETERS, "rmse", "lowest", "highest")
_RESULT = ("days", *_NUMBERS, "quotes", "status")

_LEAST = 5  # as many quotes as parameters


class _Fit(NamedTuple):
    parameters: tuple[float, ...]
    rmse: float
    status: str


_NONE = (np.nan,) * len(PARAMETERS)


def svi(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    weights: Literal["vega", "equal"] = "vega",
) -> IntoFrameT:
    r"""Raw SVI curve of each expiry's smile, by least squares.

    .. math:: w(k) = a + b \left( \rho (k - m) + \sqrt{(k - m)^2 + \sigma^2} \right), \qquad k = \ln(K/F)

    is total variance :math:`\sigma_\mathrm{IV}^2 T`. The curve is fitted to the volatilities of the out-of-the-money
    options, with total variance nowhere below 0, and slopes of the wings, :math:`b (1 \pm \rho)`, of at most 2, which
    is Lee's bound. Other arbitrage is not excluded but found: `svi_arbitrage`.

    Parameters
    ----------
    chain : frame, n rows, one per (by, timestamp, expiry, strike, option_type), any order; not of DuckDB or Spark, for
        a fit is a loop
        As for `atm_volatility`.
    by : str or iterable of str, optional
        As for `atm_volatility`.
    weights : {"vega", "equal"}
        What the square of a quote's error, in vol points, counts: its vega, or the same for all. Vega counts what the
        error costs, and so the money more than the far wings, where the volatilities of venues hardly follow a curve.

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, the median over the quotes that count. [quote per coin]
        - ``a``, ``b``, ``rho``, ``m``, ``sigma`` : float64, the parameters, of total variance; null without a fit. [1]
        - ``rmse`` : float64, root of the mean square error, not weighted. [vol points]
        - ``lowest``, ``highest`` : float64, the log-moneyness of the quotes that count. [1]
        - ``quotes`` : int64, how many.
        - ``status`` : str, ``ok``; ``too_few``, where they are of fewer than five strikes; ``not_converged``;
          ``mixed``, where the chain is of several underlyings, as of `forward`: then none counts.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``weights`` is unknown, a column holds something else, or ``chain`` is no frame, or one of DuckDB or Spark.

    See Also
    --------
    svi_arbitrage : Whether the curves can be.
    smile, surface : The volatilities that they say.

    References
    ----------
    .. [1] J. Gatheral and A. Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       eq. 3.1.
    .. [2] S. De Marco and C. Martini, "Quasi-explicit calibration of Gatheral's SVI model", Zeliade Systems, 2009: for
       given m and σ the curve is linear in the others, whence the first guess.
    .. [3] R. W. Lee, "The moment formula for implied volatility at extreme strikes", Mathematical Finance 14, 2004.

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
    opened = Chain.opened(chain, by, results=_RESULT)
    rows = opened.collected(opened.measured(), "a fit is a loop").with_row_index("__row")
    rows = rows.with_columns(__smile=nw.col("__row").min().over(*opened.smile))
    heads = rows.filter(nw.col("__row") == nw.col("__smile"))

    # From the columns given, so that the fit is the same to the last bit whichever engine they came from.
    strike, volatility, forward, life = (floats(rows[name]) for name in (*QUOTED, "__alive"))
    k, deviation = np.log(strike / forward), volatility / 100 * np.sqrt(life / YEAR)
    d1 = deviation / 2 - k / deviation
    call = (rows["option_type"] == CALL).fill_null(value=False).to_numpy().astype(bool)
    mixed = rows["__mixed"].to_numpy()
    counts = np.isfinite(k) & (call == (k >= 0))
    with np.errstate(over="ignore"):
        # The root of vega, but for a factor that is the same for all of a smile.
        weight = np.exp(-0.25 * d1 * d1) if weights == "vega" else np.ones(len(k))
    fits, quotes = [], []
    for smile in _groups(rows["__smile"].to_numpy()):
        of = smile[counts[smile]]
        of = of[np.lexsort((volatility[of], k[of]))]
        with np.errstate(all="ignore"):  # of quotes that are no smile
            fit = _fitted(k[of], volatility[of], deviation[of], weight[of])
        ends = (k[of[0]], k[of[-1]]) if len(of) else (np.nan, np.nan)
        middle = float(np.median(forward[of])) if len(of) else np.nan
        fits.append((middle, *fit.parameters, fit.rmse, *ends))
        quotes.append((len(of), "mixed" if mixed[smile[0]] else fit.status))

    numbers = np.array(fits, dtype=float).reshape(len(fits), len(_NUMBERS))
    backend = rows.implementation
    result = heads.select(*opened.smile, days=days_of(nw.col("__life"))).with_columns(
        *(
            nw.new_series(name, numbers[:, place].copy(), nw.Float64, backend=backend)
            for place, name in enumerate(_NUMBERS)
        ),
        nw.new_series("quotes", [number for number, _ in quotes], nw.Int64, backend=backend),
        nw.new_series("status", [status for _, status in quotes], nw.String, backend=backend),
    )
    return opened.closed(null_for_nan(result, _NUMBERS), sort=opened.smile)


def _groups(labels: Any) -> list[Any]:
    """Return the places of each label, in the order of the labels."""
    if not len(labels):
        return []
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _fitted(k: Floats, volatility: Floats, deviation: Floats, weight: Floats) -> _Fit:
    """Fit one smile: k in order, volatility in vol points, deviation σ√T, and the root of what a square counts."""
    if len(np.unique(k)) < _LEAST:
        return _Fit(_NONE, np.nan, "too_few")
    variance = deviation**2
    # From a change of total variance to one of volatility: σ = 100 √(w/T), in terms of what is known of it.
    points = volatility / deviation

    def errors(guess: Floats) -> Floats:
        found: Floats = weight * points * (np.sqrt(_variance(guess, k)) - deviation)
        return found

    def slopes(guess: Floats) -> Floats:
        total, by_guess = _variance(guess, k), _gradient(guess, k)
        found: Floats = (weight * points / (2 * np.sqrt(total)))[:, None] * by_guess
        return found

    span, most = k[-1] - k[0], float(variance.max())
    low = np.array([1e-9 * most, 0.0, 0.0, k[0] - span, 1e-3 * span])
    high = np.array([2 * most, LEE, LEE, k[-1] + span, 10 * span])
    best = None
    try:
        for guess in _guesses(k, variance, weight * points / (2 * deviation), span):
            inside = np.clip(guess, low + 1e-6 * (high - low), high - 1e-6 * (high - low))
            found = _searched(errors, slopes, inside, (low, high))
            if best is None or found.cost < best.cost:
                best = found
    except (np.linalg.LinAlgError, ValueError):  # numbers that overflow on the way: no smile
        best = None
    if best is None or not best.success or not np.isfinite(best.x).all():
        return _Fit(_NONE, np.nan, "not_converged")
    least, left, right, m, sigma = best.x
    b = (left + right) / 2
    rho = (right - left) / (left + right) if b > 0 else 0.0
    rmse = float(np.sqrt(np.mean((points * (np.sqrt(_variance(best.x, k)) - deviation)) ** 2)))
    return _Fit((least - sigma * np.sqrt(left * right), b, rho, m, sigma), rmse, "ok")


def _searched(
    errors: Callable[[Floats], Floats],
    slopes: Callable[[Floats], Floats],
    guess: Floats,
    bounds: tuple[Floats, Floats],
) -> Any:
    """Return the least squares found from a guess."""
    found = least_squares(errors, guess, slopes, bounds, x_scale="jac", max_nfev=300)
    if not found.success:
        # It creeps along a bound, as it does where the smile has a kink; the other method ends on it.
        found = least_squares(errors, found.x, slopes, bounds, method="dogbox", x_scale="jac", max_nfev=300)
    return found


def _variance(guess: Floats, k: Floats) -> Floats:
    """Total variance in terms of its least value, the slopes of the left and the right wing, m and σ.

    In these the bounds are bounds of single numbers, and nothing is at 0/0 where the smile is flat.
    """
    least, left, right, m, sigma = guess
    root = np.hypot(k - m, sigma)
    value: Floats = (
        least - sigma * np.sqrt(left * right) + (right - left) / 2 * (k - m) + (left + right) / 2 * root
    )
    return np.maximum(value, 1e-300)


def _gradient(guess: Floats, k: Floats) -> Floats:
    _, left, right, m, sigma = guess
    x, root = k - m, np.hypot(k - m, sigma)
    mean, tiny = np.sqrt(left * right), 1e-300
    return np.column_stack(
        [
            np.ones_like(k),
            (root - x) / 2 - sigma / 2 * np.sqrt(right / max(left, tiny)),
            (root + x) / 2 - sigma / 2 * np.sqrt(left / max(right, tiny)),
            -(right - left) / 2 - (left + right) / 2 * x / root,
            -mean + (left + right) / 2 * sigma / root,
        ]
    )


def _guesses(k: Floats, variance: Floats, weight: Floats, span: float) -> list[Floats]:
    """Return the best few of a grid of m and σ, the others by linear least squares."""
    m, sigma = (
        grid.ravel()[:, None]
        for grid in np.meshgrid(np.linspace(k[0], k[-1], 13), span * np.geomspace(0.01, 2, 11))
    )
    x, root = k - m, np.hypot(k - m, sigma)
    basis = np.stack([np.ones_like(x), (root - x) / 2, (root + x) / 2], axis=2) * weight[:, None]
    solved = np.linalg.pinv(basis) @ (variance * weight)
    level, left, right = solved[:, :1], *(np.clip(solved[:, [side]], 0, LEE) for side in (1, 2))
    least = np.maximum(level + sigma * np.sqrt(left * right), 0.0)
    guesses = np.hstack([least, left, right, m, sigma])
    errors = [float(np.sum((weight * (_variance(guess, k) - variance)) ** 2)) for guess in guesses]
    return [guesses[place] for place in np.argsort(errors)[:2]]
