"""Prices of volatilities, and volatilities of prices."""

from __future__ import annotations

from typing import Final

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics._smile import CALL, PUT
from tidytape.analytics.options._black import Floats, implied_deviation, relative_error
from tidytape.analytics.options._chain import Chain, floats, kind_of, null_for_nan, years_of
from tidytape.analytics.options._forward import PREMIUMS, Premium
from tidytape.frames.normal import normal_cdf
from tidytape.times import YEAR

_EPSILON: Final = float(np.finfo(float).eps)
_LEAST: Final = 1e-300
"""Least deviation that is computed with."""

_DETERMINED: Final = 1e-8
"""Relative error of a volatility from which on it is called imprecise."""


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
        Adds ``black76_price`` : float64, null where a number is missing or not positive and finite, no time is left,
        or it is neither call nor put. Of a volatility beyond any market it is the limit: F of a call and K of a put;
        of one next to nothing what the option is worth at once. Within 1e-15 of the larger of F and K, so in the far
        wings few of its digits count. [coin or quote, as ``premium`` says]

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
    .. [1] F. Black, "The pricing of commodity contracts", Journal of Financial Economics 3, 1976, eq. 16.

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
    one_of("premium", premium, PREMIUMS)
    numbers = {"__volatility": volatility, "__strike": "strike", "__forward": "forward"}
    opened = Chain.opened(chain, (), numbers=numbers.values(), whole=True)
    names = [name for name in opened.table.names if name != "black76_price"]
    call = kind_of() == CALL
    positive = [nw.col(name).is_finite() & (nw.col(name) > 0) for name in numbers.values()]
    known = nw.all_horizontal(*positive, call | (kind_of() == PUT), nw.col("__life") > 0, ignore_nulls=False)
    rows = opened.rows.with_columns(__known=known.fill_null(value=False))
    # A logarithm of what is not positive is an error of some engines, even where nobody looks.
    rows = rows.with_columns(
        nw.when("__known").then(nw.col(source)).alias(name) for name, source in numbers.items()
    )
    # The root of a negative number is an error on some engines, even where its row is unknown.
    rows = rows.with_columns(__left=nw.when("__known").then(nw.col("__life")).otherwise(1.0))
    rows = rows.with_columns(
        __moneyness=nw.col("__strike") / nw.col("__forward"),
        __deviation=nw.col("__volatility") / 100.0 * years_of(nw.col("__left")).sqrt(),
    )
    # No volatility is so small that there is nothing to divide by.
    rows = rows.with_columns(
        __deviation=nw.when(nw.col("__deviation") < _LEAST)
        .then(nw.lit(_LEAST))
        .otherwise(nw.col("__deviation"))
    )
    deviation = nw.col("__deviation")
    first = deviation / 2.0 - nw.col("__moneyness").log() / deviation
    side = nw.when(call).then(nw.lit(1.0)).otherwise(nw.lit(-1.0))
    rows = rows.with_columns(__side=side, __first=normal_cdf(side * first))
    rows = rows.with_columns(__second=normal_cdf(nw.col("__side") * (first - deviation)))
    coins = nw.col("__side") * (nw.col("__first") - nw.col("__moneyness") * nw.col("__second"))
    # What it is short of zero by is the noise of a difference.
    coins = nw.when(coins > 0).then(coins).otherwise(nw.when(coins <= 0).then(nw.lit(0.0)))
    price = coins if premium == "coin" else coins * nw.col("__forward")
    rows = rows.with_columns(black76_price=price)
    finite = nw.when(nw.col("black76_price").is_finite()).then(nw.col("black76_price"))
    return opened.closed(rows.select(*names, finite.alias("black76_price")), like_rows=True)


def implied_volatility(
    chain: IntoFrameT,
    /,
    *,
    price: str = "mark_price",
    premium: Premium = "coin",
) -> IntoFrameT:
    r"""Volatility at which Black's price of each option is the price given, and whether there is one.

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
    Prices of a venue have few digits, e.g. four: how far the volatility of a wing is certain is a question of that
    last digit, and ``status`` does not know of it.

    References
    ----------
    .. [1] F. Black, "The pricing of commodity contracts", Journal of Financial Economics 3, 1976, eq. 16.
    .. [2] P. Jäckel, "Let's be rational", Wilmott, 2015.
    .. [3] T. R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
       without using derivatives", Advances in Engineering Software 28, 1997: the search, as in SciPy.

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
    one_of("premium", premium, PREMIUMS)
    opened = Chain.opened(chain, (), numbers=[price, "forward"], whole=True)
    names = [name for name in opened.table.names if name not in {"iv", "status"}]
    rows = opened.collected(opened.rows.with_columns(__kind=kind_of()), "a search is a loop")
    paid, strike, forward, life = (floats(rows[name]) for name in (price, "strike", "forward", "__life"))
    side = np.zeros(len(paid))
    for kind, sign in ((CALL, 1.0), (PUT, -1.0)):
        side[(rows["__kind"] == kind).fill_null(value=False).to_numpy().astype(bool)] = sign
    iv, status = _implied(paid if premium == "coin" else paid / forward, strike, forward, life, side)
    result = rows.select(*names).with_columns(
        nw.new_series("iv", iv, nw.Float64, backend="polars"),
        nw.new_series("status", status, nw.String, backend="polars"),
    )
    return opened.closed(null_for_nan(result, ["iv"]), like_rows=True)


def _implied(
    paid: Floats, strike: Floats, forward: Floats, life: Floats, side: Floats
) -> tuple[Floats, list[str]]:
    """Return volatilities [%] and statuses of prices in coin, with 1 for a call, -1 for a put and 0 for neither."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        known = np.isfinite(paid) & np.isfinite(life) & (side != 0)
        known &= np.isfinite(strike) & np.isfinite(forward) & (strike > 0) & (forward > 0)
        moneyness = strike / forward
        intrinsic = np.maximum(side * (forward - strike) / forward, 0.0)
        time_value, most = paid - intrinsic, np.minimum(moneyness, 1.0)
        # In the money a difference of numbers about as large as these is what is left of the price.
        noise = 2 * _EPSILON * (paid + np.where(intrinsic > 0, np.maximum(moneyness, 1.0), 0.0))
        told = [
            ("unknown", ~known),
            ("expired", life <= 0),
            ("below_intrinsic", time_value < -noise),
            # Out of the money nothing is subtracted, and the smallest price is one.
            ("no_time_value", time_value <= np.where(intrinsic > 0, noise, 0.0)),
            ("above_maximum", time_value >= most - noise),
        ]
    status = np.full(len(paid), "ok", dtype=object)
    for name, is_so in reversed(told):
        status[is_so] = name
    good = status == "ok"
    x = -np.abs(np.log(moneyness[good]))
    deviation = implied_deviation(x, time_value[good] / most[good])
    error = relative_error(x, deviation, noise[good] / np.sqrt(moneyness[good]))
    status[good] = np.where(error <= _DETERMINED, "ok", "imprecise")
    iv = np.full(len(paid), np.nan)
    iv[good] = 100 * deviation / np.sqrt(life[good] / YEAR)
    return iv, status.tolist()
