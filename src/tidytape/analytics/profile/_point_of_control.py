"""Points of control."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._counts import counted_levels
from tidytape.analytics.profile._growth import POC_TIES, counted_rows
from tidytape.analytics.profile._opening import opened


def point_of_control(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    price: str = "price",
    count: str = "volume",
    tie: Literal["center", "lower", "upper"] = "center",
) -> IntoFrameT:
    r"""Point of control: the price row with the largest count.

    .. math:: \mathrm{poc} = \arg\max_i n_i

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added, so buy and sell rows may stand apart.
    by : str or iterable of str, optional
        The columns that tell one profile from another, e.g. ``["raw_symbol", "timestamp"]``; by default the identity
        columns there are, ``timestamp`` and ``period_end``, which stays with ``timestamp`` wherever that is named. Null
        is a value.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. [count]
    tie : {"center", "lower", "upper"}
        Which of several largest rows: the one closest to the middle between the lowest and the highest price,
        then the lower price; or the lowest; or the highest.

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``poc`` : float64, null where the profile has none. [price]
        - ``poc_count`` : float64, the count there. [count]
        - ``poc_tie`` : str, the rule that decided.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    See Also
    --------
    value_area : Grows the value area from here.

    Notes
    -----
    A profile whose counts are all zero has no point of control, nor has one with a price or count that is
    null, not finite, or a count below zero: what is unknown could be the largest. Other profiles are not
    affected.

    Counts equal to twelve digits of the profile's total are equal, and prices equal to twelve digits of its
    highest are one row.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"day": [1] * 4, "price": [10.0, 10.1, 10.2, 10.3], "volume": [1, 7, 7, 2]})
    >>> point_of_control(levels, by="day").row(0)
    (1, 10.1, 7.0, 'center')
    >>> point_of_control(levels, by="day", tie="upper").row(0)
    (1, 10.2, 7.0, 'upper')
    """
    one_of("tie", tie, POC_TIES)
    profiles = opened(
        levels, by, results=("poc", "poc_count", "poc_tie"), numbers={"price": price, "count": count}
    )
    rows = counted_levels(profiles, {"count": count}, price, None)
    return profiles.closed(points(rows, profiles.keys, tie=tie))


def points(levels: nw.LazyFrame[Any], keys: list[str], *, tie: str) -> nw.LazyFrame[Any]:
    """Return one row per profile: its keys, ``poc``, ``poc_count`` and the rule."""
    has_poc = ~nw.col("total").is_null()
    return (
        counted_rows(levels, keys, tie=tie, step=None)
        .filter(nw.col("from_poc") == 0)
        .select(
            *keys,
            poc=nw.when(has_poc).then(nw.col("price")),
            poc_count=nw.when(has_poc).then(nw.col("count")),
            poc_tie=nw.lit(tie),
        )
    )
