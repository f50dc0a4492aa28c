"""Initial balance and day type of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._levels import (
    NOISE,
    block_length,
    counted_rows,
    merged,
    row_price,
    touched_rows,
)
from tidytape.analytics.profile._opening import SESSION, opened
from tidytape.analytics.profile._shape import features, is_double, shares

_MULTIPLES: Final = {"x1_5": 1.5, "x2": 2.0, "x3": 3.0}
_EDGES: Final = {"edge": 0.0, "opposite": 1.0}


def initial_balance(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    minutes: float = 60,
    block_minutes: float | None = None,
    extension_from: Literal["edge", "opposite"] = "edge",
    row_size: float | Decimal | None = None,
    price: str = "price",
) -> IntoFrameT:
    r"""Initial balance: the range of the blocks that start within the first minutes of a session, and its extensions.

    Let :math:`m` be the length of a block, :math:`M` the ``minutes``, and :math:`H, L` the highest and lowest row that
    the blocks :math:`b` with :math:`b m < M` touched. The extensions by :math:`k = 1.5, 2, 3` are

    .. math:: H + k (H - L), \qquad L - k (H - L)

    measured from the near edge; or :math:`L + k (H - L)` and :math:`H - k (H - L)`, measured from the opposite edge.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels with their time blocks: from `tidytape.Client.tpo` (``block_ids``), from `tidytape.aggregate.tpo`
        (``tpo_count``, ``first_touch_block``, ``last_touch_block``), or touches from `tidytape.aggregate.tpo_touches`
        (``block_id``). Blocks count from 0 at the session's start.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns of the frame, ``timestamp`` and
        ``period_end``. Null counts as a value.
    minutes : float, > 0
        Length of the initial balance, from the session's start. [min]
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``; touches do not have it. [min]
    extension_from : {"edge", "opposite"}
        Where extensions are measured from.
    row_size : float or Decimal, > 0, optional
        Height of the price rows that levels are put into first. By default each price is a row. [price]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per ``by`` that a block touched, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``initial_balance_high``, ``initial_balance_low``, ``initial_balance_range`` : float64, in low edges of rows;
          null if no block of the initial balance touched a row. The service's ``ibr_high`` and ``ibr_low`` are prices
          of trades, which may lie up to a row's height above the low edge. [price]
        - ``extension_up_x1_5``, ``extension_up_x2``, ``extension_up_x3``, ``extension_down_x1_5``,
          ``extension_down_x2``, ``extension_down_x3`` : float64. [price]
        - ``is_extended_up``, ``is_extended_down`` : bool, range extension: whether a later block touched a row beyond
          the initial balance; null without an initial balance.
        - ``initial_balance_minutes`` [min], ``extension_from`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` does not have time blocks or their length, or an argument is not one of those listed.

    Notes
    -----
    If a price of a session is null or not finite, all results of the session except the arguments are null. The initial
    balance grows until its minutes are over.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> levels = pl.DataFrame({"timestamp": start, "price": [10, 11, 12, 13], "block_ids": [[0], [0, 1], [1, 2], [2]]})
    >>> found = initial_balance(levels, block_minutes=30)
    >>> found.select("initial_balance_low", "initial_balance_high", "extension_up_x2", "extension_down_x2").row(0)
    (10.0, 12.0, 16.0, 6.0)
    >>> found.select("is_extended_up", "is_extended_down").row(0)
    (True, False)
    """
    minutes = arguments.positive("minutes", minutes)
    columns = balance_columns(minutes=minutes, extension_from=extension_from)
    profiles = opened(levels, by, results=columns, numbers={"price": price}, row_size=row_size, blocks=True)
    rows = touched_rows(profiles, {"block_length": block_length(profiles, block_minutes)})
    ranges = balances(rows, profiles.keys, profiles.step, minutes=minutes)
    main = ["is_extended_down", "is_extended_up", "initial_balance_low", "initial_balance_high"]
    return profiles.closed(ranges.select(*profiles.keys, **columns), main=main)


def balances(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, minutes: float
) -> nw.LazyFrame[Any]:
    """Return one row per session: keys, and high and low of all blocks, of the initial balance and of the last block.

    ``rows`` are those of `touched_rows`, with the ``block_length`` of their session.
    """
    length, known_price = nw.col("block_length"), nw.when("known").then(row_price(step))
    rows = rows.with_columns(
        touched=known_price,
        last_block=nw.col("last").max().over(keys),
        # If the length of a block is unknown, the balance is unknown.
        has_length=~length.is_null().max().over(keys),
    )
    touched_price, is_early = nw.col("touched"), nw.col("first") * length < minutes
    rows = rows.with_columns(
        balance=nw.when(is_early, nw.col("has_length")).then(touched_price),
        last=nw.when(nw.col("last") == nw.col("last_block")).then(touched_price),
    )
    parts = ("touched", "balance", "last")
    return rows.group_by(*keys).agg(
        *(nw.col(part).max().alias(f"{part}_high") for part in parts),
        *(nw.col(part).min().alias(f"{part}_low") for part in parts),
    )


def balance_columns(*, minutes: float, extension_from: str) -> dict[str, nw.Expr]:
    """Return the result columns of `initial_balance`, as expressions over the columns of `balances`."""
    one_of("extension_from", extension_from, _EDGES)
    high, low = nw.col("balance_high"), nw.col("balance_low")
    width = high - low
    lengths = {name: (multiple - _EDGES[extension_from]) * width for name, multiple in _MULTIPLES.items()}
    return {
        "initial_balance_high": high,
        "initial_balance_low": low,
        "initial_balance_range": width,
        **{f"extension_up_{name}": high + length for name, length in lengths.items()},
        **{f"extension_down_{name}": low - length for name, length in lengths.items()},
        "is_extended_up": nw.col("touched_high") > high,
        "is_extended_down": nw.col("touched_low") < low,
        "initial_balance_minutes": nw.lit(minutes),
        "extension_from": nw.lit(extension_from),
    }


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
    r"""Day type of each session, with the features that decide it. A heuristic.

    A session has the first type whose condition holds:

    - ``non_trend``: its range is at most ``max_quiet`` of the mean range of the ``lookback`` sessions before.
    - ``normal``: the initial balance is at least ``min_normal`` of the range.
    - ``neutral``: there was range extension on both sides.
    - ``double_distribution``: its TPO counts have two distributions, as `shape` finds them.
    - ``trend``: the initial balance is at most ``max_trend`` of the range, and the last block lies within ``extreme``
      of the range from the end to which it was extended.
    - ``normal_variation``: anything else.

    Parameters
    ----------
    levels : frame, n rows, one per (by, timestamp, price), or per (by, timestamp, block, price), any order
        TPO levels with their time blocks, as in `initial_balance`, of sessions that start at ``timestamp``.
    by : str or iterable of str, optional
        The columns that tell one series of sessions from another; by default the identity columns of the frame. Null
        counts as a value. Without any column, all sessions belong to one series.
    minutes : float, > 0
        Length of the initial balance. [min]
    lookback : int, >= 1
        How many sessions before give the usual range. [session]
    max_quiet, min_normal, max_trend, extreme, max_valley, min_second : float, above 0 and at most 1
        Thresholds of the conditions; the last two as in `shape`. [1]
    row_size : float or Decimal, > 0, optional
        Height of the price rows, as in `shape`. [price]
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``; touches do not have it. [min]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per (by, timestamp) that a block touched, sorted by these, of the kind of ``levels``
        ``by``, ``timestamp``, ``period_end`` where the levels have it, and

        - ``day_type`` : str, null without an initial balance.
        - ``balance_share``, ``extension_up_share``, ``extension_down_share`` : float64, the shares of the range within,
          above and below the initial balance; together 1. [1]
        - ``close_position`` : float64, the position of the middle of the last block's range, from 0 at the lowest row
          to 1 at the highest. [1]
        - ``range_ratio`` : float64, the range divided by the mean range of the ``lookback`` sessions before; null if
          there are fewer. [1]
        - ``tpo_valley_depth``, ``tpo_second_share`` : float64, ``valley_depth`` and ``second_share`` of `shape`. [1]
        - ``initial_balance_minutes``, ``lookback``, and the thresholds : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` does not have time blocks or their length, or an argument is not one of those listed.

    Notes
    -----
    No result depends on a later session. A session in progress gets the type that it would have if it ended now.

    References
    ----------
    .. [1] Dalton, J. F., Jones, E. T. and Dalton, R. B., "Mind over Markets", 1990, chapter 2, where the types are
       drawn; the thresholds are ours.

    Examples
    --------
    >>> import polars as pl
    >>> blocks = [[0], [0, 1], [1], [1, 2], [2], [3], [3, 4], [4]]
    >>> levels = pl.DataFrame({"price": range(8), "block_ids": blocks}).with_columns(timestamp=pl.lit(0, pl.Int64))
    >>> day_type(levels, block_minutes=30, min_second=0.5).select("day_type", "balance_share", "close_position").row(0)
    ('trend', 0.42857142857142855, 0.9285714285714286)
    """
    minutes = arguments.positive("minutes", minutes)
    lookback = arguments.integer("lookback", lookback)
    thresholds = shares(
        max_quiet=max_quiet,
        min_normal=min_normal,
        max_trend=max_trend,
        extreme=extreme,
        max_valley=max_valley,
        min_second=min_second,
    )
    sessions = opened(
        levels,
        by,
        results=(SESSION, "day_type", *DAY_FEATURES, "initial_balance_minutes", "lookback", *thresholds),
        numbers={"price": price},
        row_size=row_size,
        of="series",
        blocks=True,
    )
    keys, step = sessions.keys, sessions.step
    rows = touched_rows(sessions, {"block_length": block_length(sessions, block_minutes)})
    parts = [
        balances(rows, keys, step, minutes=minutes),
        block_features(rows, keys, step, min_second=thresholds["min_second"]),
    ]
    result = with_day_features(merged(parts, keys), sessions.series_columns, lookback).select(
        *keys,
        day_type=day_label(thresholds),
        **{name: nw.col(name) for name in DAY_FEATURES},
        initial_balance_minutes=nw.lit(minutes),
        lookback=nw.lit(lookback, nw.Int64),
        **{name: nw.lit(value) for name, value in thresholds.items()},
    )
    return sessions.closed(result, main=["balance_share", "close_position", "range_ratio", "day_type"])


def block_features(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, min_second: float
) -> nw.LazyFrame[Any]:
    """Return one row per session: its keys, and `features` of the TPO counts of its `touched_rows`."""
    counts = rows.select(*keys, price=nw.when("known").then(row_price(step)), count="blocks")
    return features(counted_rows(counts, keys, step), keys, min_second=min_second).select(
        *keys, tpo_valley_depth=nw.col("valley_depth"), tpo_second_share=nw.col("second_share")
    )


def with_day_features(
    sessions: nw.LazyFrame[Any], series_columns: list[str], lookback: int
) -> nw.LazyFrame[Any]:
    """Add the `DAY_FEATURES` that follow from `balances`, for sessions that begin at ``start``."""
    high, low = nw.col("touched_high"), nw.col("touched_low")
    width, is_wide = high - low, high > low
    balance = nw.col("balance_high") - nw.col("balance_low")
    last_middle = (nw.col("last_high") + nw.col("last_low")) / 2

    def over(value: nw.Expr) -> nw.Expr:
        return value.over(*series_columns, order_by="start")

    sessions = sessions.with_columns(
        range=width,
        balance_share=nw.when(is_wide).then(balance / width).otherwise(balance + 1.0),
        extension_up_share=nw.when(is_wide).then((high - nw.col("balance_high")) / width).otherwise(balance),
        extension_down_share=nw.when(is_wide).then((nw.col("balance_low") - low) / width).otherwise(balance),
        close_position=nw.when(is_wide).then((last_middle - low) / width),
        one=nw.lit(1.0),
    )
    # The mean over the sessions before skips unknown ranges.
    sessions = sessions.with_columns(
        number=over(nw.col("one").cum_sum()), before=over(nw.col("range").shift(1))
    )
    mean = over(nw.col("before").rolling_mean(lookback, min_samples=1))
    has_usual_range = (nw.col("number") > lookback) & (mean > 0)
    return sessions.with_columns(range_ratio=nw.when(has_usual_range).then(nw.col("range") / mean))


def day_label(thresholds: Mapping[str, float]) -> nw.Expr:
    """Return the day type that follows from `DAY_FEATURES`."""
    share, close = nw.col("balance_share"), nw.col("close_position")
    up, down = nw.col("extension_up_share") > 0, nw.col("extension_down_share") > 0
    closes_at_extreme = (up & (close >= 1 - thresholds["extreme"] - NOISE)) | (
        down & (close <= thresholds["extreme"] + NOISE)
    )
    return (
        nw.when(share.is_null())
        .then(nw.lit(None, nw.String))
        .when((nw.col("range_ratio") <= thresholds["max_quiet"] + NOISE).fill_null(value=False))
        .then(nw.lit("non_trend"))
        .when(share >= thresholds["min_normal"] - NOISE)
        .then(nw.lit("normal"))
        .when(up & down)
        .then(nw.lit("neutral"))
        .when(is_double(thresholds, "tpo_valley_depth"))
        .then(nw.lit("double_distribution"))
        .when((share <= thresholds["max_trend"] + NOISE) & closes_at_extreme)
        .then(nw.lit("trend"))
        .otherwise(nw.lit("normal_variation"))
    )
