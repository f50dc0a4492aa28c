"""Single prints, tails and poor extremes, from the number of time blocks that touched each row."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._block_ends import BlockEnds
from tidytape.analytics.profile._levels import checked_minutes, row_price, touched_rows
from tidytape.analytics.profile._opening import SESSION, Profiles, opened
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.sessions import Session
from tidytape.times import SECOND

_RUN: Final = ("low", "high", "rows", "first_block", "last_block", "is_in_progress")
_TAIL: Final = ("end", *_RUN, "is_excess", "min_excess_rows")


def single_prints(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    row_size: float | Decimal | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    session: Session | None = None,
    price: str = "price",
) -> IntoFrameT:
    """Single prints: runs of neighbouring rows, strictly inside the session's range, that exactly one block touched.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels with their time blocks, as in `initial_balance`.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns of the frame, ``timestamp`` and
        ``period_end``. Null counts as a value.
    row_size : float or Decimal, > 0, optional
        Height of the price rows. With it a price without levels ends a run, and prices of results lie exactly on the
        grid. By default neighbouring prices of the frame are neighbouring rows, whatever their distance. [price]
    now : epoch seconds, datetime, date or ISO 8601 string, optional
        The time up to which the session is known: the block that contains it is in progress. By default no block is.
        Needs the session's start in ``timestamp``.
    block_minutes : float, > 0, optional
        Length of a block, for ``now``; by default the column ``block_size_minutes``. [min]
    session : Session, optional
        When the market trades, for ``now``, as in `developing`.
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per run, sorted by (by, low), of the kind of ``levels``
        ``by``, and

        - ``low``, ``high`` : float64, the lowest and the highest row of the run. [price]
        - ``rows`` : int64, how many rows it has.
        - ``first_block``, ``last_block`` : int64, the first and the last of the blocks that touched its rows.
        - ``is_in_progress`` : bool, whether the block in progress touched it, so that it may still change.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` says nothing of blocks or, with ``now``, of their length; or an argument is not one of those
        listed.

    See Also
    --------
    tails : Such runs at the ends of the range.

    Notes
    -----
    The service's ``single_prints`` are prices of rows, but these are runs. A session with a price that is null or not
    finite has no runs.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> blocks = [[0], [0, 1], [1], [1, 2], [2], [2]]
    >>> levels = pl.DataFrame({"timestamp": start, "price": [10, 11, 12, 13, 14, 15], "block_ids": blocks})
    >>> single_prints(levels).select("low", "high", "rows").rows()
    [(12.0, 12.0, 1)]
    """
    profiles, rows = _opened_rows(
        levels,
        by,
        price,
        results=_RUN,
        row_size=row_size,
        now=now,
        block_minutes=block_minutes,
        session=session,
    )
    inside = runs(rows, profiles.keys).filter(~(nw.col("at_low") | nw.col("at_high")))
    return profiles.closed(inside.select(*profiles.keys, *_RUN), sort=["low"], main=["rows", "low", "high"])


def tails(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    min_excess_rows: int = 2,
    row_size: float | Decimal | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    session: Session | None = None,
    price: str = "price",
) -> IntoFrameT:
    """Tails: runs of rows at the highest or the lowest price that exactly one block touched.

    The market rejected these prices at once. A long enough tail is excess: the auction ended there.

    Parameters
    ----------
    levels, by, row_size, now, block_minutes, session, price
        As in `single_prints`.
    min_excess_rows : int, >= 1
        How many rows a tail needs to be excess. [row]

    Returns
    -------
    frame, one row per tail, sorted by (by, end), of the kind of ``levels``
        ``by``, and

        - ``end`` : str, ``"high"`` or ``"low"``. A session with a single block is a tail at both ends.
        - ``low``, ``high``, ``rows``, ``first_block``, ``last_block``, ``is_in_progress`` : as in `single_prints`.
        - ``is_excess`` : bool, whether it has at least ``min_excess_rows`` rows.
        - ``min_excess_rows`` : int64, the argument.

    Raises
    ------
    MissingColumnError, QueryError
        As in `single_prints`.

    See Also
    --------
    poor_extremes : One row per session, also for sessions without a tail.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> blocks = [[0], [0, 1], [1], [1, 2], [2], [2]]
    >>> levels = pl.DataFrame({"timestamp": start, "price": [10, 11, 12, 13, 14, 15], "block_ids": blocks})
    >>> tails(levels).select("end", "low", "high", "rows", "is_excess").rows()
    [('high', 14.0, 15.0, 2, True), ('low', 10.0, 10.0, 1, False)]
    """
    min_excess_rows = arguments.integer("min_excess_rows", min_excess_rows)
    profiles, rows = _opened_rows(
        levels,
        by,
        price,
        results=_TAIL,
        row_size=row_size,
        now=now,
        block_minutes=block_minutes,
        session=session,
    )
    single_runs = runs(rows, profiles.keys)
    runs_at_ends = [single_runs.filter(f"at_{end}").with_columns(end=nw.lit(end)) for end in ("high", "low")]
    result = nw.concat(runs_at_ends).with_columns(
        is_excess=nw.col("rows") >= min_excess_rows, min_excess_rows=nw.lit(min_excess_rows, nw.Int64)
    )
    return profiles.closed(
        result.select(*profiles.keys, *_TAIL), sort=["end"], main=["end", "low", "high", "is_excess"]
    )


def poor_extremes(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    min_excess_rows: int = 2,
    row_size: float | Decimal | None = None,
    now: TimeLike | None = None,
    block_minutes: float | None = None,
    session: Session | None = None,
    price: str = "price",
) -> IntoFrameT:
    """Poor highs and lows: extremes that two or more blocks touched, so that the market did not reject them.

    The tail of an extreme is the run of rows from it that exactly one block touched. A long enough tail is excess. An
    extreme without a tail is poor; one with a shorter tail is neither.

    Parameters
    ----------
    levels, by, row_size, now, block_minutes, session, price
        As in `single_prints`.
    min_excess_rows : int, >= 1
        How many rows a tail needs to be excess. [row]

    Returns
    -------
    frame, one row per ``by`` that a block touched, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``high``, ``low`` : float64, the highest and the lowest row. [price]
        - ``high_blocks``, ``low_blocks`` : float64, how many blocks touched that row. [TPO]
        - ``tail_high_rows``, ``tail_low_rows`` : float64, length of the tail. [row]
        - ``is_poor_high``, ``is_poor_low``, ``has_excess_high``, ``has_excess_low`` : bool.
        - ``is_high_in_progress``, ``is_low_in_progress`` : bool, whether the block in progress touched the extreme row,
          so that it may still change.
        - ``min_excess_rows`` : int64, the argument.

        All but the argument are null where a price of the session is null or not finite.

    Raises
    ------
    MissingColumnError, QueryError
        As in `single_prints`.

    Notes
    -----
    The service's ``poor_highs`` and ``poor_lows`` are lists of prices.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> levels = pl.DataFrame({"timestamp": start, "price": [10, 11, 12, 13], "block_ids": [[0], [0], [0, 1], [0, 1]]})
    >>> poor_extremes(levels).select("is_poor_high", "is_poor_low", "has_excess_low", "tail_low_rows").row(0)
    (True, False, True, 2.0)
    """
    columns = extreme_columns(arguments.integer("min_excess_rows", min_excess_rows))
    profiles, rows = _opened_rows(
        levels,
        by,
        price,
        results=columns,
        row_size=row_size,
        now=now,
        block_minutes=block_minutes,
        session=session,
    )
    main = ["high", "is_poor_high", "low", "is_poor_low"]
    return profiles.closed(extremes(rows, profiles.keys).select(*profiles.keys, **columns), main=main)


def extremes(rows: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return one row per session: its keys, and the price, blocks, tail and state of both ends of rows `with_ends`."""
    index, is_single = nw.col("index"), (nw.col("blocks") == 1).cast(nw.Float64)
    columns: dict[str, nw.Expr] = {}
    for end, distance in (("low", index - nw.col("lowest")), ("high", nw.col("highest") - index)):
        # A row belongs to the tail if exactly one block touched it, and the same holds for all rows between it and the
        # end.
        singles = is_single.cum_sum(reverse=end == "high").over(keys, order_by="place")
        at_end = nw.col("known") & nw.col(f"at_{end}")
        columns |= {
            f"end_{end}": nw.when(at_end).then(nw.col("row_price")),
            f"{end}_blocks": nw.when(at_end).then(nw.col("blocks")),
            f"{end}_in_progress": nw.when(at_end).then(nw.col("in_progress").cast(nw.Float64)),
            f"tail_{end}": nw.when("known").then(
                nw.when(singles == distance + 1).then(singles).otherwise(0.0)
            ),
        }
    return rows.with_columns(**columns).group_by(*keys).agg(nw.col(*columns).max())


def extreme_columns(min_excess_rows: int) -> dict[str, nw.Expr]:
    """Return the columns of `poor_extremes`, as expressions over the columns of `extremes`."""
    return {
        "high": nw.col("end_high"),
        "low": nw.col("end_low"),
        "high_blocks": nw.col("high_blocks"),
        "low_blocks": nw.col("low_blocks"),
        "tail_high_rows": nw.col("tail_high"),
        "tail_low_rows": nw.col("tail_low"),
        "is_poor_high": nw.col("high_blocks") >= 2,
        "is_poor_low": nw.col("low_blocks") >= 2,
        "has_excess_high": nw.col("tail_high") >= min_excess_rows,
        "has_excess_low": nw.col("tail_low") >= min_excess_rows,
        "is_high_in_progress": nw.col("high_in_progress") == 1,
        "is_low_in_progress": nw.col("low_in_progress") == 1,
        "min_excess_rows": nw.lit(min_excess_rows, nw.Int64),
    }


def _opened_rows(
    levels: IntoFrameT,
    by: str | Iterable[str] | None,
    price: str,
    *,
    results: Iterable[str],
    row_size: float | Decimal | None,
    now: TimeLike | None,
    block_minutes: float | None,
    session: Session | None,
) -> tuple[Profiles[IntoFrameT], nw.LazyFrame[Any]]:
    """Open the caller's sessions; return them and their rows `with_ends`."""
    checked_minutes(block_minutes)
    profiles = opened(
        levels,
        by,
        results=results,
        numbers={"price": price},
        row_size=row_size,
        times=[] if now is None else [SESSION],
        blocks=True,
    )
    ends = BlockEnds.at(now, profiles, block_minutes, session)
    rows = touched_rows(profiles, None if ends is None else ends.context)
    return profiles, with_ends(rows, profiles, now=now, ends=ends)


def with_ends(
    rows: nw.LazyFrame[Any], profiles: Profiles[Any], *, now: TimeLike | None, ends: BlockEnds | None
) -> nw.LazyFrame[Any]:
    """Add to `touched_rows` their price, whether they are ends of their session, and whether a block is in progress.

    With ``now`` the rows need the context of ``ends``.
    """
    index, is_in_progress = nw.col("index"), nw.lit(value=False)
    if now is not None and ends is not None:
        rows = ends.added(rows, "last", "last_end")
        is_in_progress = nw.col("last_end") > epoch_seconds(now, parameter="now") * SECOND
    return rows.with_columns(
        row_price=row_price(profiles.step),
        lowest=index.min().over(profiles.keys),
        highest=index.max().over(profiles.keys),
        in_progress=is_in_progress,
    ).with_columns(at_low=index == nw.col("lowest"), at_high=index == nw.col("highest"))


def runs(rows: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return the runs of rows `with_ends` that exactly one block touched, with the columns of `single_prints`."""
    single = rows.filter(nw.col("known"), nw.col("blocks") == 1)
    # Within a run the index of a row and its number among the single rows both rise by 1, so their difference is
    # constant.
    number = nw.col("index").cum_count().over(keys, order_by="place").cast(nw.Float64)
    return (
        single.with_columns(run=nw.col("index") - number)
        .group_by(*keys, "run")
        .agg(
            nw.col("row_price").min().alias("low"),
            nw.col("row_price").max().alias("high"),
            nw.len().cast(nw.Int64).alias("rows"),
            nw.col("first").min().cast(nw.Int64).alias("first_block"),
            nw.col("last").max().cast(nw.Int64).alias("last_block"),
            nw.col("in_progress").max().alias("is_in_progress"),
            nw.col("at_low", "at_high").max(),
        )
    )
