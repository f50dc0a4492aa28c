"""Fitted curves: volatilities along a smile and between two smiles, and arbitrage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from scipy.optimize import elementwise

from tidytape.analytics._arguments import flag, integer, is_number
from tidytape.analytics._series import IS_REPEATED, repeated
from tidytape.analytics.options._chain import Floats, floats, number_column
from tidytape.analytics.options._maturity import at_maturities, maturities, single
from tidytape.analytics.options._svi import LEE, PARAMETERS
from tidytape.errors import QueryError
from tidytape.frames._door import as_list
from tidytape.frames._rows import crossed, next_of, with_next
from tidytape.frames._table import OpenTable, Rows

_RANGE = ("lowest", "highest")
_RESERVED = (
    "timestamp", "expiry", "days", "forward", "moneyness", "strike", "implied_volatility", "rmse", *PARAMETERS,
    *_RANGE,
)  # fmt: skip

_NUMBERS = ("least_density", "density_at", "left_wing", "right_wing", "least_gain", "gain_at")
_FLAGS = ("butterfly_arbitrage", "wing_arbitrage", "calendar_arbitrage")

_REACH: Final = 20.0
"""How far from m the search for arbitrage goes, in log-moneyness; beyond it the slopes of the wings decide. [1]"""

_NARROWEST: Final = 1e-12
"""The width of the narrowest feature that the search finds, in log-moneyness. [1]"""

_NOISE: Final = 1e-9
"""How far below zero a value still counts as zero: absolute for g, relative to the variance or slope for the others."""


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
        Columns that tell one series from another; by default the identity columns of the frame.
    moneyness : float or iterable of float, optional
        The log-moneyness ln(K/F) of the points; by default even steps over the range of each fit. [1]
    steps : int
        How many even steps, if ``moneyness`` is not given.
    wings : bool
        Whether to follow the curve beyond the quotes that it was fitted to; by default volatilities are null there.

    Returns
    -------
    frame, one row per (by, timestamp, expiry, moneyness), sorted by these, of the kind of ``fits``
        - ``days`` : float64. [d]
        - ``moneyness`` : float64, ln(K/F). [1]
        - ``strike`` : float64. [quote per coin]
        - ``implied_volatility`` : float64, null without a fit or time left, if total variance is negative, and outside
          the range. [%]
        - ``rmse`` : float64, if ``fits`` has it: the root mean square error of the fit. [vol points]

    Raises
    ------
    MissingColumnError
        If ``fits`` lacks a column.
    QueryError
        If ``moneyness`` or ``steps`` is not as listed, a column is not numeric, or ``fits`` is not a frame.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
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
    steps, wings = integer("steps", steps, most=10_000), flag("wings", wings)
    moneyness_points = None if moneyness is None else _moneyness_points(moneyness)
    table = _opened(fits, times=["timestamp", "expiry"], numbers=["forward"])
    keys = [*table.series_columns(by, without=_RESERVED), "timestamp", "expiry"]
    if moneyness_points is None:
        lowest, highest = nw.col("lowest"), nw.col("highest")
        rows = crossed(table.rows, "__share", [step / steps for step in range(steps + 1)]).with_columns(
            moneyness=lowest + (highest - lowest) * nw.col("__share")
        )
    else:
        rows = crossed(table.rows.drop("moneyness", strict=False), "moneyness", moneyness_points)
    # Even steps lie in the range of the quotes. Rounding may put one outside, so do not check them.
    rows = _with_variance(rows, wings=wings or moneyness_points is None)
    result = rows.select(
        *keys,
        "days",
        "moneyness",
        strike=nw.col("forward") * nw.col("moneyness").exp(),
        implied_volatility=_volatility(),
        **{name: nw.col(name) for name in _quality(table)},
    )
    return table.closed(result, sort=[*keys, "moneyness"], main=["moneyness", "strike", "implied_volatility"])


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

    If a fit failed or appears twice, volatilities next to it are null: the expiries beyond it are not used instead.
    Nothing is extrapolated in time.

    Parameters
    ----------
    fits : frame, n rows, one per (by, timestamp, days), any order
        As for `smile`, without ``expiry`` and ``forward``.
    days : float, str, or iterable of these, > 0
        The maturities, in days [d] or as tenors, e.g. ``"1m"`` for 30 days.
    moneyness : float or iterable of float
        The log-moneyness ln(K/F) of the points. [1]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.
    wings : bool
        Whether to follow the curves beyond the quotes that they were fitted to; by default volatilities are null there.

    Returns
    -------
    frame, one row per (by, timestamp, days, moneyness), sorted by these, of the kind of ``fits``
        - ``implied_volatility`` : float64, null if the curve of the expiry before or after has no value there. [%]
        - ``rmse`` : float64, if ``fits`` has it: the larger one of the two expiries. [vol points]

    Raises
    ------
    MissingColumnError
        If ``fits`` lacks a column.
    QueryError
        If ``days`` or ``moneyness`` are not as listed, a column is not numeric, or ``fits`` is not a frame.

    See Also
    --------
    smile : The volatilities of each expiry.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
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
    target_days, moneyness_points, wings = (
        maturities(days),
        _moneyness_points(moneyness),
        flag("wings", wings),
    )
    table = _opened(fits, times=["timestamp"], numbers=[])
    chain = [*table.series_columns(by, without=_RESERVED), "timestamp"]
    curves = single(table.rows.drop("moneyness", strict=False), [*chain, "days"], ["a"])
    variances = _with_variance(crossed(curves, "moneyness", moneyness_points), wings=wings)
    keys, quality = [*chain, "moneyness"], _quality(table)
    result = at_maturities(variances, keys, target_days, ["__variance"], worst=quality).select(
        *chain, "days", "moneyness", _volatility().alias("implied_volatility"), *quality
    )
    return table.closed(
        result, sort=[*chain, "days", "moneyness"], main=["days", "moneyness", "implied_volatility"]
    )


def _opened(fits: IntoFrameT, *, times: Iterable[str], numbers: Iterable[str]) -> OpenTable[IntoFrameT]:
    """Open fitted curves; require times, parameters, the range of quotes and ``numbers``."""
    table = OpenTable.of(fits, parameter="fits")
    numbers = ["days", *numbers, *PARAMETERS, *_RANGE, *_quality(table)]
    return OpenTable.of(table, times=times, numbers=numbers, parameter="fits")


def _quality(table: OpenTable[Any]) -> list[str]:
    """Return the column of the fit's error as a list, empty if the frame lacks it."""
    return ["rmse"] if "rmse" in table.names else []


def _moneyness_points(moneyness: object) -> list[float]:
    """Return the values of log-moneyness that a caller asks for, each once; raise QueryError for anything else."""
    values = as_list(moneyness)
    if not values or not all(is_number(value) for value in values):
        raise QueryError("moneyness", got=moneyness, expected="finite numbers, ln(K/F)")
    return list(dict.fromkeys(float(value) for value in values))


def _with_variance(curves: Rows, *, wings: bool) -> Rows:
    """Add ``__variance``, the total variance of each curve at ``moneyness``; null where it is not positive.

    Without ``wings`` it is also null outside the range of the quotes that the curve was fitted to.
    """
    a, b, rho, m, sigma = map(nw.col, PARAMETERS)
    k = nw.col("moneyness")
    x = k - m
    variance = a + b * (rho * x + (x * x + sigma * sigma).sqrt())
    is_quoted = (k >= nw.col("lowest")) & (k <= nw.col("highest"))
    return curves.with_columns(
        __variance=nw.when(variance > 0, *([] if wings else [is_quoted])).then(variance)
    )


def _volatility() -> nw.Expr:
    """Return the volatility of ``__variance`` over ``days``. [%]"""
    days = nw.col("days")
    years = nw.when(days > 0).then(days / 365.0)
    return (nw.col("__variance") / years).sqrt() * 100.0


def svi_arbitrage(
    fits: IntoFrameT, /, *, by: str | Iterable[str] | None = None, wings: bool = True
) -> IntoFrameT:
    r"""Arbitrage of each fitted curve: between strikes, in the wings, and with the next expiry.

    .. math::

        g(k) = \left( 1 - \frac{k w'(k)}{2 w(k)} \right)^2
        - \frac{w'(k)^2}{4} \left( \frac{1}{w(k)} + \frac{1}{4} \right) + \frac{w''(k)}{2}

    has the sign of the probability density of the price at expiry that the smile implies. Where g is negative, a
    butterfly spread has a negative price. In a wing, total variance must not rise by more than 2 per unit of
    :math:`|k|`: this is Lee's bound [2]_. From one expiry to the next, total variance must not fall at any k.

    Parameters
    ----------
    fits : frame, n rows, one per (by, timestamp, days), any order; not of DuckDB or Spark, which cannot search
        As `svi` returns them. Uses ``timestamp``, ``days`` [d], and ``a``, ``b``, ``rho``, ``m`` and ``sigma``, of
        total variance. [1]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.
    wings : bool
        Whether to search beyond the quotes that the curves were fitted to. Otherwise the search stays within the
        quotes, from ``lowest`` to ``highest``; between two expiries, within the quotes of both.

    Returns
    -------
    frame, n rows, sorted by (by, timestamp, days), of the kind of ``fits``
        All columns of ``fits``, and, all null without a fit,

        - ``least_density`` : float64, the least g, null where total variance is not positive. [1]
        - ``density_at`` : float64, the log-moneyness of it. [1]
        - ``left_wing``, ``right_wing`` : float64, slopes of total variance, :math:`b (1 \mp \rho)`. [1]
        - ``least_gain`` : float64, the least increase of total variance to the next expiry; null for the last expiry,
          and if either of the two has no fit or appears twice. [1]
        - ``gain_at`` : float64, the log-moneyness of it. [1]
        - ``butterfly_arbitrage`` : bool, whether g is negative somewhere, or total variance not positive.
        - ``wing_arbitrage`` : bool, whether a wing is steeper than 2.
        - ``calendar_arbitrage`` : bool, whether the curve lies above that of the next expiry anywhere in the search;
          with ``wings``, however far out.

    Raises
    ------
    MissingColumnError
        If ``fits`` lacks a column.
    QueryError
        If a column is not numeric, or ``fits`` is not a frame, or belongs to DuckDB or Spark.

    Notes
    -----
    The search first takes the minimum on a grid of k, and then refines it. The grid is fine around m and around the
    least total variance. With ``wings`` it reaches 20 to both sides of m, and beyond it the slopes of the wings decide;
    otherwise it reaches to the ends of the quotes. Most arbitrage of a fitted curve lies where nothing is quoted: what
    only ``wings=True`` flags is arbitrage of the curve, not of the quotes.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       lemmas 2.1 and 2.2, and section 3.1.
    .. [2] Lee, R. W., "The moment formula for implied volatility at extreme strikes", Mathematical Finance 14,
       2004.

    Examples
    --------
    A. Vogt's curve, which looks harmless, as quoted in [1]_:

    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> fits = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "days": [365.0], "a": -0.0410, "b": 0.1331,
    ...         "rho": 0.3060, "m": 0.3586, "sigma": 0.4153,
    ...     }
    ... )
    >>> svi_arbitrage(fits).select(pl.col("least_density", "density_at").round(3), "butterfly_arbitrage").row(0)
    (-0.033, 0.879, True)
    """
    ranges = () if flag("wings", wings) else ("lowest", "highest")
    numbers = ["days", *PARAMETERS, *ranges]
    table = OpenTable.of(fits, ["timestamp"], numbers=numbers, parameter="fits")
    chain = [*table.series_columns(by, without=["timestamp", *numbers, *_NUMBERS, *_FLAGS]), "timestamp"]
    names = [name for name in table.names if name not in {*_NUMBERS, *_FLAGS}]
    collected = repeated(table.collected("a search is a loop").lazy(), [*chain, "days"])
    shifted_columns = (IS_REPEATED, *PARAMETERS, *ranges)
    rows = (
        with_next(collected, shifted_columns, over=chain, order_by=("days",)).collect().sort(*chain, "days")
    )
    parts = [1, 1 + len(PARAMETERS)]
    times, parameters, quote_range = np.split(floats(rows, *shifted_columns), parts)
    next_times, next_parameters, next_quoted = np.split(floats(rows, *map(next_of, shifted_columns)), parts)
    is_fit = np.isfinite(parameters).all(axis=0)
    # An expiry that appears twice has no well-defined neighbour.
    is_pair = is_fit & np.isfinite(next_parameters).all(axis=0) & (times[0] == 0) & (next_times[0] == 0)
    bounds, pair_bounds = None, None
    if not wings:
        bounds = quote_range
        pair_bounds = np.array(
            [np.fmax(quote_range[0], next_quoted[0]), np.fmin(quote_range[1], next_quoted[1])]
        )
    a, b, rho, _, sigma = parameters
    _, next_b, next_rho, _, _ = next_parameters
    left_wing, right_wing = b * (1 - rho), b * (1 + rho)
    with np.errstate(all="ignore"):  # the formulas divide by 0 on a flat curve and at a kink
        least_density, density_at = _least(_density, parameters, is_fit, bounds)
        least_gain, gain_at = _least(
            _gain, np.concatenate([parameters, next_parameters]), is_pair, pair_bounds
        )
        gains = least_gain >= -_NOISE * (np.abs(a) + b * sigma)
        if wings:  # if a wing of the next curve is less steep, the curves cross far away
            gains &= next_b * (1 + next_rho) >= right_wing - _NOISE * b
            gains &= next_b * (1 - next_rho) >= left_wing - _NOISE * b
        else:  # without a least gain, the two ranges of quotes do not overlap
            gains |= np.isnan(least_gain)
        flags = (
            np.where(is_fit, ~(least_density >= -_NOISE), np.nan),
            np.where(is_fit, np.fmax(left_wing, right_wing) > LEE * (1 + _NOISE), np.nan),
            np.where(is_pair, ~gains, np.nan),
        )
    result = rows.select(*names).with_columns(
        *map(
            number_column, _NUMBERS, (least_density, density_at, left_wing, right_wing, least_gain, gain_at)
        ),
        *(number_column(name, values).cast(nw.Boolean) for name, values in zip(_FLAGS, flags, strict=True)),
    )
    return table.closed(result, sort=[*chain, "days"])


def _curve(k: Floats, parameters: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """Return the total variance of curves and its first two derivatives in k."""
    a, b, rho, m, sigma = parameters
    x, root = k - m, np.hypot(k - m, sigma)
    return a + b * (rho * x + root), b * (rho + x / root), b * (sigma / root) ** 2 / root


def _density(k: Floats, *parameters: Floats) -> Floats:
    """Return g(k), which has the sign of the density; NaN where total variance is not positive."""
    w, first, second = _curve(k, parameters)
    g = (1 - k * first / (2 * w)) ** 2 - first**2 / 4 * (1 / w + 0.25) + second / 2
    # Where sigma is 0 the curve has a kink, at which the density is infinite.
    is_kink = np.hypot(k - parameters[3], parameters[4]) == 0
    return np.where(w > 0, np.where(is_kink, np.inf, g), np.nan)


def _gain(k: Floats, *parameters: Floats) -> Floats:
    """Return how much the total variance of the second curve exceeds that of the first."""
    return _curve(k, parameters[5:])[0] - _curve(k, parameters[:5])[0]


def _least(
    value: Callable[..., Floats], parameters: Floats, is_known: Any, bounds: Floats | None
) -> tuple[Floats, Floats]:
    """Return the least value of known row over k, and its k; NaN if the value is NaN for some k."""
    minimum, k_of_minimum = np.full((2, len(is_known)), np.nan)
    if bounds is not None:
        is_known = is_known & (bounds[0] < bounds[1])
        bounds = bounds[:, is_known]
    if not is_known.any():
        return minimum, k_of_minimum
    known_parameters = parameters[:, is_known]
    k = _grid(known_parameters, bounds)
    values = value(k, *known_parameters)
    column, lowest_index = np.arange(k.shape[1]), values.argmin(axis=0)
    middle = np.clip(lowest_index, 1, len(k) - 2)
    bracket = tuple(k[middle + step, column] for step in (-1, 0, 1))
    refined = elementwise.find_minimum(value, bracket, args=tuple(known_parameters))
    lowest = values[lowest_index, column]
    is_better = refined.success & (refined.f_x < lowest)
    minimum[is_known] = np.where(is_better, refined.f_x, lowest)
    k_of_minimum[is_known] = np.where(
        np.isnan(lowest), np.nan, np.where(is_better, refined.x, k[lowest_index, column])
    )
    return minimum, k_of_minimum


def _grid(parameters: Floats, bounds: Floats | None) -> Floats:
    """Return a grid of k between the ends, dense around the bend of each curve and around its minimum.

    The bend and the minimum may both be narrow.
    """
    grids: list[Floats] = []
    for a, b, rho, m, sigma in parameters.reshape(-1, 5, parameters.shape[1]):
        low, high = (m - _REACH, m + _REACH) if bounds is None else bounds
        root = np.sqrt(1 - rho**2)
        lowest, height = m - rho * sigma / root, a + b * sigma * root
        # Near its minimum, total variance is a parabola, which reaches twice the minimum at this distance.
        width = np.sqrt(height * 2 * sigma / (b * root**3))
        # The first square in the formula of g changes even faster.
        width = width * np.fmin(width / np.abs(lowest), 1.0)
        for middle, scale in ((m, np.abs(sigma)), (lowest, width)):
            has_minimum = np.isfinite(middle) & np.isfinite(scale)  # else a second grid around the bend
            center = np.where(has_minimum, middle, m)
            unit = np.clip(np.where(has_minimum, scale, np.abs(sigma)), _NARROWEST, _REACH)
            start, stop = (np.arcsinh((end - center) / unit) for end in (low, high))
            # Each grid has one point fewer than the last, so that the grids of two equal curves differ.
            u = start + (stop - start) * np.linspace(0, 1, 1_001 - len(grids))[:, None]
            grids.append(np.clip(center + unit * np.sinh(u), low, high))
        grids[-1][[0, -1]] = low, high  # rounding moves the ends
    return np.sort(np.concatenate(grids), axis=0)
