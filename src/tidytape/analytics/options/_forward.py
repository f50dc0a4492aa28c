"""The forward price of each expiry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import column, one_of
from tidytape.analytics._smile import CALL, PUT, Frame
from tidytape.analytics.options._chain import Chain, days_of, kind_of

PREMIUMS = ("coin", "quote")
Premium = Literal["coin", "quote"]
"""What the premium of an option is paid in."""


def forward(
    chain: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    method: Literal["quoted", "parity"] = "quoted",
    price: str = "mark_price",
    premium: Premium = "coin",
) -> IntoFrameT:
    r"""Forward price of each expiry, as quoted or by put-call parity.

    ``"quoted"`` is the median of the quotes' own forwards, which differ where a snapshot takes a while. ``"parity"``
    takes the strike K at which call and put differ least (of several the lowest), and

    .. math:: F = \frac{K}{1 - (c - p)} \quad \text{or} \quad F = K + (C - P)

    with premiums c, p in coin or C, P in the quote, neither discounted.

    Parameters
    ----------
    chain : frame, n rows, one per (by, timestamp, expiry, strike, option_type), any order
        The lake's ``option_quotes``, or a frame with ``timestamp``, ``expiry``, ``option_type`` (CALL or PUT) and
        ``strike`` [quote per coin]; and with ``forward`` [quote per coin] or prices. An ``expiry`` that is a date is
        08:00 UTC of it; one that is null, or after 2262-04-11, which nanoseconds do not reach, has no row.
    by : str or iterable of str, optional
        Columns that tell one series of chains from another; otherwise ``exchange`` and ``coin``, and what other
        identity columns there are but those of single options.
    method : {"quoted", "parity"}
        Which of the two.
    price : str
        Column of prices, for parity. [coin or quote, as ``premium`` says]
    premium : {"coin", "quote"}
        What prices are in.

    Returns
    -------
    frame, one row per (by, timestamp, expiry), sorted by these, of the kind of ``chain``
        - ``days`` : float64, to the expiry, ACT/365. [d]
        - ``forward`` : float64, null where there is no quote, or no strike with both prices, or where the
          chain is of several underlyings, whose ``coin`` it lacks: where one option has several, or ``forward`` or
          ``underlying_price``, which parity does not need, are more than 5 % apart. Where it has none of these
          columns, ``lowest`` and ``highest`` tell. [quote per coin]
        - ``lowest``, ``highest`` : float64, of all quotes' forwards, or of all strikes'. [quote per coin]
        - ``quotes`` : int64, of how many quotes or strikes.
        - ``method`` : str, the rule.

    Raises
    ------
    MissingColumnError
        If ``chain`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column holds something else, or ``chain`` is no frame.

    References
    ----------
    .. [1] Cboe, "Volatility Index Methodology: Cboe Volatility Index", 2023, section on the forward level: the strike
       at which call and put differ least.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> chain = pl.DataFrame(
    ...     {
    ...         "timestamp": datetime(2026, 3, 5, 8, tzinfo=UTC), "expiry": datetime(2026, 4, 4, 8, tzinfo=UTC),
    ...         "option_type": ["CALL", "PUT"], "strike": 80_000.0, "mark_price": [0.05, 0.25],
    ...     }
    ... )
    >>> round(forward(chain, method="parity")["forward"].item(), 4)
    66666.6667
    """
    one_of("method", method, ("quoted", "parity"))
    one_of("premium", premium, PREMIUMS)
    price = column("price", price)
    opened = Chain.opened(
        chain, by, numbers=["forward" if method == "quoted" else price], results=("days", *_RESULT)
    )
    smile = opened.smile
    quotes = opened.rows.filter(~nw.col("timestamp").is_null(), ~nw.col("expiry").is_null())
    if method == "quoted":
        said = nw.col("forward")
        level = nw.when(said.is_finite() & (said > 0)).then(said)
        quotes = opened.with_mixed(quotes.with_columns(option_type=kind_of(), __level=level), "__level")
        found = quotes.with_columns(__chosen=nw.when(~nw.col("__mixed")).then(nw.col("__level")))
        chosen = nw.col("__chosen").median()
    else:
        found, chosen = _by_parity(opened, quotes, price=price, premium=premium), nw.col("__chosen").max()
    levels = nw.col("__level")
    result = (
        found.group_by(*smile)
        .agg(
            nw.col("__life").min(),
            chosen,
            levels.min().alias("lowest"),
            levels.max().alias("highest"),
            levels.count().alias("quotes"),
        )
        .select(
            *smile,
            days_of(nw.col("__life")).alias("days"),
            nw.col("__chosen").alias("forward"),
            "lowest",
            "highest",
            nw.col("quotes").cast(nw.Int64),
            method=nw.lit(method),
        )
    )
    return opened.closed(result, sort=smile)


_RESULT = ("forward", "lowest", "highest", "quotes", "method")


def _by_parity(chain: Chain[Any], quotes: Frame, *, price: str, premium: str) -> Frame:
    """Return one row per smile and strike with its ``__level``, which is ``__chosen`` at the strike that is taken."""
    smile, strike, paid = chain.smile, nw.col("strike"), nw.col(price)
    quotes = quotes.with_columns(
        strike=nw.when(strike.is_finite() & (strike > 0)).then(strike),
        option_type=kind_of(),
        __paid=nw.when(paid.is_finite() & (paid >= 0)).then(paid),
    )
    paid = nw.col("__paid")
    sides = chain.with_mixed(quotes, "__paid").with_columns(
        __mixed=nw.col("__mixed").cast(nw.Float64),
        __call=nw.when(nw.col("option_type") == CALL).then(paid),
        __put=nw.when(nw.col("option_type") == PUT).then(paid),
    )
    strikes = (
        sides.group_by(*smile, "strike")
        .agg(nw.col("__life").min(), nw.col("__call", "__put", "__mixed").max())
        .with_columns(__apart=nw.col("__call") - nw.col("__put"))
    )
    if premium == "coin":
        level = nw.when(nw.col("__apart") < 1).then(strike / (1.0 - nw.col("__apart")))
    else:
        level = nw.when(strike + nw.col("__apart") > 0).then(strike + nw.col("__apart"))
    levels = strikes.with_columns(__level=level)
    levels = levels.with_columns(__apart=nw.when(~nw.col("__level").is_null()).then(nw.col("__apart").abs()))
    levels = levels.with_columns(__least=nw.col("__apart").min().over(*smile))
    levels = levels.with_columns(__nearest=nw.when(nw.col("__apart") == nw.col("__least")).then(strike))
    levels = levels.with_columns(__nearest=nw.col("__nearest").min().over(*smile))
    return levels.with_columns(
        __chosen=nw.when(strike == nw.col("__nearest"), nw.col("__mixed") == 0).then(nw.col("__level"))
    )
