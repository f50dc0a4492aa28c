"""Points of control and value areas, of whole sessions and at the end of each time block."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._block_ends import BlockEnds
from tidytape.analytics.profile._growth import AREA, POC_TIES, Rules, areas
from tidytape.analytics.profile._levels import (
    countable,
    counted_in_rows,
    counted_levels,
    counted_rows,
    finite,
    require_rows,
    touches,
    with_place,
    with_prices,
)
from tidytape.analytics.profile._opening import LIST, SESSION, TOUCH, is_of_blocks, opened
from tidytape.errors import QueryError
from tidytape.frames._rows import spread
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.sessions import Session
from tidytape.times import SECOND


def value_area(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    price: str = "price",
    count: str = "volume",
    preset: Literal["cbot", "investor_rt", "lean", "market_profile"] | None = None,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] | None = None,
    tie: Literal["up", "down"] | None = None,
    stop: Literal["reach", "exceed"] | None = None,
    poc_tie: Literal["center", "lower", "upper"] | None = None,
    row_size: float | Decimal | None = None,
    rows: int | None = None,
) -> IntoFrameT:
    r"""Value area: the rows around the point of control that hold a share of the count.

    The area starts as the point of control alone. While its count is too small, the larger of the next candidates above
    and below joins it. With rows :math:`1, 2, \dots` outward from the point of control on one side, candidate :math:`k`
    and the bound that ranks it are

    .. math:: c_k = n_{wk - w + 1} + \dots + n_{wk}, \qquad m_k = \min(c_1, \dots, c_k),

    with :math:`w = 2` for ``two_row`` and 1 for ``one_row``. Candidates of both sides are taken by falling :math:`m_k`,
    and on each side from the point of control outward, until the area has ``share`` of the total.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), any order
        A profile. Rows of the same price are added up, so buys and sells may be in rows of their own.
    by : str or iterable of str, optional
        The columns that tell one profile from another, e.g. ``["raw_symbol", "timestamp"]``; by default the identity
        columns of the frame, ``timestamp`` and ``period_end``. ``period_end`` is kept whenever ``by`` has
        ``timestamp``. Null counts as a value.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. If rows are coarser than the levels, the blocks
        listed in ``block_ids`` are counted for ``tpo_count``; without a list it is unknown, because numbers of blocks
        do not add up. [count]
    preset : {"cbot", "investor_rt", "lean", "market_profile"}, optional
        Whose rules to take, see the notes; by default those of the CBOT. Each of the next arguments that you pass
        counts before the preset.
    share : float, 0 < share <= 1
        The share of the total to enclose, the same for every preset. [1]
    rule : {"two_row", "one_row"}
        ``"two_row"``, the default and the CBOT rule: a candidate is the next two rows of a side, or at the edge the
        last row. ``"one_row"``: a candidate is the next row.
    tie : {"up", "down"}
        The side that is taken if both candidates are equal, by default ``"up"``.
    stop : {"reach", "exceed"}
        Grow until the share is reached, the default, or until it is exceeded.
    poc_tie : {"center", "lower", "upper"}
        ``tie`` of `point_of_control`, by default ``"center"``.
    row_size : float or Decimal, > 0, optional
        Height of the price rows, never smaller than the height of the levels; see the notes. With it a row without
        levels, between the lowest and the highest, counts zero; a price between two rows belongs to the lower one; and
        prices of results lie exactly on the grid, so 3 steps of 0.1 are 0.3. By default each price is a row, and
        neighbouring prices of the frame are neighbours, whatever their distance. [price]
    rows : int, 1 to 100,000, optional
        How many rows of equal height the range of each profile is cut into, instead of ``row_size``, e.g. 24. The
        highest price belongs to the highest row. Not for time blocks, whose numbers do not add up.

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``poc`` : float64, the point of control, null if the profile has none. [price]
        - ``val`` : float64, the low edge of the lowest row of the area. [price]
        - ``vah`` : float64, the low edge of the highest row of the area, so the area ends one row height above it.
          [price]
        - ``value_area_share`` : float64, the share of the count in the area. [1]
        - ``share``, ``rule``, ``tie``, ``stop``, ``poc_tie`` : the arguments, because other rules give other areas.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    See Also
    --------
    point_of_control : The row from which the area grows.

    Notes
    -----
    .. warning:: A ``row_size`` below the height of the levels gives another area. With levels of height 50 and rows of
       height 10, only every fifth row has a level, and the four rows between them count zero. Pairs of rows then often
       count zero, and the area grows to one side only. If ``levels`` has ``block_size``, a ``row_size`` that is not a
       whole multiple of it is a QueryError; with a lazy frame the area is null. Without ``block_size``, or if it is
       null, nothing is checked.

    The warning holds for ``rows``, too, if the range has fewer levels than rows.

    Presets are rules that their owners publish. ``"cbot"`` [1]_ [2]_ and ``"investor_rt"`` [3]_, the method A of that
    platform: two rows, up if equal, until the share is reached. ``"lean"`` [4]_, the engine of QuantConnect, and
    ``"market_profile"`` [5]_, a package: one row, up if equal, until the share is exceeded. Both take the middle of the
    rows that traded, so among several largest rows they may choose another point of control than ``"center"``. Other
    platforms do not say how their area grows.

    A profile whose counts are all zero has no value area. Neither has a profile with a price or count that is null or
    not finite, or with a count below zero, because an unknown count could change the growth. Other profiles are not
    affected.

    Counts are equal if they agree to twelve digits of the profile's total, and prices are one row if they agree to
    twelve digits of its highest price. A share is reached within 1e-12, and ``value_area_share`` is rounded to that. So
    every engine gives the same answer, and 0.1 + 0.7 of 1 reaches 0.8 although the float sum is 0.7999999999999999.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, appendix 1: the rule of the
       Chicago Board of Trade (CBOT), two rows at a time.
    .. [2] Chicago Board of Trade, "A Six-Part Study Guide to Market Profile", 1996, part I.
    .. [3] Linn Software, "Investor/RT: Answers to Common Questions", no. 123, on the methods A and B.
    .. [4] QuantConnect, Lean, ``Indicators/MarketProfile.cs``, ``CalculateValueArea``.
    .. [5] MarketProfile, a package of Python, ``MarketProfileSlice.calculate_value_area``.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"day": [1] * 5, "price": [10, 11, 12, 13, 14], "volume": [1, 4, 10, 4, 1]})
    >>> value_area(levels, by="day").row(0)[-4:]
    (0.75, 12.0, 12.0, 14.0)
    >>> value_area(levels, by="day", rule="one_row", tie="down").row(0)[-4:]
    (0.7, 11.0, 12.0, 12.0)
    >>> value_area(levels, by="day", preset="lean").row(0)[-4:]
    (0.9, 11.0, 12.0, 13.0)
    >>> value_area(levels, by="day", rows=2).row(0)[-4:]
    (0.75, 12.0, 12.0, 12.0)
    """
    rules = Rules.of(preset, share=share, rule=rule, tie=tie, stop=stop, poc_tie=poc_tie)
    require_rows(rows, row_size, count)
    profiles = opened(
        levels,
        by,
        results=(*AREA, *rules.columns()),
        numbers={"price": price, "count": count},
        row_size=row_size,
    )
    profile_levels, keys, step = counted_in_rows(profiles, count, rows)
    value_areas = areas(profile_levels, keys, rules, step, in_memory=profiles.table.is_eager)
    value_areas = with_prices(value_areas, rows, "poc", "val", "vah")
    return profiles.closed(value_areas, main=["value_area_share", "val", "poc", "vah"])


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
        A profile. Rows of the same price are added up, so buys and sells may be in rows of their own.
    by : str or iterable of str, optional
        The columns that tell one profile from another, e.g. ``["raw_symbol", "timestamp"]``; by default the identity
        columns of the frame, ``timestamp`` and ``period_end``. ``period_end`` is kept whenever ``by`` has
        ``timestamp``. Null counts as a value.
    price : str
        Column of the rows' prices. [price]
    count : str
        Column of the rows' counts, e.g. ``volume`` or ``tpo_count``. [count]
    tie : {"center", "lower", "upper"}
        Which of several largest rows to take: ``"center"``, the one closest to the middle between the lowest and the
        highest price, and of two equally close the lower; ``"lower"``, the lowest; ``"upper"``, the highest.

    Returns
    -------
    frame, one row per ``by``, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``poc`` : float64, null if the profile has none. [price]
        - ``poc_count`` : float64, the count there. [count]
        - ``poc_tie`` : str, the argument ``tie``.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If an argument is not one of those listed, a column is not numeric, or ``levels`` is not a frame.

    See Also
    --------
    value_area : The value area around the point of control.

    Notes
    -----
    A profile whose counts are all zero has no point of control. Neither has a profile with a price or count that is
    null or not finite, or with a count below zero, because an unknown count could be the largest. Other profiles are
    not affected.

    Counts are equal if they agree to twelve digits of the profile's total, and prices are one row if they agree to
    twelve digits of its highest price.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, appendix 1.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"day": [1] * 4, "price": [10.0, 10.1, 10.2, 10.3], "volume": [1, 7, 7, 2]})
    >>> point_of_control(levels, by="day").row(0)
    (1, 'center', 7.0, 10.1)
    >>> point_of_control(levels, by="day", tie="upper").row(0)
    (1, 'upper', 7.0, 10.2)
    """
    one_of("tie", tie, POC_TIES)
    profiles = opened(
        levels, by, results=("poc", "poc_count", "poc_tie"), numbers={"price": price, "count": count}
    )
    rows = counted_rows(counted_levels(profiles, {"count": count}), profiles.keys, None, tie=tie)
    has_poc = ~nw.col("total").is_null()
    result = rows.filter(nw.col("from_poc") == 0).select(
        *profiles.keys,
        poc=nw.when(has_poc).then(nw.col("price")),
        poc_count=nw.when(has_poc).then(nw.col("count")),
        poc_tie=nw.lit(tie),
    )
    return profiles.closed(result, main=["poc_count", "poc"])


def developing(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    count: str | None = None,
    share: float = 0.70,
    rule: Literal["two_row", "one_row"] = "two_row",
    tie: Literal["up", "down"] = "up",
    stop: Literal["reach", "exceed"] = "reach",
    poc_tie: Literal["center", "lower", "upper"] = "center",
    row_size: float | Decimal | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    session: Session | None = None,
    price: str = "price",
) -> IntoFrameT:
    r"""Developing point of control and value area: at the close of each block, those of all blocks closed so far.

    At the close of block :math:`b`, a row counts the blocks up to b that touched it, and the value area is that of
    these counts:

    .. math:: n_i(b) = \left|\{c \le b : \text{block } c \text{ touched row } i\}\right|.

    Later blocks are not used, so the rows of a day show what was known during the day.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels that list their blocks, from `tidytape.Client.tpo` (``block_ids``), or touches from
        `tidytape.aggregate.tpo_touches` (``block_id``), of sessions that start at ``timestamp``. If the frame has
        ``period_end``, the last block ends with it.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns of the frame, ``timestamp`` and
        ``period_end``. Null counts as a value.
    count : str, optional
        Column of touches to add up, e.g. ``"volume"`` for a developing volume profile. By default, and for
        ``"tpo_count"``, touches are counted. Only touches can have it: levels do not tell in which block their volume
        traded. [count]
    share, rule, tie, stop, poc_tie, row_size
        As in `value_area`.
    now : epoch seconds, datetime, date or ISO 8601 string, optional
        The time up to which the session is known: blocks that end later have not closed. By default all blocks have
        closed.
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``; touches do not have it. [min]
    session : Session, optional
        When the market trades, if the levels were made with a session: their blocks count trading time, so that a break
        and the nights of a week have none; ``Session.utc_day()`` for months of UTC. By default blocks count time of the
        clock, in UTC days and weeks, and in shorter intervals. Without ``period_end`` every session that starts at
        midnight UTC is taken for one of these.
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per (by, block), sorted by these, of the kind of ``levels``
        From the first block of a session that touched a row to its last: ``by``, and

        - ``block`` : int64, from 0 at the session's start.
        - ``known_at`` : as ``timestamp``, the time at which the block closes; null if its length is unknown.
        - ``poc``, ``val``, ``vah``, ``value_area_share`` : float64, as in `value_area`.
        - ``share``, ``rule``, ``tie``, ``stop``, ``poc_tie`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` does not have the blocks that touched each level, or the length of a block; or an argument is not
        one of those listed. In memory, if a session of ``levels`` is none of these and there is no ``session``, or
        does not start when ``session`` opens; of a lazy frame its blocks are known at ``period_end``, or else null.

    See Also
    --------
    value_area : The value area of the whole session, equal to that of its last block.

    Notes
    -----
    From the block of a price or count that is null, not finite or below zero on, results are null; results of earlier
    blocks are not affected.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 4, on monitoring the
       POC.

    Examples
    --------
    >>> import polars as pl
    >>> blocks = pl.DataFrame({"price": [10, 11, 12], "block_ids": [[0], [0, 1, 2], [1, 2]]})
    >>> levels = blocks.with_columns(timestamp=pl.lit(0, pl.Int64))
    >>> developing(levels, block_minutes=30).select("block", "poc", "val", "vah").rows()
    [(0, 10.0, 10.0, 11.0), (1, 11.0, 11.0, 12.0), (2, 11.0, 11.0, 12.0)]
    """
    rules = Rules(share, rule, tie, stop, poc_tie)
    if is_of_blocks(count):
        count = None
    results = ("block", "known_at", *AREA, *rules.columns())
    numbers = {"price": price} if count is None else {"price": price, "count": count}
    profiles = opened(
        levels, by, results=results, numbers=numbers, row_size=row_size, times=[SESSION], blocks=True
    )
    if count is not None and not profiles.of_touches:
        raise QueryError(
            "count",
            got=count,
            expected="None, for levels do not say in which block they traded what",
            hint="touches, of aggregate.tpo_touches, do",
        )
    if not profiles.lists_blocks:
        raise QueryError(
            "levels",
            got=f"columns {', '.join(profiles.table.names)}",
            expected="levels that say which blocks touched them: "
            f"{LIST!r} as of Client.tpo, or {TOUCH!r} as of aggregate.tpo_touches",
        )
    ends = BlockEnds.of(profiles, block_minutes, session)
    context = ends.context
    touch_count = nw.lit(1.0) if count is None else nw.col(count).cast(nw.Float64)
    rows = touches(profiles, {**context, "count": touch_count}).filter(~nw.col("block").is_null())
    keys = profiles.keys
    rows = rows.with_columns(nw.col(*context).min().over(keys))
    if now is not None:
        closed = nw.col("known_at") <= epoch_seconds(now, parameter="now") * SECOND
        rows = ends.added(rows, "block", "known_at").filter(closed).drop("known_at")
    so_far = _so_far(rows, keys, profiles.step, [*context], distinct=count is None)
    so_far = ends.added(so_far, "block", "known_at").select(*keys, "block", "price", "count", "known_at")
    value_areas = areas(
        so_far, [*keys, "block", "known_at"], rules, profiles.step, in_memory=profiles.table.is_eager
    )
    times, main = {"known_at": SESSION}, ["known_at", "val", "poc", "vah"]
    return profiles.closed(value_areas.select(*keys, *results), sort=["block"], times=times, main=main)


def _so_far(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, context: list[str], *, distinct: bool
) -> nw.LazyFrame[Any]:
    """Return, for each block, the price rows that it or an earlier block touched, with their ``count`` up to then.

    If the price or the count of a row is unknown, both are null.
    """
    price, count, block = nw.col("price"), nw.col("count"), nw.col("block")
    row = [*keys, "known", "place"]
    rows = with_place(rows, keys, step, known=finite("price") & countable("count"))
    touch_rows = rows.group_by(*row, "block").agg(
        price.min(), count.max() if distinct else count.sum(), nw.col(*context).min()
    )
    # A row keeps its count until the block before the one that touches it again.
    next_block = block.shift(-1).over(row, order_by="block")
    touch_rows = touch_rows.with_columns(
        count=count.cum_sum().over(row, order_by="block"),
        until=nw.coalesce(next_block - 1, block.max().over(keys)).cast(nw.Int64),
        since=block.cast(nw.Int64),
    )
    known_values = {name: nw.when("known").then(nw.col(name)) for name in ("price", "count")}
    touch_rows = touch_rows.select(*keys, *context, "since", "until", **known_values)
    return spread(touch_rows, "since", "until", name="block")
