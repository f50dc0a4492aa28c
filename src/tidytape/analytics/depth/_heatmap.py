"""Coarser heatmaps, and walls: large sizes that stay at a price."""

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
from tidytape.frames import _exact as exact
from tidytape.frames._grid import Grid
from tidytape.frames._joined import joined
from tidytape.frames._kinds import OF_BOOKS
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable
from tidytape.frames._times import bucket_start, length_of
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, require_blocks, require_one_unit
from tidytape.times import SECOND, AnyInterval, frame_interval

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
    r"""Heatmap with coarser price rows, coarser times, or both.

    Prices become rows of ``block_size``, and sizes in a row are added, so the sum of each time and side does not
    change. If a series has the times :math:`t_1 < \dots < t_n` in an interval, the size of a book is the ``last`` or
    the ``mean``,

    .. math:: s = s_{t_n}, \qquad s = \frac{1}{n} \sum_i s_{t_i},

    with 0 at times without size at the price. Liquidations are events, so their default is the ``sum``.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price) or (series, timestamp, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG with ``size``, or VENUEX_LIQUIDATION_AGG with ``liquidations``. [coin; USD if
        fetched in USD]
    block_size : Decimal, int, float or str, > 0, optional
        Height of a row, read as the decimal it prints as. It should be a whole multiple of the block size of the
        frame; otherwise each block counts in the row of its low edge. By default prices do not change. [quote per coin]
    interval : str, optional
        Name or alias of an interval, a whole multiple of the interval of the rows, because longer intervals cannot be
        split. By default times do not change.
    time : {"last", "mean", "sum"}, optional
        How the times of an interval are combined; by default ``last`` for a book, ``sum`` for liquidations.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per series, timestamp, side and price with rows, sorted by these, of the kind of ``frame``
        The columns of the series, with the new ``interval``; ``timestamp``, start of the interval; ``side`` of a book;
        ``price``, low edge of the row [quote per coin]; ``size`` or ``liquidations``, float64, null if an amount in it
        is unknown; ``block_size``, the new one or that of ``frame``, null if the block size of a row is unknown, and
        ``amount_unit``, each if ``frame`` has it; and ``time_rule``, how times were combined.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not one of those listed, or a column has values of another type. Or if in an eager frame the
        argument is not a whole multiple of ``block_size``, or a series has several amount units, or several values of
        ``block_size`` at one time; in a lazy frame the sizes or prices are null there.

    Notes
    -----
    Sums do not depend on the order of the rows, and are exact for amounts of up to eight places. A size that is null,
    not finite or below 0 is unknown. Rows whose price is null or not finite are kept under a null price; so are prices
    more than 2**53 rows from zero, where floats cannot tell one row from the next.

    The mean of a book counts a price as empty at times at which the book does not reach that far. So fetch more depth
    than you need.

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
    length = None if interval is None else frame_interval(interval)
    table = OpenTable.of(frame)
    value = "size" if "size" in table.names or "liquidations" not in table.names else "liquidations"
    sides = ["side"] if value == "size" else []
    table = OpenTable.of(table, ["timestamp", "price", value, *sides], kinds=OF_BOOKS)
    rule = ("last" if value == "size" else "sum") if time is None else time
    one_of("time", rule, ("last", "mean", "sum"))
    series_columns = table.series_columns(
        by, without=["timestamp", "start", "price", value, "time_rule", BLOCK_SIZE, *sides]
    )
    descriptors = [
        name for name in (AMOUNT_UNIT, BLOCK_SIZE) if name in table.names and name not in series_columns
    ]
    table = require_one_unit(table, AMOUNT_UNIT, series_columns, [value])
    if grid is not None:
        table = require_blocks(table, Fraction(grid.size), "price", parameter="block_size")
    # Rows of one height may be made of blocks of several heights, but at one time such blocks would overlap.
    table = require_one_unit(
        table, BLOCK_SIZE, series_columns if grid is None else [*series_columns, "timestamp"], ["price"]
    )

    price, size = nw.col("price"), nw.col(value)
    is_known = (size.is_finite() & (size >= 0)).fill_null(value=False)
    if length is not None and "interval" in table.names:
        is_known = is_known & _is_multiple(length)
    rows = table.rows.with_columns(
        price=nw.when(price.is_finite()).then(price),
        start=nw.col("timestamp") if length is None else bucket_start(nw.col("timestamp"), length),
        __count=nw.lit(1.0),
    ).with_columns(nw.when(is_known).then(size).alias(value))
    bucket = [*series_columns, "start"]
    if grid is not None and BLOCK_SIZE in descriptors:
        is_height_known = (~nw.col(BLOCK_SIZE).is_null()).all().over(bucket)
        rows = rows.with_columns(nw.when(is_height_known).then(nw.lit(float(grid.size))).alias(BLOCK_SIZE))
    if rule == "last":
        rows = rows.filter(nw.col("timestamp") == nw.col("timestamp").max().over(bucket))
    elif rule == "mean":
        rows = rows.with_columns(
            __order=nw.col("timestamp").rank("dense").over(bucket).cast(nw.Float64)
        ).with_columns(__count=nw.col("__order").max().over(bucket))
    if grid is not None:
        rows = rows.with_columns(price=grid.edge(price))
    keys = [*bucket, *sides, "price", *descriptors]
    interval_column = (
        {} if length is None or "interval" not in series_columns else {"interval": nw.lit(length.alias)}
    )
    result = (
        exact.in_parts(rows, value)
        .group_by(*keys)
        .agg(exact.summed(value), nw.col("__count").max())
        .with_columns(exact.total(value))
        .with_columns(
            (size / nw.col("__count")).alias(value),
            nw.col("start").alias("timestamp"),
            nw.lit(rule).alias("time_rule"),
            **interval_column,
        )
        .select(*series_columns, "timestamp", *sides, "price", value, *descriptors, "time_rule")
    )
    return table.with_text_columns(dict.fromkeys(interval_column)).closed(
        result, sort=[*series_columns, "timestamp", *sides, "price"], main=[*sides, "price", value]
    )


def _is_multiple(coarser: AnyInterval) -> nw.Expr:
    """Return whether an interval is a multiple of each row's interval; true for a row without a known interval."""
    length = length_of(nw.col("interval"))
    return (length == 0) | (coarser.seconds * SECOND % nw.when(length > 0).then(length) == 0)


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

    A wall is a run of successive snapshots, as long as possible, that all have at least ``threshold`` at one price and
    side. It has at least ``snapshots`` snapshots, and lasts at least ``duration`` from the first to the last.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side``, ``price`` [quote per coin] and ``size`` [coin; USD
        if fetched in USD].
    threshold : float, > 0
        Smallest size of a wall. [as ``size``]
    snapshots : int, >= 1
        Smallest number of snapshots.
    duration : str or timedelta, >= 0
        Shortest time from the first snapshot of a wall to its last, e.g. ``"10m"``.
    max_gap : str or timedelta, >= 0, optional
        A longer gap between two snapshots ends a wall, because it is unknown what happened in between. By default no
        gap ends a wall.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per wall, sorted by series, first time, side and price, of the kind of ``frame``
        The columns of the series, ``side``, ``price``, and

        - ``first_timestamp``, ``last_timestamp`` : time of its first and its last snapshot, of the type of
          ``timestamp``.
        - ``snapshots`` : int64, how many snapshots it has.
        - ``size_min``, ``size_mean``, ``size_max`` : float64, over its snapshots. [as ``size``]
        - ``is_standing`` : bool, whether its last snapshot is the last of the series, so that the wall may continue.
        - ``is_start_known`` : bool, whether the snapshot before its first one shows that the wall was not there yet. If
          false, the wall began no later than ``first_timestamp``, and may be older.
        - ``is_end_known`` : bool, whether the snapshot after its last one shows that the wall was gone. If false, the
          wall ended no earlier than ``last_timestamp``, and may still be there.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, a column has values of another type, or an eager frame has several
        ``amount_unit`` or ``block_size`` in one series; in a lazy frame such a series has no walls.

    Notes
    -----
    Sizes of one price, side and time are added. A size that is null or not finite may be small, so a wall ends there.
    How long a wall lasted is known at its last snapshot, not at its first.

    A snapshot of a book shows each side up to its outermost price: bids :math:`p \ge \min_i b_i`, asks :math:`p \le
    \max_i a_i`. Sizes beyond it are unknown. So when the price moves, a wall may come into the snapshot or leave it. So
    the snapshot before (after) a wall tells that the wall was not there only if it is within ``max_gap``, shows the
    wall's price, and has no unknown size there. If it does not tell, or there is none, ``is_start_known``
    (``is_end_known``) is false, and ``snapshots`` and the time from first to last are lower bounds.

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
    shortest = nanoseconds("duration", duration)
    largest_gap = None if max_gap is None else nanoseconds("max_gap", max_gap)
    table = OpenTable.of(frame, ["timestamp", "side", "price", "size"], kinds=OF_BOOKS)
    series_columns = table.series_columns(by, without=[*_TAKEN, *_RESULTS])
    for column in (AMOUNT_UNIT, BLOCK_SIZE):
        table = require_one_unit(table, column, series_columns, ["size"])
    level_key = [*series_columns, "side", "price"]
    time, number, size = nw.col("timestamp"), nw.col("__number"), nw.col("size")
    rows = _numbered(table.rows.filter(~time.is_null()), series_columns, largest_gap)
    # A null size is unknown, and so is a sum that contains it.
    is_known = size.is_finite() & (size >= 0)
    sizes = rows.with_columns(
        size=nw.when(is_known).then(size), __newest=within(number.max(), series_columns)
    )
    levels = (
        exact.in_parts(sizes, "size")
        .group_by(*level_key, "timestamp", "__number", "__newest")
        .agg(exact.summed("size"))
        .with_columns(exact.total("size"))
    )
    large = levels.filter(size >= threshold * (1 - _NOISE))
    # Within a run both numbers grow by one from snapshot to snapshot, so their difference identifies the run.
    large_count = size.cum_count().over(*level_key, order_by="__number").cast(nw.Int64)
    wall_runs = (
        large.with_columns(__run=number - large_count, is_standing=number == nw.col("__newest"))
        .group_by(*level_key, "__run")
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
    result = wall_runs.filter(nw.col("snapshots") >= snapshots, lasted >= shortest).with_columns(
        size_mean=exact.total("size") / nw.col("snapshots")
    )
    result = _with_absence(result, levels, series_columns, at="__before", name="is_start_known")
    result = _with_absence(result, levels, series_columns, at="__after", name="is_end_known")
    return table.closed(
        result.select(*level_key, *_RESULTS),
        sort=[*series_columns, "first_timestamp", "side", "price"],
        times={"first_timestamp": "timestamp", "last_timestamp": "timestamp"},
        main=["price", "first_timestamp", "last_timestamp", "size_mean"],
    )


def _numbered(
    rows: nw.LazyFrame[Any], series_columns: list[str], largest_gap: int | None
) -> nw.LazyFrame[Any]:
    """Add the ``__number`` of each row's snapshot in its series; a number is skipped at each gap that is too long."""
    time, gaps = nw.col("timestamp"), nw.col("__gaps")
    rows = rows.with_columns(__number=within(time.rank("dense"), series_columns).cast(nw.Int64))
    if largest_gap is None:
        return rows
    is_far = time - time.shift(1).over(*series_columns, order_by="timestamp") > largest_gap
    return (
        rows.with_columns(__gaps=is_far.fill_null(value=False).cast(nw.Int64))
        .with_columns(gaps.cum_sum().over(*series_columns, order_by="timestamp"))
        # The rows of one snapshot have no order, so some of them may miss the gap before the snapshot.
        .with_columns(__number=nw.col("__number") + gaps.max().over(*series_columns, "timestamp"))
    )


def _with_absence(
    walls: nw.LazyFrame[Any], levels: nw.LazyFrame[Any], series_columns: list[str], *, at: str, name: str
) -> nw.LazyFrame[Any]:
    """Add column ``name``: whether the snapshot with the number in column ``at`` shows that the wall is absent."""
    price, number = nw.col("price"), nw.col("__number").alias(at)
    book = (
        levels.filter(price.is_finite())
        .group_by(*series_columns, "side", "__number")
        .agg(__lowest=price.min(), __highest=price.max())
        .select(*series_columns, "side", number, "__lowest", "__highest")
    )
    unknown = levels.filter(nw.col("size").is_null()).select(
        *series_columns, "side", "price", number, __unknown=nw.lit(1)
    )
    walls = joined(walls, book, on=[*series_columns, "side", at])
    walls = joined(walls, unknown, on=[*series_columns, "side", "price", at])
    is_shown = (
        nw.when(IS_BID).then(price >= nw.col("__lowest")).when(IS_ASK).then(price <= nw.col("__highest"))
    )
    is_absent = is_shown.fill_null(value=False) & nw.col("__unknown").is_null()
    return walls.with_columns(is_absent.alias(name)).drop("__lowest", "__highest", "__unknown")
