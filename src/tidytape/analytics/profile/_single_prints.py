"""Runs of rows that one block alone touched: single prints inside a session's range, tails at its ends."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._touched import opened_rows, runs
from tidytape.query.values import TimeLike

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
    price: str = "price",
) -> IntoFrameT:
    """Single prints: runs of neighbouring rows, strictly inside the session's range, that exactly one block touched.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels that say their blocks, as of `initial_balance`.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns there are, ``timestamp``
        and ``period_end``. Null is a value.
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
    tails : Such runs at the ends of the range.

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
    >>> single_prints(levels).select("low", "high", "rows").rows()
    [(12.0, 12.0, 1)]
    """
    profiles, rows = opened_rows(
        levels, by, price, results=_RUN, row_size=row_size, now=now, block_minutes=block_minutes
    )
    found = runs(rows, profiles.keys).filter(nw.col("at_low") == 0, nw.col("at_high") == 0)
    return profiles.closed(found.select(*profiles.keys, **_run_columns()), sort=["low"])


def tails(
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
    """Tails: runs of rows from the highest down or the lowest up that exactly one block touched.

    What trade refused at once. A tail of some length is excess: the auction ended there.

    Parameters
    ----------
    levels, by, row_size, now, block_minutes, price
        As of `single_prints`.
    min_excess_rows : int, >= 1
        From how many rows on a tail is excess. [row]

    Returns
    -------
    frame, one row per tail, sorted by (by, end), of the kind of ``levels``
        ``by``, and

        - ``end`` : str, ``"high"`` or ``"low"``. A session that one block made is a tail of both.
        - ``low``, ``high``, ``rows``, ``first_block``, ``last_block``, ``is_in_progress`` : as of `single_prints`.
        - ``is_excess`` : bool, whether it has ``min_excess_rows`` rows.
        - ``min_excess_rows`` : int64, the argument.

    Raises
    ------
    MissingColumnError, QueryError
        As `single_prints` does.

    See Also
    --------
    poor_extremes : One row per session, those without a tail too.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> blocks = [[0], [0, 1], [1], [1, 2], [2], [2]]
    >>> levels = pl.DataFrame({"timestamp": 0, "price": [10, 11, 12, 13, 14, 15], "block_ids": blocks})
    >>> tails(levels).select("end", "low", "high", "rows", "is_excess").rows()
    [('high', 14.0, 15.0, 2, True), ('low', 10.0, 10.0, 1, False)]
    """
    min_excess_rows = arguments.whole("min_excess_rows", min_excess_rows)
    profiles, rows = opened_rows(
        levels, by, price, results=_TAIL, row_size=row_size, now=now, block_minutes=block_minutes
    )
    found = runs(rows, profiles.keys)
    ends = [found.filter(nw.col(f"at_{end}") == 1).with_columns(end=nw.lit(end)) for end in ("high", "low")]
    excess = {
        "is_excess": nw.col("rows") >= min_excess_rows,
        "min_excess_rows": nw.lit(min_excess_rows, nw.Int64),
    }
    result = nw.concat(ends).select(*profiles.keys, "end", **_run_columns(), **excess)
    return profiles.closed(result, sort=["end"])


def _run_columns() -> dict[str, nw.Expr]:
    return {
        "low": nw.col("low"),
        "high": nw.col("high"),
        "rows": nw.col("rows").cast(nw.Int64),
        "first_block": nw.col("first").cast(nw.Int64),
        "last_block": nw.col("last").cast(nw.Int64),
        "is_in_progress": nw.col("in_progress") == 1,
    }
