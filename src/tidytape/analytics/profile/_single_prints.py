"""Rows that one block alone touched, and extremes that are poor for want of them."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._blocks import MINUTE, block_length, touched_rows
from tidytape.analytics.profile._grid import row_price, step_of
from tidytape.analytics.profile._opening import SESSION, Profiles, holds, opened
from tidytape.query.values import TimeLike, epoch_seconds

__all__ = [
    "EXTREME_RESULTS",
    "extreme_columns",
    "extremes",
    "flagged",
    "poor_extremes",
    "runs",
    "single_prints",
]

_RUN_RESULTS: Final = ("kind", "low", "high", "rows", "first_block", "last_block", "is_in_progress")
EXTREME_RESULTS: Final = (
    "high",
    "low",
    "high_blocks",
    "low_blocks",
    "tail_high_rows",
    "tail_low_rows",
    "is_poor_high",
    "is_poor_low",
    "has_excess_high",
    "has_excess_low",
    "is_high_in_progress",
    "is_low_in_progress",
    "min_excess_rows",
)


def single_prints(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    row_size: float | Decimal | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    price: str = "price",
) -> IntoFrameT:
    """Single prints and tails: runs of neighbouring rows that exactly one block touched.

    A run strictly inside the session's range is a single print. One that reaches the highest or the lowest row is a
    tail: what was refused at once.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels that say their blocks, as of `initial_balance`.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns there are and ``timestamp``.
        Null is a value.
    row_size : float or Decimal, > 0, optional
        The step of the prices. With it a price without a row ends a run, and prices are published exactly on the
        grid. Without it rows are neighbours as given, whatever lies between. [price]
    now : epoch seconds, datetime, date or ISO 8601 string, optional
        Up to when the session is known: the block this lies in is in progress. Without it, none is. Needs the session's
        start in ``timestamp``.
    block_minutes : float, > 0, optional
        Length of a block, for ``now``; by default the column ``block_size_minutes``. [min]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per run, sorted by (by, low), of the kind of ``levels``
        ``by``, and

        - ``kind`` : str, ``"single_print"``, ``"tail_high"``, ``"tail_low"``, or ``"whole"`` where the run is all of
          the session.
        - ``low``, ``high`` : float64, its lowest and highest row. [price]
        - ``rows`` : int64, how many.
        - ``first_block``, ``last_block`` : int64, the first and the last block that touched it, each row one.
        - ``is_in_progress`` : bool, whether the block in progress touched it, so that it may yet end.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` says nothing of blocks or, with ``now``, of their length; or an argument is not one of those
        listed.

    See Also
    --------
    poor_extremes : Extremes without a tail.

    Notes
    -----
    The service's ``single_prints`` are prices of rows, these are runs. A session with a price that is null or not
    finite has none.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> blocks = [[0], [0, 1], [1], [1, 2], [2], [2]]
    >>> levels = pl.DataFrame({"timestamp": 0, "price": [10, 11, 12, 13, 14, 15], "block_ids": blocks})
    >>> single_prints(levels).select("kind", "low", "high", "rows").rows()
    [('tail_low', 10.0, 10.0, 1), ('single_print', 12.0, 12.0, 1), ('tail_high', 14.0, 15.0, 2)]
    """
    step = step_of(row_size)
    profiles = _opened(levels, by, price, _RUN_RESULTS, now)
    found = runs(_flagged(profiles, price, step, now, block_minutes), profiles.keys)
    low, high = nw.col("at_low") == 1, nw.col("at_high") == 1
    kind = (
        nw.when(low, high)
        .then(nw.lit("whole"))
        .when(low)
        .then(nw.lit("tail_low"))
        .when(high)
        .then(nw.lit("tail_high"))
        .otherwise(nw.lit("single_print"))
    )
    result = found.select(
        *profiles.keys,
        "low",
        "high",
        kind=kind,
        rows=nw.col("rows").cast(nw.Int64),
        first_block=nw.col("first").cast(nw.Int64),
        last_block=nw.col("last").cast(nw.Int64),
        is_in_progress=nw.col("in_progress") == 1,
    )
    return profiles.closed(result.select(*profiles.keys, *_RUN_RESULTS), sort=["low"])


def poor_extremes(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    min_excess_rows: int = 2,
    row_size: float | Decimal | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    price: str = "price",
) -> IntoFrameT:
    """Poor highs and lows: extremes that two or more blocks touched, so that nothing was refused there.

    The tail of an extreme is the run of rows from it that exactly one block touched. Long enough, it is excess.
    Without any the extreme is poor. In between it is neither.

    Parameters
    ----------
    levels, by, row_size, now, block_minutes, price
        As of `single_prints`.
    min_excess_rows : int, >= 1
        From how many rows on a tail is excess. [row]

    Returns
    -------
    frame, one row per ``by`` that a block touched, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``high``, ``low`` : float64, the highest and the lowest row. [price]
        - ``high_blocks``, ``low_blocks`` : float64, how many blocks touched it. [TPO]
        - ``tail_high_rows``, ``tail_low_rows`` : float64, length of the tail. [row]
        - ``is_poor_high``, ``is_poor_low``, ``has_excess_high``, ``has_excess_low`` : bool.
        - ``is_high_in_progress``, ``is_low_in_progress`` : bool, whether the block in progress touched the extreme row,
          so that it may yet change.
        - ``min_excess_rows`` : int64, the argument.

        All but the argument are null where a price of the session is null or not finite.

    Raises
    ------
    MissingColumnError, QueryError
        As `single_prints` does.

    Notes
    -----
    The service's ``poor_highs`` and ``poor_lows`` are lists of prices.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"timestamp": 0, "price": [10, 11, 12, 13], "block_ids": [[0], [0], [0, 1], [0, 1]]})
    >>> poor_extremes(levels).select("is_poor_high", "is_poor_low", "has_excess_low", "tail_low_rows").row(0)
    (True, False, True, 2.0)
    """
    arguments.whole("min_excess_rows", min_excess_rows)
    step = step_of(row_size)
    profiles = _opened(levels, by, price, EXTREME_RESULTS, now)
    found = extremes(_flagged(profiles, price, step, now, block_minutes), profiles.keys)
    return profiles.closed(found.select(*profiles.keys, **extreme_columns(min_excess_rows)))


def runs(rows: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return one row per run of single rows of `flagged`: its keys, ends, blocks, and whether it is at an end."""
    single = rows.filter("known").filter(nw.col("blocks") == 1)
    # Neighbours of one run are as far from the first row as their number among the single ones.
    single = single.with_columns(one=nw.lit(1.0))
    single = single.with_columns(number=nw.col("one").cum_sum().over(keys, order_by="place"))
    return (
        single.with_columns(run=nw.col("index") - nw.col("number"))
        .group_by(*keys, "run")
        .agg(
            nw.col("row_price").min().alias("low"),
            nw.col("row_price").max().alias("high"),
            nw.col("one").sum().alias("rows"),
            nw.col("first").min(),
            nw.col("last").max(),
            nw.col("in_progress", "at_low", "at_high").max(),
        )
    )


def extremes(rows: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return one row per session of `flagged`: its keys, and of each end its row, blocks, tail and state."""
    rows = rows.with_columns(one=(nw.col("blocks") == 1).cast(nw.Float64)).with_columns(
        below=nw.col("one").cum_sum().over(keys, order_by="place"),  # and here
        ones=nw.col("one").sum().over(keys),
    )
    above = nw.col("ones") - nw.col("below") + 1  # and here, where it is one itself
    from_low, from_high = (
        nw.col("index") - nw.col("lowest") + 1,
        nw.col("highest") - nw.col("index") + 1,
    )
    # It is part of a tail if everything between it and an end was touched by one block.
    single = nw.col("one") == 1
    columns = {
        "tail_low": (single & (nw.col("below") == from_low)).cast(nw.Float64),
        "tail_high": (single & (above == from_high)).cast(nw.Float64),
    }
    ends = {}
    for end in ("low", "high"):
        here = nw.col(f"at_{end}") == 1
        ends[f"end_{end}"] = nw.when(here).then(nw.col("row_price"))
        ends[f"{end}_blocks"] = nw.when(here).then(nw.col("blocks"))
        ends[f"{end}_in_progress"] = nw.when(here).then(nw.col("in_progress"))
    known = {name: nw.when("known").then(value) for name, value in {**columns, **ends}.items()}
    return (
        rows.with_columns(**known)
        .group_by(*keys)
        .agg(nw.col("tail_low", "tail_high").sum(), nw.col(*ends).max(), nw.col("known").all())
        .with_columns(nw.when("known").then(name).alias(name) for name in columns)
        .drop("known")
    )


def extreme_columns(min_excess_rows: int) -> dict[str, nw.Expr]:
    """Return what is published of `extremes`."""
    return {
        "high": nw.col("end_high"),
        "low": nw.col("end_low"),
        "high_blocks": nw.col("high_blocks"),
        "low_blocks": nw.col("low_blocks"),
        "tail_high_rows": nw.col("tail_high"),
        "tail_low_rows": nw.col("tail_low"),
        "is_poor_high": holds(nw.col("high_blocks") >= 2, "high_blocks"),
        "is_poor_low": holds(nw.col("low_blocks") >= 2, "low_blocks"),
        "has_excess_high": holds(nw.col("tail_high") >= min_excess_rows, "tail_high"),
        "has_excess_low": holds(nw.col("tail_low") >= min_excess_rows, "tail_low"),
        "is_high_in_progress": holds(nw.col("high_in_progress") == 1, "high_in_progress"),
        "is_low_in_progress": holds(nw.col("low_in_progress") == 1, "low_in_progress"),
        "min_excess_rows": nw.lit(min_excess_rows, nw.Int64),
    }


def _opened(
    levels: IntoFrameT,
    by: str | Iterable[str] | None,
    price: str,
    results: Iterable[str],
    now: TimeLike | None,
) -> Profiles[IntoFrameT]:
    times = () if now is None else (SESSION,)
    return opened(levels, by, results=results, numbers={"price": price}, times=times)


def _flagged(
    profiles: Profiles[IntoFrameT],
    price: str,
    step: Fraction | None,
    now: TimeLike | None,
    block_minutes: float | None,
) -> nw.LazyFrame[Any]:
    if now is None:
        return flagged(touched_rows(profiles, price, step), profiles.keys, step, now=None)
    length = block_length(profiles, block_minutes)
    rows = touched_rows(profiles, price, step, length, {"start": SESSION})
    return flagged(rows, profiles.keys, step, now=now)


def flagged(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, now: TimeLike | None
) -> nw.LazyFrame[Any]:
    """Return `touched_rows`, of sessions that start at ``start``, with their ends and three flags as numbers."""
    index = nw.col("index")
    rows = rows.with_columns(
        row_price=row_price(step), lowest=index.min().over(keys), highest=index.max().over(keys)
    )
    progress = nw.lit(0.0)
    if now is not None:
        until = epoch_seconds(now, parameter="now") * 10**9
        so_far = (until - nw.col("start")).cast(nw.Float64)
        end = (nw.col("last") + 1) * nw.col("block_length") * float(MINUTE)
        progress = nw.when(~end.is_null()).then((end > so_far).cast(nw.Float64))
    return rows.with_columns(
        at_low=(index == nw.col("lowest")).cast(nw.Float64),
        at_high=(index == nw.col("highest")).cast(nw.Float64),
        in_progress=progress,
    )
