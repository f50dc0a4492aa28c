"""Profiles of several sessions as one."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._counts import counted_levels
from tidytape.analytics.profile._grid import row_price, step_of, with_place
from tidytape.analytics.profile._opening import opened
from tidytape.errors import QueryError

__all__ = ["composite"]


def composite(
    levels: IntoFrameT,
    /,
    *,
    row_size: float | Decimal,
    by: str | Iterable[str] | None = None,
    price: str = "price",
    count: str | Iterable[str] = "volume",
) -> IntoFrameT:
    r"""Composite profile: the counts of several sessions, added on a common grid.

    .. math:: n_i = \sum_s n_{si}

    What is read off a composite is computed from it again: the value area of a week is not a merge of those of its
    days. So the result is a profile, for `value_area` and the others.

    Parameters
    ----------
    levels : frame, n rows, one per (by, session, price), any order
        Profiles, of whatever sessions are to be added.
    row_size : float or Decimal, > 0
        Height of a row of the grid: a multiple of the height of the rows given, which are put where their low edge
        lies. [price]
    by : str or iterable of str, optional
        The columns that tell one composite from another; by default the identity columns there are, so that all
        sessions of a series become one. Null is a value.
    price : str
        Column of the rows' prices. [price]
    count : str or iterable of str
        Columns of the rows' counts, e.g. ``"tpo_count"`` or ``["buy_volume", "sell_volume"]``. [count]

    Returns
    -------
    frame, one row per (by, price), sorted so, of the kind of ``levels``
        ``by``, the price, the low edge of its row on the grid, and the counts, float64, under their names. A count is
        null where one of those added is null, not finite or below zero, and the price is null for levels without one.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``row_size`` is no positive number, a column is not numeric, or there is no column to tell series apart.

    Notes
    -----
    TPO counts of different sessions, told apart by ``timestamp``, are counts of different blocks, and add up. Of one
    session on coarser rows they do not, because a block that touched two levels would count twice in the row made of
    them: there ``tpo_count`` is that of the blocks listed in ``block_ids``, and null without a list.

    References
    ----------
    .. [1] J. F. Dalton, R. B. Dalton and E. T. Jones, "Markets in Profile", 2007, chapter 7.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame(
    ...     {"coin": "BTC", "timestamp": [0, 0, 1, 1], "price": [10.0, 10.5, 10.5, 11.0], "volume": [1, 2, 3, 4]}
    ... )
    >>> composite(levels, row_size=0.5).rows()
    [('BTC', 10.0, 1.0), ('BTC', 10.5, 5.0), ('BTC', 11.0, 4.0)]
    >>> composite(levels, row_size=1).rows()
    [('BTC', 10.0, 6.0), ('BTC', 11.0, 4.0)]
    """
    counts = arguments.columns("count", count, taken=[arguments.column("price", price)])
    step = step_of(row_size)
    if step is None:
        raise QueryError("row_size", got=row_size, expected="a finite number above 0")
    # Under these names an argument is meant, whichever of the counts it is.
    profiles = opened(levels, by, results=counts, numbers={"price": price}, session=False)
    for name in counts:
        profiles.require_number("count", name)
    keys = profiles.keys
    working = {f"count_{position}": name for position, name in enumerate(counts)}
    rows = counted_levels(profiles, working, price, step)
    finite = nw.col("price").is_finite().fill_null(value=False)
    rows = rows.with_columns(has_price=finite, price=nw.when(finite).then(nw.col("price")).otherwise(0.0))
    known = {
        f"known_{name}": (nw.col(name).is_finite() & (nw.col(name) >= 0)).fill_null(value=False)
        for name in working
    }
    rows = rows.with_columns(**known)
    placed = with_place(rows, keys, step).group_by(*keys, "has_price", "place")
    added = placed.agg(nw.col(*working).sum(), nw.col(*known).all())
    result = added.select(
        *keys,
        nw.when("has_price").then(row_price(step)).alias(price),
        *(nw.when(f"known_{name}").then(nw.col(name)).alias(caller) for name, caller in working.items()),
    )
    return profiles.closed(result, sort=[price])
