"""The normal distribution, which no engine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw

# Hart's algorithm 5666, from the highest power down.
_ABOVE: Final = (
    0.0352624965998911, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931,
    220.206867912376,
)  # fmt: skip
_BELOW: Final = (
    0.0883883476483184, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831,
    793.826512519948, 440.413735824752,
)  # fmt: skip
_ZERO_FROM: Final = 40.0


def normal_cdf(x: nw.Expr) -> nw.Expr:
    r"""Cumulative distribution of the standard normal.

    .. math:: N(-x) = e^{-x^2/2} P(x) / Q(x), \quad x \ge 0

    with Hart's polynomials P of degree 6 and Q of degree 7. Made of nothing but arithmetic and ``exp``, so that every
    engine has it. The absolute error is below 1e-15.

    Parameters
    ----------
    x : expression, float64
        Of any size; NaN stays NaN. [1]

    Returns
    -------
    expression, float64
        [1]

    References
    ----------
    .. [1] Hart et al., "Computer Approximations", Wiley 1968, algorithm 5666.
    .. [2] West, "Better approximations to cumulative normal functions", Wilmott 2005.

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"x": [-40.0, 0.0, 1.959963984540054]}))
    >>> frame.select(p=normal_cdf(nw.col("x")).round(15)).to_native()["p"].to_list()
    [0.0, 0.5, 0.975]
    """
    size = x.abs()
    # From about 38.6 on a float is 0, long before the powers of a polynomial are no numbers.
    size = nw.when((size > _ZERO_FROM) & ~size.is_nan()).then(nw.lit(_ZERO_FROM)).otherwise(size)
    tail = (size * size * -0.5).exp() * _polynomial(size, _ABOVE) / _polynomial(size, _BELOW)
    return nw.when(x > 0).then(1.0 - tail).otherwise(tail)


def _polynomial(x: nw.Expr, coefficients: Sequence[float]) -> nw.Expr:
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value
