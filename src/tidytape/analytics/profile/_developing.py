"""How a session's point of control and value area came about, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._intervals import SESSION_END
from tidytape.analytics.profile._growth import AREA, Rules, areas
from tidytape.analytics.profile._levels import (
    MOST_MINUTES,
    block_length,
    countable,
    finite,
    is_of_touches,
    touches,
    with_place,
)
from tidytape.analytics.profile._opening import SESSION, is_of_blocks, opened
from tidytape.errors import QueryError
from tidytape.frames.joined import LATEST
from tidytape.frames.numbers import spread
from tidytape.query.values import TimeLike, epoch_seconds
from tidytape.times import MINUTE, SECOND


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
    price: str = "price",
) -> IntoFrameT:
    r"""Developing point of control and value area: those of the blocks closed so far, at each block's close.

    At the close of block :math:`b` a row counts the blocks up to then, and the value area is that of these counts:

    .. math:: n_i(b) = \left|\{c \le b : \text{block } c \text{ touched row } i\}\right|.

    Nothing of a later block is in it, so the rows of a day are what one would have seen during it.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels that list their blocks, of `tidytape.Client.tpo` (``block_ids``), or touches of
        `tidytape.aggregate.tpo_touches` (``block_id``), of sessions that start at ``timestamp``. Where there is a
        ``period_end``, the last block ends with it.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns there are, ``timestamp``
        and ``period_end``. Null is a value.
    count : str, optional
        Column of touches to add up, e.g. ``"volume"``, for a volume profile as it developed. Without it, or of
        ``"tpo_count"``, touches are counted.
        Of levels it is not known in which block they traded it. [count]
    share, rule, tie, stop, poc_tie, row_size
        As of `value_area`.
    now : epoch seconds, datetime, date or ISO 8601 string, optional
        Up to when the session is known: blocks that end later have not closed. Without it, all have.
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``, which touches lack. [min]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per (by, block), sorted so, of the kind of ``levels``
        From the first block of a session that touched a row to its last: ``by``, and

        - ``block`` : int64, from 0 at the session's start.
        - ``known_at`` : as ``timestamp``, when the block closes; null where nobody knows how long it is.
        - ``poc``, ``val``, ``vah``, ``value_area_share`` : float64, as of `value_area`.
        - ``share``, ``rule``, ``tie``, ``stop``, ``poc_tie`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` does not say in which blocks a level was touched, or how long a block is; or an argument is not
        one of those listed.

    See Also
    --------
    value_area : Of the whole session, which the last block's row is.

    Notes
    -----
    From a price or count that is null, not finite or below zero on there is no answer; what closed before keeps its.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, chapter 4: value as it develops.

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
    if count is not None and not is_of_touches(profiles):
        raise QueryError(
            "count",
            got=count,
            expected="None, for levels do not say in which block they traded what",
            hint="touches, of aggregate.tpo_touches, do",
        )
    context: dict[str, str | nw.Expr] = {"start": SESSION, "length": block_length(profiles, block_minutes)}
    if SESSION_END in profiles.table.names:
        context["session_end"] = SESSION_END
    counted = nw.lit(1.0) if count is None else nw.col(count).cast(nw.Float64)
    rows = touches(profiles, {**context, "count": counted}).filter(~nw.col("block").is_null())
    keys, closes = profiles.keys, _close(*context)
    rows = rows.with_columns(nw.col(*context).min().over(keys))
    if now is not None:
        rows = rows.filter(closes <= epoch_seconds(now, parameter="now") * SECOND)
    so_far = _so_far(rows, keys, profiles.step, [*context], distinct=count is None)
    so_far = so_far.select(*keys, "block", "price", "count", known_at=closes)
    blocks = [*keys, "block", "known_at"]
    found = areas(so_far, blocks, rules, profiles.step, in_memory=profiles.table.is_eager)
    known_at = nw.col("known_at")
    found = found.with_columns(known_at=nw.when(known_at < LATEST).then(known_at))
    return profiles.closed(found.select(*keys, *results), sort=["block"], times={"known_at": SESSION})


def _close(start: str, length: str, *ends: str) -> nw.Expr:
    """Return when ``block`` ends, and no later than its session; `LATEST` where nothing says it. [ns]"""
    # In whole nanoseconds: the floats, of blocks and their length, are whole minutes or a few of their decimals.
    minutes = (nw.col("block") + 1) * nw.col(length)
    is_known = (minutes <= MOST_MINUTES).fill_null(value=False)
    since_start = (nw.when(is_known).then(minutes).otherwise(0.0) * float(MINUTE)).cast(nw.Int64)
    end = nw.when(is_known).then(nw.col(start) + since_start).otherwise(LATEST)
    return nw.min_horizontal(end, *ends) if ends else end


def _so_far(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, context: list[str], *, distinct: bool
) -> nw.LazyFrame[Any]:
    """Return one row per session, block, and price row touched by then, with its ``count`` up to then.

    The ``price`` and ``count`` of a row are null where one of them is unknown.
    """
    price, count, block = nw.col("price"), nw.col("count"), nw.col("block")
    row = [*keys, "known", "place"]
    rows = rows.with_columns(known=finite("price") & countable("count"))
    rows = with_place(rows.with_columns(price=nw.when("known").then(price).otherwise(0.0)), keys, step)
    cells = rows.group_by(*row, "block").agg(
        price.min(), count.max() if distinct else count.sum(), nw.col(*context).min()
    )
    # Until the row is touched again, it counts what it does now.
    following = block.shift(-1).over(row, order_by="block")
    cells = cells.with_columns(
        count=count.cum_sum().over(row, order_by="block"),
        until=nw.coalesce(following - 1, block.max().over(keys)).cast(nw.Int64),
        since=block.cast(nw.Int64),
    )
    known = {name: nw.when("known").then(nw.col(name)) for name in ("price", "count")}
    cells = cells.select(*keys, *context, "since", "until", **known)
    return spread(cells, "since", "until", name="block")
