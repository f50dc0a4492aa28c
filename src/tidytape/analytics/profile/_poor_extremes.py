"""Extremes that are poor for want of a tail."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._touched import opened_rows
from tidytape.query.values import TimeLike

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
    min_excess_rows = arguments.whole("min_excess_rows", min_excess_rows)
    profiles, rows = opened_rows(
        levels, by, price, results=EXTREME_RESULTS, row_size=row_size, now=now, block_minutes=block_minutes
    )
    found = extremes(rows, profiles.keys)
    return profiles.closed(found.select(*profiles.keys, **extreme_columns(min_excess_rows)))


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
        "is_poor_high": nw.col("high_blocks") >= 2,
        "is_poor_low": nw.col("low_blocks") >= 2,
        "has_excess_high": nw.col("tail_high") >= min_excess_rows,
        "has_excess_low": nw.col("tail_low") >= min_excess_rows,
        "is_high_in_progress": nw.col("high_in_progress") == 1,
        "is_low_in_progress": nw.col("low_in_progress") == 1,
        "min_excess_rows": nw.lit(min_excess_rows, nw.Int64),
    }
