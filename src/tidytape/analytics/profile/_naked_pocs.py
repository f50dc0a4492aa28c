"""Points of control that no later session has come back to."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._counts import counted_levels
from tidytape.analytics.profile._grid import row_price, step_of
from tidytape.analytics.profile._growth import POC_TIES, counted_rows
from tidytape.analytics.profile._next_touch import first_touches
from tidytape.analytics.profile._opening import SESSION, opened
from tidytape.frames.door import in_sql
from tidytape.frames.ordered import starts_run

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
    step = step_of(row_size)
    profiles = opened(
        levels,
        by,
        results=(SESSION, *_RESULTS),
        numbers={"price": price, "count": count},
        times=[SESSION],
        session=False,
        anonymous=True,
        step=step,
    )
    keys = profiles.keys
    sessions = profiles.of_sessions()
    rows = counted_levels(sessions, {"count": count}, price, step)
    found = rows_of_sessions(rows, sessions.keys, tie=tie, step=step).rename({sessions.start: "start"})
    found = untouched(found, keys).rename({"start": sessions.start})
    touched = ~nw.col("touched_at").is_null()
    result = found.select(
        *sessions.keys,
        "poc",
        is_naked=nw.when(~nw.col("poc").is_null()).then(~touched),
        touched_at=nw.col("touched_at"),
        poc_tie=nw.lit(tie),
    )
    return sessions.closed(result, times={"touched_at": SESSION})


def rows_of_sessions(
    levels: nw.LazyFrame[Any], keys: list[str], *, tie: str, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per session: its keys, ``poc``, ``low`` and ``high``, null where there is no answer."""
    known = ~nw.col("total").is_null()
    rows = counted_rows(levels, keys, tie=tie, step=step).with_columns(
        low=nw.when(known).then(row_price(step)),
        poc=nw.when(known, nw.col("from_poc") == 0).then(row_price(step)),
    )
    return rows.group_by(*keys).agg(nw.col("poc", "low").min(), nw.col("low").max().alias("high"))


def untouched(sessions: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Add ``touched_at`` to sessions that start at ``start``, null where nothing touched them. [ns]"""
    return (
        untouched_by_join(sessions, keys)
        if in_sql(sessions)
        else _untouched_in_memory(sessions.collect(), keys)
    )


def _untouched_in_memory(sessions: nw.DataFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return what `untouched_by_join` does, without a row for each pair of sessions."""
    if keys:
        sessions = sessions.sort(*keys)
    timed = ~sessions["start"].is_null().to_numpy().astype(bool)
    start = sessions["start"].fill_null(0).to_numpy().astype(np.int64)
    series = np.cumsum(starts_run(sessions, keys))
    order = np.lexsort((start, series))
    order = order[timed[order]]
    price, low, high = (
        sessions[name].cast(nw.Float64).to_numpy().astype(np.float64)[order]
        for name in ("poc", "low", "high")
    )
    first = first_touches(series[order], price, low, high)
    is_touched = first < len(order)
    touched_at, touched = np.zeros(len(start), np.int64), np.zeros(len(start), np.bool_)
    touched[order] = is_touched
    touched_at[order[is_touched]] = start[order[first[is_touched]]]
    rows = sessions.with_columns(
        nw.new_series("touched_at", touched_at, nw.Int64, backend="polars"),
        nw.new_series("is_touched", touched, nw.Boolean, backend="polars"),
    ).lazy()
    at = nw.when("is_touched").then(nw.col("touched_at"))
    return rows.with_columns(touched_at=at).drop("is_touched")


def untouched_by_join(sessions: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return what `untouched` does, by comparing each session with all later ones of its series."""
    sessions = _numbered(sessions, keys)
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


def _numbered(sessions: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Add the number of each session's ``series``, to join on: null is a key, but joins with nothing."""
    if not keys:
        return sessions.with_columns(series=nw.lit(0.0))
    order = [f"at_{key}" for key in keys]
    sessions = sessions.with_columns(nw.col(key).alias(at) for key, at in zip(keys, order, strict=True))
    sessions = sessions.with_columns(at=nw.col("start"))
    order = [*order, "at"]
    sessions = sessions.with_columns(
        *(nw.col(key).shift(1).over(order_by=order).alias(f"before_{key}") for key in keys),
        following=nw.col("start").shift(1).over(order_by=order),
    )
    changed = nw.lit(0.0)
    for key in keys:
        here, before = nw.col(key), nw.col(f"before_{key}")
        same = (here == before).fill_null(value=False) | (here.is_null() & before.is_null())
        changed = changed + (~same).cast(nw.Float64)
    sessions = sessions.with_columns(changed=(changed > 0).cast(nw.Float64))
    return sessions.with_columns(series=nw.col("changed").cum_sum().over(order_by=order))
