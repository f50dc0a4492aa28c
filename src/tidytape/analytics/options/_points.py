"""Points of smiles: the volatility at the money and at chosen deltas, risk reversal and butterfly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import VolatilityUnit, integer, one_of, volatility_kind
from tidytape.analytics._smile import CALL, PUT, Ladder, delta_ladder, money_ladder, points
from tidytape.analytics.options._chain import Chain, act_365
from tidytape.frames._door import as_list
from tidytape.frames._table import OpenTable
from tidytape.times import DAY

Atm = Literal["forward", "delta_neutral"]
Delta = Literal["forward", "premium_adjusted"]


def wing_points(delta: object) -> tuple[int, str, str]:
    """Return a delta in whole percent, and the columns of the put's and the call's point, e.g. ``iv_25p``, ``iv_25c``.

    Raise QueryError for anything but a whole number from 1 to 49.
    """
    percent = integer("delta", delta, most=49)
    return percent, f"iv_{percent}p", f"iv_{percent}c"


def atm_volatility(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    atm: Atm = "forward",
    volatility_unit: VolatilityUnit | None = None,
) -> IntoFrameT:
    r"""Volatility at the money of each expiry.

    The smile consists of the out-of-the-money options: puts at strikes K below their forward F, calls from K = F on.

    Parameters
    ----------
    chain : frame, n rows, one per (by, timestamp, expiry, strike, option_type), any order
        The lake's ``option_quotes``, or a frame with ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT),
        ``strike`` and ``forward`` [quote per coin], and ``implied_volatility`` [%]. An ``expiry`` that is a date means
        08:00 UTC of that day. An ``expiry`` that is null, or after 2262-04-11, the limit of nanoseconds, has no row in
        the result.
    by : str or iterable of str, optional
        Columns that tell one series of chains from another; by default the identity columns of the frame, such as
        ``exchange`` and ``coin``, except those of single options.
    atm : {"forward", "delta_neutral"}
        What "at the money" means. ``"forward"``: K = F; the volatility is linear in ln(K/F) between the two nearest
        listed strikes. ``"delta_neutral"``: the strike of the straddle without forward delta, :math:`F e^{\sigma^2
        T/2}`, which is N(d₁) = 1/2; the volatility is linear in N(d₁).
    volatility_unit : {"percent", "decimal"}, optional
        The unit of ``implied_volatility``; results are in percent. If you leave it out, it is percent, and a frame in
        memory is refused if all its volatilities lie below 5, because they look like decimals.

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, the median over the quotes that count. If the chain mixes several underlyings, as in
          `forward`, no quote counts. [quote per coin]
        - ``iv_atm`` : float64, null unless listed strikes lie on both sides of the money. [%]
        - ``atm`` : str, the rule.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column named here.
    QueryError
        If ``atm`` is unknown, a column has values of another type, or ``chain`` is not a frame.

    See Also
    --------
    delta_points : The same with points away from the money.

    References
    ----------
    .. [1] Reiswich, D. and Wystup, U., "FX volatility smile construction", CPQF working paper 20, 2010, section 1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["PUT", "CALL"], "strike": [90.0, 110.0], "forward": 100.0,
    ...         "implied_volatility": [60.0, 50.0],
    ...     }
    ... )
    >>> atm_volatility(chain).select("days", "forward", pl.col("iv_atm").round(4), "atm").row(0)
    (30.0, 100.0, 54.7496, 'forward')
    """
    one_of("atm", atm, get_args(Atm))
    return _smiles(chain, by, [money_ladder(atm, "iv_atm")], {"atm": atm}, volatility_unit)


def delta_points(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    deltas: Iterable[int] = (25,),
    delta: Delta = "forward",
    atm: Atm = "forward",
    volatility_unit: VolatilityUnit | None = None,
) -> IntoFrameT:
    r"""Volatility of each expiry at the money and at chosen deltas of puts and calls.

    .. math:: d_{1,2} = \frac{\ln(F/K) \pm \sigma^2 T / 2}{\sigma \sqrt{T}}

    with the volatility, forward and time of each quote. Points of puts are interpolated between puts, points of calls
    between calls: the volatility is linear in delta between the two nearest listed strikes, and null outside the listed
    strikes. Delta falls as the strike rises, except that the premium-adjusted delta of calls first rises; only the
    falling part counts.

    Parameters
    ----------
    chain : frame, n rows, one per (by, timestamp, expiry, strike, option_type), any order
        As for `atm_volatility`.
    by : str or iterable of str, optional
        As for `atm_volatility`.
    deltas : iterable of int
        Sizes of the deltas, 1 to 49. [%]
    delta : {"forward", "premium_adjusted"}
        Of a call :math:`N(d_1)` and of a put :math:`-N(-d_1)`; or, where the premium is paid in coin,
        :math:`\frac{K}{F} N(d_2)` and :math:`-\frac{K}{F} N(-d_2)`.
    atm : {"forward", "delta_neutral"}
        As for `atm_volatility`, whatever ``delta`` is.
    volatility_unit : {"percent", "decimal"}, optional
        As for `atm_volatility`.

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, the median over the quotes that count. If the chain mixes several underlyings, as in
          `forward`, no quote counts. [quote per coin]
        - ``iv_atm`` : float64, null outside the listed strikes. [%]
        - ``iv_25p``, ``iv_25c`` : float64, null outside the listed strikes; the same for every other delta. [%]
        - ``atm``, ``delta`` : str, the rules.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column.
    QueryError
        If an argument is not one of those listed, a column has values of another type, or ``chain`` is not a frame.

    See Also
    --------
    risk_reversal, butterfly : Differences of the points.
    constant_maturity : The points between expiries.

    References
    ----------
    .. [1] Reiswich, D. and Wystup, U., "FX volatility smile construction", CPQF working paper 20, 2010, section 1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 3, 12, 8, tzinfo=UTC),
    ...         "option_type": ["PUT", "PUT", "CALL", "CALL"], "strike": [90.0, 100.0, 100.0, 110.0],
    ...         "forward": 100.0, "implied_volatility": [60.0, 50.0, 50.0, 55.0],
    ...     }
    ... )
    >>> delta_points(chain).select(pl.col("iv_atm", "iv_25p", "iv_25c").round(3)).row(0)
    (50.0, 56.04, 53.287)
    """
    one_of("delta", delta, get_args(Delta))
    one_of("atm", atm, get_args(Atm))
    targets: dict[str, tuple[str, float]] = {}
    for wing in as_list(deltas):
        percent, put, call = wing_points(wing)
        targets |= {put: (PUT, -percent / 100), call: (CALL, percent / 100)}
    ladders = [money_ladder(atm, "iv_atm"), *([delta_ladder(delta, targets)] if targets else [])]
    return _smiles(chain, by, ladders, {"atm": atm, "delta": delta}, volatility_unit)


def risk_reversal(points: IntoFrameT, /, *, delta: int = 25) -> IntoFrameT:
    r"""Risk reversal: volatility of calls minus that of puts.

    .. math:: \mathrm{rr}_{25} = \sigma(\Delta_\mathrm{call} = 0.25) - \sigma(\Delta_\mathrm{put} = -0.25)

    Negative if puts cost more. The service's ``skew`` has the opposite sign.

    Parameters
    ----------
    points : frame, n rows, any key and order
        As `delta_points` or `constant_maturity` return them. Uses ``iv_25p`` and ``iv_25c`` [%], or those of another
        delta.
    delta : int
        Size of the delta, 1 to 49. [%]

    Returns
    -------
    frame, n rows, same key, order and kind as ``points``
        Adds ``rr25_call_minus_put`` : float64, null if a point is null; named after the delta. [vol points]

    Raises
    ------
    MissingColumnError
        If ``points`` has no such points.
    QueryError
        If ``delta`` is out of range, a column is not numeric, or ``points`` is not a frame.

    References
    ----------
    .. [1] Reiswich, D. and Wystup, U., "FX volatility smile construction", CPQF working paper 20, 2010.

    Examples
    --------
    >>> import polars as pl
    >>> risk_reversal(pl.DataFrame({"iv_25p": [58.0], "iv_25c": [54.0]}))["rr25_call_minus_put"].item()
    -4.0
    """
    percent, put, call = wing_points(delta)
    table = OpenTable.of(points, numbers=[call, put], parameter="points")
    reversal = (nw.col(call) - nw.col(put)).alias(f"rr{percent}_call_minus_put")
    return table.closed(table.rows.with_columns(reversal), like_rows=True)


def butterfly(points: IntoFrameT, /, *, delta: int = 25) -> IntoFrameT:
    r"""Butterfly: volatility of the wings minus that at the money (the smile fly).

    .. math::

        \mathrm{bf}_{25} = \frac{\sigma(\Delta_\mathrm{call} = 0.25) + \sigma(\Delta_\mathrm{put} = -0.25)}{2}
        - \sigma_\mathrm{ATM}

    Positive if the wings cost more.

    Parameters
    ----------
    points : frame, n rows, any key and order
        As `delta_points` or `constant_maturity` return them. Uses ``iv_atm``, and ``iv_25p`` and ``iv_25c`` [%] or
        those of another delta.
    delta : int
        Size of the delta, 1 to 49. [%]

    Returns
    -------
    frame, n rows, same key, order and kind as ``points``
        Adds ``bf25`` : float64, null if a point is null; named after the delta. [vol points]

    Raises
    ------
    MissingColumnError
        If ``points`` has no such points.
    QueryError
        If ``delta`` is out of range, a column is not numeric, or ``points`` is not a frame.

    References
    ----------
    .. [1] Reiswich, D. and Wystup, U., "FX volatility smile construction", CPQF working paper 20, 2010: the smile
       fly.

    Examples
    --------
    >>> import polars as pl
    >>> butterfly(pl.DataFrame({"iv_atm": [54.0], "iv_25p": [58.0], "iv_25c": [54.0]}))["bf25"].item()
    2.0
    """
    percent, put, call = wing_points(delta)
    table = OpenTable.of(points, numbers=["iv_atm", call, put], parameter="points")
    fly = (nw.col(call) + nw.col(put)) * 0.5 - nw.col("iv_atm")
    return table.closed(table.rows.with_columns(fly.alias(f"bf{percent}")), like_rows=True)


def _smiles(
    native: IntoFrameT,
    by: str | Iterable[str] | None,
    ladders: list[Ladder],
    rules: Mapping[str, str],
    unit: VolatilityUnit | None,
) -> IntoFrameT:
    """Return the points of each smile as a frame of the caller's kind, with ``rules`` as columns."""
    names = [name for ladder in ladders for name in ladder.targets]
    chain = Chain.opened(
        native, by, kinds={"implied_volatility": volatility_kind(unit)}, results=("days", *names, *rules)
    )
    smiles = points(
        chain.measured(),
        ladders,
        over=chain.smile,
        # Quotes of one strike need an order too, so that the result does not depend on the order of rows.
        order_by=("strike", "option_type", "implied_volatility"),
        keep=[nw.col("__life").min(), nw.col("forward").median()],
    )
    result = smiles.select(
        *chain.smile,
        act_365(nw.col("__life"), DAY).alias("days"),
        "forward",
        *names,
        **{name: nw.lit(rule) for name, rule in rules.items()},
    )
    return chain.table.closed(result, sort=chain.smile, main=[*names[1:3], *names[:1]])
