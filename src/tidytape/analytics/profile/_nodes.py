"""High and low volume nodes: where a profile bulges, and where it is thin."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._counts import counted_levels
from tidytape.analytics.profile._grid import quotient, step_of
from tidytape.analytics.profile._growth import counted_rows
from tidytape.analytics.profile._opening import opened

_RESULTS: Final = ("kind", "low", "high", "rows", "count", "poc_share", "within")


def nodes(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    within: int = 2,
    price: str = "price",
    count: str = "volume",
    row_size: float | Decimal | None = None,
) -> IntoFrameT:
    r"""High and low volume nodes (HVN, LVN): local maxima and minima of a profile.

    Neighbouring rows of one count are one plateau. A plateau :math:`a, \dots, b` is a high node if no row within
    :math:`k` rows of it counts more, and a low node if none counts less and there are rows on both sides:

    .. math:: n_a \ge \max(n_{a-k}, \dots, n_{b+k}), \qquad n_a \le \min(n_{a-k}, \dots, n_{b+k}).

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added, so buy and sell rows may stand apart.
    by : str or iterable of str, optional
        The columns that tell one profile from another; by default the identity columns there are, ``timestamp``
        and ``period_end``. Null is a value.
    within : int, >= 1
        k. Noise makes nodes: the finer the rows, the larger it should be. [row]
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. On rows coarser than the levels ``tpo_count`` is
        that of the blocks listed in ``block_ids``; without a list it is unknown, since blocks do not add up. [count]
    row_size : float or Decimal, > 0, optional
        The step of the prices. With it a price without a row, between the lowest and the highest, is a row of
        count zero, and prices are published exactly on the grid. Without it rows are neighbours as given. [price]

    Returns
    -------
    frame, one row per node, sorted by (by, low), of the kind of ``levels``
        ``by``, and

        - ``kind`` : str, ``"hvn"`` or ``"lvn"``.
        - ``low``, ``high`` : float64, the lowest and the highest row of the plateau. [price]
        - ``rows`` : int64, how many rows it has; of prices without a row too. [row]
        - ``count`` : float64, of each of its rows. [count]
        - ``poc_share`` : float64, the same as a share of the profile's largest. [1]
        - ``within`` : int64, the argument.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    Notes
    -----
    A profile whose rows all count the same has no node, nor has one with a price or count that is null, not finite, or
    a count below zero. Counts equal to twelve digits of the profile's total are equal.

    References
    ----------
    .. [1] J. F. Dalton, R. B. Dalton and E. T. Jones, "Markets in Profile", 2007, chapter 7.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"timestamp": 0, "price": range(7), "volume": [1, 8, 8, 2, 1, 4, 3]})
    >>> nodes(levels, within=1).select("kind", "low", "high", "count").rows()
    [('hvn', 1.0, 2.0, 8.0), ('lvn', 4.0, 4.0, 1.0), ('hvn', 5.0, 5.0, 4.0)]
    """
    within = arguments.whole("within", within)
    step = step_of(row_size)
    profiles = opened(levels, by, results=_RESULTS, numbers={"price": price, "count": count}, step=step)
    given = counted_levels(profiles, {"count": count}, price, step)
    rows = counted_rows(given, profiles.keys, tie="center", step=step)
    found = found_nodes(rows, profiles.keys, step, within=within)
    result = found.select(
        *profiles.keys,
        "low",
        "high",
        kind=nw.when("is_high").then(nw.lit("hvn")).otherwise(nw.lit("lvn")),
        rows=(nw.col("end") - nw.col("start") + 1).cast(nw.Int64),
        count=nw.col("count"),
        poc_share=nw.col("count") / nw.col("poc_count"),
        within=nw.lit(within, nw.Int64),
    )
    return profiles.closed(result.select(*profiles.keys, *_RESULTS), sort=["low"])


def found_nodes(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, within: int
) -> nw.LazyFrame[Any]:
    """Return one row per node of `counted_rows`: its keys, ``start`` and ``end``, prices, counts, and ``is_high``."""
    plateaus = _plateaus(rows, keys, step)
    start, end, weight = nw.col("start"), nw.col("end"), nw.col("weight")
    columns = ("start", "end", "weight")
    plateaus = plateaus.with_columns(at=start)
    # A plateau has a row or more: those within k rows are among the k next ones.
    neighbours = plateaus.with_columns(
        nw.col(name).shift(way * number).over(keys, order_by="at").alias(f"{name}_{way}_{number}")
        for name in columns
        for way in (1, -1)
        for number in range(1, within + 1)
    )
    seen = []
    for number in range(1, within + 1):
        below, above = (
            nw.col(f"end_1_{number}") >= start - within,
            nw.col(f"start_-1_{number}") <= end + within,
        )
        seen.append(nw.when(below).then(nw.col(f"weight_1_{number}")))
        seen.append(nw.when(above).then(nw.col(f"weight_-1_{number}")))
    neighbours = neighbours.with_columns(most=nw.max_horizontal(*seen), least=nw.min_horizontal(*seen))
    inside = ~(nw.col("weight_1_1").is_null() | nw.col("weight_-1_1").is_null())
    return neighbours.with_columns(
        is_high=(weight >= nw.col("most")).fill_null(value=False),
        is_low=(inside & (weight <= nw.col("least"))).fill_null(value=False),
    ).filter(nw.col("is_high") | nw.col("is_low"))


def _plateaus(rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None) -> nw.LazyFrame[Any]:
    """Return one row per plateau: its keys, first and last row and their prices, and what each of its rows counts."""
    rows = rows.filter(~nw.col("total").is_null()).with_columns(
        poc_count=nw.col("count").max().over(keys), start=nw.col("index"), end=nw.col("index")
    )
    names = (*keys, "start", "end", "low", "high", "count", "weight", "poc_count")
    if step is None:
        rows = rows.with_columns(low=nw.col("price"), high=nw.col("price"))
    else:
        low, high = (
            quotient(nw.col(end) * float(step.numerator), step.denominator) for end in ("start", "end")
        )
        # What has no level between two that have is a plateau of zero.
        rows = rows.with_columns(following=nw.col("start").shift(-1).over(keys, order_by="place"))
        gaps = rows.filter(nw.col("following") > nw.col("start") + 1).with_columns(
            start=nw.col("start") + 1,
            end=nw.col("following") - 1,
            count=nw.lit(0.0),
            weight=nw.lit(0.0),
        )
        rows = nw.concat([part.with_columns(low=low, high=high).select(*names) for part in (rows, gaps)])
    rows = rows.select(*names).with_columns(at=nw.col("start"))
    rows = rows.with_columns(before=nw.col("weight").shift(1).over(keys, order_by="at"))
    changed = (nw.col("before") != nw.col("weight")) | nw.col("before").is_null()
    rows = rows.with_columns(changed=changed.cast(nw.Float64))
    return (
        rows.with_columns(plateau=nw.col("changed").cum_sum().over(keys, order_by="at"))
        .group_by(*keys, "plateau")
        .agg(nw.col("start", "low").min(), nw.col("end", "high", "count", "weight", "poc_count").max())
    )
