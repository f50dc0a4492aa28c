"""Heatmaps made coarser, and levels of a book that stay."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import integer, nanoseconds, one_of, positive
from tidytape.analytics.depth._book import IS_ASK, IS_BID
from tidytape.catalogue import Interval
from tidytape.frames import _exact as exact
from tidytape.frames._grid import Grid
from tidytape.frames._joined import joined
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable
from tidytape.frames._times import bucket_start
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, of_one, on_blocks
from tidytape.times import INTERVALS, interval_of

_NOISE = 1e-12
_TAKEN = ("timestamp", "side", "price", "size")
_RESULTS = (
    "first_timestamp",
    "last_timestamp",
    "snapshots",
    "size_min",
    "size_mean",
    "size_max",
    "is_standing",
    "is_start_known",
    "is_end_known",
)


def regrid(
    frame: IntoFrameT,
    /,
    *,
    block_size: Decimal | float | str | None = None,
    interval: str | None = None,
    time: Literal["last", "mean", "sum"] | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Heatmap of coarser rows of price, coarser times, or both.

    Prices are rows of ``block_size``, and sizes are added: the sum of a time and side stays what it was. Of the times
    :math:`t_1 < \dots < t_n` that a series has in an interval, a book is ``last`` or ``mean``,

    .. math:: s = s_{t_n}, \qquad s = \frac{1}{n} \sum_i s_{t_i},

    with 0 at a time that sent nothing at the price; liquidations, which happen and do not rest, are the ``sum``.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price) or (series, timestamp, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG, whose ``size`` it adds, or VENUEX_LIQUIDATION_AGG, whose ``liquidations``.
        [coin; USD if fetched in USD]
    block_size : Decimal, int, float or str, > 0, optional
        Height of a row, the decimal it is written as; a whole multiple of that of the frame, or blocks are put whole
        where their low edge is. Prices stay as they are without it. [quote per coin]
    interval : str, optional
        Name or alias of an interval, a whole multiple of that of the rows: what a longer one sums up is not known of a
        shorter. Times stay as they are without it.
    time : {"last", "mean", "sum"}, optional
        What becomes of the times of an interval; for a book ``last``, for liquidations ``sum``, unless said.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per series, timestamp, side and price that there is, sorted by these, of the kind of ``frame``
        The columns of the series, with ``interval`` as asked; ``timestamp``, start of the interval; ``side`` of a book;
        ``price``, low edge of the row [quote per coin]; ``size`` or ``liquidations``, float64, null where one that went
        into it is not known; ``block_size``, as asked or as in ``frame``, null where that of a block is not known, and
        ``amount_unit``, each where ``frame`` has it; and ``time_rule``, what became of times.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not one of those listed, or a column does not hold what it should. Or if an eager frame has a
        ``block_size`` of which the argument is no whole multiple, or several ``amount_unit`` or, of one time, several
        ``block_size`` in one series; of a lazy frame the sizes or prices are null there.

    Notes
    -----
    Sums do not depend on the order of the rows, and are exact for amounts of up to eight places. A size that is null,
    not finite or below 0 is not known. Rows whose price is null or not finite stay apart, under a price of null; so do
    prices beyond 2**53 rows from zero, where floats do not tell one row from the next.

    The mean of a book counts a price as empty at times that did not reach so far out. Where that happens, ask for more
    depth than you look at.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, 0, minute, tzinfo=UTC) for minute in (0, 0, 1)],
    ...     "side": "BID", "price": [99.0, 99.5, 99.5], "size": [3.0, 1.0, 4.0],
    ... })
    >>> regrid(book, block_size=1)["size"].to_list()
    [4.0, 4.0]
    >>> regrid(book, block_size=1, interval="5m", time="mean").select("price", "size", "time_rule").rows()
    [(99.0, 4.0, 'mean')]
    """
    grid = None if block_size is None else Grid.of(block_size)
    length = None if interval is None else interval_of(interval)
    table = OpenTable.of(frame)
    value = "size" if "size" in table.names or "liquidations" not in table.names else "liquidations"
    sides = ["side"] if value == "size" else []
    table = OpenTable.of(table, sides, times=["timestamp"], numbers=["price", value])
    rule = ("last" if value == "size" else "sum") if time is None else time
    one_of("time", rule, ("last", "mean", "sum"))
    series = table.series(by, without=["timestamp", "start", "price", value, "time_rule", BLOCK_SIZE, *sides])
    described = [name for name in (AMOUNT_UNIT, BLOCK_SIZE) if name in table.names and name not in series]
    table = of_one(table, AMOUNT_UNIT, series, [value])
    if grid is not None:
        table = on_blocks(table, Fraction(grid.size), "price", parameter="block_size")
    # Blocks of several heights can make up rows of one height, but at one time they would count twice.
    table = of_one(table, BLOCK_SIZE, series if grid is None else [*series, "timestamp"], ["price"])

    price, size = nw.col("price"), nw.col(value)
    is_known = (size.is_finite() & (size >= 0)).fill_null(value=False)
    if length is not None and "interval" in table.names:
        is_known = is_known & _fits(length)
    rows = table.rows.with_columns(
        price=nw.when(price.is_finite()).then(price),
        start=nw.col("timestamp") if length is None else bucket_start(nw.col("timestamp"), length),
        __count=nw.lit(1.0),
    ).with_columns(nw.when(is_known).then(size).alias(value))
    bucket = [*series, "start"]
    if grid is not None and BLOCK_SIZE in described:
        is_sized = (~nw.col(BLOCK_SIZE).is_null()).all().over(bucket)
        rows = rows.with_columns(nw.when(is_sized).then(nw.lit(float(grid.size))).alias(BLOCK_SIZE))
    if rule == "last":
        rows = rows.filter(nw.col("timestamp") == nw.col("timestamp").max().over(bucket))
    elif rule == "mean":
        rows = rows.with_columns(
            __order=nw.col("timestamp").rank("dense").over(bucket).cast(nw.Float64)
        ).with_columns(__count=nw.col("__order").max().over(bucket))
    if grid is not None:
        rows = rows.with_columns(price=grid.edge(price))
    keys = [*bucket, *sides, "price", *described]
    labels = {} if length is None or "interval" not in series else {"interval": nw.lit(length.alias)}
    result = (
        exact.in_parts(rows, value)
        .group_by(*keys)
        .agg(exact.summed(value), nw.col("__count").max())
        .with_columns(exact.total(value))
        .with_columns(
            (size / nw.col("__count")).alias(value),
            nw.col("start").alias("timestamp"),
            nw.lit(rule).alias("time_rule"),
            **labels,
        )
        .select(*series, "timestamp", *sides, "price", value, *described, "time_rule")
    )
    return table.with_words(dict.fromkeys(labels)).closed(
        result, sort=[*series, "timestamp", *sides, "price"]
    )


def _fits(coarser: Interval) -> nw.Expr:
    """Return whether an interval is a multiple of each row's interval; also true for a row without one."""
    return ~nw.col("interval").cast(nw.String).is_in(
        [name for name, finer in INTERVALS.items() if coarser.seconds % finer.seconds]
    ).fill_null(value=False)


def walls(
    frame: IntoFrameT,
    /,
    *,
    threshold: float,
    snapshots: int = 3,
    duration: str | timedelta = timedelta(0),
    max_gap: str | timedelta | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Walls: prices at which a large size rests in consecutive snapshots.

    A wall is a longest run of successive snapshots of a series that each have at least ``threshold`` at one price and
    side. It stands in at least ``snapshots`` of them, and from the first to the last at least ``duration``.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side``, ``price`` [quote per coin] and ``size`` [coin; USD
        if fetched in USD].
    threshold : float, > 0
        Least size. [as ``size``]
    snapshots : int, >= 1
        Least number of snapshots.
    duration : str or timedelta, >= 0
        Least time from the first of them to the last, e.g. ``"10m"``.
    max_gap : str or timedelta, >= 0, optional
        Snapshots further apart do not follow each other: what happened in between is not known, and a wall ends. By
        default each snapshot follows the one before, however long ago that was.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per wall, sorted by series, first time, side and price, of the kind of ``frame``
        The columns of the series, ``side``, ``price``, and

        - ``first_timestamp``, ``last_timestamp`` : of its first and its last snapshot, as ``timestamp`` says times.
        - ``snapshots`` : int64, how many.
        - ``size_min``, ``size_mean``, ``size_max`` : float64, over its snapshots. [as ``size``]
        - ``is_standing`` : bool, whether its last snapshot is the series' last: it may yet go on.
        - ``is_start_known`` : bool, whether the snapshot before its first one shows that the wall was not there yet. If
          false, the wall began no later than ``first_timestamp``, and may be older.
        - ``is_end_known`` : bool, whether the snapshot after its last one shows that the wall was gone. If false, the
          wall ended no earlier than ``last_timestamp``, and may still be there.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, a column does not hold what it should, or an eager frame has several
        ``amount_unit`` or ``block_size`` in one series; of a lazy frame such a series has no walls.

    Notes
    -----
    Sizes of one price, side and time are added. A size that is null or not finite is not known to be large, so a wall
    ends there. That a wall lasted is known at its last snapshot, not at its first.

    A snapshot of a book shows each side up to its outermost price: bids :math:`p \ge \min_i b_i`, asks
    :math:`p \le \max_i a_i`. What rests beyond is not known, and when the price moves, a wall comes into sight or goes
    out of sight. So the snapshot before (after) a wall tells that the wall was not there only if it is within
    ``max_gap``, shows the wall's price, and has no unknown size there. If it does not tell, or there is none,
    ``is_start_known`` (``is_end_known``) is false, and ``snapshots`` and the time from first to last are lower bounds.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, 0, minute, tzinfo=UTC) for minute in (0, 1, 2, 3, 4)],
    ...     "side": "BID", "price": 99.0, "size": [50.0, 60.0, 1.0, 70.0, 80.0],
    ... })
    >>> found = walls(book, threshold=50, snapshots=2)
    >>> found.select("snapshots", "size_min", "is_standing", "is_start_known", "is_end_known").rows()
    [(2, 50.0, False, False, True), (2, 70.0, True, True, False)]
    """
    threshold = positive("threshold", threshold)
    snapshots = integer("snapshots", snapshots)
    least = nanoseconds("duration", duration)
    furthest = None if max_gap is None else nanoseconds("max_gap", max_gap)
    table = OpenTable.of(frame, ["side"], times=["timestamp"], numbers=["price", "size"])
    series = table.series(by, without=[*_TAKEN, *_RESULTS])
    for column in (AMOUNT_UNIT, BLOCK_SIZE):
        table = of_one(table, column, series, ["size"])
    level = [*series, "side", "price"]
    time, number, size = nw.col("timestamp"), nw.col("__number"), nw.col("size")
    rows = _numbered(table.rows.filter(~time.is_null()), series, furthest)
    # A size that is null is unknown, and so is a sum with it.
    is_known = size.is_finite() & (size >= 0)
    sizes = rows.with_columns(size=nw.when(is_known).then(size), __newest=within(number.max(), series))
    levels = (
        exact.in_parts(sizes, "size")
        .group_by(*level, "timestamp", "__number", "__newest")
        .agg(exact.summed("size"))
        .with_columns(exact.total("size"))
    )
    large = levels.filter(size >= threshold * (1 - _NOISE))
    # Both grow by one from snapshot to snapshot, so their difference names a run.
    place = size.cum_count().over(*level, order_by="__number").cast(nw.Int64)
    wall_runs = (
        large.with_columns(__run=number - place, is_standing=number == nw.col("__newest"))
        .group_by(*level, "__run")
        .agg(
            exact.summed("size"),
            first_timestamp=time.min(),
            last_timestamp=time.max(),
            snapshots=nw.len().cast(nw.Int64),
            size_min=size.min(),
            size_max=size.max(),
            is_standing=nw.col("is_standing").any(),
            __before=number.min() - 1,
            __after=number.max() + 1,
        )
    )
    lasted = nw.col("last_timestamp") - nw.col("first_timestamp")
    result = wall_runs.filter(nw.col("snapshots") >= snapshots, lasted >= least).with_columns(
        size_mean=exact.total("size") / nw.col("snapshots")
    )
    result = _with_absence(result, levels, series, at="__before", name="is_start_known")
    result = _with_absence(result, levels, series, at="__after", name="is_end_known")
    return table.closed(
        result.select(*level, *_RESULTS),
        sort=[*series, "first_timestamp", "side", "price"],
        times={"first_timestamp": "timestamp", "last_timestamp": "timestamp"},
    )


def _numbered(rows: nw.LazyFrame[Any], series: list[str], furthest: int | None) -> nw.LazyFrame[Any]:
    """Add the ``__number`` of each row's snapshot in its series; it skips one where snapshots are too far apart."""
    time, gaps = nw.col("timestamp"), nw.col("__gaps")
    rows = rows.with_columns(__number=within(time.rank("dense"), series).cast(nw.Int64))
    if furthest is None:
        return rows
    is_far = time - time.shift(1).over(*series, order_by="timestamp") > furthest
    return (
        rows.with_columns(__gaps=is_far.fill_null(value=False).cast(nw.Int64))
        .with_columns(gaps.cum_sum().over(*series, order_by="timestamp"))
        # The rows of one snapshot have no order, so some of them may lack the gap before it.
        .with_columns(__number=nw.col("__number") + gaps.max().over(*series, "timestamp"))
    )


def _with_absence(
    walls: nw.LazyFrame[Any], levels: nw.LazyFrame[Any], series: list[str], *, at: str, name: str
) -> nw.LazyFrame[Any]:
    """Add column ``name``: whether the snapshot whose number is in column ``at`` shows that the wall is not there."""
    price, number = nw.col("price"), nw.col("__number").alias(at)
    book = (
        levels.filter(price.is_finite())
        .group_by(*series, "side", "__number")
        .agg(__lowest=price.min(), __highest=price.max())
        .select(*series, "side", number, "__lowest", "__highest")
    )
    unknown = levels.filter(nw.col("size").is_null()).select(
        *series, "side", "price", number, __unknown=nw.lit(1)
    )
    walls = joined(walls, book, on=[*series, "side", at])
    walls = joined(walls, unknown, on=[*series, "side", "price", at])
    is_shown = (
        nw.when(IS_BID).then(price >= nw.col("__lowest")).when(IS_ASK).then(price <= nw.col("__highest"))
    )
    is_absent = is_shown.fill_null(value=False) & nw.col("__unknown").is_null()
    return walls.with_columns(is_absent.alias(name)).drop("__lowest", "__highest", "__unknown")
