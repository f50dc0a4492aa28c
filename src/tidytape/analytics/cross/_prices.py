"""Prices of several markets of one thing, beside each other."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import MARKET, TIMES, TWICE, markets, twice
from tidytape.errors import NoMatchWarning, QueryError, nearest, shown
from tidytape.frames import exact
from tidytape.frames.door import require
from tidytape.frames.joined import joined
from tidytape.frames.table import Table


def dispersion(
    frame: IntoFrameT, /, *, value: str = "close", by: str | Iterable[str] | None = None
) -> IntoFrameT:
    r"""How far markets are apart at each time, and which of them is the lowest and which the highest.

    .. math:: \mathrm{range} = \max_i x_i - \min_i x_i, \qquad
       \mathrm{deviation} = \sqrt{\frac{1}{n - 1} \sum_i (x_i - \bar x)^2}

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets.
    value : str
        Column of what is compared, a price in terms of one quote or a rate over one interval.
    by : str or iterable of str, optional
        Columns whose values markets must share to be compared; the identity columns that are not of one market, such as
        ``coin``.

    Returns
    -------
    frame, one row per by and timestamp with a finite value, sorted so, of the kind of ``frame``
        ``by``, ``timestamp``, and, all but the first null where a market is there twice,

        - ``venues`` : int64, markets with a finite value.
        - ``lowest``, ``highest``, ``mean``, ``median`` : float64. [as ``value``]
        - ``range`` : float64, highest less lowest. [as ``value``]
        - ``relative_range`` : float64, of the median; null where that is not positive. [1]
        - ``deviation`` : float64, of the sample; null of one market. [as ``value``]
        - ``lowest_exchange``, ``lowest_raw_symbol``, ``highest_exchange``, ``highest_raw_symbol`` : of equals the first
          by name.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``: it has several rows per market then. Or if ``value``
        does not hold numbers.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {"exchange": ["A", "B", "C"], "raw_symbol": "X", "timestamp": [0, 0, 0], "close": [10.0, 12.0, 11.0]}
    ... )
    >>> apart = dispersion(candles)
    >>> apart.select("venues", "mean", "median", "range", "deviation", "lowest_exchange", "highest_exchange").row(0)
    (3, 11.0, 11.0, 2.0, 1.0, 'A', 'B')
    """
    table, rows, series = markets(frame, by, [value], results=_FOUND)
    keys = [*series, "timestamp"]
    rows = twice(rows.filter(~nw.col(value).is_null()), series)
    rows = rows.with_columns(
        __down=-nw.col(value), __one=nw.lit(1), __mean=nw.col(value), __share=1.0 / nw.col(TIMES)
    )
    place = nw.col("__one").cum_sum()
    rows = exact.in_parts(rows, "__mean").with_columns(
        __centre=nw.col(value).mean().over(*keys),
        __lowest=place.over(*keys, order_by=[value, *MARKET]),
        __highest=place.over(*keys, order_by=["__down", *MARKET]),
    )
    rows = rows.with_columns(
        *(
            nw.when(nw.col(f"__{end}") == 1).then(nw.col(name)).alias(f"{end}_{name}")
            for end in _ENDS
            for name in MARKET
        ),
        __squared=(nw.col(value) - nw.col("__centre")) ** 2,
    )
    found = rows.group_by(*keys).agg(
        nw.len().cast(nw.Float64()).alias("__count"),
        nw.col("__share", "__squared").sum(),
        nw.col(TWICE, *_ENDED).max(),
        nw.col(value).min().alias("lowest"),
        nw.col(value).max().alias("highest"),
        nw.col(value).median().alias("median"),
        exact.summed("__mean"),
    )
    count, median = nw.col("__count"), nw.col("median")
    found = found.with_columns(
        venues=(nw.col("__share") + 0.5).floor().cast(nw.Int64()),
        mean=exact.total("__mean") / count,
        range=nw.col("highest") - nw.col("lowest"),
        deviation=nw.when(count > 1)
        .then(nw.col("__squared") / nw.max_horizontal(count - 1, nw.lit(1.0)))
        .sqrt(),
    ).with_columns(relative_range=nw.when(median > 0).then(nw.col("range") / median))
    known = [nw.when(nw.col(TWICE) == 0).then(nw.col(name)).alias(name) for name in _FOUND[1:]]
    told = table.with_words({f"{end}_{name}": name for end in _ENDS for name in MARKET})
    return told.closed(found.select(*keys, "venues", *known), sort=keys)


def premium(
    frame: IntoFrameT,
    /,
    *,
    reference: Literal["median", "mean"] | Mapping[str, str] = "median",
    value: str = "close",
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""How much dearer each market is than a reference.

    .. math:: \pi_i = p_i / p_\mathrm{ref} - 1

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets, prices in terms of one quote.
    reference : {"median", "mean"} or mapping of str to str
        Of all markets, each market itself included; or the one market that these columns pick, e.g.
        ``{"exchange": "BINANCE", "raw_symbol": "BTCUSDT"}``.
    value : str
        Column of the price.
    by : str or iterable of str, optional
        Columns whose values markets must share to be compared; the identity columns that are not of one market, such as
        ``coin``.

    Returns
    -------
    frame, one row per finite price, sorted by (by, timestamp, exchange, raw_symbol), of the kind of ``frame``
        ``by``, ``timestamp``, ``exchange``, ``raw_symbol``, the price under its own name, ``reference`` : float64, null
        where no market, or more than one, is picked, so in every row if there is no such market, and where one that
        the median or mean is of is there twice [as ``value``];
        ``premium`` : float64, null where the reference is not positive [1]; ``reference_rule`` : what the reference is.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``: it has several rows per market then. Or if
        ``reference`` is none of those, or ``value`` does not hold numbers.

    Warns
    -----
    NoMatchWarning
        If no row is of the market that is the reference. Only frames in memory are looked at.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {"exchange": ["A", "B", "C"], "raw_symbol": "X", "timestamp": [0, 0, 0], "close": [10.0, 12.0, 11.0]}
    ... )
    >>> premium(candles, reference={"exchange": "A"})["premium"].round(6).to_list()
    [0.0, 0.2, 0.1]
    """
    added = ["reference", "premium", "reference_rule"]
    arguments.column("value", value, taken=added)
    table, rows, series = markets(frame, by, [value], results=added)
    rows = twice(rows.filter(~nw.col(value).is_null()), series)
    if isinstance(reference, Mapping):
        require(reference, table.names)
        if not reference or not all(isinstance(name, str) for name in reference.values()):
            raise QueryError("reference", got=reference, expected="a name for each of some columns")
        is_picked = nw.all_horizontal(
            *(nw.col(name).cast(nw.String()) == wanted for name, wanted in reference.items()),
            ignore_nulls=False,
        )
        if table.is_eager:
            _warn_unless_picked(table, is_picked, reference)
        rule = ", ".join(f"{name}={wanted}" for name, wanted in reference.items())
        chosen, of_group, is_one = rows.filter(is_picked), nw.col(value).max(), nw.col("__count") == 1
    else:
        arguments.one_of("reference", reference, ("median", "mean"))
        rule, chosen, is_one = reference, rows, nw.col(TWICE) == 0
        of_group = nw.col(value).median() if reference == "median" else nw.col(value).mean()
    keys = [*series, "timestamp"]
    found = chosen.group_by(*keys).agg(
        of_group.alias("reference"), nw.len().alias("__count"), nw.col(TWICE).max()
    )
    found = found.filter(is_one).select(*keys, "reference")
    rows = joined(rows.select(*keys, *MARKET, value), found, on=keys)
    premium = nw.when(nw.col("reference") > 0).then(nw.col(value) / nw.col("reference") - 1.0)
    result = rows.with_columns(premium=premium, reference_rule=nw.lit(rule))
    return table.closed(result, sort=[*keys, *MARKET])


def _warn_unless_picked(table: Table[Any], picked: nw.Expr, reference: Mapping[str, str]) -> None:
    """Warn if a frame has rows, and none is of the market that is the reference."""
    if len(table.rows.head(1).collect()) == 0 or len(table.rows.filter(picked).head(1).collect()) > 0:
        return
    message = f"premium: no row is of the reference {shown(dict(reference))}, so every premium is null"
    for name, wanted in reference.items():
        there = (
            table.rows.select(nw.col(name).cast(nw.String())).unique().collect()[name].drop_nulls().to_list()
        )
        close = None if wanted in there else nearest(wanted, there)
        message += f"; did you mean {close!r}?" if close else ""
    warnings.warn(NoMatchWarning(message, keys=reference), stacklevel=3)


_ENDS = ("lowest", "highest")
_ENDED = tuple(f"{which}_{name}" for which in _ENDS for name in MARKET)
_FOUND = ("venues", *_ENDS, "mean", "median", "range", "relative_range", "deviation", *_ENDED)
