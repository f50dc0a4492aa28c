"""Composite profiles of several sessions, and points of control that no later session touched."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics._series import SESSION_END, knows_length
from tidytape.analytics.profile._growth import POC_TIES
from tidytape.analytics.profile._levels import (
    countable,
    counted_levels,
    counted_rows,
    finite,
    row_price,
    with_place,
)
from tidytape.analytics.profile._opening import SESSION, Profiles, is_of_blocks, opened, working_names
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._dialects import in_sql
from tidytape.frames._joined import joined
from tidytape.frames._rows import starts_run
from tidytape.frames._table import OpenTable
from tidytape.frames._times import length_of
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, require_one_unit

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

    The value area of a week cannot be computed from the value areas of its days. So the result is a profile, which
    `value_area` and other functions take. It is one session, from the start of the first added session to the end of
    the last.

    Parameters
    ----------
    levels : frame, n rows, one per (by, session, price), any order
        Profiles of the sessions to add. Sessions start at ``timestamp``, int64 nanoseconds or times with a zone, if the
        frame has it. They end at ``period_end``, or without it after their ``interval``, except for sessions with time
        blocks.
    row_size : float or Decimal, > 0
        Height of a row of the grid, a multiple of the height of the levels; a level counts in the row of its low edge.
        [price]
    by : str or iterable of str, optional
        The columns that tell one composite from another; by default the identity columns of the frame, so that all
        sessions of a series become one composite. Null counts as a value.
    price : str
        Column of the rows' prices. [price]
    count : str or iterable of str
        Columns of the rows' counts, e.g. ``"tpo_count"`` or ``["buy_volume", "sell_volume"]``. [count]

    Returns
    -------
    frame, one row per (by, price), sorted by these, of the kind of ``levels``
        ``by``, and

        - ``block_size`` : float64, the ``row_size``, null if the block size of a level is unknown; and ``amount_unit``
          of amounts. Each if ``levels`` has it.
        - ``timestamp`` : as in ``levels``, the start of the first session, if ``levels`` has it.
        - ``period_end`` : as ``timestamp``, the end of the last session; null if a session has no end, and absent if no
          column tells when sessions end.
        - ``sessions`` : int64, how many sessions were added, told apart by their starts; a composite counts as many as
          its column ``sessions`` says. Absent without ``timestamp``.
        - the price : float64, the low edge of its row on the grid; null for levels without one.
        - the counts : float64, under their names; null if an added count is null, not finite or below zero.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``row_size`` is not a positive number, a column is not numeric, ``timestamp`` or ``period_end`` is not a
        time, or no column tells series apart. Or if in an eager frame ``row_size`` is not a whole multiple of
        ``block_size``, a session has several values of ``block_size``, or a series several amount units; in a lazy
        frame the counts or prices are null there.

    Notes
    -----
    TPO counts of different sessions, told apart by ``timestamp``, count different blocks, so they add up. Within one
    session they do not, because a block that touched two levels of a row would count twice: there the blocks listed in
    ``block_ids`` are counted, and ``tpo_count`` is null without a list.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 4, on long-term
       profiles.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> levels = pl.DataFrame(
    ...     {"coin": "BTC", "timestamp": [start, start, start + 1, start + 1],
    ...      "price": [10.0, 10.5, 10.5, 11.0], "volume": [1, 2, 3, 4]}
    ... )
    >>> composite(levels, row_size=0.5).with_columns(pl.col("timestamp") - start).rows()
    [(0, 'BTC', 2, 10.0, 1.0), (0, 'BTC', 2, 10.5, 5.0), (0, 'BTC', 2, 11.0, 4.0)]
    >>> composite(levels, row_size=1).with_columns(pl.col("timestamp") - start).rows()
    [(0, 'BTC', 2, 10.0, 6.0), (0, 'BTC', 2, 11.0, 4.0)]
    """
    spans = [SESSION, SESSION_END, _SESSIONS]
    counts = arguments.columns(
        "count", count, reserved=[arguments.column("price", price, reserved=spans), *spans]
    )
    if row_size is None:
        raise QueryError("row_size", got=row_size, expected="a finite number above 0")
    table = OpenTable.of(levels, parameter="levels")
    profiles = opened(
        table,
        by,
        results=[*counts, _SESSIONS],
        numbers={"price": price},
        row_size=row_size,
        of="composites",
        times=[SESSION] if SESSION in table.names else [],
    )
    for name in counts:
        profiles.require_number("count", name)
    profiles = _with_description(profiles, counts)
    keys, step = profiles.keys, profiles.step
    working = {f"count_{position}": name for position, name in enumerate(counts)}
    rows = counted_levels(profiles, working, session=_START).with_columns(
        countable(name).alias(f"known_{name}") for name in working
    )
    rows = exact.in_parts(with_place(rows, keys, step, known=finite("price")), *working)
    by_row = rows.group_by(*keys, "known", "place")
    added_rows = by_row.agg(
        exact.summed(*working), nw.col(*(f"known_{name}" for name in working)).all()
    ).with_columns(map(exact.total, working))
    result = added_rows.select(
        *keys,
        nw.when("known").then(row_price(step)).alias(price),
        *(nw.when(f"known_{name}").then(nw.col(name)).alias(caller) for name, caller in working.items()),
    )
    is_new_end = SESSION in table.names and SESSION_END not in profiles.table.clocks
    times = {SESSION_END: SESSION} if is_new_end else {}
    return profiles.closed(result, sort=[price], times=times, main=[price, *counts])


def _with_description(profiles: Profiles[IntoFrameT], counts: Iterable[str]) -> Profiles[IntoFrameT]:
    """Add columns that describe a composite to the keys of profiles; all rows of a composite have the same values.

    These are the row size, the amount unit, the start of the first session, the end of the last, and the number of
    sessions. `_START` keeps the start of each row's session.
    """
    table, series_columns = profiles.table, list(profiles.names.values())
    description: dict[str, nw.Expr] = {}
    if BLOCK_SIZE in table.names and BLOCK_SIZE not in series_columns:
        is_known = (~nw.col(BLOCK_SIZE).is_null()).all().over(*series_columns)
        description[BLOCK_SIZE] = nw.when(is_known).then(nw.lit(float(profiles.step or 0)))
    if amounts := [name for name in counts if not is_of_blocks(name)]:
        table = require_one_unit(table, AMOUNT_UNIT, series_columns, amounts, parameter="levels")
        description |= {name: nw.col(name) for name in (AMOUNT_UNIT,) if name in table.names}
    rows = table.rows
    if SESSION in table.names:
        start, end, part = nw.col(SESSION), nw.col(SESSION_END), nw.col("__part")
        if SESSION_END not in table.names and "interval" in table.names and knows_length(table.names):
            length = length_of(nw.col("interval"))
            rows = rows.with_columns(nw.when(length > 0).then(start + length).alias(SESSION_END))
        description[SESSION] = start.min().over(*series_columns)
        if SESSION_END in rows.collect_schema().names():
            is_known = (~end.is_null()).all().over(*series_columns)
            description[SESSION_END] = nw.when(is_known).then(end.max().over(*series_columns))
        # Each level counts as its share of a session, so the shares of all levels add up to the number of sessions.
        session = [*dict.fromkeys([*series_columns, _START])]
        sessions = nw.col(_SESSIONS) if _SESSIONS in table.names else part
        rows = rows.with_columns(start.alias(_START), __part=nw.lit(1.0)).with_columns(
            __part=sessions.max().over(*session) / part.sum().over(*session)
        )
        description[_SESSIONS] = (part.sum().over(*series_columns) + 0.5).floor().cast(nw.Int64)
    if description:
        rows = rows.with_columns(**description)
    return replace(
        profiles,
        table=replace(table, rows=rows),
        names=working_names(dict.fromkeys([*series_columns, *description])),
    )


_NAKED: Final = ("poc", "is_naked", "touched_at", "poc_tie")


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
    r"""Naked points of control: those outside the ranges of all later sessions.

    The point of control :math:`p_s` of session :math:`s` is naked if there is no later session :math:`t > s` of the
    same series with :math:`L_t \le p_s \le H_t`, its lowest and its highest row.

    Parameters
    ----------
    levels : frame, n rows, one per (by, timestamp, price), any order
        Profiles of sessions that start at ``timestamp``, int64 nanoseconds or times with a zone.
    by : str or iterable of str, optional
        The columns that tell one series of sessions from another; by default the identity columns of the frame. Null
        counts as a value. Without any column, all sessions belong to one series.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``; on coarser rows as in `value_area`. [count]
    tie : {"center", "lower", "upper"}
        As in `point_of_control`.
    row_size : float or Decimal, > 0, optional
        Height of the price rows that levels are added up in first. By default each price is a row. [price]

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``levels``
        ``by``, ``timestamp``, ``period_end`` where the levels have it, and

        - ``poc`` : float64, null if the session has no point of control. [price]
        - ``is_naked`` : bool, whether no later session of the frame has touched it; null if ``poc`` is.
        - ``touched_at`` : as ``timestamp``, the start of the first session that touched it; null if it is naked.
        - ``poc_tie`` : str, the rule for several largest rows.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric or ``timestamp`` no time, or ``levels`` is
        not a frame.

    Notes
    -----
    ``is_naked`` depends on all later sessions of the frame, so rows change as sessions are added. To get the naked
    points of control at an earlier time, pass only the sessions known at that time.

    A session with a price or count that is null or not finite, or with a count below zero, has no point of control. Its
    range is unknown, so it touches none.

    DuckDB and Spark compare each session with all later ones of its series: twice the sessions take four times as long.
    On other engines sessions are compared in memory, where twice the sessions take little more than twice the time; a
    lazy frame is collected for that.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> levels = pl.DataFrame(
    ...     {"timestamp": [start, start, start + 1, start + 1, start + 2, start + 2],
    ...      "price": [10, 11, 11, 12, 13, 14], "volume": [1, 2, 1, 3, 2, 1]}
    ... )
    >>> naked_pocs(levels).drop("poc_tie").with_columns(pl.col("timestamp", "touched_at") - start).rows()
    [(0, 11.0, 1, False), (1, 12.0, None, True), (2, 13.0, None, True)]
    """
    one_of("tie", tie, POC_TIES)
    numbers = {"price": price, "count": count}
    sessions = opened(levels, by, results=(SESSION, *_NAKED), numbers=numbers, row_size=row_size, of="series")
    keys, price_of_row = sessions.keys, row_price(sessions.step)
    rows = counted_rows(counted_levels(sessions, {"count": count}), keys, sessions.step, tie=tie)
    is_known = ~nw.col("total").is_null()
    rows = rows.with_columns(
        low=nw.when(is_known).then(price_of_row),
        poc=nw.when(is_known, nw.col("from_poc") == 0).then(price_of_row),
    )
    ends = rows.group_by(*keys).agg(nw.col("poc", "low").min(), nw.col("low").max().alias("high"))
    result = untouched(ends, sessions.series_columns).select(
        *keys,
        "poc",
        is_naked=nw.when(~nw.col("poc").is_null()).then(nw.col("touched_at").is_null()),
        touched_at=nw.col("touched_at"),
        poc_tie=nw.lit(tie),
    )
    return sessions.closed(result, times={"touched_at": SESSION}, main=["poc", "touched_at", "is_naked"])


def untouched(sessions: nw.LazyFrame[Any], series_columns: list[str]) -> nw.LazyFrame[Any]:
    """Add ``touched_at``, the start of the first later session of the series whose range contains the point of control.

    Sessions have a ``start`` [ns], a ``poc``, a ``low`` and a ``high``, each null where it is unknown. ``touched_at``
    is null where no session touched the point of control. [ns]
    """
    if in_sql(sessions):
        return untouched_by_join(sessions, series_columns)
    rows = sessions.sort(*series_columns, "start").collect()
    touched_at: list[int | None] = [None] * len(rows)
    naked: list[
        tuple[float, int]
    ] = []  # price and row of each naked point of control of the series, ascending
    is_first = starts_run(rows, series_columns)
    for row, (start, poc, low, high) in enumerate(rows.select("start", "poc", "low", "high").iter_rows()):
        if is_first[row]:
            naked.clear()
        if start is None:
            continue
        if low is not None:
            touched_slice = slice(bisect(naked, (low, -1)), bisect(naked, (high, row)))
            for _, earlier_row in naked[touched_slice]:
                touched_at[earlier_row] = start
            del naked[touched_slice]
        if poc is not None:
            insort(naked, (poc, row))
    return rows.with_columns(nw.new_series("touched_at", touched_at, nw.Int64, backend="polars")).lazy()


def untouched_by_join(sessions: nw.LazyFrame[Any], series_columns: list[str]) -> nw.LazyFrame[Any]:
    """Return the same as `untouched`, on any engine: a join compares each session with the later ones of its series."""
    keys = [*series_columns, "every"]  # a constant, because a series may have no keys to join by
    sessions = sessions.with_columns(every=nw.lit(0))
    poc, start = nw.col("poc"), nw.col("start")
    ranges = sessions.filter(~nw.col("low").is_null()).select(
        *keys, later=start, lowest=nw.col("low"), highest=nw.col("high")
    )
    pairs = joined(
        sessions.filter(~poc.is_null()).select(*keys, "start", "poc"), ranges, on=keys, how="inner"
    )
    touches = pairs.filter(nw.col("later") > start, poc >= nw.col("lowest"), poc <= nw.col("highest"))
    first = touches.group_by(*keys, "start").agg(nw.col("later").min().alias("touched_at"))
    return joined(sessions, first, on=[*keys, "start"])
