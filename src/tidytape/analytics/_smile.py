"""Volatilities at chosen points of each smile.

A point is the place on a smile where a coordinate that rises with the strike has a given value: log-moneyness 0, or a
delta. Between two neighbouring listed strikes the volatility is linear in that coordinate; beyond the outermost strikes
it is unknown. The service's option summaries consist of the same points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import narwhals.stable.v2 as nw

from tidytape.frames._rows import interpolated, with_next
from tidytape.frames._table import Rows

CALL, PUT = "CALL", "PUT"


@dataclass(frozen=True)
class Ladder:
    """How to interpolate a smile: which options are neighbours, their order, and the points to find.

    Attributes
    ----------
    chain_part : expression, str
        The part of the chain that an option belongs to, such as the calls. Only options of one part are neighbours.
    x : expression, float64
        The coordinate, which rises with the strike.
    targets : mapping of str to (str, float)
        The points to find, by name: the part of the chain that the point lies in, and the value of ``x`` there.
    """

    chain_part: nw.Expr
    x: nw.Expr
    targets: Mapping[str, tuple[str, float]]


def is_above_zero(value: nw.Expr) -> nw.Expr:
    """Return whether a number is finite and above 0."""
    return value.is_finite() & (value > 0)


def above_zero(value: nw.Expr) -> nw.Expr:
    """Return a number where it is finite and above 0, and null elsewhere."""
    return nw.when(is_above_zero(value)).then(value)


def measured(
    quotes: Rows,
    years: nw.Expr,
    *,
    strike: str = "strike",
    forward: str = "forward",
    volatility: str = "implied_volatility",
) -> Rows:
    """Add ``__moneyness``, ln(K/F), ``__deviation``, σ√T, and ``__d1`` of each option, all without unit."""
    # Some engines raise on the root of a negative number, even for an option that is filtered out later.
    time_left = nw.when(years > 0).then(years).otherwise(0.0)
    moneyness, deviation = nw.col("__moneyness"), nw.col("__deviation")
    return quotes.with_columns(
        __moneyness=(nw.col(strike) / nw.col(forward)).log(),
        __deviation=nw.col(volatility) / 100.0 * time_left.sqrt(),
    ).with_columns(__d1=deviation / 2.0 - moneyness / deviation)


def money_ladder(atm: str, name: str) -> Ladder:
    """Return the ladder for the at-the-money point, which interpolates between out-of-the-money options.

    These are the puts with a strike below the forward and the calls with a strike at or above it.

    Parameters
    ----------
    atm : {"forward", "delta_neutral"}
        What "at the money" means: K = F, with the coordinate ln(K/F); or N(d₁) = 1/2, with the coordinate -N(d₁).
    name : str
        Name of the point.
    """
    call, below = nw.col("option_type") == CALL, nw.col("__moneyness") < 0
    chain_part = nw.when(call == below).then(nw.lit("in")).otherwise(nw.lit("out"))
    if atm == "forward":
        return Ladder(chain_part, nw.col("__moneyness"), {name: ("out", 0.0)})
    return Ladder(chain_part, -normal_cdf(nw.col("__d1")), {name: ("out", -0.5)})


def delta_ladder(kind: str, targets: Mapping[str, tuple[str, float]]) -> Ladder:
    """Return the ladder for points given by delta, which interpolates calls and puts separately.

    Parameters
    ----------
    kind : {"forward", "premium_adjusted"}
        The delta of a call: N(d₁), or (K/F) N(d₂). That of the put is lower by 1, or by K/F.
    targets : mapping of str to (str, float)
        The points to find, by name: ``CALL`` or ``PUT``, and the signed delta.
    """
    adjusted = kind == "premium_adjusted"
    probability = normal_cdf(nw.col("__d1") - nw.col("__deviation") if adjusted else nw.col("__d1"))
    delta = nw.when(nw.col("option_type") == CALL).then(probability).otherwise(probability - 1.0)
    if adjusted:
        delta = delta * nw.col("strike") / nw.col("forward")
    # Delta falls as the strike rises, so the coordinate is its negative.
    return Ladder(nw.col("option_type"), -delta, {name: (part, -at) for name, (part, at) in targets.items()})


def points(
    options: Rows,
    ladders: Sequence[Ladder],
    *,
    over: Sequence[str],
    order_by: Sequence[str],
    keep: Sequence[nw.Expr] = (),
) -> Rows:
    """Return the volatilities of some points of each smile.

    Parameters
    ----------
    options : frame
        As `measured` returns it.
    ladders : sequence of Ladder
        The points.
    over : sequence of str
        Columns that name a smile.
    order_by : sequence of str
        Columns that put the options of a smile in order: the strike, and those that order options of one strike.
    keep : sequence of expressions
        Further aggregations of each smile.

    Returns
    -------
    frame, one row per smile
        One column per point with its volatility, null outside the listed strikes. If a smile reaches the value of the
        coordinate at several places, the one closest to the forward counts. [%]
    """
    smiles, names = options.with_columns(__distance=nw.col("__moneyness").abs()), list[str]()
    for number, ladder in enumerate(ladders):
        part_column, x, next_prefix = f"__part_{number}", f"__x_{number}", f"__next_{number}_"
        smiles = smiles.with_columns(ladder.chain_part.alias(part_column), ladder.x.alias(x))
        smiles = with_next(
            smiles,
            (x, "implied_volatility"),
            over=(*over, part_column),
            order_by=order_by,
            prefix=next_prefix,
        ).with_columns(
            nw.when(nw.col(part_column) == part)
            .then(interpolated(nw.lit(at), x, "implied_volatility", prefix=next_prefix))
            .alias(name)
            for name, (part, at) in ladder.targets.items()
        )
        names += ladder.targets
    distance = nw.col("__distance")
    closest = smiles.with_columns(
        nw.when(~nw.col(name).is_null()).then(distance).min().over(*over).alias(f"__distance_{name}")
        for name in names
    )
    volatilities = [
        nw.when(distance == nw.col(f"__distance_{name}")).then(nw.col(name)).max().alias(name)
        for name in names
    ]
    return closest.group_by(*over).agg(*keep, *volatilities)


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
    r"""Return the cumulative distribution of the standard normal.

    .. math:: N(-x) = e^{-x^2/2} P(x) / Q(x), \quad x \ge 0

    with Hart's polynomials P of degree 6 and Q of degree 7. It needs only arithmetic and ``exp``, which every engine
    has. The absolute error is below 1e-15.

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
    # Above about 38.6 the tail is 0 as a float. The cap keeps the powers of the polynomials from overflowing.
    size = nw.when((size > _ZERO_FROM) & ~size.is_nan()).then(nw.lit(_ZERO_FROM)).otherwise(size)
    tail = (size * size * -0.5).exp() * _polynomial(size, _ABOVE) / _polynomial(size, _BELOW)
    return nw.when(x > 0).then(1.0 - tail).otherwise(tail)


def _polynomial(x: nw.Expr, coefficients: Sequence[float]) -> nw.Expr:
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value
