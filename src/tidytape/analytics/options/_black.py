r"""Black's price of an option on a forward, and the volatility that a price implies.

By put-call parity an option has the time value of the out-of-the-money option of its strike. In terms of
:math:`x = -|\ln(F/K)|` and the total deviation :math:`s = \sigma \sqrt{T}`, with :math:`h = x/s` and :math:`t = s/2`,

.. math:: b(x, s) = e^{x/2} \Phi(h + t) - e^{-x/2} \Phi(h - t)

is that value divided by :math:`\sqrt{FK}` [1]_. In the wings the two terms nearly cancel, so this formula would lose
all digits. `_log_value` computes the logarithm of b from scaled functions instead.

References
----------
    .. [1] Jäckel, P., "Let's be rational", Wilmott, 2015: the normalised Black function and its scaled complements.
"""

from __future__ import annotations

from typing import Any, Final, get_args

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from scipy.optimize import elementwise
from scipy.special import erfcx, log_ndtr, ndtri

from tidytape.analytics._arguments import one_of
from tidytape.analytics._series import finite
from tidytape.analytics._smile import CALL, PUT, is_above_zero, measured, normal_cdf
from tidytape.analytics.options._chain import (
    Chain,
    Floats,
    Premium,
    act_365,
    floats,
    kind_of,
    number_column,
)
from tidytape.times import YEAR

_ROOT_2_PI: Final = float(np.sqrt(2 * np.pi))
_EPSILON: Final = float(np.finfo(float).eps)
_SHORT: Final = 1e-3
"""Where half the deviation is below this, a series is more accurate than the difference. [1]"""

_LEAST: Final = 1e-290
"""The smallest volatility to compute with. [%]"""

_DETERMINED: Final = 1e-8
"""A volatility is ``imprecise`` if its relative error may be larger than this. [1]"""


def implied_deviation(x: Floats, share: Floats) -> Floats:
    r"""Total deviation that gives an out-of-the-money option the given time value.

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
    for part, ends, logarithm, target in (
        (share <= 0.5, _ends_low, _log_value, 0.5 * x + np.log(share)),
        (share > 0.5, _ends_high, _log_complement, 0.5 * x + np.log1p(-share)),
    ):
        if part.any():
            low, high = ends(x[part], share[part])
            # The search is over ln(s), because ln(b) is nearly linear in it.
            root: Any = elementwise.find_root(
                lambda u, x, target, logarithm=logarithm: logarithm(x, np.exp(u)) - target,
                (np.log(low), np.log(high)),
                args=(x[part], target[part]),
                tolerances={"xatol": 2 * _EPSILON, "xrtol": 2 * _EPSILON, "fatol": 0.0, "frtol": 0.0},
                maxiter=200,
            )
            deviation[part] = np.where(root.success, np.exp(root.x), np.nan)
    return deviation


def _ends_low(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    r"""Lower and upper bound of the deviation, for a time value of at most half its maximum.

    The lower bound follows from :math:`b \le s / \sqrt{2\pi}`, and from :math:`b \le e^{-h^2/2}/2` where
    :math:`t \le |h|`. The upper one: at :math:`s = \sqrt{2|x|} + c` the value falls short of its maximum by a share of
    at most :math:`2 \Phi(-c/2)`.
    """
    logarithm, turn = 0.5 * x + np.log(share), np.sqrt(-2 * x)
    with np.errstate(divide="ignore", invalid="ignore"):
        wing = np.minimum(turn, -x / np.sqrt(-2 * (logarithm + np.log(2))))
    return 0.99 * np.fmax(_ROOT_2_PI * np.exp(logarithm), wing), turn + 2.0


def _ends_high(x: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Lower and upper bound of the deviation, for a time value above half its maximum, by the same inequalities."""
    return 0.99 * (_ROOT_2_PI * share * np.exp(0.5 * x)), np.sqrt(-2 * x) - 2 * ndtri((1 - share) / 2) + 0.1


def _log_value(x: Floats, s: Floats) -> Floats:
    """Return ln b(x, s)."""
    h, t = x / s, s / 2
    near = h + t <= 1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scaled = np.where(
            t < _SHORT, _series(h, t), erfcx(-(h + t) / np.sqrt(2)) - erfcx(-(h - t) / np.sqrt(2))
        )
        value = np.log(scaled / 2) - 0.5 * (h * h + t * t)
        return np.where(near, value, 0.5 * x + np.log1p(-np.exp(_log_complement(x, s) - 0.5 * x)))


def _series(h: Floats, t: Floats) -> Floats:
    """Return erfcx(-(h + t)/√2) - erfcx(-(h - t)/√2) by its series in t, up to the third power."""
    value = erfcx(-h / np.sqrt(2))
    first = h * value + np.sqrt(2 / np.pi)
    third = 2 * first + h * (value + h * first)
    difference: Floats = 2 * t * (first + t * t / 6 * third)
    return difference


def _log_complement(x: Floats, s: Floats) -> Floats:
    """Return ln(e^(x/2) - b(x, s)); e^(x/2) is the limit of b for large s, and its maximum."""
    h, t = x / s, s / 2
    missing: Floats = np.logaddexp(0.5 * x + log_ndtr(-h - t), -0.5 * x + log_ndtr(h - t))
    return missing


def black76_price(
    chain: IntoFrameT, /, *, volatility: str = "implied_volatility", premium: Premium = "coin"
) -> IntoFrameT:
    r"""Black's price of each option on its forward, in coin or in the quote.

    .. math::

        C = F N(d_1) - K N(d_2), \qquad P = K N(-d_2) - F N(-d_1), \qquad
        d_{1,2} = \frac{\ln(F/K) \pm \sigma^2 T / 2}{\sigma \sqrt{T}}

    neither discounted; the inverse option, whose premium is paid in coin, costs C/F or P/F.

    Parameters
    ----------
    chain : frame, n rows, any key and order
        Uses ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin], and
        a column of volatilities. An ``expiry`` that is a date is 08:00 UTC of it.
    volatility : str
        Column of volatilities. [%]
    premium : {"coin", "quote"}
        What prices are in.

    Returns
    -------
    frame, n rows, same key, order and kind as ``chain``
        Adds ``black76_price`` : float64, null where a number is missing or not positive and finite, the expiry is over,
        or it is neither call nor put. At the expiry it is the intrinsic value, max(F - K, 0) of a call and max(K - F,
        0) of a put, whatever the volatility. Of a volatility beyond any market it is the limit: F of a call and K of a
        put; of one next to nothing what the option is worth at once. Within 1e-15 of the larger of F and K, so in the
        far wings few of its digits count. [coin or quote, as ``premium`` says]

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``premium`` is unknown, a column holds something else, or ``chain`` is no frame.

    See Also
    --------
    implied_volatility : The way back.

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
    opened = Chain.opened(chain, (), numbers=[volatility, "strike", "forward"], keeps_expiry=True)
    names = [name for name in opened.table.names if name != "black76_price"]
    positive = {name: is_above_zero(nw.col(name)) for name in (volatility, "strike", "forward", "__life")}
    is_option = kind_of().is_in([CALL, PUT])
    known = nw.all_horizontal(*positive.values(), is_option, ignore_nulls=False)
    has_payoff = (nw.col("__life") == 0) & positive["strike"] & positive["forward"] & is_option
    # A logarithm of a number that is not positive is an error on some engines, even where the row is unknown.
    side = nw.when(kind_of() == CALL).then(1.0).otherwise(-1.0)
    numbers = {
        "volatility": nw.max_horizontal(volatility, nw.lit(_LEAST)),  # a deviation of 0 cannot be divided by
        "strike": nw.col("strike"),
        "forward": nw.col("forward"),
        "left": nw.col("__life"),
        "side": side,
    }
    payoff = nw.max_horizontal(side * (nw.col("forward") - nw.col("strike")), nw.lit(0.0))
    unit = 1.0 if premium == "quote" else nw.when(positive["forward"]).then(nw.col("forward"))
    rows = opened.rows.with_columns(
        *(nw.when(known).then(number).alias(f"__{name}") for name, number in numbers.items()),
        __payoff=nw.when(has_payoff).then(payoff / unit),
    )
    years = act_365(nw.col("__left"), YEAR)
    strike, forward, side, first = map(nw.col, ("__strike", "__forward", "__side", "__d1"))
    rows = (
        measured(rows, years, strike="__strike", forward="__forward", volatility="__volatility")
        # The distribution is a long expression on some engines, so its values are columns.
        .with_columns(
            __first=normal_cdf(side * first), __second=normal_cdf(side * (first - nw.col("__deviation")))
        )
    )
    coins = side * (nw.col("__first") - strike / forward * nw.col("__second"))
    # Rounding may make the difference negative.
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
    r"""Volatility at which Black's formula gives the price of each option, or why there is none.

    Parameters
    ----------
    chain : frame, n rows, any key and order; not of DuckDB or Spark, for a search is a loop
        Uses ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per coin], and
        a column of prices. An ``expiry`` that is a date is 08:00 UTC of it.
    price : str
        Column of prices, not discounted. [coin or quote, as ``premium`` says]
    premium : {"coin", "quote"}
        What prices are in.

    Returns
    -------
    frame, n rows, same key, order and kind as ``chain``
        - ``iv`` : float64, null unless ``status`` is the first or the second. [%]
        - ``status`` : str, which is

          - ``ok``: the price, as a float, says the volatility to 1e-8 of it, and so does ``iv``;
          - ``imprecise``: the price is of so deep a wing that its last digit moves the volatility by more;
          - ``no_time_value``: the price is the intrinsic value, or zero: any small volatility would do;
          - ``below_intrinsic``: it is below, so there is none;
          - ``above_maximum``: it is not below the forward, or of a put the strike: there is none;
          - ``expired``: no time is left;
          - ``unknown``: a number is missing, not finite, or not positive, or it is neither call nor put.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If ``premium`` is unknown, a column holds something else, or ``chain`` is no frame, or one of DuckDB or Spark.

    See Also
    --------
    black76_price : The way back.

    Notes
    -----
    Prices of an exchange have few digits, e.g. four: how far the volatility of a wing is certain is a question of that
    last digit, and ``status`` does not know of it.

    References
    ----------
    .. [1] Black, F., "The pricing of commodity contracts", Journal of Financial Economics 3, 1976, eq. 16.
    .. [2] Jäckel, P., "Let's be rational", Wilmott, 2015.
    .. [3] Chandrupatla, T. R., "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
       function without using derivatives", Advances in Engineering Software 28, 1997: the search, as in SciPy.

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
    >>> implied_volatility(chain).select(pl.col("iv").round(3), "status").rows()
    [(50.0, 'ok'), (None, 'no_time_value')]
    """
    one_of("premium", premium, get_args(Premium))
    opened = Chain.opened(chain, (), numbers=[price, "forward"], keeps_expiry=True)
    names = [name for name in opened.table.names if name not in {"iv", "status"}]
    sides = (
        nw.when(kind_of() == CALL).then(1.0).otherwise(nw.when(kind_of() == PUT).then(-1.0).otherwise(0.0))
    )
    rows = opened.collected(opened.rows.with_columns(__side=sides), "a search is a loop")
    paid, strike, forward, life, side = floats(rows, price, "strike", "forward", "__life", "__side")
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        paid = paid if premium == "coin" else paid / forward
        known = np.isfinite([paid, strike, forward, life]).all(axis=0)
        known &= (side != 0) & (strike > 0) & (forward > 0)
        moneyness = strike / forward
        intrinsic = np.maximum(side * (forward - strike) / forward, 0.0)
        time_value, most = paid - intrinsic, np.minimum(moneyness, 1.0)
        # In the money the time value is a difference of numbers about as large as these.
        noise = 2 * _EPSILON * (paid + np.where(intrinsic > 0, np.maximum(moneyness, 1.0), 0.0))
        reasons = {
            "unknown": ~known,
            "expired": life <= 0,
            "below_intrinsic": time_value < -noise,
            # Out of the money nothing is subtracted, so the smallest price is a time value.
            "no_time_value": time_value <= np.where(intrinsic > 0, noise, 0.0),
            "above_maximum": time_value >= most - noise,
        }
        status = np.select(list(reasons.values()), list(reasons), "ok")
        good = status == "ok"
        x = -np.abs(np.log(moneyness[good]))
        deviation = implied_deviation(x, time_value[good] / most[good])
        vega = np.exp(-0.5 * ((x / deviation) ** 2 + (deviation / 2) ** 2)) / _ROOT_2_PI
        error = noise[good] / np.sqrt(moneyness[good]) / (vega * deviation)
    status[good] = np.where(error <= _DETERMINED, "ok", "imprecise")
    iv = np.full(len(paid), np.nan)
    iv[good] = 100 * deviation / np.sqrt(life[good] / YEAR)
    result = rows.select(*names).with_columns(
        number_column("iv", iv), nw.new_series("status", status.tolist(), nw.String, backend="polars")
    )
    return opened.table.closed(result, like_rows=True)
