"""Smiles as curves of five parameters: stochastic volatility inspired (SVI), raw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of, positive
from tidytape.analytics._smile import CALL
from tidytape.analytics.options._chain import QUOTED, Chain, days_of, floats, null_for_nan
from tidytape.analytics.options._svi_fit import PARAMETERS, fitted
from tidytape.times import YEAR

_NUMBERS = ("forward", *PARAMETERS, "rmse", "lowest", "highest")
_RESULT = ("days", *_NUMBERS, "quotes", "status")


def svi(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    weights: Literal["vega", "equal"] = "vega",
    max_rmse: float = 2.0,
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
    max_rmse : float, > 0
        The largest ``rmse`` of a fit whose status is ``ok``. [vol points]

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, the median over the quotes that count. [quote per coin]
        - ``a``, ``b``, ``rho``, ``m``, ``sigma`` : float64, the parameters, of total variance; null without a fit. [1]
        - ``rmse`` : float64, root of the mean square error, not weighted. [vol points]
        - ``lowest``, ``highest`` : float64, the log-moneyness of the quotes that count. [1]
        - ``quotes`` : int64, how many.
        - ``status`` : str. ``ok``: the curve was found and its ``rmse`` is at most ``max_rmse``. ``poor_fit``: the
          nearest curve was found, and it is further from the quotes than that. ``too_few``: the quotes are of fewer
          than five strikes. ``not_converged``: no curve was found. ``mixed``: the chain is of several underlyings, as
          for `forward`, so no quote counts.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``weights`` is unknown, ``max_rmse`` is not above 0, a column holds something else, or ``chain`` is no frame,
        or one of DuckDB or Spark.

    See Also
    --------
    svi_arbitrage : Whether the curves can be.
    smile, surface : The volatilities that they say.

    Notes
    -----
    ``rmse`` counts every quote alike. A curve that is weighted by vega may run close to the quotes at the money and far
    from those in the wings: on recorded chains most fits are within 0.4 vol points, and those of a few hours, or with
    strikes six standard deviations away, are off by 3 to 17. Before using a poor fit at the money, compare `smile` at
    ``moneyness=0`` with `atm_volatility`.

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
    max_rmse = positive("max_rmse", max_rmse)
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
            fit = fitted(k[of], volatility[of], deviation[of], weight[of])
        ends = (k[of[0]], k[of[-1]]) if len(of) else (np.nan, np.nan)
        middle = float(np.median(forward[of])) if len(of) else np.nan
        fits.append((middle, *fit.parameters, fit.rmse, *ends))
        status = "poor_fit" if fit.rmse > max_rmse else fit.status
        quotes.append((len(of), "mixed" if mixed[smile[0]] else status))

    numbers = np.array(fits, dtype=float).reshape(len(fits), len(_NUMBERS))
    result = heads.select(*opened.smile, days=days_of(nw.col("__life"))).with_columns(
        *(
            nw.new_series(name, numbers[:, place].copy(), nw.Float64, backend="polars")
            for place, name in enumerate(_NUMBERS)
        ),
        nw.new_series("quotes", [number for number, _ in quotes], nw.Int64, backend="polars"),
        nw.new_series("status", [status for _, status in quotes], nw.String, backend="polars"),
    )
    return opened.closed(null_for_nan(result, _NUMBERS), sort=opened.smile)


def _groups(labels: Any) -> list[Any]:
    """Return the places of each label, in the order of the labels."""
    if not len(labels):
        return []
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
