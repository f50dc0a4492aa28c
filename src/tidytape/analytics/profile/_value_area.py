"""Value areas and points of control."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._growth import AREA, POC_TIES, Rules, areas
from tidytape.analytics.profile._levels import counted_levels, counted_rows
from tidytape.analytics.profile._opening import opened


def value_area(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    price: str = "price",
    count: str = "volume",
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    poc_tie: Literal["center", "lower", "upper"] = "center",
    row_size: float | Decimal | None = None,
) -> IntoFrameT:
    r"""Value area: the rows around the point of control that hold a share of the count.

    The area starts as the point of control alone. While it holds too little, the next candidate above is
    compared with the next below and the larger joins. With rows :math:`1, 2, \dots` outward from the point of
    control on one side, candidate :math:`k` and the bound that ranks it are

    .. math:: c_k = n_{wk - w + 1} + \dots + n_{wk}, \qquad m_k = \min(c_1, \dots, c_k),

    with :math:`w = 2` for ``two_row`` and 1 for ``one_row``. Candidates of both sides are taken by falling
    :math:`m_k`, nearer ones of a side first, while what is enclosed is short of ``share`` of the total.

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
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. On rows coarser than the levels ``tpo_count`` is
        that of the blocks listed in ``block_ids``; without a list it is unknown, since blocks do not add up. [count]
    share : float, 0 < share <= 1
        The share of the total to enclose. [1]
    rule : {"two_row", "one_row"}
        A candidate is the next two rows of a side, both of which join, and at the edge the one that is left
        (the CBOT rule); or it is the next row.
    tie : {"up", "down"}
        The side that is taken when both candidates are equal.
    stop : {"reach", "exceed"}
        Grow until the share is reached, or until it is exceeded.
    poc_tie : {"center", "lower", "upper"}
        ``tie`` of `point_of_control`.
    row_size : float or Decimal, > 0, optional
        The step of the prices. With it a price without a row, between the lowest and the highest, is a row of
        count zero, and prices are published exactly on the grid, so 3 steps of 0.1 are 0.3; a price between
        two of the grid belongs to the lower. Without it rows are neighbours as given, whatever lies between. It is
        never to be finer than the levels, see the notes. [price]

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``poc`` : float64, the point of control, null where the profile has none. [price]
        - ``val`` : float64, the area's lowest row. [price]
        - ``vah`` : float64, the area's highest row. [price]
        - ``value_area_share`` : float64, the share enclosed. [1]
        - ``share``, ``rule``, ``tie``, ``stop``, ``poc_tie`` : the arguments, for these rules often disagree.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    See Also
    --------
    point_of_control : The row this grows from.

    Notes
    -----
    .. warning:: A ``row_size`` below the height of the levels gives another area. Of levels of 50 on rows of 10 every
       fifth row has a level, and the four between them count zero: two rows at a time are soon two of nothing, and the
       area grows to one side alone. Where ``levels`` has ``block_size``, a ``row_size`` that is no whole multiple of it
       is a QueryError, and on a lazy frame the area is null. Where it has none, or null, nothing is checked.

    A profile whose counts are all zero has no value area, nor has one with a price or count that is null, not
    finite, or a count below zero: what is unknown could turn the growth. Other profiles are not affected.

    Counts equal to twelve digits of the profile's total are equal, prices equal to twelve digits of its
    highest are one row, and a share is met within 1e-12, to which ``value_area_share`` is rounded. So every
    engine answers the same, and 0.1 + 0.7 of 1 reaches 0.8 although it is 0.7999999999999999 in floats.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, appendix 1: the rule of the
       Chicago Board of Trade (CBOT), two rows at a time.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"day": [1] * 5, "price": [10, 11, 12, 13, 14], "volume": [1, 4, 10, 4, 1]})
    >>> value_area(levels, by="day").row(0)[:5]
    (1, 12.0, 12.0, 14.0, 0.75)
    >>> value_area(levels, by="day", rule="one_row", tie="down").row(0)[:5]
    (1, 12.0, 11.0, 12.0, 0.7)
    """
    rules = Rules(share, rule, tie, stop, poc_tie)
    results, numbers = (*AREA, *rules.columns()), {"price": price, "count": count}
    profiles = opened(levels, by, results=results, numbers=numbers, row_size=row_size)
    counted = counted_levels(profiles, {"count": count})
    return profiles.closed(
        areas(counted, profiles.keys, rules, profiles.step, in_memory=profiles.table.is_eager)
    )


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
    results, numbers = ("poc", "poc_count", "poc_tie"), {"price": price, "count": count}
    profiles = opened(levels, by, results=results, numbers=numbers)
    rows = counted_rows(counted_levels(profiles, {"count": count}), profiles.keys, None, tie=tie)
    has_poc = ~nw.col("total").is_null()
    result = rows.filter(nw.col("from_poc") == 0).select(
        *profiles.keys,
        poc=nw.when(has_poc).then(nw.col("price")),
        poc_count=nw.when(has_poc).then(nw.col("count")),
        poc_tie=nw.lit(tie),
    )
    return profiles.closed(result)
