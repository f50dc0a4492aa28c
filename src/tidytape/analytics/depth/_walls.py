"""Levels of a book that stay."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import nanoseconds, positive, whole
from tidytape.frames.ordered import with_neighbour
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, of_one

_NOISE = 1e-12
_TAKEN = ("timestamp", "side", "price", "size")


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
    """Walls: prices at which a large size rests in one snapshot after the other.

    A wall is a longest run of successive snapshots of a series that each have at least ``threshold`` at one price and
    side. It stands in at least ``snapshots`` of them, and from the first to the last at least ``duration``.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side``, ``price`` [quote per coin] and ``size`` [coin; USD
        if so asked].
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
        The columns that tell series apart; those of the identity that there are, unless said.

    Returns
    -------
    frame, one row per wall, sorted by series, first time, side and price, of the kind of ``frame``
        The columns of the series, ``side``, ``price``, and

        - ``first_timestamp``, ``last_timestamp`` : of its first and its last snapshot, as ``timestamp`` says times.
        - ``snapshots`` : int64, how many.
        - ``size_min``, ``size_mean``, ``size_max`` : float64, over its snapshots. [as ``size``]
        - ``is_standing`` : bool, whether its last snapshot is the series' last: it may yet go on.

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

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, 0, minute, tzinfo=UTC) for minute in (0, 1, 2, 3, 4)],
    ...     "side": "BID", "price": 99.0, "size": [50.0, 60.0, 1.0, 70.0, 80.0],
    ... })
    >>> walls(book, threshold=50, snapshots=2).select("snapshots", "size_min", "is_standing").rows()
    [(2, 50.0, False), (2, 70.0, True)]
    """
    threshold = positive("threshold", threshold)
    snapshots = whole("snapshots", snapshots)
    least = nanoseconds("duration", duration)
    furthest = None if max_gap is None else nanoseconds("max_gap", max_gap)
    table = Table.opened(frame, ["side"], times=["timestamp"], numbers=["price", "size"])
    results = (
        "first_timestamp",
        "last_timestamp",
        "snapshots",
        "size_min",
        "size_mean",
        "size_max",
        "is_standing",
    )
    series = table.series(by, without=[*_TAKEN, *results])

    for column in (AMOUNT_UNIT, BLOCK_SIZE):
        table = of_one(table, column, series, ["size"])
    time, number, size = nw.col("__at"), nw.col("__number"), nw.col("size")
    one = [*series, "__all"]  # a window needs a column, and a frame may hold one series that nothing names
    rows = table.rows.filter(~nw.col("timestamp").is_null()).select(
        *series,
        "side",
        "price",
        "size",
        __at=nw.col("timestamp"),
        __order=nw.col("timestamp"),
        __all=nw.lit(1),
    )
    rows = rows.with_columns(__number=time.rank("dense").over(one).cast(nw.Int64))
    if furthest is not None:
        # A number is left out where the time before is too long ago.
        rows = with_neighbour(rows, "__at", name="__before", over=one, order=["__order"])
        rows = rows.with_columns(__gap=(time - nw.col("__before") > furthest).cast(nw.Int64))
        rows = rows.with_columns(__gaps=nw.col("__gap").cum_sum().over(one, order_by="__order"))
        rows = rows.with_columns(__number=number + nw.col("__gaps").max().over([*one, "__number"]))
    rows = rows.with_columns(__newest=number.max().over(one))

    level = [*series, "side", "price"]
    is_known = (size.is_finite() & (size >= 0)).fill_null(value=False)
    large = (
        rows.with_columns(__known=is_known, size=nw.when(is_known).then(size).otherwise(0.0))
        .group_by(*level, "__at", "__number", "__newest")
        .agg(size.sum(), nw.col("__known").all())
        .filter(nw.col("__known") & (size >= threshold * (1 - _NOISE)))
        .with_columns(__place=size.cum_count().over(level, order_by="__number"))
        # Both grow by one from snapshot to snapshot, so their difference names a run.
        .with_columns(
            __run=number - nw.col("__place").cast(nw.Int64), is_standing=number == nw.col("__newest")
        )
    )
    result = (
        large.group_by(*level, "__run")
        .agg(
            first_timestamp=time.min(),
            last_timestamp=time.max(),
            snapshots=nw.len(),
            size_min=size.min(),
            size_mean=size.mean(),
            size_max=size.max(),
            is_standing=nw.col("is_standing").any(),
        )
        .filter(
            (nw.col("snapshots") >= snapshots)
            & (nw.col("last_timestamp") - nw.col("first_timestamp") >= least)
        )
        .with_columns(nw.col("snapshots").cast(nw.Int64))
        .select(*level, *results)
    )
    return table.closed(
        result,
        sort=[*series, "first_timestamp", "side", "price"],
        times={"first_timestamp": "timestamp", "last_timestamp": "timestamp"},
    )
