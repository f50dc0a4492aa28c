"""Smiles: the volatilities at chosen points of each expiry.

A point is where a coordinate that rises with the strike takes a value: the log-moneyness 0, or a delta. Between two
listed strikes the volatility is linear in that coordinate; outside of them nothing is known. The service's option
summaries are made of the same points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw

from tidytape.frames.normal import normal_cdf
from tidytape.frames.ordered import interpolated, with_next

Frame = nw.LazyFrame[Any]

CALL, PUT = "CALL", "PUT"


@dataclass(frozen=True)
class Ladder:
    """Options that are each other's neighbours, by a coordinate that rises with the strike.

    Attributes
    ----------
    rung : expression, str
        Which of the ladder's parts an option stands on.
    x : expression, float64
        The coordinate.
    wanted : mapping of str to (str, float)
        Name of a point to the part it lies on, and its value of ``x``.
    """

    rung: nw.Expr
    x: nw.Expr
    wanted: Mapping[str, tuple[str, float]]


def is_above_zero(value: nw.Expr) -> nw.Expr:
    """Return whether a number is finite and above 0."""
    return value.is_finite() & (value > 0)


def above_zero(value: nw.Expr) -> nw.Expr:
    """Return a number where it is finite and above 0, and null elsewhere."""
    return nw.when(is_above_zero(value)).then(value)


def measured(
    quotes: Frame,
    years: nw.Expr,
    *,
    strike: str = "strike",
    forward: str = "forward",
    volatility: str = "implied_volatility",
) -> Frame:
    """Add ``__moneyness`` ln(K/F) [1], ``__deviation`` σ√T [1] and ``__d1`` [1] of each option."""
    # The root of a negative number is an error on some engines, even where an option is not used.
    left = nw.when(years > 0).then(years).otherwise(0.0)
    moneyness, deviation = nw.col("__moneyness"), nw.col("__deviation")
    return quotes.with_columns(
        __moneyness=(nw.col(strike) / nw.col(forward)).log(),
        __deviation=nw.col(volatility) / 100.0 * left.sqrt(),
    ).with_columns(__d1=deviation / 2.0 - moneyness / deviation)


def money_ladder(atm: str, name: str) -> Ladder:
    """Return the ladder of the out-of-the-money options, puts below the forward and calls from it on, with one point.

    Parameters
    ----------
    atm : {"forward", "delta_neutral"}
        Where the money is: at K = F, the coordinate being ln(K/F); or at N(d₁) = 1/2, the coordinate being -N(d₁).
    name : str
        Name of the point.
    """
    call, below = nw.col("option_type") == CALL, nw.col("__moneyness") < 0
    rung = nw.when(call == below).then(nw.lit("in")).otherwise(nw.lit("out"))
    if atm == "forward":
        return Ladder(rung, nw.col("__moneyness"), {name: ("out", 0.0)})
    return Ladder(rung, -normal_cdf(nw.col("__d1")), {name: ("out", -0.5)})


def delta_ladder(kind: str, wanted: Mapping[str, tuple[str, float]]) -> Ladder:
    """Return the ladder of the calls and that of the puts, by delta.

    Parameters
    ----------
    kind : {"forward", "premium_adjusted"}
        Which delta: N(d₁), or (K/F) N(d₂); of a put less 1, or less K/F.
    wanted : mapping of str to (str, float)
        Name of a point to ``CALL`` or ``PUT``, and its signed delta.
    """
    adjusted = kind == "premium_adjusted"
    probability = normal_cdf(nw.col("__d1") - nw.col("__deviation") if adjusted else nw.col("__d1"))
    delta = nw.when(nw.col("option_type") == CALL).then(probability).otherwise(probability - 1.0)
    if adjusted:
        delta = delta * nw.col("strike") / nw.col("forward")
    # Delta falls as the strike rises.
    return Ladder(nw.col("option_type"), -delta, {name: (rung, -at) for name, (rung, at) in wanted.items()})


def points(
    options: Frame,
    ladders: Sequence[Ladder],
    *,
    over: Sequence[str],
    order_by: Sequence[str],
    keep: Sequence[nw.Expr] = (),
) -> Frame:
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
        The volatility of each point by its name, null outside the listed strikes. Where the coordinate takes the value
        more than once, the one closest to the forward. [%]
    """
    smiles, names = options.with_columns(__distance=nw.col("__moneyness").abs()), list[str]()
    for place, ladder in enumerate(ladders):
        rung, x, following = f"__rung_{place}", f"__x_{place}", f"__next_{place}_"
        smiles = smiles.with_columns(ladder.rung.alias(rung), ladder.x.alias(x))
        smiles = with_next(
            smiles, (x, "implied_volatility"), over=(*over, rung), order_by=order_by, prefix=following
        ).with_columns(
            nw.when(nw.col(rung) == part)
            .then(interpolated(nw.lit(at), x, "implied_volatility", prefix=following))
            .alias(name)
            for name, (part, at) in ladder.wanted.items()
        )
        names += ladder.wanted
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
