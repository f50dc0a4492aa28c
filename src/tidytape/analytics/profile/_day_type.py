"""What kind of day it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._blocks import block_length, touched_rows
from tidytape.analytics.profile._grid import DIGITS, row_price, step_of
from tidytape.analytics.profile._growth import counted_rows
from tidytape.analytics.profile._initial_balance import balances
from tidytape.analytics.profile._merged import merged
from tidytape.analytics.profile._opening import SESSION, opened
from tidytape.analytics.profile._shape import features, is_double

DAY_FEATURES: Final = (
    "balance_share",
    "extension_up_share",
    "extension_down_share",
    "close_position",
    "range_ratio",
    "tpo_valley_depth",
    "tpo_second_share",
)
DAY_THRESHOLDS: Final = {"max_quiet": 0.5, "min_normal": 0.85, "max_trend": 0.5, "extreme": 0.25}


def day_type(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    minutes: float = 60,
    lookback: int = 10,
    max_quiet: float = 0.5,
    min_normal: float = 0.85,
    max_trend: float = 0.5,
    extreme: float = 0.25,
    max_valley: float = 0.5,
    min_second: float = 0.25,
    row_size: float | Decimal | None = None,
    block_minutes: float | None = None,
    price: str = "price",
) -> IntoFrameT:
    r"""Day type of each session, with the features that say so. A heuristic.

    The first that holds:

    - ``non_trend``: its range is at most ``max_quiet`` of the mean of the ``lookback`` sessions before.
    - ``normal``: the initial balance is at least ``min_normal`` of the range.
    - ``neutral``: there was range extension on both sides.
    - ``double_distribution``: its TPO counts have two distributions, as `shape` finds them.
    - ``trend``: the initial balance is at most ``max_trend`` of the range, and the last block lies within ``extreme``
      of the range from the end to which it was extended.
    - ``normal_variation``: anything else.

    Parameters
    ----------
    levels : frame, n rows, one per (by, timestamp, price), or per (by, timestamp, block, price), any order
        TPO levels that say their blocks, as of `initial_balance`, of sessions that start at ``timestamp``.
    by : str or iterable of str, optional
        The columns that tell one series of sessions from another; by default the identity columns there are. Null is a
        value. Without any, all sessions are of one series.
    minutes : float, > 0
        Length of the initial balance. [min]
    lookback : int, >= 1
        How many sessions before make what is usual. [session]
    max_quiet, min_normal, max_trend, extreme, max_valley, min_second : float, above 0 and at most 1
        Thresholds; the last two as of `shape`. [1]
    row_size : float or Decimal, > 0, optional
        The step of the prices, for `shape`. [price]
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``, which touches lack. [min]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per (by, timestamp) that a block touched, sorted so, of the kind of ``levels``
        ``by``, ``timestamp``, ``period_end`` where the levels have it, and

        - ``day_type`` : str, null without an initial balance.
        - ``balance_share``, ``extension_up_share``, ``extension_down_share`` : float64, how much of the range is the
          initial balance, and how much lies above and below it; together 1. [1]
        - ``close_position`` : float64, where the middle of the last block's rows lies, from 0 at the lowest row to 1 at
          the highest. [1]
        - ``range_ratio`` : float64, the range over the mean range of the ``lookback`` sessions before; null while
          there are fewer. [1]
        - ``tpo_valley_depth``, ``tpo_second_share`` : float64, ``valley_depth`` and ``second_share`` of `shape`. [1]
        - ``initial_balance_minutes``, ``lookback``, and the thresholds : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` says nothing of blocks or of their length, or an argument is not one of those listed.

    Notes
    -----
    Nothing of a later session is in it. A session under way is what it would be if it ended now.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, chapter 2, where the types are drawn;
       the thresholds are ours.

    Examples
    --------
    >>> import polars as pl
    >>> blocks = [[0], [0, 1], [1], [1, 2], [2], [3], [3, 4], [4]]
    >>> levels = pl.DataFrame({"price": range(8), "block_ids": blocks}).with_columns(timestamp=pl.lit(0, pl.Int64))
    >>> day_type(levels, block_minutes=30, min_second=0.5).select("day_type", "balance_share", "close_position").row(0)
    ('trend', 0.42857142857142855, 0.9285714285714286)
    """
    minutes = arguments.positive("minutes", minutes)
    lookback = arguments.whole("lookback", lookback)
    given = {
        "max_quiet": max_quiet,
        "min_normal": min_normal,
        "max_trend": max_trend,
        "extreme": extreme,
        "max_valley": max_valley,
        "min_second": min_second,
    }
    thresholds = {name: arguments.share(name, value) for name, value in given.items()}
    step = step_of(row_size)
    results = ("day_type", *DAY_FEATURES, "initial_balance_minutes", "lookback", *thresholds)
    profiles = opened(
        levels,
        by,
        results=(SESSION, *results),
        numbers={"price": price},
        times=[SESSION],
        session=False,
        anonymous=True,
        blocks=True,
        step=step,
    )
    sessions = profiles.of_sessions()
    rows = touched_rows(sessions, price, step, block_length(sessions, block_minutes))
    found = merged(
        [
            balances(rows, sessions.keys, step, minutes=minutes),
            block_features(rows, sessions.keys, step, min_second=thresholds["min_second"]),
        ],
        sessions.keys,
    ).rename({sessions.start: "start"})
    found = day_features(found, profiles.keys, lookback).rename({"start": sessions.start})
    values = {name: nw.lit(value) for name, value in thresholds.items()}
    result = found.with_columns(
        day_type=day_label(thresholds),
        initial_balance_minutes=nw.lit(minutes),
        lookback=nw.lit(lookback, nw.Int64),
        **values,
    )
    return sessions.closed(result.select(*sessions.keys, *results))


def block_features(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, min_second: float
) -> nw.LazyFrame[Any]:
    """Return one row per session of `touched_rows`: its keys, and the valley of its TPO counts."""
    counts = rows.select(*keys, price=nw.when("known").then(row_price(step)), count="blocks")
    found = features(counted_rows(counts, keys, tie="center", step=step), keys, min_second=min_second)
    return found.select(
        *keys, tpo_valley_depth=nw.col("valley_depth"), tpo_second_share=nw.col("second_share")
    )


def day_features(sessions: nw.LazyFrame[Any], keys: list[str], lookback: int) -> nw.LazyFrame[Any]:
    """Add what is left of `DAY_FEATURES` to `balances` of sessions that start at ``start``."""
    high, low = nw.col("touched_high"), nw.col("touched_low")
    width, is_wide = high - low, high > low
    balance = nw.col("balance_high") - nw.col("balance_low")
    last = (nw.col("last_high") + nw.col("last_low")) / 2
    sessions = sessions.with_columns(
        range=width,
        balance_share=nw.when(is_wide).then(balance / width).otherwise(balance + 1.0),
        extension_up_share=nw.when(is_wide).then((high - nw.col("balance_high")) / width).otherwise(balance),
        extension_down_share=nw.when(is_wide).then((nw.col("balance_low") - low) / width).otherwise(balance),
        close_position=nw.when(is_wide).then((last - low) / width),
    )
    return _with_range_ratio(sessions, keys, lookback)


def _with_range_ratio(sessions: nw.LazyFrame[Any], keys: list[str], lookback: int) -> nw.LazyFrame[Any]:
    """Add ``range_ratio`` to sessions that start at ``start``: of those before, and of those that have a range."""
    sessions = sessions.with_columns(at=nw.col("start"), one=nw.lit(1.0))

    def over(value: nw.Expr) -> nw.Expr:
        return value.over(keys, order_by="at") if keys else value.over(order_by="at")

    sessions = sessions.with_columns(
        number=over(nw.col("one").cum_sum()), before=over(nw.col("range").shift(1))
    )
    sessions = sessions.with_columns(mean=over(nw.col("before").rolling_mean(lookback, min_samples=1)))
    told = (nw.col("number") > lookback) & (nw.col("mean") > 0)
    return sessions.with_columns(range_ratio=nw.when(told).then(nw.col("range") / nw.col("mean")))


def day_label(thresholds: Mapping[str, float]) -> nw.Expr:
    """Return the type that `DAY_FEATURES` say."""
    noise = 10.0**-DIGITS
    share, close = nw.col("balance_share"), nw.col("close_position")
    up, down = nw.col("extension_up_share") > 0, nw.col("extension_down_share") > 0
    to_extreme = (up & (close >= 1 - thresholds["extreme"] - noise)) | (
        down & (close <= thresholds["extreme"] + noise)
    )
    return (
        nw.when(share.is_null())
        .then(nw.lit(None, nw.String))
        .when((nw.col("range_ratio") <= thresholds["max_quiet"] + noise).fill_null(value=False))
        .then(nw.lit("non_trend"))
        .when(share >= thresholds["min_normal"] - noise)
        .then(nw.lit("normal"))
        .when(up & down)
        .then(nw.lit("neutral"))
        .when(is_double(thresholds, "tpo_valley_depth"))
        .then(nw.lit("double_distribution"))
        .when((share <= thresholds["max_trend"] + noise) & to_extreme)
        .then(nw.lit("trend"))
        .otherwise(nw.lit("normal_variation"))
    )
