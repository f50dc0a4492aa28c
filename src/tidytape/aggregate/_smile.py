"""Option quotes to chains, and chains to the volatilities of chosen points of each expiry's smile.

A point is where a coordinate that rises with the strike takes a value: the log-moneyness 0, or a delta. Between two
listed strikes the volatility is linear in that coordinate; outside of them nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.frames.buckets import SECOND, bucket_start, interval_of
from tidytape.frames.doors import BUCKET, opened

__all__ = [
    "CALL",
    "CHAIN",
    "DAY",
    "EXPIRY",
    "PUT",
    "Frame",
    "chain",
    "interpolated",
    "lazy",
    "normal_cdf",
    "points",
    "with_next",
]

Frame = nw.LazyFrame[Any]

CALL, PUT = "CALL", "PUT"

CHAIN: Final = ("exchange", "coin", BUCKET)
"""What names one chain."""

EXPIRY: Final = (*CHAIN, "expiry")
"""What names one expiry of a chain, and so one smile."""

_MEASURED = ("strike", "implied_volatility", "forward")
_NEEDED = ("exchange", "raw_symbol", "timestamp", "coin", "option_type", "expiry", *_MEASURED)

DAY: Final = 86_400 * SECOND
"""One day. [ns]"""

_YEAR: Final = 365 * DAY

# Hart's algorithm 5666, from the highest power down.
_ABOVE: Final = (
    0.0352624965998911, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931,
    220.206867912376,
)  # fmt: skip
_BELOW: Final = (
    0.0883883476483184, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831,
    793.826512519948, 440.413735824752,
)  # fmt: skip


def normal_cdf(x: nw.Expr) -> nw.Expr:
    r"""Cumulative distribution of the standard normal.

    .. math:: N(-x) = e^{-x^2/2} P(x) / Q(x), \quad x \ge 0

    with Hart's polynomials P of degree 6 and Q of degree 7. Made of nothing but arithmetic and ``exp``, so that every
    engine has it. The absolute error is below 1e-15.

    Parameters
    ----------
    x : expression, float64
        Below 1e40 in size. [1]

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
    tail = (size * size * -0.5).exp() * _polynomial(size, _ABOVE) / _polynomial(size, _BELOW)
    return nw.when(x > 0).then(1.0 - tail).otherwise(tail)


def _polynomial(x: nw.Expr, coefficients: Sequence[float]) -> nw.Expr:
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


def lazy(quotes: Any) -> Frame:
    """Return the lake's ``option_quotes`` as a lazy Narwhals frame; MissingColumnError if a needed column is absent."""
    frame = opened(quotes, _NEEDED)
    if isinstance(frame, nw.LazyFrame):
        return frame
    # So that an optimiser is used where there is one. pyarrow has no windows: polars computes.
    return frame.lazy("polars" if frame.implementation.is_pyarrow() else None)


def chain(quotes: Frame, interval: str) -> Frame:
    """Return the chain of each bucket: the last quote of every option that is still alive at the last of them.

    A quote without a positive strike, volatility and forward is none.

    Parameters
    ----------
    quotes : frame, n rows
        As `lazy` returns it.
    interval : str
        Name or alias of an interval.

    Returns
    -------
    frame, one row per option and bucket
        The needed columns, the bucket, ``life``, float64, from the chain's last quote to the expiry [ns], and of the
        quote itself ``moneyness`` ln(K/F) [1], ``deviation`` σ√T [1] and ``d1`` [1].
    """
    bucket = bucket_start(nw.col("timestamp"), interval_of(interval))
    time, expiry = nw.col("timestamp"), nw.col("expiry")
    known = [nw.col(name).is_finite() & (nw.col(name) > 0) for name in _MEASURED]
    years = (expiry - time).cast(nw.Float64()) / float(_YEAR)
    return (
        quotes.select(*_NEEDED, bucket.alias(BUCKET))
        .filter(*known)
        .with_columns(time.max().over("exchange", "raw_symbol", BUCKET).alias("last"))
        .filter(time == nw.col("last"))
        .with_columns(time.max().over(*CHAIN).alias("last"))
        .filter(expiry > nw.col("last"))
        .with_columns(
            (expiry - nw.col("last")).cast(nw.Float64()).alias("life"),
            (nw.col("strike") / nw.col("forward")).log().alias("moneyness"),
            (nw.col("implied_volatility") / 100.0 * years.sqrt()).alias("deviation"),
        )
        .with_columns((nw.col("deviation") / 2.0 - nw.col("moneyness") / nw.col("deviation")).alias("d1"))
    )


def points(options: Frame, wanted: Mapping[str, tuple[str, float]], x: nw.Expr, ladder: nw.Expr) -> Frame:
    """Return the volatilities of some points of each smile.

    Parameters
    ----------
    options : frame
        As `chain` returns it.
    wanted : mapping of str to (str, float)
        Name of a point to the ladder it lies on, and its value of ``x``.
    x : expression, float64
        Coordinate that rises with the strike.
    ladder : expression, str
        Which options are each other's neighbours.

    Returns
    -------
    frame, one row per chain and expiry
        ``life`` [ns], and the volatility of each point by its name, null outside the listed strikes. Where the
        coordinate takes the value more than once, the one closest to the forward. [%]
    """
    neighbours = with_next(
        options.with_columns(
            x.alias("x"), ladder.alias("ladder"), nw.col("moneyness").abs().alias("distance")
        ),
        ("x", "implied_volatility"),
        over=(*EXPIRY, "ladder"),
        order_by=("strike", "raw_symbol"),
    )
    found = neighbours.with_columns(
        nw.when(nw.col("ladder") == rung)
        .then(interpolated(nw.lit(at), "x", "implied_volatility"))
        .alias(name)
        for name, (rung, at) in wanted.items()
    )
    distances = found.with_columns(
        nw.when(~nw.col(name).is_null()).then(nw.col("distance")).alias(f"{name}_distance") for name in wanted
    )
    closest = distances.with_columns(nw.col(f"{name}_distance").min().over(*EXPIRY) for name in wanted)
    return closest.group_by(*EXPIRY).agg(
        nw.col("life").min(),
        *(
            nw.when(nw.col("distance") == nw.col(f"{name}_distance")).then(nw.col(name)).max().alias(name)
            for name in wanted
        ),
    )


def with_next(frame: Frame, names: Iterable[str], *, over: Sequence[str], order_by: Sequence[str]) -> Frame:
    """Add to each row the values of the next one, as ``<name>_next``; null in the last row."""
    return frame.with_columns(
        nw.col(name).shift(-1).over(*over, order_by=order_by).alias(f"{name}_next") for name in names
    )


def interpolated(at: nw.Expr, x: str, y: str) -> nw.Expr:
    """Column ``y`` where column ``x`` is ``at``, linear between a row and its next one; null elsewhere.

    A row whose ``x`` is ``at`` needs no next one, so of several rows at most one has the value, if ``x`` rises.
    """
    here, there = nw.col(x), nw.col(f"{x}_next")
    line = nw.col(y) + (nw.col(f"{y}_next") - nw.col(y)) * (at - here) / (there - here)
    return nw.when(here == at).then(nw.col(y)).otherwise(nw.when((here < at) & (at < there)).then(line))
