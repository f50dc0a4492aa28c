"""Profiles of several sessions as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._intervals import SESSION_END, knows_length
from tidytape.analytics.profile._counts import counted_levels
from tidytape.analytics.profile._grid import row_price, step_of, with_place
from tidytape.analytics.profile._opening import SESSION, Profiles, is_of_blocks, opened, working_names
from tidytape.errors import QueryError
from tidytape.frames.buckets import length_of
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, of_one

_SESSIONS: Final = "sessions"
_START: Final = "__start"


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
    days. So the result is a profile, for `value_area` and the others: of one session, which starts with the first of
    those added and ends with the last.

    Parameters
    ----------
    levels : frame, n rows, one per (by, session, price), any order
        Profiles, of whatever sessions are to be added. They start at ``timestamp``, if there is one, int64 nanoseconds
        or times with a zone, and end at ``period_end``, or else, but for sessions of blocks, after their ``interval``.
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
        ``by``, and

        - ``block_size`` : float64, the ``row_size``, null where that of a level is not known; and ``amount_unit`` of
          amounts. Each where ``levels`` has it.
        - ``timestamp`` : as in ``levels``, the start of the first session; not there without one.
        - ``period_end`` : as ``timestamp``, the end of the last session; null if one of them has none, and not there
          where nothing says when sessions end.
        - ``sessions`` : int64, how many there are, by their starts; those of a composite are as many as it says. Not
          there without ``timestamp``.
        - the price : float64, the low edge of its row on the grid; null for levels without one.
        - the counts : float64, under their names; null where one of those added is null, not finite or below zero.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``row_size`` is no positive number, a column is not numeric, ``timestamp`` or ``period_end`` no time, or
        there is no column to tell series apart. Or if an eager frame has a ``block_size`` of which ``row_size`` is no
        whole multiple, several in one session, or several ``amount_unit`` in one series; of a lazy frame the counts or
        prices are null there.

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
    [('BTC', 0, 2, 10.0, 1.0), ('BTC', 0, 2, 10.5, 5.0), ('BTC', 0, 2, 11.0, 4.0)]
    >>> composite(levels, row_size=1).rows()
    [('BTC', 0, 2, 10.0, 6.0), ('BTC', 0, 2, 11.0, 4.0)]
    """
    spans = [SESSION, SESSION_END, _SESSIONS]
    counts = arguments.columns("count", count, taken=[arguments.column("price", price, taken=spans), *spans])
    step = step_of(row_size)
    if step is None:
        raise QueryError("row_size", got=row_size, expected="a finite number above 0")
    # Under these names an argument is meant, whichever of the counts it is.
    results, numbers = [*counts, _SESSIONS], {"price": price}
    profiles = opened(levels, by, results=results, numbers=numbers, session=False, step=step)
    is_timed = SESSION in profiles.table.names
    if is_timed:
        profiles = opened(
            levels, by, results=results, numbers=numbers, times=[SESSION], session=False, step=step
        )
    for name in counts:
        profiles.require_number("count", name)
    profiles = _described(profiles, counts, step)
    if is_timed:
        profiles = _of_spans(profiles)
    keys = profiles.keys
    working = {f"count_{position}": name for position, name in enumerate(counts)}
    rows = counted_levels(profiles, working, price, step, session=_START)
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
    has_clock = SESSION_END in profiles.table.clocks or SESSION_END not in profiles.names.values()
    return profiles.closed(result, sort=[price], times={} if has_clock else {SESSION_END: SESSION})


def _described(profiles: Profiles[IntoFrameT], counts: Iterable[str], step: Fraction) -> Profiles[IntoFrameT]:
    """Return profiles that keep what their counts count, and whose ``block_size`` is that of the composite's rows.

    Both are the same in all rows of a composite, so they tell nothing apart, and stay.
    """
    series = list(profiles.names.values())
    amounts = [name for name in counts if not is_of_blocks(name)]
    table = (
        of_one(profiles.table, AMOUNT_UNIT, series, amounts, parameter="levels")
        if amounts
        else profiles.table
    )
    added = [name for name in (BLOCK_SIZE, AMOUNT_UNIT) if name in table.names and name not in series]
    if not amounts:
        added = [name for name in added if name != AMOUNT_UNIT]
    if BLOCK_SIZE in added:
        rows = table.rows.with_columns(__sized=~nw.col(BLOCK_SIZE).is_null(), __all=nw.lit(0))
        is_known = nw.col("__sized").all().over(*series, "__all")
        size = nw.when(is_known).then(nw.lit(float(step))).alias(BLOCK_SIZE)
        table = replace(table, rows=rows.with_columns(size).drop("__sized", "__all"))
    return replace(profiles, table=table, names=working_names([*series, *added]))


def _of_spans(profiles: Profiles[IntoFrameT]) -> Profiles[IntoFrameT]:
    """Return profiles that are told apart by the first start, the last end and the number of their sessions, too.

    These are the same in all rows of a composite, so they tell nothing apart, and stay. What was the session's start
    goes by another name.
    """
    table, series = profiles.table, list(profiles.names.values())
    start, end = nw.col(SESSION), nw.col(SESSION_END)
    rows = table.rows.with_columns(start.alias(_START), __one=nw.lit(1.0))
    added = [SESSION, _SESSIONS]
    if SESSION_END in table.names:
        rows = rows.with_columns(__ends=~end.is_null()).with_columns(end.fill_null(0))
        added.insert(1, SESSION_END)
    elif "interval" in table.names and knows_length(table.names):
        length = length_of(nw.col("interval"))
        rows = rows.with_columns(
            (start.fill_null(0) + length).alias(SESSION_END), __ends=~start.is_null() & (length > 0)
        )
        added.insert(1, SESSION_END)
    if SESSION_END in added:
        rows = rows.with_columns(end.max().over(*series), nw.col("__ends").all().over(*series))
        rows = rows.with_columns(nw.when("__ends").then(end).alias(SESSION_END))
    # Each level has its part of its session, so that they add up.
    whole = nw.col(_SESSIONS).max() if _SESSIONS in table.names else nw.col("__one").max()
    each = [*dict.fromkeys([*series, _START])]
    rows = rows.with_columns(__one=whole.over(*each) / nw.col("__one").sum().over(*each))
    rows = rows.with_columns(
        start.min().over(*series),
        (nw.col("__one").sum().over(*series) + 0.5).floor().cast(nw.Int64).alias(_SESSIONS),
    )
    names = working_names(dict.fromkeys([*series, *added]))
    return replace(profiles, table=replace(table, rows=rows), names=names)
