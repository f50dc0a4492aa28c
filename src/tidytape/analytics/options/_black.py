r"""Black's price of an option on a forward, and the volatility that a price implies.

By put-call parity, an option has the same time value as the out-of-the-money option of its strike. With :math:`x =
-|\ln(F/K)|` and the total deviation :math:`s = \sigma \sqrt{T}`, with :math:`h = x/s` and :math:`t = s/2`,

.. math:: b(x, s) = e^{x/2} \Phi(h + t) - e^{-x/2} \Phi(h - t)

is that value divided by :math:`\sqrt{FK}` [1]_. In the wings the two terms nearly cancel, so this formula would lose
all digits. So `_log_value` computes the logarithm of b from scaled functions.

References
----------
    .. [1] Jäckel, P., "Let's be rational", Wilmott, 2015: the normalised Black function and its scaled complements.
    .. [2] Corrado, C. J. and Miller, T. W., "A note on a simple, accurate formula to compute implied standard
       deviations", Journal of Banking & Finance 20, 1996.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from scipy.optimize import elementwise
from scipy.special import erfcx, log_ndtr, ndtri

from tidytape.analytics._arguments import VolatilityUnit, column, one_of, volatility_kind
from tidytape.analytics._series import finite
from tidytape.analytics._smile import CALL, PUT, is_above_zero, measured, normal_cdf
from tidytape.analytics.options._chain import (
    Chain,
    Floats,
    Premium,
    act_365,
    floats,
    number_column,
)
from tidytape.times import YEAR

_ROOT_2_PI: Final = float(np.sqrt(2 * np.pi))
_EPSILON: Final = float(np.finfo(float).eps)
_SHORT: Final = 1e-3
"""If half the deviation is below this, a power series is more accurate than the difference of two functions. [1]"""

_STEPS: Final = 6
"""So many steps of Halley's method come before a bracket; nearly all options that are traded need two or three."""

_LAST_STEP: Final = 1e-5
"""If the last step is at most so long, the error after it is that of rounding, because steps shrink with their cube."""

_LEAST: Final = 1e-290
"""The smallest volatility to compute with. [%]"""

_DETERMINED: Final = 1e-8
"""A volatility whose relative error may be larger has the status ``imprecise``. [1]"""


def implied_deviation(x: Floats, share: Floats) -> Floats:
    r"""Return the total deviation that gives an out-of-the-money option the given time value.

    Parameters
    ----------
    x : array
        :math:`-|\ln(F/K)|`. [1]
    share : array
        Time value as a share of its maximum, min(F, K): above 0 and below 1. [1]

    Returns
    -------
    array
        :math:`\sigma \sqrt{T}`, NaN where the root search does not converge. [1]
    """
    deviation = np.full(x.shape, np.nan)
    for is_part, bounds, start, logarithm, sign, target in (
        (share <= 0.5, _bounds_low, _start_low, _log_value, 1.0, 0.5 * x + np.log(share)),
        (share > 0.5, _bounds_high, _start_high, _log_complement, -1.0, 0.5 * x + np.log1p(-share)),
    ):
        if is_part.any():
            x_of_part, target_of_part = x[is_part], target[is_part]
            low, high = np.log(bounds(x_of_part, share[is_part]))
            logs = np.clip(start(x_of_part, share[is_part], (low, high)), low, high)
            rows = np.arange(len(logs))
            with np.errstate(all="ignore"):  # a step may leave the range of floats; such a row is bracketed
                for _ in range(_STEPS):
                    newton, bend = _step(
                        x_of_part[rows], np.exp(logs[rows]), logarithm, sign, target_of_part[rows]
                    )
                    logs[rows] = np.clip(logs[rows] + newton / (1 + bend), low[rows], high[rows])
                    rows = rows[~(np.abs(newton) + np.abs(bend) <= _LAST_STEP)]
            if len(rows):
                ends = low[rows], high[rows]
                logs[rows] = _bracketed(x_of_part[rows], logarithm, target_of_part[rows], ends)
            deviation[is_part] = np.exp(logs)
    return deviation


def _step(
    x: Floats, s: Floats, logarithm: Callable[[Floats, Floats], Floats], sign: float, target: Floats
) -> tuple[Floats, Floats]:
    r"""Return Newton's step in ln(s) towards the ``target`` of ``logarithm``, and what divides it in Halley's, less 1.

    If f has the slope :math:`f' = \pm e^{-(h^2 + t^2)/2} / \sqrt{2\pi}` in s, its logarithm has the slope :math:`g =
    s f' / f` in ln(s), and the second derivative :math:`g (1 + h^2 - t^2 - g)`.
    """
    h2, t2, log_f = (x / s) ** 2, s * s / 4, logarithm(x, s)
    slope = sign * s * np.exp(-0.5 * (h2 + t2) - log_f) / _ROOT_2_PI
    newton: Floats = (target - log_f) / slope
    return newton, 0.5 * newton * (1 + h2 - t2 - slope)


def _bracketed(
    x: Floats,
    logarithm: Callable[[Floats, Floats], Floats],
    target: Floats,
    ends: tuple[Floats, Floats],
) -> Floats:
    """Return the root between two ends, in ln(s); NaN where the search does not converge."""
    # The search is over ln(s), because ln(b) is nearly linear in it.
    root: Any = elementwise.find_root(
        lambda u, x, target: logarithm(x, np.exp(u)) - target,
        ends,
        args=(x, target),
        tolerances={"xatol": 2 * _EPSILON, "xrtol": 2 * _EPSILON, "fatol": 0.0, "frtol": 0.0},
        maxiter=200,
    )
    logs: Floats = np.where(root.success, root.x, np.nan)
    return logs


def _start_low(x: Floats, share: Floats, ends: tuple[Floats, Floats]) -> Floats:
    """Return a first guess of ln(s): the formula of Corrado and Miller [2]_, or the lower end where it has no root."""
    half_gap = -np.sinh(x / 2)
    middle = share * np.exp(0.5 * x) + half_gap
    square = middle**2 - 4 * half_gap**2 / np.pi
    guess = (middle + np.sqrt(np.maximum(square, 0.0))) * _ROOT_2_PI / (2 * np.cosh(x / 2))
    logs: Floats = np.where(square > 0, np.log(guess), ends[0])
    return logs


def _start_high(x: Floats, share: Floats, ends: tuple[Floats, Floats]) -> Floats:
    """Return a first guess of ln(s): the middle between the ends."""
    return (ends[0] + ends[1]) / 2


def _bounds_low(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    r"""Return bounds of the deviation, lower and upper, for a time value of at most half its maximum.

    The lower bound follows from :math:`b \le s / \sqrt{2\pi}`, and from :math:`b \le e^{-h^2/2}/2` where :math:`t \le
    |h|`. The upper bound follows because at :math:`s = \sqrt{2|x|} + c` the value falls short of its maximum by a share
    of at most :math:`2 \Phi(-c/2)`.
    """
    logarithm, turn = 0.5 * x + np.log(share), np.sqrt(-2 * x)
    with np.errstate(divide="ignore", invalid="ignore"):
        wing = np.minimum(turn, -x / np.sqrt(-2 * (logarithm + np.log(2))))
    return 0.99 * np.fmax(_ROOT_2_PI * np.exp(logarithm), wing), turn + 2.0


def _bounds_high(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return bounds of the deviation, lower and upper, for a time value above half its maximum; as in `_bounds_low`."""
    return 0.99 * (_ROOT_2_PI * share * np.exp(0.5 * x)), np.sqrt(-2 * x) - 2 * ndtri((1 - share) / 2) + 0.1


def _log_value(x: Floats, s: Floats) -> Floats:
    """Return ln b(x, s)."""
    h, t, is_short = x / s, s / 2, s / 2 < _SHORT
    is_near_maximum = ~(h + t <= 1)
    log_value = np.empty(h.shape)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for is_part, difference in (
            (is_short & ~is_near_maximum, _series),
            (~is_short & ~is_near_maximum, _difference),
        ):
            h_of_part, t_of_part = h[is_part], t[is_part]
            exponent = 0.5 * (h_of_part * h_of_part + t_of_part * t_of_part)
            log_value[is_part] = np.log(difference(h_of_part, t_of_part) / 2) - exponent
        half = 0.5 * x[is_near_maximum]
        complement = _log_complement(x[is_near_maximum], s[is_near_maximum])
        log_value[is_near_maximum] = half + np.log1p(-np.exp(complement - half))
    return log_value


def _difference(h: Floats, t: Floats) -> Floats:
    """Return erfcx(-(h + t)/√2) - erfcx(-(h - t)/√2)."""
    difference: Floats = erfcx(-(h + t) / np.sqrt(2)) - erfcx(-(h - t) / np.sqrt(2))
    return difference


def _series(h: Floats, t: Floats) -> Floats:
    """Return what `_difference` does, from its power series in t, up to the third power."""
    middle = erfcx(-h / np.sqrt(2))
    first_derivative = h * middle + np.sqrt(2 / np.pi)
    third_derivative = 2 * first_derivative + h * (middle + h * first_derivative)
    difference: Floats = 2 * t * (first_derivative + t * t / 6 * third_derivative)
    return difference


def _log_complement(x: Floats, s: Floats) -> Floats:
    """Return ln(e^(x/2) - b(x, s)); e^(x/2) is the limit of b for large s, and its maximum."""
    h, t = x / s, s / 2
    complement: Floats = np.logaddexp(0.5 * x + log_ndtr(-h - t), -0.5 * x + log_ndtr(h - t))
    return complement


def black76_price(
    chain: IntoFrameT,
    /,
    *,
    volatility: str = "implied_volatility",
    premium: Premium = "coin",
    volatility_unit: VolatilityUnit | None = None,
) -> IntoFrameT:
    r"""Black's price of each option on its forward, in coin or in the quote.

    .. math::

        C = F N(d_1) - K N(d_2), \qquad P = K N(-d_2) - F N(-d_1), \qquad
        d_{1,2} = \frac{\ln(F/K) \pm \sigma^2 T / 2}{\sigma \sqrt{T}}

    without discounting. An inverse option, whose premium is paid in coin, costs C/F or P/F.

    Parameters
    ----------
    chain : frame, n rows, any key and order
        Uses ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin], and
        a column of volatilities. An ``expiry`` that is a date means 08:00 UTC of that day.
    volatility : str
        Column of volatilities. [%]
    premium : {"coin", "quote"}
        The unit of prices.
    volatility_unit : {"percent", "decimal"}, optional
        The unit of the column; the result has it in percent. If you leave it out, it is percent, and a frame in memory
        is refused if all its volatilities lie below 5, because they look like decimals.

    Returns
    -------
    frame, n rows, same key, order and kind as ``chain``
        Adds ``black76_price`` : float64, null if a number is missing, not finite or not positive, after the expiry, or
        if the option is neither call nor put. At the expiry it is the intrinsic value, max(F - K, 0) of a call and
        max(K - F, 0) of a put, whatever the volatility. An extremely high volatility gives the limit, F for a call and
        K for a put; a volatility close to zero gives the intrinsic value. The error is at most 1e-15 of the larger of F
        and K, so in the far wings few digits are right. [coin or quote, as ``premium`` says]

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``premium`` is unknown, a column has values of another type, or ``chain`` is not a frame.

    See Also
    --------
    implied_volatility : The inverse function.

    References
    ----------
    .. [1] Black, F., "The pricing of commodity contracts", Journal of Financial Economics 3, 1976, eq. 16.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["CALL"], "strike": [70_000.0], "forward": 70_000.0, "implied_volatility": [50.0],
    ...     }
    ... )
    >>> round(black76_price(chain)["black76_price"].item(), 6)
    0.057138
    """
    one_of("premium", premium, get_args(Premium))
    column("volatility", volatility)
    opened = Chain.opened(
        chain,
        (),
        numbers=[volatility, "strike", "forward"],
        kinds={volatility: volatility_kind(volatility_unit)},
        keeps_expiry=True,
    )
    names = [name for name in opened.table.names if name != "black76_price"]
    positive = {name: is_above_zero(nw.col(name)) for name in (volatility, "strike", "forward", "__life")}
    is_option = ~nw.col("option_type").is_null()
    is_known = nw.all_horizontal(*positive.values(), is_option, ignore_nulls=False)
    has_payoff = (nw.col("__life") == 0) & positive["strike"] & positive["forward"] & is_option
    side = nw.when(nw.col("option_type") == CALL).then(1.0).otherwise(-1.0)
    payoff = nw.max_horizontal(side * (nw.col("forward") - nw.col("strike")), nw.lit(0.0))
    unit = 1.0 if premium == "quote" else nw.when(positive["forward"]).then(nw.col("forward"))
    # Some engines raise on the logarithm of a number that is not positive, even in a row whose result is null.
    numbers = {
        "volatility": nw.max_horizontal(volatility, nw.lit(_LEAST)),  # the formula divides by the deviation
        "strike": nw.col("strike"),
        "forward": nw.col("forward"),
        "time_left": nw.col("__life"),
        "sign": side,
    }
    rows = opened.rows.with_columns(
        *(nw.when(is_known).then(number).alias(f"__{name}") for name, number in numbers.items()),
        __payoff=nw.when(has_payoff).then(payoff / unit),
    )
    years = act_365(nw.col("__time_left"), YEAR)
    strike, forward, sign, d1 = map(nw.col, ("__strike", "__forward", "__sign", "__d1"))
    rows = (
        measured(rows, years, strike="__strike", forward="__forward", volatility="__volatility")
        # The normal distribution is a long expression on some engines, so compute it once, as columns.
        .with_columns(
            __cdf_d1=normal_cdf(sign * d1), __cdf_d2=normal_cdf(sign * (d1 - nw.col("__deviation")))
        )
    )
    coins = sign * (nw.col("__cdf_d1") - strike / forward * nw.col("__cdf_d2"))
    # Rounding may make the price slightly negative.
    coins = nw.when(coins > 0).then(coins).otherwise(nw.when(coins <= 0).then(nw.lit(0.0)))
    price = coins if premium == "coin" else coins * forward
    rows = rows.with_columns(black76_price=nw.coalesce(price, nw.col("__payoff")))
    return opened.table.closed(rows.select(*names, finite("black76_price")), like_rows=True)


def implied_volatility(
    chain: IntoFrameT,
    /,
    *,
    price: str = "mark_price",
    premium: Premium = "coin",
) -> IntoFrameT:
    r"""Volatility at which Black's formula gives the price of each option, or the reason why none does.

    Parameters
    ----------
    chain : frame, n rows, any key and order; not of DuckDB or Spark, which cannot search
        Uses ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin], and
        a column of prices. An ``expiry`` that is a date means 08:00 UTC of that day.
    price : str
        Column of prices, not discounted. [coin or quote, as ``premium`` says]
    premium : {"coin", "quote"}
        The unit of prices.

    Returns
    -------
    frame, n rows, same key, order and kind as ``chain``
        - ``implied_volatility`` : float64, null unless ``status`` is ``ok`` or ``imprecise``; it takes the place of a
          column of this name, such as the exchange's own volatility. [%]
        - ``status`` : str, which is

          - ``ok``: the relative error of ``implied_volatility`` is at most 1e-8;
          - ``imprecise``: the option lies so far in a wing that the last digit of the price as a float moves it by
            more;
          - ``no_time_value``: the price is the intrinsic value, or zero, so any small volatility fits;
          - ``below_intrinsic``: the price is below the intrinsic value, so no volatility fits;
          - ``above_maximum``: the price is not below the forward, or for a put the strike, so no volatility fits;
          - ``expired``: no time is left;
          - ``unknown``: a number is missing, not finite or not positive, or the option is neither call nor put.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``premium`` is unknown, a column has values of another type, or ``chain`` is not a frame, or belongs to
        DuckDB or Spark.

    See Also
    --------
    black76_price : The inverse function.

    Notes
    -----
    Exchanges quote prices with few digits, e.g. four. The last of them limits the precision of a volatility in the
    wings; ``status`` does not take this into account.

    References
    ----------
    .. [1] Black, F., "The pricing of commodity contracts", Journal of Financial Economics 3, 1976, eq. 16.
    .. [2] Jäckel, P., "Let's be rational", Wilmott, 2015.
    .. [3] Chandrupatla, T. R., "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
       function without using derivatives", Advances in Engineering Software 28, 1997: the search, as in SciPy, where
       Halley's method does not converge.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": "CALL", "strike": [70_000.0, 35_000.0], "forward": 70_000.0,
    ...         "mark_price": [0.057138, 0.5],
    ...     }
    ... )
    >>> implied_volatility(chain).select(pl.col("implied_volatility").round(3), "status").rows()
    [(50.0, 'ok'), (None, 'no_time_value')]
    """
    one_of("premium", premium, get_args(Premium))
    opened = Chain.opened(chain, (), numbers=[price, "forward"], keeps_expiry=True)
    names = [name for name in opened.table.names if name not in {"implied_volatility", "status"}]
    call_put_sign = (
        nw.when(nw.col("option_type") == CALL)
        .then(1.0)
        .otherwise(nw.when(nw.col("option_type") == PUT).then(-1.0).otherwise(0.0))
    )
    rows = opened.collected(opened.rows.with_columns(__sign=call_put_sign), "a search is a loop")
    paid, strike, forward, life, sign = floats(rows, price, "strike", "forward", "__life", "__sign")
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        paid = paid if premium == "coin" else paid / forward
        is_known = np.isfinite([paid, strike, forward, life]).all(axis=0)
        is_known &= (sign != 0) & (strike > 0) & (forward > 0)
        moneyness = strike / forward
        intrinsic = np.maximum(sign * (forward - strike) / forward, 0.0)
        time_value, maximum = paid - intrinsic, np.minimum(moneyness, 1.0)
        # In the money, the time value is the difference of two numbers of about this size.
        noise = 2 * _EPSILON * (paid + np.where(intrinsic > 0, np.maximum(moneyness, 1.0), 0.0))
        reasons = {
            "unknown": ~is_known,
            "expired": life <= 0,
            "below_intrinsic": time_value < -noise,
            # Out of the money the intrinsic value is 0, so even the smallest price is a time value.
            "no_time_value": time_value <= np.where(intrinsic > 0, noise, 0.0),
            "above_maximum": time_value >= maximum - noise,
        }
        status = np.select(list(reasons.values()), list(reasons), "ok")
        is_solvable = status == "ok"
        x = -np.abs(np.log(moneyness[is_solvable]))
        deviation = implied_deviation(x, time_value[is_solvable] / maximum[is_solvable])
        vega = np.exp(-0.5 * ((x / deviation) ** 2 + (deviation / 2) ** 2)) / _ROOT_2_PI
        error = noise[is_solvable] / np.sqrt(moneyness[is_solvable]) / (vega * deviation)
    status[is_solvable] = np.where(error <= _DETERMINED, "ok", "imprecise")
    volatilities = np.full(len(paid), np.nan)
    volatilities[is_solvable] = 100 * deviation / np.sqrt(life[is_solvable] / YEAR)
    result = rows.select(*names).with_columns(
        number_column("implied_volatility", volatilities),
        nw.new_series("status", status.tolist(), nw.String, backend="polars"),
    )
    return opened.table.closed(result, like_rows=True, main=["status", "implied_volatility"])
