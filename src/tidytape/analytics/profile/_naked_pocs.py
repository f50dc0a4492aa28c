"""Points of control that no later session has come back to.

DuckDB and Spark compare each session with all later ones of its series, in a join. In memory the next touch is looked
up in a sorted table; laws hold the two to each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from numpy.typing import NDArray

from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._growth import POC_TIES
from tidytape.analytics.profile._levels import counted_levels, counted_rows, row_price
from tidytape.analytics.profile._opening import SESSION, opened
from tidytape.frames.door import in_sql
from tidytape.frames.ordered import starts_run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_RESULTS: Final = ("poc", "is_naked", "touched_at", "poc_tie")


def naked_pocs(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    price: str = "price",
    count: str = "volume",
    tie: Literal["center", "lower", "upper"] = "center",
    row_size: float | Decimal | None = None,
) -> IntoFrameT:
    r"""Naked points of control: those that no later session's range has touched.

    The point of control :math:`p_s` of session :math:`s` is naked if there is no later session :math:`t > s` of the
    same series with :math:`L_t \le p_s \le H_t`, its lowest and its highest row.

    Parameters
    ----------
    levels : frame, n rows, one per (by, timestamp, price), any order
        Profiles of sessions that start at ``timestamp``, int64 nanoseconds or times with a zone.
    by : str or iterable of str, optional
        The columns that tell one series of sessions from another; by default the identity columns there are. Null is a
        value. Without any, all sessions are of one series.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``; on coarser rows as of `value_area`. [count]
    tie : {"center", "lower", "upper"}
        As of `point_of_control`.
    row_size : float or Decimal, > 0, optional
        The step of the prices: levels are added up on this grid first. Without it the rows are those given. [price]

    Returns
    -------
    frame, one row per (by, timestamp), sorted so, of the kind of ``levels``
        ``by``, ``timestamp``, ``period_end`` where the levels have it, and

        - ``poc`` : float64, null where the session has none. [price]
        - ``is_naked`` : bool, whether no later session that is known has touched it; null without one.
        - ``touched_at`` : as ``timestamp``, the start of the first session that did; null where it is naked.
        - ``poc_tie`` : str, the rule that decided between largest rows.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric or ``timestamp`` no time, or ``levels`` is
        not a frame.

    Notes
    -----
    Whether a point of control is naked is known when the last session of the frame is: rows change as sessions come
    in, which is what they are for. To know what was naked then, give the sessions known then.

    A session with a price or count that is null, not finite, or a count below zero, has no point of control and, its
    range being unknown, touches none.

    DuckDB and Spark compare each session with all later ones of its series: twice the sessions take four times as long.
    Elsewhere sessions are compared in memory, in little more than twice the time; a lazy frame is computed for it.

    References
    ----------
    .. [1] J. F. Dalton, R. B. Dalton and E. T. Jones, "Markets in Profile", 2007, chapter 7.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame(
    ...     {"timestamp": [0, 0, 1, 1, 2, 2], "price": [10, 11, 11, 12, 13, 14], "volume": [1, 2, 1, 3, 2, 1]}
    ... )
    >>> naked_pocs(levels).drop("poc_tie").rows()
    [(0, 11.0, False, 1), (1, 12.0, True, None), (2, 13.0, True, None)]
    """
    one_of("tie", tie, POC_TIES)
    numbers = {"price": price, "count": count}
    sessions = opened(
        levels, by, results=(SESSION, *_RESULTS), numbers=numbers, row_size=row_size, of="series"
    )
    keys, at = sessions.keys, row_price(sessions.step)
    rows = counted_rows(counted_levels(sessions, {"count": count}), keys, sessions.step, tie=tie)
    known = ~nw.col("total").is_null()
    rows = rows.with_columns(
        low=nw.when(known).then(at), poc=nw.when(known, nw.col("from_poc") == 0).then(at)
    )
    ends = rows.group_by(*keys).agg(nw.col("poc", "low").min(), nw.col("low").max().alias("high"))
    result = untouched(ends, sessions.series).select(
        *keys,
        "poc",
        is_naked=nw.when(~nw.col("poc").is_null()).then(nw.col("touched_at").is_null()),
        touched_at=nw.col("touched_at"),
        poc_tie=nw.lit(tie),
    )
    return sessions.closed(result, times={"touched_at": SESSION})


def untouched(sessions: nw.LazyFrame[Any], series: list[str]) -> nw.LazyFrame[Any]:
    """Add ``touched_at`` to sessions that begin at ``start``, null where nothing touched them. [ns]

    Sessions have a ``poc``, a ``low`` and a ``high``, each null where it is unknown.
    """
    if in_sql(sessions):
        return untouched_by_join(sessions, series)
    return _untouched_in_memory(sessions.collect(), series)


def _untouched_in_memory(sessions: nw.DataFrame[Any], series: list[str]) -> nw.LazyFrame[Any]:
    """Return what `untouched_by_join` does, without a row for each pair of sessions."""
    sessions = sessions.sort(*series, "start")
    timed = sessions.filter(~nw.col("start").is_null())
    price, low, high = (timed[name].cast(nw.Float64).to_numpy() for name in ("poc", "low", "high"))
    start = timed["start"].to_numpy()
    first = first_touches(np.cumsum(starts_run(timed, series)), price, low, high)
    is_touched = first < len(start)
    touched_at = np.zeros(len(start), np.int64)
    touched_at[is_touched] = start[first[is_touched]]
    timed = timed.with_columns(
        nw.new_series("touched_at", touched_at, nw.Int64, backend="polars"),
        nw.new_series("is_touched", is_touched, nw.Boolean, backend="polars"),
    )
    timed = timed.with_columns(touched_at=nw.when("is_touched").then("touched_at")).drop("is_touched")
    untimed = sessions.filter(nw.col("start").is_null())
    untimed = untimed.with_columns(touched_at=nw.lit(None, nw.Int64))
    return nw.concat([timed, untimed]).lazy()


def untouched_by_join(sessions: nw.LazyFrame[Any], series: list[str]) -> nw.LazyFrame[Any]:
    """Return what `untouched` does, by comparing each session with all later ones of its series."""
    sessions = _numbered(sessions, series)
    later = sessions.filter(~nw.col("low").is_null()).select(
        "series", later=nw.col("start"), lowest=nw.col("low"), highest=nw.col("high")
    )
    poc = nw.col("poc")
    pairs = sessions.filter(~poc.is_null()).select("series", "start", "poc").join(later, on="series")
    touches = pairs.filter(
        nw.col("later") > nw.col("start"), poc >= nw.col("lowest"), poc <= nw.col("highest")
    )
    first = touches.group_by("series", "start").agg(nw.col("later").min().alias("touched_at"))
    return sessions.join(first, on=["series", "start"], how="left")


def _numbered(sessions: nw.LazyFrame[Any], series: list[str]) -> nw.LazyFrame[Any]:
    """Add the number of each session's ``series``, to join on: null is a key, but joins with nothing."""
    if not series:
        return sessions.with_columns(series=nw.lit(0.0))
    order = [*series, "start"]

    def is_same(key: str) -> nw.Expr:
        here, before = nw.col(key), nw.col(key).shift(1).over(order_by=order)
        return (here == before).fill_null(value=False) | (here.is_null() & before.is_null())

    is_new = ~nw.all_horizontal(*map(is_same, series), ignore_nulls=False)
    sessions = sessions.with_columns(series=is_new.cast(nw.Float64))
    return sessions.with_columns(nw.col("series").cum_sum().over(order_by=order))


def first_touches(series: NDArray[Any], price: Floats, low: Floats, high: Floats) -> Ints:
    """Return the place of the first later session of the same series whose range has a session's price.

    Parameters
    ----------
    series : array, n whole numbers, ascending
        The number of the series that each session belongs to. Sessions of a series are sorted by time.
    price : array, n
        NaN where a session has none.
    low, high : array, n
        The range of each session, both ends within; NaN where it is not known.

    Returns
    -------
    array, n
        n itself where there is none.

    Examples
    --------
    >>> nan = np.nan
    >>> price, low, high = np.array([[1.0, 5.0, nan, 2.0], [0.0, 4.0, 0.0, 2.0], [1.0, 6.0, 9.0, 3.0]])
    >>> first_touches(np.zeros(4), price, low, high)
    array([2, 2, 4, 4])
    """
    count = len(price)
    place, found = np.arange(count), np.full(count, count)
    levels = np.unique(price[~np.isnan(price)])
    rank, first = np.searchsorted(levels, price), np.searchsorted(levels, low)
    last = np.searchsorted(levels, high, side="right")
    has_price, has_range = ~np.isnan(price), ~np.isnan(low)
    step = 1
    while step < count:
        is_second = (place // step) % 2 == 1
        # Sessions of one part and one series, whose prices are then apart from those of all others.
        is_new = (np.diff(place // (2 * step), prepend=-1) != 0) | (np.diff(series, prepend=-1) != 0)
        base = np.cumsum(is_new) * (len(levels) + 1)
        asked, ranges = np.flatnonzero(has_price & ~is_second), np.flatnonzero(has_range & is_second)
        keys = base[asked] + rank[asked]
        order = np.argsort(keys)
        keys, asked = keys[order], asked[order]
        start, end = (np.searchsorted(keys, base[ranges] + edge[ranges]) for edge in (first, last))
        meets = start < end
        earliest = _least_cover(start[meets], end[meets], ranges[meets], size=len(asked), none=count)
        found[asked] = np.minimum(found[asked], earliest)
        step *= 2
    return found


def _least_cover(start: Ints, end: Ints, value: Ints, *, size: int, none: int) -> Ints:
    """Return the least value of the ranges [start, end) that cover each of the places below ``size``."""
    least = np.full(size, none)
    if not len(start):
        return least
    # A range is two, of a power of two in length, that may overlap; from the longest on each becomes two of half of it.
    power = np.frexp(end - start)[1] - 1
    for exponent in range(int(power.max()), -1, -1):
        mine = power == exponent
        np.minimum.at(least, start[mine], value[mine])
        np.minimum.at(least, end[mine] - 2**exponent, value[mine])
        if exponent:
            half = 2 ** (exponent - 1)
            least[half:] = np.minimum(least[half:], least[:-half].copy())
    return least
